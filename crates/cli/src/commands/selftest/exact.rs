//! `fsarena selftest --exact`: the same cells again and again in guests that count instructions.

use crate::failure::{Failure, Outcome};
use crate::flags::ListFormat;
use crate::output;
use crate::running::{handle_signals, resolved, unstored};
use fsarena_core::plan::{Backing, Emulator, GuestPlan, Plan};
use fsarena_core::row::Row;
use fsarena_core::{
    cell::Variant, exit::ExitCode, matrix, metric::reading, number, plan::file::PlanFile,
    plan::resolve::Overrides,
};
use fsarena_report::repeats::Spread;
use fsarena_run::{Keep, Request};
use serde_json::json;

const PLAN: &str = include_str!("exact.toml");

/// The most that kernel instructions may vary between repeats of a cell, in per cent: the median over the tasks.
const PROMISED: f64 = 0.05;

/// Repeats cells, and says by how much they vary.
pub fn run(seed: u64, repeats: usize, quiet: bool, format: ListFormat) -> Outcome {
    handle_signals()?;
    let spreads = measure(plan(seed)?, repeats, quiet)?;
    let all = Spread::median(&spreads);
    match format {
        ListFormat::Json => {
            let report = json!({
                "repeats": repeats, "promised_percent": PROMISED, "median_percent": all, "tasks": spreads,
            });
            output::json(&report)?
        }
        ListFormat::Term => {
            output::rows(&by_filesystem(&spreads), ListFormat::Term)?;
            output::text(words(&spreads, repeats, all))?
        }
    };
    Ok(if all.is_some_and(|all| all <= PROMISED) { ExitCode::Done } else { ExitCode::Refuted })
}

fn plan(seed: u64) -> Result<Plan, Failure> {
    let mut over = Overrides {
        seed: Some(seed),
        backing: Some(Backing::Guest(GuestPlan::of(Emulator::Exact))),
        ..Overrides::default()
    };
    resolved(&PlanFile::parse("the self-test's plan", PLAN.as_bytes())?, &mut over)
}

/// Runs one round that has every variant `repeats` times. The cells of a round share a seed, so all do the same work.
fn measure(mut plan: Plan, repeats: usize, quiet: bool) -> Result<Vec<Spread>, Failure> {
    let variants = matrix::expand(&plan);
    let again = |variant: &Variant, time| Variant {
        name: format!("{}, {time}", variant.name),
        levels: variant.levels.clone(),
    };
    plan.title = format!("{}, {repeats} times", plan.title);
    plan.variants =
        variants.iter().flat_map(|variant| (1..=repeats).map(|time| again(variant, time))).collect();
    plan.stop.rounds = 1;
    let record = unstored(Request::new(plan, Keep::Nothing(std::env::temp_dir())), quiet, |_| ())?;
    Ok(Spread::all_of(&record, reading::KERNEL_INSTRUCTIONS))
}

#[derive(serde::Serialize)]
struct Line {
    filesystem: String,
    tasks: usize,
    median: String,
    worst: String,
    worst_task: String,
}

fn by_filesystem(spreads: &[Spread]) -> Vec<Line> {
    let line = |of: &[Spread]| {
        let worst = of.iter().max_by(|a, b| a.percent.total_cmp(&b.percent))?;
        Some(Line {
            filesystem: worst.filesystem.clone(),
            tasks: of.len(),
            median: number::percent(Spread::median(of)? / 100.0),
            worst: number::percent(worst.percent / 100.0),
            worst_task: worst.task.clone(),
        })
    };
    spreads.chunk_by(|a, b| a.filesystem == b.filesystem).filter_map(line).collect()
}

fn words(spreads: &[Spread], repeats: usize, all: Option<f64>) -> String {
    let Some(all) = all else { return "Nothing was counted.\n".into() };
    let same = spreads.iter().filter(|one| one.percent == 0.0).count();
    let end = if all <= PROMISED { "as promised" } else { "which is MORE than promised" };
    format!(
        "\nKernel instructions of {repeats} repeats of a cell differ by {} (median over {} tasks), {end} (at most {PROMISED}%); \
         {same} tasks took the very same number each time.\n",
        number::percent(all / 100.0),
        spreads.len(),
    )
}

impl Row for Line {
    const COLUMNS: &'static [&'static str] =
        &["filesystem", "tasks", "median: MEDIAN SPREAD", "worst", "worst_task"];
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_filesystem_is_a_line() {
        let of =
            |fs: &str, task: &str, counts: &[f64]| Spread::of(&(fs.into(), task.into()), counts).unwrap();
        let spreads =
            [of("ext4", "a", &[1.0, 1.0]), of("ext4", "b", &[1.0, 3.0]), of("xfs", "a", &[5.0, 5.0])];
        let lines = by_filesystem(&spreads);
        assert_eq!((lines.len(), lines[0].worst_task.as_str(), lines[0].tasks), (2, "b", 2));
        assert!(words(&spreads, 2, Some(0.0)).contains("2 tasks took the very same"));
        assert!(words(&spreads, 2, Some(1.0)).contains("MORE"));
    }
}
