//! The work of a plan: its workloads as its variants run them, their requirements, tasks and metrics.

use crate::bench::{lifecycle, readings};
use crate::executor::{Fatal, Result};
use crate::printed;
use fsarena_core::cell::{Cell, TaskInfo, Variant, WorkloadPlan};
use fsarena_core::matrix::{self, work_of};
use fsarena_core::metric::{Declaration, Declared};
use fsarena_core::names::distinct;
use fsarena_core::plan::{Backing, Emulator, Plan};
use fsarena_core::{event::Note, factor, metric::reading, record::RunRecord, scale::Scale};
use fsarena_load::demands::Demands;
use fsarena_load::workload::{Job, Place, Room, Survey, Workload};
use fsarena_load::workloads;
use std::collections::{BTreeMap, BTreeSet};
use std::{path::Path, time::Duration};

/// The combined requirements of all workloads of a plan.
#[derive(Debug, Default)]
pub struct Work {
    /// Space. On the filesystem under test it is that of the largest workload, because each runs on a fresh filesystem; on
    /// the source disk it is the sum, because the inputs of all workloads are there at once.
    pub room: Room,
    /// Other requirements of the filesystem under test.
    pub demands: Demands,
    /// Programs that the workloads execute.
    pub programs: BTreeSet<String>,
    /// Programs that the settings of workloads name, by name or path.
    pub own_programs: BTreeSet<String>,
    /// Caveats for every report.
    pub remarks: Vec<Note>,
    /// The number of timed tasks.
    pub tasks: u32,
}

impl Work {
    /// The combined requirements of the workloads of a plan in all its variants.
    ///
    /// # Errors
    /// If a workload is unknown, its inputs are missing, or two declare a metric of one name differently.
    pub fn of(plan: &Plan, variants: &[Variant]) -> Result<Work> {
        let (mut all, mut declared) = (Work::default(), Declared::default());
        for planned in &plan.workloads {
            // The variant with the largest requirements decides. Variants whose inputs are in one directory share them.
            let mut inputs = BTreeMap::new();
            for (at, way) in ways(planned, variants).iter().enumerate() {
                let (workload, job) = workload(plan, way)?;
                let Survey { room, demands, remarks, prints } = workload.survey(&job)?;
                for Declaration { metric, by } in &prints {
                    if let Some(taken) = printed::refusal(&metric.id) {
                        return Err(Fatal::Plan(format!("{by} finds {taken}")));
                    }
                    declared.declare(metric, by).map_err(|error| Fatal::Plan(error.to_string()))?;
                }
                all.demands = all.demands.and(demands);
                all.room.bytes = all.room.bytes.max(room.bytes);
                all.room.inodes = all.room.inodes.max(room.inodes);
                let shared: &mut u64 = inputs.entry(way.directory()).or_default();
                *shared = room.other_bytes.max(*shared);
                all.programs.extend(workload.programs(&job).into_iter().map(String::from));
                all.own_programs.extend(workload.own_programs(&job));
                if at == 0 {
                    all.remarks.extend(remarks);
                    all.tasks += workload.outline(&job).len() as u32;
                }
            }
            all.room.other_bytes += inputs.values().sum::<u64>();
        }
        Ok(all)
    }
}

/// The forms that a workload takes in these variants, each once: variants can change its settings.
fn ways(planned: &WorkloadPlan, variants: &[Variant]) -> Vec<WorkloadPlan> {
    let mut ways = vec![];
    for variant in variants {
        let way = work_of(variant, planned);
        if !ways.contains(&way) {
            ways.push(way);
        }
    }
    ways
}

/// Makes the inputs of every workload of a plan below the directory `other`, and syncs them before anything is timed.
///
/// # Errors
/// Where a file cannot be read or written.
pub fn inputs(plan: &Plan, other: &Path) -> Result<()> {
    let variants = matrix::expand(plan);
    let mut made = BTreeSet::new();
    let mut all = vec![];
    for planned in &plan.workloads {
        all.push(planned.clone());
        all.extend(ways(planned, &variants));
    }
    for way in all {
        if !made.insert(way.directory()) {
            continue;
        }
        let (workload, job) = workload(plan, &way)?;
        // Inputs do not depend on the filesystem under test, so its directory is a placeholder here.
        let place = Place::of(&way, other, other);
        fsarena_sys::tree::make_dirs(&place.other).map_err(fsarena_sys::Error::io("making", &place.other))?;
        workload.inputs(&job, &place)?;
    }
    let sync = std::fs::File::open(other).and_then(|dir| Ok(rustix::fs::syncfs(dir)?));
    Ok(sync.map_err(fsarena_sys::Error::io("syncing", other))?)
}

