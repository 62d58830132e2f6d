//! The importer of the Go benchmark format, which `go test -bench` prints and benchstat reads
//! (golang.org/design/14313-benchmark-format).

use super::importer::{FileFault, Importer};
use super::series::{Conditions, SampleCollector, ToolRun, direction_of_unit};
use super::text::parse_number;
use fsarena_core::sample::Direction;
use std::collections::BTreeMap;

/// The key of the configuration lines that state the round.
const ROUND_KEY: &str = "round";

/// The importer of Go benchmark text.
pub const GOBENCH: Importer = Importer {
    id: "gobench",
    help: "Go benchmark text; a configuration line `round: N` pairs the results after it",
    recognises: |text| text.lines().any(|line| parse_result(line).is_some()),
    lead_metrics: &["ns/op"],
    read: read_gobench_output,
};

/// The package whose results are being read. Its last line states whether it passed.
#[derive(Default)]
struct Package {
    results: Vec<ToolRun>,
    /// The names of the benchmarks that failed.
    failed_benchmarks: Vec<String>,
    /// Whether the line `PASS` was read. The package can still fail, if its program then exits with an error.
    has_printed_pass: bool,
}

impl Package {
    /// Adds the results of the package. The results of failed benchmarks are left out. If the package failed without a failed
    /// benchmark, all its results are left out.
    fn finish(&mut self, passed: bool, collector: &mut SampleCollector) {
        for name in &self.failed_benchmarks {
            // A failed run of a benchmark has no result line. A result with its name is from another run (`-count`).
            collector.leave_out("run", name, "it failed (FAIL)");
        }
        for mut result in std::mem::take(&mut self.results) {
            if self.failed_benchmarks.contains(&result.subject) {
                result.failure = Some("the benchmark failed (FAIL)".into());
            } else if !passed && self.failed_benchmarks.is_empty() {
                result.failure = Some("the package failed (FAIL)".into());
            }
            collector.add_run(result);
        }
        self.failed_benchmarks.clear();
        self.has_printed_pass = false;
    }

    /// Finishes the package if it has printed `PASS`, before a benchmark of the next package.
    fn finish_if_passed(&mut self, collector: &mut SampleCollector) {
        if self.has_printed_pass {
            self.finish(true, collector);
        }
    }
}

/// Reads benchmark results line by line. Configuration lines and `Unit` lines apply to the results after them.
fn read_gobench_output(text: &str, collector: &mut SampleCollector) -> Result<(), FileFault> {
    let mut round: Option<String> = None;
    let mut directions: BTreeMap<String, Direction> = BTreeMap::new();
    let (mut conditions, mut package) = (Conditions::default(), Package::default());
    for (line_number, line) in (1..).zip(text.lines()) {
        let failed_benchmark =
            line.split_once("--- FAIL: Benchmark").and_then(|(_, name)| name.split_whitespace().next());
        if let Some(name) = failed_benchmark {
            package.finish_if_passed(collector);
            package.failed_benchmarks.push(name.to_string());
        } else if line.split([' ', '\t']).next() == Some("PASS") {
            package.has_printed_pass = true;
        } else if let Some(passed) = parse_package_end(line) {
            package.finish(passed, collector);
        } else if let Some((key, value)) = parse_configuration(line) {
            match key {
                ROUND_KEY => round = Some(value.to_string()).filter(|number| !number.is_empty()),
                // If the package before had no last line (`ok`, `FAIL`), it ends here and counts as passed.
                "pkg" => {
                    package.finish(true, collector);
                    conditions.set(key, value);
                }
                _ => conditions.set(key, value),
            }
        } else if let Some(rest) = line.strip_prefix("Unit ") {
            directions.extend(parse_unit_line(rest));
        } else if let Some((name, values_and_units)) = parse_result(line) {
            let mut result = ToolRun::new(name, &conditions);
            result.round.clone_from(&round);
            for value_and_unit in values_and_units.chunks(2) {
                let [value, unit] = value_and_unit else {
                    return Err(FileFault::in_line(line_number, "a value without its unit"));
                };
                let value = parse_number(line_number, value, &format!("before {unit} is not a number"))?;
                let direction = directions.get(*unit).copied().or_else(|| direction_of_unit(unit));
                // Like benchstat, lower is better unless the unit or a `Unit` line says otherwise.
                let direction = direction.unwrap_or(Direction::Lower);
                result.add_directed_figure(unit, unit, direction, Some(value));
            }
            package.finish_if_passed(collector);
            package.results.push(result);
        }
    }
    // A package without a last line counts as passed.
    package.finish(true, collector);
    Ok(())
}

/// Whether the package passed, from the line that ends it: `ok pkg 1s`, `FAIL`, `FAIL pkg 1s`, `panic: …`. `None` for other
/// lines.
fn parse_package_end(line: &str) -> Option<bool> {
    let word = line.split([' ', '\t']).next()?;
    match word {
        "ok" => Some(true),
        "FAIL" | "panic:" => Some(false),
        _ => None,
    }
}

/// The key and the value of a configuration line: `pkg: example.com/fast`. A key begins with a lower-case letter.
fn parse_configuration(line: &str) -> Option<(&str, &str)> {
    let (key, value) = line.split_once(':')?;
    let is_key = key.starts_with(char::is_lowercase) && !key.contains(|c: char| c.is_whitespace() || c.is_uppercase());
    let is_separated = value.is_empty() || value.starts_with([' ', '\t']);
    (is_key && is_separated && key != "panic").then(|| (key, value.trim()))
}

