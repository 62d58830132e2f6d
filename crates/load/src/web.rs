//! The code that the workloads of web caches share: the objects of PolyMix-4 and the requests for them, settings,
//! tasks, the readings for the CPU and I/O cost of serving, and the heads of HTTP messages.
//!
//! PolyMix-4 is the workload of the cache-offs, a benchmark of web caches. It defines kinds of objects, their sizes,
//! whether they may be cached, and which of them clients request.

use crate::task::{self, Action, Result, StartState, Task, failed_to};
use crate::workload::{Job, Room};
use crate::{pace::rate_name, payload};
use fsarena_core::sample::{Fold, ReadingDef, Readings, TaskOutput, Unit};
use fsarena_core::{cell::TaskInfo, metric::reading, names::distinct, schedule::mix, setting::SettingDef};
use fsarena_engine::{BlockPicker, LoadOutcome, Pattern};
use fsarena_sys::cpu::{self, ProcessCpuTimes};
use fsarena_sys::kernel::SysRoot;
use rand::{RngExt, SeedableRng, rngs::Xoshiro256PlusPlus};
use rand_distr::{Distribution, Exp, LogNormal};
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, BufReader};

/// Largest size of an object in bytes, so that one object from the tail of the distribution does not fill a small
/// cache.
const MAX_OBJECT_BYTES: u64 = 2 << 20;
/// Mean size of an object in bytes, which follows from [`OBJECT_KINDS`]: 10.6 KB.
const MEAN_OBJECT_BYTES: u64 = 10_575;

/// Number of popular objects for a cache of `cache_bytes`. Together they take twice the room of the cache, so they
/// compete for it.
fn popular_object_count(cache_bytes: u64) -> u64 {
    (2 * cache_bytes / MEAN_OBJECT_BYTES).max(16)
}

/// A distribution of sizes in bytes.
enum SizeDistribution {
    /// Exponential, by its mean.
    Exponential(f64),
    /// Lognormal, by mean and standard deviation.
    LogNormal(f64, f64),
}

/// A kind of objects of PolyMix-4.
struct ObjectKind {
    /// Of a thousand objects, the number of this kind.
    per_mille: u32,
    size: SizeDistribution,
    /// Per cent of the objects that may be cached.
    cachable_percent: u32,
}

/// Images, HTML, downloads, and others.
static OBJECT_KINDS: [ObjectKind; 4] = [
    ObjectKind { per_mille: 650, size: SizeDistribution::Exponential(4_500.0), cachable_percent: 80 },
    ObjectKind { per_mille: 150, size: SizeDistribution::Exponential(8_500.0), cachable_percent: 90 },
    ObjectKind { per_mille: 5, size: SizeDistribution::LogNormal(300_000.0, 300_000.0), cachable_percent: 95 },
    ObjectKind { per_mille: 195, size: SizeDistribution::LogNormal(25_000.0, 10_000.0), cachable_percent: 72 },
];

/// The kind of an object by a uniform draw below 1000.
fn pick_kind(mut draw: u32) -> &'static ObjectKind {
    for kind in &OBJECT_KINDS[..3] {
        if draw < kind.per_mille {
            return kind;
        }
        draw -= kind.per_mille;
    }
    &OBJECT_KINDS[3]
}

/// A web object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WebObject {
    /// Its size in bytes, at least 1.
    pub bytes: u64,
    /// Whether it may be cached.
    pub is_cachable: bool,
}

/// Draws the object with this number. It is always the same for the same seed.
pub fn draw_object(seed: u64, number: u64) -> WebObject {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(mix(seed, number));
    let kind = pick_kind(rng.random_range(0..1000));
    let bytes = match kind.size {
        SizeDistribution::Exponential(mean) => Exp::new(1.0 / mean).map_or(mean, |size| size.sample(&mut rng)),
        SizeDistribution::LogNormal(mean, deviation) => {
            LogNormal::from_mean_cv(mean, deviation / mean).map_or(mean, |size| size.sample(&mut rng))
        }
    };
    let is_cachable = rng.random_range(0..100) < kind.cachable_percent;
    WebObject { bytes: (bytes as u64).clamp(1, MAX_OBJECT_BYTES), is_cachable }
}

/// Bytes of the noise that objects are cut from.
pub const NOISE_BYTES: usize = 256 << 10;

/// Generates the noise that objects are cut from. It cannot be compressed.
pub fn object_noise(seed: u64) -> Vec<u8> {
    payload::generate_noise(mix(seed, 1), NOISE_BYTES)
}

