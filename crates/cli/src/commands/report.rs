//! `fsarena report`: reports a stored run in any format, without running anything.

use crate::failure::{Failure, Outcome, printing};
use crate::flags::{Runs, View, metric};
use crate::{commands::selftest, output};
use fsarena_core::{claim::Claim, record::RunRecord};
use fsarena_report::report::{Report, ReportOptions};
use fsarena_report::{commands::Commands, exporter::Exporter, exporters};
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

/// Prints the report and writes the exports.
pub fn run(args: Args) -> Outcome {
    let run = RunDir::find(&args.runs.runs, &args.run)?;
    let mut report = for_terminal(fsarena_store::read(&run)?, args.metric, args.claim, args.view)?;
    let mut formats = args.export.iter().map(|(exporter, _)| *exporter).chain([args.format]);
    if formats.any(|exporter| exporter.shows_commands) {
        report.commands = commands(&run)?;
    }
    for (exporter, path) in &args.export {
        write_report(&report, exporter, path)?;
    }
    // The printed report links to the charts that this command has just written, if any.
    report.charts = args.export.iter().rev().find_map(|(exporter, path)| (exporter.charts_link)(path));
    let mut out = BufWriter::new(std::io::stdout().lock());
    args.format.export(&report, &mut out)?;
    out.flush().map_err(printing)?;
    note_omissions(args.format, &report);
    Ok(report.exit_code())
}

/// Reads the commands of a run, up to the limit of a page.
pub fn commands(run: &RunDir) -> Result<Commands, Failure> {
    let mut commands = Commands::default();
    fsarena_store::commands(run, &mut |line| commands.push(line))?;
    Ok(commands)
}

/// Reports a run at its end: writes the reports in its directory and the exports, and prints the answer in a format to standard
/// output. Returns the exit code of its claims.
pub fn answer(mut report: Report, exports: &[Export], format: &'static Exporter, run: &RunDir) -> Outcome {
    report.commands = commands(run)?;
    let main = write_kept(&report, run.path())?;
    let kept = exporters::EXPORTERS.iter().filter(|exporter| (exporter.kept_as)(&report).is_some());
    kept.for_each(|exporter| note_omissions(exporter, &report));
    for (exporter, path) in exports {
        write_report(&report, exporter, path)?;
    }
    let mut answer = Vec::new();
    format.export(&report, &mut answer)?;
    if let Some(path) = main.filter(|_| format.id == exporters::DEFAULT) {
        writeln!(answer, "\nReport: {}", path.display()).map_err(printing)?;
    }
    output::text(answer)?;
    Ok(report.exit_code())
}

/// Writes the reports that the directory of every run has into a directory. Returns the path of the main one.
pub fn write_kept(report: &Report, dir: &Path) -> Result<Option<PathBuf>, Failure> {
    let mut main = None;
    for exporter in exporters::EXPORTERS {
        if let Some(name) = (exporter.kept_as)(report) {
            let path = dir.join(name);
            exporter.write(report, &path)?;
            main.get_or_insert(path);
        }
    }
    Ok(main)
}

/// Analyses a run with the options of the user, for standard output.
pub fn for_terminal(
    record: RunRecord,
    metrics: Vec<String>,
    claims: Vec<Claim>,
    view: View,
) -> Result<Report, Failure> {
    let View { margin, weight: weights, current, full } = view;
    let mut report = analyse_run(record, ReportOptions { metrics, weights, margin, current, claims })?;
    report.screen = output::screen();
    report.full = full;
    Ok(report)
}

/// Analyses a run. The default metrics are those of its workloads. Adds the result of the self-test of this machine.
pub fn analyse_run(record: RunRecord, mut options: ReportOptions) -> Result<Report, Failure> {
    if options.metrics.is_empty() {
        options.metrics = work::default_metrics(&record);
    }
    let resolution = selftest::stored_resolution(&record);
    let mut report = fsarena_report::report::analyse_run(record, options)?;
    report.resolution = resolution;
    Ok(report)
}

/// A format, and the file or directory that a report goes to.
pub type Export = (&'static Exporter, PathBuf);

/// Writes a report in a format to a file or a directory.
fn write_report(report: &Report, exporter: &Exporter, path: &Path) -> Result<(), Failure> {
    exporter.write(report, path)?;
    note_omissions(exporter, report);
    Ok(())
}

/// Prints to standard error what a format leaves out of a report.
fn note_omissions(exporter: &Exporter, report: &Report) {
    if let Some(lacks) = (exporter.lacks)(report) {
        // A closed standard error is not a failure.
        let _ = writeln!(std::io::stderr(), "note: {}: {lacks}", exporter.id);
    }
}

/// Parses `FORMAT=PATH`.
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
    fn an_export_is_a_known_format_and_a_path() {
        assert_eq!(parse_export("svg=out").map(|(exporter, _)| exporter.id), Ok("svg"));
        assert!(parse_export("jpg=out").is_err_and(|error| error.contains("svg")));
        assert!(parse_export("html").is_err_and(|error| error.contains("FORMAT=PATH")));
    }
}
