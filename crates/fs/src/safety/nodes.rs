//! Finds other device nodes of the same storage: a second loop device of the same file, a second path to the same disk, a device
//! with the same UUID.
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
    from: u64,
    to: u64,
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
/// `signatures` those of the device.
pub(super) fn check_other_nodes(
    kernel: &SysRoot,
    device: &BlockDevice,
    shown_path: &Path,
    loops: &[BackingFile],
    signatures: &[Signature],
) -> Result<(), Error> {
    let uses = DeviceUses::read(kernel)?;
    let mut below = vec![];
    let own_parts = storage_parts(kernel, device, loops, &mut below).map_err(|why| {
        refused(shown_path, why, format!("fsarena cannot tell who else uses it; use `{}`", setting("on", "loop:DIR")))
    })?;
    let use_of_file = |part: &StoragePart| match &part.storage {
        Storage::File(id) => uses.find_use_of_file(id),
        _ => None,
    };
    if let Some(used) = own_parts.iter().find_map(use_of_file) {
        return Err(refused(shown_path, format!("its backing file {}", used.how), used.fix));
    }
    let mut others = device::all_block_devices(kernel)?;
    others.retain(|other| !below.contains(&other.name));
    let shared: Vec<_> =
        others.iter().filter_map(|other| find_shared_storage(kernel, &own_parts, other, loops)).collect();
    let visible_use = shared.iter().find_map(|other| Some((other, uses.find_use(other.node, &below)?)));
    let hidden_use =
        || shared.iter().filter(|other| other.is_within).find_map(|other| Some((other, find_claim(other.node)?)));
    if let Some((other, used)) = visible_use.or_else(hidden_use) {
        let why = format!("{} has {} and {}", other.node.path.display(), other.shared_storage, used.how);
        return Err(refused(shown_path, why, used.fix));
    }
    check_uuids(&uses, device, shown_path, signatures, &others, &below)
}

/// A node of the same storage as the device under check.
struct SharedNode<'a> {
    node: &'a BlockDevice,
    /// The storage that both share: `the same backing file`.
    shared_storage: &'static str,
    /// Whether the whole node is on that storage. If not, a claim of the node may concern another partition.
    is_within: bool,
}

/// Whether a node is on the same storage as the device under check; None if it is not.
fn find_shared_storage<'a>(
    kernel: &SysRoot,
    own: &[StoragePart],
    node: &'a BlockDevice,
    loops: &[BackingFile],
) -> Option<SharedNode<'a>> {
    // An unreadable attribute of another device is not a reason to refuse this one.
    let theirs = storage_parts(kernel, node, loops, &mut vec![]).unwrap_or_default();
    let mut pairs = own.iter().flat_map(|own| theirs.iter().map(move |their| (own, their)));
    let (own, their, shared_storage) = pairs.find_map(|(own, their)| Some((own, their, own.shares(their)?)))?;
    Some(SharedNode { node, shared_storage, is_within: their.is_within(own) })
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
    below: &[String],
) -> Result<(), Error> {
    let mut own_uuids =
        read_uuids(device).map_err(|why| refused(shown_path, why, "Look at it with `blkid --probe`"))?;
    own_uuids.extend(signatures.iter().filter_map(|signature| signature.uuid.clone()));
    own_uuids.retain(|uuid| !is_void(uuid));
    if own_uuids.is_empty() {
        return Ok(());
    }
    for other in others {
        let Some(used) = uses.find_use(other, below) else { continue };
        let theirs = read_uuids(other).unwrap_or_default();
        if let Some(uuid) = own_uuids.iter().find(|uuid| theirs.contains(uuid)) {
            let why = format!("{} has the same UUID ({uuid}) and {}", other.path.display(), used.how);
            let fix = format!("{}; if this is a copy to give up, clear it yourself: `wipefs --all`", used.fix);
            return Err(refused(shown_path, why, fix));
        }
    }
    Ok(())
}

/// Whether an identifier consists of zeros, as disks without one report.
fn is_void(uuid: &str) -> bool {
    uuid.chars().all(|c| matches!(c, '0' | '-'))
}

/// The UUIDs of the content of a device and of its partition entry, from blkid(8).
fn read_uuids(device: &BlockDevice) -> Result<Vec<String>, String> {
    let argv = Argv::new("blkid").args(["-p", "-o", "export"]).arg(&device.path).env("LC_ALL", "C");
    let ended = argv.run().map_err(|error| error.to_string())?;
    match ended.status.code() {
        Some(0) => Ok(parse_blkid(&ended.stdout)),
        // blkid(8): 2 means nothing found; 8 means several signatures, which wipefs lists one by one.
        Some(2 | 8) => Ok(vec![]),
        _ => Err(format!("blkid cannot read it ({})", ended.stderr.trim())),
    }
}

