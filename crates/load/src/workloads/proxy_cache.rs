//! `proxy-cache`: an on-disk cache of web pages without a proxy. Threads of fsarena do what Squid's ufs does with its
//! files.
//!
//! The cache has two levels of directories, a file for each object, and an index in memory. It evicts the least
//! recently used objects first. The objects are those of PolyMix-4 with Zipf popularity, and requests arrive when they
//! are due, however slow earlier requests are.

use crate::pace;
use crate::task::{Action, Result, Task, TaskError};
use crate::web::{self, CacheSettings, ClientDraws, CostAccount, NOISE_BYTES, RequestMix, ServeTask, WebObject};
use crate::web::{fill_task_info, object_noise, serve_outline};
use crate::workload::{Job, Place, Survey, Workload, remark_note};
use bytesize::ByteSize;
use fsarena_core::setting::{SettingDef, WorkloadDef};
use fsarena_core::{cell::TaskInfo, schedule::mix};
use fsarena_engine::custom_load::{self, CustomLoad, CustomLoadConfig};
use fsarena_engine::{Bound, EngineError, LoadOutcome};
use hashlink::LinkedHashMap;
use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// The workload.
pub struct ProxyCache;

/// Number of threads that fill the cache.
const FILL_THREADS: u32 = 4;

const DEF: WorkloadDef = WorkloadDef {
    id: "proxy-cache",
    help: "an on-disk web cache: lookups, stores, replacement, in an open loop at set rates; the model of squid without squid",
    metrics: web::CACHE_METRICS,
    settings: &[
        SettingDef::ints("rates", 0..=10_000_000, &[200, 400, 800])
            .help("requests a second, one task each; 0 for as fast as it can serve them"),
        SettingDef::ints("threads", 1..=256, &[16])
            .help("numbers of threads that serve; there is a task for each number"),
        SettingDef::float("seconds", 0.01..=86_400.0, 2.0).help("how long each task serves"),
        pace::ARRIVALS,
        SettingDef::size("cache_bytes", 1 << 16..=1 << 44, 64 << 20)
            .help("size of the cache; a full cache evicts the least recently used objects"),
        web::L1_DIRECTORIES,
        web::L2_DIRECTORIES,
        web::RECURRENCE,
        web::ZIPF,
        SettingDef::flag("log", true).help("append a record to swap.state for each object that comes or goes"),
    ],
};

fn serve_tasks(job: &Job) -> Vec<ServeTask> {
    let thread_counts = job.settings.ints("threads").into_iter().map(|threads| Some(threads as u32));
    ServeTask::combinations(job, &thread_counts.collect::<Vec<_>>(), "Serve from a cold page cache")
}

impl Workload for ProxyCache {
    fn def(&self) -> &'static WorkloadDef {
        &DEF
    }

    fn outline(&self, job: &Job) -> Vec<TaskInfo> {
        serve_outline(&serve_tasks(job))
    }

    fn survey(&self, job: &Job) -> Result<Survey> {
        let cache = CacheSettings::resolve(job);
        let text = format!(
            "proxy-cache models Squid's ufs: a cache of {}, objects of PolyMix-4, {:.0}% of requests recur \
             (Zipf {}); the index is in memory, objects are written in pages of 4 KiB and never synced; misses \
             cost no network. Dirty data is written at the end of a task, before its CPU time is read",
            ByteSize(cache.bytes),
            100.0 * cache.recurrence,
            cache.zipf,
        );
        // Up to 4 times as many files as objects of the mean size would fill the cache, and no inputs.
        Ok(Survey { room: cache.room(4, 0), remarks: vec![remark_note(text)], ..Survey::default() })
    }

    fn tasks(&self, job: &Job, place: &Place) -> Result<Vec<Task>> {
        let cache: SharedCache = Arc::default();
        let mut tasks = vec![Task::new(fill_task_info(), fill_action(job, &place.root, cache.clone()))];
        for task in serve_tasks(job) {
            let work = serve_action(job, &task, &place.root, cache.clone());
            tasks.push(task.into_task(work));
        }
        Ok(tasks)
    }
}

