//! What a load came to, for people and for programs.

use fsarena_core::event::Note;
use fsarena_core::metric::{DataPath, reading};
use fsarena_core::sample::{Readings, Unit};
use fsarena_engine::meta::{self, Operation};
use fsarena_engine::{Files, Job, OfKind, Outcome, attest::Source};
use fsarena_report::document::Page;
use fsarena_report::document::{Cell, Document, Table};
use fsarena_report::number::{three, with_unit};
use hdrhistogram::Histogram;
use serde_json::{Value, json};
use std::path::Path;

const QUANTILES: [(&str, f64); 3] = [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999)];

/// Returns the page of reads and writes, with what the probes read meanwhile.
pub fn of_data(
    job: &Job,
    files: &Files,
    outcome: &Outcome,
    (readings, notes): (&Readings, &[Note]),
    interrupted: bool,
) -> Page {
    let mut document = Document::default();
    document.heading(1, "Load");
    document.table(latencies(outcome.kinds.iter().map(|kind| (kind.name.into(), outcome, kind))));
    let mut said = remarks(outcome, interrupted);
    let share = device_share(readings, outcome.intervals.iter().map(|one| one.bytes).sum());
    let reach = share.map(|share| DataPath::of(share).label());
    said.extend(
        reach
            .zip(share)
            .map(|(reach, share)| format!("reached: {reach} ({:.0}% of the bytes)", 100.0 * share)),
    );
    said.extend(attested(outcome));
    document.list(said);
    let json = json!({
        "format": 1,
        "job": job,
        "files": { "paths": files.paths(), "bytes_each": files.bytes() },
        "interrupted": interrupted,
        "reached": reach,
        "device_share_ratio": share,
        "attestation": outcome.used.attestation,
        "result": result(outcome),
        "probes": readings,
        "notes": notes,
    });
    Page { document, json }
}

/// Returns the page of metadata operations, phase by phase. They ran in `dir`, which was made for them.
pub fn of_metadata(job: &meta::Job, dir: &Path, phases: &[(Operation, Outcome)], interrupted: bool) -> Page {
    let mut document = Document::default();
    document.heading(1, "Metadata load");
    let rows = phases.iter().flat_map(|(operation, outcome)| {
        outcome.kinds.iter().map(move |kind| (operation.name().to_string(), outcome, kind))
    });
    document.table(latencies(rows));
    let mut said = vec![];
    for (operation, outcome) in phases {
        let bound = client_words(outcome).filter(|_| outcome.client_bound);
        said.extend(bound.map(|words| format!("{}: {words}", operation.name())));
    }
    if interrupted {
        said.push(CUT_SHORT.into());
    }
    document.list(said);
    let phase = |(operation, outcome): &(Operation, Outcome)| json!({ "operation": operation.name(), "result": result(outcome) });
    let json = json!({
        "format": 1,
        "job": job,
        "directory": dir.parent(),
        "interrupted": interrupted,
        "phases": phases.iter().map(phase).collect::<Vec<_>>(),
    });
    Page { document, json }
}

const CUT_SHORT: &str = "CUT SHORT by a signal: these are the figures until then";

/// Returns device bytes over the bytes that the load moved, where the device is known and anything was moved. What a
/// cache has not written back yet did not reach it.
fn device_share(readings: &Readings, moved_bytes: u64) -> Option<f64> {
    let device = readings.get(reading::DEVICE_READ)? + readings.get(reading::DEVICE_WRITTEN)?;
    (moved_bytes > 0).then(|| device / moved_bytes as f64)
}

fn latencies<'a>(rows: impl Iterator<Item = (String, &'a Outcome, &'a OfKind)>) -> Table {
    let heads = ["", "operations", "IOPS", "MB/s", "mean", "p50", "p99", "p99.9", "max"];
    let mut table = Table::figures(heads.map(String::from).to_vec());
    for (name, outcome, kind) in rows {
        let seconds = outcome.elapsed_ns as f64 / 1e9;
        let rate = |amount: f64| if seconds > 0.0 { amount / seconds } else { 0.0 };
        let moved = if kind.bytes > 0 { three(rate(kind.bytes as f64) / 1e6) } else { "–".into() };
        let intended = format!("{name}, from the intended start");
        let operations = [name, kind.count.to_string(), format!("{:.0}", rate(kind.count as f64)), moved];
        table.rows.push(latency_row(operations, &kind.latency));
        let corrected = kind.corrected.as_ref();
        table
            .rows
            .extend(corrected.map(|latency| latency_row([&intended, "", "", ""].map(String::from), latency)));
    }
    table
}

