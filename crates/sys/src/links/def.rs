//! The definition of a link, and functions that several links use.

use crate::{argv::Argv, check_return, device_mapper::DeviceMapper};
use std::fs::File;
use std::io::Result;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A link: a device over another device, made by the device mapper.
#[derive(Debug)]
pub struct LinkDef {
    /// Its name in the levels of the factor `stack`.
    pub id: &'static str,
    /// The program that it requires, and the Debian package of that program.
    pub program: Option<(&'static str, &'static str)>,
    /// The targets of the device mapper that it requires.
    pub targets: &'static [&'static str],
    /// The kernel modules that it requires.
    pub modules: &'static [&'static str],
    /// Kernel modules that make it faster, if the kernel and the CPU have them.
    pub accelerators: &'static [&'static str],
    /// Returns the number of sectors that the device below must have, so that the device has a number of sectors.
    pub(super) sectors_below: fn(u64) -> u64,
    /// Makes the device, and returns its path.
    pub(super) make: fn(&LinkSetup) -> Result<PathBuf>,
    /// Finishes the device once the filesystem is made, before it is mounted.
    pub(super) finish_after_mkfs: fn(&LinkSetup) -> Result<()>,
}

/// A function that returns the command that starts a program: installed, fetched, or in a guest.
pub type CommandForProgram = fn(&str) -> Argv;

/// The arguments of [`LinkDef::make`]: where the device is made, and with what.
#[derive(Debug)]
pub(super) struct LinkSetup {
    /// Returns the command that starts a program.
    pub command: CommandForProgram,
    /// The device mapper.
    pub mapper: Arc<DeviceMapper>,
    /// The name of the device. The names of further devices that the link needs begin with it.
    pub name: String,
    /// The device below.
    pub device_below: PathBuf,
    /// The size of the device in sectors.
    pub sectors: u64,
}

/// The [`LinkDef::finish_after_mkfs`] of a link that is finished when it is made.
pub(super) fn nothing_to_finish(_: &LinkSetup) -> Result<()> {
    Ok(())
}

/// Clears the first 4 KiB of a device, where the kernel would find an older superblock.
pub(super) fn clear_superblock(device: &Path) -> Result<()> {
    let file = File::options().write(true).open(device)?;
    file.write_all_at(&[0; 4096], 0)?;
    file.sync_all()?;
    // The device mapper reads and writes superblocks past the page cache.
    // SAFETY: the request takes no argument.
    check_return(unsafe { libc::ioctl(file.as_raw_fd(), BLKFLSBUF, 0) })?;
    Ok(())
}

/// The request that drops the page cache of a block device.
const BLKFLSBUF: libc::Ioctl = 0x1261;