/// The cache that the first task creates and the others serve from.
type SharedCache = Arc<OnceLock<DiskCache>>;

/// Makes the action that creates and fills the cache.
fn fill_action(job: &Job, root: &Path, shared_cache: SharedCache) -> Action {
    let (settings, has_log) = (CacheSettings::resolve(job), job.settings.flag("log"));
    Action::call_on("fill", root, move |root| {
        let account = CostAccount::start();
        let empty_cache = DiskCache::create(root, settings, has_log)?;
        let config = CustomLoadConfig {
            threads: FILL_THREADS,
            kinds: &REQUEST_KINDS,
            rate: None,
            bound: Bound::Operations(settings.objects_to_fill().max(1)),
            interval_ms: 100,
            seed: settings.seed,
        };
        let outcome = shared_cache.get_or_init(|| empty_cache).run(&config, true)?;
        web::serving_output(&outcome, REQUESTS_PER_OPERATION, account, root)
    })
}

/// Makes the action that serves requests from the filled cache.
fn serve_action(job: &Job, task: &ServeTask, root: &Path, shared_cache: SharedCache) -> Action {
    let (settings, seed) = (&job.settings, job.seed);
    let (rate, bound) = (pace::engine_rate(settings, task.rate_per_s), Bound::Seconds(settings.float("seconds")));
    let threads = task.threads.unwrap_or(1);
    Action::call_on(&task.info.id.to_string(), root, move |root| {
        let cache = shared_cache.get().ok_or_else(|| TaskError::Unfit("the cache was not filled".into()))?;
        let config = CustomLoadConfig { threads, kinds: &REQUEST_KINDS, rate, bound, interval_ms: 100, seed };
        let counts = || [&cache.served_bytes, &cache.evicted_count].map(|count| count.load(Ordering::Relaxed));
        let [served_before, evicted_before] = counts();
        let account = CostAccount::start();
        let outcome = cache.run(&config, false)?;
        let mut output = web::serving_output(&outcome, REQUESTS_PER_OPERATION, account, root)?;
        let readings = &mut output.readings;
        let hits = outcome.kind("hit").map_or(0, |kind| kind.count);
        readings.set(web::HIT_RATIO, hits as f64 / outcome.operations().max(1) as f64);
        let [served, evicted] = counts();
        readings.set(web::SERVED_BYTES, (served - served_before) as f64);
        readings.set(web::EVICTED_COUNT, (evicted - evicted_before) as f64);
        Ok(output)
    })
}

/// Squid reads and writes objects by pages of this size (`SM_PAGE_SIZE`).
const PAGE_BYTES: usize = 4096;
/// A record of `swap.state` (`StoreSwapLogData` on a 64-bit machine).
const LOG_RECORD: [u8; 72] = [0x5a; 72];

/// Each operation of the load is one request.
const REQUESTS_PER_OPERATION: u64 = 1;

/// The kinds of requests: answered from the cache, stored in the cache, and passed on without storing.
const REQUEST_KINDS: [&str; 3] = ["hit", "store", "pass"];
/// Indices in [`REQUEST_KINDS`].
const HIT: usize = 0;
const STORE: usize = 1;
const PASS: usize = 2;

/// A cache, the distribution of the requests for it, and its counters.
struct DiskCache {
    dir: PathBuf,
    settings: CacheSettings,
    request_mix: RequestMix,
    index: Mutex<CacheIndex>,
    has_log: bool,
    /// The open log, while a task runs.
    log_file: Mutex<Option<File>>,
    noise: Vec<u8>,
    /// The number of the next object that the fill task stores.
    next_fill_object: AtomicU64,
    /// Bytes that clients received.
    served_bytes: AtomicU64,
    /// Number of evicted objects.
    evicted_count: AtomicU64,
}

/// The private state of a thread.
struct CacheThread {
    draws: ClientDraws,
    buffer: Vec<u8>,
}

