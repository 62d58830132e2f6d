//! One run from its first event to its report.

use super::{dry, flags::Args};
use crate::{commands::report, failure::Failure, flags::known_metric, output, progress::Progress};
use fsarena_core::{event::Note, event::NoteKind, exit::ExitCode, exit::Exits, matrix};
use fsarena_report::ranking::check_weights;
use fsarena_run::{Request, check, execute, executor::Fatal, try_options};
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
    if args.dry_run {
        let (variants, check) = check(&request)?;
        match try_options(&request, &variants, &check) {
            Err(error) if error.exit_code() == ExitCode::Usage || cancel::requested().is_some() => {
                return Err(error.into());
            }
            Err(error) => Progress::new(args.quiet)
                .say(&format!("the options of mkfs and mount could not be tried: {error}")),
            Ok(_) => {}
        }
        return Ok((dry::print_plan(&request.plan, &variants, &check)?, None));
    }
    request.user = args.user.clone();
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
        let options = report::Options::for_stdout(args.metric.clone(), args.view.clone());
        report::answer(record, &options, &args.export, &run)
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
