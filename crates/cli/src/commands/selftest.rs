//! `fsarena selftest`: fsarena proves its own error rates, by simulation and on this machine.

mod exact;
mod here;

pub use here::quoted;

use crate::output;
use crate::{failure::Outcome, flags::ListFormat};
use fsarena_core::exit::ExitCode;
use fsarena_core::number::percent;
use fsarena_core::row::Row;
use fsarena_stats::simulate::headline::{Answered, Wrong};
use fsarena_stats::simulate::mean_ratio::{MeanCheck, mean_checks};
use fsarena_stats::simulate::selftest::{Check, RUNS, Report, selftest};
use fsarena_stats::simulate::{lower_limit, noise::Order, state::State};
use here::Here;
use serde_json::{Value, json};

/// Prove fsarena's own error rates: by simulation, or on this machine
///
/// Without `--here`, fsarena simulates runs of identical variants under six kinds of noise: how often do the rules find
/// a false difference, miss a true one, lose the best variant, call different variants equivalent, or bound a regret too low? With a fixed order instead of a random
/// one, drift must break the first rule: a test that cannot fail proves nothing.
///
/// With `--here`, fsarena measures this machine: two identical ext4 variants on images in memory, and variants with 1, 2
/// and 5% more files. It needs root, and reports the smallest detectable difference. With `--idle` it checks the idle
/// wait: whether filesystems that idle a minute longer before each task measure the same within 5%.
///
/// With `--exact`, fsarena repeats cells in guests that count instructions (`--on exact`) and reports by how much the
/// counts of the same work differ. It needs QEMU, not root.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Number of simulated runs for each rule and noise
    #[arg(long, value_name = "N", default_value_t = RUNS, value_parser = simulations, conflicts_with = "here")]
    simulations: usize,
    /// Random seed
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Measure this machine instead of simulating runs
    #[arg(long)]
    here: bool,
    /// Repeat cells in guests that count instructions, and compare the counts
    #[arg(long, conflicts_with_all = ["here", "simulations"])]
    exact: bool,
    /// Number of runs of each cell, with --exact
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(2..=100), requires = "exact", conflicts_with = "here")]
    repeats: u32,
    #[command(flatten)]
    measure: Here,
    /// Print no progress
    #[arg(long, short)]
    quiet: bool,
    /// Format on standard output
    #[arg(long, value_enum, default_value = "term")]
    format: ListFormat,
}

/// Reads the number of simulated runs: enough for a rate, and few enough to end within an hour.
fn simulations(text: &str) -> Result<usize, String> {
    let known = text.parse().ok().filter(|runs| (100..=1_000_000).contains(runs));
    known.ok_or_else(|| "write a whole number from 100 to 1000000".into())
}

/// Proves, and fails where something is not as promised.
pub fn run(args: Args) -> Outcome {
    if args.here {
        return here::run(&args.measure, args.seed, args.quiet, args.format);
    }
    if args.exact {
        return exact::run(args.seed, args.repeats as usize, args.quiet, args.format);
    }
    let report = selftest(args.simulations, args.seed);
    let means = mean_checks(args.simulations, args.seed);
    match args.format {
        ListFormat::Json => output::json(&as_json(&report, &means))?,
        ListFormat::Term => {
            let checks = report.checks.iter().chain([&report.negative]).map(Line::of).collect::<Vec<_>>();
            output::rows(&checks, ListFormat::Term)?;
            output::text(
                "\nA recommended variant is more than 5% worse than the best, at any of 18 looks:\n\n",
            )?;
            let wrong = report.wrong.iter().map(WrongLine::of).collect::<Vec<_>>();
            output::rows(&wrong, ListFormat::Term)?;
            output::text("\nThe best variant is recommended in time:\n\n")?;
            let answered = report.answered.iter().map(AnsweredLine::of).collect::<Vec<_>>();
            output::rows(&answered, ListFormat::Term)?;
            output::text(format!("\n{}\n\n", words(&report)))?;
            output::rows(&means.iter().map(MeanLine::of).collect::<Vec<_>>(), ListFormat::Term)?;
            output::text(format!("\n{MEANS}\n"))?
        }
    };
    Ok(exit_code(&report, &means))
}

#[derive(serde::Serialize)]
struct Line {
    rule: String,
    noise: &'static str,
    error: String,
    limits: String,
    promise: String,
    state: &'static str,
}

impl Line {
    fn of(check: &Check) -> Line {
        let percent = |share: f64| format!("{:.2}%", 100.0 * share);
        let time = |of: fn((f64, f64)) -> f64| {
            check.time.map_or(String::new(), |time| format!(", {:.2} of the time", of(time)))
        };
        let (rule, promise) = match check.order {
            Order::Random => (check.rule.name(), "at most"),
            Order::Fixed => (format!("{}, FIXED ORDER", check.rule.name()), "more than"),
        };
        Line {
            rule,
            noise: check.noise.name(),
            error: percent(check.rate()) + &time(|(share, _)| share),
            limits: format!(
                "{} to {}",
                percent(lower_limit(check.wrong, check.runs)),
                percent(check.upper())
            ),
            promise: format!("{promise} {}{}", percent(check.limit()), time(|(_, limit)| limit)),
            state: check.state().name(),
        }
    }
}

