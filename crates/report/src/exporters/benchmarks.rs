//! Exports in the formats of benchmark programs (fio, hyperfine, Go benchmarks, sysbench, dbench), for the tools that read
//! these.

use crate::exporter::{Exporter, write_json};
use crate::{error::Error, report::Report};
use fsarena_core::cell::{TaskId, Variant};
use fsarena_core::setting_text::setting;
use fsarena_core::{dbench::OPERATIONS, metric::reading, observations::Grid, record::RunRecord};
use fsarena_stats::average::{mean, median, variance};
use serde_json::{Map, Value, json};
use std::{collections::BTreeMap, io::Write};

/// The exporter of fio's JSON.
pub const FIO: Exporter = Exporter::new(
    "fio",
    "the JSON of fio: reads and writes of loads, a document for each round, a job for each task of each variant",
    export_fio,
);

/// The metrics of a direction of a job, without the prefix `read_` or `write_`.
const FIO_FIGURES: [&str; 5] =
    ["operations_count", "bandwidth_bytes_per_s", "iops_per_s", "latency_mean_ns", "latency_max_ns"];
/// The percentiles of latency: fio's name, and the metric without its prefix.
const FIO_PERCENTILES: [(&str, &str); 4] = [
    ("50.000000", "latency_p50_ns"),
    ("95.000000", "latency_p95_ns"),
    ("99.000000", "latency_p99_ns"),
    ("99.900000", "latency_p999_ns"),
];
const ELAPSED_METRIC: &str = "load_elapsed_ns";

fn export_fio(report: &Report, out: &mut dyn Write) -> Result<(), Error> {
    let mut metrics = vec![ELAPSED_METRIC.to_string()];
    for direction in ["read", "write"] {
        let figures = FIO_FIGURES.into_iter().chain(FIO_PERCENTILES.map(|(_, figure)| figure));
        metrics.extend(figures.map(|figure| format!("{direction}_{figure}")));
    }
    let loads = |row: &Sample| fio_direction(row, "read").is_some() || fio_direction(row, "write").is_some();
    let rows = samples_with(&report.record, &metrics, ("fio", "reads or writes of a load"), loads)?;
    for round in rows.chunk_by(|a, b| a.round == b.round) {
        let jobs: Vec<Value> = round.iter().map(fio_job).collect();
        let document = json!({"fio version": concat!("fsarena-", env!("CARGO_PKG_VERSION")), "jobs": jobs});
        write_json(&document, out)?;
    }
    Ok(())
}

/// The job of one sample.
fn fio_job(row: &Sample) -> Value {
    let idle = || json!({"total_ios": 0, "bw_bytes": 0, "iops": 0.0});
    json!({
        "jobname": row.name,
        "error": 0,
        "job_runtime": row.get(ELAPSED_METRIC).map(|ns| (ns / 1e6).round()),
        "read": fio_direction(row, "read").unwrap_or_else(idle),
        "write": fio_direction(row, "write").unwrap_or_else(idle),
    })
}

/// The figures of a direction, `read` or `write`; `None` without operations in this direction.
fn fio_direction(row: &Sample, direction: &str) -> Option<Value> {
    let get = |figure: &str| row.get(&format!("{direction}_{figure}"));
    let [count, bandwidth, iops, mean, max] = FIO_FIGURES.map(get);
    let iops = iops.filter(|iops| *iops > 0.0)?;
    let bandwidth = bandwidth.unwrap_or(0.0);
    let percentile = |(name, figure): (&str, &str)| Some((name.to_string(), json!(get(figure)?)));
    let percentiles: Map<String, Value> = FIO_PERCENTILES.into_iter().filter_map(percentile).collect();
    Some(json!({
        "total_ios": count,
        "bw_bytes": bandwidth,
        "bw": bandwidth / 1024.0,
        "iops": iops,
        "runtime": row.get(ELAPSED_METRIC).map(|ns| (ns / 1e6).round()),
        "lat_ns": {"mean": mean, "max": max, "percentile": percentiles},
    }))
}

