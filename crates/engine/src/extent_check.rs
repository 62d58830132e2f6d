//! Checks before a run that the data of the files is on the device, so that operations measure the device.
//!
//! Reads of an unwritten or sparse range return zeros without access to the device. A shared range is copied before it is
//! written. Inline data is in the inode, and compressed data is smaller on the device. FIEMAP reports all of these; without
//! FIEMAP, SEEK_HOLE at least reports holes.

use crate::error::{EngineError, Result};
use crate::{files::Files, job::AllowedExtents};
use fsarena_sys::extents::{
    EXTENT_ENCODED, EXTENT_ENCRYPTED, EXTENT_INLINE, EXTENT_SHARED, EXTENT_TAIL, EXTENT_UNWRITTEN, Extent, extents_of,
};
use rustix::{fs::SeekFrom, io::Errno};
use serde::Serialize;
use std::{fs::File, path::Path};

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
/// [`EngineError::UnsuitableExtents`] with the first range that is not allowed.
pub fn check_extents(files: &Files, allow: AllowedExtents) -> Result<ExtentCheck> {
    let mut result = ExtentCheck { source: ExtentSource::Fiemap, extents: 0, bytes: 0 };
    if files.is_device {
        return Ok(ExtentCheck { source: ExtentSource::Device, extents: 1, bytes: files.bytes_per_file });
    }
    for path in &files.paths {
        let file = File::open(path).map_err(EngineError::io("opening", path))?;
        let extent_count = match extents_of(&file) {
            Ok(extents) => {
                check_ranges(path, &extents, files.bytes_per_file, allow)?;
                extents.len() as u64
            }
            Err(Errno::OPNOTSUPP | Errno::NOTTY | Errno::INVAL) => {
                result.source = ExtentSource::SeekHole;
                check_holes_by_seek(path, &file, files.bytes_per_file, allow)?
            }
            Err(error) => return Err(EngineError::io("reading the extents of", path)(error)),
        };
        result.extents += extent_count;
        result.bytes += files.bytes_per_file;
    }
    Ok(result)
}

/// Fails at the first extent of a kind that is not allowed, and at the first hole unless holes are allowed.
fn check_ranges(path: &Path, extents: &[Extent], size: u64, allow: AllowedExtents) -> Result {
    let rules = [
        (EXTENT_UNWRITTEN, allow.unwritten, "unwritten", "reads of it would give zeros without the device"),
        (EXTENT_SHARED, allow.shared, "shared", "a write to it would first copy it"),
        (
            EXTENT_INLINE | EXTENT_TAIL,
            allow.inline,
            "inline",
            "its data is stored with the metadata, not in data blocks",
        ),
        (EXTENT_ENCODED | EXTENT_ENCRYPTED, allow.encoded, "encoded", "the device holds it compressed or encrypted"),
    ];
    let mut end = 0;
    for extent in extents {
        refuse_hole(path, end, extent.logical.min(size), allow)?;
        end = extent.logical.saturating_add(extent.length);
        for (flags, allowed, kind, consequence) in rules {
            if extent.flags & flags != 0 && !allowed && extent.logical < size {
                let (start, end) = (extent.logical, end.min(size));
                return Err(EngineError::UnsuitableExtents { path: path.into(), kind, start, end, consequence });
            }
        }
    }
    refuse_hole(path, end, size, allow)
}

/// Fails if the range between two extents is not empty, unless holes are allowed.
fn refuse_hole(path: &Path, start: u64, end: u64, allow: AllowedExtents) -> Result {
    if start >= end || allow.sparse {
        return Ok(());
    }
    let consequence = "reads of it would give zeros without the device";
    Err(EngineError::UnsuitableExtents { path: path.into(), kind: "sparse", start, end, consequence })
}

/// Checks for holes by SEEK_DATA and SEEK_HOLE. Returns the number of ranges with data. Fails at the first hole unless holes
/// are allowed.
fn check_holes_by_seek(path: &Path, file: &File, size: u64, allow: AllowedExtents) -> Result<u64> {
    let next_data = |offset| match rustix::fs::seek(file, SeekFrom::Data(offset)) {
        Err(Errno::NXIO) => Ok(size),
        result => result,
    };
    let next_hole = |offset| rustix::fs::seek(file, SeekFrom::Hole(offset));
    check_holes(path, size, allow, next_data, next_hole)
}

