//! The result of a run of dbench's clients, and its readings.

use super::client_runner::RunMeasurements;
use super::kind::{KIND_DEFS, OperationKind};
use super::shared_counters::{ClientCounters, SharedCounters};
use fsarena_core::metric::reading;
use fsarena_core::sample::{ReadingDef, Readings, TaskOutput, Unit};
use fsarena_engine::readings::{set_cpu, set_percentiles};
use fsarena_engine::{jain_index, latency_readings};
use fsarena_sys::cpu::CpuTime;
use hdrhistogram::Histogram;
use std::{sync::atomic::AtomicU64, sync::atomic::Ordering::Relaxed};

/// Significant digits of the histograms that are merged; the buckets of clients are coarser.
const SIGNIFICANT_DIGITS: u8 = 3;

/// Operations of the measured phase.
#[derive(Debug, Clone)]
pub struct MeasuredOperations {
    /// Number of operations.
    pub count: u64,
    /// Sum of their latencies, in nanoseconds.
    pub total_ns: u64,
    /// Latency of the slowest operation, in nanoseconds.
    pub max_ns: u64,
    /// Latencies of all operations, in nanoseconds.
    pub latencies: Histogram<u64>,
}

impl MeasuredOperations {
    /// No operations.
    fn empty() -> MeasuredOperations {
        // Its buckets grow as they are needed, so any value fits.
        let latencies = Histogram::new(SIGNIFICANT_DIGITS).expect("three digits are allowed");
        MeasuredOperations { count: 0, total_ns: 0, max_ns: 0, latencies }
    }

    /// Sets the readings for the number and the latencies of the operations. Their names begin with `prefix`.
    fn set_readings(&self, readings: &mut Readings, prefix: &str) {
        readings.set(&format!("{prefix}operations_count"), self.count as f64);
        if self.count > 0 {
            readings.set(&format!("{prefix}latency_mean_ns"), self.total_ns as f64 / self.count as f64);
            set_percentiles(readings, prefix, &self.latencies, self.max_ns);
            readings.set(&format!("{prefix}latency_max_ns"), self.max_ns as f64);
        }
    }
}

/// The result of a run.
#[derive(Debug, Clone)]
pub struct DbenchOutcome {
    /// The lengths of the phases, the bytes, and the series.
    pub measurements: RunMeasurements,
    /// The operations of each kind that occurred.
    pub kinds: Vec<(OperationKind, MeasuredOperations)>,
    /// Operations of all phases.
    pub operations: u64,
    /// Operations of each client in all phases.
    pub operations_by_client: Vec<u64>,
    /// CPU time of all clients in all phases.
    pub cpu: CpuTime,
    /// Largest delay between the due time of an operation and its start, in nanoseconds; 0 without a rate or timed
    /// lines.
    pub lateness_ns: u64,
    /// Number of operations with another result than the loadfile states, after which the clients continued.
    pub unexpected_results: u64,
}

impl DbenchOutcome {
    /// Sums up the counters of clients that have ended.
    pub fn from_counters(counters: &SharedCounters, measurements: RunMeasurements, cpu: CpuTime) -> DbenchOutcome {
        let load_each = |counter: fn(&ClientCounters) -> &AtomicU64| {
            counters.clients().map(move |client| counter(client).load(Relaxed))
        };
        let mut kinds = vec![];
        for def in &KIND_DEFS {
            kinds.extend(sum_kind_counters(counters, def.kind).map(|measured| (def.kind, measured)));
        }
        DbenchOutcome {
            measurements,
            kinds,
            operations: load_each(|client| &client.operations).sum(),
            operations_by_client: load_each(|client| &client.operations).collect(),
            cpu,
            lateness_ns: load_each(|client| &client.lateness_ns).max().unwrap_or(0),
            unexpected_results: load_each(|client| &client.unexpected_result.count).sum(),
        }
    }

    /// Readings, series and latencies in the form that a sample stores.
    pub fn task_output(&self) -> TaskOutput {
        TaskOutput {
            series: self.measurements.series.clone(),
            latencies: fsarena_engine::to_latencies(&self.sum_kinds().latencies),
            ..TaskOutput::from(self.readings())
        }
    }

    /// The measured operations of all kinds together.
    pub fn sum_kinds(&self) -> MeasuredOperations {
        let mut sum = MeasuredOperations::empty();
        for (_, measured) in &self.kinds {
            sum.count += measured.count;
            sum.total_ns += measured.total_ns;
            sum.max_ns = sum.max_ns.max(measured.max_ns);
            sum.latencies.add(&measured.latencies).unwrap_or_default();
        }
        sum
    }

    /// All readings.
    pub fn readings(&self) -> Readings {
        let mut readings = Readings::default();
        for (kind, measured) in &self.kinds {
            let prefix = format!("{}_", kind.def().reading_prefix);
            measured.set_readings(&mut readings, &prefix);
            let [read_bytes, written_bytes] = self.measurements.bytes;
            match kind {
                OperationKind::ReadX => self.set_rates(&mut readings, &prefix, measured.count, read_bytes),
                OperationKind::WriteX => self.set_rates(&mut readings, &prefix, measured.count, written_bytes),
                _ => {}
            }
        }
        let (all, bytes) = (self.sum_kinds(), self.measurements.bytes.iter().sum());
        all.set_readings(&mut readings, "all_");
        self.set_rates(&mut readings, "all_", all.count, bytes);
        if all.count > 0 {
            // Lateness counts as latency, as in the original dbench.
            readings.set("all_latency_max_ns", all.max_ns.max(self.lateness_ns) as f64);
        }
        let seconds = self.measurements.measured_phase.as_secs_f64();
        readings.set(reading::SERVED_BANDWIDTH, bytes as f64 / seconds);
        readings.set("load_elapsed_ns", self.measurements.measured_phase.as_nanos() as f64);
        readings.set("warmup_ns", self.measurements.warm_up.as_nanos() as f64);
        set_cpu(&mut readings, self.cpu, self.operations);
        readings.set("fairness_ratio", jain_index(&self.operations_by_client));
        readings.set("surprises_count", self.unexpected_results as f64);
        readings
    }

