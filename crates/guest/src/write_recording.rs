//! Recordings of the writes to a disk, and their replay up to a power cut.
//!
//! The format is that of Linux's `dm-log-writes`, which QEMU's `blklogwrites` writes too: a superblock, then for each
//! write a header and its data, each padded to whole sectors.

use crate::{Error, Result};
use fsarena_core::schedule::mix;
use rustix::fs::{FallocateFlags, fallocate};
use std::io::{self, ErrorKind};
use std::{fs::File, os::unix::fs::FileExt, path::Path};

const MAGIC: u64 = 0x006a_7366_7773_6872;
const VERSION: u64 = 1;
/// The number of bytes in use of the superblock and of a header.
const HEADER_BYTES: usize = 32;
/// The possible sizes of a sector in bytes.
const SECTOR_SIZES: [u64; 8] = [512, 1024, 2048, 4096, 8192, 16384, 32768, 65536];
/// Flags of an entry.
const FLUSH: u64 = 1;
const FUA: u64 = 2;
const DISCARD: u64 = 4;
const KNOWN_FLAGS: u64 = 31;
/// The number of bytes that are copied at once.
const COPY_BYTES: usize = 1 << 20;

/// The writes after the last flush that a power cut leaves on the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnflushedWrites {
    /// None except those that bypassed the disk's cache (FUA).
    Lost,
    /// Those that the seed chooses, each with a probability of one half.
    Chosen(u64),
}

/// The result of a replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReplayResult {
    /// Bytes written or discarded.
    pub replayed_bytes: u64,
    /// Writes that the cut lost.
    pub lost_writes: u64,
}

/// A recorded write, flush or discard; offsets and lengths in bytes.
#[derive(Debug, Clone, Copy)]
struct Entry {
    data_offset: u64,
    disk_offset: u64,
    length: u64,
    flags: u64,
}

/// Makes an empty recording. QEMU, which fills it, writes the superblock only when the disk is flushed.
///
/// # Errors
/// The file cannot be written.
pub fn create_recording(log: &Path) -> Result<()> {
    let numbers = [MAGIC, VERSION, 0, SECTOR_SIZES[0]];
    let mut superblock = numbers.map(u64::to_le_bytes).concat();
    superblock.resize(SECTOR_SIZES[0] as usize, 0);
    std::fs::write(log, superblock).map_err(Error::io("writing", log))
}

/// Applies a recording to a copy of the disk from its beginning, which becomes the disk after a power cut at its end.
///
/// # Errors
/// The recording is damaged or does not fit the image, or a file cannot be read or written.
pub fn replay(log: &Path, image: &Path, unflushed: UnflushedWrites) -> Result<ReplayResult> {
    let file = File::open(log).map_err(Error::io("opening the recording", log))?;
    let disk = File::options().read(true).write(true).open(image).map_err(Error::io("opening", image))?;
    let size = disk.metadata().map_err(Error::io("reading", image))?.len();
    let parsed = read_entries(&file, size).map_err(Error::io("reading the recording", log))?;
    let entries = parsed.map_err(|why| Error::invalid_file(log, why))?;
    let survivors = find_survivors(&entries, unflushed);
    let mut result = ReplayResult::default();
    for (entry, survives) in entries.iter().zip(survivors) {
        if survives {
            apply_entry(&file, &disk, entry).map_err(Error::io("replaying writes to", image))?;
            result.replayed_bytes += entry.length;
        } else {
            result.lost_writes += 1;
        }
    }
    Ok(result)
}

/// Whether each entry is on the disk after the cut.
fn find_survivors(entries: &[Entry], unflushed: UnflushedWrites) -> Vec<bool> {
    // A flush covers the writes before it, and not the data in its own entry.
    let last_flush = entries.iter().rposition(|entry| entry.flags & FLUSH != 0).unwrap_or(0);
    let is_chosen = |index: usize| match unflushed {
        UnflushedWrites::Lost => false,
        UnflushedWrites::Chosen(seed) => mix(seed, index as u64) & 1 == 1,
    };
    let survives = |(index, entry): (usize, &Entry)| {
        index < last_flush || entry.length == 0 || entry.flags & FUA != 0 || is_chosen(index)
    };
    entries.iter().enumerate().map(survives).collect()
}

