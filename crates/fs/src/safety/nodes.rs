//! Finds other device nodes of the same storage: a second loop device of the same file, a second path to the same disk, a
//! device with the same UUID.
//!
//! Writing through one node destroys a filesystem that is mounted through another, and the kernel's exclusive open does not
//! prevent that.

use super::checks::{DeviceUse, DeviceUses};
use crate::{Error, error::refused, written_log::Signature};
use fsarena_core::setting_text::setting;
use fsarena_sys::device::{self, BlockDevice};
use fsarena_sys::{argv::Argv, kernel::SysRoot, loopdev::BackingFile};
use std::path::Path;

/// A part of the storage of a device: a range of sectors of a disk, or a whole file.
#[derive(Debug, Clone, PartialEq, Eq)]
struct StoragePart {
    storage: Storage,
    /// The first sector.
    start: u64,
    /// The sector after the last.
    end: u64,
}

/// The identity of a disk or file.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Storage {
    /// A file: the device number of its filesystem (`major:minor`), and its inode number.
    File((String, u64)),
    /// A disk, by its device number.
    Node(String),
    /// A disk, by the identity that its hardware reports, which all nodes of the disk share. Cheap bridges report the same
    /// identity for different disks, so the size must match too.
    Hardware { attribute: &'static str, id: String, sectors: u64 },
}

/// Attributes with the identity of a disk, the most specific first. All namespaces of an NVMe controller have the same serial
/// number, but each has its own `wwid`.
const IDENTITY_ATTRIBUTES: [&str; 4] = ["wwid", "device/wwid", "serial", "device/serial"];

/// Returns an error if the storage of a device is in use through another node. `loops` are the files of all loop devices, and
/// the device has the `signatures`.
pub(super) fn check_other_nodes(
    kernel: &SysRoot,
    device: &BlockDevice,
    shown_path: &Path,
    loops: &[BackingFile],
    signatures: &[Signature],
) -> Result<(), Error> {
    let uses = DeviceUses::read(kernel)?;
    let mut own_names = vec![];
    let own_parts = storage_parts(kernel, device, loops, &mut own_names).map_err(|why| {
        refused(shown_path, why, format!("fsarena cannot tell who else uses it; use `{}`", setting("on", "loop:DIR")))
    })?;
    let use_of_file = |part: &StoragePart| match &part.storage {
        Storage::File(id) => uses.find_use_of_file(id),
        _ => None,
    };
    if let Some(file_use) = own_parts.iter().find_map(use_of_file) {
        return Err(refused(shown_path, format!("its backing file {}", file_use.how), file_use.fix));
    }
    let mut others = device::all_block_devices(kernel)?;
    others.retain(|other| !own_names.contains(&other.name));
    let shared_nodes: Vec<_> =
        others.iter().filter_map(|other| find_shared_storage(kernel, &own_parts, other, loops)).collect();
    let visible_use = shared_nodes.iter().find_map(|other| Some((other, uses.find_use(other.node, &own_names)?)));
    let mut within = shared_nodes.iter().filter(|other| other.is_within);
    let hidden_use = || within.find_map(|other| Some((other, find_claim(other.node)?)));
    if let Some((other, device_use)) = visible_use.or_else(hidden_use) {
        let why = format!("{} has {} and {}", other.node.path.display(), other.shared_storage, device_use.how);
        return Err(refused(shown_path, why, device_use.fix));
    }
    check_uuids(&uses, device, shown_path, signatures, &others, &own_names)
}

/// A node of the same storage as the device under check.
struct SharedNode<'a> {
    node: &'a BlockDevice,
    /// The storage that both share: `the same backing file`.
    shared_storage: &'static str,
    /// Whether all of the node is on the storage of the device under check. If not, a claim of the node may concern another
    /// partition.
    is_within: bool,
}

/// Returns the node with the storage that it shares with the device under check; None if it shares none. `own_parts` is the
/// storage of that device.
fn find_shared_storage<'a>(
    kernel: &SysRoot,
    own_parts: &[StoragePart],
    node: &'a BlockDevice,
    loops: &[BackingFile],
) -> Option<SharedNode<'a>> {
    // An unreadable attribute of another device is not a reason to refuse this one.
    let parts = storage_parts(kernel, node, loops, &mut vec![]).unwrap_or_default();
    for own_part in own_parts {
        for part in &parts {
            if let Some(shared_storage) = own_part.shared_storage(part) {
                return Some(SharedNode { node, shared_storage, is_within: part.is_within(own_part) });
            }
        }
    }
    None
}

