//! F2FS, a log-structured filesystem for flash.

use crate::def::{
    BASE, DEFAULT, DURABLE, Describe, FAST_UNSAFE, FsDef, MIB, NOATIME, OptionSet, Overhead, PLAIN, Traits,
    UNIX,
};
use crate::grammar::Takes;

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
            ..PLAIN
        },
        OptionSet {
            id: "nobarrier",
            mkfs: &[],
            mount: &["nobarrier"],
            help: "does not flush the device's cache",
            ..PLAIN
        },
        OptionSet {
            id: "strict",
            mkfs: &[],
            mount: &["fsync_mode=strict"],
            help: "fsync as POSIX words it",
            ..PLAIN
        },
        OptionSet {
            id: DURABLE,
            mkfs: &[],
            mount: &["fsync_mode=strict"],
            help: "fsync as POSIX words it",
            ..PLAIN
        },
        OptionSet {
            id: FAST_UNSAFE,
            mkfs: &[],
            mount: &["nobarrier", "fsync_mode=nobarrier"],
            help: "does not flush the device's cache",
            ..PLAIN
        },
    ],
    arguments: &[
        (Takes::Nothing, "-f -i -m -q -r"),
        (Takes::Value, "-a -C -d -e -E -g -l -o -O -R -s -t -T -U -w -z"),
        (Takes::Path, "-c"),
    ],
    packages: &["f2fs-tools"],
    modules: &["crc32_generic"],
    min_bytes: 512 * MIB,
    overhead: Overhead { fixed_bytes: 256 * MIB, percent: 15, per_file_bytes: 4608 },
    traits: Traits { copy_on_write: true, ..UNIX },
    describe: Some(Describe { program: "dump.f2fs", args: &["-d", "0"], lines: &[] }),
    ..BASE
};
