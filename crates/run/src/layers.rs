//! Layers: directories over the mounted filesystem that the load works through, such as an overlay.
//!
//! A new layer needs one constant, in a separate file here or beside a similar one, and its line in `LAYERS`. A layer
//! is mounted on a directory inside the filesystem, on top of other directories there. Before the agent starts, the
//! executor has written the mount of the filesystem and that of the layer into its undo journal.

mod def;
mod fuse;
mod overlay;

use crate::device_layout::filesystem_of;
use crate::error::RunError;
use crate::executor::CommandLog;
use crate::packed_programs;
use crate::protocol::LayerRequest;
use def::{CopyUpDef, LayerDef, LayerSite, PROGRAM_TIMEOUT, make_dirs};
use fsarena_core::{cell::Variant, factor, names::unknown_name};
use fsarena_load::workload::Room;
use fsarena_sys::wait::{Cancel, wait_until};
use fsarena_sys::{Error, program};
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::Mutex;
use std::time::Instant;

/// Every layer.
const LAYERS: &[LayerDef] =
    &[overlay::OVERLAY_LAYER, overlay::OVERLAY_UPPER_LAYER, fuse::FUSE2FS_LAYER, fuse::BINDFS_LAYER];

/// The directory of a filesystem that its layer is mounted on.
const MERGED_DIR: &str = "merged";
/// The level that means no layer; an empty level means the same.
const NONE: &str = "none";
/// The program that serves the layer of this process; None without one. An agent mounts only one filesystem.
static LAYER_PROGRAM: Mutex<Option<Child>> = Mutex::new(None);
/// The files and bytes that [`count_new_copies`] has counted so far.
static COUNTED_COPIES: Mutex<(u64, u64)> = Mutex::new((0, 0));

/// Parses a level (`overlay:3`) into its layer and number; None for a level without a layer. The number of an overlay
/// is the number of its lower directories at the first mount; [`commit_written_files`] can add further ones.
///
/// # Errors
/// An invalid level; the message shows how to write one.
fn parse(level: &str) -> Result<Option<(&'static LayerDef, u32)>, String> {
    let (id, number) = level.split_once(':').map_or((level, None), |(id, number)| (id, Some(number)));
    if level.is_empty() || level == NONE {
        return Ok(None);
    }
    if id == NONE {
        return Err(format!("invalid layer `{level}`; write {NONE}, without a number"));
    }
    let ids = || LAYERS.iter().map(|layer| layer.id).chain([NONE]);
    let layer = LAYERS.iter().find(|layer| layer.id == id).ok_or_else(|| unknown_name("layer", id, ids()))?;
    let count =
        number.map_or(Some(1), |number| number.parse().ok().filter(|count| (1..=layer.max_count).contains(count)));
    match count {
        Some(count) if number.is_none() || layer.max_count > 1 => Ok(Some((layer, count))),
        _ if layer.max_count > 1 => {
            Err(format!("invalid layer `{level}`; write {id} or {id}:N, N from 1 to {}", layer.max_count))
        }
        _ => Err(format!("invalid layer `{level}`; write {id}, without a number")),
    }
}

/// Checks the syntax of a level.
///
/// # Errors
/// An invalid level; the message shows how to write one.
pub fn check_level(level: &str) -> Result<(), String> {
    parse(level).map(drop)
}

/// The layer and number of a level that has been checked; None for a level without a layer.
fn layer_of(level: &str) -> Option<(&'static LayerDef, u32)> {
    parse(level).ok().flatten()
}

/// Checks that a layer can lie over the filesystem of a variant.
///
/// # Errors
/// The variant has no filesystem, or one that is read-only or lacks owners, links or names that differ in case.
pub fn check_filesystem(variant: &Variant) -> Result<(), RunError> {
    let level = variant.level(factor::LAYER);
    let refused = |why: String| Err(RunError::in_variant(variant, format!("layer={level}: {why}")));
    if variant.level(factor::FS) == factor::RAW {
        return refused("a layer lies over a mounted filesystem, and fs=raw has none; leave out one of them".into());
    }
    let (def, _) = filesystem_of(variant)?;
    let id = def.id;
    if def.traits.read_only {
        return refused(format!(
            "its directories lie in the filesystem below, and {id} is read-only; leave out one of them"
        ));
    }
    if !def.traits.unix || !def.traits.case_sensitive {
        return refused(format!("{id} lacks owners, links or names that differ in case; take another filesystem"));
    }
    Ok(())
}

