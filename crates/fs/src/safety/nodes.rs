//! Other nodes of a device's storage: a second loop device of its file, a second path to its disk, a copy of its UUID.
//!
//! A filesystem that is mounted through one node is destroyed through another, and the kernel's own exclusive open does
//! not prevent it.

use super::usage::{Usage, Use};
use crate::{Error, error::refused, written::Signature};
use fsarena_sys::device::{self, BlockDevice};
use fsarena_sys::{argv::Argv, kernel::SysRoot, loopdev::BackingFile};
use std::path::Path;

/// Where bytes of a device lie: in these sectors of a disk, or anywhere in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Place {
    on: Storage,
    from: u64,
    to: u64,
}

/// What tells a disk or file from all others.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Storage {
    /// A file: the number of its filesystem, and its inode number.
    File((String, u64)),
    /// A disk, by the kernel's numbers: one node.
    Node(String),
    /// A disk, by the identity that the hardware reports; nodes of one disk share it. Cheap bridges report the same for
    /// different disks, so the size counts as well.
    Hardware { attribute: &'static str, id: String, sectors: u64 },
}

/// Attributes with the identity of a disk, the most specific first. A serial number of an NVMe controller is that of all
/// its namespaces, but those have a `wwid`.
const IDENTITIES: [&str; 4] = ["wwid", "device/wwid", "serial", "device/serial"];

/// Refuses a device whose content is in use through another node.
pub(super) fn check(
    kernel: &SysRoot,
    device: &BlockDevice,
    shown: &Path,
    loops: &[BackingFile],
    signatures: &[Signature],
) -> Result<(), Error> {
    let usage = Usage::of(kernel)?;
    let mut below = vec![];
    let own = places(kernel, device, loops, &mut below)
        .map_err(|why| refused(shown, why, "fsarena cannot tell who else uses it; use `--on loop:DIR`"))?;
    let file = |place: &Place| if let Storage::File(id) = &place.on { usage.file(id) } else { None };
    if let Some(used) = own.iter().find_map(file) {
        return Err(refused(shown, format!("its backing file {}", used.how), used.fix));
    }
    let mut others = device::all(kernel)?;
    others.retain(|other| !below.contains(&other.name));
    let same: Vec<_> = others.iter().filter_map(|other| same_storage(kernel, &own, other, loops)).collect();
    let seen = same.iter().find_map(|same| Some((same, usage.device(same.node, &below)?)));
    let claimed =
        || same.iter().filter(|same| same.within).find_map(|same| Some((same, claimed(same.node)?)));
    if let Some((same, used)) = seen.or_else(claimed) {
        let why = format!("{} has {} and {}", same.node.path.display(), same.common, used.how);
        return Err(refused(shown, why, used.fix));
    }
    check_uuids(&usage, device, shown, signatures, &others, &below)
}

/// Another node of the same storage.
struct Same<'a> {
    node: &'a BlockDevice,
    /// What tells that it is the same.
    common: &'static str,
    /// Whether all of it is: a disk is claimed also for a partition that is not concerned.
    within: bool,
}

fn same_storage<'a>(
    kernel: &SysRoot,
    own: &[Place],
    node: &'a BlockDevice,
    loops: &[BackingFile],
) -> Option<Same<'a>> {
    // What cannot be read of another device is not a reason to refuse this one.
    let theirs = places(kernel, node, loops, &mut vec![]).unwrap_or_default();
    let mut pairs = own.iter().flat_map(|own| theirs.iter().map(move |their| (own, their)));
    let (own, their, common) = pairs.find_map(|(own, their)| Some((own, their, own.shares(their)?)))?;
    Some(Same { node, common, within: their.is_within(own) })
}

/// Whether the kernel has another node in use in a way that does not show in this mount namespace.
fn claimed(other: &BlockDevice) -> Option<Use> {
    match device::is_claimed(&other.path) {
        Ok(false) => None,
        Ok(true) => {
            let how = "the kernel says that it is in use".into();
            Some(Use { how, fix: "Look who uses it: `lsblk`, `fuser -v`" })
        }
        Err(error) => {
            let how = format!("fsarena cannot tell whether it is in use: {error}");
            Some(Use { how, fix: "Look at it with `lsblk`" })
        }
    }
}

