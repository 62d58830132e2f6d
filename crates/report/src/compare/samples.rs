//! The comparison of two files of samples, which any tool may have measured.

use super::answer::{ComparedRatio, RatioSummary, count_and_list, join_first};
use crate::document::{Cell, Table, row};
use crate::import::{Distinctions, LeftOut, Samples, Series};
use crate::number::{percent, plural, three_digits};
use crate::ratio_verdict::{RatioVerdict, ratio_cell};
use crate::{error::Error, page::ComparisonReport};
use fsarena_core::names::{distinct, nearest, unknown_name};
use fsarena_core::{sample::Unit, setting_text::setting};
use fsarena_stats::ratio::{Ratio, independent_ratio, log_ratios};
use fsarena_stats::{comparison::median, sequential::Centre};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// A row of the comparison: a series of A and the matching series of B.
struct SampleRow<'a> {
    a: &'a Series,
    b: &'a Series,
    /// The names of both series, which distinguish this row from the others.
    names: [String; 2],
    /// Whether the values are paired by round.
    is_paired: bool,
    /// B over A.
    ratio: Option<Ratio>,
    verdict: RatioVerdict,
}

/// Compares the series that both files measured under equal conditions by their ratio b/a, paired by round if both have
/// rounds. With `metric` it compares that metric; without, all metrics, but only `elapsed` if both files are CSV and have
/// it. `margin` is the smallest difference that matters, as a fraction.
///
/// # Errors
/// If no series of the metric is in both files.
pub fn compare_samples(a: &Samples, b: &Samples, metric: Option<&str>, margin: f64) -> Result<ComparisonReport, Error> {
    let is_selected = |series: &Series| metric.is_none_or(|metric| has_metric_name(series, metric));
    let distinctions = Distinctions::among(&a.series).union(Distinctions::among(&b.series));
    let mut common = matching_series(a, b, &distinctions);
    common.retain(|(series, _)| is_selected(series));
    let both_csv = a.format == "csv" && b.format == "csv";
    if metric.is_none() && both_csv && common.iter().any(|(series, _)| series.metric == "elapsed") {
        common.retain(|(series, _)| series.metric == "elapsed");
    }
    let rows: Vec<SampleRow> =
        common.into_iter().map(|(a, b)| SampleRow::compare(a, b, &distinctions, margin)).collect();
    // Report a metric as unknown only if a similar name exists, because then the user mistyped it. Otherwise the other file may
    // have the metric, and the error below states that only one file has it.
    let metrics = || a.series.iter().map(|series| series.metric.as_str());
    if let Some(metric) = metric
        && !a.series.iter().any(is_selected)
        && nearest(metric, metrics()).is_some()
    {
        return Err(unknown_name("metric", metric, metrics()).with_place(format!("in {}", a.origin)).into());
    }
    if rows.is_empty() {
        return Err(Error::nothing_in_common(&a.origin, &b.origin, "benchmark and metric"));
    }
    Ok(comparison_report(a, b, &rows, margin))
}

/// Whether a series has the metric of this name, with or without its unit: `tps` is also found as `tps_per_s`.
fn has_metric_name(series: &Series, metric: &str) -> bool {
    let unit = metric.strip_prefix(series.metric.as_str()).and_then(|rest| rest.strip_prefix('_'));
    let unit = unit.and_then(Unit::from_suffix);
    metric == series.metric || unit.is_some_and(|unit| unit.symbol() == series.unit)
}

/// Pairs the series of both files that have the same subject, metric, unit and conditions; of the conditions, only those that
/// vary within a file must agree. The subject of a series is what was measured, without the conditions. If no subject is in
/// both and each file has only one, the two are paired by metric and unit alone: `cp on ext4` with `cp on xfs`.
fn matching_series<'a>(a: &'a Samples, b: &'a Samples, distinctions: &Distinctions) -> Vec<(&'a Series, &'a Series)> {
    let same_subject = pair_by(a, b, |series| {
        (series.subject.as_str(), distinctions.values(series), series.metric.as_str(), series.unit.as_str())
    });
    let has_one_name = |samples: &Samples| samples.series.iter().all(|series| series.name == samples.series[0].name);
    if same_subject.is_empty() && has_one_name(a) && has_one_name(b) {
        return pair_by(a, b, |series| (series.metric.as_str(), series.unit.as_str()));
    }
    same_subject
}

