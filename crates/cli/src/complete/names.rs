//! The names that complete arguments.

use crate::{flags::Runs, running, terminal};
use fsarena_core::{
    app::APPS, factor, metric::METRICS, plan::Plan, plan::file::PlanFile, plan::resolve::Overrides,
    scale::Scale, setting::Kind, study, study::STUDIES, study::Study,
};
use fsarena_fs::filesystems::FILESYSTEMS;
use fsarena_load::workloads::WORKLOADS;
use fsarena_report::exporters::EXPORTERS;
use fsarena_run::{axes, vocabulary, work};
use fsarena_store::{RunDir, RunSummary};
use std::path::PathBuf;

/// A value and a line of help.
pub type Value = (String, String);

/// Each name once, in order.
fn unique<N: Into<String>, H: Into<String>>(values: impl IntoIterator<Item = (N, H)>) -> Vec<Value> {
    let mut all: Vec<Value> = vec![];
    for (name, help) in values {
        let name = name.into();
        if !all.iter().any(|(known, _)| *known == name) {
            all.push((name, help.into()));
        }
    }
    all
}

/// The names with something that follows each.
pub fn followed(values: Vec<Value>, by: &str) -> Vec<Value> {
    values.into_iter().map(|(name, help)| (name + by, help)).collect()
}

/// `NAME=` for each of these names, and after that the values of the name. A comma separates several.
fn pairs(current: &str, names: Vec<(Value, Vec<String>)>) -> Vec<Value> {
    let Some((name, given)) = current.split_once('=') else {
        return followed(names.into_iter().map(|(name, _)| name).collect(), "=");
    };
    let before = &given[..given.rfind(',').map_or(0, |comma| comma + 1)];
    let values = names.into_iter().filter(|((known, _), _)| known == name).flat_map(|(_, values)| values);
    values.map(|value| (format!("{name}={before}{value}"), String::new())).collect()
}

pub fn studies() -> Vec<Value> {
    let studies = STUDIES.iter().map(|study| (study.name, study.source));
    unique(studies.chain(APPS.iter().map(|app| (app.name, "plan of an application"))))
}

pub fn published() -> Vec<Value> {
    let sets = STUDIES.iter().flat_map(|study| study.published().unwrap_or_default());
    unique(sets.map(|set| (format!("published:{}", set.name()), "published figures")))
}

pub fn stages() -> Vec<Value> {
    let plans = STUDIES.iter().filter_map(|study| PlanFile::parse(study.name, study.plan.as_bytes()).ok());
    unique(plans.flat_map(|plan| plan.file.stages).map(|stage| (stage.name, stage.question)))
}

pub fn filesystems() -> Vec<Value> {
    unique(FILESYSTEMS.iter().map(|def| (def.id, def.title)))
}

pub fn option_sets() -> Vec<Value> {
    unique(FILESYSTEMS.iter().flat_map(|def| def.options).map(|set| (set.id, set.help)))
}

pub fn workloads() -> Vec<Value> {
    unique(WORKLOADS.iter().map(|workload| (workload.def().id, workload.def().help)))
}

pub fn settings(current: &str) -> Vec<Value> {
    let settings = WORKLOADS.iter().flat_map(|workload| workload.def().settings);
    let pair = |(name, help): Value| {
        let values = choices(&name).into_iter().map(|(value, _)| value).collect();
        ((name, help), values)
    };
    pairs(current, unique(settings.map(|def| (def.id, def.help))).into_iter().map(pair).collect())
}

/// The words that a setting accepts in any workload.
pub fn choices(setting: &str) -> Vec<Value> {
    let settings = WORKLOADS.iter().flat_map(|workload| workload.def().settings);
    let words = settings.filter(|def| def.id == setting).filter_map(|def| match def.kind {
        Kind::Choice(words) => Some(words),
        _ => None,
    });
    unique(words.flatten().map(|word| (*word, "")))
}

