//! Which flags stand on the command line.

use crate::failure::{Failure, usage};
use clap::{ArgMatches, Args, Command, Error, FromArgMatches, parser::ValueSource};

/// The arguments that the user gave, by their names. Defaults, of the config file too, are not given.
#[derive(Debug, Clone, Default)]
pub struct Given(Vec<String>);

impl Given {
    /// The first of these flags that is given, as it is written: `--max-rounds`.
    pub fn first_of(&self, names: &[&str]) -> Option<String> {
        let given = names.iter().find(|name| self.0.iter().any(|given| given == *name));
        given.map(|name| format!("--{}", name.replace('_', "-")))
    }

    /// Refuses these flags, with the reason.
    pub fn refuse(&self, names: &[&str], why: &str) -> Result<(), Failure> {
        self.first_of(names).map_or(Ok(()), |flag| usage(format!("{flag}: {why}")))
    }
}

impl FromArgMatches for Given {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Given, Error> {
        let given = |id: &&clap::Id| matches.value_source(id.as_str()) == Some(ValueSource::CommandLine);
        Ok(Given(matches.ids().filter(given).map(clap::Id::to_string).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Given::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for Given {
    fn augment_args(command: Command) -> Command {
        command
    }

    fn augment_args_for_update(command: Command) -> Command {
        command
    }
}
