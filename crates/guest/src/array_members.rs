//! Distributes a filesystem that was made on one image over the members of an array, in the layout of md.
//!
//! mkfs runs on the host, which may have no md; the guest then assembles members that already hold it.

use crate::{Error, Result};
use rustix::fs::SeekFrom;
use std::{fs::File, io, os::unix::fs::FileExt, path::Path};

/// The chunk of striped arrays in bytes. md requires a power of 2.
pub const CHUNK_BYTES: u64 = 64 << 10;

/// Copies the data of an image to the empty members of an array: all data to each if it is `mirrored` (RAID 1), else chunk by
/// chunk in turn (RAID 0).
///
/// # Errors
/// A file cannot be read or written.
pub fn spread_over_members(image: &Path, members: &[&Path], mirrored: bool) -> Result<()> {
    let open = |path: &&Path| File::options().write(true).open(path);
    let members: Vec<File> =
        members.iter().map(open).collect::<io::Result<_>>().map_err(Error::io("opening members of", image))?;
    copy_data(image, &members, mirrored).map_err(Error::io("spreading over the members of an array", image))
}

fn copy_data(image: &Path, members: &[File], mirrored: bool) -> io::Result<()> {
    let image = File::open(image)?;
    let length = image.metadata()?.len();
    let mut chunk = vec![0; CHUNK_BYTES as usize];
    let mut offset = 0;
    while let Some(data) = next_data(&image, offset)? {
        // Whole chunks: a hole inside one is copied as zeros.
        let number = data / CHUNK_BYTES;
        let size = CHUNK_BYTES.min(length - number * CHUNK_BYTES) as usize;
        image.read_exact_at(&mut chunk[..size], number * CHUNK_BYTES)?;
        for (member, offset) in member_offsets(number, members.len() as u64, mirrored) {
            members[member as usize].write_all_at(&chunk[..size], offset)?;
        }
        offset = (number + 1) * CHUNK_BYTES;
    }
    Ok(())
}

/// The offset of the next data at or after an offset; None if only holes follow.
fn next_data(file: &File, offset: u64) -> io::Result<Option<u64>> {
    match rustix::fs::seek(file, SeekFrom::Data(offset)) {
        Err(rustix::io::Errno::NXIO) => Ok(None),
        result => Ok(Some(result?)),
    }
}

/// The members that hold a chunk, each with the offset of the chunk in bytes.
fn member_offsets(chunk_number: u64, member_count: u64, mirrored: bool) -> Vec<(u64, u64)> {
    if mirrored {
        return (0..member_count).map(|member| (member, chunk_number * CHUNK_BYTES)).collect();
    }
    vec![(chunk_number % member_count, chunk_number / member_count * CHUNK_BYTES)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_distributed_in_turn() {
        assert_eq!(member_offsets(0, 2, false), [(0, 0)]);
        assert_eq!(member_offsets(5, 2, false), [(1, 2 * CHUNK_BYTES)]);
        assert_eq!(member_offsets(5, 2, true), [(0, 5 * CHUNK_BYTES), (1, 5 * CHUNK_BYTES)]);
    }

    #[test]
    fn only_data_is_copied() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        let image = File::create(path("image")).unwrap();
        image.set_len(8 * CHUNK_BYTES).unwrap();
        image.write_all_at(b"first", 0).unwrap();
        image.write_all_at(b"sixth", 5 * CHUNK_BYTES + 7).unwrap();
        for name in ["a", "b"] {
            File::create(path(name)).unwrap().set_len(4 * CHUNK_BYTES).unwrap();
        }
        spread_over_members(&path("image"), &[&path("a"), &path("b")], false).unwrap();
        let (a, b) = (std::fs::read(path("a")).unwrap(), std::fs::read(path("b")).unwrap());
        assert!(a.starts_with(b"first") && a[5..].iter().all(|byte| *byte == 0));
        let sixth = 2 * CHUNK_BYTES as usize + 7;
        assert!(&b[sixth..sixth + 5] == b"sixth" && b.iter().filter(|byte| **byte != 0).count() == 5);
    }
}
