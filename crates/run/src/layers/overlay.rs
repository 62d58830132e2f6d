//! overlayfs over directories of the filesystem under test, as containers use it.
//!
//! `lower1`, `lower2` … are the lower directories, the highest number on top, `upper` the upper one.

use super::def::{CopyUpDef, LayerDef, LayerSite, make_dirs};
use crate::executor::CommandLog;
use fsarena_load::workload::Room;
use fsarena_sys::{Error, mount};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::{convert::identity, fs::File, process::Child};
use walkdir::WalkDir;

/// The layer whose prepared files lie in a lower directory, like the files of a container image.
pub const OVERLAY_LAYER: LayerDef = LayerDef {
    id: "overlay",
    max_count: 16,
    module: "overlay",
    programs: &[],
    room: room_with_copies,
    mount: mount_overlay,
    copy_up: Some(CopyUpDef { commit, copied_up }),
    sync_file: None,
};

/// The layer whose files all lie in the upper directory, like files that a container makes itself.
pub const OVERLAY_UPPER_LAYER: LayerDef =
    LayerDef { id: "overlay-upper", room: identity, copy_up: None, ..OVERLAY_LAYER };

/// The upper directory.
const UPPER_DIR: &str = "upper";
/// The directory in which the kernel prepares copies.
const WORK_DIR: &str = "index";

/// The largest number of bytes that paths may take in the mount options. The kernel reads 4096 bytes of options.
const MAX_PATH_BYTES: usize = 3072;

/// The room for all files in a lower directory, and for their copies in the upper directory.
fn room_with_copies(work: Room) -> Room {
    let (bytes, inodes) = (work.bytes.saturating_mul(2), work.inodes.saturating_mul(2));
    Room { bytes, inodes, ..work }
}

/// Mounts an overlay. At the first mount it has `count` lower directories. Each has the directory that the load works
/// in, so that the kernel looks up every name in all of them.
fn mount_overlay(site: &LayerSite, log: CommandLog) -> Result<Option<Child>, Error> {
    if lower_dir_count(site.below) == 0 {
        for number in 1..=site.count {
            make_dirs(&lower_dir(site.below, number).join("work"))?;
        }
    }
    for dir in [UPPER_DIR, WORK_DIR] {
        make_dirs(&site.below.join(dir))?;
    }
    let dir = File::open(site.below).map_err(Error::io("opening", site.below))?;
    // The path may contain a comma or colon, which separate options and directories; and all options must fit into a
    // page.
    let (path, lower_count) = (site.below.to_string_lossy(), lower_dir_count(site.below));
    let needs_fd_path = path.contains([',', ':', '\\']) || path.len() * (lower_count as usize + 2) > MAX_PATH_BYTES;
    let fd = PathBuf::from(format!("/proc/self/fd/{}", dir.as_raw_fd()));
    let below = if needs_fd_path { &fd } else { site.below };
    let lower_dirs: Vec<String> =
        (1..=lower_count).rev().map(|number| lower_dir(below, number).display().to_string()).collect();
    let [upper, work] = [UPPER_DIR, WORK_DIR].map(|dir| below.join(dir).display().to_string());
    let options = format!("lowerdir={},upperdir={upper},workdir={work}", lower_dirs.join(":"));
    mount::mount_by_syscall(Path::new("overlay"), &site.merged, "overlay", &options, log)
        .map_err(Error::io("mounting an overlay on", &site.merged))?;
    Ok(None)
}

/// The path of a lower directory.
fn lower_dir(below: &Path, number: u32) -> PathBuf {
    below.join(format!("lower{number}"))
}

/// The number of lower directories.
fn lower_dir_count(below: &Path) -> u32 {
    (1..).take_while(|number| lower_dir(below, *number).exists()).count() as u32
}

/// Makes the upper directory the topmost lower directory, as `docker commit` does. It replaces the topmost lower
/// directory if that is empty, so that the files prepared for the first task do not add a directory.
fn commit(below: &Path) -> Result<(), Error> {
    let mut top = lower_dir(below, lower_dir_count(below));
    if std::fs::remove_dir(top.join("work")).and_then(|()| std::fs::remove_dir(&top)).is_err() {
        top = lower_dir(below, lower_dir_count(below) + 1);
    }
    let upper = below.join(UPPER_DIR);
    std::fs::rename(&upper, &top).map_err(Error::io("renaming", &upper))?;
    // The kernel may refuse a work directory that belonged to another upper directory.
    let work = below.join(WORK_DIR);
    std::fs::remove_dir_all(&work).map_err(Error::io("removing", &work))
}

/// The number and bytes of the files that overlayfs copied to the upper directory. It marks each with the attribute
/// `trusted.overlay.origin`.
fn copied_up(below: &Path) -> Result<(u64, u64), Error> {
    let upper = below.join(UPPER_DIR);
    let (mut files, mut bytes) = (0, 0);
    for entry in WalkDir::new(&upper) {
        let entry = entry.map_err(|error| Error::io("reading", &upper)(error.into()))?;
        let is_copy = || rustix::fs::lgetxattr(entry.path(), "trusted.overlay.origin", &mut [0; 256]).is_ok();
        if entry.file_type().is_file() && is_copy() {
            files += 1;
            bytes += entry.metadata().map_or(0, |meta| meta.len());
        }
    }
    Ok((files, bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn committed_files_lie_on_top_of_the_lower_directories() {
        let dir = tempfile::tempdir().unwrap();
        let below = dir.path();
        let make = |name: &str| std::fs::create_dir_all(below.join(name)).unwrap();
        make("lower1/work");
        make("lower2/work");
        for (number, expected) in [(1, 2), (2, 3)] {
            make("upper/work");
            make("index");
            std::fs::write(below.join("upper/work/file"), number.to_string()).unwrap();
            commit(below).unwrap();
            assert_eq!(lower_dir_count(below), expected);
            let content = std::fs::read(lower_dir(below, expected).join("work/file")).unwrap();
            assert_eq!(content, number.to_string().into_bytes());
            assert!(!below.join("upper").exists() && !below.join("index").exists());
        }
        assert!(lower_dir(below, 1).join("work").is_dir());
    }
}
