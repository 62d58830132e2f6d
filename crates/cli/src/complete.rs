//! Shell completion: completes the names that arguments accept, from the registries that `fsarena list` reads.

use crate::flags::{RunsDir, flag_value};
use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::{Arg, Command};
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate, PathCompleter, ValueCompleter};
use fsarena_core::study::{self, APPS, STUDIES};
use fsarena_core::{factor, metric::METRICS, plan::Plan, plan::resolve::Overrides, scale::Scale, setting::SettingKind};
use fsarena_fs::filesystems::FILESYSTEMS;
use fsarena_load::workloads::WORKLOADS;
use fsarena_report::exporters::EXPORTERS;
use fsarena_run::{axes, baseline, registry, work};
use fsarena_store::{RunDir, RunSummary};
use std::{ffi::OsStr, path::PathBuf};

/// A value that completes an argument, and its line of help.
type Completion = (String, String);
/// A function that returns the values of an argument, given the text that the user has typed.
type ValuesFn = fn(&str) -> Vec<Completion>;

/// Adds completers to all arguments of the command line. They look values up each time a shell requests completions.
pub fn add_completers(cli: Command) -> Command {
    change_arguments(cli, |arg| match values_fn_for(&arg) {
        Some(values) => {
            let with_paths = takes_paths(&arg);
            arg.add(ArgValueCompleter::new(move |current: &OsStr| complete_argument(values, with_paths, current)))
        }
        None => arg,
    })
}

/// Adds the present values to all arguments as a fixed list, for a shell that does not request completions from fsarena.
pub fn add_fixed_values(cli: Command) -> Command {
    change_arguments(cli, |arg| match values_fn_for(&arg).map(|values| values("")) {
        Some(values) if !values.is_empty() => {
            // clap requires names with a static lifetime. The leak is small: this runs once per process.
            let values = values.into_iter().map(|(value, help)| PossibleValue::new(&*value.leak()).help(help));
            arg.value_parser(PossibleValuesParser::new(values))
        }
        _ => arg,
    })
}

/// Applies `change` to every argument of a command and its subcommands.
fn change_arguments(command: Command, change: fn(Arg) -> Arg) -> Command {
    command.mut_args(change).mut_subcommands(|command| change_arguments(command, change))
}

/// The completions of the text `current`: the values that begin with it, and paths if `with_paths` is set.
fn complete_argument(values: ValuesFn, with_paths: bool, current: &OsStr) -> Vec<CompletionCandidate> {
    let text = current.to_string_lossy();
    let matching = values(&text).into_iter().filter(|(value, _)| value.starts_with(&*text));
    let mut candidates: Vec<CompletionCandidate> =
        matching.map(|(value, help)| CompletionCandidate::new(value).help(Some(help.into()))).collect();
    // If nothing is typed yet, all files of the directory would hide the names.
    if with_paths && (candidates.is_empty() || !text.is_empty()) {
        // In `dir:/srv` the path stands after the colon.
        let path_start = text.find(':').map_or(0, |colon| colon + 1);
        let paths = PathCompleter::any().complete(OsStr::new(&text[path_start..]));
        candidates.extend(paths.into_iter().map(|path| path.add_prefix(&text[..path_start])));
    }
    candidates
}

/// The function that completes an argument, chosen by the name of its value in the help. None if the value is a number,
/// free text or only a path.
fn values_fn_for(arg: &Arg) -> Option<ValuesFn> {
    let accepts_any = arg.get_possible_values().is_empty();
    Some(match (arg.get_id().as_str(), value_name(arg)) {
        ("a" | "b", _) => levels_of_variant,
        // In other commands `--variant` takes the name of a variant of a run.
        ("variant", _) if arg.get_help_heading() == Some("Variants") => levels_of_variant,
        ("baseline", _) => |_| without_help(runs_dir().map_or(vec![], |dir| baseline::baseline_names(&dir))),
        ("engine", _) if accepts_any => |_| choices("engine"),
        ("cache", _) if accepts_any => |_| choices("cache"),
        (_, "STUDY" | "STUDY|PLAN.toml|JOB.fio") => |_| studies(),
        (_, "RUN") => |_| runs(),
        (_, "A" | "B" | "C" | "RUN|published:NAME|FILE.csv") => |_| [runs(), published()].concat(),
        ("what", "WHAT") if accepts_any => |_| [runs(), studies(), filesystems(), published()].concat(),
        (_, "FS,…" | "FS" | "TYPE" | "FILESYSTEM") => |_| filesystems(),
        (_, "SET,…" | "SET") => |_| option_sets(),
        (_, "FACTOR=LEVEL,…") => levels,
        (_, "NAME=VALUE" | "NAME=FROM..TO") => settings,
        (_, "WORKLOAD") => |_| unique(WORKLOADS.iter().map(|workload| (workload.def().id, workload.def().help))),
        (_, "METRIC" | "METRIC,…") => |_| {
            let readings = registry::reading_defs().map(|reading| (reading.id, reading.help));
            unique(METRICS.iter().map(|metric| (metric.spec.id, metric.spec.help)).chain(readings))
        },
        (_, "TASK") => |_| tasks(),
        (_, "TASK=WEIGHT") => |_| with_suffix(tasks(), "="),
        (_, "VARIANT") => |_| without_help(named_or_newest_run().map_or(vec![], |run| run.variants)),
        (_, "STAGE") => |_| {
            let stages = STUDIES.iter().filter_map(|study| study.parse_plan().ok()).flat_map(|plan| plan.file.stages);
            unique(stages.map(|stage| (stage.name, stage.question)))
        },
        (_, "SCALE") => |_| {
            let help = |scale| match scale {
                Scale::Paper => "as published",
                Scale::Quick => "minutes",
                Scale::Tiny => "seconds",
            };
            unique(Scale::ALL.map(|scale| (scale.name(), help(scale))))
        },
        (_, "WHERE") => |_| unique(PLACES),
        (_, "KERNEL" | "GOOD" | "BAD") => |_| unique([("debian:", "newest Debian kernel of a version")]),
        (_, "DEVICE" | "DIR|DEVICE") => |_| {
            let entries = std::fs::read_dir("/dev/disk/by-id").into_iter().flatten().flatten();
            without_help(entries.map(|entry| entry.path().display().to_string()))
        },
        ("format", "FORMAT") => |_| exporters(),
        (_, "FORMAT=PATH") => |_| with_suffix(exporters(), "="),
        _ => return None,
    })
}

