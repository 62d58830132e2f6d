//! Checksums by dm-integrity: a CRC32C of each sector, and a journal that keeps data and checksums together.

use super::def::{LinkDef, LinkSetup, clear_superblock, nothing_to_finish};
use crate::check_return;
use crate::device_mapper::{DmTarget, SECTOR_BYTES};
use std::io::{Error, Result};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::{fs::File, path::Path, path::PathBuf};

/// The link with the id `integrity`.
pub const LINK: LinkDef = LinkDef {
    id: "integrity",
    program: None,
    targets: &["integrity"],
    modules: &["dm_mod", "dm_integrity"],
    accelerators: &[],
    // 4 bytes for each sector, at most 64 MiB of journal, and rounding.
    sectors_below: |sectors| sectors + sectors / 32 + (72 << 20) / SECTOR_BYTES,
    make,
    finish_after_mkfs: nothing_to_finish,
};

/// The offset in the superblock, in bytes, of the largest possible number of sectors of the device.
const MAX_SECTORS_OFFSET: usize = 16;
/// The first bytes of the superblock.
const MAGIC: &[u8] = b"integrt\0";
/// The request that discards a range, given as its offset and its length in bytes.
const BLKDISCARD: libc::Ioctl = 0x1277;
/// The request that writes zeros to a range, given as its offset and its length in bytes.
const BLKZEROOUT: libc::Ioctl = 0x127f;

fn make(setup: &LinkSetup) -> Result<PathBuf> {
    clear_superblock(&setup.device_below)?;
    let device_below = setup.device_below.display();
    let arguments = format!("{device_below} 0 - J 2 internal_hash:crc32c allow_discards");
    let table = |sectors| [DmTarget::whole(sectors, "integrity", arguments.clone())];
    // Loading the first table formats the device and writes its largest possible size into the superblock.
    setup.mapper.make(&setup.name, &table(8))?;
    let max_sectors = read_max_sectors(&setup.device_below)?;
    if max_sectors < setup.sectors {
        let needed = setup.sectors;
        return Err(Error::other(format!("{needed} sectors are needed, and {max_sectors} fit beside the checksums")));
    }
    let device = setup.mapper.replace_table(&setup.name, &table(setup.sectors))?;
    write_checksums(&device, setup.sectors * SECTOR_BYTES)?;
    Ok(device)
}

/// Reads the largest possible number of sectors of the device from the superblock on the device below.
fn read_max_sectors(device_below: &Path) -> Result<u64> {
    let mut bytes = [0; 24];
    File::open(device_below)?.read_exact_at(&mut bytes, 0)?;
    if &bytes[..MAGIC.len()] != MAGIC {
        return Err(Error::other("the kernel wrote no superblock"));
    }
    let max_sectors = &bytes[MAX_SECTORS_OFFSET..];
    Ok(u64::from_le_bytes(max_sectors.try_into().map_err(Error::other)?))
}

/// Gives each sector of a device of `bytes` bytes a checksum, without which the sector cannot be read: discards the whole
/// device, or writes zeros if the device below cannot discard.
fn write_checksums(device: &Path, bytes: u64) -> Result<()> {
    let file = File::options().write(true).open(device)?;
    send_range_request(&file, BLKDISCARD, bytes).or_else(|_| send_range_request(&file, BLKZEROOUT, bytes))?;
    file.sync_all()
}

/// Sends a request to a device for the range from 0 to `bytes`.
fn send_range_request(device: &File, request: libc::Ioctl, bytes: u64) -> Result<()> {
    let range = [0, bytes];
    // SAFETY: the kernel reads two numbers from a live array.
    check_return(unsafe { libc::ioctl(device.as_raw_fd(), request, range.as_ptr()) })?;
    Ok(())
}
