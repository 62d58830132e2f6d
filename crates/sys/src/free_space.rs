//! The free extents of a mounted filesystem, from what each filesystem offers: GETFSMAP of ext4 and xfs, the free space tree of
//! btrfs, and the segment bitmaps of f2fs.

use crate::{check_return, extents};
use rustix::io::Errno;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;

/// The lengths in bytes of all free extents of the filesystem of a directory, without space that only metadata may take.
///
/// # Errors
/// `OPNOTSUPP` if the filesystem offers no list of its free extents, or none for the way in which it spans devices.
pub fn free_extents(dir: &File) -> Result<Vec<u64>, Errno> {
    match extents::free_extents_by_fsmap(dir) {
        Err(Errno::OPNOTSUPP | Errno::NOTTY) => {}
        found => return found,
    }
    match free_extents_of_btrfs(dir) {
        Err(Errno::NOTTY) => {}
        found => return found,
    }
    let dev = dir.metadata().map_err(|_| Errno::OPNOTSUPP)?.dev();
    let number = format!("{}:{}", rustix::fs::major(dev), rustix::fs::minor(dev));
    let name = std::fs::read_link(format!("/sys/dev/block/{number}")).map_err(|_| Errno::OPNOTSUPP)?;
    let name = name.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let bits = std::fs::read_to_string(format!("/proc/fs/f2fs/{name}/segment_bits"));
    Ok(parse_segment_bits(&bits.map_err(|_| Errno::OPNOTSUPP)?))
}

/// The size of a block of f2fs in bytes.
const F2FS_BLOCK_BYTES: u64 = 4096;

/// The lengths in bytes of the free extents of f2fs, from its file `segment_bits`. That file has a line for each segment with
/// a bit for each block, the first block in the highest bit.
fn parse_segment_bits(text: &str) -> Vec<u64> {
    let (mut free, mut run_bytes) = (vec![], 0);
    for line in text.lines() {
        // The two lines of the head have no number before their first bar.
        let bytes = line.rsplit_once('|').map_or("", |(_, bytes)| bytes).split_ascii_whitespace();
        let bytes: Option<Vec<u8>> = bytes.map(|byte| u8::from_str_radix(byte, 16).ok()).collect();
        for bit in bytes.unwrap_or_default().into_iter().flat_map(|byte| (0..8).rev().map(move |bit| byte >> bit & 1)) {
            if bit == 0 {
                run_bytes += F2FS_BLOCK_BYTES;
            } else if run_bytes > 0 {
                free.push(std::mem::take(&mut run_bytes));
            }
        }
    }
    free.extend(Some(run_bytes).filter(|bytes| *bytes > 0));
    free
}

// The trees of btrfs that have its free space (linux/btrfs_tree.h).
const CHUNK_TREE: u64 = 3;
const DEVICE_TREE: u64 = 4;
const FREE_SPACE_TREE: u64 = 10;
// Types of items in these trees.
const FREE_SPACE_EXTENT: u32 = 199;
const FREE_SPACE_BITMAP: u32 = 200;
const DEVICE_EXTENT: u32 = 204;
const DEVICE_ITEM: u32 = 216;
const CHUNK_ITEM: u32 = 228;
// Offsets of numbers in the data of items, in bytes.
const CHUNK_LENGTH_OFFSET: usize = 0;
const CHUNK_TYPE_OFFSET: usize = 24;
const DEVICE_SIZE_OFFSET: usize = 8;
const DEVICE_EXTENT_LENGTH_OFFSET: usize = 24;
/// The bit in the type of a chunk that marks a chunk of file data.
const CHUNK_DATA: u64 = 1;
/// The bits in the type of a chunk for RAID profiles and copies.
const CHUNK_PROFILES: u64 = 0x7F8;
/// The beginning of a device, where btrfs allocates nothing, in bytes.
const RESERVED_BYTES: u64 = 1 << 20;

/// An item of a tree of btrfs.
#[derive(Debug, PartialEq, Eq)]
struct TreeItem {
    objectid: u64,
    kind: u32,
    offset: u64,
    data: Vec<u8>,
}

