//! Metrics: what is derived from raw readings, after the fact.

mod reach;
pub mod reading;

pub use reach::Reach;
pub use reading::{INSTRUCTIONS, LIFECYCLE, SERVICE, TIMER, TOGETHER};

use crate::sample::{Direction, Unit};
use std::{cell::RefCell, collections::BTreeSet};

/// Gives the value of a reading, where it was taken.
pub type Lookup<'a> = &'a dyn Fn(&str) -> Option<f64>;

/// The definition of a derived metric.
#[derive(Debug, Clone, Copy)]
pub struct MetricDef {
    /// The name in claims, reports and on the command line: `elapsed`.
    pub id: &'static str,
    /// Its unit.
    pub unit: Unit,
    /// Which way is better.
    pub direction: Direction,
    /// What it means, and its formula.
    pub help: &'static str,
    /// Computes it from the raw readings of one sample.
    pub from: From,
}

/// How a metric is computed.
type From = fn(Lookup) -> Option<f64>;

impl MetricDef {
    const fn lower(id: &'static str, unit: Unit, from: From) -> MetricDef {
        MetricDef { id, unit, direction: Direction::Lower, help: "", from }
    }

    const fn higher(id: &'static str, unit: Unit, from: From) -> MetricDef {
        MetricDef { direction: Direction::Higher, ..MetricDef::lower(id, unit, from) }
    }

    const fn neutral(id: &'static str, unit: Unit, from: From) -> MetricDef {
        MetricDef { direction: Direction::Neutral, ..MetricDef::lower(id, unit, from) }
    }

    const fn help(self, help: &'static str) -> MetricDef {
        MetricDef { help, ..self }
    }
}

fn seconds(get: Lookup, id: &str) -> Option<f64> {
    get(id).map(|ns| ns / 1e9)
}

fn quotient(above: Option<f64>, below: Option<f64>) -> Option<f64> {
    match (above?, below?) {
        (_, below) if below <= 0.0 => None,
        (above, below) => Some(above / below),
    }
}

/// The sum of what is there; absent where nothing is.
fn sum(values: [Option<f64>; 2]) -> Option<f64> {
    values.into_iter().flatten().reduce(|a, b| a + b)
}

fn per_request(get: Lookup, spent_ns: Option<f64>) -> Option<f64> {
    quotient(spent_ns.map(|ns| ns / 1e9), get(reading::REQUESTS))
}

/// A latency of all operations of a load: from the intended start where the load is paced.
fn paced_or_all(get: Lookup, [paced, all]: [&str; 2]) -> Option<f64> {
    seconds(get, paced).or_else(|| seconds(get, all))
}

const P50: [&str; 2] = ["corrected_latency_p50_ns", "all_latency_p50_ns"];
const P95: [&str; 2] = ["corrected_latency_p95_ns", "all_latency_p95_ns"];
const P99: [&str; 2] = ["corrected_latency_p99_ns", "all_latency_p99_ns"];
const P999: [&str; 2] = ["corrected_latency_p999_ns", "all_latency_p999_ns"];
const LONGEST: [&str; 2] = ["corrected_latency_max_ns", "all_latency_max_ns"];

const fn latency(id: &'static str, help: &'static str, from: From) -> MetricDef {
    MetricDef::lower(id, Unit::Seconds, from).help(help)
}

