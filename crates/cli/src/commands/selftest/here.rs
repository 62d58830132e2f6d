//! Measures this machine. `fsarena selftest --here` runs identical variants, and variants with more work; with `--idle` it
//! runs each filesystem right after the idle wait and after a longer time. `fsarena selftest --exact` repeats cells in guests
//! that count instructions.

use super::plans::{self, MORE, Size, WITHIN};
use crate::commands::{handle_signals, run_unstored};
use crate::failure::{Failure, Outcome};
use crate::flags::{ListFormat, time};
use crate::output;
use crate::terminal::progress::Progress;
use fsarena_core::observations::claim_series;
use fsarena_core::{exit::ExitCode, factor, metric::reading, record::RunRecord};
use fsarena_core::{number::signed, row::Row};
use fsarena_report::repeats::{
    MAX_RESTORED_PERCENT, PROMISED_SPREAD_PERCENT, Spread, by_filesystem, restored_differences,
    restored_words, words,
};
use fsarena_report::resolution::Resolution;
use fsarena_run::{Keep, Request, preflight::RAM};
use fsarena_stats::comparison::median;
use fsarena_stats::judge::{Judged, judge_all};
use fsarena_stats::verdict;
use fsarena_sys::undo::state_dir;
use serde_json::json;
use std::time::Duration;

/// The name of the file in the state directory with the result.
const FILE: &str = "selftest.json";

/// The flags of the measurement.
#[derive(Debug, clap::Args)]
pub struct Here {
    /// Time for the measurement, with --here [default: 5m, 2h with --idle]
    #[arg(long, value_name = "TIME", value_parser = time, requires = "here", conflicts_with = "exact")]
    budget: Option<Duration>,
    /// Check the idle wait against that much idling after it, with --here [default: 60s]
    #[arg(long, value_name = "TIME", num_args = 0..=1, default_missing_value = "60s", value_parser = time, requires = "here", conflicts_with = "exact")]
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
pub fn run(args: &Here, seed: u64, quiet: bool, format: ListFormat) -> Outcome {
    handle_signals()?;
    if !rustix::process::geteuid().is_root() {
        let message = "--here makes and mounts filesystems, which needs root; without --here none is needed";
        return Err(Failure::new(ExitCode::Missing, message));
    }
    // With `--idle` the run idles most of the time, so it takes much longer.
    let minutes = if args.idle.is_some() { 120 } else { 5 };
    let budget = args.budget.unwrap_or(Duration::from_secs(60 * minutes));
    let size = Size { seed, budget, files: args.tree_files };
    let plan = match args.idle {
        Some(further) => plans::idle(size, args.fs.clone(), further)?,
        None => plans::resolution(size)?,
    };
    let request = Request::new(plan, Keep::Nothing(RAM.into()));
    let record = run_unstored(request, &mut [&mut Progress::new(quiet)])?;
    if let Some(further) = args.idle {
        return judge_idle(&record, further, format);
    }
    let resolution = Resolution::evaluate(&record, &MORE, seed);
    store(&resolution)?;
    match format {
        ListFormat::Json => output::json(&json!(resolution))?,
        ListFormat::Term => {
            output::rows(&resolution.noise, ListFormat::Term)?;
            output::text("\n")?;
            output::rows(&resolution.power, ListFormat::Term)?;
            output::text(format!("\n{}\n", resolution.words()))?
        }
    };
    Ok(resolution.exit_code())
}

/// Stores the result for reports. The file is renamed into place, so that a report never reads an incomplete one.
fn store(resolution: &Resolution) -> Result<(), Failure> {
    let (file, new) = (state_dir().join(FILE), state_dir().join(format!("{FILE}.new")));
    std::fs::write(&new, format!("{:#}\n", json!(resolution))).map_err(Failure::file(&new))?;
    std::fs::rename(&new, &file).map_err(Failure::file(&file))
}

/// The sentence that a report of a run on this machine quotes from the stored result; None without a result for it.
pub fn stored_resolution(record: &RunRecord) -> Option<String> {
    let stored = std::fs::read(state_dir().join(FILE)).ok()?;
    serde_json::from_slice::<Resolution>(&stored).ok()?.quoted(record)
}

/// Prints for each filesystem whether further idling makes a difference. Returns the exit code of these claims.
fn judge_idle(record: &RunRecord, further: Duration, format: ListFormat) -> Outcome {
    let judged = judge_all(claim_series(record, &record.plan.claims));
    let rows: Vec<IdleRow> = judged.iter().map(|one| IdleRow::new(record, one)).collect();
    output::rows(&rows, format)?;
    if format == ListFormat::Term {
        let further = humantime::format_duration(further);
        output::text(format!(
            "\nTime over all tasks right after the idle wait, against {further} of idling after it: equivalent within \
             {WITHIN}%?\n"
        ))?;
    }
    Ok(verdict::exit_code(&judged.iter().map(Judged::outcome).collect::<Vec<_>>()))
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
    fn new(record: &RunRecord, judged: &Judged) -> IdleRow {
        let names = judged.claim.variants();
        let variant = record.variants.iter().find(|variant| names.first() == Some(&variant.name.as_str()));
        let difference = judged.verdict.map(|v| {
            let [effect, low, high] =
                [v.effect, v.interval.0, v.interval.1].map(|x| signed(x, &[v.interval.0, v.interval.1]));
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

/// Repeats cells in guests that count instructions, and prints how much the counts vary, and how far they are from those of
/// cells that booted.
pub fn run_exact(seed: u64, repeats: usize, quiet: bool, format: ListFormat) -> Outcome {
    handle_signals()?;
    let run = |repeats, fresh| {
        let plan = plans::exact(seed, repeats, fresh)?;
        let request = Request::new(plan, Keep::Nothing(std::env::temp_dir()));
        let record = run_unstored(request, &mut [&mut Progress::new(quiet)])?;
        Ok::<_, Failure>(Spread::all_of(&record, reading::KERNEL_INSTRUCTIONS))
    };
    let (spreads, booted) = (run(repeats, false)?, run(1, true)?);
    let all = Spread::median(&spreads);
    let differences = restored_differences(&spreads, &booted);
    let restored = median(&differences).unwrap_or(f64::INFINITY);
    match format {
        ListFormat::Json => {
            let report = json!({
                "repeats": repeats, "promised_percent": PROMISED_SPREAD_PERCENT, "median_percent": all, "tasks": spreads,
                "restored_promised_percent": MAX_RESTORED_PERCENT, "restored_median_percent": restored,
            });
            output::json(&report)?
        }
        ListFormat::Term => {
            output::rows(&by_filesystem(&spreads), ListFormat::Term)?;
            output::text(words(&spreads, repeats, all))?;
            output::text(restored_words(&differences, restored))?
        }
    };
    let is_exact = all.is_some_and(|all| all <= PROMISED_SPREAD_PERCENT) && restored <= MAX_RESTORED_PERCENT;
    Ok(if is_exact { ExitCode::Done } else { ExitCode::Refuted })
}
