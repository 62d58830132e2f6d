//! `squid`: the real squid with its cache on the filesystem under test. fsarena is its clients and its origin server,
//! on loopback.
//!
//! Objects are those of PolyMix-4, with Zipf popularity. The clients first fill the cache. Then fsarena restarts squid
//! and remounts the filesystem, and the clients request at the first rate from the cold cache. Then they request at
//! each rate in turn, the first included, from the warm cache. CPU time of squid, of kernel threads and of the clients
//! is reported separately. That of the clients includes the origin server, which runs in the same process.

mod client;
mod process;

use crate::task::{Action, Result, Task, TaskError};
use crate::web::{self, CacheSettings, CostAccount, ServeTask, fill_task_info, serve_outline};
use crate::workload::{Job, Place, Survey, Workload, remark_note};
use crate::workloads::squid::client::{ClientTally, SquidClients};
use crate::workloads::squid::process::{Squid, SquidInstallation};
use fsarena_core::sample::{Readings, TaskOutput};
use fsarena_core::setting::{SettingDef, WorkloadDef};
use fsarena_core::setting_text::setting;
use fsarena_core::{cell::TaskInfo, event::Note, metric::reading};
use fsarena_engine::readings::set_latency;
use fsarena_sys::cpu;
use std::net::{Ipv4Addr, TcpListener};
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The workload.
pub struct SquidWorkload;

const DEF: WorkloadDef = WorkloadDef {
    id: "squid",
    help: "the real squid with its cache on the filesystem under test: fill, restart from cold, and serve at set rates",
    metrics: web::CACHE_METRICS,
    settings: &[
        SettingDef::choice("store", &["aufs", "ufs", "rock"], "aufs")
            .help("how squid keeps objects: files by threads, files by itself, or one database"),
        SettingDef::ints("rates", 0..=100_000, &[50, 100, 200])
            .help("requests a second, Poisson, one task each; 0 for as fast as the clients can"),
        SettingDef::float("seconds", 0.1..=86_400.0, 5.0).help("how long each task sends requests"),
        SettingDef::int("clients", 1..=1000, 32)
            .help("connections that fill the cache and that send unpaced requests; paced requests open further connections, up to 1000"),
        SettingDef::size("cache_bytes", 1 << 20..=1 << 42, 32 << 20).help("size of the cache, in whole MiB"),
        web::L1_DIRECTORIES,
        web::L2_DIRECTORIES,
        web::RECURRENCE,
        web::ZIPF,
    ],
};

/// The state that the tasks of a cell share.
#[derive(Clone)]
struct SquidCell {
    job: Job,
    installation: SquidInstallation,
    /// The listener of the origin server. Its port is part of every object's name, so all tasks use the same one.
    origin: Arc<TcpListener>,
    /// The squid that runs from the task `cold` to the last task.
    running_squid: Arc<Mutex<Option<Squid>>>,
}

/// The settings of the cache, with its size rounded up to whole MiB.
fn cache_settings(job: &Job) -> CacheSettings {
    let cache = CacheSettings::resolve(job);
    CacheSettings { bytes: cache.bytes.next_multiple_of(1 << 20), ..cache }
}

fn serve_tasks(job: &Job) -> Vec<ServeTask> {
    ServeTask::combinations(job, &[None], "Serve after a restart, from a cold page cache")
}

