//! The readings of a cache while it serves.

use fsarena_core::sample::{ReadingDef, Unit};

/// The metrics that answer which filesystem a proxy should use: the arrivals are paced, so elapsed times say nothing.
pub const ANSWERS: &[&str] = &["cpu_per_request", "iowait_per_request", "corrected_latency_p99_ns"];

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
    ReadingDef::higher(HIT_RATIO, Unit::Ratio).help("requests that the cache answered / all requests"),
    ReadingDef::higher(SERVED, Unit::Bytes).help("bytes of objects that clients got"),
    ReadingDef::neutral(REPLACED, Unit::Count).help("objects thrown out of the cache to make room"),
    ReadingDef::neutral(MEAN_FILE, Unit::Bytes)
        .help("mean size of the files in the data set when the task ended: filebench's webproxy shrinks it while it measures"),
    ReadingDef::higher(FLOWOPS, Unit::PerSecond)
        .help("operations a second as filebench counts them: 19 a turn of webproxy's loop"),
    ReadingDef::lower(CLIENT_CPU, Unit::Nanoseconds).help("CPU time of clients and origin, user and system"),
    ReadingDef::lower(FAILED, Unit::Count).help("requests that failed or were cut short"),
];
