//! ReiserFS and its successor Reiser4.

use crate::def::*;

/// ReiserFS 3.6, removed in Linux 6.13. With a single `-f` mkfs still asks for confirmation.
pub const REISERFS: FsDef = FsDef {
    id: "reiserfs",
    title: "ReiserFS",
    mkfs: "mkfs.reiserfs",
    fixed_arguments: &["-q", "-f", "-f"],
    option_sets: &[
        DEFAULT,
        NOATIME,
        OptionSet::new("notail", "does not pack the ends of small files into the tree").mount(&["notail"]),
        OptionSet::new("writeback", "file data may reach the disk after the metadata that names it")
            .mount(&["data=writeback"]),
        OptionSet::new("journal", "file data goes through the journal too").mount(&["data=journal"]),
        OptionSet::new(DURABLE, "file data goes through the journal too, caches are flushed")
            .mount(&["data=journal", "barrier=flush"]),
        OptionSet::new(FAST_UNSAFE, "data is not ordered, caches are not flushed")
            .mount(&["data=writeback", "barrier=none"]),
        OptionSet::new(TUNED_2011, "the dbench study of 2011: external journal")
            .mount(&["noatime", "nodiratime"])
            .journal("external")
            .changes("none"),
    ],
    kernel_range: Some(KernelRange { text: "Linux has it up to 6.12", debian: "6.1" }),
    mount_names: "acl alloc attrs barrier barrier=flush barrier=none block-allocator commit conv data data=journal \
                  data=ordered data=writeback errors errors=panic errors=ro expose_privroot grpquota hash hash=detect \
                  hash=r5 hash=rupasov hash=tea jqfmt noacl noattrs nolog notail nouser_xattr replayonly resize tails \
                  tails=off tails=on tails=small user_xattr usrquota",
    allowed_arguments: &[
        (ValueKind::Nothing, "-f --force -q --quiet -d --debug"),
        (ValueKind::Plain, "-b --block-size -h --hash --format -u --uuid -l --label -s --journal-size -o"),
        (ValueKind::Plain, "--journal-offset -t --transaction-max-size"),
        (ValueKind::Path, "-j --journal-device -B --badblocks"),
    ],
    pinned_flags: &[("-u --uuid", "")],
    packages: &["reiserfsprogs"],
    min_bytes: 128 * MIB,
    overhead: Overhead { fixed_bytes: 40 * MIB, percent: 4, per_file_bytes: 1024 },
    check: Some(CheckDef { program: "reiserfsck", repairs: &[], full_check: &["--check", "-y", "-q"] }),
    describe_command: Some(DescribeCommand { program: "debugreiserfs", args: &[], lines: "" }),
    journal: Some(JournalDef {
        min_bytes: 33 * MIB,
        default_bytes: 64 * MIB,
        make_command: None,
        mkfs: &["-j", "{}"],
        accepts_files: true,
        mount: "jdev={}",
        device_number_offsets: &[0x10000 + 16],
    }),
    ..BASE
};

/// Reiser4, never in the mainline kernel. Every operation is a transaction.
pub const REISER4: FsDef = FsDef {
    id: "reiser4",
    title: "Reiser4",
    mkfs: "mkfs.reiser4",
    fixed_arguments: &["--yes", "--force"],
    option_sets: &[
        DEFAULT,
        NOATIME,
        OptionSet::new(DURABLE, "the defaults: every operation is a transaction"),
        OptionSet::new(FAST_UNSAFE, "the defaults: Reiser4 has no protection that an option could turn off"),
    ],
    kernel_range: Some(KernelRange { text: "Linux does not include it; use a kernel with its patch", debian: "" }),
    mount_names: "atom_max_age atom_max_flushers atom_max_size atom_min_size bsdgroups discard dont_load_bitmap \
                  flush.relocate_threshold flush.scan_maxnodes mtflush.scan_nodes no_write_barrier onerror \
                  onerror=panic onerror=remount-ro optimal_io_size readahead.flags tmgr.atom_max_age \
                  tree.cbk_cache_slots txmod txmod=hybrid txmod=journal txmod=wa",
    allowed_arguments: &[
        (ValueKind::Nothing, "-y --yes -f --force -s --lost-found -d --discard"),
        (ValueKind::Plain, "-b --block-size -L --label -U --uuid -o --override"),
    ],
    packages: &["reiser4progs"],
    min_bytes: 128 * MIB,
    overhead: Overhead { fixed_bytes: 16 * MIB, percent: 8, per_file_bytes: 1024 },
    traits: Traits { direct_io: false, ..UNIX_TRAITS },
    describe_command: Some(DescribeCommand { program: "debugfs.reiser4", args: &["--yes"], lines: "" }),
    ..BASE
};
