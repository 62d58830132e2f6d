//! Flags that several commands share, and parsers for the values of flags.

use crate::failure::{Failure, usage_error};
use bytesize::ByteSize;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Arg, ArgMatches, Args, Command, Error, FromArgMatches, ValueEnum, parser::ValueSource};
use fsarena_core::average::Average;
use fsarena_core::exit::ExitCode;
use fsarena_core::{metric::METRICS, names::find_by_id, plan::limits, sample::Unit};
use fsarena_run::config::Config;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub use fsarena_core::setting::parse_size;

/// Format of a listing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ListFormat {
    /// A table for people.
    Term,
    /// JSON for programs.
    Json,
}

/// `--runs`: the directory in which runs are stored.
#[derive(Debug, Clone, clap::Args)]
pub struct RunsDir {
    /// Runs directory, with one directory for each run
    #[arg(
        id = "runs",
        long = "runs",
        value_name = "DIR",
        env = "FSARENA_RUNS",
        hide_env_values = true,
        default_value = "runs",
        global = true
    )]
    pub dir: PathBuf,
}

impl RunsDir {
    /// The runs directory without `--runs`: from the environment, else from the config file, else `runs`.
    pub fn default_path() -> PathBuf {
        let from_file = || Some(Config::load().ok()?.get("runs")?.value.into());
        std::env::var_os("FSARENA_RUNS").or_else(from_file).map_or_else(|| "runs".into(), PathBuf::from)
    }

    /// The flag that a later command needs to find the runs of this one, after a space: ` --runs DIR`. Empty for the
    /// directory that is used without `--runs`.
    pub fn flag_for_later_commands(&self) -> String {
        flag_unless_default(&self.dir, &RunsDir::default_path())
    }
}

/// ` --runs DIR`, or nothing if `dir` is the default.
fn flag_unless_default(dir: &Path, default: &Path) -> String {
    if dir == default { String::new() } else { format!(" --runs {}", dir.display()) }
}

/// The flags of commands that print a report: how it judges and weighs, and what it shows.
#[derive(Debug, Clone, clap::Args)]
pub struct ReportFlags {
    /// Difference under which variants are equivalent, for claims without one [default: the plan's, or 1%]
    #[arg(long, value_name = "PERCENT", value_parser = parse_percent_as_fraction, help_heading = "Report")]
    pub margin: Option<f64>,
    /// Weight of a task in the ranking, by its name or number: `untar=3`; repeatable
    #[arg(long, value_name = "TASK=WEIGHT", value_parser = parse_weight, help_heading = "Report")]
    pub weight: Vec<(String, f64)>,
    /// Variant in use today: the headline keeps it unless another one is significantly better
    #[arg(long, value_name = "VARIANT", help_heading = "Report")]
    pub current: Option<String>,
    /// Print the whole report, not only what fits on a screen
    #[arg(long, help_heading = "Report")]
    pub full: bool,
}

/// The last value of a flag in these arguments, for use before clap parses them.
pub fn flag_value(name: &str, args: impl Iterator<Item = String>) -> Option<String> {
    let (mut args, mut last_value) = (args.take_while(|arg| arg != "--"), None);
    while let Some(arg) = args.next() {
        match arg.strip_prefix(name) {
            Some("") => last_value = args.next(),
            Some(rest) => last_value = rest.strip_prefix('=').map(String::from).or(last_value),
            None => {}
        }
    }
    last_value
}

/// Returns the absolute form of a path. Plans store absolute paths, because a run can be resumed or recovered in another
/// directory.
pub fn absolute_path(path: &Path) -> Result<PathBuf, Failure> {
    std::path::absolute(path).map_err(Failure::for_path(path))
}

/// Makes a path absolute and converts it to text, as plans store it.
pub fn absolute_text(path: &Path) -> Result<String, Failure> {
    absolute_path(path)?.into_os_string().into_string().map_err(|path| {
        let path = PathBuf::from(path);
        let message = format!("{}: fsarena stores paths as text, and this one is not UTF-8", path.display());
        Failure::new(ExitCode::Usage, message)
    })
}

