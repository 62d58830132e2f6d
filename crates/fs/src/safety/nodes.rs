//! Finds other device nodes of the same storage: a second loop device of the same file, a second path to the same disk, a device
//! with the same UUID.
//!
//! Writing through one node destroys a filesystem that is mounted through another, and the kernel's exclusive open does not
//! prevent that.

use super::checks::{DeviceUse, DeviceUses};
use crate::{Error, error::refused, written::Signature};
use fsarena_core::setting_text::setting;
use fsarena_sys::device::{self, BlockDevice};
use fsarena_sys::{argv::Argv, kernel::SysRoot, loopdev::BackingFile};
use std::path::Path;

/// A part of the storage of a device: a range of sectors of a disk, or a whole file.
#[derive(Debug, Clone, PartialEq, Eq)]
struct StoragePart {
    on: Storage,
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
const IDENTITIES: [&str; 4] = ["wwid", "device/wwid", "serial", "device/serial"];

/// Returns an error if the storage of a device is in use through another node. `loops` are the files of all loop devices, and
/// `signatures` those of the device.
pub(super) fn check_other_nodes(
    kernel: &SysRoot,
    device: &BlockDevice,
    shown: &Path,
    loops: &[BackingFile],
    signatures: &[Signature],
) -> Result<(), Error> {
    let usage = DeviceUses::read(kernel)?;
    let mut below = vec![];
    let own = storage_parts(kernel, device, loops, &mut below).map_err(|why| {
        refused(
            shown,
            why,
            format!("fsarena cannot tell who else uses it; use `{}`", setting("on", "loop:DIR")),
        )
    })?;
    let use_of_file = |part: &StoragePart| match &part.on {
        Storage::File(id) => usage.find_use_of_file(id),
        _ => None,
    };
    if let Some(used) = own.iter().find_map(use_of_file) {
        return Err(refused(shown, format!("its backing file {}", used.how), used.fix));
    }
    let mut others = device::all_block_devices(kernel)?;
    others.retain(|other| !below.contains(&other.name));
    let shared: Vec<_> =
        others.iter().filter_map(|other| find_shared_storage(kernel, &own, other, loops)).collect();
    let visible_use = shared.iter().find_map(|other| Some((other, usage.find_use(other.node, &below)?)));
    let hidden_use = || {
        shared.iter().filter(|other| other.within).find_map(|other| Some((other, find_claim(other.node)?)))
    };
    if let Some((other, used)) = visible_use.or_else(hidden_use) {
        let why = format!("{} has {} and {}", other.node.path.display(), other.common, used.how);
        return Err(refused(shown, why, used.fix));
    }
    check_uuids(&usage, device, shown, signatures, &others, &below)
}

/// A node of the same storage as the device under check.
struct SharedNode<'a> {
    node: &'a BlockDevice,
    /// The storage that both share: `the same backing file`.
    common: &'static str,
    /// Whether the whole node is on that storage. If not, a claim of the node may concern another partition.
    within: bool,
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
    let (own, their, common) = pairs.find_map(|(own, their)| Some((own, their, own.shares(their)?)))?;
    Some(SharedNode { node, common, within: their.is_within(own) })
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
    usage: &DeviceUses,
    device: &BlockDevice,
    shown: &Path,
    signatures: &[Signature],
    others: &[BlockDevice],
    below: &[String],
) -> Result<(), Error> {
    let mut own = uuids(device).map_err(|why| refused(shown, why, "Look at it with `blkid --probe`"))?;
    own.extend(signatures.iter().filter_map(|signature| signature.uuid.clone()));
    own.retain(|uuid| !is_void(uuid));
    if own.is_empty() {
        return Ok(());
    }
    for other in others {
        let Some(used) = usage.find_use(other, below) else { continue };
        let theirs = uuids(other).unwrap_or_default();
        if let Some(uuid) = own.iter().find(|uuid| theirs.contains(uuid)) {
            let why = format!("{} has the same UUID ({uuid}) and {}", other.path.display(), used.how);
            let fix =
                format!("{}; if this is a copy to give up, clear it yourself: `wipefs --all`", used.fix);
            return Err(refused(shown, why, fix));
        }
    }
    Ok(())
}

/// Whether an identifier consists of zeros, as disks without one report.
fn is_void(uuid: &str) -> bool {
    uuid.chars().all(|c| matches!(c, '0' | '-'))
}

/// The UUIDs of the content of a device and of its partition entry, from blkid(8).
fn uuids(device: &BlockDevice) -> Result<Vec<String>, String> {
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
        let overlap = self.on == other.on && self.from < other.to && other.from < self.to;
        overlap.then_some(match self.on {
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
        device.extent().ok_or_else(|| format!("the kernel does not say how large {} is", device.name))?;
    let parent = device.parent();
    let disk = parent.as_ref().unwrap_or(device);
    let range = |on| StoragePart { on, from: start, to: start + sectors };
    let mut all = vec![range(Storage::Node(disk.numbers()))];
    let identity =
        |attribute: &&'static str| Some((*attribute, disk.attribute(attribute).filter(|id| !is_void(id))?));
    if let Some((attribute, id)) = IDENTITIES.iter().find_map(identity) {
        let (_, sectors) = disk.extent().unwrap_or_default();
        all.push(range(Storage::Hardware { attribute, id, sectors }));
    }
    // The backing file of a loop device can be the node of a partition.
    if let Some(text) = disk.attribute("loop/backing_file") {
        match BlockDevice::open(kernel, Path::new(&text)) {
            Ok(backing) => all.extend(storage_parts(kernel, &backing, loops, below)?),
            Err(_) => {
                let file = loops.iter().find(|file| file.device == disk.name);
                let file = file.ok_or_else(|| format!("losetup does not say which file {} is", disk.name))?;
                all.push(StoragePart { on: Storage::File(file.identity.clone()), from: 0, to: u64::MAX });
            }
        }
    }
    // LVM volumes of a group are on the same devices without sharing a sector. Multipath and encrypted devices span the whole
    // devices below them.
    let mapped = device.attribute("dm/uuid").unwrap_or_default();
    if mapped.starts_with("mpath-") || mapped.starts_with("CRYPT-") {
        for slave in device.slaves().map_err(|error| error.to_string())? {
            all.extend(storage_parts(kernel, &slave, loops, below)?);
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests;
