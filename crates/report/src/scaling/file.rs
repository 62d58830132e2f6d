//! Curves from a CSV file: a column of clients, a column of throughput.

use crate::import::{
    CLIENTS, Fault, ImportError, LeftOut, OutcomeColumn, Sheet, decode, is_absent, is_clients, is_setting,
};
use csv::StringRecord;
use fsarena_stats::scaling::{Series, SeriesError};
use std::collections::{BTreeMap, BTreeSet};

/// No curve that people measure comes near this size, in bytes.
pub const MAX_BYTES: u64 = 16 << 20;
/// The most rows of a file, and the most numbers of clients among them: fitting looks at each row for each number.
const MAX_ROWS: usize = 10_000;
const MAX_NUMBERS: usize = 500;
/// What the column of throughput is called; else it is the only other one of numbers.
const THROUGHPUT: [&str; 7] = ["x", "throughput", "iops", "bandwidth", "rate", "tps", "value"];
/// Words and units by which a column is a latency. Less of it is better, so no curve is made of it.
const LATENCY: [&str; 15] = [
    "latency", "lat", "time", "elapsed", "duration", "runtime", "ns", "us", "ms", "s", "sec", "seconds",
    "p50", "p95", "p99",
];

/// The curves of a file.
#[derive(Debug)]
pub struct Curves {
    /// The curves, by name.
    pub series: Vec<Series>,
    /// Rows of runs that failed, in words; `None` if all succeeded.
    pub left_out: Option<String>,
}

/// Reads every curve of a file from its bytes; `origin` names it in errors. Columns of text and of settings tell curves apart; a
/// column `round` pairs; without a head the first column is the number of clients and the second the throughput.
///
/// # Errors
/// The fault, with file and line.
pub fn read(origin: &str, bytes: &[u8]) -> Result<Curves, ImportError> {
    curves(bytes).map_err(|fault| ImportError::fault(origin, fault))
}

fn curves(bytes: &[u8]) -> Result<Curves, Fault> {
    let sheet = Sheet::read(&decode(bytes)?)?;
    within("rows", sheet.rows.len() + usize::from(!sheet.headless), MAX_ROWS)?;
    let columns = Columns::of(&sheet)?;
    let mut curves: BTreeMap<String, Vec<Point>> = BTreeMap::new();
    let outcomes = OutcomeColumn::all(&sheet);
    let (mut numbers, mut failed) = (BTreeSet::new(), BTreeMap::new());
    for row in &sheet.rows {
        if let Some(why) = outcomes.failure(&sheet, row) {
            *failed.entry(why).or_insert(0) += 1;
            continue;
        }
        if is_absent(&row[columns.throughput]) {
            continue;
        }
        let (name, n, x) = columns.read(row)?;
        let round = sheet.round.map(|at| &row[at]).filter(|round| !is_absent(round));
        curves.entry(name).or_default().push((n, round, x));
        numbers.insert(n.to_bits());
    }
    within("numbers of clients", numbers.len(), MAX_NUMBERS)?;
    let failed =
        failed.into_iter().map(|(why, count)| LeftOut { noun: "run", subject: String::new(), why, count });
    let left_out = LeftOut::list(&failed.collect::<Vec<_>>());
    let series = curves.iter().map(|(name, points)| series(name, points));
    match series.collect::<Result<Vec<_>, _>>() {
        Ok(series) if series.is_empty() => {
            let failed = left_out.map(|list| format!("; left out: {list}"));
            Err(Fault::whole(format!("no row has a throughput{}", failed.unwrap_or_default())))
        }
        Ok(series) => Ok(Curves { series, left_out }),
        Err(error) => Err(Fault::whole(error.to_string())),
    }
}

/// A number of clients, the round if the file states one, a throughput.
type Point<'a> = (f64, Option<&'a str>, f64);

/// One curve. Values pair if all state their round, and nothing depends on the order of the rows.
fn series(name: &str, points: &[Point]) -> Result<Series, SeriesError> {
    let rounds: BTreeSet<&str> = points.iter().filter_map(|(_, round, _)| *round).collect();
    let numbers: BTreeMap<&str, u32> = rounds.into_iter().zip(0..).collect();
    let row = |(n, round, x): &Point| round.map(|round| (*n, numbers[round], *x));
    match points.iter().map(row).collect::<Option<Vec<_>>>() {
        Some(rows) => Series::new(name, &rows),
        None => Series::unpaired(name, &points.iter().map(|(n, _, x)| (*n, *x)).collect::<Vec<_>>()),
    }
}

fn within(what: &str, found: usize, limit: usize) -> Result<(), Fault> {
    if found > limit {
        Err(Fault::whole(format!("it has {found} {what}, and the limit is {limit}")))
    } else {
        Ok(())
    }
}

/// Which column is what.
struct Columns {
    clients: usize,
    throughput: usize,
    names: Vec<usize>,
    /// Columns of settings that differ, with their names.
    settings: Vec<(usize, String)>,
}

