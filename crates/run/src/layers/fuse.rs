//! Layers that a FUSE program serves in user space: fuse2fs, an ext4 on an image file, and bindfs, which passes every
//! request on.

use super::def::{LayerDef, LayerSite, make_dirs, start_fuse_program};
use crate::executor::CommandLog;
use fsarena_load::workload::Room;
use fsarena_sys::{Error, dirs::FilesystemSpace};
use std::os::unix::fs::PermissionsExt;
use std::{convert::identity, fs::File, fs::Permissions, path::Path, process::Child};

/// fuse2fs over an image file on the filesystem under test.
pub const FUSE2FS_LAYER: LayerDef = LayerDef {
    id: "fuse",
    max_count: 1,
    module: "fuse",
    programs: &[("fuse2fs", "fuse2fs"), ("mkfs.ext4", "e2fsprogs")],
    room: room_with_image,
    mount: mount_fuse2fs,
    copy_up: None,
    sync_file: Some(SYNC_FILE),
};

/// bindfs, which has one thread and no cache. It shows the least cost of a filesystem in user space.
pub const BINDFS_LAYER: LayerDef = LayerDef {
    id: "bindfs",
    programs: &[("bindfs", "bindfs")],
    room: identity,
    mount: mount_bindfs,
    sync_file: None,
    ..FUSE2FS_LAYER
};

/// fuse2fs has neither syncfs nor fsync of directories, but an fsync of any file that is open for writing writes
/// everything back.
const SYNC_FILE: &str = ".sync";
/// The size of a block in bytes. The image has an inode for each, so that small files do not use up the inodes.
const BLOCK_BYTES: u64 = 4096;
/// The bytes that the metadata of an empty image take at most.
const EMPTY_IMAGE_BYTES: u64 = 16 << 20;
/// Options of mkfs.ext4: no journal, because fuse2fs cannot write one; nothing random; inode tables that need no
/// initialisation.
const MKFS_OPTIONS: &str = "-q -F -O ^has_journal -b 4096 -i 4096 -m 0 -U 6b1f9f3c-2c58-4c5c-8a4b-0e6c62d6b9a7 \
    -E lazy_itable_init=1,nodiscard,hash_seed=6b1f9f3c-2c58-4c5c-8a4b-0e6c62d6b9a7";

/// The room for an image that has room for the work. A file takes up to a block more than its bytes, and an inode.
fn room_with_image(work: Room) -> Room {
    let bytes = work.bytes.saturating_add(work.inodes.saturating_mul(BLOCK_BYTES));
    let bytes = (bytes / 8).saturating_mul(9).saturating_add(EMPTY_IMAGE_BYTES);
    Room { bytes, inodes: 1, ..work }
}

/// Makes the image at the first mount, and serves it by fuse2fs with one thread.
fn mount_fuse2fs(site: &LayerSite, log: CommandLog) -> Result<Option<Child>, Error> {
    let image = site.below.join("fuse.img");
    let is_new = !image.exists();
    if is_new {
        make_image(site, &image, log)?;
    }
    // The workload can run as another user than the program.
    let argv = site.command(0)?.args(["-f", "-s", "-o", "allow_other"]).arg(&image).arg(&site.merged);
    let child = start_fuse_program(site, &argv, log)?;
    if is_new {
        let file = site.merged.join(SYNC_FILE);
        let made = File::create(&file).and_then(|file| file.set_permissions(Permissions::from_mode(0o666)));
        made.map_err(Error::io("making", &file))?;
    }
    Ok(Some(child))
}

/// Makes a sparse image of fifteen sixteenths of the free space; the rest is for the metadata of the filesystem below.
fn make_image(site: &LayerSite, image: &Path, log: CommandLog) -> Result<(), Error> {
    let free = FilesystemSpace::at_path(site.below)?.free_bytes().unwrap_or(0);
    let file = File::create(image).map_err(Error::io("making", image))?;
    file.set_len(free / 16 * 15 / BLOCK_BYTES * BLOCK_BYTES).map_err(Error::io("making", image))?;
    site.command(1)?.args(MKFS_OPTIONS.split_whitespace()).arg(image).run_checked(log)?;
    Ok(())
}

/// Serves a directory of the filesystem by bindfs.
fn mount_bindfs(site: &LayerSite, log: CommandLog) -> Result<Option<Child>, Error> {
    let files = site.below.join("files");
    make_dirs(&files)?;
    start_fuse_program(site, &site.command(0)?.arg("-f").arg(&files).arg(&site.merged), log).map(Some)
}
