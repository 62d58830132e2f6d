//! `fsarena advise`: compares filesystems, then the options of those that can be the best, and prints the command that makes
//! the chosen filesystem.

use crate::commands::run::{self, execute_plan};
use crate::failure::{CommandResult, Failure, usage_error};
use crate::flags::hide_refused;
use crate::{commands::handle_signals, commands::report, output};
use fsarena_core::plan::{Backing, Plan, Stage};
use fsarena_core::{cell::Variant, exit::ExitCode, matrix, number::plural};
use fsarena_fs::advice::{command_line, option_variants, short_budget_rank};
use fsarena_report::{Decision, report::ReportOptions};
use fsarena_run::{Destination, RunRequest, registry};
use fsarena_store::RunDir;
use std::time::{Duration, Instant};

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
#[command(mut_args(|arg| hide_refused(arg, REFUSED_FLAGS)))]
pub struct Args {
    /// Try options that give up safety too; fsarena never chooses them, and shows what they would gain
    #[arg(long, help_heading = "Variants")]
    allow_unsafe: bool,
    #[command(flatten)]
    run: run::Args,
}

/// The default time for both stages.
const DEFAULT_BUDGET: Duration = Duration::from_secs(15 * 60);

/// The flags of `run` that this command sets itself.
pub const REFUSED_FLAGS: &str = "variant options mkfs mount factor vary kernel resume after stage shard rounds find claim max_rounds warmup format save_baseline exit_style";

/// Runs both stages and prints the advice.
pub fn run(args: Args) -> CommandResult {
    let Args { allow_unsafe, run: mut args } = args;
    let refused = REFUSED_FLAGS.split(' ');
    args.explicit_flags.refuse(refused, "advise determines this itself; to choose it, use fsarena run")?;
    args.find = Some("best".into());
    args.refuse_ignored(false)?;
    handle_signals()?;
    args.check_outputs()?;
    let plan = resolve_plan(&args)?;
    if args.dry_run {
        let (code, _) = execute_plan(&args, RunRequest::new(plan, Destination::NewRun(args.runs.dir.clone())))?;
        return Ok(code);
    }
    let budget = args.budget.unwrap_or(DEFAULT_BUDGET);
    let start = Instant::now();
    let Some(first) = compare_filesystems(&args, plan.clone(), budget)? else { return Ok(ExitCode::Done) };
    let time_left = budget.saturating_sub(start.elapsed());
    let (variants, unsafe_options) = option_variants(&first.survivors, allow_unsafe)?;
    if !unsafe_options.is_empty() {
        args.print_message(&format!("not tried without --allow-unsafe: {}", unsafe_options.join(", ")));
    }
    let (mut last_run, mut note) = (first.run, "");
    // Every filesystem has several sets of options, so there are several variants unless the first stage left no
    // survivor.
    if variants.len() > 1 {
        args.print_message(&describe_stage(STAGES[1], &variants, time_left));
        let second = run_stage(&args, stage_plan(&plan, first.next_stage, variants, time_left))?;
        if second.is_none() {
            note = "The comparison of options did not end: this advice is on filesystems with their default options.\n";
        }
        last_run = second.or(last_run);
    }
    let Some(run) = last_run else { return Ok(ExitCode::Done) };
    output::print_text(advice_text(&run, &args)? + note)
}

/// The message before a stage: `stage filesystems, 1m 30s: … ext4, xfs, btrfs`.
fn describe_stage(stage: &str, variants: &[Variant], budget: Duration) -> String {
    let names: Vec<&str> = variants.iter().map(|variant| variant.name.as_str()).collect();
    let budget = humantime::format_duration(Duration::from_secs(budget.as_secs()));
    format!("stage {stage}, {budget}: runs each of these once, then those that fit into the time: {}", names.join(", "))
}

/// Resolves the plan of the arguments, without its claims and with a budget.
fn resolve_plan(args: &run::Args) -> Result<Plan, Failure> {
    let mut parsed_plan = run::read_plan_without_stages(args, "advise")?;
    // The claims of the plan are about its own variants, and must not end the search for the best.
    parsed_plan.file.claims.clear();
    let mut overrides = args.overrides()?;
    overrides.budget_s = Some(args.budget.unwrap_or(DEFAULT_BUDGET).as_secs_f64());
    let mut plan = registry::resolve(&parsed_plan, &overrides)?;
    plan.stop.has_default_budget = args.budget.is_none();
    if plan.device.backing == Backing::Dir {
        return usage_error("advise makes filesystems on a device; it cannot give advice on an existing directory");
    }
    Ok(plan)
}

/// The names of the two runs of advice. They share the error probability.
const STAGES: [&str; 2] = ["filesystems", "options"];