/// A use of another node that an exclusive open detects, because it is not visible in this mount namespace.
fn find_claim(other: &BlockDevice) -> Option<DeviceUse> {
    match device::is_claimed(&other.path) {
        Ok(false) => None,
        Ok(true) => {
            let how = "the kernel says that it is in use".into();
            Some(DeviceUse { how, fix: "Look who uses it: `lsblk`, `fuser -v`" })
        }
        Err(error) => {
            let how = format!("fsarena cannot tell whether it is in use: {error}");
            Some(DeviceUse { how, fix: "Look at it with `lsblk`" })
        }
    }
}

/// Returns an error if a device in use has the same UUID: a mount by UUID may use either device.
fn check_uuids(
    uses: &DeviceUses,
    device: &BlockDevice,
    shown_path: &Path,
    signatures: &[Signature],
    others: &[BlockDevice],
    own_names: &[String],
) -> Result<(), Error> {
    let mut own_uuids =
        read_uuids(device).map_err(|why| refused(shown_path, why, "Look at it with `blkid --probe`"))?;
    own_uuids.extend(signatures.iter().filter_map(|signature| signature.uuid.clone()));
    own_uuids.retain(|uuid| !is_all_zeros(uuid));
    if own_uuids.is_empty() {
        return Ok(());
    }
    for other in others {
        let Some(device_use) = uses.find_use(other, own_names) else { continue };
        let other_uuids = read_uuids(other).unwrap_or_default();
        if let Some(uuid) = own_uuids.iter().find(|uuid| other_uuids.contains(uuid)) {
            let why = format!("{} has the same UUID ({uuid}) and {}", other.path.display(), device_use.how);
            let fix = format!("{}; if this is a copy to give up, clear it yourself: `wipefs --all`", device_use.fix);
            return Err(refused(shown_path, why, fix));
        }
    }
    Ok(())
}

/// Whether an identifier consists of zeros, which disks without an identifier report.
fn is_all_zeros(id: &str) -> bool {
    id.chars().all(|c| matches!(c, '0' | '-'))
}

/// The UUIDs of the content of a device and of its partition entry, from blkid(8).
fn read_uuids(device: &BlockDevice) -> Result<Vec<String>, String> {
    let argv = Argv::new("blkid").args(["-p", "-o", "export"]).arg(&device.path).env("LC_ALL", "C");
    let finished = argv.run().map_err(|error| error.to_string())?;
    match finished.status.code() {
        Some(0) => Ok(parse_uuids(&finished.stdout)),
        // blkid(8): 2 means nothing found; 8 means several signatures, which wipefs lists one by one.
        Some(2 | 8) => Ok(vec![]),
        _ => Err(format!("blkid cannot read it ({})", finished.stderr.trim())),
    }
}

/// Parses the UUIDs in the output of `blkid -o export`.
fn parse_uuids(text: &str) -> Vec<String> {
    let names = ["UUID", "UUID_SUB", "PART_ENTRY_UUID"];
    let fields = text.lines().filter_map(|line| line.split_once('='));
    fields.filter(|(name, _)| names.contains(name)).map(|(_, value)| value.to_string()).collect()
}

impl StoragePart {
    /// The storage that two parts share, as text; None if they do not overlap.
    fn shared_storage(&self, other: &StoragePart) -> Option<&'static str> {
        let overlaps = self.storage == other.storage && self.start < other.end && other.start < self.end;
        overlaps.then_some(match self.storage {
            Storage::File(_) => "the same backing file",
            Storage::Node(_) => "the same backing device",
            Storage::Hardware { .. } => "the same hardware identity",
        })
    }

    /// Whether this part is completely inside another one on the same storage.
    fn is_within(&self, other: &StoragePart) -> bool {
        other.start <= self.start && self.end <= other.end
    }
}

