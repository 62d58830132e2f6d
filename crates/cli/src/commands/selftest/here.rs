//! Measures this machine. `fsarena selftest --here` runs identical variants, and variants with more work; with `--idle` it
//! runs each filesystem right after the idle wait and after a longer time. `fsarena selftest --exact` repeats cells in guests
//! that count instructions.

use super::plans::{self, IDLE_MARGIN_PERCENT, MORE_FILES_PERCENT};
use crate::commands::{handle_signals, is_root, run_unstored};
use crate::failure::{CommandResult, Failure};
use crate::flags::{ListFormat, parse_duration};
use crate::output;
use crate::terminal::progress::Progress;
use fsarena_core::observations::claim_series;
use fsarena_core::{exit::ExitCode, factor, metric::reading, record::RunRecord};
use fsarena_core::{number::signed_percent, row::Row};
use fsarena_report::repeats::{
    InstructionSpread, MAX_RESTORED_DIFFERENCE_PERCENT, PROMISED_SPREAD_PERCENT, describe_restored_differences,
    describe_spreads, restored_differences, summarize_by_filesystem,
};
use fsarena_report::resolution::Resolution;
use fsarena_run::{Destination, RunRequest, preflight::RAM_DIR};
use fsarena_stats::comparison::median;
use fsarena_stats::judge::{JudgedClaim, judge_claims};
use fsarena_stats::verdict;
use fsarena_sys::undo::state_dir;
use serde_json::json;
use std::time::Duration;

/// The file in the state directory that has the result of `selftest --here`.
const RESULT_FILE: &str = "selftest.json";

/// The flags of the measurement.
#[derive(Debug, clap::Args)]
pub struct HereFlags {
    /// Time for the measurement, with --here [default: 5m, 2h with --idle]
    #[arg(long, value_name = "TIME", value_parser = parse_duration, requires = "here", conflicts_with = "exact")]
    budget: Option<Duration>,
    /// Check the idle wait against that much idling after it, with --here [default: 60s]
    #[arg(long, value_name = "TIME", num_args = 0..=1, default_missing_value = "60s", value_parser = parse_duration, requires = "here", conflicts_with = "exact")]
    idle: Option<Duration>,
    /// Filesystems to check, with --idle
    #[arg(
        long,
        value_name = "FS,…",
        value_delimiter = ',',
        default_value = "ext4,xfs,btrfs",
        requires = "idle",
        conflicts_with = "exact"
    )]
    fs: Vec<String>,
    /// Number of files in the tree, with --here
    #[arg(long, value_name = "N", default_value_t = 2_000, value_parser = clap::value_parser!(u64).range(100..=100_000), requires = "here", conflicts_with = "exact")]
    tree_files: u64,
}

/// Measures this machine, and stores and prints the result.
pub fn measure_machine(flags: &HereFlags, seed: u64, quiet: bool, format: ListFormat) -> CommandResult {
    handle_signals()?;
    if !is_root() {
        let message = "--here makes and mounts filesystems, which needs root; without --here none is needed";
        return Err(Failure::new(ExitCode::Missing, message));
    }
    // With `--idle` the run idles most of the time, so it takes much longer.
    let minutes = if flags.idle.is_some() { 120 } else { 5 };
    let budget = flags.budget.unwrap_or(Duration::from_secs(60 * minutes));
    let overrides = plans::ram_overrides(seed, budget, flags.tree_files);
    let plan = match flags.idle {
        Some(further_idle) => plans::idle_plan(overrides, flags.fs.clone(), further_idle)?,
        None => plans::resolution_plan(&overrides)?,
    };
    let request = RunRequest::new(plan, Destination::ConsumersOnly(RAM_DIR.into()));
    let record = run_unstored(request, &mut [&mut Progress::new(quiet)])?;
    if let Some(further_idle) = flags.idle {
        return judge_idle(&record, further_idle, format);
    }
    let resolution = Resolution::evaluate(&record, &MORE_FILES_PERCENT, seed);
    store_resolution(&resolution)?;
    match format {
        ListFormat::Json => output::print_json(&json!(resolution))?,
        ListFormat::Term => {
            output::print_rows(&resolution.noise, ListFormat::Term)?;
            output::print_text("\n")?;
            output::print_rows(&resolution.power, ListFormat::Term)?;
            output::print_text(format!("\n{}\n", resolution.describe()))?
        }
    };
    Ok(resolution.exit_code())
}

/// Stores the result for reports. The file is renamed into place, so that a report never reads an incomplete one.
fn store_resolution(resolution: &Resolution) -> Result<(), Failure> {
    let (file, new_file) = (state_dir().join(RESULT_FILE), state_dir().join(format!("{RESULT_FILE}.new")));
    std::fs::write(&new_file, format!("{:#}\n", json!(resolution))).map_err(Failure::for_path(&new_file))?;
    std::fs::rename(&new_file, &file).map_err(Failure::for_path(&file))
}

