//! Lazy initialisation of ext4: mkfs does not write the inode tables, and a kernel thread fills them with zeros after the
//! mount. The thread also does other work (it reads block bitmaps ahead), and starts at a random time within 5 s after the
//! mount. So only the group descriptors show whether tables are left to write.
//!
//! The kernel's documentation "ext4 Data Structures and Algorithms" describes the layout of the superblock and the block
//! group descriptors.

use crate::def::BackgroundWork;
use std::{fs::File, io, os::unix::fs::FileExt, path::Path};

/// The kernel thread that fills the inode tables of ext2, ext3 and ext4.
pub(crate) const EXT4LAZYINIT: BackgroundWork = BackgroundWork {
    thread: "ext4lazyinit",
    has_work: |device| Ok(inode_tables_left(device)?.is_some_and(|tables_left| tables_left > 0)),
    by_mkfs: Some(("-E", "lazy_itable_init=0")),
};

/// The offset of the superblock in bytes. The offsets of its fields below count from there.
const SUPERBLOCK_OFFSET: u64 = 1024;
const BLOCKS_LOW_OFFSET: usize = 0x4;
const FIRST_BLOCK_OFFSET: usize = 0x14;
/// Stored as log2(bytes / 1024).
const BLOCK_SIZE_OFFSET: usize = 0x18;
const BLOCKS_PER_GROUP_OFFSET: usize = 0x20;
const MAGIC_OFFSET: usize = 0x38;
const INCOMPATIBLE_FEATURES_OFFSET: usize = 0x60;
const READ_ONLY_FEATURES_OFFSET: usize = 0x64;
const DESCRIPTOR_SIZE_OFFSET: usize = 0xFE;
const BLOCKS_HIGH_OFFSET: usize = 0x150;
/// In a group descriptor: the offset of its flags.
const FLAGS_OFFSET: usize = 0x12;
const MAGIC: u16 = 0xEF53;
/// Read-only compatible features: `uninit_bg` and `metadata_csum`.
const GROUP_CHECKSUMS: u32 = 0x10 | 0x400;
const INCOMPAT_META_BG: u32 = 0x10;
const INCOMPAT_64BIT: u32 = 0x80;
const INODE_TABLE_ZEROED: u16 = 0x4;
/// The size of a group descriptor without the feature `64bit`, in bytes.
const SHORT_DESCRIPTOR_BYTES: u64 = 32;

/// The number of block groups whose inode table is not written yet. The filesystem may be mounted: the kernel changes the
/// descriptors in the page cache of the device, and this function reads through that cache.
///
/// Without group checksums mkfs writes all tables itself, so 0 are left. Returns `None` if the device has no ext2, ext3 or
/// ext4, or one whose descriptors are spread over the device (`meta_bg`).
///
/// # Errors
/// The device cannot be read.
fn inode_tables_left(device: &Path) -> io::Result<Option<usize>> {
    let device = File::open(device)?;
    let mut superblock = [0; 1024];
    device.read_exact_at(&mut superblock, SUPERBLOCK_OFFSET)?;
    let Some(groups) = GroupTable::parse(&superblock) else { return Ok(None) };
    if !groups.has_checksums {
        return Ok(Some(0));
    }
    let mut table = vec![0; (groups.count * groups.descriptor_bytes) as usize];
    device.read_exact_at(&mut table, groups.offset)?;
    let descriptors = table.chunks(groups.descriptor_bytes as usize);
    let is_table_left = |descriptor: &&[u8]| u16_at(descriptor, FLAGS_OFFSET) & INODE_TABLE_ZEROED == 0;
    Ok(Some(descriptors.filter(is_table_left).count()))
}

/// The location of the group descriptors.
#[derive(Debug, PartialEq)]
struct GroupTable {
    /// The number of block groups.
    count: u64,
    /// Whether the descriptors have checksums. Only then they record which inode tables are written.
    has_checksums: bool,
    descriptor_bytes: u64,
    /// The offset of the first descriptor in bytes.
    offset: u64,
}