/// [`check_holes_by_seek`] with functions that return the offset of the next data and of the next hole from an offset on;
/// without further data, the first returns `size`.
fn check_holes(
    path: &Path,
    size: u64,
    allow: AllowedExtents,
    next_data: impl Fn(u64) -> Result<u64, Errno>,
    next_hole: impl Fn(u64) -> Result<u64, Errno>,
) -> Result<u64> {
    let (mut offset, mut range_count) = (0, 0);
    loop {
        let data = next_data(offset).map_err(EngineError::io("looking for data in", path))?;
        refuse_hole(path, offset, data, allow)?;
        if data >= size {
            return Ok(range_count);
        }
        range_count += 1;
        let end = next_hole(data).map_err(EngineError::io("looking for holes in", path))?;
        if end <= data {
            let source = Errno::INVAL;
            return Err(EngineError::io("looking for holes (the filesystem returns ranges of no length) in", path)(
                source,
            ));
        }
        offset = end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{files::FileSpec, job::Content};
    use fsarena_sys::extents::EXTENT_LAST;

    fn extent(logical: u64, length: u64, flags: u32) -> Extent {
        Extent::new(logical, 0, length, flags)
    }

    #[track_caller]
    fn assert_refused(extents: &[Extent], kind: &str, range: (u64, u64)) {
        match check_ranges(Path::new("f"), extents, 100, AllowedExtents::default()) {
            Err(EngineError::UnsuitableExtents { kind: found, start, end, .. }) => {
                assert_eq!((found, start, end), (kind, range.0, range.1))
            }
            result => panic!("{result:?}"),
        }
    }

    #[test]
    fn each_kind_of_extent_is_refused_by_name_and_range() {
        assert!(check_ranges(Path::new("f"), &[extent(0, 128, EXTENT_LAST)], 100, AllowedExtents::default()).is_ok());
        assert_refused(&[extent(0, 50, 0), extent(50, 50, EXTENT_UNWRITTEN)], "unwritten", (50, 100));
        assert_refused(&[extent(0, 128, EXTENT_SHARED)], "shared", (0, 100));
        assert_refused(&[extent(0, 100, EXTENT_INLINE)], "inline", (0, 100));
        assert_refused(&[extent(0, 100, EXTENT_ENCODED)], "encoded", (0, 100));
        assert_refused(&[], "sparse", (0, 100));
        assert_refused(&[extent(0, 40, 0), extent(60, 40, 0)], "sparse", (40, 60));
        assert_refused(&[extent(0, 90, EXTENT_LAST)], "sparse", (90, 100));
        // Unwritten extents beyond the end of the file do not matter.
        let beyond = [extent(0, 100, 0), extent(100, 100, EXTENT_UNWRITTEN | EXTENT_LAST)];
        assert!(check_ranges(Path::new("f"), &beyond, 100, AllowedExtents::default()).is_ok());
    }

    #[test]
    fn allowed_kinds_of_extents_pass() {
        let allow = AllowedExtents { unwritten: true, sparse: true, ..AllowedExtents::default() };
        assert!(check_ranges(Path::new("f"), &[extent(10, 20, EXTENT_UNWRITTEN)], 100, allow).is_ok());
    }

    #[test]
    fn data_ranges_of_length_zero_are_an_error() {
        let result = check_holes(Path::new("f"), 100, AllowedExtents::default(), Ok, Ok);
        assert!(result.unwrap_err().to_string().contains("no length"));
    }

    fn spec() -> FileSpec {
        FileSpec { count: 2, bytes_per_file: 1 << 20, content: Content::Random, seed: 1, verified_block_bytes: None }
    }

    #[test]
    fn prepared_files_pass_and_a_sparse_file_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let files = Files::prepare(dir.path(), &spec()).unwrap();
        let check = check_extents(&files, AllowedExtents::default()).unwrap();
        assert_eq!(check.bytes, 2 << 20);
        assert!(check.extents >= 2);

        let sparse = File::create(&files.paths[1]).unwrap();
        sparse.set_len(1 << 20).unwrap();
        let error = check_extents(&files, AllowedExtents::default()).unwrap_err().to_string();
        assert!(error.contains("test_file.1") && error.contains("sparse from byte 0 to 1048576"), "{error}");
        check_extents(&files, AllowedExtents { sparse: true, ..AllowedExtents::default() }).unwrap();
    }

    #[test]
    fn allocated_but_unwritten_files_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let files = Files::planned(dir.path(), 1, 1 << 20);
        let file = File::create(&files.paths[0]).unwrap();
        match rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, 1 << 20) {
            Err(Errno::OPNOTSUPP) => {
                return fsarena_sys::testkit::record_skip("no fallocate for temporary files");
            }
            done => done.unwrap(),
        }
        // tmpfs allocates written pages and has no FIEMAP.
        if extents_of(&file).is_err() {
            return fsarena_sys::testkit::record_skip("no FIEMAP for temporary files");
        }
        let error = check_extents(&files, AllowedExtents::default()).unwrap_err().to_string();
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
        let error = check_holes_by_seek(&path, &file, 1 << 20, AllowedExtents::default()).unwrap_err().to_string();
        assert!(error.contains("from byte 0 to 65536"), "{error}");
        let allow = AllowedExtents { sparse: true, ..AllowedExtents::default() };
        assert_eq!(check_holes_by_seek(&path, &file, 1 << 20, allow).unwrap(), 1);
    }
}
