//! The importer of CSV with any columns, including fsarena's own exports.
//!
//! A column `round` numbers the rounds, by which two files are compared in pairs. Columns of settings, such as `threads`, are
//! conditions. Other columns that have only numbers are metrics. The remaining columns, if they differ from row to row, form
//! the name of the measured task.

use super::importer::{FileFault, Importer};
use super::series::{Conditions, SampleCollector, ToolRun, direction_of_unit};
use super::sheet::{COMMENT, OutcomeColumnKind, OutcomeColumns, Sheet, is_absent, is_setting};
use super::text::is_one_of;
use crate::advice::EXPORT_COMMAND;
use fsarena_core::metric;
use fsarena_core::sample::{Direction, Unit};
use std::collections::BTreeSet;

/// The importer of CSV with any columns.
pub const CSV: Importer = Importer {
    id: "csv",
    help: "any columns: `round` pairs, `threads` and alike are settings, numbers are metrics, text names what was measured",
    recognises: looks_like_table,
    lead_metrics: &[],
    read: read_table,
};

/// Columns with the time or the order of a run, which are neither metrics nor conditions.
const IGNORED_COLUMNS: &str =
    "position started_at_s start_s length_s timestamp date iteration iter repeat rep trial index id";
/// The first columns of a file that fsarena exported.
const EXPORT_FIRST_COLUMNS: [&str; 4] = ["run", "round", "position", "variant"];
/// The last columns of fsarena's tidy CSV, which has the values of all metrics in one column.
const TIDY_LAST_COLUMNS: [&str; 4] = ["metric", "unit", "direction", "value"];
/// In a file that fsarena exported, the columns that form the name of a row.
const EXPORT_NAME_COLUMNS: [&str; 6] = ["run", "variant", "host", "boot", "workload", "task"];
/// In a file that fsarena exported, the columns that are true for warm-up rounds and for the warm-up of a load, which are not
/// samples. A file can have both.
const WARM_UP_COLUMNS: [&str; 2] = ["warmup", "warm_up"];

/// The role of a column.
#[derive(Clone, Copy, PartialEq)]
enum ColumnRole {
    /// Part of the name of the measured task.
    Name,
    /// A condition of the run, such as the number of threads.
    Setting,
    Metric,
    /// True for the rows that fsarena measured during a warm-up.
    WarmUp,
    Ignored,
}

/// Reads the table, and adds a run for each row.
fn read_table(text: &str, collector: &mut SampleCollector) -> Result<(), FileFault> {
    let sheet = Sheet::parse(text)?;
    let mut earlier = BTreeSet::new();
    if let Some(repeated) = sheet.headers.iter().find(|header| !earlier.insert(*header)) {
        return Err(FileFault::in_line(1, format!("two columns are called `{repeated}`")));
    }
    let is_export = is_fsarena_export(&sheet.headers);
    if is_export && sheet.headers.ends_with(&TIDY_LAST_COLUMNS.map(String::from)) {
        let message = format!("fsarena does not read its tidy CSV; export one row for each sample: {EXPORT_COMMAND}");
        return Err(FileFault::in_line(1, message));
    }
    let columns = 0..sheet.headers.len();
    let roles: Vec<ColumnRole> =
        columns.map(|column| column_role(&sheet, column, is_export)).collect::<Result<_, _>>()?;
    let columns_with_role =
        |role| roles.iter().enumerate().filter(move |(_, column_role)| **column_role == role).map(|(column, _)| column);
    // Leave out columns with the same field in every row: they do not distinguish rows.
    let varies = |column: &usize| sheet.rows.iter().any(|row| row[*column] != sheet.rows[0][*column]);
    let name_columns: Vec<usize> = columns_with_role(ColumnRole::Name).filter(varies).collect();
    let metric_columns: Vec<(usize, ColumnMetric)> = columns_with_role(ColumnRole::Metric)
        .map(|column| (column, metric_of_column(&sheet.headers[column], is_export)))
        .collect();
    if metric_columns.is_empty() {
        return Err(FileFault::in_file(no_numbers_message(&sheet)));
    }
    let outcomes = (!is_export).then(|| OutcomeColumns::find(&sheet));
    let separator = choose_separator(&sheet, &name_columns);
    for row in &sheet.rows {
        if columns_with_role(ColumnRole::WarmUp).any(|column| matches!(&row[column], "true" | "1")) {
            collector.leave_out("row", "", "warm-up, which no figure counts");
            continue;
        }
        let mut conditions = Conditions::default();
        for column in columns_with_role(ColumnRole::Setting) {
            conditions.set(&sheet.headers[column], &row[column]);
        }
        let subject = name_columns.iter().map(|column| &row[*column]).collect::<Vec<_>>().join(separator);
        let mut run = ToolRun::new(subject, &conditions);
        run.failure = outcomes.as_ref().and_then(|outcomes| outcomes.describe_failure(&sheet, row));
        run.round = sheet.round_column.map(|column| row[column].to_string()).filter(|round| !is_absent(round));
        for (column, metric) in &metric_columns {
            let field = &row[*column];
            let value = if is_absent(field) { None } else { field.parse().ok() };
            run.add_directed_figure(metric.name, metric.unit, metric.direction, value);
        }
        collector.add_run(run);
    }
    Ok(())
}

