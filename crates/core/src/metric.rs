//! The definitions of all metrics, and how each is computed from the raw readings of a sample. Runs store only readings, so
//! a new metric also applies to old runs.

mod declared;
pub mod reading;
pub(crate) mod spec;

use crate::sample::{Fold, ReadingDef, Unit};
pub use declared::{Contradiction, Declaration, DeclaredMetrics};
pub use reading::{INSTRUCTION_READINGS, LIFECYCLE_READINGS, MULTI_CLIENT_READINGS, SERVICE_READINGS, TIMER_READINGS};
use std::cell::RefCell;
use std::collections::BTreeSet;

/// A function that returns the value of a reading by its name; None if the sample lacks the reading.
pub type Lookup<'a> = &'a dyn Fn(&str) -> Option<f64>;

/// The definition of a derived metric.
#[derive(Debug, Clone, Copy)]
pub struct MetricDef {
    /// Its name in claims, reports and on the command line (`elapsed`), unit, direction and help.
    pub spec: ReadingDef,
    /// Computes it from the raw readings of one sample.
    pub formula: Formula,
}

/// A function that computes a metric from readings; None if one that it needs is missing.
type Formula = fn(Lookup) -> Option<f64>;

const fn metric(spec: ReadingDef, formula: Formula) -> MetricDef {
    MetricDef { spec, formula }
}

/// A reading in nanoseconds, converted to seconds.
fn seconds(get: Lookup, id: &str) -> Option<f64> {
    get(id).map(|ns| ns / 1e9)
}

/// `numerator / denominator`; None if either is missing or the denominator is not above zero.
fn quotient(numerator: Option<f64>, denominator: Option<f64>) -> Option<f64> {
    let (numerator, denominator) = (numerator?, denominator?);
    if denominator <= 0.0 { None } else { Some(numerator / denominator) }
}

/// The sum of the values that exist; None if both are missing.
fn sum(values: [Option<f64>; 2]) -> Option<f64> {
    values.into_iter().flatten().reduce(|a, b| a + b)
}

/// Seconds for each request, from a total in nanoseconds.
fn per_request(get: Lookup, spent_ns: Option<f64>) -> Option<f64> {
    quotient(spent_ns.map(|ns| ns / 1e9), get(reading::REQUESTS))
}

/// A latency over all operations of a load, in seconds. It is counted from the intended start if the load is paced, else from
/// the actual start.
fn paced_or_all(get: Lookup, [paced, all]: [&str; 2]) -> Option<f64> {
    seconds(get, paced).or_else(|| seconds(get, all))
}

/// The readings of a latency, for [`paced_or_all`]: from the intended start, and from the actual start.
const P50: [&str; 2] = ["corrected_latency_p50_ns", "all_latency_p50_ns"];
const P95: [&str; 2] = ["corrected_latency_p95_ns", "all_latency_p95_ns"];
const P99: [&str; 2] = ["corrected_latency_p99_ns", "all_latency_p99_ns"];
const P999: [&str; 2] = ["corrected_latency_p999_ns", "all_latency_p999_ns"];
const MAX: [&str; 2] = ["corrected_latency_max_ns", "all_latency_max_ns"];

/// A latency of the operations of a load.
const fn latency_metric(id: &'static str, help: &'static str, formula: Formula) -> MetricDef {
    metric(ReadingDef::lower(id, Unit::Seconds).help(help), formula)
}

/// A time that is summed over tasks, but not over clients: they run at the same time.
const fn time_metric(id: &'static str, help: &'static str, formula: Formula) -> MetricDef {
    metric(ReadingDef::lower(id, Unit::Seconds).tasks(Fold::Sum).help(help), formula)
}

/// CPU time, which is summed over tasks and over clients.
const fn cpu_time_metric(id: &'static str, help: &'static str, formula: Formula) -> MetricDef {
    metric(ReadingDef::lower(id, Unit::Seconds).tasks(Fold::Sum).clients(Fold::Sum).help(help), formula)
}

/// The time that one operation costs; the mean over clients.
const fn cost_metric(id: &'static str, help: &'static str, formula: Formula) -> MetricDef {
    metric(ReadingDef::lower(id, Unit::Seconds).clients(Fold::Mean).help(help), formula)
}

