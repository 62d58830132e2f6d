//! hyperfine's JSON, for the programs that read that: one result for each variant and task.

use crate::exporter::{Exporter, write_json};
use crate::sampled::{Sampled, sampled};
use crate::{error::Error, report::Report};
use fsarena_stats::average::{mean, median, variance};
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
        let found = all.iter().find(|other| (other.task, other.variant) == (one.task, one.variant));
        found.map_or(0.0, |found| mean(times(found)))
    };
    let (user, system, times) = (same(user), same(system), times(one));
    json!({
        "command": format!("{} on {}", one.task, one.variant.name),
        "mean": mean(&times),
        // Null for one value, as hyperfine has it.
        "stddev": variance(&times).sqrt(),
        "median": median(&times),
        "user": user,
        "system": system,
        "min": times.iter().copied().reduce(f64::min),
        "max": times.iter().copied().reduce(f64::max),
        "times": times,
        "exit_codes": vec![0; times.len()],
    })
}
