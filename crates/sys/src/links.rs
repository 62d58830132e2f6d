//! Links: what lies between a device and the filesystem on it, device to device. The device mapper makes them.
//!
//! A new link is one constant, in a file of its own here, and its line in [`LINKS`].

mod crypt;
mod def;
mod integrity;
mod luks;
mod snapshot;
mod thin;

use crate::device_mapper::{Mapper, SECTOR};
use crate::program;
use crate::wait::{Cancel, wait_until};
use def::LinkSite;
pub use def::{LinkDef, Programs};
use fsarena_core::names::unknown;
use std::io::{Error, Result};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Every link.
pub const LINKS: &[LinkDef] =
    &[crypt::LINK, luks::LINK, integrity::LINK, thin::LINK, thin::SNAPSHOT, snapshot::LINK];

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

/// The programs that the links of a level need, each with its Debian package; none of a level that is none.
pub fn programs(level: &str) -> Vec<(&'static str, &'static str)> {
    parse(level).unwrap_or_default().into_iter().filter_map(|link| link.program).collect()
}

/// Checks that the programs of a level are installed.
///
/// # Errors
/// The program, and what installs it.
pub fn check_programs(level: &str) -> std::result::Result<(), String> {
    match programs(level).into_iter().find(|(name, _)| program::find(name).is_none()) {
        Some((name, package)) => Err(format!("{name} is not installed: apt-get install {package}")),
        None => Ok(()),
    }
}

/// The bytes that the device below all links needs, for a device of this size above them. Sizes that no disk has stay at
/// the largest number.
pub fn bytes_below(links: &[&LinkDef], bytes: u64) -> u64 {
    let sectors = links.iter().rev().fold(bytes.div_ceil(SECTOR), |sectors, link| (link.below)(sectors));
    sectors.saturating_mul(SECTOR)
}

/// Devices that lie on one another. Dropping them removes those that are in an undo journal.
#[derive(Debug)]
pub struct LinkedDevices {
    mapper: Arc<Mapper>,
    made: Vec<(&'static LinkDef, LinkSite)>,
    top: PathBuf,
}

/// How long fsarena waits for the node of a device.
const NODE_TIMEOUT: Duration = Duration::from_secs(20);

impl LinkedDevices {
    /// Makes the links over a device; the topmost device has this size in bytes. The names of all devices begin with `prefix`;
    /// `command` starts the programs that links need.
    ///
    /// # Errors
    /// What the kernel does not take; the message names the link.
    pub fn make(
        mapper: Mapper,
        command: Programs,
        prefix: &str,
        links: &[&'static LinkDef],
        disk: &Path,
        bytes: u64,
    ) -> Result<LinkedDevices> {
        let mut linked = LinkedDevices { mapper: Arc::new(mapper), made: vec![], top: disk.into() };
        for (at, link) in links.iter().copied().enumerate() {
            let sectors = bytes_below(&links[at + 1..], bytes) / SECTOR;
            let (mapper, name) = (linked.mapper.clone(), format!("{prefix}{}{at}", link.id));
            let site = LinkSite { command, mapper, name, below: linked.top, sectors };
            linked.top = (link.make)(&site).and_then(wait_for_node).map_err(|error| named(link, error))?;
            linked.made.push((link, site));
        }
        Ok(linked)
    }

    /// The topmost device.
    pub fn path(&self) -> &Path {
        &self.top
    }

    /// Does the work that is left after the filesystem is made.
    ///
    /// # Errors
    /// What the kernel refuses; the message names the link.
    pub fn formatted(&self) -> Result<()> {
        self.made
            .iter()
            .try_for_each(|(link, site)| (link.formatted)(site).map_err(|error| named(link, error)))
    }

    /// Removes those that are in an undo journal, the topmost first.
    ///
    /// # Errors
    /// Where one is still in use; it stays in the journal.
    pub fn remove(self) -> std::result::Result<(), crate::Error> {
        self.mapper.remove_all()
    }
}

fn wait_for_node(device: PathBuf) -> Result<PathBuf> {
    let there = || device.exists().then_some(());
    wait_until(Instant::now() + NODE_TIMEOUT, Cancel::Never, there)
        .map_err(|_| Error::other(format!("{} does not appear", device.display())))?;
    Ok(device)
}

fn named(link: &LinkDef, error: Error) -> Error {
    Error::other(format!("stack={}: {error}", link.id))
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
        for level in ["luks", "integrity", "thin", "thin-snapshot", "snapshot"] {
            assert!(below(level) > size + (1 << 20), "{level}");
        }
        assert!(below("thin+integrity") > below("integrity") && below("snapshot") > 2 * size);
    }
}
