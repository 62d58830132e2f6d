//! `fsarena ab`: two variants and everything else as `run` has it.

mod variant;

use crate::commands::run;
use crate::failure::{Failure, Outcome, usage};
use fsarena_core::claim::{Claim, Quantity};
use fsarena_core::plan::resolve::{Overrides, resolve};
use fsarena_core::plan::{Backing, Plan, Written};
use fsarena_core::{factor, matrix, plan::error::PlanError};
use fsarena_run::{vocabulary, work};
use fsarena_sys::kernel::Kernel;
use std::collections::BTreeMap;
use toml::Spanned;

/// Compare two settings, A and B, on one study
///
/// Write a variant as `factor=level,…`: `--a fs=ext4 --b fs=ext4,mkfs=^has_journal`. A level extends to the next
/// `factor=`, so `mount=noatime,nodiratime` is one level; quote a level that contains `factor=` itself. The report
/// begins with B against A: for each metric the difference, its confidence interval, the verdict, the spread within
/// rounds, and the number of rounds that the metric needs. A and B may be equal: that measures the noise of the machine.
///
/// Without --claim, the claim is that B is equivalent to A within --margin, over all tasks and for each metric of the
/// workloads (`fsarena list workloads`). The exit code is 0 if it holds, 3 if it is refuted, 4 if it is inconclusive.
// Both structures are called `Args`, and a group has the name of its structure.
#[derive(Debug, clap::Args)]
#[group(id = "sides")]
#[command(mut_args(hide_refused))]
pub struct Args {
    /// Variant A: `factor=level,…` (list factors: `fsarena list factors`)
    #[arg(long, value_name = "VARIANT", value_parser = variant::parse, help_heading = "Variants")]
    a: variant::Levels,
    /// Variant B
    #[arg(long, value_name = "VARIANT", value_parser = variant::parse, help_heading = "Variants")]
    b: variant::Levels,
    #[command(flatten)]
    run: run::Args,
}

/// What `run` takes and a side says here.
const OF_SIDES: [&str; 6] = ["fs", "options", "mkfs", "mount", "factor", "kernel"];

fn hide_refused(arg: clap::Arg) -> clap::Arg {
    let id = arg.get_id().as_str();
    let refused = OF_SIDES.contains(&id) || ["resume", "after"].contains(&id);
    if refused { arg.hide(true) } else { arg }
}

/// Runs both sides, round by round.
pub fn run(args: Args) -> Outcome {
    let Args { a, b, run } = args;
    if let Some(flag) = run.given.first_of(&OF_SIDES) {
        return usage(format!("{flag} is part of a side here: --a {}=…", flag.trim_start_matches("--")));
    }
    if run.resume.is_some() {
        return usage("a run of two sides is resumed as any other: fsarena run --resume RUN");
    }
    if run.after.is_some() {
        return usage("two sides are one run, without stages");
    }
    run.refuse_ignored(a.contains_key(factor::DIR))?;
    run::run_plan(run, |run| plan([a, b], run))
}

/// The plan that `run` would use, with these two variants.
fn plan(mut sides: [variant::Levels; 2], args: &run::Args) -> Result<Plan, Failure> {
    let mut written = run::read_plan(args)?;
    let mut over = args.overrides()?;
    over.where_it_ran(&written)?;
    let file = &mut written.file;
    if over.backing == Some(Backing::Dir) {
        return usage("directories are sides here: --a dir=PATH --b dir=PATH, without --on");
    }
    // Kernels are found from whatever directory.
    for level in sides.iter_mut().filter_map(|side| side.get_mut(factor::KERNEL)) {
        *level = run::kernel_level(level)?;
    }
    file.factors.clear();
    // They speak of the plan's own variants; of these sides, --claim does.
    file.claims.clear();
    match directories(&sides)? {
        Some(paths) => {
            file.variants.clear();
            over.backing = Some(Backing::Dir);
            over.factors = vec![(factor::DIR.into(), paths)];
        }
        None => file.variants = variants(&sides),
    }
    let plan = resolved(&written, &over)?;
    if !plan.claims.is_empty() {
        return Ok(plan);
    }
    // Who claims nothing has a question all the same; how long to go on depends on it.
    over.claims = question(&plan);
    resolved(&written, &over)
}