/// The entries for a disk of this size, or a description of the damage of the recording.
fn read_entries(log: &File, size: u64) -> io::Result<Result<Vec<Entry>, String>> {
    let [magic, version, _, sector] = read_header(log, 0)?.unwrap_or_default();
    let sector = sector & u64::from(u32::MAX);
    if magic != MAGIC || version != VERSION || !SECTOR_SIZES.contains(&sector) {
        return Ok(Err("this is not a recording of writes in the format of dm-log-writes, version 1".into()));
    }
    let end = log.metadata()?.len();
    let (mut offset, mut entries) = (sector, vec![]);
    while let Some([disk_sector, sectors, flags, data_length]) = read_header(log, offset)? {
        let data_offset = offset + sector;
        offset = data_offset;
        // The space of a write that was not yet recorded at the power cut.
        if [disk_sector, sectors, flags, data_length] == [0; 4] {
            continue;
        }
        let refused = |why: &str| Ok(Err(format!("the write recorded at byte {} {why}", data_offset - sector)));
        let (Some(disk_offset), Some(length)) = (disk_sector.checked_mul(sector), sectors.checked_mul(sector)) else {
            return refused("is beyond any disk");
        };
        if flags & !KNOWN_FLAGS != 0 || disk_offset.checked_add(length).is_none_or(|last| last > size) {
            return refused("does not fit the disk");
        }
        if flags & DISCARD == 0 {
            offset = data_offset + length;
            if offset > end {
                break;
            }
        }
        entries.push(Entry { data_offset, disk_offset, length, flags });
    }
    Ok(Ok(entries))
}

/// The four numbers of the header at an offset; None at the end of the file.
fn read_header(log: &File, offset: u64) -> io::Result<Option<[u64; 4]>> {
    let mut bytes = [0; HEADER_BYTES];
    match log.read_exact_at(&mut bytes, offset) {
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(None),
        result => result?,
    }
    let (numbers, _) = bytes.as_chunks();
    Ok(Some(std::array::from_fn(|index| u64::from_le_bytes(numbers[index]))))
}

