//! Where data lies on a filesystem: the extents of files (FIEMAP) and the free extents (GETFSMAP).

use crate::check_return;
use rustix::io::Errno;
use std::{fs::File, os::fd::AsRawFd};

const FS_IOC_FIEMAP: libc::Ioctl = 0xC020_660B_u32 as libc::Ioctl;
/// The flag of a FIEMAP call that writes dirty pages back first, so that the filesystem performs delayed allocations.
const FIEMAP_FLAG_SYNC: u32 = 1;

// The kernel calls these flags `FIEMAP_EXTENT_…`.

/// Flag: it is the last extent of the file.
pub const EXTENT_LAST: u32 = 0x1;
/// Flags `UNKNOWN` and `DELALLOC`: the place of the data is unknown, or not chosen yet.
pub const EXTENT_UNPLACED: u32 = 0x2 | 0x4;
/// Flag: the data is compressed or encoded in another way.
pub const EXTENT_ENCODED: u32 = 0x8;
/// Flag: the data is encrypted.
pub const EXTENT_ENCRYPTED: u32 = 0x80;
/// Flag: the data is in the inode.
pub const EXTENT_INLINE: u32 = 0x200;
/// Flag: the block with the data also has data of other files.
pub const EXTENT_TAIL: u32 = 0x400;
/// Flag: the space is allocated, and reads of it return zeros.
pub const EXTENT_UNWRITTEN: u32 = 0x800;
/// Flag: other files share the data.
pub const EXTENT_SHARED: u32 = 0x2000;

/// Extents per FIEMAP call.
const EXTENTS_PER_CALL: usize = 256;

/// An extent of a file. Offsets and the length are in bytes.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Extent {
    /// The offset in the file.
    pub logical: u64,
    /// The offset on the device, or in the address space of a filesystem on several devices.
    pub physical: u64,
    /// The length in the file.
    pub length: u64,
    reserved64: [u64; 2],
    /// Flags such as [`EXTENT_LAST`].
    pub flags: u32,
    reserved: [u32; 3],
}

impl Extent {
    /// An extent.
    pub fn new(logical: u64, physical: u64, length: u64, flags: u32) -> Extent {
        Extent { logical, physical, length, flags, ..Extent::default() }
    }
}

/// `struct fiemap` of the kernel with room for extents.
#[repr(C)]
struct Fiemap {
    start: u64,
    length: u64,
    flags: u32,
    mapped_extents: u32,
    extent_count: u32,
    reserved: u32,
    extents: [Extent; EXTENTS_PER_CALL],
}

/// Reads all extents of a file by FIEMAP, after a writeback of its dirty pages.
///
/// # Errors
/// The error of the system call: `OPNOTSUPP`, `NOTTY` or `INVAL` if the filesystem has no FIEMAP. Also `INVAL` if the
/// listing does not advance, so that callers treat it as missing FIEMAP.
pub fn extents_of(file: &File) -> Result<Vec<Extent>, Errno> {
    let mut map = Box::new(Fiemap {
        start: 0,
        length: u64::MAX,
        flags: FIEMAP_FLAG_SYNC,
        mapped_extents: 0,
        extent_count: EXTENTS_PER_CALL as u32,
        reserved: 0,
        extents: [Extent::default(); EXTENTS_PER_CALL],
    });
    collect_extents(|start| {
        (map.start, map.length) = (start, u64::MAX - start);
        // SAFETY: the kernel writes at most `extent_count` extents after the header, and the struct has room for them.
        check_return(unsafe { libc::ioctl(file.as_raw_fd(), FS_IOC_FIEMAP, &mut *map) })?;
        Ok(map.extents.iter().take(map.mapped_extents as usize).copied().collect())
    })
}

/// Collects all extents of a file. `extents_from` returns the next extents from a byte offset on.
fn collect_extents(mut extents_from: impl FnMut(u64) -> Result<Vec<Extent>, Errno>) -> Result<Vec<Extent>, Errno> {
    let (mut extents, mut start) = (vec![], 0);
    loop {
        let next = extents_from(start)?;
        extents.extend_from_slice(&next);
        let Some(last) = next.last().filter(|last| last.flags & EXTENT_LAST == 0) else { return Ok(extents) };
        // Without progress, for instance after an extent of length 0, the filesystem would return the same extents for ever.
        let end = last.logical.checked_add(last.length);
        start = end.filter(|end| *end > start).ok_or(Errno::INVAL)?;
    }
}