/// Whether B is the same as A within the margin, by each main metric of the work.
fn question(plan: &Plan) -> Vec<String> {
    let variants = matrix::expand(plan);
    // 0.07 * 100 is not exactly 7 in binary floating point, hence the rounding.
    let percent = (plan.stop.margin() * 1e8).round() / 1e6;
    let same =
        |metric| Claim::same(Quantity::of_all(metric), &variants[1].name, &variants[0].name, Some(percent));
    work::metrics(plan).into_iter().map(|metric| same(metric).text).collect()
}

fn resolved(written: &Written, over: &Overrides) -> Result<Plan, Failure> {
    let plan = resolve(written, over, &vocabulary::collect(&Kernel::host(), over)?);
    let mut plan = plan.map_err(|error| match error.at {
        // Only what the sides say has no place in the text: see `variants`.
        Some((1, 1)) => PlanError::flag("--a, --b", error.message),
        _ => error,
    })?;
    if over.backing != Some(Backing::Dir) {
        // Filled in where a plan says nothing; here the sides say all.
        plan.factors.clear();
    }
    Ok(plan)
}

/// The two directories, where the sides are directories as they are.
fn directories(sides: &[variant::Levels; 2]) -> Result<Option<Vec<String>>, Failure> {
    let dirs: Vec<&String> = sides.iter().filter_map(|side| side.get(factor::DIR)).collect();
    if dirs.is_empty() {
        return Ok(None);
    }
    if dirs.len() < 2 || sides.iter().any(|side| side.len() > 1) {
        return usage("a side that is a directory has no other factor, and both sides are directories");
    }
    dirs.into_iter().map(|dir| run::absolute_text(dir.as_ref())).collect::<Result<_, _>>().map(Some)
}

type Pairs = BTreeMap<Spanned<String>, Spanned<toml::Value>>;

/// The sides as a plan would have them. They are not in its text: their place is its very beginning, where
/// nothing else can be at fault.
fn variants(sides: &[variant::Levels; 2]) -> Vec<Pairs> {
    let spanned = |key: &str, value: &str| {
        (Spanned::new(0..0, key.to_string()), Spanned::new(0..0, toml::Value::String(value.into())))
    };
    sides
        .iter()
        .zip(names(sides))
        .map(|(side, name)| {
            let levels = side.iter().map(|(key, level)| spanned(key, level));
            levels.chain([spanned("name", &name)]).collect()
        })
        .collect()
}

/// Names each variant by its levels: `ext4`, `ext4/^has_journal`. Equal variants get the suffixes `/a` and `/b`.
fn names(sides: &[variant::Levels; 2]) -> [String; 2] {
    let name = |side: &variant::Levels| {
        let levels =
            factor::in_order(side.iter().filter(|(_, level)| !level.is_empty()).collect(), |(id, _)| id);
        levels.into_iter().map(|(_, level)| level.as_str()).collect::<Vec<_>>().join("/")
    };
    match [name(&sides[0]), name(&sides[1])] {
        [a, b] if a == b => [format!("{a}/a"), format!("{b}/b")],
        names => names,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sides(a: &str, b: &str) -> [variant::Levels; 2] {
        [variant::parse(a).unwrap(), variant::parse(b).unwrap()]
    }

    #[test]
    fn sides_are_named_by_their_levels() {
        assert_eq!(names(&sides("fs=ext4", "fs=ext4,mkfs=^has_journal")), ["ext4", "ext4/^has_journal"]);
        assert_eq!(names(&sides("fs=ext4", "fs=ext4")), ["ext4/a", "ext4/b"]);
    }

    #[test]
    fn directories_stand_alone() {
        assert!(directories(&sides("dir=/a", "fs=ext4")).is_err());
        assert!(directories(&sides("dir=/a,fs=ext4", "dir=/b")).is_err());
        assert_eq!(directories(&sides("dir=/a", "dir=/b")).unwrap().unwrap(), ["/a", "/b"]);
    }
}
