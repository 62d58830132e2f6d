//! ext2, ext3 and ext4, which share a mkfs (mke2fs) and a kernel driver.

use crate::def::*;

/// The options of mke2fs, which makes ext2, ext3 and ext4.
const MKE2FS: Grammar = &[
    (ValueKind::Nothing, "-c -D -F -j -K -q -S -v"),
    (ValueKind::Plain, "-b -C -e -g -G -i -I -L -m -N -o -O -r -T -U"),
    (ValueKind::Keys("fast_commit_size location size !device"), "-J"),
    (
        ValueKind::Keys(
            "assume_storage_prezeroed desc-size discard encoding encoding_flags hash_seed lazy_itable_init \
             lazy_journal_init mmp_update_interval no_copy_xattrs nodiscard num_backup_sb offset orphan_file_size \
             packed_meta_blocks quotatype resize revision root_owner root_perms stride stripe-width stripe_width \
             test_fs",
        ),
        "-E",
    ),
    (ValueKind::Path, "-d -l -M -z"),
];

/// Features of ext2, ext3 and ext4: ext4(5) of e2fsprogs 1.47.
const FEATURES: &str = "64bit bigalloc casefold dir_index dir_nlink ea_inode encrypt ext_attr extent extra_isize fast_commit \
                            filetype flex_bg has_journal huge_file inline_data large_dir large_file metadata_csum \
                            metadata_csum_seed meta_bg mmp orphan_file project quota resize_inode sparse_super \
                            sparse_super2 stable_inodes uninit_bg verity";

/// Mount options of the driver of ext2, ext3 and ext4: `Documentation/admin-guide/ext4.rst` of the kernel.
const MOUNT_NAMES: &str = "abort acl auto_da_alloc barrier block_validity bsddf commit dax dax=always dax=inode dax=never data \
                               data=journal data=ordered data=writeback data_err data_err=abort data_err=ignore debug \
                               delalloc dioread_lock dioread_nolock discard errors errors=continue errors=panic \
                               errors=remount-ro grpid grpquota i_version inlinecrypt inode_readahead_blks \
                               init_itable journal_async_commit journal_checksum journal_ioprio jqfmt max_batch_time \
                               max_dir_size_kb min_batch_time minixdf no_prefetch_block_bitmaps noacl \
                               noauto_da_alloc nobarrier noblock_validity nodelalloc nodiscard nogrpid \
                               noinit_itable nojournal_checksum noload noquota norecovery nouser_xattr prjquota quota \
                               resgid resuid sb stripe sysvgroups test_dummy_encryption user_xattr usrquota";

/// The check of ext3 and ext4. They need no repair before it: the mount after a power cut replays the journal.
const E2FSCK: CheckDef = CheckDef { program: "e2fsck", repairs: &[], full_check: &["-f", "-n"] };

/// The common part of the definitions of ext2, ext3 and ext4.
const E2FS: FsDef = FsDef {
    background_work: Some(crate::lazy_init::EXT4LAZYINIT),
    fixed_arguments: &["-F"],
    type_flag: Some("-t"),
    feature_flag: Some("-O"),
    features: FEATURES,
    mount_names: MOUNT_NAMES,
    allowed_arguments: MKE2FS,
    // The hash seed determines the order of directory entries, and so the amount of work. `-U` takes the UUID itself, not a
    // list, so it has no key.
    pinned_flags: &[("-U", ""), ("-E", "hash_seed=")],
    contents_argument: Some(ContentsArgument::Flag("-d")),
    packages: &["e2fsprogs"],
    min_bytes: 64 * MIB,
    overhead: Overhead { fixed_bytes: 72 * MIB, percent: 8, per_file_bytes: 2560 },
    bytes_per_inode: 16_384,
    // By default mke2fs discards all blocks, and the kernel discards none.
    no_discard: (&["-K"], ""),
    check: Some(E2FSCK),
    describe_command: Some(DescribeCommand {
        program: "dumpe2fs",
        args: &["-h"],
        lines: "Filesystem features:|Default mount options:|Inode count:|Block count:|Reserved block count:|\
                Block size:|Inode size:|Journal features:|Total journal size:",
    }),
    journal: Some(JournalDef {
        min_bytes: 8 * MIB,
        default_bytes: 128 * MIB,
        make_command: Some(&["mke2fs", "-q", "-F", "-O", "journal_dev", "-b", "4096"]),
        mkfs: &["-J", "device={}"],
        accepts_files: false,
        mount: "journal_path={}",
        device_number_offsets: &[],
    }),
    ..BASE
};

