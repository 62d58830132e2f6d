//! tmpfs, which keeps files in the page cache and has no device: the ceiling for what a filesystem can reach.

use crate::def::*;

/// tmpfs.
pub const DEF: FsDef = FsDef {
    id: "tmpfs",
    title: "tmpfs",
    option_sets: &[
        OptionSet::new("default", "the defaults of the kernel, with the size of the other filesystems"),
        NOATIME,
        OptionSet::new("huge-always", "allocates huge pages for every file, however small").mount(&["huge=always"]),
        OptionSet::new("huge-within-size", "allocates huge pages as far as a file fills them")
            .mount(&["huge=within_size"]),
        OptionSet::new("huge-advise", "allocates huge pages where a program asks for them by madvise")
            .mount(&["huge=advise"]),
        OptionSet::new("noswap", "never swaps files out (Linux 6.4)").mount(&["noswap"]),
        OptionSet::new(DURABLE, "the defaults: tmpfs stores nothing"),
        OptionSet::new(FAST_UNSAFE, "the defaults: tmpfs has no protection that an option could turn off"),
    ],
    size_options: "size={},nr_inodes=0",
    mount_names: "casefold gid gid_quota huge huge=advise huge=always huge=never huge=within_size inode32 inode64 mode \
                  mpol noswap nr_blocks nr_inodes quota size strict_encoding uid usrquota grpquota",
    min_bytes: 16 * MIB,
    // A file takes whole pages, and an inode and a directory entry of the kernel's memory.
    overhead: Overhead { fixed_bytes: MIB, percent: 1, per_file_bytes: 4096 },
    // Linux accepts direct I/O on tmpfs from 6.6 on, and copies from and to the page cache all the same.
    traits: Traits { crash_safe: false, barriers: false, direct_io: false, volatile: true, ..UNIX_TRAITS },
    ..BASE
};
