//! Samples of any tool beside other samples of it.

use super::answer::{ComparedRatio, RatioSummary, counted, first_of};
use super::comparison_report::ComparisonReport;
use crate::difference::{Finding, ratio_cell};
use crate::document::{Cell, Table, row};
use crate::error::Error;
use crate::import::{Distinctions, LeftOut, Samples, Series};
use crate::number::{percent, plural, three};
use fsarena_core::names::{distinct, nearest, unknown};
use fsarena_core::sample::Unit;
use fsarena_stats::comparison::median;
use fsarena_stats::hodges_lehmann::independent_ratio;
use fsarena_stats::ratio::{Ratio, log_ratios};
use fsarena_stats::sequential::Centre;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// One quantity that both files have.
struct SampleRow<'a> {
    a: &'a Series,
    b: &'a Series,
    /// The names of both series, which tell them from the other rows.
    names: [String; 2],
    paired: bool,
    ratio: Option<Ratio>,
    finding: Finding,
}

/// Compares what both files measured under equal conditions: the ratio b/a, paired by round where both have rounds.
/// `metric` asks for one metric; without it all are compared, of CSV with a column `elapsed` that alone. `margin` is the
/// difference that matters, as a fraction.
///
/// # Errors
/// Where nothing of that metric is in both.
pub fn compare_samples(
    a: &Samples,
    b: &Samples,
    metric: Option<&str>,
    margin: f64,
) -> Result<ComparisonReport, Error> {
    let asked = |series: &Series| metric.is_none_or(|metric| is_called(series, metric));
    let distinctions = Distinctions::among(&a.series).union(Distinctions::among(&b.series));
    let common: Vec<(&Series, &Series)> =
        couples(a, b, &distinctions).into_iter().filter(|(series, _)| asked(series)).collect();
    let rows_of_csv = [a, b].iter().all(|samples| samples.format == "csv");
    let elapsed =
        metric.is_none() && rows_of_csv && common.iter().any(|(series, _)| series.metric == "elapsed");
    let rows: Vec<SampleRow> = common
        .into_iter()
        .filter(|(series, _)| !elapsed || series.metric == "elapsed")
        .map(|(a, b)| SampleRow { names: [a, b].map(|one| distinctions.name(one)), ..row(a, b, margin) })
        .collect();
    let known = || a.series.iter().map(|series| series.metric.as_str());
    if let Some(metric) = metric.filter(|_| !a.series.iter().any(&asked))
        && nearest(metric, known()).is_some()
    {
        return Err(unknown("metric", metric, known()).at(format!("in {}", a.origin)).into());
    }
    if rows.is_empty() {
        return Err(Error::nothing_in_common(&a.origin, &b.origin, "benchmark and metric"));
    }
    Ok(compared(a, b, &rows, margin))
}

/// Whether a metric has this name, or this one with its unit: `tps` is also `tps_per_s`.
fn is_called(series: &Series, metric: &str) -> bool {
    let unit = metric.strip_prefix(series.metric.as_str()).and_then(|rest| rest.strip_prefix('_'));
    let unit = unit.and_then(Unit::from_suffix);
    metric == series.metric || unit.is_some_and(|unit| unit.symbol() == series.unit)
}

/// The series of the same subject and metric in both, under the same conditions where these differ within a file. If
/// each file has only one subject and no such conditions, these two are compared: `cp on ext4` against `cp on xfs`.
fn couples<'a>(a: &'a Samples, b: &'a Samples, by: &Distinctions) -> Vec<(&'a Series, &'a Series)> {
    let one = |samples: &Samples| samples.series.iter().all(|s| s.name == samples.series[0].name);
    let paired = |named: bool| -> Vec<_> {
        let key = |series: &'a Series| {
            let subject = if named { series.subject.as_str() } else { "" };
            let conditions = if named { by.values(series) } else { vec![] };
            (subject, conditions, &series.metric, &series.unit)
        };
        // Of several with the same key the first counts.
        let others: BTreeMap<_, _> = b.series.iter().rev().map(|series| (key(series), series)).collect();
        a.series.iter().filter_map(|series| Some((series, *others.get(&key(series))?))).collect()
    };
    let named = paired(true);
    if !named.is_empty() || !one(a) || !one(b) {
        return named;
    }
    paired(false)
}

