//! The workloads of a plan: their requirements, their inputs, their tasks, and the metrics that reports show of them.

use crate::bench::{lifecycle_task, reading_defs};
use crate::error::{Result, RunError};
use crate::file_layout;
use fsarena_core::cell::{Cell, TaskInfo, Variant, WorkloadPlan};
use fsarena_core::matrix::{self, workload_of_variant};
use fsarena_core::metric;
use fsarena_core::names::distinct;
use fsarena_core::plan::{Backing, Plan};
use fsarena_core::sample::Direction;
use fsarena_core::{metric::reading, record::RunRecord, scale::Scale};
use fsarena_load::workload::{Job, Place, Workload};
use fsarena_load::workloads;
use std::collections::BTreeSet;
use std::{path::Path, time::Duration};

/// Returns the versions of a workload: its settings as each variant changes them, each version once.
pub fn workload_versions(planned: &WorkloadPlan, variants: &[Variant]) -> Vec<WorkloadPlan> {
    let mut versions = vec![];
    for variant in variants {
        let version = workload_of_variant(variant, planned);
        if !versions.contains(&version) {
            versions.push(version);
        }
    }
    versions
}

/// Makes the inputs of every workload of a plan in the directory `source_dir`, and syncs them before anything is timed.
///
/// # Errors
/// A file cannot be read or written.
pub fn make_inputs(plan: &Plan, source_dir: &Path) -> Result<()> {
    for version in input_versions(plan) {
        let (workload, job) = find_workload(plan, &version)?;
        make_inputs_of_version(workload, &job, &version, source_dir)?;
    }
    sync_inputs(source_dir)
}

/// Which drawn inputs a directory has. Each round draws inputs with its seed.
#[derive(Debug, Default)]
pub struct DrawnInputsState {
    /// The seed of the inputs that are in the directory now; None for the inputs made with the seed of the plan, and for
    /// inputs that are not complete.
    seed: Option<u64>,
}

impl DrawnInputsState {
    /// Replaces the drawn inputs in the directory `source_dir` with those of the round of a cell, unless they are there
    /// already. Returns whether it replaced them.
    ///
    /// # Errors
    /// A file cannot be read, written or removed.
    pub fn draw(&mut self, plan: &Plan, cell: &Cell, source_dir: &Path) -> Result<bool> {
        if self.seed == Some(cell.seed) {
            return Ok(false);
        }
        if !has_drawn_inputs(plan)? {
            self.seed = Some(cell.seed);
            return Ok(false);
        }
        // Until all inputs are replaced, the directory has the inputs of no seed.
        self.seed = None;
        for version in input_versions(plan) {
            let (workload, job) = find_workload(plan, &version)?;
            let job = Job { seed: cell.seed, ..job };
            if workload.inputs_depend_on_seed(&job) {
                let old = Place::for_workload(&version, source_dir, source_dir).source_dir;
                // An earlier call may have failed after it removed the directory.
                fsarena_sys::none_if_missing(std::fs::remove_dir_all(&old))
                    .map_err(fsarena_sys::Error::io("removing", &old))?;
                make_inputs_of_version(workload, &job, &version, source_dir)?;
            }
        }
        sync_inputs(source_dir)?;
        self.seed = Some(cell.seed);
        Ok(true)
    }
}

