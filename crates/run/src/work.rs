//! The work of a plan, and its requirements.

use crate::bench::{lifecycle, readings};
use crate::error::{Result, RunError};
use crate::printed;
use fsarena_core::cell::{Cell, TaskInfo, Variant, WorkloadPlan};
use fsarena_core::matrix::{self, work_of};
use fsarena_core::metric::{Declaration, Declared};
use fsarena_core::names::distinct;
use fsarena_core::plan::{Backing, Emulator, Plan};
use fsarena_core::sample::Direction;
use fsarena_core::{event::Note, metric::reading, record::RunRecord, scale::Scale};
use fsarena_load::workload::Demands;
use fsarena_load::workload::{Job, Place, Room, Survey, Workload};
use fsarena_load::workloads;
use std::collections::{BTreeMap, BTreeSet};
use std::{path::Path, time::Duration};

/// The combined requirements of all workloads of a plan.
#[derive(Debug, Default)]
pub struct Work {
    /// Room on the filesystem under test, where one workload runs after another on a fresh one; on the other
    /// disk the inputs of all lie side by side.
    pub room: Room,
    /// What they ask of the filesystem besides.
    pub demands: Demands,
    /// Programs that they execute.
    pub programs: BTreeSet<String>,
    /// Programs that the user wrote into the settings, by name or path.
    pub own_programs: BTreeSet<String>,
    /// Caveats for every report of them.
    pub remarks: Vec<Note>,
    /// Their timed tasks.
    pub tasks: u32,
}

