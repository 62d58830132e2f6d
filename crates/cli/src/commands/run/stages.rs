//! A study of several stages: each is a run, and the later ones go on with what an earlier one found best.

use super::{flags::Args, once::once};
use crate::failure::{Failure, Outcome, usage};
use crate::{output, running::resolved};
use fsarena_core::plan::file::{PlanFile, StageFile};
use fsarena_core::plan::{Plan, Stage, Written};
use fsarena_core::{exit::ExitCode, names::unknown, record::RunRecord, scale::Scale, study};
use fsarena_run::{Keep, Request, check, try_options};
use fsarena_stats::best::{self, Best};
use fsarena_store::RunDir;
use std::collections::BTreeMap;

/// What says which level is best, where a stage does not.
const BY: &str = "throughput";

/// The run of each stage before.
type Earlier = BTreeMap<String, String>;

/// Runs the stages of a plan one after another, all or those after a run of one of them.
pub fn run(args: &Args, written: &Written) -> Outcome {
    let file = &written.file;
    let (mut earlier, begin) = match &args.after {
        Some(name) => after(args, file, name)?,
        None => (Earlier::new(), 0),
    };
    let mut over = args.overrides()?;
    let whole = over.budget_s;
    let mut ended = ExitCode::Done;
    let mut plans = vec![];
    let stages = wanted(args, &file.stages[begin..])?;
    for stage in &stages {
        over.budget_s = whole.map(|budget| budget * share(file, stage, &stages, over.scale));
        let mut plan = resolved(&written.of_stage(stage), &mut over)?;
        plan.title = format!("{}, stage {}", plan.title, stage.name);
        if stage.name != stages[0].name {
            ready(args, &plan)?;
        }
        plans.push(plan);
    }
    for (stage, mut plan) in stages.into_iter().zip(plans) {
        if let Some(chosen) = chosen(args, stage, &earlier)? {
            narrow(args, stage, &mut plan, chosen)?;
        } else if stage.best.is_some() {
            let [of, factor] = [&stage.of, &stage.best].map(|name| name.as_deref().unwrap_or_default());
            let name = &stage.name;
            if !args.dry_run {
                return usage(format!("stage {name} goes on with a run of stage {of}: name it, --after RUN"));
            }
            // Nothing has been run yet: that is what --dry-run is for.
            output::text(format!("# stage {name}: every variant at its best {factor} of stage {of}\n\n"))?;
            continue;
        }
        plan.stage = Some(Stage { name: stage.name.clone(), earlier: earlier.clone(), error_split: None });
        let (code, run) = once(args, Request::new(plan, Keep::New(args.runs.runs.clone())))?;
        if ended == ExitCode::Done {
            ended = code;
        }
        let Some(run) = run else { continue };
        if fsarena_sys::cancel::requested().is_some() {
            return Ok(ended);
        }
        earlier.insert(stage.name.clone(), run.id());
    }
    Ok(ended)
}

/// The stages to run: that which the user names, or all but those that run only if they are named.
fn wanted<'a>(args: &Args, stages: &'a [StageFile]) -> Result<Vec<&'a StageFile>, Failure> {
    let Some(name) = &args.stage else {
        return Ok(stages.iter().filter(|stage| !stage.optional).collect());
    };
    let names = stages.iter().map(|stage| stage.name.as_str());
    let stage = stages.iter().find(|stage| stage.name == *name);
    Ok(vec![stage.ok_or_else(|| unknown("stage", name, names))?])
}

/// Finds what would keep a later stage from beginning, before the first one is measured.
fn ready(args: &Args, plan: &Plan) -> Result<(), Failure> {
    let request = Request::new(plan.clone(), Keep::New(args.runs.runs.clone()));
    let (variants, check) = check(&request)?;
    if !args.dry_run {
        try_options(&request, &variants, &check)?;
    }
    Ok(())
}

/// The runs before a stage, and where to go on: behind the stage of this run.
fn after(args: &Args, file: &PlanFile, name: &str) -> Result<(Earlier, usize), Failure> {
    let run = RunDir::find(&args.runs.runs, name)?;
    let plan = run.plan()?;
    let stage = plan.stage.filter(|_| plan.name == *file.name.get_ref());
    let place = |stage: Stage| Some((file.stages.iter().position(|known| known.name == stage.name)?, stage));
    let Some((at, stage)) = stage.and_then(place) else {
        return usage(format!("run {} does not belong to a stage of {}", run.id(), file.name.get_ref()));
    };
    let mut earlier = stage.earlier;
    earlier.insert(stage.name, run.id());
    Ok((earlier, at + 1))
}

/// What an earlier stage found best; none where this stage needs nothing of it, or it has not been run.
fn chosen(args: &Args, stage: &StageFile, earlier: &Earlier) -> Result<Option<Vec<Best>>, Failure> {
    let (Some(factor), Some(of)) = (&stage.best, &stage.of) else { return Ok(None) };
    let Some(id) = earlier.get(of) else { return Ok(None) };
    let record: RunRecord = fsarena_store::read(&RunDir::find(&args.runs.runs, id)?)?;
    Ok(Some(best::levels(&record, factor, stage.by.as_deref().unwrap_or(BY))?))
}

/// Each variant at its best level, and nothing else.
fn narrow(args: &Args, stage: &StageFile, plan: &mut Plan, chosen: Vec<Best>) -> Result<(), Failure> {
    if chosen.is_empty() {
        let why = "has nothing to go on with: no variant of the earlier stage has data";
        return Err(Failure::new(ExitCode::Internal, format!("stage {} {why}", stage.name)));
    }
    let word = |best: &Best| {
        let sure = if best.decided { "" } else { " (by the estimate, inconclusive)" };
        format!("{} {}{sure}", best.variant.name, best.level)
    };
    let words: Vec<String> = chosen.iter().map(word).collect();
    let factor = stage.best.as_deref().unwrap_or_default();
    args.say(&format!("stage {}, best {factor}: {}", stage.name, words.join(", ")));
    plan.factors.clear();
    plan.variants = chosen.into_iter().map(|best| best.variant).collect();
    Ok(())
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

/// After a resumed stage: how to go on with those behind it.
pub fn hint(args: &Args, plan: &Plan, run: &RunDir) {
    let behind = || {
        let study = study::find(&plan.name)?;
        let file = PlanFile::parse(study.name, study.plan.as_bytes()).ok()?.file;
        let last = file.stages.iter().rfind(|stage| !stage.optional)?.name.clone();
        (plan.stage.as_ref()?.name != last).then_some(())
    };
    if behind().is_some() {
        let (name, id) = (&plan.name, run.id());
        args.say(&format!("go on with the stages after it: fsarena run {name} --after {id}"));
    }
}
