//! The command line. Each command's own arguments are beside its code.

use crate::commands::{
    ab, advise, analyse, bisect, bundle, compare, completions, config, doctor, history, list, load, merge, recover,
    report, run, selftest, serve, shell, show, verify, watch,
};
use crate::{failure::CommandResult, output};
use clap::{ColorChoice, CommandFactory, Parser, Subcommand};

/// The filesystem benchmark that answers questions.
///
/// Which filesystem, or which setting of it, is faster at my work on my machine, by how much, and how sure
/// is that? fsarena makes filesystems on loop images, runs the same work on each in random order, round by
/// round, and reports the differences with their confidence intervals.
#[derive(Debug, Parser)]
#[command(version, max_term_width = 100, after_help = EXAMPLES)]
pub struct Cli {
    /// Use colors: auto (on terminals, as NO_COLOR, CLICOLOR_FORCE and TERM ask for), always or never
    #[arg(long, value_enum, value_name = "WHEN", default_value_t = ColorChoice::Auto, hide_default_value = true, hide_possible_values = true, global = true, display_order = 1000)]
    pub color: ColorChoice,
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  fsarena run                                  the default study on every filesystem of this machine
  fsarena run --fs ext4,xfs --rounds 12        two filesystems, twelve rounds
  fsarena run --fs ext4 --options default,noatime,writeback
  fsarena ab peiffer --a fs=ext4 --b fs=ext4,mkfs=^has_journal
  fsarena bisect debian:6.1 debian:7.3 --on exact --fs ext4
  fsarena run --on dir:/srv --on dir:/home     no root: the filesystems of two directories
  fsarena report latest --format md            a stored run as Markdown
  fsarena compare latest published:piszcz-II   this machine and published figures
  fsarena serve                                all runs as a web page
  fsarena bundle latest -o paper.tar.zst       a run with all its data, to publish
  fsarena analyse published:engel              anomalies of a block-size × threads matrix
  fsarena analyse curve.csv                    how throughput scales with clients
  fsarena run --fs ext4 --factor memory=256MiB,1GiB   any factor (list them: fsarena list factors)
  fsarena load --rw randread --direct          the load engine alone, with fio's options
  fsarena compare a.csv b.csv                  samples of any tool
  fsarena watch --squid localhost:3128 --service squid --path /var/spool/squid

Exit codes: fsarena help exit-codes";

/// Every command. The doc comment of its arguments is its help.
#[derive(Debug, Subcommand)]
enum Command {
    Run(Box<run::Args>),
    Ab(Box<ab::Args>),
    Bisect(Box<bisect::Args>),
    Advise(Box<advise::Args>),
    Shell(Box<shell::Args>),
    Merge(merge::Args),
    Report(report::Args),
    Compare(compare::Args),
    Analyse(analyse::Args),
    History(history::Args),
    Bundle(bundle::Args),
    Verify(verify::Args),
    Load(Box<load::Args>),
    List(list::Args),
    Show(show::Args),
    Serve(serve::Args),
    Watch(Box<watch::Args>),
    Selftest(selftest::Args),
    Doctor(doctor::Args),
    Recover(recover::Args),
    Config(config::Args),
    Completions(completions::Args),
    #[command(hide = true)]
    Man(completions::ManArgs),
    /// Explain the exit codes
    #[command(name = "exit-codes", long_about = EXIT_CODES)]
    ExitCodes,
}

/// The exit codes, for `fsarena help exit-codes` and, word for word, `docs/reference/exit-codes.md`.
pub const EXIT_CODES: &str = "\
0  done; no claim was refuted or left inconclusive
1  a bug in fsarena; the message says how to report it
2  wrong usage: a flag, a name, a plan or a path that you gave
3  a claim was refuted
4  a claim is inconclusive
5  refused for safety: something could lose data
6  this machine lacks something: a program, room, a right, a high enough limit; the message says
   what to install, free or raise

If every variant fails, the code is the first of these that applies to any of them:
1  for a bug in fsarena
5  if fsarena refused for safety
3  if a filesystem lost synced files after a power cut
2  if mkfs or mount refused your options
6  if this machine lacks something
4  if a filesystem, a guest or a command failed at the work

Every signal that ends a program (SIGINT, SIGTERM, SIGQUIT, SIGUSR1, SIGXCPU, …) ends a run: it
cleans up, keeps its samples, and ends by the same signal (a shell shows 130, 143, 131 and so
on). Only SIGKILL leaves something behind, which `fsarena recover` undoes. These codes change only
with a major version.";

impl Cli {
    /// Whether the command works without the config file, so that a mistake in the file does not prevent a recovery.
    pub fn works_without_config(&self) -> bool {
        matches!(self.command, Command::Recover(_))
    }