impl Work {
    /// The work of a plan, whichever of its variants does it.
    ///
    /// # Errors
    /// A workload that is unknown, or inputs of it that cannot be had.
    pub fn of(plan: &Plan, variants: &[Variant]) -> Result<Work> {
        let (mut all, mut declared) = (Work::default(), Declared::default());
        for asked in &plan.workloads {
            // The variant that needs most decides; those that find their inputs in one directory share them.
            let mut inputs = BTreeMap::new();
            for (at, way) in ways(asked, variants).iter().enumerate() {
                let (workload, job) = workload(plan, way)?;
                let Survey { room, demands, remarks, prints } = workload.survey(&job)?;
                for Declaration { metric, by } in &prints {
                    let taken = printed::refusal(&metric.id).map(|taken| format!("{by} finds {taken}"));
                    let contradicts =
                        || declared.declare_printed(metric, by).err().map(|error| error.to_string());
                    if let Some(why) = taken.or_else(contradicts) {
                        return Err(RunError::Plan(why));
                    }
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

/// What the variants make of a workload, each way once.
fn ways(asked: &WorkloadPlan, variants: &[Variant]) -> Vec<WorkloadPlan> {
    variants.iter().map(|variant| work_of(variant, asked)).fold(vec![], |mut ways, way| {
        if !ways.contains(&way) {
            ways.push(way);
        }
        ways
    })
}

/// Makes the inputs of every workload of a plan below a directory, and has them written back before anything is timed.
///
/// # Errors
/// Where a file cannot be read or written.
pub fn inputs(plan: &Plan, other: &Path) -> Result<()> {
    let variants = matrix::expand(plan);
    let mut made = BTreeSet::new();
    let all = |asked: &WorkloadPlan| std::iter::once(asked.clone()).chain(ways(asked, &variants));
    for way in plan.workloads.iter().flat_map(all) {
        if !made.insert(way.directory()) {
            continue;
        }
        let (workload, job) = workload(plan, &way)?;
        // Inputs know no filesystem under test: they are the same for every variant.
        let place = Place::for_workload(&way, other, other);
        fsarena_sys::dirs::make_dirs(&place.other).map_err(fsarena_sys::Error::io("making", &place.other))?;
        workload.inputs(&job, &place)?;
    }
    let sync = std::fs::File::open(other).and_then(|dir| Ok(rustix::fs::syncfs(dir)?));
    Ok(sync.map_err(fsarena_sys::Error::io("syncing", other))?)
}

/// A workload and its job.
type Ready = (&'static dyn Workload, Job);

/// The workload of a plan, ready to be asked.
///
/// # Errors
/// A workload that this fsarena lacks, or a setting of it that is out of range.
pub fn workload(plan: &Plan, asked: &WorkloadPlan) -> Result<Ready> {
    ready(asked, plan.scale, plan.seed).map_err(RunError::Plan)
}

/// The workload of a cell, ready to be asked.
///
/// # Errors
/// Those of [`workload`], in words.
pub fn of_cell(cell: &Cell) -> Result<Ready, String> {
    ready(&cell.workload, cell.scale, cell.seed)
}

/// The time that each command of a cell may take, where its work has such a limit.
pub fn time_limit(cell: &Cell) -> Option<Duration> {
    let (workload, job) = of_cell(cell).ok()?;
    workload.time_limit(&job)
}

/// The only way to a job, so that none has settings that nobody checked, be they of a stored plan or of a message.
fn ready(asked: &WorkloadPlan, scale: Scale, seed: u64) -> Result<Ready, String> {
    let lacking = || format!("this fsarena has no workload {}", asked.name);
    let workload = workloads::find(&asked.name).ok_or_else(lacking)?;
    workload.def().check(&asked.settings)?;
    Ok((workload, Job { settings: asked.settings.clone(), scale, seed }))
}

/// Checks the work of a stored plan, in each way in which its variants do it.
///
/// # Errors
/// Those of [`workload`], in words.
pub fn check(plan: &Plan) -> Result<(), String> {
    let variants = matrix::expand(plan);
    let mut ways = plan.workloads.iter().flat_map(|asked| ways(asked, &variants));
    ways.try_for_each(|way| ready(&way, plan.scale, plan.seed).map(drop))
}

/// The metrics that answer for the workloads of a plan by default, the main one first.
pub fn metrics(plan: &Plan) -> Vec<&str> {
    let mut own = plan.workloads.iter().filter_map(|asked| Some(workloads::find(&asked.name)?.def().metrics));
    // A guest that counts instructions knows no time. A load that goes on for some time executes the same number of
    // them whatever it does, so there it is a call that has a cost.
    if counts_instructions(plan) {
        return match own.all(|metrics| metrics.contains(&"elapsed")) {
            true => vec![reading::KERNEL_INSTRUCTIONS, "instructions"],
            false => vec!["instructions_per_call", reading::KERNEL_INSTRUCTIONS],
        };
    }
    distinct(plan.stop.best_metric.as_deref().into_iter().chain(own.flatten().copied()))
}

/// The metrics that answer for a run, the main one first: those of its workloads that it has values of, and what its
/// commands printed. A printed metric that has a better and a worse direction leads: somebody declared it as what the
/// work is about. The user's own choice leads over it, and in a guest without time the counts do.
pub fn answering(record: &RunRecord) -> Vec<String> {
    let has = |id: &&str| record.metric(id).is_some_and(|(_, rows)| rows.iter().any(|value| !value.is_nan()));
    let own: Vec<&str> = readings().map(|reading| reading.id).collect();
    let asked = metrics(&record.plan);
    let chosen = record.plan.stop.best_metric.as_deref();
    let (mut first, mut others): (Vec<&str>, Vec<&str>) =
        asked.iter().copied().filter(has).partition(|id| chosen == Some(id));
    let is_printed = |id: &str| record.plan.prints() && !own.contains(&id) && !asked.contains(&id);
    for reading in record.readings.iter().filter(|reading| is_printed(&reading.id)) {
        let leads = reading.direction != Direction::Neutral && !counts_instructions(&record.plan);
        if leads { &mut first } else { &mut others }.push(&reading.id);
    }
    first.into_iter().chain(others).map(String::from).collect()
}

/// The metric that answers for a run so far: the first of [`answering`], or before it has values that of its plan.
pub fn main_of_run(record: &RunRecord) -> String {
    answering(record).into_iter().next().unwrap_or_else(|| main_metric(&record.plan).into())
}

/// Whether a plan runs in a guest that counts instructions instead of time.
fn counts_instructions(plan: &Plan) -> bool {
    matches!(&plan.device.backing, Backing::Guest(guest) if guest.emulator == Emulator::Exact)
}

/// The metric that answers for a plan: the first of [`metrics`].
pub fn main_metric(plan: &Plan) -> &str {
    metrics(plan).first().unwrap_or(&"elapsed")
}

/// The tasks of a plan's cells in their order, with those that every filesystem goes through.
pub fn outline(plan: &Plan) -> Vec<TaskInfo> {
    let formatted = plan.device.backing != Backing::Dir;
    // In a guest mkfs is not a task.
    let made = formatted && !matches!(plan.device.backing, Backing::Guest(_));
    let task = |there: bool, id, title| there.then(|| lifecycle(id, title));
    let variants = matrix::expand(plan);
    let of_variant =
        |asked: &WorkloadPlan| variants.first().map_or(asked.clone(), |variant| work_of(variant, asked));
    let asked = plan.workloads.iter().filter_map(|asked| workload(plan, &of_variant(asked)).ok());
    let tasks = asked.flat_map(|(workload, job)| {
        let mut tasks = workload.outline(&job);
        for task in &mut tasks {
            variants.iter().for_each(|variant| task.id.forget_factors(variant));
        }
        tasks
    });
    let mkfs = task(made, "mkfs", "Make the filesystem").into_iter();
    let mount = task(formatted, "mount", "Mount");
    mkfs.chain(mount).chain(tasks).chain(task(formatted, "unmount", "Unmount")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::record;
    use fsarena_core::record::MetricSpec;
    use fsarena_core::sample::Unit;
    use fsarena_core::setting::Value;

    #[test]
    fn what_a_command_declares_with_a_direction_leads() {
        let (mut run, _) = record(&[("ext4", 1.0), ("xfs", 1.0)], &[], 1);
        assert_eq!(answering(&run), ["elapsed"]);
        let rules = Value::List(vec![]);
        run.plan.workloads[0].settings.0.insert("metric_regex".into(), rules);
        for (id, direction) in
            [("size", Direction::Neutral), ("tps", Direction::Higher), ("lat_ns", Direction::Lower)]
        {
            run.readings.push(MetricSpec::new(id.into(), Unit::Count, direction, String::new()));
            run.samples.values.push(vec![1.0; run.samples.len()]);
        }
        assert_eq!(answering(&run), ["tps", "lat_ns", "elapsed", "size"]);
        assert_eq!(main_of_run(&run), "tps");
        // What the user chose leads over all.
        run.plan.stop.best_metric = Some("elapsed".into());
        assert_eq!(answering(&run), ["elapsed", "tps", "lat_ns", "size"]);
    }
}
