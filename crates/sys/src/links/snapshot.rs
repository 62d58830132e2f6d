//! A device with a snapshot by dm-snapshot, taken when the filesystem was made: the first write to each chunk copies it.

use super::def::{LinkDef, LinkSite, clear_superblock};
use crate::device_mapper::Target;
use std::{io::Result, path::PathBuf};

/// The link.
pub const LINK: LinkDef = LinkDef {
    id: "snapshot",
    program: None,
    targets: &["linear", "snapshot", "snapshot-origin"],
    modules: &["dm_mod", "dm_snapshot"],
    faster: &[],
    below: |sectors| sectors + copies(sectors),
    make,
    formatted: take_snapshot,
};

/// The size of a chunk in sectors: the default of LVM.
const CHUNK: u64 = 8;

/// The sectors for the copies of all chunks: 16 bytes of metadata for each chunk, and rounding.
fn copies(sectors: u64) -> u64 {
    sectors + sectors / 128 + (8 << 20) / 512
}

/// Makes the parts for data and copies. Until the snapshot is taken, the device maps the data directly.
fn make(site: &LinkSite) -> Result<PathBuf> {
    let LinkSite { mapper, name, below, sectors, .. } = site;
    let data = mapper.part(&format!("{name}-data"), below, 0, *sectors)?;
    let copies = mapper.part(&format!("{name}-copies"), below, *sectors, copies(*sectors))?;
    clear_superblock(&copies)?;
    mapper.part(name, &data, 0, *sectors)
}

fn take_snapshot(site: &LinkSite) -> Result<()> {
    let LinkSite { mapper, name, sectors, .. } = site;
    mapper.suspend(name)?;
    // Resuming returns the path of the device.
    let [data, copies] = ["data", "copies"].map(|part| mapper.resume(&format!("{name}-{part}")));
    let (data, copies) = (data?, copies?);
    let words = format!("{} {} P {CHUNK}", data.display(), copies.display());
    mapper.make(&format!("{name}-snapshot"), &[Target::whole(*sectors, "snapshot", words)])?;
    let words = data.display().to_string();
    mapper.load(name, &[Target::whole(*sectors, "snapshot-origin", words)]).map(drop)
}
