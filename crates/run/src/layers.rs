//! Layers: what lies between the mounted filesystem and the load, directory to directory.
//!
//! A new layer is one constant, in a file of its own here, and its line in `LAYERS`. A layer is mounted on a directory
//! inside the filesystem, on top of other directories there. The executor has written both mounts into its undo journal
//! before the agent starts.

mod def;
mod fuse;
mod overlay;

use crate::error::RunError;
use crate::executor::Log;
use crate::guest_programs;
use crate::layout::filesystem_of;
use crate::protocol::LayerRequest;
use def::{LayerDef, LayerSite, PROGRAM_TIMEOUT, make_dirs};
use fsarena_core::{cell::Variant, factor, names::unknown};
use fsarena_sys::wait::{Cancel, wait_until};
use fsarena_sys::{Error, program};
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::Mutex;
use std::time::Instant;

/// Every layer.
const LAYERS: &[LayerDef] = &[overlay::LAYER, fuse::LAYER];

/// The directory of a filesystem that its layer is mounted on.
const MERGED: &str = "merged";
/// The level without a layer, like the empty one.
const NONE: &str = "none";
/// The program that serves the layer of this process's filesystem. An agent has one filesystem mounted.
static PROGRAM: Mutex<Option<Child>> = Mutex::new(None);

/// The layer of a level, and its number; None where the level has no layer.
///
/// # Errors
/// How a level is written.
fn parse(level: &str) -> Result<Option<(&'static LayerDef, u32)>, String> {
    let (id, number) = level.split_once(':').map_or((level, None), |(id, number)| (id, Some(number)));
    if level.is_empty() || level == NONE {
        return Ok(None);
    }
    let ids = || LAYERS.iter().map(|layer| layer.id).chain([NONE]);
    let layer = LAYERS.iter().find(|layer| layer.id == id).ok_or_else(|| unknown("layer", id, ids()))?;
    let count =
        number.map_or(Some(1), |number| number.parse().ok().filter(|count| (1..=layer.most).contains(count)));
    match count {
        Some(count) if number.is_none() || layer.most > 1 => Ok(Some((layer, count))),
        _ if layer.most > 1 => {
            Err(format!("invalid layer `{level}`; write {id} or {id}:N, N from 1 to {}", layer.most))
        }
        _ => Err(format!("invalid layer `{level}`; write {id}, without a number")),
    }
}

/// Checks a level.
///
/// # Errors
/// How a level is written.
pub fn check_level(level: &str) -> Result<(), String> {
    parse(level).map(drop)
}

/// The layer of a level that has been checked.
fn find(level: &str) -> Option<(&'static LayerDef, u32)> {
    parse(level).ok().flatten()
}

/// Checks that a variant has a filesystem that a layer can be over.
///
/// # Errors
/// If it has none, or one without owners, modes and links.
pub fn check_filesystem(variant: &Variant) -> Result<(), RunError> {
    let level = variant.level(factor::LAYER);
    let refused = |why: String| Err(RunError::variant(variant, format!("layer={level}: {why}")));
    if variant.level(factor::FS) == factor::RAW {
        return refused(
            "a layer lies over a mounted filesystem, and fs=raw has none; leave out one of them".into(),
        );
    }
    let (def, _) = filesystem_of(variant)?;
    let id = def.id;
    if def.traits.read_only {
        return refused(format!(
            "its directories lie in the filesystem below, and {id} is read-only; leave out one of them"
        ));
    }
    if !def.traits.unix || !def.traits.case_sensitive {
        return refused(format!(
            "{id} lacks owners, links or names that differ in case; take another filesystem"
        ));
    }
    Ok(())
}

/// Checks that the program of a level is installed here: guests get a copy of it.
///
/// # Errors
/// The program, and what installs it.
pub fn check_program(level: &str) -> Result<(), String> {
    match find(level).and_then(|(layer, _)| layer.program) {
        Some((name, package)) if program::find(name).is_none() => {
            Err(format!("{name} is not installed: apt-get install {package}"))
        }
        _ => Ok(()),
    }
}