/// The distribution of the requests of all clients together.
pub struct RequestMix {
    /// Number of popular objects, which clients request repeatedly. They are numbered from 0.
    popular_count: u64,
    /// The Zipf exponent of their popularity.
    zipf: f64,
    /// The share of requests for popular objects. Every other request is for a new object.
    recurrence: f64,
    /// The number of the next new object.
    next_new_object: AtomicU64,
}

/// The random choices of one client.
pub struct ClientDraws {
    popular: BlockPicker,
    rng: Xoshiro256PlusPlus,
}

impl RequestMix {
    /// Makes a request mix with `popular_count` popular objects, at least one.
    pub fn new(popular_count: u64, zipf: f64, recurrence: f64) -> RequestMix {
        RequestMix { popular_count, zipf, recurrence, next_new_object: AtomicU64::new(popular_count) }
    }

    /// Starts the draws of one client.
    pub fn start_draws(&self, seed: u64, client: u64) -> ClientDraws {
        // The start position, and the request number that `draw_object_number` passes, matter only for sequential
        // patterns.
        let popular = BlockPicker::new(Pattern::Zipf { theta: self.zipf }, 0..self.popular_count, 0, mix(seed, client));
        ClientDraws { popular, rng: Xoshiro256PlusPlus::seed_from_u64(mix(seed, client | 1 << 40)) }
    }

    /// Draws the number of the object that a client requests next.
    pub fn draw_object_number(&self, draws: &mut ClientDraws) -> u64 {
        if draws.rng.random::<f64>() < self.recurrence {
            draws.popular.next(0)
        } else {
            self.next_new_object.fetch_add(1, Ordering::Relaxed)
        }
    }
}

/// The metrics by which filesystems are compared for a proxy. Arrivals are paced, so elapsed times mean nothing.
pub const CACHE_METRICS: &[&str] = &["cpu_per_request", "iowait_per_request", "corrected_latency_p99_ns"];

/// The share of requests that the cache answered.
pub const HIT_RATIO: &str = "hit_ratio";
/// Mean size of the files in the data set at the end.
pub const MEAN_FILE_BYTES: &str = "file_mean_bytes";
/// Bytes that clients received.
pub const SERVED_BYTES: &str = "served_bytes";
/// Objects that the cache evicted.
pub const EVICTED_COUNT: &str = "replaced_count";
/// Operations as filebench counts them.
pub const FLOWOPS: &str = "flowops_per_s";
/// CPU time of the clients and the origin.
pub const CLIENT_CPU: &str = "client_cpu_ns";
/// Requests that failed.
pub const FAILED_COUNT: &str = "failed_count";

/// The readings that only workloads with requests to a cache have. Such workloads also have the readings of the load
/// engine and of all services.
pub const READINGS: &[ReadingDef] = &[
    ReadingDef::higher(HIT_RATIO, Unit::Ratio).help("requests that the cache answered / all requests"),
    ReadingDef::higher(SERVED_BYTES, Unit::Bytes).help("bytes of objects that clients got"),
    ReadingDef::neutral(EVICTED_COUNT, Unit::Count).help("objects that the cache evicted to make room"),
    ReadingDef::neutral(MEAN_FILE_BYTES, Unit::Bytes)
        .tasks(Fold::None)
        .clients(Fold::Mean)
        .help("mean size of the files in the data set when the task ended: it falls during a measurement of filebench's webproxy"),
    ReadingDef::higher(FLOWOPS, Unit::PerSecond)
        .help("operations a second as filebench counts them: 19 a turn of webproxy's loop"),
    reading::cpu_time(CLIENT_CPU).help("CPU time of clients and origin, user and system"),
    ReadingDef::lower(FAILED_COUNT, Unit::Count).help("requests that failed or were cut short"),
];

/// The CPU time of kernel threads and the iowait time at the start of serving.
pub struct CostAccount {
    sys_root: SysRoot,
    kernel_threads: ProcessCpuTimes,
    iowait_ns: Option<f64>,
}

impl CostAccount {
    /// Reads the CPU time of kernel threads and the iowait time at the start of serving.
    pub fn start() -> CostAccount {
        let sys_root = SysRoot::host();
        let (kernel_threads, iowait_ns) = (cpu::kernel_thread_times(&sys_root), read_iowait_ns(&sys_root));
        CostAccount { sys_root, kernel_threads, iowait_ns }
    }

