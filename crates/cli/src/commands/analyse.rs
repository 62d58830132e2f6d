//! `fsarena analyse`: finds the anomalies of a block-size × threads matrix and the locks behind them; fits how a curve over
//! clients scales.

pub mod rerun;

use crate::failure::{CommandResult, Failure, usage_error};
use crate::flags::{RunsDir, parse_metric, parse_size};
use crate::terminal::progress::Progress;
use crate::{commands::handle_signals, flags::ExplicitFlags, output};
use fsarena_core::rerun::plan_of_cells;
use fsarena_core::{record::RunRecord, study};
use fsarena_report::published;
use fsarena_report::scaling::{curves, file, growth};
use fsarena_report::{findings, matrix};
use fsarena_run::{Destination, RunRequest, execute, work};
use fsarena_stats::matrix::cells::Matrix;
use fsarena_stats::matrix::find_anomalies;
use fsarena_stats::matrix::finding::{cells_to_rerun, confirm};
use fsarena_stats::scaling::Series;
use fsarena_store::RunDir;
use fsarena_sys::input;
use rerun::TracedTask;
use std::path::Path;

/// The flags that run cells again, or read a run in which cells ran again.
const RERUN_FLAGS: [&str; 4] = ["confirm", "fresh", "explain", "profile"];

/// The seed of bootstrap intervals for a file, which unlike a run has no seed. It is fixed, so that the same file gives the
/// same intervals.
const FILE_SEED: u64 = 1;

/// Find anomalies of a block-size × threads matrix, or fit how throughput scales with clients
///
/// A curve is throughput by number of clients: of a run with the setting or factor `clients`, or of a CSV file (`-` for standard
/// input) with a column of clients and one of throughput. fsarena fits a law to it (power law, Amdahl, universal scalability law,
/// hinge) and reports saturation, peak and end: docs/guide/scaling.md.
///
/// A matrix is operations per second by mode, block size and threads: of a run of `engel`, or its published figures.
/// fsarena groups cells that break a rule of storage by cause; the anomalies of a run are unconfirmed until fresh rounds
/// repeat them: docs/guide/analysis.md. fsarena recomputes published figures that their author derived from others.
#[derive(Debug, clap::Args)]
pub struct Args {
    // Must be the first field: clap removes each argument when it reads it into a field.
    #[command(flatten)]
    explicit_flags: ExplicitFlags,
    /// Run (id, beginning of the id, directory, `latest`), `published:NAME`, or CSV file of curves
    #[arg(id = "what", default_value = "latest", value_name = "RUN|published:NAME|FILE.csv")]
    input: String,
    /// Analyse the run as curves over its numbers of threads instead of a matrix
    #[arg(long, conflicts_with_all = ["confirm", "explain"])]
    scaling: bool,
    /// Analyse the cost of one unit over the values of this setting, such as `files` [default: the setting of the run's grid]
    #[arg(long, value_name = "NAME", conflicts_with_all = ["scaling", "confirm", "explain", "profile"])]
    over: Option<String>,
    /// Metric of the curves [default: throughput, or iops without it; over a grid the main metric of the run]
    #[arg(long, value_name = "METRIC", value_parser = parse_metric)]
    metric: Option<String>,
    /// Maximum throughput of the device, such as 650MB/s [default: of the study, or of the bare device in the run]
    #[arg(long, value_name = "BYTES/s", value_parser = parse_ceiling)]
    ceiling: Option<f64>,
    /// Also print the figures
    #[arg(long)]
    tables: bool,
    /// Repeat the flagged cells in a new run, and report which findings it confirms
    #[arg(long, conflicts_with = "explain")]
    confirm: bool,
    /// Confirm the findings with an earlier run of --confirm
    #[arg(long, value_name = "RUN", conflicts_with_all = ["confirm", "explain"])]
    fresh: Option<String>,
    /// Number of rounds of --confirm; confirmation needs 8
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..), requires = "confirm")]
    rounds: u32,
    /// Trace the kernel locks that a task waits for, as root [default task: the worst cell of the largest finding]
    #[arg(long, value_name = "TASK", num_args = 0..=1, default_missing_value = "")]
    explain: Option<String>,
    /// Profile the kernel functions of a task in a run with --on exact [default task: the one with most instructions]
    ///
    /// fsarena boots every variant once more, prints the functions with most instructions and those where the variants
    /// differ, and writes flame graphs to the run's directory.
    #[arg(long, value_name = "TASK", num_args = 0..=1, default_missing_value = "", conflicts_with_all = ["explain", "confirm", "scaling"])]
    profile: Option<String>,
    /// Variant to trace with --explain [default: that of the largest finding]
    #[arg(long, value_name = "VARIANT", requires = "explain")]
    variant: Option<String>,
    /// Format on standard output
    #[arg(long, default_value = "term", value_parser = fsarena_report::page::FORMATS)]
    format: String,
    /// Print no progress
    #[arg(long, short)]
    quiet: bool,
    #[command(flatten)]
    runs: RunsDir,
}

