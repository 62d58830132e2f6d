//! The importer of the output of `sysbench … run`, versions 0.4 to 1.1. Each run begins with a line that has the version.

use super::importer::{FileFault, Importer};
use super::series::{SampleCollector, ToolRun};

/// The importer of sysbench's text.
pub const SYSBENCH: Importer = Importer {
    id: "sysbench",
    help: "text of `sysbench … run`, one run after the other",
    recognises: |text| text.lines().any(|line| parse_first_line(line.trim()).is_some()),
    lead_metrics: &["transactions", "events", "reads", "writes", "requests", "queries", "transferred"],
    read: read_sysbench_output,
};

/// Lines that state a condition: the beginning of the line, and the name of the condition. The rest of the line is the
/// value.
const CONDITIONS: [(&str, &str); 19] = [
    ("Number of threads:", "threads"),
    ("Target transaction rate:", "rate"),
    ("Block size ", "block size"),
    ("block size:", "block size"),
    ("Memory block size:", "block size"),
    ("total size:", "total size"),
    ("Memory transfer size:", "total size"),
    ("operation:", "operation"),
    ("Memory operations type:", "operation"),
    ("scope:", "scope"),
    ("Memory scope type:", "scope"),
    ("Extra file open flags:", "flags"),
    ("Read/Write ratio for combined random IO test:", "read/write ratio"),
    ("Periodic FSYNC enabled, calling fsync()", "fsync"),
    ("Calling fsync() after", "fsync"),
    ("Using ", "I/O mode"),
    ("Prime numbers limit:", "prime limit"),
    ("Primer numbers limit:", "prime limit"),
    ("Maximum prime number checked in CPU test:", "prime limit"),
];

/// The labels of lines of the report, and the metric and the unit of their figures. If a line has a count and a rate,
/// `1234 (12.3 per sec.)`, the figure is the rate.
const REPORT_LABELS: [(&str, &str, &str); 17] = [
    ("reads/s", "reads", "/s"),
    ("writes/s", "writes", "/s"),
    ("fsyncs/s", "fsyncs", "/s"),
    ("read, MiB/s", "read", "MiB/s"),
    ("written, MiB/s", "written", "MiB/s"),
    ("events per second", "events", "/s"),
    ("events/s (eps)", "events", "/s"),
    ("transactions", "transactions", "/s"),
    ("queries", "queries", "/s"),
    ("read/write requests", "requests", "/s"),
    ("Operations performed", "operations", "/s"),
    ("Total operations", "operations", "/s"),
    ("avg", "latency", "ms"),
    ("percentile", "latency 95%", "ms"),
    ("max", "latency max", "ms"),
    ("total time", "time", "s"),
    ("time elapsed", "time", "s"),
];

/// Reads the output of several runs.
fn read_sysbench_output(text: &str, collector: &mut SampleCollector) -> Result<(), FileFault> {
    let mut run: Option<SysbenchRun> = None;
    for (line_number, line) in (1..).zip(text.lines().map(str::trim)) {
        if let Some(version) = parse_first_line(line) {
            if let Some(run) = run.take() {
                run.finish(collector);
            }
            run.insert(SysbenchRun::default()).tool_run.conditions.set("version", version);
        } else if let Some(run) = &mut run {
            run.read_line(line).map_err(|message| FileFault::in_line(line_number, message))?;
        }
    }
    if let Some(run) = run {
        run.finish(collector);
    }
    Ok(())
}

/// The version in the first line of a run: `sysbench 0.4.12:  multi-threaded system evaluation benchmark`.
fn parse_first_line(line: &str) -> Option<&str> {
    let version = line.strip_prefix("sysbench ")?.split([' ', ':']).next()?;
    version.starts_with(|c: char| c.is_ascii_digit()).then_some(version)
}

/// The run whose lines are being read.
#[derive(Default)]
struct SysbenchRun {
    /// The run as far as it has been read: its subject is the name of the test, such as `random r/w test`, and its figures are
    /// those of the last report.
    tool_run: ToolRun,
    /// The number of reports before the last one (`--report-checkpoints`).
    checkpoint_count: usize,
}

