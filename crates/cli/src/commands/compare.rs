//! `fsarena compare`: a run beside another, beside published figures, or files of samples of any tool.

use crate::commands::{report, show};
use crate::failure::{Failure, Outcome};
use crate::flags::{Runs, parse_percent};
use fsarena_core::exit::ExitCode;
use fsarena_core::record::RunRecord;
use fsarena_report::compare::{
    Compared, compare_all, compare_published, compare_samples, compare_services, is_watch,
};
use fsarena_report::import;
use fsarena_report::page::FORMATS;
use fsarena_store::RunDir;
use std::path::Path;

/// Compare a run with another, with published figures, or the samples of any two files
///
/// Two runs are not blocked together: the machine may have changed between them, and the comparison says so.
/// Against published figures it says who won then, who wins here, and where the order changed. Two files are
/// read in whatever format they have: CSV, hyperfine JSON, Go benchmark text, fio JSON, sysbench or dbench
/// output. They are paired by round where both have rounds. Of more than two runs each is compared with the first, all
/// in one table; one that has nothing in common with it is left out, and named. Of watches (`fsarena watch`), however
/// many, it says what a request costs on each: all that was spent over all that was served, whether there is a fixed
/// overhead, and pair by pair how the costs compare.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A run (its id, the beginning of it, its directory, `latest`), or a file of samples
    #[arg(value_name = "A")]
    run: String,
    /// Another run, `published:NAME` (`fsarena list studies`), or another file of samples; none where A is the
    /// published samples of services: `published:wilton`
    #[arg(value_name = "B")]
    with: Option<String>,
    /// Further runs
    #[arg(value_name = "C")]
    more: Vec<String>,
    /// The metric to compare [default: elapsed; of files that have none, every metric that both have]
    #[arg(long)]
    metric: Option<String>,
    /// Of files: the difference that matters, for "equivalent"
    #[arg(long, value_name = "PERCENT", default_value = "1%", value_parser = parse_percent)]
    margin: f64,
    /// Of files: their format, where it is not recognised
    #[arg(long, value_name = "FORMAT", value_parser = formats())]
    from: Option<String>,
    /// The format on standard output: term, md, html, json; html is one page with a picture, which needs no network
    #[arg(long, default_value = "term", value_parser = FORMATS)]
    format: String,
    #[command(flatten)]
    runs: Runs,
}

impl Args {
    /// The metric by which runs are compared.
    fn metric(&self) -> &str {
        self.metric.as_deref().unwrap_or("elapsed")
    }
}

fn formats() -> clap::builder::PossibleValuesParser {
    let value = |importer: &&dyn import::Importer| {
        clap::builder::PossibleValue::new(importer.id()).help(importer.help())
    };
    import::IMPORTERS.iter().map(value).collect::<Vec<_>>().into()
}

/// Compares.
pub fn run(args: Args) -> Outcome {
    let compared = match &args.with {
        None => alone(&args.run)?,
        Some(with) => match several(&args, with)? {
            Some(records) => compare_all(&records, args.metric())?,
            None => two(&args, with)?,
        },
    };
    report::print_page(&compared.page(), &args.format)?;
    Ok(ExitCode::Done)
}

/// Published samples are compared among themselves.
fn alone(name: &str) -> Result<Compared, Failure> {
    match name.strip_prefix("published:") {
        Some(name) => Ok(compare_services(&show::published(name)?)?),
        None => Err(Failure::new(
            ExitCode::Usage,
            format!("{name} is compared with what? Name another run or file"),
        )),
    }
}

fn two(args: &Args, with: &str) -> Result<Compared, Failure> {
    match (is_file(&args.run), is_file(with)) {
        (true, true) => of_files(args, with),
        (false, false) => of_runs(args, with),
        (true, false) => Err(mixed(&args.run, with)),
        (false, true) => Err(mixed(with, &args.run)),
    }
}

/// The runs, where the first of them is a watch or there are more than two.
fn several(args: &Args, with: &str) -> Result<Option<Vec<RunRecord>>, Failure> {
    let others = || std::iter::once(with).chain(args.more.iter().map(String::as_str));
    let no_run = |name: &str| is_file(name) || name.starts_with("published:");
    if args.more.is_empty() && (no_run(&args.run) || no_run(with)) {
        return Ok(None);
    }
    let read = |name: &str| Ok(fsarena_store::read(&RunDir::find(&args.runs.runs, name)?)?);
    let first: RunRecord = read(&args.run)?;
    if args.more.is_empty() && !is_watch(&first) {
        return Ok(None);
    }
    let others = others().map(read).collect::<Result<Vec<_>, Failure>>()?;
    Ok(Some(std::iter::once(first).chain(others).collect()))
}

/// Runs are directories, so a regular file holds samples.
fn is_file(name: &str) -> bool {
    Path::new(name).is_file()
}

fn of_files(args: &Args, with: &str) -> Result<Compared, Failure> {
    let read = |name: &str| import::read(Path::new(name), args.from.as_deref());
    let (a, b) = (read(&args.run)?, read(with)?);
    Ok(compare_samples(&a, &b, args.metric.as_deref(), args.margin)?)
}

fn of_runs(args: &Args, with: &str) -> Result<Compared, Failure> {
    let record = fsarena_store::read(&RunDir::find(&args.runs.runs, &args.run)?)?;
    let metric = args.metric();
    if let Some(name) = with.strip_prefix("published:") {
        return Ok(compare_published(&record, &show::published(name)?, metric)?);
    }
    let other = fsarena_store::read(&RunDir::find(&args.runs.runs, with)?)?;
    Ok(compare_all(&[record, other], metric)?)
}

fn mixed(file: &str, other: &str) -> Failure {
    let message = format!(
        "{file} is a file of samples and {other} is none; to compare a run with a file, export it first: \
         fsarena report {other} --export csv=FILE"
    );
    Failure::new(ExitCode::Usage, message)
}
