//! NILFS2, a log-structured filesystem of continuous snapshots. Its cleaner runs as a process.

use crate::def::{DEFAULT, Describe, FsDef, MIB, NOATIME, OptionSet, Overhead, Traits, UNIX};

/// NILFS2.
pub const DEF: FsDef = FsDef {
    id: "nilfs2",
    title: "NILFS2",
    kernel_type: "nilfs2",
    mkfs: "mkfs.nilfs2",
    force: &["-f"],
    quiet: &["-q"],
    feature_flag: Some("-O"),
    options: &[
        DEFAULT,
        NOATIME,
        OptionSet {
            id: "order-strict",
            mkfs: &[],
            mount: &["order=strict"],
            help: "writes data in the order of its changes",
        },
        OptionSet {
            id: "nobarrier",
            mkfs: &[],
            mount: &["nobarrier"],
            help: "does not flush the device's cache",
        },
        OptionSet { id: "nogc", mkfs: &[], mount: &["nogc"], help: "no cleaner runs in the background" },
    ],
    packages: &["nilfs-tools"],
    min_bytes: 512 * MIB,
    overhead: Overhead { fixed_bytes: 256 * MIB, percent: 20, per_file_bytes: 4608 },
    traits: Traits { copy_on_write: true, ..UNIX },
    describe: Some(Describe { program: "nilfs-tune", args: &["-l"], lines: &[] }),
};