impl SysbenchRun {
    /// Adds the run to the samples. A run without a report counts as failed.
    fn finish(self, collector: &mut SampleCollector) {
        let SysbenchRun { mut tool_run, checkpoint_count } = self;
        if tool_run.figures.is_empty() {
            tool_run.failure.get_or_insert_with(|| "it has no report".into());
        }
        for _ in 0..checkpoint_count {
            collector.leave_out("report", &tool_run.subject, "a checkpoint before the end (--report-checkpoints)");
        }
        // sysbench prints 0 for operations that the test did not perform, and for times below 0.01 ms.
        tool_run.figures.retain(|figure| figure.value != 0.0);
        collector.add_run(tool_run);
    }

    /// Sets a figure, and replaces that of an earlier report.
    fn set_figure(&mut self, metric: &str, unit: &str, value: f64) {
        self.tool_run.figures.retain(|figure| figure.metric != metric);
        self.tool_run.add_figure(metric, unit, Some(value));
    }

    /// Reads one line of the output.
    ///
    /// # Errors
    /// A field that should be a number and is not.
    fn read_line(&mut self, line: &str) -> Result<(), String> {
        if let Some(test) = line.strip_prefix("Doing ") {
            self.tool_run.subject = test.trim_end_matches('.').to_string();
        } else if line.starts_with("Running memory speed test") {
            self.tool_run.subject = "memory speed test".into();
        } else if line == "SQL statistics:" || line == "OLTP test statistics:" {
            self.tool_run.subject = "OLTP test".into();
        } else if let Some(why) = line.strip_prefix("FATAL: ") {
            self.tool_run.failure.get_or_insert_with(|| why.to_string());
        } else if line.ends_with("Checkpoint report:") {
            self.checkpoint_count += usize::from(!self.tool_run.figures.is_empty());
        } else if let Some(size) = line.strip_suffix(" total file size") {
            self.tool_run.conditions.set("total size", normalise_size(size).as_deref().unwrap_or(size));
        } else if let Some((files, _)) = line.strip_suffix(" each").and_then(|line| line.split_once(" files, ")) {
            self.tool_run.conditions.set("files", files);
        } else if let Some((name, value)) = parse_condition(line) {
            if name == "prime limit" && self.tool_run.subject.is_empty() {
                self.tool_run.subject = "CPU performance benchmark".into();
            }
            self.tool_run.conditions.set(name, normalise_size(value).as_deref().unwrap_or(value));
        } else if let Some((label, rest)) = line.split_once(':') {
            return self.read_report_line(label.trim(), rest.trim());
        } else if let Some(rate) = line.strip_suffix("Requests/sec executed") {
            self.set_figure("requests", "/s", parse_number(rate, "Requests/sec")?);
        } else if line.starts_with("Read ") && line.contains("Total transferred") {
            if let Some(value) = in_parentheses(line).and_then(parse_mib_per_s) {
                self.set_figure("transferred", "MiB/s", value);
            }
        } else if line.contains(" transferred (") {
            let rate = in_parentheses(line).and_then(|rate| rate.split_whitespace().next()).unwrap_or("");
            if self.tool_run.subject.is_empty() {
                self.tool_run.subject = "memory speed test".into();
            }
            // Versions 0.4 and 0.5 print `MB` for MiB.
            self.set_figure("transferred", "MiB/s", parse_number(rate, "transferred")?);
        }
        Ok(())
    }

    /// Reads a line of the report: `avg: 0.21`, `95th percentile: 0.31`, `read:  IOPS=4.2 4.2 MiB/s (4.4 MB/s)`.
    fn read_report_line(&mut self, label: &str, rest: &str) -> Result<(), String> {
        if let Some(iops) = rest.strip_prefix("IOPS=") {
            let [rate_metric, bandwidth_metric] = match label {
                "read" => ["reads", "read"],
                "write" => ["writes", "written"],
                _ => ["fsyncs", ""],
            };
            let words: Vec<&str> = iops.split_whitespace().collect();
            self.set_figure(rate_metric, "/s", parse_number(words.first().unwrap_or(&""), "IOPS")?);
            if let [_, value, "MiB/s", ..] = words[..] {
                self.set_figure(bandwidth_metric, "MiB/s", parse_number(value, label)?);
            }
            return Ok(());
        }
        if label == "total number of events" && rest == "0" {
            self.tool_run.failure.get_or_insert_with(|| "it counted no event".into());
        }
        let rank = percentile_rank(label);
        let label = if rank.is_some() { "percentile" } else { label };
        let Some((_, metric, unit)) = REPORT_LABELS.iter().find(|(known, ..)| *known == label) else {
            return Ok(());
        };
        let value = match (in_parentheses(rest), *unit) {
            (Some(rate), _) => parse_number(rate.split_whitespace().next().unwrap_or(""), label)?,
            // Versions 0.4 and 0.5 print the counts of fileio under the label of a rate: `6000 Read, 4000 Write, …`.
            (None, "/s") if rest.contains(',') => return Ok(()),
            (None, "ms") => parse_milliseconds(rest, label)?,
            (None, _) => parse_number(rest.trim_end_matches('s'), label)?,
        };
        let metric = rank.map_or(metric.to_string(), |rank| format!("latency {rank}%"));
        self.set_figure(&metric, unit, value);
        Ok(())
    }
}