/// Checks that the programs of a level are installed on this machine; guests get copies of them.
///
/// # Errors
/// A missing program, with the command that installs it.
pub fn check_programs(level: &str) -> Result<(), String> {
    program::check_installed(programs(level))
}

/// The room that work needs on the filesystem under test with the layer of any of these variants. `work` is the room that
/// it needs without a layer.
pub fn room_with_layers(variants: &[Variant], work: Room) -> Room {
    let mut largest = work;
    for variant in variants {
        if let Some((layer, _)) = layer_of(variant.level(factor::LAYER)) {
            let Room { bytes, inodes, .. } = (layer.room)(work);
            largest = Room { bytes: largest.bytes.max(bytes), inodes: largest.inodes.max(inodes), ..largest };
        }
    }
    largest
}

/// Every kernel module that a layer can need.
pub const MODULES: [&str; 2] = ["overlay", "fuse"];

/// The kernel module of a level, which is also the kernel's name of its filesystem.
pub fn module(level: &str) -> Option<&'static str> {
    layer_of(level).map(|(layer, _)| layer.module)
}

/// The programs that a level needs, each with its Debian package.
pub fn programs(level: &str) -> &'static [(&'static str, &'static str)] {
    layer_of(level).map_or(&[], |(layer, _)| layer.programs)
}

/// The id of each layer: its level without a number.
pub fn layer_ids() -> impl Iterator<Item = &'static str> {
    LAYERS.iter().map(|layer| layer.id)
}

/// The directory in which the load works: the mount point of the layer, or without a layer the mount point `target`
/// of the filesystem.
pub fn layer_root(target: &Path, level: &str) -> PathBuf {
    if layer_of(level).is_some() { target.join(MERGED_DIR) } else { target.into() }
}

/// The request to set up the layer over the filesystem at `target`; None for a level without a layer. `source_dir` is
/// the directory of the source disk in a guest, which has the programs; None on this machine.
pub fn layer_request(level: &str, target: &Path, source_dir: Option<&Path>) -> Option<LayerRequest> {
    let (layer, _) = layer_of(level)?;
    let command = |(name, _): &(&str, &str)| match source_dir {
        Some(source_dir) => packed_programs::packed_command(source_dir, name).words(),
        None => program::fetched_command(name.as_ref()).map_or_else(
            || vec![name.to_string()],
            |words| words.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
        ),
    };
    Some(LayerRequest {
        level: level.into(),
        programs: layer.programs.iter().map(command).collect(),
        copies_up: layer.copy_up.is_some(),
        sync_file: layer.sync_file.map(|name| target.join(MERGED_DIR).join(name)),
    })
}

/// Mounts the layer over a mounted filesystem.
///
/// # Errors
/// A directory cannot be made, the kernel refuses the mount, or the program of the layer fails.
pub fn set_up(below: &Path, request: &LayerRequest, log: CommandLog) -> Result<(), Error> {
    let Some((layer, count)) = layer_of(&request.level) else { return Ok(()) };
    let site = LayerSite { below, merged: below.join(MERGED_DIR), count, programs: &request.programs };
    make_dirs(&site.merged)?;
    let program = (layer.mount)(&site, log)?;
    *LAYER_PROGRAM.lock().expect("no other thread") = program;
    Ok(())
}

/// Moves the files that were written through the layer so far to the directories below it. The layer must be unmounted.
///
/// # Errors
/// The filesystem refuses.
pub fn commit_written_files(below: &Path, request: &LayerRequest) -> Result<(), Error> {
    *COUNTED_COPIES.lock().expect("no other thread") = (0, 0);
    copy_up_def(request).map_or(Ok(()), |copy_up| (copy_up.commit)(below))
}

