//! ext4: extents, delayed allocation, a journal. mkfs leaves inode tables to a kernel thread.

use crate::{def::*, filesystems::ext2::E2FS};

/// ext4.
pub const DEF: FsDef = FsDef {
    id: "ext4",
    title: "ext4",
    mkfs: "mkfs.ext4",
    options: &[
        DEFAULT,
        NOATIME,
        OptionSet::named("writeback")
            .mount(&["data=writeback"])
            .help("file data may reach the disk after the metadata that names it"),
        OptionSet::named("journal").mount(&["data=journal"]).help("file data goes through the journal too"),
        OptionSet::named("nobarrier")
            .mount(&["nobarrier"])
            .help("does not flush the device's cache: a power cut may lose data that it reported as stored"),
        OptionSet::named("no-journal").mkfs(&["-O", "^has_journal"]).help("no journal: a crash needs fsck"),
        OptionSet::named("eager")
            .mkfs(&["-E", "lazy_itable_init=0,lazy_journal_init=0"])
            .help("mkfs writes all inode tables and the journal, so that nothing is left to do after it"),
        OptionSet::named("nodelalloc")
            .mount(&["nodelalloc"])
            .help("allocates blocks when they are written to the cache, as ext3 does"),
        OptionSet::named(DURABLE)
            .mount(&["data=journal", "barrier=1"])
            .help("file data goes through the journal too, caches are flushed"),
        OptionSet::named(FAST_UNSAFE)
            .mkfs(&["-O", "^has_journal"])
            .mount(&["nobarrier"])
            .help("no journal, and caches are not flushed"),
        OptionSet::named(TUNED_2011)
            .mkfs(&["-O", "extent", "-E", "lazy_itable_init=0"])
            .mount(&["noatime", "nodiratime", "nobarrier"])
            .journal("external")
            .help("the dbench study of 2011: external journal, extents, no lazy initialisation, no barriers")
            .changes(
                "mkfs turns on metadata_csum, 64bit and flex_bg, which it had not or not by default in 2011",
            ),
    ],
    traits: Traits { lazy_init: true, ..UNIX },
    ..E2FS
};