    /// Syncs the filesystem, because writing dirty pages is part of the cost of serving, and sets the readings of
    /// kernel threads and iowait since the start.
    ///
    /// # Errors
    /// If the filesystem cannot be synced.
    pub fn sync_and_record(self, root: &Path, readings: &mut Readings) -> Result<()> {
        let synced = std::fs::File::open(root).and_then(|dir| Ok(rustix::fs::syncfs(&dir)?));
        synced.map_err(failed_to("sync", root))?;
        let kernel_threads = cpu::kernel_thread_times(&self.sys_root);
        if !kernel_threads.is_empty() {
            readings
                .set(reading::KERNEL_THREADS_CPU, cpu::cpu_ns_between(&self.kernel_threads, &kernel_threads) as f64);
        }
        if let (Some(before), Some(now)) = (self.iowait_ns, read_iowait_ns(&self.sys_root)) {
            readings.set(reading::IOWAIT, (now - before).max(0.0));
        }
        Ok(())
    }
}

/// The iowait time of all CPUs, or `None` if it is unknown: the fifth number of the first line of `/proc/stat`, which
/// counts clock ticks.
fn read_iowait_ns(sys_root: &SysRoot) -> Option<f64> {
    let text = sys_root.read("proc/stat").ok()?;
    let ticks: f64 = text.lines().next()?.split_ascii_whitespace().nth(5)?.parse().ok()?;
    Some(ticks * 1e9 / rustix::param::clock_ticks_per_second() as f64)
}

/// The output of a service that runs as threads of this process. Each operation counts as `requests_per_operation`
/// requests.
///
/// # Errors
/// If the filesystem of the service cannot be synced.
pub fn serving_output(
    outcome: &LoadOutcome,
    requests_per_operation: u64,
    account: CostAccount,
    root: &Path,
) -> Result<TaskOutput> {
    let mut output = outcome.task_output();
    let readings = &mut output.readings;
    readings.set(reading::REQUESTS, (outcome.operations() * requests_per_operation) as f64);
    readings.set(reading::SERVICE_USER_CPU, outcome.cpu.user_ns as f64);
    readings.set(reading::SERVICE_SYSTEM_CPU, outcome.cpu.system_ns as f64);
    account.sync_and_record(root, readings)?;
    Ok(output)
}

/// The setting for the number of directories of the first level.
pub const L1_DIRECTORIES: SettingDef =
    SettingDef::int("l1", 1..=256, 16).help("directories of the first level, where objects are files");

/// The setting for the number of directories of the second level.
pub const L2_DIRECTORIES: SettingDef = SettingDef::int("l2", 1..=1024, 256).help("directories in each of them");

/// The setting for the share of requests that recur.
pub const RECURRENCE: SettingDef = SettingDef::float("recurrence", 0.0..=1.0, 0.7)
    .help("share of requests for popular objects; every other request is for a new object");

/// The setting for the exponent of popularity.
pub const ZIPF: SettingDef = SettingDef::float("zipf", 0.0..=2.0, 0.8).help("exponent of popularity");

/// The resolved settings of a cache: its size, its directories, and the distribution of the requests that it receives.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CacheSettings {
    /// Size of the cache in bytes.
    pub bytes: u64,
    /// Number of directories of the first level, and of the second level in each of them.
    pub level_directories: (u32, u32),
    /// Share of popular requests.
    pub recurrence: f64,
    /// Zipf exponent of popularity.
    pub zipf: f64,
    /// The seed of objects and requests.
    pub seed: u64,
}

impl CacheSettings {
    /// Reads the settings of a job.
    pub fn resolve(job: &Job) -> CacheSettings {
        let settings = &job.settings;
        CacheSettings {
            bytes: settings.int("cache_bytes") as u64,
            level_directories: (settings.int(L1_DIRECTORIES.id) as u32, settings.int(L2_DIRECTORIES.id) as u32),
            recurrence: settings.float(RECURRENCE.id),
            zipf: settings.float(ZIPF.id),
            seed: job.seed,
        }
    }

    /// The distribution of the requests of all clients together.
    pub fn request_mix(&self) -> RequestMix {
        RequestMix::new(popular_object_count(self.bytes), self.zipf, self.recurrence)
    }

    /// Number of the most popular objects that fill the cache. Objects that may not be cached count, but take no space.
    pub fn objects_to_fill(&self) -> u64 {
        let popular_count = popular_object_count(self.bytes);
        let mut filled_bytes = 0;
        for number in 0..popular_count {
            let object = draw_object(self.seed, number);
            filled_bytes += if object.is_cachable { object.bytes } else { 0 };
            if filled_bytes > self.bytes {
                return number;
            }
        }
        popular_count
    }

