//! Reads curves of throughput over clients from a CSV file with a column of clients and a column of throughput.

use crate::import::{
    CLIENT_COLUMNS, FileFault, ImportError, LeftOut, OutcomeColumnKind, OutcomeColumns, Sheet, decode_text, is_absent,
    is_client_count, is_one_of, is_setting,
};
use csv::StringRecord;
use fsarena_stats::scaling::{Series, SeriesError};
use std::collections::{BTreeMap, BTreeSet};

/// The largest size of a file in bytes. Files that people measure are far smaller.
pub const MAX_BYTES: u64 = 16 << 20;
/// The largest number of rows in a file. The time to fit a law grows with the number of rows times the number of different client
/// counts.
const MAX_ROWS: usize = 10_000;
/// The largest number of different client counts in a file.
const MAX_CLIENT_COUNTS: usize = 500;
/// The names of the column of throughput. Without such a column, throughput is the only other column of numbers.
const THROUGHPUT_COLUMNS: [&str; 7] = ["x", "throughput", "iops", "bandwidth", "rate", "tps", "value"];
/// Words and units in the names of latency columns, from which fsarena makes no curve.
const LATENCY_WORDS: &str = "latency lat time elapsed duration runtime ns us ms s sec seconds p50 p95 p99";

/// The curves of a file.
#[derive(Debug)]
pub struct FileCurves {
    /// The curves, ordered by name.
    pub series: Vec<Series>,
    /// The number of failed runs and their reasons, in words; `None` if all runs succeeded.
    pub left_out: Option<String>,
}

/// Reads every curve of a file from its bytes; `origin` is the name of the file in errors.
///
/// Columns of text and of settings distinguish curves. Values with the same number in a column `round` are compared in pairs.
/// Without a header line the first column is the number of clients and the second the throughput.
///
/// # Errors
/// The file is not a table with clients and throughput, or is too large. The error names the file and, if known, the line.
pub fn read_curves(origin: &str, bytes: &[u8]) -> Result<FileCurves, ImportError> {
    parse_curves(bytes).map_err(|fault| ImportError::new(origin, fault))
}

fn parse_curves(bytes: &[u8]) -> Result<FileCurves, FileFault> {
    let sheet = Sheet::parse(&decode_text(bytes)?)?;
    check_limit("rows", sheet.rows.len() + usize::from(!sheet.is_headerless), MAX_ROWS)?;
    let columns = CurveColumns::find(&sheet)?;
    // The keys are the parts of the names, not the joined names: `a b` and `c` joined would equal `a` and `b c` joined.
    let mut curves: BTreeMap<Vec<String>, Vec<Point>> = BTreeMap::new();
    let outcomes = OutcomeColumns::find(&sheet);
    let (mut client_counts, mut failure_counts) = (BTreeSet::new(), BTreeMap::new());
    for row in &sheet.rows {
        if let Some(why) = outcomes.describe_failure(&sheet, row) {
            *failure_counts.entry(why).or_insert(0) += 1;
            continue;
        }
        if is_absent(&row[columns.throughput]) {
            continue;
        }
        let (name_parts, clients, throughput) = columns.read_point(row)?;
        let round = sheet.round_column.map(|column| &row[column]).filter(|round| !is_absent(round));
        curves.entry(name_parts).or_default().push((clients, round, throughput));
        client_counts.insert(clients.to_bits());
    }
    check_limit("numbers of clients", client_counts.len(), MAX_CLIENT_COUNTS)?;
    let failures =
        failure_counts.into_iter().map(|(why, count)| LeftOut { kind: "run", subject: String::new(), why, count });
    let left_out = LeftOut::describe_all(&failures.collect::<Vec<_>>());
    let mut series = vec![];
    for (name_parts, points) in &curves {
        let name = if name_parts.is_empty() { "throughput".to_string() } else { name_parts.join(" ") };
        series.push(build_series(&name, points).map_err(|error| FileFault::in_file(error.to_string()))?);
    }
    if series.is_empty() {
        let reasons = left_out.map(|list| format!("; left out: {list}"));
        return Err(FileFault::in_file(format!("no row has a throughput{}", reasons.unwrap_or_default())));
    }
    Ok(FileCurves { series, left_out })
}

