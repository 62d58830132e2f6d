//! ext3: ext2 with a journal. One directory holds at most 31,998 subdirectories.

use crate::def::{
    BASE, DEFAULT, DURABLE, Describe, E2FSCK, FAST_UNSAFE, FsDef, JBD, MIB, NOATIME, OptionSet, Overhead,
    PLAIN, TUNED_2011, UNIX,
};
use crate::filesystems::ext2::{FEATURES, MKE2FS, MOUNT_NAMES};

/// ext3.
pub const DEF: FsDef = FsDef {
    id: "ext3",
    background: Some(crate::lazy::EXT4LAZYINIT),
    title: "ext3",
    kernel_type: "ext3",
    mkfs: "mkfs.ext3",
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
            ..PLAIN
        },
        OptionSet {
            id: "journal",
            mkfs: &[],
            mount: &["data=journal"],
            help: "file data goes through the journal too",
            ..PLAIN
        },
        OptionSet {
            id: DURABLE,
            mkfs: &[],
            mount: &["data=journal", "barrier=1"],
            help: "file data goes through the journal too, caches are flushed",
            ..PLAIN
        },
        OptionSet {
            id: FAST_UNSAFE,
            mkfs: &[],
            mount: &["data=writeback", "barrier=0", "commit=60"],
            help: "data is not ordered, caches are not flushed, a commit a minute",
            ..PLAIN
        },
        OptionSet {
            id: TUNED_2011,
            mkfs: &[],
            mount: &["noatime", "nodiratime", "data=writeback", "commit=30"],
            help: "the dbench study of 2011: external journal, data=writeback, commit=30",
            journal: "external",
            changes: "nobh is left out: the kernel ignores it since ext4 does the work of ext3 (4.3); so extents of memory, delayed allocation and barriers are those of that driver, and barriers are on, which they were not in 2011",
            ..PLAIN
        },
    ],
    features: FEATURES,
    mount_names: MOUNT_NAMES,
    arguments: MKE2FS,
    contents: Some("-d"),
    packages: &["e2fsprogs"],
    min_bytes: 64 * MIB,
    overhead: Overhead { fixed_bytes: 72 * MIB, percent: 8, per_file_bytes: 2560 },
    traits: UNIX,
    no_discard: (&["-K"], ""),
    check: Some(E2FSCK),
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
    journal: Some(JBD),
    ..BASE
};
