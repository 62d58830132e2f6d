//! The section with the stored figures of a baseline beside those of its variant in this run.

use crate::document::{Cell, Detail, Document, Table, row};
use crate::number::{percent, signed_percent, with_unit};
use crate::report::Report;
use fsarena_core::observations::MetricSeries;
use fsarena_core::plan::{RecalledBaseline, StoredFigures};
use fsarena_stats::comparison::median;
use fsarena_stats::ratio::{Estimate, Ratio, log_ratios};
use serde_json::{Value, json};

/// The stored figures of one task beside those of this run.
struct ComparedFigure<'a> {
    stored: &'a StoredFigures,
    /// The median of the stored values.
    stored_median: f64,
    /// The median of the values in this run; `None` if it has none.
    measured_median: Option<f64>,
    /// The ratio of this run to the stored values over the rounds that both have; `None` unless [`can_judge`].
    ratio: Option<Ratio>,
}

/// Adds a table of the stored figures and those of this run.
pub fn add_baseline(document: &mut Document, report: &Report, _: Detail) {
    let Some(baseline) = &report.record.plan.baseline else { return };
    document.heading(
        3,
        format!(
            "The baseline {}, measured on {} and measured again in this run",
            baseline.name,
            date_of_time(&baseline.measured_at)
        ),
    );
    let compared = compare_with_stored(report, baseline);
    let row = |figure: &ComparedFigure| {
        let ComparedFigure { stored, stored_median, measured_median, .. } = figure;
        let format = |value: f64| with_unit(value, stored.unit);
        let measured = measured_median.map_or("–".into(), format);
        row![
            format!("{} {}", stored.task, stored.metric),
            format(*stored_median),
            measured,
            Cell::two_lines(describe_change(*stored_median, *measured_median), verdict_name(figure, report.margin))
        ]
    };
    let header = ["task and metric", "stored", "again, here", "change"];
    document.table(Table::of_figures(header).with_rows(compared.iter().map(row)));
    document.text(judgement_note(report, baseline));
}

/// The change of a median from the stored one: `+7.5%`. Empty without a new median, and if the stored one is zero.
fn describe_change(stored: f64, measured: Option<f64>) -> String {
    match measured {
        Some(measured) if stored != 0.0 => signed_percent(measured / stored - 1.0, &[]),
        _ => String::new(),
    }
}

/// The day of a time in RFC 3339.
fn date_of_time(time: &str) -> &str {
    time.split('T').next().unwrap_or(time)
}

/// Whether stored figures may be judged: the cells run in a guest that counts instructions instead of time, and nothing
/// that the counts depend on has changed since ([`RecalledBaseline::changed`]).
fn can_judge(report: &Report, baseline: &RecalledBaseline) -> bool {
    report.record.plan.device.backing.counts_instructions() && baseline.changed.is_empty()
}

/// A sentence on whether the stored figures are judged, and why.
fn judgement_note(report: &Report, baseline: &RecalledBaseline) -> String {
    if can_judge(report, baseline) {
        return format!(
            "Stored counts are judged, because everything that they depend on is the same. \"repeats\" means that they \
             differ by less than {} with 95% confidence.",
            percent(report.margin)
        );
    }
    let why = if report.record.plan.device.backing.counts_instructions() {
        "what the counts depend on has changed"
    } else {
        "machines drift"
    };
    let changed = match baseline.changed.as_slice() {
        [] => String::new(),
        changed => format!(" Changed since then: {}.", changed.join(", ")),
    };
    format!(
        "Stored figures are shown and not judged: {why}. Every comparison of this run uses the figures that it \
         measured again.{changed}"
    )
}

/// The stored figures with those of the same variant in this run, without tasks and metrics that the run does not have.
fn compare_with_stored<'a>(report: &Report, baseline: &'a RecalledBaseline) -> Vec<ComparedFigure<'a>> {
    let record = &report.record;
    let Some(variant) = record.variant_index(&baseline.variant) else { return vec![] };
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
            let measured: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
            measured_median = median(&measured);
            let stored_value = |round: &u32| {
                let with_round = stored.values.iter().find(|(stored_round, _)| stored_round == round);
                with_round.map_or(f64::NAN, |(_, value)| *value)
            };
            let stored_by_round: Vec<f64> = grid.rounds.iter().map(stored_value).collect();
            let log_ratios_by_round = log_ratios(&stored_by_round, values).d;
            ratio = Ratio::from_log_ratios(log_ratios_by_round).filter(|_| can_judge);
        }
        compared.push(ComparedFigure { stored, stored_median, measured_median, ratio });
    }
    compared
}

/// The verdict on stored counts in a word; empty if they are not judged.
fn verdict_name(figure: &ComparedFigure, margin: f64) -> &'static str {
    match figure.ratio {
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
    let figure_json = |figure: &ComparedFigure| {
        json!({
            "task": figure.stored.task,
            "metric": figure.stored.metric,
            "unit": figure.stored.unit,
            "stored_median": figure.stored_median,
            "median": figure.measured_median,
            "ratio": figure.ratio.map(Estimate::from),
            "finding": figure.ratio.is_some().then(|| verdict_name(figure, report.margin)),
        })
    };
    json!({
        "name": baseline.name,
        "variant": baseline.variant,
        "measured": baseline.measured_at,
        "changed": baseline.changed,
        "judged": can_judge(report, baseline),
        "figures": compare_with_stored(report, baseline).iter().map(figure_json).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_from_zero_has_no_percentage() {
        assert_eq!(describe_change(2.0, Some(2.5)), "+25%");
        assert_eq!([describe_change(0.0, Some(0.0)), describe_change(0.0, Some(3.0))], ["", ""]);
        assert_eq!(describe_change(2.0, None), "");
    }
}