fn apply_entry(log: &File, disk: &File, entry: &Entry) -> io::Result<()> {
    let Entry { data_offset, disk_offset, length, flags } = *entry;
    let punch = |to, length| Ok(fallocate(disk, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, to, length)?);
    if flags & DISCARD != 0 && length > 0 {
        return punch(disk_offset, length);
    }
    let mut buffer = vec![0; COPY_BYTES.min(length as usize)];
    let mut applied = 0;
    while applied < length {
        let part = &mut buffer[..COPY_BYTES.min((length - applied) as usize)];
        log.read_exact_at(part, data_offset + applied)?;
        // Zeros become holes, so that images stay sparse.
        if part.iter().all(|byte| *byte == 0) {
            punch(disk_offset + applied, part.len() as u64)?;
        } else {
            disk.write_all_at(part, disk_offset + applied)?;
        }
        applied += part.len() as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::{collection::vec, prelude::*};
    use std::path::PathBuf;

    const SECTOR: usize = 512;
    /// The size of the disk in sectors.
    const DISK_SECTORS: usize = 64;

    /// A recording of these writes: sector, flags, and the byte that fills each sector.
    fn recording(writes: &[(u64, u64, &[u8])]) -> Vec<u8> {
        let sector = |numbers: [u64; 4]| {
            let mut bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
            bytes.resize(SECTOR, 0);
            bytes
        };
        let mut log = sector([MAGIC, VERSION, writes.len() as u64, SECTOR as u64]);
        for (to, flags, data) in writes {
            log.extend(sector([*to, data.len() as u64, *flags, 0]));
            if flags & DISCARD == 0 {
                log.extend(data.iter().flat_map(|byte| [*byte; SECTOR]));
            }
        }
        log
    }

    fn write_files(log: &[u8]) -> (tempfile::TempDir, PathBuf, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let [path, image] = ["log", "image"].map(|name| dir.path().join(name));
        std::fs::write(&path, log).unwrap();
        std::fs::write(&image, vec![b'.'; DISK_SECTORS * SECTOR]).unwrap();
        (dir, path, image)
    }

    /// The first byte of each of the first eight sectors after the power cut, and the result of the replay.
    fn disk_after_cut(log: &[u8], unflushed: UnflushedWrites) -> (String, ReplayResult) {
        let (_dir, path, image) = write_files(log);
        let replayed = replay(&path, &image, unflushed).unwrap();
        let bytes = std::fs::read(image).unwrap();
        assert_eq!(bytes.len(), DISK_SECTORS * SECTOR);
        let first_byte = |sector: &[u8]| if sector[0] == 0 { '0' } else { char::from(sector[0]) };
        (bytes.chunks(SECTOR).take(8).map(first_byte).collect(), replayed)
    }

    #[test]
    fn a_power_cut_loses_the_writes_after_the_last_flush() {
        let log = recording(&[(0, 0, b"ab"), (5, 0, b"c"), (0, FLUSH, b""), (1, 0, b"d"), (6, FUA, b"e")]);
        let (disk, replayed) = disk_after_cut(&log, UnflushedWrites::Lost);
        assert_eq!(disk, "ab...ce.");
        assert_eq!(replayed, ReplayResult { replayed_bytes: 4 * SECTOR as u64, lost_writes: 1 });
    }

    #[test]
    fn a_flush_does_not_cover_its_own_data() {
        let log = recording(&[(0, 0, b"a"), (1, FLUSH, b"b")]);
        assert_eq!(disk_after_cut(&log, UnflushedWrites::Lost).0, "a.......");
        let log = recording(&[(0, 0, b"a"), (1, FLUSH | FUA, b"b")]);
        assert_eq!(disk_after_cut(&log, UnflushedWrites::Lost).0, "ab......");
        assert_eq!(disk_after_cut(&recording(&[(0, 0, b"a")]), UnflushedWrites::Lost).0, "........");
    }

    #[test]
    fn a_discard_leaves_zeros_and_a_later_write_prevails() {
        let log = recording(&[(0, 0, b"aaaa"), (1, DISCARD, &[0; 2]), (2, 0, b"z"), (0, FLUSH, b"")]);
        assert_eq!(disk_after_cut(&log, UnflushedWrites::Lost).0, "a0za....");
    }

    #[test]
    fn a_seed_always_chooses_the_same_later_writes_and_can_choose_any() {
        let writes: Vec<(u64, u64, &[u8])> = (0..8).map(|sector| (sector, 0, b"x".as_slice())).collect();
        let log = recording(&writes);
        let disk_of_seed = |seed| disk_after_cut(&log, UnflushedWrites::Chosen(seed)).0;
        assert_eq!(disk_of_seed(1), disk_of_seed(1));
        let disks: Vec<String> = (0..32).map(disk_of_seed).collect();
        for sector in 0..8 {
            let survivors = disks.iter().filter(|disk| disk.as_bytes()[sector] == b'x').count();
            assert!((4..=28).contains(&survivors), "sector {sector}: {survivors} of 32");
        }
    }

    #[test]
    fn an_empty_recording_leaves_the_disk_unchanged() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("log");
        create_recording(&log).unwrap();
        assert_eq!(
            disk_after_cut(&std::fs::read(log).unwrap(), UnflushedWrites::Lost),
            ("........".into(), ReplayResult::default())
        );
    }

    #[test]
    fn an_incomplete_write_is_left_out() {
        let whole = recording(&[(0, 0, b"a"), (0, FLUSH, b""), (1, 0, b"bbb")]);
        assert_eq!(disk_after_cut(&whole[..whole.len() - 1], UnflushedWrites::Lost).0, "a.......");
        // A recording has room for a write before it has the write.
        let mut log = recording(&[(0, 0, b"a")]);
        log.extend([0; 3 * SECTOR]);
        log.extend(&recording(&[(2, 0, b"c"), (0, FLUSH, b"")])[SECTOR..]);
        assert_eq!(disk_after_cut(&log, UnflushedWrites::Lost).0, "a.c.....");
    }

    proptest! {
        #[test]
        fn every_sector_has_its_last_surviving_write(
            seed in any::<u64>(),
            writes in vec((0..8u64, prop::sample::select(vec![0, 0, 0, FLUSH, FUA, DISCARD]), 1..4usize), 0..24),
        ) {
            let data: Vec<Vec<u8>> = (0..writes.len()).map(|at| vec![b'A' + at as u8; writes[at].2]).collect();
            let entry = |(at, (to, flags, _)): (usize, &(u64, u64, usize))| (*to, *flags, &data[at][..]);
            let log: Vec<_> = writes.iter().enumerate().map(entry).collect();
            let last_flush = writes.iter().rposition(|write| write.1 == FLUSH).unwrap_or(0);
            let mut expected = [b'.'; DISK_SECTORS];
            for (at, (to, flags, count)) in writes.iter().enumerate() {
                if at < last_flush || *flags == FUA || mix(seed, at as u64) & 1 == 1 {
                    let byte = if *flags == DISCARD { b'0' } else { data[at][0] };
                    expected[*to as usize..][..*count].fill(byte);
                }
            }
            let (disk, _) = disk_after_cut(&recording(&log), UnflushedWrites::Chosen(seed));
            prop_assert_eq!(disk.as_bytes(), &expected[..8]);
        }
    }

    #[test]
    fn an_invalid_recording_is_refused_before_the_image_changes() {
        let mut log = recording(&[(0, 0, b"a"), (60, 0, b"bbbbb"), (0, FLUSH, b"")]);
        let replay_error = |log: &[u8]| {
            let (_dir, path, image) = write_files(log);
            let error = replay(&path, &image, UnflushedWrites::Lost).unwrap_err().to_string();
            assert!(std::fs::read(image).unwrap().iter().all(|byte| *byte == b'.'));
            error
        };
        assert!(replay_error(&log).ends_with("at byte 1536 does not fit the disk"), "{}", replay_error(&log));
        assert!(replay_error(&recording(&[(u64::MAX, 0, b"a")])).contains("beyond any disk"));
        log[0] ^= 1;
        assert!(replay_error(&log).contains("not a recording of writes in the format of dm-log-writes"));
        assert!(replay_error(b"").contains("not a recording"));
    }
}
