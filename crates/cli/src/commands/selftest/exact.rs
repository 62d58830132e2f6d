//! `fsarena selftest --exact`: the same cells again and again in guests that count instructions.

use super::Args;
use crate::failure::{Failure, Outcome};
use crate::flags::ListFormat;
use crate::listing::{self, Row};
use crate::progress::Progress;
use crate::room::Room;
use crate::vocabulary;
use fsarena_core::event::{CellEvent, Event, Outcome as Ended};
use fsarena_core::exit::ExitCode;
use fsarena_core::matrix;
use fsarena_core::metric::reading;
use fsarena_core::plan::file::PlanFile;
use fsarena_core::plan::resolve::{Overrides, resolve};
use fsarena_core::plan::{Backing, Emulator, GuestPlan, Plan};
use fsarena_run::executor::Executor;
use fsarena_run::guest::Guests;
use fsarena_run::preflight;
use fsarena_sys::kernel::Kernel;
use serde_json::json;
use std::collections::BTreeMap;

const PLAN: &str = include_str!("exact.toml");

/// The most that kernel instructions may vary between repeats of a cell, in per cent: the median over the tasks.
const PROMISED: f64 = 0.05;

/// Kernel instructions by filesystem and task, one number a repeat.
type Counts = BTreeMap<(String, String), Vec<f64>>;

/// Repeats cells, and says by how much they vary.
pub fn run(args: &Args) -> Outcome {
    let kernel = Kernel::host();
    fsarena_sys::cancel::install()
        .map_err(|error| Failure::new(ExitCode::Internal, format!("signals: {error}")))?;
    let guest = GuestPlan::of(Emulator::Exact);
    let plan = plan(args, &guest, &kernel)?;
    let mut progress = Progress::new(args.quiet);
    let Some(counts) = measure(&kernel, &plan, &guest, args.repeats, &mut progress)? else {
        return Err(Failure::new(ExitCode::Internal, "a signal ended the self-test"));
    };
    let spreads: Vec<Spread> = counts.iter().filter_map(|(key, counts)| Spread::of(key, counts)).collect();
    let all = middle(spreads.iter().map(|one| one.percent).collect());
    match args.format {
        ListFormat::Json => {
            let report = json!({
                "repeats": args.repeats, "promised_percent": PROMISED, "median_percent": all, "tasks": spreads,
            });
            super::print(&format!("{report:#}\n"))?;
        }
        ListFormat::Term => {
            listing::print(&by_filesystem(&spreads), ListFormat::Term)?;
            super::print(&words(&spreads, args.repeats, all))?;
        }
    }
    Ok(if all.is_some_and(|all| all <= PROMISED) { ExitCode::Done } else { ExitCode::Refuted })
}

fn plan(args: &Args, guest: &GuestPlan, kernel: &Kernel) -> Result<Plan, Failure> {
    let file = PlanFile::parse("the self-test's plan", PLAN.as_bytes())?;
    let over = Overrides {
        seed: Some(args.seed),
        backing: Some(Backing::Guest(guest.clone())),
        ..Overrides::default()
    };
    Ok(resolve("the self-test's plan", &file, &over, &vocabulary::collect(kernel, &over)?)?)
}