/// The flag of a setting, with its value: `--guest-memory`, `--budget 4m`.
pub fn format_flag(name: &str, value: &str) -> String {
    let flag = format!("--{}", name.replace('_', "-"));
    if value.is_empty() { flag } else { format!("{flag} {value}") }
}

/// Reads a percentage, `1%` or `1`, as a fraction.
pub fn parse_percent_as_fraction(text: &str) -> Result<f64, String> {
    let number: Option<f64> = text.strip_suffix('%').unwrap_or(text).trim().parse().ok();
    match number.map(|percent| limits::check_difference(percent / 100.0)) {
        Some(Ok(fraction)) => Ok(fraction),
        _ => Err("write a percentage above 0% and at most 10000%: `1%`".into()),
    }
}

/// Returns the parser of `typical` and `mean`.
pub fn average_parser() -> impl TypedValueParser<Value = Average> {
    let names = PossibleValuesParser::new(Average::ALL.map(Average::name));
    names.map(|name| Average::from_name(&name).unwrap_or_default())
}

/// Reads `TASK=WEIGHT`; a task may have parameters, in which `=` occurs.
fn parse_weight(text: &str) -> Result<(String, f64), String> {
    let split = text.rsplit_once('=').filter(|(task, _)| !task.is_empty());
    let parsed = split.and_then(|(task, weight)| Some((task.to_string(), weight.parse().ok()?)));
    parsed.ok_or_else(|| "write it TASK=WEIGHT: `untar=3`".into())
}

/// Reads a size as [`ByteSize`]: `4k`, `64KiB`, `1g`.
pub fn parse_byte_size(text: &str) -> Result<ByteSize, String> {
    parse_size(text).map(ByteSize)
}

/// Reads a time: `10s`, `2m`, `500ms`; a plain number is seconds.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let seconds = match text.parse::<f64>() {
        Ok(seconds) => seconds,
        Err(_) => {
            humantime::parse_duration(text).map_err(|error| format!("{error}; write it like 10s or 2m"))?.as_secs_f64()
        }
    };
    limits::checked_duration(seconds)
}

/// Reads the name of a metric or reading. Accepts any name that ends with a unit, because it can be a metric that a command
/// of the run printed.
pub fn parse_metric(text: &str) -> Result<String, String> {
    if Unit::suffixes().any(|suffix| text.ends_with(&format!("_{suffix}"))) {
        return Ok(text.into());
    }
    parse_known_metric(text)
}

/// Reads the name of a metric or reading that fsarena itself measures.
pub fn parse_known_metric(text: &str) -> Result<String, String> {
    let readings = fsarena_run::registry::reading_defs().map(|reading| reading.id);
    let known: Vec<&str> = METRICS.iter().map(|metric| metric.spec.id).chain(readings).collect();
    let metric =
        find_by_id("metric", text, known, |id| id).map_err(|unknown| unknown.with_list_command("fsarena list metrics"));
    Ok(metric?.into())
}

/// `--exit-style`: the exit codes that the program which started fsarena understands.
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
    pub fn from_args(args: impl Iterator<Item = OsString>) -> ExitStyle {
        let args = args.skip(1).map(|arg| arg.to_string_lossy().into_owned());
        let Some(value) = flag_value("--exit-style", args) else { return ExitStyle::default() };
        ExitStyle::from_str(&value, false).unwrap_or(ExitStyle::Bisect)
    }

    /// The code for the operating system.
    pub fn exit_status(self, code: ExitCode) -> u8 {
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

/// The flags and arguments that the user wrote on the command line, without values from defaults, the environment or the config
/// file.
#[derive(Debug)]
pub struct ExplicitFlags(ArgMatches);

impl ExplicitFlags {
    /// The first of these flags that is on the command line, in the form `--max-rounds`; None if none is.
    ///
    /// # Panics
    /// In debug builds, if the command has no argument of that name.
    pub fn first_explicit<'a>(&self, names: impl IntoIterator<Item = &'a str>) -> Option<String> {
        let explicit = names.into_iter().find(|name| self.0.value_source(name) == Some(ValueSource::CommandLine));
        explicit.map(|name| format_flag(name, ""))
    }

    /// The positions of the values of a flag or argument on the command line, in order; empty if the command line does not have
    /// it.
    ///
    /// # Panics
    /// In debug builds, if the command has no argument of that name.
    pub fn positions(&self, name: &str) -> Vec<usize> {
        let is_explicit = self.0.value_source(name) == Some(ValueSource::CommandLine);
        self.0.indices_of(name).filter(|_| is_explicit).into_iter().flatten().collect()
    }

    /// Refuses the first of these flags that is on the command line, with the reason.
    pub fn refuse<'a>(&self, names: impl IntoIterator<Item = &'a str>, why: &str) -> Result<(), Failure> {
        self.first_explicit(names).map_or(Ok(()), |flag| usage_error(format!("{flag}: {why}")))
    }
}

