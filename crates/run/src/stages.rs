//! The stages of a study. Each stage is a run; a later stage continues with the best levels that an earlier stage found.

use crate::error::{Result, RunError, require};
use crate::execute::{Destination, RunRequest, check, try_options};
use crate::{preflight::trial::TrialProgress, registry};
use fsarena_core::average::mean;
use fsarena_core::observations::MetricSeries;
use fsarena_core::plan::file::{PlanFile, StageFile};
use fsarena_core::plan::resolve::Overrides;
use fsarena_core::plan::{ParsedPlan, Plan, Stage};
use fsarena_core::setting_text::setting;
use fsarena_core::{names::unknown, scale::Scale, study};
use fsarena_stats::analyse::{BestLevel, analyse, best_levels};
use fsarena_store::RunDir;
use std::{collections::BTreeMap, path::Path};

/// The metric by which the best level is chosen, if a stage names none.
const DEFAULT_METRIC: &str = "throughput";

/// The ids of the runs of earlier stages, by the names of the stages.
type EarlierRuns = BTreeMap<String, String>;

/// The stages of a plan to run, in order.
pub struct Stages<'a> {
    runs: &'a Path,
    earlier: EarlierRuns,
    /// Each stage with its plan.
    stages: Vec<(&'a StageFile, Plan)>,
    /// Number of stages that have begun.
    begun: usize,
}

/// A stage that is about to begin.
pub enum NextStage {
    /// The plan of the stage, and a description of the best levels of an earlier stage that it continues with.
    Plan(Box<Plan>, Option<String>),
    /// In a dry run: the description of a stage that continues with a stage which has not run.
    Later(String),
}

impl<'a> Stages<'a> {
    /// Resolves the stages of a plan to run: the stage named `only`, or by default all that are not optional. If `after` is
    /// set, only stages after the stage of that run. `runs` is the directory of runs.
    ///
    /// # Errors
    /// An unknown stage, a run of another plan, or a plan that cannot be resolved.
    pub fn resolve(
        written: &'a ParsedPlan,
        mut over: Overrides,
        runs: &'a Path,
        after: Option<&str>,
        only: Option<&str>,
    ) -> Result<Stages<'a>> {
        let file = &written.file;
        let (earlier, begin) = match after {
            Some(name) => earlier_runs(runs, file, name)?,
            None => (EarlierRuns::new(), 0),
        };
        let selected = select_stages(&file.stages[begin..], only)?;
        let total_budget = over.budget_s;
        let mut stages = vec![];
        for stage in &selected {
            over.budget_s = total_budget.map(|budget| budget * budget_share(file, stage, &selected, over.scale));
            let mut plan = registry::resolve(&written.of_stage(stage), &over)?;
            // All stages of a study have its name in their runs, whatever their workload.
            plan.name.clone_from(file.name.get_ref());
            plan.title = format!("{}, stage {}", plan.title, stage.name);
            stages.push((*stage, plan));
        }
        Ok(Stages { runs, earlier, stages, begun: 0 })
    }

    /// Checks all stages but the first against this machine, so that none fails after an earlier one was measured. The
    /// workloads will run as `user`. If `progress` is set, also tries the options that the user wrote; `progress` gets the
    /// numbers of finished and of all trials.
    ///
    /// # Errors
    /// Those of [`check`] and [`fn@try_options`].
    pub fn check(&self, user: Option<&str>, mut progress: Option<TrialProgress>) -> Result<(), RunError> {
        for (_, plan) in self.stages.iter().skip(1) {
            let mut request = RunRequest::new(plan.clone(), Destination::NewRun(self.runs.into()));
            request.user = user.map(String::from);
            let (variants, requirements) = check(&request)?;
            if let Some(progress) = &mut progress {
                try_options(&request, &variants, &requirements, progress)?;
            }
        }
        Ok(())
    }

    /// Begins the next stage; None after the last one.
    ///
    /// # Errors
    /// The run that the stage continues with cannot be read or has no data, or, except in a dry run, is missing.
    pub fn begin(&mut self, dry_run: bool) -> Result<Option<NextStage>> {
        let Some((stage, plan)) = self.stages.get(self.begun) else { return Ok(None) };
        self.begun += 1;
        let (name, earlier, mut plan) = (&stage.name, self.earlier.clone(), plan.clone());
        plan.stage = Some(Stage { name: name.clone(), earlier, not_compared: vec![], error_split: None });
        let Some((best, earlier_stage)) = stage.best_factor.as_ref().zip(stage.earlier_stage.as_ref()) else {
            return Ok(Some(NextStage::Plan(Box::new(plan), None)));
        };
        let Some(id) = self.earlier.get(earlier_stage) else {
            let after = setting("after", "RUN");
            let why = format!("stage {name} continues with a run of stage {earlier_stage}: name that run, {after}");
            require(dry_run, || RunError::Plan(why))?;
            let later = format!("stage {name}: every variant at its best {best} of stage {earlier_stage}");
            return Ok(Some(NextStage::Later(later)));
        };
        let record = fsarena_store::read(&RunDir::find(self.runs, id)?)?;
        let series = MetricSeries::of(&record, stage.best_metric.as_deref().unwrap_or(DEFAULT_METRIC))?;
        let chosen = best_levels(&record.variants, &analyse(series), best);
        require(!chosen.is_empty(), || {
            let why = "has nothing to continue with: no variant of the earlier stage has data";
            RunError::Plan(format!("stage {name} {why}"))
        })?;
        let levels: Vec<String> = chosen.iter().map(describe_best_level).collect();
        let found = format!("stage {name}, best {best}: {}", levels.join(", "));
        // The stage compares each variant at its best level, instead of all combinations of levels.
        plan.factors.clear();
        plan.variants = chosen.into_iter().map(|best| best.variant).collect();
        Ok(Some(NextStage::Plan(Box::new(plan), Some(found))))
    }

    /// Records the run of the stage that began last, so that later stages can continue with it.
    pub fn record_run(&mut self, run: &RunDir) {
        let begun = self.stages[..self.begun].last();
        self.earlier.extend(begun.map(|(stage, _)| (stage.name.clone(), run.id())));
    }
}

