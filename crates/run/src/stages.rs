//! The stages of a study. Each stage is a run. A later stage can continue with the best levels that an earlier stage
//! found.

use crate::error::{Result, RunError, require};
use crate::execute::{Destination, RunRequest, check, try_options};
use crate::{preflight::trial::TrialProgress, registry};
use fsarena_core::average::mean;
use fsarena_core::observations::MetricSeries;
use fsarena_core::plan::file::{PlanFile, StageTable};
use fsarena_core::plan::resolve::Overrides;
use fsarena_core::plan::{ParsedPlan, Plan, Stage};
use fsarena_core::setting_text::setting;
use fsarena_core::{names::unknown_name, scale::Scale, study};
use fsarena_stats::analyse::{BestLevel, analyse, best_levels};
use fsarena_store::RunDir;
use std::{collections::BTreeMap, path::Path};

/// The metric by which the best level is chosen, if a stage names none.
const DEFAULT_METRIC: &str = "throughput";

/// The ids of the runs of earlier stages, by the names of the stages.
type EarlierRuns = BTreeMap<String, String>;

/// The stages of a plan to run, in order.
pub struct Stages<'a> {
    runs_dir: &'a Path,
    earlier_runs: EarlierRuns,
    /// Each stage with its plan.
    stages: Vec<(&'a StageTable, Plan)>,
    /// Number of stages that have begun.
    begun_count: usize,
}

/// A stage that is about to begin.
pub enum NextStage {
    /// The plan of the stage. If the stage continues with the best levels of an earlier stage, also a description of
    /// these levels.
    Plan(Box<Plan>, Option<String>),
    /// In a dry run, the description of a stage that has no plan yet, because it continues with a stage which has not
    /// run.
    NotPlanned(String),
}

