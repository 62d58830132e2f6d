//! The headline simulated: how often it recommends a wrong variant, and how soon the best.

use crate::failure::Failure;
use crate::{flags::ListFormat, output};
use fsarena_core::{number::percent, row::Row};
use fsarena_stats::simulate::PromiseState;
use fsarena_stats::simulate::headline::{Answered, Wrong};
use fsarena_stats::simulate::selftest::Report;
use serde_json::{Value, json};

/// Prints both tables.
pub fn print(report: &Report) -> Result<(), Failure> {
    output::text("\nA recommended variant is more than 5% worse than the best, at any of 18 looks:\n\n")?;
    output::rows(&report.wrong.iter().map(WrongLine::of).collect::<Vec<_>>(), ListFormat::Term)?;
    output::text("\nThe best variant is recommended in time:\n\n")?;
    output::rows(&report.answered.iter().map(AnsweredLine::of).collect::<Vec<_>>(), ListFormat::Term)?;
    Ok(())
}

/// How a promise stands; without one, that none is made.
fn promised(state: Option<PromiseState>) -> &'static str {
    state.map_or("no promise", PromiseState::name)
}

/// The kind of run that errs most, of one noise and spread.
#[derive(serde::Serialize)]
struct WrongLine {
    noise: &'static str,
    spread: String,
    wrong: String,
    limit: String,
    shapes: &'static str,
    variants: usize,
    gap: String,
    current: &'static str,
    state: &'static str,
}

impl WrongLine {
    fn of(one: &Wrong) -> WrongLine {
        WrongLine {
            noise: one.noise.name(),
            spread: percent(one.spread),
            wrong: format!("{:.2}%", 100.0 * one.rate()),
            limit: format!("{:.2}%", 100.0 * one.upper()),
            shapes: one.shapes.name(),
            variants: one.variants,
            gap: percent(one.gap),
            current: match one.current {
                None => "none",
                Some(0) => "the best",
                Some(_) => "another",
            },
            state: promised(one.state()),
        }
    }
}

impl Row for WrongLine {
    const COLUMNS: &'static [&'static str] = &[
        "noise",
        "spread: SPREAD",
        "wrong: WRONG",
        "limit: 95% LIMIT",
        "shapes: WORST WHERE NOISE IS",
        "variants",
        "gap: GAP",
        "current: CURRENT",
        "state",
    ];
}

/// How often a difference is found in time.
#[derive(serde::Serialize)]
struct AnsweredLine {
    noise: &'static str,
    gap: String,
    spread: String,
    by: usize,
    variants: usize,
    answered: String,
    state: &'static str,
}

impl AnsweredLine {
    fn of(one: &Answered) -> AnsweredLine {
        AnsweredLine {
            noise: one.noise.name(),
            gap: percent(one.gap),
            spread: percent(one.spread),
            by: one.by,
            variants: one.variants,
            answered: format!("{:.1}%", 100.0 * one.rate()),
            state: promised(one.state()),
        }
    }
}

impl Row for AnsweredLine {
    const COLUMNS: &'static [&'static str] =
        &["noise", "gap: GAP", "spread: SPREAD", "by: BY ROUND", "variants", "answered: ANSWERED", "state"];
}

/// For programs: the kind of run that errs most, for each noise and spread.
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
            "state": promised(one.state()),
        })
    };
    report.wrong.iter().map(wrong).collect()
}

/// For programs: how often the best is recommended in time.
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
            "state": promised(one.state()),
        })
    };
    report.answered.iter().map(answered).collect()
}