fn parse_blkid(text: &str) -> Vec<String> {
    let wanted = ["UUID", "UUID_SUB", "PART_ENTRY_UUID"];
    let fields = text.lines().filter_map(|line| line.split_once('='));
    fields.filter(|(name, _)| wanted.contains(name)).map(|(_, value)| value.to_string()).collect()
}

impl StoragePart {
    /// The storage that two parts share, as text; None if they do not overlap.
    fn shares(&self, other: &StoragePart) -> Option<&'static str> {
        let overlap = self.storage == other.storage && self.from < other.to && other.from < self.to;
        overlap.then_some(match self.storage {
            Storage::File(_) => "the same backing file",
            Storage::Node(_) => "the same backing device",
            Storage::Hardware { .. } => "the same hardware identity",
        })
    }

    /// Whether this part is completely inside another one on the same storage.
    fn is_within(&self, other: &StoragePart) -> bool {
        other.from <= self.from && self.to <= other.to
    }
}

/// The storage of a device: its disk, the file of a loop device, and the devices below a multipath or encrypted device. Adds the
/// names of the device and of the devices below it to `below`. The error names what cannot be read.
fn storage_parts(
    kernel: &SysRoot,
    device: &BlockDevice,
    loops: &[BackingFile],
    below: &mut Vec<String>,
) -> Result<Vec<StoragePart>, String> {
    below.push(device.name.clone());
    let (start, sectors) =
        device.start_and_sectors().ok_or_else(|| format!("the kernel does not say how large {} is", device.name))?;
    let parent = device.parent_disk();
    let disk = parent.as_ref().unwrap_or(device);
    let range = |storage| StoragePart { storage, from: start, to: start + sectors };
    let mut parts = vec![range(Storage::Node(disk.numbers()))];
    let identity = |attribute: &&'static str| Some((*attribute, disk.attribute(attribute).filter(|id| !is_void(id))?));
    if let Some((attribute, id)) = IDENTITY_ATTRIBUTES.iter().find_map(identity) {
        let (_, sectors) = disk.start_and_sectors().unwrap_or_default();
        parts.push(range(Storage::Hardware { attribute, id, sectors }));
    }
    // The backing file of a loop device can be the node of a partition.
    if let Some(text) = disk.attribute("loop/backing_file") {
        match BlockDevice::open(kernel, Path::new(&text)) {
            Ok(backing) => parts.extend(storage_parts(kernel, &backing, loops, below)?),
            Err(_) => {
                let file = loops.iter().find(|file| file.device == disk.name);
                let file = file.ok_or_else(|| format!("losetup does not say which file {} is", disk.name))?;
                parts.push(StoragePart { storage: Storage::File(file.identity.clone()), from: 0, to: u64::MAX });
            }
        }
    }
    // LVM volumes of a group are on the same devices without sharing a sector. Multipath and encrypted devices span the whole
    // devices below them.
    let mapped = device.attribute("dm/uuid").unwrap_or_default();
    if mapped.starts_with("mpath-") || mapped.starts_with("CRYPT-") {
        for slave in device.slaves().map_err(|error| error.to_string())? {
            parts.extend(storage_parts(kernel, &slave, loops, below)?);
        }
    }
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsarena_sys::testkit::FakeRoot;

    /// A fake machine, which has no devices at first.
    struct Machine {
        root: FakeRoot,
    }

    impl Machine {
        fn new(mountinfo: &str) -> Machine {
            let swaps = ("proc/swaps", "Filename Type Size Used Priority\n");
            Machine { root: FakeRoot::with(&[("proc/self/mountinfo", mountinfo), swaps]) }
        }

        /// Adds a disk of 2048 sectors, or a partition (`sdz/sdz1`), with these attributes.
        fn device(self, path: &str, numbers: &str, attributes: &[(&str, &str)]) -> Machine {
            let at = format!("sys/devices/{path}");
            self.root.write_file(&format!("{at}/dev"), numbers);
            self.root.write_file(&format!("{at}/size"), "2048\n");
            for (name, text) in attributes {
                self.root.write_file(&format!("{at}/{name}"), text);
            }
            self.root.make_dir("sys/block");
            self.root.make_link(&format!("sys/dev/block/{numbers}"), format!("../../devices/{path}"));
            self
        }

        /// Builds the device `upper` on the device `lower`.
        fn built_on(self, upper: &str, lower: &str) -> Machine {
            for (from, which, to) in [(upper, "slaves", lower), (lower, "holders", upper)] {
                let target = self.root.path().join("sys/devices").join(to);
                self.root.make_link(&format!("sys/devices/{from}/{which}/{to}"), target);
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
        let machine =
            Machine::new(&mounted("70:1")).device("loop70", "70:0", &[BACKING]).device("loop71", "70:1", &[BACKING]);
        let error = machine.check((70, 0), &[("loop70", 5), ("loop71", 5)]);
        assert!(error.contains("/dev/loop71 has the same backing file and is mounted at \"/home\""), "{error}");
        // Another file with the same path.
        assert_eq!(machine.check((70, 0), &[("loop70", 5), ("loop71", 6)]), "free");
        // The file of the device itself must be known; the file of another loop device need not be.
        let error = machine.check((70, 0), &[("loop71", 5)]);
        assert!(error.contains("losetup does not say which file loop70 is"), "{error}");
        assert_eq!(machine.check((70, 0), &[("loop70", 5)]), "free");
    }

    #[test]
    fn a_second_path_to_the_same_disk_is_found() {
        let wwid = ("device/wwid", "naa.5000c500a1b2c3d4\n");
        let two = |mounts: &str, second: (&str, &str)| {
            Machine::new(mounts).device("sdy", "65:0", &[wwid]).device("sdz", "65:16", &[second])
        };
        let error = two(&mounted("65:16"), wwid).check((65, 0), &[]);
        assert!(error.contains("/dev/sdz has the same hardware identity and is mounted"), "{error}");
        let other_wwid = ("device/wwid", "naa.5000c500ffffffff\n");
        assert_eq!(two(&mounted("65:16"), other_wwid).check((65, 0), &[]), "free");
        // Held by a multipath device that does not include this path.
        let held = two("", wwid).device("dm-9", "253:9", &[("dm/uuid", "mpath-1\n")]).built_on("dm-9", "sdz");
        assert!(held.check((65, 0), &[]).contains("/dev/sdz has the same hardware identity and is part of dm-9"));
        // The multipath device itself is free: its paths are used only by it.
        assert!(!held.check((253, 9), &[]).contains("is part of"));
        assert!(!held.check((253, 9), &[]).contains("sdz"));
    }

    #[test]
    fn a_serial_number_identifies_a_disk_with_a_void_wwid() {
        let same = [("wwid", "0000000000000000\n"), ("serial", "S3Z9NB0K\n")];
        let machine = Machine::new(&mounted("65:16")).device("sdy", "65:0", &same).device("sdz", "65:16", &same);
        assert!(machine.check((65, 0), &[]).contains("/dev/sdz has the same hardware identity and is mounted"));
    }

    #[test]
    fn a_path_of_another_size_is_another_disk() {
        let wwid = ("wwid", "t10.Bridge DISK00\n");
        let machine = Machine::new(&mounted("65:16")).device("sdy", "65:0", &[wwid]).device(
            "sdz",
            "65:16",
            &[wwid, ("size", "4096\n")],
        );
        assert_eq!(machine.check((65, 0), &[]), "free");
    }

    #[test]
    fn partitions_conflict_where_they_overlap() {
        let wwid = ("wwid", "eui.0025385b71b0c8f5\n");
        let part = |start| [("partition", "1\n"), ("start", start)];
        let machine = Machine::new(&mounted("65:17"))
            .device("sdy", "65:0", &[wwid, ("size", "99999\n")])
            .device("sdy/sdy1", "65:1", &part("2048\n"))
            .device("sdy/sdy2", "65:2", &part("4096\n"))
            .device("sdz", "65:16", &[wwid, ("size", "99999\n")])
            .device("sdz/sdz1", "65:17", &part("2048\n"));
        assert!(machine.check((65, 1), &[]).contains("/dev/sdz1 has the same hardware identity and is mounted"));
        assert_eq!(machine.check((65, 2), &[]), "free");
    }

    #[test]
    fn lvm_volumes_of_a_group_are_independent() {
        let volume = |name| [("dm/uuid", name)];
        let machine = Machine::new(&mounted("253:8"))
            .device("sdz", "65:16", &[])
            .device("dm-8", "253:8", &volume("LVM-a\n"))
            .device("dm-9", "253:9", &volume("LVM-b\n"))
            .built_on("dm-8", "sdz")
            .built_on("dm-9", "sdz");
        assert_eq!(machine.check((253, 9), &[]), "free");
    }

    #[test]
    fn a_hidden_device_is_ignored() {
        let wwid = ("wwid", "eui.0025385b71b0c8f5\n");
        let machine = Machine::new(&mounted("259:1")).device("nvme0n1", "259:0", &[wwid]).device(
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
        assert_eq!(parse_blkid(text), ["6bc0", "11", "22-01"]);
        assert!(is_void("00000000-0000") && is_void("") && !is_void("00000000-01"));
    }
}
