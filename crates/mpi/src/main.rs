//! The program `fsarena-mpi`, which mpirun starts once for each rank: parses the arguments, and runs the coordinator or a
//! worker.

mod args;

use crate::args::{Args, Command, RunArgs};
use clap::{CommandFactory, FromArgMatches};
use fsarena_core::event::{Event, NoteKind, Outcome};
use fsarena_core::exit::{ExitCode, HasExitCode};
use fsarena_core::{plan::error::PlanError, state::RunState};
use fsarena_mpi::{guard, measure, ranks::Ranks, rsmpi::Mpi, wire::Wire, worker};
use fsarena_report::exporters;
use fsarena_report::report::{self, ReportOptions};
use fsarena_run::{Consumer, RunError, RunSetup, config::Config, execute_by, work};
use fsarena_store::RunDir;
use fsarena_sys::cancel;
use std::{io::Write, rc::Rc};

fn main() {
    fsarena_run::format_settings_by(|name, value| {
        let flag = format!("--{}", name.replace('_', "-"));
        if value.is_empty() { flag } else { format!("{flag} {value}") }
    });
    fsarena_run::run_as_agent_if_requested();
    // The process that cleans up after a kill is this program, too. It is not a rank, so it must not join the job.
    guard::run_if_guard();
    let mpi = Rc::new(join_job().unwrap_or_else(|why| {
        // This rank is not part of the job yet, so it cannot inform others.
        print_message(&format!("fsarena-mpi: cannot join the job: {why}"));
        std::process::exit(i32::from(ExitCode::Internal.code()));
    }));
    if mpi.rank() == 0 { run_coordinator(mpi) } else { run_worker(&mpi) }
}

/// Installs the signal handlers and joins the MPI job.
fn join_job() -> Result<Mpi, String> {
    cancel::install_handlers().map_err(|error| format!("signals cannot be handled: {error}"))?;
    Mpi::join().ok_or_else(|| "MPI was initialised before".into())
}

/// Runs rank 0: parses the arguments, coordinates the run and prints the report. Exits the process.
fn run_coordinator(mpi: Rc<Mpi>) {
    let code = match parse_args() {
        Ok(Ok(args)) => finish_command(match args.command {
            Command::Run(args) => run_and_report(&args, Rc::clone(&mpi)),
            Command::Measure => {
                let (lines, result) = measure::measure_all(&*mpi);
                // A closed standard output does not end the job.
                lines.iter().for_each(|line| drop(writeln!(std::io::stdout(), "{line}")));
                result.map(|()| ExitCode::Done).map_err(Failure::from)
            }
        }),
        Ok(Err(error)) => {
            drop(error.print());
            error.exit_code() as u8
        }
        Err(error) => finish_command(Err(Failure::from_error(error))),
    };
    // If a rank does not leave in time, only an abort ends the job. After a signal no abort is necessary: the signal ends
    // this rank below, and mpirun then ends the job. After a failure the time limit for leaving is shorter.
    if !Ranks::leave(&*mpi, code != 0) && cancel::received_signal().is_none() {
        mpi.abort(code);
    }
    if let Some(signal) = cancel::received_signal() {
        cancel::die_by_signal(signal);
    }
    drop(mpi);
    std::process::exit(i32::from(code));
}

/// Parses the command line, with the values of the config file as defaults.
fn parse_args() -> Result<clap::error::Result<Args>, PlanError> {
    let config = Config::load()?.check_against(&Args::command())?;
    let matches = config.set_defaults(Args::command()).try_get_matches();
    Ok(matches.and_then(|matches| Args::from_arg_matches(&matches)))
}

/// The exit code of the command. Prints the failure, if the command failed.
fn finish_command(result: Result<ExitCode, Failure>) -> u8 {
    let code = result.unwrap_or_else(|error| {
        print_message(&format!("fsarena-mpi: {}", error.message));
        error.code
    });
    code.code()
}