fn latency_row(operations: [String; 4], latency: &Histogram<u64>) -> Vec<Cell> {
    let quantiles = QUANTILES.map(|(_, quantile)| latency.value_at_quantile(quantile) as f64);
    let all = [latency.mean()].into_iter().chain(quantiles).chain([latency.max() as f64]);
    let latencies = all.map(|ns| with_unit(ns, Unit::Nanoseconds));
    operations.into_iter().chain(latencies).map(Cell::from).collect()
}

/// What a reader of the figures should know.
fn remarks(outcome: &Outcome, interrupted: bool) -> Vec<String> {
    let mut said = vec![];
    if interrupted {
        said.push(CUT_SHORT.to_string());
    }
    let warmup_s: f64 = outcome.intervals[..outcome.warmup_intervals].iter().map(|one| one.length_s).sum();
    said.push(format!(
        "{} measured after {} of warm-up; {}",
        with_unit(outcome.elapsed_ns as f64, Unit::Nanoseconds),
        with_unit(warmup_s, Unit::Seconds),
        match outcome.steady {
            Some(true) => "steady",
            Some(false) => "NOT steady",
            None => "too short to tell whether it was steady",
        },
    ));
    said.extend(client_words(outcome));
    if let Some(asked) = outcome.asked_per_s {
        said.push(format!("open loop: {} operations a second were asked for", three(asked)));
    }
    if outcome.final_syncs > 0 {
        let longest = with_unit(outcome.final_sync_ns as f64, Unit::Nanoseconds);
        said.push(format!("{} final syncs; the longest thread took {longest}", outcome.final_syncs));
    }
    if outcome.verified_blocks > 0 {
        said.push(format!("{} blocks verified, all sound", outcome.verified_blocks));
    }
    if outcome.fairness.most > 0 && outcome.fairness.jain < 0.95 {
        let fairness = &outcome.fairness;
        said.push(format!(
            "threads came off unevenly: from {} to {} operations (Jain's index {:.2})",
            fairness.least, fairness.most, fairness.jain
        ));
    }
    said
}

fn client_words(outcome: &Outcome) -> Option<String> {
    let share = format!(
        "the generator takes {} an operation, {:.1}% of its time",
        with_unit(outcome.calibration.cost_ns(), Unit::Nanoseconds),
        100.0 * outcome.client_share
    );
    (outcome.operations() > 0).then(|| match outcome.client_bound {
        true => format!("CLIENT-BOUND: {share}; the storage can do more than this"),
        false => share,
    })
}

fn attested(outcome: &Outcome) -> Option<String> {
    let found = outcome.used.attestation.as_ref()?;
    let how = match found.source {
        Source::Fiemap => "by FIEMAP: written, and neither sparse nor shared, unless allowed",
        Source::SeekHole => "by SEEK_HOLE only: no holes; this filesystem tells no more",
        Source::Device => "a device",
    };
    Some(format!("attested {how} ({} extents)", found.extents))
}

/// Figures of an outcome, with units in their names.
fn result(outcome: &Outcome) -> Value {
    let kind = |kind: &OfKind| {
        json!({
            "operation": kind.name,
            "operations_count": kind.count,
            "bytes": kind.bytes,
            "latency_ns": latency(&kind.latency),
            "corrected_latency_ns": kind.corrected.as_ref().map(latency),
        })
    };
    json!({
        "elapsed_ns": outcome.elapsed_ns,
        "operations_count": outcome.operations(),
        "bytes": outcome.bytes(),
        "client_bound": outcome.client_bound,
        "steady": outcome.steady,
        "warmup_intervals_count": outcome.warmup_intervals,
        "calibration": outcome.calibration,
        "kinds": outcome.kinds.iter().map(kind).collect::<Vec<_>>(),
        "readings": outcome.readings(),
        "intervals": outcome.intervals,
    })
}

fn latency(latency: &Histogram<u64>) -> Value {
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
    fn the_label_is_of_what_the_load_moved() {
        let mut readings = Readings::default();
        let label = |readings: &Readings, bytes| device_share(readings, bytes).map(DataPath::of);
        assert_eq!(label(&readings, 1000), None, "no device is known");
        readings.set(reading::DEVICE_READ, 40.0);
        readings.set(reading::DEVICE_WRITTEN, 10.0);
        assert_eq!(label(&readings, 1000), Some(DataPath::Cache));
        assert_eq!(label(&readings, 100), Some(DataPath::Mixed));
        assert_eq!(label(&readings, 50), Some(DataPath::Device));
        assert_eq!(label(&readings, 0), None);
    }
}
