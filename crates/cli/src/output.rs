//! Prints the results of commands to standard output (rows, pages, JSON and text) and messages to standard error. Also finds the
//! width and colors of the terminal.

use crate::failure::{CommandResult, Failure, printing_failure};
use crate::flags::{ListFormat, flag_value};
use crate::terminal::rows::lay_out_table;
use anstream::AutoStream;
use clap::{ColorChoice, ValueEnum};
use fsarena_core::{exit::ExitCode, row::Row};
use fsarena_report::document::terminal::Screen;
use fsarena_report::page::Page;
use fsarena_run::config::Setting;
use serde::Serialize;
use std::ffi::OsString;
use std::io::{self, Write};

/// Prints rows as a table for people or as a JSON array for programs.
pub fn print_rows<R: Row>(rows: &[R], format: ListFormat) -> CommandResult {
    match format {
        ListFormat::Json => print_json(rows),
        ListFormat::Term => print_text(lay_out_table(rows, width()).map_err(serialization_failure)?),
    }
}

/// Prints a page, such as a comparison or a history, in a format.
pub fn print_page(page: &Page, format: &str) -> CommandResult {
    let mut out = Vec::new();
    page.write(format, screen(), &mut out)?;
    print_text(out)
}

/// Prints JSON for programs.
pub fn print_json(value: &(impl Serialize + ?Sized)) -> CommandResult {
    print_text(serde_json::to_string_pretty(value).map_err(serialization_failure)? + "\n")
}

/// Prints text as it is. Returns [`ExitCode::Done`].
pub fn print_text(text: impl AsRef<[u8]>) -> CommandResult {
    io::stdout().lock().write_all(text.as_ref()).map_err(printing_failure)?;
    Ok(ExitCode::Done)
}

/// The failure to serialize a value for output.
pub fn serialization_failure(error: serde_json::Error) -> Failure {
    printing_failure(io::Error::other(error))
}

/// Returns the width of standard output, and whether it shows colors, by `--color`, `NO_COLOR`, `CLICOLOR_FORCE` and
/// `CLICOLOR`. By default a terminal shows colors, unless `TERM` is `dumb`.
pub fn screen() -> Screen {
    Screen { width: width(), has_colour: AutoStream::choice(&io::stdout()) != anstream::ColorChoice::Never }
}

/// Returns the width of the output in columns: the value of `COLUMNS`, else the width of the terminal; None without either.
pub fn width() -> Option<u16> {
    let terminal_width = rustix::termios::tcgetwinsize(std::io::stdout()).ok().map(|size| size.ws_col);
    choose_width(std::env::var("COLUMNS").ok(), terminal_width)
}

/// Returns the value of `COLUMNS` if it is a width, else the width of the terminal. A width of 0 counts as unknown.
fn choose_width(columns_variable: Option<String>, terminal_width: Option<u16>) -> Option<u16> {
    let variable_width = columns_variable.and_then(|text| text.parse().ok());
    [variable_width, terminal_width].into_iter().flatten().find(|columns| *columns > 0)
}

/// The environment variables that choose colors, with a value that is not empty. They override the config file. `TERM` is not
/// among them, because it only describes the terminal.
pub const COLOR_VARIABLES: [&str; 3] = ["NO_COLOR", "CLICOLOR_FORCE", "CLICOLOR"];

/// Applies `--color`, or else the setting `color` of the config file. This happens before clap parses the command line,
/// so that it holds for help and usage errors too.
pub fn apply_color_choice(args: impl Iterator<Item = OsString>, config_setting: Option<Setting>) {
    let args = args.skip(1).map(|arg| arg.to_string_lossy().into_owned());
    let is_set = |name: &&str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let is_chosen_by_variable = COLOR_VARIABLES.iter().any(is_set);
    let config_value = config_setting.filter(|_| !is_chosen_by_variable).map(|setting| setting.value.to_string());
    let Some(value) = flag_value("--color", args).or(config_value) else { return };
    let choice = match ColorChoice::from_str(&value, false) {
        Ok(ColorChoice::Auto) => anstream::ColorChoice::Auto,
        Ok(ColorChoice::Always) => anstream::ColorChoice::Always,
        Ok(ColorChoice::Never) => anstream::ColorChoice::Never,
        // clap reports the error.
        Err(_) => return,
    };
    choice.write_global();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_terminal_determines_the_width_if_the_variable_is_zero_or_not_a_number() {
        for variable in [None, Some("0"), Some("wide")] {
            assert_eq!(choose_width(variable.map(String::from), Some(80)), Some(80), "{variable:?}");
        }
        assert_eq!(choose_width(Some("40".into()), Some(80)), Some(40));
        assert_eq!(choose_width(Some("0".into()), Some(0)), None);
    }
}