/// Pairs each series of `a` with the first series of `b` that has the same key.
fn pair_by<'a, K: Ord>(a: &'a Samples, b: &'a Samples, key: impl Fn(&'a Series) -> K) -> Vec<(&'a Series, &'a Series)> {
    // In reverse order, so that the first of several series with the same key replaces the later ones.
    let series_of_b: BTreeMap<K, &Series> = b.series.iter().rev().map(|series| (key(series), series)).collect();
    a.series.iter().filter_map(|series| Some((series, *series_of_b.get(&key(series))?))).collect()
}

impl<'a> SampleRow<'a> {
    /// Compares two series, paired by round if both have rounds.
    fn compare(a: &'a Series, b: &'a Series, distinctions: &Distinctions, margin: f64) -> SampleRow<'a> {
        let names = [a, b].map(|series| distinctions.series_name(series));
        let (Some(rounds_a), Some(rounds_b)) = (&a.rounds, &b.rounds) else {
            let ratio = independent_ratio(&a.values, &b.values);
            let verdict = RatioVerdict::of_samples(ratio, margin);
            return SampleRow { a, b, names, is_paired: false, ratio, verdict };
        };
        let (values_a, values_b): (Vec<f64>, Vec<f64>) =
            rounds_a.iter().filter_map(|(round, value)| Some((*value, *rounds_b.get(round)?))).unzip();
        let differences = log_ratios(&values_a, &values_b).d;
        let interval_90 = Centre::from_log_ratios(&differences).map(|centre| centre.interval_90);
        let ratio = Ratio::from_log_ratios(differences);
        let verdict = RatioVerdict::of_paired_rounds(ratio, interval_90, margin);
        SampleRow { a, b, names, is_paired: true, ratio, verdict }
    }

    /// The names and the metric of the row: `cp elapsed`, or `cp on ext4 → cp on xfs elapsed`.
    fn label(&self) -> String {
        let [a, b] = self.names.each_ref().map(String::as_str);
        let [arrow, b] = if a == b { [""; 2] } else { ["→", b] };
        let parts = [a, arrow, b, &self.a.metric].into_iter().filter(|part| !part.is_empty());
        parts.collect::<Vec<_>>().join(" ")
    }
}

/// The report on these rows.
fn comparison_report(a: &Samples, b: &Samples, rows: &[SampleRow], margin: f64) -> ComparisonReport {
    let (ratios, names) = (compared_ratios(rows), ["B compared with A".to_string()]);
    let summary =
        RatioSummary { ratios: &ratios, comparisons: &names, margin: Some(margin), terms: ["better", "worse"] };
    let mut report = ComparisonReport {
        title: format!("{} (B) compared with {} (A)", b.origin, a.origin),
        facts: vec![
            format!("A: {} ({})", a.origin, a.format),
            format!("B: {} ({})", b.origin, b.format),
            format!("equivalent within {}", percent(margin)),
        ],
        chart: summary.chart("B over A, ratios with 95% intervals".into(), "B over A".into()),
        json: comparison_json(a, b, rows, margin),
        ..ComparisonReport::default()
    };
    let unpaired_count = rows.iter().filter(|row| !row.is_paired).count();
    if unpaired_count > 0 {
        report.answer.warning(unpaired_warning(unpaired_count, rows.len()));
    }
    let mut sentences = summary.sentences();
    for (letter, samples) in [("A", a), ("B", b)] {
        sentences.extend(LeftOut::describe_all(&samples.left_out).map(|list| format!("Left out of {letter}: {list}.")));
    }
    sentences.extend(differing_conditions_sentence(rows));
    sentences.extend(not_compared_sentences(a, rows.iter().map(|row| row.a), "A"));
    sentences.extend(not_compared_sentences(b, rows.iter().map(|row| row.b), "B"));
    report.add_answer(sentences);
    let table = Table::of_figures(["what", "A", "B", "B/A", "n", "verdict"]);
    report.data.table(table.with_rows(rows.iter().map(|row| table_cells(row, margin))));
    let has_few_values = rows.iter().any(|row| row.ratio.is_some_and(|ratio| ratio.provisional));
    let few_values_note =
        if has_few_values { "; with too few values for an interval, the smallest and the largest ratio" } else { "" };
    report.data.text(format!(
        "A and B are medians. B/A is the Hodges–Lehmann ratio. If both files have rounds, it is computed from the pairs of \
         each round; otherwise from two independent samples. Below it is the 95% interval, not corrected for the number \
         of rows{few_values_note}."
    ));
    let paired = format!("{} of {}", rows.len() - unpaired_count, plural(rows.len(), "row"));
    let facts = [
        ("A", describe_file(a)),
        ("B", describe_file(b)),
        ("paired by round", paired),
        ("machine, kernel", "unknown for files of samples".to_string()),
    ];
    report.method.table(Table::of_pairs(["", "what"], facts));
    report
}