pub fn levels(current: &str) -> Vec<Value> {
    let pair = |def: factor::FactorDef| {
        let levels = match def.id {
            factor::FS => filesystems(),
            factor::OPTIONS => option_sets(),
            _ => unique(def.example.split(", ").filter(|word| !word.contains(' ')).map(|word| (word, ""))),
        };
        ((def.id.into(), def.help.into()), levels.into_iter().map(|(level, _)| level).collect())
    };
    pairs(current, axes::factors().into_iter().map(pair).collect())
}

/// The same for a side of `ab`, in which a comma separates factors.
pub fn levels_of_variant(current: &str) -> Vec<Value> {
    let (before, last) = current.split_at(current.rfind(',').map_or(0, |comma| comma + 1));
    levels(last).into_iter().map(|(level, help)| (format!("{before}{level}"), help)).collect()
}

pub fn metrics() -> Vec<Value> {
    let readings = vocabulary::readings().map(|reading| (reading.id, reading.help));
    unique(METRICS.iter().map(|metric| (metric.id, metric.help)).chain(readings))
}

pub fn scales() -> Vec<Value> {
    let help = |scale| match scale {
        Scale::Paper => "as published",
        Scale::Quick => "minutes",
        Scale::Tiny => "seconds",
    };
    unique(Scale::ALL.map(|scale| (scale.name(), help(scale))))
}

pub fn places() -> Vec<Value> {
    unique([
        ("loop", "image on disk"),
        ("loop:", "image in a directory"),
        ("ram", "image in memory"),
        ("zram", "compressed memory"),
        ("dir:", "existing directory as it is, without root"),
        ("qemu", "guest kernel, without root"),
        ("uml", "guest kernel, without root"),
        ("exact", "guest that counts instructions instead of time"),
    ])
}

pub fn devices() -> Vec<Value> {
    let entries = std::fs::read_dir("/dev/disk/by-id").into_iter().flatten().flatten();
    unique(entries.map(|entry| (entry.path().display().to_string(), "")))
}

pub fn exporters() -> Vec<Value> {
    unique(EXPORTERS.iter().map(|exporter| (exporter.id, exporter.help)))
}

/// The words of the line that a shell completes, which stand after `--`; none where no shell does.
fn words() -> impl Iterator<Item = String> {
    let words = std::env::args_os().skip(1).skip_while(|arg| arg != "--").skip(1);
    words.map(|word| word.to_string_lossy().into_owned())
}

/// The runs directory, where a shell completes.
fn runs_dir() -> Option<PathBuf> {
    words().next()?;
    Some(terminal::flag("--runs", words()).map_or_else(Runs::usual, PathBuf::from))
}

pub fn runs() -> Vec<Value> {
    let stored = runs_dir().and_then(|dir| RunDir::all(&dir).ok()).unwrap_or_default();
    unique([("latest".into(), "the newest run")].into_iter().chain(stored.iter().map(|run| (run.id(), ""))))
}

/// The first run that the line names, else the newest.
fn run() -> Option<RunSummary> {
    let dir = runs_dir()?;
    let run = words().chain(["latest".into()]).find_map(|word| RunDir::find(&dir, &word).ok())?;
    fsarena_store::summary(&run).ok()
}

pub fn variants() -> Vec<Value> {
    unique(run().map_or(vec![], |run| run.variants).into_iter().map(|name| (name, "")))
}

/// The tasks of the study that the line names, else of its run, else of the default study.
pub fn tasks() -> Vec<Value> {
    let named = words().find_map(|word| study::find(&word));
    if let Some(run) = run().filter(|_| named.is_none()) {
        return unique(run.tasks.into_iter().map(|name| (name, "")));
    }
    let of_study = |study: &Study| -> Option<Plan> {
        let written = PlanFile::parse(study.name, study.plan.as_bytes()).ok()?;
        running::resolved(&written, &mut Overrides::default()).ok()
    };
    let plan = named.or_else(|| study::find(study::DEFAULT)).and_then(of_study);
    unique(plan.iter().flat_map(work::outline).map(|task| (task.id.to_string(), task.title)))
}
