//! `proxy-cache`: an on-disk cache of web pages without a proxy. Threads of fsarena do what Squid's ufs does with its files.
//!
//! The cache has two levels of directories, a file for each object, and an index in memory. It evicts the least recently
//! used objects first. The objects are those of PolyMix-4 with Zipf popularity, and requests arrive when they are due,
//! however slow earlier requests are.

mod cache;

use crate::pace;
use crate::task::{Action, Result, Task, TaskError};
use crate::web::{self, CacheShape, CostAccount, ServeTask, fill_task_info, serve_outline};
use crate::workload::{Job, Place, Survey, Workload, remark};
use crate::workloads::proxy_cache::cache::{Cache, KINDS};
use fsarena_core::setting::{SettingDef, WorkloadDef};
use fsarena_core::{cell::TaskInfo, event::Note};
use fsarena_engine::{Bound, custom_load::CustomLoadConfig};
use std::sync::{Arc, OnceLock};
use std::{path::Path, sync::atomic::Ordering};

/// The workload.
pub struct ProxyCache;

/// Number of threads that fill the cache.
const FILLERS: u32 = 4;

const DEF: WorkloadDef = WorkloadDef {
    id: "proxy-cache",
    help: "an on-disk web cache: lookups, stores, replacement, in an open loop at set rates; the model of squid without squid",
    metrics: web::CACHE_METRICS,
    settings: &[
        SettingDef::ints("rates", 0..=10_000_000, &[200, 400, 800])
            .help("requests a second, one task each; 0 for as fast as it can serve them"),
        SettingDef::ints("threads", 1..=256, &[16]).help("threads that serve, one task each"),
        SettingDef::float("seconds", 0.01..=86_400.0, 2.0).help("how long each task serves"),
        pace::ARRIVALS,
        SettingDef::size("cache_bytes", 1 << 16..=1 << 44, 64 << 20)
            .help("size of the cache; a full cache evicts the least recently used objects"),
        web::L1,
        web::L2,
        web::RECURRENCE,
        web::ZIPF,
        SettingDef::flag("log", true)
            .help("append a record to swap.state for each object that comes or goes"),
    ],
};

fn loads(job: &Job) -> Vec<ServeTask> {
    let threads = job.settings.ints("threads").into_iter().map(|threads| Some(threads as u32));
    ServeTask::all(job, &threads.collect::<Vec<_>>(), "Serve from a cold page cache")
}

impl Workload for ProxyCache {
    fn def(&self) -> &'static WorkloadDef {
        &DEF
    }

    fn outline(&self, job: &Job) -> Vec<TaskInfo> {
        serve_outline(&loads(job))
    }

    fn survey(&self, job: &Job) -> Result<Survey> {
        let shape = CacheShape::from_settings(job);
        Ok(Survey { room: shape.room(4, 0), remarks: remarks(&shape), ..Survey::default() })
    }

    fn steps(&self, job: &Job, place: &Place) -> Result<Vec<Task>> {
        let shared: Shared = Arc::default();
        let mut tasks = vec![Task::new(fill_task_info(), fill(job, &place.root, shared.clone()))];
        tasks.extend(loads(job).into_iter().map(|load| {
            let work = serve(job, &load, &place.root, shared.clone());
            load.task(work)
        }));
        Ok(tasks)
    }
}

/// The notes on this workload in every report.
fn remarks(shape: &CacheShape) -> Vec<Note> {
    let text = format!(
        "proxy-cache models Squid's ufs: a cache of {} MiB, objects of PolyMix-4, {:.0}% of requests recur \
         (Zipf {}); the index is in memory, objects are written in pages of 4 KiB and never synced; misses \
         cost no network. What is dirty at the end of a task is written before its CPU is counted",
        shape.bytes >> 20,
        100.0 * shape.recurrence,
        shape.zipf,
    );
    vec![remark(text)]
}

