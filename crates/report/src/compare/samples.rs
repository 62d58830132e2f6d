//! Samples of any tool beside other samples of it.

use super::answer::{Answer, Figure, estimate};
use super::picture::Picture;
use super::{Compared, first_of};
use crate::difference::Finding;
use crate::document::{Cell, Part, Table, row};
use crate::error::Error;
use crate::exporters::ratio_json;
use crate::import::{Samples, Series};
use crate::number::percent;
use crate::number::{self, plural, three};
use fsarena_stats::comparison::median;
use fsarena_stats::pairs::log_ratios;
use fsarena_stats::ratio::Ratio;
use fsarena_stats::sequential::Centre;
use fsarena_stats::shift;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// One quantity that both files have.
struct Row<'a> {
    name: &'a str,
    a: &'a Series,
    b: &'a Series,
    paired: bool,
    ratio: Option<Ratio>,
    finding: Finding,
}

/// Compares what both files measured: the ratio b/a, paired by round where both have rounds. `metric` asks
/// for one metric; without it all are compared, of fsarena's own samples the elapsed time. `margin` is the
/// difference that matters, as a fraction.
///
/// # Errors
/// Where nothing of that metric is in both.
pub fn compare_samples(
    a: &Samples,
    b: &Samples,
    metric: Option<&str>,
    margin: f64,
) -> Result<Compared, Error> {
    let asked = |series: &Series| metric.is_none_or(|metric| series.metric == metric);
    let common: Vec<(&Series, &Series)> =
        couples(a, b).into_iter().filter(|(series, _)| asked(series)).collect();
    let elapsed = metric.is_none() && common.iter().any(|(series, _)| series.metric == "elapsed");
    let rows: Vec<Row> = common
        .into_iter()
        .filter(|(series, _)| !elapsed || series.metric == "elapsed")
        .map(|(a, b)| row(a, b, margin))
        .collect();
    if rows.is_empty() {
        return Err(Error::NothingInCommon {
            a: a.origin.clone(),
            b: b.origin.clone(),
            what: "benchmark and metric",
        });
    }
    Ok(compared(a, b, &rows, margin))
}

/// The series with the same name and metric in both. If each file has only one name, these two are compared:
/// `cp on ext4` against `cp on xfs`.
fn couples<'a>(a: &'a Samples, b: &'a Samples) -> Vec<(&'a Series, &'a Series)> {
    let one = |samples: &Samples| samples.series.iter().all(|s| s.name == samples.series[0].name);
    // Of several with the same key the first counts.
    let paired = |key: fn(&'a Series) -> (&'a str, &'a str)| -> Vec<_> {
        let others: BTreeMap<_, _> = b.series.iter().rev().map(|series| (key(series), series)).collect();
        a.series.iter().filter_map(|series| Some((series, *others.get(&key(series))?))).collect()
    };
    let named = paired(|series| (&series.name, &series.metric));
    if !named.is_empty() || !one(a) || !one(b) {
        return named;
    }
    paired(|series| ("", &series.metric))
}

fn row<'a>(a: &'a Series, b: &'a Series, margin: f64) -> Row<'a> {
    let (ratio, narrow) = match (&a.rounds, &b.rounds) {
        (Some(first), Some(second)) => {
            let both: (Vec<f64>, Vec<f64>) =
                first.iter().filter_map(|(round, x)| Some((*x, *second.get(round)?))).unzip();
            let d = log_ratios(&both.0, &both.1).d;
            let narrow = Centre::of(&d).map(|centre| centre.narrow);
            (Ratio::of(d), narrow)
        }
        // For two independent samples the 95% interval stands in for the 90% one: stricter, never laxer.
        _ => {
            let ratio = shift::ratio(&a.values, &b.values);
            (ratio, ratio.map(|ratio| (ratio.low.ln(), ratio.high.ln())))
        }
    };
    Row {
        name: &a.name,
        a,
        b,
        paired: a.rounds.is_some() && b.rounds.is_some(),
        finding: Finding::of(ratio, narrow, margin),
        ratio,
    }
}

impl Row<'_> {
    fn words(&self, margin: f64) -> String {
        self.finding.words(self.ratio, self.a.direction, margin)
    }

    fn label(&self) -> String {
        let words =
            [self.name, if self.name == self.b.name { "" } else { "→" }, self.other(), &self.a.metric];
        words.into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
    }

    fn other(&self) -> &str {
        if self.name == self.b.name { "" } else { &self.b.name }
    }
}

