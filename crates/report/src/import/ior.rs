//! The importer of IOR's results, versions 2.10 to 4.1, as text, as CSV (version 4.0 and later) and as JSON.

use super::importer::{FileFault, Importer};
use super::series::{Conditions, SampleCollector, ToolRun};
use super::text::{extract_options, find_json_documents, parse_number, parse_size, value_text};
use crate::matrix::format_size;
use serde_json::Value;

/// The importer of IOR's text, CSV and JSON.
pub const IOR: Importer = Importer {
    id: "ior",
    help: "text, CSV or JSON of IOR: bandwidth and time of each access, one run after the other",
    recognises: |text| {
        text.contains(BANNER)
            || text.contains("\"bwMiB\"")
            || text.lines().any(|line| line.starts_with(CSV_HEADER_START))
    },
    lead_metrics: &["bandwidth"],
    read: read_ior_output,
};

/// The end of the first line of a run.
const BANNER: &str = ": MPI Coordinated Test of Parallel I/O";
/// The beginning of the header line of IOR's CSV.
const CSV_HEADER_START: &str = "access,bw(MiB/s),";

/// The options that IOR prints before the results of a test, and the name of the condition that each states.
const CONDITIONS: [(&str, &str); 15] = [
    ("api", "api"),
    ("access", "access"),
    ("type", "type"),
    ("pattern", "segments"),
    ("segments", "segments"),
    ("ordering in a file", "ordering in a file"),
    ("ordering inter file", "ordering inter file"),
    ("nodes", "nodes"),
    ("tasks", "tasks"),
    ("clients", "tasks"),
    ("clients per node", "tasks per node"),
    ("xfersize", "xfer"),
    ("blocksize", "block"),
    ("stonewallingTime", "stonewalling"),
    ("Path", "path"),
];

/// The options that name a script (`-f`) or a test file (`-o`). [`extract_options`] leaves them out.
const FILE_OPTIONS: [&str; 2] = ["-o", "-f"];

/// Sets a condition. Sizes get the same form for all versions of IOR, which print `262144 bytes`, `256.00 KiB` or `1 MiB`.
fn set_condition(conditions: &mut Conditions, name: &str, value: &str) {
    let value = match name {
        "xfer" | "block" => parse_size(value).map_or(value.to_string(), format_size),
        // `4 (2 per node)`
        "tasks" => value.split_whitespace().next().unwrap_or("").to_string(),
        _ => value.to_string(),
    };
    conditions.set(name, value);
}

/// A run with the figures of one access, `write` or `read`: bandwidth in MiB/s, operations per second, and time in seconds.
fn access_run(access: &str, conditions: &Conditions, [bandwidth, iops, elapsed]: [Option<f64>; 3]) -> ToolRun {
    let mut run = ToolRun::new(access, conditions);
    run.add_figure("bandwidth", "MiB/s", bandwidth);
    run.add_figure("iops", "/s", iops);
    run.add_figure("elapsed", "s", elapsed);
    run
}

/// Reads IOR's output: either JSON documents, or the text or CSV of several runs of IOR. Adds a [`ToolRun`] for each result.
fn read_ior_output(text: &str, collector: &mut SampleCollector) -> Result<(), FileFault> {
    if text.contains("\"bwMiB\"") {
        for (_, document) in find_json_documents(text)? {
            add_json_document(&document, collector);
        }
        return Ok(());
    }
    let mut run = IorRun::default();
    for (line_number, line) in (1..).zip(text.lines()) {
        run.read_line(line_number, line, collector)?;
    }
    run.finish(collector);
    Ok(())
}

/// The run of IOR whose lines are being read.
#[derive(Default)]
struct IorRun {
    /// Whether the banner or the header line of the table has been read.
    has_started: bool,
    conditions: Conditions,
    /// The column headers of the table of results; empty outside of the table.
    headers: Vec<String>,
    /// Whether the header line of the summary has been read. Version 2.10 prints no other results.
    in_summary: bool,
    /// The number of rows read from the table of results.
    row_count: usize,
    /// Whether a result of version 2.10 has been read from the summary.
    has_summary_result: bool,
    /// The run of the last row, not yet added: the next line may state that its data check failed.
    pending_run: Option<ToolRun>,
    /// The first error that IOR printed.
    first_error: Option<String>,
}

