//! A write-ahead log: clients commit records to its segments in groups, and a check reads them as a database does after a
//! crash.

use crate::payload::{Noise, fresh_dir};
use crate::task::{self, failed_to};
use fsarena_engine::{EngineError, custom_load::CustomLoad};
use rustix::{fs::FallocateFlags, io::Errno};
use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::{io::Write, os::unix::fs::FileExt};

/// Bytes of a record's header: its number (from 1), the size of its contents, and their CRC-32.
pub const HEADER: usize = 16;

/// How segments get their blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Allocation {
    /// A segment grows with each group of records.
    Append,
    /// A segment gets all blocks when it is created.
    Preallocate,
    /// A segment is an old segment that gets a new name and is overwritten.
    Recycle,
}

/// The settings of a log.
#[derive(Debug, Clone, Copy)]
pub struct LogShape {
    /// Bytes of a record with its header.
    pub record: usize,
    /// How segments get their blocks.
    pub allocation: Allocation,
    /// Bytes after which the next segment begins.
    pub segment: u64,
    /// Number of segments that are kept.
    pub keep: u64,
    /// The seed of contents.
    pub seed: u64,
}

impl LogShape {
    /// The noise from which the contents of records are cut.
    pub fn noise(&self) -> Noise {
        Noise::new(self.seed, self.record)
    }
}

/// The path of a segment. The first segment of a log has the number [`LogShape::keep`]; segments with lower numbers exist
/// only to be recycled.
pub fn segment_path(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!("{number:08}.log"))
}

/// Creates an empty directory for a log, with segments to recycle if the log recycles.
///
/// # Errors
/// If the directory or a segment cannot be created.
pub fn prepare(dir: &Path, shape: &LogShape) -> Result<(), task::TaskError> {
    fresh_dir(dir)?;
    if shape.allocation == Allocation::Recycle {
        let noise = shape.noise().bytes;
        for number in 0..shape.keep {
            let path = segment_path(dir, number);
            let mut file = File::create(&path).map_err(EngineError::io("making", &path))?;
            let mut left = shape.segment as usize;
            while left > 0 {
                let now = left.min(noise.len());
                file.write_all(&noise[..now]).map_err(EngineError::io("writing", &path))?;
                left -= now;
            }
        }
    }
    Ok(())
}

/// A log that clients commit to.
pub struct Log {
    shape: LogShape,
    noise: Noise,
    state: Mutex<State>,
    /// Notified after a group is on the device and there is no leader.
    committed: Condvar,
}

/// The state that clients share.
#[derive(Default)]
struct State {
    /// Records that no leader has taken yet.
    pending: Vec<u8>,
    /// An empty buffer, which replaces `pending` when a leader takes it.
    spare: Vec<u8>,
    /// Number of the last record that was added to `pending`.
    queued: u64,
    /// Number of the last record on the device.
    synced: u64,
    /// Number of syncs.
    syncs: u64,
    /// Number of clients that wait for the leader.
    waiting: u32,
    /// The segments, or `None` while a leader writes to them.
    segments: Option<Segments>,
    /// Whether writing a group failed. The leader returned the error, which ends the load.
    failed: bool,
}

impl Log {
    /// Starts a log in a directory that [`prepare`] created.
    ///
    /// # Errors
    /// If its first segment cannot be created.
    pub fn open(dir: &Path, shape: LogShape) -> Result<Log, EngineError> {
        let segments = Segments::create(dir, shape)?;
        let state = State { segments: Some(segments), ..State::default() };
        Ok(Log { shape, noise: shape.noise(), state: Mutex::new(state), committed: Condvar::new() })
    }

    /// The number of records on the device, and the number of syncs.
    pub fn counts(&self) -> (u64, u64) {
        let state = self.state();
        (state.synced, state.syncs)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // The load ends when a thread panics, so a poisoned lock does no harm.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues a record and waits until it is on the device. A client that finds no leader becomes the leader: it writes and
    /// syncs all queued records.
    fn commit(&self) -> Result<(), EngineError> {
        let mut state = self.state();
        state.queued += 1;
        let number = state.queued;
        let contents = self.noise.contents(number, self.shape.record - HEADER);
        append_record(&mut state.pending, number, contents);
        while state.synced < number && !state.failed {
            if let Some(segments) = state.segments.take() {
                return self.commit_group(segments, state);
            }
            state.waiting += 1;
            state = self.committed.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.waiting -= 1;
        }
        Ok(())
    }

    /// Writes and syncs all queued records as the leader, and wakes the clients that wait.
    fn commit_group(&self, mut segments: Segments, mut state: MutexGuard<State>) -> Result<(), EngineError> {
        let last = state.queued;
        let spare = std::mem::take(&mut state.spare);
        let mut group = std::mem::replace(&mut state.pending, spare);
        drop(state);
        let done = segments.commit(&group);
        group.clear();
        let mut state = self.state();
        state.spare = group;
        state.segments = Some(segments);
        if done.is_ok() {
            state.synced = last;
            state.syncs += 1;
        } else {
            state.failed = true;
        }
        let waiting = state.waiting;
        drop(state);
        if waiting > 0 {
            self.committed.notify_all();
        }
        done
    }
}

/// Appends a record to a buffer.
fn append_record(buffer: &mut Vec<u8>, number: u64, contents: &[u8]) {
    buffer.extend_from_slice(&number.to_le_bytes());
    buffer.extend_from_slice(&(contents.len() as u32).to_le_bytes());
    buffer.extend_from_slice(&crc32fast::hash(contents).to_le_bytes());
    buffer.extend_from_slice(contents);
}

impl CustomLoad for Log {
    type ThreadState = ();
    type Request = ();

