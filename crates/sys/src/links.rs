//! Links: devices that lie over another device, such as encryption, below the filesystem. The device mapper makes them.
//!
//! A new link needs one constant, in a separate file here, and its line in [`LINKS`].

mod crypt;
mod def;
mod integrity;
mod luks;
mod snapshot;
mod thin;

use crate::device_mapper::{DeviceMapper, SECTOR_BYTES};
use crate::program;
use crate::wait::{Cancel, wait_until};
use def::LinkSetup;
pub use def::{CommandForProgram, LinkDef};
use fsarena_core::names::find_by_id;
use std::io::{Error, Result};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Every link.
pub const LINKS: &[LinkDef] = &[crypt::LINK, luks::LINK, integrity::LINK, thin::LINK, thin::SNAPSHOT, snapshot::LINK];

/// The largest number of links in a level: an arbitrary limit.
const MAX_LINKS: usize = 8;

/// Parses a level of the factor `stack` (`thin+crypt`) into its links, from the disk up. Empty for an empty level and `none`.
///
/// # Errors
/// An unknown link, or too many; the message lists the links.
pub fn parse_level(level: &str) -> std::result::Result<Vec<&'static LinkDef>, String> {
    if level.is_empty() || level == "none" {
        return Ok(vec![]);
    }
    let find = |id: &str| Ok(find_by_id("link", id, LINKS, |link| link.id)?);
    let links = level.split('+').map(find).collect::<std::result::Result<Vec<_>, String>>()?;
    if links.len() > MAX_LINKS {
        return Err(format!("a stack has at most {MAX_LINKS} links; `{level}` has {}", links.len()));
    }
    Ok(links)
}

/// Checks a level.
///
/// # Errors
/// Those of [`parse_level`].
pub fn check_level(level: &str) -> std::result::Result<(), String> {
    parse_level(level).map(drop)
}

/// The programs that the links of a level require, each with its Debian package.
pub fn required_programs(level: &str) -> Vec<(&'static str, &'static str)> {
    parse_level(level).unwrap_or_default().into_iter().filter_map(|link| link.program).collect()
}

/// Checks that the programs of a level are installed.
///
/// # Errors
/// A missing program, with the command that installs it.
pub fn check_programs(level: &str) -> std::result::Result<(), String> {
    program::check_installed(&required_programs(level))
}

/// The size in bytes that the lowest device, below all links, needs so that the device above all links has `bytes` bytes. Returns
/// `u64::MAX` on overflow.
pub fn bytes_below(links: &[&LinkDef], bytes: u64) -> u64 {
    let sectors = links.iter().rev().fold(bytes.div_ceil(SECTOR_BYTES), |sectors, link| (link.sectors_below)(sectors));
    sectors.saturating_mul(SECTOR_BYTES)
}

/// The devices of a stack of links. If the device mapper was opened with an undo journal, it removes the devices when it is
/// dropped, and so when this value is dropped. Devices made without a journal stay.
#[derive(Debug)]
pub struct DeviceStack {
    mapper: Arc<DeviceMapper>,
    links: Vec<(&'static LinkDef, LinkSetup)>,
    /// The path of the topmost device; without a link, the path of the disk.
    top: PathBuf,
}

/// How long fsarena waits until a device node appears.
const NODE_TIMEOUT: Duration = Duration::from_secs(20);

impl DeviceStack {
    /// Makes the links over a disk; the topmost device has `bytes` bytes. The names of all devices begin with `name_prefix`;
    /// `command` returns the command that starts a program.
    ///
    /// # Errors
    /// The kernel refuses a device, or a program fails; the message names the link. The devices made before are removed as
    /// if the stack were dropped.
    pub fn make(
        mapper: DeviceMapper,
        command: CommandForProgram,
        name_prefix: &str,
        links: &[&'static LinkDef],
        disk: &Path,
        bytes: u64,
    ) -> Result<DeviceStack> {
        let mut stack = DeviceStack { mapper: Arc::new(mapper), links: vec![], top: disk.into() };
        for (index, link) in links.iter().copied().enumerate() {
            let sectors = bytes_below(&links[index + 1..], bytes) / SECTOR_BYTES;
            let (mapper, name) = (stack.mapper.clone(), format!("{name_prefix}{}{index}", link.id));
            let setup = LinkSetup { command, mapper, name, device_below: stack.top, sectors };
            stack.top = (link.make)(&setup).and_then(wait_for_node).map_err(|error| with_link_name(link, error))?;
            stack.links.push((link, setup));
        }
        Ok(stack)
    }

    /// The topmost device.
    pub fn path(&self) -> &Path {
        &self.top
    }

    /// Finishes the links once the filesystem is made: takes snapshots.
    ///
    /// # Errors
    /// The kernel refuses a request; the message names the link.
    pub fn finish_after_mkfs(&self) -> Result<()> {
        for (link, setup) in &self.links {
            (link.finish_after_mkfs)(setup).map_err(|error| with_link_name(link, error))?;
        }
        Ok(())
    }

    /// Removes the devices that are in an undo journal, the topmost first.
    ///
    /// # Errors
    /// A device is still in use; it stays in the journal.
    pub fn remove(self) -> std::result::Result<(), crate::Error> {
        self.mapper.remove_all()
    }
}

/// Waits until the node of a device appears; returns its path.
fn wait_for_node(device: PathBuf) -> Result<PathBuf> {
    let has_appeared = || device.exists().then_some(());
    wait_until(Instant::now() + NODE_TIMEOUT, Cancel::Never, has_appeared)
        .map_err(|_| Error::other(format!("{} does not appear", device.display())))?;
    Ok(device)
}

/// The error with the name of the link before it.
fn with_link_name(link: &LinkDef, error: Error) -> Error {
    Error::other(format!("stack={}: {error}", link.id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_is_a_chain_from_the_disk_up() {
        let ids = |level: &str| parse_level(level).map(|links| links.iter().map(|link| link.id).collect::<Vec<_>>());
        assert_eq!((ids(""), ids("none")), (Ok(vec![]), Ok(vec![])));
        assert_eq!(ids("thin+crypt"), Ok(vec!["thin", "crypt"]));
        assert!(ids("crypt+").unwrap_err().contains("Unknown link ``"));
        assert!(ids("crpyt").unwrap_err().contains("Did you mean `crypt`"));
        assert!(ids(&["crypt"; 9].join("+")).unwrap_err().contains("at most 8 links"));
    }

    #[test]
    fn each_link_has_room_for_its_metadata() {
        let size = 1 << 30;
        let below = |level: &str| bytes_below(&parse_level(level).unwrap(), size);
        assert_eq!((below(""), below("crypt")), (size, size));
        for level in ["luks", "integrity", "thin", "thin-snapshot", "snapshot"] {
            assert!(below(level) > size + (1 << 20), "{level}");
        }
        assert!(below("thin+integrity") > below("integrity") && below("snapshot") > 2 * size);
    }
}