impl IorRun {
    /// Adds the last row, and counts the run as left out if it failed or has no results. The rows that IOR printed before
    /// an error remain added: each of them is the complete result of one access.
    fn finish(self, collector: &mut SampleCollector) {
        if let Some(run) = self.pending_run {
            collector.add_run(run);
        }
        let has_result = self.row_count > 0 || self.has_summary_result;
        if self.has_started && (!has_result || self.first_error.is_some()) {
            collector.leave_out("run", "", &self.first_error.unwrap_or_else(|| "it has no results".into()));
        }
    }

    /// Reads one line; `line_number` counts from 1.
    fn read_line(&mut self, line_number: usize, line: &str, collector: &mut SampleCollector) -> Result<(), FileFault> {
        // Only the table in CSV has the column `numTasks`.
        let is_csv = line.starts_with(CSV_HEADER_START) || self.headers.iter().any(|header| header == "numTasks");
        let words: Vec<&str> =
            if is_csv { line.trim().split(',').collect() } else { line.split_ascii_whitespace().collect() };
        if let Some((program, _)) = line.split_once(BANNER) {
            std::mem::take(self).finish(collector);
            self.has_started = true;
            self.conditions.set("version", program.rsplit("IOR-").next().unwrap_or(""));
            return Ok(());
        }
        match words[..] {
            ["access", "bw(MiB/s)", ..] => {
                self.headers = words.iter().map(ToString::to_string).collect();
                self.has_started = true;
            }
            ["Options:"] | ["Summary:"] | ["Max", ..] => self.headers.clear(),
            ["Operation", ..] => {
                self.in_summary = true;
                self.headers.clear();
            }
            [access @ ("write" | "read"), ref figures @ ..] if figures.len() >= self.headers.len().max(4) - 1 => {
                if !self.headers.is_empty() {
                    self.read_row(line_number, access, &words, collector)?;
                } else if self.in_summary && self.row_count == 0 {
                    // The largest, the smallest and the mean bandwidth of all repetitions.
                    let mean = parse_number(line_number, figures[2], "is not a bandwidth")?;
                    collector.add_run(access_run(access, &self.conditions, [Some(mean), None, None]));
                    self.has_summary_result = true;
                }
            }
            _ if line.contains("incorrect data on") => {
                if let Some(run) = &mut self.pending_run {
                    run.failure = Some("it read or wrote incorrect data".into());
                }
            }
            ["ERROR:", ..] | ["ior", "ERROR:", ..] | ["ior:", ..] => {
                self.first_error.get_or_insert_with(|| line.trim().to_string());
            }
            _ => self.read_option(line),
        }
        Ok(())
    }

    /// Reads a line with an option that is a condition: `access             : file-per-process`, in older versions with `=`.
    fn read_option(&mut self, line: &str) {
        let Some((key, value)) = line.split_once([':', '=']) else { return };
        let key = key.trim();
        if key.starts_with("Command line") {
            self.conditions.set("options", extract_options(value, &FILE_OPTIONS));
        } else if let Some((_, name)) = CONDITIONS.iter().find(|(known, _)| *known == key) {
            if key == "api" {
                // `api` is the first option of a test, so the options of the next test of a script begin here. IOR prints the
                // version, the command line and the path before `api`.
                let mut conditions = Conditions::default();
                for name in ["version", "options", "path"] {
                    conditions.set(name, self.conditions.get(name).unwrap_or(""));
                }
                self.conditions = conditions;
            }
            set_condition(&mut self.conditions, name, value.trim());
        }
    }

