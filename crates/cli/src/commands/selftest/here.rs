//! `fsarena selftest --here`: real identical variants, and variants with more work, on this machine.

mod measure;
mod result;

pub use result::stored_line;

use super::Args;
use crate::failure::{Failure, Outcome};
use crate::flags::ListFormat;
use crate::progress::Progress;
use crate::room::Room;
use crate::vocabulary;
use fsarena_core::exit::ExitCode;
use fsarena_core::matrix;
use fsarena_core::plan::file::PlanFile;
use fsarena_core::plan::resolve::{Overrides, resolve};
use fsarena_core::plan::{Backing, Plan};
use fsarena_core::setting::{Settings, Value};
use fsarena_load::source::{TREE_FILES, TWINS};
use fsarena_run::preflight::{self, RAM};
use fsarena_sys::kernel::Kernel;
use fsarena_sys::undo::state_dir;
use result::Resolution;
use std::path::Path;

const PLAN: &str = include_str!("plan.toml");

/// How many files more, in per cent, the variants have; in the order of the plan.
const MORE: [(&str, u64); 5] =
    [("base", 0), ("same", 0), ("1% more files", 1), ("2% more files", 2), ("5% more files", 5)];

/// Measures, stores what came out, and prints it.
pub fn run(args: &Args) -> Outcome {
    let kernel = Kernel::host();
    fsarena_sys::cancel::install()
        .map_err(|error| Failure::new(ExitCode::Internal, format!("signals: {error}")))?;
    if !rustix::process::geteuid().is_root() {
        let message = "--here makes and mounts filesystems, which needs root; without --here none is needed";
        return Err(Failure::new(ExitCode::Missing, message));
    }
    let room = Room::make(Path::new(RAM), "fsarena-selftest")?;
    let plan = plan(args, &kernel)?;
    let variants = matrix::expand(&plan);
    let inputs = with_inputs_of_all(&plan);
    let check = preflight::check(&kernel, &inputs, &variants, Path::new("."))?;
    let mut progress = Progress::new(args.quiet);
    progress.say(&format!("{}: {} variants, {}", plan.title, variants.len(), check.describe()));
    let measured = measure::measure(&kernel, &plan, &inputs, &variants, &check, &room, &mut progress)?;
    room.clear()?;
    let Some(measured) = measured else {
        return Err(Failure::new(ExitCode::Internal, "a signal ended the self-test; nothing is stored"));
    };
    let resolution = Resolution::of(&measured, &kernel, args.seed);
    resolution.store(&state_dir())?;
    match args.format {
        ListFormat::Json => super::print(&format!("{:#}\n", resolution.json()))?,
        ListFormat::Term => resolution.print()?,
    }
    Ok(resolution.exit_code())
}

fn plan(args: &Args, kernel: &Kernel) -> Result<Plan, Failure> {
    let file = PlanFile::parse("the self-test's plan", PLAN.as_bytes())?;
    let over = Overrides {
        seed: Some(args.seed),
        budget_s: Some(args.budget.as_secs_f64()),
        backing: Some(Backing::Ram),
        settings: vec![(TREE_FILES.id.into(), args.files.to_string())],
        ..Overrides::default()
    };
    Ok(resolve("the self-test's plan", &file, &over, &vocabulary::collect(kernel, &over)?)?)
}

/// The same plan with the work of each variant, for which inputs and room are made.
fn with_inputs_of_all(plan: &Plan) -> Plan {
    let mut all = plan.clone();
    let mut amounts = MORE.map(|(_, more)| more).to_vec();
    amounts.dedup();
    let works = amounts.iter().flat_map(|more| plan.workloads.iter().map(|work| (work.clone(), *more)));
    all.workloads = works
        .map(|(mut work, more)| {
            plant(&mut work.settings, more);
            work
        })
        .collect();
    all
}

/// Gives work so many per cent more files.
fn plant(settings: &mut Settings, more_percent: u64) {
    settings.0.insert(TWINS.id.into(), Value::Int(100 * more_percent as i64));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_variant_of_the_plan_has_a_tree() {
        let (file, _) = PlanFile::parse("plan", PLAN.as_bytes()).unwrap();
        let name =
            |variant: &std::collections::BTreeMap<toml::Spanned<String>, toml::Spanned<toml::Value>>| {
                let (_, name) = variant.iter().find(|(key, _)| key.get_ref() == "name").unwrap();
                name.get_ref().as_str().unwrap().to_string()
            };
        let names: Vec<String> = file.variants.iter().map(name).collect();
        assert_eq!(names, MORE.map(|(name, _)| name));
    }
}
