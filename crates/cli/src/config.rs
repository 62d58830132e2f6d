//! The config file: what flags default to for a user. Flags win over the environment, which wins over the file.

use crate::failure::Failure;
use clap::{Arg, Command, builder::ArgPredicate, error::ErrorKind};
use fsarena_core::{names::unknown, plan::error::PlanError};
use fsarena_sys::input;
use std::{io, ops::Range, path::PathBuf};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Each key, and the commands for whose flag of that name it is the default. With `*`, every command that has the flag.
///
/// None of them names a device to erase: only a flag does.
pub const KEYS: [(&str, &[&str]); 14] = [
    ("runs", &["*"]),
    ("images", &["*"]),
    ("color", &["*"]),
    ("run.budget", &["run", "ab"]),
    ("run.margin", &["run", "ab"]),
    ("run.max-rounds", &["run", "ab"]),
    ("run.metric", &["run", "ab"]),
    ("run.rounds", &["run", "ab"]),
    ("run.scale", &["run", "ab", "advise"]),
    ("run.user", &["run", "ab", "advise"]),
    ("report.margin", &["report", "merge"]),
    ("report.metric", &["report", "merge"]),
    ("serve.bind", &["serve"]),
    ("serve.port", &["serve"]),
];

/// The size limit of the file, in bytes.
const LARGEST: u64 = 1 << 16;

/// The config file of this user.
#[derive(Debug, Default)]
pub struct Config {
    /// Where it is or would be; none without a home directory.
    pub path: Option<PathBuf>,
    /// Whether it exists.
    pub exists: bool,
    settings: Vec<Setting>,
}

/// One line of the file. It lasts as long as the process, as clap's defaults do.
#[derive(Debug, Clone, Copy)]
pub struct Setting {
    /// One of [`KEYS`].
    pub key: &'static str,
    commands: &'static [&'static str],
    /// The value, as the flag takes it.
    pub value: &'static str,
    /// Line and column of the value, both from 1.
    pub at: (usize, usize),
}

impl Config {
    /// Reads the file: `$XDG_CONFIG_HOME/fsarena/config.toml`, else `~/.config/fsarena/config.toml`.
    pub fn load() -> Result<Config, Failure> {
        let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let dir = variable("XDG_CONFIG_HOME").or_else(|| Some(variable("HOME")?.join(".config")));
        let Some(path) = dir.map(|dir| dir.join("fsarena/config.toml")) else { return Ok(Config::default()) };
        let bytes = match input::read(&path, LARGEST) {
            Ok(bytes) => bytes,
            // A home that this user may not read is that of another user.
            Err(error)
                if [io::ErrorKind::NotFound, io::ErrorKind::PermissionDenied].contains(&error.kind()) =>
            {
                return Ok(Config { path: Some(path), ..Config::default() });
            }
            Err(error) => return Err(Failure::file(&path)(error)),
        };
        let text = String::from_utf8(bytes)
            .map_err(|_| PlanError::flag(&path.display().to_string(), "the file is not UTF-8 text"))?;
        let settings = parse(&path.display().to_string(), &text)?;
        Ok(Config { path: Some(path), exists: true, settings })
    }

    /// Checks that each flag accepts the value that the file has for it.
    pub fn checked(self, cli: &Command) -> Result<Config, Failure> {
        let origin = self.path.as_ref().map_or(String::new(), |path| path.display().to_string());
        check(&origin, &self.settings, cli)?;
        Ok(self)
    }

    /// What the file says of a key.
    pub fn get(&self, key: &str) -> Option<Setting> {
        self.settings.iter().find(|setting| setting.key == key).copied()
    }

    /// The command line with the values of the file as defaults.
    pub fn defaults(&self, command: Command) -> Command {
        self.settings.iter().fold(command, |command, setting| {
            command.mut_subcommands(|command| match setting.commands {
                ["*"] => with_default(command, setting),
                commands if commands.contains(&command.get_name()) => with_default(command, setting),
                _ => command,
            })
        })
    }
}

/// The flag of a key.
pub fn flag(key: &str) -> &str {
    key.rsplit('.').next().unwrap_or(key)
}

/// A flag on the line that excludes the flag of the setting takes its default away.
fn with_default(command: Command, setting: &Setting) -> Command {
    let Some(arg) = command.get_arguments().find(|arg| arg.get_long() == Some(flag(setting.key))) else {
        return command;
    };
    let excludes = |one: &Arg, other: &Arg| command.get_arg_conflicts_with(one).contains(&other);
    let others = command.get_arguments().filter(|other| excludes(other, arg) || excludes(arg, other));
    let without: Vec<_> =
        others.map(|other| (other.get_id().clone(), ArgPredicate::IsPresent, None::<&str>)).collect();
    let id = arg.get_id().clone();
    command.mut_arg(id, |arg| arg.default_value(setting.value).default_value_ifs(without))
}

