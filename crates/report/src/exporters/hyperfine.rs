//! hyperfine's JSON, for the programs that read that: one result for each variant and task.

use crate::exporter::{Exporter, write_json};
use crate::sampled::{Sampled, sampled};
use crate::{error::Error, report::Report};
use fsarena_stats::comparison::median;
use serde_json::{Value, json};
use std::io::Write;

/// The export of hyperfine.
pub const HYPERFINE: Exporter = Exporter::new(
    "hyperfine",
    "the JSON of `hyperfine --export-json`: elapsed times of each variant and task; it has no place for rounds",
    export,
);

fn export(report: &Report, out: &mut dyn Write) -> Result<(), Error> {
    let record = &report.record;
    let elapsed = sampled(record, "elapsed");
    let (user, system) = (sampled(record, "user"), sampled(record, "system"));
    let results: Vec<Value> = elapsed.iter().map(|one| result(one, &user, &system)).collect();
    write_json(&json!({ "results": results }), out)
}

fn result(one: &Sampled, user: &[Sampled], system: &[Sampled]) -> Value {
    let times = |one: &Sampled| one.values.iter().map(|(_, value)| *value).collect::<Vec<f64>>();
    let same = |all: &[Sampled]| {
        let mut all = all.iter();
        mean(&times(all.find(|other| other.variant == one.variant && other.task == one.task)?))
    };
    let (user, system, times) = (same(user), same(system), times(one));
    json!({
        "command": format!("{} on {}", one.task, one.variant),
        "mean": mean(&times),
        "stddev": deviation(&times),
        "median": median(&times),
        "user": user.unwrap_or(0.0),
        "system": system.unwrap_or(0.0),
        "min": times.iter().copied().reduce(f64::min),
        "max": times.iter().copied().reduce(f64::max),
        "times": times,
        "exit_codes": vec![0; times.len()],
    })
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// The sample standard deviation; null for one value, as hyperfine has it.
fn deviation(values: &[f64]) -> Option<f64> {
    let mean = mean(values).filter(|_| values.len() > 1)?;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    Some((squares / (values.len() - 1) as f64).sqrt())
}
