//! Thin provisioning by dm-thin, which allocates a block of 64 KiB at its first write; and the same under a snapshot, where the
//! first write to each block copies it.

use super::def::{LinkDef, LinkSetup, clear_superblock, nothing_to_finish};
use crate::device_mapper::{DmTarget, SECTOR_BYTES};
use std::{io::Result, path::PathBuf};

/// The link with the id `thin`.
pub const LINK: LinkDef = LinkDef {
    id: "thin",
    program: None,
    targets: &["linear", "thin-pool", "thin"],
    modules: &["dm_mod", "dm_thin_pool"],
    accelerators: &[],
    sectors_below: |sectors| metadata_sectors(sectors) + round_up_to_blocks(sectors),
    make: |setup| make(setup, 1),
    finish_after_mkfs: nothing_to_finish,
};

/// The link with the id `thin-snapshot`: its device has a snapshot, taken when the filesystem was made.
pub const SNAPSHOT: LinkDef = LinkDef {
    id: "thin-snapshot",
    sectors_below: |sectors| metadata_sectors(sectors) + 2 * round_up_to_blocks(sectors),
    make: |setup| make(setup, 2),
    finish_after_mkfs: take_snapshot,
    ..LINK
};

/// The size of a block in sectors: the default of LVM.
const BLOCK_SECTORS: u64 = 128;

/// Rounds a number of sectors up to whole blocks.
fn round_up_to_blocks(sectors: u64) -> u64 {
    sectors.next_multiple_of(BLOCK_SECTORS)
}

/// The sectors for the metadata: 4 MiB, and 64 bytes for each block, twice for the copy that a transaction writes.
fn metadata_sectors(sectors: u64) -> u64 {
    let blocks = sectors / BLOCK_SECTORS;
    (4 << 20) / SECTOR_BYTES + (blocks * 2 * 64).div_ceil(SECTOR_BYTES).next_multiple_of(BLOCK_SECTORS)
}

/// Makes a pool with room for `copies` copies of all blocks, and the device in it.
fn make(setup: &LinkSetup, copies: u64) -> Result<PathBuf> {
    let LinkSetup { mapper, name, device_below, sectors, .. } = setup;
    let (metadata_sectors, data_sectors) = (metadata_sectors(*sectors), copies * round_up_to_blocks(*sectors));
    let metadata_part = mapper.make_part(&format!("{name}-metadata"), device_below, 0, metadata_sectors)?;
    let data_part = mapper.make_part(&format!("{name}-data"), device_below, metadata_sectors, data_sectors)?;
    clear_superblock(&metadata_part)?;
    let arguments = format!("{} {} {BLOCK_SECTORS} 0", metadata_part.display(), data_part.display());
    let pool = mapper.make(&pool_name(setup), &[DmTarget::whole(data_sectors, "thin-pool", arguments)])?;
    mapper.send_message(&pool_name(setup), "create_thin 0")?;
    mapper.make(name, &[DmTarget::whole(*sectors, "thin", format!("{} 0", pool.display()))])
}

/// The name of the device of the pool.
fn pool_name(setup: &LinkSetup) -> String {
    format!("{}-pool", setup.name)
}

/// Takes the snapshot, while the device is suspended so that no write is in progress.
fn take_snapshot(setup: &LinkSetup) -> Result<()> {
    setup.mapper.suspend(&setup.name)?;
    let taken = setup.mapper.send_message(&pool_name(setup), "create_snap 1 0");
    // Every access to a suspended device hangs, so it resumes even if the kernel refuses the snapshot.
    let resumed = setup.mapper.resume(&setup.name);
    taken.and(resumed.map(drop))
}
