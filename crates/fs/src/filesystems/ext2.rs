//! ext2: no journal, so nothing is ordered and a crash needs fsck.

use crate::def::{DEFAULT, Describe, FsDef, MIB, NOATIME, Overhead, Traits, UNIX};

/// ext2.
pub const DEF: FsDef = FsDef {
    id: "ext2",
    title: "ext2",
    kernel_type: "ext2",
    mkfs: "mkfs.ext2",
    force: &["-F"],
    quiet: &[],
    feature_flag: Some("-O"),
    options: &[DEFAULT, NOATIME],
    packages: &["e2fsprogs"],
    min_bytes: 64 * MIB,
    overhead: Overhead { fixed_bytes: 8 * MIB, percent: 8, per_file_bytes: 2560 },
    traits: Traits { crash_safe: false, ..UNIX },
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
