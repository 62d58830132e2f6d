//! `fsarena selftest --here`: real identical variants, and variants with more work, on this machine; with `--idle`, each
//! filesystem right after the idle wait, and after it has idled longer.

use crate::failure::{Failure, Outcome};
use crate::flags::{ListFormat, time};
use crate::output;
use crate::running::{handle_signals, resolved, unstored};
use fsarena_core::claim::{Claim, Quantity};
use fsarena_core::number::signed;
use fsarena_core::plan::{Backing, Plan, Written};
use fsarena_core::row::Row;
use fsarena_core::{
    cell::Variant, exit::ExitCode, factor, matrix, plan::file::PlanFile, plan::resolve::Overrides,
    record::RunRecord,
};
use fsarena_load::source::{TREE_FILES, TWINS};
use fsarena_report::resolution::{MORE, Resolution};
use fsarena_run::{Keep, Request, preflight::RAM};
use fsarena_stats::judge::{Judged, judge_all};
use fsarena_stats::verdict;
use fsarena_sys::undo::state_dir;
use serde_json::json;
use std::time::Duration;

/// The file in the state directory that keeps the result.
const FILE: &str = "selftest.json";
/// By how much the time over all tasks may differ after further idling, in per cent.
const WITHIN: f64 = 5.0;

/// The flags of the measurement.
#[derive(Debug, clap::Args)]
pub struct Here {
    /// Time for the measurement, with --here [default: 5m, 2h with --idle]
    #[arg(long, value_name = "TIME", value_parser = time, requires = "here", conflicts_with = "exact")]
    budget: Option<Duration>,
    /// Check the idle wait against that much idling after it, with --here [default: 60s]
    #[arg(long, value_name = "TIME", num_args = 0..=1, default_missing_value = "60s", value_parser = time, requires = "here", conflicts_with = "exact")]
    idle: Option<Duration>,
    /// Filesystems to check, with --idle
    #[arg(
        long,
        value_name = "FS,…",
        value_delimiter = ',',
        default_value = "ext4,xfs,btrfs",
        requires = "idle",
        conflicts_with = "exact"
    )]
    fs: Vec<String>,
    /// Number of files in the tree, with --here
    #[arg(long, value_name = "N", default_value_t = 2_000, value_parser = clap::value_parser!(u64).range(100..=100_000), requires = "here", conflicts_with = "exact")]
    files: u64,
}

/// Measures, stores what came out, and prints it.
pub fn run(args: &Here, seed: u64, quiet: bool, format: ListFormat) -> Outcome {
    handle_signals()?;
    if !rustix::process::geteuid().is_root() {
        let message = "--here makes and mounts filesystems, which needs root; without --here none is needed";
        return Err(Failure::new(ExitCode::Missing, message));
    }
    let plan = match args.idle {
        Some(further) => idle_plan(args, seed, further)?,
        None => plan(args, seed)?,
    };
    let record = unstored(Request::new(plan, Keep::Nothing(RAM.into())), quiet, |_| ())?;
    if let Some(further) = args.idle {
        return judge_idle(&record, further, format);
    }
    let resolution = Resolution::of(&record, seed);
    keep(&resolution)?;
    match format {
        ListFormat::Json => output::json(&json!(resolution))?,
        ListFormat::Term => {
            output::rows(&resolution.noise, ListFormat::Term)?;
            output::text("\n")?;
            output::rows(&resolution.power, ListFormat::Term)?;
            output::text(format!("\n{}\n", resolution.words()))?
        }
    };
    Ok(resolution.exit_code())
}

/// What flags say over the plans of this test: idling takes most of its time.
fn overrides(args: &Here, seed: u64) -> Overrides {
    let minutes = if args.idle.is_some() { 120 } else { 5 };
    Overrides {
        seed: Some(seed),
        budget_s: Some(args.budget.unwrap_or(Duration::from_secs(60 * minutes)).as_secs_f64()),
        backing: Some(Backing::Ram),
        settings: vec![(TREE_FILES.id.into(), args.files.to_string())],
        ..Overrides::default()
    }
}

fn written(plan: &str) -> Result<Written, Failure> {
    Ok(PlanFile::parse("the self-test's plan", plan.as_bytes())?)
}