    /// Runs the command that the arguments name.
    pub fn run(self) -> CommandResult {
        match self.command {
            Command::Run(args) => run::run(*args),
            Command::Ab(args) => ab::run(*args),
            Command::Bisect(args) => bisect::run(*args),
            Command::Advise(args) => advise::run(*args),
            Command::Shell(args) => shell::run(*args),
            Command::Merge(args) => merge::run(args),
            Command::Report(args) => report::run(args),
            Command::Compare(args) => compare::run(args),
            Command::Analyse(args) => analyse::run(args),
            Command::History(args) => history::run(args),
            Command::Bundle(args) => bundle::run(args),
            Command::Verify(args) => verify::run(args),
            Command::Load(args) => load::run(*args),
            Command::List(args) => list::run(args),
            Command::Show(args) => show::run(args),
            Command::Serve(args) => serve::run(args),
            Command::Selftest(args) => selftest::run(args),
            Command::Watch(args) => watch::run(*args),
            Command::Doctor(args) => doctor::run(args),
            Command::Recover(args) => recover::run(args),
            Command::Config(args) => config::run(args, &Cli::command()),
            Command::Completions(args) => completions::run(args, Cli::command()),
            Command::Man(args) => completions::write_man_pages(args, Cli::command()),
            Command::ExitCodes => output::print_text(format!("{EXIT_CODES}\n")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::Failure;
    use fsarena_core::event::{Cause, VariantDeparture};
    use fsarena_run::RunError;
    use std::collections::BTreeMap;

    /// A flag that several commands have takes the same kind of value in each: one, or several with commas between.
    #[test]
    fn a_flag_takes_the_same_value_in_every_command() {
        let mut value_names = BTreeMap::new();
        for command in Cli::command().get_subcommands() {
            for arg in command.get_arguments().filter(|arg| arg.get_long().is_some()) {
                let flags = arg.get_long_and_visible_aliases().unwrap_or_default();
                let value_name = arg.get_value_names().unwrap_or_default().iter().map(|name| name.to_string());
                let value_name = value_name.collect::<String>().replace(",…", "");
                for flag in flags.into_iter().map(String::from) {
                    let place = format!("{} --{flag}", command.get_name());
                    let (first_name, first_place) =
                        value_names.entry(flag).or_insert((value_name.clone(), place.clone()));
                    assert_eq!(*first_name, value_name, "{place}, {first_place}");
                }
            }
        }
        assert_eq!(value_names["metric"].0, "METRIC");
    }

    /// If every variant fails, the exit code follows the order that the help text lists.
    #[test]
    fn the_exit_code_if_every_variant_fails_follows_the_order_in_the_help() {
        let (_, list) = EXIT_CODES.split_once("If every variant fails").unwrap();
        let list = list.lines().skip(1).take_while(|line| !line.is_empty());
        let listed: Vec<u8> = list.map(|line| line.split(' ').next().unwrap().parse().unwrap()).collect();
        let causes =
            [Cause::Work, Cause::Violation, Cause::Usage, Cause::Refused, Cause::Missing, Cause::Died, Cause::Internal];
        let code = |causes: &[Cause]| {
            let departure = |(index, cause): (usize, &Cause)| {
                (index.to_string(), VariantDeparture { round: 0, why: String::new(), cause: *cause })
            };
            let error = RunError::EveryVariantFailed(causes.iter().enumerate().map(departure).collect());
            Failure::from(error).exit_code().code()
        };
        let rank = |cause: Cause| listed.iter().position(|listed| *listed == code(&[cause])).unwrap();
        for first in causes {
            for second in causes {
                assert_eq!(code(&[first, second]), listed[rank(first).min(rank(second))], "{first:?} {second:?}");
            }
        }
        assert_eq!(listed.len(), 6);
    }
}
