//! ext2: no journal, so nothing is ordered and a crash needs fsck.

use crate::def::{
    BASE, CheckDef, DEFAULT, DURABLE, Describe, E2FSCK, FAST_UNSAFE, FsDef, MIB, NOATIME, OptionSet,
    Overhead, PLAIN, TUNED_2011, Traits, UNIX,
};
use crate::grammar::{Grammar, Takes};

/// The options of mke2fs, which makes ext2, ext3 and ext4.
pub(super) const MKE2FS: Grammar = &[
    (Takes::Nothing, "-c -D -F -j -K -q -S -v"),
    (Takes::Value, "-b -C -e -g -G -i -I -L -m -N -o -O -r -T -U"),
    (Takes::Keys("fast_commit_size location size !device"), "-J"),
    (
        Takes::Keys(
            "assume_storage_prezeroed desc-size discard encoding encoding_flags hash_seed lazy_itable_init \
             lazy_journal_init mmp_update_interval no_copy_xattrs nodiscard num_backup_sb offset orphan_file_size \
             packed_meta_blocks quotatype resize revision root_owner root_perms stride stripe-width stripe_width \
             test_fs",
        ),
        "-E",
    ),
    (Takes::Path, "-d -l -M -z"),
];

/// Features of ext2, ext3 and ext4: ext4(5) of e2fsprogs 1.47.
pub(super) const FEATURES: &str = "64bit bigalloc casefold dir_index dir_nlink ea_inode encrypt ext_attr extent extra_isize fast_commit \
                            filetype flex_bg has_journal huge_file inline_data large_dir large_file metadata_csum \
                            metadata_csum_seed meta_bg mmp orphan_file project quota resize_inode sparse_super \
                            sparse_super2 stable_inodes uninit_bg verity";

/// Mount options of ext2, ext3 and ext4, for which kernels have one driver: `Documentation/admin-guide/ext4.rst`.
pub(super) const MOUNT_NAMES: &str = "abort acl auto_da_alloc barrier block_validity bsddf commit dax dax=always dax=inode dax=never data \
                               data=journal data=ordered data=writeback data_err data_err=abort data_err=ignore debug \
                               delalloc dioread_lock dioread_nolock discard errors errors=continue errors=panic \
                               errors=remount-ro grpid grpquota i_version inlinecrypt inode_readahead_blks \
                               init_itable journal_async_commit journal_checksum journal_ioprio jqfmt max_batch_time \
                               max_dir_size_kb min_batch_time minixdf no_prefetch_block_bitmaps noacl \
                               noauto_da_alloc nobarrier noblock_validity nodelalloc nodiscard nogrpid \
                               noinit_itable nojournal_checksum noload noquota norecovery nouser_xattr prjquota quota \
                               resgid resuid sb stripe sysvgroups test_dummy_encryption user_xattr usrquota";

/// ext2.
pub const DEF: FsDef = FsDef {
    id: "ext2",
    background: Some(crate::lazy::EXT4LAZYINIT),
    title: "ext2",
    kernel_type: "ext2",
    mkfs: "mkfs.ext2",
    force: &["-F"],
    quiet: &[],
    feature_flag: Some("-O"),
    options: &[
        DEFAULT,
        NOATIME,
        OptionSet {
            id: DURABLE,
            mkfs: &[],
            mount: &["dirsync"],
            help: "changes of directories are synchronous; no option makes ext2 survive a crash without fsck",
            ..PLAIN
        },
        OptionSet {
            id: FAST_UNSAFE,
            mkfs: &[],
            mount: &[],
            help: "as it is: ext2 keeps nothing that could be given up",
            ..PLAIN
        },
        OptionSet {
            id: TUNED_2011,
            mkfs: &[],
            mount: &["noatime", "nodiratime"],
            help: "the dbench study of 2011: as mkfs has it, no access times",
            changes: "none: nodiratime is part of noatime today",
            ..PLAIN
        },
    ],
    features: FEATURES,
    mount_names: MOUNT_NAMES,
    arguments: MKE2FS,
    contents: Some("-d"),
    packages: &["e2fsprogs"],
    min_bytes: 64 * MIB,
    overhead: Overhead { fixed_bytes: 8 * MIB, percent: 8, per_file_bytes: 2560 },
    traits: Traits { crash_safe: false, ..UNIX },
    no_discard: (&["-K"], ""),
    check: Some(CheckDef { before: &[&["-p"], &["-y"]], ..E2FSCK }),
    describe: Some(Describe {
        program: "dumpe2fs",
        args: &["-h"],
        lines: &[
            "Filesystem features:",
            "Default mount options:",
            "Inode count:",
            "Block count:",
            "Reserved block count:",
            "Block size:",
            "Inode size:",
            "Journal features:",
            "Total journal size:",
        ],
    }),
    ..BASE
};
