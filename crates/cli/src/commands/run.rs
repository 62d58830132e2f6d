//! `fsarena run`: question in, answer out.

mod flags;
mod once;
mod overrides;
mod own;
mod refuse;

pub use flags::Args;
pub use overrides::absolute_levels;

use crate::failure::{Failure, Outcome, usage};
use crate::{output, progress::Progress, running::handle_signals};
use fsarena_core::event::{Note, NoteKind};
use fsarena_core::plan::file::{self, PlanFile};
use fsarena_core::plan::resolve::Overrides;
use fsarena_core::plan::{Plan, Written};
use fsarena_core::{app, exit::ExitCode, factor, names::unknown, scale::Scale, study};
use fsarena_fs::filesystems;
use fsarena_load::workloads;
use fsarena_run::stages::{self, Next, Stages};
use fsarena_run::{Consumer, Keep, Request, fit, sides, vocabulary};
use fsarena_store::RunDir;
use fsarena_sys::{cancel, input, program};
pub use once::once;
use std::{io::ErrorKind, path::Path};

/// Runs a study or a plan, stores every sample, and prints the answer.
pub fn run(args: Args) -> Outcome {
    if let Some(name) = &args.resume {
        return resume(&args, name);
    }
    args.refuse_ignored(args.variant.iter().any(|levels| levels.contains_key(factor::DIR)))?;
    let written = read_plan(&args)?;
    if !written.file.stages.is_empty() {
        if !args.variant.is_empty() {
            return usage(
                "--variant: the stages of a study choose their variants; write one stage as a plan",
            );
        }
        if args.shard.is_some() {
            return usage(
                "--shard: a later stage builds on what an earlier one found, so stages cannot be spread; write \
                 one stage as a plan",
            );
        }
        handle_signals()?;
        args.check_outputs()?;
        return run_stages(&args, &written);
    }
    args.given.refuse(&["after", "stage"], &format!("{} has no stages", written.origin))?;
    run_one(&args, &written)
}

/// Runs a plan without stages.
fn run_one(args: &Args, written: &Written) -> Outcome {
    handle_signals()?;
    args.check_outputs()?;
    let over = args.overrides_of(written)?;
    let mut plan = resolve(args, written, over.clone())?;
    let mut remarks = vec![];
    if args.chooses_scale()
        && let Some(scale) = smaller(plan.scale)
    {
        args.say("measuring one variant once, to choose the scale of the work");
        let smaller = resolve(args, written, Overrides { scale: Some(scale), ..over })?;
        if let Some((scaled, why)) = fit::scaled(&plan, smaller, &args.runs.runs, args.user.as_deref())? {
            args.say(&why);
            remarks.push(Note::new(NoteKind::Remark, why));
            plan = scaled;
        }
    }
    let mut request = Request::new(plan, Keep::New(args.runs.runs.clone()));
    request.remarks = remarks;
    Ok(once(args, request)?.0)
}

/// The plan of the arguments: that of the file, or its work on the variants of `--variant`.
fn resolve(args: &Args, written: &Written, over: Overrides) -> Result<Plan, Failure> {
    if args.variant.is_empty() {
        return Ok(vocabulary::resolve(written, &over)?);
    }
    let variants = args.variant.iter().cloned().map(absolute_levels).collect::<Result<Vec<_>, _>>()?;
    Ok(sides::plan_of_variants(&variants, written.clone(), over)?)
}

/// The next smaller scale.
fn smaller(scale: Scale) -> Option<Scale> {
    Scale::ALL.into_iter().find(|other| *other > scale)
}

/// Runs the stages of a plan one after another, all or those after a run of one of them.
fn run_stages(args: &Args, written: &Written) -> Outcome {
    let runs = &args.runs.runs;
    let (after, only) = (args.after.as_deref(), args.stage.as_deref());
    let mut stages = Stages::of(written, args.overrides()?, runs, after, only)?;
    let mut progress = Progress::new(args.quiet);
    let mut trying = |done, of| progress.trying(done, of);
    stages.check(args.user.as_deref(), (!args.dry_run).then_some(&mut trying))?;
    drop(progress);
    let mut ended = ExitCode::Done;
    while let Some(next) = stages.begin(args.dry_run)? {
        let plan = match next {
            Next::Plan(plan, found) => {
                found.iter().for_each(|found| args.say(found));
                *plan
            }
            Next::Later(what) => {
                output::text(format!("# {what}\n\n"))?;
                continue;
            }
        };
        let (code, run) = once(args, Request::new(plan, Keep::New(runs.clone())))?;
        if ended == ExitCode::Done {
            ended = code;
        }
        let Some(run) = run else { continue };
        if cancel::requested().is_some() {
            break;
        }
        stages.ran(&run);
    }
    Ok(ended)
}

/// Runs the plan that `load` makes of the arguments.
pub fn run_plan(args: Args, load: impl FnOnce(&Args) -> Result<Plan, Failure>) -> Outcome {
    handle_signals()?;
    args.check_outputs()?;
    let request = Request::new(load(&args)?, Keep::New(args.runs.runs.clone()));
    Ok(once(&args, request)?.0)
}

/// Goes on with an interrupted run.
fn resume(args: &Args, name: &str) -> Outcome {
    handle_signals()?;
    args.check_outputs()?;
    let run = RunDir::find(&args.runs.runs, name)?;
    let request = Request::resume(run, args.erase_signature.clone(), args.other_signature.clone())?;
    let (name, stages_follow) = (request.plan.name.clone(), stages::follow(&request.plan));
    let (code, run) = once(args, request)?;
    if let Some(run) = run.filter(|_| stages_follow) {
        args.say(&format!("go on with the stages after it: fsarena run {name} --after {}", run.id()));
    }
    Ok(code)
}

/// The plan that the arguments name, as it was written.
pub fn read_plan(args: &Args) -> Result<Written, Failure> {
    if let Some(plan) = args.own.plan(&args.given)? {
        return Ok(PlanFile::parse("the command line", plan.as_bytes())?);
    }
    let name = args.plan.as_deref().unwrap_or(study::DEFAULT);
    let (origin, bytes) = match app::plan(name) {
        Some((origin, plan)) => (origin, plan.as_bytes().to_vec()),
        None => (name.to_string(), read(name)?),
    };
    Ok(PlanFile::parse(&origin, &bytes)?)
}

fn read(name: &str) -> Result<Vec<u8>, Failure> {
    let path = Path::new(name);
    input::read(path, file::MAX_BYTES as u64).map_err(|error| match error.kind() {
        ErrorKind::NotFound => {
            let unknown = unknown("study, application or plan file", name, app::names());
            Failure::new(ExitCode::Usage, format!("{unknown}{}", flag_meant(name)))
        }
        _ => Failure::file(path)(error),
    })
}

/// What to write where a workload, filesystems or a program stand in the place of a study.
fn flag_meant(name: &str) -> String {
    let flag = if workloads::find(name).is_some() {
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
