//! Links: what lies between a device and the filesystem on it, device to device. The device mapper makes them.
//!
//! A new link is one constant, in a file of its own here, and its line in [`LINKS`].

mod crypt;
mod integrity;
mod snapshot;
mod thin;

use crate::device_mapper::{Mapper, SECTOR};
use fsarena_core::names::unknown;
use std::io::{Error, Result};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::{fmt, fs::File};

/// A link.
pub struct LinkDef {
    /// Its name in the levels of the factor.
    pub id: &'static str,
    /// Modules that it requires.
    pub modules: &'static [&'static str],
    /// Modules that make it faster where the kernel and the CPU have them.
    pub faster: &'static [&'static str],
    /// The sectors that it needs below for a device of this many sectors.
    below: fn(u64) -> u64,
    /// Makes the device. Where it is.
    make: fn(&LinkSite) -> Result<PathBuf>,
    /// What is done once the filesystem is made and before it is mounted.
    formatted: fn(&LinkSite) -> Result<()>,
}

/// Where a link is made.
struct LinkSite {
    mapper: Mapper,
    /// The name of the device, and how those of its parts begin.
    name: String,
    /// The device below.
    below: PathBuf,
    /// The size of the device in sectors.
    sectors: u64,
}

/// Every link.
pub const LINKS: &[LinkDef] = &[crypt::LINK, integrity::LINK, thin::LINK, thin::SNAPSHOT, snapshot::LINK];

impl fmt::Debug for LinkDef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.id)
    }
}

/// The most links of a level.
const MOST: usize = 8;

/// The links of a level, that next to the disk first; none of an empty level or `none`.
///
/// # Errors
/// How a level is written.
pub fn parse(level: &str) -> std::result::Result<Vec<&'static LinkDef>, String> {
    if level.is_empty() || level == "none" {
        return Ok(vec![]);
    }
    let ids = || LINKS.iter().map(|link| link.id);
    let find =
        |id: &str| Ok(LINKS.iter().find(|link| link.id == id).ok_or_else(|| unknown("link", id, ids()))?);
    let links = level.split('+').map(find).collect::<std::result::Result<Vec<_>, String>>()?;
    if links.len() > MOST {
        return Err(format!("a stack has at most {MOST} links; `{level}` has {}", links.len()));
    }
    Ok(links)
}

/// Checks a level.
///
/// # Errors
/// How a level is written.
pub fn check_level(level: &str) -> std::result::Result<(), String> {
    parse(level).map(drop)
}

/// The bytes that the device below all links needs, for a device of this size above them.
pub fn bytes_below(links: &[&LinkDef], bytes: u64) -> u64 {
    links.iter().rev().fold(bytes.div_ceil(SECTOR), |sectors, link| (link.below)(sectors)) * SECTOR
}

/// Devices that lie on one another.
#[derive(Default)]
pub struct LinkedDevices(Vec<(&'static LinkDef, LinkSite)>);

impl LinkedDevices {
    /// Makes the links over a device. Where the topmost is, with the devices; it has this size in bytes.
    ///
    /// # Errors
    /// What the kernel does not take; the message names the link.
    pub fn make(
        links: &[&'static LinkDef],
        disk: &Path,
        bytes: u64,
        wait: impl Fn(PathBuf) -> Result<PathBuf>,
    ) -> Result<(PathBuf, LinkedDevices)> {
        let (mut below, mut made) = (disk.to_path_buf(), LinkedDevices::default());
        for (at, link) in links.iter().copied().enumerate() {
            let sectors = bytes_below(&links[at + 1..], bytes) / SECTOR;
            let name = format!("{}{at}", link.id);
            let site = LinkSite { mapper: Mapper::open()?, name, below, sectors };
            below = (link.make)(&site).and_then(&wait).map_err(|error| named(link, error))?;
            made.0.push((link, site));
        }
        Ok((below, made))
    }

    /// Does what comes once the filesystem is made.
    ///
    /// # Errors
    /// What the kernel refuses; the message names the link.
    pub fn formatted(&self) -> Result<()> {
        self.0.iter().try_for_each(|(link, site)| (link.formatted)(site).map_err(|error| named(link, error)))
    }
}

fn named(link: &LinkDef, error: Error) -> Error {
    Error::other(format!("stack={}: {error}", link.id))
}

/// Nothing is left to do.
fn nothing(_: &LinkSite) -> Result<()> {
    Ok(())
}

/// Clears the first 4 KiB of a device, where its user would find an older superblock.
fn clear_superblock(device: &Path) -> Result<()> {
    let file = File::options().write(true).open(device)?;
    file.write_all_at(&[0; 4096], 0)?;
    file.sync_all()?;
    drop_cache(&file)
}

/// `BLKFLSBUF`: drops what the cache of a block device holds.
const FLUSH_BUFFERS: libc::Ioctl = 0x1261;

/// Drops what the cache of a device holds: the kernel writes superblocks past it.
fn drop_cache(device: &File) -> Result<()> {
    // SAFETY: the request takes no argument.
    match unsafe { libc::ioctl(device.as_raw_fd(), FLUSH_BUFFERS, 0) } {
        0 => Ok(()),
        _ => Err(Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_is_a_chain_from_the_disk_up() {
        let ids =
            |level: &str| parse(level).map(|links| links.iter().map(|link| link.id).collect::<Vec<_>>());
        assert_eq!((ids(""), ids("none")), (Ok(vec![]), Ok(vec![])));
        assert_eq!(ids("thin+crypt"), Ok(vec!["thin", "crypt"]));
        assert!(ids("crypt+").unwrap_err().contains("Unknown link ``"));
        assert!(ids("crpyt").unwrap_err().contains("Did you mean `crypt`"));
        assert!(ids(&["crypt"; 9].join("+")).unwrap_err().contains("at most 8 links"));
    }

    #[test]
    fn each_link_has_room_for_what_it_keeps_beside_the_data() {
        let size = 1 << 30;
        let below = |level: &str| bytes_below(&parse(level).unwrap(), size);
        assert_eq!((below(""), below("crypt")), (size, size));
        for level in ["integrity", "thin", "thin-snapshot", "snapshot"] {
            assert!(below(level) > size + (1 << 20), "{level}");
        }
        assert!(below("thin+integrity") > below("integrity") && below("snapshot") > 2 * size);
    }
}
