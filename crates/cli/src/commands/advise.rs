//! `fsarena advise`: filesystems first, then the options of those that can be the best; it ends in a command line.

use crate::commands::run::{self, once};
use crate::failure::{Failure, Outcome, usage};
use crate::{commands::report, output, running::handle_signals};
use fsarena_core::plan::{Backing, Plan};
use fsarena_core::{cell::Variant, exit::ExitCode, matrix, number::plural};
use fsarena_fs::advice::{command_line, of_options};
use fsarena_report::{Decision, report::Asked};
use fsarena_run::fit::{Fit, STAGES, stage};
use fsarena_run::{Keep, Request, vocabulary};
use fsarena_store::RunDir;
use std::time::{Duration, Instant};
use std::{collections::BTreeMap, fmt::Write as _};

/// Choose a filesystem and its options for your work
///
/// fsarena first compares the filesystems as their mkfs makes them, then the option sets and mount options of those that
/// can still be the best. A variant that cannot be the best leaves, and each comparison ends once its choice costs at
/// most --within more than the best. The last lines are the command that makes the chosen filesystem, the choices that are
/// equally good, and what safety the faster ones give up. Both comparisons together err in at most 5% of runs.
///
/// A filesystem that leaves the first comparison is not tried with other options.
#[derive(Debug, clap::Args)]
#[group(id = "advice")]
#[command(mut_args(hide_refused))]
pub struct Args {
    /// Try options that give up safety too; fsarena never chooses them, and says what they would gain
    #[arg(long, help_heading = "Variants")]
    allow_unsafe: bool,
    #[command(flatten)]
    run: run::Args,
}

/// The time for all, where the user gives none.
const BUDGET: Duration = Duration::from_secs(15 * 60);

/// What `run` takes and advice determines by itself.
pub const REFUSED: &str =
    "variant options mkfs mount factor kernel resume after stage shard rounds find claim max_rounds warmup";

fn hide_refused(arg: clap::Arg) -> clap::Arg {
    let refused = REFUSED.split(' ').any(|id| arg.get_id() == id);
    if refused { arg.hide(true) } else { arg }
}

/// Advises.
pub fn run(args: Args) -> Outcome {
    let Args { allow_unsafe, run: mut args } = args;
    let refused: Vec<&str> = REFUSED.split(' ').collect();
    args.given.refuse(&refused, "advise determines this itself; to choose it, use fsarena run")?;
    args.find = Some("best".into());
    args.refuse_ignored(false)?;
    handle_signals()?;
    args.check_outputs()?;
    let plan = plan(&args)?;
    if args.dry_run {
        return once(&args, Request::new(plan, Keep::New(args.runs.runs.clone()))).map(|(code, _)| code);
    }
    let budget = args.budget.unwrap_or(BUDGET);
    let begun = Instant::now();
    let fit = Fit::pilot(plan.clone(), &args.runs.runs, args.user.as_deref())?;
    let Some(first) = filesystems(&args, plan.clone(), &fit, budget)? else { return Ok(ExitCode::Done) };
    let left = budget.saturating_sub(begun.elapsed());
    let (wanted, unsafe_ones) = of_options(&first.survivors, allow_unsafe)?;
    let (tried, not_tried) = fit.within(left, wanted);
    args.say(&format!("stage options: {}", fit.words(left, tried.len(), &not_tried)));
    if !unsafe_ones.is_empty() {
        args.say(&format!("not tried without --allow-unsafe: {}", unsafe_ones.join(", ")));
    }
    let second = match tried.len() {
        0 | 1 => None,
        _ => Some(measured(&args, stage(&plan, STAGES[1], tried, left, &first.earlier))?),
    };
    let Some(run) = second.flatten().or(first.run) else { return Ok(ExitCode::Done) };
    output::text(advice(&run)?)
}

