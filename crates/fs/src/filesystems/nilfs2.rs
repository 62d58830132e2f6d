//! NILFS2, a log-structured filesystem with continuous snapshots. Its cleaner is a user process.

use crate::def::*;

/// NILFS2.
pub const DEF: FsDef = FsDef {
    id: "nilfs2",
    title: "NILFS2",
    mkfs: "mkfs.nilfs2",
    fixed_arguments: &["-q", "-f"],
    feature_flag: Some("-O"),
    option_sets: &[
        DEFAULT,
        NOATIME,
        OptionSet::new("order-strict", "writes data in the order of its changes").mount(&["order=strict"]),
        OptionSet::new("nobarrier", "does not flush the device's cache").mount(&["nobarrier"]),
        OptionSet::new("nogc", "no cleaner runs in the background").mount(&["nogc"]),
        OptionSet::new(DURABLE, "writes data in the order of its changes").mount(&["order=strict"]),
        OptionSet::new(FAST_UNSAFE, "does not flush the device's cache").mount(&["nobarrier", "order=relaxed"]),
    ],
    features: "block_count",
    mount_names: "barrier cp discard errors errors=continue errors=panic errors=remount-ro nobarrier nodiscard \
                  nogc norecovery order order=relaxed order=strict pp",
    allowed_arguments: &[(ValueKind::Nothing, "-c -f -K -q -v"), (ValueKind::Plain, "-b -B -L -m -O")],
    packages: &["nilfs-tools"],
    min_bytes: 512 * MIB,
    overhead: Overhead { fixed_bytes: 256 * MIB, percent: 20, per_file_bytes: 4608 },
    traits: Traits { copy_on_write: true, ..UNIX_TRAITS },
    no_discard: (&["-K"], ""),
    describe_command: Some(DescribeCommand { program: "nilfs-tune", args: &["-l"], lines: "" }),
    ..BASE
};
