//! Checksums by dm-integrity: a CRC32C of each sector, and a journal that keeps data and checksums together.

use super::def::{LinkDef, LinkSetup, clear_superblock, nothing_to_finish};
use crate::device_mapper::{SECTOR_BYTES, Target};
use std::io::{Error, Result};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::{fs::File, path::Path, path::PathBuf};

/// The link.
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

/// The offset of the number of sectors of the device in the superblock, in bytes.
const PROVIDED_AT: u64 = 16;
const MAGIC: &[u8] = b"integrt\0";
/// `BLKDISCARD` and `BLKZEROOUT`, which take an offset and a length in bytes.
const DISCARD: libc::Ioctl = 0x1277;
const ZERO_OUT: libc::Ioctl = 0x127f;

fn make(setup: &LinkSetup) -> Result<PathBuf> {
    clear_superblock(&setup.device_below)?;
    let below = setup.device_below.display();
    let arguments = format!("{below} 0 - J 2 internal_hash:crc32c allow_discards");
    let table = |sectors| [Target::whole(sectors, "integrity", arguments.clone())];
    // The first load formats the device and writes its largest possible size into the superblock.
    setup.mapper.make(&setup.name, &table(8))?;
    let provided = provided_sectors(&setup.device_below)?;
    if provided < setup.sectors {
        let needed = setup.sectors;
        return Err(Error::other(format!("{needed} sectors are needed, and {provided} fit beside the checksums")));
    }
    let device = setup.mapper.replace_table(&setup.name, &table(setup.sectors))?;
    write_checksums(&device, setup.sectors * SECTOR_BYTES)?;
    Ok(device)
}

/// The largest possible number of sectors of the device, from the superblock.
fn provided_sectors(below: &Path) -> Result<u64> {
    let mut bytes = [0; 24];
    File::open(below)?.read_exact_at(&mut bytes, 0)?;
    if &bytes[..MAGIC.len()] != MAGIC {
        return Err(Error::other("the kernel wrote no superblock"));
    }
    let provided = &bytes[PROVIDED_AT as usize..];
    Ok(u64::from_le_bytes(provided.try_into().map_err(Error::other)?))
}

/// Gives each sector a checksum, without which it cannot be read: discards the whole device, or writes zeros if the device
/// below cannot discard.
fn write_checksums(device: &Path, bytes: u64) -> Result<()> {
    let file = File::options().write(true).open(device)?;
    let range = [0, bytes];
    let call = |request| {
        // SAFETY: the kernel reads two numbers from a live array.
        match unsafe { libc::ioctl(file.as_raw_fd(), request, range.as_ptr()) } {
            0 => Ok(()),
            _ => Err(Error::last_os_error()),
        }
    };
    call(DISCARD).or_else(|_| call(ZERO_OUT))?;
    file.sync_all()
}
