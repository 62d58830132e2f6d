//! `fsarena selftest`: measures fsarena's own error rates, by simulation or on this machine.

mod headline;
mod here;
mod plans;

pub use here::stored_resolution;

use crate::{failure::CommandResult, flags::ListFormat, output};
use fsarena_core::{exit::ExitCode, row::Row};
use fsarena_stats::simulate::PromiseState;
use fsarena_stats::simulate::growth::{GrowthCheck, MAX_WRONG, ROUNDS, check_growth};
use fsarena_stats::simulate::mean_ratio::{MeanCheck, check_mean_intervals};
use fsarena_stats::simulate::selftest::{Check, RUNS, SelftestReport, run_selftest};
use headline::percent_with_two_decimals;
use here::HereFlags;
use serde::Serialize;
use serde_json::{Value, json};

/// Prove fsarena's own error rates: by simulation, or on this machine
///
/// Without `--here`, fsarena simulates runs of identical and of different variants under six kinds of noise. It reports how
/// often its rules find a false difference, miss a true one, lose the best variant, call different variants equivalent, bound
/// a regret too low, or recommend a variant that is more than 5% worse than the best, and how soon they recommend the best.
/// It also simulates drift with a fixed order of the variants instead of a random one. The rule for differences must fail
/// there, because a self-test that cannot fail proves nothing.
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
    #[arg(long, value_name = "N", default_value_t = RUNS, value_parser = parse_simulations, conflicts_with = "here")]
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
    here_flags: HereFlags,
    /// Print no progress
    #[arg(long, short)]
    quiet: bool,
    /// Format on standard output
    #[arg(long, value_enum, default_value = "term")]
    format: ListFormat,
}

/// Reads the number of simulated runs: enough for a rate, and few enough to end within an hour.
fn parse_simulations(text: &str) -> Result<usize, String> {
    let runs = text.parse().ok().filter(|runs| (100..=1_000_000).contains(runs));
    runs.ok_or_else(|| "write a whole number from 100 to 1000000".into())
}

/// Simulates or measures, and prints the error rates. If a rate is above its limit, the exit code is [`ExitCode::Refuted`].
pub fn run(args: Args) -> CommandResult {
    if args.here {
        return here::measure_machine(&args.here_flags, args.seed, args.quiet, args.format);
    }
    if args.exact {
        return here::repeat_exact(args.seed, args.repeats as usize, args.quiet, args.format);
    }
    let report = run_selftest(args.simulations, args.seed);
    let means = check_mean_intervals(args.simulations, args.seed);
    let growth = check_growth((args.simulations / RUNS_PER_GRID).max(20), args.seed);
    match args.format {
        ListFormat::Json => output::print_json(&report_json(&report, &means, &growth))?,
        ListFormat::Term => {
            let checks: Vec<CheckRow> = report.checks.iter().chain([&report.fixed_order]).map(CheckRow::from).collect();
            output::print_rows(&checks, ListFormat::Term)?;
            headline::print_tables(&report)?;
            output::print_text(format!("\n{}\n\n", describe_report(&report)))?;
            output::print_rows(&means.iter().map(MeanCostRow::from).collect::<Vec<_>>(), ListFormat::Term)?;
            output::print_text(format!("\n{MEANS_LEGEND}\n"))?;
            print_growth(&growth)?
        }
    };
    Ok(exit_code(&report, &means, &growth))
}

/// One run of a grid is simulated for this number of other runs, because its laws take long to fit.
const RUNS_PER_GRID: usize = 20;

/// The error rate of one rule under one kind of noise.
#[derive(Serialize)]
struct CheckRow {
    rule: String,
    noise: &'static str,
    order: String,
    /// The number of runs in which the rule erred.
    wrong: usize,
    runs: usize,
    rate: f64,
    lower: f64,
    upper: f64,
    limit: f64,
    /// The share of the time of a full run that a search for the best takes, and its limit; None for other rules.
    time_share: Option<f64>,
    time_limit: Option<f64>,
    negative: bool,
    state: &'static str,
}

