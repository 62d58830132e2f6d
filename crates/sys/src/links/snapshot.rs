//! A device with a snapshot by dm-snapshot, taken when the filesystem was made: the first write to each chunk copies it.

use super::def::{LinkDef, LinkSetup, clear_superblock};
use crate::device_mapper::Target;
use std::{io::Result, path::PathBuf};

/// The link.
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

/// The sectors for the copies of all chunks: 16 bytes of metadata for each chunk, and rounding.
fn copy_sectors(sectors: u64) -> u64 {
    sectors + sectors / 128 + (8 << 20) / 512
}

/// Makes the parts for data and copies. Until the snapshot is taken, the device maps the data directly.
fn make(setup: &LinkSetup) -> Result<PathBuf> {
    let LinkSetup { mapper, name, device_below, sectors, .. } = setup;
    let data = mapper.make_part(&format!("{name}-data"), device_below, 0, *sectors)?;
    let copies = mapper.make_part(&format!("{name}-copies"), device_below, *sectors, copy_sectors(*sectors))?;
    clear_superblock(&copies)?;
    mapper.make_part(name, &data, 0, *sectors)
}

fn take_snapshot(setup: &LinkSetup) -> Result<()> {
    let LinkSetup { mapper, name, sectors, .. } = setup;
    mapper.suspend(name)?;
    // Resuming returns the path of the device.
    let [data, copies] = ["data", "copies"].map(|part| mapper.resume(&format!("{name}-{part}")));
    let (data, copies) = (data?, copies?);
    let arguments = format!("{} {} P {CHUNK_SECTORS}", data.display(), copies.display());
    mapper.make(&format!("{name}-snapshot"), &[Target::whole(*sectors, "snapshot", arguments)])?;
    let arguments = data.display().to_string();
    mapper.replace_table(name, &[Target::whole(*sectors, "snapshot-origin", arguments)]).map(drop)
}
