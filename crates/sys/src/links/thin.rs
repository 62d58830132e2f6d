//! Thin provisioning by dm-thin, which allocates a block of 64 KiB at its first write; and the same under a snapshot, where the
//! first write to each block copies it.

use super::def::{LinkDef, LinkSite, clear_superblock, nothing};
use crate::device_mapper::Target;
use std::{io::Result, path::PathBuf};

/// The link.
pub const LINK: LinkDef = LinkDef {
    id: "thin",
    program: None,
    targets: &["linear", "thin-pool", "thin"],
    modules: &["dm_mod", "dm_thin_pool"],
    faster: &[],
    below: |sectors| metadata(sectors) + whole_blocks(sectors),
    make: |site| make(site, 1),
    formatted: nothing,
};

/// The link whose device has a snapshot, taken when the filesystem was made.
pub const SNAPSHOT: LinkDef = LinkDef {
    id: "thin-snapshot",
    below: |sectors| metadata(sectors) + 2 * whole_blocks(sectors),
    make: |site| make(site, 2),
    formatted: take_snapshot,
    ..LINK
};

/// The size of a block in sectors: the default of LVM.
const BLOCK: u64 = 128;

fn whole_blocks(sectors: u64) -> u64 {
    sectors.next_multiple_of(BLOCK)
}

/// The sectors for the metadata: 4 MiB, and 64 bytes for each block, twice for the copy that a transaction writes.
fn metadata(sectors: u64) -> u64 {
    (4 << 20) / 512 + (sectors / BLOCK * 2 * 64).div_ceil(512).next_multiple_of(BLOCK)
}

/// Makes a pool with room for `copies` copies of all blocks, and the device in it.
fn make(site: &LinkSite, copies: u64) -> Result<PathBuf> {
    let LinkSite { mapper, name, below, sectors, .. } = site;
    let (metadata, data) = (metadata(*sectors), copies * whole_blocks(*sectors));
    let meta_part = mapper.part(&format!("{name}-metadata"), below, 0, metadata)?;
    let data_part = mapper.part(&format!("{name}-data"), below, metadata, data)?;
    clear_superblock(&meta_part)?;
    let words = format!("{} {} {BLOCK} 0", meta_part.display(), data_part.display());
    let pool = mapper.make(&pool_name(site), &[Target::whole(data, "thin-pool", words)])?;
    mapper.message(&pool_name(site), "create_thin 0")?;
    mapper.make(name, &[Target::whole(*sectors, "thin", format!("{} 0", pool.display()))])
}

fn pool_name(site: &LinkSite) -> String {
    format!("{}-pool", site.name)
}

fn take_snapshot(site: &LinkSite) -> Result<()> {
    site.mapper.suspend(&site.name)?;
    site.mapper.message(&pool_name(site), "create_snap 1 0")?;
    site.mapper.resume(&site.name).map(drop)
}
