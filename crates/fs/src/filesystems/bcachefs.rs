//! bcachefs, a copy-on-write filesystem that kernels from 6.7 to 6.17 have.

use crate::def::*;

/// bcachefs.
pub const DEF: FsDef = FsDef {
    id: "bcachefs",
    title: "bcachefs",
    mkfs: "mkfs.bcachefs",
    fixed_arguments: &["--force", "--quiet"],
    option_sets: &[
        DEFAULT,
        NOATIME,
        OptionSet::new("no-checksums", "no checksums of file data; those of metadata stay")
            .mount(&["data_checksum=none"]),
        OptionSet::new("lz4", "compresses file data with lz4").mount(&["compression=lz4"]),
        OptionSet::new("zstd", "compresses file data with zstd").mount(&["compression=zstd"]),
        OptionSet::new("nocow", "overwrites file data in place, without checksums").mount(&["nocow"]),
        OptionSet::new(DURABLE, "the defaults of bcachefs, which flush the device's cache and keep checksums"),
        OptionSet::new(FAST_UNSAFE, "fsync does not flush the journal; no checksums of file data")
            .mount(&["journal_flush_disabled", "data_checksum=none"]),
    ],
    mount_names: "acl noacl compression compression=lz4 compression=none compression=zstd data_checksum \
                  data_checksum=crc32c data_checksum=crc64 data_checksum=none data_checksum=xxhash discard nodiscard \
                  errors errors=continue errors=panic errors=ro fsck journal_flush_delay journal_flush_disabled \
                  metadata_checksum nocow str_hash",
    allowed_arguments: &[
        (ValueKind::Nothing, "-f --force -q --quiet -v --verbose --acl --discard --inodes_32bit --nocow"),
        (ValueKind::Nothing, "--shard_inode_numbers --inodes_use_key_cache --journal_transaction_names"),
        (
            ValueKind::Plain,
            "--block_size --btree_node_size --bucket --errors --metadata_replicas --data_replicas --replicas",
        ),
        (ValueKind::Plain, "--encoded_extent_max --metadata_checksum --data_checksum --compression"),
        (ValueKind::Plain, "--background_compression --str_hash --gc_reserve_percent --gc_reserve_bytes"),
        (ValueKind::Plain, "--root_reserve_percent --superblock_size --fs_size -L --fs_label -U --uuid --version"),
        (ValueKind::Path, "--source"),
    ],
    packages: &["bcachefs-tools"],
    component: "experimental",
    kernel_range: Some(KernelRange { text: "Linux has it from 6.7 to 6.17", debian: "6.12" }),
    modules: &[
        "chacha_generic",
        "poly1305_generic",
        "sha256_generic",
        "crc64",
        "crc64_rocksoft_generic",
        "lz4",
        "zstd",
    ],
    min_bytes: 512 * MIB,
    overhead: Overhead { fixed_bytes: 64 * MIB, percent: 18, per_file_bytes: 1024 },
    traits: Traits { data_checksums: true, copy_on_write: true, reflink: true, ..UNIX_TRAITS },
    no_discard: (&[], "nodiscard"),
    describe_command: Some(DescribeCommand {
        program: "bcachefs",
        args: &["show-super"],
        lines: "Version:|Block size|Btree node size|Features|  metadata_checksum|  data_checksum|  compression",
    }),
    check: Some(CheckDef { program: "fsck.bcachefs", repairs: &[], full_check: &["-n"] }),
    ..BASE
};
