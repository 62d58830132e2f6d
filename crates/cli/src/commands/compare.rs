//! `fsarena compare`: a run beside another, beside published figures, or files of samples of any tool.

use crate::args::Runs;
use crate::commands::{report, show};
use crate::failure::{Failure, Outcome};
use fsarena_core::exit::ExitCode;
use fsarena_core::record::RunRecord;
use fsarena_report::compare::{compare_published, compare_runs, compare_samples, compare_watches, is_watch};
use fsarena_report::import;
use fsarena_report::page::Page;
use fsarena_store::RunDir;
use std::path::Path;

/// Compare a run with another, with published figures, or the samples of any two files
///
/// Two runs are not blocked together: the machine may have changed between them, and the comparison says so.
/// Against published figures it says who won then, who wins here, and where the order changed. Two files are
/// read in whatever format they have: CSV, hyperfine JSON, Go benchmark text, fio JSON, sysbench or dbench
/// output. They are paired by block where both have blocks. Of watches (`fsarena watch`), however many, it says
/// what a request costs on each: all that was spent over all that was served, whether there is a fixed overhead,
/// and pair by pair how the costs compare.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A run (its id, the beginning of it, its directory, `latest`), or a file of samples
    #[arg(value_name = "A")]
    run: String,
    /// Another run, `published:NAME` (`fsarena list studies`), or another file of samples
    #[arg(value_name = "B")]
    with: String,
    /// Further watches
    #[arg(value_name = "C")]
    more: Vec<String>,
    /// The metric to compare [default: elapsed; of files that have none, every metric that both have]
    #[arg(long)]
    metric: Option<String>,
    /// Of files: the difference that matters, for "equivalent"
    #[arg(long, value_name = "PERCENT", default_value = "1%", value_parser = report::parse_percent)]
    margin: f64,
    /// Of files: their format, where it is not recognised
    #[arg(long, value_name = "FORMAT", value_parser = formats())]
    from: Option<String>,
    /// The format on standard output: term, md, json
    #[arg(long, default_value = "term", value_parser = fsarena_report::page::FORMATS)]
    format: String,
    #[command(flatten)]
    runs: Runs,
}

fn formats() -> clap::builder::PossibleValuesParser {
    let value = |importer: &&dyn import::Importer| {
        clap::builder::PossibleValue::new(importer.id()).help(importer.help())
    };
    import::IMPORTERS.iter().map(value).collect::<Vec<_>>().into()
}

/// Compares.
pub fn run(args: Args) -> Outcome {
    if let Some(records) = watches(&args)? {
        report::print_page(&compare_watches(&records)?, &args.format)?;
        return Ok(ExitCode::Done);
    }
    let page = match (is_file(&args.run), is_file(&args.with)) {
        (true, true) => of_files(&args)?,
        (false, false) => of_runs(&args)?,
        (true, false) => return Err(mixed(&args.run, &args.with)),
        (false, true) => return Err(mixed(&args.with, &args.run)),
    };
    report::print_page(&page, &args.format)?;
    Ok(ExitCode::Done)
}

/// The runs, where the first of them is a watch or there are more than two.
fn watches(args: &Args) -> Result<Option<Vec<RunRecord>>, Failure> {
    let names: Vec<&String> = [&args.run, &args.with].into_iter().chain(&args.more).collect();
    if names.iter().any(|name| is_file(name) || name.starts_with("published:")) && args.more.is_empty() {
        return Ok(None);
    }
    let read = |name: &&String| Ok(fsarena_store::read(&RunDir::find(&args.runs.runs, name)?)?);
    let first: RunRecord = read(&names[0])?;
    if args.more.is_empty() && !is_watch(&first) {
        return Ok(None);
    }
    let others = names[1..].iter().map(read).collect::<Result<Vec<_>, Failure>>()?;
    Ok(Some(std::iter::once(first).chain(others).collect()))
}

/// Runs are directories, so a regular file holds samples.
fn is_file(name: &str) -> bool {
    Path::new(name).is_file()
}

fn of_files(args: &Args) -> Result<Page, Failure> {
    let read = |name: &str| import::read(Path::new(name), args.from.as_deref());
    let (a, b) = (read(&args.run)?, read(&args.with)?);
    Ok(compare_samples(&a, &b, args.metric.as_deref(), args.margin)?)
}

fn of_runs(args: &Args) -> Result<Page, Failure> {
    let record = fsarena_store::read(&RunDir::find(&args.runs.runs, &args.run)?)?;
    let metric = args.metric.as_deref().unwrap_or("elapsed");
    if let Some(name) = args.with.strip_prefix("published:") {
        return Ok(compare_published(&record, &show::published(name)?, metric)?);
    }
    let other = fsarena_store::read(&RunDir::find(&args.runs.runs, &args.with)?)?;
    Ok(compare_runs(&record, &other, metric)?)
}

fn mixed(file: &str, other: &str) -> Failure {
    let message = format!(
        "{file} is a file of samples and {other} is none; to compare a run with a file, export it first: \
         fsarena report {other} --export csv=FILE"
    );
    Failure::new(ExitCode::Usage, message)
}
