//! Assembles an md array without metadata through md's sysfs attributes: guests do not contain mdadm.

use super::devices::sectors;
use crate::{config::Array, stripes::CHUNK};
use std::io::{Error, Result};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

const NAME: &str = "md0";
/// Writing a name to this file creates the md device of that name.
const NEW: &str = "/sys/module/md_mod/parameters/new_array";

/// Assembles an array of these disks, which already hold its contents. Returns the path of its device.
///
/// # Errors
/// What the kernel does not take.
pub fn assemble(array: Array, members: &[PathBuf]) -> Result<PathBuf> {
    write(Path::new(NEW), NAME)?;
    let md = Path::new("/sys/block").join(NAME).join("md");
    let set = |name: &str, value: &str| write(&md.join(name), value);
    set("metadata_version", "none")?;
    set("level", array.level())?;
    set("raid_disks", &members.len().to_string())?;
    if array == Array::Raid0 {
        set("chunk_size", &CHUNK.to_string())?;
    }
    let sizes = members.iter().map(|disk| sectors(disk)).collect::<Result<Vec<u64>>>()?;
    // In kibibytes.
    let least = sizes.into_iter().min().unwrap_or(0) / 2;
    if array == Array::Raid1 {
        set("component_size", &least.to_string())?;
        // All members hold the same: nothing has to be resynchronised.
        set("resync_start", "none")?;
    }
    for (slot, disk) in members.iter().enumerate() {
        let rdev = std::fs::metadata(disk)?.rdev();
        set("new_dev", &format!("{}:{}", rustix::fs::major(rdev), rustix::fs::minor(rdev)))?;
        let name = disk.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let member = md.join(format!("dev-{name}"));
        write(&member.join("size"), &least.to_string())?;
        write(&member.join("slot"), &slot.to_string())?;
    }
    set("array_state", "active")?;
    Ok(Path::new("/dev").join(NAME))
}

fn write(path: &Path, value: &str) -> Result<()> {
    std::fs::write(path, value)
        .map_err(|error| Error::other(format!("writing {value} to {}: {error}", path.display())))
}