/// The stage named `only`, or by default all stages that are not optional.
fn select_stages<'a>(stages: &'a [StageFile], only: Option<&str>) -> Result<Vec<&'a StageFile>> {
    let Some(name) = only else {
        return Ok(stages.iter().filter(|stage| !stage.optional).collect());
    };
    let names = stages.iter().map(|stage| stage.name.as_str());
    let stage = stages.iter().find(|stage| stage.name == *name);
    Ok(vec![stage.ok_or_else(|| unknown("stage", name, names))?])
}

/// The runs of all stages up to that of the run `name`, and the index of the stage after it.
///
/// # Errors
/// A run that does not belong to a stage of this plan.
fn earlier_runs(runs: &Path, file: &PlanFile, name: &str) -> Result<(EarlierRuns, usize)> {
    let run = RunDir::find(runs, name)?;
    let plan = run.plan()?;
    let stage = plan.stage.filter(|_| plan.name == *file.name.get_ref());
    let position_of = |stage: Stage| Some((file.stages.iter().position(|known| known.name == stage.name)?, stage));
    let (at, stage) = stage.and_then(position_of).ok_or_else(|| {
        RunError::Plan(format!("run {} does not belong to a stage of {}", run.id(), file.name.get_ref()))
    })?;
    let mut earlier = stage.earlier;
    earlier.insert(stage.name, run.id());
    Ok((earlier, at + 1))
}

/// Formats a variant and its best level: `xfs none`.
fn describe_best_level(best: &BestLevel) -> String {
    let sure = if best.is_decided { "" } else { " (by the estimate, inconclusive)" };
    format!("{} {}{sure}", best.variant.name, best.level)
}

/// The share of a total budget that a stage gets: in proportion to the budgets that the stages would have without it at this
/// scale. A stage without a budget counts as the mean of the others; if none has one, all get the same.
fn budget_share(file: &PlanFile, stage: &StageFile, stages: &[&StageFile], scale: Option<Scale>) -> f64 {
    let scale = scale.or(file.scale).unwrap_or_default();
    let own = |stage: &StageFile| {
        let file = file.of_stage(stage);
        let budget = file.scales.get(&scale).and_then(|at| at.budget.as_ref());
        let time = budget.and_then(|text| humantime::parse_duration(text.get_ref()).ok());
        time.map(|time| time.as_secs_f64()).filter(|seconds| *seconds > 0.0)
    };
    let known: Vec<f64> = stages.iter().filter_map(|stage| own(stage)).collect();
    let mean = if known.is_empty() { 1.0 } else { mean(&known) };
    own(stage).unwrap_or(mean) / stages.iter().map(|stage| own(stage).unwrap_or(mean)).sum::<f64>()
}

/// Whether the study of a plan has stages after the stage of the plan that are not optional.
pub fn has_later_stages(plan: &Plan) -> bool {
    let (Some(stage), Some(study)) = (&plan.stage, study::find(&plan.name)) else { return false };
    let Ok(written) = PlanFile::parse(study.name, study.plan_toml.as_bytes()) else { return false };
    let mut later = written.file.stages.iter().skip_while(|known| known.name != stage.name).skip(1);
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
            let stages: Vec<&StageFile> = file.stages.iter().collect();
            [0, 1, 2].map(|at| budget_share(&file, stages[at], &stages, None))
        };
        let found = shares(["budget = '10m'", "budget = '2m'", ""]);
        for (share, expected) in found.into_iter().zip([10.0 / 18.0, 2.0 / 18.0, 6.0 / 18.0]) {
            assert!((share - expected).abs() < 1e-12, "{found:?}");
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
