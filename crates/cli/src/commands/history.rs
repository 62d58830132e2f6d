//! `fsarena history`: a metric over the runs of a study, and where it changed.

use crate::commands::report;
use crate::failure::{Failure, Outcome};
use crate::flags::Runs;
use fsarena_core::exit::ExitCode;
use fsarena_report::history::{Asked, MOST, history, point, reference};
use fsarena_store::RunDir;

/// Follow a metric over the runs of a study: where it changed, and whether later runs confirm that
///
/// A variant is followed by its ratio to a reference variant within rounds, so that a machine that drifts from run to run is not
/// taken for a change. Changes are found by E-divisive; one is confirmed when the next runs stay on the new level.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The study or plan [default: that of the newest run]
    study: Option<String>,
    /// The variant to follow [default: the first of the newest run]
    #[arg(long, value_name = "VARIANT")]
    variant: Option<String>,
    /// The metric
    #[arg(long, default_value = "elapsed")]
    metric: String,
    /// The variant to compare it with, or `none` to follow its own values [default: the one that most runs have beside it]
    #[arg(long, value_name = "VARIANT")]
    reference: Option<String>,
    /// The format on standard output: term, md, json
    #[arg(long, default_value = "term", value_parser = fsarena_report::page::FORMATS)]
    format: String,
    #[command(flatten)]
    runs: Runs,
}

/// Follows.
pub fn run(args: Args) -> Outcome {
    let mut listed = fsarena_store::list(&args.runs.runs)?;
    let study =
        args.study.or_else(|| listed.iter().map(|run| run.study.clone()).find(|study| !study.is_empty()));
    let study = study.ok_or_else(|| nothing(&args.runs))?;
    listed.retain(|run| run.study == study);
    listed.truncate(MOST);
    let variant = args
        .variant
        .or_else(|| listed.first()?.variants.first().cloned())
        .ok_or_else(|| nothing(&args.runs))?;
    let chosen = || reference(&variant, listed.iter().map(|run| run.variants.as_slice()));
    let reference = args.reference.or_else(chosen).filter(|name| name != "none");
    let asked = Asked { study, metric: args.metric, variant, reference };
    let mut points = vec![];
    for run in &listed {
        points.extend(point(&fsarena_store::read(&RunDir::open(&run.path)?)?, &asked)?);
    }
    report::print_page(&history(&asked, points), &args.format)?;
    Ok(ExitCode::Done)
}

fn nothing(runs: &Runs) -> Failure {
    let message = format!("no run in {} has a history; `fsarena list runs` lists them", runs.runs.display());
    Failure::new(ExitCode::Usage, message)
}
