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
        OptionSet::named("order-strict").mount(&["order=strict"]).help("writes data in the order of its changes"),
        OptionSet::named("nobarrier").mount(&["nobarrier"]).help("does not flush the device's cache"),
        OptionSet::named("nogc").mount(&["nogc"]).help("no cleaner runs in the background"),
        OptionSet::named(DURABLE).mount(&["order=strict"]).help("writes data in the order of its changes"),
        OptionSet::named(FAST_UNSAFE).mount(&["nobarrier", "order=relaxed"]).help("does not flush the device's cache"),
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
