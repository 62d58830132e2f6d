//! `fsarena compare`: a run beside another, beside published figures, or files of samples of any tool.

use crate::failure::{Failure, Outcome, usage};
use crate::{commands::show, flags::Runs, flags::parse_percent, given::Given, output};
use fsarena_core::record::RunRecord;
use fsarena_report::compare::{
    Compared, compare_all, compare_published, compare_samples, compare_services, compare_sets, is_watch,
};
use fsarena_report::{import, import::Samples, page::FORMATS};
use fsarena_store::RunDir;
use fsarena_sys::input;
use std::path::Path;

/// Compare runs, published figures, or the samples of two files
///
/// fsarena does not pair rounds of different runs, because the machine may have changed between them.
/// Against published figures, fsarena names the fastest variant then and here, and where the order changed; of two
/// published sets (`published:piszcz-I published:piszcz-II`), whether it changed from the first to the second. Files of
/// samples are CSV, hyperfine JSON, Go benchmark text, fio JSON, or the output of sysbench, dbench, IOR or mdtest;
/// fsarena pairs their rounds if both have rounds. Of more than two runs, fsarena compares each with the first and names those that
/// have nothing in common with it. Of watches (`fsarena watch`), it compares the cost of a request.
#[derive(Debug, clap::Args)]
pub struct Args {
    // First: reading a flag takes it away.
    #[command(flatten)]
    given: Given,
    /// Run (id, beginning of the id, directory, `latest`), `published:NAME`, or file of samples
    #[arg(value_name = "A")]
    run: String,
    /// Run, `published:NAME` (list them: `fsarena list studies`), or file of samples; omit it for A `published:wilton`
    #[arg(value_name = "B")]
    with: Option<String>,
    /// More runs
    #[arg(value_name = "C")]
    more: Vec<String>,
    /// Metric to compare [default: elapsed; for files without it, every metric that both have]
    #[arg(long, value_name = "METRIC")]
    metric: Option<String>,
    /// Difference under which files of samples are equivalent [default: 1%]
    #[arg(long, value_name = "PERCENT", value_parser = parse_percent)]
    margin: Option<f64>,
    /// Format of the files, if fsarena does not recognize it
    #[arg(long, value_name = "FORMAT", value_parser = formats())]
    from: Option<String>,
    /// Format on standard output; html is one page with a chart
    #[arg(long, default_value = "term", value_parser = FORMATS)]
    format: String,
    #[command(flatten)]
    runs: Runs,
}

impl Args {
    /// The metric for runs.
    fn metric(&self) -> &str {
        self.metric.as_deref().unwrap_or("elapsed")
    }

    /// Refuses flags for files of samples where the comparison has none.
    fn refuse_ignored(&self) -> Result<(), Failure> {
        let files = is_file(&self.run) || self.with.as_deref().is_some_and(is_file);
        if !files && let Some(flag) = self.given.first_of(&["margin", "from"]) {
            return usage(format!("{flag} applies to files of samples only; {} is not a file", self.run));
        }
        if self.metric.is_some() && self.with.is_none() {
            return usage(format!(
                "--metric applies to two sides; {} is compared with nothing else",
                self.run
            ));
        }
        Ok(())
    }
}

fn formats() -> clap::builder::PossibleValuesParser {
    let value =
        |importer: &&import::Importer| clap::builder::PossibleValue::new(importer.id).help(importer.help);
    import::IMPORTERS.iter().map(value).collect::<Vec<_>>().into()
}

/// Compares.
pub fn run(args: Args) -> Outcome {
    args.refuse_ignored()?;
    let compared = match &args.with {
        None => alone(&args.run)?,
        Some(with) => match several(&args, with)? {
            Some(records) => compare_all(&records, args.metric())?,
            None => two(&args, with)?,
        },
    };
    output::page(&compared.page(), &args.format)
}

/// Published samples are compared among themselves.
fn alone(name: &str) -> Result<Compared, Failure> {
    match name.strip_prefix("published:") {
        Some(name) => Ok(compare_services(&show::published(name)?)?),
        None => usage(format!("compare {name} with what? Name a second run, `published:NAME` or file")),
    }
}

fn two(args: &Args, with: &str) -> Result<Compared, Failure> {
    match (is_file(&args.run), is_file(with)) {
        (true, true) => of_files(args, with),
        (false, false) => of_runs(args, with),
        (true, false) => mixed(&args.run, with),
        (false, true) => mixed(with, &args.run),
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

/// Runs are directories, so anything else that exists is taken for samples.
fn is_file(name: &str) -> bool {
    Path::new(name).metadata().is_ok_and(|found| !found.is_dir())
}

fn of_files(args: &Args, with: &str) -> Result<Compared, Failure> {
    let read = |name: &str| -> Result<Samples, Failure> {
        let path = Path::new(name);
        let bytes = input::read(path, import::MAX_BYTES).map_err(Failure::file(path))?;
        Ok(import::parse(name, &bytes, args.from.as_deref())?)
    };
    let (a, b) = (read(&args.run)?, read(with)?);
    Ok(compare_samples(&a, &b, args.metric.as_deref(), args.margin.unwrap_or(0.01))?)
}

fn of_runs(args: &Args, with: &str) -> Result<Compared, Failure> {
    if let (Some(a), Some(b)) = (args.run.strip_prefix("published:"), with.strip_prefix("published:")) {
        return Ok(compare_sets(&show::published(a)?, &show::published(b)?, args.metric())?);
    }
    if let Some(name) = args.run.strip_prefix("published:") {
        show::published(name)?;
        return usage(format!("name the run first: fsarena compare {with} {}", args.run));
    }
    let record = fsarena_store::read(&RunDir::find(&args.runs.runs, &args.run)?)?;
    let metric = args.metric();
    if let Some(name) = with.strip_prefix("published:") {
        return Ok(compare_published(&record, &show::published(name)?, metric)?);
    }
    let other = fsarena_store::read(&RunDir::find(&args.runs.runs, with)?)?;
    Ok(compare_all(&[record, other], metric)?)
}

fn mixed(file: &str, other: &str) -> Result<Compared, Failure> {
    usage(format!(
        "cannot compare the file {file} with {other}, which is not a file. To compare a run with a file, export the \
         run first: fsarena report {other} --export csv=FILE"
    ))
}