    /// The space that the cache requires. It has up to `file_factor` times as many files as objects of the mean size
    /// would fill it. The space includes the rounding to blocks, the log, and the old blocks that a copy-on-write
    /// filesystem keeps until it commits.
    pub fn room(&self, file_factor: u64, source_bytes: u64) -> Room {
        let (first, second) = self.level_directories;
        let inodes = file_factor * self.bytes / MEAN_OBJECT_BYTES + u64::from(first * (second + 1));
        Room { bytes: 2 * self.bytes + 4096 * inodes, inodes, source_bytes }
    }
}

/// A task that serves requests.
#[derive(Debug, Clone)]
pub struct ServeTask {
    /// Its name in reports.
    pub info: TaskInfo,
    /// Whether it starts right after a remount.
    pub is_cold: bool,
    /// Requests a second; 0 for as fast as possible.
    pub rate_per_s: i64,
    /// Number of threads that serve, if tasks differ in it.
    pub threads: Option<u32>,
}

impl ServeTask {
    /// Every combination of rates and numbers of threads, without repetitions. The first one also runs from a cold
    /// cache, as an additional task with the title `cold_title`.
    pub fn combinations(job: &Job, thread_counts: &[Option<u32>], cold_title: &str) -> Vec<ServeTask> {
        let rates = distinct(job.settings.ints("rates"));
        let mut tasks = vec![];
        for threads in distinct(thread_counts.iter().copied()) {
            for rate_per_s in rates.iter().copied() {
                if tasks.is_empty() {
                    tasks.push(ServeTask::new("cold", cold_title, threads, rate_per_s));
                }
                tasks.push(ServeTask::new("serve", "Serve", threads, rate_per_s));
            }
        }
        tasks
    }

    fn new(name: &str, title: &str, threads: Option<u32>, rate_per_s: i64) -> ServeTask {
        let mut info = task::info(name, title, [("rate", rate_name(rate_per_s))]);
        info.id.params.extend(threads.map(|threads| ("threads".into(), threads.to_string())));
        ServeTask { info, is_cold: name == "cold", rate_per_s, threads }
    }

    /// Makes the task that does this work.
    pub fn into_task(self, work: Action) -> Task {
        let start_state = if self.is_cold { StartState::Remounted } else { StartState::Warm };
        Task { start_state, ..Task::new(self.info, work) }
    }
}

/// Describes the first task, which fills the cache.
pub fn fill_task_info() -> TaskInfo {
    task::info("fill", "Fill the cache", [])
}

/// Describes all tasks: the one that fills the cache, then those that serve.
pub fn serve_outline(tasks: &[ServeTask]) -> Vec<TaskInfo> {
    std::iter::once(fill_task_info()).chain(tasks.iter().map(|task| task.info.clone())).collect()
}

/// Longest head of an HTTP message, in bytes.
const MAX_HEAD_BYTES: usize = 16 << 10;

/// The head of an HTTP/1.1 request or response.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct HttpHead {
    /// The status of a response.
    pub status: Option<u16>,
    /// The number of the object that a request names.
    pub object_number: Option<u64>,
    /// `Content-Length`.
    pub content_length: Option<u64>,
    /// Whether `X-Cache` states a hit.
    pub is_hit: bool,
    /// Whether the connection ends with this message.
    pub closes_connection: bool,
}

/// Reads a head. Returns `None` if the other side has closed the connection.
///
/// # Errors
/// If the head is incomplete, too long, or not HTTP.
pub async fn read_head(stream: &mut BufReader<impl AsyncRead + Unpin>) -> io::Result<Option<HttpHead>> {
    let mut text = Vec::new();
    loop {
        // Limit the bytes, because a line without an end would fill the memory.
        let read_bytes =
            (&mut *stream).take((MAX_HEAD_BYTES + 1 - text.len()) as u64).read_until(b'\n', &mut text).await?;
        match read_bytes {
            0 if text.is_empty() => return Ok(None),
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            _ if text.len() > MAX_HEAD_BYTES => return Err(io::Error::other("a head of more than 16 KiB")),
            _ => {}
        }
        if text.ends_with(b"\n\n") || text.ends_with(b"\n\r\n") {
            return HttpHead::parse(&text).map(Some).map_err(io::Error::other);
        }
    }
}

