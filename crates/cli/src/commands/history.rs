//! `fsarena history`: prints a metric over the runs of a study, and the runs at which it changed.

mod fail_on_change;

use crate::failure::{Failure, Outcome, usage};
use crate::flags::{RunsDir, parse_metric, parse_time};
use crate::output;
use fail_on_change::ChangeConfirmer;
use fsarena_core::{exit::ExitCode, names::unknown, safe};
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
    #[arg(long, value_name = "TIME", value_parser = parse_time, requires = "fail_on_change")]
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
pub fn run(args: Args) -> Outcome {
    let (damaged, mut listed): (Vec<_>, Vec<_>) =
        fsarena_store::list_runs(&args.runs.dir)?.into_iter().partition(|run| run.is_damaged);
    // A run that cannot be read may be of this study, so the user must know that it is missing.
    damaged.iter().for_each(|run| print_left_out(&run.id, &run.status.why));
    let study = args.study.or_else(|| listed.iter().map(|run| run.study.clone()).find(|study| can_be_followed(study)));
    let Some(study) = study else { return no_runs(&args.runs) };
    check_name("study", &study, listed.iter().map(|run| run.study.as_str()))?;
    listed.retain(|run| run.study == study);
    listed.truncate(MAX_RUNS);
    let variants = || listed.iter().flat_map(|run| run.variants.iter().map(String::as_str));
    if let Some(name) = &args.variant {
        check_name("variant", name, variants())?;
    }
    if let Some(name) = &args.reference {
        check_name("variant", name, variants().chain(["none"]))?;
    }
    let variant = args.variant.or_else(|| listed.first()?.variants.first().cloned());
    let Some(variant) = variant else { return no_runs(&args.runs) };
    let default_reference = || choose_reference(&variant, listed.iter().map(|run| run.variants.as_slice()));
    let reference = args.reference.or_else(default_reference).filter(|name| name != "none");
    let query = HistoryQuery { study, metric: args.metric, variant, reference };
    let mut points = vec![];
    for run in &listed {
        match RunDir::open(&run.path).and_then(|run| fsarena_store::read(&run)) {
            Ok(record) => points.extend(history_point(&record, &query)?),
            Err(error) => print_left_out(&run.id, &error),
        }
    }
    let mut page = history_page(&query, points.clone());
    let mut exit = ExitCode::Done;
    if args.fail_on_change {
        let confirmer = ChangeConfirmer { runs: &args.runs.dir, budget: args.budget, quiet: args.quiet };
        exit = confirmer.alarm(&find_changes_of_history(points), &query, &mut page)?;
    }
    output::print_page(&page, &args.format)?;
    Ok(exit)
}

/// Whether this study can be the default of a history: it is known, and is not the confirmation of a change.
fn can_be_followed(study: &str) -> bool {
    !study.is_empty() && !study.ends_with(PLAN_SUFFIX)
}

/// Checks that a name is one of the available names of a `what`, such as a variant.
///
/// # Errors
/// It is none of them. The message suggests a similar name.
fn check_name<'a>(what: &str, name: &str, available: impl Iterator<Item = &'a str> + Clone) -> Result<(), Failure> {
    if available.clone().any(|known| known == name) { Ok(()) } else { Err(unknown(what, name, available).into()) }
}

/// Prints to standard error why the history leaves a run out.
fn print_left_out(id: &str, why: &impl Display) {
    eprintln!("fsarena: run {id} is left out: {}", safe::message(&why.to_string()));
}

/// The failure that the directory has no run of a study.
fn no_runs<T>(runs: &RunsDir) -> Result<T, Failure> {
    usage(format!("{} has no run of a study. To make one: fsarena run STUDY", runs.dir.display()))
}
