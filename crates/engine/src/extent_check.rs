//! Checks before a run that the files have data on the device, so that reads are worth timing.
//!
//! Reads of an unwritten or sparse range return zeros without the device, a shared range is copied before it is written, an
//! inline one lies in the inode, and a compressed one is smaller than it looks. FIEMAP reports all of that. Without FIEMAP,
//! SEEK_HOLE at least reports holes.

use super::error::{EngineError, Result};
use super::{files::Files, job::Allow};
use rustix::{fs::SeekFrom, io::Errno};
use serde::Serialize;
use std::{fs::File, os::fd::AsRawFd, path::Path};

const FS_IOC_FIEMAP: libc::Ioctl = 0xC020_660B_u32 as libc::Ioctl;
/// Write dirty pages back first, so that the filesystem makes its delayed allocations.
const FLAG_SYNC: u32 = 1;
const LAST: u32 = 0x1;
const ENCODED: u32 = 0x8;
const ENCRYPTED: u32 = 0x80;
const INLINE: u32 = 0x200;
const TAIL: u32 = 0x400;
const UNWRITTEN: u32 = 0x800;
const SHARED: u32 = 0x2000;

/// Extents asked for at once.
const EXTENTS: usize = 256;

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Extent {
    logical: u64,
    physical: u64,
    length: u64,
    reserved64: [u64; 2],
    flags: u32,
    reserved: [u32; 3],
}

#[repr(C)]
struct Fiemap {
    start: u64,
    length: u64,
    flags: u32,
    mapped_extents: u32,
    extent_count: u32,
    reserved: u32,
    extents: [Extent; EXTENTS],
}

/// The source of the extent map.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ExtentSource {
    /// FIEMAP, which reports the kind of each extent.
    Fiemap,
    /// SEEK_HOLE, which reports only holes.
    SeekHole,
    /// A block device, which has no extents.
    Device,
}

/// The result of an extent check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ExtentCheck {
    /// The source of the extent map; the least exact source of several files.
    pub source: ExtentSource,
    /// Number of extents of all files.
    pub extents: u64,
    /// Bytes of all checked files.
    pub bytes: u64,
}

/// Checks the extents of all files.
///
/// # Errors
/// [`EngineError::Layout`] with the first range that is not allowed.
pub fn check_extents(files: &Files, allow: Allow) -> Result<ExtentCheck> {
    let mut all = ExtentCheck { source: ExtentSource::Fiemap, extents: 0, bytes: 0 };
    if files.device {
        return Ok(ExtentCheck { source: ExtentSource::Device, extents: 1, bytes: files.bytes });
    }
    for path in &files.paths {
        let file = File::open(path).map_err(EngineError::io("opening", path))?;
        let found = match fiemap(&file) {
            Ok(extents) => {
                judge(path, &extents, files.bytes, allow)?;
                extents.len() as u64
            }
            Err(Errno::OPNOTSUPP | Errno::NOTTY | Errno::INVAL) => {
                all.source = ExtentSource::SeekHole;
                seek_holes(path, &file, files.bytes, allow)?
            }
            Err(error) => return Err(EngineError::io("asking for the extents of", path)(error)),
        };
        all.extents += found;
        all.bytes += files.bytes;
    }
    Ok(all)
}

/// Reads all extents of a file by FIEMAP.
///
/// # Errors
/// `INVAL`, as from a filesystem without FIEMAP, if the map of the filesystem does not advance.
fn fiemap(file: &File) -> Result<Vec<Extent>, Errno> {
    let mut map = Box::new(Fiemap {
        start: 0,
        length: u64::MAX,
        flags: FLAG_SYNC,
        mapped_extents: 0,
        extent_count: EXTENTS as u32,
        reserved: 0,
        extents: [Extent::default(); EXTENTS],
    });
    every_extent(|start| {
        (map.start, map.length) = (start, u64::MAX - start);
        // SAFETY: the kernel writes at most `extent_count` extents behind the header, and they are there.
        if unsafe { libc::ioctl(file.as_raw_fd(), FS_IOC_FIEMAP, &mut *map) } != 0 {
            return Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO));
        }
        Ok(map.extents.iter().take(map.mapped_extents as usize).copied().collect())
    })
}