/// The origin, format and size of a file of samples.
fn describe_file(Samples { origin, format, series, .. }: &Samples) -> String {
    let values = plural(series.iter().map(|series| series.values.len()).sum(), "value");
    format!("{origin}, read as {format}: {} series, {values}", series.len())
}

/// The ratios of all rows, for the answer and its chart.
fn compared_ratios(rows: &[SampleRow]) -> Vec<ComparedRatio> {
    let has_several_metrics = rows.iter().any(|row| row.a.metric != rows[0].a.metric);
    let compared_ratio = |row: &SampleRow| {
        let ratio = row.ratio.map(Into::into);
        // Each metric has its own panel.
        let variant = if has_several_metrics { row.a.metric.clone() } else { String::new() };
        ComparedRatio { variant, ..ComparedRatio::new(&row.label(), ratio, row.verdict, row.a.direction) }
    };
    rows.iter().map(compared_ratio).collect()
}

/// Sentences that name the series of one file, A or B, that are not in `compared`: the other file lacks them, or the user chose
/// other metrics.
fn not_compared_sentences<'a>(
    samples: &'a Samples,
    compared: impl Iterator<Item = &'a Series>,
    letter: &str,
) -> Vec<String> {
    let key = |series: &'a Series| (series.name.as_str(), series.metric.as_str());
    let compared: BTreeSet<_> = compared.map(key).collect();
    let compared_metrics: BTreeSet<&str> = compared.iter().map(|(_, metric)| *metric).collect();
    let mut names = vec![];
    let mut metrics = vec![];
    for (name, metric) in samples.series.iter().map(key).filter(|key| !compared.contains(key)) {
        if compared_metrics.contains(metric) {
            names.push(name);
        } else {
            metrics.push(metric);
        }
    }
    let metrics = distinct(metrics);
    let mut sentences = vec![];
    if !names.is_empty() {
        sentences.push(format!("Not compared, only {letter} has values: {}.", count_and_list(&names, "row")));
    }
    if !metrics.is_empty() {
        let (count, named) = (plural(metrics.len(), "other metric"), join_first(&metrics, ", "));
        sentences.push(format!(
            "Not compared: {count} of {letter} ({named}); select one that both have ({}).",
            setting("metric", "")
        ));
    }
    sentences
}