/// Whether any workload of a plan draws its inputs.
///
/// # Errors
/// An unknown workload or an invalid setting.
pub fn has_drawn_inputs(plan: &Plan) -> Result<bool> {
    for version in input_versions(plan) {
        let (workload, job) = find_workload(plan, &version)?;
        if workload.inputs_depend_on_seed(&job) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The versions of the workloads of a plan for which inputs are made: one for each directory of inputs.
fn input_versions(plan: &Plan) -> Vec<WorkloadPlan> {
    let variants = matrix::expand(plan);
    let all_versions =
        |planned: &WorkloadPlan| std::iter::once(planned.clone()).chain(workload_versions(planned, &variants));
    let mut directories = BTreeSet::new();
    plan.workloads
        .iter()
        .flat_map(all_versions)
        .filter(|version| directories.insert(version.directory_name()))
        .collect()
}

/// Makes the inputs of a workload in its directory below `source_dir`.
fn make_inputs_of_version(workload: &dyn Workload, job: &Job, version: &WorkloadPlan, source_dir: &Path) -> Result<()> {
    // The inputs do not depend on the filesystem under test, so `source_dir` stands for it too.
    let place = Place::for_workload(version, source_dir, source_dir);
    fsarena_sys::dirs::make_dirs(&place.source_dir).map_err(fsarena_sys::Error::io("making", &place.source_dir))?;
    Ok(workload.make_inputs(job, &place)?)
}

/// Writes the inputs back to their device.
fn sync_inputs(source_dir: &Path) -> Result<()> {
    let sync = std::fs::File::open(source_dir).and_then(|dir| Ok(rustix::fs::syncfs(dir)?));
    Ok(sync.map_err(fsarena_sys::Error::io("syncing", source_dir))?)
}

/// A workload, and its job: the checked settings, scale and seed.
type WorkloadJob = (&'static dyn Workload, Job);

/// Looks up a workload of a plan and checks its settings.
///
/// # Errors
/// An unknown workload, or a setting of it that is out of range.
pub fn find_workload(plan: &Plan, planned: &WorkloadPlan) -> Result<WorkloadJob> {
    checked_workload(planned, plan.scale, plan.seed).map_err(RunError::Plan)
}

/// Looks up the workload of a cell and checks its settings.
///
/// # Errors
/// As [`find_workload`]; the error is the message.
pub fn workload_of_cell(cell: &Cell) -> Result<WorkloadJob, String> {
    checked_workload(&cell.workload, cell.scale, cell.seed)
}

/// Whether the tasks of a cell only read files that are made before them.
pub fn only_reads(cell: &Cell) -> bool {
    workload_of_cell(cell).is_ok_and(|(workload, job)| workload.only_reads(&job))
}

/// The time limit of each command of a cell; None if its workload has no limit, or is unknown.
pub fn time_limit(cell: &Cell) -> Option<Duration> {
    let (workload, job) = workload_of_cell(cell).ok()?;
    workload.command_time_limit(&job)
}

/// Looks up a workload and checks its settings. Every job is made here, so that the settings in a stored plan or in a
/// request to an agent are always checked.
fn checked_workload(planned: &WorkloadPlan, scale: Scale, seed: u64) -> Result<WorkloadJob, String> {
    let lacking = || format!("this fsarena has no workload {}", planned.name);
    let workload = workloads::find_workload(&planned.name).ok_or_else(lacking)?;
    workload.def().check(&planned.settings)?;
    Ok((workload, Job { settings: planned.settings.clone(), scale, seed }))
}

/// Checks the workloads of a stored plan, in every version that its variants run.
///
/// # Errors
/// As [`find_workload`]; the error is the message.
pub fn check_workloads(plan: &Plan) -> Result<(), String> {
    let variants = matrix::expand(plan);
    for version in plan.workloads.iter().flat_map(|planned| workload_versions(planned, &variants)) {
        checked_workload(&version, plan.scale, plan.seed)?;
    }
    Ok(())
}

/// The metrics that a report of a run of this plan shows by default, the main metric first. Before the run it is
/// unknown which metrics its commands will print; see [`default_metrics`].
pub fn default_metrics_of_plan(plan: &Plan) -> Vec<&str> {
    let mut metrics_of_workloads =
        plan.workloads.iter().filter_map(|planned| Some(workloads::find_workload(&planned.name)?.def().metrics));
    // A guest that counts instructions measures no time. A load of fixed duration executes about the same number of
    // instructions whatever the filesystem does, so the cost of one call counts there.
    if plan.device.backing.counts_instructions() {
        return if metrics_of_workloads.all(|metrics| metrics.contains(&"elapsed")) {
            vec![reading::KERNEL_INSTRUCTIONS, "instructions"]
        } else {
            vec!["instructions_per_call", reading::KERNEL_INSTRUCTIONS]
        };
    }
    distinct(plan.stop.best_metric.as_deref().into_iter().chain(metrics_of_workloads.flatten().copied()))
}

/// The metrics that a report of a run shows by default, the main metric first: the metrics of its workloads that have
/// values, and the metrics that its commands printed.
///
/// A printed metric with a direction (lower or higher is better) comes first, because the author of the workload
/// declared it. Only the metric that the user chose comes before it. In a guest that counts instructions, the counts
/// come first, whatever metric the user chose for the plan.
pub fn default_metrics(record: &RunRecord) -> Vec<String> {
    let has_values = |id: &&str| record.metric(id).is_some_and(|(_, rows)| rows.iter().any(|value| !value.is_nan()));
    let own_readings: Vec<&str> = reading_defs().map(|reading| reading.id).collect();
    let plan_metrics = default_metrics_of_plan(&record.plan);
    let chosen = record.plan.stop.best_metric.as_deref();
    // The chosen metric leads, if a report shows it. Printed metrics follow it, or come last.
    let (mut leading, mut trailing): (Vec<&str>, Vec<&str>) =
        plan_metrics.iter().copied().filter(has_values).partition(|id| chosen == Some(id));
    let is_printed =
        |id: &str| record.plan.can_print_metrics() && !own_readings.contains(&id) && !plan_metrics.contains(&id);
    for reading in record.readings.iter().filter(|reading| is_printed(&reading.id)) {
        // In a guest that counts instructions, the counts stay first.
        let leads = reading.direction != Direction::Neutral && !record.plan.device.backing.counts_instructions();
        if leads { &mut leading } else { &mut trailing }.push(&reading.id);
    }
    leading.into_iter().chain(trailing).map(String::from).collect()
}

/// The main metric of a run so far: the first of [`default_metrics`], or before the run has values the main metric of
/// its plan.
pub fn main_metric_of_run(record: &RunRecord) -> String {
    default_metrics(record).into_iter().next().unwrap_or_else(|| main_metric_of_plan(&record.plan).into())
}

/// The main metric of a plan: the first of [`default_metrics_of_plan`].
pub fn main_metric_of_plan(plan: &Plan) -> &str {
    default_metrics_of_plan(plan).first().unwrap_or(&"elapsed")
}

/// Returns whether lower or higher values of a metric are better. The metric is one of fsarena's own, or one that the
/// plan declares for the output of its commands; None for a name that is unknown before the run.
///
/// # Errors
/// An unknown workload or an invalid setting.
pub fn metric_direction(plan: &Plan, metric: &str) -> Result<Option<Direction>> {
    if let Some(known) = metric::find(metric) {
        return Ok(Some(known.spec.direction));
    }
    if let Some(reading) = reading_defs().find(|reading| reading.id == metric) {
        return Ok(Some(reading.direction));
    }
    for planned in &plan.workloads {
        let (workload, job) = find_workload(plan, planned)?;
        let mut printed = workload.survey(&job)?.printed_metrics.into_iter().map(|declared| declared.metric);
        if let Some(declared) = printed.find(|declared| declared.id == metric) {
            return Ok(Some(declared.direction));
        }
    }
    Ok(None)
}

/// Lists the tasks of the cells of a plan in their order, including mkfs, mount and unmount.
pub fn outline_tasks(plan: &Plan) -> Vec<TaskInfo> {
    let has_mount = plan.device.backing != Backing::Dir;
    let mut tasks = vec![];
    // For a guest mkfs is not a task, because it runs on the host.
    if has_mount && !matches!(plan.device.backing, Backing::Guest(_)) {
        tasks.push(lifecycle_task("mkfs", "Make the filesystem"));
    }
    if has_mount {
        tasks.push(lifecycle_task("mount", "Mount"));
    }
    let variants = matrix::expand(plan);
    let [before, after] = file_layout::layout_tasks();
    let has_layout = has_mount && file_layout::is_measured(plan);
    tasks.extend(has_layout.then_some(before));
    for planned in &plan.workloads {
        let version = variants.first().map_or(planned.clone(), |variant| workload_of_variant(variant, planned));
        let Ok((workload, job)) = find_workload(plan, &version) else { continue };
        for mut task in workload.outline(&job) {
            variants.iter().for_each(|variant| task.id.remove_factor_params(variant));
            planned.add_grid_params(&mut task.id);
            tasks.push(task);
        }
    }
    tasks.extend(has_layout.then_some(after));
    if has_mount {
        tasks.push(lifecycle_task("unmount", "Unmount"));
    }
    tasks
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::simulated_run;
    use fsarena_core::record::MetricSpec;
    use fsarena_core::sample::Unit;
    use fsarena_core::setting::SettingValue;

    #[test]
    fn a_printed_metric_with_a_direction_comes_first_unless_the_user_chose_another() {
        let (mut run, _) = simulated_run(&[("ext4", 1.0), ("xfs", 1.0)], &[], 1);
        assert_eq!(default_metrics(&run), ["elapsed"]);
        let rules = SettingValue::List(vec![]);
        run.plan.workloads[0].settings.0.insert("metric_regex".into(), rules);
        for (id, direction) in [("size", Direction::Neutral), ("tps", Direction::Higher), ("lat_ns", Direction::Lower)]
        {
            run.readings.push(MetricSpec::new(id.into(), Unit::Count, direction, String::new()));
            run.samples.values.push(vec![1.0; run.samples.len()]);
        }
        assert_eq!(default_metrics(&run), ["tps", "lat_ns", "elapsed", "size"]);
        assert_eq!(main_metric_of_run(&run), "tps");
        // The metric that the user chose comes before all others.
        run.plan.stop.best_metric = Some("elapsed".into());
        assert_eq!(default_metrics(&run), ["elapsed", "tps", "lat_ns", "size"]);
    }
}
