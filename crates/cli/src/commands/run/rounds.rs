//! A study of several rounds: each is a run, and the later ones go on with what an earlier one found best.

use super::{Args, once};
use crate::failure::{Failure, Outcome};
use crate::vocabulary;
use fsarena_core::exit::ExitCode;
use fsarena_core::plan::Plan;
use fsarena_core::plan::file::{PlanFile, RoundFile};
use fsarena_core::plan::resolve::resolve;
use fsarena_core::plan::round::Round;
use fsarena_core::record::RunRecord;
use fsarena_core::scale::Scale;
use fsarena_core::study;
use fsarena_stats::best::{self, Best};
use fsarena_store::RunDir;
use fsarena_sys::kernel::Kernel;
use std::collections::BTreeMap;
use std::io::Write;

/// What says which level is best, where a round does not.
const BY: &str = "throughput";

/// Runs the rounds of a plan one after another, all or those after a run of one of them.
pub fn run(args: &Args, origin: &str, (file, text): &(PlanFile, String), kernel: &Kernel) -> Outcome {
    let (mut earlier, begin) = match &args.after {
        Some(name) => after(args, file, name)?,
        None => (BTreeMap::new(), 0),
    };
    let mut over = args.overrides(kernel)?;
    let whole = over.budget_s;
    let words = vocabulary::collect(kernel, &over)?;
    let mut ended = ExitCode::Done;
    for round in &file.rounds[begin..] {
        let written = (file.of_round(round), text.clone());
        over.budget_s = whole.map(|budget| budget * share(file, round, over.scale));
        let mut plan = resolve(origin, &written, &over, &words)?;
        plan.title = format!("{}, round {}", plan.title, round.name);
        if let Some(chosen) = chosen(args, round, &earlier)? {
            narrow(args, round, &mut plan, chosen)?;
        } else if round.best.is_some() {
            // Nothing has been run yet: that is what --dry-run is for.
            let mut out = std::io::stdout().lock();
            let (name, of) = (&round.name, round.of.as_deref().unwrap_or_default());
            let factor = round.best.as_deref().unwrap_or_default();
            let _ = writeln!(out, "# round {name}: every arm at its best {factor} of round {of}\n");
            continue;
        }
        plan.round = Some(Round { name: round.name.clone(), earlier: earlier.clone() });
        let (code, run) = once(args, kernel, plan, None)?;
        if ended == ExitCode::Done {
            ended = code;
        }
        let Some(run) = run else { continue };
        if fsarena_sys::cancel::requested().is_some() {
            return Ok(ended);
        }
        earlier.insert(round.name.clone(), run.id());
    }
    Ok(ended)
}

/// The runs before a round, and where to go on: behind the round of this run.
fn after(args: &Args, file: &PlanFile, name: &str) -> Result<(BTreeMap<String, String>, usize), Failure> {
    let usage = |message: String| Failure::new(ExitCode::Usage, message);
    let run = RunDir::find(&args.runs.runs, name)?;
    let plan = run.plan()?;
    let round = plan.round.filter(|_| plan.name == *file.name.get_ref());
    let no_round = || usage(format!("run {} is no round of {}", run.id(), file.name.get_ref()));
    let round = round.ok_or_else(no_round)?;
    let at = file.rounds.iter().position(|known| known.name == round.name).ok_or_else(no_round)?;
    let mut earlier = round.earlier;
    earlier.insert(round.name, run.id());
    Ok((earlier, at + 1))
}

/// What an earlier round found best; none where this round needs nothing of it, or it has not been run.
fn chosen(
    args: &Args,
    round: &RoundFile,
    earlier: &BTreeMap<String, String>,
) -> Result<Option<Vec<Best>>, Failure> {
    let (Some(factor), Some(of)) = (&round.best, &round.of) else { return Ok(None) };
    let Some(id) = earlier.get(of) else { return Ok(None) };
    let record: RunRecord = fsarena_store::read(&RunDir::find(&args.runs.runs, id)?)?;
    Ok(Some(best::levels(&record, factor, round.by.as_deref().unwrap_or(BY))?))
}

/// Each arm at its best level, and nothing else.
fn narrow(args: &Args, round: &RoundFile, plan: &mut Plan, chosen: Vec<Best>) -> Result<(), Failure> {
    if chosen.is_empty() {
        let message =
            format!("round {} has nothing to go on with: no arm of the earlier round has data", round.name);
        return Err(Failure::new(ExitCode::Internal, message));
    }
    if !args.quiet {
        let word = |best: &Best| {
            let sure = if best.decided { "" } else { " (by the estimate; not decided)" };
            format!("{} {}{sure}", best.arm.name, best.level)
        };
        let words: Vec<String> = chosen.iter().map(word).collect();
        let factor = round.best.as_deref().unwrap_or_default();
        let _ = writeln!(std::io::stderr(), "round {}, best {factor}: {}", round.name, words.join(", "));
    }
    plan.factors.clear();
    plan.arms = chosen.into_iter().map(|best| best.arm).collect();
    Ok(())
}

/// A round's share of a budget for all, as the rounds' own budgets at this scale stand to each other.
fn share(file: &PlanFile, round: &RoundFile, scale: Option<Scale>) -> f64 {
    let scale = scale.or(file.scale).unwrap_or_default();
    let own = |round: &RoundFile| {
        let budget = round.scales.get(&scale).and_then(|at| at.budget.as_ref());
        let time = budget.and_then(|text| humantime::parse_duration(text.get_ref()).ok());
        time.map_or(1.0, |time| time.as_secs_f64())
    };
    own(round) / file.rounds.iter().map(own).sum::<f64>()
}

/// After a resumed round: how to go on with those behind it.
pub fn hint(args: &Args, plan: &Plan, run: &RunDir) {
    let behind = || {
        let study = study::find(&plan.name)?;
        let (file, _) = PlanFile::parse(study.name, study.plan.as_bytes()).ok()?;
        let last = file.rounds.last()?.name.clone();
        (plan.round.as_ref()?.name != last).then_some(())
    };
    if !args.quiet && behind().is_some() {
        let (name, id) = (&plan.name, run.id());
        let _ =
            writeln!(std::io::stderr(), "go on with the rounds after it: fsarena run {name} --after {id}");
    }
}
