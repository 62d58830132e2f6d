//! `fsarena analyse`: the anomalies of a block-size × threads matrix and the lock behind one; how a curve over
//! clients scales.

mod again;
mod confirm;
mod explain;
mod profile;

use crate::commands::{report, show};
use crate::failure::{Failure, Outcome};
use crate::flags::Runs;
use crate::running::handle_signals;
use bytesize::ByteSize;
use fsarena_core::exit::ExitCode;
use fsarena_core::record::RunRecord;
use fsarena_core::study;
use fsarena_report::findings;
use fsarena_report::findings::rows;
use fsarena_report::scaling::curves;
use fsarena_stats::matrix::cells::Matrix;
use fsarena_stats::matrix::{Analysis, analyse};
use fsarena_stats::scaling::series::Series;
use fsarena_store::RunDir;
use std::io::Write;

/// The seed of bootstrap intervals where there is no run that has one: the same file gives the same intervals.
const FILE_SEED: u64 = 1;

/// Find the anomalies of a block-size × threads matrix, or say how throughput scales with clients
///
/// A curve is throughput by number of clients: a run with the setting or factor `clients` has them, and any CSV
/// with a column of clients and one of throughput. It is said which law it follows (power law, Amdahl, universal
/// scalability law, hinge), where it saturates and peaks, and what is left at the end: docs/guide/scaling.md.
///
/// A matrix is what a run of `engel` measures, or its published figures: operations a second by mode, block
/// size and threads. Cells that break a rule of storage are grouped by cause; what stands out in a run is
/// unconfirmed until fresh rounds show it again. The rules: docs/guide/analysis.md. Published figures that their
/// author worked out from others are worked out again, and those that do not follow are named.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A run (id, beginning of it, directory, `latest`), `published:NAME`, or a CSV file of curves
    #[arg(default_value = "latest", value_name = "RUN|published:NAME|FILE.csv")]
    what: String,
    /// Take the run as curves over its numbers of threads, not as a matrix
    #[arg(long, conflicts_with_all = ["confirm", "explain"])]
    scaling: bool,
    /// The metric of the curves [default: throughput where there is one, else iops]
    #[arg(long, value_name = "METRIC")]
    metric: Option<String>,
    /// The most that the device can move: `650MB/s` [default: what the study states, or the bare device
    /// where the run measured it]
    #[arg(long, value_name = "BYTES/s", value_parser = ceiling)]
    ceiling: Option<f64>,
    /// Print the figures too
    #[arg(long)]
    tables: bool,
    /// Run the flagged cells again on fresh rounds, as a run of its own, and say which findings they confirm
    #[arg(long, conflicts_with = "explain")]
    confirm: bool,
    /// Hold the findings against fresh rounds that --confirm has run and stored
    #[arg(long, value_name = "RUN", conflicts_with_all = ["confirm", "explain"])]
    fresh: Option<String>,
    /// Rounds of --confirm; under 8 nothing can be confirmed
    #[arg(long, value_name = "N", default_value_t = 8, requires = "confirm")]
    rounds: u32,
    /// Run a flagged cell again while the kernel's lock tracepoints are on, and print what it waits for: the
    /// worst cell of the largest finding, or a task (`rndwr[bs=512,threads=16]`). Needs root
    #[arg(long, value_name = "TASK", num_args = 0..=1, default_missing_value = "")]
    explain: Option<String>,
    /// Boot every variant of a run with --on exact once more, sample what its kernel does in a task, and print the functions
    /// where the instructions went and where the variants differ; flame graphs go to the run's directory. Without a task
    /// it is the one with most instructions
    #[arg(long, value_name = "TASK", num_args = 0..=1, default_missing_value = "", conflicts_with_all = ["explain", "confirm", "scaling"])]
    profile: Option<String>,
    /// The variant of --explain [default: that of the largest finding]
    #[arg(long, requires = "explain")]
    variant: Option<String>,
    /// The format on standard output: term, md, json
    #[arg(long, default_value = "term", value_parser = fsarena_report::page::FORMATS)]
    format: String,
    /// No progress on standard error
    #[arg(long, short)]
    quiet: bool,
    #[command(flatten)]
    runs: Runs,
}

impl Args {
    fn scene(&self) -> again::Scene<'_> {
        again::Scene { runs: &self.runs.runs, quiet: self.quiet }
    }
}

