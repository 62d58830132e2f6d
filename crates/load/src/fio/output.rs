//! Parses the JSON that fio prints, to readings with the names of the load engine.
//!
//! Latencies are fio's completion latencies (`clat`). Readings of all operations leave out syncs, as fio's totals do.

use crate::task::{Result, TaskError};
use fsarena_core::latency::LatencyHistogram;
use fsarena_core::metric::reading;
use fsarena_core::sample::{Readings, TaskOutput};
use serde_json::Value;

/// Largest number of characters of an output that an error repeats.
const MAX_ERROR_CHARACTERS: usize = 1000;
/// The percentiles of a latency: the end of the reading's name, the key in fio's JSON, and the share of operations.
const PERCENTILES: [(&str, &str, f64); 4] =
    [("p50", "50.000000", 0.5), ("p95", "95.000000", 0.95), ("p99", "99.000000", 0.99), ("p999", "99.900000", 0.999)];

/// The figures of one job in fio's output, or of one clone of a job (`numjobs`).
#[derive(Debug)]
pub struct JobFigures {
    /// The name of the job.
    pub name: String,
    json: Value,
}

/// Parses the output of a run with one job, or with jobs that count together.
///
/// # Errors
/// Those of [`parse_jobs`], as the error of a task.
pub fn parse_task_output(printed: &str) -> Result<TaskOutput> {
    let output = parse_jobs(printed).and_then(|jobs| combine_jobs(&jobs.iter().collect::<Vec<_>>()));
    output.map_err(|reason| output_error(printed, &reason))
}

/// Makes the error of an output of fio that has no figures, or figures of a failed job.
pub fn output_error(printed: &str, reason: &str) -> TaskError {
    let shown: String = printed.chars().take(MAX_ERROR_CHARACTERS).collect();
    TaskError::Unfit(format!("fio printed no figures of a run: {reason}\n{shown}"))
}

/// Parses the jobs of fio's JSON, which may follow warnings. Without `group_reporting`, each clone of a job is one
/// entry.
///
/// # Errors
/// If the text is not JSON, or has no job, or a job or one of its operations failed.
pub fn parse_jobs(text: &str) -> Result<Vec<JobFigures>, String> {
    let (Some(start), Some(end)) = (text.find('{'), text.rfind('}')) else { return Err("no `{`".into()) };
    let json = text.get(start..=end).ok_or("nothing between the braces")?;
    let run: Value = serde_json::from_str(json).map_err(|error| error.to_string())?;
    let mut jobs = vec![];
    for json in run["jobs"].as_array().into_iter().flatten() {
        let name = json["jobname"].as_str().unwrap_or_default().to_string();
        for error_key in ["error", "total_err"] {
            if let Some(error) = json[error_key].as_i64().filter(|error| *error != 0) {
                let failure = if error_key == "error" { "failed with error" } else { "counted failed operations:" };
                return Err(format!("job {name} {failure} {error}"));
            }
        }
        jobs.push(JobFigures { name, json: json.clone() });
    }
    if jobs.is_empty() { Err("no jobs".into()) } else { Ok(jobs) }
}

/// A figure of each job in one direction. `key` is the key of the direction in fio's JSON, and `name` that of the figure.
///
/// # Errors
/// If a job does not have the figure.
fn figures_of(jobs: &[&JobFigures], key: &str, name: &str) -> Result<Vec<f64>, String> {
    jobs.iter().map(|job| job.json[key][name].as_f64().ok_or_else(|| format!("no {key}/{name}"))).collect()
}

