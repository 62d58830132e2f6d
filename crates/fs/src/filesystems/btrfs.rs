//! Btrfs. Under 2 GiB its chunks are so small that it stalls for want of room.

use crate::def::{DEFAULT, Describe, FsDef, MIB, NOATIME, OptionSet, Overhead, Traits, UNIX};

/// Btrfs.
pub const DEF: FsDef = FsDef {
    id: "btrfs",
    title: "Btrfs",
    kernel_type: "btrfs",
    mkfs: "mkfs.btrfs",
    force: &["--force"],
    quiet: &[],
    feature_flag: Some("-O"),
    options: &[
        DEFAULT,
        NOATIME,
        OptionSet {
            id: "nodatacow",
            mkfs: &[],
            mount: &["nodatacow"],
            help: "overwrites file data in place; that turns data checksums off",
        },
        OptionSet { id: "nodatasum", mkfs: &[], mount: &["nodatasum"], help: "no checksums of file data" },
        OptionSet {
            id: "compress-zstd",
            mkfs: &[],
            mount: &["compress=zstd"],
            help: "compresses file data with zstd",
        },
        OptionSet {
            id: "single",
            mkfs: &["--metadata", "single"],
            mount: &[],
            help: "one copy of metadata where the default is two",
        },
    ],
    packages: &["btrfs-progs"],
    min_bytes: 2048 * MIB,
    overhead: Overhead { fixed_bytes: 512 * MIB, percent: 10, per_file_bytes: 3072 },
    traits: Traits { data_checksums: true, copy_on_write: true, reflink: true, ..UNIX },
    describe: Some(Describe {
        program: "btrfs",
        args: &["inspect-internal", "dump-super"],
        lines: &[
            "csum_type",
            "incompat_flags",
            "compat_ro_flags",
            "\t\t",
            "sectorsize",
            "nodesize",
            "total_bytes",
        ],
    }),
};
