//! Checks before a run that the data of the files is on the device, so that operations measure the device.
//!
//! Reads of an unwritten or sparse range return zeros without access to the device. A shared range is copied before it is
//! written. Inline data is in the inode, and compressed data is smaller on the device. FIEMAP reports all of these; without
//! FIEMAP, SEEK_HOLE at least reports holes.

use super::error::{EngineError, Result};
use super::{files::Files, job::Allow};
use rustix::{fs::SeekFrom, io::Errno};
use serde::Serialize;
use std::{fs::File, os::fd::AsRawFd, path::Path};

const FS_IOC_FIEMAP: libc::Ioctl = 0xC020_660B_u32 as libc::Ioctl;
/// The flag that makes FIEMAP write dirty pages back first, so that the filesystem performs delayed allocations.
const FLAG_SYNC: u32 = 1;
const LAST: u32 = 0x1;
const ENCODED: u32 = 0x8;
const ENCRYPTED: u32 = 0x80;
const INLINE: u32 = 0x200;
const TAIL: u32 = 0x400;
const UNWRITTEN: u32 = 0x800;
const SHARED: u32 = 0x2000;

/// Extents per FIEMAP call.
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
    /// The source of the extent map; of several files, the least exact source.
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
                check_kinds(path, &extents, files.bytes, allow)?;
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
/// The system call failed. `INVAL`, the error of a filesystem without FIEMAP, also if the returned map does not advance.
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
        // SAFETY: the kernel writes at most `extent_count` extents after the header, and the struct has room for them.
        if unsafe { libc::ioctl(file.as_raw_fd(), FS_IOC_FIEMAP, &mut *map) } != 0 {
            return Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO));
        }
        Ok(map.extents.iter().take(map.mapped_extents as usize).copied().collect())
    })
}

/// Collects all extents of a file. `from` returns the next extents from a byte offset on.
fn every_extent(mut from: impl FnMut(u64) -> Result<Vec<Extent>, Errno>) -> Result<Vec<Extent>, Errno> {
    let (mut all, mut start) = (vec![], 0);
    loop {
        let found = from(start)?;
        all.extend_from_slice(&found);
        let Some(last) = found.last().filter(|last| last.flags & LAST == 0) else { return Ok(all) };
        // The filesystem would return an extent of length 0 again and again.
        let end = last.logical.checked_add(last.length);
        start = end.filter(|end| *end > start).ok_or(Errno::INVAL)?;
    }
}

/// Fails at the first range of a kind that is not allowed.
fn check_kinds(path: &Path, extents: &[Extent], size: u64, allow: Allow) -> Result {
    let rules = [
        (UNWRITTEN, allow.unwritten, "unwritten", "reads of it would give zeros without the device"),
        (SHARED, allow.shared, "shared", "a write to it would first copy it"),
        (INLINE | TAIL, allow.inline, "inline", "its data lies among the metadata, not in data blocks"),
        (ENCODED | ENCRYPTED, allow.encoded, "encoded", "the device holds it compressed or encrypted"),
    ];
    let mut end = 0;
    for extent in extents {
        refuse_hole(path, end, extent.logical.min(size), allow)?;
        end = extent.logical.saturating_add(extent.length);
        for (flags, allowed, kind, consequence) in rules {
            if extent.flags & flags != 0 && !allowed && extent.logical < size {
                let (start, end) = (extent.logical, end.min(size));
                return Err(EngineError::Layout { path: path.into(), kind, start, end, consequence });
            }
        }
    }
    refuse_hole(path, end, size, allow)
}

/// Fails if the range between two extents is not empty, unless holes are allowed.
fn refuse_hole(path: &Path, start: u64, end: u64, allow: Allow) -> Result {
    if start >= end || allow.sparse {
        return Ok(());
    }
    let consequence = "reads of it would give zeros without the device";
    Err(EngineError::Layout { path: path.into(), kind: "sparse", start, end, consequence })
}

