//! Runs tasks of a stored run once more: with the tracepoints of locks (`--explain`), or with sampled stacks (`--profile`).

use crate::commands::run_unstored;
use crate::failure::{Failure, usage_error};
use fsarena_core::cell::{TaskId, Variant};
use fsarena_core::event::{CellEvent, Event};
use fsarena_core::plan::{Plan, StopPlan};
use fsarena_core::rerun::{BlockThreadsCell, workload_with_mode};
use fsarena_core::{names::unknown_name, record::RunRecord};
use fsarena_probe::trace::{Profile, TraceOptions, TracedTasks, Tracer};
use fsarena_report::document::{Document, Part};
use fsarena_report::functions::{self, VariantStacks, counted_instructions};
use fsarena_report::page::Page;
use fsarena_run::RunError;
use fsarena_run::protocol::{ProfileContent, ProfiledTask};
use fsarena_run::{Consumer, Destination, RunRequest};
use fsarena_stats::comparison::median;
use fsarena_store::RunDir;
use fsarena_sys::{kernel::SysRoot, process};
use serde_json::json;
use std::{collections::BTreeMap, path::Path};

/// Samples per 10⁹ instructions. It is a prime, so that samples do not coincide with periodic work. A sample costs about ten
/// thousand instructions.
const SAMPLES_PER_BILLION: u32 = 20_011;
/// Largest number of locks and of functions to print.
const MAX_LOCKS: usize = 8;
/// Largest number of callers to print for each of them.
const MAX_CALLERS: usize = 4;
/// The name of all code outside the kernel in samples.
const USER_CODE: &str = "(user code)";
/// The directory of the flame graphs, in the directory of the run.
const FLAME_GRAPHS_DIR: &str = "profile";

/// A task of a variant to run once more.
pub struct TracedTask {
    /// The variant.
    pub variant: Variant,
    /// The task.
    pub task: TaskId,
}

impl TracedTask {
    /// Finds a task and a variant of a run by their names. Without a name of a variant, takes the first one.
    ///
    /// # Errors
    /// A name that the run does not have.
    pub fn find(record: &RunRecord, task: &str, variant: Option<&str>) -> Result<TracedTask, Failure> {
        let place = format!("in run {}", record.id);
        let task_info = record.tasks.iter().find(|info| info.id.to_string() == task);
        let task_info = task_info.ok_or_else(|| record.unknown_task(task))?;
        let run_variant = record.variants.iter().find(|known| variant.is_none_or(|name| known.name == name));
        let run_variant = run_variant.ok_or_else(|| {
            unknown_name("variant", variant.unwrap_or_default(), record.variant_names()).with_place(place)
        })?;
        Ok(TracedTask { variant: run_variant.clone(), task: task_info.id.clone() })
    }

    /// Runs the task once more, and returns the locks that it waited for. The images are in a temporary directory below
    /// `parent_dir`.
    ///
    /// # Errors
    /// A kernel that does not support the tracer, or a run that fails or does not reach the task.
    pub fn trace_locks(&self, plan: &Plan, parent_dir: &Path, progress: &mut dyn Consumer) -> Result<Profile, Failure> {
        // Report missing kernel support before making anything.
        let trial_options = TraceOptions::locks(TracedTasks::Pids(vec![std::process::id()]), 0);
        drop(Tracer::start(&trial_options)?);
        let title = format!("{} {} again, traced", self.variant.name, self.task);
        let mut traced_plan = one_round(plan, title, vec![self.variant.clone()]);
        // A task of one block size and one number of threads: leave out all others of its workload.
        let number = |name: &str| self.task.params.get(name)?.parse::<u64>().ok();
        if let (Some(block_size), Some(threads)) = (number("bs"), number("threads")) {
            let (variant, mode, threads) = (self.variant.name.clone(), self.task.name.clone(), threads as u32);
            let cell = BlockThreadsCell { variant, mode, block_size, threads };
            traced_plan.workloads.retain(|workload| cell.belongs_to(&self.variant, workload));
            for workload in &mut traced_plan.workloads {
                *workload = workload_with_mode(workload, &cell.mode, block_size, &[threads].into());
            }
        }
        let mut profiles = run_profiled(traced_plan, parent_dir, self.task.clone(), ProfileContent::Locks, progress)?;
        profiles.remove(&self.variant.name).ok_or_else(|| {
            let message = format!("{} did not reach {}", self.variant.name, self.task);
            RunError::Agent(message).into()
        })
    }
}

/// One round of a plan with these variants and no claims.
fn one_round(plan: &Plan, title: String, variants: Vec<Variant>) -> Plan {
    let stop = StopPlan { rounds: 1, warmup: 0, budget_s: None, ends_when_decided: false, ..plan.stop.clone() };
    Plan { title, question: String::new(), variants, claims: vec![], stop, ..plan.clone() }
}