/// Sums up jobs that ran at the same time: their rates are all operations and bytes over the longest time of a job.
/// Figures that fio does not print are left out.
///
/// # Errors
/// If a figure is missing that every version of fio prints.
pub fn combine_jobs(jobs: &[&JobFigures]) -> Result<TaskOutput, String> {
    let mut readings = Readings::default();
    let mut all_latencies = vec![];
    // The operations of both directions, the sum of their rates, and the longest time that a job took, in milliseconds.
    let (mut all_operations, mut rate_sum, mut longest_ms) = (0.0, 0.0, 0.0_f64);
    for (key, rate, bandwidth) in [
        ("read", reading::READ_RATE, reading::READ_BANDWIDTH),
        ("write", reading::WRITE_RATE, reading::WRITE_BANDWIDTH),
    ] {
        let operations: f64 = figures_of(jobs, key, "total_ios")?.iter().sum();
        let bytes: f64 = figures_of(jobs, key, "io_bytes")?.iter().sum();
        let ms = figures_of(jobs, key, "runtime")?.into_iter().fold(0.0, f64::max);
        let printed_rates = figures_of(jobs, key, "iops")?;
        if operations == 0.0 || ms == 0.0 {
            continue;
        }
        // A single job keeps the rate that fio printed.
        let rate_per_s = if let [printed_rate] = printed_rates[..] { printed_rate } else { operations * 1e3 / ms };
        readings.set(rate, rate_per_s);
        readings.set(bandwidth, bytes * 1e3 / ms);
        readings.set(&format!("{key}_operations_count"), operations);
        let latencies = latencies_of(jobs, key, "clat_ns");
        set_latencies(&mut readings, &format!("{key}_"), &latencies);
        all_latencies.extend(latencies);
        all_operations += operations;
        rate_sum += rate_per_s;
        longest_ms = longest_ms.max(ms);
    }
    if longest_ms > 0.0 {
        let rate_per_s = if jobs.len() == 1 { rate_sum } else { all_operations * 1e3 / longest_ms };
        readings.set(reading::LOAD_ELAPSED, longest_ms * 1e6);
        readings.set("all_iops_per_s", rate_per_s);
        readings.set("all_operations_count", all_operations);
        set_latencies(&mut readings, "all_", &all_latencies);
    }
    let syncs: f64 = jobs.iter().filter_map(|job| job.json["sync"]["total_ios"].as_f64()).sum();
    if syncs > 0.0 {
        readings.set("sync_operations_count", syncs);
        set_latencies(&mut readings, "sync_", &latencies_of(jobs, "sync", "lat_ns"));
    }
    if readings.0.values().any(|value| !value.is_finite()) {
        return Err("a figure is not a finite number".into());
    }
    let latencies = sum_histograms(&all_latencies).unwrap_or_default();
    Ok(TaskOutput { readings, latencies, ..TaskOutput::default() })
}

/// The latencies of each job that has any.
fn latencies_of<'a>(jobs: &[&'a JobFigures], direction: &str, key: &str) -> Vec<&'a Value> {
    let latencies = jobs.iter().map(|job| &job.json[direction][key]);
    latencies.filter(|latency| latency["N"].as_f64().is_none_or(|n| n > 0.0)).collect()
}

/// Sets the latencies of jobs that count together. Those of a single job are as fio prints them; the percentiles of
/// several come from the sum of their histograms.
fn set_latencies(readings: &mut Readings, prefix: &str, latencies: &[&Value]) {
    let mut set_reading = |name: &str, value: Option<f64>| {
        if let Some(ns) = value {
            readings.set(&format!("{prefix}latency_{name}_ns"), ns);
        }
    };
    if let [latency] = latencies {
        set_reading("mean", latency["mean"].as_f64());
        set_reading("max", latency["max"].as_f64());
        for (name, percentile, _) in PERCENTILES {
            set_reading(name, latency["percentile"][percentile].as_f64());
        }
        return;
    }
    let values = |key: &str| latencies.iter().map(|latency| latency[key].as_f64()).collect::<Option<Vec<f64>>>();
    let Some(max_ns) = values("max").and_then(|maxima| maxima.into_iter().reduce(f64::max)) else {
        return;
    };
    set_reading("max", Some(max_ns));
    if let (Some(means), Some(counts)) = (values("mean"), values("N")) {
        let sum: f64 = means.iter().zip(&counts).map(|(mean, count)| mean * count).sum();
        set_reading("mean", Some(sum / counts.iter().sum::<f64>()));
    }
    if let Some(histogram) = sum_histograms(latencies) {
        for (name, _, share) in PERCENTILES {
            set_reading(name, histogram.quantile(share).map(|ns| (ns as f64).min(max_ns)));
        }
    }
}