/// Runs a plan on all ranks and prints the report, also after an interruption or a failure.
fn run_and_report(args: &RunArgs, mpi: Rc<Mpi>) -> Result<ExitCode, Failure> {
    let wire: Rc<dyn Wire> = mpi;
    let ranks = Ranks::connect(wire, args.timeout)?;
    let request = args.make_request(&ranks)?;
    let mut progress = Progress::default();
    let result = execute_by(Box::new(ranks), request, &mut [&mut progress]);
    let stored_run = match &result {
        Ok(outcome) => outcome.run.clone(),
        Err(_) => progress.run.clone(),
    };
    let report_result = stored_run.map(|run| write_reports(&run));
    if result.as_ref().is_ok_and(|outcome| outcome.interrupted) {
        print_message("what was measured is kept; resume with: fsarena-mpi run --resume latest");
    }
    if let (Err(_), Some(Err(failure))) = (&result, &report_result) {
        print_message(&format!("fsarena-mpi: {}", failure.message));
    }
    result?;
    report_result.unwrap_or(Ok(ExitCode::Done))
}

/// Runs any other rank until the coordinator ends the job.
fn run_worker(mpi: &Mpi) {
    // A signal must not end this rank before it has cleaned up. On rank 0, the run itself defers signals.
    let _deferred = cancel::defer_signals();
    let result = worker::run(mpi);
    if let Err(fatal) = &result {
        print_message(&format!("fsarena-mpi: rank {}: {fatal}", mpi.rank()));
        mpi.abort(fatal.cause().exit_code().code());
    }
    if let Some(signal) = cancel::received_signal() {
        cancel::die_by_signal(signal);
    }
}

/// Prints a message to stderr.
fn print_message(text: &str) {
    // A closed standard error does not end the job.
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// Prints a line to stderr for each round and each failure.
#[derive(Debug, Default)]
struct Progress {
    planned_rounds: u32,
    /// The run, once it has begun.
    run: Option<RunDir>,
}

impl Consumer for Progress {
    fn show_message(&mut self, line: &str) {
        print_message(line);
    }

    fn begin(&mut self, setup: &RunSetup) {
        let plan = setup.plan;
        self.planned_rounds = plan.stop.rounds;
        self.run = setup.run_dir.cloned();
        let location = setup.run_dir.map_or(String::new(), |run| format!("run {}; ", run.path().display()));
        let requirements = setup.requirements.describe(plan);
        print_message(&format!("{}\n{location}{} rounds; {requirements}", plan.title, self.planned_rounds));
    }

    fn receive(&mut self, event: &Event, _: &RunState) -> Result<(), RunError> {
        match event {
            Event::RoundFinished { round } => {
                print_message(&format!("round {}/{} done", round + 1, self.planned_rounds));
            }
            Event::CellFinished { outcome: Outcome::Failed { why, .. }, .. } => {
                print_message(&format!("  failed: {why}"));
            }
            Event::Note(note) if note.kind == NoteKind::VariantFailed => print_message(&format!("  {}", note.text)),
            _ => {}
        }
        Ok(())
    }
}

/// Writes the reports into the directory of a run and prints the default one. Returns the exit code of the
/// report, or that of an error if one of them cannot be written.
fn write_reports(run: &RunDir) -> Result<ExitCode, Failure> {
    let record = fsarena_store::read(run).map_err(RunError::from)?;
    if record.samples.is_empty() {
        return Ok(ExitCode::Done);
    }
    let options = ReportOptions { metrics: work::default_metrics(&record), ..ReportOptions::default() };
    let report = report::analyse_run(record, options).map_err(Failure::from_error)?;
    let mut results = vec![];
    for exporter in exporters::EXPORTERS {
        if let Some(name) = (exporter.file_in_run_dir)(&report) {
            results.push(exporter.write(&report, &run.path().join(name)));
        }
    }
    let exporter = exporters::find(exporters::DEFAULT_FORMAT).map_err(Failure::from_error)?;
    results.push(exporter.export(&report, &mut std::io::stdout().lock()));
    let mut code = report.exit_code();
    for error in results.into_iter().filter_map(Result::err) {
        print_message(&format!("fsarena-mpi: {error}"));
        code = error.exit_code();
    }
    Ok(code)
}

/// An error that ends the program.
#[derive(Debug)]
struct Failure {
    /// The message to print.
    message: String,
    /// The exit code of the program.
    code: ExitCode,
}

impl Failure {
    /// Returns the failure for an error of a library, with the exit code that the error names.
    fn from_error(error: impl HasExitCode) -> Failure {
        Failure { message: error.to_string(), code: error.exit_code() }
    }
}

impl From<RunError> for Failure {
    fn from(error: RunError) -> Failure {
        Failure { message: error.to_string(), code: error.cause().exit_code() }
    }
}
