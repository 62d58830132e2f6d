//! The importer of hyperfine's JSON (`--export-json`).

use super::importer::{FileFault, Importer};
use super::series::{Conditions, SampleCollector, ToolRun};
use super::text::{parse_documents_with, value_text};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// The importer of hyperfine's JSON.
pub const HYPERFINE: Importer = Importer {
    id: "hyperfine",
    help: "JSON of `hyperfine --export-json`: the time of every run of each command",
    recognises: |text| {
        ["\"results\"", "\"command\""].iter().all(|name| text.contains(name))
            && ["\"mean\"", "\"times\""].iter().any(|name| text.contains(name))
    },
    lead_metrics: &["time"],
    read: read_hyperfine_output,
};

/// One JSON document of hyperfine.
#[derive(Deserialize)]
struct Export {
    results: Vec<CommandResult>,
}

/// The result of one command.
#[derive(Deserialize, PartialEq)]
struct CommandResult {
    command: String,
    /// The time of each run, in seconds.
    #[serde(default)]
    times: Vec<f64>,
    /// The exit code of each run, null if a signal killed the command. Versions before 1.12 lack the list.
    exit_codes: Option<Vec<Option<i32>>>,
    #[serde(default)]
    parameters: BTreeMap<String, Value>,
}

/// Reads hyperfine's JSON documents, and adds their runs. If a document begins with all results of the previous one, only the later
/// one counts.
fn read_hyperfine_output(text: &str, collector: &mut SampleCollector) -> Result<(), FileFault> {
    let mut exports: Vec<Export> = vec![];
    for export in parse_documents_with::<Export>("results", text)? {
        // hyperfine writes the whole export again after each command. A file has only the last; a pipe has all of them.
        exports.pop_if(|before| export.results.starts_with(&before.results));
        exports.push(export);
    }
    for export in exports {
        add_export(export, collector)?;
    }
    Ok(())
}

/// Adds the runs of an export.
///
/// # Errors
/// A command without a list of times, or with a different number of exit codes.
fn add_export(export: Export, collector: &mut SampleCollector) -> Result<(), FileFault> {
    // Two results with the same name and parameters can be different commands, because `--command-name` sets any name.
    // Therefore the number of the result is a condition.
    let mut result_counts: BTreeMap<(String, Conditions), u32> = BTreeMap::new();
    for result in export.results {
        let (times, command) = (&result.times, &result.command);
        if times.is_empty() {
            return Err(FileFault::in_file(format!("command `{command}` has no list of times, only a summary")));
        }
        let mut conditions = Conditions::default();
        for (name, value) in &result.parameters {
            conditions.set(name, value_text(value));
        }
        let number = result_counts.entry((command.clone(), conditions.clone())).or_insert(0);
        *number += 1;
        conditions.set("result", number.to_string());
        let codes = result.exit_codes.unwrap_or_else(|| vec![Some(0); times.len()]);
        if codes.len() != times.len() {
            let message = format!("command `{command}` has {} times and {} exit codes", times.len(), codes.len());
            return Err(FileFault::in_file(message));
        }
        for (time, code) in times.iter().zip(codes) {
            let mut run = ToolRun::new(command, &conditions);
            run.failure = match code {
                Some(0) => None,
                Some(code) => Some(format!("exit code {code}")),
                None => Some("ended by a signal".into()),
            };
            run.add_figure("time", "s", Some(*time));
            collector.add_run(run);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::parse;

    #[test]
    fn each_time_of_each_command_is_a_sample() {
        let json = r#"{"results": [
            {"command": "sleep 0.1", "mean": 0.1, "times": [0.10, 0.11], "exit_codes": [0, 0]},
            {"command": "cp", "times": [1.5], "parameters": {"n": "2"}},
            {"command": "cp", "times": [2.5], "parameters": {"n": "3"}}]}"#;
        let samples = parse("a.json", json.as_bytes(), None).unwrap();
        assert_eq!(samples.format, "hyperfine");
        assert_eq!(samples.series[0].values, [0.10, 0.11]);
        let names: Vec<&str> = samples.series.iter().map(|series| series.name.as_str()).collect();
        assert_eq!(names, ["sleep 0.1", "cp[n=2]", "cp[n=3]"]);
    }

    #[test]
    fn failed_runs_are_left_out_and_results_of_one_name_are_separate() {
        let json = r#"{"results": [
            {"command": "cp", "times": [0.1, 0.2, 0.3], "exit_codes": [0, 1, null]},
            {"command": "cp", "times": [0.9]}]}"#;
        let samples = parse("a.json", json.as_bytes(), None).unwrap();
        let shown: Vec<_> = samples.series.iter().map(|series| (series.name.as_str(), series.values.clone())).collect();
        assert_eq!(shown, [("cp[result=1]", vec![0.1]), ("cp[result=2]", vec![0.9])]);
        let left_out: Vec<String> = samples.left_out.iter().map(ToString::to_string).collect();
        assert_eq!(left_out, ["1 run of cp: exit code 1", "1 run of cp: ended by a signal"]);
    }

    #[test]
    fn an_export_written_again_counts_once() {
        let result = r#"{"command": "a", "times": [0.1]}"#;
        let text = format!("Benchmark 1: a\n{{\"results\": [{result}]}}\n{{\"results\": [{result}, {result}]}}\n");
        let samples = parse("a.json", text.as_bytes(), None).unwrap();
        let shown: Vec<_> = samples.series.iter().map(|series| (series.name.as_str(), series.values.len())).collect();
        assert_eq!(shown, [("a[result=1]", 1), ("a[result=2]", 1)]);
    }

    #[test]
    fn errors_name_the_line() {
        let broken = b"{\"results\": [\n{\"command\": \"x\", \"times\": [}]}";
        let error = parse("a.json", broken, None).unwrap_err().to_string();
        assert!(error.starts_with("a.json, line 2: "), "{error}");
        let error = parse("a.json", b"{\"results\": [\n{\"command\": 3, \"mean\": 1}]}", None).unwrap_err();
        assert!(error.to_string().starts_with("a.json, line 1: in this document: "), "{error}");
        let error = parse("a.json", br#"{"results": [{"command": "x", "mean": 1}]}"#, None).unwrap_err();
        assert!(error.to_string().contains("only a summary"));
        let json = br#"{"results": [{"command": "x", "times": [1.0], "exit_codes": []}]}"#;
        let error = parse("a.json", json, None).unwrap_err();
        assert!(error.to_string().contains("1 times and 0 exit codes"), "{error}");
    }
}