/// The values of a metric for one task of one variant.
#[derive(Debug, Clone)]
struct SampleSeries<'a> {
    /// The task, with its parameters.
    task: &'a TaskId,
    /// The variant.
    variant: &'a Variant,
    /// The index of the round and the value, in the order of the rounds.
    values: Vec<(u32, f64)>,
}

/// The values of a metric, one entry for each task and variant that has any, without dropped rounds. Empty if the run lacks
/// the metric.
fn series_of_metric<'a>(record: &'a RunRecord, metric: &str) -> Vec<SampleSeries<'a>> {
    let Some(grid) = Grid::of(record, metric) else { return vec![] };
    let grid = grid.by_round();
    let mut all = Vec::new();
    for (task, variants) in record.tasks.iter().zip(&grid.values) {
        for (variant, values) in record.variants.iter().zip(variants) {
            let values = grid.rounds.iter().copied().zip(values.iter().copied());
            let values: Vec<(u32, f64)> = values.filter(|(_, value)| !value.is_nan()).collect();
            if !values.is_empty() {
                all.push(SampleSeries { task: &task.id, variant, values });
            }
        }
    }
    all
}

/// The values of several metrics for one task of one variant in one round.
#[derive(Debug, Clone)]
struct Sample<'a> {
    /// The index of the round.
    round: u32,
    /// The task.
    task: &'a TaskId,
    /// The variant.
    variant: &'a Variant,
    /// The task and the variant: `rndrd[bs=4096] on ext4`.
    name: String,
    values: BTreeMap<String, f64>,
}

impl Sample<'_> {
    /// The value of a metric, if the sample has one.
    fn get(&self, metric: &str) -> Option<f64> {
        self.values.get(metric).copied()
    }
}

/// The samples of a run with at least one of these metrics, sorted by round, without dropped rounds.
fn samples<'a>(record: &'a RunRecord, metrics: &[impl AsRef<str>]) -> Vec<Sample<'a>> {
    let mut samples: BTreeMap<(u32, String), Sample> = BTreeMap::new();
    for metric in metrics.iter().map(AsRef::as_ref) {
        for SampleSeries { task, variant, values } in series_of_metric(record, metric) {
            let name = format!("{task} on {}", variant.name);
            for (round, value) in values {
                let new = || Sample { round, task, variant, name: name.clone(), values: BTreeMap::new() };
                let sample = samples.entry((round, name.clone())).or_insert_with(new);
                sample.values.insert(metric.to_string(), value);
            }
        }
    }
    samples.into_values().collect()
}

/// The samples of [`samples`] that a format shows. `format` and `what` name the format and what it shows, for the error.
///
/// # Errors
/// If the run has no such sample.
fn samples_with<'a>(
    record: &'a RunRecord,
    metrics: &[impl AsRef<str>],
    (format, what): (&str, &str),
    shows: impl Fn(&Sample) -> bool,
) -> Result<Vec<Sample<'a>>, Error> {
    let mut samples = samples(record, metrics);
    samples.retain(shows);
    if samples.is_empty() {
        return Err(Error::Usage(format!(
            "{} has no {what}, which the format {format} requires; `{}` exports all samples",
            record.id,
            setting("format", "csv")
        )));
    }
    Ok(samples)
}

/// The exporter of hyperfine's JSON.
pub const HYPERFINE: Exporter = Exporter::new(
    "hyperfine",
    "the JSON of `hyperfine --export-json`: elapsed times of each variant and task; it has no place for rounds",
    export_hyperfine,
);

fn export_hyperfine(report: &Report, out: &mut dyn Write) -> Result<(), Error> {
    let record = &report.record;
    let elapsed = series_of_metric(record, "elapsed");
    let (user, system) = (series_of_metric(record, "user"), series_of_metric(record, "system"));
    let results: Vec<Value> = elapsed.iter().map(|series| hyperfine_result(series, &user, &system)).collect();
    write_json(&json!({ "results": results }), out)
}

