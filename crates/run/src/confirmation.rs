//! Plans the run that confirms a change which the history of stored runs shows: it measures the variant as it was
//! before the change and as it is since, in the same rounds.
//!
//! Every stored run has the digests of the programs and kernels that its figures depend on (`digests.rs`). If a digest
//! differs between the two sides of a change, each side must be made again with the same file; otherwise the fresh
//! rounds would compare something else.

use crate::baseline::{self, Baseline, is_packaged};
use crate::digests::{DIGEST_PREFIX, RELEASE_PREFIX, digest_facts};
use crate::error::{Result, RunError};
use crate::execute::{Destination, RunRequest, check};
use fsarena_core::cell::Variant;
use fsarena_core::claim::{Claim, Quantity};
use fsarena_core::plan::{Backing, OPEN_ENDED_ROUNDS, Plan, Stage, StopPlan};
use fsarena_core::{factor, host::Host, record::RunRecord, schedule::mix};
use fsarena_sys::{host, kernel::SysRoot};
use std::{collections::BTreeMap, path::Path};

/// The end of the name of a plan that confirms a change.
pub const PLAN_SUFFIX: &str = "-change";
/// The name of the variant as it was before the change, in a run that confirms the change.
pub const BEFORE: &str = "before";
/// The name of the variant as it is since the change, in such a run.
pub const AFTER: &str = "after";

/// What the figures of a variant depend on: the programs and the kernel, each with its digest or release, and fsarena
/// with its version.
type Dependencies = BTreeMap<String, String>;

/// The dependencies of a variant, from the facts of the machine that ran it.
fn dependencies_of(host: &Host, version: &str, variant: &Variant, is_in_guest: bool) -> Dependencies {
    let kernel_fact = format!("{DIGEST_PREFIX}kernel {}", variant.level(factor::KERNEL));
    let mut dependencies = Dependencies::from([("fsarena".into(), version.into())]);
    for (fact, value) in &host.facts {
        if let Some(name) = fact.strip_prefix(DIGEST_PREFIX).filter(|name| !name.starts_with("kernel ")) {
            dependencies.insert(name.into(), value.clone());
        }
    }
    let kernel = if is_in_guest { host.facts.get(&kernel_fact) } else { Some(&host.kernel) };
    dependencies.extend(kernel.map(|kernel| ("the kernel".into(), kernel.clone())));
    dependencies
}

/// One side of a change: a variant that a stored run measured, and how to make it again.
#[derive(Debug, Clone)]
struct ChangeSide {
    /// The variant with the levels that make it again.
    variant: Variant,
    /// The levels that the variant had in the stored run.
    stored_levels: BTreeMap<String, String>,
    /// The dependencies of the variant when it was measured.
    stored_dependencies: Dependencies,
    /// The dependencies of the variant on this machine now.
    current_dependencies: Dependencies,
}

impl ChangeSide {
    /// The side that a run measured. `name` is the name of the variant in that run, `new_name` its name in the
    /// comparison. `plan` is the plan of the newest run.
    ///
    /// # Errors
    /// The machine lacks something to make the variant again.
    fn of_run(record: &RunRecord, name: &str, new_name: &str, plan: &Plan, runs_dir: &Path) -> Result<ChangeSide> {
        let measured = record.variants.iter().find(|variant| variant.name == name);
        let measured = measured.ok_or_else(|| RunError::Plan(format!("run {} has no {name}", record.id)))?;
        let host = record.hosts.first().cloned().unwrap_or_default();
        let mut variant = Variant { name: new_name.into(), levels: measured.levels.clone() };
        if let Some(baseline) = find_baseline(record, measured, runs_dir) {
            variant.levels = baseline.levels(runs_dir)?;
        } else if let Some(release) = host.facts.get(&format!("{RELEASE_PREFIX}{}", measured.level(factor::KERNEL)))
            && is_packaged(measured.level(factor::KERNEL))
        {
            variant.levels.insert(factor::KERNEL.into(), format!("debian:{release}"));
        }
        let is_in_guest = matches!(plan.device.backing, Backing::Guest(_));
        let plan = with_variants(plan.clone(), vec![variant.clone()]);
        let (_, requirements) = check(&RunRequest::new(plan, Destination::ConsumersOnly(runs_dir.into())))?;
        let mut current_host = host::collect_facts(&SysRoot::host());
        current_host.facts = digest_facts(&requirements)?;
        Ok(ChangeSide {
            stored_levels: measured.levels.clone(),
            stored_dependencies: dependencies_of(&host, &record.version, measured, is_in_guest),
            current_dependencies: dependencies_of(&current_host, env!("CARGO_PKG_VERSION"), &variant, is_in_guest),
            variant,
        })
    }

    /// The names of the dependencies whose stored values differ between the two sides. A dependency that only one run
    /// stored counts as different. Only those that a side has now are compared, because runs also store the programs of
    /// their other variants.
    fn differing_dependencies<'a>(&'a self, other: &'a ChangeSide) -> Vec<&'a String> {
        let only_of_other =
            other.current_dependencies.keys().filter(|name| !self.current_dependencies.contains_key(*name));
        let mut names: Vec<&String> = self.current_dependencies.keys().chain(only_of_other).collect();
        names.retain(|name| self.stored_dependencies.get(*name) != other.stored_dependencies.get(*name));
        names
    }
}

/// The baseline that has the figures of a variant in a run; None if no baseline was saved of it.
fn find_baseline(record: &RunRecord, variant: &Variant, runs_dir: &Path) -> Option<Baseline> {
    let names = baseline::baseline_names(runs_dir);
    let mut baselines = names.iter().filter_map(|name| Baseline::open(runs_dir, name).ok());
    baselines.find(|baseline| baseline.run == record.id && baseline.variant.name == variant.name)
}

