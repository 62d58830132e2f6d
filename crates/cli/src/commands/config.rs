//! `fsarena config`: prints the settings in effect, and where each comes from.

use crate::output;
use crate::{failure::CommandResult, flags::ListFormat};
use clap::{Arg, Command};
use fsarena_core::row::Row;
use fsarena_run::config::{Config, KEYS, flag_name};
use serde::Serialize;

/// Print the settings in effect, and where each comes from
///
/// A flag wins over an environment variable, which wins over the config file, which wins over the default. The config
/// file is $XDG_CONFIG_HOME/fsarena/config.toml, else ~/.config/fsarena/config.toml; under sudo, that of root.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Format on standard output
    #[arg(long, value_enum, default_value = "term")]
    format: ListFormat,
}

/// A setting with its value in effect.
#[derive(Serialize)]
struct SettingRow {
    setting: &'static str,
    value: String,
    /// What sets the value: a variable, a line of the config file, or the default.
    #[serde(rename = "from")]
    source: String,
}

impl Row for SettingRow {
    const COLUMNS: &'static [&'static str] = &["setting", "value", "from"];
}

/// Prints the settings.
pub fn run(args: Args, cli: &Command) -> CommandResult {
    let config = Config::load()?;
    let file = config.path.as_ref().map_or("none: HOME is not set".into(), |path| path.display().to_string());
    let exists = if config.was_read { "exists" } else { "does not exist" };
    let mut rows = vec![SettingRow { setting: "config file", value: file, source: exists.into() }];
    rows.extend(KEYS.map(|(key, commands)| setting_row(cli, &config, key, commands)));
    for (setting, name, dir) in [
        ("state directory", "FSARENA_STATE_DIR", fsarena_sys::undo::state_dir()),
        ("cache directory", "FSARENA_CACHE_DIR", fsarena_sys::dirs::cache_dir()),
    ] {
        let source = if environment_value(name).is_some() { name } else { "default" };
        rows.push(SettingRow { setting, value: dir.display().to_string(), source: source.into() });
    }
    output::print_rows(&rows, args.format)
}

/// The row of a key: its value in the environment, else in the config file, else the default of its flag. `commands` are
/// those that have the flag.
fn setting_row(cli: &Command, config: &Config, key: &'static str, commands: &[&str]) -> SettingRow {
    let commands = cli.get_subcommands().filter(|command| commands == ["*"] || commands.contains(&command.get_name()));
    let mut args = cli.get_arguments().chain(commands.flat_map(|command| command.get_arguments()));
    let arg = args.find(|arg| arg.get_long() == Some(flag_name(key)));
    let variables = match arg.and_then(Arg::get_env) {
        _ if key == "color" => output::COLOR_VARIABLES.map(String::from).to_vec(),
        name => name.iter().map(|name| name.to_string_lossy().into_owned()).collect(),
    };
    for name in variables {
        if let Some(value) = environment_value(&name) {
            return SettingRow { setting: key, value, source: name };
        }
    }
    if let Some(setting) = config.get(key) {
        let source = format!("config file, line {}", setting.position.0);
        return SettingRow { setting: key, value: setting.value.into(), source };
    }
    let values = arg.map_or(&[][..], Arg::get_default_values);
    let values: Vec<_> = values.iter().map(|value| value.to_string_lossy()).collect();
    SettingRow { setting: key, value: values.join(","), source: "default".into() }
}

/// The value of an environment variable; None if it is unset or empty.
fn environment_value(name: &str) -> Option<String> {
    std::env::var_os(name).filter(|value| !value.is_empty()).map(|value| value.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Cli;
    use clap::CommandFactory;

    fn parse_config(text: &str) -> Config {
        Config::parse("config.toml", text).unwrap()
    }

    /// The values of these flags for a command line and the text of a config file.
    fn flag_values(file: &str, command_line: &str, flags: &[&str]) -> Vec<Option<String>> {
        let matches =
            parse_config(file).set_defaults(Cli::command()).try_get_matches_from(command_line.split(' ')).unwrap();
        let (_, run) = matches.subcommand().unwrap();
        let text = |mut raw: clap::parser::RawValues| raw.next().unwrap().to_string_lossy().into_owned();
        flags.iter().map(|flag| run.get_raw(flag).map(text)).collect()
    }

    #[test]
    fn every_key_is_a_flag() {
        for (key, commands) in KEYS {
            let cli = Cli::command();
            let has_flag = |command: &Command| {
                command.get_arguments().chain(cli.get_arguments()).any(|arg| arg.get_long() == Some(flag_name(key)))
            };
            match commands {
                ["*"] => assert!(cli.get_subcommands().any(has_flag), "{key}"),
                _ => commands.iter().for_each(|name| assert!(has_flag(cli.find_subcommand(name).unwrap()), "{key}")),
            }
        }
    }

    #[test]
    fn a_flag_overrides_the_file_and_removes_its_value_of_conflicting_flags() {
        let file = "runs = '/srv/runs'\n[run]\nrounds = 12\nbudget = '10m'\n";
        let flags = ["runs", "rounds", "budget"];
        let some = |text: &str| Some(text.to_string());
        assert_eq!(flag_values(file, "fsarena run", &flags), [some("/srv/runs"), some("12"), some("10m")]);
        assert_eq!(flag_values(file, "fsarena run --rounds 3", &flags), [some("/srv/runs"), some("3"), some("10m")]);
        assert_eq!(flag_values(file, "fsarena run --find best", &flags), [some("/srv/runs"), None, some("10m")]);
        assert_eq!(flag_values(file, "fsarena run --shard 1/2", &flags)[2], None);
        assert_eq!(flag_values(file, "fsarena run --resume x", &flags), [some("/srv/runs"), None, None]);
        assert_eq!(flag_values(file, "fsarena report", &flags[..1]), [some("/srv/runs")]);
        assert_eq!(flag_values("run.scale = 'tiny'", "fsarena advise", &["scale"]), [some("tiny")]);
    }

    #[test]
    fn errors_in_the_file_have_their_line_and_column() {
        for (text, expected) in [
            ("\nrusn = 'x'", "config.toml, line 2, column 1: Unknown key `rusn`. Did you mean `runs`?"),
            ("[run]\nrouds = 3", "line 2, column 1: Unknown key `run.rouds`. Did you mean `run.rounds`?"),
            ("[run]\nerase = '/dev/sda'", "Unknown key `run.erase`."),
            ("[run]\nrounds = 'x'", "line 2, column 10: invalid value 'x' for '--rounds <N>'"),
            ("run.metric = ['elapsd']", "Did you mean `elapsed`?"),
            ("runs = true", "write a text, a number or a list of them"),
            ("color = 'red'", "invalid value 'red'"),
            ("runs = ", "line 1, column 8"),
        ] {
            let checked = Config::parse("config.toml", text).and_then(|config| config.check_against(&Cli::command()));
            let message = checked.unwrap_err().to_string();
            assert!(message.contains(expected), "{text}: {message}");
        }
    }
}
