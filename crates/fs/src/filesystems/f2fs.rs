//! F2FS, a log-structured filesystem for flash.

use crate::def::*;

/// F2FS.
pub const DEF: FsDef = FsDef {
    id: "f2fs",
    title: "F2FS",
    mkfs: "mkfs.f2fs",
    fixed_arguments: &["-f"],
    feature_flag: Some("-O"),
    option_sets: &[
        DEFAULT,
        NOATIME,
        OptionSet::new("checksums", "checksums of inodes and superblock")
            .mkfs(&["-O", "extra_attr,inode_checksum,sb_checksum"]),
        OptionSet::new("nobarrier", "does not flush the device's cache").mount(&["nobarrier"]),
        OptionSet::new("strict", "fsync as POSIX requires it").mount(&["fsync_mode=strict"]),
        OptionSet::new(DURABLE, "fsync as POSIX requires it").mount(&["fsync_mode=strict"]),
        OptionSet::new(FAST_UNSAFE, "does not flush the device's cache").mount(&["nobarrier", "fsync_mode=nobarrier"]),
    ],
    features: "casefold compression encrypt extra_attr flexible_inline_xattr inode_checksum inode_crtime lost_found \
               project_quota quota ro sb_checksum verity",
    mount_names: "acl active_logs age_extent_cache alloc_mode alloc_mode=default alloc_mode=reuse atgc background_gc \
                  background_gc=off background_gc=on background_gc=sync barrier checkpoint checkpoint=disable \
                  checkpoint=enable checkpoint_merge compress_algorithm compress_algorithm=lz4 compress_algorithm=lzo \
                  compress_algorithm=lzo-rle compress_algorithm=zstd compress_cache compress_chksum compress_extension \
                  compress_log_size compress_mode compress_mode=fs compress_mode=user data_flush discard discard_unit \
                  discard_unit=block discard_unit=section discard_unit=segment disable_ext_identify \
                  disable_roll_forward errors errors=continue errors=panic errors=remount-ro extent_cache fastboot \
                  fault_injection fault_type flush_merge fsync_mode fsync_mode=nobarrier fsync_mode=posix \
                  fsync_mode=strict gc_merge inline_data inline_dentry inline_xattr inline_xattr_size inlinecrypt \
                  io_bits memory memory=low memory=normal mode mode=adaptive mode=lfs noacl nobarrier \
                  nocheckpoint_merge nodiscard noextent_cache noflush_merge nogc_merge noheap no_heap noinline_data \
                  noinline_dentry noinline_xattr nolazytime norecovery nouser_xattr quota read_extent_cache \
                  reserve_root resgid resuid user_xattr whint_mode",
    allowed_arguments: &[
        (ValueKind::Nothing, "-f -i -m -q -r"),
        (ValueKind::Plain, "-a -C -d -e -E -g -l -o -O -R -s -t -T -U -w -z"),
        (ValueKind::Path, "-c"),
    ],
    packages: &["f2fs-tools"],
    modules: &["crc32_generic"],
    min_bytes: 512 * MIB,
    overhead: Overhead { fixed_bytes: 256 * MIB, percent: 15, per_file_bytes: 4608 },
    traits: Traits { copy_on_write: true, ..UNIX_TRAITS },
    no_discard: (&["-t", "0"], "nodiscard"),
    describe_command: Some(DescribeCommand { program: "dump.f2fs", args: &["-d", "0"], lines: "" }),
    ..BASE
};