impl From<&Check> for CheckRow {
    fn from(check: &Check) -> CheckRow {
        CheckRow {
            rule: check.rule.name(),
            noise: check.noise.name(),
            order: format!("{:?}", check.order).to_lowercase(),
            wrong: check.errors.wrong,
            runs: check.errors.runs,
            rate: check.errors.rate(),
            lower: check.errors.lower_limit(),
            upper: check.errors.upper_limit(),
            limit: check.limit(),
            time_share: check.time_share_and_limit.map(|(share, _)| share),
            time_limit: check.time_share_and_limit.map(|(_, limit)| limit),
            negative: check.is_negative_test(),
            state: check.state().name(),
        }
    }
}

impl Row for CheckRow {
    const COLUMNS: &'static [&'static str] =
        &["rule", "noise", "rate: ERRS", "limits: 95% LIMITS", "limit: PROMISED", "state"];

    fn table_text(&self, field: &str) -> Option<String> {
        let time_note = |share: Option<f64>| share.map_or(String::new(), |share| format!(", {share:.2} of the time"));
        match field {
            "rule" if self.order == "fixed" => Some(format!("{}, FIXED ORDER", self.rule)),
            "rate" => Some(percent_with_two_decimals(self.rate) + &time_note(self.time_share)),
            "limits" => Some(limits_text(self.lower, self.upper)),
            "limit" => Some(promise_text(self.limit, self.negative) + &time_note(self.time_limit)),
            _ => None,
        }
    }
}

/// The 95% limits of a rate in a table.
fn limits_text(lower: f64, upper: f64) -> String {
    format!("{} to {}", percent_with_two_decimals(lower), percent_with_two_decimals(upper))
}

/// The promise about a rate in a table. A negative test must err more often than the limit.
fn promise_text(limit: f64, is_negative_test: bool) -> String {
    format!("{} {}", if is_negative_test { "more than" } else { "at most" }, percent_with_two_decimals(limit))
}

/// The text below the table of mean costs.
const MEANS_LEGEND: &str = "The share of runs in which the 95% interval of the ratio of mean cost missed it at some look from 20 to 400 \
                     rounds, and the share of runs that have an interval at the look with the fewest. No interval can bound \
                     stalls that no round shows: for those the misses are shown, without a promise.";

/// The exit code of all checks: refuted if a promise is broken, else inconclusive if there are too few runs for one.
fn exit_code(report: &SelftestReport, means: &[MeanCheck], growth: &[GrowthCheck]) -> ExitCode {
    let growth_states = growth.iter().map(|check| Some(check.state()));
    let states: Vec<_> = means.iter().map(MeanCheck::state).chain(growth_states).collect();
    let any_has_state = |state| states.contains(&Some(state));
    let code = report.exit_code();
    if code == ExitCode::Refuted || any_has_state(PromiseState::Broken) {
        return ExitCode::Refuted;
    }
    if any_has_state(PromiseState::Open) { ExitCode::Inconclusive } else { code }
}

/// How often the interval of the ratio of mean costs missed it under one pair of noises.
#[derive(Serialize)]
struct MeanCostRow {
    noise_of_a: &'static str,
    noise_of_b: &'static str,
    drifts: bool,
    /// The number of runs in which the interval missed.
    missed: usize,
    runs: usize,
    rate: f64,
    lower: f64,
    upper: f64,
    printed_share: f64,
    limit: Option<f64>,
    state: Option<&'static str>,
}

