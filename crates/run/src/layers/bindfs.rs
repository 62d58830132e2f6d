//! A FUSE filesystem that passes every request on, which shows the least cost of a filesystem in user space.

use super::def::{LayerDef, LayerSite, make_dirs, start_fuse_program};
use crate::executor::Log;
use fsarena_sys::Error;
use std::{convert::identity, process::Child};

/// The layer: bindfs, which has one thread and no cache.
pub const LAYER: LayerDef = LayerDef {
    id: "bindfs",
    max_count: 1,
    module: "fuse",
    programs: &[("bindfs", "bindfs")],
    room: identity,
    mount,
    copy_up: None,
    sync_file: None,
};

/// Serves a directory of the filesystem.
fn mount(site: &LayerSite, log: Log) -> Result<Option<Child>, Error> {
    let files = site.below.join("files");
    make_dirs(&files)?;
    start_fuse_program(site, &site.command(0)?.arg("-f").arg(&files).arg(&site.merged), log).map(Some)
}
