//! CSV with any columns.
//!
//! A column called `round` pairs. Columns that hold nothing but numbers are metrics; the others, where they
//! differ from row to row, name what was measured. fsarena's own export is such a file.

use super::importer::{Fault, Importer};
use super::series::{Collector, Quantity, direction};
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

/// Columns that number the rounds; files of version 0.1 call them blocks.
const ROUND: [&str; 2] = ["round", "block"];

/// Columns that say when and in which order something ran, not how it went.
const CIRCUMSTANCES: [&str; 4] = ["position", "started_at_s", "timestamp", "date"];

fn read(text: &str, into: &mut Collector) -> Result<(), Fault> {
    let table = Table::read(text)?;
    let names: Vec<usize> = (0..table.heads.len()).filter(|at| table.tells_apart(*at)).collect();
    let metrics: Vec<(usize, Quantity)> =
        (0..table.heads.len()).filter_map(|at| Some((at, table.metric(at)?))).collect();
    if metrics.is_empty() {
        return Err(Fault::whole("no column of it holds numbers alone, so there is nothing to compare"));
    }
    for row in &table.rows {
        let round = table.round.and_then(|at| row.get(at)).filter(|round| !round.is_empty());
        let words: Vec<&str> = names.iter().map(|at| row[*at].as_str()).collect();
        let name = words.join(" ");
        for (at, metric) in &metrics {
            let Ok(value) = row[*at].parse() else { continue };
            into.push(Quantity { name: &name, ..*metric }, round.map(String::as_str), value);
        }
    }
    Ok(())
}

struct Table {
    heads: Vec<String>,
    rows: Vec<Vec<String>>,
    round: Option<usize>,
}

impl Table {
    fn read(text: &str) -> Result<Table, Fault> {
        let first = text.lines().next().unwrap_or_default();
        let delimiter =
            [b'\t', b';'].into_iter().find(|byte| first.as_bytes().contains(byte)).unwrap_or(b',');
        let mut reader = csv::ReaderBuilder::new()
            .has_headers(false)
            .delimiter(delimiter)
            .trim(csv::Trim::All)
            .from_reader(text.as_bytes());
        let mut rows = Vec::new();
        for record in reader.records() {
            let record = record.map_err(fault)?;
            rows.push(record.iter().map(String::from).collect::<Vec<String>>());
        }
        // A list of numbers has no head.
        let headless = rows.first().is_none_or(|row| row.iter().all(|field| field.parse::<f64>().is_ok()));
        let heads = match headless {
            true => (1..=rows.first().map_or(0, Vec::len)).map(|at| format!("column {at}")).collect(),
            false => rows.remove(0),
        };
        let mut seen = BTreeSet::new();
        if let Some(twice) = heads.iter().find(|head| !seen.insert(*head)) {
            return Err(Fault::at(1, format!("two columns are called `{twice}`")));
        }
        let round = heads.iter().position(|head| ROUND.iter().any(|name| head.eq_ignore_ascii_case(name)));
        Ok(Table { heads, rows, round })
    }

    fn circumstance(&self, at: usize) -> bool {
        Some(at) == self.round || CIRCUMSTANCES.contains(&self.heads[at].to_ascii_lowercase().as_str())
    }

    /// Whether a column names what was measured.
    fn tells_apart(&self, at: usize) -> bool {
        let text = self.rows.iter().any(|row| !row[at].is_empty() && row[at].parse::<f64>().is_err());
        text && !self.circumstance(at) && self.rows.iter().any(|row| row[at] != self.rows[0][at])
    }

    fn metric(&self, at: usize) -> Option<Quantity<'_>> {
        let mut values = self.rows.iter().map(|row| &row[at]).filter(|value| !value.is_empty()).peekable();
        let numbers = values.peek().is_some() && values.all(|value| value.parse::<f64>().is_ok());
        (numbers && !self.circumstance(at)).then(|| metric_of(&self.heads[at]))
    }
}

/// `elapsed_s` is the metric `elapsed` in seconds. What fsarena knows has the direction that it has there.
fn metric_of(head: &str) -> Quantity<'_> {
    let split = head
        .char_indices()
        .filter(|(_, c)| *c == '_')
        .find_map(|(at, _)| Unit::from_suffix(&head[at + 1..]).map(|unit| (&head[..at], unit)));
    let (name, unit) = split.map_or((head, None), |(name, unit)| (name, Some(unit)));
    // A raw reading in another unit (`elapsed_ns`) is a separate column, and keeps its name.
    let known = metric::find(name).filter(|def| unit.is_none_or(|unit| unit == def.unit));
    let metric = if known.is_some() { name } else { head };
    let by_unit = unit.and_then(|unit| direction(unit.suffix()));
    let direction = known.map(|def| def.direction).or(by_unit).unwrap_or(Direction::Neutral);
    Quantity { name: "", metric, unit: unit.map_or("", Unit::symbol), direction }
}

fn fault(error: csv::Error) -> Fault {
    let line = error.position().map(|position| position.line() as usize);
    let message = match error.kind() {
        csv::ErrorKind::UnequalLengths { expected_len, len, .. } => {
            format!("{len} fields where the lines before have {expected_len}")
        }
        _ => error.to_string(),
    };
    Fault { line, message }
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