/// The name and the value of the condition that a line states.
fn parse_condition(line: &str) -> Option<(&'static str, &str)> {
    let (prefix, name) = CONDITIONS.iter().find(|(prefix, _)| line.starts_with(prefix))?;
    let value = line[prefix.len()..].trim();
    let value = match *name {
        "I/O mode" => value.strip_suffix(" I/O mode")?,
        "flags" if matches!(value, "0" | "(none)") => "",
        _ => value.trim_end_matches('.'),
    };
    Some((name, value))
}

/// The size in a form that all versions share: `16 KiB` for `16KiB`, and for `16Kb` and `16K` of versions 0.4 and 0.5. `None`
/// if the text is not a size.
fn normalise_size(text: &str) -> Option<String> {
    let size = text.strip_suffix("iB").or_else(|| text.strip_suffix('b')).unwrap_or(text);
    let prefix = size.chars().last().filter(|prefix| "KMGT".contains(*prefix))?;
    let number = size[..size.len() - 1].trim();
    number.parse::<f64>().ok().map(|_| format!("{number} {prefix}iB"))
}

/// The rank in a label: `95` of `95th percentile` and of `approx.  95 percentile`.
fn percentile_rank(label: &str) -> Option<&str> {
    let rank = label.strip_suffix("percentile")?.trim().trim_end_matches("th");
    let rank = rank.trim_start_matches("approx.").trim();
    (!rank.is_empty() && rank.bytes().all(|byte| byte.is_ascii_digit())).then_some(rank)
}

/// The text in the first pair of parentheses.
fn in_parentheses(text: &str) -> Option<&str> {
    text.split_once('(')?.1.split_once(')').map(|(inner, _)| inner)
}

/// Parses a time, and returns it in milliseconds: `0.21`, `0.21ms`, `0.0002s`.
fn parse_milliseconds(text: &str, label: &str) -> Result<f64, String> {
    match (text.strip_suffix("ms"), text.strip_suffix('s')) {
        (Some(ms), _) => parse_number(ms, label),
        (None, Some(seconds)) => parse_number(seconds, label).map(|seconds| seconds * 1e3),
        (None, None) => parse_number(text, label),
    }
}

/// Parses a rate like `18.9Mb/sec`, and returns it in MiB/s. Versions 0.4 and 0.5 write `b` for byte, with factors of 1024.
fn parse_mib_per_s(text: &str) -> Option<f64> {
    const PREFIXES: [(char, f64); 4] = [('K', 1.0 / 1024.0), ('M', 1.0), ('G', 1024.0), ('T', 1024.0 * 1024.0)];
    let text = text.strip_suffix("b/sec")?;
    let with_prefix = PREFIXES.iter().find_map(|(prefix, mib)| Some((text.strip_suffix(*prefix)?, *mib)));
    let (number, mib) = with_prefix.unwrap_or((text, 1.0 / 1024.0 / 1024.0));
    number.trim().parse::<f64>().ok().map(|value| value * mib)
}

/// Parses the number after a label.
///
/// # Errors
/// The text is not a number.
fn parse_number(text: &str, label: &str) -> Result<f64, String> {
    let text = text.trim();
    text.parse().map_err(|_| format!("`{text}` behind {label} is not a number"))
}

#[cfg(test)]
mod tests {
    use super::super::{Samples, parse};

    /// Two runs of sysbench 1.0.20, shortened.
    const TEXT: &str = "\
sysbench 1.0.20 (using system LuaJIT 2.1.0-beta3)

Number of threads: 1
Doing random r/w test
File operations:
    reads/s:                      8921.07
    writes/s:                     0.00
Throughput:
    read, MiB/s:                  139.39
General statistics:
    total time:                          1.0069s
    total number of events:              15150
Latency (ms):
         avg:                                    0.07
        95th percentile:                         0.21
sysbench 1.0.20 (using system LuaJIT 2.1.0-beta3)
Number of threads: 1
Doing random r/w test
    reads/s:                      9000.00
    transactions:                        2 (1.99 per sec.)
";