/// The cache that the first task creates and the others serve from.
type Shared = Arc<OnceLock<Cache>>;

fn fill(job: &Job, root: &Path, shared: Shared) -> Action {
    let (shape, log) = (CacheShape::from_settings(job), job.settings.flag("log"));
    Action::on("fill", root, move |root| {
        let account = CostAccount::begin();
        let created = Cache::create(root, shape, log, shape.demand())?;
        let bound = Bound::Operations(shape.count_to_fill().max(1));
        let seed = shape.seed;
        let config =
            CustomLoadConfig { threads: FILLERS, kinds: &KINDS, rate: None, bound, interval_ms: 100, seed };
        let outcome = shared.get_or_init(|| created).run(&config, true)?;
        web::serving_output(&outcome, 1, account, root)
    })
}

fn serve(job: &Job, load: &ServeTask, root: &Path, shared: Shared) -> Action {
    let (settings, seed) = (&job.settings, job.seed);
    let (rate, bound) = (pace::rate(settings, load.rate), Bound::Seconds(settings.float("seconds")));
    let threads = load.threads.unwrap_or(1);
    Action::on(&load.info.id.to_string(), root, move |root| {
        let cache = shared.get().ok_or_else(|| TaskError::Unfit("the cache was not filled".into()))?;
        let config = CustomLoadConfig { threads, kinds: &KINDS, rate, bound, interval_ms: 100, seed };
        let count = || [&cache.served, &cache.replaced].map(|count| count.load(Ordering::Relaxed));
        let before = count();
        let account = CostAccount::begin();
        let outcome = cache.run(&config, false)?;
        let mut found = web::serving_output(&outcome, 1, account, root)?;
        let own = &mut found.readings;
        let hits = outcome.kind("hit").map_or(0, |kind| kind.count);
        own.set(web::HIT_RATIO, hits as f64 / outcome.operations().max(1) as f64);
        let [served, replaced] = count();
        own.set(web::SERVED, (served - before[0]) as f64);
        own.set(web::REPLACED, (replaced - before[1]) as f64);
        Ok(found)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{ids, job, perform, place};
    use fsarena_core::sample::TaskOutput;

    #[test]
    fn every_task_has_the_cost_and_the_rate_of_requests() {
        let job = |seconds| {
            let set = [
                ("rates", "500,0"),
                ("threads", "2,256"),
                ("seconds", seconds),
                ("cache_bytes", "262144"),
                ("l1", "2"),
                ("l2", "4"),
            ];
            job(&DEF, 3, &set)
        };
        let outline = ids(&ProxyCache.outline(&job("0.05")));
        assert_eq!(outline.len(), 2 + 2 * 2);
        assert_eq!(outline[..3], ["fill", "cold[rate=500,threads=2]", "serve[rate=500,threads=2]"]);
        let metric = |done: &TaskOutput, id: &str| {
            let get = |id: &str| done.readings.get(id);
            (fsarena_core::metric::find(id).unwrap().from)(&get)
        };
        // Longer on a busy machine, until every task has had a request and the kernel has counted its CPU time.
        let measured = |seconds| {
            let dir = tempfile::tempdir().unwrap();
            let mut all = vec![];
            for task in ProxyCache.steps(&job(seconds), &place(dir.path())).unwrap() {
                for action in task.work {
                    all.push((task.info.id.clone(), perform([action])));
                }
            }
            all.iter().all(|(_, done)| metric(done, "cpu_per_request") > Some(0.0)).then_some(all)
        };
        let all =
            ["0.05", "0.5", "5"].into_iter().find_map(measured).expect("a request of every task in 5 s");
        assert_eq!(all.iter().map(|(id, _)| id.to_string()).collect::<Vec<_>>(), outline);
        for (id, done) in all {
            assert!(!done.series.is_empty(), "{id:?}");
            assert!(metric(&done, "request_rate") > Some(0.0), "{id:?}");
        }
    }
}