const FS_IOC_GETFSMAP: libc::Ioctl = 0xC0C0_583B_u32 as libc::Ioctl;
/// Records per GETFSMAP call.
const RECORDS_PER_CALL: usize = 1024;
/// The flag of a record whose owner is a special value, such as `OWNER_FREE`, and not an inode.
const SPECIAL_OWNER: u32 = 0x10;
/// The flag of the last record of the filesystem.
const LAST_RECORD: u32 = 0x20;
/// The owner of free space.
const OWNER_FREE: u64 = 1;

/// `struct fsmap` of the kernel: a range of a device and its owner. Offsets and lengths are in bytes.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct SpaceRecord {
    device: u32,
    flags: u32,
    physical: u64,
    owner: u64,
    offset: u64,
    length: u64,
    reserved: [u64; 3],
}

impl SpaceRecord {
    /// Whether it describes free space.
    fn is_free(&self) -> bool {
        self.flags & SPECIAL_OWNER != 0 && self.owner == OWNER_FREE
    }
}

/// `struct fsmap_head` of the kernel with room for records.
#[repr(C)]
struct SpaceMap {
    /// Flags of the request; none are defined.
    iflags: u32,
    /// Flags of the answer.
    oflags: u32,
    /// The number of records for which there is room.
    count: u32,
    /// The number of records that the kernel has written.
    entries: u32,
    reserved: [u64; 6],
    /// The lowest and the highest key of the listing. A record as lowest key continues the listing after it.
    keys: [SpaceRecord; 2],
    records: [SpaceRecord; RECORDS_PER_CALL],
}

/// Reads the lengths in bytes of all free extents of the mounted filesystem of a directory by GETFSMAP, which ext4 and xfs
/// have.
///
/// # Errors
/// The system call failed: `OPNOTSUPP` or `NOTTY` on other filesystems.
pub fn free_extents_by_fsmap(dir: &File) -> Result<Vec<u64>, Errno> {
    let zero = SpaceRecord::default();
    let highest = SpaceRecord {
        device: u32::MAX,
        flags: u32::MAX,
        physical: u64::MAX,
        owner: u64::MAX,
        offset: u64::MAX,
        ..zero
    };
    let mut map = Box::new(SpaceMap {
        iflags: 0,
        oflags: 0,
        count: RECORDS_PER_CALL as u32,
        entries: 0,
        reserved: [0; 6],
        keys: [zero, highest],
        records: [zero; RECORDS_PER_CALL],
    });
    let mut free: Vec<u64> = vec![];
    // The device and the end of the free extent that was added last.
    let mut last_end = None;
    loop {
        // SAFETY: the kernel writes at most `count` records after the header, and the struct has room for them.
        check_return(unsafe { libc::ioctl(dir.as_raw_fd(), FS_IOC_GETFSMAP, &mut *map) })?;
        let records = &map.records[..(map.entries as usize).min(RECORDS_PER_CALL)];
        for record in records.iter().filter(|record| record.is_free()) {
            match free.last_mut().filter(|_| last_end == Some((record.device, record.physical))) {
                // Records end at the ends of allocation groups, free space does not.
                Some(length) => *length += record.length,
                None => free.push(record.length),
            }
            last_end = Some((record.device, record.physical + record.length));
        }
        match records.last() {
            Some(last) if last.flags & LAST_RECORD == 0 => map.keys[0] = *last,
            _ => return Ok(free),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_that_does_not_advance_is_treated_as_missing_fiemap() {
        let extent = |logical, length, flags| Extent::new(logical, 0, length, flags);
        let collect = |extents: &[Extent]| {
            let mut calls = 0;
            collect_extents(|start| {
                calls += 1;
                assert!(calls < 9, "the extents from {start} on are requested again and again");
                // Like the kernel, return the extents that end after the start or begin there.
                let is_at_or_after =
                    |extent: &&Extent| extent.logical >= start || extent.logical + extent.length > start;
                Ok(extents.iter().filter(is_at_or_after).take(1).copied().collect())
            })
        };
        let (empty, last) = (extent(50, 0, 0), extent(50, 50, EXTENT_LAST));
        assert!(matches!(collect(&[extent(0, 50, 0), empty, last]), Err(Errno::INVAL)));
        assert!(matches!(collect(&[extent(0, 0, 0), extent(0, 100, EXTENT_LAST)]), Err(Errno::INVAL)));
        assert!(matches!(collect(&[extent(0, 50, 0), extent(u64::MAX, 2, 0)]), Err(Errno::INVAL)));
        assert_eq!(collect(&[extent(0, 50, 0), extent(50, 0, EXTENT_LAST)]).map(|extents| extents.len()), Ok(2));
        assert_eq!(collect(&[extent(0, 50, 0), last]).map(|extents| extents.len()), Ok(2));
    }
}
