//! hyperfine: `--export-json`.

use super::importer::{Fault, Importer};
use super::reading::{Conditions, Reading};
use super::series::Collector;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// hyperfine's JSON.
pub const HYPERFINE: Importer = Importer {
    id: "hyperfine",
    help: "JSON of `hyperfine --export-json`: the time of every run of each command",
    recognises: |text| {
        text.trim_start().starts_with('{') && text.contains("\"results\"") && text.contains("\"command\"")
    },
    leads: &["time"],
    read,
};

#[derive(Deserialize)]
struct Export {
    results: Vec<Benchmark>,
}

#[derive(Deserialize)]
struct Benchmark {
    command: String,
    #[serde(default)]
    times: Vec<f64>,
    /// One for each time; none for a command that a signal ended. Versions before 1.12 have no such list.
    exit_codes: Option<Vec<Option<i32>>>,
    #[serde(default)]
    parameters: BTreeMap<String, Value>,
}

fn read(text: &str, into: &mut Collector) -> Result<(), Fault> {
    let export: Export =
        serde_json::from_str(text).map_err(|error| Fault::at(error.line(), error.to_string()))?;
    // Results of one name were other commands: `--command-name` gives any name to any of them.
    let mut results: BTreeMap<(String, Conditions), u32> = BTreeMap::new();
    for benchmark in export.results {
        if benchmark.times.is_empty() {
            let message = format!("command `{}` has no list of times, only a summary", benchmark.command);
            return Err(Fault::whole(message));
        }
        let mut conditions = Conditions::default();
        for (name, value) in &benchmark.parameters {
            conditions.set(name, value.as_str().map_or_else(|| value.to_string(), String::from));
        }
        let result = results.entry((benchmark.command.clone(), conditions.clone())).or_insert(0);
        *result += 1;
        conditions.set("result", result.to_string());
        let codes = benchmark.exit_codes.unwrap_or_else(|| vec![Some(0); benchmark.times.len()]);
        if codes.len() != benchmark.times.len() {
            let message = format!(
                "command `{}` has {} times and {} exit codes",
                benchmark.command,
                benchmark.times.len(),
                codes.len()
            );
            return Err(Fault::whole(message));
        }
        for (time, code) in benchmark.times.iter().zip(codes) {
            let mut run = Reading::of(&benchmark.command, &conditions);
            run.failed = match code {
                Some(0) => None,
                Some(code) => Some(format!("exit code {code}")),
                None => Some("ended by a signal".into()),
            };
            run.figure("time", "s", Some(*time));
            into.take(run);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::parse;

    #[test]
    fn every_time_of_every_command() {
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
    fn runs_that_failed_are_left_out_and_results_of_one_name_are_told_apart() {
        let json = r#"{"results": [
            {"command": "cp", "times": [0.1, 0.2, 0.3], "exit_codes": [0, 1, null]},
            {"command": "cp", "times": [0.9]}]}"#;
        let samples = parse("a.json", json.as_bytes(), None).unwrap();
        let shown: Vec<_> = samples.series.iter().map(|s| (s.name.as_str(), s.values.clone())).collect();
        assert_eq!(shown, [("cp[result=1]", vec![0.1]), ("cp[result=2]", vec![0.9])]);
        let left_out: Vec<String> = samples.left_out.iter().map(ToString::to_string).collect();
        assert_eq!(left_out, ["1 run of cp: exit code 1", "1 run of cp: ended by a signal"]);
    }

    #[test]
    fn faults_have_their_line() {
        let error = parse("a.json", b"{\"results\": [\n{\"command\": 3}]}", None).unwrap_err().to_string();
        assert!(error.starts_with("a.json, line 2: "), "{error}");
        let error = parse("a.json", br#"{"results": [{"command": "x", "mean": 1}]}"#, None).unwrap_err();
        assert!(error.to_string().contains("only a summary"));
        let json = br#"{"results": [{"command": "x", "times": [1.0], "exit_codes": []}]}"#;
        let error = parse("a.json", json, None).unwrap_err();
        assert!(error.to_string().contains("1 times and 0 exit codes"), "{error}");
    }
}