impl Args {
    /// Refuses flags that do not apply to the input; `why` is the rest of the sentence that begins with the input's name.
    fn refuse(&self, flags: &[&str], why: &str) -> Result<(), Failure> {
        self.explicit_flags.refuse(flags.iter().copied(), &format!("{} {why}", self.input))
    }

    /// Prints a note to standard error, if there is one, unless `--quiet` is set.
    fn print_note(&self, note: Option<String>) {
        if let Some(note) = note.filter(|_| !self.quiet) {
            crate::failure::print_message(&note);
        }
    }
}

/// Analyses a run, a file or published figures, as curves or as a matrix.
pub fn run(args: Args) -> CommandResult {
    if let Some(name) = args.input.strip_prefix("published:") {
        return analyse_published(&args, name);
    }
    // A run is a directory, so a file has curves.
    if args.input.ends_with(".csv") || Path::new(&args.input).is_file() || input::is_stream(&args.input) {
        return analyse_file(&args);
    }
    let run_dir = RunDir::find(&args.runs.dir, &args.input)?;
    let record = fsarena_store::read(&run_dir)?;
    let reruns_cells = args.explain.is_some() || args.profile.is_some() || args.confirm;
    let grid = growth::grid_setting(&record).filter(|_| !reruns_cells && !args.scaling);
    if let Some(setting) = args.over.as_deref().or(grid) {
        args.refuse(&["ceiling", "fresh"], "is analysed as curves")?;
        let metric = args.metric.clone().unwrap_or_else(|| work::main_metric_of_run(&record));
        let curves = growth::growth_of_run(&record, setting, &metric)?;
        args.print_note(curves.left_out_sentence());
        return output::print_page(&curves.page(&format!("run {}", record.id), args.tables), &args.format);
    }
    if args.scaling || (curves::has_client_counts(&record) && !reruns_cells) {
        args.refuse(&["ceiling", "fresh", "profile"], "is analysed as curves")?;
        let curves = curves::client_curves_of_run(&record, args.metric.as_deref())?;
        args.print_note(curves.left_out_sentence());
        let series = curves.curves.into_iter().map(|curve| curve.series).collect();
        return print_scaling(&args, &format!("run {}", record.id), series, record.plan.seed);
    }
    args.refuse(&["metric"], "is a matrix of operations per second; for its curves add --scaling")?;
    let runs_dir = &args.runs.dir;
    if let Some(task) = &args.profile {
        handle_signals()?;
        let mut progress = Progress::new(args.quiet);
        let page = rerun::profile_variants(runs_dir, &run_dir, &record, task, &mut progress)?;
        return output::print_page(&page, &args.format);
    }
    if let Some(task) = &args.explain {
        handle_signals()?;
        let traced = match task.as_str() {
            "" => worst_cell(&args, &record)?,
            task => TracedTask::find(&record, task, args.variant.as_deref())?,
        };
        let profile = traced.trace_locks(&record.plan, runs_dir, &mut Progress::new(args.quiet))?;
        return output::print_page(&rerun::locks_page(&record, &traced, &profile), &args.format);
    }
    analyse_matrix(&args, &record)
}

/// Analyses a CSV file or standard input as curves.
fn analyse_file(args: &Args) -> CommandResult {
    args.refuse(&["metric", "ceiling", "over"], "is a file of curves")?;
    args.refuse(&RERUN_FLAGS, "is a file, and nothing of it can be run again")?;
    let origin = if args.input == "-" { "standard input" } else { &args.input };
    let bytes = input::read_once(&args.input, file::MAX_BYTES).map_err(Failure::for_path(Path::new(origin)))?;
    let curves = file::read_curves(origin, &bytes)?;
    args.print_note(curves.left_out.map(|list| format!("Left out: {list}.")));
    print_scaling(args, origin, curves.series, FILE_SEED)
}

