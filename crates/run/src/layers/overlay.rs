//! overlayfs over directories of the filesystem under test: what containers work on.

use super::def::{LayerDef, LayerSite, make_dirs};
use crate::executor::Log;
use fsarena_sys::{Error, mount};
use std::os::fd::AsRawFd;
use std::{fs::File, path::Path, process::Child};

/// The layer.
pub const LAYER: LayerDef = LayerDef { id: "overlay", most: 16, module: "overlay", program: None, mount };

/// Mounts an overlay of `count` lower directories. The directory that the load works in is in each of them, so that every
/// name in it is looked up in all.
fn mount(site: &LayerSite, log: Log) -> Result<Option<Child>, Error> {
    let lower: Vec<String> = (1..=site.count).map(|number| format!("lower{number}")).collect();
    for dir in lower.iter().map(|name| format!("{name}/work")).chain(["upper".into(), "index".into()]) {
        make_dirs(&site.below.join(dir))?;
    }
    let dir = File::open(site.below).map_err(Error::io("opening", site.below))?;
    // The options are separated by commas and the directories by colons, which the path may contain.
    let special = site.below.to_string_lossy().contains([',', ':', '\\']);
    let below =
        if special { format!("/proc/self/fd/{}", dir.as_raw_fd()) } else { site.below.display().to_string() };
    let lower: Vec<String> = lower.iter().map(|name| format!("{below}/{name}")).collect();
    let options = format!("lowerdir={},upperdir={below}/upper,workdir={below}/index", lower.join(":"));
    mount::mount_by_syscall(Path::new("overlay"), &site.merged, "overlay", &options, log)
        .map_err(Error::io("mounting an overlay on", &site.merged))?;
    Ok(None)
}