/// ext2: no journal, so nothing is ordered and a crash needs fsck.
pub const EXT2: FsDef = FsDef {
    id: "ext2",
    title: "ext2",
    mkfs: "mkfs.ext2",
    option_sets: &[
        DEFAULT,
        NOATIME,
        OptionSet::new(
            DURABLE,
            "changes of directories are synchronous; no option makes ext2 survive a crash without fsck",
        )
        .mount(&["dirsync"]),
        OptionSet::new(FAST_UNSAFE, "the defaults: ext2 has no protection that an option could turn off"),
        OptionSet::new(TUNED_2011, "the dbench study of 2011: the defaults of mkfs, no access times")
            .mount(&["noatime", "nodiratime"])
            .changes("none: nodiratime is part of noatime today"),
    ],
    overhead: Overhead { fixed_bytes: 8 * MIB, percent: 8, per_file_bytes: 2560 },
    traits: Traits { crash_safe: false, ..UNIX_TRAITS },
    check: Some(CheckDef { repairs: &[&["-p"], &["-y"]], ..E2FSCK }),
    journal: None,
    ..E2FS
};

/// ext3: ext2 with a journal. One directory holds at most 31,998 subdirectories.
pub const EXT3: FsDef = FsDef {
    id: "ext3",
    title: "ext3",
    mkfs: "mkfs.ext3",
    option_sets: &[
        DEFAULT,
        NOATIME,
        OptionSet::new("writeback", "file data may reach the disk after the metadata that names it")
            .mount(&["data=writeback"]),
        OptionSet::new("journal", "file data goes through the journal too").mount(&["data=journal"]),
        OptionSet::new(DURABLE, "file data goes through the journal too, caches are flushed")
            .mount(&["data=journal", "barrier=1"]),
        OptionSet::new(FAST_UNSAFE, "data is not ordered, caches are not flushed, a commit a minute")
            .mount(&["data=writeback", "barrier=0", "commit=60"]),
        OptionSet::new(TUNED_2011, "the dbench study of 2011: external journal, data=writeback, commit=30")
            .mount(&["noatime", "nodiratime", "data=writeback", "commit=30"])
            .journal("external")
            .changes("nobh is left out: since Linux 4.3 the ext4 driver mounts ext3 and ignores nobh. So extents in memory, delayed allocation and barriers are those of the ext4 driver. Barriers are on; in 2011 they were off"),
    ],
    ..E2FS
};

/// ext4: extents, delayed allocation, a journal. mkfs leaves inode tables to a kernel thread.
pub const EXT4: FsDef = FsDef {
    id: "ext4",
    title: "ext4",
    mkfs: "mkfs.ext4",
    option_sets: &[
        DEFAULT,
        NOATIME,
        OptionSet::new("writeback", "file data may reach the disk after the metadata that names it")
            .mount(&["data=writeback"]),
        OptionSet::new("journal", "file data goes through the journal too").mount(&["data=journal"]),
        OptionSet::new(
            "nobarrier",
            "does not flush the device's cache: a power cut may lose data that it reported as stored",
        )
        .mount(&["nobarrier"]),
        OptionSet::new("no-journal", "no journal: a crash needs fsck").mkfs(&["-O", "^has_journal"]),
        OptionSet::new("eager", "mkfs writes all inode tables and the journal, so that nothing is left to do after it")
            .mkfs(&["-E", "lazy_itable_init=0,lazy_journal_init=0"]),
        OptionSet::new("nodelalloc", "allocates blocks when they are written to the cache, as ext3 does")
            .mount(&["nodelalloc"]),
        OptionSet::new(DURABLE, "file data goes through the journal too, caches are flushed")
            .mount(&["data=journal", "barrier=1"]),
        OptionSet::new(FAST_UNSAFE, "no journal, and caches are not flushed")
            .mkfs(&["-O", "^has_journal"])
            .mount(&["nobarrier"]),
        OptionSet::new(
            TUNED_2011,
            "the dbench study of 2011: external journal, extents, no lazy initialisation, no barriers",
        )
        .mkfs(&["-O", "extent", "-E", "lazy_itable_init=0"])
        .mount(&["noatime", "nodiratime", "nobarrier"])
        .journal("external")
        .changes("mkfs turns on metadata_csum, 64bit and flex_bg; in 2011 it lacked them or left them off by default"),
    ],
    traits: Traits { lazy_init: true, ..UNIX_TRAITS },
    ..E2FS
};
