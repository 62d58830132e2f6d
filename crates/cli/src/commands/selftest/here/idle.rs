//! `fsarena selftest --here --idle`: each filesystem right after the idle wait, and after it has idled longer.

use super::{budget_of, needs_root};
use crate::commands::selftest::Args;
use crate::failure::{Failure, Outcome};
use crate::flags::ListFormat;
use crate::listing::{self, Row};
use crate::running::{handle_signals, resolved, unstored};
use fsarena_core::cell::Variant;
use fsarena_core::claim::{Claim, Quantity};
use fsarena_core::plan::file::PlanFile;
use fsarena_core::plan::resolve::Overrides;
use fsarena_core::plan::{Backing, Plan};
use fsarena_core::{factor, matrix, number};
use fsarena_load::source::TREE_FILES;
use fsarena_run::preflight::RAM;
use fsarena_run::{Keep, Request};
use fsarena_stats::judge::{Judged, judge_all};
use fsarena_stats::verdict::{self, Outcome as Of};
use std::time::Duration;

const PLAN: &str = include_str!("idle.toml");
/// By how much the time over all tasks may differ, in per cent.
const WITHIN: f64 = 5.0;

/// Measures, and judges each filesystem.
pub fn run(args: &Args, further: Duration) -> Outcome {
    handle_signals()?;
    needs_root()?;
    let request = Request::new(plan(args, further)?, Keep::Nothing(RAM.into()));
    let record = unstored(request, args.quiet, |_| ())?;
    let judged = judge_all(&record, &record.plan.claims);
    let fs = |judged: &Judged| {
        let name = *judged.claim.variants().first()?;
        let variant = record.variants.iter().find(|variant| variant.name == name)?;
        Some(variant.level(factor::FS).to_string())
    };
    let lines: Vec<Line> = judged.iter().map(|one| Line::of(fs(one).unwrap_or_default(), one)).collect();
    listing::print(&lines, args.format)?;
    if args.format == ListFormat::Term {
        let further = humantime::format_duration(further);
        listing::text(&format!(
            "\nTime over all tasks right after the idle wait, against {further} of idling after it: equivalent within \
             {WITHIN}%?\n"
        ))?;
    }
    Ok(verdict::exit_code(&judged.iter().map(Judged::outcome).collect::<Vec<Of>>()))
}

/// Each filesystem twice, and the claim that it makes no difference.
fn plan(args: &Args, further: Duration) -> Result<Plan, Failure> {
    let further = humantime::format_duration(further).to_string();
    let mut over = Overrides {
        seed: Some(args.seed),
        budget_s: Some(budget_of(args).as_secs_f64()),
        backing: Some(Backing::Ram),
        settings: vec![(TREE_FILES.id.into(), args.files.to_string())],
        factors: vec![
            (factor::FS.into(), args.fs.clone()),
            (factor::FURTHER_IDLE.into(), vec![String::new(), further]),
        ],
        ..Overrides::default()
    };
    let written = PlanFile::parse("the self-test's plan", PLAN.as_bytes())?;
    let variants = matrix::expand(&resolved(&written, &mut over)?);
    over.claims = variants.chunks(2).map(claim).collect();
    resolved(&written, &mut over)
}

/// Right after the idle wait and later are equivalent.
fn claim(pair: &[Variant]) -> String {
    let names: Vec<&str> = pair.iter().map(|variant| variant.name.as_str()).collect();
    Claim::same(Quantity::of_all("elapsed"), names[0], names[names.len() - 1], Some(WITHIN)).text
}

#[derive(serde::Serialize)]
struct Line {
    filesystem: String,
    difference: Option<String>,
    rounds: usize,
    outcome: &'static str,
}

impl Line {
    fn of(filesystem: String, judged: &Judged) -> Line {
        let verdict = judged.verdict;
        let difference = verdict.map(|v| {
            let (low, high) = v.interval;
            let effect = number::signed(v.effect, &[low, high]);
            format!(
                "{effect} [{} to {}]",
                number::signed(low, &[low, high]),
                number::signed(high, &[low, high])
            )
        });
        Line {
            filesystem,
            difference,
            rounds: verdict.map_or(0, |v| v.rounds),
            outcome: judged.outcome().name(),
        }
    }
}

impl Row for Line {
    const HEADS: &'static [&'static str] = &["FILESYSTEM", "DIFFERENCE", "ROUNDS", "EQUIVALENT"];

    fn columns(&self) -> Vec<String> {
        vec![
            self.filesystem.clone(),
            self.difference.clone().unwrap_or_default(),
            self.rounds.to_string(),
            self.outcome.into(),
        ]
    }
}
