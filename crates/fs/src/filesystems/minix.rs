//! Minix version 3, a successor of the first filesystem of Linux. It has no journal, names of at most 60 bytes and files of at
//! most 2 GiB.

use crate::def::*;

/// Minix.
pub const DEF: FsDef = FsDef {
    id: "minix",
    title: "Minix",
    mkfs: "mkfs.minix",
    fixed_arguments: &["-3"],
    option_sets: &[
        DEFAULT,
        NOATIME,
        OptionSet::new(DURABLE, "changes of directories are synchronous").mount(&["dirsync"]),
        OptionSet::new(FAST_UNSAFE, "the defaults: Minix has no protection that an option could turn off"),
    ],
    // Not `-1` or `-2`: after `-3` they would make an older version, with shorter names and smaller files than in `traits`.
    allowed_arguments: &[
        (ValueKind::Nothing, "-3 -v -c --check"),
        (ValueKind::Plain, "-n --namelength -i --inodes"),
        (ValueKind::Path, "-l --badblocks"),
    ],
    packages: &["util-linux"],
    min_bytes: 64 * MIB,
    overhead: Overhead { fixed_bytes: 8 * MIB, percent: 2, per_file_bytes: 1216 },
    traits: Traits { crash_safe: false, barriers: false, name_bytes: 60, direct_io: false, ..UNIX_TRAITS },
    ..BASE
};
