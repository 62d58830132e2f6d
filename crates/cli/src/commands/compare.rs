//! `fsarena compare`: compares runs with each other or with published figures, or files of samples of any tool.

use crate::failure::{CommandResult, Failure, usage_error};
use crate::flags::{RunsDir, parse_percent_as_fraction};
use crate::{flags::ExplicitFlags, output};
use fsarena_core::record::RunRecord;
use fsarena_report::compare::{
    compare_published, compare_published_samples, compare_published_sets, compare_runs_or_watches, compare_samples,
};
use fsarena_report::import::{self, Samples};
use fsarena_report::page::{ComparisonReport, FORMATS};
use fsarena_report::published;
use fsarena_store::RunDir;
use fsarena_sys::input;
use std::path::Path;

/// Compare runs, published figures, or the samples of two files
///
/// fsarena does not pair rounds of different runs, because the machine may have changed between them.
/// With published figures, fsarena shows the fastest variant in the publication and in the run, and each task where the
/// order differs. For two published sets (`published:piszcz-I published:piszcz-II`), it shows whether the order changed.
/// Files of samples are CSV, hyperfine JSON, Go benchmark text, fio JSON, or the output of sysbench, dbench, IOR or
/// mdtest; `-` is standard input. fsarena pairs their rounds if both files have rounds, and compares only samples with
/// equal conditions, such as the number of threads. With more than two runs, fsarena compares each with the first and
/// names those that have nothing in common with it. For watches (`fsarena watch`), it compares the cost of a request.
#[derive(Debug, clap::Args)]
pub struct Args {
    // Must be the first field: clap removes each argument when it reads it into a field.
    #[command(flatten)]
    explicit_flags: ExplicitFlags,
    /// Run (id, beginning of the id, directory, `latest`), `published:NAME`, or file of samples
    #[arg(value_name = "A")]
    first: String,
    /// Run, `published:NAME` (list them: `fsarena list studies`), or file of samples; not needed if A is
    /// `published:wilton`, whose samples are compared with each other
    #[arg(value_name = "B")]
    second: Option<String>,
    /// More runs
    #[arg(id = "more", value_name = "C")]
    others: Vec<String>,
    /// Metric to compare [default: elapsed; for files without it, every metric that both have]
    #[arg(long, value_name = "METRIC")]
    metric: Option<String>,
    /// Difference under which files of samples are equivalent [default: 1%]
    #[arg(long, value_name = "PERCENT", value_parser = parse_percent_as_fraction)]
    margin: Option<f64>,
    /// Format of the files, if fsarena does not recognize it
    #[arg(id = "from", long = "from", value_name = "FORMAT", value_parser = format_parser())]
    input_format: Option<String>,
    /// Format on standard output; html is one page with a chart
    #[arg(long, default_value = "term", value_parser = FORMATS)]
    format: String,
    #[command(flatten)]
    runs: RunsDir,
}

/// Returns the parser of the formats of files that `--from` accepts.
fn format_parser() -> clap::builder::PossibleValuesParser {
    let format = |importer: &&import::Importer| clap::builder::PossibleValue::new(importer.id).help(importer.help);
    import::IMPORTERS.iter().map(format).collect::<Vec<_>>().into()
}

/// Compares and prints the result.
pub fn run(args: Args) -> CommandResult {
    let has_file = is_file(&args.first) || args.second.as_deref().is_some_and(is_file);
    if !has_file && let Some(flag) = args.explicit_flags.first_explicit(["margin", "from"]) {
        return usage_error(format!("{flag} applies to files of samples only; {} is not a file", args.first));
    }
    if args.metric.is_some() && args.second.is_none() {
        return usage_error(format!(
            "--metric needs two things to compare; name a second run, set or file after {}",
            args.first
        ));
    }
    output::print_page(&compare(&args)?.page(), &args.format)
}

/// Compares what the arguments name: files, runs or published figures.
fn compare(args: &Args) -> Result<ComparisonReport, Failure> {
    let metric = args.metric.as_deref().unwrap_or("elapsed");
    let published_set = |name: &str| name.strip_prefix("published:").map(published::find_published).transpose();
    let read_run = |name: &String| {
        // The id of a run has no extension, so a name with one is a missing file.
        let path = Path::new(name);
        if path.extension().is_some() {
            path.metadata().map_err(Failure::for_path(path))?;
        }
        Ok(fsarena_store::read(&RunDir::find(&args.runs.dir, name)?)?)
    };
    let first = &args.first;
    let Some(second) = &args.second else {
        return match published_set(first)? {
            // Published samples are compared with each other.
            Some(set) => Ok(compare_published_samples(&set)?),
            None => usage_error(format!("compare needs a second run, `published:NAME` or file after {first}")),
        };
    };
    if args.others.is_empty() {
        match (is_file(first), is_file(second)) {
            (true, true) => return compare_files(args, second),
            (true, false) => return refuse_file_and_run(first, second),
            (false, true) => return refuse_file_and_run(second, first),
            (false, false) => {}
        }
        match (published_set(first)?, published_set(second)?) {
            (Some(a), Some(b)) => return Ok(compare_published_sets(&a, &b, metric)?),
            (Some(_), None) => return usage_error(format!("name the run first: fsarena compare {second} {first}")),
            (None, Some(set)) => return Ok(compare_published(&read_run(first)?, &set, metric)?),
            (None, None) => {}
        }
    }
    let names = [first, second].into_iter().chain(&args.others);
    Ok(compare_runs_or_watches(&names.map(read_run).collect::<Result<Vec<RunRecord>, Failure>>()?, metric)?)
}

/// Whether a name is a file of samples: standard input, or anything that exists and is not a directory (runs are directories).
fn is_file(name: &str) -> bool {
    input::is_stream(name) || Path::new(name).metadata().is_ok_and(|metadata| !metadata.is_dir())
}

/// Compares the file of the first argument with the file `second`.
fn compare_files(args: &Args, second: &str) -> Result<ComparisonReport, Failure> {
    let read_samples = |name: &str| -> Result<Samples, Failure> {
        let origin = if name == "-" { "standard input" } else { name };
        let bytes = input::read_once(name, import::MAX_BYTES).map_err(Failure::for_path(Path::new(origin)))?;
        Ok(import::parse(origin, &bytes, args.input_format.as_deref())?)
    };
    if args.first == second && input::is_stream(second) {
        return usage_error(format!("cannot compare {second} with itself: it can be read only once"));
    }
    let (a, b) = (read_samples(&args.first)?, read_samples(second)?);
    Ok(compare_samples(&a, &b, args.metric.as_deref(), args.margin.unwrap_or(0.01))?)
}

/// The failure to compare a file of samples with something that is not a file.
fn refuse_file_and_run(file: &str, other: &str) -> Result<ComparisonReport, Failure> {
    usage_error(format!(
        "cannot compare the file {file} with {other}, which is not a file. To compare a run with a file, export the \
         run first: fsarena report {other} --export csv=FILE"
    ))
}
