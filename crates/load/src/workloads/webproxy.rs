//! `webproxy`: filebench's personality of that name, exactly as in `webproxy.f`. 100 threads work on 10,000 files of 16 KiB
//! in one directory, of which 80% exist at the start. Each turn of a thread deletes a file, creates one, appends up to
//! 16 KiB to it, and reads five files whole.
//!
//! The data set shrinks while it is measured: deleted files have 16 KiB, and created ones 8 KiB on average.

use crate::payload;
use crate::task::{self, Action, Result, Task};
use crate::web::{self, CostAccount};
use crate::workload::{Job, Place, Room, Survey, Workload, fairness};
use fsarena_core::setting::{SettingDef, WorkloadDef};
use fsarena_core::{cell::TaskInfo, event::Note, sample::TaskOutput, schedule::mix};
use fsarena_engine::custom_load::{self, CustomLoad, CustomLoadConfig};
use fsarena_engine::{Bound, EngineError, LoadOutcome};
use rand::{RngExt, SeedableRng, rngs::Xoshiro256PlusPlus};
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// The workload.
pub struct Webproxy;

/// `$filesize` and `$meaniosize`.
const FILE_BYTES: usize = 16 << 10;
/// `prealloc=80`.
const PREALLOCATED_PERCENT: u64 = 80;
/// Files read in each turn.
const READS: u64 = 5;
/// Operations that filebench counts in a turn: delete, create, append and close, and five times open, read and close.
const FLOWOPS_A_TURN: f64 = 19.0;

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

fn tasks() -> [TaskInfo; 2] {
    let turn = task::info("webproxy", "Delete, create, append, read five", []);
    [task::info("prealloc", "Make the file set", []), turn]
}

impl Workload for Webproxy {
    fn def(&self) -> &'static WorkloadDef {
        &DEF
    }

    fn outline(&self, _: &Job) -> Vec<TaskInfo> {
        tasks().into()
    }

    fn survey(&self, job: &Job) -> Result<Survey> {
        let files = job.settings.int("files") as u64;
        let room = Room { bytes: 2 * files * FILE_BYTES as u64, inodes: files, other_bytes: 0 };
        Ok(Survey { room, remarks: remarks(), ..Survey::default() })
    }

    fn steps(&self, job: &Job, place: &Place) -> Result<Vec<Task>> {
        let (files, seed) = (job.settings.int("files") as u64, job.seed);
        let (threads, seconds) = (job.settings.int("threads") as u32, job.settings.float("seconds"));
        let existing = files * PREALLOCATED_PERCENT / 100;
        let dir = place.root.join("bigfileset");
        let noise = move || payload::noise(mix(seed, 5), FILE_BYTES);
        let make = Action::on("prealloc", &dir, move |dir| Ok(preallocate(dir, existing, &noise())?));
        let turn = Action::on("webproxy", &dir, move |dir| {
            let set = FileSet::new(files as u32, existing as u32);
            let personality = Personality { dir: dir.into(), set, noise: noise(), seed };
            let bound = Bound::Seconds(seconds);
            let config =
                CustomLoadConfig { threads, kinds: &["turn"], rate: None, bound, interval_ms: 100, seed };
            let account = CostAccount::begin();
            let outcome = custom_load::run(&config, &personality)?;
            personality.found(&outcome, account)
        });
        let [first, second] = tasks();
        Ok(vec![Task::new(first, make), Task::new(second, turn)])
    }
}

/// The remarks for every report.
fn remarks() -> Vec<Note> {
    let text = "webproxy's data set shrinks while it measures: files of 16 KiB are deleted, and what takes their \
                place has 8 KiB on average. A longer or faster run so works on less data, which flatters the \
                faster filesystem; file_mean_bytes says where it ended";
    vec![fairness(text).fix("use the workload proxy-cache, whose sizes stay")]
}

fn preallocate(dir: &Path, existing: u64, noise: &[u8]) -> Result<(), EngineError> {
    std::fs::create_dir(dir).map_err(EngineError::io("making", dir))?;
    for number in 0..existing {
        let path = file(dir, number as u32);
        std::fs::write(&path, noise).map_err(EngineError::io("writing", &path))?;
    }
    Ok(())
}

