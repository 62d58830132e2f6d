//! The readings of a cache while it serves.

use fsarena_core::sample::{Direction, ReadingDef, Unit};

/// The metrics that answer which filesystem a proxy should use: the arrivals are paced, so elapsed times say nothing.
pub const ANSWERS: &[&str] = &["cpu_per_request", "iowait_per_request", "corrected_latency_p99_ns"];

const fn def(id: &'static str, unit: Unit, direction: Direction, help: &'static str) -> ReadingDef {
    ReadingDef { id, unit, direction, help }
}

/// The share of requests that the cache answered.
pub const HIT_RATIO: &str = "hit_ratio";
/// Mean size of the files in the data set at the end.
pub const MEAN_FILE: &str = "file_mean_bytes";
/// Bytes that clients got.
pub const SERVED: &str = "served_bytes";
/// Objects that were thrown out of the cache.
pub const REPLACED: &str = "replaced_count";
/// Operations as filebench counts them.
pub const FLOWOPS: &str = "flowops_per_s";
/// CPU time of the clients and the origin.
pub const CLIENT_CPU: &str = "client_cpu_ns";
/// Requests that failed.
pub const FAILED: &str = "failed_count";

/// Every reading of a workload that serves requests, beside those of the load engine and of any service.
pub const DEFS: &[ReadingDef] = &[
    def(HIT_RATIO, Unit::Ratio, Direction::Higher, "requests that the cache answered / all requests"),
    def(SERVED, Unit::Bytes, Direction::Higher, "bytes of objects that clients got"),
    def(REPLACED, Unit::Count, Direction::Neutral, "objects thrown out of the cache to make room"),
    def(
        MEAN_FILE,
        Unit::Bytes,
        Direction::Neutral,
        "mean size of the files in the data set when the task ended: filebench's webproxy shrinks it while it measures",
    ),
    def(
        FLOWOPS,
        Unit::PerSecond,
        Direction::Higher,
        "operations a second as filebench counts them: 19 a turn of webproxy's loop",
    ),
    def(CLIENT_CPU, Unit::Nanoseconds, Direction::Lower, "CPU time of clients and origin, user and system"),
    def(FAILED, Unit::Count, Direction::Lower, "requests that failed or were cut short"),
];
