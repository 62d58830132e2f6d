//! `fsarena config`: the settings in effect, and where each comes from.

use crate::output;
use crate::{failure::Outcome, flags::ListFormat};
use clap::{Arg, Command};
use fsarena_core::row::Row;
use fsarena_run::config::{Config, KEYS, flag};
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

#[derive(Serialize)]
struct SettingRow {
    setting: &'static str,
    value: String,
    from: String,
}

impl Row for SettingRow {
    const COLUMNS: &'static [&'static str] = &["setting", "value", "from"];
}

/// Prints them.
pub fn run(args: Args, cli: &Command) -> Outcome {
    let config = Config::load()?;
    let file = config.path.as_ref().map_or("none: HOME is not set".into(), |path| path.display().to_string());
    let exists = if config.exists { "exists" } else { "does not exist" };
    let mut rows = vec![SettingRow { setting: "config file", value: file, from: exists.into() }];
    rows.extend(KEYS.map(|(key, commands)| row(cli, &config, key, commands)));
    for (setting, name, dir) in [
        ("state directory", "FSARENA_STATE_DIR", fsarena_sys::undo::state_dir()),
        ("cache directory", "FSARENA_CACHE_DIR", fsarena_guest::cache::dir()),
    ] {
        let from = if variable(name).is_some() { name } else { "default" };
        rows.push(SettingRow { setting, value: dir.display().to_string(), from: from.into() });
    }
    output::rows(&rows, args.format)
}

fn row(cli: &Command, config: &Config, key: &'static str, commands: &[&str]) -> SettingRow {
    let commands =
        cli.get_subcommands().filter(|command| commands == ["*"] || commands.contains(&command.get_name()));
    let mut args = cli.get_arguments().chain(commands.flat_map(|command| command.get_arguments()));
    let arg = args.find(|arg| arg.get_long() == Some(flag(key)));
    let environment = match key {
        "color" => {
            output::COLOR_VARIABLES.into_iter().find_map(|name| Some((variable(name)?, name.to_string())))
        }
        _ => arg.and_then(Arg::get_env).and_then(|name| {
            let name = name.to_string_lossy().into_owned();
            Some((variable(&name)?, name))
        }),
    };
    let file = || {
        config
            .get(key)
            .map(|setting| (setting.value.to_string(), format!("config file, line {}", setting.at.0)))
    };
    let default = || {
        let values = arg.map_or(&[][..], Arg::get_default_values);
        let values: Vec<_> = values.iter().map(|value| value.to_string_lossy()).collect();
        (values.join(","), "default".to_string())
    };
    let (value, from) = environment.or_else(file).unwrap_or_else(default);
    SettingRow { setting: key, value, from }
}

/// An environment variable that is not empty.
fn variable(name: &str) -> Option<String> {
    std::env::var_os(name).filter(|value| !value.is_empty()).map(|value| value.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Cli;
    use clap::CommandFactory;

    fn of(text: &str) -> Config {
        Config::parse("config.toml", text).unwrap()
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
            let checked =
                Config::parse("config.toml", text).and_then(|config| config.checked(&Cli::command()));
            let said = checked.unwrap_err().to_string();
            assert!(said.contains(says), "{text}: {said}");
        }
    }
}
