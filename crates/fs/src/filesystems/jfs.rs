//! JFS, IBM's journaling filesystem. With `-q` its mkfs does not ask for confirmation.

use crate::def::*;

/// JFS.
pub const DEF: FsDef = FsDef {
    id: "jfs",
    title: "JFS",
    mkfs: "mkfs.jfs",
    fixed_arguments: &["-q"],
    option_sets: &[
        DEFAULT,
        NOATIME,
        OptionSet::new("iocharset", "takes file names as UTF-8").mount(&["iocharset=utf8"]),
        OptionSet::new(DURABLE, "the defaults: JFS has no option that makes it safer"),
        OptionSet::new(FAST_UNSAFE, "writes no journal: a crash needs fsck, or mkfs").mount(&["nointegrity"]),
        OptionSet::new(TUNED_2011, "the dbench study of 2011: external journal")
            .mount(&["noatime", "nodiratime"])
            .journal("external")
            .changes("none"),
    ],
    mount_names: "discard errors errors=continue errors=panic errors=remount-ro gid grpquota iocharset integrity \
                  nodiscard nointegrity noquota quota resize uid umask usrquota",
    allowed_arguments: &[(ValueKind::Nothing, "-c -O -q"), (ValueKind::Plain, "-L -s"), (ValueKind::Path, "-j -J")],
    packages: &["jfsutils"],
    min_bytes: 64 * MIB,
    overhead: Overhead { fixed_bytes: 40 * MIB, percent: 6, per_file_bytes: 3072 },
    check: Some(CheckDef { program: "jfs_fsck", repairs: &[&["-p"]], full_check: &["-f", "-n"] }),
    describe_command: Some(DescribeCommand { program: "jfs_tune", args: &["-l"], lines: "" }),
    journal: Some(JournalDef {
        min_bytes: 4 * MIB,
        default_bytes: 64 * MIB,
        make_command: Some(&["mkfs.jfs", "-q", "-J", "journal_dev"]),
        mkfs: &["-J", "device={}"],
        accepts_files: true,
        mount: "",
        device_number_offsets: &[0x8000 + 64, 0xf000 + 64],
    }),
    ..BASE
};