/// The message for a table without metrics, with an example of a field that begins like a number.
fn no_numbers_message(sheet: &Sheet) -> String {
    let begins_like_number =
        |field: &str| field.trim_start_matches(['+', '-', '.']).starts_with(|c: char| c.is_ascii_digit());
    let mut message = "no column contains only numbers, so there is nothing to compare".to_string();
    let mut fields = sheet.rows.iter().flat_map(|row| row.iter().zip(&sheet.headers));
    let example = fields.find(|(field, _)| begins_like_number(field) && field.parse::<f64>().is_err());
    if let Some((field, header)) = example {
        message += &format!(": `{field}` in column `{header}` is not a plain number, such as 1234.5");
    }
    message
}

/// A separator that occurs in no field of the name columns, so that two different rows never get the same name.
fn choose_separator(sheet: &Sheet, name_columns: &[usize]) -> &'static str {
    const SEPARATORS: [&str; 4] = [" ", ", ", " / ", " | "];
    if name_columns.len() < 2 {
        return SEPARATORS[0];
    }
    let occurs = |separator: &str| {
        sheet.rows.iter().any(|row| name_columns.iter().any(|column| row[*column].contains(separator)))
    };
    SEPARATORS.into_iter().find(|separator| !occurs(separator)).unwrap_or(SEPARATORS[3])
}

/// Whether fsarena exported this table.
fn is_fsarena_export(headers: &[String]) -> bool {
    headers.len() >= EXPORT_FIRST_COLUMNS.len()
        && headers.iter().zip(EXPORT_FIRST_COLUMNS).all(|(header, expected)| header == expected)
}

/// The role of a column. `is_export`: whether fsarena exported the file; then the readings are in the columns after `task`.
///
/// # Errors
/// A column of figures in which some fields are not numbers.
fn column_role(sheet: &Sheet, column: usize, is_export: bool) -> Result<ColumnRole, FileFault> {
    let header = sheet.headers[column].as_str();
    if Some(column) == sheet.round_column || is_one_of(header, IGNORED_COLUMNS) {
        return Ok(ColumnRole::Ignored);
    }
    if is_export {
        if WARM_UP_COLUMNS.contains(&header) {
            return Ok(ColumnRole::WarmUp);
        }
        let task_column = sheet.headers.iter().position(|header| header == "task").unwrap_or(0);
        if column <= task_column {
            let is_name = EXPORT_NAME_COLUMNS.contains(&header);
            return Ok(if is_name { ColumnRole::Name } else { ColumnRole::Ignored });
        }
    } else {
        let is_run_number = header.eq_ignore_ascii_case("run") && sheet.is_numeric(column);
        if is_run_number || sheet.has_row_numbers(column) {
            return Ok(ColumnRole::Ignored);
        }
        if is_setting(header) {
            return Ok(ColumnRole::Setting);
        }
        if OutcomeColumnKind::detect(sheet, column).is_some() {
            return Ok(ColumnRole::Ignored);
        }
    }
    if sheet.is_numeric(column) {
        return Ok(ColumnRole::Metric);
    }
    if !is_export && metric_of_column(header, false).unit.is_empty() {
        return Ok(ColumnRole::Name);
    }
    refuse_mixed_column(sheet, column)?;
    Ok(ColumnRole::Ignored)
}

