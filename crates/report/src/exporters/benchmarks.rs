//! Exports in the formats of benchmark programs (fio, hyperfine, Go benchmarks, sysbench, dbench), for tools that read these
//! formats. An id of a value is that of a metric, such as `elapsed` in seconds, or of a reading, such as `load_elapsed_ns`.
//!
//! fio, sysbench and dbench report loads, so their exports fail if no sample has a load. hyperfine and Go benchmarks report
//! elapsed times; without any, their exports have no results.

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

/// The metrics of the reads or the writes of a job, without the prefix `read_` or `write_`.
const FIO_METRICS: [&str; 5] =
    ["operations_count", "bandwidth_bytes_per_s", "iops_per_s", "latency_mean_ns", "latency_max_ns"];
/// The percentiles of latency: fio's name, and the metric without its prefix.
const FIO_PERCENTILES: [(&str, &str); 4] = [
    ("50.000000", "latency_p50_ns"),
    ("95.000000", "latency_p95_ns"),
    ("99.000000", "latency_p99_ns"),
    ("99.900000", "latency_p999_ns"),
];
/// The elapsed time of a load.
const LOAD_ELAPSED_METRIC: &str = "load_elapsed_ns";

fn export_fio(report: &Report, out: &mut dyn Write) -> Result<(), Error> {
    let mut metrics = vec![LOAD_ELAPSED_METRIC.to_string()];
    for direction in ["read", "write"] {
        let names = FIO_METRICS.into_iter().chain(FIO_PERCENTILES.map(|(_, name)| name));
        metrics.extend(names.map(|name| format!("{direction}_{name}")));
    }
    let is_load = |sample: &ExportedSample| {
        ["read", "write"].iter().any(|direction| fio_direction_json(sample, direction).is_some())
    };
    let samples = shown_samples(&report.record, &metrics, ("fio", "reads or writes of a load"), is_load)?;
    for round in samples.chunk_by(|a, b| a.round == b.round) {
        let jobs: Vec<Value> = round.iter().map(fio_job_json).collect();
        let document = json!({"fio version": concat!("fsarena-", env!("CARGO_PKG_VERSION")), "jobs": jobs});
        write_json(&document, out)?;
    }
    Ok(())
}

/// The fio job of one sample, as JSON.
fn fio_job_json(sample: &ExportedSample) -> Value {
    let no_io = || json!({"total_ios": 0, "bw_bytes": 0, "iops": 0.0});
    json!({
        "jobname": sample.name,
        "error": 0,
        "job_runtime": fio_runtime_ms(sample),
        "read": fio_direction_json(sample, "read").unwrap_or_else(no_io),
        "write": fio_direction_json(sample, "write").unwrap_or_else(no_io),
    })
}

/// The figures of a direction, `read` or `write`, as JSON; `None` without operations in this direction.
fn fio_direction_json(sample: &ExportedSample, direction: &str) -> Option<Value> {
    let value = |metric: &str| sample.get(&format!("{direction}_{metric}"));
    let [count, bandwidth, iops, mean, max] = FIO_METRICS.map(value);
    let iops = iops.filter(|iops| *iops > 0.0)?;
    let bandwidth = bandwidth.unwrap_or(0.0);
    let percentile = |(name, metric): (&str, &str)| Some((name.to_string(), json!(value(metric)?)));
    let percentiles: Map<String, Value> = FIO_PERCENTILES.into_iter().filter_map(percentile).collect();
    Some(json!({
        "total_ios": count,
        "bw_bytes": bandwidth,
        "bw": bandwidth / 1024.0,
        "iops": iops,
        "runtime": fio_runtime_ms(sample),
        "lat_ns": {"mean": mean, "max": max, "percentile": percentiles},
    }))
}

/// The elapsed time of a load in whole milliseconds.
fn fio_runtime_ms(sample: &ExportedSample) -> Option<f64> {
    sample.get(LOAD_ELAPSED_METRIC).map(|ns| (ns / 1e6).round())
}

/// The values of one metric for one task of one variant.
#[derive(Debug, Clone)]
struct MetricValues<'a> {
    task: &'a TaskId,
    variant: &'a Variant,
    /// The round (from 0) and the value, in the order of the rounds.
    values: Vec<(u32, f64)>,
}