/// Collects the extents from byte 0 to the last one. `from` returns the next extents from a byte on.
fn every_extent(mut from: impl FnMut(u64) -> Result<Vec<Extent>, Errno>) -> Result<Vec<Extent>, Errno> {
    let (mut all, mut start) = (vec![], 0);
    loop {
        let found = from(start)?;
        all.extend_from_slice(&found);
        let Some(last) = found.last().filter(|last| last.flags & LAST == 0) else { return Ok(all) };
        // An extent of no length would be returned again and again.
        let end = last.logical.checked_add(last.length);
        start = end.filter(|end| *end > start).ok_or(Errno::INVAL)?;
    }
}

/// Refuses the first range that is not allowed.
fn judge(path: &Path, extents: &[Extent], size: u64, allow: Allow) -> Result {
    let rules = [
        (UNWRITTEN, allow.unwritten, "unwritten", "reads of it would give zeros without the device"),
        (SHARED, allow.shared, "shared", "a write to it would first copy it"),
        (INLINE | TAIL, allow.inline, "inline", "its data lies among the metadata, not in data blocks"),
        (ENCODED | ENCRYPTED, allow.encoded, "encoded", "the device holds it compressed or encrypted"),
    ];
    let mut end = 0;
    for extent in extents {
        hole(path, end, extent.logical.min(size), allow)?;
        end = extent.logical.saturating_add(extent.length);
        for (flags, allowed, kind, consequence) in rules {
            if extent.flags & flags != 0 && !allowed && extent.logical < size {
                let (start, end) = (extent.logical, end.min(size));
                return Err(EngineError::Layout { path: path.into(), kind, start, end, consequence });
            }
        }
    }
    hole(path, end, size, allow)
}

fn hole(path: &Path, start: u64, end: u64, allow: Allow) -> Result {
    if start >= end || allow.sparse {
        return Ok(());
    }
    let consequence = "reads of it would give zeros without the device";
    Err(EngineError::Layout { path: path.into(), kind: "sparse", start, end, consequence })
}

/// Refuses the first hole; returns the number of ranges with data.
fn seek_holes(path: &Path, file: &File, size: u64, allow: Allow) -> Result<u64> {
    let data_from = |at| match rustix::fs::seek(file, SeekFrom::Data(at)) {
        Err(Errno::NXIO) => Ok(size),
        found => found,
    };
    let hole_from = |data| rustix::fs::seek(file, SeekFrom::Hole(data));
    count_ranges(path, size, allow, data_from, hole_from)
}

