//! `fsarena run`: runs a study or a plan and prints the answer to its question.

mod command_flags;
mod execute_plan;
mod flags;
mod job_file;
mod overrides;
mod validate_flags;
pub mod variants;

pub use command_flags::environment_variable;
pub use flags::{Args, FactorLevels, parse_factor};
pub use overrides::{absolute_kernel_level, absolute_level, absolute_variant};
use variants::plan_of_variants;

use crate::commands::{handle_signals, run_unstored};
use crate::failure::{CommandResult, Failure, usage_error};
use crate::output;
use crate::terminal::progress::Progress;
pub use execute_plan::execute_plan;
use fsarena_core::event::{Note, NoteKind};
use fsarena_core::plan::file::{self, PlanFile};
use fsarena_core::plan::resolve::Overrides;
use fsarena_core::plan::{ParsedPlan, Plan, StopPlan};
use fsarena_core::{cell::Variant, matrix, number::plural};
use fsarena_core::{exit::ExitCode, factor, names::unknown_name, scale::Scale, study};
use fsarena_fs::filesystems;
use fsarena_load::workloads;
use fsarena_run::stages::{self, NextStage, Stages};
use fsarena_run::stopping::{format_duration, round_up_duration, rounds_for_an_answer};
use fsarena_run::{Consumer, Destination, RunRequest, claim_forecast::round_seconds, registry};
use fsarena_store::RunDir;
use fsarena_sys::{cancel, input, program};
use std::{io::ErrorKind, path::Path};

/// Runs a study or a plan, stores every sample, and prints the answer.
pub fn run(args: Args) -> CommandResult {
    if let Some(name) = &args.resume {
        return resume(&args, name);
    }
    args.refuse_ignored(args.variant.iter().any(|levels| levels.contains_key(factor::DIR)))?;
    let parsed_plan = read_plan(&args)?;
    if !parsed_plan.file.stages.is_empty() {
        if !args.variant.is_empty() {
            return usage_error("--variant: the stages of a study choose their variants; write one stage as a plan");
        }
        if args.shard.is_some() {
            return usage_error(
                "--shard: a later stage builds on what an earlier one found, so stages cannot be spread; write \
                 one stage as a plan",
            );
        }
        handle_signals()?;
        args.check_outputs()?;
        return run_stages(&args, &parsed_plan);
    }
    args.explicit_flags.refuse(["after", "stage"], &format!("{} has no stages", parsed_plan.origin))?;
    run_single_plan(&args, &parsed_plan)
}

/// Runs a plan without stages.
fn run_single_plan(args: &Args, parsed_plan: &ParsedPlan) -> CommandResult {
    handle_signals()?;
    args.check_outputs()?;
    let overrides = args.overrides_for(parsed_plan)?;
    let mut plan = resolve_plan(args, parsed_plan, overrides.clone())?;
    let mut remarks = vec![];
    if args.chooses_scale()
        && let Some(scale) = next_smaller_scale(plan.scale)
    {
        args.print_message("measuring one variant once, to choose the scale of the work");
        let smaller_plan = resolve_plan(args, parsed_plan, Overrides { scale: Some(scale), ..overrides })?;
        if let Some((scaled_plan, why)) = reduce_scale(&plan, smaller_plan, &args.runs.dir, args.user.as_deref())? {
            args.print_message(&why);
            remarks.push(Note::new(NoteKind::Remark, why));
            plan = scaled_plan;
        }
    }
    let mut request = RunRequest::new(plan, Destination::NewRun(args.runs.dir.clone()));
    request.remarks = remarks;
    Ok(execute_plan(args, request)?.0)
}

/// Resolves the plan of the arguments. The variants of `--variant` replace the variants of the plan.
fn resolve_plan(args: &Args, parsed_plan: &ParsedPlan, overrides: Overrides) -> Result<Plan, Failure> {
    if args.variant.is_empty() {
        return Ok(registry::resolve(parsed_plan, &overrides)?);
    }
    let variants = args.variant.iter().cloned().map(absolute_variant).collect::<Result<Vec<_>, _>>()?;
    plan_of_variants(&variants, parsed_plan.clone(), overrides)
}