/// The values of a metric, one entry for each task and variant that has any, without dropped rounds. Empty if the run lacks
/// the metric.
fn values_of_metric<'a>(record: &'a RunRecord, metric: &str) -> Vec<MetricValues<'a>> {
    let Some(grid) = Grid::of(record, metric) else { return vec![] };
    let grid = grid.by_round();
    let mut all_values = Vec::new();
    for (task, variants) in record.tasks.iter().zip(&grid.values) {
        for (variant, values) in record.variants.iter().zip(variants) {
            let values = grid.rounds.iter().copied().zip(values.iter().copied());
            let values: Vec<(u32, f64)> = values.filter(|(_, value)| !value.is_nan()).collect();
            if !values.is_empty() {
                all_values.push(MetricValues { task: &task.id, variant, values });
            }
        }
    }
    all_values
}

/// The values of several metrics for one task of one variant in one round, which is one sample of the run.
#[derive(Debug, Clone)]
struct ExportedSample<'a> {
    /// The round, from 0.
    round: u32,
    task: &'a TaskId,
    variant: &'a Variant,
    /// The task and the variant: `rndrd[bs=4096] on ext4`.
    name: String,
    /// The values by the id of their metric.
    values: BTreeMap<String, f64>,
}

impl ExportedSample<'_> {
    /// The value of a metric, if the sample has one.
    fn get(&self, metric: &str) -> Option<f64> {
        self.values.get(metric).copied()
    }
}

/// The samples of a run with at least one of these metrics, sorted by round, without dropped rounds.
fn samples_of_metrics<'a>(record: &'a RunRecord, metrics: &[impl AsRef<str>]) -> Vec<ExportedSample<'a>> {
    let mut samples: BTreeMap<(u32, String), ExportedSample> = BTreeMap::new();
    for metric in metrics.iter().map(AsRef::as_ref) {
        for MetricValues { task, variant, values } in values_of_metric(record, metric) {
            let name = format!("{task} on {}", variant.name);
            for (round, value) in values {
                let new_sample =
                    || ExportedSample { round, task, variant, name: name.clone(), values: BTreeMap::new() };
                let sample = samples.entry((round, name.clone())).or_insert_with(new_sample);
                sample.values.insert(metric.to_string(), value);
            }
        }
    }
    samples.into_values().collect()
}

