//! The HTML page of a report. The page contains its samples and commands as a block of JSON, which its script reads.

use crate::html::{PageExtras, render_page};
use crate::{advice, document::Detail, error::Error, number::plural};
use crate::{phrases::task_label, report::Report, sections::report_document};
use base64::{Engine, engine::general_purpose::STANDARD};
use fsarena_core::record::{MetricSpec, RunRecord};
use fsarena_core::{metric::METRICS, names::distinct};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The samples in a page take at most this many bytes, so that the page stays below two million and can be sent by mail.
const MAX_SAMPLES_BYTES: usize = 1_250_000;
/// The smallest number of bytes of a value, with its comma.
const MIN_VALUE_BYTES: usize = 3;

/// Renders the page of a report, with its samples, its commands and its plan.
///
/// # Errors
/// If a template fails.
pub fn render_report_page(report: &Report) -> Result<String, Error> {
    let generator = format!("fsarena {} from run {}", report.record.version, report.record.id);
    let plan = Some(STANDARD.encode(&report.plan_toml));
    let (data, samples_caption) = data_block(report);
    let extras = PageExtras { generator, plan, data: data.into() };
    render_page(&report_document(report, Detail::Charts), extras, &samples_caption)
}

/// The JSON for the `script` element of the page, and the caption of the table of samples, which states what is left out.
fn data_block(report: &Report) -> (String, String) {
    let record = &report.record;
    let (columns, left_out) = fitting_columns(report, MAX_SAMPLES_BYTES);
    let mut cells: Vec<Value> = vec![];
    if !columns.is_empty() || !report.commands.texts.is_empty() {
        cells.extend(record.cells.iter().map(|cell| json!([cell.round, cell.position, cell.variant])));
    }
    let metric_json =
        |MetricColumn { spec, .. }: &MetricColumn| json!({"name": spec.unit.with_suffix(&spec.id), "help": spec.help});
    let fields = json!({
        "tasks": record.tasks.iter().map(task_label).collect::<Vec<_>>(),
        "variants": record.variant_names(),
        "cells": cells,
        "metrics": columns.iter().map(metric_json).collect::<Vec<_>>(),
        "texts": report.commands.texts,
        "log": report.commands.by_cell(record),
        "remark": "The commands of this cell are not in this file; command.log of the run has all of them.",
    });
    let values: Vec<String> = columns.into_iter().map(|column| column.json).collect();
    // The values are most of the block and already JSON: appending them as text avoids parsing them.
    let fields = fields.to_string();
    let json = format!("{},\"values\":[{}]}}", &fields[..fields.len() - 1], values.join(","));
    (escape_for_script(&json), samples_caption(record, values.len(), left_out, report.commands.left_out_count))
}

/// The values of one metric.
struct MetricColumn {
    spec: MetricSpec,
    /// The values as a JSON array by cell and then by task.
    json: String,
}

/// The metrics that fit into `max_bytes`, those of the report first, and the number of the other metrics that have values. No
/// metric fits if the samples are too many.
fn fitting_columns(report: &Report, max_bytes: usize) -> (Vec<MetricColumn>, usize) {
    let record = &report.record;
    let report_metrics = report.analyses.iter().map(|analysis| analysis.metric.id.as_str());
    let other_metrics = METRICS.iter().map(|def| def.spec.id);
    let readings = record.readings.iter().map(|reading| reading.id.as_str());
    let (mut columns, mut left_out, mut bytes) = (vec![], 0, 0);
    let smallest_column_bytes = record.samples.len() * MIN_VALUE_BYTES;
    if smallest_column_bytes > max_bytes {
        return (columns, left_out);
    }
    for id in distinct(report_metrics.chain(other_metrics).chain(readings)) {
        let Some((spec, values)) = record.metric(id) else { continue };
        // Ids with and without a unit can name the same metric.
        let is_repeated = columns.iter().any(|column: &MetricColumn| column.spec.id == spec.id);
        if is_repeated || values.iter().all(|value| value.is_nan()) {
            continue;
        }
        // Too many samples do not fit, whatever their values.
        let may_fit = bytes + smallest_column_bytes <= max_bytes;
        let json = may_fit.then(|| values_json(record, &values)).filter(|json| bytes + json.len() <= max_bytes);
        let Some(json) = json else {
            left_out += 1;
            continue;
        };
        bytes += json.len();
        columns.push(MetricColumn { spec, json });
    }
    (columns, left_out)
}

