//! Flags that several commands share, and parsers for the values of flags.

use crate::failure::Failure;
use bytesize::ByteSize;
use clap::ValueEnum;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use fsarena_core::average::Average;
use fsarena_core::{metric::METRICS, names::find, plan::limits, sample::Unit};
use fsarena_run::config::Config;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub use fsarena_core::setting::size;

/// Format of a listing.
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
    /// Runs directory, with one directory for each run
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

impl Runs {
    /// The runs directory without `--runs`: that of the environment, of the config file, or `runs`.
    pub fn default_dir() -> PathBuf {
        let from_file = || Some(Config::load().ok()?.get("runs")?.value.into());
        std::env::var_os("FSARENA_RUNS").or_else(from_file).map_or_else(|| "runs".into(), PathBuf::from)
    }
}

/// How reports judge and weigh.
#[derive(Debug, Clone, clap::Args)]
pub struct View {
    /// Difference under which variants are equivalent, for claims without one [default: the plan's, or 1%]
    #[arg(long, value_name = "PERCENT", value_parser = parse_percent, help_heading = "Report")]
    pub margin: Option<f64>,
    /// Weight of a task in the ranking, by its name or number: `untar=3`; repeatable
    #[arg(long, value_name = "TASK=WEIGHT", value_parser = parse_weight, help_heading = "Report")]
    pub weight: Vec<(String, f64)>,
    /// Variant in use today: the headline keeps it unless another one is significantly better
    #[arg(long, value_name = "VARIANT", help_heading = "Report")]
    pub current: Option<String>,
    /// Print the whole report, not only what fits on a screen
    #[arg(long, help_heading = "Report")]
    pub full: bool,
}

/// Makes a path absolute. Plans store absolute paths, because a run can be resumed or recovered in another directory.
pub fn absolute(path: &Path) -> Result<PathBuf, Failure> {
    std::path::absolute(path).map_err(Failure::file(path))
}

/// The flag of a setting, with its value: `--guest-memory`, `--budget 4m`.
pub fn flag_text(name: &str, value: &str) -> String {
    let flag = format!("--{}", name.replace('_', "-"));
    if value.is_empty() { flag } else { format!("{flag} {value}") }
}

/// Reads a percentage, `1%` or `1`, as a fraction.
pub fn parse_percent(text: &str) -> Result<f64, String> {
    let number: Option<f64> = text.strip_suffix('%').unwrap_or(text).trim().parse().ok();
    match number.map(|percent| limits::difference(percent / 100.0)) {
        Some(Ok(fraction)) => Ok(fraction),
        _ => Err("write a percentage above 0% and at most 10000%: `1%`".into()),
    }
}

/// Reads `typical` or `mean`.
pub fn average() -> impl TypedValueParser<Value = Average> {
    let names = PossibleValuesParser::new(Average::ALL.map(Average::name));
    names.map(|name| Average::named(&name).unwrap_or_default())
}

/// Reads `TASK=WEIGHT`; a task may have parameters, in which `=` occurs.
fn parse_weight(text: &str) -> Result<(String, f64), String> {
    let split = text.rsplit_once('=').filter(|(task, _)| !task.is_empty());
    let parsed = split.and_then(|(task, weight)| Some((task.to_string(), weight.parse().ok()?)));
    parsed.ok_or_else(|| "write it TASK=WEIGHT: `untar=3`".into())
}

/// Reads a size as [`ByteSize`]: `4k`, `64KiB`, `1g`.
pub fn byte_size(text: &str) -> Result<ByteSize, String> {
    size(text).map(ByteSize)
}

/// Reads a time: `10s`, `2m`, `500ms`; a plain number is seconds.
pub fn time(text: &str) -> Result<Duration, String> {
    let seconds = match text.parse::<f64>() {
        Ok(seconds) => seconds,
        Err(_) => humantime::parse_duration(text)
            .map_err(|error| format!("{error}; write it like 10s or 2m"))?
            .as_secs_f64(),
    };
    limits::time(seconds)
}

/// Reads the name of a metric or reading. Accepts any name that ends with a unit, because it can be a metric that a command
/// of the run printed.
pub fn metric(text: &str) -> Result<String, String> {
    if Unit::suffixes().any(|suffix| text.ends_with(&format!("_{suffix}"))) {
        return Ok(text.into());
    }
    known_metric(text)
}

/// Reads the name of a metric or reading that fsarena itself measures.
pub fn known_metric(text: &str) -> Result<String, String> {
    let readings = fsarena_run::registry::readings().map(|reading| reading.id);
    let known: Vec<&str> = METRICS.iter().map(|metric| metric.spec.id).chain(readings).collect();
    let found = find("metric", text, known, |id| id)
        .map_err(|unknown| unknown.with_list_command("fsarena list metrics"));
    Ok(found?.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_number_is_seconds() {
        let seconds = |text: &str| time(text).map(|time| time.as_secs_f64());
        assert_eq!(["10", "0.7", "10s", "500ms"].map(|text| seconds(text).unwrap()), [10.0, 0.7, 10.0, 0.5]);
        assert!(["soon", "-1", "nan", "inf", "1e18", "1000years"].iter().all(|text| seconds(text).is_err()));
    }
}
