//! Flags that several commands take.

use clap::ValueEnum;
use std::path::PathBuf;

/// How a listing is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ListFormat {
    /// A table for people.
    Term,
    /// JSON for programs.
    Json,
}

/// Where runs are kept.
#[derive(Debug, Clone, clap::Args)]
pub struct Runs {
    /// Directory that holds the runs, one directory each
    #[arg(
        long,
        value_name = "DIR",
        env = "FSARENA_RUNS",
        hide_env_values = true,
        default_value = "runs",
        global = true
    )]
    pub runs: PathBuf,
}

/// How figures are looked at.
#[derive(Debug, Clone, clap::Args)]
pub struct View {
    /// The difference that matters; under it variants are equivalent for claims that name none [default: the
    /// plan's, or 1%]
    #[arg(long, value_name = "PERCENT", value_parser = parse_percent, help_heading = "The report")]
    pub margin: Option<f64>,
    /// How much a task weighs in the ranking, by its name or number: `untar=3`; repeatable
    #[arg(long, value_name = "TASK=WEIGHT", value_parser = parse_weight, help_heading = "The report")]
    pub weight: Vec<(String, f64)>,
}

/// `1%` or `1`, as a fraction.
pub fn parse_percent(text: &str) -> Result<f64, String> {
    let number: Option<f64> = text.strip_suffix('%').unwrap_or(text).trim().parse().ok();
    match number.filter(|percent| (1e-4..=1e4).contains(percent)) {
        Some(percent) => Ok(percent / 100.0),
        None => Err("it is a percentage above 0: `1%`".into()),
    }
}

/// `TASK=WEIGHT`; a task may have parameters, in which `=` occurs.
fn parse_weight(text: &str) -> Result<(String, f64), String> {
    let split = text.rsplit_once('=').filter(|(task, _)| !task.is_empty());
    let parsed = split.and_then(|(task, weight)| Some((task.to_string(), weight.parse().ok()?)));
    parsed.ok_or_else(|| "write it TASK=WEIGHT: `untar=3`".into())
}
