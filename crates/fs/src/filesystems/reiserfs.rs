//! ReiserFS 3.6, removed in Linux 6.13. Given once, `-f` still asks.

use crate::def::{DEFAULT, Describe, FsDef, MIB, NOATIME, OptionSet, Overhead, UNIX};

/// ReiserFS.
pub const DEF: FsDef = FsDef {
    id: "reiserfs",
    title: "ReiserFS",
    kernel_type: "reiserfs",
    mkfs: "mkfs.reiserfs",
    force: &["-f", "-f"],
    quiet: &["-q"],
    feature_flag: None,
    options: &[
        DEFAULT,
        NOATIME,
        OptionSet {
            id: "notail",
            mkfs: &[],
            mount: &["notail"],
            help: "does not pack the ends of small files into the tree",
        },
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
    ],
    packages: &["reiserfsprogs"],
    min_bytes: 128 * MIB,
    overhead: Overhead { fixed_bytes: 40 * MIB, percent: 4, per_file_bytes: 1024 },
    traits: UNIX,
    describe: Some(Describe { program: "debugreiserfs", args: &[], lines: &[] }),
};