/// Analyses, and goes on to confirm or to explain where that is asked for.
pub fn run(args: Args) -> Outcome {
    if let Some(name) = args.what.strip_prefix("published:") {
        return published(&args, name);
    }
    if args.what.ends_with(".csv") {
        return scaling(
            &args,
            &args.what,
            fsarena_report::scaling::file::read(args.what.as_ref())?,
            FILE_SEED,
        );
    }
    let record = fsarena_store::read(&RunDir::find(&args.runs.runs, &args.what)?)?;
    let again = args.explain.is_some() || args.profile.is_some() || args.confirm;
    if args.scaling || (curves::by_clients(&record) && !again) {
        let run = curves::of_run(&record, args.metric.as_deref())?;
        if let Some(words) = run.left_out().filter(|_| !args.quiet) {
            let _ = writeln!(std::io::stderr(), "{words}");
        }
        let series = run.curves.into_iter().map(|curve| curve.series).collect();
        return scaling(&args, &format!("run {}", record.id), series, record.plan.seed);
    }
    if let Some(task) = &args.profile {
        handle_signals()?;
        report::print_page(&profile::profile(args.scene(), &args.what, &record, task)?, &args.format)?;
        return Ok(ExitCode::Done);
    }
    if let Some(task) = &args.explain {
        handle_signals()?;
        let choice = match task.as_str() {
            "" => worst(&args, &record)?,
            task => explain::Choice::named(&record, task, args.variant.as_deref())?,
        };
        report::print_page(&explain::explain(args.scene(), &record, &choice)?, &args.format)?;
        return Ok(ExitCode::Done);
    }
    let (matrix, mut analysis) = of_run(&args, &record)?;
    let mut source = format!("run {}", record.id);
    let fresh = match &args.fresh {
        Some(run) => Some(fsarena_store::read(&RunDir::find(&args.runs.runs, run)?)?),
        None if args.confirm && !analysis.findings.is_empty() => {
            handle_signals()?;
            Some(confirm::fresh(args.scene(), args.rounds, &record, &matrix, &analysis.findings)?)
        }
        None => None,
    };
    if let Some(fresh) = fresh {
        fsarena_stats::matrix::confirm::confirm(
            &mut analysis.findings,
            &matrix,
            &rows::matrix_of_run(&fresh)?,
        );
        source.push_str(&format!(", and its worst cells again in run {}", fresh.id));
    }
    report::print_page(&findings::page(&source, &matrix, &analysis, args.tables), &args.format)?;
    Ok(ExitCode::Done)
}

fn published(args: &Args, name: &str) -> Outcome {
    if args.confirm || args.fresh.is_some() || args.explain.is_some() {
        let message = format!(
            "published:{name} was measured on a machine of long ago, so no cell of it can be run again here; run \
             the study first (`fsarena list studies`), and analyse that run"
        );
        return Err(Failure::new(ExitCode::Usage, message));
    }
    let set = show::published(name)?;
    if !set.derived.is_empty() {
        report::print_page(&fsarena_report::published::consistency(&set), &args.format)?;
        return Ok(ExitCode::Done);
    }
    if let Some(curves) = curves::of_published(&set)? {
        return scaling(args, &format!("published:{name}"), curves, FILE_SEED);
    }
    let stated = study::find(&set.study).and_then(|study| study.device_bytes_per_s);
    let matrix = Matrix::new(&rows::of_published(&set)?)?;
    let analysis = analyse(&matrix, args.ceiling.or(stated));
    let page = findings::page(&format!("published:{name}"), &matrix, &analysis, args.tables);
    report::print_page(&page, &args.format)?;
    Ok(ExitCode::Done)
}

fn scaling(args: &Args, source: &str, curves: Vec<Series>, seed: u64) -> Outcome {
    let all: Vec<_> =
        curves.into_iter().map(|series| fsarena_stats::scaling::analyse(series, seed)).collect();
    let page = fsarena_report::scaling::page(source, &all, args.tables);
    report::print_page(&page, &args.format)?;
    Ok(ExitCode::Done)
}

fn of_run(args: &Args, record: &RunRecord) -> Result<(Matrix, Analysis), Failure> {
    let matrix = rows::matrix_of_run(record)?;
    let analysis = analyse(&matrix, args.ceiling);
    Ok((matrix, analysis))
}

/// The worst cell of the largest finding, of a variant where one is named.
fn worst(args: &Args, record: &RunRecord) -> Result<explain::Choice, Failure> {
    let (matrix, analysis) = of_run(args, record)?;
    let of_variant =
        |variant: usize| args.variant.as_ref().is_none_or(|name| *name == matrix.variants[variant].name);
    let Some(finding) = analysis.findings.iter().find(|finding| of_variant(finding.variant)) else {
        let message = "there is no anomaly to explain; name a task: --explain 'rndwr[bs=512,threads=16]'";
        return Err(Failure::new(ExitCode::Usage, message));
    };
    let at = finding.first().worst().at;
    let task = rows::task(&matrix.modes[at.mode].name, matrix.sizes[at.size], matrix.threads[at.threads]);
    explain::Choice::named(record, &task, Some(&matrix.variants[at.variant].name))
}

/// `650MB/s`: bytes a second.
fn ceiling(text: &str) -> Result<f64, String> {
    let size = text.strip_suffix("/s").unwrap_or(text).parse::<ByteSize>();
    match size.map(|size| size.as_u64()) {
        Ok(bytes) if bytes > 0 => Ok(bytes as f64),
        _ => Err("write it like 650MB/s or 3.2GB/s".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ceiling_is_bytes_a_second() {
        assert_eq!(
            ["650MB/s", "650MB", "1GiB/s"].map(|text| ceiling(text).unwrap()),
            [650e6, 650e6, 1073741824.0]
        );
        for wrong in ["", "0", "fast", "-1MB/s"] {
            assert!(ceiling(wrong).is_err(), "{wrong}");
        }
    }
}
