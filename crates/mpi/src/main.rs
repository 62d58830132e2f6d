//! `fsarena-mpi`: arguments and wiring.

mod answer;
mod args;

use answer::boxed;
use args::{Args, Command, Run};
use clap::{CommandFactory, FromArgMatches};
use fsarena_core::exit::{ExitCode, Exits};
use fsarena_core::plan::error::PlanError;
use fsarena_mpi::{follow::follow, guard, measure, ranks::Ranks, rsmpi::Mpi, wire::Wire};
use fsarena_run::{config::Config, execute_by};
use fsarena_sys::cancel;
use std::rc::Rc;

fn main() {
    fsarena_run::take_over();
    guard::take_over();
    // What fails before this has no other rank to tell.
    let signals = cancel::install().map_err(|error| format!("signals cannot be handled: {error}"));
    let joined = signals.and_then(|()| Mpi::join().ok_or_else(|| "MPI was initialised before".into()));
    let mpi = Rc::new(joined.unwrap_or_else(|why| {
        eprintln!("fsarena-mpi: cannot join the job: {why}");
        std::process::exit(i32::from(ExitCode::Internal.code()));
    }));
    if mpi.rank() == 0 { first(mpi) } else { other(&mpi) }
}

/// Rank 0: has the arguments, and answers.
fn first(mpi: Rc<Mpi>) {
    let code = match parsed() {
        Ok(Ok(args)) => done(match args.command {
            Command::Run(run) => lead(&run, Rc::clone(&mpi)),
            Command::Measure => {
                measure::report(&*mpi).iter().for_each(|line| println!("{line}"));
                Ok(ExitCode::Done)
            }
        }),
        Ok(Err(error)) => {
            drop(error.print());
            error.exit_code() as u8
        }
        Err(error) => done(Err(boxed(error))),
    };
    if !Ranks::leave(&*mpi, code != 0) && cancel::requested().is_none() {
        mpi.abort(code);
    }
    if let Some(signal) = cancel::requested() {
        cancel::die_by(signal);
    }
    drop(mpi);
    std::process::exit(i32::from(code));
}

/// The command line, with the values of the config file as defaults.
fn parsed() -> Result<clap::error::Result<Args>, PlanError> {
    let config = Config::load()?.checked(&Args::command())?;
    let matches = config.defaults(Args::command()).try_get_matches();
    Ok(matches.and_then(|matches| Args::from_arg_matches(&matches)))
}

fn done(result: Result<ExitCode, Box<dyn Exits>>) -> u8 {
    let code = result.unwrap_or_else(|error| {
        eprintln!("fsarena-mpi: {error}");
        error.exit_code()
    });
    code.code()
}

fn lead(run: &Run, mpi: Rc<Mpi>) -> Result<ExitCode, Box<dyn Exits>> {
    let wire: Rc<dyn Wire> = mpi;
    let ranks = Ranks::meet(wire, run.timeout).map_err(boxed)?;
    let request = run.request(&ranks).map_err(boxed)?;
    let mut progress = answer::Progress::default();
    let ended = execute_by(Box::new(ranks), request, &mut [&mut progress]);
    let kept = match &ended {
        Ok(outcome) => outcome.run.clone(),
        Err(error) => error.run.clone(),
    };
    let answered = kept.map(|run| answer::print(&run));
    if ended.as_ref().is_ok_and(|outcome| outcome.interrupted) {
        eprintln!("what was measured is kept; resume with: fsarena-mpi run --resume latest");
    }
    ended.map_err(boxed)?;
    answered.unwrap_or(Ok(ExitCode::Done))
}

/// Any other rank.
fn other(mpi: &Mpi) {
    let _deferred = cancel::defer_signals();
    let followed = follow(mpi);
    if let Err(fatal) = &followed {
        eprintln!("fsarena-mpi: rank {}: {fatal}", mpi.rank());
        mpi.abort(fatal.exit_code().code());
    }
    if let Some(signal) = cancel::requested() {
        cancel::die_by(signal);
    }
}