fn row<'a>(a: &'a Series, b: &'a Series, margin: f64) -> SampleRow<'a> {
    let paired = a.rounds.is_some() && b.rounds.is_some();
    let (ratio, finding) = match (&a.rounds, &b.rounds) {
        (Some(first), Some(second)) => {
            let both: (Vec<f64>, Vec<f64>) =
                first.iter().filter_map(|(round, x)| Some((*x, *second.get(round)?))).unzip();
            let d = log_ratios(&both.0, &both.1).d;
            let narrow = Centre::of(&d).map(|centre| centre.narrow);
            let ratio = Ratio::of(d);
            (ratio, Finding::of(ratio, narrow, margin))
        }
        _ => {
            let ratio = independent_ratio(&a.values, &b.values);
            (ratio, Finding::of_independent(ratio, margin))
        }
    };
    SampleRow { a, b, names: Default::default(), paired, ratio, finding }
}

impl SampleRow<'_> {
    /// `cp elapsed`, `cp on ext4 → cp on xfs elapsed`.
    fn label(&self) -> String {
        let [a, b] = self.names.each_ref().map(String::as_str);
        let [arrow, b] = if a == b { [""; 2] } else { ["→", b] };
        let words = [a, arrow, b, &self.a.metric].into_iter().filter(|word| !word.is_empty());
        words.collect::<Vec<_>>().join(" ")
    }
}

fn compared(a: &Samples, b: &Samples, rows: &[SampleRow], margin: f64) -> ComparisonReport {
    let (figures, sides) = (figures(rows), ["B beside A".to_string()]);
    let answer =
        RatioSummary { figures: &figures, sides: &sides, margin: Some(margin), terms: ["better", "worse"] };
    let mut compared = ComparisonReport {
        title: format!("{} (B) beside {} (A)", b.origin, a.origin),
        facts: vec![
            format!("A: {} ({})", a.origin, a.format),
            format!("B: {} ({})", b.origin, b.format),
            format!("equivalent within {}", percent(margin)),
        ],
        chart: answer.chart("B over A, ratios with 95% intervals".into(), "B over A".into()),
        json: as_json(a, b, rows, margin),
        ..ComparisonReport::default()
    };
    let unpaired = rows.iter().filter(|row| !row.paired).count();
    if unpaired > 0 {
        compared.answer.warning(unpaired_costs(unpaired, rows.len()));
    }
    let mut words = answer.words();
    for (letter, samples) in [("A", a), ("B", b)] {
        words.extend(LeftOut::list(&samples.left_out).map(|list| format!("Left out of {letter}: {list}.")));
    }
    words.extend(other_conditions(rows));
    words.extend(left_out(a, rows.iter().map(|row| row.a), "A"));
    words.extend(left_out(b, rows.iter().map(|row| row.b), "B"));
    compared.set_answer(words);
    let table = Table::figures(["what", "A", "B", "B/A", "n", "verdict"]);
    compared.data.table(table.with(rows.iter().map(|row| cells(row, margin))));
    compared.data.text(
        "A and B are medians. B/A is the Hodges–Lehmann ratio: of the pairs of a round where both files have \
         rounds, else of two independent samples. Below it the 95% interval, not corrected for their number.",
    );
    let of = |Samples { origin, format, series, .. }: &Samples| {
        let values = plural(series.iter().map(|series| series.values.len()).sum(), "value");
        format!("{origin}, read as {format}: {} series, {values}", series.len())
    };
    let paired = format!("{} of {}", rows.len() - unpaired, plural(rows.len(), "row"));
    let facts = [
        ("A", of(a)),
        ("B", of(b)),
        ("paired by round", paired),
        ("machine, kernel", "files of samples do not say".to_string()),
    ];
    compared.method.table(Table::pairs(["", "what"], facts));
    compared
}

fn figures(rows: &[SampleRow]) -> Vec<ComparedRatio> {
    let several = rows.iter().any(|row| row.a.metric != rows[0].a.metric);
    let figure = |row: &SampleRow| {
        let ratio = row.ratio.map(Into::into);
        // Each metric has its own panel.
        let variant = if several { row.a.metric.clone() } else { String::new() };
        ComparedRatio { variant, ..ComparedRatio::new(&row.label(), ratio, row.finding, row.a.direction) }
    };
    rows.iter().map(figure).collect()
}

