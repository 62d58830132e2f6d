//! `--color`, before clap parses the line.

use clap::{ColorChoice, ValueEnum};
use fsarena_run::config::Setting;
use std::ffi::OsString;

/// The environment variables that choose colors, before the config file does.
pub const VARIABLES: [&str; 3] = ["NO_COLOR", "CLICOLOR_FORCE", "CLICOLOR"];

/// Applies `--color`, else the config file, before clap parses, so that it holds for help and usage errors too.
pub fn choose(args: impl Iterator<Item = OsString>, file: Option<Setting>) {
    let args = args.skip(1).map(|arg| arg.to_string_lossy().into_owned());
    let chosen = VARIABLES.iter().any(|name| std::env::var_os(name).is_some_and(|value| !value.is_empty()));
    let file = file.filter(|_| !chosen).map(|setting| setting.value.to_string());
    let asked = flag("--color", args).or(file);
    if let Some(choice) = asked.and_then(|value| ColorChoice::from_str(&value, false).ok()) {
        match choice {
            ColorChoice::Auto => anstream::ColorChoice::Auto,
            ColorChoice::Always => anstream::ColorChoice::Always,
            ColorChoice::Never => anstream::ColorChoice::Never,
        }
        .write_global();
    }
}

/// The last value of a flag in these arguments, before clap parses them.
pub fn flag(name: &str, args: impl Iterator<Item = String>) -> Option<String> {
    let (mut args, mut last) = (args.take_while(|arg| arg != "--"), None);
    while let Some(arg) = args.next() {
        match arg.strip_prefix(name) {
            Some("") => last = args.next(),
            Some(rest) => last = rest.strip_prefix('=').map(String::from).or(last),
            None => {}
        }
    }
    last
}
