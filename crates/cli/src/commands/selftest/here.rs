//! `fsarena selftest --here`: real identical arms, and arms with more work, on this machine.

mod measure;
mod result;
mod trees;

pub use result::stored_line;

use super::Args;
use crate::args::ListFormat;
use crate::failure::{Failure, Outcome};
use crate::progress::Progress;
use crate::room::Room;
use crate::vocabulary;
use fsarena_core::exit::ExitCode;
use fsarena_core::matrix;
use fsarena_core::plan::file::PlanFile;
use fsarena_core::plan::resolve::{Overrides, resolve};
use fsarena_core::plan::{Backing, Plan};
use fsarena_run::preflight::{self, RAM};
use fsarena_sys::kernel::Kernel;
use fsarena_sys::undo::state_dir;
use result::Resolution;
use std::path::Path;
use trees::Trees;

const PLAN: &str = include_str!("plan.toml");

/// How many files more, in per cent, the arms have; in the order of the plan.
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
    let trees = Trees::make(room.dir(), args.files, args.seed)?;
    let plan = plan(args, &kernel, &trees.largest())?;
    let arms = matrix::expand(&plan);
    let check = preflight::check(&kernel, &plan, &arms, Path::new("."))?;
    let mut progress = Progress::new(args.quiet);
    progress.say(&format!("{}: {} arms, {}", plan.title, arms.len(), check.describe()));
    let measured = measure::measure(&kernel, &plan, &arms, &check, &room, &trees, &mut progress)?;
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

fn plan(args: &Args, kernel: &Kernel, tree: &str) -> Result<Plan, Failure> {
    let file = PlanFile::parse("the self-test's plan", PLAN.as_bytes())?;
    let over = Overrides {
        seed: Some(args.seed),
        budget_s: Some(args.budget.as_secs_f64()),
        backing: Some(Backing::Ram),
        // The image is made for the largest; each arm has its own.
        settings: vec![("tree".into(), tree.into())],
        ..Overrides::default()
    };
    Ok(resolve("the self-test's plan", &file, &over, &vocabulary::collect(kernel, &over)?)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_arm_of_the_plan_has_a_tree() {
        let (file, _) = PlanFile::parse("plan", PLAN.as_bytes()).unwrap();
        let name = |arm: &std::collections::BTreeMap<toml::Spanned<String>, toml::Spanned<toml::Value>>| {
            let (_, name) = arm.iter().find(|(key, _)| key.get_ref() == "name").unwrap();
            name.get_ref().as_str().unwrap().to_string()
        };
        let names: Vec<String> = file.arms.iter().map(name).collect();
        assert_eq!(names, MORE.map(|(name, _)| name));
    }
}
