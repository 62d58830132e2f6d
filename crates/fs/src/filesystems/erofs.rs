//! EROFS, a read-only filesystem whose compression works towards blocks of fixed size on the device. mkfs.erofs packs a
//! directory into it.

use crate::def::*;
use std::{fs::File, io::Result, os::unix::fs::FileExt, path::Path};

/// EROFS.
pub const DEF: FsDef = FsDef {
    id: "erofs",
    title: "EROFS",
    mkfs: "mkfs.erofs",
    fixed_arguments: &["--quiet"],
    contents_argument: Some(ContentsArgument::Last),
    option_sets: &[
        OptionSet::new("default", "the defaults of mkfs.erofs: not compressed"),
        OptionSet::new("noatime", "like the defaults, because access times are never written").mount(&["noatime"]),
        OptionSet::new("lz4", "compresses with lz4 into blocks of 4 KiB").mkfs(&["-z", "lz4"]),
        OptionSet::new("lz4hc", "compresses with lz4 at its higher level, which takes mkfs longer")
            .mkfs(&["-z", "lz4hc"]),
        OptionSet::new(
            "lz4hc-64k",
            "lz4hc into physical clusters of up to 64 KiB: smaller images, more to read for each random read",
        )
        .mkfs(&["-z", "lz4hc", "-C", "65536"]),
        OptionSet::new("lz4hc-tail", "lz4hc, with the ends of files in the blocks of their inodes")
            .mkfs(&["-z", "lz4hc", "-E", "ztailpacking"])
            .mkfs_check(MkfsCheck {
                holds: |image| has_feature(image, ZTAILPACKING),
                fix: "it ignores ztailpacking: install erofs-utils 1.5 or newer",
            }),
        OptionSet::new("lz4hc-dedupe", "lz4hc into clusters of 64 KiB, ends of files packed together, equal data once")
            .mkfs(&["-z", "lz4hc", "-C", "65536", "-E", "fragments,dedupe,ztailpacking"])
            .mkfs_check(MkfsCheck {
                holds: |image| has_feature(image, FRAGMENTS),
                fix: "it ignores fragments and dedupe: install erofs-utils 1.6 or newer",
            }),
        OptionSet::new("lzma", "compresses with lzma into clusters of 64 KiB (mkfs with liblzma, Linux 5.16)")
            .mkfs(&["-z", "lzma", "-C", "65536"]),
        OptionSet::new("deflate", "compresses with deflate into clusters of 64 KiB (erofs-utils 1.7, Linux 6.6)")
            .mkfs(&["-z", "deflate", "-C", "65536"]),
        OptionSet::new("zstd", "compresses with zstd into clusters of 64 KiB (erofs-utils 1.8, Linux 6.10)")
            .mkfs(&["-z", "zstd", "-C", "65536"]),
        OptionSet::new(DURABLE, "the defaults: nothing is written after mkfs"),
        OptionSet::new(FAST_UNSAFE, "the defaults: EROFS has no protection that an option could turn off"),
    ],
    mount_names: "acl cache_strategy cache_strategy=disabled cache_strategy=readahead cache_strategy=readaround dax \
                  dax=always dax=never directio fsoffset noacl nouser_xattr user_xattr",
    allowed_arguments: &[
        (ValueKind::Nothing, "--quiet --all-root --ignore-mtime --preserve-mtime"),
        (ValueKind::Plain, "-z -C -T -U -x -d --chunksize --max-extent-bytes --workers --sort"),
        (
            ValueKind::Keys(
                "all-fragments dedupe force-inode-blockmap force-inode-compact force-inode-extended fragments legacy-compress nosbcrc noinline_data ztailpacking fragdedupe 48bit dot-omitted xattr-name-filter inline_data",
            ),
            "-E",
        ),
        (
            ValueKind::Path,
            "--blobdev --compress-hints --exclude-path --exclude-regex --file-contexts --aufs --ovlfs-strip --tar --clean",
        ),
    ],
    pinned_flags: &[("-U", "")],
    packages: &["erofs-utils"],
    // The driver loads modules for decompression by name.
    modules: &["lz4_decompress", "xz_dec", "zlib_inflate", "zstd_decompress", "libcrc32c"],
    min_bytes: 16 * MIB,
    overhead: Overhead { fixed_bytes: 8 * MIB, percent: 1, per_file_bytes: 512 },
    traits: Traits { direct_io: false, read_only: true, ..UNIX_TRAITS },
    describe_command: Some(DescribeCommand {
        program: "dump.erofs",
        args: &["-s"],
        lines: "Filesystem blocks|Filesystem inode count|Filesystem features",
    }),
    ..BASE
};

/// The offset, in bytes, of the features in the superblock that a kernel must know to mount the image.
const INCOMPATIBLE_FEATURES_OFFSET: u64 = 1024 + 80;
/// The bit of images whose ends of files lie in the blocks of inodes.
const ZTAILPACKING: u32 = 0x10;
/// The bit of images with fragments or with data that several files share.
const FRAGMENTS: u32 = 0x20;

/// Whether an image has the feature with this bit.
fn has_feature(image: &Path, bit: u32) -> Result<bool> {
    let mut features = [0; 4];
    File::open(image)?.read_exact_at(&mut features, INCOMPATIBLE_FEATURES_OFFSET)?;
    Ok(u32::from_le_bytes(features) & bit != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn features_are_read_from_the_superblock() {
        let file = tempfile::NamedTempFile::new().unwrap();
        assert!(has_feature(file.path(), FRAGMENTS).is_err());
        let mut image = vec![0; 4096];
        image[INCOMPATIBLE_FEATURES_OFFSET as usize] = 0x11;
        std::fs::write(file.path(), &image).unwrap();
        let has = |bit| has_feature(file.path(), bit).unwrap();
        assert!(has(ZTAILPACKING) && !has(FRAGMENTS));
        image[INCOMPATIBLE_FEATURES_OFFSET as usize] = 0x20;
        std::fs::write(file.path(), &image).unwrap();
        assert!(has(FRAGMENTS) && !has(ZTAILPACKING));
    }
}