/// Checks whether the first answer fits into the budget. If it does not, returns `smaller_plan`, the plan at a smaller scale,
/// and the reason in words. None if the plan keeps its scale.
///
/// Runs the work once on the first variant, as `user`, and stores nothing; images go into `images_dir`. If that is too
/// slow, runs it once more, because the first time has cold caches. If the cell fails, the plan keeps its scale; the run
/// itself then reports the error.
///
/// # Errors
/// A signal that ended the run.
fn reduce_scale(
    plan: &Plan,
    smaller_plan: Plan,
    images_dir: &Path,
    user: Option<&str>,
) -> Result<Option<(Plan, String)>, Failure> {
    let Some(budget) = plan.stop.extended_budget_s() else { return Ok(None) };
    let variants = matrix::expand(plan);
    let rounds = rounds_for_an_answer(&variants, plan.error_split());
    let run_seconds = |cell_seconds: f64| cell_seconds * variants.len() as f64 * f64::from(rounds);
    let mut cell_seconds = f64::INFINITY;
    for _ in 0..2 {
        match time_one_cell(plan, &variants, images_dir, user) {
            Ok(Some(seconds)) => cell_seconds = cell_seconds.min(seconds),
            Err(error) if cancel::received_signal().is_some() => return Err(error),
            Ok(None) | Err(_) => return Ok(None),
        }
        if run_seconds(cell_seconds) <= budget {
            return Ok(None);
        }
    }
    let (large, small) = (plan.scale.name(), smaller_plan.scale.name());
    let why = format!(
        "At scale {large} one variant takes {cell_seconds:.1} s here, so {rounds} rounds of {} take about {}: this run uses scale \
         {small}. For the larger work: --scale {large} --budget {}.",
        plural(variants.len(), "variant"),
        format_duration(run_seconds(cell_seconds)),
        round_up_duration(1.2 * run_seconds(cell_seconds))
    );
    Ok(Some((Plan { stop: plan.stop.clone(), seed: plan.seed, ..smaller_plan }, why)))
}

/// Runs the work once on the first variant with a filesystem. Returns the seconds that it took; None if no variant has a
/// filesystem.
fn time_one_cell(
    plan: &Plan,
    variants: &[Variant],
    images_dir: &Path,
    user: Option<&str>,
) -> Result<Option<f64>, Failure> {
    let Some(first) = variants.iter().find(|variant| !variant.is_bare_device()) else { return Ok(None) };
    let mut plan = plan.clone();
    plan.factors.clear();
    plan.claims.clear();
    plan.variants = vec![first.clone()];
    plan.stop = StopPlan { rounds: 1, ..StopPlan::default() };
    let mut request = RunRequest::new(plan, Destination::ConsumersOnly(images_dir.into()));
    request.user = user.map(String::from);
    let record = run_unstored(request, &mut [])?;
    Ok(Some(round_seconds(&record, &[first.name.clone()].into())))
}

/// The next smaller scale; None for the smallest.
fn next_smaller_scale(scale: Scale) -> Option<Scale> {
    Scale::ALL.into_iter().find(|other| *other > scale)
}

/// Runs the stages of a plan one after another, all or those after a run of one of them.
fn run_stages(args: &Args, parsed_plan: &ParsedPlan) -> CommandResult {
    let runs_dir = &args.runs.dir;
    let (after, only_stage) = (args.after.as_deref(), args.stage.as_deref());
    let mut stages = Stages::resolve(parsed_plan, args.overrides()?, runs_dir, after, only_stage)?;
    let mut progress = Progress::new(args.quiet);
    let mut show_trials = |done, total| progress.show_trials(done, total);
    stages.check(args.user.as_deref(), (!args.dry_run).then_some(&mut show_trials))?;
    drop(progress);
    // The first exit code that is not `Done`.
    let mut exit_code = ExitCode::Done;
    while let Some(next) = stages.begin_next(args.dry_run)? {
        let plan = match next {
            NextStage::Plan(plan, message) => {
                if let Some(message) = message {
                    args.print_message(&message);
                }
                *plan
            }
            NextStage::NotPlanned(description) => {
                output::print_text(format!("# {description}\n\n"))?;
                continue;
            }
        };
        let (code, run) = execute_plan(args, RunRequest::new(plan, Destination::NewRun(runs_dir.clone())))?;
        if exit_code == ExitCode::Done {
            exit_code = code;
        }
        let Some(run) = run else { continue };
        if cancel::received_signal().is_some() {
            break;
        }
        stages.record_run(&run);
    }
    Ok(exit_code)
}

