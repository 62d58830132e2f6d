//! `fsarena compare`: a run beside another, or beside published figures.

use crate::args::Runs;
use crate::commands::{report, show};
use crate::failure::Outcome;
use fsarena_core::exit::ExitCode;
use fsarena_report::compare::{compare_published, compare_runs};
use fsarena_store::RunDir;

/// Compare a run with another, or with published figures
///
/// Two runs are not blocked together: the machine may have changed between them, and the comparison says so.
/// Against published figures it says who won then, who wins here, and where the order changed.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A run: its id, the beginning of it, its directory, or `latest`
    run: String,
    /// Another run, or `published:NAME` (`fsarena list studies`)
    with: String,
    /// The metric to compare
    #[arg(long, default_value = "elapsed")]
    metric: String,
    /// The format on standard output: term, md, json
    #[arg(long, default_value = "term", value_parser = fsarena_report::page::FORMATS)]
    format: String,
    #[command(flatten)]
    runs: Runs,
}

/// Compares.
pub fn run(args: Args) -> Outcome {
    let record = fsarena_store::read(&RunDir::find(&args.runs.runs, &args.run)?)?;
    let page = match args.with.strip_prefix("published:") {
        Some(name) => compare_published(&record, &show::published(name)?, &args.metric)?,
        None => {
            let other = fsarena_store::read(&RunDir::find(&args.runs.runs, &args.with)?)?;
            compare_runs(&record, &other, &args.metric)?
        }
    };
    report::print_page(&page, &args.format)?;
    Ok(ExitCode::Done)
}