/// The name in a result line, and the fields after the number of iterations: each value and then its unit. For
/// `BenchmarkName-8 1000 123 ns/op 45 B/op` they are `Name-8` and `123 ns/op 45 B/op`. The last unit may be missing.
fn parse_result(line: &str) -> Option<(&str, Vec<&str>)> {
    let mut fields = line.split_whitespace();
    let name = fields.next()?.strip_prefix("Benchmark").filter(|_| line.starts_with("Benchmark"))?;
    fields.next()?.parse::<u64>().ok()?;
    let values_and_units: Vec<&str> = fields.collect();
    (!values_and_units.is_empty()).then_some((name, values_and_units))
}

/// The unit and its direction in the rest of a `Unit` line: `ns/op better=lower`.
fn parse_unit_line(rest: &str) -> Option<(String, Direction)> {
    let mut fields = rest.split_whitespace();
    let unit = fields.next()?.to_string();
    let direction = fields.find_map(|field| match field {
        "better=higher" => Some(Direction::Higher),
        "better=lower" => Some(Direction::Lower),
        _ => None,
    })?;
    Some((unit, direction))
}

#[cfg(test)]
mod tests {
    use super::super::{Samples, parse};
    use fsarena_core::sample::Direction;

    fn names_and_values(samples: &Samples) -> Vec<(&str, Vec<f64>)> {
        samples.series.iter().map(|series| (series.name.as_str(), series.values.clone())).collect()
    }

    #[test]
    fn each_unit_is_a_metric() {
        let text = "goos: linux\nUnit hits better=higher\nround: 3\n\
                    BenchmarkCopy/fs=ext4-8 \t 100\t 12.5 ns/op\t 3 hits\t 80 MB/s\nPASS\n";
        let samples = parse("a.txt", text.as_bytes(), None).unwrap();
        assert_eq!(samples.format, "gobench");
        let shown: Vec<_> =
            samples.series.iter().map(|series| (series.metric.as_str(), series.direction, series.values[0])).collect();
        let (up, down) = (Direction::Higher, Direction::Lower);
        assert_eq!(shown, [("ns/op", down, 12.5), ("hits", up, 3.0), ("MB/s", up, 80.0)]);
        assert_eq!(samples.series[0].name, "Copy/fs=ext4-8");
        assert!(samples.series[0].rounds.as_ref().unwrap().contains_key("3"));
    }

    #[test]
    fn packages_and_configuration_lines_separate_series() {
        let text = "pkg: a\nBenchmarkX 1 5 ns/op\nPASS\npkg: b\nnote: cold\nBenchmarkX 1 9 ns/op\nnote: warm\n\
                    BenchmarkX 1 7 ns/op\n";
        let samples = parse("a.txt", text.as_bytes(), None).unwrap();
        let expected = [("X[pkg=a]", vec![5.0]), ("X[pkg=b,note=cold]", vec![9.0]), ("X[pkg=b,note=warm]", vec![7.0])];
        assert_eq!(names_and_values(&samples), expected);
    }

    #[test]
    fn failed_benchmarks_and_packages_are_left_out() {
        let text = "pkg: a\nBenchmarkX-8 1 5 ns/op\nBenchmarkY-8 \t--- FAIL: BenchmarkY-8\n    y.go:5: no\nFAIL\n\
                    pkg: b\nBenchmarkZ-8 1 9 ns/op\npanic: no\nFAIL\tb\t1s\n";
        let samples = parse("a.txt", text.as_bytes(), None).unwrap();
        assert_eq!(names_and_values(&samples), [("X-8", vec![5.0])]);
        let left_out: Vec<String> = samples.left_out.iter().map(ToString::to_string).collect();
        assert_eq!(left_out, ["1 run of Y-8: it failed (FAIL)", "1 run of Z-8: the package failed (FAIL)"]);
    }

    #[test]
    fn a_package_can_fail_after_its_benchmarks_passed() {
        let text =
            "pkg: b\nBenchmarkY 1 9 ns/op\nPASS\npkg: a\nBenchmarkX 1 5 ns/op\nPASS\nexit status 1\nFAIL\ta\t1s\n";
        let samples = parse("a.txt", text.as_bytes(), None).unwrap();
        assert_eq!((names_and_values(&samples), samples.left_out.len()), (vec![("Y", vec![9.0])], 1));
    }

    #[test]
    fn a_package_line_ends_the_package_before() {
        let text = "pkg: a\nBenchmarkX 1 5 ns/op\npkg: b\nBenchmarkZ 1 9 ns/op\npanic: no\nFAIL\tb\t1s\n";
        let samples = parse("a.txt", text.as_bytes(), None).unwrap();
        assert_eq!((names_and_values(&samples), samples.left_out.len()), (vec![("X", vec![5.0])], 1));
    }

    #[test]
    fn errors_name_the_line() {
        let error = |text: &str| parse("a", text.as_bytes(), None).unwrap_err().to_string();
        assert_eq!(error("ok\nBenchmarkX 1 2 ns/op 3\n"), "a, line 2: a value without its unit");
        assert_eq!(error("BenchmarkX 1 many ns/op\n"), "a, line 1: `many` before ns/op is not a number");
    }
}
