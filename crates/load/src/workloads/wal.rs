//! `wal`: a write-ahead log, as databases have it. Each client appends a record and waits until it is on the device.
//! Clients that wait at the same time share one `fdatasync` (group commit).

use crate::pace::{self, PacedLoad};
use crate::payload::{Noise, make_empty_dir, read_number, save_number};
use crate::task::{Action, Result, Task, TaskError, failed_to};
use crate::workload::{Job, Place, Room, Survey, Workload, remark_note};
use bytesize::ByteSize;
use fsarena_core::cell::{TaskId, TaskInfo};
use fsarena_core::setting::{SettingDef, WorkloadDef};
use fsarena_core::{event::Note, sample::TaskOutput};
use fsarena_engine::EngineError;
use fsarena_engine::custom_load::{self, CustomLoad};
use rustix::{fs::FallocateFlags, io::Errno};
use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::{io::Write, os::unix::fs::FileExt};

/// The workload.
pub struct Wal;

/// Seconds of a task by scale.
const SECONDS_BY_SCALE: [f64; 3] = [60.0, 1.5, 0.2];
/// The file on the source disk with the number of committed records.
const COMMITTED_FILE: &str = "committed";

const DEF: WorkloadDef = WorkloadDef {
    id: "wal",
    help: "append records to a log, each on the device before the next (fdatasync), as fast as possible or at set rates, with group commit",
    metrics: &["commits_per_s", "latency_p50", "latency_p99", "latency_p999", "latency_max"],
    settings: &[
        SettingDef::ints("clients", 1..=1024, &[1])
            .help("clients that commit at once, each a task; those that wait together share one fdatasync"),
        SettingDef::size("record", 32..=1 << 20, 2300)
            .help("bytes of a record, with its header of 16 bytes; 2300 is usual in tests of disks for etcd"),
        SettingDef::choice("allocation", &["preallocate", "append", "recycle"], "preallocate")
            .help("segments get their blocks before use as in etcd, or grow with each record, or are old ones overwritten as RocksDB can"),
        SettingDef::size("segment", 0..=1 << 32, 0)
            .help("bytes after which the next segment begins; 0 for 64 MiB at scale paper as in etcd, 8 MiB at quick, 256 KiB at tiny"),
        SettingDef::int("keep", 1..=1000, 5)
            .help("segments that are kept; older ones are removed or recycled"),
        pace::RATES,
        pace::ARRIVALS,
        pace::SECONDS,
        pace::OPERATIONS,
    ],
};

fn task_info(load: PacedLoad) -> TaskInfo {
    load.task_info("wal", "Commit records to a log")
}

fn log_settings(job: &Job) -> LogSettings {
    let settings = &job.settings;
    LogSettings {
        record_bytes: settings.int("record") as usize,
        allocation: match settings.text("allocation") {
            "append" => Allocation::Append,
            "recycle" => Allocation::Recycle,
            _ => Allocation::Preallocate,
        },
        segment_bytes: job.int_or_by_scale("segment", [64 << 20, 8 << 20, 256 << 10]),
        kept_segments: settings.int("keep") as u64,
        seed: job.seed,
    }
}

impl Workload for Wal {
    fn def(&self) -> &'static WorkloadDef {
        &DEF
    }

    fn outline(&self, job: &Job) -> Vec<TaskInfo> {
        PacedLoad::combinations(&job.settings).into_iter().map(task_info).collect()
    }

    fn survey(&self, job: &Job) -> Result<Survey> {
        let settings = log_settings(job);
        let max_clients = PacedLoad::combinations(&job.settings).iter().map(|load| load.clients).max().unwrap_or(1);
        // A group that is larger than `segment` makes its segment larger.
        let segment_bytes = settings.segment_bytes.max(u64::from(max_clients) * settings.record_bytes as u64);
        let room = Room {
            bytes: (settings.kept_segments + 2) * segment_bytes,
            inodes: settings.kept_segments + 2,
            source_bytes: 4096,
        };
        Ok(Survey { room, remarks: remarks(job, &settings), ..Survey::default() })
    }

    fn tasks(&self, job: &Job, place: &Place) -> Result<Vec<Task>> {
        let (dir, settings) = (place.root.join("wal"), log_settings(job));
        let mut tasks = vec![];
        for load in PacedLoad::combinations(&job.settings) {
            let (job, committed_path) = (job.clone(), place.source_dir.join(COMMITTED_FILE));
            let prepare_log = Action::call_on("empty", &dir, move |dir| prepare_log(dir, &settings));
            let work =
                Action::call_on("commit", &dir, move |dir| run_commits(&job, load, settings, dir, &committed_path));
            tasks.push(Task::new(task_info(load), work).with_preparation([prepare_log]));
        }
        Ok(tasks)
    }

    /// Checks that every committed record is in the log, which is read as a database does after a crash.
    fn check_actions(&self, job: &Job, place: &Place, _: &TaskId) -> Vec<Action> {
        let (committed_path, settings) = (place.source_dir.join(COMMITTED_FILE), log_settings(job));
        vec![Action::call_on("replay", &place.root.join("wal"), move |dir| {
            verify_log(dir, &settings, read_number(&committed_path)?)
        })]
    }
}