impl<'a> Stages<'a> {
    /// Resolves the stages of a plan that shall run: the stage named `only_stage`, or if that is None all that are not
    /// optional. If `after_run` is set, only stages after the stage of that run. `runs_dir` is the directory of runs.
    ///
    /// # Errors
    /// An unknown stage, a run of another plan, or a plan that cannot be resolved.
    pub fn resolve(
        parsed: &'a ParsedPlan,
        mut overrides: Overrides,
        runs_dir: &'a Path,
        after_run: Option<&str>,
        only_stage: Option<&str>,
    ) -> Result<Stages<'a>> {
        let file = &parsed.file;
        let (earlier_runs, first_stage) = match after_run {
            Some(name) => find_earlier_runs(runs_dir, file, name)?,
            None => (EarlierRuns::new(), 0),
        };
        let selected = select_stages(&file.stages[first_stage..], only_stage)?;
        let total_budget_s = overrides.budget_s;
        let mut stages = vec![];
        for stage in &selected {
            overrides.budget_s =
                total_budget_s.map(|budget_s| budget_s * budget_share(file, stage, &selected, overrides.scale));
            let mut plan = registry::resolve(&parsed.of_stage(stage), &overrides)?;
            // All stages of a study have its name in their runs, whatever their workload.
            plan.name.clone_from(file.name.get_ref());
            plan.title = format!("{}, stage {}", plan.title, stage.name);
            stages.push((*stage, plan));
        }
        Ok(Stages { runs_dir, earlier_runs, stages, begun_count: 0 })
    }

    /// Checks all stages but the first against this machine, so that none fails after an earlier one was measured. The run
    /// of the first stage checks that stage itself. The workloads will run as `user`. If `progress` is set, also tries the
    /// options that the user wrote; `progress` gets the numbers of finished and of all trials.
    ///
    /// # Errors
    /// Those of [`check`] and [`fn@try_options`].
    pub fn check(&self, user: Option<&str>, mut progress: Option<TrialProgress>) -> Result<(), RunError> {
        for (_, plan) in self.stages.iter().skip(1) {
            let mut request = RunRequest::new(plan.clone(), Destination::NewRun(self.runs_dir.into()));
            request.user = user.map(String::from);
            let (variants, requirements) = check(&request)?;
            if let Some(progress) = &mut progress {
                try_options(&request, &variants, &requirements, progress)?;
            }
        }
        Ok(())
    }

    /// Begins the next stage, and returns it; None after the last stage.
    ///
    /// # Errors
    /// The run that the stage continues with cannot be read or has no data. A missing run is an error too, unless `is_dry_run`
    /// is set.
    pub fn begin_next(&mut self, is_dry_run: bool) -> Result<Option<NextStage>> {
        let Some((stage, plan)) = self.stages.get(self.begun_count) else { return Ok(None) };
        self.begun_count += 1;
        let (name, earlier_runs, mut plan) = (&stage.name, self.earlier_runs.clone(), plan.clone());
        // Only `fsarena advise` sets `not_compared` and `error_split`.
        plan.stage = Some(Stage { name: name.clone(), earlier_runs, not_compared: vec![], error_split: None });
        let Some((factor, earlier_stage)) = stage.best_factor.as_ref().zip(stage.earlier_stage.as_ref()) else {
            return Ok(Some(NextStage::Plan(Box::new(plan), None)));
        };
        let Some(run_id) = self.earlier_runs.get(earlier_stage) else {
            let after = setting("after", "RUN");
            let why = format!("stage {name} continues with a run of stage {earlier_stage}: name that run, {after}");
            require(is_dry_run, || RunError::Plan(why))?;
            let text = format!("stage {name}: every variant at its best {factor} of stage {earlier_stage}");
            return Ok(Some(NextStage::NotPlanned(text)));
        };
        let record = fsarena_store::read(&RunDir::find(self.runs_dir, run_id)?)?;
        let series = MetricSeries::of(&record, stage.best_metric.as_deref().unwrap_or(DEFAULT_METRIC))?;
        let chosen = best_levels(&record.variants, &analyse(series), factor);
        require(!chosen.is_empty(), || {
            let why = "has nothing to continue with: no variant of the earlier stage has data";
            RunError::Plan(format!("stage {name} {why}"))
        })?;
        let levels: Vec<String> = chosen.iter().map(describe_best_level).collect();
        let description = format!("stage {name}, best {factor}: {}", levels.join(", "));
        // The stage compares each variant at its best level, instead of all combinations of levels.
        plan.factors.clear();
        plan.variants = chosen.into_iter().map(|best| best.variant).collect();
        Ok(Some(NextStage::Plan(Box::new(plan), Some(description))))
    }

    /// Records the run of the stage that began last, so that later stages can continue with it.
    pub fn record_run(&mut self, run: &RunDir) {
        let current = self.stages[..self.begun_count].last();
        self.earlier_runs.extend(current.map(|(stage, _)| (stage.name.clone(), run.id())));
    }
}

/// Selects the stage named `only_stage`, or if that is None all stages that are not optional.
fn select_stages<'a>(stages: &'a [StageTable], only_stage: Option<&str>) -> Result<Vec<&'a StageTable>> {
    let Some(name) = only_stage else {
        return Ok(stages.iter().filter(|stage| !stage.optional).collect());
    };
    let names = stages.iter().map(|stage| stage.name.as_str());
    let stage = stages.iter().find(|stage| stage.name == *name);
    Ok(vec![stage.ok_or_else(|| unknown_name("stage", name, names))?])
}

/// Finds the run named `name`. Returns the runs of its stage and of all stages before, and the index of the next stage.
///
/// # Errors
/// The run does not belong to a stage of this plan.
fn find_earlier_runs(runs_dir: &Path, file: &PlanFile, name: &str) -> Result<(EarlierRuns, usize)> {
    let run = RunDir::find(runs_dir, name)?;
    let plan = run.plan()?;
    let stage = plan.stage.filter(|_| plan.name == *file.name.get_ref());
    let position_of =
        |stage: Stage| Some((file.stages.iter().position(|file_stage| file_stage.name == stage.name)?, stage));
    let (index, stage) = stage.and_then(position_of).ok_or_else(|| {
        RunError::Plan(format!("run {} does not belong to a stage of {}", run.id(), file.name.get_ref()))
    })?;
    let mut earlier = stage.earlier_runs;
    earlier.insert(stage.name, run.id());
    Ok((earlier, index + 1))
}

