//! Executes a plan and reports it; with `--dry-run`, checks it and prints it.

use super::flags::{Args, BaselineName};
use crate::failure::{CommandResult, Failure};
use crate::terminal::progress::{Progress, describe_run_length};
use crate::{commands::report, flags::parse_known_metric, output};
use fsarena_core::event::{Cause, Note, NoteKind};
use fsarena_core::exit::ExitCode;
use fsarena_core::{cell::Variant, matrix, names::find_by_id, number::plural, plan::Plan};
use fsarena_report::report::check_weights;
use fsarena_run::baseline::BaselineToSave;
use fsarena_run::{Consumer, RunError, RunRequest, check, execute, preflight::Requirements, try_options};
use fsarena_stats::judge::explain_claim;
use fsarena_store::RunDir;
use fsarena_sys::cancel;

/// Runs one plan and prints its report, also after a failure or a signal: everything measured until then is stored. Returns
/// the exit code, and the run; no run with `--dry-run`.
pub fn execute_plan(args: &Args, mut request: RunRequest) -> Result<(ExitCode, Option<RunDir>), Failure> {
    check_weights(&fsarena_run::work::outline_tasks(&request.plan), &args.report.weight)?;
    fsarena_report::report::find_current_variant(&matrix::expand(&request.plan), args.report.current.as_deref())?;
    if !request.plan.can_print_metrics() {
        let checked = args.metric.iter().try_for_each(|metric| parse_known_metric(metric).map(drop));
        checked.map_err(|fault| Failure::new(ExitCode::Usage, format!("--metric: {fault}")))?;
    }
    request.user = args.user.clone();
    if args.dry_run {
        return Ok((dry_run(args, &request)?, None));
    }
    let baseline = baseline_to_save(args, &request.plan)?;
    let mut progress = Progress::new(args.quiet);
    for text in args.default_guest_note(&request.plan).into_iter().chain(request.plan.omitted.clone()) {
        progress.show_message(&text);
        request.remarks.push(Note::new(NoteKind::Remark, text));
    }
    let result = execute(request, &mut [&mut progress]);
    let (run, cut_short) = match &result {
        Ok(outcome) => (outcome.run.clone(), outcome.interrupted),
        Err(error) => (progress.run_dir.clone(), !matches!(error, RunError::EveryVariantFailed(_))),
    };
    let Some(run) = run else {
        result?;
        return Ok((ExitCode::Done, None));
    };
    let record = fsarena_store::read(&run)?;
    let has_samples = !record.samples.is_empty();
    if let Some(baseline) = baseline.filter(|_| record.status.complete) {
        let file = baseline.save(&args.runs.dir, &record)?;
        progress.show_message(&format!("baseline saved: {}", file.display()));
    }
    let shard = record.plan.stop.shard;
    let printed = if let Some(shard) = shard.filter(|_| has_samples) {
        // One shard has no report: only all shards together answer the question.
        let line = format!("shard {shard}: {} in {}\n", record.status.why, run.path().display());
        output::print_text(line)
    } else if has_samples {
        let report = report::analyse_for_terminal(record, args.metric.clone(), vec![], args.report.clone());
        report.and_then(|report| report::write_and_print_report(report, &args.export, args.format, &run))
    } else {
        Ok(ExitCode::Done)
    };
    if cut_short && (has_samples || result.is_ok()) {
        let (id, runs_flag) = (run.id(), args.runs.flag_for_later_commands());
        progress.show_message(&format!("what was measured is kept; resume with: fsarena run --resume {id}{runs_flag}"));
    }
    // If both the run and its report failed, the failure of the run is reported.
    result?;
    Ok((printed?, Some(run)))
}

/// Checks a plan against this machine, tries its options of mkfs and mount, and prints it.
fn dry_run(args: &Args, request: &RunRequest) -> CommandResult {
    let (variants, requirements) = check(request)?;
    let mut progress = Progress::new(args.quiet);
    let trials = try_options(request, &variants, &requirements, &mut |done, total| progress.show_trials(done, total));
    if let Err(error) = trials {
        if error.cause() == Cause::Usage || cancel::received_signal().is_some() {
            return Err(error.into());
        }
        progress.show_message(&format!("the options of mkfs and mount could not be tried: {error}"));
    }
    drop(progress);
    print_plan(&request.plan, &variants, &requirements)
}

/// The variant that `--save-baseline` names, with its state before the run; None without the flag.
fn baseline_to_save(args: &Args, plan: &Plan) -> Result<Option<BaselineToSave>, Failure> {
    let Some(BaselineName { name, variant }) = &args.save_baseline else { return Ok(None) };
    let mut variants = matrix::expand(plan);
    variants.retain(|variant| !variant.is_bare_device());
    let refusal = |why: String| Failure::new(ExitCode::Usage, format!("--save-baseline: {why}"));
    let chosen = match (variant, &variants[..]) {
        (Some(name), _) => find_by_id("variant", name, &variants, |variant| variant.name.as_str())
            .map_err(|unknown| refusal(unknown.into()))?,
        // The candidate of `fsarena ab`, or the only variant.
        (None, [.., last]) if variants.len() == 1 || args.saves_last_variant => last,
        (None, _) => {
            let names: Vec<&str> = variants.iter().map(|variant| variant.name.as_str()).collect();
            return Err(refusal(format!("name the variant to save: {name}=VARIANT, one of {}", names.join(", "))));
        }
    };
    Ok(Some(BaselineToSave::before_run(name, plan, chosen)?))
}

/// Prints a resolved plan, with its variants, claims and requirements as comments above it.
fn print_plan(plan: &Plan, variants: &[Variant], requirements: &Requirements) -> CommandResult {
    let text = toml::to_string(plan).map_err(|error| Failure::new(ExitCode::Internal, error.to_string()))?;
    let names: Vec<&str> = variants.iter().map(|variant| variant.name.as_str()).collect();
    let mut comments = vec![format!("{}: {}", plural(names.len(), "variant"), names.join(", "))];
    comments.extend(plan.omitted.iter().cloned());
    let comment = |claim| format!("claim: {claim}\n#   {}", explain_claim(claim, plan.stop.margin()));
    comments.extend(plan.claims.iter().map(comment));
    comments.push(format!("{}; {}", describe_run_length(&plan.stop), requirements.describe(plan)));
    output::print_text(format!("# {}\n\n{text}\n", comments.join("\n# ")))
}
