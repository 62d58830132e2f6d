//! The readings of a load, and how they are computed from its outcome.

use super::{histogram::quantiles, outcome::LoadOutcome};
use fsarena_core::metric::reading::{cpu_time, time};
use fsarena_core::sample::{Fold, ReadingDef, Readings, Unit};
use fsarena_sys::cpu::CpuTime;
use hdrhistogram::Histogram;

/// Appends the definitions of latency readings to other readings. `$prefix` begins their names, `$of` names the operations in
/// their help (`of reads`), and `$mean` is appended to the help of the mean.
#[macro_export]
macro_rules! latency_readings {
    ([$($first:expr),* $(,)?], $prefix:expr, $of:expr, $mean:literal) => {{
        use $crate::readings::latency_def;
        [
            $($first,)*
            latency_def(concat!($prefix, "latency_mean_ns"), concat!("mean latency ", $of, $mean)),
            latency_def(concat!($prefix, "latency_p50_ns"), concat!("median latency ", $of)),
            latency_def(concat!($prefix, "latency_p95_ns"), concat!("95th percentile of latency ", $of)),
            latency_def(concat!($prefix, "latency_p99_ns"), concat!("99th percentile of latency ", $of)),
            latency_def(concat!($prefix, "latency_p999_ns"), concat!("99.9th percentile of latency ", $of)),
            latency_def(concat!($prefix, "latency_max_ns"), concat!("longest latency ", $of)),
        ]
    }};
}

/// The definition of a latency in nanoseconds.
pub const fn latency_def(id: &'static str, help: &'static str) -> ReadingDef {
    ReadingDef::lower(id, Unit::Nanoseconds).help(help)
}

/// The readings of all operations of one name: rate, bandwidth, count, and latency.
macro_rules! readings_of {
    ($prefix:literal, $of:literal) => {
        latency_readings!(
            [
                ReadingDef::higher(concat!($prefix, "iops_per_s"), Unit::PerSecond)
                    .help(concat!($of, " a second, after the warm-up")),
                ReadingDef::higher(concat!($prefix, "bandwidth_bytes_per_s"), Unit::BytesPerSecond)
                    .help(concat!("bytes a second of ", $of)),
                ReadingDef::neutral(concat!($prefix, "operations_count"), Unit::Count).help(concat!(
                    "number of ",
                    $of,
                    ", after the warm-up"
                )),
            ],
            $prefix,
            concat!("of ", $of),
            ""
        )
    };
}

/// All kinds of operations together, including syncs.
pub const ALL_OPERATIONS: &[ReadingDef] = &readings_of!("all_", "operations");
/// Reads.
pub const READ: &[ReadingDef] = &readings_of!("read_", "reads");
/// Writes.
pub const WRITE: &[ReadingDef] = &readings_of!("write_", "writes");
/// Syncs between requests.
pub const SYNC: &[ReadingDef] = &readings_of!("sync_", "syncs of one file between requests");

/// Durable commits: changes that a log, a database or a mailbox confirms once they are on the device.
pub const COMMIT: &[ReadingDef] = &readings_of!("commit_", "durable commits");

/// Latencies from the intended start; open loops only.
pub const CORRECTED: &[ReadingDef] =
    &latency_readings!([], "corrected_", "from the intended start", ": corrected for coordinated omission");

/// Readings of the whole load: its length, CPU time and steadiness, and the cost of the load generator.
pub const WHOLE_LOAD: &[ReadingDef] = &[
    ReadingDef::neutral("load_elapsed_ns", Unit::Nanoseconds).tasks(Fold::Sum).help("time measured, after the warm-up"),
    cpu_time("worker_user_ns")
        .help("user CPU time of the workers: their exact CPU time, split in the ratio of the clock ticks of the process"),
    cpu_time("worker_system_ns")
        .help("system CPU time of the workers, split in the same ratio"),
    ReadingDef::lower("cpu_per_operation_ns", Unit::Nanoseconds)
        .clients(Fold::Mean)
        .help("CPU time of the workers, user and system, for each operation"),
    ReadingDef::neutral("warmup_ns", Unit::Nanoseconds).tasks(Fold::Sum).help("time left out as warm-up"),
    ReadingDef::neutral("steady_ratio", Unit::Ratio)
        .clients(Fold::Min)
        .help("1 if the series was steady after the warm-up, by MSER-5 and the SNIA rule; 0 if it was not; absent if the load is paced or too short for a decision"),
    time("final_sync_ns")
        .help("time that the final syncs of the slowest thread took"),
    ReadingDef::neutral("final_sync_count", Unit::Count).help("number of final syncs"),
    ReadingDef::higher("fairness_ratio", Unit::Ratio)
        .help("Jain's index over the operations of the threads: 1 if all did the same number, 1/n if one of n did all"),
    ReadingDef::neutral("generator_ns", Unit::Nanoseconds)
        .help("time that the load generator takes for one operation without its I/O"),
    ReadingDef::neutral("ring_nop_ns", Unit::Nanoseconds)
        .help("time of one NOP through the ring, with its time stamp and its count"),
    ReadingDef::neutral("clock_ns", Unit::Nanoseconds).help("time of taking one time stamp"),
    ReadingDef::neutral("client_ratio", Unit::Ratio)
        .help("load generator's share of the processor time; above 0.1 the result is client-bound"),
    ReadingDef::neutral("verified_count", Unit::Count).help("blocks whose contents were verified"),
    ReadingDef::neutral("asked_iops_per_s", Unit::PerSecond)
        .help("intended operations a second of an open loop"),
];

