//! Btrfs. On devices under 2 GiB its chunks are so small that it stalls for lack of space.

use crate::def::*;

/// Btrfs.
pub const DEF: FsDef = FsDef {
    id: "btrfs",
    title: "Btrfs",
    mkfs: "mkfs.btrfs",
    fixed_arguments: &["--force"],
    feature_flag: Some("-O"),
    option_sets: &[
        DEFAULT,
        NOATIME,
        OptionSet::new("nodatacow", "overwrites file data in place; that turns data checksums off")
            .mount(&["nodatacow"]),
        OptionSet::new("nodatasum", "no checksums of file data").mount(&["nodatasum"]),
        OptionSet::new("compress-zstd", "compresses file data with zstd").mount(&["compress=zstd"]),
        OptionSet::new("single", "one copy of metadata where the default is two").mkfs(&["--metadata", "single"]),
        OptionSet::new(DURABLE, "each commit includes all data written before it").mount(&["flushoncommit"]),
        OptionSet::new(
            FAST_UNSAFE,
            "no barriers, data in place without checksums, one copy of metadata, a commit every two minutes",
        )
        .mkfs(&["--metadata", "single"])
        .mount(&["nobarrier", "nodatacow", "commit=120"]),
        OptionSet::new(
            TUNED_2011,
            "the dbench study of 2011: data and metadata striped over both devices, no barriers, space cache",
        )
        .mount(&["noatime", "nodiratime", "nobarrier", "space_cache=v2"])
        .raid("raid0")
        .changes("space_cache=v2 instead of the study's space_cache (v1), which cannot be mounted with the free-space-tree that mkfs makes today"),
    ],
    features: "block-group-tree extent-tree-v2 extref free-space-tree mixed-bg no-holes quota raid56 raid-stripe-tree \
               skinny-metadata squota zoned",
    mount_names: "acl autodefrag barrier clear_cache commit compress compress=lzo compress=no compress=zlib \
                  compress=zstd compress-force compress-force=lzo compress-force=zlib compress-force=zstd datacow \
                  datasum degraded discard discard=async discard=sync enospc_debug fatal_errors fatal_errors=bug \
                  fatal_errors=panic flushoncommit fragment max_inline metadata_ratio \
                  noacl noautodefrag nobarrier nodatacow nodatasum nodiscard noenospc_debug noflushoncommit \
                  nologreplay norecovery nospace_cache nossd nossd_spread notreelog rescan_uuid_tree rescue rescue=all \
                  rescue=ibadroots rescue=idatacsums rescue=ignorebadroots rescue=ignoredatacsums \
                  rescue=nologreplay rescue=usebackuproot skip_balance \
                  space_cache space_cache=v1 space_cache=v2 ssd ssd_spread subvol subvolid thread_pool treelog \
                  usebackuproot user_subvol_rm_allowed",
    allowed_arguments: &[
        (ValueKind::Nothing, "-M --mixed -K --nodiscard -f --force -q --quiet -v --verbose"),
        (ValueKind::Plain, "-b --byte-count --csum --checksum -d --data -m --metadata -n --nodesize -l"),
        (ValueKind::Plain, "--leafsize -s --sectorsize -L --label -O --features -R --runtime-features -U --uuid"),
        (ValueKind::Plain, "--device-uuid"),
        (ValueKind::Path, "-r --rootdir -u --subvol --inode-flags"),
    ],
    pinned_flags: &[("-U --uuid", "")],
    packages: &["btrfs-progs"],
    min_bytes: 2048 * MIB,
    overhead: Overhead { fixed_bytes: 512 * MIB, percent: 10, per_file_bytes: 3072 },
    traits: Traits { data_checksums: true, copy_on_write: true, reflink: true, ..UNIX_TRAITS },
    no_discard: (&["-K"], "nodiscard"),
    check: Some(CheckDef { program: "btrfs", repairs: &[], full_check: &["check", "--readonly"] }),
    describe_command: Some(DescribeCommand {
        program: "btrfs",
        args: &["inspect-internal", "dump-super"],
        // The names of the flags stand in lines of their own, which begin with tabs.
        lines: "csum_type|incompat_flags|compat_ro_flags|\t\t|sectorsize|nodesize|total_bytes",
    }),
    raid: Some(RaidDef { mkfs: &["--data", "{}", "--metadata", "{}"], mount: "device={}" }),
    ..BASE
};
