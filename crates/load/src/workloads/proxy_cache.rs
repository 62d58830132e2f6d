//! An on-disk cache of web pages without a proxy: what Squid's ufs does with its files, by threads of our own.
//!
//! Two levels of directories, a file an object, an index in memory, least recently used goes first. The objects
//! are those of PolyMix-4, their popularity is Zipf's, and requests arrive when they are due, however slow the ones
//! before are.

mod cache;
mod index;

use crate::pace;
use crate::task::{Action, Before, Call, Error, Task};
use crate::web::account::{self, Account};
use crate::web::contents::{self, MEAN_BYTES};
use crate::web::requests::Demand;
use crate::web::{readings, settings};
use crate::workload::{Job, Place, Room, Survey, Workload};
use cache::{Cache, Filling, KINDS, Serving};
use fsarena_core::cell::{TaskId, TaskInfo};
use fsarena_core::event::{Note, NoteKind};
use fsarena_core::setting::{SettingDef, WorkloadDef};
use fsarena_engine::Bound;
use fsarena_engine::act::{self, Acting};
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};

/// The workload.
pub struct ProxyCache;

/// Threads that fill the cache.
const FILLERS: u32 = 4;

const DEF: WorkloadDef = WorkloadDef {
    id: "proxy-cache",
    help: "an on-disk web cache: lookups, stores, replacement, in an open loop at set rates; the model of squid without squid",
    settings: &[
        SettingDef::ints("rates", 0..=10_000_000, &[200, 400, 800])
            .help("requests a second, one task each; 0 for as many as it can serve"),
        SettingDef::ints("threads", 1..=256, &[16]).help("threads that serve, one task each"),
        SettingDef::float("seconds", 0.01..=86_400.0, 2.0).help("how long each task serves"),
        pace::ARRIVALS,
        SettingDef::size("cache_bytes", 1 << 16..=1 << 44, 64 << 20)
            .help("size of the cache; a full cache evicts the least recently used objects"),
        settings::L1,
        settings::L2,
        settings::RECURRENCE,
        settings::ZIPF,
        SettingDef::flag("log", true)
            .help("append a record to swap.state for each object that comes or goes"),
    ],
};

/// One task: a request rate and a number of threads. The first task starts right after a remount.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Load {
    cold: bool,
    rate: i64,
    threads: u32,
}

impl Load {
    fn info(self) -> TaskInfo {
        let rate = if self.rate == 0 { "max".into() } else { self.rate.to_string() };
        let params = [("rate", rate), ("threads", self.threads.to_string())];
        let (name, title) = match self.cold {
            true => ("cold", "Serve from a cold page cache"),
            false => ("serve", "Serve"),
        };
        TaskInfo {
            id: TaskId { name: name.into(), params: params.map(|(name, value)| (name.into(), value)).into() },
            title: title.into(),
            number: None,
            in_composite: true,
        }
    }
}

fn loads(job: &Job) -> Vec<Load> {
    let settings = &job.settings;
    let threads = settings.ints("threads");
    let rates = settings.ints("rates");
    let warm = threads.iter().flat_map(|threads| {
        rates.iter().map(|rate| Load { cold: false, rate: *rate, threads: *threads as u32 })
    });
    let warm: Vec<Load> = warm.collect();
    warm.first().map(|first| Load { cold: true, ..*first }).into_iter().chain(warm).collect()
}

fn filling() -> TaskInfo {
    TaskInfo { id: TaskId::new("fill"), title: "Fill the cache".into(), number: None, in_composite: true }
}

impl Workload for ProxyCache {
    fn def(&self) -> &'static WorkloadDef {
        &DEF
    }

    fn metrics(&self) -> &'static [&'static str] {
        readings::ANSWERS
    }

    fn forget_clients(&self, task: &mut TaskId) {
        task.params.remove("threads");
    }

    fn outline(&self, job: &Job) -> Vec<TaskInfo> {
        std::iter::once(filling()).chain(loads(job).into_iter().map(Load::info)).collect()
    }

    fn survey(&self, job: &Job) -> Result<Survey, Error> {
        Ok(Survey { room: room(job), remarks: remarks(job), ..Survey::default() })
    }

    fn programs(&self, _: &Job) -> Vec<&'static str> {
        vec![]
    }

    fn inputs(&self, _: &Job, _: &Place) -> Result<(), Error> {
        Ok(())
    }

    fn steps(&self, job: &Job, place: &Place) -> Result<Vec<Task>, Error> {
        let shared: Shared = Arc::default();
        let fill = fill(job, place.root.clone(), shared.clone());
        let mut tasks = vec![task(filling(), Before::Warm, fill)];
        for load in loads(job) {
            let before = if load.cold { Before::Remount } else { Before::Warm };
            tasks.push(task(load.info(), before, serve(job, load, place.root.clone(), shared.clone())));
        }
        Ok(tasks)
    }
}

/// The room of the work.
fn room(job: &Job) -> Room {
    let bytes = job.settings.int("cache_bytes") as u64;
    let files = 4 * bytes / MEAN_BYTES;
    let directories = (job.settings.int("l1") * (job.settings.int("l2") + 1)) as u64;
    // A block's rounding for each file, the log, and what a filesystem keeps until it commits.
    Room { bytes: 2 * bytes + 4096 * (files + directories), inodes: files + directories, other_bytes: 0 }
}

