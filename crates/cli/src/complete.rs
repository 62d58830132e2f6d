//! Shell completion: every argument that takes names offers them, from the registries that `fsarena list` reads.

mod names;

use clap::{Arg, Command, builder::PossibleValue, builder::PossibleValuesParser};
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate, PathCompleter, ValueCompleter};
use names::Value;
use std::ffi::OsStr;

/// The values that continue a text.
type Values = fn(&str) -> Vec<Value>;

/// The command line. Its arguments look their values up whenever a shell asks.
pub fn command(cli: Command) -> Command {
    each(cli, |arg| match values(&arg) {
        Some(values) => {
            let paths = takes_paths(&arg);
            arg.add(ArgValueCompleter::new(move |current: &OsStr| candidates(values, paths, current)))
        }
        None => arg,
    })
}

/// The command line with the values of today, for a shell that does not ask.
pub fn fixed(cli: Command) -> Command {
    each(cli, |arg| match values(&arg).map(|values| values("")) {
        Some(values) if !values.is_empty() => {
            // clap takes names that live as long as the process; this is done once in it.
            let values =
                values.into_iter().map(|(value, help)| PossibleValue::new(&*value.leak()).help(help));
            arg.value_parser(PossibleValuesParser::new(values))
        }
        _ => arg,
    })
}

fn each(command: Command, change: fn(Arg) -> Arg) -> Command {
    command.mut_args(change).mut_subcommands(|command| each(command, change))
}

fn candidates(values: Values, paths: bool, current: &OsStr) -> Vec<CompletionCandidate> {
    let text = current.to_string_lossy();
    let fits = values(&text).into_iter().filter(|(value, _)| value.starts_with(&*text));
    let mut found: Vec<CompletionCandidate> =
        fits.map(|(value, help)| CompletionCandidate::new(value).help(Some(help.into()))).collect();
    if paths && (found.is_empty() || !text.is_empty()) {
        // In `dir:/srv` the path stands after the colon.
        let at = text.find(':').map_or(0, |colon| colon + 1);
        let below = PathCompleter::any().complete(OsStr::new(&text[at..]));
        found.extend(below.into_iter().map(|path| path.add_prefix(&text[..at])));
    }
    found
}

/// What an argument accepts, by the name of its value in the help; none where that is a number, a free text or a path.
fn values(arg: &Arg) -> Option<Values> {
    Some(match (arg.get_id().as_str(), value_name(arg)) {
        ("a" | "b", _) => names::levels_of_variant,
        ("engine" | "cache", _) if arg.get_possible_values().is_empty() => match arg.get_id().as_str() {
            "engine" => |_| names::choices("engine"),
            _ => |_| names::choices("cache"),
        },
        (_, "STUDY" | "STUDY|PLAN.toml") => |_| names::studies(),
        (_, "RUN") => |_| names::runs(),
        (_, "A" | "B" | "C" | "RUN|published:NAME|FILE.csv") => {
            |_| [names::runs(), names::published()].concat()
        }
        ("what", "WHAT") if arg.get_possible_values().is_empty() => {
            |_| [names::runs(), names::studies(), names::published()].concat()
        }
        (_, "FS,…") => |_| names::filesystems(),
        (_, "TYPE") => |_| names::filesystems(),
        (_, "SET,…") => |_| names::option_sets(),
        (_, "FACTOR=LEVEL,…") => names::levels,
        (_, "NAME=VALUE") => names::settings,
        (_, "WORKLOAD") => |_| names::workloads(),
        (_, "METRIC" | "METRIC,…") => |_| names::metrics(),
        (_, "TASK") => |_| names::tasks(),
        (_, "TASK=WEIGHT") => |_| names::followed(names::tasks(), "="),
        (_, "VARIANT") => |_| names::variants(),
        (_, "STAGE") => |_| names::stages(),
        (_, "SCALE") => |_| names::scales(),
        (_, "WHERE") => |_| names::places(),
        (_, "KERNEL") => |_| vec![("debian:".into(), "newest Debian kernel of a version".into())],
        (_, "DEVICE" | "DIR|DEVICE") => |_| names::devices(),
        ("format", "FORMAT") => |_| names::exporters(),
        (_, "FORMAT=PATH") => |_| names::followed(names::exporters(), "="),
        _ => return None,
    })
}

/// Whether it accepts paths besides names.
fn takes_paths(arg: &Arg) -> bool {
    let name = value_name(arg);
    name.contains('|') || ["RUN", "A", "B", "C", "WHERE", "KERNEL", "DEVICE"].contains(&name)
}

/// `METRIC,…`; an argument without one is called by its own name.
fn value_name(arg: &Arg) -> &str {
    let own = match arg.get_id().as_str() {
        "run" | "shards" => "RUN",
        "study" => "STUDY",
        "what" => "WHAT",
        _ => "",
    };
    arg.get_value_names().and_then(|names| names.first()).map_or(own, |name| name.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Cli;
    use clap::CommandFactory;

    /// Whoever adds an argument gives it one of the names that are completed, or adds to these.
    const FREE: [&str; 34] = [
        "N",
        "N,…",
        "SIZE",
        "SIZE,…",
        "TIME",
        "PERCENT",
        "PORT",
        "I/N",
        "0|1",
        "BYTES/s",
        "ADDRESS",
        "TOKEN",
        "URL",
        "HOST:PORT",
        "NAME|PID|DIR",
        "TEXT",
        "COMMAND",
        "[NAME=]COMMAND",
        "ARGS",
        "OPTIONS",
        "CLAIM",
        "RULE",
        "NAME",
        "KIND",
        "KIND,…",
        "OPERATION,…",
        "MODE,…",
        "DIR",
        "FILE",
        "PATH",
        "WHEN",
        "WHAT",
        "STATE",
        "FORMAT",
    ];

    #[test]
    fn every_value_is_completed_or_free() {
        let mut all = vec![Cli::command()];
        while let Some(command) = all.pop() {
            for arg in command.get_arguments().filter(|arg| arg.get_action().takes_values()) {
                let known = values(arg).is_some() || !arg.get_possible_values().is_empty();
                let place = format!("{} {}", command.get_name(), arg.get_id());
                assert!(known || FREE.contains(&value_name(arg)), "{place} `{}`", value_name(arg));
            }
            all.extend(command.get_subcommands().cloned());
        }
        command(Cli::command()).debug_assert();
        fixed(Cli::command()).debug_assert();
    }
}
