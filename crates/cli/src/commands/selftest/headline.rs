//! Prints how good the recommendation in the headline of a report is in simulated runs: how often it is a wrong variant, and
//! how soon it is the best one.

use crate::failure::Failure;
use crate::{flags::ListFormat, output};
use fsarena_core::{number::percent, row::Row};
use fsarena_stats::simulate::PromiseState;
use fsarena_stats::simulate::headline::{Answered, Wrong};
use fsarena_stats::{simulate::selftest::Report, table::LOOKS};
use serde_json::{Value, json};

/// Prints the tables of wrong recommendations and of recommendations in time.
pub fn print(selftest: &Report) -> Result<(), Failure> {
    output::text(format!(
        "\nHow often a report recommends a variant more than 5% worse than the best, at any of {} looks during the run:\n\n",
        LOOKS.len()
    ))?;
    output::rows(&selftest.wrong.iter().map(WrongRow::from).collect::<Vec<_>>(), ListFormat::Term)?;
    output::text("\nHow often a report recommends the best variant by the given round:\n\n")?;
    output::rows(&selftest.answered.iter().map(AnsweredRow::from).collect::<Vec<_>>(), ListFormat::Term)?;
    Ok(())
}

/// Whether the error rate that fsarena documents (the promise) is kept, in a word; `no promise` if it documents none.
fn state_name(state: Option<PromiseState>) -> &'static str {
    state.map_or("no promise", PromiseState::name)
}

/// A row: for one noise and spread, the simulated setting with the most wrong recommendations.
#[derive(serde::Serialize)]
struct WrongRow {
    noise: &'static str,
    /// The spread of a measurement.
    spread: String,
    /// The share of runs with a wrong recommendation.
    wrong_share: String,
    /// The upper 95% confidence limit of that share.
    upper: String,
    /// The variants that have the noise; the others have normal noise.
    noisy_variants: &'static str,
    variants: usize,
    /// By how much the other variants are worse than the best.
    gap: String,
    /// The variant that the simulated user runs before the comparison.
    current: &'static str,
    state: &'static str,
}

impl From<&Wrong> for WrongRow {
    fn from(one: &Wrong) -> WrongRow {
        WrongRow {
            noise: one.noise.name(),
            spread: percent(one.spread),
            wrong_share: format!("{:.2}%", 100.0 * one.errors.rate()),
            upper: format!("{:.2}%", 100.0 * one.errors.upper()),
            noisy_variants: one.shapes.name(),
            variants: one.variants,
            gap: percent(one.gap),
            current: match one.current {
                None => "none",
                // The best variant is number 0.
                Some(0) => "the best",
                Some(_) => "another",
            },
            state: state_name(one.state()),
        }
    }
}

impl Row for WrongRow {
    const COLUMNS: &'static [&'static str] = &[
        "noise",
        "spread: SPREAD",
        "wrong_share: WRONG",
        "upper: 95% UPPER LIMIT",
        "noisy_variants: NOISY VARIANTS",
        "variants",
        "gap: GAP",
        "current: CURRENT",
        "state",
    ];
}

/// How often the best variant is recommended in round `by` or earlier.
#[derive(serde::Serialize)]
struct AnsweredRow {
    noise: &'static str,
    gap: String,
    spread: String,
    by: usize,
    variants: usize,
    /// The share of runs that recommend the best variant in time.
    answered_share: String,
    state: &'static str,
}

impl From<&Answered> for AnsweredRow {
    fn from(one: &Answered) -> AnsweredRow {
        AnsweredRow {
            noise: one.noise.name(),
            gap: percent(one.gap),
            spread: percent(one.spread),
            by: one.by,
            variants: one.variants,
            answered_share: format!("{:.1}%", 100.0 * one.rate()),
            state: state_name(one.state()),
        }
    }
}

impl Row for AnsweredRow {
    const COLUMNS: &'static [&'static str] = &[
        "noise",
        "gap: GAP",
        "spread: SPREAD",
        "by: BY ROUND",
        "variants",
        "answered_share: ANSWERED",
        "state",
    ];
}

/// As JSON: for each noise and spread, the simulated setting with the most wrong recommendations.
pub fn wrong_json(selftest: &Report) -> Vec<Value> {
    let wrong = |one: &Wrong| {
        json!({
            "noise": one.noise.name(),
            "spread": one.spread,
            "noisy_variants": one.shapes.name(),
            "variants": one.variants,
            "gap": one.gap,
            "current": one.current,
            "wrong": one.errors.wrong,
            "runs": one.errors.runs,
            "rate": one.errors.rate(),
            "upper": one.errors.upper(),
            "state": state_name(one.state()),
        })
    };
    selftest.wrong.iter().map(wrong).collect()
}

/// As JSON: how often the best variant is recommended by the given round.
pub fn answered_json(selftest: &Report) -> Vec<Value> {
    let answered = |one: &Answered| {
        json!({
            "noise": one.noise.name(),
            "spread": one.spread,
            "gap": one.gap,
            "by_round": one.by,
            "variants": one.variants,
            "answered": one.answered,
            "runs": one.runs,
            "rate": one.rate(),
            "state": state_name(one.state()),
        })
    };
    selftest.answered.iter().map(answered).collect()
}