/// The sum of the histograms of latencies; None if a job has none, because its percentiles are then unknown.
fn sum_histograms(latencies: &[&Value]) -> Option<LatencyHistogram> {
    let mut counts_by_ns = vec![];
    for latency in latencies {
        for (ns, count) in latency["bins"].as_object()? {
            counts_by_ns.push((ns.parse().ok()?, count.as_u64()?));
        }
    }
    Some(LatencyHistogram::new(counts_by_ns))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const FIO_3_33_OUTPUT: &str = include_str!("../../tests/data/fio-3.33-rndwr.json");

    fn parse(text: &str) -> Result<Readings, String> {
        let jobs = parse_jobs(text)?;
        Ok(combine_jobs(&jobs.iter().collect::<Vec<_>>())?.readings)
    }

    #[test]
    fn a_captured_run_becomes_readings() {
        let readings = parse(FIO_3_33_OUTPUT).unwrap();
        assert_eq!(readings.get("write_iops_per_s"), Some(9846.153846));
        // 2 MiB in 52 ms.
        assert_eq!(readings.get("write_bandwidth_bytes_per_s"), Some(2097152.0 / 0.052));
        assert_eq!(readings.get("write_latency_p50_ns"), Some(23424.0));
        assert_eq!(readings.get("write_latency_p999_ns"), Some(158720.0));
        assert_eq!(readings.get("all_latency_p999_ns"), Some(158720.0));
        assert_eq!(readings.get("sync_operations_count"), Some(5.0));
        assert_eq!(readings.get("read_iops_per_s"), None);
        let known: Vec<&str> = fsarena_engine::readings::reading_defs().map(|def| def.id).collect();
        assert!(readings.0.keys().all(|id| known.contains(&id.as_str())), "{readings:?}");
    }

    #[test]
    fn warnings_before_the_json_are_skipped_and_failed_jobs_are_errors() {
        let with_warning =
            format!("note: both iodepth >= 1 and synchronous I/O engine are selected\n{FIO_3_33_OUTPUT}");
        assert!(parse(&with_warning).is_ok());
        assert!(parse(&FIO_3_33_OUTPUT.replace("\"error\" : 0", "\"error\" : 22")).unwrap_err().contains("error 22"));
        let with_failures = FIO_3_33_OUTPUT.replace("\"error\" : 0", "\"error\" : 0, \"total_err\" : 3");
        assert!(parse(&with_failures).unwrap_err().contains("failed operations: 3"));
        assert!(parse("fio: unrecognized option").is_err());
        assert!(parse("{\"jobs\": []}").is_err());
        assert!(parse("}{").is_err());
    }

    fn job(name: &str, operations: u64, ms: u64, bins: &str) -> String {
        let idle = "{\"total_ios\": 0, \"io_bytes\": 0, \"runtime\": 0, \"iops\": 0}";
        format!(
            "{{\"jobname\": \"{name}\", \"error\": 0, \"write\": {idle}, \"read\": {{\"total_ios\": {operations}, \
             \"io_bytes\": {}, \"runtime\": {ms}, \"iops\": 1.5, \"clat_ns\": {{\"N\": {operations}, \"mean\": {operations}, \
             \"max\": 900, \"bins\": {{{bins}}}, \"percentile\": {{\"50.000000\": 77}}}}}}}}",
            operations * 4096
        )
    }

    #[test]
    fn jobs_that_ran_together_add_up_over_the_longest_time() {
        let text = |jobs: &[String]| format!("{{\"jobs\": [{}]}}", jobs.join(","));
        let [a, b] = [job("a", 1, 1000, "\"100\": 1"), job("b", 3, 2000, "\"200\": 3")];
        let both = parse(&text(&[a.clone(), b.clone()])).unwrap();
        // 4 operations in 2 s; (1·1 + 3·3)/4 = 2.5 ns; the median of 100, 200, 200, 200.
        assert_eq!(both.get("read_iops_per_s"), Some(2.0));
        assert_eq!(both.get("read_bandwidth_bytes_per_s"), Some(4.0 * 4096.0 / 2.0));
        assert_eq!(both.get("read_latency_mean_ns"), Some(2.5));
        assert_eq!(both.get("read_latency_p50_ns"), Some(200.0));
        assert_eq!(both.get("all_latency_max_ns"), Some(900.0));
        // 1 read in 1 s beside 3 writes in 2 s: 4 operations in 2 s.
        let writer =
            b.replace("\"write\"", "\"idle\"").replace("\"read\"", "\"write\"").replace("\"idle\"", "\"read\"");
        let mixed = parse(&text(&[a.clone(), writer])).unwrap();
        let rates = ["read_iops_per_s", "write_iops_per_s", "all_iops_per_s"].map(|id| mixed.get(id));
        assert_eq!(rates, [Some(1.0), Some(1.5), Some(2.0)]);
        // A job alone has what fio printed, and clones without histograms have no percentile.
        let alone = parse(&text(std::slice::from_ref(&a))).unwrap();
        assert_eq!((alone.get("read_iops_per_s"), alone.get("read_latency_p50_ns")), (Some(1.5), Some(77.0)));
        let without_bins = parse(&text(&[a, b.replace("\"bins\"", "\"none\"")])).unwrap();
        assert_eq!(without_bins.get("read_latency_p50_ns"), None);
        assert_eq!(without_bins.get("read_latency_max_ns"), Some(900.0));
    }

    proptest! {
        #[test]
        fn garbage_never_panics(text in "\\PC*") {
            let _ = parse(&text);
        }

        #[test]
        fn a_damaged_output_never_panics(offset in 0usize..7379, inserted in "[ -~]{0,4}") {
            let mut text = FIO_3_33_OUTPUT.to_string();
            text.insert_str(offset.min(text.len()), &inserted);
            let _ = parse(&text);
        }
    }
}
