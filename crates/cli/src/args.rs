//! The command line. Each command's own arguments are beside its code.

use crate::commands::{
    ab, analyse, compare, doctor, history, list, load, recover, report, run, selftest, serve, show, watch,
};
use crate::failure::{Outcome, printing};
use clap::{Parser, Subcommand};
use fsarena_core::exit::ExitCode;
use std::io::Write;

/// The filesystem benchmark that answers questions.
///
/// Which filesystem, or which setting of it, is faster at my work on my machine, by how much, and how sure
/// is that? fsarena makes filesystems on loop images, runs the same work on each in random order, round by
/// round, and says what the differences are and what was not decided.
#[derive(Debug, Parser)]
#[command(version, max_term_width = 100, after_help = AFTER)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

const AFTER: &str = "\
Examples:
  fsarena run                                  the default study on every filesystem there is here
  fsarena run --fs ext4,xfs --rounds 12        two filesystems, twelve rounds
  fsarena run --fs ext4 --options default,noatime,writeback
  fsarena ab peiffer --a fs=ext4 --b fs=ext4,mkfs=^has_journal
  fsarena run --on dir:/srv --on dir:/home     no root: the filesystems of two directories
  fsarena report latest --format md            any stored run, rendered again
  fsarena compare latest published:piszcz-II   who won then, who wins here
  fsarena serve                                all runs as a web page
  fsarena analyse published:engel              which cells of a matrix are not as they should be
  fsarena analyse curve.csv                    how throughput scales with clients
  fsarena run --fs ext4 --factor memory=256MiB,1GiB   any axis of the machine: fsarena list factors
  fsarena load --rw randread --direct          the load engine alone, in fio's words
  fsarena compare a.csv b.csv                  samples of any tool
  fsarena watch --squid localhost:3128 --service squid --path /var/spool/squid

Exit codes are a contract: `fsarena help exit-codes`.";

/// Each is described beside its code.
#[derive(Debug, Subcommand)]
enum Command {
    Run(Box<run::Args>),
    Ab(Box<ab::Args>),
    Report(report::Args),
    Compare(compare::Args),
    Analyse(analyse::Args),
    History(history::Args),
    Load(Box<load::Args>),
    List(list::Args),
    Show(show::Args),
    Serve(serve::Args),
    Watch(Box<watch::Args>),
    Selftest(selftest::Args),
    Doctor(doctor::Args),
    Recover(recover::Args),
    /// The exit codes that scripts rely on
    #[command(name = "exit-codes", long_about = EXIT_CODES)]
    ExitCodes,
}

const EXIT_CODES: &str = "\
0  done, and no claim refuted or left open
1  internal error
2  usage, or a bad plan
3  a claim was refuted
4  a claim was left inconclusive
5  refused for safety: going on could destroy something
6  something this machine lacks; the message says what to install or to free

Where every variant fails, the code says why: 2 if options that you gave were refused, 5 and 6 as above,
4 if the filesystems or the commands of the work failed, so that nothing can be compared.

A run that SIGINT, SIGTERM or SIGHUP ends cleans up, keeps what was measured, and then dies by that
signal (a shell shows 130, 143, 129). These codes change only with a major version.";

impl Cli {
    /// Runs the command that the arguments name.
    pub fn run(self) -> Outcome {
        match self.command {
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
            Command::ExitCodes => {
                writeln!(std::io::stdout(), "{EXIT_CODES}").map_err(printing)?;
                Ok(ExitCode::Done)
            }
        }
    }
}
