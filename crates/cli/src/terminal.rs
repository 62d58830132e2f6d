//! What standard output can show.

use crate::config::Setting;
use anstream::AutoStream;
use clap::{ColorChoice, ValueEnum};
use fsarena_report::document::terminal::Screen;
use std::ffi::OsString;

/// Returns what standard output can show.
pub fn screen() -> Screen {
    Screen { width: width(), colour: color() }
}

/// Returns the columns to keep within: those that `COLUMNS` asks for, else the terminal's; none without either.
pub fn width() -> Option<u16> {
    let asked = std::env::var("COLUMNS").ok().and_then(|text| text.parse().ok());
    let terminal = || rustix::termios::tcgetwinsize(std::io::stdout()).ok().map(|size| size.ws_col);
    asked.or_else(terminal).filter(|columns| *columns > 0)
}

/// The environment variables that choose colors, before the config file does.
pub const COLOR_VARIABLES: [&str; 3] = ["NO_COLOR", "CLICOLOR_FORCE", "CLICOLOR"];

/// Applies `--color`, else the config file, before clap parses, so that it holds for help and usage errors too.
pub fn choose_color(args: impl Iterator<Item = OsString>, file: Option<Setting>) {
    let args = args.skip(1).map(|arg| arg.to_string_lossy().into_owned());
    let chosen =
        COLOR_VARIABLES.iter().any(|name| std::env::var_os(name).is_some_and(|value| !value.is_empty()));
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

/// Whether standard output gets colors: as `--color`, `NO_COLOR`, `CLICOLOR_FORCE` and `TERM` say, else on a terminal.
fn color() -> bool {
    AutoStream::choice(&std::io::stdout()) != anstream::ColorChoice::Never
}