    fn thread_state(&self, _: u32) -> Result<(), EngineError> {
        Ok(())
    }

    fn draw(&self, _: &mut ()) {}

    fn perform(&self, _: &mut (), (): ()) -> Result<usize, EngineError> {
        self.commit().map(|()| 0)
    }
}

/// The segments of a log. The newest one is open for writing.
struct Segments {
    dir: PathBuf,
    /// The open directory, to sync it when names change.
    dir_file: File,
    shape: LogShape,
    /// Number of the newest segment.
    number: u64,
    file: File,
    /// Bytes written to the newest segment.
    position: u64,
}

impl Segments {
    fn create(dir: &Path, shape: LogShape) -> Result<Segments, EngineError> {
        let dir_file = File::open(dir).map_err(EngineError::io("opening", dir))?;
        let file = create_segment(dir, &dir_file, &shape, shape.keep)?;
        Ok(Segments { dir: dir.into(), dir_file, shape, number: shape.keep, file, position: 0 })
    }

    /// Writes a group and syncs it. If it does not fit into the current segment, starts the next segment first.
    fn commit(&mut self, group: &[u8]) -> Result<(), EngineError> {
        if self.position > 0 && self.position + group.len() as u64 > self.shape.segment {
            self.number += 1;
            self.file = create_segment(&self.dir, &self.dir_file, &self.shape, self.number)?;
            self.position = 0;
        }
        let written = self.file.write_all_at(group, self.position).and_then(|()| self.file.sync_data());
        let (offset, bytes) = (self.position, group.len() as u32);
        let path = || segment_path(&self.dir, self.number);
        let operation = "commit";
        written.map_err(|source| EngineError::Operation {
            operation,
            path: path(),
            offset,
            bytes,
            source,
        })?;
        self.position += group.len() as u64;
        Ok(())
    }
}

/// Creates a segment and syncs its name. First removes the oldest segment, or recycles it: renames it to the new one.
fn create_segment(dir: &Path, dir_file: &File, shape: &LogShape, number: u64) -> Result<File, EngineError> {
    let (path, oldest) = (segment_path(dir, number), segment_path(dir, number - shape.keep));
    if shape.allocation == Allocation::Recycle {
        std::fs::rename(&oldest, &path).map_err(EngineError::io("recycling", &oldest))?;
    } else if number >= 2 * shape.keep {
        std::fs::remove_file(&oldest).map_err(EngineError::io("removing", &oldest))?;
    }
    let open = OpenOptions::new().write(true).create(true).truncate(false).open(&path);
    let file = open.map_err(EngineError::io("opening", &path))?;
    if shape.allocation == Allocation::Preallocate {
        match rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, shape.segment) {
            // etcd also extends the file if the filesystem has no fallocate.
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => file.set_len(shape.segment),
            done => done.map_err(Into::into),
        }
        .map_err(EngineError::io("allocating", &path))?;
    }
    dir_file.sync_all().map_err(EngineError::io("syncing", dir))?;
    Ok(file)
}

/// Checks that the kept segments hold all records up to the last committed one, each with its number and contents.
///
/// # Errors
/// [`task::TaskError::Violation`] with the first record that is missing or damaged.
pub fn verify(dir: &Path, shape: &LogShape, committed: u64) -> task::Result<()> {
    let noise = shape.noise();
    let mut last = None;
    for number in segment_numbers(dir, shape)? {
        let path = segment_path(dir, number);
        let bytes = std::fs::read(&path).map_err(failed_to("read", &path))?;
        for (index, record) in bytes.chunks(shape.record).enumerate() {
            let Some((found, contents, crc)) = parse_record(record) else { break };
            // If older segments were removed, the first kept one begins with a later record than 1.
            let expected = last.map_or(if number == shape.keep { 1 } else { found }, |last| last + 1);
            if found != expected {
                // The rest of the segment is zeros of a preallocated one, or the former contents of a recycled one.
                break;
            }
            if crc != crc32fast::hash(contents) || contents != noise.contents(found, shape.record - HEADER) {
                let from = index * shape.record;
                let text =
                    format!("DATA LOSS: record {found} at byte {from} of {} is damaged", path.display());
                return Err(task::TaskError::Violation(text));
            }
            last = Some(found);
        }
        // Of the kept segments, only the first can have no records.
        last = last.or(Some(0));
    }
    let last = last.unwrap_or(0);
    if last >= committed {
        return Ok(());
    }
    Err(task::TaskError::Violation(format!(
        "DATA LOSS: {} of {committed} committed records are missing: the log ends after record {last}",
        committed - last
    )))
}

/// The numbers of the segments that can have committed records, in ascending order.
fn segment_numbers(dir: &Path, shape: &LogShape) -> task::Result<Vec<u64>> {
    let mut numbers = vec![];
    for entry in std::fs::read_dir(dir).map_err(failed_to("list", dir))? {
        let name = entry.map_err(failed_to("list", dir))?.file_name();
        numbers.extend(name.to_str().and_then(|name| name.strip_suffix(".log")?.parse::<u64>().ok()));
    }
    numbers.retain(|number| *number >= shape.keep);
    numbers.sort_unstable();
    Ok(numbers)
}

/// Parses a record to its number, contents and checksum. Returns `None` if the record is incomplete.
fn parse_record(record: &[u8]) -> Option<(u64, &[u8], u32)> {
    let (number, rest) = record.split_first_chunk::<8>()?;
    let (length, rest) = rest.split_first_chunk::<4>()?;
    let (crc, contents) = rest.split_first_chunk::<4>()?;
    let whole = u32::from_le_bytes(*length) as usize == contents.len() && record.len() > HEADER;
    whole.then(|| (u64::from_le_bytes(*number), contents, u32::from_le_bytes(*crc)))
}
