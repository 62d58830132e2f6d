//! One run from its first event to its report, or with `--dry-run` its plan.

use super::flags::Args;
use crate::failure::{Failure, Outcome};
use crate::terminal::progress::expected;
use crate::{commands::report, flags::known_metric, output, progress::Progress};
use fsarena_core::event::{Note, NoteKind};
use fsarena_core::exit::{ExitCode, Exits};
use fsarena_core::{cell::Variant, matrix, number::plural, plan::Plan};
use fsarena_report::report::check_weights;
use fsarena_run::{Consumer, Request, check, execute, executor::Fatal, preflight::Check, try_options};
use fsarena_stats::judge::meaning;
use fsarena_store::RunDir;
use fsarena_sys::cancel;

/// Runs one plan and answers, whatever ended it: nothing measured is lost. With the run, where there is one.
pub fn once(args: &Args, mut request: Request) -> Result<(ExitCode, Option<RunDir>), Failure> {
    check_weights(&fsarena_run::work::outline(&request.plan), &args.view.weight)?;
    fsarena_report::report::current(&matrix::expand(&request.plan), args.view.current.as_deref())?;
    if !request.plan.prints() {
        let known = args.metric.iter().try_for_each(|metric| known_metric(metric).map(drop));
        known.map_err(|fault| Failure::new(ExitCode::Usage, format!("--metric: {fault}")))?;
    }
    request.user = args.user.clone();
    if args.dry_run {
        let (variants, check) = check(&request)?;
        let mut progress = Progress::new(args.quiet);
        match try_options(&request, &variants, &check, &mut |done, of| progress.trying(done, of)) {
            Err(error) if error.exit_code() == ExitCode::Usage || cancel::requested().is_some() => {
                return Err(error.into());
            }
            Err(error) => {
                progress.say(&format!("the options of mkfs and mount could not be tried: {error}"));
            }
            Ok(_) => {}
        }
        drop(progress);
        return Ok((print_plan(&request.plan, &variants, &check)?, None));
    }
    let mut progress = Progress::new(args.quiet);
    for text in args.guest_by_itself(&request.plan).into_iter().chain(request.plan.omitted.clone()) {
        progress.say(&text);
        request.remarks.push(Note::new(NoteKind::Remark, text));
    }
    let ended = execute(request, &mut [&mut progress]);
    let (run, cut_short) = match &ended {
        Ok(outcome) => (outcome.run.clone(), outcome.interrupted),
        Err(error) => (error.run.clone(), !matches!(*error.cause, Fatal::EveryVariant(_))),
    };
    let Some(run) = run else {
        ended?;
        return Ok((ExitCode::Done, None));
    };
    let record = fsarena_store::read(&run)?;
    let measured = !record.samples.is_empty();
    let shard = record.plan.stop.shard;
    let answered = if let Some(shard) = shard.filter(|_| measured) {
        // Only all shards together answer.
        let line = format!("shard {shard}: {} in {}\n", record.status.why, run.path().display());
        output::text(line)
    } else if measured {
        let report = report::for_terminal(record, args.metric.clone(), vec![], args.view.clone());
        report.and_then(|report| report::answer(report, &args.export, &run))
    } else {
        Ok(ExitCode::Done)
    };
    if cut_short && (measured || ended.is_ok()) {
        progress.say(&format!("what was measured is kept; resume with: fsarena run --resume {}", run.id()));
    }
    // What ended the run matters more than a report that could not be written.
    ended?;
    Ok((answered?, Some(run)))
}

/// The plan as resolved, and what it needs.
fn print_plan(plan: &Plan, variants: &[Variant], check: &Check) -> Outcome {
    let text = toml::to_string(plan).map_err(|error| Failure::new(ExitCode::Internal, error.to_string()))?;
    let names: Vec<&str> = variants.iter().map(|variant| variant.name.as_str()).collect();
    let mut head = vec![format!("{}: {}", plural(names.len(), "variant"), names.join(", "))];
    head.extend(plan.omitted.iter().cloned());
    let meaning = |claim| format!("claim: {claim}\n#   {}", meaning(claim, plan.stop.margin()));
    head.extend(plan.claims.iter().map(meaning));
    head.push(format!("{}; {}", expected(&plan.stop), check.describe(plan)));
    output::text(format!("# {}\n\n{text}\n", head.join("\n# ")))
}
