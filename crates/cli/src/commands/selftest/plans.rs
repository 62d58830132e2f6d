//! The plans by which fsarena measures its own errors on this machine: what it can resolve, whether the idle wait is long
//! enough, and whether the same work takes the same number of instructions.

use crate::failure::Failure;
use fsarena_core::claim::{Claim, Quantity};
use fsarena_core::plan::file::PlanFile;
use fsarena_core::plan::resolve::Overrides;
use fsarena_core::plan::{Backing, Emulator, GuestPlan, Plan};
use fsarena_core::{cell::Variant, factor, matrix};
use fsarena_load::source::{TREE_FILES, TWINS};
use fsarena_run::registry;
use std::time::Duration;

/// How many files more, in per cent, the variants of [`resolution`] have, in their order. The first two are identical.
pub const MORE: [u64; 5] = [0, 0, 1, 2, 5];
/// By how much the time over all tasks may differ after further idling, in per cent.
pub const WITHIN: f64 = 5.0;

/// The size of a self-test in memory.
#[derive(Debug, Clone, Copy)]
pub struct Size {
    /// The random seed.
    pub seed: u64,
    /// The time that it may take.
    pub budget: Duration,
    /// Files of the tree.
    pub files: u64,
}

impl Size {
    fn overrides(self) -> Overrides {
        Overrides {
            seed: Some(self.seed),
            budget_s: Some(self.budget.as_secs_f64()),
            backing: Some(Backing::Ram),
            settings: vec![(TREE_FILES.id.into(), self.files.to_string())],
            ..Overrides::default()
        }
    }
}

fn resolved(text: &str, over: &Overrides) -> Result<Plan, Failure> {
    Ok(registry::resolve(&PlanFile::parse("the self-test's plan", text.as_bytes())?, over)?)
}

/// Variants with identical work, and with [`MORE`] of it.
///
/// # Errors
/// Where this machine cannot make the filesystem.
pub fn resolution(size: Size) -> Result<Plan, Failure> {
    let mut plan = resolved(include_str!("resolution.toml"), &size.overrides())?;
    for (variant, percent) in plan.variants.iter_mut().zip(MORE) {
        // The setting is in 10000ths.
        variant.levels.insert(format!("{}{}", factor::SETTING, TWINS.id), (100 * percent).to_string());
    }
    Ok(plan)
}

/// Each filesystem right after the idle wait and after `further` time, and the claim that it makes no difference.
///
/// # Errors
/// Where this machine cannot make one of the filesystems.
pub fn idle(size: Size, filesystems: Vec<String>, further: Duration) -> Result<Plan, Failure> {
    let further = humantime::format_duration(further).to_string();
    let factors =
        vec![(factor::FS.into(), filesystems), (factor::FURTHER_IDLE.into(), vec![String::new(), further])];
    let mut over = Overrides { factors, ..size.overrides() };
    let text = include_str!("idle.toml");
    let same = |pair: &[Variant]| {
        let [first, last] = [&pair[0], &pair[pair.len() - 1]].map(|variant| variant.name.as_str());
        Claim::same(Quantity::of_all("elapsed"), first, last, Some(WITHIN)).text
    };
    over.claims = matrix::expand(&resolved(text, &over)?).chunks(2).map(same).collect();
    resolved(text, &over)
}

/// One round that has every variant `repeats` times, in guests that count instructions. The cells of a round share a seed,
/// so all do the same work.
///
/// # Errors
/// Where the plan cannot be resolved here.
pub fn exact(seed: u64, repeats: usize) -> Result<Plan, Failure> {
    let over = Overrides {
        seed: Some(seed),
        backing: Some(Backing::Guest(GuestPlan::of(Emulator::Exact))),
        ..Overrides::default()
    };
    let mut plan = resolved(include_str!("exact.toml"), &over)?;
    let again = |variant: &Variant, time| Variant {
        name: format!("{}, {time}", variant.name),
        levels: variant.levels.clone(),
    };
    let variants = matrix::expand(&plan);
    plan.variants =
        variants.iter().flat_map(|variant| (1..=repeats).map(|time| again(variant, time))).collect();
    plan.title = format!("{}, {repeats} times", plan.title);
    Ok(plan)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_variant_of_the_plan_has_a_tree() {
        let plan: toml::Table = toml::from_str(include_str!("resolution.toml")).unwrap();
        let variants = plan["variant"].as_array().unwrap().iter();
        let names: Vec<&str> = variants.map(|variant| variant["name"].as_str().unwrap()).collect();
        let more = MORE[2..].iter().map(|percent| format!("{percent}% more files"));
        assert_eq!(MORE[..2], [0, 0]);
        assert_eq!(names, ["base".into(), "same".into()].into_iter().chain(more).collect::<Vec<String>>());
    }
}