/// Refuses a column in which some fields are numbers and some are not.
fn refuse_mixed_column(sheet: &Sheet, column: usize) -> Result<(), FileFault> {
    if !sheet.rows.iter().any(|row| row[column].parse::<f64>().is_ok()) {
        return Ok(());
    }
    for row in &sheet.rows {
        let field = &row[column];
        if !is_absent(field) && field.parse::<f64>().is_err() {
            let line = row.position().map(|position| position.line() as usize);
            let message = format!("`{field}` in column `{}` is not a number", sheet.headers[column]);
            return Err(FileFault { line, message });
        }
    }
    Ok(())
}

/// The metric in a column: its name, its unit, and whether higher or lower values are better.
struct ColumnMetric<'a> {
    name: &'a str,
    unit: &'a str,
    direction: Direction,
}

/// Suffixes of column names in the files of other programs, after a `_` or as the whole name, and the units that they stand for.
const FOREIGN_UNITS: [(&str, &str); 20] = [
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
    ("b_s", "B/s"),
    ("bytes_s", "B/s"),
    ("ops_s", "ops/s"),
    ("req_s", "req/s"),
    ("mb_per_s", "MB/s"),
    ("mib_per_s", "MiB/s"),
    ("kib_per_s", "KiB/s"),
];

/// The metric in a column, from its name: `elapsed_s` is the metric `elapsed` in seconds, `bw(MiB/s)` is in MiB/s. fsarena's
/// own metrics keep the direction of their definition. `is_export`: whether fsarena exported the file.
fn metric_of_column(header: &str, is_export: bool) -> ColumnMetric<'_> {
    let name_and_unit = header
        .char_indices()
        .filter(|(_, c)| *c == '_')
        .find_map(|(index, _)| Unit::from_suffix(&header[index + 1..]).map(|unit| (&header[..index], unit)));
    // Try the units of other programs first: `read_mib_s` is in MiB/s, not in seconds.
    let unit_of_other_program = foreign_unit(header).filter(|_| !is_export);
    let (None, Some((name, unit))) = (unit_of_other_program, name_and_unit) else {
        let unit = unit_of_other_program.unwrap_or("");
        return ColumnMetric {
            name: header,
            unit,
            direction: direction_of_unit(unit).unwrap_or_else(|| direction_by_words(header)),
        };
    };
    // A column in another unit than the metric's own (`elapsed_ns`) is a separate metric, and keeps its whole name.
    let def = metric::find(name).filter(|def| unit == def.spec.unit);
    let name = if def.is_some() { name } else { header };
    let direction = def.map(|def| def.spec.direction).or_else(|| direction_of_unit(unit.suffix()));
    ColumnMetric { name, unit: unit.symbol(), direction: direction.unwrap_or(Direction::Neutral) }
}