impl DiskCache {
    /// Creates the directories of an empty cache, as `squid -z` does.
    ///
    /// # Errors
    /// If a directory cannot be created.
    fn create(dir: &Path, settings: CacheSettings, has_log: bool) -> Result<DiskCache, EngineError> {
        for first in 0..settings.level_directories.0 {
            for second in 0..settings.level_directories.1 {
                let path = dir.join(format!("{first:02X}/{second:02X}"));
                std::fs::create_dir_all(&path).map_err(EngineError::io("making", &path))?;
            }
        }
        Ok(DiskCache {
            dir: dir.into(),
            settings,
            request_mix: settings.request_mix(),
            index: Mutex::new(CacheIndex::new(settings.bytes)),
            has_log,
            log_file: Mutex::default(),
            noise: object_noise(settings.seed),
            next_fill_object: AtomicU64::new(0),
            served_bytes: AtomicU64::new(0),
            evicted_count: AtomicU64::new(0),
        })
    }

    /// The path of the file with this number. As in Squid's `UFSSwapDir::swapSubDir`, each directory of the second level
    /// gets n consecutive numbers, where n is the number of second-level directories in each first-level directory.
    fn file_path(&self, number: u32) -> PathBuf {
        let (first_count, second_count) = self.settings.level_directories;
        let group = number / second_count;
        let (first, second) = (group / second_count % first_count, group % second_count);
        self.dir.join(format!("{first:02X}/{second:02X}/{number:08X}"))
    }

    /// Serves a request for the object with this number, and returns the index of its kind in [`REQUEST_KINDS`].
    fn serve_request(&self, thread: &mut CacheThread, number: u64) -> Result<usize, EngineError> {
        let object = web::draw_object(self.settings.seed, number);
        self.served_bytes.fetch_add(object.bytes, Ordering::Relaxed);
        if !object.is_cachable {
            return Ok(PASS);
        }
        let mut index = self.lock_index();
        let file_number = match index.look_up(number) {
            CacheLookup::Hit(file_number) => {
                drop(index);
                return if self.read_file(thread, file_number)? { Ok(HIT) } else { Ok(PASS) };
            }
            CacheLookup::BeingStored => return Ok(PASS),
            CacheLookup::Missing => index.reserve(number),
        };
        drop(index);
        self.write_file(file_number, object, number)?;
        self.lock_index().finish_store(number, object.bytes);
        self.append_log_record()?;
        self.evict()?;
        Ok(STORE)
    }

    /// Reads an object. Returns false if it was evicted between lookup and open.
    fn read_file(&self, thread: &mut CacheThread, file_number: u32) -> Result<bool, EngineError> {
        let path = self.file_path(file_number);
        let mut file = match File::open(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
            result => result.map_err(EngineError::io("opening", &path))?,
        };
        while file.read(&mut thread.buffer).map_err(EngineError::io("reading", &path))? > 0 {}
        Ok(true)
    }

    fn write_file(&self, file_number: u32, object: WebObject, number: u64) -> Result<(), EngineError> {
        let path = self.file_path(file_number);
        let mut file = File::create(&path).map_err(EngineError::io("making", &path))?;
        let mut bytes_left = object.bytes as usize;
        let mut offset = mix(self.settings.seed, number) as usize % (NOISE_BYTES - PAGE_BYTES);
        while bytes_left > 0 {
            let chunk_bytes = bytes_left.min(PAGE_BYTES);
            file.write_all(&self.noise[offset..offset + chunk_bytes]).map_err(EngineError::io("writing", &path))?;
            offset = (offset + PAGE_BYTES) % (NOISE_BYTES - PAGE_BYTES);
            bytes_left -= chunk_bytes;
        }
        Ok(())
    }