impl TreeItem {
    /// The number at an offset of its data, in little-endian order; 0 behind the end of the data.
    fn number_at(&self, offset: usize) -> u64 {
        let bytes = self.data.get(offset..offset + 8).and_then(|bytes| bytes.try_into().ok());
        bytes.map_or(0, u64::from_le_bytes)
    }
}

/// The lengths in bytes of the free extents of btrfs: those in its data chunks, and the space that belongs to no chunk.
///
/// # Errors
/// `NOTTY` on another filesystem; `OPNOTSUPP` on several devices, with a RAID profile, or without a free space tree.
fn free_extents_of_btrfs(dir: &File) -> Result<Vec<u64>, Errno> {
    let chunks = read_tree(dir, CHUNK_TREE)?;
    let is_data_chunk =
        |item: &&TreeItem| item.kind == CHUNK_ITEM && item.number_at(CHUNK_TYPE_OFFSET) & CHUNK_DATA != 0;
    let devices: Vec<&TreeItem> = chunks.iter().filter(|item| item.kind == DEVICE_ITEM).collect();
    let has_profile = |item: &TreeItem| item.number_at(CHUNK_TYPE_OFFSET) & CHUNK_PROFILES != 0;
    let [device] = devices[..] else { return Err(Errno::OPNOTSUPP) };
    if chunks.iter().filter(is_data_chunk).any(has_profile) {
        return Err(Errno::OPNOTSUPP);
    }
    let block_bytes = rustix::fs::fstatvfs(dir)?.f_frsize.max(1);
    let mut free = vec![];
    let items = read_tree(dir, FREE_SPACE_TREE).map_err(|_| Errno::OPNOTSUPP)?;
    for chunk in chunks.iter().filter(is_data_chunk) {
        let range = chunk.offset..chunk.offset + chunk.number_at(CHUNK_LENGTH_OFFSET);
        let inside: Vec<&TreeItem> = items.iter().filter(|item| range.contains(&item.objectid)).collect();
        free.extend(free_in_chunk(&inside, block_bytes));
    }
    let mut end = RESERVED_BYTES;
    for item in read_tree(dir, DEVICE_TREE)?.iter().filter(|item| item.kind == DEVICE_EXTENT) {
        free.extend(Some(item.offset.saturating_sub(end)).filter(|gap| *gap > 0));
        end = end.max(item.offset + item.number_at(DEVICE_EXTENT_LENGTH_OFFSET));
    }
    free.extend(Some(device.number_at(DEVICE_SIZE_OFFSET).saturating_sub(end)).filter(|gap| *gap > 0));
    Ok(free)
}

/// The lengths in bytes of the free extents in a chunk, from its items of the free space tree. Extents that touch are one.
fn free_in_chunk(items: &[&TreeItem], block_bytes: u64) -> Vec<u64> {
    let (mut free, mut last_end): (Vec<u64>, _) = (vec![], None);
    let mut add = |start: u64, length: u64| {
        match free.last_mut().filter(|_| last_end == Some(start)) {
            Some(last) => *last += length,
            None => free.push(length),
        }
        last_end = Some(start + length);
    };
    for item in items {
        match item.kind {
            FREE_SPACE_EXTENT => add(item.objectid, item.offset),
            FREE_SPACE_BITMAP => {
                for number in 0..item.offset / block_bytes {
                    let byte = item.data.get(number as usize / 8).copied().unwrap_or(0);
                    if byte >> (number % 8) & 1 == 1 {
                        add(item.objectid + number * block_bytes, block_bytes);
                    }
                }
            }
            _ => {}
        }
    }
    free
}

const BTRFS_IOC_TREE_SEARCH: libc::Ioctl = 0xD000_9411_u32 as libc::Ioctl;

/// The arguments of `BTRFS_IOC_TREE_SEARCH` (linux/btrfs.h).
#[repr(C)]
struct TreeSearch {
    tree: u64,
    min_objectid: u64,
    max_objectid: u64,
    min_offset: u64,
    max_offset: u64,
    min_transid: u64,
    max_transid: u64,
    min_type: u32,
    max_type: u32,
    items: u32,
    unused: u32,
    unused64: [u64; 4],
    buffer: [u8; 3992],
}

/// The bytes before the data of an item in the buffer.
const ITEM_HEADER_BYTES: usize = 32;