/// A cost of one call of a task: the reading `amount` divided by the number of calls.
const fn per_call_metric(
    id: &'static str,
    unit: Unit,
    amount: &'static str,
    help: &'static str,
    formula: Formula,
) -> MetricDef {
    let spec = ReadingDef::lower(id, unit).tasks(Fold::None).clients(Fold::Mean).quotient_of([amount, reading::CALLS]);
    metric(spec.help(help), formula)
}

/// All metrics. `elapsed` ends when the command returns; only the synced time includes the final syncfs.
pub const METRICS: &[MetricDef] = &[
    time_metric("elapsed", "time until the command returned", |get| seconds(get, reading::ELAPSED)),
    time_metric("synced", "time until the command's data was on the device: elapsed plus the final syncfs", |get| {
        seconds(get, reading::SYNCED)
    }),
    cpu_time_metric("user", "user CPU time of the process tree", |get| seconds(get, reading::USER_CPU)),
    cpu_time_metric("system", "system CPU time of the process tree", |get| seconds(get, reading::SYSTEM_CPU)),
    cpu_time_metric("cpu", "CPU time of the process tree: user + system", |get| {
        Some(seconds(get, reading::USER_CPU)? + seconds(get, reading::SYSTEM_CPU)?)
    }),
    metric(
        ReadingDef::neutral("cpu_utilization", Unit::Percent)
            .help("(user + system) / elapsed, as time(1) prints it"),
        |get| {
            let cpu = get(reading::USER_CPU)? + get(reading::SYSTEM_CPU)?;
            quotient(Some(100.0 * cpu), get(reading::ELAPSED))
        },
    ),
    metric(
        ReadingDef::lower("background_cpu", Unit::Seconds).tasks(Fold::Sum).machine().help(
            "CPU time of the whole machine beyond the process tree, until the data was synced: the filesystem's own threads, and everything else that ran",
        ),
        |get| Some((get(reading::MACHINE_CPU)? - get(reading::TREE_CPU_SYNCED)?).max(0.0) / 1e9),
    ),
    metric(
        ReadingDef::lower("total_cpu", Unit::Seconds)
            .tasks(Fold::Sum)
            .machine()
            .help("CPU time of the whole machine until the data was synced"),
        |get| seconds(get, reading::MACHINE_CPU),
    ),
    metric(
        ReadingDef::lower("instructions", Unit::Count).help(
            "instructions of a guest that counts them, until the data was synced: excludes the effects of caches, memory, the device and waiting",
        ),
        |get| get(reading::GUEST_INSTRUCTIONS),
    ),
    metric(
        ReadingDef::lower("instructions_per_call", Unit::Count)
            .tasks(Fold::None)
            .clients(Fold::Mean)
            .quotient_of([reading::KERNEL_INSTRUCTIONS, reading::SYSTEM_CALLS])
            .help("instructions of the kernel per system call, until the data was synced: the operation as the kernel sees it"),
        |get| quotient(get(reading::KERNEL_INSTRUCTIONS), get(reading::SYSTEM_CALLS)),
    ),
    metric(
        ReadingDef::lower("process_instructions", Unit::Count).help(
            "instructions of the process tree alone, in user space and in the kernel, until its command returned",
        ),
        |get| get(reading::TREE_INSTRUCTIONS),
    ),
    metric(
        ReadingDef::lower("background_instructions", Unit::Count).help(
            "instructions of the guest beyond the process tree, until the data was synced: the filesystem's own threads",
        ),
        |get| Some((get(reading::GUEST_INSTRUCTIONS)? - get(reading::TREE_INSTRUCTIONS_SYNCED)?).max(0.0)),
    ),
    metric(
        ReadingDef::higher("iops", Unit::PerSecond).help(
            "reads and writes a second, after the warm-up; syncs are not counted but take their time",
        ),
        |get| sum([get(reading::READ_RATE), get(reading::WRITE_RATE)]),
    ),
    metric(
        ReadingDef::higher("bandwidth", Unit::BytesPerSecond)
            .help("bytes read and written a second, after the warm-up"),
        |get| sum([get(reading::READ_BANDWIDTH), get(reading::WRITE_BANDWIDTH)]),
    ),
    metric(
        ReadingDef::higher("throughput", Unit::BytesPerSecond).help(
            "bytes that the clients of a file server read and wrote a second, after the warm-up: what dbench calls throughput, in MB/s of 10^6 bytes",
        ),
        |get| get(reading::SERVED_BANDWIDTH),
    ),
    latency_metric("latency_p50", "median latency", |get| paced_or_all(get, P50)),
    latency_metric("latency_p95", "95th percentile of latency", |get| paced_or_all(get, P95)),
    latency_metric("latency_p99", "99th percentile of latency", |get| paced_or_all(get, P99)),
    latency_metric("latency_p999", "99.9th percentile of latency", |get| paced_or_all(get, P999)),
    metric(
        ReadingDef::neutral("device_share", Unit::Ratio).help(
            "bytes that reached the device, both ways / bytes that the process tree asked to read and write: under 0.1 a cache answered, from 0.9 on the device did",
        ),
        |get| {
            let device = sum([get(reading::DEVICE_READ_BYTES), get(reading::DEVICE_WRITTEN_BYTES)]);
            quotient(device, sum([get(reading::READ_BYTES), get(reading::WRITTEN_BYTES)]))
        },
    ),
    metric(
        ReadingDef::lower("write_amplification", Unit::Ratio)
            .quotient_of([reading::DEVICE_WRITTEN_BYTES, reading::WRITTEN_BYTES])
            .help("bytes written to the device / bytes that the process tree asked to write"),
        |get| quotient(get(reading::DEVICE_WRITTEN_BYTES), get(reading::WRITTEN_BYTES)),
    ),
    metric(
        ReadingDef::lower("overhead_ratio", Unit::Ratio)
            .quotient_of([reading::SPACE_GROWTH, reading::WRITTEN_BYTES])
            .help("growth of the used space of the filesystem / bytes that the process tree asked to write: under 1 it compressed, above 1 is metadata and rounding"),
        |get| quotient(get(reading::SPACE_GROWTH), get(reading::WRITTEN_BYTES)),
    ),
    metric(
        ReadingDef::neutral("device_read_share", Unit::Ratio)
            .quotient_of([reading::DEVICE_READ_BYTES, reading::READ_BYTES])
            .help("bytes read from the device / bytes that the process tree asked to read: near 0 the cache answered, near 1 the device"),
        |get| quotient(get(reading::DEVICE_READ_BYTES), get(reading::READ_BYTES)),
    ),
    metric(
        ReadingDef::higher("request_rate", Unit::PerSecond).help("requests answered a second"),
        |get| Some(1e9 * quotient(get(reading::REQUESTS), get(reading::LOAD_ELAPSED))?),
    ),
    metric(
        ReadingDef::higher("tps", Unit::PerSecond)
            .help("transactions a second, connecting excluded: what pgbench calls tps"),
        |get| get(reading::TRANSACTION_RATE),
    ),
    metric(
        ReadingDef::lower("user_per_request", Unit::Seconds)
            .quotient_of([reading::SERVICE_USER_CPU, reading::REQUESTS])
            .help("user CPU time of the service for each request; user plus system time is exact, and the kernel samples at clock ticks how it splits into the two"),
        |get| per_request(get, get(reading::SERVICE_USER_CPU)),
    ),
    cost_metric(
        "system_per_request",
        "system CPU time for each request: that of the service and of the kernel's own threads",
        |get| {
            let threads = get(reading::KERNEL_THREADS_CPU).unwrap_or(0.0);
            per_request(get, Some(get(reading::SERVICE_SYSTEM_CPU)? + threads))
        },
    ),
    cost_metric(
        "cpu_per_request",
        "CPU time for each request: service, user and system, and the kernel's own threads; exact",
        |get| {
            let service = get(reading::SERVICE_USER_CPU)? + get(reading::SERVICE_SYSTEM_CPU)?;
            per_request(get, Some(service + get(reading::KERNEL_THREADS_CPU).unwrap_or(0.0)))
        },
    ),
    metric(
        ReadingDef::lower("iowait_per_request", Unit::Seconds).quotient_of([reading::IOWAIT, reading::REQUESTS]).help(
            "iowait of the whole machine for each request: sampled at timer ticks, and only of CPUs that were idle",
        ),
        |get| per_request(get, get(reading::IOWAIT)),
    ),
    metric(
        ReadingDef::higher("usable_space", Unit::Percent)
            .quotient_of([reading::USABLE_BYTES, reading::DEVICE_SIZE])
            .help("bytes a user without privileges can write after mkfs, as a share of the device"),
        |get| quotient(get(reading::USABLE_BYTES).map(|bytes| 100.0 * bytes), get(reading::DEVICE_SIZE)),
    ),
    metric(
        ReadingDef::higher("commits_per_s", Unit::PerSecond)
            .help("durable commits a second: records of a log, transactions of a database, deliveries of mail"),
        |get| get(reading::COMMIT_RATE),
    ),
    per_call_metric(
        "device_bytes_per_call",
        Unit::Bytes,
        reading::DEVICE_WRITTEN_BYTES,
        "bytes written to the device for each call of the task, until all of them were synced",
        |get| quotient(get(reading::DEVICE_WRITTEN_BYTES), get(reading::CALLS)),
    ),
    per_call_metric(
        "device_writes_per_call",
        Unit::Count,
        reading::DEVICE_WRITES,
        "write requests that the device completed for each call of the task, until all of them were synced",
        |get| quotient(get(reading::DEVICE_WRITES), get(reading::CALLS)),
    ),
    per_call_metric(
        "device_flushes_per_call",
        Unit::Count,
        reading::DEVICE_FLUSHES,
        "cache flushes that the device completed for each call of the task, until all of them were synced",
        |get| quotient(get(reading::DEVICE_FLUSHES), get(reading::CALLS)),
    ),
    latency_metric("latency_max", "longest latency", |get| paced_or_all(get, MAX)),
];