/// All metrics. `elapsed` ends when the command returns; only the synced time includes the final syncfs.
pub const METRICS: &[MetricDef] = &[
    MetricDef::lower("elapsed", Unit::Seconds, |get| seconds(get, reading::ELAPSED))
        .help("time until the command returned"),
    MetricDef::lower("durable", Unit::Seconds, |get| seconds(get, reading::DURABLE))
        .help("time until the command's data was on the device: elapsed plus the final syncfs"),
    MetricDef::lower("user", Unit::Seconds, |get| seconds(get, reading::USER))
        .help("user CPU time of the process tree"),
    MetricDef::lower("system", Unit::Seconds, |get| seconds(get, reading::SYSTEM))
        .help("system CPU time of the process tree"),
    MetricDef::lower("cpu", Unit::Seconds, |get| {
        Some(seconds(get, reading::USER)? + seconds(get, reading::SYSTEM)?)
    })
    .help("CPU time of the process tree: user + system"),
    MetricDef::neutral("cpu_utilization", Unit::Percent, |get| {
        let cpu = get(reading::USER)? + get(reading::SYSTEM)?;
        quotient(Some(100.0 * cpu), get(reading::ELAPSED))
    })
    .help("(user + system) / elapsed, as time(1) prints it"),
    MetricDef::lower("background_cpu", Unit::Seconds, |get| {
        Some((get(reading::MACHINE_CPU)? - get(reading::TREE_CPU_DURABLE)?).max(0.0) / 1e9)
    })
    .help("CPU time of the whole machine beyond the process tree, until the data was synced: the filesystem's own threads, and everything else that ran"),
    MetricDef::lower("total_cpu", Unit::Seconds, |get| seconds(get, reading::MACHINE_CPU))
        .help("CPU time of the whole machine until the data was synced"),
    MetricDef::lower("instructions", Unit::Count, |get| get(reading::GUEST_INSTRUCTIONS))
        .help("instructions of a guest that counts them, until the data was synced: excludes the effects of caches, memory, the device and waiting"),
    MetricDef::lower("instructions_per_call", Unit::Count, |get| {
        quotient(get(reading::KERNEL_INSTRUCTIONS), get(reading::SYSTEM_CALLS))
    })
    .help("instructions of the kernel per system call, until the data was synced: the operation as the kernel sees it"),
    MetricDef::lower("process_instructions", Unit::Count, |get| get(reading::TREE_INSTRUCTIONS))
        .help("instructions of the process tree alone, in user space and in the kernel, until its command returned"),
    MetricDef::lower("background_instructions", Unit::Count, |get| {
        Some((get(reading::GUEST_INSTRUCTIONS)? - get(reading::TREE_INSTRUCTIONS_DURABLE)?).max(0.0))
    })
    .help("instructions of the guest beyond the process tree, until the data was synced: the filesystem's own threads"),
    MetricDef::higher("iops", Unit::PerSecond, |get| {
        sum([get(reading::READ_RATE), get(reading::WRITE_RATE)])
    })
    .help("reads and writes a second, after the warm-up; syncs are not counted but take their time"),
    MetricDef::higher("bandwidth", Unit::BytesPerSecond, |get| {
        sum([get(reading::READ_BANDWIDTH), get(reading::WRITE_BANDWIDTH)])
    })
    .help("bytes read and written a second, after the warm-up"),
    MetricDef::higher("throughput", Unit::BytesPerSecond, |get| get(reading::THROUGHPUT))
        .help("bytes that the clients of a file server read and wrote a second, after the warm-up: what dbench calls throughput, in MB/s of 10^6 bytes"),
    latency("latency_p50", "median latency", |get| paced_or_all(get, P50)),
    latency("latency_p95", "95th percentile of latency", |get| paced_or_all(get, P95)),
    latency("latency_p99", "99th percentile of latency", |get| paced_or_all(get, P99)),
    latency("latency_p999", "99.9th percentile of latency", |get| paced_or_all(get, P999)),
    MetricDef::neutral("device_share", Unit::Ratio, |get| {
        let device = sum([get(reading::DEVICE_READ), get(reading::DEVICE_WRITTEN)]);
        quotient(device, sum([get(reading::READ), get(reading::WRITTEN)]))
    })
    .help("bytes that reached the device, both ways / bytes that the process tree asked to read and write: under 0.1 a cache answered, from 0.9 on the device did"),
    MetricDef::lower("write_amplification", Unit::Ratio, |get| {
        quotient(get(reading::DEVICE_WRITTEN), get(reading::WRITTEN))
    })
    .help("bytes written to the device / bytes that the process tree asked to write"),
    MetricDef::neutral("device_read_share", Unit::Ratio, |get| {
        quotient(get(reading::DEVICE_READ), get(reading::READ))
    })
    .help("bytes read from the device / bytes that the process tree asked to read: near 0 the cache answered, near 1 the device"),
    MetricDef::higher("request_rate", Unit::PerSecond, |get| {
        Some(1e9 * quotient(get(reading::REQUESTS), get(reading::LOAD_ELAPSED))?)
    })
    .help("requests answered a second"),
    MetricDef::higher("tps", Unit::PerSecond, |get| get(reading::TRANSACTIONS))
        .help("transactions a second, connecting excluded: what pgbench calls tps"),
    MetricDef::lower("user_per_request", Unit::Seconds, |get| per_request(get, get(reading::SERVICE_USER)))
        .help("user CPU time of the service for each request; its sum with system time is exact, the split is sampled at ticks"),
    MetricDef::lower("system_per_request", Unit::Seconds, |get| {
        per_request(get, Some(get(reading::SERVICE_SYSTEM)? + get(reading::KERNEL_THREADS).unwrap_or(0.0)))
    })
    .help("system CPU time for each request: that of the service and of the kernel's own threads"),
    MetricDef::lower("cpu_per_request", Unit::Seconds, |get| {
        let service = get(reading::SERVICE_USER)? + get(reading::SERVICE_SYSTEM)?;
        per_request(get, Some(service + get(reading::KERNEL_THREADS).unwrap_or(0.0)))
    })
    .help("CPU time for each request: service, user and system, and the kernel's own threads; exact"),
    MetricDef::lower("iowait_per_request", Unit::Seconds, |get| per_request(get, get(reading::IOWAIT)))
        .help("iowait of the whole machine for each request: tick-sampled, and only where CPUs were idle besides"),
    MetricDef::higher("usable_space", Unit::Percent, |get| {
        quotient(get(reading::USABLE).map(|b| 100.0 * b), get(reading::DEVICE_SIZE))
    })
    .help("bytes a user without privileges can write after mkfs, as a share of the device"),
    MetricDef::higher("commits_per_s", Unit::PerSecond, |get| get(reading::COMMIT_RATE))
        .help("durable commits a second: records of a log, transactions of a database, deliveries of mail"),
    latency("latency_max", "longest latency", |get| paced_or_all(get, LONGEST)),
];

