//! CSV with any columns.
//!
//! A column called `round` pairs. Columns of settings, such as `threads`, are conditions. Other columns that hold nothing
//! but numbers are metrics; the rest, if they differ from row to row, name what was measured. fsarena's own exports are
//! such files.

use super::series::Collector;
use super::series::{Conditions, ToolRun, direction_of_unit};
use super::sheet::OutcomeColumn;
use super::sheet::{COMMENT, Sheet, is_absent, is_setting};
use super::{Fault, Importer};
use fsarena_core::metric;
use fsarena_core::sample::{Direction, Unit};
use std::collections::BTreeSet;

/// CSV with any columns.
pub const CSV: Importer = Importer {
    id: "csv",
    help: "any columns: `round` pairs, `threads` and alike are settings, numbers are metrics, text names what was measured",
    recognises: looks_like_rows,
    leads: &[],
    read,
};

/// Columns that say when and in which order something ran, not how it went.
const CIRCUMSTANCES: [&str; 13] = [
    "position",
    "started_at_s",
    "start_s",
    "length_s",
    "timestamp",
    "date",
    "iteration",
    "iter",
    "repeat",
    "rep",
    "trial",
    "index",
    "id",
];
/// How the head of fsarena's own files begins, and the columns of them that name a row.
const OWN: [&str; 4] = ["run", "round", "position", "variant"];
const OWN_NAMES: [&str; 6] = ["run", "variant", "host", "boot", "workload", "task"];
/// Columns of fsarena's own files that mark rows which count for nothing.
const WARM_UP: [&str; 2] = ["warmup", "warm_up"];

/// What a column is.
#[derive(Clone, Copy, PartialEq)]
enum Column {
    Name,
    Setting,
    Metric,
    Ignored,
}

fn read(text: &str, into: &mut Collector) -> Result<(), Fault> {
    let sheet = Sheet::read(text)?;
    let mut seen = BTreeSet::new();
    if let Some(twice) = sheet.heads.iter().find(|head| !seen.insert(*head)) {
        return Err(Fault::at(1, format!("two columns are called `{twice}`")));
    }
    let columns = columns(&sheet)?;
    let of = |kind| columns.iter().enumerate().filter(move |(_, is)| **is == kind).map(|(at, _)| at);
    // A column that is the same in every row names nothing.
    let varies = |at: &usize| sheet.rows.iter().any(|row| row[*at] != sheet.rows[0][*at]);
    let names: Vec<usize> = of(Column::Name).filter(varies).collect();
    let own = is_own(&sheet.heads);
    let metrics: Vec<(usize, Metric)> =
        of(Column::Metric).map(|at| (at, metric_of(&sheet.heads[at], own))).collect();
    if metrics.is_empty() {
        return Err(Fault::whole(no_numbers(&sheet)));
    }
    let outcomes = (!own).then(|| OutcomeColumn::all(&sheet));
    let between = separator(&sheet, &names);
    let warm_up = sheet.heads.iter().position(|head| own && WARM_UP.contains(&head.as_str()));
    for row in &sheet.rows {
        let subject = names.iter().map(|at| &row[*at]).collect::<Vec<_>>().join(between);
        if warm_up.is_some_and(|at| matches!(&row[at], "true" | "1")) {
            into.leave_out("row", "", "warm-up, which counts for nothing");
            continue;
        }
        let mut conditions = Conditions::default();
        of(Column::Setting).for_each(|at| conditions.set(&sheet.heads[at], &row[at]));
        let mut reading = ToolRun::new(subject, &conditions);
        reading.failed = outcomes.as_ref().and_then(|outcomes| outcomes.failure(&sheet, row));
        reading.round = sheet.round.map(|at| row[at].to_string()).filter(|round| !round.is_empty());
        for (at, metric) in &metrics {
            let value =
                Some(&row[*at]).filter(|field| !is_absent(field)).and_then(|field| field.parse().ok());
            reading.add_directed_figure(metric.name, metric.unit, metric.direction, value);
        }
        into.add_run(reading);
    }
    Ok(())
}

/// Why there is no figure, with a field that was perhaps meant as one.
fn no_numbers(sheet: &Sheet) -> String {
    let meant =
        |field: &str| field.trim_start_matches(['+', '-', '.']).starts_with(|c: char| c.is_ascii_digit());
    let example = sheet
        .rows
        .iter()
        .flat_map(|row| row.iter().zip(&sheet.heads))
        .find(|(field, _)| meant(field) && field.parse::<f64>().is_err());
    let hint = example
        .map(|(field, head)| format!(": `{field}` in column `{head}` is not a plain number, such as 1234.5"));
    format!("no column of it holds numbers alone, so there is nothing to compare{}", hint.unwrap_or_default())
}

/// What separates the texts that name a row: nothing that one of them has, so that two names are never the same.
fn separator(sheet: &Sheet, names: &[usize]) -> &'static str {
    const SEPARATORS: [&str; 4] = [" ", ", ", " / ", " | "];
    let has = |separator: &str| {
        sheet.rows.iter().any(|row| names.len() > 1 && names.iter().any(|at| row[*at].contains(separator)))
    };
    SEPARATORS.into_iter().find(|separator| !has(separator)).unwrap_or(SEPARATORS[3])
}