impl GroupTable {
    /// Parses a superblock. None if it is invalid, or if the descriptors are spread over the device.
    fn parse(superblock: &[u8; 1024]) -> Option<GroupTable> {
        let incompatible = u32_at(superblock, INCOMPATIBLE_FEATURES_OFFSET);
        let has_checksums = u32_at(superblock, READ_ONLY_FEATURES_OFFSET) & GROUP_CHECKSUMS != 0;
        if u16_at(superblock, MAGIC_OFFSET) != MAGIC || incompatible & INCOMPAT_META_BG != 0 {
            return None;
        }
        let is_64bit = incompatible & INCOMPAT_64BIT != 0;
        let high_bits = if is_64bit { u64::from(u32_at(superblock, BLOCKS_HIGH_OFFSET)) << 32 } else { 0 };
        let blocks = high_bits | u64::from(u32_at(superblock, BLOCKS_LOW_OFFSET));
        let first_block = u64::from(u32_at(superblock, FIRST_BLOCK_OFFSET));
        let blocks_per_group = u64::from(u32_at(superblock, BLOCKS_PER_GROUP_OFFSET));
        // Blocks have at most 64 KiB, and a group has at most one block for each bit of a block.
        let block_bytes =
            1024_u64.checked_shl(u32_at(superblock, BLOCK_SIZE_OFFSET)).filter(|bytes| *bytes <= 1 << 16)?;
        if blocks_per_group == 0 || blocks_per_group > 8 * block_bytes || blocks <= first_block {
            return None;
        }
        let descriptor_bytes =
            if is_64bit { u64::from(u16_at(superblock, DESCRIPTOR_SIZE_OFFSET)) } else { SHORT_DESCRIPTOR_BYTES };
        if descriptor_bytes < SHORT_DESCRIPTOR_BYTES {
            return None;
        }
        let count = (blocks - first_block).div_ceil(blocks_per_group);
        Some(GroupTable { count, has_checksums, descriptor_bytes, offset: (first_block + 1) * block_bytes })
    }
}

fn u16_at(bytes: &[u8], offset: usize) -> u16 {
    u16::from_le_bytes([bytes[offset], bytes[offset + 1]])
}

fn u32_at(bytes: &[u8], offset: usize) -> u32 {
    u32::from_le_bytes([bytes[offset], bytes[offset + 1], bytes[offset + 2], bytes[offset + 3]])
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsarena_sys::argv::Argv;

    /// Makes a filesystem in a file of 300 MiB with blocks of 4 KiB, which has three groups, and returns `inode_tables_left`.
    fn tables_left_after(mkfs: &str, options: &[&str]) -> Option<usize> {
        let image = tempfile::NamedTempFile::new().unwrap();
        image.as_file().set_len(300 << 20).unwrap();
        let argv = Argv::new(mkfs).args(["-q", "-F", "-b", "4096"]).args(options).arg(image.path());
        argv.run_checked(&mut |_| {}).unwrap();
        inode_tables_left(image.path()).unwrap()
    }

    #[test]
    fn inode_tables_that_mkfs_left_are_counted() {
        assert_eq!(tables_left_after("mkfs.ext4", &["-E", "lazy_itable_init=1,nodiscard"]), Some(3));
        assert_eq!(tables_left_after("mkfs.ext4", &["-E", "lazy_itable_init=0"]), Some(0));
        assert_eq!(tables_left_after("mkfs.ext4", &["-E", "lazy_itable_init=1,nodiscard", "-O", "^64bit"]), Some(3));
    }

    #[test]
    fn without_group_checksums_no_table_is_left() {
        assert_eq!(tables_left_after("mkfs.ext2", &[]), Some(0));
        assert_eq!(tables_left_after("mkfs.ext3", &[]), Some(0));
    }

    #[test]
    fn other_layouts_and_filesystems_return_none() {
        assert_eq!(tables_left_after("mkfs.ext4", &["-O", "meta_bg,^resize_inode"]), None);
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(4096).unwrap();
        assert_eq!(inode_tables_left(file.path()).unwrap(), None);
        file.as_file().set_len(10).unwrap();
        assert!(inode_tables_left(file.path()).is_err());
    }

    #[test]
    fn impossible_superblocks_are_refused() {
        let mut superblock = [0xFF; 1024];
        assert_eq!(GroupTable::parse(&superblock), None);
        superblock[0x38..0x3A].copy_from_slice(&MAGIC.to_le_bytes());
        superblock[0x60..0x64].fill(0);
        assert_eq!(GroupTable::parse(&superblock), None);
    }
}