/// The label of a metric in text for people: `synced` for the synced time, the id for every other.
pub fn label(id: &str) -> &str {
    match id {
        "durable" => "synced",
        id => id,
    }
}

/// Whether a sum of a metric over tasks means anything. That of rates and shares does not, nor that of what one
/// operation takes: costs for each request, latencies.
pub fn adds_up(id: &str, unit: Unit) -> bool {
    let of_one_operation = id.contains("_per_") || id.contains("latency");
    !of_one_operation && matches!(unit, Unit::Nanoseconds | Unit::Seconds | Unit::Bytes | Unit::Count)
}

/// Finds a derived metric by its name.
pub fn find(id: &str) -> Option<&'static MetricDef> {
    METRICS.iter().find(|metric| metric.id == id)
}

/// The readings that a metric is computed from, and its own name, which may be that of a reading.
pub fn readings_of(id: &str) -> BTreeSet<String> {
    let asked = RefCell::new(BTreeSet::from([id.to_string()]));
    // Some formulas end at the first reading that is missing, others at the first that is there.
    for value in [Some(1.0), None] {
        let get = |name: &str| {
            asked.borrow_mut().insert(name.to_string());
            value
        };
        find(id).and_then(|metric| (metric.from)(&get));
    }
    asked.into_inner()
}

/// The share of an operation that its generator may take: above it the generator measures itself, and the
/// result is called client-bound.
pub const CLIENT_BOUND: f64 = 0.10;

#[cfg(test)]
mod tests {
    use super::*;

    fn with(pairs: &'static [(&str, f64)]) -> impl Fn(&str) -> Option<f64> {
        move |id| pairs.iter().find(|(name, _)| *name == id).map(|(_, value)| *value)
    }

    #[test]
    fn cpu_utilization_is_what_time_prints() {
        let get = with(&[("user_ns", 1e9), ("system_ns", 0.5e9), ("elapsed_ns", 2e9)]);
        assert_eq!((find("cpu_utilization").unwrap().from)(&get), Some(75.0));
    }