/// The plan of a stage: these variants within this budget. Its warm-up round is a pilot: it runs every variant once, in
/// this order, and the variants that do not fit into the budget leave. The figures of the pilot do not count.
fn stage_plan(plan: &Plan, stage: Stage, variants: Vec<Variant>, budget: Duration) -> Plan {
    let mut plan = plan.clone();
    plan.title = format!("{}, stage {}", plan.title, stage.name);
    plan.factors.clear();
    plan.variants = variants;
    plan.stop.budget_s = Some(budget.as_secs_f64());
    plan.stop.warmup = 1;
    plan.stage = Some(Stage { error_split: Some(STAGES.len() as u32), ..stage });
    plan
}

/// The result of the first stage.
struct FirstStage {
    /// The filesystems that can be the best, in order. Empty if the run cannot compare them.
    survivors: Vec<Variant>,
    /// Its run; None if there is only one filesystem, which needs no comparison.
    run: Option<RunDir>,
    /// The next stage, with the run of this one.
    next_stage: Stage,
}

/// Runs the first stage: compares the filesystems, common ones first. None if a signal ended it, or nothing was measured.
fn compare_filesystems(args: &run::Args, plan: Plan, budget: Duration) -> Result<Option<FirstStage>, Failure> {
    let mut filesystems = matrix::expand(&plan);
    if filesystems.iter().all(Variant::is_bare_device) {
        let message = "this machine can make no filesystem to advise on";
        return Err(Failure::new(ExitCode::Missing, message));
    }
    filesystems.sort_by_key(short_budget_rank);
    let [stage, mut next_stage] = STAGES.map(|name| Stage { name: name.into(), ..Stage::default() });
    if filesystems.len() == 1 {
        return Ok(Some(FirstStage { survivors: filesystems, run: None, next_stage }));
    }
    args.print_message(&describe_stage(STAGES[0], &filesystems, budget / 2));
    let plan = stage_plan(&plan, stage, filesystems, budget / 2);
    let Some(run) = run_stage(args, plan)? else { return Ok(None) };
    let report = report::analyse_run(fsarena_store::read(&run)?, ReportOptions::default())?;
    next_stage.earlier_runs = [(STAGES[0].to_string(), run.id())].into();
    next_stage.not_compared = report.record.not_compared().into_iter().map(String::from).collect();
    let possible = Decision::new(&report).map_or(vec![], |decision| decision.possible_best());
    let survivors: Vec<Variant> = possible.into_iter().map(|index| report.record.variants[index].clone()).collect();
    let names: Vec<&str> = survivors.iter().map(|variant| variant.name.as_str()).collect();
    if !names.is_empty() {
        args.print_message(&format!("{} can be the best: {}", plural(names.len(), "filesystem"), names.join(", ")));
    }
    Ok(Some(FirstStage { survivors, run: Some(run), next_stage }))
}

/// Runs one stage. None if a signal ended it, or nothing was measured.
fn run_stage(args: &run::Args, plan: Plan) -> Result<Option<RunDir>, Failure> {
    // The exit code is ignored: only claims set it, and the plan has none. After a signal, the process ends by that signal.
    let (_, run) = execute_plan(args, RunRequest::new(plan, Destination::NewRun(args.runs.dir.clone())))?;
    Ok(run.filter(|_| fsarena_sys::cancel::received_signal().is_none()))
}

/// The text of the advice: the command that makes the chosen filesystem, the choices that are about as good, and faster ones
/// that give up safety.
fn advice_text(run: &RunDir, args: &run::Args) -> Result<String, Failure> {
    let options = ReportOptions { current: args.report.current.clone(), ..ReportOptions::default() };
    let report = report::analyse_run(fsarena_store::read(run)?, options)?;
    let variant = |index: usize| &report.record.variants[index];
    let mut text = String::from("\nAdvice\n\n");
    let Some(decision) = Decision::new(&report) else {
        return Ok(text + "No advice: nothing bounds what a choice costs.\n");
    };
    let choices = decision.choices();
    let not_compared = report.record.not_compared();
    if let Some(choice) = choices.first() {
        text += &format!("  {}\n\n", command_line(variant(*choice))?);
    }
    text += &format!("{}\n", decision.headline());
    if let Some(first_run) = report.record.plan.stage.as_ref().and_then(|stage| stage.earlier_runs.get(STAGES[0])) {
        text +=
            &format!("The filesystems that run {first_run} eliminated were tried with their default options only.\n");
    }
    if !not_compared.is_empty() {
        let names = not_compared.join(", ");
        text += &format!("Not compared, because the budget was too small for them: {names}. Give a larger --budget.\n");
    }
    let (title, others) = match choices.split_first() {
        None => ("Can still be the best", decision.possible_best()),
        Some((_, others)) => ("About as good", others.to_vec()),
    };
    if !others.is_empty() {
        text += &format!("\n{title}:\n");
    }
    for other in others {
        text += &format!("  {}\n", command_line(variant(other))?);
    }
    for (other, guarantees) in decision.less_safe_variants() {
        let (losses, line) = (guarantees.join("; "), command_line(variant(other))?);
        text += &format!("\nAhead by the estimate, but gives up safety ({losses}):\n  {line}\n");
    }
    Ok(text)
}
