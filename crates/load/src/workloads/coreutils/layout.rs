//! Where the files of the workload are, and how many and how large they are.

use crate::{source::generated_files, workload::Job};
use std::path::PathBuf;

/// The archive on either disk.
pub const TARBALL: &str = "tree.tar";
/// The file of 1 GiB.
pub const BIG: &str = "big";
/// The file that is split.
pub const SMALL: &str = "small";

/// The paths of the workload.
pub struct Layout {
    /// The filesystem under test.
    pub root: PathBuf,
    /// The source disk.
    pub other: PathBuf,
}

impl Layout {
    /// The archive that all cells share, on the other disk.
    pub fn input(&self) -> PathBuf {
        self.other.join(TARBALL)
    }

    /// Where the archive is copied back to.
    pub fn copied_out(&self) -> PathBuf {
        self.other.join("tree-copied-out.tar")
    }

    /// Something on the filesystem under test.
    pub fn named(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }
}

/// The counts and sizes at the scale of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sizes {
    /// Files that are touched.
    pub files: u64,
    /// Directories that are made.
    pub directories: u64,
    /// Files of the generated tree; none where the tree is a real one.
    pub tree_files: Option<u64>,
    /// Copies of the archive.
    pub copies: u64,
    /// The big file.
    pub big_mebibytes: u64,
    /// The file that is split.
    pub small_bytes: u64,
}

impl Sizes {
    /// The sizes of a job.
    pub fn of(job: &Job) -> Sizes {
        let scale = job.scale;
        Sizes {
            files: scale.count(10_000, 20),
            directories: scale.count(10_000, 20),
            tree_files: job.settings.text("tree").is_empty().then(|| generated_files(job)),
            copies: 10,
            big_mebibytes: scale.count(1024, 1),
            small_bytes: scale.count(10 << 20, 32 << 10),
        }
    }
}
