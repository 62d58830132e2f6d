//! ext4: extents, delayed allocation, a journal. mkfs leaves inode tables to a kernel thread.

use crate::def::{
    BASE, DEFAULT, DURABLE, Describe, E2FSCK, FAST_UNSAFE, FsDef, JBD, MIB, NOATIME, OptionSet, Overhead,
    PLAIN, TUNED_2011, Traits, UNIX,
};
use crate::filesystems::ext2::{FEATURES, MKE2FS, MOUNT_NAMES};

/// ext4.
pub const DEF: FsDef = FsDef {
    id: "ext4",
    background: Some(crate::lazy::EXT4LAZYINIT),
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
            id: "nobarrier",
            mkfs: &[],
            mount: &["nobarrier"],
            help: "does not flush the device's cache: a power cut may lose data that it reported as stored",
            ..PLAIN
        },
        OptionSet {
            id: "no-journal",
            mkfs: &["-O", "^has_journal"],
            mount: &[],
            help: "no journal: a crash needs fsck",
            ..PLAIN
        },
        OptionSet {
            id: "eager",
            mkfs: &["-E", "lazy_itable_init=0,lazy_journal_init=0"],
            mount: &[],
            help: "mkfs writes all inode tables and the journal, so that nothing is left to do after it",
            ..PLAIN
        },
        OptionSet {
            id: "nodelalloc",
            mkfs: &[],
            mount: &["nodelalloc"],
            help: "allocates blocks when they are written to the cache, as ext3 does",
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
            mkfs: &["-O", "^has_journal"],
            mount: &["nobarrier"],
            help: "no journal, and caches are not flushed",
            ..PLAIN
        },
        OptionSet {
            id: TUNED_2011,
            mkfs: &["-O", "extent", "-E", "lazy_itable_init=0"],
            mount: &["noatime", "nodiratime", "nobarrier"],
            help: "the dbench study of 2011: external journal, extents, no lazy initialisation, no barriers",
            journal: "external",
            changes: "mkfs turns on metadata_csum, 64bit and flex_bg, which it had not or not by default in 2011",
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
    traits: Traits { lazy_init: true, ..UNIX },
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