    /// Reads a row of the table of results.
    fn read_row(
        &mut self,
        line_number: usize,
        access: &str,
        words: &[&str],
        collector: &mut SampleCollector,
    ) -> Result<(), FileFault> {
        let field = |header: &str| self.headers.iter().position(|known| known == header).map(|column| words[column]);
        let number = |header: &str, complaint: &str| match field(header) {
            None | Some("-") => Ok(None),
            Some(word) => parse_number(line_number, word, complaint).map(Some),
        };
        let mut conditions = self.conditions.clone();
        for (name, header) in [("xfer", "xfer(KiB)"), ("block", "block(KiB)"), ("tasks", "numTasks")] {
            let unit = if header.ends_with("(KiB)") { " KiB" } else { "" };
            if let (None, Some(value)) = (conditions.get(name), field(header)) {
                set_condition(&mut conditions, name, &format!("{value}{unit}"));
            }
        }
        let figures = [
            number("bw(MiB/s)", "is not a bandwidth")?,
            number("IOPS", "is not a number of operations")?,
            number("total(s)", "is not a time")?,
        ];
        self.row_count += 1;
        if let Some(previous_run) = self.pending_run.replace(access_run(access, &conditions, figures)) {
            collector.add_run(previous_run);
        }
        Ok(())
    }
}

/// Adds a [`ToolRun`] for each result in a document of IOR's JSON.
fn add_json_document(document: &Value, collector: &mut SampleCollector) {
    for test in document["tests"].as_array().into_iter().flatten() {
        let mut conditions = Conditions::default();
        for (key, name) in CONDITIONS {
            if let Some(value) = test["Options"].get(key).or_else(|| test.get(key)) {
                set_condition(&mut conditions, name, &value_text(value));
            }
        }
        conditions.set("options", extract_options(document["Command line"].as_str().unwrap_or(""), &FILE_OPTIONS));
        conditions.set("version", document["Version"].as_str().unwrap_or(""));
        let mut results = vec![];
        collect_leaves(&test["Results"], &mut results);
        for result in results {
            let Some(access @ ("write" | "read")) = result["access"].as_str() else { continue };
            let figures = ["bwMiB", "iops", "totalTime"].map(|name| result[name].as_f64());
            collector.add_run(access_run(access, &conditions, figures));
        }
    }
}

/// Adds the values in nested arrays to `leaves`. Some versions print an array of results for each repetition.
fn collect_leaves<'a>(value: &'a Value, leaves: &mut Vec<&'a Value>) {
    if let Value::Array(items) = value {
        for item in items {
            collect_leaves(item, leaves);
        }
    } else {
        leaves.push(value);
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Samples, names_metrics_and_values, parse};

    /// As IOR 4.1 prints it, shortened.
    const TEXT: &str = "\
IOR-4.1.0+dev: MPI Coordinated Test of Parallel I/O
Options:
access              : file-per-process
xfersize            : 262144 bytes

Results:

access    bw(MiB/s)  IOPS       Latency(s)  block(KiB) xfer(KiB)  open(s)    wr/rd(s)   close(s)   total(s)   iter
------    ---------  ----       ----------  ---------- ---------  --------   --------   --------   --------   ----
write     323.05     1300.18    0.001531    2048.00    256.00     0.000115   0.012306   0.000040   0.012382   0

read      17386      72707      0.000027    2048.00    256.00     0.000010   0.000220   0.000042   0.000230   0
remove    -          -          -           -          -          -          -          -          0.007972   0