    /// A run of sysbench 0.4.12, shortened.
    const VERSION_0_4_TEXT: &str = "\
sysbench 0.4.12:  multi-threaded system evaluation benchmark

Number of threads: 4
Block size 16Kb
Periodic FSYNC enabled, calling fsync() each 100 requests.
Using synchronous I/O mode
Doing random r/w test
Operations performed:  6000 Read, 4000 Write, 12800 Other = 22800 Total
Read 93.75Mb  Written 62.5Mb  Total transferred 156.25Mb  (18.9Mb/sec)
 1209.67 Requests/sec executed

Test execution summary:
    total time:                          8.2667s
    per-request statistics:
         avg:                                  0.61ms
         approx.  95 percentile:               6.62ms
";

    fn parse_samples(text: &str) -> Samples {
        parse("a.txt", text.as_bytes(), None).unwrap()
    }

    fn values_of_metric(samples: &Samples, metric: &str) -> Vec<f64> {
        let series = samples.series.iter().filter(|series| series.metric == metric);
        series.flat_map(|series| series.values.clone()).collect()
    }

    #[test]
    fn each_report_is_a_run() {
        let samples = parse_samples(TEXT);
        assert_eq!(samples.format, "sysbench");
        assert_eq!(values_of_metric(&samples, "reads"), [8921.07, 9000.0]);
        assert_eq!(values_of_metric(&samples, "time"), [1.0069]);
        assert_eq!(values_of_metric(&samples, "transactions"), [1.99]);
        assert_eq!(values_of_metric(&samples, "latency 95%"), [0.21]);
        assert_eq!(values_of_metric(&samples, "writes"), [0.0; 0], "nothing was written");
        assert_eq!(samples.series[0].name, "random r/w test");
    }

    #[test]
    fn reports_of_version_0_4_are_read() {
        let samples = parse_samples(VERSION_0_4_TEXT);
        let shown: Vec<_> = samples.series.iter().map(|series| (series.metric.as_str(), series.values[0])).collect();
        let expected = [("requests", 1209.67), ("transferred", 18.9), ("time", 8.2667), ("latency", 0.61)];
        assert_eq!(shown[..4], expected);
        assert_eq!(shown[4], ("latency 95%", 6.62));
    }

    #[test]
    fn reports_of_version_1_1_are_read() {
        let samples = parse_samples(
            "sysbench 1.1.0 (using bundled LuaJIT)\nDoing random read test\n\
             read:  IOPS=1500.25 23.44 MiB/s (24.58 MB/s)\nwrite: IOPS=0.00 0.00 MiB/s (0.00 MB/s)\n\
             fsync: IOPS=0.00\n",
        );
        let shown: Vec<_> = samples.series.iter().map(|series| (series.metric.as_str(), series.values[0])).collect();
        assert_eq!(shown, [("reads", 1500.25), ("read", 23.44)]);
    }

    #[test]
    fn runs_with_different_settings_are_separate_series() {
        let samples =
            parse_samples(&format!("{VERSION_0_4_TEXT}{}", VERSION_0_4_TEXT.replace("threads: 4", "threads: 8")));
        let names: Vec<&str> = samples
            .series
            .iter()
            .filter(|series| series.metric == "requests")
            .map(|series| series.name.as_str())
            .collect();
        assert_eq!(names, ["random r/w test[threads=4]", "random r/w test[threads=8]"]);
    }

    #[test]
    fn failed_runs_are_left_out() {
        let failed = "sysbench 1.0.20 (x)\nDoing random read test\nFATAL: Cannot open file 'test_file.0'\n";
        let samples = parse_samples(&format!("{failed}{TEXT}"));
        assert_eq!(samples.left_out[0].to_string(), "1 run of random read test: Cannot open file 'test_file.0'");
        assert!(parse("a", b"sysbench 1.0.20 (x)\n", None).unwrap_err().to_string().contains("it has no report"));
    }

    #[test]
    fn errors_name_the_line() {
        let error = parse("a", TEXT.replace("0.07", "fast").as_bytes(), None).unwrap_err().to_string();
        assert_eq!(error, "a, line 14: `fast` behind avg is not a number");
    }
}
