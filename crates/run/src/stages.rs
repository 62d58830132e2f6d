//! The stages of a study: each is a run, and the later ones go on with what an earlier one found best.

use crate::error::{Result, RunError, require};
use crate::execute::{Keep, Request, check, try_options};
use crate::{preflight::trial::Trying, registry, settings::setting};
use fsarena_core::observations::MetricSeries;
use fsarena_core::plan::file::{PlanFile, StageFile};
use fsarena_core::plan::resolve::Overrides;
use fsarena_core::plan::{Plan, Stage, Written};
use fsarena_core::{names::unknown, scale::Scale, study};
use fsarena_stats::analyse::{BestLevel, analyse, best_levels};
use fsarena_store::RunDir;
use std::{collections::BTreeMap, path::Path};

/// The metric that says which level is best, where a stage does not.
const BY: &str = "throughput";

/// The run of each stage before.
type Earlier = BTreeMap<String, String>;

/// The stages of a plan that are to be run.
pub struct Stages<'a> {
    runs: &'a Path,
    earlier: Earlier,
    /// Each stage with its plan, in order.
    stages: Vec<(&'a StageFile, Plan)>,
    /// How many have begun.
    begun: usize,
}

/// A stage that is about to begin.
pub enum Next {
    /// Its plan, and what an earlier stage found that it goes on with.
    Plan(Box<Plan>, Option<String>),
    /// It goes on with a stage that has not been run: what will become of it.
    Later(String),
}

impl<'a> Stages<'a> {
    /// The stages of a plan in a directory of runs: the one named `only`, else all that are not optional; those behind the
    /// stage of the run `after`, where that is given.
    ///
    /// # Errors
    /// A name that is not a stage's, a run of another plan, or a plan that cannot be resolved.
    pub fn of(
        written: &'a Written,
        mut over: Overrides,
        runs: &'a Path,
        after: Option<&str>,
        only: Option<&str>,
    ) -> Result<Stages<'a>> {
        let file = &written.file;
        let (earlier, begin) = match after {
            Some(name) => self::after(runs, file, name)?,
            None => (Earlier::new(), 0),
        };
        let wanted = wanted(&file.stages[begin..], only)?;
        let whole = over.budget_s;
        let mut stages = vec![];
        for stage in &wanted {
            over.budget_s = whole.map(|budget| budget * share(file, stage, &wanted, over.scale));
            let mut plan = registry::resolve(&written.of_stage(stage), &over)?;
            // The stages of a study find each other's runs by its name, whatever their workload.
            plan.name.clone_from(file.name.get_ref());
            plan.title = format!("{}, stage {}", plan.title, stage.name);
            stages.push((*stage, plan));
        }
        Ok(Stages { runs, earlier, stages, begun: 0 })
    }

    /// Finds what would keep a later stage from beginning, before the first one is measured, where its workloads run
    /// as `user`. With `trying`, also tries the options that the user wrote, and shows how far that is.
    ///
    /// # Errors
    /// Those of [`check`] and [`fn@try_options`].
    pub fn check(&self, user: Option<&str>, mut trying: Option<Trying>) -> Result<(), RunError> {
        for (_, plan) in self.stages.iter().skip(1) {
            let mut request = Request::new(plan.clone(), Keep::New(self.runs.into()));
            request.user = user.map(String::from);
            let (variants, check) = check(&request)?;
            if let Some(trying) = &mut trying {
                try_options(&request, &variants, &check, trying)?;
            }
        }
        Ok(())
    }

    /// Begins the next stage. In a dry run, a stage can go on with one that has not been run.
    ///
    /// # Errors
    /// Where the run that it goes on with is missing, cannot be read, or has no data.
    pub fn begin(&mut self, dry_run: bool) -> Result<Option<Next>> {
        let Some((stage, plan)) = self.stages.get(self.begun) else { return Ok(None) };
        self.begun += 1;
        let (name, earlier, mut plan) = (&stage.name, self.earlier.clone(), plan.clone());
        plan.stage = Some(Stage { name: name.clone(), earlier, not_compared: vec![], error_split: None });
        let Some((best, of)) = stage.best.as_ref().zip(stage.of.as_ref()) else {
            return Ok(Some(Next::Plan(Box::new(plan), None)));
        };
        let Some(id) = self.earlier.get(of) else {
            let after = setting("after", "RUN");
            let why = format!("stage {name} goes on with a run of stage {of}: name it, {after}");
            require(dry_run, || RunError::Plan(why))?;
            let later = format!("stage {name}: every variant at its best {best} of stage {of}");
            return Ok(Some(Next::Later(later)));
        };
        let record = fsarena_store::read(&RunDir::find(self.runs, id)?)?;
        let series = MetricSeries::of(&record, stage.by.as_deref().unwrap_or(BY))?;
        let chosen = best_levels(&record.variants, &analyse(series), best);
        require(!chosen.is_empty(), || {
            let why = "has nothing to go on with: no variant of the earlier stage has data";
            RunError::Plan(format!("stage {name} {why}"))
        })?;
        let words: Vec<String> = chosen.iter().map(word).collect();
        let found = format!("stage {name}, best {best}: {}", words.join(", "));
        // Each variant at its best level, and nothing else.
        plan.factors.clear();
        plan.variants = chosen.into_iter().map(|best| best.variant).collect();
        Ok(Some(Next::Plan(Box::new(plan), Some(found))))
    }

    /// Takes note of the run of the stage that began last, for those behind it.
    pub fn ran(&mut self, run: &RunDir) {
        let begun = self.stages[..self.begun].last();
        self.earlier.extend(begun.map(|(stage, _)| (stage.name.clone(), run.id())));
    }
}