/// Runs the load of one task, and stores the number of committed records.
fn run_commits(
    job: &Job,
    load: PacedLoad,
    settings: LogSettings,
    dir: &Path,
    committed_path: &Path,
) -> Result<TaskOutput> {
    let log = CommitLog::open(dir, settings)?;
    let outcome = custom_load::run(&load.config(job, &["commit"], pace::task_bound(job, SECONDS_BY_SCALE)), &log)?;
    let (records, syncs) = log.counts();
    let mut output = outcome.task_output();
    output.readings.set("sync_operations_count", syncs as f64);
    save_number(committed_path, records)?;
    Ok(output)
}

/// The notes on this workload in every report.
fn remarks(job: &Job, settings: &LogSettings) -> Vec<Note> {
    let allocation = match settings.allocation {
        Allocation::Append => "that grow with each record",
        Allocation::Preallocate => "whose blocks are allocated before use",
        Allocation::Recycle => "that overwrite old ones",
    };
    let is_paced = job.settings.ints(pace::RATES.id).iter().any(|rate| *rate > 0);
    let latency_text = if is_paced { "; at a set rate latency counts from when a record was due" } else { "" };
    let text = format!(
        "wal: records of {} bytes in segments of {} {allocation}, {} kept; a commit ends when fdatasync returns{latency_text}; all \
         kept records are read back and compared after each task",
        settings.record_bytes,
        ByteSize(settings.segment_bytes),
        settings.kept_segments
    );
    vec![remark_note(text)]
}

/// Bytes of a record's header: its number (from 1), the size of its contents, and their CRC-32.
const HEADER_BYTES: usize = 16;

/// How segments get their blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Allocation {
    /// A segment grows with each group of records.
    Append,
    /// A segment gets all blocks when it is created.
    Preallocate,
    /// A segment is an old segment that gets a new name and is overwritten.
    Recycle,
}

/// The settings of a log.
#[derive(Debug, Clone, Copy)]
struct LogSettings {
    /// Bytes of a record with its header.
    record_bytes: usize,
    /// How segments get their blocks.
    allocation: Allocation,
    /// Bytes after which the next segment begins.
    segment_bytes: u64,
    /// Number of segments that are kept.
    kept_segments: u64,
    /// The seed of contents.
    seed: u64,
}

impl LogSettings {
    /// The noise from which the contents of records are cut.
    fn noise(&self) -> Noise {
        Noise::new(self.seed, self.record_bytes)
    }
}

/// The path of a segment. The first segment of a log has the number [`LogSettings::kept_segments`]; segments with lower
/// numbers exist only to be recycled.
fn segment_path(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!("{number:08}.log"))
}

/// Creates an empty directory for a log, with segments to recycle if the log recycles.
///
/// # Errors
/// If the directory or a segment cannot be created.
fn prepare_log(dir: &Path, settings: &LogSettings) -> Result<()> {
    make_empty_dir(dir)?;
    if settings.allocation == Allocation::Recycle {
        let noise = settings.noise().bytes;
        for number in 0..settings.kept_segments {
            let path = segment_path(dir, number);
            let mut file = File::create(&path).map_err(EngineError::io("making", &path))?;
            let mut bytes_left = settings.segment_bytes as usize;
            while bytes_left > 0 {
                let chunk_bytes = bytes_left.min(noise.len());
                file.write_all(&noise[..chunk_bytes]).map_err(EngineError::io("writing", &path))?;
                bytes_left -= chunk_bytes;
            }
        }
    }
    Ok(())
}

/// A log that clients commit to.
struct CommitLog {
    settings: LogSettings,
    noise: Noise,
    state: Mutex<LogState>,
    /// Notified after a group is on the device, when the next client can become the leader.
    group_committed: Condvar,
}

