//! The page of a report. It holds the data that its script reads, samples and commands, as a JSON block.

use super::{Extras, render};
use crate::{
    error::Error, number::plural, report::Report, sections::Detail, sections::document, words::label,
};
use base64::{Engine, engine::general_purpose::STANDARD};
use fsarena_core::record::{MetricSpec, RunRecord};
use fsarena_core::{metric::METRICS, names::distinct};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Bytes of samples that a page may hold. A page of two million can still be sent by mail.
const BUDGET: usize = 1_250_000;
/// Bytes that a value takes at least, with its comma.
const LEAST: usize = 3;

/// The page of a report, with its samples, its commands and its plan.
///
/// # Errors
/// When a chart cannot be drawn.
pub fn page(report: &Report) -> Result<String, Error> {
    let from = format!("fsarena {} from run {}", report.record.version, report.record.id);
    let plan = Some(STANDARD.encode(&report.plan));
    let (data, samples) = block(report);
    render(&document(report, Detail::Charts), Extras { from, plan, data: data.into() }, &samples)
}

/// The block as JSON that can stand in a `script` element, and what the table of samples holds and does not, in words.
fn block(report: &Report) -> (String, String) {
    let record = &report.record;
    let (columns, left_out) = columns(report);
    let told = !columns.is_empty() || !report.commands.texts.is_empty();
    let cells = record.cells.iter().filter(|_| told);
    let cells: Vec<Value> = cells.map(|cell| json!([cell.round, cell.position, cell.variant])).collect();
    let metric = |Column { info, .. }: &Column| json!({"name": info.unit.named(&info.id), "help": info.help});
    let head = json!({
        "tasks": record.tasks.iter().map(label).collect::<Vec<_>>(),
        "variants": record.names(),
        "cells": cells,
        "metrics": columns.iter().map(metric).collect::<Vec<_>>(),
        "texts": report.commands.texts,
        "log": report.commands.by_cell(record),
        "remark": "The commands of this cell are not in this file; command.log of the run has all of them.",
    });
    let values: Vec<String> = columns.into_iter().map(|column| column.json).collect();
    // The values are JSON already, and by far the most of it.
    let json = head.to_string();
    let json = format!("{},\"values\":[{}]}}", &json[..json.len() - 1], values.join(","));
    (in_script(&json), words(record, values.len(), left_out, report.commands.left_out))
}

/// One metric of all samples.
struct Column {
    info: MetricSpec,
    /// `[cell][task]`, as JSON.
    json: String,
}

/// As many metrics as fit, those of the report first, and how many do not.
fn columns(report: &Report) -> (Vec<Column>, usize) {
    let record = &report.record;
    let asked = report.analyses.iter().map(|analysis| analysis.metric.id.as_str());
    let others =
        METRICS.iter().map(|def| def.spec.id).chain(record.readings.iter().map(|info| info.id.as_str()));
    let (mut kept, mut left_out, mut bytes) = (vec![], 0, 0);
    for id in distinct(asked.chain(others)) {
        // Many samples need no look at their values.
        if bytes + record.samples.len() * LEAST > BUDGET {
            left_out += 1;
            continue;
        }
        let Some((info, values)) = record.metric(id) else { continue };
        let known = kept.iter().any(|column: &Column| column.info.id == info.id);
        if known || values.iter().all(|value| value.is_nan()) {
            continue;
        }
        let json = by_cell(record, &values);
        if bytes + json.len() > BUDGET {
            left_out += 1;
            continue;
        }
        bytes += json.len();
        kept.push(Column { info, json });
    }
    (kept, left_out)
}

/// `[cell][task]`; a task that occurs twice in a cell counts with its mean, as everywhere.
fn by_cell(record: &RunRecord, values: &[f64]) -> String {
    let mut cells: Vec<BTreeMap<u32, (f64, f64)>> = vec![BTreeMap::new(); record.cells.len()];
    for (row, value) in values.iter().enumerate().filter(|(_, value)| !value.is_nan()) {
        let cell = &mut cells[record.samples.cell[row] as usize];
        let (sum, count) = cell.entry(record.samples.task[row]).or_default();
        (*sum, *count) = (*sum + value, *count + 1.0);
    }
    let tasks = |cell: &BTreeMap<u32, (f64, f64)>| {
        let mean = |task| cell.get(&task).map_or(f64::NAN, |(sum, count)| sum / count);
        let tasks = 0..cell.last_key_value().map_or(0, |(last, _)| last + 1);
        format!("[{}]", tasks.map(|task| number(mean(task))).collect::<Vec<_>>().join(","))
    };
    format!("[{}]", cells.iter().map(tasks).collect::<Vec<_>>().join(","))
}

/// Five significant digits, in the shorter of the two ways to write them.
fn number(value: f64) -> String {
    if !value.is_finite() {
        return "null".into();
    }
    let rounded: f64 = format!("{value:.4e}").parse().unwrap_or(value);
    let (plain, power) = (rounded.to_string(), format!("{rounded:e}"));
    if plain.len() <= power.len() { plain } else { power }
}

/// JSON that no HTML parser finds an end of its element in.
fn in_script(json: &str) -> String {
    let escaped = |json: String, c: char| json.replace(c, &format!("\\u{:04x}", u32::from(c)));
    ['<', '>', '&', '\u{2028}', '\u{2029}'].into_iter().fold(json.into(), escaped)
}

fn words(record: &RunRecord, kept: usize, left_out: usize, commands: u64) -> String {
    let samples = plural(record.samples.len(), "sample");
    let csv = format!("`fsarena report {} --format csv`", record.id);
    let rest = match (kept, left_out) {
        (0, _) => {
            return format!("The {samples} of this run are too many for a page; {csv} prints them all.");
        }
        (_, 0) => String::new(),
        (_, left_out) => format!(" {} more would not fit; {csv} has them.", plural(left_out, "metric")),
    };
    let log = match commands {
        0 => String::new(),
        commands => format!(" {} are in the run's command.log only.", plural(commands as usize, "command")),
    };
    format!(
        "{samples}, one row a task of a variant in a round, with {}, to five significant digits. The button of a row, or a \
         figure in the tables below, shows the commands behind it.{rest}{log}",
        plural(kept, "metric")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_ends_the_element() {
        let safe = in_script("{\"a\":\"</script><!--&\u{2028}\"}");
        assert!(
            !safe.contains('<') && !safe.contains('>') && !safe.contains('&') && !safe.contains('\u{2028}')
        );
        let read: Value = serde_json::from_str(&safe).unwrap();
        assert_eq!(read["a"], "</script><!--&\u{2028}");
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!(
            [0.273_149_9, 1.0, 0.000_012_345_6, 123_456_789.0].map(number),
            ["0.27315", "1", "1.2346e-5", "1.2346e8"]
        );
        assert_eq!(number(f64::INFINITY), "null");
    }
}
