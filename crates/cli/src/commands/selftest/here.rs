//! `fsarena selftest --here`: real identical variants, and variants with more work, on this machine.

mod idle;
mod measured;
mod result;

pub use result::stored_line;

use super::Args;
use crate::failure::{Failure, Outcome};
use crate::flags::ListFormat;
use crate::listing;
use crate::running::{handle_signals, resolved, unstored};
use fsarena_core::exit::ExitCode;
use fsarena_core::factor::SETTING;
use fsarena_core::plan::file::PlanFile;
use fsarena_core::plan::resolve::Overrides;
use fsarena_core::plan::{Backing, Plan};
use fsarena_load::source::{TREE_FILES, TWINS};
use fsarena_run::preflight::RAM;
use fsarena_run::{Keep, Request};
use fsarena_sys::undo::state_dir;
use measured::{MORE, Measured};
use result::Resolution;
use std::time::Duration;

const PLAN: &str = include_str!("plan.toml");

/// Measures, stores what came out, and prints it.
pub fn run(args: &Args) -> Outcome {
    if let Some(further) = args.idle {
        return idle::run(args, further);
    }
    handle_signals()?;
    needs_root()?;
    let request = Request::new(plan(args.seed, budget_of(args), args.files)?, Keep::Nothing(RAM.into()));
    let record = unstored(request, args.quiet, |_| ())?;
    let resolution = Resolution::of(&Measured::of(&record), args.seed);
    resolution.store(&state_dir())?;
    match args.format {
        ListFormat::Json => listing::text(&format!("{:#}\n", resolution.json()))?,
        ListFormat::Term => resolution.print()?,
    }
    Ok(resolution.exit_code())
}

fn needs_root() -> Result<(), Failure> {
    if rustix::process::geteuid().is_root() {
        return Ok(());
    }
    let message = "--here makes and mounts filesystems, which needs root; without --here none is needed";
    Err(Failure::new(ExitCode::Missing, message))
}

/// The time for the measurement: idling takes most of it.
fn budget_of(args: &Args) -> Duration {
    let minutes = if args.idle.is_some() { 120 } else { 5 };
    args.budget.unwrap_or(Duration::from_secs(60 * minutes))
}

/// The plan, each of its variants with its own amount of work: more files, in 10000ths.
fn plan(seed: u64, budget: Duration, files: u64) -> Result<Plan, Failure> {
    let mut over = Overrides {
        seed: Some(seed),
        budget_s: Some(budget.as_secs_f64()),
        backing: Some(Backing::Ram),
        settings: vec![(TREE_FILES.id.into(), files.to_string())],
        ..Overrides::default()
    };
    let mut plan = resolved(&PlanFile::parse("the self-test's plan", PLAN.as_bytes())?, &mut over)?;
    for (variant, (_, percent)) in plan.variants.iter_mut().zip(MORE) {
        variant.levels.insert(format!("{SETTING}{}", TWINS.id), (100 * percent).to_string());
    }
    Ok(plan)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_variant_of_the_plan_has_a_tree() {
        let file = PlanFile::parse("plan", PLAN.as_bytes()).unwrap().file;
        let name =
            |variant: &std::collections::BTreeMap<toml::Spanned<String>, toml::Spanned<toml::Value>>| {
                let (_, name) = variant.iter().find(|(key, _)| key.get_ref() == "name").unwrap();
                name.get_ref().as_str().unwrap().to_string()
            };
        let names: Vec<String> = file.variants.iter().map(name).collect();
        assert_eq!(names, MORE.map(|(name, _)| name));
    }
}
