//! The importer of mdtest's text, versions 1.8 to 4.1: the tables of rates and times that it prints at the end of a run.

use super::importer::{FileFault, Importer};
use super::series::{Conditions, SampleCollector, ToolRun};
use super::text::extract_options;

/// The importer of mdtest's text.
pub const MDTEST: Importer = Importer {
    id: "mdtest",
    help: "text of mdtest: the mean rate or time of each operation, one run after the other",
    recognises: |text| text.lines().any(|line| parse_first_line(line).is_some() || parse_table_title(line).is_some()),
    lead_metrics: &["rate"],
    read: read_mdtest_output,
};

/// The run of mdtest whose lines are being read.
#[derive(Default)]
struct MdtestRun {
    /// Whether the first line of the run has been read.
    has_started: bool,
    conditions: Conditions,
    /// The metric and the unit of the current table; `None` outside of a table.
    table: Option<(&'static str, &'static str)>,
    /// The number of tables read.
    table_count: usize,
    /// The first error that mdtest printed.
    first_error: Option<String>,
}

/// Reads the output of several runs.
fn read_mdtest_output(text: &str, collector: &mut SampleCollector) -> Result<(), FileFault> {
    let mut run = MdtestRun::default();
    for (line_number, line) in (1..).zip(text.lines()) {
        if let Some((version, rest)) = parse_first_line(line) {
            std::mem::take(&mut run).finish(collector);
            run.has_started = true;
            run.conditions.set("nodes", rest.rsplit_once(" on ").map_or("", |(_, nodes)| first_word(nodes)));
            run.conditions.set("tasks", first_word(rest));
            run.conditions.set("version", version);
        } else {
            run.read_line(line_number, line, collector)?;
        }
    }
    run.finish(collector);
    Ok(())
}

impl MdtestRun {
    /// Counts the run as left out if it has no table.
    fn finish(self, collector: &mut SampleCollector) {
        if self.has_started && self.table_count == 0 {
            collector.leave_out("run", "", &self.first_error.unwrap_or_else(|| "it has no summary".into()));
        }
    }

    /// Reads one line; `line_number` counts from 1.
    fn read_line(&mut self, line_number: usize, line: &str, collector: &mut SampleCollector) -> Result<(), FileFault> {
        if let Some(table) = parse_table_title(line) {
            self.table = Some(table);
            self.table_count += 1;
        } else if let Some(command) = line.strip_prefix("Command line used:") {
            self.conditions.set("options", extract_options(command, &["-d"]));
        } else if let Some(path) = line.strip_prefix("Path").and_then(|rest| rest.trim_start().strip_prefix(':')) {
            self.conditions.set("path", path);
        } else if let Some((tasks, items)) = line.split_once(" tasks, ").filter(|(tasks, _)| is_whole_number(tasks)) {
            self.conditions.set("tasks", tasks);
            self.conditions.set("items", items.split(" (").next().unwrap_or(""));
        } else if line.contains("ERROR") {
            self.first_error.get_or_insert_with(|| line.trim().to_string());
        } else if let Some((metric, unit)) = self.table {
            self.read_row(line_number, line, (metric, unit), collector)?;
        }
        Ok(())
    }

    /// Reads a row of the table: the operation, which can have several words, and four numbers, or seven with
    /// `--show-perrank-statistics`. The mean is the last but one. A line that is not a row ends the table.
    ///
    /// # Errors
    /// A row that has a word where a number should be.
    fn read_row(
        &mut self,
        line_number: usize,
        line: &str,
        (metric, unit): (&str, &str),
        collector: &mut SampleCollector,
    ) -> Result<(), FileFault> {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        if words.first().is_some_and(|word| *word == "Operation" || word.starts_with("---")) {
            return Ok(());
        }
        let number_count = words.iter().rev().take_while(|word| is_number_or_na(word)).count();
        let (name_words, numbers) = words.split_at(words.len() - number_count);
        if name_words.is_empty() || !line.starts_with("   ") || !matches!(number_count, 4 | 7) {
            self.table = None;
            let looks_like_a_row = line.starts_with("   ") && words.len() >= 6 && number_count > 0;
            return match name_words.last() {
                Some(word) if looks_like_a_row => {
                    Err(FileFault::in_line(line_number, format!("`{word}` is not a {metric}")))
                }
                _ => Ok(()),
            };
        }
        let name = name_words.join(" ");
        let name = name.trim_end_matches([':', ' ']);
        // mdtest prints 0 for an operation that did not run.
        let mean = numbers[number_count - 2].parse().ok().filter(|mean: &f64| *mean != 0.0);
        let mut tool_run = ToolRun::new(name, &self.conditions);
        tool_run.add_figure(metric, unit, mean);
        collector.add_run(tool_run);
        Ok(())
    }
}

fn is_number_or_na(word: &str) -> bool {
    word == "NA" || word.parse::<f64>().is_ok()
}

fn is_whole_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn first_word(text: &str) -> &str {
    text.split_whitespace().next().unwrap_or("")
}

