//! Runs that are not stored: their figures, or the profiles of a task of a stored run.

use crate::execute::{Keep, Request, RunError, execute};
use crate::executor::Fatal;
use crate::{protocol::Profiling, recorder::Consumer};
use fsarena_core::cell::{TaskId, Variant};
use fsarena_core::event::{CellEvent, Event};
use fsarena_core::matrix::of_mode;
use fsarena_core::plan::{Plan, StopPlan};
use fsarena_core::{names::unknown, record::RunRecord};
use fsarena_probe::trace::{Options, Profile, Target, Tracer};
use fsarena_sys::cancel;
use std::{collections::BTreeMap, path::Path};

/// Samples in 10⁹ instructions: a prime, so as not to keep step with anything. A sample costs some ten thousand.
const PER_BILLION: u32 = 20_011;

/// Runs a plan and returns what was measured; nothing is stored.
///
/// # Errors
/// Those of [`execute`], and a signal.
pub fn unstored(request: Request, consumers: &mut [&mut dyn Consumer]) -> Result<RunRecord, RunError> {
    let outcome = execute(request, consumers)?;
    if outcome.interrupted {
        cancel::check()?;
    }
    Ok(outcome.record)
}

/// A task of a variant.
pub struct Choice {
    /// The variant.
    pub variant: Variant,
    /// The task.
    pub task: TaskId,
}

impl Choice {
    /// A task of a run by its name, and a variant; the first one where none is named.
    ///
    /// # Errors
    /// A name that the run lacks.
    pub fn named(record: &RunRecord, task: &str, variant: Option<&str>) -> Result<Choice, Fatal> {
        let place = format!("in run {}", record.id);
        let found = record.tasks.iter().find(|info| info.id.to_string() == task);
        let found = found.ok_or_else(|| record.no_task(task))?;
        let chosen = record.variants.iter().find(|known| variant.is_none_or(|name| known.name == name));
        let chosen = chosen
            .ok_or_else(|| unknown("variant", variant.unwrap_or_default(), record.names()).at(place))?;
        Ok(Choice { variant: chosen.clone(), task: found.id.clone() })
    }

    /// Runs it once more, and returns the locks that it waited for; images lie in `below` meanwhile.
    ///
    /// # Errors
    /// A kernel without what the tracer needs, a run that fails, or one that did not come to the task.
    pub fn locks(&self, plan: &Plan, below: &Path, progress: &mut dyn Consumer) -> Result<Profile, RunError> {
        // Report missing kernel support before making anything.
        let trial = Options::locks(Target::Pids(vec![std::process::id()]), 0);
        drop(Tracer::start(&trial)?);
        let title = format!("{} {} again, traced", self.variant.name, self.task);
        let mut alone = one_round(plan, title, vec![self.variant.clone()]);
        let number = |name: &str| self.task.params.get(name)?.parse::<u64>().ok();
        if let (Some(size), Some(threads)) = (number("bs"), number("threads")) {
            let only = |workload| of_mode(workload, &self.task.name, size, &[threads as u32].into());
            alone.workloads = plan.workloads.iter().map(only).collect();
        }
        let mut profiles = profiles(alone, below, Profiling::Locks, &self.task, progress)?;
        let missing = || Fatal::Agent(format!("{} did not come to {}", self.variant.name, self.task));
        Ok(profiles.remove(&self.variant.name).ok_or_else(missing)?)
    }
}

/// Runs these variants of a run that counts instructions once more, and returns by variant where those of a task went;
/// images lie in `below` meanwhile.
///
/// # Errors
/// Where the run fails.
pub fn stacks(
    plan: &Plan,
    variants: Vec<Variant>,
    task: &TaskId,
    below: &Path,
    progress: &mut dyn Consumer,
) -> Result<BTreeMap<String, Profile>, RunError> {
    let title = format!("{} variants again, sampled in {task}", variants.len());
    let plan = one_round(plan, title, variants);
    profiles(plan, below, Profiling::Stacks { hz: PER_BILLION }, task, progress)
}

/// One round of a plan with these variants, of which nothing is claimed.
fn one_round(plan: &Plan, title: String, variants: Vec<Variant>) -> Plan {
    let stop = StopPlan { rounds: 1, warmup: 0, budget_s: None, when_decided: false, ..plan.stop.clone() };
    Plan { title, question: String::new(), variants, claims: vec![], stop, ..plan.clone() }
}

/// Runs a plan once more, and returns the profiles of one task: the first of each variant. Its figures are of no use: the
/// tracer is part of what was measured.
fn profiles(
    plan: Plan,
    below: &Path,
    profiling: Profiling,
    wanted: &TaskId,
    progress: &mut dyn Consumer,
) -> Result<BTreeMap<String, Profile>, RunError> {
    let mut request = Request::new(plan, Keep::Nothing(below.into()));
    request.profiling = Some(profiling);
    let (mut variant, mut found) = (String::new(), BTreeMap::new());
    let mut take = |event: &Event| -> Result<(), Fatal> {
        match event {
            Event::CellStarted { cell } => variant.clone_from(&cell.variant.name),
            Event::Cell { what: CellEvent::Profile { task, profile }, .. } if task == wanted => {
                let profile = serde_json::from_value(profile.clone());
                let profile =
                    profile.map_err(|error| Fatal::Agent(format!("no profile of {variant}: {error}")))?;
                found.entry(variant.clone()).or_insert(profile);
            }
            _ => {}
        }
        Ok(())
    };
    unstored(request, &mut [progress, &mut take])?;
    Ok(found)
}