/// A sentence that names the conditions whose values differ between the compared series of A and B, because the user compares
/// them or by mistake. `None` if all conditions agree.
fn differing_conditions_sentence(rows: &[SampleRow]) -> Option<String> {
    // The pairs of values of each condition that differs.
    let mut value_pairs = BTreeMap::new();
    for SampleRow { a, b, .. } in rows {
        let names = a.conditions.iter().chain(b.conditions.iter()).map(|(name, _)| name);
        for name in names.filter(|name| a.conditions.get(name) != b.conditions.get(name)) {
            let value = |series: &Series| series.conditions.get(name).unwrap_or("not stated").to_string();
            value_pairs.entry(name.to_string()).or_insert_with(BTreeSet::new).insert((value(a), value(b)));
        }
    }
    let describe = |(name, values): (&String, &BTreeSet<(String, String)>)| match values.first() {
        Some((a, b)) if values.len() == 1 => format!("{name} (A: {a}, B: {b})"),
        _ => name.clone(),
    };
    let conditions: Vec<String> = value_pairs.iter().map(describe).collect();
    (!conditions.is_empty()).then(|| format!("The conditions differ: {}.", join_first(&conditions, ", ")))
}

/// The warning that a comparison of unpaired samples is less certain. The rates come from docs/internals/statistics.md.
fn unpaired_warning(unpaired_count: usize, row_count: usize) -> String {
    let affected_rows =
        if unpaired_count == row_count { String::new() } else { format!(" ({unpaired_count} of {row_count} rows)") };
    format!(
        "UNPAIRED{affected_rows}: the files have no rounds that show which values were measured together. These ratios include whatever \
         changed on the machine between the two files. On a machine that drifts, with 1% noise, such a \
         comparison of 10 with 10 identical runs finds a difference in one of five; paired by rounds in random \
         order, in one of twenty. And influences common to both files do not cancel out, so the intervals are wider."
    )
}

/// The cells of the table for a row: label, medians, ratio, number of values, verdict.
fn table_cells(row: &SampleRow, margin: f64) -> Vec<Cell> {
    let median_cell = |series: &Series| {
        let median = median(&series.values).map_or("–".to_string(), three_digits);
        Cell::from(format!("{median} {}", series.unit).trim_end())
    };
    let value_count = match row.ratio {
        Some(ratio) if row.is_paired => plural(ratio.rounds, "pair"),
        _ => format!("{}+{}", row.a.values.len(), row.b.values.len()),
    };
    let ratio = row.ratio.map_or(Cell::two_lines("–", "–"), |ratio| ratio_cell(ratio, ""));
    let verdict = row.verdict.describe(row.ratio, row.a.direction, margin);
    row![row.label(), median_cell(row.a), median_cell(row.b), ratio, value_count, verdict]
}