    fn set_rates(&self, readings: &mut Readings, prefix: &str, count: u64, bytes: u64) {
        let seconds = self.measurements.measured_phase.as_secs_f64();
        readings.set(&format!("{prefix}iops_per_s"), count as f64 / seconds);
        readings.set(&format!("{prefix}bandwidth_bytes_per_s"), bytes as f64 / seconds);
    }
}

/// Sums up the operations of one kind by all clients, or returns `None` if no client performed any.
fn sum_kind_counters(counters: &SharedCounters, kind: OperationKind) -> Option<MeasuredOperations> {
    let mut sum = MeasuredOperations::empty();
    for client in counters.clients() {
        let measured = &client.kinds[kind as usize];
        let count = measured.count.load(Relaxed);
        // Clients leave unused counters unwritten, so their pages are never allocated.
        if count > 0 {
            sum.count += count;
            sum.total_ns += measured.total_ns.load(Relaxed);
            sum.max_ns = sum.max_ns.max(measured.max_ns.load(Relaxed));
            measured.latencies.add_to(&mut sum.latencies);
        }
    }
    (sum.count > 0).then_some(sum)
}

/// The readings of a kind whose operations move no data. `$operations` describes them for the help.
macro_rules! kind_readings {
    ($prefix:literal, $operations:literal) => {{
        let count = ReadingDef::neutral(concat!($prefix, "_operations_count"), Unit::Count);
        let count = count.help(concat!("number of ", $operations, ", after the warm-up"));
        latency_readings!([count], concat!($prefix, "_"), concat!("of ", $operations), ", name resolution included")
    }};
}

/// Readings that only loads of dbench have. Reads and writes have the names of the load engine.
const DBENCH_READINGS: [&[ReadingDef]; 16] = [
    &kind_readings!("ntcreatex", "dbench's NTCreateX (open, create, make a directory)"),
    &kind_readings!("close", "dbench's Close"),
    &kind_readings!("rename", "dbench's Rename"),
    &kind_readings!("unlink", "dbench's Unlink"),
    &kind_readings!("deltree", "dbench's Deltree"),
    &kind_readings!("rmdir", "dbench's Rmdir"),
    &kind_readings!("mkdir", "dbench's Mkdir"),
    &kind_readings!("qpathinfo", "dbench's QUERY_PATH_INFORMATION (stat by name)"),
    &kind_readings!("qfileinfo", "dbench's QUERY_FILE_INFORMATION (fstat)"),
    &kind_readings!("qfsinfo", "dbench's QUERY_FS_INFORMATION (statvfs)"),
    &kind_readings!("sfileinfo", "dbench's SET_FILE_INFORMATION (utime)"),
    &kind_readings!("find", "dbench's FIND_FIRST (list a directory)"),
    &kind_readings!("lockx", "dbench's LockX"),
    &kind_readings!("unlockx", "dbench's UnlockX"),
    &kind_readings!("flush", "dbench's Flush (fsync)"),
    &[
        ReadingDef::higher(reading::SERVED_BANDWIDTH, Unit::BytesPerSecond)
            .help("bytes that the clients of dbench's loads asked to read and wrote a second, after the warm-up"),
        ReadingDef::neutral("surprises_count", Unit::Count)
            .help("opens and reads of dbench's loads with another result than the loadfile states"),
    ],
];

/// Readings that only loads of dbench have.
pub fn reading_defs() -> impl Iterator<Item = &'static ReadingDef> {
    DBENCH_READINGS.into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsarena_engine::readings;

    #[test]
    fn every_kind_has_its_readings_and_their_ids_are_unique() {
        let mut ids: Vec<&str> = reading_defs().chain(readings::reading_defs()).map(|def| def.id).collect();
        for kind in KIND_DEFS {
            let latencies = ["mean", "p50", "p95", "p99", "p999", "max"].map(|name| format!("latency_{name}_ns"));
            for reading in latencies.iter().map(String::as_str).chain(["operations_count"]) {
                let id = format!("{}_{reading}", kind.reading_prefix);
                assert!(ids.contains(&id.as_str()), "{id}");
            }
        }
        let id_count = ids.len();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), id_count);
    }

    #[test]
    fn percentiles_match_the_recorded_latencies_and_are_at_most_the_maximum() {
        let mut latencies = MeasuredOperations::empty().latencies;
        (1..=1000).for_each(|us| latencies.record(us * 1000).unwrap());
        let mut readings = Readings::default();
        set_percentiles(&mut readings, "read_", &latencies, 998_000);
        let latency_of = |name: &str| readings.get(&format!("read_latency_{name}_ns")).unwrap();
        for (name, ns) in [("p50", 500e3), ("p95", 950e3), ("p99", 990e3)] {
            assert!((latency_of(name) / ns - 1.0).abs() < 0.002, "{name}: {}", latency_of(name));
        }
        assert_eq!(latency_of("p999"), 998e3);
    }

    #[test]
    fn fairness_is_the_index_of_jain() {
        assert_eq!(jain_index(&[5, 5]), 1.0);
        assert_eq!(jain_index(&[5, 0]), 0.5);
        assert_eq!(jain_index(&[]), 1.0);
    }
}
