//! The config file: a user's defaults of flags. A flag overrides the environment, which overrides the file.
//!
//! Both `fsarena` and `fsarena-mpi` read it; each ignores keys for commands and flags that it lacks.

use clap::{Arg, Command, builder::ArgPredicate, error::ErrorKind};
use fsarena_core::{names::unknown_name, plan::error::PlanError};
use fsarena_sys::input;
use std::{io, ops::Range, path::PathBuf};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// The keys, each with the commands whose flag of that name gets the value as its default; `*` means every command that
/// has the flag.
///
/// No key names a device to erase: only a flag can.
pub const KEYS: [(&str, &[&str]); 14] = [
    ("runs", &["*"]),
    ("images", &["*"]),
    ("color", &["*"]),
    ("run.budget", &["run", "ab"]),
    ("run.margin", &["run", "ab"]),
    ("run.max-rounds", &["run", "ab"]),
    ("run.metric", &["run", "ab"]),
    ("run.rounds", &["run", "ab"]),
    ("run.scale", &["run", "ab", "bisect", "advise"]),
    ("run.user", &["run", "ab", "bisect", "advise"]),
    ("report.margin", &["report", "merge"]),
    ("report.metric", &["report", "merge"]),
    ("serve.bind", &["serve"]),
    ("serve.port", &["serve"]),
];

/// The size limit of the file, in bytes.
const MAX_BYTES: u64 = 1 << 16;

/// The config file of this user.
#[derive(Debug, Default)]
pub struct Config {
    /// The path of the file, which need not exist; None if neither XDG_CONFIG_HOME nor HOME is set.
    pub path: Option<PathBuf>,
    /// Whether it was read: false if it does not exist, or if this user may not read it.
    pub was_read: bool,
    settings: Vec<Setting>,
}

/// One setting of the file. Its text is leaked, because clap requires defaults that live as long as the process.
#[derive(Debug, Clone, Copy)]
pub struct Setting {
    /// One of [`KEYS`].
    pub key: &'static str,
    commands: &'static [&'static str],
    /// The value, in the form that the flag accepts.
    pub value: &'static str,
    /// Line and column of the value, both from 1.
    pub position: (usize, usize),
}

impl Config {
    /// Reads the file: `$XDG_CONFIG_HOME/fsarena/config.toml`, else `~/.config/fsarena/config.toml`. A file that this
    /// user may not read counts as missing.
    ///
    /// # Errors
    /// Reading the file fails for another reason, or it has a mistake; the error has its line and column.
    pub fn load() -> Result<Config, PlanError> {
        let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let dir = variable("XDG_CONFIG_HOME").or_else(|| Some(variable("HOME")?.join(".config")));
        let Some(path) = dir.map(|dir| dir.join("fsarena/config.toml")) else { return Ok(Config::default()) };
        let origin = path.display().to_string();
        let bytes = match input::read(&path, MAX_BYTES) {
            Ok(bytes) => bytes,
            // HOME can be the home directory of another user, which this user may not read.
            Err(error) if [io::ErrorKind::NotFound, io::ErrorKind::PermissionDenied].contains(&error.kind()) => {
                return Ok(Config { path: Some(path), ..Config::default() });
            }
            Err(error) => return Err(PlanError::without_position(&origin, error.to_string())),
        };
        let text =
            String::from_utf8(bytes).map_err(|_| PlanError::without_position(&origin, "the file is not UTF-8 text"))?;
        Ok(Config { path: Some(path), was_read: true, ..Config::parse(&origin, &text)? })
    }

    /// Parses the text of a config file; `origin` names the file in errors.
    ///
    /// # Errors
    /// The first mistake, with its place.
    pub fn parse(origin: &str, text: &str) -> Result<Config, PlanError> {
        Ok(Config { settings: parse_settings(origin, text, home_dir().as_deref())?, ..Config::default() })
    }

    /// Returns the config, after checking that each flag of this command line accepts the value that the file has for
    /// it.
    ///
    /// # Errors
    /// The first value that its flag refuses, with its place.
    pub fn check_against(self, cli: &Command) -> Result<Config, PlanError> {
        for Setting { key, commands, value, position } in &self.settings {
            let command = commands.first().filter(|command| **command != "*").unwrap_or(&"run");
            // Parse a command line that has the flag of the setting.
            let line = ["fsarena", command, &format!("--{}={value}", flag_name(key))];
            if let Err(error) = cli.clone().try_get_matches_from(line)
                && [ErrorKind::InvalidValue, ErrorKind::ValueValidation].contains(&error.kind())
            {
                let origin = self.path.as_ref().map_or(String::new(), |path| path.display().to_string());
                let message = first_line(&error.to_string());
                return Err(PlanError { origin, position: Some(*position), message });
            }
        }
        Ok(self)
    }

    /// The setting of a key; None if the file has none.
    pub fn get(&self, key: &str) -> Option<Setting> {
        self.settings.iter().find(|setting| setting.key == key).copied()
    }

    /// Adds the values of the file to a command line as defaults of its flags.
    pub fn set_defaults(&self, command: Command) -> Command {
        let mut command = command;
        for setting in &self.settings {
            command = command.mut_subcommands(|subcommand| match setting.commands {
                ["*"] => with_default(subcommand, setting),
                names if names.contains(&subcommand.get_name()) => with_default(subcommand, setting),
                _ => subcommand,
            });
        }
        command
    }
}

/// The long flag of a key, without dashes: `budget` of `run.budget`.
pub fn flag_name(key: &str) -> &str {
    key.rsplit('.').next().unwrap_or(key)
}

