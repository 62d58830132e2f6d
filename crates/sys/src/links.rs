//! Links: devices that lie over another device, such as encryption, below the filesystem. The device mapper makes them.
//!
//! A new link needs one constant, in a separate file here, and its line in [`LINKS`].

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

/// The largest number of links in a level.
const MAX_LINKS: usize = 8;

/// Parses a level of the factor `stack` (`thin+crypt`) into its links, from the disk up. Empty for an empty level and `none`.
///
/// # Errors
/// An unknown link, or too many; the message lists the links.
pub fn parse(level: &str) -> std::result::Result<Vec<&'static LinkDef>, String> {
    if level.is_empty() || level == "none" {
        return Ok(vec![]);
    }
    let ids = || LINKS.iter().map(|link| link.id);
    let find =
        |id: &str| Ok(LINKS.iter().find(|link| link.id == id).ok_or_else(|| unknown("link", id, ids()))?);
    let links = level.split('+').map(find).collect::<std::result::Result<Vec<_>, String>>()?;
    if links.len() > MAX_LINKS {
        return Err(format!("a stack has at most {MAX_LINKS} links; `{level}` has {}", links.len()));
    }
    Ok(links)
}

/// Checks a level.
///
/// # Errors
/// Those of [`parse`].
pub fn check_level(level: &str) -> std::result::Result<(), String> {
    parse(level).map(drop)
}

/// The programs that the links of a level require, each with its Debian package.
pub fn programs(level: &str) -> Vec<(&'static str, &'static str)> {
    parse(level).unwrap_or_default().into_iter().filter_map(|link| link.program).collect()
}

/// Checks that the programs of a level are installed.
///
/// # Errors
/// A missing program, with the command that installs it.
pub fn check_programs(level: &str) -> std::result::Result<(), String> {
    program::check_installed(&programs(level))
}

/// The size in bytes that the device below all links needs, for a device of `bytes` above them; `u64::MAX` on overflow.
pub fn bytes_below(links: &[&LinkDef], bytes: u64) -> u64 {
    let sectors = links.iter().rev().fold(bytes.div_ceil(SECTOR), |sectors, link| (link.below)(sectors));
    sectors.saturating_mul(SECTOR)
}

/// The devices of a stack of links. Dropping this value removes the devices that are in an undo journal.
#[derive(Debug)]
pub struct LinkedDevices {
    mapper: Arc<Mapper>,
    made: Vec<(&'static LinkDef, LinkSite)>,
    top: PathBuf,
}

/// How long fsarena waits until a device node appears.
const NODE_TIMEOUT: Duration = Duration::from_secs(20);

impl LinkedDevices {
    /// Makes the links over a disk; the topmost device has `bytes`. The names of all devices begin with `prefix`; `command`
    /// returns the command that starts a program.
    ///
    /// # Errors
    /// The kernel refuses a device, or a program fails; the message names the link.
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
            linked.top =
                (link.make)(&site).and_then(wait_for_node).map_err(|error| with_link(link, error))?;
            linked.made.push((link, site));
        }
        Ok(linked)
    }

    /// The topmost device.
    pub fn path(&self) -> &Path {
        &self.top
    }

    /// Finishes the links once the filesystem is made: takes snapshots.
    ///
    /// # Errors
    /// The kernel refuses; the message names the link.
    pub fn formatted(&self) -> Result<()> {
        self.made
            .iter()
            .try_for_each(|(link, site)| (link.formatted)(site).map_err(|error| with_link(link, error)))
    }

    /// Removes the devices that are in an undo journal, the topmost first.
    ///
    /// # Errors
    /// A device is still in use; it stays in the journal.
    pub fn remove(self) -> std::result::Result<(), crate::Error> {
        self.mapper.remove_all()
    }
}

fn wait_for_node(device: PathBuf) -> Result<PathBuf> {
    let has_appeared = || device.exists().then_some(());
    wait_until(Instant::now() + NODE_TIMEOUT, Cancel::Never, has_appeared)
        .map_err(|_| Error::other(format!("{} does not appear", device.display())))?;
    Ok(device)
}

/// An error with the name of the link before it.
fn with_link(link: &LinkDef, error: Error) -> Error {
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