/// Refuses a device that has a UUID of one in use: what is mounted by UUID may be either.
fn check_uuids(
    usage: &Usage,
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
        let Some(used) = usage.device(other, below) else { continue };
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

/// Whether a UUID says nothing: disks without an identifier have zeros.
fn is_void(uuid: &str) -> bool {
    uuid.chars().all(|c| matches!(c, '0' | '-'))
}

/// The UUIDs of what lies on a device, and of the partition that it is.
fn uuids(device: &BlockDevice) -> Result<Vec<String>, String> {
    let argv = Argv::new("blkid").args(["-p", "-o", "export"]).arg(&device.path).env("LC_ALL", "C");
    let ended = argv.run().map_err(|error| error.to_string())?;
    match ended.status.code() {
        Some(0) => Ok(parse(&ended.stdout)),
        // blkid(8): nothing found; several signatures, which wipefs tells one by one.
        Some(2 | 8) => Ok(vec![]),
        _ => Err(format!("blkid cannot read it ({})", ended.stderr.trim())),
    }
}

fn parse(text: &str) -> Vec<String> {
    let wanted = ["UUID", "UUID_SUB", "PART_ENTRY_UUID"];
    let fields = text.lines().filter_map(|line| line.split_once('='));
    fields.filter(|(name, _)| wanted.contains(name)).map(|(_, value)| value.to_string()).collect()
}

impl Place {
    /// What two places have in common, where they overlap.
    fn shares(&self, other: &Place) -> Option<&'static str> {
        let overlap = self.on == other.on && self.from < other.to && other.from < self.to;
        overlap.then_some(match self.on {
            Storage::File(_) => "the same backing file",
            Storage::Node(_) => "the same backing device",
            Storage::Hardware { .. } => "the same hardware identity",
        })
    }

    /// Whether it has no byte outside another place, with which it shares some.
    fn is_within(&self, other: &Place) -> bool {
        other.from <= self.from && self.to <= other.to
    }
}

/// Where the bytes of a device lie. The names of the device and of those that it lies on are added to `below`. The error
/// says what cannot be read.
fn places(
    kernel: &SysRoot,
    device: &BlockDevice,
    loops: &[BackingFile],
    below: &mut Vec<String>,
) -> Result<Vec<Place>, String> {
    below.push(device.name.clone());
    let (start, sectors) =
        device.extent().ok_or_else(|| format!("the kernel does not say how large {} is", device.name))?;
    let parent = device.parent();
    let disk = parent.as_ref().unwrap_or(device);
    let range = |on| Place { on, from: start, to: start + sectors };
    let mut all = vec![range(Storage::Node(disk.numbers()))];
    let identity =
        |attribute: &&'static str| Some((*attribute, disk.attribute(attribute).filter(|id| !is_void(id))?));
    if let Some((attribute, id)) = IDENTITIES.iter().find_map(identity) {
        let (_, sectors) = disk.extent().unwrap_or_default();
        all.push(range(Storage::Hardware { attribute, id, sectors }));
    }
    // A loop device of a partition has the partition's name in it.
    if let Some(text) = disk.attribute("loop/backing_file") {
        match BlockDevice::open(kernel, Path::new(&text)) {
            Ok(backing) => all.extend(places(kernel, &backing, loops, below)?),
            Err(_) => {
                let file = loops.iter().find(|file| file.device == disk.name);
                let file = file.ok_or_else(|| format!("losetup does not say which file {} is", disk.name))?;
                all.push(Place { on: Storage::File(file.identity.clone()), from: 0, to: u64::MAX });
            }
        }
    }
    // Volumes of a group lie on the same devices without sharing a sector; these two lie on the whole of theirs.
    let mapped = device.attribute("dm/uuid").unwrap_or_default();
    if mapped.starts_with("mpath-") || mapped.starts_with("CRYPT-") {
        for slave in device.slaves().map_err(|error| error.to_string())? {
            all.extend(places(kernel, &slave, loops, below)?);
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests;