/// The stage of that name, or all but those that run only if they are named.
fn wanted<'a>(stages: &'a [StageFile], only: Option<&str>) -> Result<Vec<&'a StageFile>> {
    let Some(name) = only else {
        return Ok(stages.iter().filter(|stage| !stage.optional).collect());
    };
    let names = stages.iter().map(|stage| stage.name.as_str());
    let stage = stages.iter().find(|stage| stage.name == *name);
    Ok(vec![stage.ok_or_else(|| unknown("stage", name, names))?])
}

/// The runs before a stage, and where to go on: behind the stage of this run.
fn after(runs: &Path, file: &PlanFile, name: &str) -> Result<(Earlier, usize)> {
    let run = RunDir::find(runs, name)?;
    let plan = run.plan()?;
    let stage = plan.stage.filter(|_| plan.name == *file.name.get_ref());
    let place = |stage: Stage| Some((file.stages.iter().position(|known| known.name == stage.name)?, stage));
    let (at, stage) = stage.and_then(place).ok_or_else(|| {
        RunError::Plan(format!("run {} does not belong to a stage of {}", run.id(), file.name.get_ref()))
    })?;
    let mut earlier = stage.earlier;
    earlier.insert(stage.name, run.id());
    Ok((earlier, at + 1))
}

/// `xfs none`: a variant and its best level.
fn word(best: &BestLevel) -> String {
    let sure = if best.decided { "" } else { " (by the estimate, inconclusive)" };
    format!("{} {}{sure}", best.variant.name, best.level)
}

/// A stage's share of a budget for all, as the stages' own budgets at this scale stand to each other.
fn share(file: &PlanFile, stage: &StageFile, stages: &[&StageFile], scale: Option<Scale>) -> f64 {
    let scale = scale.or(file.scale).unwrap_or_default();
    let own = |stage: &StageFile| {
        let budget = stage.scales.get(&scale).and_then(|at| at.budget.as_ref());
        let time = budget.and_then(|text| humantime::parse_duration(text.get_ref()).ok());
        time.map_or(1.0, |time| time.as_secs_f64())
    };
    own(stage) / stages.iter().map(|stage| own(stage)).sum::<f64>()
}

/// Whether stages of its study follow that of a plan.
pub fn follow(plan: &Plan) -> bool {
    let behind = || {
        let study = study::find(&plan.name)?;
        let file = PlanFile::parse(study.name, study.plan.as_bytes()).ok()?.file;
        Some(file.stages.iter().rfind(|stage| !stage.optional)?.name != plan.stage.as_ref()?.name)
    };
    behind().unwrap_or(false)
}
