//! `fsarena selftest`: fsarena proves its own error rates, by simulation and on this machine.

mod exact;
mod here;

pub use here::quoted;

use crate::{failure::Outcome, flags::ListFormat, output, output::Row};
use fsarena_core::exit::ExitCode;
use fsarena_stats::simulate::lower_limit;
use fsarena_stats::simulate::selftest::{Check, RUNS, Report, selftest};
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
    match args.format {
        ListFormat::Json => output::json(&as_json(&report))?,
        ListFormat::Term => {
            let checks = report.checks.iter().chain([&report.negative]).map(Line::of).collect::<Vec<_>>();
            output::rows(&checks, ListFormat::Term)?;
            output::text(format!("\n{}\n", words(&report)))?
        }
    };
    Ok(code(&report))
}

/// Whether the promise is kept, broken, or inconclusive after these few runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Kept,
    Broken,
    Open,
}

fn state(check: &Check) -> State {
    use fsarena_stats::simulate::noise::Order;
    let above = lower_limit(check.wrong, check.runs) > check.limit();
    match (check.passed(), check.order) {
        (true, _) => State::Kept,
        (false, Order::Random) if above || check.slow() && check.runs >= 100 => State::Broken,
        // Fixed order is to err; that it surely does not is what breaks the promise.
        (false, Order::Fixed) if check.upper() <= check.limit() => State::Broken,
        (false, _) => State::Open,
    }
}

impl State {
    fn name(self) -> &'static str {
        match self {
            State::Kept => "ok",
            State::Broken => "BROKEN",
            State::Open => "too few runs",
        }
    }
}

/// Broken is refuted, too few runs leave it inconclusive.
fn code(report: &Report) -> ExitCode {
    let states: Vec<State> = report.checks.iter().chain([&report.negative]).map(state).collect();
    if states.contains(&State::Broken) {
        ExitCode::Refuted
    } else if states.contains(&State::Open) {
        ExitCode::Inconclusive
    } else {
        ExitCode::Done
    }
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
        use fsarena_stats::simulate::noise::Order;
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
            state: state(check).name(),
        }
    }
}

impl Row for Line {
    const COLUMNS: &'static [&'static str] =
        &["rule", "noise", "error: ERRS", "limits: 95% LIMITS", "promise: PROMISED", "state"];
}

fn words(report: &Report) -> String {
    let runs = report.negative.runs;
    let end = match code(report) {
        ExitCode::Done => "Every rule keeps its promise, and without random order the first would not.",
        ExitCode::Refuted => "A rule does NOT keep its promise: do not trust verdicts of this build.",
        _ => "So few runs do not tell whether every promise is kept: allow more with --simulations.",
    };
    format!(
        "{runs} simulated runs of up to 400 rounds for each line, for regrets and the best as many as take as long. {end}"
    )
}

fn as_json(report: &Report) -> Value {
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
            "state": state(check).name(),
        })
    };
    json!({
        "checks": report.checks.iter().map(check).collect::<Vec<_>>(),
        "negative": check(&report.negative),
        "passed": report.passed(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsarena_stats::simulate::noise::{Noise, Order};
    use fsarena_stats::simulate::selftest::Rule;

    fn check(order: Order, wrong: usize, runs: usize) -> Check {
        Check { noise: Noise::Normal, rule: Rule::Sequential, order, wrong, runs, time: None }
    }

    #[test]
    fn a_rate_over_its_bound_is_broken_and_too_few_runs_leave_it_open() {
        let of = |wrong, runs| state(&check(Order::Random, wrong, runs));
        assert_eq!(
            [of(1_000, 20_000), of(1_400, 20_000), of(5, 100)],
            [State::Kept, State::Broken, State::Open]
        );
        let report = |checks: Vec<Check>| Report { checks, negative: check(Order::Fixed, 80, 100) };
        let codes = [vec![(1_000, 20_000)], vec![(1_400, 20_000), (5, 100)], vec![(5, 100)]].map(|checks| {
            code(&report(checks.into_iter().map(|(w, n)| check(Order::Random, w, n)).collect()))
        });
        assert_eq!(codes, [ExitCode::Done, ExitCode::Refuted, ExitCode::Inconclusive]);
    }

    #[test]
    fn a_negative_test_that_does_not_err_is_broken() {
        assert_eq!(state(&check(Order::Fixed, 80, 100)), State::Kept);
        assert_eq!(state(&check(Order::Fixed, 900, 20_000)), State::Broken);
    }
}
