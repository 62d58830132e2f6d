//! ext3: ext2 with a journal. One directory holds at most 31,998 subdirectories.

use crate::def::{DEFAULT, Describe, FsDef, MIB, NOATIME, OptionSet, Overhead, Traits, UNIX};

/// ext3.
pub const DEF: FsDef = FsDef {
    id: "ext3",
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
        },
        OptionSet {
            id: "journal",
            mkfs: &[],
            mount: &["data=journal"],
            help: "file data goes through the journal too",
        },
    ],
    packages: &["e2fsprogs"],
    min_bytes: 64 * MIB,
    overhead: Overhead { fixed_bytes: 72 * MIB, percent: 8, per_file_bytes: 2560 },
    traits: Traits { max_entries: Some(31_998), ..UNIX },
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
