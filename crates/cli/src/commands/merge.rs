//! `fsarena merge`: merges the shards of many machines into one run.

use crate::commands::report::{self, Export, parse_export};
use crate::failure::{CommandResult, Failure, usage_error};
use crate::flags::{ReportFlags, RunsDir, parse_metric};
use crate::output;
use fsarena_core::exit::ExitCode;
use fsarena_report::{exporters, number::plural};
use fsarena_store::RunDir;
use std::path::Path;

/// Merge the runs of all shards (`fsarena run --shard I/N`) into one run and report it
///
/// The shards must have the same plan, seed, number of rounds and build of fsarena. To continue an
/// interrupted merge or to add shards, run the command again. fsarena reports the run once all rounds are merged.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Shards to merge: ids, directories, or directories that contain runs
    #[arg(value_name = "RUN", required = true)]
    shards: Vec<String>,
    /// Metrics to report; the first is the primary one [default: those of the workloads, see `fsarena list workloads`]
    #[arg(long, value_name = "METRIC,…", value_delimiter = ',', value_parser = parse_metric)]
    metric: Vec<String>,
    /// Write a report to a file, or its charts to a directory: `html=FILE`, `svg=DIR`; repeatable
    #[arg(long, value_name = "FORMAT=PATH", value_parser = parse_export)]
    export: Vec<Export>,
    #[command(flatten)]
    report: ReportFlags,
    #[command(flatten)]
    runs: RunsDir,
}

/// Merges the shards, and reports the run if no round is missing. The number of rounds is fixed, so the samples are judged
/// only once, at the end.
pub fn run(args: Args) -> CommandResult {
    let runs_dir = &args.runs.dir;
    let mut shards = vec![];
    for name in &args.shards {
        shards.extend(find_shards(runs_dir, name)?);
    }
    let merged = fsarena_store::merge(runs_dir, &shards)?;
    // `why` is the sentence on how many rounds the run has.
    let added = plural(merged.added_cells, "cell");
    let line = format!("{}: {}, {added} added\n", merged.run.path().display(), merged.why);
    output::print_text(line)?;
    if !merged.complete {
        return Ok(ExitCode::Done);
    }
    let record = fsarena_store::read(&merged.run)?;
    // A merge has no claims of the user.
    let report = report::analyse_for_terminal(record, args.metric, vec![], args.report)?;
    report::write_and_print_report(report, &args.export, exporters::find(exporters::DEFAULT_FORMAT)?, &merged.run)
}

/// The run of this name, or the shards in this directory.
fn find_shards(runs_dir: &Path, name: &str) -> Result<Vec<RunDir>, Failure> {
    let dir = Path::new(name);
    if !dir.is_dir() || RunDir::open(dir).is_ok() {
        return Ok(vec![RunDir::find(runs_dir, name)?]);
    }
    let mut shards = vec![];
    for run in RunDir::find_all(dir)? {
        if run.plan()?.stop.shard.is_some() {
            shards.push(run);
        }
    }
    if shards.is_empty() { usage_error(format!("{name}: contains no shards")) } else { Ok(shards) }
}