/// Series of one file that are not compared: the other file lacks them, or the user asked for other metrics.
fn left_out<'a>(all: &'a Samples, used: impl Iterator<Item = &'a Series>, letter: &str) -> Vec<String> {
    let key = |series: &'a Series| (series.name.as_str(), series.metric.as_str());
    let keys: BTreeSet<_> = used.map(key).collect();
    let compared: BTreeSet<&str> = keys.iter().map(|(_, metric)| *metric).collect();
    let others = all.series.iter().map(key).filter(|key| !keys.contains(key));
    let (lacking, others): (Vec<_>, Vec<_>) = others.partition(|(_, metric)| compared.contains(metric));
    let lacking: Vec<&str> = lacking.into_iter().map(|(name, _)| name).collect();
    let metrics = distinct(others.into_iter().map(|(_, metric)| metric));
    let mut items = vec![];
    if !lacking.is_empty() {
        items.push(format!("Not compared, only {letter} has values: {}.", counted(&lacking, "row")));
    }
    if !metrics.is_empty() {
        let (count, named) = (plural(metrics.len(), "other metric"), first_of(&metrics, ", "));
        items.push(format!(
            "Not compared: {count} of {letter} ({named}); --metric asks for one that both have."
        ));
    }
    items
}

/// The conditions that are one in all of A and another in all of B: what is compared, or a mistake.
fn other_conditions(rows: &[SampleRow]) -> Option<String> {
    let mut differ = BTreeMap::new();
    for SampleRow { a, b, .. } in rows {
        let names = a.conditions.iter().chain(b.conditions.iter()).map(|(name, _)| name);
        for name in names.filter(|name| a.conditions.get(name) != b.conditions.get(name)) {
            let value = |series: &Series| series.conditions.get(name).unwrap_or("not stated").to_string();
            differ.entry(name.to_string()).or_insert_with(BTreeSet::new).insert((value(a), value(b)));
        }
    }
    let named = |(name, values): (&String, &BTreeSet<(String, String)>)| match values.first() {
        Some((a, b)) if values.len() == 1 => format!("{name} (A: {a}, B: {b})"),
        _ => name.clone(),
    };
    let named: Vec<String> = differ.iter().map(named).collect();
    let named: Vec<&str> = named.iter().map(String::as_str).collect();
    (!named.is_empty()).then(|| format!("The conditions differ: {}.", first_of(&named, ", ")))
}

/// The warning that unpaired samples are less sure. The rates are those of docs/internals/statistics.md.
fn unpaired_costs(unpaired: usize, all: usize) -> String {
    let which = if unpaired == all { String::new() } else { format!(" ({unpaired} of {all} rows)") };
    format!(
        "UNPAIRED{which}: the files have no rounds that tell which values were measured together. Whatever changed on the \
         machine between the two files is in these ratios. On a machine that drifts, with 1% noise, such a \
         comparison of 10 with 10 identical runs finds a difference in one of five; paired by rounds in random \
         order, in one of twenty. Nor does what both have in common cancel, so that intervals are wider."
    )
}

fn cells(row: &SampleRow, margin: f64) -> Vec<Cell> {
    let value = |series: &Series| {
        let middle = median(&series.values).map_or("–".to_string(), three);
        Cell::from(format!("{middle} {}", series.unit).trim_end())
    };
    let n = match row.ratio {
        Some(ratio) if row.paired => plural(ratio.rounds, "pair"),
        _ => format!("{}+{}", row.a.values.len(), row.b.values.len()),
    };
    let ratio = row.ratio.map_or(Cell::two_lines("–", "–"), |ratio| ratio_cell(ratio, ""));
    let words = row.finding.words(row.ratio, row.a.direction, margin);
    row![row.label(), value(row.a), value(row.b), ratio, n, words]
}