/// The samples of [`samples_of_metrics`] for which `is_shown` returns true. The error names the format and its content, such as
/// "reads or writes of a load".
///
/// # Errors
/// If the run has no such sample.
fn shown_samples<'a>(
    record: &'a RunRecord,
    metrics: &[impl AsRef<str>],
    (format, content): (&str, &str),
    is_shown: impl Fn(&ExportedSample) -> bool,
) -> Result<Vec<ExportedSample<'a>>, Error> {
    let mut samples = samples_of_metrics(record, metrics);
    samples.retain(is_shown);
    if samples.is_empty() {
        return Err(Error::Usage(format!(
            "{} has no {content}, which the format {format} requires; `{}` exports all samples",
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
    let elapsed = values_of_metric(record, "elapsed");
    let (user, system) = (values_of_metric(record, "user"), values_of_metric(record, "system"));
    let results: Vec<Value> = elapsed.iter().map(|series| hyperfine_result_json(series, &user, &system)).collect();
    write_json(&json!({ "results": results }), out)
}

/// The result of one task of one variant as JSON, from its elapsed times and from the user and system times of all tasks. A time
/// that the run does not have is null.
fn hyperfine_result_json(elapsed: &MetricValues, user: &[MetricValues], system: &[MetricValues]) -> Value {
    let values = |series: &MetricValues| series.values.iter().map(|(_, value)| *value).collect::<Vec<f64>>();
    let mean_of_same_task = |metric: &[MetricValues]| {
        let same_task = metric.iter().find(|other| (other.task, other.variant) == (elapsed.task, elapsed.variant));
        same_task.map(|same_task| mean(values(same_task)))
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

/// The metrics of a line and the units of their values in the text. The values of these metrics are in seconds, and the text has
/// them in nanoseconds.
const GOBENCH_TIMES: [(&str, &str); 5] = [
    ("elapsed", "ns/op"),
    ("synced", "synced-ns/op"),
    ("user", "user-ns/op"),
    ("system", "system-ns/op"),
    ("total_cpu", "total-cpu-ns/op"),
];

fn export_gobench(report: &Report, out: &mut dyn Write) -> Result<(), Error> {
    let record = &report.record;
    writeln!(out, "study: {}\nrun: {}", replace_blanks(&record.plan.name), replace_blanks(&record.id))?;
    let samples = samples_of_metrics(record, &GOBENCH_TIMES.map(|(metric, _)| metric));
    for round in samples.chunk_by(|a, b| a.round == b.round) {
        writeln!(out, "round: {}", round[0].round)?;
        for sample in round {
            let (task, variant) = (sample.task.to_string(), replace_blanks(&sample.variant.name));
            write!(out, "Benchmark{}/variant={variant}\t1", gobench_name(&task))?;
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
fn replace_blanks(text: &str) -> String {
    text.chars().map(|c| if c.is_whitespace() || c.is_control() { '_' } else { c }).collect()
}

/// The name after `Benchmark` in a result line. The format requires that it begins with an upper-case letter.
fn gobench_name(text: &str) -> String {
    let name = replace_blanks(text);
    let mut rest = name.chars();
    rest.next().map_or(String::new(), |first| first.to_uppercase().chain(rest).collect())
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
    let is_load = |sample: &ExportedSample| sample.get("read_iops_per_s").or(sample.get("write_iops_per_s")).is_some();
    let metrics = SYSBENCH_LINES.map(|(_, _, metric, ..)| metric);
    let samples = shown_samples(&report.record, &metrics, ("sysbench", "reads or writes of a load"), is_load)?;
    samples.iter().try_for_each(|sample| write_sysbench_run(sample, out))
}

fn write_sysbench_run(sample: &ExportedSample, out: &mut dyn Write) -> Result<(), Error> {
    let name: String = sample.name.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    writeln!(out, "sysbench 1.0.20 (as fsarena {} writes it)\n\nDoing {name}", env!("CARGO_PKG_VERSION"))?;
    let mut last_heading = "";
    for (heading, label, metric, divisor, suffix) in SYSBENCH_LINES {
        let Some(value) = sample.get(metric) else { continue };
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
    "the text of dbench: throughput and operations, a run for each sample; the name of its load is the task and the variant",
    export_dbench,
);

const DBENCH_MAX_LATENCY: &str = "all_latency_max_ns";
/// The metrics of an operation, without the operation's name before them.
const DBENCH_METRICS: [&str; 3] = ["operations_count", "latency_mean_ns", "latency_max_ns"];

fn export_dbench(report: &Report, out: &mut dyn Write) -> Result<(), Error> {
    let names = OPERATIONS
        .iter()
        .flat_map(|operation| DBENCH_METRICS.map(|metric| format!("{}_{metric}", operation.reading_prefix)));
    let metrics: Vec<String> = names.chain([reading::SERVED_BANDWIDTH, DBENCH_MAX_LATENCY].map(String::from)).collect();
    let has_throughput = |sample: &ExportedSample| sample.get(reading::SERVED_BANDWIDTH).is_some();
    let samples = shown_samples(&report.record, &metrics, ("dbench", "throughput of clients"), has_throughput)?;
    samples.iter().try_for_each(|sample| write_dbench_run(sample, out))
}

fn write_dbench_run(sample: &ExportedSample, out: &mut dyn Write) -> Result<(), Error> {
    let name: String = sample.name.chars().map(|c| if c.is_control() || c == '\'' { ' ' } else { c }).collect();
    writeln!(out, "dbench version 4.00 - as fsarena {} writes it\n", env!("CARGO_PKG_VERSION"))?;
    writeln!(out, "Running with load '{name}'\n")?;
    writeln!(out, " Operation      Count    AvgLat    MaxLat\n ----------------------------------------")?;
    for operation in &OPERATIONS {
        let [count, mean, max] =
            DBENCH_METRICS.map(|metric| sample.get(&format!("{}_{metric}", operation.reading_prefix)).unwrap_or(0.0));
        if count > 0.0 {
            writeln!(out, " {:<14} {count} {} {}", operation.printed_name, mean / 1e6, max / 1e6)?;
        }
    }
    let throughput = sample.get(reading::SERVED_BANDWIDTH).unwrap_or(0.0) / 1e6;
    let clients = sample.variant.clients(sample.task).unwrap_or(1);
    write!(out, "\nThroughput {throughput} MB/sec  {clients} clients  {clients} procs")?;
    if let Some(longest) = sample.get(DBENCH_MAX_LATENCY) {
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
            [gobench_name("rm tree\n"), gobench_name("größe"), gobench_name("über"), gobench_name("")],
            ["Rm_tree_", "Größe", "Über", ""]
        );
    }

    #[test]
    fn times_that_a_run_does_not_have_are_null_in_hyperfine_json() {
        let (task, variant) = (TaskId::new("cp"), Variant { name: "xfs".into(), levels: BTreeMap::new() });
        let elapsed = MetricValues { task: &task, variant: &variant, values: vec![(0, 1.0), (1, 3.0)] };
        let result = hyperfine_result_json(&elapsed, &[], &[]);
        assert_eq!((&result["mean"], &result["user"]), (&json!(2.0), &Value::Null));
    }
}
