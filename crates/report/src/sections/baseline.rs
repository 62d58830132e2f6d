//! The section with the stored figures of a baseline beside those of its variant in this run.

use crate::document::{Cell, Detail, Document, Table, row};
use crate::number::{percent, signed_percent, with_unit};
use crate::report::Report;
use fsarena_core::observations::MetricSeries;
use fsarena_core::plan::{Backing, Emulator};
use fsarena_core::plan::{RecalledBaseline, StoredFigures};
use fsarena_stats::comparison::median;
use fsarena_stats::ratio::{Ratio, log_ratios};
use serde_json::{Value, json};

/// The stored figures of one task beside those of this run.
struct ComparedFigure<'a> {
    stored: &'a StoredFigures,
    /// The median of the stored values.
    stored_median: f64,
    /// The median of the values in this run.
    median: Option<f64>,
    /// The ratio of this run to the stored values over the rounds that both have, if the figures are counts
    /// in the same state.
    ratio: Option<Ratio>,
}

/// Adds a table of the stored figures and those of this run.
pub fn add_baseline(document: &mut Document, report: &Report, _: Detail) {
    let Some(baseline) = &report.record.plan.baseline else { return };
    document.heading(
        3,
        format!("The baseline {}, measured on {} and again", baseline.name, date_of(&baseline.measured_at)),
    );
    let compared = compare_with_stored(report, baseline);
    let row = |one: &ComparedFigure| {
        let format = |value: f64| with_unit(value, one.stored.unit);
        let now = one.median.map_or("–".into(), format);
        let change = one.median.map_or(String::new(), |now| signed_percent(now / one.stored_median - 1.0, &[]));
        row![
            format!("{} {}", one.stored.task, one.stored.metric).as_str(),
            format(one.stored_median).as_str(),
            now.as_str(),
            Cell::two_lines(change, verdict_name(one, report.margin))
        ]
    };
    let header = ["task and metric", "stored", "again, here", "change"];
    document.table(Table::of_figures(header).with_rows(compared.iter().map(row)));
    document.text(judgement_note(report, baseline));
}

/// The day of a time in RFC 3339.
fn date_of(time: &str) -> &str {
    time.split('T').next().unwrap_or(time)
}

/// Whether stored figures may be judged: instruction counts, measured in the state of today.
fn can_judge(report: &Report, baseline: &RecalledBaseline) -> bool {
    let backing = &report.record.plan.device.backing;
    let is_exact = matches!(backing, Backing::Guest(guest) if guest.emulator == Emulator::Exact);
    is_exact && baseline.changed.is_empty()
}

/// A sentence on whether the stored figures are judged, and why.
fn judgement_note(report: &Report, baseline: &RecalledBaseline) -> String {
    if can_judge(report, baseline) {
        return format!(
            "Stored counts are judged, because everything that they depend on is the same: repeats means that they differ by \
             less than {} with 95% confidence.",
            percent(report.margin)
        );
    }
    let changed = match baseline.changed.as_slice() {
        [] => String::new(),
        changed => format!(" Changed since then: {}.", changed.join(", ")),
    };
    format!(
        "Stored figures are shown and not judged: machines drift. Every comparison of this run uses the figures that it \
         measured again.{changed}"
    )
}

/// The stored figures with those of the same variant in this run, without tasks and metrics that the run does not have.
fn compare_with_stored<'a>(report: &Report, baseline: &'a RecalledBaseline) -> Vec<ComparedFigure<'a>> {
    let record = &report.record;
    let Some(variant) = record.variant(&baseline.variant) else { return vec![] };
    let can_judge = can_judge(report, baseline);
    let mut compared = vec![];
    for stored in &baseline.figures {
        let stored_values: Vec<f64> = stored.values.iter().map(|(_, value)| *value).collect();
        let Some(stored_median) = median(&stored_values) else { continue };
        let (mut measured_median, mut ratio) = (None, None);
        if let Ok(MetricSeries { grid, .. }) = MetricSeries::of(record, &stored.metric)
            && let grid = grid.by_round()
            && let Some(task) = grid.tasks.iter().position(|task| task.id.to_string() == stored.task)
        {
            let values = &grid.values[task][variant];
            let here: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
            measured_median = median(&here);
            let of_round = |round: &u32| stored.values.iter().find(|(number, _)| number == round);
            let stored_by_round: Vec<f64> =
                grid.rounds.iter().map(|round| of_round(round).map_or(f64::NAN, |one| one.1)).collect();
            ratio = Ratio::of(log_ratios(&stored_by_round, values).d).filter(|_| can_judge);
        }
        compared.push(ComparedFigure { stored, stored_median, median: measured_median, ratio });
    }
    compared
}

/// The verdict on stored counts; empty if they are not judged.
fn verdict_name(one: &ComparedFigure, margin: f64) -> &'static str {
    match one.ratio {
        None => "",
        Some(ratio) if ratio.provisional => "provisional",
        Some(ratio) if ratio.low >= 1.0 / (1.0 + margin) && ratio.high <= 1.0 + margin => "repeats",
        Some(ratio) if ratio.is_significant() => "differs",
        Some(_) => "inconclusive",
    }
}

/// The baseline as JSON; null if the run recalled none.
pub fn baseline_json(report: &Report) -> Value {
    let Some(baseline) = &report.record.plan.baseline else { return Value::Null };
    let figure = |one: &ComparedFigure| {
        json!({
            "task": one.stored.task,
            "metric": one.stored.metric,
            "unit": one.stored.unit,
            "stored_median": one.stored_median,
            "median": one.median,
            "ratio": one.ratio.map(|ratio| json!({"value": ratio.value, "low": ratio.low, "high": ratio.high})),
            "finding": if one.ratio.is_some() { Some(verdict_name(one, report.margin)) } else { None },
        })
    };
    json!({
        "name": baseline.name,
        "variant": baseline.variant,
        "measured": baseline.measured_at,
        "changed": baseline.changed,
        "judged": can_judge(report, baseline),
        "figures": compare_with_stored(report, baseline).iter().map(figure).collect::<Vec<_>>(),
    })
}