impl Workload for SquidWorkload {
    fn def(&self) -> &'static WorkloadDef {
        &DEF
    }

    fn outline(&self, job: &Job) -> Vec<TaskInfo> {
        serve_outline(&serve_tasks(job))
    }

    fn survey(&self, job: &Job) -> Result<Survey> {
        let cache = cache_settings(job);
        let remarks = remarks(job.settings.text("store"), &cache);
        Ok(Survey { room: cache.room(2, 16 << 20), remarks, ..Survey::default() })
    }

    fn programs(&self, _: &Job) -> Vec<&'static str> {
        vec!["squid"]
    }

    fn server_users(&self) -> &'static [&'static str] {
        process::SERVICE_DEF.users
    }

    fn extra_writable_dir(&self) -> Option<&'static str> {
        Some(process::MEMORY_DIR)
    }

    fn tasks(&self, job: &Job, place: &Place) -> Result<Vec<Task>> {
        let installation = SquidInstallation {
            store: job.settings.text("store").to_string(),
            cache: cache_settings(job),
            cache_dir: place.root.join("cache"),
            run_dir: place.source_dir.join("squid"),
            user: place.server_user.clone(),
        };
        let origin = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(TaskError::io("start the origin"))?;
        origin.set_nonblocking(true).map_err(TaskError::io("start the origin"))?;
        let origin = Arc::new(origin);
        let cell = SquidCell { job: job.clone(), installation, origin, running_squid: Arc::default() };
        let fill = Action::call_with(&cell, cell.logged_argv(&fill_task_info()), SquidCell::fill);
        let mut tasks = vec![Task::new(fill_task_info(), fill)];
        let mut serve_tasks = serve_tasks(job).into_iter().peekable();
        while let Some(task) = serve_tasks.next() {
            let (rate_per_s, is_last) = (task.rate_per_s, serve_tasks.peek().is_none());
            let logged_argv = cell.logged_argv(&task.info);
            let work = Action::call_with(&cell, logged_argv, move |cell| cell.serve(rate_per_s, is_last));
            tasks.push(task.into_task(work));
        }
        Ok(tasks)
    }
}

/// The notes on this workload in every report.
fn remarks(store: &str, cache: &CacheSettings) -> Vec<Note> {
    let text = format!(
        "squid with cache_dir {store} of {} MiB and no memory cache; objects of PolyMix-4 from an origin on loopback, \
         {:.0}% of requests recur (Zipf {}), Poisson arrivals. A task's elapsed time \
         includes starting and stopping squid; the figures of requests do not",
        cache.bytes >> 20,
        100.0 * cache.recurrence,
        cache.zipf
    );
    vec![remark_note(text)]
}

impl SquidCell {
    fn client_count(&self) -> usize {
        self.job.settings.int("clients") as usize
    }

    fn logged_argv(&self, info: &TaskInfo) -> [String; 3] {
        ["squid".into(), info.id.to_string(), self.installation.cache_dir.display().to_string()]
    }

    /// Fills the cache with the most popular objects, and stops squid so that its filesystem can be remounted.
    fn fill(&self) -> Result<TaskOutput> {
        self.installation.create()?;
        let squid = Squid::start(&self.installation)?;
        let object_count = self.installation.cache.objects_to_fill();
        let output =
            self.send_and_measure(&squid, async |clients| clients.fill_cache(self.client_count(), object_count).await);
        // Squid is stopped after an error, too.
        let stopped = squid.stop();
        let output = output?;
        stopped?;
        Ok(output)
    }

    /// Sends requests for the setting `seconds`. The first of these tasks starts squid, and the last one ends it.
    /// `rate_per_s` is 0 for requests as fast as possible.
    fn serve(&self, rate_per_s: i64, is_last: bool) -> Result<TaskOutput> {
        let mut running_squid = self.running_squid.lock().unwrap_or_else(PoisonError::into_inner);
        let squid = running_squid.take().map_or_else(|| Squid::start(&self.installation), Ok)?;
        let (seconds, seed) = (self.job.settings.float("seconds"), self.job.seed);
        let output = self.send_and_measure(&squid, async |clients| match rate_per_s {
            0 => clients.send_unpaced(self.client_count(), seconds, seed).await,
            rate_per_s => clients.send_paced(rate_per_s as f64, seconds, seed).await,
        })?;
        // After the last task, drop `squid`, which kills it: no task reads its index any more, and an orderly shutdown
        // takes seconds.
        if !is_last {
            *running_squid = Some(squid);
        }
        Ok(output)
    }