/// The state that clients share.
#[derive(Default)]
struct LogState {
    /// The queued records: those that no leader has taken yet.
    queue: Vec<u8>,
    /// An empty buffer, which replaces `queue` when a leader takes it.
    spare_buffer: Vec<u8>,
    /// Number of the last record that was added to `queue`.
    last_queued: u64,
    /// Number of the last record on the device.
    last_synced: u64,
    /// Number of syncs.
    sync_count: u64,
    /// Number of clients that wait for the leader.
    waiting_clients: u32,
    /// The segments, or `None` while a leader writes to them.
    segments: Option<Segments>,
    /// Whether writing a group failed. The leader returned the error, which ends the load.
    has_failed: bool,
}

impl CommitLog {
    /// Starts a log in a directory that [`prepare_log`] created.
    ///
    /// # Errors
    /// If its first segment cannot be created.
    fn open(dir: &Path, settings: LogSettings) -> Result<CommitLog, EngineError> {
        let dir_file = File::open(dir).map_err(EngineError::io("opening", dir))?;
        let newest_number = settings.kept_segments;
        let file = create_segment(dir, &dir_file, &settings, newest_number)?;
        let segments = Segments { dir: dir.into(), dir_file, settings, newest_number, file, written_bytes: 0 };
        let state = LogState { segments: Some(segments), ..LogState::default() };
        Ok(CommitLog { settings, noise: settings.noise(), state: Mutex::new(state), group_committed: Condvar::new() })
    }

    /// The number of records on the device, and the number of syncs.
    fn counts(&self) -> (u64, u64) {
        let state = self.lock_state();
        (state.last_synced, state.sync_count)
    }

    fn lock_state(&self) -> MutexGuard<'_, LogState> {
        // The load ends when a thread panics, so a poisoned lock does no harm.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues a record and waits until it is on the device. A client that finds no leader becomes the leader: it writes
    /// and syncs all queued records.
    fn commit(&self) -> Result<(), EngineError> {
        let mut state = self.lock_state();
        state.last_queued += 1;
        let number = state.last_queued;
        let contents = self.noise.contents(number, self.settings.record_bytes - HEADER_BYTES);
        append_record(&mut state.queue, number, contents);
        while state.last_synced < number && !state.has_failed {
            if let Some(segments) = state.segments.take() {
                return self.commit_group(segments, state);
            }
            state.waiting_clients += 1;
            state = self.group_committed.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.waiting_clients -= 1;
        }
        Ok(())
    }

    /// Writes and syncs all queued records as the leader, and wakes the clients that wait.
    fn commit_group(&self, mut segments: Segments, mut state: MutexGuard<LogState>) -> Result<(), EngineError> {
        let last_of_group = state.last_queued;
        let spare_buffer = std::mem::take(&mut state.spare_buffer);
        let mut group = std::mem::replace(&mut state.queue, spare_buffer);
        drop(state);
        let result = segments.write_group(&group);
        group.clear();
        let mut state = self.lock_state();
        state.spare_buffer = group;
        state.segments = Some(segments);
        if result.is_ok() {
            state.last_synced = last_of_group;
            state.sync_count += 1;
        } else {
            state.has_failed = true;
        }
        let waiting_clients = state.waiting_clients;
        drop(state);
        if waiting_clients > 0 {
            self.group_committed.notify_all();
        }
        result
    }
}

/// Appends a record to a buffer.
fn append_record(buffer: &mut Vec<u8>, number: u64, contents: &[u8]) {
    buffer.extend_from_slice(&number.to_le_bytes());
    buffer.extend_from_slice(&(contents.len() as u32).to_le_bytes());
    buffer.extend_from_slice(&crc32fast::hash(contents).to_le_bytes());
    buffer.extend_from_slice(contents);
}

impl CustomLoad for CommitLog {
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
    settings: LogSettings,
    /// Number of the newest segment.
    newest_number: u64,
    /// The newest segment.
    file: File,
    /// Bytes written to the newest segment.
    written_bytes: u64,
}

impl Segments {
    /// Writes a group and syncs it. If it does not fit into the current segment, starts the next segment first.
    fn write_group(&mut self, group: &[u8]) -> Result<(), EngineError> {
        if self.written_bytes > 0 && self.written_bytes + group.len() as u64 > self.settings.segment_bytes {
            self.newest_number += 1;
            self.file = create_segment(&self.dir, &self.dir_file, &self.settings, self.newest_number)?;
            self.written_bytes = 0;
        }
        let result = self.file.write_all_at(group, self.written_bytes).and_then(|()| self.file.sync_data());
        result.map_err(|source| EngineError::Operation {
            operation: "commit",
            path: segment_path(&self.dir, self.newest_number),
            offset: self.written_bytes,
            bytes: group.len() as u32,
            source,
        })?;
        self.written_bytes += group.len() as u64;
        Ok(())
    }
}