Summary of all tests:
Operation   Max(MiB)   Min(MiB)  Mean(MiB)     StdDev
write         323.05     323.05     323.05       0.00
";

    fn parse_samples(text: &str) -> Samples {
        parse("a.txt", text.as_bytes(), None).unwrap()
    }

    #[test]
    fn bandwidth_is_the_first_series_and_rows_have_no_rounds() {
        let again = TEXT.replace("323.05     1300", "300.05     1300");
        let samples = parse_samples(&format!("{TEXT}{again}"));
        assert_eq!(samples.format, "ior");
        let shown = names_metrics_and_values(&samples);
        assert_eq!(shown[0], ("write", "bandwidth", vec![323.05, 300.05]));
        assert_eq!(shown[1], ("read", "bandwidth", vec![17386.0, 17386.0]));
        assert_eq!(shown[3], ("write", "elapsed", vec![0.012382, 0.012382]));
        assert_eq!(shown.len(), 6);
        assert!(samples.series.iter().all(|series| series.rounds.is_none()));
    }

    #[test]
    fn sizes_in_bytes_and_in_units_are_conditions() {
        let larger = TEXT.replace("262144 bytes", "1 MiB");
        let samples = parse_samples(&format!("launcher\n{TEXT}{larger}the end\n"));
        let names: Vec<&str> = names_metrics_and_values(&samples).into_iter().take(4).map(|(name, ..)| name).collect();
        assert_eq!(names, ["write[xfer=256 KiB]", "read[xfer=256 KiB]", "write[xfer=1 MiB]", "read[xfer=1 MiB]"]);
    }

    #[test]
    fn summaries_of_version_2_10_are_read() {
        let text = "IOR-2.10.3: MPI Coordinated Test of Parallel I/O\n\nSummary:\n\tapi                = POSIX\n\t\
                    xfersize           = 65536 bytes\n\tclients            = 2 (2 per node)\n\nOperation  Max (MiB)  \
                    Min (MiB)  Mean (MiB)   Std Dev\n---------  ---------\nwrite        5266.67    4486.02     \
                    4876.35    390.33   EXCEL\n\nMax Write: 5266.67 MiB/sec (5522.51 MB/sec)\n";
        let samples = parse_samples(&format!("{text}{}", text.replace("65536 bytes", "1 MiB")));
        assert_eq!(
            names_metrics_and_values(&samples),
            [("write[xfer=64 KiB]", "bandwidth", vec![4876.35]), ("write[xfer=1 MiB]", "bandwidth", vec![4876.35])]
        );
        assert_eq!(samples.left_out, []);
    }

    #[test]
    fn csv_and_json_are_read() {
        let csv = "access,bw(MiB/s),IOPS,Latency,block(KiB),xfer(KiB),open(s),wr/rd(s),close(s),total(s),numTasks,iter\n\
                   write,4427.2901,17996.4773,0.0001,4096.0000,256.0000,0.0000,0.0018,0.0000,0.0018,2,0\n";
        assert_eq!(names_metrics_and_values(&parse_samples(csv))[0], ("write", "bandwidth", vec![4427.2901]));
        let json = r#"{"Version": "4.0.0", "tests": [{"Options": {"tasks": 2}, "Results": [[
            {"access": "write", "bwMiB": 10.5, "iops": 3, "totalTime": 0.5}], [{"access": "remove", "totalTime": 1}]]}]}"#;
        assert_eq!(names_metrics_and_values(&parse_samples(json))[0], ("write", "bandwidth", vec![10.5]));
    }

    #[test]
    fn failed_runs_are_left_out() {
        let failed = "IOR-4.0.0: MPI Coordinated Test of Parallel I/O\nERROR: open64(\"x\") failed\n";
        let samples = parse_samples(&format!("{failed}{TEXT}"));
        assert_eq!(samples.left_out[0].to_string(), "1 run: ERROR: open64(\"x\") failed");
        let summary =
            "IOR-2.10.3: MPI Coordinated Test of Parallel I/O\nERROR: lost\nOperation  Max\nwrite 3.0 1.0 2.0 1.0\n";
        let samples = parse_samples(summary);
        assert_eq!(names_metrics_and_values(&samples), [("write", "bandwidth", vec![2.0])]);
        assert_eq!(samples.left_out[0].to_string(), "1 run: ERROR: lost");
        let wrong = TEXT.replace("\n\nread", "\nWARNING: incorrect data on write (2 errors found).\nread");
        assert_eq!(names_metrics_and_values(&parse_samples(&wrong))[0].0, "read");
    }

    #[test]
    fn errors_name_the_line() {
        let error = parse("a", TEXT.replace("17386", "fast").as_bytes(), None).unwrap_err().to_string();
        assert_eq!(error, "a, line 12: `fast` is not a bandwidth");
    }
}