fn count_ranges(
    path: &Path,
    size: u64,
    allow: Allow,
    data_from: impl Fn(u64) -> Result<u64, Errno>,
    hole_from: impl Fn(u64) -> Result<u64, Errno>,
) -> Result<u64> {
    let (mut at, mut ranges) = (0, 0);
    loop {
        let data = data_from(at).map_err(EngineError::io("looking for data in", path))?;
        hole(path, at, data, allow)?;
        if data >= size {
            return Ok(ranges);
        }
        ranges += 1;
        let end = hole_from(data).map_err(EngineError::io("looking for holes in", path))?;
        if end <= data {
            let source = Errno::INVAL;
            return Err(EngineError::io(
                "looking for holes (the filesystem returns ranges of no length) in",
                path,
            )(source));
        }
        at = end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use super::{super::files::FileSpec, super::job::Content};

    fn extent(logical: u64, length: u64, flags: u32) -> Extent {
        Extent { logical, length, flags, ..Extent::default() }
    }

    #[track_caller]
    fn refused(extents: &[Extent], kind: &str, range: (u64, u64)) {
        match judge(Path::new("f"), extents, 100, Allow::default()) {
            Err(EngineError::Layout { kind: found, start, end, .. }) => {
                assert_eq!((found, start, end), (kind, range.0, range.1))
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn each_kind_of_extent_is_told() {
        assert!(judge(Path::new("f"), &[extent(0, 128, LAST)], 100, Allow::default()).is_ok());
        refused(&[extent(0, 50, 0), extent(50, 50, UNWRITTEN)], "unwritten", (50, 100));
        refused(&[extent(0, 128, SHARED)], "shared", (0, 100));
        refused(&[extent(0, 100, INLINE)], "inline", (0, 100));
        refused(&[extent(0, 100, ENCODED)], "encoded", (0, 100));
        refused(&[], "sparse", (0, 100));
        refused(&[extent(0, 40, 0), extent(60, 40, 0)], "sparse", (40, 60));
        refused(&[extent(0, 90, LAST)], "sparse", (90, 100));
        // Preallocation beyond the end does not matter.
        let beyond = [extent(0, 100, 0), extent(100, 100, UNWRITTEN | LAST)];
        assert!(judge(Path::new("f"), &beyond, 100, Allow::default()).is_ok());
    }

    #[test]
    fn what_is_allowed_passes() {
        let allow = Allow { unwritten: true, sparse: true, ..Allow::default() };
        assert!(judge(Path::new("f"), &[extent(10, 20, UNWRITTEN)], 100, allow).is_ok());
    }

    #[test]
    fn a_map_that_does_not_advance_ends_as_if_there_were_none() {
        let map = |extents: &[Extent]| {
            let mut calls = 0;
            every_extent(|start| {
                calls += 1;
                assert!(calls < 9, "the map of {start} is requested again and again");
                // As in a kernel: the extents that end behind the start or lie there.
                let behind =
                    |extent: &&Extent| extent.logical >= start || extent.logical + extent.length > start;
                Ok(extents.iter().filter(behind).take(1).copied().collect())
            })
        };
        let (empty, last) = (extent(50, 0, 0), extent(50, 50, LAST));
        assert!(matches!(map(&[extent(0, 50, 0), empty, last]), Err(Errno::INVAL)));
        assert!(matches!(map(&[extent(0, 0, 0), extent(0, 100, LAST)]), Err(Errno::INVAL)));
        assert!(matches!(every_extent(|_| Ok(vec![extent(u64::MAX, 2, 0)])), Err(Errno::INVAL)));
        assert_eq!(map(&[extent(0, 50, 0), extent(50, 0, LAST)]).map(|all| all.len()), Ok(2));
        assert_eq!(map(&[extent(0, 50, 0), last]).map(|all| all.len()), Ok(2));
    }

    #[test]
    fn ranges_of_no_length_are_an_error() {
        let found = count_ranges(Path::new("f"), 100, Allow::default(), Ok, Ok);
        assert!(found.unwrap_err().to_string().contains("no length"));
    }

    fn spec() -> FileSpec {
        FileSpec { count: 2, bytes: 1 << 20, content: Content::Random, seed: 1, verify_block: None }
    }

    #[test]
    fn prepared_files_pass_and_a_sparse_one_is_refused_by_name_and_range() {
        let dir = tempfile::tempdir().unwrap();
        let files = Files::prepare(dir.path(), &spec()).unwrap();
        let found = check_extents(&files, Allow::default()).unwrap();
        assert_eq!(found.bytes, 2 << 20);
        assert!(found.extents >= 2);

        let sparse = File::create(&files.paths[1]).unwrap();
        sparse.set_len(1 << 20).unwrap();
        let said = check_extents(&files, Allow::default()).unwrap_err().to_string();
        assert!(said.contains("test_file.1") && said.contains("sparse from byte 0 to 1048576"), "{said}");
        check_extents(&files, Allow { sparse: true, ..Allow::default() }).unwrap();
    }

    #[test]
    fn allocated_but_unwritten_files_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let files = Files::planned(dir.path(), 1, 1 << 20);
        let file = File::create(&files.paths[0]).unwrap();
        match rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, 1 << 20) {
            Err(Errno::OPNOTSUPP) => return fsarena_testkit::skipped("no fallocate for temporary files"),
            done => done.unwrap(),
        }
        // tmpfs allocates written pages and has no FIEMAP.
        if fiemap(&file).is_err() {
            return fsarena_testkit::skipped("no FIEMAP for temporary files");
        }
        let said = check_extents(&files, Allow::default()).unwrap_err().to_string();
        assert!(said.contains("unwritten"), "{said}");
    }

    #[test]
    fn holes_are_found_without_fiemap() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        let file = File::create(&path).unwrap();
        file.set_len(1 << 20).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&file, &[1; 65536], 65536).unwrap();
        let file = File::open(&path).unwrap();
        let said = seek_holes(&path, &file, 1 << 20, Allow::default()).unwrap_err().to_string();
        assert!(said.contains("from byte 0 to 65536"), "{said}");
        let allow = Allow { sparse: true, ..Allow::default() };
        assert_eq!(seek_holes(&path, &file, 1 << 20, allow).unwrap(), 1);
    }
}
