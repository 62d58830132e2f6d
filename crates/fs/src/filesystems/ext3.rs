//! ext3: ext2 with a journal. One directory holds at most 31,998 subdirectories.

use crate::{def::*, filesystems::ext2::E2FS};

/// ext3.
pub const DEF: FsDef = FsDef {
    id: "ext3",
    title: "ext3",
    mkfs: "mkfs.ext3",
    options: &[
        DEFAULT,
        NOATIME,
        OptionSet::named("writeback")
            .mount(&["data=writeback"])
            .help("file data may reach the disk after the metadata that names it"),
        OptionSet::named("journal").mount(&["data=journal"]).help("file data goes through the journal too"),
        OptionSet::named(DURABLE)
            .mount(&["data=journal", "barrier=1"])
            .help("file data goes through the journal too, caches are flushed"),
        OptionSet::named(FAST_UNSAFE)
            .mount(&["data=writeback", "barrier=0", "commit=60"])
            .help("data is not ordered, caches are not flushed, a commit a minute"),
        OptionSet::named(TUNED_2011)
            .mount(&["noatime", "nodiratime", "data=writeback", "commit=30"])
            .journal("external")
            .help("the dbench study of 2011: external journal, data=writeback, commit=30")
            .changes("nobh is left out: the kernel ignores it since ext4 does the work of ext3 (4.3); so extents of memory, delayed allocation and barriers are those of that driver, and barriers are on, which they were not in 2011"),
    ],
    ..E2FS
};