impl Columns {
    fn of(sheet: &Sheet) -> Result<Columns, Fault> {
        if sheet.headless {
            return match sheet.heads.len() {
                0 => Err(Fault::whole("it is empty: nothing to fit")),
                2 => Ok(Columns { clients: 0, throughput: 1, names: vec![], settings: vec![] }),
                _ => Err(Fault::at(1, "without a head there are two columns: clients and throughput")),
            };
        }
        let heads: Vec<String> = sheet.heads.iter().map(|head| head.to_ascii_lowercase()).collect();
        let throughput = THROUGHPUT.iter().find_map(|word| heads.iter().position(|head| head == word));
        // A unit may follow: `throughput_mb_per_s`, `throughput (MB/s)`.
        let follows = |rest: &str| rest.starts_with(['_', ' ', '(', '[']);
        let with_unit =
            |head: &String| THROUGHPUT.iter().any(|word| head.strip_prefix(word).is_some_and(follows));
        let throughput = throughput.or_else(|| heads.iter().position(with_unit));
        let missing = |what: &str, words: &[&str]| {
            Fault::at(1, format!("no column is the {what}: call it one of {}", words.join(", ")))
        };
        let clients = heads.iter().position(|head| CLIENTS.contains(&head.as_str()));
        let clients = clients.or_else(|| heads.iter().position(|head| is_clients(head)));
        let clients = clients.ok_or_else(|| missing("number of clients", &CLIENTS))?;
        let taken = |at: &usize| {
            *at == clients || Some(*at) == sheet.round || OutcomeColumn::of(sheet, *at).is_some()
        };
        let others = (0..heads.len()).filter(|at| !taken(at));
        let (settings, others): (Vec<_>, Vec<_>) = others.partition(|at| is_setting(&heads[*at]));
        let (numbers, others): (Vec<_>, Vec<_>) = others.into_iter().partition(|at| sheet.is_of_numbers(*at));
        let only = <[usize; 1]>::try_from(numbers).ok().map(|[only]| only);
        let throughput = throughput.filter(|at| *at != clients).or(only);
        let throughput = throughput.ok_or_else(|| missing("throughput", &THROUGHPUT))?;
        if is_latency(&heads[throughput]) {
            let head = &sheet.heads[throughput];
            return Err(Fault::at(1, format!("column `{head}` is a latency, and a curve is of throughput")));
        }
        let names = others.into_iter().filter(|at| *at != throughput).collect();
        let varies = |at: &usize| sheet.rows.iter().any(|row| row[*at] != sheet.rows[0][*at]);
        let settings = settings.into_iter().filter(varies).map(|at| (at, sheet.heads[at].clone())).collect();
        Ok(Columns { clients, throughput, names, settings })
    }

    /// The name of the curve, the number of clients and the throughput.
    fn read(&self, row: &StringRecord) -> Result<(String, f64, f64), Fault> {
        let line = row.position().map_or(0, csv::Position::line) as usize;
        let number = |at: usize, what: &str| {
            let text = &row[at];
            text.parse::<f64>().map_err(|_| Fault::at(line, format!("the {what} `{text}` is not a number")))
        };
        let setting = |(at, head): &(usize, String)| format!("{head}={}", &row[*at]);
        let names = self.names.iter().map(|at| row[*at].to_string());
        let name: Vec<String> = names.chain(self.settings.iter().map(setting)).collect();
        let name = if name.is_empty() { "throughput".to_string() } else { name.join(" ") };
        Ok((name, number(self.clients, "number of clients")?, number(self.throughput, "throughput")?))
    }
}