/// Counts the files that were copied up since the last call or [`commit_written_files`], and their bytes. Copies that
/// were deleted meanwhile are subtracted.
///
/// # Errors
/// The filesystem refuses.
pub fn count_new_copies(below: &Path, request: &LayerRequest) -> Result<(u64, u64), Error> {
    let (files, bytes) = copy_up_def(request).map_or(Ok((0, 0)), |copy_up| (copy_up.copied_up)(below))?;
    let mut counted = COUNTED_COPIES.lock().expect("no other thread");
    let growth = (files.saturating_sub(counted.0), bytes.saturating_sub(counted.1));
    *counted = (files, bytes);
    Ok(growth)
}

/// How the layer of a request copies files up; None if it does not.
fn copy_up_def(request: &LayerRequest) -> Option<&'static CopyUpDef> {
    layer_of(&request.level)?.0.copy_up.as_ref()
}

/// Waits until the program of an unmounted layer has ended. Until then it keeps the filesystem below in use.
///
/// # Errors
/// The program did not end in time, so fsarena killed it.
pub fn wait_for_program() -> Result<(), Error> {
    let Some(mut program) = LAYER_PROGRAM.lock().expect("no other thread").take() else { return Ok(()) };
    let mut exit_status = || program.try_wait().ok().flatten();
    if wait_until(Instant::now() + PROGRAM_TIMEOUT, Cancel::Never, &mut exit_status).is_ok() {
        return Ok(());
    }
    let _ = program.kill().and_then(|()| program.wait());
    let why = format!("it did not end within {} s after its mount had ended", PROGRAM_TIMEOUT.as_secs());
    Err(Error::Unusable { object: "the program of the layer".into(), why })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_layers_with_or_without_a_number() {
        let parsed = |level| parse(level).map(|layer| layer.map(|(layer, count)| (layer.id, count)));
        assert_eq!((parsed(""), parsed("none")), (Ok(None), Ok(None)));
        assert_eq!(parsed("overlay:3"), Ok(Some(("overlay", 3))));
        assert_eq!(parsed("fuse"), Ok(Some(("fuse", 1))));
        for wrong in ["overlay:", "overlay:0", "overlay:x", "fuse:2", "ovrelay", "none:2"] {
            assert!(parsed(wrong).is_err(), "{wrong}");
        }
        assert!(parsed("ovrelay").unwrap_err().contains("Did you mean `overlay`"));
        assert_eq!(parsed("none:2").unwrap_err(), "invalid layer `none:2`; write none, without a number");
    }

    #[test]
    fn the_load_works_in_the_mount_point_of_the_layer() {
        let mnt = Path::new("/mnt");
        assert_eq!((layer_root(mnt, ""), layer_root(mnt, "overlay")), ("/mnt".into(), "/mnt/merged".into()));
        let guest = layer_request("bindfs", mnt, Some(Path::new("/other"))).unwrap();
        let words = &guest.programs[0];
        assert!(words.last().unwrap().ends_with("/bindfs") && words[0].starts_with("/other/"));
        let overlay = layer_request("overlay", mnt, None).unwrap();
        assert!(overlay.programs.is_empty() && overlay.copies_up && overlay.sync_file.is_none());
        assert!(!layer_request("overlay-upper:2", mnt, None).unwrap().copies_up);
        let fuse = layer_request("fuse", mnt, Some(Path::new("/other"))).unwrap();
        assert_eq!((fuse.programs.len(), fuse.sync_file), (2, Some("/mnt/merged/.sync".into())));
        assert!(layer_request("none", mnt, None).is_none());
    }

    #[test]
    fn work_has_room_through_the_layer_that_needs_most() {
        let work = Room { bytes: 1 << 30, inodes: 1000, source_bytes: 7 };
        let variant = |level: &str| Variant {
            name: level.into(),
            levels: [(factor::LAYER.to_string(), level.to_string())].into(),
        };
        assert_eq!(room_with_layers(&[variant(""), variant("bindfs"), variant("overlay-upper")], work), work);
        let copied = room_with_layers(&[variant("fuse"), variant("overlay")], work);
        assert_eq!(copied, Room { bytes: 2 << 30, inodes: 2000, source_bytes: 7 });
        assert!(room_with_layers(&[variant("fuse")], work).bytes > work.bytes * 9 / 8);
    }

    #[test]
    fn every_module_of_a_layer_is_listed() {
        assert!(LAYERS.iter().all(|layer| MODULES.contains(&layer.module)));
    }
}