/// The sentence that a report of a run on this machine quotes from the stored result; None without a result for it.
pub fn stored_resolution(record: &RunRecord) -> Option<String> {
    let stored = std::fs::read(state_dir().join(RESULT_FILE)).ok()?;
    serde_json::from_slice::<Resolution>(&stored).ok()?.quote_for_run(record)
}

/// Prints for each filesystem whether further idling makes a difference. Returns the exit code of these claims.
fn judge_idle(record: &RunRecord, further_idle: Duration, format: ListFormat) -> CommandResult {
    let judged = judge_claims(claim_series(record, &record.plan.claims));
    let rows: Vec<IdleRow> = judged.iter().map(|claim| IdleRow::new(record, claim)).collect();
    output::print_rows(&rows, format)?;
    if format == ListFormat::Term {
        let further_idle = humantime::format_duration(further_idle);
        output::print_text(format!(
            "\nTime over all tasks right after the idle wait, against {further_idle} of idling after it: equivalent within \
             {IDLE_MARGIN_PERCENT}%?\n"
        ))?;
    }
    Ok(verdict::exit_code(&judged.iter().map(JudgedClaim::outcome).collect::<Vec<_>>()))
}

/// A row of the table of `--idle`: the difference that further idling makes to one filesystem.
#[derive(serde::Serialize)]
struct IdleRow {
    filesystem: String,
    difference: Option<String>,
    rounds: usize,
    outcome: &'static str,
}

impl IdleRow {
    fn new(record: &RunRecord, judged: &JudgedClaim) -> IdleRow {
        let names = judged.claim.variants();
        let variant = record.variants.iter().find(|variant| names.first() == Some(&variant.name.as_str()));
        let difference = judged.verdict.map(|verdict| {
            let [effect, low, high] = [verdict.effect, verdict.interval.0, verdict.interval.1]
                .map(|change| signed_percent(change, &[verdict.interval.0, verdict.interval.1]));
            format!("{effect} [{low} to {high}]")
        });
        IdleRow {
            filesystem: variant.map_or(String::new(), |variant| variant.level(factor::FS).to_string()),
            difference,
            rounds: judged.verdict.map_or(0, |verdict| verdict.rounds),
            outcome: judged.outcome().name(),
        }
    }
}

impl Row for IdleRow {
    const COLUMNS: &'static [&'static str] = &["filesystem", "difference", "rounds", "outcome: EQUIVALENT"];
}

/// Repeats cells in guests that count instructions. Prints how much the counts vary, and how far they are from the counts of
/// cells whose guests booted instead of starting from a snapshot.
pub fn repeat_exact(seed: u64, repeats: usize, quiet: bool, format: ListFormat) -> CommandResult {
    handle_signals()?;
    let count_instructions = |repeats, fresh| {
        let plan = plans::exact_plan(seed, repeats, fresh)?;
        let request = RunRequest::new(plan, Destination::ConsumersOnly(std::env::temp_dir()));
        let record = run_unstored(request, &mut [&mut Progress::new(quiet)])?;
        Ok::<_, Failure>(InstructionSpread::of_all_tasks(&record, reading::KERNEL_INSTRUCTIONS))
    };
    let (spreads, booted) = (count_instructions(repeats, false)?, count_instructions(1, true)?);
    let median_spread = InstructionSpread::median_percent(&spreads);
    let differences = restored_differences(&spreads, &booted);
    let restored_percent = median(&differences).unwrap_or(f64::INFINITY);
    match format {
        ListFormat::Json => {
            let report = json!({
                "repeats": repeats, "promised_percent": PROMISED_SPREAD_PERCENT, "median_percent": median_spread, "tasks": spreads,
                "restored_promised_percent": MAX_RESTORED_DIFFERENCE_PERCENT, "restored_median_percent": restored_percent,
            });
            output::print_json(&report)?
        }
        ListFormat::Term => {
            output::print_rows(&summarize_by_filesystem(&spreads), ListFormat::Term)?;
            output::print_text(describe_spreads(&spreads, repeats, median_spread))?;
            output::print_text(describe_restored_differences(&differences, restored_percent))?
        }
    };
    let is_exact = median_spread.is_some_and(|percent| percent <= PROMISED_SPREAD_PERCENT)
        && restored_percent <= MAX_RESTORED_DIFFERENCE_PERCENT;
    Ok(if is_exact { ExitCode::Done } else { ExitCode::Refuted })
}