/// The unit at the end of a column name of another program: in brackets, or a suffix of [`FOREIGN_UNITS`].
fn foreign_unit(header: &str) -> Option<&str> {
    let bracketed = |open, close| header.strip_suffix(close)?.rsplit_once(open).map(|(_, unit)| unit.trim());
    let suffixed = |(suffix, symbol): &(&str, &'static str)| {
        let name = header.get(..header.len().checked_sub(suffix.len())?)?;
        let has_suffix = header[name.len()..].eq_ignore_ascii_case(suffix);
        (has_suffix && (name.is_empty() || name.ends_with('_'))).then_some(*symbol)
    };
    bracketed('(', ')').or_else(|| bracketed('[', ']')).or_else(|| FOREIGN_UNITS.iter().find_map(suffixed))
}

/// Which direction is better, by the words in a column name that has no unit.
fn direction_by_words(header: &str) -> Direction {
    let has_word = |list: &str| header.split(|c: char| !c.is_ascii_alphanumeric()).any(|word| is_one_of(word, list));
    if has_word("iops throughput bandwidth bw tps qps") {
        Direction::Higher
    } else if has_word("latency lat elapsed time duration") {
        Direction::Lower
    } else {
        Direction::Neutral
    }
}

/// Whether a text looks like a table: its first two lines have several fields, or it is a list of numbers with or without a
/// header line.
fn looks_like_table(text: &str) -> bool {
    let mut lines = text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with(COMMENT));
    let Some(first) = lines.next().filter(|line| !line.trim_start().starts_with(['{', '[', '<'])) else {
        return false;
    };
    let second = lines.next();
    let separator = [';', '\t', ','].into_iter().find(|separator| first.contains(*separator));
    let is_number = |line: &str| is_absent(line.trim()) || line.trim().replacen(',', ".", 1).parse::<f64>().is_ok();
    match (separator, second) {
        (Some(_), None) => true,
        (Some(separator), Some(second)) => second.contains(separator),
        (None, second) => is_number(second.unwrap_or(first)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Samples, names_metrics_and_values, parse};
    use fsarena_core::sample::Direction;

    fn parse_samples(csv: &str) -> Samples {
        parse("a.csv", csv.as_bytes(), None).unwrap()
    }

    #[test]
    fn text_columns_name_the_task_and_numbers_are_metrics() {
        let csv = "host,round,task,position,elapsed_s,hits_per_s\nm,0,cp,1,2.5,100\nm,0,rm,2,1.5,200\nm,1,cp,1,2.6,\n";
        let samples = parse_samples(csv);
        assert_eq!(
            names_metrics_and_values(&samples),
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
    fn a_row_without_a_round_is_not_paired() {
        let rounds = |csv: &str| parse_samples(csv).series[0].rounds.clone();
        assert_eq!(rounds("round,elapsed_s\n1,1.5\nNA,2.5\n"), None);
        assert_eq!(rounds("round,elapsed_s\n1,1.5\n2,2.5\n").unwrap().len(), 2);
    }

    #[test]
    fn a_list_of_numbers_is_one_series() {
        let samples = parse_samples("1.5\n2.5\n");
        assert_eq!(samples.series[0].values, [1.5, 2.5]);
        assert_eq!((samples.series[0].metric.as_str(), &samples.series[0].rounds), ("column 1", &None));
    }

    #[test]
    fn a_column_of_numbers_without_a_name_is_ignored() {
        let samples = parse_samples(",fs,elapsed_s\n0,a,1.5\n1,a,2.5\n");
        assert_eq!(names_metrics_and_values(&samples), [("", "elapsed", vec![1.5, 2.5])]);
    }

    #[test]
    fn columns_of_settings_are_conditions() {
        let samples = parse_samples("threads,iops\n1,100\n8,700\n8,710\n");
        assert_eq!(
            names_metrics_and_values(&samples),
            [("threads=1", "iops", vec![100.0]), ("threads=8", "iops", vec![700.0, 710.0])]
        );
        assert_eq!(samples.series[0].direction, Direction::Higher);
    }

    #[test]
    fn columns_of_settings_are_recognised_in_other_spellings() {
        let samples = parse_samples("nthreads,Block Size (KiB),run,IOPS\n1,4,1,100\n8,4,2,700\n1,64,3,10\n");
        let names: Vec<&str> = samples.series.iter().map(|series| series.name.as_str()).collect();
        let expected = [(1, 4), (8, 4), (1, 64)].map(|(n, size)| format!("nthreads={n},Block Size (KiB)={size}"));
        assert_eq!(names, expected);
        assert!(samples.series.iter().all(|series| series.metric == "IOPS" && series.values.len() == 1));
    }

    #[test]
    fn the_error_shows_a_figure_that_is_not_a_plain_number() {
        for (text, field) in [("fs;x\na;1.234,5\n", "1.234,5"), ("fs,x\na,1.5s\n", "1.5s"), ("fs,x\na,50%\n", "50%")] {
            let error = parse("a", text.as_bytes(), None).unwrap_err().to_string();
            assert!(
                error.ends_with(&format!("`{field}` in column `x` is not a plain number, such as 1234.5")),
                "{error}"
            );
        }
    }

    #[test]
    fn missing_values_are_skipped_and_invalid_ones_refused() {
        assert_eq!(names_metrics_and_values(&parse_samples("fs,elapsed_s\na,1.5\na,NA\na,n/a\n"))[0].2, [1.5]);
        let error = parse("a", b"fs,elapsed_s\na,1.5\na,failed\n", None).unwrap_err().to_string();
        assert_eq!(error, "a, line 3: `failed` in column `elapsed_s` is not a number");
    }

    #[test]
    fn columns_in_different_units_are_different_metrics() {
        let samples = parse("a", b"elapsed_ns,elapsed_s\n2000000000,2\n", None).unwrap();
        let shown: Vec<_> = samples.series.iter().map(|series| (series.metric.as_str(), series.values[0])).collect();
        assert_eq!(shown, [("elapsed_ns", 2e9), ("elapsed", 2.0)]);
        let error = parse("a", b"x,x\n1,2\n", None).unwrap_err().to_string();
        assert_eq!(error, "a, line 1: two columns are called `x`");
    }

    #[test]
    fn units_in_column_names_are_recognised() {
        let samples = parse_samples("bw(MiB/s),latency_ms,p99_us,read_mib_s\n1,2,3,4\n");
        let units: Vec<_> = samples.series.iter().map(|series| (series.unit.as_str(), series.direction)).collect();
        let (up, down) = (Direction::Higher, Direction::Lower);
        assert_eq!(units, [("MiB/s", up), ("ms", down), ("µs", down), ("MiB/s", up)]);
        let samples = parse_samples("mb_s,ms,ops_s,read_bytes_s,elapsed_s\n1,2,3,4,5\n");
        let units: Vec<_> = samples.series.iter().map(|series| (series.unit.as_str(), series.direction)).collect();
        assert_eq!(units, [("MB/s", up), ("ms", down), ("ops/s", up), ("B/s", up), ("s", down)]);
    }

    #[test]
    fn the_error_for_a_short_row_names_the_line() {
        let error = parse("a.csv", b"x,y\n1,2\n3\n", None).unwrap_err().to_string();
        assert_eq!(error, "a.csv, line 3: 1 fields where the lines before have 2");
    }

    #[test]
    fn the_tidy_csv_is_refused_because_its_values_are_of_several_metrics() {
        let text = "run,round,position,variant,task,metric,unit,direction,value\nr,0,0,xfs,cp,elapsed,s,lower,1.5\n";
        let error = parse("a.csv", text.as_bytes(), None).unwrap_err().to_string();
        assert!(error.starts_with("a.csv, line 1: fsarena does not read its tidy CSV"), "{error}");
    }

    #[test]
    fn prose_is_refused() {
        let error = parse("a.txt", b"It took a while.\nThen it ended.\n", None).unwrap_err().to_string();
        assert!(error.contains("in no format that fsarena reads"), "{error}");
    }
}