/// Runs a plan once more, and returns the first profile of a task for each variant, by the name of the variant. The figures of
/// the run are not used, because they include the cost of the tracer.
fn run_profiled(
    plan: Plan,
    parent_dir: &Path,
    task: TaskId,
    content: ProfileContent,
    progress: &mut dyn Consumer,
) -> Result<BTreeMap<String, Profile>, Failure> {
    let mut request = RunRequest::new(plan, Destination::ConsumersOnly(parent_dir.into()));
    request.profiled_task = Some(ProfiledTask { task, content });
    let (mut current_variant, mut profiles) = (String::new(), BTreeMap::new());
    let mut collect = |event: &Event| -> Result<(), RunError> {
        match event {
            Event::CellStarted { cell } => current_variant.clone_from(&cell.variant.name),
            Event::Cell { event: CellEvent::Profile { profile, .. }, .. } => {
                let profile = serde_json::from_value(profile.clone())
                    .map_err(|error| RunError::Agent(format!("no profile of {current_variant}: {error}")))?;
                profiles.entry(current_variant.clone()).or_insert(profile);
            }
            _ => {}
        }
        Ok(())
    };
    run_unstored(request, &mut [progress, &mut collect])?;
    Ok(profiles)
}

/// The page of the locks that a task waited for.
pub fn locks_page(record: &RunRecord, traced: &TracedTask, profile: &Profile) -> Page {
    let boot = process::boot_id(&SysRoot::host()).ok();
    let is_elsewhere = record.hosts.iter().all(|host| Some(&host.boot_id) != boot.as_ref());
    let mut document = Document::default();
    document.heading(1, format!("What {} waits for in {}", traced.variant.name, traced.task));
    match profile.lock_sites.first() {
        Some(first) => document.text(format!(
            "{:.0}% of the time that all threads waited for locks: {} ← {}.",
            100.0 * first.share,
            first.function,
            first.taker()
        )),
        None => {
            document.text(
                "CPU stacks, no lock found: no thread waited for a kernel lock, so lock contention does not limit this cell.",
            )
        }
    }
    document.parts.push(Part::Code("text", profile.format_text(MAX_LOCKS, MAX_CALLERS)));
    if is_elsewhere {
        document.text(format!(
            "Run {} was measured in another boot or on another machine; this is what happens here and now.",
            record.id
        ));
    }
    let json = json!({
        "format": 1,
        "run": record.id,
        "variant": traced.variant.name,
        "task": traced.task.to_string(),
        "measured_elsewhere": is_elsewhere,
        "profile": profile,
    });
    Page { document, json }
}

/// Runs the variants of a run once more, and returns the page of the functions in which a task executed its
/// instructions. The run must have counted instructions.
/// Writes flame graphs into `run_dir`, the directory of the run. Does not store the figures of the repetition, because
/// sampling itself executes instructions.
pub fn profile_variants(
    runs_dir: &Path,
    run_dir: &RunDir,
    record: &RunRecord,
    task: &str,
    progress: &mut dyn Consumer,
) -> Result<Page, Failure> {
    if !record.plan.device.backing.counts_instructions() {
        let run = &record.id;
        return usage_error(format!("run {run} did not count instructions; profile a run with --on exact"));
    }
    let (task, counted) = counted_instructions(record, task)?;
    let mut variants = record.variants.clone();
    variants.retain(|variant| counted.contains_key(&variant.name));
    let names: Vec<String> = variants.iter().map(|variant| variant.name.clone()).collect();
    let title = format!("{} variants again, sampled in {task}", variants.len());
    let plan = one_round(&record.plan, title, variants);
    let content = ProfileContent::Stacks { hz: SAMPLES_PER_BILLION };
    let mut profiles = run_profiled(plan, runs_dir, task.clone(), content, progress)?;
    let sampled = |variant: String| {
        let stacks = profiles.remove(&variant)?.stacks.into_iter().filter(|stack| stack.frames != [USER_CODE]);
        Some(VariantStacks {
            instructions: counted.get(&variant).and_then(|values| median(values)).unwrap_or(0.0),
            stacks: stacks.map(|stack| (stack.frames, stack.samples)).collect(),
            variant,
        })
    };
    let variants: Vec<VariantStacks> = names.into_iter().filter_map(sampled).collect();
    let dir = run_dir.path().join(FLAME_GRAPHS_DIR);
    let flame_graphs = functions::write_flame_graphs(&dir, &task.to_string(), &variants)?;
    Ok(functions::instructions_page(&record.id, &task.to_string(), &variants, &flame_graphs))
}