/// A number of clients, the round if the file states one, and a throughput.
type Point<'a> = (f64, Option<&'a str>, f64);

/// The curve of these points. It is paired if all points have a round. The order of the points does not matter.
fn build_series(name: &str, points: &[Point]) -> Result<Series, SeriesError> {
    let rounds: BTreeSet<&str> = points.iter().filter_map(|(_, round, _)| *round).collect();
    let round_numbers: BTreeMap<&str, u32> = rounds.into_iter().zip(0..).collect();
    let row = |(clients, round, throughput): &Point| round.map(|round| (*clients, round_numbers[round], *throughput));
    match points.iter().map(row).collect::<Option<Vec<_>>>() {
        Some(rows) => Series::new(name, &rows),
        None => {
            let values = points.iter().map(|(clients, _, throughput)| (*clients, *throughput));
            Series::unpaired(name, &values.collect::<Vec<_>>())
        }
    }
}

/// Refuses a file with more than `limit` items; `items` names them: `rows`.
fn check_limit(items: &str, count: usize, limit: usize) -> Result<(), FileFault> {
    if count > limit {
        Err(FileFault::in_file(format!("it has {count} {items}, and the limit is {limit}")))
    } else {
        Ok(())
    }
}

/// The roles of the columns, by their indices.
struct CurveColumns {
    clients: usize,
    throughput: usize,
    /// The columns that form the name of a curve.
    names: Vec<usize>,
    /// The columns of settings that differ from row to row, with their names. They are also part of the name of a curve.
    settings: Vec<(usize, String)>,
}

impl CurveColumns {
    /// Finds the columns by their names.
    ///
    /// # Errors
    /// A column of clients or throughput is missing, or the only column of figures is a latency.
    fn find(sheet: &Sheet) -> Result<CurveColumns, FileFault> {
        if sheet.is_headerless {
            return match sheet.headers.len() {
                0 => Err(FileFault::in_file("it is empty: nothing to fit")),
                2 => Ok(CurveColumns { clients: 0, throughput: 1, names: vec![], settings: vec![] }),
                _ => Err(FileFault::in_line(1, "without a header there are two columns: clients and throughput")),
            };
        }
        let headers: Vec<String> = sheet.headers.iter().map(|header| header.to_ascii_lowercase()).collect();
        let throughput = THROUGHPUT_COLUMNS.iter().find_map(|word| headers.iter().position(|header| header == word));
        // A unit may follow: `throughput_mb_per_s`, `throughput (MB/s)`.
        let begins_unit = |rest: &str| rest.starts_with(['_', ' ', '(', '[']);
        let is_throughput_with_unit =
            |header: &String| THROUGHPUT_COLUMNS.iter().any(|word| header.strip_prefix(word).is_some_and(begins_unit));
        let throughput = throughput.or_else(|| headers.iter().position(is_throughput_with_unit));
        let missing_column = |role: &str, names: &[&str]| {
            FileFault::in_line(1, format!("no column is the {role}: call it one of {}", names.join(", ")))
        };
        let clients = headers.iter().position(|header| CLIENT_COLUMNS.contains(&header.as_str()));
        let clients = clients.or_else(|| headers.iter().position(|header| is_client_count(header)));
        let clients = clients.ok_or_else(|| missing_column("number of clients", &CLIENT_COLUMNS))?;
        let (mut settings, mut number_columns, mut names) = (vec![], vec![], vec![]);
        for (column, header) in headers.iter().enumerate() {
            if column == clients
                || Some(column) == sheet.round_column
                || sheet.has_row_numbers(column)
                || OutcomeColumnKind::detect(sheet, column).is_some()
            {
                continue;
            }
            if is_setting(header) {
                settings.push(column);
            } else if sheet.is_numeric(column) {
                number_columns.push(column);
            } else {
                names.push(column);
            }
        }
        let only_number_column = if let [column] = number_columns[..] { Some(column) } else { None };
        let throughput = throughput.filter(|column| *column != clients).or(only_number_column);
        let throughput = throughput.ok_or_else(|| missing_column("throughput", &THROUGHPUT_COLUMNS))?;
        if is_latency(&headers[throughput]) {
            let header = &sheet.headers[throughput];
            return Err(FileFault::in_line(1, format!("column `{header}` is a latency, and a curve is of throughput")));
        }
        names.retain(|column| *column != throughput);
        let varies = |column: &usize| sheet.rows.iter().any(|row| row[*column] != sheet.rows[0][*column]);
        let settings =
            settings.into_iter().filter(varies).map(|column| (column, sheet.headers[column].clone())).collect();
        Ok(CurveColumns { clients, throughput, names, settings })
    }