fn is_own(heads: &[String]) -> bool {
    heads.iter().zip(OWN).filter(|(head, own)| head == own).count() == OWN.len()
}

/// What each column is.
fn columns(sheet: &Sheet) -> Result<Vec<Column>, Fault> {
    let own = is_own(&sheet.heads);
    // In fsarena's own files the readings follow the task.
    let task = sheet.heads.iter().position(|head| own && head == "task").unwrap_or(0);
    let column = |(at, head): (usize, &String)| {
        let lower = head.to_ascii_lowercase();
        let numbers_runs = lower == "run" && !own && sheet.is_of_numbers(at);
        Ok(if Some(at) == sheet.round || numbers_runs || CIRCUMSTANCES.contains(&lower.as_str()) {
            Column::Ignored
        } else if own && at <= task {
            if OWN_NAMES.contains(&head.as_str()) { Column::Name } else { Column::Ignored }
        } else if own && WARM_UP.contains(&head.as_str()) {
            Column::Ignored
        } else if !own && is_setting(head) {
            Column::Setting
        } else if !own && OutcomeColumn::of(sheet, at).is_some() {
            Column::Ignored
        } else if sheet.is_of_numbers(at) {
            Column::Metric
        } else if !own && metric_of(head, own).unit.is_empty() {
            Column::Name
        } else {
            // It is empty, or a figure that is not a number.
            not_a_number(sheet, at)?;
            Column::Ignored
        })
    };
    sheet.heads.iter().enumerate().map(column).collect()
}

/// Refuses a column of figures in which some are numbers and some are not.
fn not_a_number(sheet: &Sheet, at: usize) -> Result<(), Fault> {
    let wrong = |field: &str| !is_absent(field) && field.parse::<f64>().is_err();
    let some = sheet.rows.iter().any(|row| row[at].parse::<f64>().is_ok());
    match sheet.rows.iter().find(|row| wrong(&row[at])).filter(|_| some) {
        None => Ok(()),
        Some(row) => {
            let line = row.position().map(|position| position.line() as usize);
            let message = format!("`{}` in column `{}` is not a number", &row[at], sheet.heads[at]);
            Err(Fault { line, message })
        }
    }
}

/// A metric by the name of its column.
struct Metric<'a> {
    name: &'a str,
    unit: &'a str,
    direction: Direction,
}

/// Units of other programs behind the last `_` of a name, and their symbols.
const UNITS: [(&str, &str); 16] = [
    ("ms", "ms"),
    ("us", "µs"),
    ("usec", "µs"),
    ("msec", "ms"),
    ("sec", "s"),
    ("seconds", "s"),
    ("mbps", "MB/s"),
    ("mb_s", "MB/s"),
    ("mib_s", "MiB/s"),
    ("kib_s", "KiB/s"),
    ("kb_s", "kB/s"),
    ("gb_s", "GB/s"),
    ("gib_s", "GiB/s"),
    ("mb_per_s", "MB/s"),
    ("mib_per_s", "MiB/s"),
    ("kib_per_s", "KiB/s"),
];

/// `elapsed_s` is the metric `elapsed` in seconds, `bw(MiB/s)` is in MiB/s. What fsarena knows has the direction that it
/// has there.
fn metric_of(head: &str, own: bool) -> Metric<'_> {
    let split = head
        .char_indices()
        .filter(|(_, c)| *c == '_')
        .find_map(|(at, _)| Unit::from_suffix(&head[at + 1..]).map(|unit| (&head[..at], unit)));
    // `read_mib_s` is no figure in seconds.
    let foreign = foreign_unit(head).filter(|_| !own);
    let (None, Some((name, unit))) = (foreign, split) else {
        let unit = foreign.unwrap_or("");
        return Metric {
            name: head,
            unit,
            direction: direction_of_unit(unit).unwrap_or_else(|| by_word(head)),
        };
    };
    // A raw reading in another unit (`elapsed_ns`) is a separate column, and keeps its name.
    let known = metric::find(name).filter(|def| unit == def.spec.unit);
    let name = if known.is_some() { name } else { head };
    let direction = known.map(|def| def.spec.direction).or_else(|| direction_of_unit(unit.suffix()));
    Metric { name, unit: unit.symbol(), direction: direction.unwrap_or(Direction::Neutral) }
}

fn foreign_unit(head: &str) -> Option<&str> {
    let bracketed = |open, close| head.strip_suffix(close)?.rsplit_once(open).map(|(_, unit)| unit.trim());
    let behind = |(suffix, symbol): &(&str, &'static str)| {
        let tail = head.len().checked_sub(suffix.len() + 1)?;
        let fits = head.get(tail..)?.strip_prefix('_')?.eq_ignore_ascii_case(suffix);
        fits.then_some(*symbol)
    };
    bracketed('(', ')').or_else(|| bracketed('[', ']')).or_else(|| UNITS.iter().find_map(behind))
}

