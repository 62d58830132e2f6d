//! F2FS, a log-structured filesystem for flash.

use crate::def::{DEFAULT, Describe, FsDef, MIB, NOATIME, OptionSet, Overhead, Traits, UNIX};

/// F2FS.
pub const DEF: FsDef = FsDef {
    id: "f2fs",
    title: "F2FS",
    kernel_type: "f2fs",
    mkfs: "mkfs.f2fs",
    force: &["-f"],
    quiet: &[],
    feature_flag: Some("-O"),
    options: &[
        DEFAULT,
        NOATIME,
        OptionSet {
            id: "checksums",
            mkfs: &["-O", "extra_attr,inode_checksum,sb_checksum"],
            mount: &[],
            help: "checksums of inodes and superblock",
        },
        OptionSet {
            id: "nobarrier",
            mkfs: &[],
            mount: &["nobarrier"],
            help: "does not flush the device's cache",
        },
        OptionSet { id: "strict", mkfs: &[], mount: &["fsync_mode=strict"], help: "fsync as POSIX words it" },
    ],
    packages: &["f2fs-tools"],
    min_bytes: 512 * MIB,
    overhead: Overhead { fixed_bytes: 256 * MIB, percent: 15, per_file_bytes: 4608 },
    traits: Traits { copy_on_write: true, ..UNIX },
    describe: Some(Describe { program: "dump.f2fs", args: &["-d", "0"], lines: &[] }),
};