/// Whether an argument accepts paths besides names.
fn takes_paths(arg: &Arg) -> bool {
    let name = value_name(arg);
    name.contains('|') || ["RUN", "A", "B", "C", "WHERE", "KERNEL", "DEVICE"].contains(&name)
}

/// The name of an argument's value in the help: `METRIC,…`. For arguments without such a name, a name by their id.
fn value_name(arg: &Arg) -> &str {
    let by_id = match arg.get_id().as_str() {
        "run" | "shards" => "RUN",
        "study" => "STUDY",
        "what" => "WHAT",
        _ => "",
    };
    arg.get_value_names().and_then(|names| names.first()).map_or(by_id, |name| name.as_str())
}

/// The values of `--on`, with their help.
const PLACES: [(&str, &str); 7] = [
    ("loop", "image on disk"),
    ("loop:", "image in a directory"),
    ("ram", "image in memory"),
    ("zram", "compressed memory"),
    ("dir:", "existing directory as it is, without root"),
    ("qemu", "guest kernel, without root"),
    ("exact", "guest that counts instructions instead of time"),
];

/// Names with their help, each name once, in order.
fn unique<N: Into<String>, H: Into<String>>(values: impl IntoIterator<Item = (N, H)>) -> Vec<Completion> {
    let mut completions: Vec<Completion> = vec![];
    for (name, help) in values {
        let name = name.into();
        if !completions.iter().any(|(known, _)| *known == name) {
            completions.push((name, help.into()));
        }
    }
    completions
}

/// Appends a suffix to each name.
fn with_suffix(values: Vec<Completion>, suffix: &str) -> Vec<Completion> {
    values.into_iter().map(|(name, help)| (name + suffix, help)).collect()
}

/// Completes `NAME=VALUE,VALUE`: before the `=` the names, after it the values of the name.
fn complete_pairs(current: &str, names: Vec<(Completion, Vec<String>)>) -> Vec<Completion> {
    let Some((name, typed)) = current.split_once('=') else {
        return with_suffix(names.into_iter().map(|(name, _)| name).collect(), "=");
    };
    let earlier_values = &typed[..typed.rfind(',').map_or(0, |comma| comma + 1)];
    let values = names.into_iter().filter(|((known, _), _)| known == name).flat_map(|(_, values)| values);
    values.map(|value| (format!("{name}={earlier_values}{value}"), String::new())).collect()
}

/// Names without help, each once.
fn without_help(names: impl IntoIterator<Item = String>) -> Vec<Completion> {
    unique(names.into_iter().map(|name| (name, "")))
}

fn studies() -> Vec<Completion> {
    let studies = STUDIES.iter().map(|study| (study.name, study.source));
    unique(studies.chain(APPS.iter().map(|app| (app.name, "plan of an application"))))
}

fn published() -> Vec<Completion> {
    let sets = STUDIES.iter().flat_map(|study| study.published_sets().unwrap_or_default());
    unique(sets.map(|set| (format!("published:{}", set.name()), "published figures")))
}

fn filesystems() -> Vec<Completion> {
    unique(FILESYSTEMS.iter().map(|def| (def.id, def.title)))
}

fn option_sets() -> Vec<Completion> {
    unique(FILESYSTEMS.iter().flat_map(|def| def.option_sets).map(|set| (set.id, set.help)))
}