    /// Sends requests while the origin server runs, and measures the CPU time of squid, of kernel threads, and of the
    /// clients together with the origin server.
    fn send_and_measure(&self, squid: &Squid, send: impl AsyncFnOnce(&Rc<SquidClients>)) -> Result<TaskOutput> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(TaskError::io("start the clients"))?;
        let local = tokio::task::LocalSet::new();
        let own_pid = std::process::id() as i32;
        let origin = self.origin.try_clone().map_err(TaskError::io("start the origin"))?;
        let seed = self.job.seed;
        let account = CostAccount::start();
        let (squid_ns_before, ticks_before) = (squid.cpu_ns(), squid.ticks());
        let client_ns_before = cpu::process_cpu_ns(own_pid).unwrap_or(0);
        let (tally, elapsed) = local.block_on(&runtime, async {
            let listener = tokio::net::TcpListener::from_std(origin).map_err(TaskError::io("start the origin"))?;
            let address = listener.local_addr().map_err(TaskError::io("start the origin"))?;
            let origin = tokio::task::spawn_local(client::serve_origin(listener, seed));
            let clients = SquidClients::new(squid.address, address, seed, self.installation.cache.request_mix());
            let start = Instant::now();
            send(&clients).await;
            let elapsed = start.elapsed();
            origin.abort();
            Ok::<_, TaskError>((clients.into_tally(), elapsed))
        })?;
        let client_ns = cpu::process_cpu_ns(own_pid).unwrap_or(0).saturating_sub(client_ns_before);
        squid.check_running()?;
        let mut readings = tally_readings(&tally, elapsed)?;
        account.sync_and_record(&self.installation.cache_dir, &mut readings)?;
        // Read after the sync, because squid's last writes are part of the cost of serving.
        let ticks = squid.ticks();
        let squid_ns = squid.cpu_ns().saturating_sub(squid_ns_before);
        split_cpu_time(&mut readings, squid_ns, (ticks.0 - ticks_before.0, ticks.1 - ticks_before.1));
        readings.set(web::CLIENT_CPU, client_ns as f64);
        let latencies = fsarena_engine::to_latencies(&tally.corrected_latency);
        Ok(TaskOutput { series: tally.series.into_points(elapsed), latencies, ..TaskOutput::from(readings) })
    }
}

/// The readings of the clients' requests.
///
/// # Errors
/// If no request was answered.
fn tally_readings(tally: &ClientTally, elapsed: Duration) -> Result<Readings> {
    let requests = tally.latency.len();
    if requests == 0 {
        let too_short = || {
            format!("the load took {:.1} s; let it take longer: {}", elapsed.as_secs_f64(), setting("set", "seconds="))
        };
        let reason = tally.first_error.clone().unwrap_or_else(too_short);
        return Err(TaskError::Unfit(format!("no request was answered: {reason}")));
    }
    let mut readings = Readings::default();
    readings.set(reading::REQUESTS, requests as f64);
    readings.set(reading::LOAD_ELAPSED, elapsed.as_nanos() as f64);
    readings.set(web::HIT_RATIO, tally.hits as f64 / requests as f64);
    readings.set(web::SERVED_BYTES, tally.bytes as f64);
    readings.set(web::FAILED_COUNT, tally.failed as f64);
    set_latency(&mut readings, "all_", &tally.latency);
    set_latency(&mut readings, "corrected_", &tally.corrected_latency);
    Ok(readings)
}

/// Sets the user and system time of squid: splits its exact CPU time in the ratio of its clock ticks, which are too
/// coarse by themselves.
fn split_cpu_time(readings: &mut Readings, squid_ns: u64, (user_ticks, system_ticks): (u64, u64)) {
    let ticks = user_ticks + system_ticks;
    let user_share = if ticks > 0 { user_ticks as f64 / ticks as f64 } else { 0.5 };
    readings.set(reading::SERVICE_USER_CPU, squid_ns as f64 * user_share);
    readings.set(reading::SERVICE_SYSTEM_CPU, squid_ns as f64 * (1.0 - user_share));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{job, task_ids};

    #[test]
    fn tasks_fill_the_cache_serve_from_cold_and_serve_at_each_rate() {
        let outline = SquidWorkload.outline(&job(&DEF, 3, &[("rates", "50,0,50")]));
        assert_eq!(task_ids(&outline), ["fill", "cold[rate=50]", "serve[rate=50]", "serve[rate=max]"]);
        assert!(SquidWorkload.survey(&job(&DEF, 3, &[("rates", "1")])).unwrap().room.bytes > 64 << 20);
    }

    #[test]
    fn cpu_time_is_split_in_the_ratio_of_the_ticks() {
        let mut readings = Readings::default();
        split_cpu_time(&mut readings, 1000, (1, 3));
        assert_eq!((readings.get("service_user_ns"), readings.get("service_system_ns")), (Some(250.0), Some(750.0)));
    }
}