/// Creates a segment and syncs its name. First removes the oldest segment, or recycles it: renames it to the new one.
fn create_segment(dir: &Path, dir_file: &File, settings: &LogSettings, number: u64) -> Result<File, EngineError> {
    let (path, oldest_path) = (segment_path(dir, number), segment_path(dir, number - settings.kept_segments));
    if settings.allocation == Allocation::Recycle {
        std::fs::rename(&oldest_path, &path).map_err(EngineError::io("recycling", &oldest_path))?;
    } else if number >= 2 * settings.kept_segments {
        std::fs::remove_file(&oldest_path).map_err(EngineError::io("removing", &oldest_path))?;
    }
    let opened = OpenOptions::new().write(true).create(true).truncate(false).open(&path);
    let file = opened.map_err(EngineError::io("opening", &path))?;
    if settings.allocation == Allocation::Preallocate {
        match rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, settings.segment_bytes) {
            // etcd also extends the file if the filesystem has no fallocate.
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => file.set_len(settings.segment_bytes),
            result => result.map_err(Into::into),
        }
        .map_err(EngineError::io("allocating", &path))?;
    }
    dir_file.sync_all().map_err(EngineError::io("syncing", dir))?;
    Ok(file)
}

/// Checks that the kept segments hold all records up to the last committed one, each with its number and contents.
///
/// # Errors
/// [`TaskError::Violation`] with the first record that is missing or damaged.
fn verify_log(dir: &Path, settings: &LogSettings, committed_count: u64) -> Result<()> {
    let noise = settings.noise();
    let mut last_record = None;
    for number in segment_numbers(dir, settings)? {
        let path = segment_path(dir, number);
        let bytes = std::fs::read(&path).map_err(failed_to("read", &path))?;
        for (index, record) in bytes.chunks(settings.record_bytes).enumerate() {
            let Some((record_number, contents, crc)) = parse_record(record) else { break };
            // If older segments were removed, the first kept one begins with a later record than 1.
            let first_expected = if number == settings.kept_segments { 1 } else { record_number };
            let expected_number = last_record.map_or(first_expected, |last| last + 1);
            if record_number != expected_number {
                // The rest of the segment is zeros of a preallocated one, or the former contents of a recycled one.
                break;
            }
            if crc != crc32fast::hash(contents)
                || contents != noise.contents(record_number, settings.record_bytes - HEADER_BYTES)
            {
                let offset = index * settings.record_bytes;
                let text =
                    format!("DATA LOSS: record {record_number} at byte {offset} of {} is damaged", path.display());
                return Err(TaskError::Violation(text));
            }
            last_record = Some(record_number);
        }
        // If the first kept segment has no records, the log has none: the next segment must not define the first
        // record.
        last_record = last_record.or(Some(0));
    }
    let last_record = last_record.unwrap_or(0);
    if last_record >= committed_count {
        return Ok(());
    }
    Err(TaskError::Violation(format!(
        "DATA LOSS: {} of {committed_count} committed records are missing: the log ends after record {last_record}",
        committed_count - last_record
    )))
}

/// The numbers of the segments that can have committed records, in ascending order.
fn segment_numbers(dir: &Path, settings: &LogSettings) -> Result<Vec<u64>> {
    let mut numbers = vec![];
    for entry in std::fs::read_dir(dir).map_err(failed_to("list", dir))? {
        let name = entry.map_err(failed_to("list", dir))?.file_name();
        numbers.extend(name.to_str().and_then(|name| name.strip_suffix(".log")?.parse::<u64>().ok()));
    }
    numbers.retain(|number| *number >= settings.kept_segments);
    numbers.sort_unstable();
    Ok(numbers)
}

