//! `webproxy`: filebench's personality of that name, exactly as in `webproxy.f`. 100 threads work on 10,000 files of 16
//! KiB in one directory, and 80% of the files exist at the start. Each turn of a thread deletes a file, creates one,
//! appends up to 16 KiB to it, and reads five files completely.
//!
//! The data set shrinks during the measurement, because deleted files have 16 KiB and created ones 8 KiB on average.

use crate::payload;
use crate::task::{self, Action, Result, Task};
use crate::web::{self, CostAccount};
use crate::workload::{Job, Place, Room, Survey, Workload, fairness_note};
use fsarena_core::setting::{SettingDef, WorkloadDef};
use fsarena_core::{cell::TaskInfo, sample::TaskOutput, schedule::mix};
use fsarena_engine::custom_load::{self, CustomLoad, CustomLoadConfig};
use fsarena_engine::{Bound, EngineError, LoadOutcome};
use rand::{RngExt, SeedableRng, rngs::Xoshiro256PlusPlus};
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The workload.
pub struct Webproxy;

/// Bytes of a file at the start, and the most that is appended: `$filesize` and `$meaniosize` of `webproxy.f`.
const FILE_BYTES: usize = 16 << 10;
/// Per cent of the files that exist at the start: `prealloc=80`.
const PREALLOCATED_PERCENT: u64 = 80;
/// Files read in each turn.
const READS_PER_TURN: u64 = 5;
/// Operations that filebench counts in a turn: delete, create, append and close, and five times open, read and close.
const FLOWOPS_PER_TURN: f64 = 19.0;

const DEF: WorkloadDef = WorkloadDef {
    id: "webproxy",
    help: "filebench's webproxy, exactly: delete, create, append, and read five files, by 100 threads in one directory",
    metrics: &[web::FLOWOPS],
    settings: &[
        SettingDef::int("threads", 1..=256, 100).help("threads"),
        SettingDef::int("files", 10..=10_000_000, 10_000)
            .help("entries of the file set; 80% of them exist at the start"),
        SettingDef::float("seconds", 0.01..=86_400.0, 10.0)
            .help("how long it is measured; filebench's script takes 60"),
    ],
};

/// The descriptions of the two tasks.
fn task_infos() -> [TaskInfo; 2] {
    let turns = task::info("webproxy", "Delete, create, append, read five", []);
    [task::info("prealloc", "Make the file set", []), turns]
}

impl Workload for Webproxy {
    fn def(&self) -> &'static WorkloadDef {
        &DEF
    }

    fn outline(&self, _: &Job) -> Vec<TaskInfo> {
        task_infos().into()
    }

    fn survey(&self, job: &Job) -> Result<Survey> {
        let files = job.settings.int("files") as u64;
        let room = Room { bytes: 2 * files * FILE_BYTES as u64, inodes: files, source_bytes: 0 };
        let text = "webproxy's data set shrinks during the measurement: deleted files have 16 KiB, and the files that replace \
                    them 8 KiB on average. So a longer or faster run works on less data, which favours the faster \
                    filesystem; file_mean_bytes is the mean size at the end";
        let fix = "use the workload proxy-cache, whose files keep their mean size";
        Ok(Survey { room, remarks: vec![fairness_note(text).fix(fix)], ..Survey::default() })
    }

    fn tasks(&self, job: &Job, place: &Place) -> Result<Vec<Task>> {
        let (files, seed) = (job.settings.int("files") as u64, job.seed);
        let (threads, seconds) = (job.settings.int("threads") as u32, job.settings.float("seconds"));
        let existing_count = files * PREALLOCATED_PERCENT / 100;
        let dir = place.root.join("bigfileset");
        let noise = move || payload::generate_noise(mix(seed, 5), FILE_BYTES);
        let preallocate = Action::call_on("prealloc", &dir, move |dir| Ok(preallocate(dir, existing_count, &noise())?));
        let take_turns = Action::call_on("webproxy", &dir, move |dir| {
            let file_set = Mutex::new(FileSet::new(files as u32, existing_count as u32));
            let load = WebproxyLoad { dir: dir.into(), file_set, noise: noise(), seed };
            let bound = Bound::Seconds(seconds);
            let config = CustomLoadConfig { threads, kinds: &["turn"], rate: None, bound, interval_ms: 100, seed };
            let account = CostAccount::start();
            let outcome = custom_load::run(&config, &load)?;
            load.task_output(&outcome, account)
        });
        let [preallocate_info, turns_info] = task_infos();
        Ok(vec![Task::new(preallocate_info, preallocate), Task::new(turns_info, take_turns)])
    }
}

