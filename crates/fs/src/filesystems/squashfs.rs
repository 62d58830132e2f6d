//! squashfs, a compressed read-only filesystem. mksquashfs packs a directory into it.

use crate::def::*;

/// squashfs.
pub const DEF: FsDef = FsDef {
    id: "squashfs",
    title: "squashfs",
    mkfs: "mksquashfs",
    fixed_arguments: &["-noappend", "-quiet", "-no-progress", "-no-recovery"],
    contents_argument: Some(ContentsArgument::First),
    option_sets: &[
        OptionSet::new("default", "the defaults of mksquashfs: gzip, blocks of 128 KiB"),
        OptionSet::new("noatime", "like the defaults, because access times are never written").mount(&["noatime"]),
        OptionSet::new("lz4", "compresses with lz4").mkfs(&["-comp", "lz4"]),
        OptionSet::new("lz4hc", "compresses with lz4 at its slower, higher level").mkfs(&["-comp", "lz4", "-Xhc"]),
        OptionSet::new("lzo", "compresses with lzo").mkfs(&["-comp", "lzo"]),
        OptionSet::new("zstd", "compresses with zstd at level 15").mkfs(&["-comp", "zstd"]),
        OptionSet::new("xz", "compresses with xz").mkfs(&["-comp", "xz"]),
        OptionSet::new("uncompressed", "compresses neither data nor metadata").mkfs(&["-noI", "-noD", "-noF", "-noX"]),
        OptionSet::new("zstd-4k", "zstd in the smallest blocks, 4 KiB: cheap random reads, little compression")
            .mkfs(&["-comp", "zstd", "-b", "4K"]),
        OptionSet::new("zstd-64k", "zstd in blocks of 64 KiB").mkfs(&["-comp", "zstd", "-b", "64K"]),
        OptionSet::new("zstd-1m", "zstd in the largest blocks, 1 MiB: small images, expensive random reads")
            .mkfs(&["-comp", "zstd", "-b", "1M"]),
        OptionSet::new("no-fragments", "gives each small file and each end of a file its own block")
            .mkfs(&["-no-fragments"]),
        OptionSet::new(DURABLE, "the defaults: nothing is written after mksquashfs"),
        OptionSet::new(FAST_UNSAFE, "the defaults: squashfs has no protection that an option could turn off"),
    ],
    mount_names: "errors errors=continue errors=panic threads threads=multi threads=percpu threads=single",
    allowed_arguments: &[
        (ValueKind::Nothing, "-noappend -quiet -no-progress -no-recovery -exports -no-exports -no-sparse -xattrs"),
        (ValueKind::Nothing, "-no-xattrs -noI -noId -noD -noF -noX -tailends -no-tailends -no-fragments"),
        (ValueKind::Nothing, "-always-use-fragments -no-duplicates -no-hardlinks -all-root -root-owned"),
        (ValueKind::Nothing, "-reproducible -not-reproducible -Xhc"),
        (ValueKind::Plain, "-comp -b -mkfs-time -all-time -processors -mem -Xcompression-level -Xwindow-size"),
        (ValueKind::Plain, "-Xstrategy -Xalgorithm -Xbcj -Xdict-size"),
        (ValueKind::Path, "-p -pf -sort -ef -e -recover -recovery-path -action-file -log-action-file -o -offset"),
    ],
    packages: &["squashfs-tools"],
    min_bytes: 16 * MIB,
    overhead: Overhead { fixed_bytes: 8 * MIB, percent: 1, per_file_bytes: 512 },
    traits: Traits { compression: true, direct_io: false, read_only: true, ..UNIX_TRAITS },
    describe_command: Some(DescribeCommand {
        program: "unsquashfs",
        args: &["-s"],
        lines: "Compression|Block size|\tcompression-level|Inodes are|Data is|Number of fragments",
    }),
    ..BASE
};