/// The result of one task of one variant, from its elapsed times and the user and system times of all tasks.
fn hyperfine_result(elapsed: &SampleSeries, user: &[SampleSeries], system: &[SampleSeries]) -> Value {
    let values = |series: &SampleSeries| series.values.iter().map(|(_, value)| *value).collect::<Vec<f64>>();
    let mean_of_same_task = |all: &[SampleSeries]| {
        let same = all.iter().find(|other| (other.task, other.variant) == (elapsed.task, elapsed.variant));
        same.map_or(0.0, |series| mean(values(series)))
    };
    let times = values(elapsed);
    json!({
        "command": format!("{} on {}", elapsed.task, elapsed.variant.name),
        "mean": mean(&times),
        // Null for one value, as in hyperfine's own files.
        "stddev": variance(&times).sqrt(),
        "median": median(&times),
        "user": mean_of_same_task(user),
        "system": mean_of_same_task(system),
        "min": times.iter().copied().reduce(f64::min),
        "max": times.iter().copied().reduce(f64::max),
        "times": times,
        "exit_codes": vec![0; times.len()],
    })
}

/// The exporter of Go's benchmark text.
pub const GOBENCH: Exporter = Exporter::new(
    "gobench",
    "Go benchmark text for benchstat: times of each sample; configuration lines `round: N` keep the rounds",
    export_gobench,
);

/// The metrics of a line, in seconds, and the names of their units in the text.
const GOBENCH_TIMES: [(&str, &str); 5] = [
    ("elapsed", "ns/op"),
    ("synced", "synced-ns/op"),
    ("user", "user-ns/op"),
    ("system", "system-ns/op"),
    ("total_cpu", "total-cpu-ns/op"),
];

fn export_gobench(report: &Report, out: &mut dyn Write) -> Result<(), Error> {
    let record = &report.record;
    writeln!(out, "study: {}\nrun: {}", without_blanks(&record.plan.name), without_blanks(&record.id))?;
    let samples = samples(record, &GOBENCH_TIMES.map(|(metric, _)| metric));
    for round in samples.chunk_by(|a, b| a.round == b.round) {
        writeln!(out, "round: {}", round[0].round)?;
        for sample in round {
            let (task, variant) = (sample.task.to_string(), without_blanks(&sample.variant.name));
            write!(out, "Benchmark{}/variant={variant}\t1", gobench_title(&task))?;
            for (metric, unit) in GOBENCH_TIMES {
                if let Some(seconds) = sample.get(metric) {
                    write!(out, "\t{} {unit}", (seconds * 1e9).round())?;
                }
            }
            writeln!(out)?;
        }
    }
    Ok(())
}

/// Replaces blanks, which separate the fields of the format, and control characters by `_`.
fn without_blanks(text: &str) -> String {
    text.chars().map(|c| if c.is_whitespace() || c.is_control() { '_' } else { c }).collect()
}

/// The name behind `Benchmark`, whose first letter must be upper case.
fn gobench_title(text: &str) -> String {
    let mut word = without_blanks(text);
    if let Some(first) = word.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    word
}

/// The exporter of sysbench's text.
pub const SYSBENCH: Exporter = Exporter::new(
    "sysbench",
    "the text of sysbench fileio: reads and writes of loads, a run for each sample; it has no place for rounds",
    export_sysbench,
);

const MIB: f64 = (1 << 20) as f64;

/// The lines of a run: heading, label, metric, the divisor that converts the metric to sysbench's unit, and a suffix.
const SYSBENCH_LINES: [(&str, &str, &str, f64, &str); 9] = [
    ("File operations:", "reads/s", "read_iops_per_s", 1.0, ""),
    ("File operations:", "writes/s", "write_iops_per_s", 1.0, ""),
    ("File operations:", "fsyncs/s", "sync_iops_per_s", 1.0, ""),
    ("Throughput:", "read, MiB/s", "read_bandwidth_bytes_per_s", MIB, ""),
    ("Throughput:", "written, MiB/s", "write_bandwidth_bytes_per_s", MIB, ""),
    ("General statistics:", "total time", "load_elapsed_ns", 1e9, "s"),
    ("Latency (ms):", "avg", "all_latency_mean_ns", 1e6, ""),
    ("Latency (ms):", "max", "all_latency_max_ns", 1e6, ""),
    ("Latency (ms):", "95th percentile", "all_latency_p95_ns", 1e6, ""),
];

