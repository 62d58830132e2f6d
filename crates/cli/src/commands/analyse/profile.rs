//! The arms of an exact run again, sampled: where their instructions go.

use super::Args;
use super::again::{self, no_step};
use crate::failure::Failure;
use crate::progress::Progress;
use crate::room::Room;
use fsarena_core::cell::{Arm, StepId};
use fsarena_core::event::Event;
use fsarena_core::exit::ExitCode;
use fsarena_core::matrix;
use fsarena_core::metric::reading;
use fsarena_core::plan::{Backing, Emulator, GuestPlan, Plan};
use fsarena_core::record::RunRecord;
use fsarena_report::functions::{self, Sampled, flame};
use fsarena_report::page::Page;
use fsarena_run::executor::Executor;
use fsarena_run::guest::Guests;
use fsarena_run::preflight;
use fsarena_store::RunDir;
use fsarena_sys::kernel::Kernel;
use fsarena_trace::Stack;
use std::collections::BTreeMap;
use std::path::Path;

/// Samples in 10⁹ instructions: a prime, so as not to keep step with anything. A sample costs some ten thousand.
const PER_BILLION: u32 = 20_011;
/// What is scaled to. Programs are counted apart, and what they do is not asked.
const METRIC: &str = reading::KERNEL_INSTRUCTIONS;
/// What the sampler calls all that is not the kernel.
const USER: &str = "(user code)";
/// The directory of flame graphs in that of the run.
const DIR: &str = "profile";

/// Runs every arm once more and says where the instructions of a step went. Nothing of it is stored but the pictures:
/// sampling is work too.
pub fn profile(args: &Args, record: &RunRecord, step: &str) -> Result<Page, Failure> {
    let exact = match &record.plan.device.backing {
        Backing::Guest(guest) if guest.emulator == Emulator::Exact => guest,
        _ => {
            let message =
                format!("run {} did not count instructions; profile a run with --on exact", record.id);
            return Err(Failure::new(ExitCode::Usage, message));
        }
    };
    let counted = Counted::of(record)?;
    let step = counted.step(record, step)?;
    let arms: Vec<&Arm> = record.arms.iter().filter(|arm| counted.has(&arm.name, &step)).collect();
    let mut progress = Progress::new(args.quiet);
    progress.say(&format!("{} arms again, sampled in {step}", arms.len()));
    let mut plan = record.plan.clone();
    plan.arms = arms.iter().map(|arm| (*arm).clone()).collect();
    let stacks = sampled(&plan, exact, &step, &args.runs.runs, &mut progress)?;
    let arms: Vec<Sampled> = stacks
        .into_iter()
        .map(|(arm, stacks)| Sampled {
            instructions: counted.median(&arm, &step),
            stacks: stacks
                .into_iter()
                .filter(|stack| stack.frames != [USER])
                .map(|stack| (stack.frames, stack.samples))
                .collect(),
            arm,
        })
        .collect();
    let dir = RunDir::find(&args.runs.runs, &args.what)?.path().join(DIR);
    let pictures = draw(&dir, &step.to_string(), &arms)?;
    Ok(functions::page(&record.id, &step.to_string(), &arms, &pictures))
}

/// Instructions by arm and step, one number a block.
struct Counted(BTreeMap<(String, StepId), Vec<f64>>);

impl Counted {
    fn of(record: &RunRecord) -> Result<Counted, Failure> {
        let (_, values) = record.metric(METRIC).ok_or_else(|| {
            Failure::new(ExitCode::Usage, format!("run {} has counted nothing yet", record.id))
        })?;
        let mut counted: BTreeMap<_, Vec<f64>> = BTreeMap::new();
        for (row, value) in values.iter().enumerate().filter(|(_, value)| !value.is_nan()) {
            let step = &record.steps[record.samples.step[row] as usize];
            let arm = &record.arms[record.cells[record.samples.cell[row] as usize].arm];
            if step.in_composite {
                counted.entry((arm.name.clone(), step.id.clone())).or_default().push(*value);
            }
        }
        Ok(Counted(counted))
    }

    /// The step of a name, or the one that took most.
    fn step(&self, record: &RunRecord, name: &str) -> Result<StepId, Failure> {
        let most = || self.0.iter().max_by(|a, b| most(a.1).total_cmp(&most(b.1))).map(|((_, step), _)| step);
        let named = || self.0.keys().map(|(_, step)| step).find(|step| step.to_string() == name);
        let found = if name.is_empty() { most() } else { named() };
        found.cloned().ok_or_else(|| no_step(record, name))
    }

    fn has(&self, arm: &str, step: &StepId) -> bool {
        self.0.contains_key(&(arm.to_string(), step.clone()))
    }

    fn median(&self, arm: &str, step: &StepId) -> f64 {
        let mut values = self.0.get(&(arm.to_string(), step.clone())).cloned().unwrap_or_default();
        values.sort_by(f64::total_cmp);
        values.get(values.len() / 2).copied().unwrap_or(0.0)
    }
}

fn most(values: &[f64]) -> f64 {
    values.iter().copied().fold(0.0, f64::max)
}

/// Boots each arm once, and gives what was found running in the step.
fn sampled(
    plan: &Plan,
    guest: &GuestPlan,
    step: &StepId,
    runs: &Path,
    progress: &mut Progress,
) -> Result<Vec<(String, Vec<Stack>)>, Failure> {
    let kernel = Kernel::host();
    let arms = matrix::expand(plan);
    let check = preflight::check(&kernel, plan, &arms, runs)?;
    let room = Room::make(runs, "profile")?;
    let mut tell = |event: Event| {
        progress.show(&event);
        Ok(())
    };
    let executor = Guests::start(plan, guest, &check, room.journal(), room.dir(), &mut tell)?;
    let mut executor = executor.sampling(PER_BILLION);
    let mut found = vec![];
    for (at, arm) in arms.iter().enumerate() {
        for cell in matrix::cells(plan, &arms, &[at], 0) {
            let Some(profile) = again::run(&mut executor, &cell, step)? else { continue };
            found.push((arm.name.clone(), profile.stacks));
        }
    }
    Box::new(executor).finish(&mut tell)?;
    room.clear()?;
    Ok(found)
}

/// Writes the flame graphs, and says which file shows what.
fn draw(dir: &Path, step: &str, arms: &[Sampled]) -> Result<Vec<(String, String)>, Failure> {
    std::fs::create_dir_all(dir).map_err(Failure::file(dir))?;
    let mut pictures = vec![];
    let mut keep = |about: String, name: String, svg: Vec<u8>| {
        let path = dir.join(name);
        std::fs::write(&path, svg).map_err(Failure::file(&path))?;
        pictures.push((about, path.display().to_string()));
        Ok::<(), Failure>(())
    };
    for (at, arm) in arms.iter().enumerate() {
        let about = format!("{} {step}", arm.arm);
        keep(about.clone(), format!("{}-{at}.svg", plain(step)), flame::of_one(&about, arm)?)?;
    }
    if let [a, b] = arms {
        let about = format!("{step}: {} against {}", b.arm, a.arm);
        keep(about.clone(), format!("{}-difference.svg", plain(step)), flame::of_two(&about, [a, b])?)?;
    }
    Ok(pictures)
}

/// A name that any filesystem takes.
fn plain(step: &str) -> String {
    step.chars().map(|letter| if letter.is_alphanumeric() { letter } else { '-' }).collect()
}