    /// Removes the files of the least recently used objects until the cache is within its limit.
    fn evict(&self) -> Result<(), EngineError> {
        loop {
            let Some(file_number) = self.lock_index().evict_if_full() else { return Ok(()) };
            let path = self.file_path(file_number);
            std::fs::remove_file(&path).map_err(EngineError::io("removing", &path))?;
            self.lock_index().free_files.push(file_number);
            self.evicted_count.fetch_add(1, Ordering::Relaxed);
            self.append_log_record()?;
        }
    }

    /// Runs a load on the cache. With `is_fill` it stores objects in order, otherwise clients request them. The log is
    /// open only during the load, so that the filesystem can be remounted between tasks.
    ///
    /// # Errors
    /// If the log cannot be opened, or a request fails.
    fn run(&self, config: &CustomLoadConfig, is_fill: bool) -> Result<LoadOutcome, EngineError> {
        if self.has_log {
            let path = self.dir.join("swap.state");
            let file = OpenOptions::new().create(true).append(true).open(&path);
            *self.lock_log() = Some(file.map_err(EngineError::io("opening", &path))?);
        }
        let outcome = custom_load::run(config, &CacheLoad { cache: self, is_fill });
        *self.lock_log() = None;
        outcome
    }

    /// Appends a record to the log, if there is one.
    fn append_log_record(&self) -> Result<(), EngineError> {
        let written = self.lock_log().as_mut().map_or(Ok(()), |file| file.write_all(&LOG_RECORD));
        written.map_err(EngineError::io("appending to", self.dir.join("swap.state")))
    }

    fn lock_log(&self) -> MutexGuard<'_, Option<File>> {
        self.log_file.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_index(&self) -> MutexGuard<'_, CacheIndex> {
        // The load ends when a thread panics, so a poisoned lock does no harm.
        self.index.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The requests for a cache: either those of its clients, or, to fill it, those for the most popular objects in order.
struct CacheLoad<'a> {
    cache: &'a DiskCache,
    is_fill: bool,
}

impl CustomLoad for CacheLoad<'_> {
    type ThreadState = CacheThread;
    /// The number of an object, or `None` while the cache is filled.
    type Request = Option<u64>;

    fn thread_state(&self, thread: u32) -> Result<CacheThread, EngineError> {
        let draws = self.cache.request_mix.start_draws(self.cache.settings.seed, thread.into());
        Ok(CacheThread { draws, buffer: vec![0; PAGE_BYTES] })
    }

    fn draw(&self, thread: &mut CacheThread) -> Option<u64> {
        (!self.is_fill).then(|| self.cache.request_mix.draw_object_number(&mut thread.draws))
    }

    fn perform(&self, thread: &mut CacheThread, number: Option<u64>) -> Result<usize, EngineError> {
        let take_next_fill_object = || self.cache.next_fill_object.fetch_add(1, Ordering::Relaxed);
        self.cache.serve_request(thread, number.unwrap_or_else(take_next_fill_object))
    }
}

/// The index of the cache in memory. It reuses the file numbers of evicted objects.
#[derive(Debug, Default)]
struct CacheIndex {
    /// Objects that a request is storing, with their file numbers.
    being_stored: HashMap<u64, u32>,
    /// Objects in the cache, with their file numbers and bytes. The least recently used comes first.
    stored: LinkedHashMap<u64, (u32, u64)>,
    /// The file number of the next object if no number is free.
    next_new_file: u32,
    /// File numbers without an object.
    free_files: Vec<u32>,
    /// Bytes of all stored objects.
    bytes: u64,
    /// Bytes above which objects are evicted.
    limit_bytes: u64,
}

/// The result of a lookup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CacheLookup {
    /// The cache holds the object, in this file.
    Hit(u32),
    /// Another request is storing the object.
    BeingStored,
    /// The cache does not hold the object.
    Missing,
}

impl CacheIndex {
    /// An empty index of a cache of `limit_bytes` bytes.
    fn new(limit_bytes: u64) -> CacheIndex {
        CacheIndex { limit_bytes, ..CacheIndex::default() }
    }