impl HttpHead {
    fn parse(text: &[u8]) -> Result<HttpHead, httparse::Error> {
        let mut headers = [httparse::EMPTY_HEADER; 64];
        let mut head = if text.starts_with(b"HTTP/") {
            let mut response = httparse::Response::new(&mut headers);
            response.parse(text)?;
            HttpHead { status: response.code, ..HttpHead::default() }
        } else {
            let mut request = httparse::Request::new(&mut headers);
            request.parse(text)?;
            let path = request.path.filter(|_| request.method == Some("GET"));
            HttpHead {
                object_number: path.and_then(|path| path.strip_prefix("/o/")?.parse().ok()),
                ..HttpHead::default()
            }
        };
        for header in headers.iter().take_while(|header| **header != httparse::EMPTY_HEADER) {
            let value = str::from_utf8(header.value).unwrap_or_default();
            match header.name.to_ascii_lowercase().as_str() {
                "content-length" => head.content_length = value.parse().ok(),
                "x-cache" => head.is_hit = value.starts_with("HIT"),
                "connection" => head.closes_connection = value.eq_ignore_ascii_case("close"),
                _ => {}
            }
        }
        Ok(head)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    #[test]
    fn sizes_and_shares_are_those_of_polymix() {
        const OBJECTS: u64 = 200_000;
        let objects: Vec<WebObject> = (0..OBJECTS).map(|number| draw_object(7, number)).collect();
        let mean = objects.iter().map(|object| object.bytes).sum::<u64>() as f64 / OBJECTS as f64;
        assert!((mean / MEAN_OBJECT_BYTES as f64 - 1.0).abs() < 0.03, "{mean}");
        // 0.65·0.80 + 0.15·0.90 + 0.005·0.95 + 0.195·0.72 = 0.800.
        let cachable_share = objects.iter().filter(|object| object.is_cachable).count() as f64 / OBJECTS as f64;
        assert!((cachable_share - 0.800).abs() < 0.005, "{cachable_share}");
    }

    #[test]
    fn an_object_depends_only_on_the_seed_and_its_number() {
        assert_eq!(draw_object(1, 2), draw_object(1, 2));
        assert!((0..100).any(|number| draw_object(1, number) != draw_object(2, number)));
    }

    #[test]
    fn popular_objects_have_their_share_of_requests_and_others_are_requested_once() {
        let request_mix = RequestMix::new(100, 0.8, 0.7);
        let mut clients = [request_mix.start_draws(3, 0), request_mix.start_draws(3, 1)];
        let mut requests_by_object: HashMap<u64, u32> = HashMap::new();
        for turn in 0..20_000 {
            *requests_by_object.entry(request_mix.draw_object_number(&mut clients[turn % 2])).or_default() += 1;
        }
        let popular_requests: u32 =
            requests_by_object.iter().filter(|(number, _)| **number < 100).map(|(_, requests)| requests).sum();
        assert!((f64::from(popular_requests) / 20_000.0 - 0.7).abs() < 0.02, "{popular_requests}");
        assert!(requests_by_object.iter().all(|(number, requests)| *number < 100 || *requests == 1));
    }

    fn read_head_from(bytes: &[u8]) -> io::Result<Option<HttpHead>> {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(read_head(&mut BufReader::new(bytes)))
    }

    #[test]
    fn heads_of_requests_and_responses_are_parsed() {
        let response =
            b"HTTP/1.1 200 OK\r\ncontent-length: 17\r\nX-Cache: HIT from fsarena\r\nConnection: close\r\n\r\nbody";
        let head = read_head_from(response).unwrap().unwrap();
        assert_eq!(
            (head.status, head.content_length, head.is_hit, head.closes_connection),
            (Some(200), Some(17), true, true)
        );
        let request = read_head_from(b"GET /o/42 HTTP/1.1\r\nHost: x\r\n\r\n").unwrap().unwrap();
        assert_eq!((request.object_number, request.closes_connection), (Some(42), false));
        assert_eq!(read_head_from(b"GET /other HTTP/1.1\r\n\r\n").unwrap().unwrap().object_number, None);
        assert_eq!(read_head_from(b"").unwrap(), None);
        assert!(read_head_from(b"HTTP/1.1 200 OK\r\nX: y").is_err());
        let mut endless = BufReader::new(tokio::io::repeat(b'x'));
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        assert!(runtime.block_on(read_head(&mut endless)).unwrap_err().to_string().contains("16 KiB"));
    }
}
