//! The plans of the self-tests on this machine: the smallest detectable difference, the length of the idle wait, and the
//! number of instructions of the same work.

use crate::failure::Failure;
use fsarena_core::claim::{Claim, Quantity};
use fsarena_core::plan::file::PlanFile;
use fsarena_core::plan::resolve::Overrides;
use fsarena_core::plan::{Backing, Emulator, GuestPlan, Plan};
use fsarena_core::{cell::Variant, factor, matrix};
use fsarena_load::source::{TREE_FILES, TWINS};
use fsarena_run::registry;
use std::time::Duration;

/// The additional files of each variant of [`resolution_plan`], in percent. The first two variants are identical.
pub const MORE_FILES_PERCENT: [u64; 5] = [0, 0, 1, 2, 5];
/// The margin of the idle test, in percent: the time over all tasks may differ by this much after further idling.
pub const IDLE_MARGIN_PERCENT: f64 = 5.0;

/// The overrides of a self-test whose filesystems are in RAM: its random seed, the budget of the run, and the number of files in
/// the tree.
pub fn ram_overrides(seed: u64, budget: Duration, files: u64) -> Overrides {
    Overrides {
        seed: Some(seed),
        budget_s: Some(budget.as_secs_f64()),
        backing: Some(Backing::Ram),
        settings: vec![(TREE_FILES.id.into(), files.to_string())],
        ..Overrides::default()
    }
}

/// Parses and resolves the text of a plan.
fn resolve(text: &str, overrides: &Overrides) -> Result<Plan, Failure> {
    Ok(registry::resolve(&PlanFile::parse("the self-test's plan", text.as_bytes())?, overrides)?)
}

/// The plan with two identical variants and variants with more work; see [`MORE_FILES_PERCENT`].
///
/// # Errors
/// If this machine cannot make the filesystem.
pub fn resolution_plan(overrides: &Overrides) -> Result<Plan, Failure> {
    let mut plan = resolve(include_str!("resolution.toml"), overrides)?;
    // A test checks that the plan has a variant for each percentage.
    for (variant, percent) in plan.variants.iter_mut().zip(MORE_FILES_PERCENT) {
        // The setting is in 10000ths.
        variant.levels.insert(format!("{}{}", factor::SETTING_PREFIX, TWINS.id), (100 * percent).to_string());
    }
    Ok(plan)
}

/// The plan that runs each filesystem right after the idle wait, and after idling for the time `further_idle` as well, with
/// the claim that both are equivalent.
///
/// # Errors
/// If this machine cannot make one of the filesystems.
pub fn idle_plan(mut overrides: Overrides, filesystems: Vec<String>, further_idle: Duration) -> Result<Plan, Failure> {
    let further_idle = humantime::format_duration(further_idle).to_string();
    overrides.factors =
        vec![(factor::FS.into(), filesystems), (factor::FURTHER_IDLE.into(), vec![String::new(), further_idle])];
    let text = include_str!("idle.toml");
    let equivalence_claim = |pair: &[Variant]| {
        let [first, last] = [&pair[0], &pair[pair.len() - 1]].map(|variant| variant.name.as_str());
        Claim::equality(Quantity::of_all("elapsed"), first, last, Some(IDLE_MARGIN_PERCENT)).text
    };
    // The last factor, the further idling, varies fastest: two consecutive variants are one filesystem without and with it.
    overrides.claims = matrix::expand(&resolve(text, &overrides)?).chunks(2).map(equivalence_claim).collect();
    resolve(text, &overrides)
}

/// The plan of one round that runs every variant `repeats` times in guests that count instructions. Guests start from a
/// snapshot of a booted machine; if `fresh` is set, each guest boots. The cells of a round have the same seed, so all do
/// the same work.
///
/// # Errors
/// If the plan cannot be resolved on this machine.
pub fn exact_plan(seed: u64, repeats: usize, fresh: bool) -> Result<Plan, Failure> {
    let guest = GuestPlan { boots_anew: fresh, fixed_layout: true, ..GuestPlan::of(Emulator::Exact) };
    let overrides = Overrides { seed: Some(seed), backing: Some(Backing::Guest(guest)), ..Overrides::default() };
    let mut plan = resolve(include_str!("exact.toml"), &overrides)?;
    let mut repeated = vec![];
    for variant in matrix::expand(&plan) {
        for number in 1..=repeats {
            let name = format!("{}, {number}", variant.name);
            repeated.push(Variant { name, levels: variant.levels.clone() });
        }
    }
    plan.variants = repeated;
    plan.title = format!("{}, {repeats} times", plan.title);
    Ok(plan)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variants_of_the_plan_are_named_after_their_additional_files() {
        let plan: toml::Table = toml::from_str(include_str!("resolution.toml")).unwrap();
        let variants = plan["variant"].as_array().unwrap().iter();
        let names: Vec<&str> = variants.map(|variant| variant["name"].as_str().unwrap()).collect();
        let names_with_more_files = MORE_FILES_PERCENT[2..].iter().map(|percent| format!("{percent}% more files"));
        assert_eq!(MORE_FILES_PERCENT[..2], [0, 0]);
        assert_eq!(
            names,
            ["base".into(), "same".into()].into_iter().chain(names_with_more_files).collect::<Vec<String>>()
        );
    }
}