fn settings(current: &str) -> Vec<Completion> {
    let settings = WORKLOADS.iter().flat_map(|workload| workload.def().settings);
    let pair = |(name, help): Completion| {
        let values = choices(&name).into_iter().map(|(value, _)| value).collect();
        ((name, help), values)
    };
    complete_pairs(current, unique(settings.map(|def| (def.id, def.help))).into_iter().map(pair).collect())
}

/// The words that a setting accepts in any workload.
fn choices(setting: &str) -> Vec<Completion> {
    let settings = WORKLOADS.iter().flat_map(|workload| workload.def().settings);
    let words = settings.filter(|def| def.id == setting).filter_map(|def| match def.kind {
        SettingKind::Choice(words) => Some(words),
        _ => None,
    });
    unique(words.flatten().map(|word| (*word, "")))
}

fn levels(current: &str) -> Vec<Completion> {
    let pair = |def: factor::FactorDef| {
        let levels = match def.id {
            factor::FS => filesystems(),
            factor::OPTIONS => option_sets(),
            _ => unique(def.example_levels.split(", ").filter(|word| !word.contains(' ')).map(|word| (word, ""))),
        };
        ((def.id.into(), def.help.into()), levels.into_iter().map(|(level, _)| level).collect())
    };
    complete_pairs(current, axes::all_factors().into_iter().map(pair).collect())
}

/// Completes a variant, in which a comma separates factors: `fs=ext4,mount=`.
fn levels_of_variant(current: &str) -> Vec<Completion> {
    let (before, last) = current.split_at(current.rfind(',').map_or(0, |comma| comma + 1));
    levels(last).into_iter().map(|(level, help)| (format!("{before}{level}"), help)).collect()
}

fn exporters() -> Vec<Completion> {
    unique(EXPORTERS.iter().map(|exporter| (exporter.id, exporter.help)))
}

/// The words of the line that a shell completes, which it passes after `--`; none outside of completion.
fn completed_words() -> impl Iterator<Item = String> {
    let words = std::env::args_os().skip(1).skip_while(|arg| arg != "--").skip(1);
    words.map(|word| word.to_string_lossy().into_owned())
}

/// The runs directory of the line that a shell completes; None outside of completion.
fn runs_dir() -> Option<PathBuf> {
    completed_words().next()?;
    Some(flag_value("--runs", completed_words()).map_or_else(RunsDir::default_path, PathBuf::from))
}

fn runs() -> Vec<Completion> {
    let stored = runs_dir().and_then(|dir| RunDir::find_all(&dir).ok()).unwrap_or_default();
    unique([("latest".into(), "the newest run")].into_iter().chain(stored.iter().map(|run| (run.id(), ""))))
}

/// The first run that the line names, else the newest run.
fn named_or_newest_run() -> Option<RunSummary> {
    let dir = runs_dir()?;
    let run = completed_words().chain(["latest".into()]).find_map(|word| RunDir::find(&dir, &word).ok())?;
    fsarena_store::read_summary(&run).ok()
}

/// The tasks of the study that the line names, else of the run that it names or of the newest run, else of the default
/// study.
fn tasks() -> Vec<Completion> {
    let named_study = completed_words().find_map(|word| study::find(&word));
    if let Some(run) = named_or_newest_run().filter(|_| named_study.is_none()) {
        return without_help(run.tasks);
    }
    let resolve_study = |study: &study::Study| -> Option<Plan> {
        registry::resolve(&study.parse_plan().ok()?, &Overrides::default()).ok()
    };
    let plan = named_study.or_else(|| study::find(study::DEFAULT_STUDY)).and_then(resolve_study);
    unique(plan.iter().flat_map(work::outline_tasks).map(|task| (task.id.to_string(), task.title)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Cli;
    use clap::CommandFactory;

    /// The names of values that are not completed. A new argument needs a value name that `values_fn_for`
    /// completes, or one of these.
    const NOT_COMPLETED: [&str; 37] = [
        "crc32",
        "[TASK.METRIC=]PERCENT",
        "NAME[=VARIANT]",
        "VARIABLE",
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
    fn every_value_is_completed_or_listed_as_free() {
        let mut commands = vec![Cli::command()];
        while let Some(command) = commands.pop() {
            for arg in command.get_arguments().filter(|arg| arg.get_action().takes_values()) {
                let is_completed = values_fn_for(arg).is_some() || !arg.get_possible_values().is_empty();
                let place = format!("{} {}", command.get_name(), arg.get_id());
                assert!(is_completed || NOT_COMPLETED.contains(&value_name(arg)), "{place} `{}`", value_name(arg));
            }
            commands.extend(command.get_subcommands().cloned());
        }
        add_completers(Cli::command()).debug_assert();
        add_fixed_values(Cli::command()).debug_assert();
    }
}