/// What every report must say.
fn remarks(job: &Job) -> Vec<Note> {
    let settings = &job.settings;
    let text = format!(
        "proxy-cache models Squid's ufs: a cache of {} MiB, objects of PolyMix-4, {:.0}% of requests recur \
         (Zipf {}); the index is in memory, objects are written in pages of 4 KiB and never synced; misses \
         cost no network. What is dirty at the end of a task is written before its CPU is counted",
        settings.int("cache_bytes") >> 20,
        100.0 * settings.float("recurrence"),
        settings.float("zipf"),
    );
    vec![Note::new(NoteKind::Remark, text)]
}

/// The cache that the first task makes and the others serve from.
type Shared = Arc<OnceLock<Cache>>;

fn task(info: TaskInfo, before: Before, call: Call) -> Task {
    Task { info, before, prepare: vec![], work: vec![Action::Call(call)] }
}

fn fill(job: &Job, root: PathBuf, shared: Shared) -> Call {
    let settings = job.settings.clone();
    let (world, popular) = (job.seed, contents::popular(settings.int("cache_bytes") as u64));
    Call::new(["fill".to_string(), root.display().to_string()], move || {
        let account = Account::begin();
        let limit = settings.int("cache_bytes") as u64;
        let demand = Demand::new(popular, settings.float("zipf"), settings.float("recurrence"));
        let levels = (settings.int("l1") as u32, settings.int("l2") as u32);
        let made = Cache::make(&root, levels, limit, settings.flag("log"), world, demand)?;
        let cache = shared.get_or_init(|| made);
        let acting = Acting {
            threads: FILLERS,
            kinds: &KINDS,
            rate: None,
            bound: Bound::Operations(Cache::to_fill(world, popular, limit).max(1)),
            interval_ms: 100,
            seed: world,
        };
        cache.open()?;
        let outcome = act::run(&acting, &Filling(cache));
        cache.close();
        let outcome = outcome?;
        account::of_threads(&outcome, 1, account, &root)
    })
}

fn serve(job: &Job, load: Load, root: PathBuf, shared: Shared) -> Call {
    let (settings, seed) = (job.settings.clone(), job.seed);
    Call::new([load.info().id.to_string(), root.display().to_string()], move || {
        let cache = shared.get().ok_or_else(|| Error::Unfit("the cache was not filled".into()))?;
        let acting = Acting {
            threads: load.threads,
            kinds: &KINDS,
            rate: pace::rate(&settings, load.rate),
            bound: Bound::Seconds(settings.float("seconds")),
            interval_ms: 100,
            seed,
        };
        let before = (cache.served.load(Ordering::Relaxed), cache.replaced.load(Ordering::Relaxed));
        let account = Account::begin();
        cache.open()?;
        let outcome = act::run(&acting, &Serving(cache));
        cache.close();
        let outcome = outcome?;
        let mut found = account::of_threads(&outcome, 1, account, &root)?;
        let own = &mut found.readings;
        let hits = outcome.kind("hit").map_or(0, |kind| kind.count);
        own.set(readings::HIT_RATIO, hits as f64 / outcome.operations().max(1) as f64);
        own.set(readings::SERVED, (cache.served.load(Ordering::Relaxed) - before.0) as f64);
        own.set(readings::REPLACED, (cache.replaced.load(Ordering::Relaxed) - before.1) as f64);
        Ok(found)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsarena_core::scale::Scale;
    use fsarena_core::setting::{Settings, Value};

    fn job(set: &[(&str, Value)]) -> Job {
        let mut settings = Settings::defaults(DEF.settings);
        settings.0.extend(set.iter().map(|(name, value)| (name.to_string(), value.clone())));
        Job { settings, scale: Scale::Tiny, seed: 3 }
    }

    #[test]
    fn every_task_tells_what_a_request_costs() {
        let ints = |values: &[i64]| Value::List(values.iter().copied().map(Value::Int).collect());
        let job = |seconds| {
            job(&[
                ("rates", ints(&[500, 0])),
                ("threads", ints(&[2, 256])),
                ("seconds", Value::Float(seconds)),
                ("cache_bytes", Value::Int(256 << 10)),
                ("l1", Value::Int(2)),
                ("l2", Value::Int(4)),
            ])
        };
        let outline: Vec<String> =
            ProxyCache.outline(&job(0.05)).iter().map(|info| info.id.to_string()).collect();
        assert_eq!(outline.len(), 2 + 2 * 2);
        assert_eq!(outline[..3], ["fill", "cold[rate=500,threads=2]", "serve[rate=500,threads=2]"]);
        // Longer on a busy machine, until every task has had a request.
        let measured = |seconds| {
            let dir = tempfile::tempdir().unwrap();
            let place = Place { root: dir.path().into(), other: dir.path().into() };
            let mut all = vec![];
            for task in ProxyCache.steps(&job(seconds), &place).unwrap() {
                for action in task.work {
                    all.push((task.info.id.clone(), action.perform(&mut |_| {}).unwrap()));
                }
            }
            all.iter().all(|(_, done)| done.readings.get("requests_count") > Some(0.0)).then_some(all)
        };
        let all = [0.05, 0.5, 5.0].into_iter().find_map(measured).expect("a request of every task in 5 s");
        assert_eq!(all.iter().map(|(id, _)| id.to_string()).collect::<Vec<_>>(), outline);
        for (id, done) in all {
            assert!(!done.series.is_empty(), "{id:?}");
            let get = |id: &str| done.readings.get(id);
            let metric = |id: &str| (fsarena_core::metric::find(id).unwrap().from)(&get);
            assert!(metric("cpu_per_request").unwrap() > 0.0 && metric("request_rate").unwrap() > 0.0);
        }
    }
}