fn parse(origin: &str, text: &str) -> Result<Vec<Setting>, PlanError> {
    let fault = |span: Range<usize>, message: &str| PlanError::at(origin, text, span, message);
    let file = DeTable::parse(text)
        .map_err(|error| fault(error.span().unwrap_or(0..0), &first_line(error.message())))?;
    let mut entries = vec![];
    for (name, value) in file.get_ref() {
        match value.get_ref() {
            DeValue::Table(section) => entries.extend(
                section
                    .iter()
                    .map(|(key, value)| (format!("{}.{}", name.get_ref(), key.get_ref()), key.span(), value)),
            ),
            _ => entries.push((name.get_ref().to_string(), name.span(), value)),
        }
    }
    let mut settings = vec![];
    for (name, span, value) in entries {
        let Some((key, commands)) = KEYS.iter().find(|(key, _)| *key == name) else {
            let unknown = unknown("key", &name, KEYS.iter().map(|(key, _)| *key));
            return Err(fault(span, &unknown.to_string()));
        };
        let value_text =
            written(value).ok_or_else(|| fault(value.span(), "write a text, a number or a list of them"))?;
        if value_text.contains('\0') {
            return Err(fault(
                value.span(),
                "a NUL character can be in no path, name or number: take it out",
            ));
        }
        let at = fault(value.span(), "").at.unwrap_or_default();
        settings.push(Setting { key, commands, value: value_text.leak(), at });
    }
    Ok(settings)
}

fn check(origin: &str, settings: &[Setting], cli: &Command) -> Result<(), PlanError> {
    for Setting { key, commands, value, at } in settings {
        let command = commands.first().filter(|command| **command != "*").unwrap_or(&"run");
        let line = ["fsarena", command, &format!("--{}={value}", flag(key))];
        if let Err(error) = cli.clone().try_get_matches_from(line)
            && [ErrorKind::InvalidValue, ErrorKind::ValueValidation].contains(&error.kind())
        {
            let message = first_line(&error.to_string());
            return Err(PlanError { origin: origin.into(), at: Some(*at), message });
        }
    }
    Ok(())
}

fn first_line(message: &str) -> String {
    message.lines().next().unwrap_or_default().trim_start_matches("error: ").to_string()
}

/// A value as a flag takes it: a list with commas, `~/` as the home directory.
fn written(value: &Spanned<DeValue>) -> Option<String> {
    match value.get_ref() {
        DeValue::String(text) => match (text.strip_prefix("~/"), std::env::var("HOME")) {
            (Some(below), Ok(home)) => Some(format!("{home}/{below}")),
            _ => Some(text.to_string()),
        },
        DeValue::Integer(number) => Some(number.as_str().into()),
        DeValue::Float(number) => Some(number.as_str().into()),
        DeValue::Array(values) => Some(values.iter().map(written).collect::<Option<Vec<_>>>()?.join(",")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Cli;
    use clap::CommandFactory;

    fn of(text: &str) -> Config {
        Config { settings: parse("config.toml", text).unwrap(), ..Config::default() }
    }

    /// What `run` has for these flags under a file.
    fn values(file: &str, line: &str, flags: &[&str]) -> Vec<Option<String>> {
        let matches = of(file).defaults(Cli::command()).try_get_matches_from(line.split(' ')).unwrap();
        let (_, run) = matches.subcommand().unwrap();
        let text = |mut raw: clap::parser::RawValues| raw.next().unwrap().to_string_lossy().into_owned();
        flags.iter().map(|flag| run.get_raw(flag).map(text)).collect()
    }

    #[test]
    fn every_key_is_a_flag() {
        for (key, commands) in KEYS {
            let cli = Cli::command();
            let has = |command: &Command| {
                command
                    .get_arguments()
                    .chain(cli.get_arguments())
                    .any(|arg| arg.get_long() == Some(flag(key)))
            };
            match commands {
                ["*"] => assert!(cli.get_subcommands().any(has), "{key}"),
                _ => {
                    commands.iter().for_each(|name| assert!(has(cli.find_subcommand(name).unwrap()), "{key}"))
                }
            }
        }
    }

    #[test]
    fn flags_win_and_take_the_defaults_of_what_they_exclude_away() {
        let file = "runs = '/srv/runs'\n[run]\nrounds = 12\nbudget = '10m'\n";
        let flags = ["runs", "rounds", "budget"];
        let some = |text: &str| Some(text.to_string());
        assert_eq!(values(file, "fsarena run", &flags), [some("/srv/runs"), some("12"), some("10m")]);
        assert_eq!(
            values(file, "fsarena run --rounds 3", &flags),
            [some("/srv/runs"), some("3"), some("10m")]
        );
        assert_eq!(values(file, "fsarena run --find best", &flags), [some("/srv/runs"), None, some("10m")]);
        assert_eq!(values(file, "fsarena run --shard 1/2", &flags)[2], None);
        assert_eq!(values(file, "fsarena run --resume x", &flags), [some("/srv/runs"), None, None]);
        assert_eq!(values(file, "fsarena report", &flags[..1]), [some("/srv/runs")]);
        assert_eq!(values("run.scale = 'tiny'", "fsarena advise", &["scale"]), [some("tiny")]);
    }

    #[test]
    fn mistakes_have_their_place() {
        for (text, says) in [
            ("\nrusn = 'x'", "config.toml, line 2, column 1: Unknown key `rusn`. Did you mean `runs`?"),
            ("[run]\nrouds = 3", "line 2, column 1: Unknown key `run.rouds`. Did you mean `run.rounds`?"),
            ("[run]\nerase = '/dev/sda'", "Unknown key `run.erase`."),
            ("[run]\nrounds = 'x'", "line 2, column 10: invalid value 'x' for '--rounds <N>'"),
            ("run.metric = ['elapsd']", "Did you mean `elapsed`?"),
            ("runs = true", "write a text, a number or a list of them"),
            ("color = 'red'", "invalid value 'red'"),
            ("runs = ", "line 1, column 8"),
        ] {
            let checked = parse("config.toml", text)
                .and_then(|settings| check("config.toml", &settings, &Cli::command()));
            let said = checked.unwrap_err().to_string();
            assert!(said.contains(says), "{text}: {said}");
        }
    }
}