/// Finds ranges with data by SEEK_DATA and SEEK_HOLE, and returns their number. Fails at the first hole unless holes are
/// allowed.
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
        refuse_hole(path, at, data, allow)?;
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
    fn assert_refused(extents: &[Extent], kind: &str, range: (u64, u64)) {
        match check_kinds(Path::new("f"), extents, 100, Allow::default()) {
            Err(EngineError::Layout { kind: found, start, end, .. }) => {
                assert_eq!((found, start, end), (kind, range.0, range.1))
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn each_kind_of_extent_is_refused_by_name_and_range() {
        assert!(check_kinds(Path::new("f"), &[extent(0, 128, LAST)], 100, Allow::default()).is_ok());
        assert_refused(&[extent(0, 50, 0), extent(50, 50, UNWRITTEN)], "unwritten", (50, 100));
        assert_refused(&[extent(0, 128, SHARED)], "shared", (0, 100));
        assert_refused(&[extent(0, 100, INLINE)], "inline", (0, 100));
        assert_refused(&[extent(0, 100, ENCODED)], "encoded", (0, 100));
        assert_refused(&[], "sparse", (0, 100));
        assert_refused(&[extent(0, 40, 0), extent(60, 40, 0)], "sparse", (40, 60));
        assert_refused(&[extent(0, 90, LAST)], "sparse", (90, 100));
        // Preallocation beyond the end does not matter.
        let beyond = [extent(0, 100, 0), extent(100, 100, UNWRITTEN | LAST)];
        assert!(check_kinds(Path::new("f"), &beyond, 100, Allow::default()).is_ok());
    }

    #[test]
    fn allowed_kinds_of_extents_pass() {
        let allow = Allow { unwritten: true, sparse: true, ..Allow::default() };
        assert!(check_kinds(Path::new("f"), &[extent(10, 20, UNWRITTEN)], 100, allow).is_ok());
    }

    #[test]
    fn a_map_that_does_not_advance_is_treated_as_missing_fiemap() {
        let map = |extents: &[Extent]| {
            let mut calls = 0;
            every_extent(|start| {
                calls += 1;
                assert!(calls < 9, "the map of {start} is requested again and again");
                // Like the kernel, return the extents that end after the start or begin there.
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
    fn data_ranges_of_length_zero_are_an_error() {
        let found = count_ranges(Path::new("f"), 100, Allow::default(), Ok, Ok);
        assert!(found.unwrap_err().to_string().contains("no length"));
    }

    fn spec() -> FileSpec {
        FileSpec { count: 2, bytes: 1 << 20, content: Content::Random, seed: 1, verify_block: None }
    }

    #[test]
    fn prepared_files_pass_and_a_sparse_file_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let files = Files::prepare(dir.path(), &spec()).unwrap();
        let found = check_extents(&files, Allow::default()).unwrap();
        assert_eq!(found.bytes, 2 << 20);
        assert!(found.extents >= 2);

        let sparse = File::create(&files.paths[1]).unwrap();
        sparse.set_len(1 << 20).unwrap();
        let error = check_extents(&files, Allow::default()).unwrap_err().to_string();
        assert!(error.contains("test_file.1") && error.contains("sparse from byte 0 to 1048576"), "{error}");
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
        let error = check_extents(&files, Allow::default()).unwrap_err().to_string();
        assert!(error.contains("unwritten"), "{error}");
    }

    #[test]
    fn holes_are_found_without_fiemap() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        let file = File::create(&path).unwrap();
        file.set_len(1 << 20).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&file, &[1; 65536], 65536).unwrap();
        let file = File::open(&path).unwrap();
        let error = seek_holes(&path, &file, 1 << 20, Allow::default()).unwrap_err().to_string();
        assert!(error.contains("from byte 0 to 65536"), "{error}");
        let allow = Allow { sparse: true, ..Allow::default() };
        assert_eq!(seek_holes(&path, &file, 1 << 20, allow).unwrap(), 1);
    }
}
