//! `fsarena history`: prints a metric over the runs of a study, and the runs at which it changed.

mod fail_on_change;

use crate::failure::{CommandResult, Failure, usage_error};
use crate::flags::{RunsDir, parse_duration, parse_metric};
use crate::output;
use fail_on_change::ChangeConfirmer;
use fsarena_core::{escape, exit::ExitCode, names::find_by_id};
use fsarena_report::history::{
    HistoryQuery, MAX_RUNS, choose_reference, find_changes_of_history, history_page, history_point,
};
use fsarena_run::confirmation::PLAN_SUFFIX;
use fsarena_store::RunDir;
use std::{fmt::Display, time::Duration};

/// Follow a metric over the runs of a study, and find where it changed
///
/// fsarena follows the ratio of a variant to a reference variant within rounds, so a machine that drifts from run to
/// run does not look like a change. E-divisive finds the changes; the next runs confirm one if they stay on the new
/// level.
///
/// With --fail-on-change, fsarena checks each new change once: it makes both sides again, the variant before and after the
/// change, and compares them in fresh rounds. The exit code is 3 if they confirm a change, 4 if they are inconclusive or a side
/// cannot be made again, else 0.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Study or plan to follow [default: that of the newest run]
    study: Option<String>,
    /// Variant to follow [default: the first of the newest run]
    #[arg(long, value_name = "VARIANT")]
    variant: Option<String>,
    /// Metric to follow
    #[arg(long, value_name = "METRIC", default_value = "elapsed", value_parser = parse_metric)]
    metric: String,
    /// Variant to compare with, or `none` to follow plain values [default: the most frequent other variant]
    #[arg(long, value_name = "VARIANT")]
    reference: Option<String>,
    /// Check each new change once, in fresh rounds of both sides, and exit with 3 if they confirm it
    #[arg(long)]
    fail_on_change: bool,
    /// Time for the fresh rounds of a change [default: that of the newest run, or 10m]
    #[arg(long, value_name = "TIME", value_parser = parse_duration, requires = "fail_on_change")]
    budget: Option<Duration>,
    /// Print no progress
    #[arg(long, short, requires = "fail_on_change")]
    quiet: bool,
    /// Format on standard output
    #[arg(long, default_value = "term", value_parser = fsarena_report::page::FORMATS)]
    format: String,
    #[command(flatten)]
    runs: RunsDir,
}

/// Reads the runs of the study and prints the history of the metric.
pub fn run(args: Args) -> CommandResult {
    let (damaged, mut summaries): (Vec<_>, Vec<_>) =
        fsarena_store::list_runs(&args.runs.dir)?.into_iter().partition(|run| run.is_damaged);
    // A run that cannot be read may be of this study, so the user must know that it is missing.
    damaged.iter().for_each(|run| print_left_out(&run.id, &run.status.why));
    // The default is not the confirmation of a change.
    let is_default = |study: &&String| !study.is_empty() && !study.ends_with(PLAN_SUFFIX);
    let study = args.study.or_else(|| summaries.iter().map(|run| &run.study).find(is_default).cloned());
    let Some(study) = study else { return no_runs_failure(&args.runs) };
    find_by_id("study", &study, summaries.iter().map(|run| run.study.as_str()), |name| name)?;
    summaries.retain(|run| run.study == study);
    summaries.truncate(MAX_RUNS);
    let variants = || summaries.iter().flat_map(|run| run.variants.iter().map(String::as_str));
    if let Some(name) = &args.variant {
        find_by_id("variant", name, variants(), |name| name)?;
    }
    if let Some(name) = &args.reference {
        find_by_id("variant", name, variants().chain(["none"]), |name| name)?;
    }
    let variant = args.variant.or_else(|| summaries.first()?.variants.first().cloned());
    let Some(variant) = variant else { return no_runs_failure(&args.runs) };
    let default_reference = || choose_reference(&variant, summaries.iter().map(|run| run.variants.as_slice()));
    let reference = args.reference.or_else(default_reference).filter(|name| name != "none");
    let query = HistoryQuery { study, metric: args.metric, variant, reference };
    let mut points = vec![];
    for run in &summaries {
        match RunDir::open(&run.path).and_then(|run| fsarena_store::read(&run)) {
            Ok(record) => points.extend(history_point(&record, &query)?),
            Err(error) => print_left_out(&run.id, &error),
        }
    }
    let mut page = history_page(&query, points.clone());
    let mut exit_code = ExitCode::Done;
    if args.fail_on_change {
        let confirmer = ChangeConfirmer { runs_dir: &args.runs.dir, budget: args.budget, quiet: args.quiet };
        exit_code = confirmer.check_changes(&find_changes_of_history(points), &query, &mut page)?;
    }
    output::print_page(&page, &args.format)?;
    Ok(exit_code)
}

/// Prints to standard error why the history leaves a run out.
fn print_left_out(id: &str, why: &impl Display) {
    crate::failure::print_message(&format!("fsarena: run {id} is left out: {}", escape::message(&why.to_string())));
}

/// The failure that the directory has no run of a study.
fn no_runs_failure<T>(runs_dir: &RunsDir) -> Result<T, Failure> {
    usage_error(format!("{} has no run of a study. To make one: fsarena run STUDY", runs_dir.dir.display()))
}
