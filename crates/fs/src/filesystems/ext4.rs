//! ext4: extents, delayed allocation, a journal. mkfs leaves inode tables to a kernel thread.

use crate::def::{DEFAULT, Describe, FsDef, MIB, NOATIME, OptionSet, Overhead, Traits, UNIX};

/// ext4.
pub const DEF: FsDef = FsDef {
    id: "ext4",
    title: "ext4",
    kernel_type: "ext4",
    mkfs: "mkfs.ext4",
    force: &["-F"],
    quiet: &[],
    feature_flag: Some("-O"),
    options: &[
        DEFAULT,
        NOATIME,
        OptionSet {
            id: "writeback",
            mkfs: &[],
            mount: &["data=writeback"],
            help: "file data may reach the disk after the metadata that names it",
        },
        OptionSet {
            id: "journal",
            mkfs: &[],
            mount: &["data=journal"],
            help: "file data goes through the journal too",
        },
        OptionSet {
            id: "nobarrier",
            mkfs: &[],
            mount: &["nobarrier"],
            help: "does not flush the device's cache: a power cut may lose what was said to be stored",
        },
        OptionSet {
            id: "no-journal",
            mkfs: &["-O", "^has_journal"],
            mount: &[],
            help: "no journal: a crash needs fsck",
        },
        OptionSet {
            id: "eager",
            mkfs: &["-E", "lazy_itable_init=0,lazy_journal_init=0"],
            mount: &[],
            help: "mkfs writes all inode tables and the journal, so that nothing is left to do after it",
        },
        OptionSet {
            id: "nodelalloc",
            mkfs: &[],
            mount: &["nodelalloc"],
            help: "allocates blocks when they are written to the cache, as ext3 does",
        },
    ],
    packages: &["e2fsprogs"],
    min_bytes: 64 * MIB,
    overhead: Overhead { fixed_bytes: 72 * MIB, percent: 8, per_file_bytes: 2560 },
    traits: Traits { lazy_init: true, ..UNIX },
    describe: Some(Describe {
        program: "dumpe2fs",
        args: &["-h"],
        lines: &[
            "Filesystem features:",
            "Default mount options:",
            "Inode count:",
            "Block count:",
            "Reserved block count:",
            "Block size:",
            "Inode size:",
            "Journal features:",
            "Total journal size:",
        ],
    }),
};
