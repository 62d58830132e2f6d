//! A device with a snapshot by dm-snapshot, taken when the filesystem was made: the first write to each chunk copies it.

use super::def::{LinkDef, LinkSetup, clear_superblock};
use crate::device_mapper::{DmTarget, SECTOR_BYTES};
use std::{io::Result, path::PathBuf};

/// The link with the id `snapshot`.
pub const LINK: LinkDef = LinkDef {
    id: "snapshot",
    program: None,
    targets: &["linear", "snapshot", "snapshot-origin"],
    modules: &["dm_mod", "dm_snapshot"],
    accelerators: &[],
    sectors_below: |sectors| sectors + copy_sectors(sectors),
    make,
    finish_after_mkfs: take_snapshot,
};

/// The size of a chunk in sectors: the default of LVM.
const CHUNK_SECTORS: u64 = 8;

/// Sectors for a copy of every chunk, twice the metadata (16 bytes a chunk), and 8 MiB for rounding.
fn copy_sectors(sectors: u64) -> u64 {
    sectors + sectors / 128 + (8 << 20) / SECTOR_BYTES
}

/// Makes the parts for data and copies. Until the snapshot is taken, the device maps the data directly.
fn make(setup: &LinkSetup) -> Result<PathBuf> {
    let LinkSetup { mapper, name, device_below, sectors, .. } = setup;
    let data = mapper.make_part(&format!("{name}-data"), device_below, 0, *sectors)?;
    let copies = mapper.make_part(&format!("{name}-copies"), device_below, *sectors, copy_sectors(*sectors))?;
    // dm-snapshot begins a new snapshot only if the header at the start of the copies is zero. It would continue an older
    // snapshot, and refuses any other header.
    clear_superblock(&copies)?;
    mapper.make_part(name, &data, 0, *sectors)
}

/// Takes the snapshot, and makes the device copy each chunk to it before the first write to the chunk. The device stays
/// suspended until the kernel has the new table, so that the snapshot contains no unfinished write and no write bypasses it.
fn take_snapshot(setup: &LinkSetup) -> Result<()> {
    let LinkSetup { mapper, name, .. } = setup;
    mapper.suspend(name)?;
    let taken = replace_suspended_table(setup);
    if taken.is_err() {
        // Every access to a suspended device hangs. The first error is the cause, so this one is ignored.
        let _ = mapper.resume(name);
    }
    taken
}

/// Makes the snapshot of the suspended device, replaces the table of the device, and resumes it.
fn replace_suspended_table(setup: &LinkSetup) -> Result<()> {
    let LinkSetup { mapper, name, sectors, .. } = setup;
    // The parts are active; resuming them changes nothing and returns their paths.
    let [data, copies] = ["data", "copies"].map(|part| mapper.resume(&format!("{name}-{part}")));
    let (data, copies) = (data?, copies?);
    // `P`: persistent; the metadata of the snapshot is stored on the device with the copies.
    let arguments = format!("{} {} P {CHUNK_SECTORS}", data.display(), copies.display());
    mapper.make(&format!("{name}-snapshot"), &[DmTarget::whole(*sectors, "snapshot", arguments)])?;
    let arguments = data.display().to_string();
    mapper.replace_table(name, &[DmTarget::whole(*sectors, "snapshot-origin", arguments)]).map(drop)
}