/// The plan, each of its variants with its own amount of work: more files, in 10000ths.
fn plan(args: &Here, seed: u64) -> Result<Plan, Failure> {
    let mut plan = resolved(&written(include_str!("plan.toml"))?, &mut overrides(args, seed))?;
    for (variant, percent) in plan.variants.iter_mut().zip(MORE) {
        variant.levels.insert(format!("{}{}", factor::SETTING, TWINS.id), (100 * percent).to_string());
    }
    Ok(plan)
}

/// Keeps the result for reports. Renamed into place: a reader finds all of it or none.
fn keep(resolution: &Resolution) -> Result<(), Failure> {
    let (file, new) = (state_dir().join(FILE), state_dir().join(format!("{FILE}.new")));
    std::fs::write(&new, format!("{:#}\n", json!(resolution))).map_err(Failure::file(&new))?;
    std::fs::rename(&new, &file).map_err(Failure::file(&file))
}

/// What a report of a run on this machine quotes of the kept result.
pub fn quoted(record: &RunRecord) -> Option<String> {
    let stored = std::fs::read(state_dir().join(FILE)).ok()?;
    serde_json::from_slice::<Resolution>(&stored).ok()?.quoted(record)
}

/// Each filesystem twice, and the claim that it makes no difference.
fn idle_plan(args: &Here, seed: u64, further: Duration) -> Result<Plan, Failure> {
    let further = humantime::format_duration(further).to_string();
    let factors = vec![
        (factor::FS.into(), args.fs.clone()),
        (factor::FURTHER_IDLE.into(), vec![String::new(), further]),
    ];
    let mut over = Overrides { factors, ..overrides(args, seed) };
    let written = written(include_str!("idle.toml"))?;
    let variants = matrix::expand(&resolved(&written, &mut over)?);
    over.claims = variants.chunks(2).map(claim).collect();
    resolved(&written, &mut over)
}

/// Right after the idle wait and later are equivalent.
fn claim(pair: &[Variant]) -> String {
    let names: Vec<&str> = pair.iter().map(|variant| variant.name.as_str()).collect();
    Claim::same(Quantity::of_all("elapsed"), names[0], names[names.len() - 1], Some(WITHIN)).text
}

fn judge_idle(record: &RunRecord, further: Duration, format: ListFormat) -> Outcome {
    let judged = judge_all(record, &record.plan.claims);
    let lines: Vec<Line> = judged.iter().map(|one| Line::of(record, one)).collect();
    output::rows(&lines, format)?;
    if format == ListFormat::Term {
        let further = humantime::format_duration(further);
        output::text(format!(
            "\nTime over all tasks right after the idle wait, against {further} of idling after it: equivalent within \
             {WITHIN}%?\n"
        ))?;
    }
    Ok(verdict::exit_code(&judged.iter().map(Judged::outcome).collect::<Vec<_>>()))
}

#[derive(serde::Serialize)]
struct Line {
    filesystem: String,
    difference: Option<String>,
    rounds: usize,
    outcome: &'static str,
}

impl Line {
    fn of(record: &RunRecord, judged: &Judged) -> Line {
        let names = judged.claim.variants();
        let variant = record.variants.iter().find(|variant| names.first() == Some(&variant.name.as_str()));
        let difference = judged.verdict.map(|v| {
            let [effect, low, high] =
                [v.effect, v.interval.0, v.interval.1].map(|x| signed(x, &[v.interval.0, v.interval.1]));
            format!("{effect} [{low} to {high}]")
        });
        Line {
            filesystem: variant.map_or(String::new(), |variant| variant.level(factor::FS).to_string()),
            difference,
            rounds: judged.verdict.map_or(0, |verdict| verdict.rounds),
            outcome: judged.outcome().name(),
        }
    }
}

impl Row for Line {
    const COLUMNS: &'static [&'static str] = &["filesystem", "difference", "rounds", "outcome: EQUIVALENT"];
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_variant_of_the_plan_has_a_tree() {
        let plan: toml::Table = toml::from_str(include_str!("plan.toml")).unwrap();
        let variants = plan["variant"].as_array().unwrap().iter();
        let names: Vec<&str> = variants.map(|variant| variant["name"].as_str().unwrap()).collect();
        let more = MORE[2..].iter().map(|percent| format!("{percent}% more files"));
        assert_eq!(MORE[..2], [0, 0]);
        assert_eq!(names, ["base".into(), "same".into()].into_iter().chain(more).collect::<Vec<String>>());
    }
}
