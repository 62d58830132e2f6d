//! hyperfine: `--export-json`.

use super::importer::{Fault, Importer};
use super::series::Collector;
use serde::Deserialize;
use std::collections::BTreeMap;

/// hyperfine's JSON.
pub const HYPERFINE: Importer = Importer {
    id: "hyperfine",
    help: "JSON of `hyperfine --export-json`: the time of every run of each command",
    recognises: |text| {
        text.trim_start().starts_with('{') && text.contains("\"results\"") && text.contains("\"command\"")
    },
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
    #[serde(default)]
    parameters: BTreeMap<String, String>,
}

fn read(text: &str, into: &mut Collector) -> Result<(), Fault> {
    let export: Export =
        serde_json::from_str(text).map_err(|error| Fault::at(error.line(), error.to_string()))?;
    for benchmark in export.results {
        if benchmark.times.is_empty() {
            let message = format!("command `{}` has no list of times, only a summary", benchmark.command);
            return Err(Fault::whole(message));
        }
        let parameters = benchmark.parameters.iter().map(|(name, value)| format!(" {name}={value}"));
        let name = format!("{}{}", benchmark.command, parameters.collect::<String>());
        benchmark.times.iter().for_each(|value| into.add(&name, ("time", "s"), None, *value));
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
            {"command": "cp {n}", "times": [1.5], "parameters": {"n": "2"}}]}"#;
        let samples = parse("a.json", json.as_bytes(), None).unwrap();
        assert_eq!(samples.format, "hyperfine");
        assert_eq!(samples.series[0].values, [0.10, 0.11]);
        assert_eq!(samples.series[1].name, "cp {n} n=2");
    }

    #[test]
    fn faults_have_their_line() {
        let error = parse("a.json", b"{\"results\": [\n{\"command\": 3}]}", None).unwrap_err().to_string();
        assert!(error.starts_with("a.json, line 2: "), "{error}");
        let error = parse("a.json", br#"{"results": [{"command": "x", "mean": 1}]}"#, None).unwrap_err();
        assert!(error.to_string().contains("only a summary"));
    }
}