/// Which way is better by the words of a name without a unit.
fn by_word(head: &str) -> Direction {
    let head = head.to_ascii_lowercase();
    let has =
        |words: &[&str]| head.split(|c: char| !c.is_ascii_alphanumeric()).any(|word| words.contains(&word));
    if has(&["iops", "throughput", "bandwidth", "bw", "tps", "qps"]) {
        Direction::Higher
    } else if has(&["latency", "lat", "elapsed", "time", "duration"]) {
        Direction::Lower
    } else {
        Direction::Neutral
    }
}

/// Whether a text is of rows: its first two lines have several fields, or it is a list of numbers below at most one head.
fn looks_like_rows(text: &str) -> bool {
    let mut lines = text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with(COMMENT));
    let Some(first) = lines.next().filter(|line| !line.trim_start().starts_with(['{', '[', '<'])) else {
        return false;
    };
    let second = lines.next();
    let fields = [';', '\t', ','].into_iter().find(|separator| first.contains(*separator));
    let number =
        |line: &str| is_absent(line.trim()) || line.trim().replacen(',', ".", 1).parse::<f64>().is_ok();
    match (fields, second) {
        (Some(_), None) => true,
        (Some(separator), Some(second)) => second.contains(separator),
        (None, second) => number(second.unwrap_or(first)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Samples, parse};
    use fsarena_core::sample::Direction;

    fn read(csv: &str) -> Samples {
        parse("a.csv", csv.as_bytes(), None).unwrap()
    }

    fn shown(samples: &Samples) -> Vec<(&str, &str, Vec<f64>)> {
        samples.series.iter().map(|s| (s.name.as_str(), s.metric.as_str(), s.values.clone())).collect()
    }

    #[test]
    fn text_names_numbers_are_metrics_and_rounds_pair() {
        let csv = "host,round,task,position,elapsed_s,hits_per_s\nm,0,cp,1,2.5,100\nm,0,rm,2,1.5,200\nm,1,cp,1,2.6,\n";
        let samples = read(csv);
        assert_eq!(
            shown(&samples),
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
        let samples = read("1.5\n2.5\n");
        assert_eq!(samples.series[0].values, [1.5, 2.5]);
        assert_eq!((samples.series[0].metric.as_str(), &samples.series[0].rounds), ("column 1", &None));
    }

    #[test]
    fn settings_are_conditions() {
        let samples = read("threads,iops\n1,100\n8,700\n8,710\n");
        assert_eq!(
            shown(&samples),
            [("threads=1", "iops", vec![100.0]), ("threads=8", "iops", vec![700.0, 710.0])]
        );
        assert_eq!(samples.series[0].direction, Direction::Higher);
    }

    #[test]
    fn settings_are_known_however_their_columns_are_called() {
        let samples = read("nthreads,Block Size (KiB),run,IOPS\n1,4,1,100\n8,4,2,700\n1,64,3,10\n");
        let names: Vec<&str> = samples.series.iter().map(|one| one.name.as_str()).collect();
        let expected =
            [(1, 4), (8, 4), (1, 64)].map(|(n, size)| format!("nthreads={n},Block Size (KiB)={size}"));
        assert_eq!(names, expected);
        assert!(samples.series.iter().all(|one| one.metric == "IOPS" && one.values.len() == 1));
    }

    #[test]
    fn figures_that_are_no_plain_numbers_are_named() {
        for (text, field) in
            [("fs;x\na;1.234,5\n", "1.234,5"), ("fs,x\na,1.5s\n", "1.5s"), ("fs,x\na,50%\n", "50%")]
        {
            let error = parse("a", text.as_bytes(), None).unwrap_err().to_string();
            assert!(
                error.ends_with(&format!("`{field}` in column `x` is not a plain number, such as 1234.5")),
                "{error}"
            );
        }
    }

    #[test]
    fn absent_values_are_absent_and_wrong_ones_are_named() {
        assert_eq!(shown(&read("fs,elapsed_s\na,1.5\na,NA\na,n/a\n"))[0].2, [1.5]);
        let error = parse("a", b"fs,elapsed_s\na,1.5\na,failed\n", None).unwrap_err().to_string();
        assert_eq!(error, "a, line 3: `failed` in column `elapsed_s` is not a number");
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
    fn units_of_other_programs() {
        let samples = read("bw(MiB/s),latency_ms,p99_us,read_mib_s\n1,2,3,4\n");
        let units: Vec<_> = samples.series.iter().map(|s| (s.unit.as_str(), s.direction)).collect();
        let (up, down) = (Direction::Higher, Direction::Lower);
        assert_eq!(units, [("MiB/s", up), ("ms", down), ("µs", down), ("MiB/s", up)]);
    }

    #[test]
    fn a_short_line_is_named() {
        let error = parse("a.csv", b"x,y\n1,2\n3\n", None).unwrap_err().to_string();
        assert_eq!(error, "a.csv, line 3: 1 fields where the lines before have 2");
    }

    #[test]
    fn other_text_is_in_no_format() {
        let error = parse("a.txt", b"It took a while.\nThen it ended.\n", None).unwrap_err().to_string();
        assert!(error.contains("in no format that fsarena reads"), "{error}");
    }
}