/// Returns the plan with these variants instead of its own, and without claims.
fn with_variants(mut plan: Plan, variants: Vec<Variant>) -> Plan {
    plan.factors.clear();
    plan.vary.clear();
    plan.claims.clear();
    plan.variants = variants;
    plan
}

/// Whether the two sides of a change can be compared in fresh rounds.
#[derive(Debug)]
pub enum Confirmation {
    /// The plan of the rounds.
    Plan(Box<Plan>),
    /// Both sides are the same by everything that runs store.
    SameSides,
    /// Fresh rounds are impossible, because a side cannot be made again, or because the runs erased a device. The text
    /// has the reason.
    NotPossible(String),
}

/// A change in a history of stored runs that fresh rounds shall confirm.
#[derive(Debug, Clone, Copy)]
pub struct ChangeToConfirm<'a> {
    /// The variant that the history follows.
    pub variant: &'a str,
    /// The metric.
    pub metric: &'a str,
    /// The change of the value that the history follows: ln(after / before).
    pub ln_change: f64,
    /// The comparison may use 5%, divided by this number, as its probability of a wrong verdict.
    pub error_split: u32,
    /// The longest time of the rounds, in seconds; None for the budget of the newest run, or for ten minutes if that
    /// has none.
    pub budget_s: Option<f64>,
}

/// The budget if neither the user nor the newest run has one, in seconds.
const USUAL_BUDGET_S: f64 = 600.0;
/// The largest tolerance of the claim, as a fraction.
const MAX_TOLERANCE: f64 = 0.25;

impl ChangeToConfirm<'_> {
    /// Plans the comparison of a run before the change with a run after it. Its gate fails if fresh rounds show more
    /// than half of the change.
    pub fn plan(&self, before: &RunRecord, after: &RunRecord, runs_dir: &Path) -> Confirmation {
        if let Backing::Erase { path, .. } = &after.plan.device.backing {
            let path = path.display();
            return Confirmation::NotPossible(format!(
                "its runs erased {path}, and only a command that names the device may do that: fsarena ab --erase {path} …"
            ));
        }
        let side = |record: &RunRecord, new_name| {
            ChangeSide::of_run(record, self.variant, new_name, &after.plan, runs_dir)
                .map_err(|error| format!("the variant {new_name} the change (run {}): {error}", record.id))
        };
        let (old, new) = match (side(before, BEFORE), side(after, AFTER)) {
            (Ok(old), Ok(new)) => (old, new),
            (Err(why), _) | (_, Err(why)) => return Confirmation::NotPossible(why),
        };
        let differing = old.differing_dependencies(&new);
        if differing.is_empty() && old.stored_levels == new.stored_levels {
            return Confirmation::SameSides;
        }
        for (side, record) in [(&old, before), (&new, after)] {
            let is_gone =
                |name: &&&String| side.stored_dependencies.get(**name) != side.current_dependencies.get(**name);
            let gone: Vec<&str> = differing.iter().filter(is_gone).map(|name| name.as_str()).collect();
            if !gone.is_empty() {
                return Confirmation::NotPossible(format!("{} of run {} is gone", gone.join(", "), record.id));
            }
        }
        match self.comparison_plan(after, [old.variant, new.variant], before) {
            Ok(plan) => Confirmation::Plan(Box::new(plan)),
            Err(error) => Confirmation::NotPossible(error.to_string()),
        }
    }

    /// The plan that compares the two sides of the change. `before` and `after` are their stored runs.
    fn comparison_plan(&self, after: &RunRecord, sides: [Variant; 2], before: &RunRecord) -> Result<Plan> {
        let mut plan = with_variants(after.plan.clone(), sides.into());
        let tolerance = (self.ln_change.abs() / 2.0).exp_m1().min(MAX_TOLERANCE);
        // The claim: the change is at most half as large as in the history. If the change is confirmed, the claim
        // fails.
        let (lower, higher) = if self.ln_change > 0.0 { (BEFORE, AFTER) } else { (AFTER, BEFORE) };
        let quantity = Quantity::of_all(self.metric);
        let percent = (1e8 * tolerance).round() / 1e6;
        let claim = format!("{quantity}: {higher} <= {lower} within {percent}%");
        plan.claims = vec![claim.parse::<Claim>().map_err(|error| RunError::Plan(error.to_string()))?];
        plan.name += PLAN_SUFFIX;
        plan.title = format!("{} of {}, before and after a change", self.metric, self.variant);
        plan.question = format!("Do fresh rounds confirm that {} changed?", self.variant);
        plan.baseline = None;
        plan.omitted.clear();
        // Each alarm of a history has its own share of the error, and so its own random orders.
        plan.seed = mix(after.plan.seed, self.error_split.into()) & (u64::MAX >> 1);
        let budget_s = self.budget_s.or(after.plan.stop.budget_s).unwrap_or(USUAL_BUDGET_S);
        plan.stop = StopPlan {
            rounds: OPEN_ENDED_ROUNDS,
            budget_s: Some(budget_s),
            has_default_budget: self.budget_s.is_none(),
            ends_when_decided: true,
            has_gate: true,
            ..StopPlan::default()
        };
        plan.stage = Some(Stage {
            name: "confirmation".into(),
            earlier_runs: [(BEFORE.into(), before.id.clone()), (AFTER.into(), after.id.clone())].into(),
            not_compared: vec![],
            error_split: Some(self.error_split),
        });
        Ok(plan)
    }
}
