//! `fsarena report`: any stored run, rendered again without running anything.

use crate::failure::{Failure, Outcome, printing};
use crate::flags::{Runs, View, metric};
use crate::terminal::stdout;
use crate::{commands::selftest, output};
use fsarena_core::{claim::Claim, record::RunRecord};
use fsarena_report::report::{Asked, Report};
use fsarena_report::{commands::Commands, exporters, exporters::Exporter};
use fsarena_run::work;
use fsarena_store::RunDir;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

/// Report a stored run in any format, without running anything
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Run to report: id, beginning of the id, directory, or `latest`
    #[arg(default_value = "latest")]
    run: String,
    /// Format on standard output (list them: `fsarena list exporters`)
    #[arg(long, value_name = "FORMAT", default_value = exporters::DEFAULT, value_parser = exporters::find)]
    format: &'static Exporter,
    /// Write a report to a file, or its charts to a directory: `html=FILE`, `svg=DIR`; repeatable
    #[arg(long, value_name = "FORMAT=PATH", value_parser = parse_export)]
    export: Vec<Export>,
    /// Metrics to report; the first is the primary one [default: those of the workloads, see `fsarena list workloads`]
    #[arg(long, value_name = "METRIC,…", value_delimiter = ',', value_parser = metric)]
    metric: Vec<String>,
    /// Claim to judge, such as `untar.elapsed: xfs < ext4 by 5%`; repeatable
    #[arg(long, value_name = "CLAIM")]
    claim: Vec<Claim>,
    #[command(flatten)]
    view: View,
    #[command(flatten)]
    runs: Runs,
}

/// Renders.
pub fn run(args: Args) -> Outcome {
    let run = RunDir::find(&args.runs.runs, &args.run)?;
    let mut report = for_terminal(fsarena_store::read(&run)?, args.metric, args.claim, args.view)?;
    let mut formats = args.export.iter().map(|(exporter, _)| *exporter).chain([args.format]);
    if formats.any(|exporter| exporter.shows_commands) {
        report.commands = commands(&run)?;
    }
    for (exporter, path) in &args.export {
        write(&report, exporter, path)?;
    }
    // The printed report links to the charts that this command has just written, if any.
    report.charts = args.export.iter().rev().find_map(|(exporter, path)| (exporter.charts_link)(path));
    let mut out = BufWriter::new(std::io::stdout().lock());
    args.format.export(&report, &mut out)?;
    out.flush().map_err(printing)?;
    say_what_lacks(args.format, &report);
    Ok(report.exit_code())
}

/// The commands of a run, as many as a page can carry.
fn commands(run: &RunDir) -> Result<Commands, Failure> {
    let mut commands = Commands::default();
    fsarena_store::commands(run, &mut |line| commands.push(line))?;
    Ok(commands)
}

/// At the end of a run: the reports in its directory, those that were asked for, and the answer on standard
/// output. The claims say how the program ends.
pub fn answer(mut report: Report, exports: &[Export], run: &RunDir) -> Outcome {
    report.commands = commands(run)?;
    let mut main = None;
    for exporter in exporters::EXPORTERS {
        if let Some(name) = (exporter.kept_as)(&report) {
            let path = run.path().join(name);
            write(&report, exporter, &path)?;
            main.get_or_insert(path);
        }
    }
    for (exporter, path) in exports {
        write(&report, exporter, path)?;
    }
    let mut answer = Vec::new();
    exporters::find(exporters::DEFAULT)?.export(&report, &mut answer)?;
    if let Some(path) = main {
        writeln!(answer, "\nReport: {}", path.display()).map_err(printing)?;
    }
    output::text(answer)?;
    Ok(report.exit_code())
}

/// The report of a run as the user requested it, for standard output.
pub fn for_terminal(
    record: RunRecord,
    metrics: Vec<String>,
    claims: Vec<Claim>,
    view: View,
) -> Result<Report, Failure> {
    let View { margin, weight: weights, current, full } = view;
    let mut report = of(record, Asked { metrics, weights, margin, current, claims })?;
    (report.screen, report.full) = (stdout::screen(), full);
    Ok(report)
}

/// The report of a run with what is requested of it: by default the metrics of its workloads, and no terminal.
pub fn of(record: RunRecord, mut asked: Asked) -> Result<Report, Failure> {
    if asked.metrics.is_empty() {
        asked.metrics = work::answering(&record);
    }
    let resolution = selftest::quoted(&record);
    let mut report = fsarena_report::report::of(record, asked)?;
    report.resolution = resolution;
    Ok(report)
}

/// A format and the file or folder that a report goes to.
pub type Export = (&'static Exporter, PathBuf);

/// Writes a report in a format to a file or a folder.
fn write(report: &Report, exporter: &Exporter, path: &Path) -> Result<(), Failure> {
    exporter.write(report, path)?;
    say_what_lacks(exporter, report);
    Ok(())
}

/// Says on standard error what a format leaves out.
fn say_what_lacks(exporter: &Exporter, report: &Report) {
    if let Some(lacks) = (exporter.lacks)(report) {
        // Nobody may be there to read it.
        let _ = writeln!(std::io::stderr(), "note: {}: {lacks}", exporter.id);
    }
}

/// `FORMAT=PATH`.
pub fn parse_export(text: &str) -> Result<Export, String> {
    let (format, path) = text
        .split_once('=')
        .filter(|(_, path)| !path.is_empty())
        .ok_or("write it FORMAT=PATH (list formats: fsarena list exporters)")?;
    Ok((exporters::find(format).map_err(|error| error.to_string())?, path.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn charts_are_formats_too() {
        assert_eq!(parse_export("svg=out").map(|(exporter, _)| exporter.id), Ok("svg"));
        assert!(parse_export("jpg=out").is_err_and(|error| error.contains("svg")));
        assert!(parse_export("html").is_err_and(|error| error.contains("FORMAT=PATH")));
    }
}