    #[test]
    fn a_metric_without_its_readings_is_absent() {
        let get = with(&[("user_ns", 1e9)]);
        assert_eq!((find("cpu").unwrap().from)(&get), None);
    }

    #[test]
    fn every_reading_of_a_metric_is_known() {
        let of = |id| readings_of(id).into_iter().collect::<Vec<_>>();
        assert_eq!(of("iops"), ["iops", "read_iops_per_s", "write_iops_per_s"]);
        assert_eq!(of("latency_p99"), ["all_latency_p99_ns", "corrected_latency_p99_ns", "latency_p99"]);
        let cpu = ["kernel_threads_ns", "requests_count", "service_system_ns", "system_per_request"];
        assert_eq!(of("system_per_request"), cpu);
        assert_eq!(of("a_printed_figure"), ["a_printed_figure"]);
    }

    #[test]
    fn requests_of_both_kinds_are_summed() {
        let get = with(&[("read_iops_per_s", 30.0), ("write_iops_per_s", 20.0), ("all_iops_per_s", 99.0)]);
        assert_eq!((find("iops").unwrap().from)(&get), Some(50.0));
        assert_eq!((find("iops").unwrap().from)(&with(&[("write_iops_per_s", 20.0)])), Some(20.0));
        assert_eq!((find("iops").unwrap().from)(&with(&[("all_iops_per_s", 99.0)])), None);
    }

    #[test]
    fn paced_latency_counts_from_the_intended_start() {
        let paced = [("all_latency_p999_ns", 2e6), ("corrected_latency_p999_ns", 5e6)];
        let of = |pairs: &[(&str, f64)]| {
            let found = |id: &str| pairs.iter().find(|(name, _)| *name == id).map(|(_, value)| *value);
            (find("latency_p999").unwrap().from)(&found)
        };
        assert_eq!((of(&paced), of(&paced[..1])), (Some(0.005), Some(0.002)));
    }

    #[test]
    fn the_device_share_labels_who_did_the_work() {
        let get = with(&[("device_read_bytes", 950.0), ("device_write_bytes", 10.0), ("read_bytes", 1000.0)]);
        let share = (find("device_share").unwrap().from)(&get).unwrap();
        assert_eq!((share, Reach::of(share)), (0.96, Reach::Device));
        assert_eq!(
            [0.0, 0.09, 0.1, 0.89, 0.9, 3.0].map(|s| Reach::of(s).label()),
            ["cache", "cache", "mixed", "mixed", "device", "device"]
        );
    }

    #[test]
    fn a_request_costs_its_share() {
        let get = with(&[
            ("requests_count", 500.0),
            ("load_elapsed_ns", 2e9),
            ("service_user_ns", 1e9),
            ("service_system_ns", 0.5e9),
            ("kernel_threads_ns", 0.25e9),
            ("iowait_ns", 0.1e9),
        ]);
        let value = |id: &str| (find(id).unwrap().from)(&get).unwrap();
        assert_eq!(value("request_rate"), 250.0);
        assert_eq!((value("user_per_request"), value("system_per_request")), (0.002, 0.0015));
        assert_eq!((value("cpu_per_request"), value("iowait_per_request")), (0.0035, 0.0002));
    }

    #[test]
    fn nothing_is_divided_by_zero() {
        let get = with(&[("device_write_bytes", 4096.0), ("written_bytes", 0.0)]);
        assert_eq!((find("write_amplification").unwrap().from)(&get), None);
    }

    #[test]
    fn amounts_add_up_and_what_one_operation_takes_does_not() {
        let unit = |id| find(id).unwrap().unit;
        assert!(["elapsed", "durable", "system"].iter().all(|id| adds_up(id, unit(id))));
        assert!(["cpu_per_request", "throughput", "usable_space"].iter().all(|id| !adds_up(id, unit(id))));
        assert!(!adds_up("corrected_latency_p99_ns", Unit::Nanoseconds));
    }

    #[test]
    fn names_are_unique() {
        let mut ids: Vec<_> = METRICS.iter().map(|m| m.id).chain(TIMER.iter().map(|r| r.id)).collect();
        ids.sort_unstable();
        let all = ids.len();
        ids.dedup();
        assert_eq!(ids.len(), all);
    }
}
