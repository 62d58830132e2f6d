//! The part of `fsarena selftest` about scale grids: how often a bend is found that is not there, and how often the cost beyond the
//! data is outside its interval.

use super::headline::two_decimals;
use crate::failure::Outcome;
use crate::flags::ListFormat;
use crate::output;
use fsarena_core::row::Row;
use fsarena_stats::simulate::growth::{GrowthCheck, MOST_WRONG, ROUNDS};
use serde::Serialize;

/// How often runs under one law of growth were wrong.
#[derive(Serialize)]
pub struct GrowthRow {
    law: &'static str,
    runs: usize,
    /// The number of runs in which a bend was found.
    found_to_bend: usize,
    /// The number of runs in which a bend was excluded.
    bend_excluded: usize,
    /// The number of runs whose interval missed the true cost.
    missed: usize,
    wrong: usize,
    lower: f64,
    upper: f64,
    limit: f64,
    negative: bool,
    state: &'static str,
}

/// The rows of the table of laws of growth.
pub fn rows(checks: &[GrowthCheck]) -> Vec<GrowthRow> {
    let row = |check: &GrowthCheck| {
        let errors = check.errors();
        GrowthRow {
            law: check.truth.name(),
            runs: check.runs,
            found_to_bend: check.bends,
            bend_excluded: check.straight,
            missed: check.missed,
            wrong: errors.wrong,
            lower: errors.lower_limit(),
            upper: errors.upper_limit(),
            limit: MOST_WRONG,
            negative: check.is_negative(),
            state: check.state().name(),
        }
    };
    checks.iter().map(row).collect()
}

impl Row for GrowthRow {
    const COLUMNS: &'static [&'static str] = &[
        "law: LAW OF THE COST",
        "found_to_bend",
        "bend_excluded",
        "missed: INTERVAL MISSES",
        "limits: 95% LIMITS OF ERRORS",
        "limit: PROMISED",
        "state",
    ];

    fn table_text(&self, field: &str) -> Option<String> {
        let rate = |runs: usize| two_decimals(runs as f64 / self.runs as f64);
        match field {
            "found_to_bend" => Some(rate(self.found_to_bend)),
            "bend_excluded" => Some(rate(self.bend_excluded)),
            "missed" => Some(rate(self.missed)),
            "limits" => Some(format!("{} to {}", two_decimals(self.lower), two_decimals(self.upper))),
            "limit" => {
                let promise = if self.negative { "more than" } else { "at most" };
                Some(format!("{promise} {}", two_decimals(self.limit)))
            }
            _ => None,
        }
    }
}

/// Prints the table and what it shows.
pub fn print(checks: &[GrowthCheck]) -> Outcome {
    output::print_text("\n")?;
    output::print_rows(&rows(checks), ListFormat::Term)?;
    let runs = checks.first().map_or(0, |check| check.runs);
    output::print_text(format!(
        "\nIn how many of {runs} runs of {ROUNDS} rounds of a grid 1e4..1e6 the cost of a unit was found to bend, or not to bend, and its \
         interval at ten times the largest amount missed the truth. No data show a bend beyond them: there the interval must \
         miss.\n"
    ))
}
