//! Files and a loop image for the benchmark, removed after each row.

use fsarena_engine::{Content, FileSpec, Files};
use fsarena_sys::image::{self, Image};
use fsarena_sys::loopdev::{self, LoopDevice, LoopOptions};
use fsarena_sys::mount::{self, MountedFilesystem};
use fsarena_sys::{argv::Argv, undo::Journal};
use std::path::Path;
use tempfile::TempDir;

/// Any error that ends the benchmark.
pub type Failure = Box<dyn std::error::Error>;

/// Bytes of a file in the page cache that mostly fits into the caches of the processor, so that a loop takes more time than the
/// copying.
pub const SMALL_BYTES: u64 = 16 << 20;
/// Bytes of a file in the page cache that is larger than the caches of the processor, so that copying takes the most time.
pub const LARGE_BYTES: u64 = 256 << 20;
/// Bytes of the file on the loop image.
pub const LOOP_BYTES: u64 = 256 << 20;

/// A temporary directory in memory if `/dev/shm` exists. Creating files is fastest there, so that differences between loops
/// show.
pub fn dir_in_memory() -> Result<TempDir, Failure> {
    Ok(tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir())?)
}

/// A prepared file in a temporary directory. It is in the page cache after it was written.
pub struct CachedFile {
    /// The file.
    pub files: Files,
    _dir: TempDir,
}

impl CachedFile {
    /// Prepares a file of this size.
    pub fn new(bytes: u64) -> Result<CachedFile, Failure> {
        let dir = tempfile::tempdir()?;
        Ok(CachedFile { files: prepare_file(dir.path(), bytes)?, _dir: dir })
    }
}

/// Prepares a file of this size in a directory.
fn prepare_file(dir: &Path, bytes: u64) -> Result<Files, Failure> {
    let spec =
        FileSpec { count: 1, bytes_per_file: bytes, content: Content::Random, seed: 1, verified_block_bytes: None };
    Ok(Files::prepare(dir, &spec)?)
}

/// A prepared file on ext4 on a loop image in memory.
///
/// The benchmark compares how much of a device's throughput each generator reaches. The throughput of a disk can double from
/// one tenth of a second to the next, which hides the difference. An image in memory is a block device with a steady
/// throughput.
pub struct FileOnLoop {
    /// The file.
    pub files: Files,
    // Dropped in this order: the filesystem is unmounted, the device detached, and the image removed.
    mounted: MountedFilesystem,
    _device: LoopDevice,
    _image: Image,
    _dirs: [TempDir; 2],
}

impl FileOnLoop {
    /// Makes the image, and the filesystem and file on it.
    pub fn new() -> Result<FileOnLoop, Failure> {
        let (images, target) = (dir_in_memory()?, tempfile::tempdir()?);
        let journal = Journal::create(images.path(), "engine benchmark")?;
        let log = &mut |_| {};
        let image = image::create(&journal, &images.path().join("image"), 2 * LOOP_BYTES, true)?;
        let device = loopdev::attach(&journal, image.path(), LoopOptions { direct_io: true, discard: true }, log)?;
        Argv::new("mkfs.ext4").args(["-q", "-F"]).arg(device.path()).run_checked(log)?;
        let mounted = mount::mount(&journal, log, device.path(), target.path(), "ext4", "")?;
        let files = prepare_file(mounted.target(), LOOP_BYTES)?;
        Ok(FileOnLoop { files, mounted, _device: device, _image: image, _dirs: [images, target] })
    }

    /// The directory in which the filesystem is mounted. The benchmark of `fsarena-load` uses it.
    #[allow(dead_code)]
    pub fn mount_dir(&self) -> &Path {
        self.mounted.target()
    }
}
