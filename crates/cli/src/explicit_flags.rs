//! Finds the flags that the user wrote on the command line, without those that have a value by default.

use crate::failure::{Failure, usage};
use clap::{ArgMatches, Args, Command, Error, FromArgMatches, parser::ValueSource};

/// The arguments on the command line. Values from defaults, the environment or the config file do not count.
#[derive(Debug)]
pub struct ExplicitFlags(ArgMatches);

impl ExplicitFlags {
    /// The first of these flags that is on the command line, in the form `--max-rounds`; None if none is.
    ///
    /// # Panics
    /// In debug builds, if the command has no argument of that name.
    pub fn first_of(&self, names: &[&str]) -> Option<String> {
        let given = names.iter().find(|name| self.0.value_source(name) == Some(ValueSource::CommandLine));
        given.map(|name| format!("--{}", name.replace('_', "-")))
    }

    /// The positions of the values of a flag or argument on the command line, in order; empty if the command line does not have it.
    ///
    /// # Panics
    /// In debug builds, if the command has no argument of that name.
    pub fn places(&self, name: &str) -> Vec<usize> {
        let given = self.0.value_source(name) == Some(ValueSource::CommandLine);
        self.0.indices_of(name).filter(|_| given).into_iter().flatten().collect()
    }

    /// Refuses the first of these flags that is on the command line, with the reason.
    pub fn refuse(&self, names: &[&str], why: &str) -> Result<(), Failure> {
        self.first_of(names).map_or(Ok(()), |flag| usage(format!("{flag}: {why}")))
    }
}

impl FromArgMatches for ExplicitFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<ExplicitFlags, Error> {
        Ok(ExplicitFlags(matches.clone()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = ExplicitFlags::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for ExplicitFlags {
    fn augment_args(command: Command) -> Command {
        command
    }

    fn augment_args_for_update(command: Command) -> Command {
        command
    }
}

#[cfg(test)]
mod tests {
    use crate::args::Cli;
    use crate::commands::{ab, advise, bisect};
    use clap::CommandFactory;

    #[test]
    fn every_refused_name_is_a_flag_of_its_command() {
        let cli = Cli::command();
        let of_advice: Vec<&str> = advise::REFUSED.split(' ').collect();
        let of_bisect: Vec<&str> = bisect::REFUSED.split(' ').collect();
        for (command, names) in [("ab", &ab::OF_SIDES[..]), ("advise", &of_advice), ("bisect", &of_bisect)] {
            let command = cli.find_subcommand(command).unwrap();
            for name in names {
                assert!(command.get_arguments().any(|arg| arg.get_id() == name), "{command} {name}");
            }
        }
    }
}
