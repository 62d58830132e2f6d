//! OpenZFS, a copy-on-write filesystem in a pool of devices. Linux has no driver for it; fsarena compiles the modules of
//! Debian's zfs-dkms for guest kernels.

use crate::def::*;

/// OpenZFS.
pub const DEF: FsDef = FsDef {
    id: "zfs",
    title: "OpenZFS",
    mkfs: "zpool",
    fixed_arguments: &["create", "-f", "-m", "legacy", "-o", "cachefile=none"],
    option_sets: &[
        OptionSet::new(
            "default",
            "the defaults of OpenZFS, with ashift=12: records of 128 KiB, lz4, checksums, relatime, xattr=sa",
        ),
        OptionSet { mkfs: &["-O", "atime=off"], mount: &[], ..NOATIME },
        OptionSet::new("no-compression", "stores file data as it is, like most other filesystems")
            .mkfs(&["-O", "compression=off"]),
        OptionSet::new("zstd", "compresses file data with zstd").mkfs(&["-O", "compression=zstd"]),
        OptionSet::new(
            "recordsize-16k",
            "records of 16 KiB, as advised for databases: less is read and written for a small overwrite",
        )
        .mkfs(&["-O", "recordsize=16K"]),
        OptionSet::new("recordsize-1m", "records of 1 MiB, as advised for large files").mkfs(&["-O", "recordsize=1M"]),
        OptionSet::new("no-checksums", "no checksums of file data; those of metadata stay")
            .mkfs(&["-O", "checksum=off"]),
        OptionSet::new(
            "primarycache-metadata",
            "its cache holds metadata only, as advised for programs with a cache of their own",
        )
        .mkfs(&["-O", "primarycache=metadata"]),
        OptionSet::new("logbias-throughput", "synced data goes to its place at once, and the log gets pointers to it")
            .mkfs(&["-O", "logbias=throughput"]),
        OptionSet::new("xattr-dir", "extended attributes in hidden files, as before OpenZFS 2.3")
            .mkfs(&["-O", "xattr=dir"]),
        OptionSet::new("ashift-9", "sectors of 512 bytes, as OpenZFS chooses by itself on devices that report them")
            .mkfs(&["-o", "ashift=9"]),
        OptionSet::new(DURABLE, "each write is in the log on the device before it returns")
            .mkfs(&["-O", "sync=always"]),
        OptionSet::new(
            FAST_UNSAFE,
            "fsync returns at once: a crash loses up to 5 seconds of synced data; no checksums of file data",
        )
        .mkfs(&["-O", "sync=disabled", "-O", "checksum=off", "-O", "atime=off"]),
    ],
    features: "ashift autotrim checksum compression recordsize sync",
    mount_names: "dirxattr nobmand noxattr saxattr xattr",
    allowed_arguments: &[
        (ValueKind::Nothing, "-d -f"),
        (ValueKind::Keys("ashift autotrim delegation failmode !altroot !cachefile !compatibility"), "-o"),
        (
            ValueKind::Keys(
                "acltype atime casesensitivity checksum compression copies dedup direct dnodesize logbias normalization \
                 prefetch primarycache recordsize redundant_metadata relatime secondarycache snapdir \
                 special_small_blocks sync utf8only xattr !keylocation !mountpoint !sharenfs !sharesmb",
            ),
            "-O",
        ),
        (ValueKind::Path, "-m -R"),
    ],
    packages: &["zfsutils-linux"],
    component: "contrib",
    kernel_range: Some(KernelRange { text: "no kernel of Debian has it", debian: "" }),
    min_bytes: 1024 * MIB,
    // ZFS reserves 1/32 of the pool, at least 128 MiB, and frees blocks only two transaction groups later. The overhead covers
    // both.
    overhead: Overhead { fixed_bytes: 256 * MIB, percent: 15, per_file_bytes: 2048 },
    traits: Traits { data_checksums: true, copy_on_write: true, reflink: true, compression: true, ..UNIX_TRAITS },
    check: Some(CheckDef { program: "zpool", repairs: &[], full_check: &["scrub", "-w", POOL_NAME] }),
    pool: Some(PoolDef {
        name: POOL_NAME,
        node: "/dev/fsarena-pool",
        // An option set can replace these properties (`recordsize-16k`).
        properties: &[
            ("-o", "ashift=12"),
            ("-O", "compression=lz4"),
            ("-O", "recordsize=128K"),
            ("-O", "relatime=on"),
            ("-O", "xattr=sa"),
        ],
        open: &["import", "-N", "-f", "-o", "cachefile=none", "-d", "/dev/fsarena-pool", POOL_NAME],
        close: &["export", POOL_NAME],
        sync: &["sync", POOL_NAME],
        health: (&["status", "-x", POOL_NAME], "is healthy"),
        cache_limit: ("/sys/module/zfs/parameters/zfs_arc_max", 64 * MIB),
    }),
    module_source: Some("zfs-dkms"),
    ..BASE
};

/// The name of the pool.
const POOL_NAME: &str = "fsarena";