fn comparison_json(a: &Samples, b: &Samples, rows: &[SampleRow], margin: f64) -> Value {
    let file = |samples: &Samples| {
        let left_out: Vec<String> = samples.left_out.iter().map(ToString::to_string).collect();
        json!({"file": samples.origin, "format": samples.format, "left_out": left_out})
    };
    let row = |row: &SampleRow| {
        json!({
            "name": row.names[0],
            "name_b": row.names[1],
            "metric": row.a.metric,
            "unit": row.a.unit,
            "direction": row.a.direction,
            "paired": row.is_paired,
            "values_a": row.a.values.len(),
            "values_b": row.b.values.len(),
            "median_a": median(&row.a.values),
            "median_b": median(&row.b.values),
            "ratio_b_to_a": row.ratio,
            "verdict": row.verdict,
        })
    };
    json!({
        "a": file(a),
        "b": file(b),
        "margin": margin,
        "rows": rows.iter().map(row).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::parse;

    fn compared_json(a: &str, b: &str) -> Value {
        let read = |name: &str, text: &str| parse(name, text.as_bytes(), None).unwrap();
        compare_samples(&read("a", a), &read("b", b), None, 0.01).unwrap().json
    }

    fn csv(factor: f64, has_rounds: bool) -> String {
        let line = |round: u32| {
            // Both files drift by a factor of ten.
            let value = factor * f64::from(round) * (1.0 + 0.001 * f64::from(round * 7 % 5));
            if has_rounds { format!("{round},{value}\n") } else { format!("{value}\n") }
        };
        let header = if has_rounds { "round,elapsed_s\n" } else { "elapsed_s\n" };
        header.to_string() + &(1..=10).map(line).collect::<String>()
    }

    #[test]
    fn pairing_by_round_removes_the_drift() {
        let paired = compared_json(&csv(1.0, true), &csv(1.05, true));
        assert_eq!(paired["rows"][0]["paired"], true);
        assert_eq!(paired["rows"][0]["verdict"], "different");
        let unpaired = compared_json(&csv(1.0, false), &csv(1.05, false));
        assert_eq!(unpaired["rows"][0]["paired"], false);
        assert_eq!(unpaired["rows"][0]["verdict"], "inconclusive");
    }

    #[test]
    fn the_range_of_a_few_values_is_not_called_an_interval() {
        let texts = |a: &str, b: &str| {
            let read = |name: &str, text: &str| parse(name, text.as_bytes(), None).unwrap();
            format!("{:?}", compare_samples(&read("a", a), &read("b", b), None, 0.01).unwrap().data.parts)
        };
        assert!(texts("x\n1\n", "x\n2\n").contains("with too few values for an interval, the smallest"));
        assert!(!texts(&csv(1.0, true), &csv(1.05, true)).contains("with too few values"));
    }

    #[test]
    fn differences_within_the_margin_are_equivalent_or_negligible() {
        let verdict = |a: &str, b: &str| compared_json(a, b)["rows"][0]["verdict"].clone();
        assert_eq!(verdict(&csv(1.0, true), &csv(1.0, true)), "equivalent");
        assert_eq!(verdict(&csv(1.0, true), &csv(1.002, true)), "negligible");
        assert_eq!(verdict("x\n1\n2\n", "x\n1\n2\n"), "provisional");
    }

    #[test]
    fn the_answer_names_rows_and_metrics_that_are_not_compared() {
        let answer = |a: &str, b: &str| compared_json(a, b)["answer"].to_string();
        let text = answer("name,x,y\ncp,1,1\nrm,1,1\n", "name,x,z\ncp,2,1\nmv,2,1\n");
        assert!(text.contains("only A has values: 1 row (rm)") && text.contains("1 row (mv)"), "{text}");
        assert!(text.contains("1 other metric of A (y)") && text.contains("1 other metric of B (z)"), "{text}");
        assert!(!answer("x\n1\n", "x\n2\n").contains("Not compared"));
    }

    #[test]
    fn only_equal_conditions_are_compared() {
        let report = compared_json("threads,iops\n1,100\n8,700\n", "threads,iops\n8,710\n8,720\n");
        assert_eq!(report["rows"].as_array().unwrap().len(), 1);
        assert_eq!((&report["rows"][0]["name"], &report["rows"][0]["values_b"]), (&json!("threads=8"), &json!(2)));
        let different = compared_json("threads,iops\n1,100\n", "threads,iops\n8,710\n");
        assert_eq!(different["rows"][0]["name"], "");
        assert!(different["answer"].to_string().contains("threads (A: 1, B: 8)"), "{different}");
    }

    #[test]
    fn failed_runs_are_counted_in_the_answer() {
        let json = |codes: &str| {
            format!("{{\"results\": [{{\"command\": \"cp\", \"times\": [1.0, 1.1], \"exit_codes\": {codes}}}]}}")
        };
        let report = compared_json(&json("[0, 1]"), &json("[0, 0]"));
        assert_eq!(report["a"]["left_out"], json!(["1 run of cp: exit code 1"]));
        assert_eq!(report["rows"][0]["values_a"], 1);
        assert!(report["answer"].to_string().contains("Left out of A: 1 run of cp: exit code 1."), "{report}");
    }

    #[test]
    fn files_of_one_command_each_are_compared_although_the_names_differ() {
        let json = |name: &str| format!(r#"{{"results": [{{"command": "{name}", "times": [1.0, 1.1]}}]}}"#);
        let report = compared_json(&json("cp a"), &json("cp b"));
        assert_eq!((&report["rows"][0]["name"], &report["rows"][0]["name_b"]), (&json!("cp a"), &json!("cp b")));
    }
}
