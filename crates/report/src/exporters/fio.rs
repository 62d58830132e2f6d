//! fio's JSON, for the programs that read that: a document for each round, a job for each task of each variant.

use crate::exporter::{Exporter, write_json};
use crate::sampled::{Row, rows};
use crate::{error::Error, report::Report};
use serde_json::{Map, Value, json};
use std::io::Write;

/// fio's JSON.
pub const FIO: Exporter = Exporter::new(
    "fio",
    "the JSON of fio: reads and writes of loads, a document for each round, a job for each task of each variant",
    export,
);

/// The figures of a direction of a job, behind its word.
const FIGURES: [&str; 5] =
    ["operations_count", "bandwidth_bytes_per_s", "iops_per_s", "latency_mean_ns", "latency_max_ns"];
/// The percentiles of its latency, as fio calls them.
const PERCENTILES: [(&str, &str); 4] = [
    ("50.000000", "latency_p50_ns"),
    ("95.000000", "latency_p95_ns"),
    ("99.000000", "latency_p99_ns"),
    ("99.900000", "latency_p999_ns"),
];
const ELAPSED: &str = "load_elapsed_ns";

fn export(report: &Report, out: &mut dyn Write) -> Result<(), Error> {
    let figures = || FIGURES.into_iter().chain(PERCENTILES.map(|(_, figure)| figure));
    let of = |word| figures().map(move |figure| format!("{word}_{figure}"));
    let metrics: Vec<String> = of("read").chain(of("write")).chain([ELAPSED.into()]).collect();
    let loads = |row: &Row| direction(row, "read").is_some() || direction(row, "write").is_some();
    let rows = rows(&report.record, &metrics, ("fio", "reads or writes of a load"), loads)?;
    for round in rows.chunk_by(|a, b| a.round == b.round) {
        let jobs: Vec<Value> = round.iter().map(job).collect();
        let document = json!({"fio version": concat!("fsarena-", env!("CARGO_PKG_VERSION")), "jobs": jobs});
        write_json(&document, out)?;
    }
    Ok(())
}

fn job(row: &Row) -> Value {
    let none = || json!({"total_ios": 0, "bw_bytes": 0, "iops": 0.0});
    json!({
        "jobname": row.name,
        "error": 0,
        "job_runtime": row.get(ELAPSED).map(|ns| (ns / 1e6).round()),
        "read": direction(row, "read").unwrap_or_else(none),
        "write": direction(row, "write").unwrap_or_else(none),
    })
}

/// One direction; none where nothing went that way.
fn direction(row: &Row, word: &str) -> Option<Value> {
    let get = |figure: &str| row.get(&format!("{word}_{figure}"));
    let [count, bandwidth, iops, mean, max] = FIGURES.map(get);
    let iops = iops.filter(|iops| *iops > 0.0)?;
    let bandwidth = bandwidth.unwrap_or(0.0);
    let percentile = |(name, figure): (&str, &str)| Some((name.to_string(), json!(get(figure)?)));
    let percentiles: Map<String, Value> = PERCENTILES.into_iter().filter_map(percentile).collect();
    Some(json!({
        "total_ios": count,
        "bw_bytes": bandwidth,
        "bw": bandwidth / 1024.0,
        "iops": iops,
        "runtime": row.get(ELAPSED).map(|ns| (ns / 1e6).round()),
        "lat_ns": {"mean": mean, "max": max, "percentile": percentiles},
    }))
}