/// The values as a JSON array by cell and then by task; null for a task without a value. For a task that occurs several times in
/// a cell the array has the mean, which all analyses use too.
fn values_json(record: &RunRecord, values: &[f64]) -> String {
    // For each cell, the sum and the number of values by task.
    let mut cells: Vec<BTreeMap<u32, (f64, f64)>> = vec![BTreeMap::new(); record.cells.len()];
    for (row, value) in values.iter().enumerate().filter(|(_, value)| !value.is_nan()) {
        let cell = &mut cells[record.samples.cell[row] as usize];
        let (sum, count) = cell.entry(record.samples.task[row]).or_default();
        *sum += value;
        *count += 1.0;
    }
    let task_means = |cell: &BTreeMap<u32, (f64, f64)>| {
        let mean = |task| cell.get(&task).map_or(f64::NAN, |(sum, count)| sum / count);
        let tasks = 0..cell.last_key_value().map_or(0, |(last, _)| last + 1);
        format!("[{}]", tasks.map(|task| json_number(mean(task))).collect::<Vec<_>>().join(","))
    };
    format!("[{}]", cells.iter().map(task_means).collect::<Vec<_>>().join(","))
}

/// A number in five significant digits, as a decimal or with an exponent, whichever is shorter; null if it is not finite.
fn json_number(value: f64) -> String {
    if !value.is_finite() {
        return "null".into();
    }
    let rounded: f64 = format!("{value:.4e}").parse().unwrap_or(value);
    let (decimal, with_exponent) = (rounded.to_string(), format!("{rounded:e}"));
    if decimal.len() <= with_exponent.len() { decimal } else { with_exponent }
}

/// Escapes JSON for a `script` element, so that no text in it can end the element.
fn escape_for_script(json: &str) -> String {
    let mut escaped = json.to_string();
    for c in ['<', '>', '&', '\u{2028}', '\u{2029}'] {
        escaped = escaped.replace(c, &format!("\\u{:04x}", u32::from(c)));
    }
    escaped
}

/// The caption of the table of samples, with the numbers of metrics shown, and of metrics and commands that are left out.
fn samples_caption(record: &RunRecord, metrics: usize, metrics_left_out: usize, commands_left_out: u64) -> String {
    let samples = plural(record.samples.len(), "sample");
    let csv = advice::samples_command(&record.id);
    let metrics_note = match (metrics, metrics_left_out) {
        _ if record.samples.is_empty() => return "This run has no samples.".into(),
        (0, _) => {
            return format!("The {samples} of this run are too many for a page; {csv} prints them all.");
        }
        (_, 0) => String::new(),
        (_, left_out) => format!(" {} more would not fit; {csv} has them.", plural(left_out, "metric")),
    };
    let commands_note = match commands_left_out {
        0 => String::new(),
        commands => format!(" {} are in the run's command.log only.", plural(commands as usize, "command")),
    };
    format!(
        "{samples}, one row a task of a variant in a round, with {}, to five significant digits. The button of a row, or a \
         figure in the tables below, shows the commands behind it.{metrics_note}{commands_note}",
        plural(metrics, "metric")
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsarena_core::record::CellRecord;
    use fsarena_core::sample::{Direction, Unit};

    #[test]
    fn escaped_json_cannot_end_the_script_element() {
        let escaped = escape_for_script("{\"a\":\"</script><!--&\u{2028}\"}");
        assert!(!escaped.contains(['<', '>', '&', '\u{2028}']));
        let parsed: Value = serde_json::from_str(&escaped).unwrap();
        assert_eq!(parsed["a"], "</script><!--&\u{2028}");
    }

    #[test]
    fn metrics_without_values_do_not_count_as_left_out() {
        const ROUNDS: u32 = 10;
        let mut report = Report::default();
        let record = &mut report.record;
        for round in 0..ROUNDS {
            record.cells.push(CellRecord::done(round, 0));
            record.samples.cell.push(round);
            record.samples.task.push(0);
            record.samples.started_at.push(0.0);
        }
        for (id, value) in [("a_count", 1234.0), ("b_count", 1234.0), ("c_count", f64::NAN)] {
            record.readings.push(MetricSpec::new(id.into(), Unit::Count, Direction::Neutral, String::new()));
            record.samples.values.push(vec![value; ROUNDS as usize]);
        }
        let columns_and_left_out = |max_bytes| {
            let (columns, left_out) = fitting_columns(&report, max_bytes);
            (columns.len(), left_out)
        };
        // A column has 71 bytes: ten values of four digits in brackets, nine commas, and two brackets.
        assert_eq!([142, 100, 20].map(columns_and_left_out), [(2, 0), (1, 1), (0, 0)]);
        assert_eq!(samples_caption(&RunRecord::default(), 0, 0, 0), "This run has no samples.");
    }

    #[test]
    fn numbers_have_five_digits_in_the_shorter_form() {
        assert_eq!(
            [0.273_149_9, 1.0, 0.000_012_345_6, 123_456_789.0].map(json_number),
            ["0.27315", "1", "1.2346e-5", "1.2346e8"]
        );
        assert_eq!(json_number(f64::INFINITY), "null");
    }
}