fn compared(a: &Samples, b: &Samples, rows: &[Row], margin: f64) -> Compared {
    let (figures, sides, terms) = (figures(rows), ["B beside A".to_string()], ["better", "worse"]);
    let (title, axis) = ("B over A, ratios with 95% intervals".to_string(), "B over A".to_string());
    let mut compared = Compared {
        title: format!("{} (B) beside {} (A)", b.origin, a.origin),
        facts: vec![
            format!("A: {} ({})", a.origin, a.format),
            format!("B: {} ({})", b.origin, b.format),
            format!("equivalent within {}", percent(margin)),
        ],
        chart: Picture { figures: &figures, sides: &sides, title, axis, terms }.chart(),
        json: as_json(a, b, rows, margin),
        ..Compared::default()
    };
    let unpaired = rows.iter().filter(|row| !row.paired).count();
    if unpaired > 0 {
        compared.answer.parts.push(Part::Loud(unpaired_costs(unpaired, rows.len())));
    }
    let mut words = Answer { figures: &figures, sides: &sides, margin: Some(margin), terms }.words();
    words.extend(left_out(a, rows.iter().map(|row| row.a), "A"));
    words.extend(left_out(b, rows.iter().map(|row| row.b), "B"));
    compared.say(words);
    let mut table = Table::figures(["what", "A", "B", "B/A", "n", "verdict"]);
    table.rows.extend(rows.iter().map(|row| cells(row, margin)));
    compared.data.table(table);
    compared.data.text(
        "A and B are medians. B/A is the Hodges–Lehmann ratio: of the pairs of a round where both files have \
         rounds, else of two independent samples. Below it the 95% interval, not corrected for their number.",
    );
    let of = |samples: &Samples| {
        let values: usize = samples.series.iter().map(|series| series.values.len()).sum();
        format!(
            "{}, read as {}: {} series, {}",
            samples.origin,
            samples.format,
            samples.series.len(),
            plural(values, "value")
        )
    };
    let paired = rows.len() - unpaired;
    compared.method.table(Table::pairs(
        ["", "what"],
        [
            ("A".to_string(), of(a)),
            ("B".to_string(), of(b)),
            ("paired by round".to_string(), format!("{paired} of {}", plural(rows.len(), "row"))),
            ("machine, kernel".to_string(), "files of samples do not say".to_string()),
        ],
    ));
    compared
}

fn figures(rows: &[Row]) -> Vec<Figure> {
    let several = rows.iter().any(|row| row.a.metric != rows[0].a.metric);
    let figure = |row: &Row| Figure {
        what: row.label(),
        // Each metric has its own panel.
        variant: if several { row.a.metric.clone() } else { String::new() },
        side: 0,
        ratio: row.ratio.as_ref().map(estimate),
        finding: row.finding,
        direction: row.a.direction,
        over_all: false,
        then: None,
    };
    rows.iter().map(figure).collect()
}

/// Series of one file that are not compared: the other file lacks them, or the user asked for other metrics.
fn left_out<'a>(all: &'a Samples, used: impl Iterator<Item = &'a Series>, letter: &str) -> Vec<String> {
    let (mut compared, mut keys) = (BTreeSet::new(), BTreeSet::new());
    for series in used {
        compared.insert(series.metric.as_str());
        keys.insert((series.name.as_str(), series.metric.as_str()));
    }
    let (mut lacking, mut metrics): (Vec<&str>, Vec<&str>) = (vec![], vec![]);
    let mut seen = BTreeSet::new();
    for series in all.series.iter().filter(|s| !keys.contains(&(s.name.as_str(), s.metric.as_str()))) {
        if compared.contains(series.metric.as_str()) {
            lacking.push(&series.name);
        } else if seen.insert(&series.metric) {
            metrics.push(&series.metric);
        }
    }
    let mut items = vec![];
    if !lacking.is_empty() {
        items.push(format!(
            "Not compared, only {letter} has values: {} ({}).",
            plural(lacking.len(), "row"),
            first_of(&lacking, ", ")
        ));
    }
    if !metrics.is_empty() {
        items.push(format!(
            "Not compared: {} of {letter} ({}); --metric asks for one that both have.",
            plural(metrics.len(), "other metric"),
            first_of(&metrics, ", ")
        ));
    }
    items
}

/// What the lack of rounds costs. The rates are those of docs/internals/statistics.md.
fn unpaired_costs(unpaired: usize, all: usize) -> String {
    let which = if unpaired == all { String::new() } else { format!(" ({unpaired} of {all} rows)") };
    format!(
        "UNPAIRED{which}: no column `round` says which values were measured together. Whatever changed on the \
         machine between the two files is in these ratios. On a machine that drifts, with 1% noise, such a \
         comparison of 10 with 10 identical runs finds a difference in one of five; paired by rounds in random \
         order, in one of twenty. Nor does what both have in common cancel, so that intervals are wider."
    )
}

fn cells(row: &Row, margin: f64) -> Vec<Cell> {
    let value = |series: &Series| {
        let middle = median(&series.values).map_or("–".to_string(), three);
        Cell::from(format!("{middle} {}", series.unit).trim_end())
    };
    let n = match row.ratio {
        Some(ratio) if row.paired => plural(ratio.rounds, "pair"),
        _ => format!("{}+{}", row.a.values.len(), row.b.values.len()),
    };
    let ratio = row.ratio.map_or("–".to_string(), |ratio| number::beside(ratio.value, &[1.0]));
    let interval = row.ratio.map_or("–".to_string(), |ratio| number::interval(ratio.low, ratio.high));
    row![row.label(), value(row.a), value(row.b), Cell::two(ratio, interval), n, row.words(margin)]
}

fn as_json(a: &Samples, b: &Samples, rows: &[Row], margin: f64) -> Value {
    let file = |samples: &Samples| json!({"file": samples.origin, "format": samples.format});
    let row = |row: &Row| {
        json!({
            "name": row.name,
            "name_b": row.b.name,
            "metric": row.a.metric,
            "unit": row.a.unit,
            "direction": row.a.direction,
            "paired": row.paired,
            "values_a": row.a.values.len(),
            "values_b": row.b.values.len(),
            "median_a": median(&row.a.values),
            "median_b": median(&row.b.values),
            "ratio_b_to_a": row.ratio.as_ref().map(ratio_json),
            "verdict": row.finding.id(),
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
    fn one_command_each_is_compared_whatever_its_name() {
        let json = |name: &str| format!(r#"{{"results": [{{"command": "{name}", "times": [1.0, 1.1]}}]}}"#);
        let page = page(&json("cp a"), &json("cp b"));
        assert_eq!((&page["rows"][0]["name"], &page["rows"][0]["name_b"]), (&json!("cp a"), &json!("cp b")));
    }
}
