//! fio's JSON, for the programs that read that: a document for each round, a job for each task of each variant.

use crate::error::Error;
use crate::exporter::Exporter;
use crate::report::Report;
use crate::sampled::{Row, rows};
use serde_json::{Map, Value, json};
use std::io::Write;

/// fio's JSON.
pub const FIO: Exporter = Exporter::new(
    "fio",
    "the JSON of fio: reads and writes of loads, a document for each round, a job for each task of each variant",
    export,
);

/// What a direction of a job is made of, by its first word.
macro_rules! direction {
    ($of:literal) => {
        [
            concat!($of, "_operations_count"),
            concat!($of, "_bandwidth_bytes_per_s"),
            concat!($of, "_iops_per_s"),
            concat!($of, "_latency_mean_ns"),
            concat!($of, "_latency_max_ns"),
            concat!($of, "_latency_p50_ns"),
            concat!($of, "_latency_p95_ns"),
            concat!($of, "_latency_p99_ns"),
            concat!($of, "_latency_p999_ns"),
        ]
    };
}

const READ: [&str; 9] = direction!("read");
const WRITE: [&str; 9] = direction!("write");
const ELAPSED: &str = "load_elapsed_ns";

fn export(report: &Report, out: &mut dyn Write) -> Result<(), Error> {
    let rows = rows(&report.record, &[&READ[..], &WRITE[..], &[ELAPSED]].concat());
    let loads = |row: &&Row| direction(row, READ).is_some() || direction(row, WRITE).is_some();
    let rows: Vec<&Row> = rows.iter().filter(loads).collect();
    if rows.is_empty() {
        return Err(Error::Lacks {
            run: report.record.id.clone(),
            what: "reads or writes of a load",
            format: "fio",
        });
    }
    for round in rows.chunk_by(|a, b| a.round == b.round) {
        let jobs: Vec<Value> = round.iter().map(|row| job(row)).collect();
        let document = json!({"fio version": concat!("fsarena-", env!("CARGO_PKG_VERSION")), "jobs": jobs});
        serde_json::to_writer_pretty(&mut *out, &document)?;
        writeln!(out)?;
    }
    Ok(())
}

fn job(row: &Row) -> Value {
    let none = || json!({"total_ios": 0, "bw_bytes": 0, "iops": 0.0});
    json!({
        "jobname": row.name,
        "error": 0,
        "job_runtime": row.get(ELAPSED).map(|ns| (ns / 1e6).round()),
        "read": direction(row, READ).unwrap_or_else(none),
        "write": direction(row, WRITE).unwrap_or_else(none),
    })
}

/// One direction; none where nothing went that way.
fn direction(row: &Row, [count, bandwidth, iops, mean, max, percentiles @ ..]: [&str; 9]) -> Option<Value> {
    let iops = row.get(iops).filter(|iops| *iops > 0.0)?;
    let bandwidth = row.get(bandwidth).unwrap_or(0.0);
    let percentiles: Map<String, Value> = ["50.000000", "95.000000", "99.000000", "99.900000"]
        .into_iter()
        .zip(percentiles)
        .filter_map(|(name, metric)| Some((name.to_string(), json!(row.get(metric)?))))
        .collect();
    Some(json!({
        "total_ios": row.get(count),
        "bw_bytes": bandwidth,
        "bw": bandwidth / 1024.0,
        "iops": iops,
        "runtime": row.get(ELAPSED).map(|ns| (ns / 1e6).round()),
        "lat_ns": {"mean": row.get(mean), "max": row.get(max), "percentile": percentiles},
    }))
}