/// Every kernel module that a layer can need.
pub const MODULES: [&str; 2] = ["overlay", "fuse"];

/// The kernel module of a level, which is the kernel's name of its filesystem too.
pub fn module(level: &str) -> Option<&'static str> {
    find(level).map(|(layer, _)| layer.module)
}

/// The program that a level needs, if any.
pub fn program(level: &str) -> Option<&'static str> {
    Some(find(level)?.0.program?.0)
}

/// The level of each layer, without a number.
pub fn ids() -> impl Iterator<Item = &'static str> {
    LAYERS.iter().map(|layer| layer.id)
}

/// The directory that the load works below: that of the layer, or without one the mounted filesystem.
pub fn root(target: &Path, level: &str) -> PathBuf {
    if find(level).is_some() { target.join(MERGED) } else { target.into() }
}

/// The request to set up a layer; None for a level without one. In a guest the programs are below the source disk.
pub fn request(level: &str, programs: Option<&Path>) -> Option<LayerRequest> {
    let (layer, _) = find(level)?;
    let command = |(name, _): (&str, &str)| match programs {
        Some(other) => guest_programs::command(other, name).words(),
        None => vec![name.into()],
    };
    Some(LayerRequest { level: level.into(), program: layer.program.map(command).unwrap_or_default() })
}

/// Mounts the layer over a mounted filesystem.
///
/// # Errors
/// If a directory cannot be made, the kernel refuses the mount, or the program of the layer fails.
pub fn set_up(below: &Path, request: &LayerRequest, log: Log) -> Result<(), Error> {
    let Some((layer, count)) = find(&request.level) else { return Ok(()) };
    let site = LayerSite { below, merged: below.join(MERGED), count, program: &request.program };
    make_dirs(&site.merged)?;
    let program = (layer.mount)(&site, log)?;
    *PROGRAM.lock().expect("no other thread") = program;
    Ok(())
}

/// Waits for the end of the program of a layer that has been unmounted: it keeps the filesystem below in use.
///
/// # Errors
/// If it does not end; then it is killed.
pub fn wait_for_program() -> Result<(), Error> {
    let Some(mut program) = PROGRAM.lock().expect("no other thread").take() else { return Ok(()) };
    let mut ended = || program.try_wait().ok().flatten();
    if wait_until(Instant::now() + PROGRAM_TIMEOUT, Cancel::Never, &mut ended).is_ok() {
        return Ok(());
    }
    let _ = program.kill().and_then(|()| program.wait());
    let why = format!("it did not end within {} s after its mount had ended", PROGRAM_TIMEOUT.as_secs());
    Err(Error::Unfit { what: "the program of the layer".into(), why })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_layers_with_or_without_a_number() {
        let parsed = |level| parse(level).map(|found| found.map(|(layer, count)| (layer.id, count)));
        assert_eq!((parsed(""), parsed("none")), (Ok(None), Ok(None)));
        assert_eq!(parsed("overlay:3"), Ok(Some(("overlay", 3))));
        assert_eq!(parsed("fuse"), Ok(Some(("fuse", 1))));
        for wrong in ["overlay:", "overlay:0", "overlay:x", "fuse:2", "ovrelay", "none:2"] {
            assert!(parsed(wrong).is_err(), "{wrong}");
        }
        assert!(parsed("ovrelay").unwrap_err().contains("Did you mean `overlay`"));
    }

    #[test]
    fn the_load_works_below_the_layer() {
        let mnt = Path::new("/mnt");
        assert_eq!((root(mnt, ""), root(mnt, "overlay")), ("/mnt".into(), "/mnt/merged".into()));
        let guest = request("fuse", Some(Path::new("/other"))).unwrap();
        assert!(
            guest.program.last().unwrap().ends_with("/bindfs") && guest.program[0].starts_with("/other/")
        );
        assert_eq!(request("fuse", None).unwrap().program, ["bindfs"]);
        assert!(request("none", None).is_none() && request("overlay", None).unwrap().program.is_empty());
    }

    #[test]
    fn every_module_of_a_layer_is_listed() {
        assert!(LAYERS.iter().all(|layer| MODULES.contains(&layer.module)));
    }
}