/// Describes a variant and its best level: `xfs none`.
fn describe_best_level(best: &BestLevel) -> String {
    let reservation = if best.is_decided { "" } else { " (by the estimate, inconclusive)" };
    format!("{} {}{reservation}", best.variant.name, best.level)
}

/// The share of the total budget that a stage gets, from 0 to 1. It is in proportion to the budgets of the stages at
/// this scale. For a stage without a budget, the mean of the others counts; if no stage has a budget, all get the same
/// share.
fn budget_share(file: &PlanFile, stage: &StageTable, stages: &[&StageTable], scale: Option<Scale>) -> f64 {
    let scale = scale.or(file.scale).unwrap_or_default();
    let budget_s = |stage: &StageTable| {
        let file = file.of_stage(stage);
        let budget = file.scales.get(&scale).and_then(|section| section.budget.as_ref());
        let time = budget.and_then(|text| humantime::parse_duration(text.get_ref()).ok());
        time.map(|time| time.as_secs_f64()).filter(|seconds| *seconds > 0.0)
    };
    let known_s: Vec<f64> = stages.iter().filter_map(|stage| budget_s(stage)).collect();
    let mean_s = if known_s.is_empty() { 1.0 } else { mean(&known_s) };
    budget_s(stage).unwrap_or(mean_s) / stages.iter().map(|stage| budget_s(stage).unwrap_or(mean_s)).sum::<f64>()
}

/// Whether the shipped study with the name of a plan has stages after the stage of the plan that are not optional. False for
/// the plan of a user, whose file is not known here.
pub fn has_later_stages(plan: &Plan) -> bool {
    let (Some(stage), Some(study)) = (&plan.stage, study::find(&plan.name)) else { return false };
    let Ok(parsed) = PlanFile::parse(study.name, study.plan_toml.as_bytes()) else { return false };
    let mut later = parsed.file.stages.iter().skip_while(|file_stage| file_stage.name != stage.name).skip(1);
    later.any(|stage| !stage.optional)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stage_without_a_budget_counts_as_the_mean_of_the_others() {
        let shares = |budgets: [&str; 3]| {
            let mut text = "name = 'p'\nscale = 'quick'\n".to_string();
            for (number, budget) in budgets.into_iter().enumerate() {
                text += &format!("[[stage]]\nname = 's{number}'\n[stage.scales.quick]\n{budget}\n");
            }
            let file = PlanFile::parse("p", text.as_bytes()).unwrap().file;
            let stages: Vec<&StageTable> = file.stages.iter().collect();
            [0, 1, 2].map(|index| budget_share(&file, stages[index], &stages, None))
        };
        let mixed = shares(["budget = '10m'", "budget = '2m'", ""]);
        for (share, expected) in mixed.into_iter().zip([10.0 / 18.0, 2.0 / 18.0, 6.0 / 18.0]) {
            assert!((share - expected).abs() < 1e-12, "{mixed:?}");
        }
        assert_eq!(shares(["", "", ""]), [1.0 / 3.0; 3]);
    }

    #[test]
    fn only_stages_that_run_by_default_are_later_stages() {
        let has_later = |name: &str| {
            let stage = Stage { name: name.into(), ..Stage::default() };
            has_later_stages(&Plan { name: "gus3".into(), stage: Some(stage), ..Plan::default() })
        };
        assert_eq!(["elevator", "saturation", "long", "recovery"].map(has_later), [true, true, false, false]);
    }
}
