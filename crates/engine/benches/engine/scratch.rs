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

/// Bytes of a file in the page cache that the caches of the processor hold for the most part, so that a loop costs more
/// than the copying.
pub const SMALL_BYTES: u64 = 16 << 20;
/// Bytes of a file in the page cache that is larger than the caches of the processor, so that copying costs the most.
pub const LARGE_BYTES: u64 = 256 << 20;
/// Bytes of the file on the loop image.
pub const LOOP_BYTES: u64 = 256 << 20;

/// A temporary directory in memory where there is one: names are made fastest there, so that the loops
/// matter most.
pub fn in_memory() -> Result<TempDir, Failure> {
    Ok(tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir())?)
}

/// A prepared file in a temporary directory; in the page cache once it is written.
pub struct Cached {
    /// The file.
    pub files: Files,
    _dir: TempDir,
}

impl Cached {
    /// Prepares a file of this size.
    pub fn new(bytes: u64) -> Result<Cached, Failure> {
        let dir = tempfile::tempdir()?;
        Ok(Cached { files: prepare(dir.path(), bytes)?, _dir: dir })
    }
}

fn prepare(dir: &Path, bytes: u64) -> Result<Files, Failure> {
    let spec = FileSpec { count: 1, bytes, content: Content::Random, seed: 1, verified_block_bytes: None };
    Ok(Files::prepare(dir, &spec)?)
}

/// A prepared file on ext4 on a loop image in memory.
///
/// The benchmark compares how much of a device's throughput each generator reaches. The throughput of a disk can
/// double from one tenth of a second to the next, which hides the difference. An image in memory is a block device
/// too, and steady.
pub struct OnLoop {
    /// The file.
    pub files: Files,
    // Dropped in this order: unmounted, detached, removed.
    mounted: MountedFilesystem,
    _device: LoopDevice,
    _image: Image,
    _dirs: [TempDir; 2],
}

impl OnLoop {
    /// Makes the image, and the filesystem and file on it.
    pub fn new() -> Result<OnLoop, Failure> {
        let (images, target) = (in_memory()?, tempfile::tempdir()?);
        let journal = Journal::create(images.path(), "engine benchmark")?;
        let log = &mut |_| {};
        let image = image::create(&journal, &images.path().join("image"), 2 * LOOP_BYTES, true)?;
        let device = loopdev::attach(&journal, image.path(), LoopOptions { direct_io: true, discard: true }, log)?;
        Argv::new("mkfs.ext4").args(["-q", "-F"]).arg(device.path()).run_checked(log)?;
        let mounted = mount::mount(&journal, log, device.path(), target.path(), "ext4", "")?;
        let files = prepare(mounted.target(), LOOP_BYTES)?;
        Ok(OnLoop { files, mounted, _device: device, _image: image, _dirs: [images, target] })
    }

    /// Where it is mounted.
    #[allow(dead_code)]
    pub fn dir(&self) -> &Path {
        self.mounted.target()
    }
}