/// Makes a setting the default of its flag, if the command has the flag. The default does not apply if a conflicting
/// flag is given.
fn with_default(command: Command, setting: &Setting) -> Command {
    let Some(arg) = command.get_arguments().find(|arg| arg.get_long() == Some(flag_name(setting.key))) else {
        return command;
    };
    let conflicts = |first: &Arg, second: &Arg| command.get_arg_conflicts_with(first).contains(&second);
    let mut no_default_if = vec![];
    for other in command.get_arguments() {
        if conflicts(other, arg) || conflicts(arg, other) {
            no_default_if.push((other.get_id().clone(), ArgPredicate::IsPresent, None::<&str>));
        }
    }
    let id = arg.get_id().clone();
    command.mut_arg(id, |arg| arg.default_value(setting.value).default_value_ifs(no_default_if))
}

/// The home directory of this user; None if `HOME` is unset or empty.
fn home_dir() -> Option<String> {
    std::env::var("HOME").ok().filter(|home| !home.is_empty())
}

/// Parses the text of a config file into settings. A leading `~` in a value becomes `home`. `origin` names the file in
/// errors.
fn parse_settings(origin: &str, text: &str, home: Option<&str>) -> Result<Vec<Setting>, PlanError> {
    let fault = |span: Range<usize>, message: &str| PlanError::at_span(origin, text, span, message);
    let file =
        DeTable::parse(text).map_err(|error| fault(error.span().unwrap_or(0..0), &first_line(error.message())))?;
    let mut entries = vec![];
    for (name, value) in file.get_ref() {
        match value.get_ref() {
            DeValue::Table(section) => {
                for (key, value) in section {
                    entries.push((format!("{}.{}", name.get_ref(), key.get_ref()), key.span(), value));
                }
            }
            _ => entries.push((name.get_ref().to_string(), name.span(), value)),
        }
    }
    let mut settings = vec![];
    for (name, span, value) in entries {
        let Some((key, commands)) = KEYS.iter().find(|(key, _)| *key == name) else {
            let unknown = unknown_name("key", &name, KEYS.iter().map(|(key, _)| *key));
            return Err(fault(span, &unknown.to_string()));
        };
        let value_text = flag_value(value, home).map_err(|why| fault(value.span(), &why))?;
        if value_text.contains('\0') {
            return Err(fault(value.span(), "a NUL character can be in no path, name or number: take it out"));
        }
        let position = fault(value.span(), "").position.unwrap_or_default();
        settings.push(Setting { key, commands, value: value_text.leak(), position });
    }
    Ok(settings)
}

/// The first line of an error message, without `error: `.
fn first_line(message: &str) -> String {
    message.lines().next().unwrap_or_default().trim_start_matches("error: ").to_string()
}

/// A value in the form that a flag accepts: lists are joined with commas, and a leading `~` is the home directory.
fn flag_value(value: &Spanned<DeValue>, home: Option<&str>) -> Result<String, String> {
    match value.get_ref() {
        DeValue::String(text) => expand_home(text, home),
        // The text of a number in TOML lacks its radix: `10` for `0x10`.
        DeValue::Integer(number) => match i128::from_str_radix(number.as_str(), number.radix()) {
            Ok(number) => Ok(number.to_string()),
            Err(_) => Err("the number is too large".into()),
        },
        DeValue::Float(number) => Ok(number.as_str().into()),
        DeValue::Array(values) => {
            Ok(values.iter().map(|value| flag_value(value, home)).collect::<Result<Vec<_>, _>>()?.join(","))
        }
        _ => Err("write a text, a number or a list of them".into()),
    }
}

/// Replaces `~` at the beginning, alone or before a slash, with the home directory.
fn expand_home(text: &str, home: Option<&str>) -> Result<String, String> {
    match (text.strip_prefix('~'), home) {
        (None, _) => Ok(text.into()),
        (Some(below), _) if !below.is_empty() && !below.starts_with('/') => {
            Err(format!("`{text}`: write the home directory of another user as an absolute path"))
        }
        (Some(_), None) => Err(format!("`{text}`: HOME is not set; write an absolute path")),
        (Some(below), Some(home)) => Ok(format!("{home}{below}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_may_have_another_radix() {
        for (text, expected) in [("8_080", "8080"), ("0x1F90", "8080"), ("0o17", "15"), ("0b101", "5"), ("-3", "-3")] {
            let settings = parse_settings("config.toml", &format!("serve.port = {text}"), None).unwrap();
            assert_eq!(settings[0].value, expected);
        }
    }

    #[test]
    fn a_tilde_is_the_home_directory_of_this_user_only() {
        let runs = |text: &str, home| {
            let settings = parse_settings("config.toml", &format!("runs = '{text}'"), home);
            settings.map(|settings| settings[0].value.to_string()).map_err(|error| error.to_string())
        };
        let at_home = |text| runs(text, Some("/home/me")).unwrap();
        assert_eq!(
            ["~", "~/", "~/a/~b", "a~", "./~"].map(at_home),
            ["/home/me", "/home/me/", "/home/me/a/~b", "a~", "./~"]
        );
        let of_other_user = runs("~you/runs", Some("/home/me")).unwrap_err();
        assert!(
            of_other_user.starts_with("config.toml, line 1, column 8: `~you/runs`: write the home"),
            "{of_other_user}"
        );
        let without_home = runs("~/runs", None).unwrap_err();
        assert!(without_home.contains("HOME is not set; write an absolute path"), "{without_home}");
    }
}