impl From<&MeanCheck> for MeanCostRow {
    fn from(check: &MeanCheck) -> MeanCostRow {
        MeanCostRow {
            noise_of_a: check.shapes.0.name(),
            noise_of_b: check.shapes.1.name(),
            drifts: check.drifts,
            missed: check.misses.wrong,
            runs: check.misses.runs,
            rate: check.misses.rate(),
            lower: check.misses.lower_limit(),
            upper: check.misses.upper_limit(),
            printed_share: check.share_with_interval,
            limit: check.limit(),
            state: check.state().map(PromiseState::name),
        }
    }
}

impl Row for MeanCostRow {
    const COLUMNS: &'static [&'static str] = &[
        "noise_of_a",
        "noise_of_b",
        "drifts: DRIFT",
        "rate: MISSED",
        "limits: 95% LIMITS",
        "printed_share: PRINTED",
        "limit: PROMISED",
        "state",
    ];

    fn table_text(&self, field: &str) -> Option<String> {
        match field {
            "rate" => Some(percent_with_two_decimals(self.rate)),
            "limits" => Some(limits_text(self.lower, self.upper)),
            "printed_share" => Some(percent_with_two_decimals(self.printed_share)),
            "limit" => Some(self.limit.map_or("none".into(), |limit| promise_text(limit, false))),
            "state" => Some(self.state.unwrap_or("shown").into()),
            _ => None,
        }
    }
}

/// How often runs under one law of growth were wrong.
#[derive(Serialize)]
struct GrowthRow {
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
fn growth_rows(checks: &[GrowthCheck]) -> Vec<GrowthRow> {
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
            limit: MAX_WRONG,
            negative: check.is_negative_test(),
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
        let rate = |runs: usize| percent_with_two_decimals(runs as f64 / self.runs as f64);
        match field {
            "found_to_bend" => Some(rate(self.found_to_bend)),
            "bend_excluded" => Some(rate(self.bend_excluded)),
            "missed" => Some(rate(self.missed)),
            "limits" => Some(limits_text(self.lower, self.upper)),
            "limit" => Some(promise_text(self.limit, self.negative)),
            _ => None,
        }
    }
}

/// Prints the table of scale grids and a sentence about it: how often a bend is found that is not there, and how often the cost
/// beyond the data is outside its interval.
fn print_growth(checks: &[GrowthCheck]) -> CommandResult {
    output::print_text("\n")?;
    output::print_rows(&growth_rows(checks), ListFormat::Term)?;
    let runs = checks.first().map_or(0, |check| check.runs);
    output::print_text(format!(
        "\nIn how many of {runs} runs of {ROUNDS} rounds of a grid 1e4..1e6 the cost of a unit was found to bend, or not to bend, and its \
         interval at ten times the largest amount missed the truth. No data show a bend beyond them: there the interval must \
         miss.\n"
    ))
}

/// The result of the simulation in two sentences.
fn describe_report(report: &SelftestReport) -> String {
    let runs = report.fixed_order.errors.runs;
    let end = match report.exit_code() {
        ExitCode::Done => {
            "Every rule keeps its promise; without random order, or with rounds on one aged image as if they were \
                           independent, it would not."
        }
        ExitCode::Refuted => "A rule does NOT keep its promise: do not trust verdicts of this build.",
        _ => "So few runs do not tell whether every promise is kept: allow more with --simulations.",
    };
    format!(
        "{runs} simulated runs of up to 400 rounds for each line, for regrets and the best as many as take as long. {end}"
    )
}

/// The results of all checks as JSON.
fn report_json(report: &SelftestReport, means: &[MeanCheck], growth: &[GrowthCheck]) -> Value {
    json!({
        "checks": report.checks.iter().map(CheckRow::from).collect::<Vec<_>>(),
        "negative": CheckRow::from(&report.fixed_order),
        "wrong_recommendations": headline::wrong_rows(report),
        "recommendations_in_time": headline::timely_rows(report),
        "mean_costs": means.iter().map(MeanCostRow::from).collect::<Vec<_>>(),
        "growth": growth_rows(growth),
        "passed": exit_code(report, means, growth) == ExitCode::Done,
    })
}
