//! One file a command.

pub mod ab;
pub mod agent;
pub mod analyse;
pub mod compare;
pub mod doctor;
pub mod history;
pub mod list;
pub mod load;
pub mod recover;
pub mod report;
pub mod run;
pub mod selftest;
pub mod serve;
pub mod show;
pub mod watch;

use crate::args::{Cli, Command, EXIT_CODES};
use crate::failure::{Outcome, printing};
use fsarena_core::exit::ExitCode;
use std::io::Write;

/// Does what was asked.
pub fn dispatch(cli: Cli) -> Outcome {
    match cli.command {
        Command::Run(args) => run::run(*args),
        Command::Ab(args) => ab::run(*args),
        Command::Report(args) => report::run(args),
        Command::Compare(args) => compare::run(args),
        Command::Analyse(args) => analyse::run(args),
        Command::History(args) => history::run(args),
        Command::Load(args) => load::run(*args),
        Command::List(args) => list::run(args),
        Command::Show(args) => show::run(args),
        Command::Serve(args) => serve::run(args),
        Command::Selftest(args) => selftest::run(args),
        Command::Watch(args) => watch::run(*args),
        Command::Doctor(args) => doctor::run(args),
        Command::Recover(args) => recover::run(args),
        Command::Agent(args) => agent::run(args),
        Command::ExitCodes => {
            writeln!(std::io::stdout(), "{EXIT_CODES}").map_err(printing)?;
            Ok(ExitCode::Done)
        }
    }
}
