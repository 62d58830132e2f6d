//! CSV with any columns.
//!
//! A column called `round` pairs. Columns that hold nothing but numbers are metrics; the others, where they
//! differ from row to row, name what was measured. fsarena's own export is such a file.

use super::importer::{Fault, Importer};
use super::series::{Collector, Quantity, direction};
use super::sheet::Sheet;
use fsarena_core::metric;
use fsarena_core::sample::{Direction, Unit};
use std::collections::BTreeSet;

/// CSV with any columns.
pub const CSV: Importer = Importer {
    id: "csv",
    help: "any columns: `round` pairs, numbers are metrics, text names what was measured",
    recognises: |text| !text.trim().is_empty() && !text.trim_start().starts_with(['{', '[']),
    read,
};

/// Columns that say when and in which order something ran, not how it went.
const CIRCUMSTANCES: [&str; 4] = ["position", "started_at_s", "timestamp", "date"];

fn read(text: &str, into: &mut Collector) -> Result<(), Fault> {
    let sheet = Sheet::read(text.as_bytes(), None)?;
    let mut seen = BTreeSet::new();
    if let Some(twice) = sheet.heads.iter().find(|head| !seen.insert(*head)) {
        return Err(Fault::at(1, format!("two columns are called `{twice}`")));
    }
    let circumstance = |head: &str| CIRCUMSTANCES.contains(&head.to_ascii_lowercase().as_str());
    let columns = sheet.heads.iter().enumerate();
    let columns = columns.filter(|(at, head)| Some(*at) != sheet.round && !circumstance(head));
    let (metrics, others): (Vec<_>, Vec<_>) = columns.partition(|(at, _)| sheet.is_of_numbers(*at));
    let metrics: Vec<(usize, Quantity)> =
        metrics.into_iter().map(|(at, head)| (at, metric_of(head))).collect();
    // A column that is the same in every row names nothing.
    let varies = |at: &usize| sheet.rows.iter().any(|row| row[*at] != sheet.rows[0][*at]);
    let names: Vec<usize> = others.into_iter().map(|(at, _)| at).filter(varies).collect();
    if metrics.is_empty() {
        return Err(Fault::whole("no column of it holds numbers alone, so there is nothing to compare"));
    }
    for row in &sheet.rows {
        let round = sheet.round.map(|at| &row[at]).filter(|round| !round.is_empty());
        let name = names.iter().map(|at| &row[*at]).collect::<Vec<_>>().join(" ");
        for (at, metric) in &metrics {
            let Ok(value) = row[*at].parse() else { continue };
            into.push(Quantity { name: &name, ..*metric }, round, value);
        }
    }
    Ok(())
}

/// `elapsed_s` is the metric `elapsed` in seconds. What fsarena knows has the direction that it has there.
fn metric_of(head: &str) -> Quantity<'_> {
    let split = head
        .char_indices()
        .filter(|(_, c)| *c == '_')
        .find_map(|(at, _)| Unit::from_suffix(&head[at + 1..]).map(|unit| (&head[..at], unit)));
    let (name, unit) = split.map_or((head, None), |(name, unit)| (name, Some(unit)));
    // A raw reading in another unit (`elapsed_ns`) is a separate column, and keeps its name.
    let known = metric::find(name).filter(|def| unit.is_none_or(|unit| unit == def.spec.unit));
    let metric = if known.is_some() { name } else { head };
    let by_unit = unit.and_then(|unit| direction(unit.suffix()));
    let direction = known.map(|def| def.spec.direction).or(by_unit).unwrap_or(Direction::Neutral);
    Quantity { name: "", metric, unit: unit.map_or("", Unit::symbol), direction }
}

#[cfg(test)]
mod tests {
    use super::super::parse;
    use fsarena_core::sample::Direction;

    #[test]
    fn text_names_numbers_are_metrics_and_rounds_pair() {
        let csv = "host,round,task,position,elapsed_s,hits_per_s\nm,0,cp,1,2.5,100\nm,0,rm,2,1.5,200\nm,1,cp,1,2.6,\n";
        let samples = parse("a.csv", csv.as_bytes(), None).unwrap();
        let shown: Vec<_> =
            samples.series.iter().map(|s| (s.name.as_str(), s.metric.as_str(), s.values.clone())).collect();
        assert_eq!(
            shown,
            [
                ("cp", "elapsed", vec![2.5, 2.6]),
                ("cp", "hits_per_s", vec![100.0]),
                ("rm", "elapsed", vec![1.5]),
                ("rm", "hits_per_s", vec![200.0])
            ]
        );
        assert_eq!(samples.series[1].direction, Direction::Higher);
        assert_eq!(samples.series[0].rounds.as_ref().unwrap().len(), 2);
    }

    #[test]
    fn a_bare_list_of_numbers_is_a_column() {
        let samples = parse("a", b"1.5\n2.5\n", None).unwrap();
        assert_eq!(samples.series[0].values, [1.5, 2.5]);
        assert_eq!((samples.series[0].metric.as_str(), &samples.series[0].rounds), ("column 1", &None));
    }

    #[test]
    fn units_are_not_mixed() {
        let samples = parse("a", b"elapsed_ns,elapsed_s\n2000000000,2\n", None).unwrap();
        let shown: Vec<_> = samples.series.iter().map(|s| (s.metric.as_str(), s.values[0])).collect();
        assert_eq!(shown, [("elapsed_ns", 2e9), ("elapsed", 2.0)]);
        let error = parse("a", b"x,x\n1,2\n", None).unwrap_err().to_string();
        assert_eq!(error, "a, line 1: two columns are called `x`");
    }

    #[test]
    fn a_short_line_is_named() {
        let error = parse("a.csv", b"x,y\n1,2\n3\n", None).unwrap_err().to_string();
        assert_eq!(error, "a.csv, line 3: 1 fields where the lines before have 2");
    }
}