/// Parses a record to its number, contents and checksum. Returns `None` if the record is incomplete.
fn parse_record(record: &[u8]) -> Option<(u64, &[u8], u32)> {
    let (number, rest) = record.split_first_chunk::<8>()?;
    let (length, rest) = rest.split_first_chunk::<4>()?;
    let (crc, contents) = rest.split_first_chunk::<4>()?;
    let is_complete = u32::from_le_bytes(*length) as usize == contents.len() && record.len() > HEADER_BYTES;
    is_complete.then(|| (u64::from_le_bytes(*number), contents, u32::from_le_bytes(*crc)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{self, perform_all, task_ids};

    fn job(changed_settings: &[(&str, &str)]) -> Job {
        testing::job(&DEF, 5, changed_settings)
    }

    /// Runs the first task, and returns the directories and the output of the task.
    fn run_first_task(job: &Job) -> (tempfile::TempDir, Place, TaskOutput) {
        let dir = tempfile::tempdir().unwrap();
        let place = Place { root: dir.path().join("root"), source_dir: dir.path().into(), server_user: None };
        std::fs::create_dir(&place.root).unwrap();
        let task = Wal.tasks(job, &place).unwrap().remove(0);
        let output = perform_all(task.preparation.into_iter().chain(task.work));
        (dir, place, output)
    }

    fn verify(job: &Job, place: &Place) -> Result<(), String> {
        let check = Wal.check_actions(job, place, &TaskId::new("wal")).remove(0);
        check.perform(&mut |_| {}).map(drop).map_err(|error| error.to_string())
    }

    #[test]
    fn every_allocation_commits_and_keeps_whole_segments() {
        for allocation in ["append", "preallocate", "recycle"] {
            let changed_settings = [("operations", "100"), ("record", "512"), ("segment", "4096"), ("keep", "3")];
            let job = job(&[&changed_settings[..], &[("allocation", allocation), ("clients", "4")]].concat());
            let (_dir, place, output) = run_first_task(&job);
            let get = |id: &str| output.readings.get(id);
            assert_eq!(get("commit_operations_count"), Some(100.0), "{allocation}");
            assert_eq!(get("all_operations_count"), Some(100.0));
            // Each sync commits the records of one to four clients.
            let syncs = get("sync_operations_count").unwrap();
            assert!((25.0..=100.0).contains(&syncs), "{syncs}");
            assert!(!output.series.is_empty());
            assert_eq!(verify(&job, &place), Ok(()), "{allocation}");
            let sizes: Vec<u64> = std::fs::read_dir(place.root.join("wal"))
                .unwrap()
                .map(|entry| entry.unwrap().metadata().unwrap().len())
                .collect();
            assert_eq!(sizes.len(), 3, "{allocation}");
            assert!(sizes.iter().all(|size| *size <= 4096 && (allocation == "append" || *size == 4096)));
        }
    }

    #[test]
    fn the_remark_has_the_size_of_small_segments() {
        let remark = |job: Job| remarks(&job, &log_settings(&job)).remove(0).text;
        assert!(remark(job(&[("segment", "512")])).contains("in segments of 512 B whose"));
        assert!(remark(job(&[("segment", "67108864")])).contains("in segments of 64.0 MiB whose"));
    }

    #[test]
    fn a_record_that_is_lost_or_damaged_is_a_violation() {
        // Eight records to a segment.
        let job = job(&[("operations", "20"), ("record", "512"), ("segment", "4096")]);
        let (_dir, place, _) = run_first_task(&job);
        let second_segment = segment_path(&place.root.join("wal"), 6);
        let file = std::fs::OpenOptions::new().read(true).write(true).open(second_segment).unwrap();
        let mut byte = [0];
        file.read_exact_at(&mut byte, 1000).unwrap();
        file.write_all_at(&[!byte[0]], 1000).unwrap();
        assert!(verify(&job, &place).unwrap_err().contains("record 10 at byte 512 of"));
        // Zeros instead of record 10, as if it had never been written.
        file.write_all_at(&[0; 512], 512).unwrap();
        let error = verify(&job, &place).unwrap_err();
        assert!(error.contains("11 of 20 committed records are missing: the log ends after record 9"), "{error}");
    }

    #[test]
    fn each_number_of_clients_and_rate_is_a_task_and_paced_latency_counts_from_the_due_time() {
        let job = job(&[("clients", "1,8"), ("rates", "0,500"), ("seconds", "0.05")]);
        let expected_ids =
            ["1,rate=max", "1,rate=500", "8,rate=max", "8,rate=500"].map(|params| format!("wal[clients={params}]"));
        assert_eq!(task_ids(&Wal.outline(&job)), expected_ids);
        let job = Job { settings: self::job(&[("rates", "500"), ("operations", "20")]).settings, ..job };
        let (_dir, place, output) = run_first_task(&job);
        assert_eq!(output.readings.get("asked_iops_per_s"), Some(500.0));
        let p99 = (fsarena_core::metric::find("latency_p99").unwrap().formula)(&|id| output.readings.get(id));
        // Converting to seconds and back can lose a fraction of a nanosecond.
        let ns = p99.map(|seconds| (seconds * 1e9).round());
        assert_eq!(ns, output.readings.get("corrected_latency_p99_ns"));
        assert_eq!(verify(&job, &place), Ok(()));
    }
}