/// Runs every cell so many times. None where a signal ended it.
fn measure(
    kernel: &Kernel,
    plan: &Plan,
    guest: &GuestPlan,
    repeats: u32,
    progress: &mut Progress,
) -> Result<Option<Counts>, Failure> {
    let variants = matrix::expand(plan);
    let check = preflight::check(kernel, plan, &variants, &std::env::temp_dir())?;
    progress.say(&format!("{}: {}, {repeats} times", plan.title, check.describe()));
    let room = Room::make(&std::env::temp_dir(), "fsarena-selftest")?;
    let mut silent = |_: Event| Ok(());
    let mut executor = Guests::start(plan, guest, &check, room.journal(), room.dir(), &mut silent)?;
    let mut counts = Counts::new();
    let all: Vec<usize> = (0..variants.len()).collect();
    let cells = matrix::cells(plan, &variants, &all, 0);
    for cell in cells.iter().flat_map(|cell| std::iter::repeat_n(cell, repeats as usize)) {
        let ended = executor.run(cell, &mut |event| {
            if let CellEvent::Sample(sample) = event
                && sample.task.in_composite
                && let Some(count) = sample.readings.get(reading::KERNEL_INSTRUCTIONS)
            {
                let key = (cell.variant.name.clone(), format!("{} {}", cell.workload.name, sample.task.id));
                counts.entry(key).or_default().push(count);
            }
        })?;
        match ended {
            Ended::Done => progress.say(&format!("{} {}", cell.variant.name, cell.workload.name)),
            Ended::Interrupted => return Ok(None),
            Ended::Failed { why } => {
                return Err(Failure::new(ExitCode::Internal, format!("{} failed: {why}", cell.variant.name)));
            }
        }
    }
    Box::new(executor).finish(&mut silent)?;
    room.clear()?;
    Ok(Some(counts))
}

/// By how much a task varies.
#[derive(Debug, serde::Serialize)]
struct Spread {
    filesystem: String,
    task: String,
    kernel_instructions: Vec<f64>,
    /// The largest less the smallest, of the median, in per cent.
    percent: f64,
}

impl Spread {
    fn of((filesystem, task): &(String, String), counts: &[f64]) -> Option<Spread> {
        let (least, most) = counts.iter().fold((f64::MAX, f64::MIN), |(a, b), x| (a.min(*x), b.max(*x)));
        let percent = 100.0 * (most - least) / middle(counts.to_vec()).filter(|middle| *middle > 0.0)?;
        let (filesystem, task) = (filesystem.clone(), task.clone());
        Some(Spread { filesystem, task, kernel_instructions: counts.to_vec(), percent })
    }
}

/// The median.
fn middle(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let (below, above) = (values.get(values.len().checked_sub(1)? / 2)?, values.get(values.len() / 2)?);
    Some((below + above) / 2.0)
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
    let mut names: Vec<&String> = spreads.iter().map(|one| &one.filesystem).collect();
    names.dedup();
    let line = |name: &String| {
        let of: Vec<&Spread> = spreads.iter().filter(|one| one.filesystem == *name).collect();
        let worst = of.iter().max_by(|a, b| a.percent.total_cmp(&b.percent))?;
        Some(Line {
            filesystem: name.clone(),
            tasks: of.len(),
            median: percent(middle(of.iter().map(|one| one.percent).collect())?),
            worst: percent(worst.percent),
            worst_task: worst.task.clone(),
        })
    };
    names.into_iter().filter_map(line).collect()
}

fn percent(value: f64) -> String {
    format!("{value:.4}%")
}

fn words(spreads: &[Spread], repeats: u32, all: Option<f64>) -> String {
    let Some(all) = all else { return "Nothing was counted.\n".into() };
    let same = spreads.iter().filter(|one| one.percent == 0.0).count();
    let end = if all <= PROMISED { "as promised" } else { "which is MORE than promised" };
    format!(
        "\nKernel instructions of {repeats} repeats of a cell differ by {} (median over {} tasks), {end} (at most {PROMISED}%); \
         {same} tasks took the very same number each time.\n",
        percent(all),
        spreads.len(),
    )
}

impl Row for Line {
    const HEADS: &'static [&'static str] = &["FILESYSTEM", "TASKS", "MEDIAN SPREAD", "WORST", "WORST TASK"];

    fn columns(&self) -> Vec<String> {
        vec![
            self.filesystem.clone(),
            self.tasks.to_string(),
            self.median.clone(),
            self.worst.clone(),
            self.worst_task.clone(),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_is_of_the_median() {
        let key = ("ext4".to_string(), "cp".to_string());
        let spread = Spread::of(&key, &[1000.0, 1001.0, 1002.0]).unwrap();
        assert!((spread.percent - 200.0 / 1001.0).abs() < 1e-12);
        assert!(Spread::of(&key, &[]).is_none() && Spread::of(&key, &[0.0]).is_none());
        assert_eq!(middle(vec![4.0, 1.0, 2.0, 3.0]), Some(2.5));
    }

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