/// Finds a derived metric by its name.
pub fn find(id: &str) -> Option<&'static MetricDef> {
    METRICS.iter().find(|metric| metric.spec.id == id)
}

/// The names of the readings that a metric is computed from, and `id` itself, which may be the name of a reading.
pub fn readings_of(id: &str) -> BTreeSet<String> {
    let names = RefCell::new(BTreeSet::from([id.to_string()]));
    let Some(metric) = find(id) else { return names.into_inner() };
    // Evaluate the formula twice: some formulas stop at the first missing reading, others at the first one that exists.
    for value in [Some(1.0), None] {
        (metric.formula)(&|name| {
            names.borrow_mut().insert(name.to_string());
            value
        });
    }
    names.into_inner()
}

/// The largest share of the processor time that the load generator may take, 0–1. Above it fsarena labels the result
/// client-bound: it measures the generator more than the filesystem.
pub const MAX_GENERATOR_SHARE: f64 = 0.10;

crate::named_enum! {
    /// The data path of the I/O that a task requested.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum DataPath {
        /// A cache: under a tenth of the bytes reached the device.
        Cache = "cache",
        /// Both: from a tenth to under nine tenths of the bytes reached the device.
        Mixed = "mixed",
        /// The device: at least nine tenths of the bytes reached it. More than 100% is possible, because filesystems also
        /// write metadata.
        Device = "device",
    }
}