fn file(dir: &Path, number: u32) -> PathBuf {
    dir.join(format!("{number:08}"))
}

/// The personality as a load of the engine.
struct Personality {
    dir: PathBuf,
    set: FileSet,
    noise: Vec<u8>,
    seed: u64,
}

/// The private state of a thread.
struct WebproxyThread {
    rng: Xoshiro256PlusPlus,
    buffer: Vec<u8>,
}

impl Personality {
    fn delete(&self, own: &mut WebproxyThread) -> Result<(), EngineError> {
        let Some(number) = self.set.take_existing(&mut own.rng) else { return Ok(()) };
        let path = file(&self.dir, number);
        std::fs::remove_file(&path).map_err(EngineError::io("removing", &path))?;
        self.set.give(number, false);
        Ok(())
    }

    fn create(&self, own: &mut WebproxyThread, bytes: usize) -> Result<(), EngineError> {
        let Some(number) = self.set.take_missing(&mut own.rng) else { return Ok(()) };
        let path = file(&self.dir, number);
        let made = OpenOptions::new().append(true).create_new(true).open(&path);
        let mut made = made.map_err(EngineError::io("making", &path))?;
        made.write_all(&self.noise[..bytes]).map_err(EngineError::io("appending to", &path))?;
        drop(made);
        self.set.give(number, true);
        Ok(())
    }

    fn read(&self, own: &mut WebproxyThread) -> Result<(), EngineError> {
        let Some(number) = self.set.read(&mut own.rng) else { return Ok(()) };
        let path = file(&self.dir, number);
        let mut opened = File::open(&path).map_err(EngineError::io("opening", &path))?;
        while opened.read(&mut own.buffer).map_err(EngineError::io("reading", &path))? > 0 {}
        self.set.done(number);
        Ok(())
    }

    fn found(&self, outcome: &LoadOutcome, account: CostAccount) -> Result<TaskOutput> {
        let mut found = web::serving_output(outcome, 1 + READS, account, &self.dir)?;
        let turns = outcome.operations() as f64;
        found.readings.set(web::FLOWOPS, FLOWOPS_A_TURN * turns / (outcome.elapsed_ns as f64 / 1e9));
        let existing = self.set.existing();
        let sizes = existing.iter().filter_map(|number| file(&self.dir, *number).metadata().ok());
        let bytes: u64 = sizes.map(|meta| meta.len()).sum();
        found.readings.set(web::MEAN_FILE, bytes as f64 / existing.len().max(1) as f64);
        Ok(found)
    }
}

impl CustomLoad for Personality {
    type ThreadState = WebproxyThread;
    /// Bytes to append.
    type Request = usize;

    fn thread_state(&self, thread: u32) -> Result<WebproxyThread, EngineError> {
        let rng = Xoshiro256PlusPlus::seed_from_u64(mix(self.seed, thread.into()));
        // `$iosize=1m`: a file is read whole by one call, and a second one finds its end.
        Ok(WebproxyThread { rng, buffer: vec![0; 1 << 20] })
    }

    fn draw(&self, own: &mut WebproxyThread) -> usize {
        // `appendfilerand` takes a size evenly from 1 to `iosize`.
        own.rng.random_range(1..=FILE_BYTES)
    }

    fn perform(&self, own: &mut WebproxyThread, bytes: usize) -> Result<usize, EngineError> {
        self.delete(own)?;
        self.create(own, bytes)?;
        (0..READS).try_for_each(|_| self.read(own))?;
        Ok(0)
    }
}

/// The entries of a file set. Entries that a thread is creating or deleting are in neither list.
struct EntryLists {
    /// Number of readers of each entry.
    readers: Vec<u32>,
    here: Vec<u32>,
    gone: Vec<u32>,
}

/// filebench's file set: entries that exist or not, drawn at random. Only one thread at a time creates or deletes an entry.
struct FileSet(Mutex<EntryLists>);

impl FileSet {
    /// Makes a set of `entries` entries, of which the first `existing` exist.
    fn new(entries: u32, existing: u32) -> FileSet {
        let lists = EntryLists {
            readers: vec![0; entries as usize],
            here: (0..existing).collect(),
            gone: (existing..entries).collect(),
        };
        FileSet(Mutex::new(lists))
    }

