//! `fsarena report`: any stored run, rendered again without running anything.

mod files;

pub use files::{Export, parse_export};

use crate::failure::{Failure, Outcome, printing};
use crate::flags::{Runs, View, metric};
use crate::{commands::selftest, output, terminal};
use fsarena_core::{claim::Claim, record::RunRecord};
use fsarena_report::{
    commands::Commands, document::terminal::Screen, exporter::Exporter, exporters, report::Asked,
    report::Report,
};
use fsarena_run::{vocabulary, work};
use fsarena_store::RunDir;
use std::io::{BufWriter, Write};

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

/// Options of a report.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The metrics, claims and weights that the user requested.
    pub asked: Asked,
    /// What the reader's terminal can show.
    pub screen: Screen,
    /// Whether the terminal shows the whole report.
    pub full: bool,
}

impl Options {
    /// What standard output can show.
    pub fn for_stdout(metrics: Vec<String>, view: View) -> Options {
        let asked = Asked {
            metrics,
            weights: view.weight,
            margin: view.margin,
            current: view.current,
            claims: vec![],
        };
        Options { asked, screen: terminal::screen(), full: view.full }
    }
}

/// Renders.
pub fn run(args: Args) -> Outcome {
    let run = RunDir::find(&args.runs.runs, &args.run)?;
    let mut options = Options::for_stdout(args.metric, args.view);
    options.asked.claims = args.claim;
    let mut report = build(fsarena_store::read(&run)?, &options)?;
    let mut formats = args.export.iter().map(|(exporter, _)| *exporter).chain([args.format]);
    if formats.any(|exporter| exporter.shows_commands) {
        report.commands = commands(&run)?;
    }
    for (exporter, path) in &args.export {
        files::write(&report, exporter, path)?;
    }
    // The printed report links to the charts that this command has just written, if any.
    report.pictures = args.export.iter().rev().find_map(|(exporter, path)| (exporter.charts_link)(path));
    let mut out = BufWriter::new(std::io::stdout().lock());
    args.format.export(&report, &mut out)?;
    out.flush().map_err(printing)?;
    files::say_what_lacks(args.format, &report);
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
pub fn answer(record: RunRecord, options: &Options, exports: &[Export], run: &RunDir) -> Outcome {
    let mut report = build(record, options)?;
    report.commands = commands(run)?;
    let mut main = None;
    for exporter in exporters::EXPORTERS {
        if let Some(name) = (exporter.kept_as)(&report) {
            let path = run.path().join(name);
            files::write(&report, exporter, &path)?;
            main.get_or_insert(path);
        }
    }
    for (exporter, path) in exports {
        files::write(&report, exporter, path)?;
    }
    let mut answer = Vec::new();
    exporters::find(exporters::DEFAULT)?.export(&report, &mut answer)?;
    if let Some(path) = main {
        writeln!(answer, "\nReport: {}", path.display()).map_err(printing)?;
    }
    output::text(answer)?;
    Ok(report.exit_code())
}

/// The report of a run with default options: default metrics, no terminal.
pub fn plain(record: RunRecord) -> Result<Report, Failure> {
    build(record, &Options::default())
}

fn build(record: RunRecord, options: &Options) -> Result<Report, Failure> {
    let mut asked = options.asked.clone();
    if asked.metrics.is_empty() {
        asked.metrics = answering(&record);
    }
    let resolution = selftest::quoted(&record);
    let mut report = fsarena_report::report::of(record, asked)?;
    report.resolution = resolution;
    report.screen = options.screen;
    report.full = options.full;
    Ok(report)
}

/// The metrics that answer for the workloads of a run, those that it has values of, and what its commands printed.
fn answering(record: &RunRecord) -> Vec<String> {
    let has = |id: &&str| record.metric(id).is_some_and(|(_, rows)| rows.iter().any(|value| !value.is_nan()));
    let own: Vec<&str> = vocabulary::readings().map(|reading| reading.id).collect();
    let readings = record.readings.iter().map(|reading| reading.id.as_str());
    let asked = work::metrics(&record.plan);
    let printed = readings.filter(|id| record.plan.prints() && !own.contains(id) && !asked.contains(id));
    asked.iter().copied().filter(has).chain(printed).map(String::from).collect()
}