/// A workload and its job: checked settings, scale and seed.
type Ready = (&'static dyn Workload, Job);

/// A workload of a plan with its job.
///
/// # Errors
/// If this fsarena lacks the workload, or a setting is out of range.
pub fn workload(plan: &Plan, planned: &WorkloadPlan) -> Result<Ready> {
    ready(planned, plan.scale, plan.seed).map_err(Fatal::Plan)
}

/// The workload of a cell with its job.
///
/// # Errors
/// The message of an error of [`workload`].
pub fn of_cell(cell: &Cell) -> Result<Ready, String> {
    ready(&cell.workload, cell.scale, cell.seed)
}

/// The time limit of each command of a cell; None where its workload has no limit.
pub fn time_limit(cell: &Cell) -> Option<Duration> {
    let (workload, job) = of_cell(cell).ok()?;
    workload.time_limit(&job)
}

/// Finds a workload and checks its settings. Every job is made here, so the settings of a stored plan or of a message are
/// checked too.
fn ready(planned: &WorkloadPlan, scale: Scale, seed: u64) -> Result<Ready, String> {
    let Some(workload) = workloads::find(&planned.name) else {
        return Err(format!("this fsarena has no workload {}", planned.name));
    };
    workload.def().check(&planned.settings)?;
    Ok((workload, Job { settings: planned.settings.clone(), scale, seed }))
}

/// Checks the workloads of a stored plan in all variants.
///
/// # Errors
/// The message of an error of [`workload`].
pub fn check(plan: &Plan) -> Result<(), String> {
    let variants = matrix::expand(plan);
    for planned in &plan.workloads {
        for way in ways(planned, &variants) {
            ready(&way, plan.scale, plan.seed)?;
        }
    }
    Ok(())
}

/// The metrics by which a plan is judged by default, the primary one first.
pub fn metrics(plan: &Plan) -> Vec<&str> {
    let mut own =
        plan.workloads.iter().filter_map(|planned| Some(workloads::find(&planned.name)?.def().metrics));
    // A guest that counts instructions has no real time. A load that runs for a fixed time executes the same number of
    // instructions on every variant, so the metric there is the cost of a call.
    if matches!(&plan.device.backing, Backing::Guest(guest) if guest.emulator == Emulator::Exact) {
        return match own.all(|metrics| metrics.contains(&"elapsed")) {
            true => vec![reading::KERNEL_INSTRUCTIONS, "instructions"],
            false => vec!["instructions_per_call", reading::KERNEL_INSTRUCTIONS],
        };
    }
    distinct(plan.stop.best_metric.as_deref().into_iter().chain(own.flatten().copied()))
}

/// The metrics by which a run is judged: those of [`metrics`] that it has values of, then those that its commands printed.
pub fn answering(record: &RunRecord) -> Vec<String> {
    let has = |id: &&str| record.metric(id).is_some_and(|(_, rows)| rows.iter().any(|value| !value.is_nan()));
    let own: Vec<&str> = readings().map(|reading| reading.id).collect();
    let planned = metrics(&record.plan);
    let printed = record.readings.iter().map(|reading| reading.id.as_str());
    let printed = printed.filter(|id| record.plan.prints() && !own.contains(id) && !planned.contains(id));
    planned.iter().copied().filter(has).chain(printed).map(String::from).collect()
}

/// The primary metric of a plan: the first of [`metrics`].
pub fn main_metric(plan: &Plan) -> &str {
    metrics(plan).first().unwrap_or(&"elapsed")
}

/// The tasks of a cell of a plan in order, with mkfs, mount and unmount where fsarena times these.
pub fn outline(plan: &Plan) -> Vec<TaskInfo> {
    let formatted = plan.device.backing != Backing::Dir;
    // In a guest mkfs is not a task.
    let made = formatted && !matches!(plan.device.backing, Backing::Guest(_));
    let variants = matrix::expand(plan);
    let by_clients = variants.iter().any(|variant| !variant.level(factor::CLIENTS).is_empty());
    let mut tasks = vec![];
    if made {
        tasks.push(lifecycle("mkfs", "Make the filesystem"));
    }
    if formatted {
        tasks.push(lifecycle("mount", "Mount"));
    }
    for planned in &plan.workloads {
        let way = variants.first().map_or(planned.clone(), |variant| work_of(variant, planned));
        let Ok((workload, job)) = workload(plan, &way) else { continue };
        for mut task in workload.outline(&job) {
            if by_clients {
                task.id.forget_clients();
            }
            tasks.push(task);
        }
    }
    if formatted {
        tasks.push(lifecycle("unmount", "Unmount"));
    }
    tasks
}
