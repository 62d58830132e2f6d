//! The result of a load as a page: tables and remarks as text, all figures as JSON.

use fsarena_core::event::Note;
use fsarena_core::metric::{DataPath, reading};
use fsarena_core::sample::{Readings, Unit};
use fsarena_engine::meta::{self, Operation};
use fsarena_engine::{Files, LoadJob, LoadOutcome, OpStats, Warmup, extent_check::ExtentSource};
use fsarena_report::document::{Cell, Document, Table};
use fsarena_report::number::{three_digits, with_unit};
use fsarena_report::page::Page;
use hdrhistogram::Histogram;
use serde_json::{Value, json};
use std::path::Path;

/// The quantiles of latencies that a page shows, with their labels.
const QUANTILES: [(&str, f64); 3] = [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999)];

/// Returns the page of a load of reads and writes. `name` is the name of the load. The readings and notes are those of
/// the probes during the load.
pub fn data_page(
    name: Option<&str>,
    job: &LoadJob,
    files: &Files,
    outcome: &LoadOutcome,
    (readings, notes): (&Readings, &[Note]),
    interrupted: bool,
) -> Page {
    let mut document = Document::default();
    document.heading(1, name.map_or("Load".to_string(), |name| format!("Load {name}")));
    document.table(latency_table(outcome.kinds.iter().map(|kind| (kind.name.into(), outcome, kind))));
    let mut lines = remarks(job, outcome, interrupted);
    let share = device_share(readings, outcome.intervals.iter().map(|interval| interval.bytes).sum());
    let data_path = share.map(|share| DataPath::of(share).name());
    if let (Some(data_path), Some(share)) = (data_path, share) {
        lines.push(format!("reached: {data_path} ({:.0}% of the bytes)", 100.0 * share));
    }
    lines.extend(describe_extent_check(outcome));
    document.list(lines);
    // `json!` panics for a path that is not UTF-8.
    let paths: Vec<String> = files.paths().iter().map(|path| path.display().to_string()).collect();
    let json = json!({
        "format": 1,
        "name": name,
        "job": job,
        "files": { "paths": paths, "bytes_each": files.bytes_per_file() },
        "interrupted": interrupted,
        "reached": data_path,
        "device_share_ratio": share,
        "attestation": outcome.extent_check,
        "result": outcome_json(outcome),
        "probes": readings,
        "notes": notes,
    });
    Page { document, json }
}

/// Returns the page of a load of metadata operations, phase by phase. They ran in the temporary directory `dir`; the
/// page has its parent, because fsarena removes `dir`.
pub fn metadata_page(job: &meta::MetaJob, dir: &Path, phases: &[(Operation, LoadOutcome)], interrupted: bool) -> Page {
    let mut document = Document::default();
    document.heading(1, "Metadata load");
    let rows = phases.iter().flat_map(|(operation, outcome)| {
        outcome.kinds.iter().map(move |kind| (operation.name().to_string(), outcome, kind))
    });
    document.table(latency_table(rows));
    let mut lines = vec![];
    for (operation, outcome) in phases.iter().filter(|(_, outcome)| outcome.is_client_bound) {
        lines.extend(generator_cost(outcome).map(|cost| format!("{}: {cost}", operation.name())));
    }
    if interrupted {
        lines.push(CUT_SHORT.into());
    }
    document.list(lines);
    let json = json!({
        "format": 1,
        "job": job,
        "directory": dir.parent().map(|parent| parent.display().to_string()),
        "interrupted": interrupted,
        "phases": phases.iter().map(phase_json).collect::<Vec<_>>(),
    });
    Page { document, json }
}

fn phase_json((operation, outcome): &(Operation, LoadOutcome)) -> Value {
    json!({ "operation": operation.name(), "result": outcome_json(outcome) })
}

/// The remark on a load that a signal ended.
const CUT_SHORT: &str = "CUT SHORT by a signal: these are the figures until then";

/// Returns the bytes that reached the device as a share of the bytes that the load read and wrote. Dirty data in a cache has
/// not reached the device. None if the device is unknown, or the load moved nothing.
fn device_share(readings: &Readings, moved_bytes: u64) -> Option<f64> {
    let device_bytes = readings.get(reading::DEVICE_READ_BYTES)? + readings.get(reading::DEVICE_WRITTEN_BYTES)?;
    (moved_bytes > 0).then(|| device_bytes / moved_bytes as f64)
}

/// The table of operations: rates and latencies of each kind. In an open loop a kind has a second row with the latencies from
/// the intended start.
fn latency_table<'a>(rows: impl Iterator<Item = (String, &'a LoadOutcome, &'a OpStats)>) -> Table {
    let header = ["", "operations", "IOPS", "MB/s", "mean", "p50", "p99", "p99.9", "max"];
    let mut table = Table::of_figures(header.map(String::from).to_vec());
    for (name, outcome, kind) in rows {
        let seconds = outcome.elapsed_ns as f64 / 1e9;
        let rate = |amount: f64| if seconds > 0.0 { amount / seconds } else { 0.0 };
        let bandwidth = if kind.bytes > 0 { three_digits(rate(kind.bytes as f64) / 1e6) } else { "–".into() };
        let intended = format!("{name}, from the intended start");
        let operations = [name, kind.count.to_string(), format!("{:.0}", rate(kind.count as f64)), bandwidth];
        table.rows.push(latency_row(operations, &kind.latency));
        if let Some(latency) = &kind.corrected_latency {
            table.rows.push(latency_row([&intended, "", "", ""].map(String::from), latency));
        }
    }
    table
}