fn as_json(a: &Samples, b: &Samples, rows: &[SampleRow], margin: f64) -> Value {
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
            "paired": row.paired,
            "values_a": row.a.values.len(),
            "values_b": row.b.values.len(),
            "median_a": median(&row.a.values),
            "median_b": median(&row.b.values),
            "ratio_b_to_a": row.ratio,
            "verdict": row.finding,
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

    fn page(a: &str, b: &str) -> Value {
        let read = |name: &str, text: &str| parse(name, text.as_bytes(), None).unwrap();
        compare_samples(&read("a", a), &read("b", b), None, 0.01).unwrap().json
    }

    fn csv(factor: f64, rounds: bool) -> String {
        let line = |at: u32| {
            // A drift of a factor of ten that both share.
            let value = factor * f64::from(at) * (1.0 + 0.001 * f64::from(at * 7 % 5));
            if rounds { format!("{at},{value}\n") } else { format!("{value}\n") }
        };
        let head = if rounds { "round,elapsed_s\n" } else { "elapsed_s\n" };
        head.to_string() + &(1..=10).map(line).collect::<String>()
    }

    #[test]
    fn rounds_take_the_drift_away() {
        let paired = page(&csv(1.0, true), &csv(1.05, true));
        assert_eq!(paired["rows"][0]["paired"], true);
        assert_eq!(paired["rows"][0]["verdict"], "different");
        let unpaired = page(&csv(1.0, false), &csv(1.05, false));
        assert_eq!(unpaired["rows"][0]["paired"], false);
        assert_eq!(unpaired["rows"][0]["verdict"], "inconclusive");
    }

    #[test]
    fn verdicts_by_the_margin() {
        assert_eq!(page(&csv(1.0, true), &csv(1.0, true))["rows"][0]["verdict"], "equivalent");
        assert_eq!(page(&csv(1.0, true), &csv(1.002, true))["rows"][0]["verdict"], "negligible");
        assert_eq!(page("x\n1\n2\n", "x\n1\n2\n")["rows"][0]["verdict"], "provisional");
    }

    #[test]
    fn what_is_not_compared_is_said() {
        let answer = |a: &str, b: &str| page(a, b)["answer"].to_string();
        let said = answer("name,x,y\ncp,1,1\nrm,1,1\n", "name,x,z\ncp,2,1\nmv,2,1\n");
        assert!(said.contains("only A has values: 1 row (rm)") && said.contains("1 row (mv)"), "{said}");
        assert!(
            said.contains("1 other metric of A (y)") && said.contains("1 other metric of B (z)"),
            "{said}"
        );
        assert!(!answer("x\n1\n", "x\n2\n").contains("Not compared"));
    }

    #[test]
    fn only_equal_conditions_are_compared() {
        let both = page("threads,iops\n1,100\n8,700\n", "threads,iops\n8,710\n8,720\n");
        assert_eq!(both["rows"].as_array().unwrap().len(), 1);
        assert_eq!(
            (&both["rows"][0]["name"], &both["rows"][0]["values_b"]),
            (&json!("threads=8"), &json!(2))
        );
        let other = page("threads,iops\n1,100\n", "threads,iops\n8,710\n");
        assert_eq!(other["rows"][0]["name"], "");
        assert!(other["answer"].to_string().contains("threads (A: 1, B: 8)"), "{other}");
    }

    #[test]
    fn failed_runs_are_counted_in_the_answer() {
        let json = |codes: &str| {
            format!(
                "{{\"results\": [{{\"command\": \"cp\", \"times\": [1.0, 1.1], \"exit_codes\": {codes}}}]}}"
            )
        };
        let page = page(&json("[0, 1]"), &json("[0, 0]"));
        assert_eq!(page["a"]["left_out"], json!(["1 run of cp: exit code 1"]));
        assert_eq!(page["rows"][0]["values_a"], 1);
        assert!(page["answer"].to_string().contains("Left out of A: 1 run of cp: exit code 1."), "{page}");
    }

    #[test]
    fn one_command_each_is_compared_whatever_its_name() {
        let json = |name: &str| format!(r#"{{"results": [{{"command": "{name}", "times": [1.0, 1.1]}}]}}"#);
        let page = page(&json("cp a"), &json("cp b"));
        assert_eq!((&page["rows"][0]["name"], &page["rows"][0]["name_b"]), (&json!("cp a"), &json!("cp b")));
    }
}
