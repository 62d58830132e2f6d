//! NILFS2, a log-structured filesystem of continuous snapshots. Its cleaner runs as a process.

use crate::def::{
    BASE, DEFAULT, DURABLE, Describe, FAST_UNSAFE, FsDef, MIB, NOATIME, OptionSet, Overhead, PLAIN, Traits,
    UNIX,
};
use crate::grammar::Takes;

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
            id: "nogc",
            mkfs: &[],
            mount: &["nogc"],
            help: "no cleaner runs in the background",
            ..PLAIN
        },
        OptionSet {
            id: DURABLE,
            mkfs: &[],
            mount: &["order=strict"],
            help: "writes data in the order of its changes",
            ..PLAIN
        },
        OptionSet {
            id: FAST_UNSAFE,
            mkfs: &[],
            mount: &["nobarrier", "order=relaxed"],
            help: "does not flush the device's cache",
            ..PLAIN
        },
    ],
    features: "block_count",
    mount_names: "barrier cp discard errors errors=continue errors=panic errors=remount-ro nobarrier nodiscard \
                  nogc norecovery order order=relaxed order=strict pp",
    arguments: &[(Takes::Nothing, "-c -f -K -q -v"), (Takes::Value, "-b -B -L -m -O")],
    packages: &["nilfs-tools"],
    min_bytes: 512 * MIB,
    overhead: Overhead { fixed_bytes: 256 * MIB, percent: 20, per_file_bytes: 4608 },
    traits: Traits { copy_on_write: true, ..UNIX },
    no_discard: (&["-K"], ""),
    describe: Some(Describe { program: "nilfs-tune", args: &["-l"], lines: &[] }),
    ..BASE
};