    /// Looks an object up. A hit makes it the most recently used.
    fn look_up(&mut self, object: u64) -> CacheLookup {
        match self.stored.to_back(&object) {
            Some((file, _)) => CacheLookup::Hit(*file),
            None if self.being_stored.contains_key(&object) => CacheLookup::BeingStored,
            None => CacheLookup::Missing,
        }
    }

    /// Reserves a file number for a missing object. The object is in the cache after [`CacheIndex::finish_store`].
    fn reserve(&mut self, object: u64) -> u32 {
        let file = self.free_files.pop().unwrap_or_else(|| {
            self.next_new_file += 1;
            self.next_new_file - 1
        });
        self.being_stored.insert(object, file);
        file
    }

    /// Adds an object to the cache after its file is written.
    fn finish_store(&mut self, object: u64, bytes: u64) {
        if let Some(file) = self.being_stored.remove(&object) {
            self.bytes += bytes;
            self.stored.insert(object, (file, bytes));
        }
    }

    /// Removes the least recently used object if the cache is over its limit, and returns its file number. The caller
    /// adds the number to `free_files` after it has removed the file.
    fn evict_if_full(&mut self) -> Option<u32> {
        if self.bytes <= self.limit_bytes {
            return None;
        }
        let (_, (file, bytes)) = self.stored.pop_front()?;
        self.bytes -= bytes;
        Some(file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{job, perform_all, place, task_ids};
    use fsarena_core::sample::TaskOutput;

    #[test]
    fn every_task_has_the_cost_and_the_rate_of_requests() {
        let job = |seconds| {
            let changed_settings = [
                ("rates", "500,0"),
                ("threads", "2,256,2"),
                ("seconds", seconds),
                ("cache_bytes", "262144"),
                ("l1", "2"),
                ("l2", "4"),
            ];
            job(&DEF, 3, &changed_settings)
        };
        let outline = task_ids(&ProxyCache.outline(&job("0.05")));
        assert_eq!(outline.len(), 2 + 2 * 2);
        assert_eq!(outline[..3], ["fill", "cold[rate=500,threads=2]", "serve[rate=500,threads=2]"]);
        let metric = |output: &TaskOutput, id: &str| {
            let get = |id: &str| output.readings.get(id);
            (fsarena_core::metric::find(id).unwrap().formula)(&get)
        };
        // Repeated for longer on a busy machine, until every task has had a request and the kernel has counted its CPU
        // time.
        let measure = |seconds| {
            let dir = tempfile::tempdir().unwrap();
            let mut outputs = vec![];
            for task in ProxyCache.tasks(&job(seconds), &place(dir.path())).unwrap() {
                for action in task.work {
                    outputs.push((task.info.id.clone(), perform_all([action])));
                }
            }
            outputs.iter().all(|(_, output)| metric(output, "cpu_per_request") > Some(0.0)).then_some(outputs)
        };
        let outputs = ["0.05", "0.5", "5"].into_iter().find_map(measure).expect("a request of every task in 5 s");
        assert_eq!(outputs.iter().map(|(id, _)| id.to_string()).collect::<Vec<_>>(), outline);
        for (id, output) in outputs {
            assert!(!output.series.is_empty(), "{id:?}");
            assert!(metric(&output, "request_rate") > Some(0.0), "{id:?}");
        }
    }

    fn settings(level_directories: (u32, u32), bytes: u64, seed: u64) -> CacheSettings {
        CacheSettings { bytes, level_directories, recurrence: 0.8, zipf: 0.8, seed }
    }

    fn config(operations: u64) -> CustomLoadConfig<'static> {
        let bound = Bound::Operations(operations);
        CustomLoadConfig { threads: 4, kinds: &REQUEST_KINDS, rate: None, bound, interval_ms: 100, seed: 1 }
    }

    #[test]
    fn a_full_cache_serves_hits_and_stays_within_its_limit() {
        const LIMIT_BYTES: u64 = 1 << 20;
        let dir = tempfile::tempdir().unwrap();
        let settings = settings((4, 8), LIMIT_BYTES, 7);
        let cache = DiskCache::create(dir.path(), settings, true).unwrap();
        let fill_count = settings.objects_to_fill();
        assert!((40..400).contains(&fill_count), "{fill_count}");
        cache.run(&config(fill_count), true).unwrap();
        let filled_bytes = cache.lock_index().bytes;
        assert!(filled_bytes <= LIMIT_BYTES && filled_bytes > LIMIT_BYTES / 2, "{filled_bytes}");

        let outcome = cache.run(&config(1000), false).unwrap();
        let count = |kind| outcome.kind(kind).map_or(0, |stats| stats.count);
        assert_eq!(count("hit") + count("store") + count("pass"), 1000);
        assert!(count("hit") > 200 && count("store") > 50, "{} {}", count("hit"), count("store"));
        assert!(cache.evicted_count.load(Ordering::Relaxed) > 0);
        assert!(cache.lock_index().bytes <= LIMIT_BYTES);
        // The files match the index, and each store and eviction is in the log.
        let (mut files, mut bytes) = (0, 0);
        for entry in walkdir::WalkDir::new(dir.path()).into_iter().flatten() {
            if entry.file_type().is_file() && entry.file_name() != "swap.state" {
                (files, bytes) = (files + 1, bytes + entry.metadata().unwrap().len());
            }
        }
        let (objects, indexed_bytes) = {
            let index = cache.lock_index();
            (object_count(&index), index.bytes)
        };
        assert_eq!((files, bytes), (objects, indexed_bytes));
        let log_bytes = dir.path().join("swap.state").metadata().unwrap().len();
        assert!(log_bytes > 72 * files as u64 && log_bytes.is_multiple_of(72));
    }

    #[test]
    fn files_spread_as_squid_spreads_them() {
        let dir = tempfile::tempdir().unwrap();
        let cache = DiskCache::create(dir.path(), settings((16, 256), 1, 1), false).unwrap();
        for (number, path) in [(0, "00/00/00000000"), (256, "00/01/00000100"), (65_536, "01/00/00010000")] {
            assert_eq!(cache.file_path(number), dir.path().join(path));
        }
    }

    /// Number of objects that have a file.
    fn object_count(index: &CacheIndex) -> usize {
        index.being_stored.len() + index.stored.len()
    }

    fn store(index: &mut CacheIndex, object: u64, bytes: u64) -> u32 {
        let number = index.reserve(object);
        index.finish_store(object, bytes);
        number
    }

    #[test]
    fn the_least_recently_used_object_is_evicted_first() {
        let mut index = CacheIndex::new(25);
        let [first, second] = [1, 2].map(|object| store(&mut index, object, 10));
        assert_eq!(index.evict_if_full(), None);
        assert_eq!(index.look_up(1), CacheLookup::Hit(first));
        store(&mut index, 3, 10);
        // Object 1 was looked up after object 2.
        assert_eq!(index.evict_if_full(), Some(second));
        assert_eq!((index.evict_if_full(), index.bytes, object_count(&index)), (None, 20, 2));
        assert_eq!(index.look_up(2), CacheLookup::Missing);
        index.free_files.push(second);
        assert_eq!(index.reserve(4), second);
    }

    #[test]
    fn an_object_that_is_being_stored_is_not_stored_twice() {
        let mut index = CacheIndex::new(100);
        let number = index.reserve(1);
        assert_eq!(index.look_up(1), CacheLookup::BeingStored);
        index.finish_store(1, 5);
        assert_eq!(index.look_up(1), CacheLookup::Hit(number));
    }

    #[test]
    fn a_cache_with_a_limit_of_0_evicts_every_object() {
        let mut index = CacheIndex::new(0);
        for object in 0..5 {
            store(&mut index, object, 1);
        }
        let evicted: Vec<u32> = std::iter::from_fn(|| index.evict_if_full()).collect();
        assert_eq!(evicted, [0, 1, 2, 3, 4]);
        assert_eq!((index.bytes, object_count(&index)), (0, 0));
    }
}