fn export_sysbench(report: &Report, out: &mut dyn Write) -> Result<(), Error> {
    let loads = |row: &Sample| row.get("read_iops_per_s").or(row.get("write_iops_per_s")).is_some();
    let metrics = SYSBENCH_LINES.map(|(_, _, metric, ..)| metric);
    let rows = samples_with(&report.record, &metrics, ("sysbench", "reads or writes of a load"), loads)?;
    rows.iter().try_for_each(|row| write_sysbench_run(row, out))
}

fn write_sysbench_run(row: &Sample, out: &mut dyn Write) -> Result<(), Error> {
    let name: String = row.name.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    writeln!(out, "sysbench 1.0.20 (as fsarena {} writes it)\n\nDoing {name}", env!("CARGO_PKG_VERSION"))?;
    let mut last_heading = "";
    for (heading, label, metric, divisor, suffix) in SYSBENCH_LINES {
        let Some(value) = row.get(metric) else { continue };
        if heading != last_heading {
            writeln!(out, "\n{heading}")?;
            last_heading = heading;
        }
        writeln!(out, "    {label}: {}{suffix}", value / divisor)?;
    }
    Ok(writeln!(out)?)
}

/// The exporter of dbench's text.
pub const DBENCH: Exporter = Exporter::new(
    "dbench",
    "the text of dbench: throughput and operations, a run for each sample, its load named by task and variant",
    export_dbench,
);

const DBENCH_MAX_LATENCY: &str = "all_latency_max_ns";
/// The metrics of an operation, without the operation's name before them.
const DBENCH_FIGURES: [&str; 3] = ["operations_count", "latency_mean_ns", "latency_max_ns"];

fn export_dbench(report: &Report, out: &mut dyn Write) -> Result<(), Error> {
    let figures =
        OPERATIONS.iter().flat_map(|one| DBENCH_FIGURES.map(|figure| format!("{}_{figure}", one.reading)));
    let metrics: Vec<String> =
        figures.chain([reading::SERVED_BANDWIDTH, DBENCH_MAX_LATENCY].map(String::from)).collect();
    let measured = |row: &Sample| row.get(reading::SERVED_BANDWIDTH).is_some();
    let rows = samples_with(&report.record, &metrics, ("dbench", "throughput of clients"), measured)?;
    rows.iter().try_for_each(|row| write_dbench_run(row, out))
}

fn write_dbench_run(row: &Sample, out: &mut dyn Write) -> Result<(), Error> {
    let name: String = row.name.chars().map(|c| if c.is_control() || c == '\'' { ' ' } else { c }).collect();
    writeln!(out, "dbench version 4.00 - as fsarena {} writes it\n", env!("CARGO_PKG_VERSION"))?;
    writeln!(out, "Running with load '{name}'\n")?;
    writeln!(out, " Operation      Count    AvgLat    MaxLat\n ----------------------------------------")?;
    for one in &OPERATIONS {
        let [count, mean, max] =
            DBENCH_FIGURES.map(|figure| row.get(&format!("{}_{figure}", one.reading)).unwrap_or(0.0));
        if count > 0.0 {
            writeln!(out, " {:<14} {count} {} {}", one.printed, mean / 1e6, max / 1e6)?;
        }
    }
    let throughput = row.get(reading::SERVED_BANDWIDTH).unwrap_or(0.0) / 1e6;
    let clients = row.variant.clients(row.task).unwrap_or(1);
    write!(out, "\nThroughput {throughput} MB/sec  {clients} clients  {clients} procs")?;
    if let Some(longest) = row.get(DBENCH_MAX_LATENCY) {
        write!(out, "  max_latency={} ms", longest / 1e6)?;
    }
    Ok(writeln!(out, "\n")?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_go_benchmarks_have_no_blanks_and_start_in_upper_case() {
        assert_eq!(
            [gobench_title("rm tree\n"), gobench_title("größe"), gobench_title("über"), gobench_title("")],
            ["Rm_tree_", "Größe", "über", ""]
        );
    }
}