impl DataPath {
    /// The data path for a value of `device_share`.
    pub fn of(device_share: f64) -> DataPath {
        match device_share {
            share if share < 0.1 => DataPath::Cache,
            share if share < 0.9 => DataPath::Mixed,
            _ => DataPath::Device,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::MetricSpec;

    fn lookup_in(pairs: &'static [(&str, f64)]) -> impl Fn(&str) -> Option<f64> {
        move |id| pairs.iter().find(|(name, _)| *name == id).map(|(_, value)| *value)
    }

    #[test]
    fn cpu_utilization_is_what_time_prints() {
        let get = lookup_in(&[("user_ns", 1e9), ("system_ns", 0.5e9), ("elapsed_ns", 2e9)]);
        assert_eq!((find("cpu_utilization").unwrap().formula)(&get), Some(75.0));
    }

    #[test]
    fn a_metric_without_its_readings_is_absent() {
        let get = lookup_in(&[("user_ns", 1e9)]);
        assert_eq!((find("cpu").unwrap().formula)(&get), None);
    }

    #[test]
    fn readings_of_a_metric_include_alternatives_and_its_own_name() {
        let readings = |id| readings_of(id).into_iter().collect::<Vec<_>>();
        assert_eq!(readings("iops"), ["iops", "read_iops_per_s", "write_iops_per_s"]);
        assert_eq!(readings("latency_p99"), ["all_latency_p99_ns", "corrected_latency_p99_ns", "latency_p99"]);
        let cpu = ["kernel_threads_ns", "requests_count", "service_system_ns", "system_per_request"];
        assert_eq!(readings("system_per_request"), cpu);
        assert_eq!(readings("a_printed_metric"), ["a_printed_metric"]);
    }

    #[test]
    fn requests_of_both_kinds_are_summed() {
        let get = lookup_in(&[("read_iops_per_s", 30.0), ("write_iops_per_s", 20.0), ("all_iops_per_s", 99.0)]);
        assert_eq!((find("iops").unwrap().formula)(&get), Some(50.0));
        assert_eq!((find("iops").unwrap().formula)(&lookup_in(&[("write_iops_per_s", 20.0)])), Some(20.0));
        assert_eq!((find("iops").unwrap().formula)(&lookup_in(&[("all_iops_per_s", 99.0)])), None);
    }

    #[test]
    fn paced_latency_counts_from_the_intended_start() {
        let paced = [("all_latency_p999_ns", 2e6), ("corrected_latency_p999_ns", 5e6)];
        let p999 = |pairs: &[(&str, f64)]| {
            let get = |id: &str| pairs.iter().find(|(name, _)| *name == id).map(|(_, value)| *value);
            (find("latency_p999").unwrap().formula)(&get)
        };
        assert_eq!((p999(&paced), p999(&paced[..1])), (Some(0.005), Some(0.002)));
    }

    #[test]
    fn the_device_share_selects_the_data_path() {
        let get = lookup_in(&[("device_read_bytes", 950.0), ("device_write_bytes", 10.0), ("read_bytes", 1000.0)]);
        let share = (find("device_share").unwrap().formula)(&get).unwrap();
        assert_eq!((share, DataPath::of(share)), (0.96, DataPath::Device));
        assert_eq!(
            [0.0, 0.09, 0.1, 0.89, 0.9, 3.0].map(|share| DataPath::of(share).name()),
            ["cache", "cache", "mixed", "mixed", "device", "device"]
        );
    }

    #[test]
    fn costs_per_request_divide_totals_by_the_number_of_requests() {
        let get = lookup_in(&[
            ("requests_count", 500.0),
            ("load_elapsed_ns", 2e9),
            ("service_user_ns", 1e9),
            ("service_system_ns", 0.5e9),
            ("kernel_threads_ns", 0.25e9),
            ("iowait_ns", 0.1e9),
        ]);
        let value = |id: &str| (find(id).unwrap().formula)(&get).unwrap();
        assert_eq!(value("request_rate"), 250.0);
        assert_eq!((value("user_per_request"), value("system_per_request")), (0.002, 0.0015));
        assert_eq!((value("cpu_per_request"), value("iowait_per_request")), (0.0035, 0.0002));
    }

    #[test]
    fn a_quotient_with_denominator_zero_is_absent() {
        let get = lookup_in(&[("device_write_bytes", 4096.0), ("written_bytes", 0.0)]);
        assert_eq!((find("write_amplification").unwrap().formula)(&get), None);
    }

    #[test]
    fn amounts_have_a_total_and_costs_per_operation_do_not() {
        let total_name = |id: &str| find(id).unwrap().spec.total_name();
        assert!(
            ["elapsed", "synced", "system", "total_cpu", "instructions"]
                .iter()
                .all(|id| total_name(id) == Some("total"))
        );
        assert!(["cpu_per_request", "throughput", "latency_p99"].iter().all(|id| total_name(id).is_none()));
        assert_eq!(total_name("write_amplification"), Some("total"));
    }

    #[test]
    fn quotients_agree_with_their_formulas() {
        let quotients = METRICS.iter().filter_map(|metric| Some((metric, metric.spec.quotient_of?)));
        for (metric, parts) in quotients {
            let value = (metric.formula)(&|id| Some(if id == parts[0] { 6e9 } else { 3.0 }));
            let unit = |id: &str| match id.ends_with("_ns") {
                true => Unit::Nanoseconds,
                false => Unit::Count,
            };
            let spec = MetricSpec::from(&metric.spec);
            let quotient = spec.quotient([(6e9, unit(parts[0])), (3.0, unit(parts[1]))]);
            assert!((value.unwrap() / quotient.unwrap() - 1.0).abs() < 1e-12, "{}", spec.id);
        }
    }

    #[test]
    fn names_are_unique() {
        let mut ids: Vec<_> = METRICS
            .iter()
            .map(|metric| metric.spec.id)
            .chain(TIMER_READINGS.iter().map(|reading| reading.id))
            .collect();
        ids.sort_unstable();
        let count = ids.len();
        ids.dedup();
        assert_eq!(ids.len(), count);
    }
}