/// Hides an argument from the help if its id is one of these, which are separated by blanks.
pub fn hide_refused(arg: Arg, refused: &str) -> Arg {
    if refused.split(' ').any(|id| arg.get_id() == id) { arg.hide(true) } else { arg }
}

impl FromArgMatches for ExplicitFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<ExplicitFlags, Error> {
        Ok(ExplicitFlags(matches.clone()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = ExplicitFlags::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for ExplicitFlags {
    fn augment_args(command: Command) -> Command {
        command
    }

    fn augment_args_for_update(command: Command) -> Command {
        command
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Cli;
    use crate::commands::{ab, advise, bisect};
    use clap::CommandFactory;

    #[test]
    fn a_later_command_names_only_another_runs_directory() {
        let flag = |dir: &str| flag_unless_default(Path::new(dir), Path::new("runs"));
        assert_eq!([flag("runs"), flag("/srv/runs")], ["", " --runs /srv/runs"]);
    }

    #[test]
    fn a_plain_number_is_seconds() {
        let seconds = |text: &str| parse_duration(text).map(|time| time.as_secs_f64());
        assert_eq!(["10", "0.7", "10s", "500ms"].map(|text| seconds(text).unwrap()), [10.0, 0.7, 10.0, 0.5]);
        assert!(["soon", "-1", "nan", "inf", "1e18", "1000years"].iter().all(|text| seconds(text).is_err()));
    }

    #[test]
    fn the_style_is_read_from_the_arguments_before_the_command() {
        let style = |text: &str| ExitStyle::from_args(text.split(' ').map(OsString::from));
        assert_eq!(style("fsarena ab --exit-style bisect --a x"), ExitStyle::Bisect);
        assert_eq!(style("fsarena ab --exit-style=bisect --nonsense"), ExitStyle::Bisect);
        assert_eq!(style("fsarena ab -- x --exit-style bisect"), ExitStyle::Fsarena);
        assert_eq!(style("fsarena ab --exit-style fsarena"), ExitStyle::Fsarena);
        assert_eq!(style("fsarena ab --exit-style bisct"), ExitStyle::Bisect);
    }

    #[test]
    fn codes_of_git_bisect_run() {
        use ExitCode::{Done, Inconclusive, Internal, Missing, Refused, Refuted, Usage};
        let codes = [Done, Internal, Usage, Refuted, Inconclusive, Refused, Missing];
        assert_eq!(codes.map(|code| ExitStyle::Bisect.exit_status(code)), [0, 128, 128, 1, 125, 128, 128]);
        assert_eq!(codes.map(|code| ExitStyle::Fsarena.exit_status(code)), [0, 1, 2, 3, 4, 5, 6]);
    }

    #[test]
    fn every_refused_name_is_a_flag_of_its_command() {
        let cli = Cli::command();
        let refused = [("ab", ab::REFUSED_FLAGS), ("advise", advise::REFUSED_FLAGS), ("bisect", bisect::REFUSED_FLAGS)];
        for (command, names) in refused {
            let command = cli.find_subcommand(command).unwrap();
            for name in names.split(' ') {
                assert!(command.get_arguments().any(|arg| arg.get_id() == name), "{command} {name}");
            }
        }
    }
}
