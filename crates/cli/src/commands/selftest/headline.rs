//! Prints the results of simulating the headline of a report, which recommends a variant: how often it recommends a wrong
//! variant, and how soon it recommends the best.

use crate::failure::Failure;
use crate::{flags::ListFormat, output};
use fsarena_core::{number::percent, row::Row};
use fsarena_stats::simulate::PromiseState;
use fsarena_stats::simulate::headline::{Answered, Wrong};
use fsarena_stats::simulate::selftest::Report;
use serde_json::{Value, json};

/// Prints the tables of wrong recommendations and of recommendations in time.
pub fn print(report: &Report) -> Result<(), Failure> {
    output::text(
        "\nHow often a report recommends a variant more than 5% worse than the best, at any of 18 looks during the run:\n\n",
    )?;
    output::rows(&report.wrong.iter().map(WrongRow::from).collect::<Vec<_>>(), ListFormat::Term)?;
    output::text("\nHow often a report recommends the best variant by the given round:\n\n")?;
    output::rows(&report.answered.iter().map(AnsweredRow::from).collect::<Vec<_>>(), ListFormat::Term)?;
    Ok(())
}

/// Whether the error rate that fsarena documents (the promise) is kept, in a word; `no promise` if it documents none.
fn state_name(state: Option<PromiseState>) -> &'static str {
    state.map_or("no promise", PromiseState::name)
}

/// The kind of run with the most wrong recommendations, for one noise and spread.
#[derive(serde::Serialize)]
struct WrongRow {
    noise: &'static str,
    /// The spread of a measurement.
    spread: String,
    /// The share of runs with a wrong recommendation.
    wrong: String,
    /// The upper 95% confidence limit of that share.
    upper: String,
    /// The variants that have the noise; the others have normal noise.
    noise_place: &'static str,
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
            wrong: format!("{:.2}%", 100.0 * one.rate()),
            upper: format!("{:.2}%", 100.0 * one.upper()),
            noise_place: one.shapes.name(),
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
        "wrong: WRONG",
        "upper: 95% UPPER LIMIT",
        "noise_place: WORST NOISE PLACE",
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
    answered: String,
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
            answered: format!("{:.1}%", 100.0 * one.rate()),
            state: state_name(one.state()),
        }
    }
}

impl Row for AnsweredRow {
    const COLUMNS: &'static [&'static str] =
        &["noise", "gap: GAP", "spread: SPREAD", "by: BY ROUND", "variants", "answered: ANSWERED", "state"];
}

/// As JSON: the kind of run with the most wrong recommendations, for each noise and spread.
pub fn wrong_json(report: &Report) -> Vec<Value> {
    let wrong = |one: &Wrong| {
        json!({
            "noise": one.noise.name(),
            "spread": one.spread,
            "worst_shapes": one.shapes.name(),
            "variants": one.variants,
            "gap": one.gap,
            "current": one.current,
            "wrong": one.wrong,
            "runs": one.runs,
            "rate": one.rate(),
            "upper": one.upper(),
            "state": state_name(one.state()),
        })
    };
    report.wrong.iter().map(wrong).collect()
}

/// As JSON: how often the best variant is recommended by the given round.
pub fn answered_json(report: &Report) -> Vec<Value> {
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
    report.answered.iter().map(answered).collect()
}