/// Resumes the interrupted run of this name.
fn resume(args: &Args, run_name: &str) -> CommandResult {
    handle_signals()?;
    args.check_outputs()?;
    let run = RunDir::find(&args.runs.dir, run_name)?;
    let request = RunRequest::resume(run, args.erase_signature.clone(), args.other_signature.clone())?;
    let (plan_name, has_later_stages) = (request.plan.name.clone(), stages::has_later_stages(&request.plan));
    let (code, run) = execute_plan(args, request)?;
    if has_later_stages
        && cancel::received_signal().is_none()
        && let Some(run) = run
    {
        args.print_message(&format!("go on with the stages after it: fsarena run {plan_name} --after {}", run.id()));
    }
    Ok(code)
}

/// Reads the plan that the arguments name, without resolving it: of the commands on the command line, of a study or
/// application, of a fio job file, or of a plan file.
pub fn read_plan(args: &Args) -> Result<ParsedPlan, Failure> {
    if let Some(plan) = args.command.plan_text(&args.explicit_flags)? {
        return Ok(PlanFile::parse("the command line", plan.as_bytes())?);
    }
    let name = args.plan.as_deref().unwrap_or(study::DEFAULT_STUDY);
    let path = Path::new(name);
    let (origin, bytes) = match study::shipped_plan(name) {
        Some((origin, plan)) => (origin, plan.as_bytes().to_vec()),
        None if job_file::is_job_file(path) => (name.to_string(), job_file::plan_text(path)?.into_bytes()),
        None => (name.to_string(), read_plan_file(name)?),
    };
    let parsed = PlanFile::parse(&origin, &bytes);
    if parsed.is_err() {
        job_file::refuse_job_file_without_extension(path, &bytes)?;
    }
    Ok(parsed?)
}

/// Reads the plan that the arguments name, for a command of fsarena that runs no stages.
pub fn read_plan_without_stages(args: &Args, command: &str) -> Result<ParsedPlan, Failure> {
    let parsed_plan = read_plan(args)?;
    if !parsed_plan.file.stages.is_empty() {
        let accepted = format!("{command} takes a command, a workload or a plan without stages");
        return usage_error(format!("{} has stages; {accepted}", parsed_plan.origin));
    }
    Ok(parsed_plan)
}

/// Reads a plan file. If it does not exist, the error lists studies and applications with a similar name.
fn read_plan_file(name: &str) -> Result<Vec<u8>, Failure> {
    let path = Path::new(name);
    input::read(path, file::MAX_PLAN_BYTES as u64).map_err(|error| match error.kind() {
        ErrorKind::NotFound => {
            let unknown = unknown_name("study, application or plan file", name, study::shipped_plan_names());
            Failure::new(ExitCode::Usage, format!("{unknown}{}", flag_suggestion(name)))
        }
        _ => Failure::for_path(path)(error),
    })
}

/// A hint if the user wrote a workload, filesystems or a program instead of a study; else empty.
fn flag_suggestion(name: &str) -> String {
    let flag = if workloads::find_workload(name).is_some() {
        "--workload"
    } else if name.split(',').all(|fs| filesystems::find(fs).is_ok()) {
        "--fs"
    } else if program::find(name).is_some() {
        return format!(". To time the program {name}, write it after `--`: fsarena run -- {name}");
    } else {
        return String::new();
    };
    format!(". Did you mean {flag} {name}?")
}