/// The version and the text after `with` in the first line of a run:
/// `mdtest-4.1.0+dev was launched with 2 total task(s) on 1 node(s)`.
fn parse_first_line(line: &str) -> Option<(&str, &str)> {
    let (program, rest) = line.split_once(" was launched with ")?;
    Some((program.rsplit_once("mdtest-")?.1, rest))
}

/// The metric and the unit of a table, from its first line: `SUMMARY rate (in ops/sec): (of 1 iterations)`. Versions before
/// 3 have only rates, and print `SUMMARY: (of 1 iterations)`.
fn parse_table_title(line: &str) -> Option<(&'static str, &'static str)> {
    let rest = line.trim_start().strip_prefix("SUMMARY")?;
    if !rest.contains("iterations)") {
        return None;
    }
    if rest.starts_with(" time (in ms/op)") {
        Some(("time", "ms/op"))
    } else if rest.starts_with(" time") {
        Some(("time", "s"))
    } else {
        Some(("rate", "ops/s"))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Samples, parse};

    /// As mdtest 4.1 prints it, shortened.
    const TEXT: &str = "\
-- started at 11/24/2026 04:01:03 --

mdtest-4.1.0+dev was launched with 2 total task(s) on 1 node(s)
2 tasks, 100 files/directories

SUMMARY rate (in ops/sec): (of 2 iterations)
   Operation                     Max            Min           Mean        Std Dev
   ---------                     ---            ---           ----        -------
   Directory creation           5091.411       2776.232       3933.821       1637.078
   File stat                  546845.372       3543.983     275194.677     384172.096
   File read                       0.000          0.000          0.000          0.000
-- finished at 11/24/2026 04:01:04 --
";

    fn parse_samples(text: &str) -> Samples {
        parse("a.txt", text.as_bytes(), None).unwrap()
    }

    fn names_units_and_values(samples: &Samples) -> Vec<(&str, &str, Vec<f64>)> {
        samples
            .series
            .iter()
            .map(|series| (series.name.as_str(), series.unit.as_str(), series.values.clone()))
            .collect()
    }

    #[test]
    fn each_run_is_a_sample_and_zero_rates_are_missing() {
        let samples = parse_samples(&format!("{TEXT}{TEXT}"));
        assert_eq!(samples.format, "mdtest");
        assert_eq!(
            names_units_and_values(&samples),
            [("Directory creation", "ops/s", vec![3933.821; 2]), ("File stat", "ops/s", vec![275_194.677; 2])]
        );
        assert!(samples.series.iter().all(|series| series.rounds.is_none()));
    }

    #[test]
    fn a_line_of_numbers_alone_ends_the_table() {
        let numbers = "   1 2 3 4 5 6\n";
        let samples = parse_samples(&TEXT.replace("   File stat  ", &format!("{numbers}   File stat  ")));
        assert_eq!(names_units_and_values(&samples), [("Directory creation", "ops/s", vec![3933.821])]);
    }

    #[test]
    fn times_and_rates_are_different_metrics() {
        let times = "\nSUMMARY time (in ms/op): (of 1 iterations)\n   Operation   Max  Min  Mean  Std Dev\n   \
                     File stat          2.000          2.000          2.000          0.000\n";
        let samples = parse_samples(&TEXT.replace("-- finished", &format!("{times}-- finished")));
        assert_eq!(names_units_and_values(&samples)[2], ("File stat", "ms/op", vec![2.0]));
        assert_eq!((samples.series.len(), samples.series[2].metric.as_str()), (3, "time"));
    }

    #[test]
    fn version_1_9_and_per_rank_statistics_are_read() {
        let old = TEXT
            .replace("SUMMARY rate (in ops/sec)", "SUMMARY")
            .replace("File stat  ", "File stat         :")
            .replace("mdtest-4.1.0+dev", "mdtest-1.9.3");
        assert_eq!(names_units_and_values(&parse_samples(&old))[1], ("File stat", "ops/s", vec![275_194.677]));
        let ranks = TEXT.replace("creation  ", "creation 1.5 2.5 3.5 ");
        assert_eq!(names_units_and_values(&parse_samples(&ranks))[0], ("Directory creation", "ops/s", vec![3933.821]));
    }

    #[test]
    fn runs_with_other_tasks_are_separate_and_failed_runs_are_counted() {
        let cut = "mdtest-4.1.0 was launched with 8 total task(s) on 1 node(s)\nERROR: no space\n";
        let samples = parse_samples(&format!("{TEXT}{cut}{}", TEXT.replace("2 tasks", "4 tasks")));
        assert_eq!(names_units_and_values(&samples)[0].0, "Directory creation[tasks=2]");
        assert_eq!(names_units_and_values(&samples)[2].0, "Directory creation[tasks=4]");
        assert_eq!(samples.left_out[0].to_string(), "1 run: ERROR: no space");
    }

    #[test]
    fn errors_name_the_line() {
        let error = parse("a", TEXT.replace("3933.821", "fast").as_bytes(), None).unwrap_err().to_string();
        assert_eq!(error, "a, line 9: `fast` is not a rate");
    }
}
