//! The part of `fsarena selftest` about scale grids: how often a bend is found that is not there, and how often the cost beyond the
//! data is outside its interval.

use super::rates::{confidence_limits, percent};
use crate::failure::Outcome;
use crate::flags::ListFormat;
use crate::output;
use fsarena_core::row::Row;
use fsarena_stats::simulate::growth::{GrowthCheck, MOST_WRONG, ROUNDS};
use serde_json::{Value, json};

/// A row of the table of laws of growth.
#[derive(serde::Serialize)]
struct GrowthRow {
    law: &'static str,
    bends: String,
    straight: String,
    missed: String,
    limits: String,
    promise: String,
    state: &'static str,
}

impl From<&GrowthCheck> for GrowthRow {
    fn from(check: &GrowthCheck) -> GrowthRow {
        let rate = |runs: usize| percent(runs as f64 / check.runs as f64);
        let promise = if check.is_negative() { "more than" } else { "at most" };
        GrowthRow {
            law: check.truth.name(),
            bends: rate(check.bends),
            straight: rate(check.straight),
            missed: rate(check.missed),
            limits: confidence_limits(check.errors()),
            promise: format!("{promise} {}", percent(MOST_WRONG)),
            state: check.state().name(),
        }
    }
}

impl Row for GrowthRow {
    const COLUMNS: &'static [&'static str] = &[
        "law: LAW OF THE COST",
        "bends: FOUND TO BEND",
        "straight: BEND EXCLUDED",
        "missed: INTERVAL MISSES",
        "limits: 95% LIMITS OF ERRORS",
        "promise: PROMISED",
        "state",
    ];
}

/// Prints the table and what it shows.
pub fn print(checks: &[GrowthCheck]) -> Outcome {
    output::text("\n")?;
    output::rows(&checks.iter().map(GrowthRow::from).collect::<Vec<_>>(), ListFormat::Term)?;
    let runs = checks.first().map_or(0, |check| check.runs);
    output::text(format!(
        "\nIn how many of {runs} runs of {ROUNDS} rounds of a grid 1e4..1e6 the cost of a unit was found to bend, or not to bend, and its \
         interval at ten times the largest amount missed the truth. No data show a bend beyond them: there the interval must \
         miss.\n"
    ))
}

/// The checks as JSON.
pub fn as_json(checks: &[GrowthCheck]) -> Value {
    let check = |check: &GrowthCheck| {
        let errors = check.errors();
        json!({
            "law": check.truth.name(),
            "runs": check.runs,
            "found_to_bend": check.bends,
            "bend_excluded": check.straight,
            "missed": check.missed,
            "wrong": errors.wrong,
            "lower": errors.lower(),
            "upper": errors.upper(),
            "limit": MOST_WRONG,
            "negative": check.is_negative(),
            "state": check.state().name(),
        })
    };
    checks.iter().map(check).collect()
}
