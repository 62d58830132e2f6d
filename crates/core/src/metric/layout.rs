//! The readings of the layout of a filesystem: how its files lie on the device, and in which pieces its free space is.

use crate::sample::{Fold, ReadingDef, Unit};

/// The id of the task whose sample has the layout before the tasks of a cell.
pub const BEFORE: &str = "layout_before";
/// The id of the task whose sample has the layout after them.
pub const AFTER: &str = "layout_after";

/// The number of files whose extents were read.
pub const FILES: &str = "layout_files_count";
/// Contiguous pieces for each file.
pub const EXTENTS_PER_FILE: &str = "extents_per_file_ratio";
/// The share of the blocks of files that lie on the device right after the block before them in the file.
pub const LAYOUT_SCORE: &str = "layout_score_ratio";
/// The same share if all files are read one after another in the order of their directories.
pub const DYNAMIC_SCORE: &str = "dynamic_layout_score_ratio";
/// The number of pieces of free space.
pub const FREE_EXTENTS: &str = "free_extents_count";
/// The largest piece of free space.
pub const LARGEST_FREE: &str = "largest_free_extent_bytes";

/// The histogram of free space. Each class of free extents has a reading with their bytes, the size in bytes below which an
/// extent belongs to the class, and a name.
pub const FREE_CLASSES: [(&str, u64, &str); 5] = [
    ("free_under_64_kib_bytes", 64 << 10, "under 64 KiB"),
    ("free_64_kib_to_1_mib_bytes", 1 << 20, "64 KiB to 1 MiB"),
    ("free_1_mib_to_16_mib_bytes", 16 << 20, "1 to 16 MiB"),
    ("free_16_mib_to_256_mib_bytes", 256 << 20, "16 to 256 MiB"),
    ("free_from_256_mib_bytes", u64::MAX, "256 MiB and more"),
];

/// A reading of the state of the whole filesystem, which has no total over tasks.
const fn filesystem_state(reading: ReadingDef, help: &'static str) -> ReadingDef {
    reading.tasks(Fold::None).machine().help(help)
}

/// Free bytes in extents of one class.
const fn free_bytes(class: usize) -> ReadingDef {
    const HELP: &str = "bytes of the free extents whose size is in the class of the name (ext4, xfs, btrfs, f2fs)";
    filesystem_state(ReadingDef::neutral(FREE_CLASSES[class].0, Unit::Bytes), HELP)
}

/// Every reading of the layout.
pub const LAYOUT_READINGS: &[ReadingDef] = &[
    filesystem_state(
        ReadingDef::neutral(FILES, Unit::Count),
        "files with data whose extents FIEMAP reported: all of them, or whole directories at random if there are very many",
    ),
    filesystem_state(
        ReadingDef::lower(EXTENTS_PER_FILE, Unit::Ratio),
        "contiguous pieces of a file on the device, the mean of files with data; extents that touch are one piece",
    ),
    filesystem_state(
        ReadingDef::higher(LAYOUT_SCORE, Unit::Ratio),
        "layout score (Smith and Seltzer 1997): of the blocks of all files but the first of each, the share that follow the \
         block before; 1 if no file is fragmented",
    ),
    filesystem_state(
        ReadingDef::higher(DYNAMIC_SCORE, Unit::Ratio),
        "the same of one read of all files in the order of their directories, so the first block of a file counts too, after \
         the last one of the file before. Conway et al. (2017) take this from requests to the device, which include metadata; \
         this is from FIEMAP",
    ),
    filesystem_state(ReadingDef::lower(FREE_EXTENTS, Unit::Count), "pieces of free space (ext4, xfs, btrfs, f2fs)"),
    filesystem_state(
        ReadingDef::higher(LARGEST_FREE, Unit::Bytes),
        "the largest piece of free space (ext4, xfs, btrfs, f2fs)",
    ),
    free_bytes(0),
    free_bytes(1),
    free_bytes(2),
    free_bytes(3),
    free_bytes(4),
];