/// The definitions of all readings that an outcome can have.
pub fn reading_defs() -> impl Iterator<Item = &'static ReadingDef> {
    [ALL_OPERATIONS, READ, WRITE, SYNC, COMMIT, CORRECTED, WHOLE_LOAD].into_iter().flatten()
}

impl LoadOutcome {
    /// The readings of this outcome, which are some of [`reading_defs`].
    pub fn readings(&self) -> Readings {
        let mut readings = Readings::default();
        self.set_kind(&mut readings, "all_", self.bytes(), &self.latency);
        for kind in &self.kinds {
            if matches!(kind.name, "read" | "write" | "sync" | "commit") {
                let prefix = format!("{}_", kind.name);
                self.set_kind(&mut readings, &prefix, kind.bytes, &kind.latency);
            }
        }
        if let Some(corrected) = &self.corrected_latency {
            set_latency(&mut readings, "corrected_", corrected);
        }
        self.set_whole_load(&mut readings);
        readings
    }

    /// Sets the rates, the count and the latencies of operations that moved `bytes` bytes. `prefix` begins the names of the
    /// readings.
    fn set_kind(&self, readings: &mut Readings, prefix: &str, bytes: u64, latency: &Histogram<u64>) {
        let count = latency.len();
        let seconds = self.elapsed_ns as f64 / 1e9;
        if seconds > 0.0 {
            readings.set(&format!("{prefix}iops_per_s"), count as f64 / seconds);
            if bytes > 0 {
                readings.set(&format!("{prefix}bandwidth_bytes_per_s"), bytes as f64 / seconds);
            }
        }
        readings.set(&format!("{prefix}operations_count"), count as f64);
        set_latency(readings, prefix, latency);
    }

    /// Sets the readings of [`WHOLE_LOAD`].
    fn set_whole_load(&self, readings: &mut Readings) {
        let warmup_s: f64 = self.intervals[..self.warmup_intervals].iter().map(|interval| interval.length_s).sum();
        set_cpu(readings, self.cpu, self.operations());
        // An open loop is always steady, because its rate is fixed.
        let is_steady = self.is_steady.filter(|_| self.intended_per_s.is_none());
        let (has_final_syncs, has_verified) = (self.final_syncs > 0, self.verified_blocks > 0);
        let values = [
            ("load_elapsed_ns", Some(self.elapsed_ns as f64)),
            ("warmup_ns", Some((warmup_s * 1e9).round())),
            ("steady_ratio", is_steady.map(|is_steady| f64::from(u8::from(is_steady)))),
            ("final_sync_ns", has_final_syncs.then_some(self.final_sync_ns as f64)),
            ("final_sync_count", has_final_syncs.then_some(self.final_syncs as f64)),
            ("fairness_ratio", Some(self.fairness.jain_index)),
            ("generator_ns", Some(self.calibration.generator_ns)),
            ("ring_nop_ns", self.calibration.ring_nop_ns),
            ("clock_ns", Some(self.calibration.clock_ns)),
            ("client_ratio", Some(self.client_share)),
            ("verified_count", has_verified.then_some(self.verified_blocks as f64)),
            ("asked_iops_per_s", self.intended_per_s),
        ];
        for (name, value) in values {
            if let Some(value) = value {
                readings.set(name, value);
            }
        }
    }
}

/// Sets the readings of the workers' CPU time, in total and per operation.
pub fn set_cpu(readings: &mut Readings, cpu: CpuTime, operations: u64) {
    readings.set("worker_user_ns", cpu.user_ns as f64);
    readings.set("worker_system_ns", cpu.system_ns as f64);
    if operations > 0 {
        readings.set("cpu_per_operation_ns", cpu.total_ns() as f64 / operations as f64);
    }
}

/// Sets the readings of latencies in nanoseconds. `prefix` begins their names. Does nothing for an empty histogram.
pub fn set_latency(readings: &mut Readings, prefix: &str, latency: &Histogram<u64>) {
    if !latency.is_empty() {
        readings.set(&format!("{prefix}latency_mean_ns"), latency.mean());
        set_percentiles(readings, prefix, latency, latency.max());
        readings.set(&format!("{prefix}latency_max_ns"), latency.max() as f64);
    }
}

/// Sets the percentiles of latencies. Limits each to `longest_ns`, because a histogram rounds values up.
pub fn set_percentiles(readings: &mut Readings, prefix: &str, latency: &Histogram<u64>, longest_ns: u64) {
    let percentiles = quantiles(latency, [0.5, 0.95, 0.99, 0.999]);
    for (name, ns) in ["p50", "p95", "p99", "p999"].into_iter().zip(percentiles) {
        readings.set(&format!("{prefix}latency_{name}_ns"), ns.min(longest_ns) as f64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_end_in_their_unit_and_are_unique() {
        let mut ids: Vec<&str> = reading_defs()
            .map(|def| {
                assert!(def.id.ends_with(&format!("_{}", def.unit.suffix())), "{}", def.id);
                def.id
            })
            .collect();
        ids.sort_unstable();
        let all = ids.len();
        ids.dedup();
        assert_eq!(ids.len(), all);
    }
}