/// All items of a tree, in the order of their keys. Only root may read them.
///
/// # Errors
/// `NOTTY` on another filesystem; `NOENT` if it has no such tree.
fn read_tree(dir: &File, tree: u64) -> Result<Vec<TreeItem>, Errno> {
    let mut items: Vec<TreeItem> = vec![];
    let mut search = Box::new(TreeSearch {
        tree,
        min_objectid: 0,
        max_objectid: u64::MAX,
        min_offset: 0,
        max_offset: u64::MAX,
        min_transid: 0,
        max_transid: u64::MAX,
        min_type: 0,
        max_type: u32::MAX,
        items: 0,
        unused: 0,
        unused64: [0; 4],
        buffer: [0; 3992],
    });
    loop {
        search.items = u32::MAX;
        // SAFETY: the kernel writes the number of items and at most the buffer, which the struct contains.
        check_return(unsafe { libc::ioctl(dir.as_raw_fd(), BTRFS_IOC_TREE_SEARCH, &mut *search) })?;
        if search.items == 0 {
            return Ok(items);
        }
        items.extend(parse_items(&search.buffer, search.items as usize));
        let Some(last) = items.last() else { return Ok(items) };
        // Continue with the key that follows the key of the last item.
        (search.min_objectid, search.min_type, search.min_offset) = (last.objectid, last.kind, last.offset);
        match search.min_offset.checked_add(1) {
            Some(next) => search.min_offset = next,
            None => (search.min_type, search.min_offset) = (last.kind + 1, 0),
        }
    }
}

/// Parses `count` items in a buffer that the kernel has filled; fewer if the buffer is cut.
fn parse_items(buffer: &[u8], count: usize) -> Vec<TreeItem> {
    let (mut items, mut start) = (vec![], 0);
    let u32_at = |position: usize| Some(u32::from_le_bytes(buffer.get(position..position + 4)?.try_into().ok()?));
    let u64_at = |position: usize| Some(u64::from_le_bytes(buffer.get(position..position + 8)?.try_into().ok()?));
    for _ in 0..count {
        let (Some(objectid), Some(offset)) = (u64_at(start + 8), u64_at(start + 16)) else { break };
        let (Some(kind), Some(length)) = (u32_at(start + 24), u32_at(start + 28)) else { break };
        let end = start + ITEM_HEADER_BYTES + length as usize;
        let Some(data) = buffer.get(start + ITEM_HEADER_BYTES..end) else { break };
        items.push(TreeItem { objectid, kind, offset, data: data.to_vec() });
        start = end;
    }
    items
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_without_a_bit_are_free_space_of_f2fs_across_segments() {
        let text = "format: segment_type|valid_blocks|bitmaps\nsegment_type(0:HD, 1:WD)\n\
                    0         3|5  | f0 00\n1         0|1  | 01 ff\n2         0|0  | ff 7f\n";
        assert_eq!(parse_segment_bits(text), [19 * 4096, 4096]);
        assert!(parse_segment_bits("").is_empty());
    }

    #[test]
    fn extents_and_bitmaps_of_btrfs_join_where_they_touch() {
        let item = |objectid, kind, offset, data: &[u8]| TreeItem { objectid, kind, offset, data: data.to_vec() };
        let items = [
            item(0, 198, 1 << 20, &[]),
            item(4096, FREE_SPACE_EXTENT, 8192, &[]),
            // Blocks 3, 4 and 10: the first two follow the extent.
            item(3 * 4096, FREE_SPACE_BITMAP, 8 * 4096, &[0b1000_0011]),
        ];
        assert_eq!(free_in_chunk(&items.iter().collect::<Vec<_>>(), 4096), [8192 + 8192, 4096]);
    }

    #[test]
    fn items_are_parsed_until_the_buffer_ends() {
        let mut buffer = vec![0u8; 8];
        buffer.extend(7u64.to_le_bytes().into_iter().chain(9u64.to_le_bytes()));
        buffer.extend(228u32.to_le_bytes().into_iter().chain(3u32.to_le_bytes()).chain([1, 2, 3]));
        let item = TreeItem { objectid: 7, kind: 228, offset: 9, data: vec![1, 2, 3] };
        assert_eq!(parse_items(&buffer, 1), [item]);
        // A second item that is cut.
        assert_eq!(parse_items(&buffer, 2).len(), 1);
    }
}