/// The plan of the first stage, which looks for the best.
fn plan(args: &run::Args) -> Result<Plan, Failure> {
    let mut written = run::read_plan(args)?;
    if !written.file.stages.is_empty() {
        let takes = "advise takes a command, a workload or a plan without stages";
        return usage(format!("{} has stages; {takes}", written.origin));
    }
    // Claims about the plan's own variants end no search for the best.
    written.file.claims.clear();
    let mut over = args.overrides()?;
    over.budget_s = Some(args.budget.unwrap_or(BUDGET).as_secs_f64());
    let plan = vocabulary::resolve(&written, &over)?;
    match plan.device.backing {
        Backing::Dir => usage("advise makes filesystems, so a directory as it is cannot be advised on"),
        _ => Ok(plan),
    }
}

/// What the first stage came to.
struct First {
    /// The variants that go on, in order.
    survivors: Vec<Variant>,
    /// Its run; none where one filesystem was there to begin with.
    run: Option<RunDir>,
    earlier: BTreeMap<String, String>,
}

/// Compares the filesystems. None where a signal ended it.
fn filesystems(args: &run::Args, plan: Plan, fit: &Fit, budget: Duration) -> Result<Option<First>, Failure> {
    let all = matrix::expand(&plan);
    let (tried, not_tried) = fit.within(budget / 2, all);
    args.say(&format!("stage filesystems: {}", fit.words(budget / 2, tried.len(), &not_tried)));
    if tried.len() == 1 {
        return Ok(Some(First { survivors: tried, run: None, earlier: BTreeMap::new() }));
    }
    let plan = stage(&plan, STAGES[0], tried, budget / 2, &BTreeMap::new());
    let Some(run) = measured(args, plan)? else { return Ok(None) };
    let report = report::of(fsarena_store::read(&run)?, Asked::default())?;
    let possible = Decision::of(&report).map_or(vec![], |decision| decision.possible());
    let survivors: Vec<Variant> = possible.into_iter().map(|at| report.record.variants[at].clone()).collect();
    let names: Vec<&str> = survivors.iter().map(|variant| variant.name.as_str()).collect();
    args.say(&format!("{} can be the best: {}", plural(names.len(), "filesystem"), names.join(", ")));
    let earlier = [(STAGES[0].to_string(), run.id())].into();
    Ok(Some(First { survivors, run: Some(run), earlier }))
}

/// Runs one stage. None where a signal ended it, or nothing was measured.
fn measured(args: &run::Args, plan: Plan) -> Result<Option<RunDir>, Failure> {
    let (_, run) = once(args, Request::new(plan, Keep::New(args.runs.runs.clone())))?;
    Ok(run.filter(|_| fsarena_sys::cancel::requested().is_none()))
}

/// The last lines: how to make the choice, what is as good, and what would be faster and less safe.
fn advice(run: &RunDir) -> Result<String, Failure> {
    let report = report::of(fsarena_store::read(run)?, Asked::default())?;
    let variant = |at: usize| &report.record.variants[at];
    let mut text = String::from("\nAdvice\n\n");
    let Some(decision) = Decision::of(&report) else {
        text.push_str("No advice: nothing bounds what a choice costs.\n");
        return Ok(text);
    };
    let choices = decision.choices();
    let _ = writeln!(text, "  {}\n\n{}", command_line(variant(choices[0]))?, decision.headline());
    if let Some(passed) = report.record.plan.stage.as_ref().and_then(|stage| stage.earlier.get(STAGES[0])) {
        let _ =
            writeln!(text, "Filesystems that left run {passed} were tried as their mkfs makes them only.");
    }
    if choices.len() > 1 {
        text.push_str("\nEqually good:\n");
    }
    for other in &choices[1..] {
        let _ = writeln!(text, "  {}", command_line(variant(*other))?);
    }
    for (other, words) in decision.cheaper_variants() {
        let line = command_line(variant(other))?;
        let _ =
            writeln!(text, "\nAhead by the estimate, but gives up safety ({}):\n  {line}", words.join("; "));
    }
    Ok(text)
}