    /// The parts of the name of the curve, the number of clients and the throughput in a row.
    ///
    /// # Errors
    /// The number of clients or the throughput is not a number.
    fn read_point(&self, row: &StringRecord) -> Result<(Vec<String>, f64, f64), FileFault> {
        let line = row.position().map_or(0, csv::Position::line) as usize;
        let number = |column: usize, role: &str| {
            let text = &row[column];
            text.parse::<f64>().map_err(|_| FileFault::in_line(line, format!("the {role} `{text}` is not a number")))
        };
        let setting = |(column, header): &(usize, String)| format!("{header}={}", &row[*column]);
        let names = self.names.iter().map(|column| row[*column].to_string());
        let name_parts = names.chain(self.settings.iter().map(setting)).collect();
        Ok((name_parts, number(self.clients, "number of clients")?, number(self.throughput, "throughput")?))
    }
}

/// Whether a column is a latency, by the words in its name: `latency_ms`, `p99` and `time (s)` are, `ops_per_s` is not.
fn is_latency(header: &str) -> bool {
    // In `mb_s` the `s` is not the unit of a time, because an amount precedes it.
    const AMOUNTS: &str = "mb mib kb kib gb gib b bytes ops req";
    let words: Vec<&str> = header.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty()).collect();
    let has_word = |list: &str| words.iter().any(|word| is_one_of(word, list));
    let is_rate = words.windows(2).any(|pair| pair[0] == "per" || pair[1] == "per") || header.contains("/s");
    let names_throughput = words.iter().any(|word| THROUGHPUT_COLUMNS.contains(word) && !["x", "value"].contains(word));
    has_word(LATENCY_WORDS) && !is_rate && !names_throughput && !has_word(AMOUNTS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(bytes: &[u8]) -> Result<Vec<Series>, FileFault> {
        parse_curves(bytes).map(|curves| curves.series)
    }

    #[test]
    fn failed_runs_and_missing_values_are_left_out() {
        let text = "n,x,exit_code\n1,10,0\n2,19,0\n2,1,137\n4,NA,0\n2,2,1\n2,3,1\n";
        let curves = parse_curves(text.as_bytes()).unwrap();
        assert_eq!(curves.series[0].x, [[10.0], [19.0]]);
        assert_eq!(curves.left_out.as_deref(), Some("2 runs: exit_code is 1; 1 run: exit_code is 137"));
        assert!(fault("n,x,status\n1,10,failed\n2,9,failed\n").contains("no row has a throughput; left out: 2 runs"));
    }

    fn fault(text: &str) -> String {
        let fault = parse(text.as_bytes()).unwrap_err();
        format!("{:?} {}", fault.line, fault.message)
    }

    #[test]
    fn files_with_and_without_a_header_are_read() {
        let headerless = parse(b"1,10\n2,20\n4,30\n4,32\n").unwrap();
        assert_eq!((headerless.len(), headerless[0].n.as_slice()), (1, [1.0, 2.0, 4.0].as_slice()));
        let (values, paired) = (&*headerless[0].x[2], headerless[0].paired);
        assert_eq!((values, paired), ([30.0, 32.0].as_slice(), false), "repeats are not rounds");
        let with_header =
            parse(b"fs,clients,round,throughput_mb_per_s\next4,1,0,5\next4,2,0,9\nxfs,1,0,6\nxfs,2,0,8\n").unwrap();
        assert_eq!(with_header.iter().map(|series| series.name.as_str()).collect::<Vec<_>>(), ["ext4", "xfs"]);
        let only_number_column = parse(b"n,mbps\n1,5\n2,9\n").unwrap();
        assert_eq!(only_number_column[0].x, [[5.0], [9.0]]);
    }

    #[test]
    fn settings_that_differ_separate_curves() {
        let text = "threads,block_size,iops\n1,4096,100\n2,4096,190\n1,1048576,10\n2,1048576,11\n";
        let curves = parse(text.as_bytes()).unwrap();
        let names: Vec<&str> = curves.iter().map(|curve| curve.name.as_str()).collect();
        assert_eq!(names, ["block_size=1048576", "block_size=4096"]);
        assert_eq!(curves[1].x, [[100.0], [190.0]]);
    }

    #[test]
    fn names_that_differ_only_in_their_parts_separate_curves() {
        let curves = parse(b"fs,options,n,x\na b,c,1,10\na b,c,2,20\na,b c,1,30\na,b c,2,60\n").unwrap();
        let values: Vec<&[Vec<f64>]> = curves.iter().map(|curve| curve.x.as_slice()).collect();
        assert_eq!(values, [[[30.0], [60.0]], [[10.0], [20.0]]]);
    }

    #[test]
    fn the_order_of_rows_changes_nothing() {
        let json = |rows: &[String]| {
            let curves = parse(rows.concat().as_bytes()).unwrap();
            let scalings: Vec<_> =
                curves.into_iter().map(|curve| fsarena_stats::scaling::analyse_scaling(curve, 1)).collect();
            crate::scaling::scaling_page("f", &scalings, true).json.to_string()
        };
        for (header, has_rounds) in [("n,round,x\n", true), ("n,x\n", false)] {
            let point = |index: u32| {
                (index % 5 + 1, index / 5, 100.0 + 17.0 * f64::from(index % 5) + 3.1 * f64::from(index * index % 7))
            };
            let row = |(n, round, x)| if has_rounds { format!("{n},{round},{x}\n") } else { format!("{n},{x}\n") };
            let rows: Vec<String> = (0..50).map(point).map(row).collect();
            let ordered = json(&[&[header.to_string()], &*rows].concat());
            assert!(ordered.contains(&format!("\"paired\":{has_rounds}")), "{ordered}");
            for step in [7, 13, 49] {
                let shuffled = (0..50).map(|index| rows[index * step % 50].clone());
                assert_eq!(json(&std::iter::once(header.to_string()).chain(shuffled).collect::<Vec<_>>()), ordered);
            }
        }
        // A curve with a value without a round is not paired.
        let round_missing = parse(b"n,round,x\n1,a,1\n2,a,2\n1,b,1\n2,,2\n").unwrap();
        assert_eq!((round_missing[0].paired, round_missing[0].rounds()), (false, 2));
    }

    #[test]
    fn columns_are_found_in_any_order() {
        for text in [
            "jobs_per_s,clients\n5,1\n9,2\n",
            "n_ops,iops,num_clients\n7,5,1\n8,9,2\n",
            "# iops,threads\n5,1\n9,2\n",
            ",n,mbps\n0,1,5\n1,2,9\n",
            "Clients,Throughput (MB/s),Latency (ms)\n1,5,3\n2,9,4\n",
        ] {
            let curves = parse(text.as_bytes()).unwrap();
            assert_eq!(
                (&*curves[0].n, &*curves[0].x),
                ([1.0, 2.0].as_slice(), [[5.0], [9.0]].map(Vec::from).as_slice())
            );
        }
    }

    #[test]
    fn columns_of_latency_are_refused() {
        for header in ["latency_ms", "p99", "time (s)", "value_us"] {
            let message = fault(&format!("threads,{header}\n1,1\n2,1.5\n"));
            assert!(message.contains(&format!("column `{header}` is a latency")), "{message}");
        }
        for header in ["mb_s", "ops_per_s", "MiB/s", "throughput_mb_per_s"] {
            parse(format!("threads,{header}\n1,1\n2,1.5\n").as_bytes()).unwrap();
        }
    }

    #[test]
    fn errors_name_the_line_and_what_is_accepted() {
        assert_eq!(fault(""), "None it is empty: nothing to fit");
        assert!(fault("1,2,3\n").contains("two columns"));
        assert!(fault("a,b\nx,2\n").contains("call it one of n, clients"));
        assert!(fault("n,foo,bar\n1,2,3\n").contains("no column is the throughput"));
        assert_eq!(fault("n,x\n1,2\n2,many\n"), "Some(3) the throughput `many` is not a number");
        assert!(fault("n,x\n1,0\n2,1\n").contains("must be above 0"));
    }
}