/// A row of the table: the texts about the operations, and their latencies.
fn latency_row(operations: [String; 4], latency: &Histogram<u64>) -> Vec<Cell> {
    let quantiles = QUANTILES.map(|(_, quantile)| latency.value_at_quantile(quantile) as f64);
    let latencies_ns = [latency.mean()].into_iter().chain(quantiles).chain([latency.max() as f64]);
    let latencies = latencies_ns.map(|ns| with_unit(ns, Unit::Nanoseconds));
    operations.into_iter().chain(latencies).map(Cell::from).collect()
}

/// Remarks that a reader of the figures needs: warm-up, steadiness, cost of the generator, verification, fairness.
fn remarks(job: &LoadJob, outcome: &LoadOutcome, interrupted: bool) -> Vec<String> {
    let mut lines = vec![];
    if interrupted {
        lines.push(CUT_SHORT.to_string());
    }
    let warmup_s: f64 = outcome.intervals[..outcome.warmup_intervals].iter().map(|interval| interval.length_s).sum();
    lines.push(format!(
        "{} measured after {} of warm-up; {}",
        with_unit(outcome.elapsed_ns as f64, Unit::Nanoseconds),
        with_unit(warmup_s, Unit::Seconds),
        match outcome.is_steady {
            Some(true) => "steady",
            Some(false) => "NOT steady",
            None => "too short to tell whether it was steady",
        },
    ));
    if let Warmup::Seconds(set_s) = job.warmup
        && set_s > 0.0
        && outcome.warmup_intervals == 0
    {
        let limit = with_unit(set_s, Unit::Seconds);
        lines.push(format!(
            "WARM-UP INCLUDED: the load ended within its warm-up of {limit}; use a shorter --ramp-time or a longer load"
        ));
    }
    lines.extend(generator_cost(outcome));
    if let Some(target) = outcome.intended_per_s {
        lines.push(format!("open loop: the target was {} operations a second", three_digits(target)));
    }
    if outcome.final_syncs > 0 {
        let longest = with_unit(outcome.final_sync_ns as f64, Unit::Nanoseconds);
        lines.push(format!("{} final syncs; the longest thread took {longest}", outcome.final_syncs));
    }
    if outcome.verified_blocks > 0 {
        lines.push(format!("{} blocks verified, all sound", outcome.verified_blocks));
    }
    if outcome.fairness.most_operations > 0 && outcome.fairness.jain_index < 0.95 {
        let fairness = &outcome.fairness;
        lines.push(format!(
            "the threads did unequal work: from {} to {} operations (Jain's index {:.2})",
            fairness.fewest_operations, fairness.most_operations, fairness.jain_index
        ));
    }
    lines
}

/// The cost of the load generator as text: its time for each operation, and its share of the processor time.
/// Has a warning if the generator limited the load. None without operations.
fn generator_cost(outcome: &LoadOutcome) -> Option<String> {
    if outcome.operations() == 0 {
        return None;
    }
    let share = format!(
        "the load generator takes {} of each operation, {:.1}% of its time",
        with_unit(outcome.calibration.cost_ns(), Unit::Nanoseconds),
        100.0 * outcome.client_share
    );
    if outcome.is_client_bound {
        return Some(format!("CLIENT-BOUND: {share}; the storage can do more than this"));
    }
    Some(share)
}

/// How the extents of the files were checked; None if they were not.
fn describe_extent_check(outcome: &LoadOutcome) -> Option<String> {
    let check = outcome.extent_check.as_ref()?;
    let how = match check.source {
        ExtentSource::Fiemap => "by FIEMAP: written, and neither sparse nor shared, unless allowed",
        ExtentSource::SeekHole => "by SEEK_HOLE only: no holes; this filesystem reports no more",
        ExtentSource::Device => "a device",
    };
    Some(format!("attested {how} ({} extents)", check.extents))
}

/// The figures of an outcome as JSON, with units in their names.
fn outcome_json(outcome: &LoadOutcome) -> Value {
    let kind = |kind: &OpStats| {
        json!({
            "operation": kind.name,
            "operations_count": kind.count,
            "bytes": kind.bytes,
            "latency_ns": latency_json(&kind.latency),
            "corrected_latency_ns": kind.corrected_latency.as_ref().map(latency_json),
        })
    };
    json!({
        "elapsed_ns": outcome.elapsed_ns,
        "operations_count": outcome.operations(),
        "bytes": outcome.bytes(),
        "client_bound": outcome.is_client_bound,
        "steady": outcome.is_steady,
        "warmup_intervals_count": outcome.warmup_intervals,
        "calibration": outcome.calibration,
        "kinds": outcome.kinds.iter().map(kind).collect::<Vec<_>>(),
        "readings": outcome.readings(),
        "intervals": outcome.intervals,
    })
}

fn latency_json(latency: &Histogram<u64>) -> Value {
    let mut value = json!({ "mean": latency.mean(), "min": latency.min(), "max": latency.max() });
    for (name, quantile) in QUANTILES {
        value[name.replace('.', "")] = latency.value_at_quantile(quantile).into();
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_data_path_follows_from_the_share_of_bytes_that_reached_the_device() {
        let mut readings = Readings::default();
        let data_path = |readings: &Readings, bytes| device_share(readings, bytes).map(DataPath::of);
        assert_eq!(data_path(&readings, 1000), None, "no device is known");
        readings.set(reading::DEVICE_READ_BYTES, 40.0);
        readings.set(reading::DEVICE_WRITTEN_BYTES, 10.0);
        assert_eq!(data_path(&readings, 1000), Some(DataPath::Cache));
        assert_eq!(data_path(&readings, 100), Some(DataPath::Mixed));
        assert_eq!(data_path(&readings, 50), Some(DataPath::Device));
        assert_eq!(data_path(&readings, 0), None);
    }
}