/// Makes the files that exist at the start.
fn preallocate(dir: &Path, file_count: u64, noise: &[u8]) -> Result<(), EngineError> {
    std::fs::create_dir(dir).map_err(EngineError::io("making", dir))?;
    for number in 0..file_count {
        let path = file_path(dir, number as u32);
        std::fs::write(&path, noise).map_err(EngineError::io("writing", &path))?;
    }
    Ok(())
}

fn file_path(dir: &Path, number: u32) -> PathBuf {
    dir.join(format!("{number:08}"))
}

/// The turns of filebench's personality as a load of the engine.
struct WebproxyLoad {
    dir: PathBuf,
    file_set: Mutex<FileSet>,
    noise: Vec<u8>,
    seed: u64,
}

/// The private state of a thread.
struct WebproxyThread {
    rng: Xoshiro256PlusPlus,
    buffer: Vec<u8>,
}

impl WebproxyLoad {
    fn lock_file_set(&self) -> MutexGuard<'_, FileSet> {
        // A panic ends the whole load, so a poisoned lock does no harm.
        self.file_set.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn delete(&self, thread: &mut WebproxyThread) -> Result<(), EngineError> {
        let Some(number) = self.lock_file_set().take_existing(&mut thread.rng) else { return Ok(()) };
        let path = file_path(&self.dir, number);
        std::fs::remove_file(&path).map_err(EngineError::io("removing", &path))?;
        self.lock_file_set().put_back(number, false);
        Ok(())
    }

    fn create(&self, thread: &mut WebproxyThread, bytes: usize) -> Result<(), EngineError> {
        let Some(number) = self.lock_file_set().take_missing(&mut thread.rng) else { return Ok(()) };
        let path = file_path(&self.dir, number);
        let opened = OpenOptions::new().append(true).create_new(true).open(&path);
        let mut file = opened.map_err(EngineError::io("making", &path))?;
        file.write_all(&self.noise[..bytes]).map_err(EngineError::io("appending to", &path))?;
        drop(file);
        self.lock_file_set().put_back(number, true);
        Ok(())
    }

    fn read(&self, thread: &mut WebproxyThread) -> Result<(), EngineError> {
        let Some(number) = self.lock_file_set().start_read(&mut thread.rng) else { return Ok(()) };
        let path = file_path(&self.dir, number);
        let mut file = File::open(&path).map_err(EngineError::io("opening", &path))?;
        while file.read(&mut thread.buffer).map_err(EngineError::io("reading", &path))? > 0 {}
        self.lock_file_set().end_read(number);
        Ok(())
    }

    /// The output of a run. The rate of turns is also in filebench's flowops.
    fn task_output(&self, outcome: &LoadOutcome, account: CostAccount) -> Result<TaskOutput> {
        let mut output = web::serving_output(outcome, 1 + READS_PER_TURN, account, &self.dir)?;
        let turns = outcome.operations() as f64;
        output.readings.set(web::FLOWOPS, FLOWOPS_PER_TURN * turns / (outcome.elapsed_ns as f64 / 1e9));
        let existing_files = self.lock_file_set().existing.clone();
        let sizes = existing_files.iter().filter_map(|number| file_path(&self.dir, *number).metadata().ok());
        let bytes: u64 = sizes.map(|meta| meta.len()).sum();
        output.readings.set(web::MEAN_FILE_BYTES, bytes as f64 / existing_files.len().max(1) as f64);
        Ok(output)
    }
}

impl CustomLoad for WebproxyLoad {
    type ThreadState = WebproxyThread;
    /// Bytes to append.
    type Request = usize;

    fn thread_state(&self, thread: u32) -> Result<WebproxyThread, EngineError> {
        let rng = Xoshiro256PlusPlus::seed_from_u64(mix(self.seed, thread.into()));
        // `$iosize=1m`: one call reads a whole file, and a second call finds its end.
        Ok(WebproxyThread { rng, buffer: vec![0; 1 << 20] })
    }

    fn draw(&self, thread: &mut WebproxyThread) -> usize {
        // `appendfilerand` draws a size uniformly from 1 to `iosize`.
        thread.rng.random_range(1..=FILE_BYTES)
    }

    fn perform(&self, thread: &mut WebproxyThread, bytes: usize) -> Result<usize, EngineError> {
        self.delete(thread)?;
        self.create(thread, bytes)?;
        (0..READS_PER_TURN).try_for_each(|_| self.read(thread))?;
        Ok(0)
    }
}