    fn lists(&self) -> std::sync::MutexGuard<'_, EntryLists> {
        // A panic ends the whole load, so a poisoned lock does no harm.
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Takes an existing entry without readers out of the set, to delete it. Returns none if every entry has readers.
    fn take_existing(&self, rng: &mut Xoshiro256PlusPlus) -> Option<u32> {
        let mut lists = self.lists();
        let (count, start) = (lists.here.len(), draw_place(&lists.here, rng)?);
        let free = |at: &usize| lists.readers[lists.here[*at] as usize] == 0;
        let at = (start..count).chain(0..start).find(free)?;
        Some(lists.here.swap_remove(at))
    }

    /// Takes an entry that does not exist out of the set, to create it.
    fn take_missing(&self, rng: &mut Xoshiro256PlusPlus) -> Option<u32> {
        let mut lists = self.lists();
        let at = draw_place(&lists.gone, rng)?;
        Some(lists.gone.swap_remove(at))
    }

    /// Puts an entry back into the set, existing or not.
    fn give(&self, number: u32, exists: bool) {
        let mut lists = self.lists();
        if exists { lists.here.push(number) } else { lists.gone.push(number) }
    }

    /// Takes an existing entry to read it; others may read it too.
    fn read(&self, rng: &mut Xoshiro256PlusPlus) -> Option<u32> {
        let mut lists = self.lists();
        let number = lists.here[draw_place(&lists.here, rng)?];
        lists.readers[number as usize] += 1;
        Some(number)
    }

    /// Ends reading.
    fn done(&self, number: u32) {
        self.lists().readers[number as usize] -= 1;
    }

    /// The entries that exist.
    fn existing(&self) -> Vec<u32> {
        self.lists().here.clone()
    }
}

/// Draws an index of a list, uniformly.
fn draw_place(list: &[u32], rng: &mut Xoshiro256PlusPlus) -> Option<usize> {
    (!list.is_empty()).then(|| rng.random_range(0..list.len()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{job, perform, place};
    use fsarena_core::sample::Readings;

    #[test]
    fn the_set_keeps_its_number_and_loses_its_bytes() {
        // Longer on a busy machine, until 100 turns have replaced most of the 40 files.
        let measured = |seconds| {
            let dir = tempfile::tempdir().unwrap();
            let job = job(&DEF, 3, &[("files", "50"), ("threads", "4"), ("seconds", seconds)]);
            let mut last = Readings::default();
            for task in Webproxy.steps(&job, &place(dir.path())).unwrap() {
                last = perform(task.work).readings;
            }
            (last.get("requests_count").unwrap() >= 6.0 * 100.0).then_some((last, dir))
        };
        let (last, dir) = ["0.2", "2", "20"].into_iter().find_map(measured).expect("100 turns in 20 s");
        let mean = last.get("file_mean_bytes").unwrap();
        assert!(mean > 2048.0 && mean < 12_288.0, "{mean}");
        let files = std::fs::read_dir(dir.path().join("bigfileset")).unwrap().count();
        // Each turn deletes one and makes one; a turn that was under way when time ended is complete.
        assert_eq!(files, 40);
    }

    #[test]
    fn what_is_read_is_not_deleted_and_what_is_taken_is_not_read() {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
        let set = FileSet::new(3, 2);
        let reading = set.read(&mut rng).unwrap();
        let deleted = set.take_existing(&mut rng).unwrap();
        assert_ne!(reading, deleted);
        assert_eq!(set.take_existing(&mut rng), None);
        assert_eq!(set.read(&mut rng), Some(reading));
        set.done(reading);
        set.done(reading);
        assert_eq!(set.take_existing(&mut rng), Some(reading));
        assert_eq!(set.read(&mut rng), None);
        assert_eq!(set.take_missing(&mut rng), Some(2));
        assert_eq!(set.take_missing(&mut rng), None);
        set.give(deleted, false);
        set.give(2, true);
        assert_eq!((set.take_missing(&mut rng), set.existing()), (Some(deleted), vec![2]));
    }
}