/// The storage of a device: its disk, the file of a loop device, and the devices below a multipath or encrypted device. Adds
/// the names of the device and of the devices below it to `own_names`. The error says what fsarena cannot read.
fn storage_parts(
    kernel: &SysRoot,
    device: &BlockDevice,
    loops: &[BackingFile],
    own_names: &mut Vec<String>,
) -> Result<Vec<StoragePart>, String> {
    own_names.push(device.name.clone());
    let (start, sectors) =
        device.start_and_sectors().ok_or_else(|| format!("the kernel does not say how large {} is", device.name))?;
    let parent = device.parent_disk();
    let disk = parent.as_ref().unwrap_or(device);
    let range = |storage| StoragePart { storage, start, end: start + sectors };
    let mut parts = vec![range(Storage::Node(disk.numbers()))];
    let identity =
        |attribute: &&'static str| Some((*attribute, disk.attribute(attribute).filter(|id| !is_all_zeros(id))?));
    if let Some((attribute, id)) = IDENTITY_ATTRIBUTES.iter().find_map(identity) {
        let (_, sectors) = disk.start_and_sectors().unwrap_or_default();
        parts.push(range(Storage::Hardware { attribute, id, sectors }));
    }
    // The backing file of a loop device can be the node of a partition.
    if let Some(path) = disk.attribute("loop/backing_file") {
        match BlockDevice::open(kernel, Path::new(&path)) {
            Ok(backing) => parts.extend(storage_parts(kernel, &backing, loops, own_names)?),
            Err(_) => {
                let file = loops.iter().find(|file| file.device == disk.name);
                let file = file.ok_or_else(|| format!("the kernel does not show which file {} is", disk.name))?;
                parts.push(StoragePart { storage: Storage::File(file.identity.clone()), start: 0, end: u64::MAX });
            }
        }
    }
    // LVM volumes of a group are on the same devices without sharing a sector. Multipath and encrypted devices span the whole
    // devices below them.
    let mapper_uuid = device.attribute("dm/uuid").unwrap_or_default();
    if mapper_uuid.starts_with("mpath-") || mapper_uuid.starts_with("CRYPT-") {
        for slave in device.slaves().map_err(|error| error.to_string())? {
            parts.extend(storage_parts(kernel, &slave, loops, own_names)?);
        }
    }
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsarena_sys::testkit::FakeRoot;

    /// A fake machine, without devices at first.
    struct FakeMachine {
        root: FakeRoot,
    }

    impl FakeMachine {
        fn new(mountinfo: &str) -> FakeMachine {
            let swaps = ("proc/swaps", "Filename Type Size Used Priority\n");
            FakeMachine { root: FakeRoot::with(&[("proc/self/mountinfo", mountinfo), swaps]) }
        }

        /// Adds a disk of 2048 sectors, or a partition (`sdz/sdz1`), with these attributes.
        fn with_device(self, path: &str, numbers: &str, attributes: &[(&str, &str)]) -> FakeMachine {
            let dir = format!("sys/devices/{path}");
            self.root.write_file(&format!("{dir}/dev"), numbers);
            self.root.write_file(&format!("{dir}/size"), "2048\n");
            for (name, text) in attributes {
                self.root.write_file(&format!("{dir}/{name}"), text);
            }
            self.root.make_dir("sys/block");
            self.root.make_link(&format!("sys/dev/block/{numbers}"), format!("../../devices/{path}"));
            self
        }

        /// Builds the device `upper` on the device `lower`.
        fn built_on(self, upper: &str, lower: &str) -> FakeMachine {
            for (device, list, other) in [(upper, "slaves", lower), (lower, "holders", upper)] {
                let target = self.root.path().join("sys/devices").join(other);
                self.root.make_link(&format!("sys/devices/{device}/{list}/{other}"), target);
            }
            self
        }

        /// The error of the guard for the device with these numbers; `free` without an error.
        fn check(&self, numbers: (u32, u32), loops: &[(&str, u64)]) -> String {
            let kernel = SysRoot::at(self.root.path());
            let device = BlockDevice::from_numbers(&kernel, numbers.0, numbers.1, "/dev/null".into()).unwrap();
            let file = |(name, inode): &(&str, u64)| BackingFile {
                device: name.to_string(),
                identity: ("254:0".into(), *inode),
            };
            let loops: Vec<_> = loops.iter().map(file).collect();
            match check_other_nodes(&kernel, &device, Path::new("/dev/disk/by-id/z"), &loops, &[]) {
                Ok(()) => "free".into(),
                Err(error) => error.to_string(),
            }
        }
    }

    fn mounted(numbers: &str) -> String {
        format!("36 35 {numbers} / /home rw - ext4 /dev/root rw\n")
    }

    const BACKING: (&str, &str) = ("loop/backing_file", "/no/such/disk.img\n");

    #[test]
    fn a_second_loop_device_of_the_same_file_is_found() {
        let machine = FakeMachine::new(&mounted("70:1")).with_device("loop70", "70:0", &[BACKING]).with_device(
            "loop71",
            "70:1",
            &[BACKING],
        );
        let error = machine.check((70, 0), &[("loop70", 5), ("loop71", 5)]);
        assert!(error.contains("/dev/loop71 has the same backing file and is mounted at \"/home\""), "{error}");
        // Another file with the same path.
        assert_eq!(machine.check((70, 0), &[("loop70", 5), ("loop71", 6)]), "free");
        // The file of the device itself must be known; the file of another loop device need not be.
        let error = machine.check((70, 0), &[("loop71", 5)]);
        assert!(error.contains("the kernel does not show which file loop70 is"), "{error}");
        assert_eq!(machine.check((70, 0), &[("loop70", 5)]), "free");
    }

    #[test]
    fn a_second_path_to_the_same_disk_is_found() {
        let wwid = ("device/wwid", "naa.5000c500a1b2c3d4\n");
        let two_disks = |mounts: &str, second: (&str, &str)| {
            FakeMachine::new(mounts).with_device("sdy", "65:0", &[wwid]).with_device("sdz", "65:16", &[second])
        };
        let error = two_disks(&mounted("65:16"), wwid).check((65, 0), &[]);
        assert!(error.contains("/dev/sdz has the same hardware identity and is mounted"), "{error}");
        let other_wwid = ("device/wwid", "naa.5000c500ffffffff\n");
        assert_eq!(two_disks(&mounted("65:16"), other_wwid).check((65, 0), &[]), "free");
        // Held by a multipath device that does not include this path.
        let with_multipath =
            two_disks("", wwid).with_device("dm-9", "253:9", &[("dm/uuid", "mpath-1\n")]).built_on("dm-9", "sdz");
        assert!(
            with_multipath.check((65, 0), &[]).contains("/dev/sdz has the same hardware identity and is part of dm-9")
        );
        // The multipath device itself is free: its paths are used only by it.
        assert!(!with_multipath.check((253, 9), &[]).contains("is part of"));
        assert!(!with_multipath.check((253, 9), &[]).contains("sdz"));
    }

    #[test]
    fn a_serial_number_identifies_a_disk_whose_wwid_is_all_zeros() {
        let same = [("wwid", "0000000000000000\n"), ("serial", "S3Z9NB0K\n")];
        let machine =
            FakeMachine::new(&mounted("65:16")).with_device("sdy", "65:0", &same).with_device("sdz", "65:16", &same);
        assert!(machine.check((65, 0), &[]).contains("/dev/sdz has the same hardware identity and is mounted"));
    }

    #[test]
    fn a_path_of_another_size_is_another_disk() {
        let wwid = ("wwid", "t10.Bridge DISK00\n");
        let machine = FakeMachine::new(&mounted("65:16")).with_device("sdy", "65:0", &[wwid]).with_device(
            "sdz",
            "65:16",
            &[wwid, ("size", "4096\n")],
        );
        assert_eq!(machine.check((65, 0), &[]), "free");
    }

    #[test]
    fn partitions_conflict_where_they_overlap() {
        let wwid = ("wwid", "eui.0025385b71b0c8f5\n");
        let partition_from = |start| [("partition", "1\n"), ("start", start)];
        let machine = FakeMachine::new(&mounted("65:17"))
            .with_device("sdy", "65:0", &[wwid, ("size", "99999\n")])
            .with_device("sdy/sdy1", "65:1", &partition_from("2048\n"))
            .with_device("sdy/sdy2", "65:2", &partition_from("4096\n"))
            .with_device("sdz", "65:16", &[wwid, ("size", "99999\n")])
            .with_device("sdz/sdz1", "65:17", &partition_from("2048\n"));
        assert!(machine.check((65, 1), &[]).contains("/dev/sdz1 has the same hardware identity and is mounted"));
        assert_eq!(machine.check((65, 2), &[]), "free");
    }

    #[test]
    fn lvm_volumes_of_a_group_are_independent() {
        let volume = |name| [("dm/uuid", name)];
        let machine = FakeMachine::new(&mounted("253:8"))
            .with_device("sdz", "65:16", &[])
            .with_device("dm-8", "253:8", &volume("LVM-a\n"))
            .with_device("dm-9", "253:9", &volume("LVM-b\n"))
            .built_on("dm-8", "sdz")
            .built_on("dm-9", "sdz");
        assert_eq!(machine.check((253, 9), &[]), "free");
    }

    #[test]
    fn a_hidden_device_is_ignored() {
        let wwid = ("wwid", "eui.0025385b71b0c8f5\n");
        let machine = FakeMachine::new(&mounted("259:1")).with_device("nvme0n1", "259:0", &[wwid]).with_device(
            "nvme0c0n1",
            "259:1",
            &[wwid, ("hidden", "1\n")],
        );
        assert_eq!(machine.check((259, 0), &[]), "free");
    }

    #[test]
    fn the_uuids_of_blkid_are_parsed() {
        let text =
            "DEVNAME=/dev/sda1\nUUID=6bc0\nTYPE=btrfs\nUUID_SUB=11\nPART_ENTRY_UUID=22-01\nPART_ENTRY_NAME=a=b\n";
        assert_eq!(parse_uuids(text), ["6bc0", "11", "22-01"]);
        assert!(is_all_zeros("00000000-0000") && is_all_zeros("") && !is_all_zeros("00000000-01"));
    }
}