impl Row for Line {
    const COLUMNS: &'static [&'static str] =
        &["rule", "noise", "error: ERRS", "limits: 95% LIMITS", "promise: PROMISED", "state"];
}

/// How a promise stands; without one, that none is made.
fn promised(state: Option<State>) -> &'static str {
    state.map_or("no promise", State::name)
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

/// What stands below the table of mean costs.
const MEANS: &str = "In how many runs the 95% interval of the ratio of mean cost missed it at some look from 20 to 400 rounds, and the \
                     share of runs that have one at the look that has fewest. Stalls that no round shows are not bounded: \
                     for those the misses are shown, without a promise.";

/// A promise that is broken counts before one that so few runs leave open.
fn exit_code(report: &Report, means: &[MeanCheck]) -> ExitCode {
    let some = |state| means.iter().any(|check| check.state() == Some(state));
    match report.exit_code() {
        ExitCode::Refuted => ExitCode::Refuted,
        _ if some(State::Broken) => ExitCode::Refuted,
        _ if some(State::Open) => ExitCode::Inconclusive,
        code => code,
    }
}

/// The interval of the ratio of mean cost under one pair of noises.
#[derive(serde::Serialize)]
struct MeanLine {
    a: &'static str,
    b: &'static str,
    drift: &'static str,
    missed: String,
    limits: String,
    printed: String,
    promise: String,
    state: &'static str,
}

impl MeanLine {
    fn of(check: &MeanCheck) -> MeanLine {
        let percent = |share: f64| format!("{:.2}%", 100.0 * share);
        let (low, high) = check.limits();
        MeanLine {
            a: check.shapes.0.name(),
            b: check.shapes.1.name(),
            drift: if check.drifts { "yes" } else { "no" },
            missed: percent(check.rate()),
            limits: format!("{} to {}", percent(low), percent(high)),
            printed: percent(check.printed),
            promise: check.limit().map_or("none".into(), |limit| format!("at most {}", percent(limit))),
            state: check.state().map_or("shown", State::name),
        }
    }
}

impl Row for MeanLine {
    const COLUMNS: &'static [&'static str] = &[
        "a: NOISE OF A",
        "b: NOISE OF B",
        "drift",
        "missed",
        "limits: 95% LIMITS",
        "printed",
        "promise: PROMISED",
        "state",
    ];
}

fn words(report: &Report) -> String {
    let runs = report.negative.runs;
    let end = match report.exit_code() {
        ExitCode::Done => "Every rule keeps its promise, and without random order the first would not.",
        ExitCode::Refuted => "A rule does NOT keep its promise: do not trust verdicts of this build.",
        _ => "So few runs do not tell whether every promise is kept: allow more with --simulations.",
    };
    format!(
        "{runs} simulated runs of up to 400 rounds for each line, for regrets and the best as many as take as long. {end}"
    )
}

fn as_json(report: &Report, means: &[MeanCheck]) -> Value {
    let check = |check: &Check| {
        json!({
            "rule": check.rule.name(),
            "noise": check.noise.name(),
            "order": format!("{:?}", check.order).to_lowercase(),
            "wrong": check.wrong,
            "runs": check.runs,
            "rate": check.rate(),
            "lower": lower_limit(check.wrong, check.runs),
            "upper": check.upper(),
            "limit": check.limit(),
            "time_share": check.time.map(|(share, _)| share),
            "time_limit": check.time.map(|(_, limit)| limit),
            "state": check.state().name(),
        })
    };
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
    let mean = |check: &MeanCheck| {
        json!({
            "noise_of_a": check.shapes.0.name(),
            "noise_of_b": check.shapes.1.name(),
            "drifts": check.drifts,
            "missed": check.missed,
            "runs": check.runs,
            "rate": check.rate(),
            "lower": check.limits().0,
            "upper": check.limits().1,
            "printed_share": check.printed,
            "limit": check.limit(),
            "state": check.state().map(State::name),
        })
    };
    json!({
        "wrong_recommendations": report.wrong.iter().map(wrong).collect::<Vec<_>>(),
        "recommendations_in_time": report.answered.iter().map(answered).collect::<Vec<_>>(),
        "checks": report.checks.iter().map(check).collect::<Vec<_>>(),
        "negative": check(&report.negative),
        "mean_costs": means.iter().map(mean).collect::<Vec<_>>(),
        "passed": exit_code(report, means) == ExitCode::Done,
    })
}
