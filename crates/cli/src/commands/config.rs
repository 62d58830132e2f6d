//! `fsarena config`: the settings in effect, and where each comes from.

use crate::config::{Config, KEYS, flag};
use crate::output;
use crate::{color, failure::Outcome, flags::ListFormat};
use clap::{Arg, Command};
use fsarena_core::row::Row;
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
        "color" => color::VARIABLES.into_iter().find_map(|name| Some((variable(name)?, name.to_string()))),
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
