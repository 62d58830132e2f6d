//! Reiser4, never in the mainline kernel. Every operation is a transaction.

use crate::def::*;

/// Reiser4.
pub const DEF: FsDef = FsDef {
    id: "reiser4",
    title: "Reiser4",
    mkfs: "mkfs.reiser4",
    always: &["--yes", "--force"],
    options: &[
        DEFAULT,
        NOATIME,
        OptionSet::named(DURABLE).help("as it is: every operation is a transaction"),
        OptionSet::named(FAST_UNSAFE).help("as it is: it keeps nothing that could be given up"),
    ],
    kernels: "Linux has never had it: a kernel with its patch, by --kernel PATH --modules DIR",
    mount_names: "atom_max_age atom_max_flushers atom_max_size atom_min_size bsdgroups discard dont_load_bitmap \
                  flush.relocate_threshold flush.scan_maxnodes mtflush.scan_nodes no_write_barrier onerror \
                  onerror=panic onerror=remount-ro optimal_io_size readahead.flags tmgr.atom_max_age \
                  tree.cbk_cache_slots txmod txmod=hybrid txmod=journal txmod=wa",
    arguments: &[
        (Takes::Nothing, "-y --yes -f --force -s --lost-found -d --discard"),
        (Takes::Value, "-b --block-size -L --label -U --uuid -o --override"),
    ],
    packages: &["reiser4progs"],
    min_bytes: 128 * MIB,
    overhead: Overhead { fixed_bytes: 16 * MIB, percent: 8, per_file_bytes: 1024 },
    traits: Traits { direct_io: false, ..UNIX },
    describe: Some(Describe { program: "debugfs.reiser4", args: &["--yes"], lines: "" }),
    ..BASE
};