/// Prints the findings of the matrix of a run. With `--confirm`, first repeats the cells that decide about the findings in a
/// new run; with `--fresh`, reads such a run.
fn analyse_matrix(args: &Args, record: &RunRecord) -> CommandResult {
    let runs_dir = &args.runs.dir;
    let matrix = matrix::matrix_of_run(record)?;
    let mut analysis = find_anomalies(&matrix, args.ceiling);
    let mut source = format!("run {}", record.id);
    let fresh_run = match &args.fresh {
        Some(run) => Some(RunDir::find(runs_dir, run)?),
        None if args.confirm && !analysis.findings.is_empty() => {
            handle_signals()?;
            let cells = cells_to_rerun(&analysis.findings, &matrix);
            let plan = plan_of_cells(&record.plan, &cells, args.rounds);
            let mut progress = Progress::new(args.quiet);
            execute(RunRequest::new(plan, Destination::NewRun(runs_dir.clone())), &mut [&mut progress])?.run
        }
        None => None,
    };
    if let Some(run) = fresh_run {
        let fresh = fsarena_store::read(&run)?;
        confirm(&mut analysis.findings, &matrix, &matrix::matrix_of_rerun(&fresh, record)?);
        source.push_str(&format!(", and its worst cells again in run {}", fresh.id));
    }
    output::print_page(&findings::findings_page(&source, &matrix, &analysis, args.tables), &args.format)
}

/// Analyses a published set of figures: recomputes derived figures, else fits curves, else finds anomalies of a matrix.
fn analyse_published(args: &Args, name: &str) -> CommandResult {
    args.refuse(
        &RERUN_FLAGS,
        "was measured on a machine of long ago, so no cell of it can be run again here; run the study first (`fsarena \
         list studies`), and analyse that run",
    )?;
    args.refuse(&["over"], "has its own setting; leave out the flag")?;
    let set = published::find_published(name)?;
    if let Some(curves) = growth::growth_of_published(&set, args.metric.as_deref())? {
        return output::print_page(&curves.page(&args.input, args.tables), &args.format);
    }
    args.refuse(&["metric"], "has one metric")?;
    if !set.quotients.is_empty() {
        return output::print_page(&published::consistency_page(&set), &args.format);
    }
    if let Some(curves) = curves::client_curves_of_published(&set)? {
        return print_scaling(args, &args.input, curves, FILE_SEED);
    }
    args.refuse(&["scaling"], "has no curves")?;
    let stated_ceiling = study::find(&set.study).and_then(|study| study.device_bytes_per_s);
    let matrix = Matrix::new(&matrix::matrix_rows_of_published(&set)?)?;
    let analysis = find_anomalies(&matrix, args.ceiling.or(stated_ceiling));
    output::print_page(&findings::findings_page(&args.input, &matrix, &analysis, args.tables), &args.format)
}

/// Fits each curve and prints the result. `source` names the data; the bootstrap intervals use `seed`.
fn print_scaling(args: &Args, source: &str, curves: Vec<Series>, seed: u64) -> CommandResult {
    let fits: Vec<_> = curves.into_iter().map(|series| fsarena_stats::scaling::analyse_scaling(series, seed)).collect();
    let page = fsarena_report::scaling::scaling_page(source, &fits, args.tables);
    output::print_page(&page, &args.format)
}

/// The worst cell of the largest finding; with `--variant`, of the largest finding of that variant.
fn worst_cell(args: &Args, record: &RunRecord) -> Result<TracedTask, Failure> {
    let matrix = matrix::matrix_of_run(record)?;
    let analysis = find_anomalies(&matrix, args.ceiling);
    let is_chosen = |variant: usize| args.variant.as_ref().is_none_or(|name| *name == matrix.variants[variant].name);
    let Some(finding) = analysis.findings.iter().find(|finding| is_chosen(finding.variant)) else {
        return usage_error("found no anomaly to explain; name a task: --explain 'rndwr[bs=512,threads=16]'");
    };
    let cell = finding.main_part().worst_flag().cell;
    let mode = &matrix.modes[cell.mode].name;
    let task = matrix::matrix_task_id(mode, matrix.sizes[cell.size], matrix.threads[cell.threads]);
    TracedTask::find(record, &task, Some(&matrix.variants[cell.variant].name))
}

/// Parses a throughput in bytes per second: `650MB/s`.
fn parse_ceiling(text: &str) -> Result<f64, String> {
    let bytes = parse_size(text.strip_suffix("/s").unwrap_or(text));
    bytes.map(|bytes| bytes as f64).map_err(|_| "write it like 650MB/s or 3.2GB/s".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ceiling_is_in_bytes_per_second() {
        assert_eq!(
            ["650MB/s", "650MB", "1GiB/s"].map(|text| parse_ceiling(text).unwrap()),
            [650e6, 650e6, 1073741824.0]
        );
        for wrong in ["", "0", "fast", "-1MB/s"] {
            assert!(parse_ceiling(wrong).is_err(), "{wrong}");
        }
    }
}