/// filebench's file set: entries that exist or not, drawn at random. Entries are numbered from 0. An entry that a thread
/// is creating or deleting is in neither list.
struct FileSet {
    /// Number of readers of each entry.
    readers: Vec<u32>,
    existing: Vec<u32>,
    missing: Vec<u32>,
}

impl FileSet {
    /// Makes a set of `entries` entries, of which the first `existing` exist.
    fn new(entries: u32, existing: u32) -> FileSet {
        FileSet {
            readers: vec![0; entries as usize],
            existing: (0..existing).collect(),
            missing: (existing..entries).collect(),
        }
    }

    /// Takes an existing entry without readers out of the set, to delete it. Returns `None` if there is no such entry.
    fn take_existing(&mut self, rng: &mut Xoshiro256PlusPlus) -> Option<u32> {
        let (count, start) = (self.existing.len(), draw_index(&self.existing, rng)?);
        let has_no_readers = |index: &usize| self.readers[self.existing[*index] as usize] == 0;
        let index = (start..count).chain(0..start).find(has_no_readers)?;
        Some(self.existing.swap_remove(index))
    }

    /// Takes a missing entry out of the set, to create it.
    fn take_missing(&mut self, rng: &mut Xoshiro256PlusPlus) -> Option<u32> {
        let index = draw_index(&self.missing, rng)?;
        Some(self.missing.swap_remove(index))
    }

    /// Puts an entry back into the set, existing or not.
    fn put_back(&mut self, number: u32, exists: bool) {
        if exists { self.existing.push(number) } else { self.missing.push(number) }
    }

    /// Draws an existing entry and starts to read it. Others may read it, too.
    fn start_read(&mut self, rng: &mut Xoshiro256PlusPlus) -> Option<u32> {
        let number = self.existing[draw_index(&self.existing, rng)?];
        self.readers[number as usize] += 1;
        Some(number)
    }

    /// Ends reading an entry.
    fn end_read(&mut self, number: u32) {
        self.readers[number as usize] -= 1;
    }
}

/// Draws an index of a list, uniformly.
fn draw_index(list: &[u32], rng: &mut Xoshiro256PlusPlus) -> Option<usize> {
    (!list.is_empty()).then(|| rng.random_range(0..list.len()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{job, perform_all, place};
    use fsarena_core::sample::Readings;

    #[test]
    fn the_number_of_files_stays_and_their_mean_size_shrinks() {
        // Runs longer on a busy machine, until 100 turns have replaced most of the 40 files.
        let measure = |seconds| {
            let dir = tempfile::tempdir().unwrap();
            let job = job(&DEF, 3, &[("files", "50"), ("threads", "4"), ("seconds", seconds)]);
            let mut readings = Readings::default();
            for task in Webproxy.tasks(&job, &place(dir.path())).unwrap() {
                readings = perform_all(task.work).readings;
            }
            (readings.get("requests_count").unwrap() >= 6.0 * 100.0).then_some((readings, dir))
        };
        let (readings, dir) = ["0.2", "2", "20"].into_iter().find_map(measure).expect("100 turns in 20 s");
        let mean = readings.get("file_mean_bytes").unwrap();
        assert!(mean > 2048.0 && mean < 12_288.0, "{mean}");
        let files = std::fs::read_dir(dir.path().join("bigfileset")).unwrap().count();
        // Each turn deletes one file and creates one, and the turns at the end of the time are completed.
        assert_eq!(files, 40);
    }

    #[test]
    fn files_that_are_being_read_are_not_deleted_and_deleted_ones_are_not_read() {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
        let mut file_set = FileSet::new(3, 2);
        let reading = file_set.start_read(&mut rng).unwrap();
        let deleted = file_set.take_existing(&mut rng).unwrap();
        assert_ne!(reading, deleted);
        assert_eq!(file_set.take_existing(&mut rng), None);
        assert_eq!(file_set.start_read(&mut rng), Some(reading));
        file_set.end_read(reading);
        file_set.end_read(reading);
        assert_eq!(file_set.take_existing(&mut rng), Some(reading));
        assert_eq!(file_set.start_read(&mut rng), None);
        assert_eq!(file_set.take_missing(&mut rng), Some(2));
        assert_eq!(file_set.take_missing(&mut rng), None);
        file_set.put_back(deleted, false);
        file_set.put_back(2, true);
        assert_eq!((file_set.take_missing(&mut rng), file_set.existing), (Some(deleted), vec![2]));
    }
}
