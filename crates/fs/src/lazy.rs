//! Lazy initialisation of ext4: mkfs does not write the inode tables; a kernel thread fills them with zeros after the
//! mount. The thread also does other work (it reads block bitmaps ahead), and begins at a random moment within 5 s of
//! the mount. Only the group descriptors show whether tables are left to write.
//!
//! The layout is that of the kernel's documentation, "ext4 Data Structures and Algorithms": superblock and
//! block group descriptors.

use crate::def::Background;
use std::{fs::File, io, os::unix::fs::FileExt, path::Path};

/// The kernel thread that fills the inode tables of ext2, ext3 and ext4.
pub(crate) const EXT4LAZYINIT: Background = Background {
    thread: "ext4lazyinit",
    has_work: |device| Ok(inode_tables_left(device)?.is_some_and(|(left, _)| left > 0)),
    by_mkfs: Some(("-E", "lazy_itable_init=0")),
};

const SUPERBLOCK_AT: u64 = 1024;
const MAGIC: u16 = 0xEF53;
/// Read-only compatible features: `uninit_bg` and `metadata_csum`.
const GROUP_CHECKSUMS: u32 = 0x10 | 0x400;
const INCOMPAT_META_BG: u32 = 0x10;
const INCOMPAT_64BIT: u32 = 0x80;
const INODE_TABLE_ZEROED: u16 = 0x4;
/// Descriptors have this size where the filesystem is not a 64-bit one.
const SHORT_DESCRIPTOR: u64 = 32;

/// Block groups whose inode table is still to be written, of how many. A mounted filesystem may be asked: the
/// kernel changes the descriptors in the page cache of the device, which is what is read here.
///
/// Without group checksums mkfs has to write all tables itself, so that none is left. None where that device holds no
/// ext2, ext3 or ext4, or one whose descriptors lie elsewhere (`meta_bg`).
///
/// # Errors
/// Where the device cannot be read.
fn inode_tables_left(device: &Path) -> io::Result<Option<(u64, u64)>> {
    let device = File::open(device)?;
    let mut superblock = [0; 1024];
    device.read_exact_at(&mut superblock, SUPERBLOCK_AT)?;
    let Some(groups) = Groups::of(&superblock) else { return Ok(None) };
    if !groups.checksummed {
        return Ok(Some((0, groups.count)));
    }
    let mut table = vec![0; (groups.count * groups.descriptor_bytes) as usize];
    device.read_exact_at(&mut table, groups.at)?;
    let left = table.chunks(groups.descriptor_bytes as usize).filter(|group| !is_zeroed(group)).count();
    Ok(Some((left as u64, groups.count)))
}

fn is_zeroed(descriptor: &[u8]) -> bool {
    u16_at(descriptor, 0x12) & INODE_TABLE_ZEROED != 0
}

/// Where the group descriptors lie.
#[derive(Debug, PartialEq)]
struct Groups {
    count: u64,
    /// Whether the descriptors have checksums: only then they also say what is initialised.
    checksummed: bool,
    descriptor_bytes: u64,
    at: u64,
}

impl Groups {
    /// None where there are none, and where they are spread over the device.
    fn of(superblock: &[u8; 1024]) -> Option<Groups> {
        let incompatible = u32_at(superblock, 0x60);
        let checksummed = u32_at(superblock, 0x64) & GROUP_CHECKSUMS != 0;
        if u16_at(superblock, 0x38) != MAGIC || incompatible & INCOMPAT_META_BG != 0 {
            return None;
        }
        let wide = incompatible & INCOMPAT_64BIT != 0;
        let high = if wide { u64::from(u32_at(superblock, 0x150)) << 32 } else { 0 };
        let blocks = high | u64::from(u32_at(superblock, 0x4));
        let first = u64::from(u32_at(superblock, 0x14));
        let per_group = u64::from(u32_at(superblock, 0x20));
        // Blocks are at most 64 KiB, and a group has as many as a block has bits.
        let block_bytes = 1024_u64.checked_shl(u32_at(superblock, 0x18)).filter(|bytes| *bytes <= 1 << 16)?;
        if per_group == 0 || per_group > 8 * block_bytes || blocks <= first {
            return None;
        }
        let descriptor_bytes = if wide { u64::from(u16_at(superblock, 0xFE)) } else { SHORT_DESCRIPTOR };
        if descriptor_bytes < SHORT_DESCRIPTOR {
            return None;
        }
        let count = (blocks - first).div_ceil(per_group);
        Some(Groups { count, checksummed, descriptor_bytes, at: (first + 1) * block_bytes })
    }
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsarena_sys::argv::Argv;

    /// What mkfs made of a file of 300 MiB: three groups of 128 MiB, as blocks are 4 KiB.
    fn made(mkfs: &str, options: &[&str]) -> Option<(u64, u64)> {
        let image = tempfile::NamedTempFile::new().unwrap();
        image.as_file().set_len(300 << 20).unwrap();
        let argv = Argv::new(mkfs).args(["-q", "-F", "-b", "4096"]).args(options).arg(image.path());
        argv.expect(&mut |_| {}).unwrap();
        inode_tables_left(image.path()).unwrap()
    }

    #[test]
    fn tables_that_mkfs_left_are_counted() {
        assert_eq!(made("mkfs.ext4", &["-E", "lazy_itable_init=1,nodiscard"]), Some((3, 3)));
        assert_eq!(made("mkfs.ext4", &["-E", "lazy_itable_init=0"]), Some((0, 3)));
        assert_eq!(made("mkfs.ext4", &["-E", "lazy_itable_init=1,nodiscard", "-O", "^64bit"]), Some((3, 3)));
    }

    #[test]
    fn without_checksums_nothing_is_left() {
        assert_eq!(made("mkfs.ext2", &[]), Some((0, 3)));
        assert_eq!(made("mkfs.ext3", &[]), Some((0, 3)));
    }

    #[test]
    fn what_does_not_tell_is_not_guessed() {
        assert_eq!(made("mkfs.ext4", &["-O", "meta_bg,^resize_inode"]), None);
        let other = tempfile::NamedTempFile::new().unwrap();
        other.as_file().set_len(4096).unwrap();
        assert_eq!(inode_tables_left(other.path()).unwrap(), None);
        other.as_file().set_len(10).unwrap();
        assert!(inode_tables_left(other.path()).is_err());
    }

    #[test]
    fn impossible_superblocks_are_refused() {
        let mut superblock = [0xFF; 1024];
        assert_eq!(Groups::of(&superblock), None);
        superblock[0x38..0x3A].copy_from_slice(&MAGIC.to_le_bytes());
        superblock[0x60..0x64].fill(0);
        assert_eq!(Groups::of(&superblock), None);
    }
}
