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
        OptionSet::named("default").help("the defaults of mksquashfs: gzip, blocks of 128 KiB"),
        OptionSet::named("noatime")
            .mount(&["noatime"])
            .help("like the defaults, because access times are never written"),
        OptionSet::named("lz4").mkfs(&["-comp", "lz4"]).help("compresses with lz4"),
        OptionSet::named("lz4hc")
            .mkfs(&["-comp", "lz4", "-Xhc"])
            .help("compresses with lz4 at its slower, higher level"),
        OptionSet::named("lzo").mkfs(&["-comp", "lzo"]).help("compresses with lzo"),
        OptionSet::named("zstd").mkfs(&["-comp", "zstd"]).help("compresses with zstd at level 15"),
        OptionSet::named("xz").mkfs(&["-comp", "xz"]).help("compresses with xz"),
        OptionSet::named("uncompressed")
            .mkfs(&["-noI", "-noD", "-noF", "-noX"])
            .help("compresses neither data nor metadata"),
        OptionSet::named("zstd-4k")
            .mkfs(&["-comp", "zstd", "-b", "4K"])
            .help("zstd in the smallest blocks, 4 KiB: cheap random reads, little compression"),
        OptionSet::named("zstd-64k").mkfs(&["-comp", "zstd", "-b", "64K"]).help("zstd in blocks of 64 KiB"),
        OptionSet::named("zstd-1m")
            .mkfs(&["-comp", "zstd", "-b", "1M"])
            .help("zstd in the largest blocks, 1 MiB: small images, expensive random reads"),
        OptionSet::named("no-fragments")
            .mkfs(&["-no-fragments"])
            .help("gives each small file and each end of a file its own block"),
        OptionSet::named(DURABLE).help("the defaults: nothing is written after mksquashfs"),
        OptionSet::named(FAST_UNSAFE).help("the defaults: squashfs has no protection that an option could turn off"),
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
