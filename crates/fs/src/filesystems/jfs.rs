//! JFS, IBM's journaling filesystem. `-q` is its "do not ask".

use crate::def::{DEFAULT, Describe, FsDef, MIB, NOATIME, OptionSet, Overhead, UNIX};

/// JFS.
pub const DEF: FsDef = FsDef {
    id: "jfs",
    title: "JFS",
    kernel_type: "jfs",
    mkfs: "mkfs.jfs",
    force: &["-q"],
    quiet: &[],
    feature_flag: None,
    options: &[
        DEFAULT,
        NOATIME,
        OptionSet {
            id: "iocharset",
            mkfs: &[],
            mount: &["iocharset=utf8"],
            help: "takes file names as UTF-8",
        },
    ],
    packages: &["jfsutils"],
    min_bytes: 64 * MIB,
    overhead: Overhead { fixed_bytes: 40 * MIB, percent: 6, per_file_bytes: 3072 },
    traits: UNIX,
    describe: Some(Describe { program: "jfs_tune", args: &["-l"], lines: &[] }),
};
