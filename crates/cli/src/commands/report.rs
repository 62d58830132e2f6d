//! `fsarena report`: reports a stored run in any format, without running anything.

use crate::failure::{CommandResult, Failure, printing_failure};
use crate::flags::{ReportFlags, RunsDir, parse_metric};
use crate::{commands::selftest, output};
use fsarena_core::{claim::Claim, record::RunRecord};
use fsarena_report::report::{Report, ReportOptions};
use fsarena_report::{commands::Commands as LoggedCommands, exporter::Exporter, exporters};
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
    #[arg(long, value_name = "FORMAT", default_value = exporters::DEFAULT_FORMAT, value_parser = exporters::find)]
    format: &'static Exporter,
    /// Write a report to a file, or its charts to a directory: `html=FILE`, `svg=DIR`; repeatable
    #[arg(long, value_name = "FORMAT=PATH", value_parser = parse_export)]
    export: Vec<Export>,
    /// Metrics to report; the first is the primary one [default: those of the workloads, see `fsarena list workloads`]
    #[arg(long, value_name = "METRIC,…", value_delimiter = ',', value_parser = parse_metric)]
    metric: Vec<String>,
    /// Claim to judge, such as `untar.elapsed: xfs < ext4 by 5%`; repeatable
    #[arg(long, value_name = "CLAIM")]
    claim: Vec<Claim>,
    #[command(flatten)]
    flags: ReportFlags,
    #[command(flatten)]
    runs: RunsDir,
}

/// Prints the report and writes the exports.
pub fn run(args: Args) -> CommandResult {
    let run = RunDir::find(&args.runs.dir, &args.run)?;
    let mut report = analyse_for_terminal(fsarena_store::read(&run)?, args.metric, args.claim, args.flags)?;
    let mut formats = args.export.iter().map(|(exporter, _)| *exporter).chain([args.format]);
    if formats.any(|exporter| exporter.shows_commands) {
        report.commands = read_commands(&run)?;
    }
    for (exporter, path) in &args.export {
        write_report(&report, exporter, path)?;
    }
    // The printed report links to the charts that this command has just written, if any.
    report.charts_folder = args.export.iter().rev().find_map(|(exporter, path)| (exporter.charts_folder_link)(path));
    let mut out = BufWriter::new(std::io::stdout().lock());
    args.format.export(&report, &mut out)?;
    out.flush().map_err(printing_failure)?;
    note_omissions(args.format, &report);
    Ok(report.exit_code())
}

/// Reads the log of the commands that a run executed, up to the limit of bytes for one HTML report (see [`LoggedCommands::push`]).
pub fn read_commands(run: &RunDir) -> Result<LoggedCommands, Failure> {
    let mut commands = LoggedCommands::default();
    fsarena_store::for_each_command(run, &mut |line| commands.push(line))?;
    Ok(commands)
}

/// Reports a run at its end: writes the reports in its directory and the exports, and prints the report in `format` to standard
/// output. The printed report has no links to exported charts. Returns the exit code of the run's claims.
pub fn write_and_print_report(
    mut report: Report,
    exports: &[Export],
    format: &'static Exporter,
    run: &RunDir,
) -> CommandResult {
    report.commands = read_commands(run)?;
    let main_report = write_run_dir_reports(&report, run.path())?;
    let is_stored = |exporter: &Exporter| (exporter.file_in_run_dir)(&report).is_some();
    for exporter in exporters::EXPORTERS.iter().filter(|exporter| is_stored(exporter)) {
        note_omissions(exporter, &report);
    }
    for (exporter, path) in exports {
        exporter.write(&report, path)?;
        if !is_stored(exporter) {
            note_omissions(exporter, &report);
        }
    }
    let mut printed = Vec::new();
    format.export(&report, &mut printed)?;
    if let Some(path) = main_report.filter(|_| format.id == exporters::DEFAULT_FORMAT) {
        writeln!(printed, "\nReport: {}", path.display()).map_err(printing_failure)?;
    }
    output::print_text(printed)?;
    Ok(report.exit_code())
}

/// Writes into `dir` the reports that every run directory contains. Returns the path of the main one: the first in the order of
/// [`exporters::EXPORTERS`].
pub fn write_run_dir_reports(report: &Report, dir: &Path) -> Result<Option<PathBuf>, Failure> {
    let mut main_report = None;
    for exporter in exporters::EXPORTERS {
        if let Some(name) = (exporter.file_in_run_dir)(report) {
            let path = dir.join(name);
            exporter.write(report, &path)?;
            main_report.get_or_insert(path);
        }
    }
    Ok(main_report)
}

/// Analyses a run with the options of the user, for standard output.
pub fn analyse_for_terminal(
    record: RunRecord,
    metrics: Vec<String>,
    claims: Vec<Claim>,
    flags: ReportFlags,
) -> Result<Report, Failure> {
    let ReportFlags { margin, weight: weights, current, full } = flags;
    let mut report = analyse_run(record, ReportOptions { metrics, weights, margin, current, claims })?;
    report.screen = output::screen();
    report.is_full = full;
    Ok(report)
}

/// Analyses a run, by default with the metrics of its workloads. Adds the result of the self-test of this machine.
pub fn analyse_run(record: RunRecord, mut options: ReportOptions) -> Result<Report, Failure> {
    if options.metrics.is_empty() {
        options.metrics = work::default_metrics(&record);
    }
    let resolution = selftest::stored_resolution(&record);
    let mut report = fsarena_report::report::analyse_run(record, options)?;
    report.resolution_sentence = resolution;
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
    if let Some(omissions) = (exporter.describe_omissions)(report) {
        crate::failure::print_message(&format!("note: {}: {omissions}", exporter.id));
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
