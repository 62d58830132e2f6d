//! The Go benchmark format, for benchstat and its like: one line for each sample.

use crate::{error::Error, exporter::Exporter, report::Report, sampled::sampled};
use std::{collections::BTreeMap, io::Write};

/// Go benchmark text.
pub const GOBENCH: Exporter = Exporter::new(
    "gobench",
    "Go benchmark text for benchstat: times of each sample; configuration lines `round: N` keep the rounds",
    export,
);

/// The times that a line has, and their units there.
const TIMES: [(&str, &str); 5] = [
    ("elapsed", "ns/op"),
    ("synced", "synced-ns/op"),
    ("user", "user-ns/op"),
    ("system", "system-ns/op"),
    ("total_cpu", "total-cpu-ns/op"),
];

fn export(report: &Report, out: &mut dyn Write) -> Result<(), Error> {
    let record = &report.record;
    let mut lines: BTreeMap<u32, BTreeMap<String, String>> = BTreeMap::new();
    for (metric, unit) in TIMES {
        for one in sampled(record, metric) {
            let name =
                format!("Benchmark{}/variant={}", title(&one.task.to_string()), word(&one.variant.name));
            for (round, seconds) in one.values {
                let line = lines.entry(round).or_default().entry(name.clone()).or_default();
                line.push_str(&format!("\t{} {unit}", (seconds * 1e9).round()));
            }
        }
    }
    writeln!(out, "study: {}\nrun: {}", word(&record.plan.name), word(&record.id))?;
    for (round, lines) in lines {
        writeln!(out, "round: {round}")?;
        lines.iter().try_for_each(|(name, times)| writeln!(out, "{name}\t1{times}"))?;
    }
    Ok(())
}

/// The format separates by blanks.
fn word(text: &str) -> String {
    text.chars().map(|c| if c.is_whitespace() || c.is_control() { '_' } else { c }).collect()
}

/// What follows `Benchmark` begins in upper case.
fn title(text: &str) -> String {
    let mut word = word(text);
    if let Some(first) = word.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    word
}

#[cfg(test)]
mod tests {
    use super::title;

    #[test]
    fn names_hold_no_blanks() {
        assert_eq!(
            [title("rm tree\n"), title("größe"), title("über"), title("")],
            ["Rm_tree_", "Größe", "über", ""]
        );
    }
}
