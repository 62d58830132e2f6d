//! The section with the tails of the latencies: the percentiles of all rounds together, which are not used for comparisons.

use crate::document::{Cell, Detail, Document, FigureSource, Table, labelled_row, row_with_source};
use crate::{number::with_unit, phrases::task_label, report::Report};
use fsarena_core::{latency::LatencyHistogram, sample::Unit};
use serde_json::{Value, json};

/// The columns of percentiles: the share of requests that are at most as slow, the heading, and the name in JSON.
const PERCENTILES: [(f64, &str, &str); 5] = [
    (0.5, "50%", "p50_ns"),
    (0.9, "90%", "p90_ns"),
    (0.99, "99%", "p99_ns"),
    (0.999, "99.9%", "p999_ns"),
    (0.9999, "99.99%", "p9999_ns"),
];
/// The largest number of rows in a report. JSON has all.
const MAX_ROWS: usize = 48;

/// Adds a table of percentiles by task and variant; nothing without latencies.
pub fn add_tails(document: &mut Document, report: &Report, _: Detail) {
    let latencies = &report.record.latencies;
    if latencies.is_empty() {
        return;
    }
    let header = ["task and variant", "requests"]
        .into_iter()
        .chain(PERCENTILES.map(|(_, heading, _)| heading))
        .chain(["longest"]);
    let rows = latencies.iter().take(MAX_ROWS).map(|((task, variant), latencies)| {
        let name = format!("{}: {}", task_label(&report.record.tasks[*task]), report.record.variant_name(*variant));
        let longest = latencies.quantile(1.0).map_or(String::new(), format_ns);
        let quantiles = PERCENTILES.iter().map(|(share, ..)| format_quantile(latencies, *share));
        let figures = std::iter::once(latencies.count().to_string()).chain(quantiles).chain([longest]);
        let row = labelled_row(name, figures.map(Cell::from));
        row_with_source(FigureSource::new(Some(*task), [*variant]), row)
    });
    document.heading(3, "Latency of all rounds together");
    let hidden_note = match latencies.len().saturating_sub(MAX_ROWS) {
        0 => String::new(),
        count => format!(" {count} more rows are in the JSON report."),
    };
    document.text(format!(
        "Each figure is of all requests of all rounds, to the nearest percent; — where fewer than ten requests lie beyond \
         it. These are shown, not compared: comparisons take the percentile of each round.{hidden_note}"
    ));
    document.table(Table::of_figures(header).with_rows(rows));
}

/// Formats a time in nanoseconds with a suitable unit.
fn format_ns(ns: u64) -> String {
    with_unit(ns as f64, Unit::Nanoseconds)
}

/// Formats the latency that this share of the requests does not exceed; `—` if fewer than ten requests exceed it.
fn format_quantile(latencies: &LatencyHistogram, share: f64) -> String {
    match latencies.quantile(share) {
        Some(ns) if is_reliable(latencies, share) => format_ns(ns),
        _ => "—".into(),
    }
}

/// Whether at least ten requests lie beyond a quantile, given by the share of the requests below it.
fn is_reliable(latencies: &LatencyHistogram, share: f64) -> bool {
    latencies.count() as f64 * (1.0 - share) >= 10.0 - 1e-6
}

/// The latencies of all rounds together, as JSON.
pub fn tails_json(report: &Report) -> Value {
    let record = &report.record;
    let tail_json = |((task, variant), latencies): (&(usize, usize), &LatencyHistogram)| {
        let mut value = json!({
            "task": record.tasks[*task].id.to_string(),
            "variant": record.variant_name(*variant),
            "requests_count": latencies.count(),
            "longest_ns": latencies.quantile(1.0),
        });
        for (share, _, json_name) in PERCENTILES.iter().filter(|(share, ..)| is_reliable(latencies, *share)) {
            value[*json_name] = json!(latencies.quantile(*share));
        }
        value
    };
    record.latencies.iter().map(tail_json).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_requires_ten_requests_beyond_it() {
        let latencies = LatencyHistogram::new([(100, 990), (200, 10)]);
        assert_eq!([0.5, 0.99, 0.999].map(|share| format_quantile(&latencies, share)), ["0.100 µs", "0.100 µs", "—"]);
    }
}