/// Whether a column is a latency by its words: `latency_ms`, `p99`, `time (s)`; `ops_per_s` is none.
fn is_latency(head: &str) -> bool {
    let words: Vec<&str> =
        head.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty()).collect();
    let per = words.windows(2).any(|pair| pair[0] == "per" || pair[1] == "per") || head.contains("/s");
    let rate = per || words.iter().any(|word| THROUGHPUT.contains(word) && !["x", "value"].contains(word));
    let time = words.iter().any(|word| LATENCY.contains(word));
    // `mb_s` is a rate: the unit behind it is a second of something.
    let unit = words
        .iter()
        .any(|word| ["mb", "mib", "kb", "kib", "gb", "gib", "b", "bytes", "ops", "req"].contains(word));
    time && !rate && !unit
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(bytes: &[u8]) -> Result<Vec<Series>, Fault> {
        curves(bytes).map(|curves| curves.series)
    }

    #[test]
    fn failed_runs_and_absent_values_are_no_points() {
        let text = "n,x,exit_code\n1,10,0\n2,19,0\n2,1,137\n4,NA,0\n2,2,1\n2,3,1\n";
        let found = curves(text.as_bytes()).unwrap();
        assert_eq!(found.series[0].x, [[10.0], [19.0]]);
        assert_eq!(found.left_out.as_deref(), Some("2 runs: exit_code is 1; 1 run: exit_code is 137"));
        assert!(
            fault("n,x,status\n1,10,failed\n2,9,failed\n")
                .contains("no row has a throughput; left out: 2 runs")
        );
    }

    fn fault(text: &str) -> String {
        let fault = parse(text.as_bytes()).unwrap_err();
        format!("{:?} {}", fault.line, fault.message)
    }

    #[test]
    fn any_file_of_clients_and_throughput_is_read() {
        let bare = parse(b"1,10\n2,20\n4,30\n4,32\n").unwrap();
        assert_eq!((bare.len(), bare[0].n.as_slice()), (1, [1.0, 2.0, 4.0].as_slice()));
        assert_eq!(
            (&*bare[0].x[2], bare[0].paired),
            ([30.0, 32.0].as_slice(), false),
            "repeats are no rounds"
        );
        let named =
            parse(b"fs,clients,round,throughput_mb_per_s\next4,1,0,5\next4,2,0,9\nxfs,1,0,6\nxfs,2,0,8\n")
                .unwrap();
        assert_eq!(named.iter().map(|s| s.name.as_str()).collect::<Vec<_>>(), ["ext4", "xfs"]);
        let by_type = parse(b"n,mbps\n1,5\n2,9\n").unwrap();
        assert_eq!(by_type[0].x, [[5.0], [9.0]]);
    }

    #[test]
    fn settings_tell_curves_apart() {
        let text = "threads,block_size,iops\n1,4096,100\n2,4096,190\n1,1048576,10\n2,1048576,11\n";
        let curves = parse(text.as_bytes()).unwrap();
        let names: Vec<&str> = curves.iter().map(|curve| curve.name.as_str()).collect();
        assert_eq!(names, ["block_size=1048576", "block_size=4096"]);
        assert_eq!(curves[1].x, [[100.0], [190.0]]);
    }

    #[test]
    fn the_order_of_rows_changes_nothing() {
        let said = |rows: &[String]| {
            let curves = parse(rows.concat().as_bytes()).unwrap();
            let all: Vec<_> =
                curves.into_iter().map(|curve| fsarena_stats::scaling::analyse(curve, 1)).collect();
            crate::scaling::page("f", &all, true).json.to_string()
        };
        for (head, round) in [("n,round,x\n", true), ("n,x\n", false)] {
            let value = |at: u32| {
                (at % 5 + 1, at / 5, 100.0 + 17.0 * f64::from(at % 5) + 3.1 * f64::from(at * at % 7))
            };
            let row = |(n, at, x)| if round { format!("{n},{at},{x}\n") } else { format!("{n},{x}\n") };
            let rows: Vec<String> = (0..50).map(value).map(row).collect();
            let ordered = said(&[&[head.to_string()], &*rows].concat());
            assert!(ordered.contains(&format!("\"paired\":{round}")), "{ordered}");
            for step in [7, 13, 49] {
                let shuffled = (0..50).map(|at| rows[at * step % 50].clone());
                assert_eq!(
                    said(&std::iter::once(head.to_string()).chain(shuffled).collect::<Vec<_>>()),
                    ordered
                );
            }
        }
        // A value without its round ends the pairing.
        let gap = parse(b"n,round,x\n1,a,1\n2,a,2\n1,b,1\n2,,2\n").unwrap();
        assert_eq!((gap[0].paired, gap[0].rounds()), (false, 2));
    }

    #[test]
    fn columns_are_found_in_any_order() {
        for text in [
            "jobs_per_s,clients\n5,1\n9,2\n",
            "n_ops,iops,num_clients\n7,5,1\n8,9,2\n",
            "# iops,threads\n5,1\n9,2\n",
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
    fn latencies_are_no_throughput() {
        for head in ["latency_ms", "p99", "time (s)", "value_us"] {
            let said = fault(&format!("threads,{head}\n1,1\n2,1.5\n"));
            assert!(said.contains(&format!("column `{head}` is a latency")), "{said}");
        }
        for head in ["mb_s", "ops_per_s", "MiB/s", "throughput_mb_per_s"] {
            parse(format!("threads,{head}\n1,1\n2,1.5\n").as_bytes()).unwrap();
        }
    }

    #[test]
    fn faults_name_their_line_and_what_would_be_right() {
        assert_eq!(fault(""), "None it is empty: nothing to fit");
        assert!(fault("1,2,3\n").contains("two columns"));
        assert!(fault("a,b\nx,2\n").contains("call it one of n, clients"));
        assert!(fault("n,foo,bar\n1,2,3\n").contains("no column is the throughput"));
        assert_eq!(fault("n,x\n1,2\n2,many\n"), "Some(3) the throughput `many` is not a number");
        assert!(fault("n,x\n1,0\n2,1\n").contains("not above 0"));
    }
}
