//! The definition of a link, and what links have in common.

use crate::{argv::Argv, device_mapper::Mapper};
use std::io::{Error, Result};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fmt, fs::File};

/// A link: a device over a device, made by the device mapper.
pub struct LinkDef {
    /// Its name in the levels of the factor.
    pub id: &'static str,
    /// The program that it requires, and the Debian package of that program.
    pub program: Option<(&'static str, &'static str)>,
    /// The targets of the device mapper that it requires.
    pub targets: &'static [&'static str],
    /// The kernel modules that it requires.
    pub modules: &'static [&'static str],
    /// Modules that make it faster where the kernel and the CPU have them.
    pub faster: &'static [&'static str],
    /// The sectors that it needs below for a device of this many sectors.
    pub(super) below: fn(u64) -> u64,
    /// Makes the device. Where it is.
    pub(super) make: fn(&LinkSite) -> Result<PathBuf>,
    /// What is done once the filesystem is made and before it is mounted.
    pub(super) formatted: fn(&LinkSite) -> Result<()>,
}

impl fmt::Debug for LinkDef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.id)
    }
}

/// The beginning of the command that starts a program.
pub type Programs = fn(&str) -> Argv;

/// Where a link is made.
#[derive(Debug)]
pub(super) struct LinkSite {
    /// How programs are started.
    pub command: Programs,
    /// What makes it.
    pub mapper: Arc<Mapper>,
    /// The name of the device. The names of its parts begin with it.
    pub name: String,
    /// The device below.
    pub below: PathBuf,
    /// The size of the device in sectors.
    pub sectors: u64,
}

/// Nothing is left to do.
pub(super) fn nothing(_: &LinkSite) -> Result<()> {
    Ok(())
}

/// Clears the first 4 KiB of a device, where its user would find an older superblock.
pub(super) fn clear_superblock(device: &Path) -> Result<()> {
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
