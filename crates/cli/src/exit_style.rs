//! `--exit-style`: the exit codes that the program which started fsarena understands.

use crate::output::flag_value;
use clap::ValueEnum;
use fsarena_core::exit::ExitCode;
use std::ffi::OsString;

/// How exit codes are translated.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum ExitStyle {
    /// The documented codes.
    #[default]
    Fsarena,
    /// The codes of `git bisect run`: 0 for a good commit, 1 for a bad one, 125 to skip it, 128 to stop the bisection.
    Bisect,
}

impl ExitStyle {
    /// The style that the arguments choose. They are read before clap parses them, because a wrong command line must not end in
    /// the code of a bad commit. So a misspelled style counts as [`ExitStyle::Bisect`]: clap then refuses it with 128.
    pub fn of_args(args: impl Iterator<Item = OsString>) -> ExitStyle {
        let args = args.skip(1).map(|arg| arg.to_string_lossy().into_owned());
        let Some(value) = flag_value("--exit-style", args) else { return ExitStyle::default() };
        ExitStyle::from_str(&value, false).unwrap_or(ExitStyle::Bisect)
    }

    /// The code for the operating system.
    pub fn code(self, code: ExitCode) -> u8 {
        match (self, code) {
            (ExitStyle::Fsarena, code) => code.code(),
            (ExitStyle::Bisect, ExitCode::Done) => 0,
            (ExitStyle::Bisect, ExitCode::Refuted) => 1,
            (ExitStyle::Bisect, ExitCode::Inconclusive) => 125,
            // git stops at codes from 128 on.
            (ExitStyle::Bisect, _) => 128,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_style_is_read_from_the_arguments_before_the_command() {
        let style = |text: &str| ExitStyle::of_args(text.split(' ').map(OsString::from));
        assert_eq!(style("fsarena ab --exit-style bisect --a x"), ExitStyle::Bisect);
        assert_eq!(style("fsarena ab --exit-style=bisect --nonsense"), ExitStyle::Bisect);
        assert_eq!(style("fsarena ab -- x --exit-style bisect"), ExitStyle::Fsarena);
        assert_eq!(style("fsarena ab --exit-style fsarena"), ExitStyle::Fsarena);
        assert_eq!(style("fsarena ab --exit-style bisct"), ExitStyle::Bisect);
    }

    #[test]
    fn codes_of_git_bisect_run() {
        use ExitCode::{Done, Inconclusive, Internal, Missing, Refused, Refuted, Usage};
        let all = [Done, Internal, Usage, Refuted, Inconclusive, Refused, Missing];
        assert_eq!(all.map(|code| ExitStyle::Bisect.code(code)), [0, 128, 128, 1, 125, 128, 128]);
        assert_eq!(all.map(|code| ExitStyle::Fsarena.code(code)), [0, 1, 2, 3, 4, 5, 6]);
    }
}
