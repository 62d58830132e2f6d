//! Plans the run that confirms a change which the history of stored runs shows: it measures the variant as it was before the
//! change and as it is since, in the same rounds.
//!
//! Every stored run has the digests of what its figures depend on (`digests.rs`). Where they differ between the two sides of a
//! change, each side must be made again from the same files; otherwise the fresh rounds would compare something else.

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
/// The name of the variant as it was before the change, in such a run.
pub const BEFORE: &str = "before";
/// The name of the variant as it is since the change.
pub const AFTER: &str = "after";

/// What the figures of a variant depend on: the programs and the kernel by digest or release, and fsarena by version.
type Parts = BTreeMap<String, String>;

/// The parts in the facts of a machine that ran a variant.
fn parts(host: &Host, version: &str, variant: &Variant, in_guest: bool) -> Parts {
    let kernel = format!("{DIGEST_PREFIX}kernel {}", variant.level(factor::KERNEL));
    let mut parts = Parts::from([("fsarena".into(), version.into())]);
    for (fact, value) in &host.facts {
        if let Some(name) = fact.strip_prefix(DIGEST_PREFIX).filter(|name| !name.starts_with("kernel ")) {
            parts.insert(name.into(), value.clone());
        }
    }
    let kernel = if in_guest { host.facts.get(&kernel) } else { Some(&host.kernel) };
    parts.extend(kernel.map(|kernel| ("the kernel".into(), kernel.clone())));
    parts
}

/// A side of a change: what a run measured, and how to make it again.
#[derive(Debug, Clone)]
struct Side {
    /// The variant with the levels that make it again.
    variant: Variant,
    /// The levels of its run.
    levels: BTreeMap<String, String>,
    /// Its parts when it was measured.
    stored_parts: Parts,
    /// Its parts as they are now.
    current_parts: Parts,
}

impl Side {
    /// The side that a run measured. The plan is that of the newest run. `names` are that of the variant in the run, and its name
    /// in the comparison.
    ///
    /// # Errors
    /// What the machine lacks to make it again.
    fn of_run(record: &RunRecord, plan: &Plan, names: (&str, &str), runs: &Path) -> Result<Side> {
        let (name, as_name) = names;
        let measured = record.variants.iter().find(|variant| variant.name == name);
        let measured = measured.ok_or_else(|| RunError::Plan(format!("run {} has no {name}", record.id)))?;
        let host = record.hosts.first().cloned().unwrap_or_default();
        let mut variant = Variant { name: as_name.into(), levels: measured.levels.clone() };
        if let Some(baseline) = find_baseline(record, measured, runs) {
            variant.levels = baseline.levels(runs)?;
        } else if let Some(release) = host.facts.get(&format!("{RELEASE_PREFIX}{}", measured.level(factor::KERNEL)))
            && is_packaged(measured.level(factor::KERNEL))
        {
            variant.levels.insert(factor::KERNEL.into(), format!("debian:{release}"));
        }
        let in_guest = matches!(plan.device.backing, Backing::Guest(_));
        let plan = with_variants(plan.clone(), vec![variant.clone()]);
        let (_, requirements) = check(&RunRequest::new(plan, Destination::ConsumersOnly(runs.into())))?;
        let mut current_host = host::collect(&SysRoot::host());
        current_host.facts = digest_facts(&requirements)?;
        Ok(Side {
            levels: measured.levels.clone(),
            stored_parts: parts(&host, &record.version, measured, in_guest),
            current_parts: parts(&current_host, env!("CARGO_PKG_VERSION"), &variant, in_guest),
            variant,
        })
    }

    /// The parts whose stored values differ between the two sides. A part that only one run stored counts as different.
    /// Only parts that a side has now are compared, because runs also store the programs of their other variants.
    fn differences<'a>(&'a self, other: &'a Side) -> impl Iterator<Item = &'a String> {
        let keys = self
            .current_parts
            .keys()
            .chain(other.current_parts.keys().filter(|key| !self.current_parts.contains_key(*key)));
        keys.filter(|key| self.stored_parts.get(*key) != other.stored_parts.get(*key))
    }
}

/// The baseline that keeps what a run measured of a variant, if there is one.
fn find_baseline(record: &RunRecord, variant: &Variant, runs: &Path) -> Option<Baseline> {
    let names = baseline::names(runs);
    let mut all = names.iter().filter_map(|name| Baseline::open(runs, name).ok());
    all.find(|baseline| baseline.run == record.id && baseline.variant.name == variant.name)
}

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
    /// Why there can be no fresh rounds: a side cannot be made again, or its runs erased a device.
    NotPossible(String),
}

/// A change of a history to be confirmed.
#[derive(Debug, Clone, Copy)]
pub struct ChangeToConfirm<'a> {
    /// The variant that the history follows.
    pub variant: &'a str,
    /// The metric.
    pub metric: &'a str,
    /// ln(after / before) of the value that the history follows.
    pub ln_change: f64,
    /// The comparison may spend 5% divided by this number.
    pub error_split: u32,
    /// The longest time of the rounds, in seconds; None for the budget of the newest run, or ten minutes.
    pub budget_s: Option<f64>,
}

/// The budget if neither the user nor the newest run has one, in seconds.
const USUAL_BUDGET_S: f64 = 600.0;
/// The largest margin of the claim, as a fraction.
const MAX_MARGIN: f64 = 0.25;

impl ChangeToConfirm<'_> {
    /// Plans the comparison of a run before the change with a run after it. Its gate fails if fresh rounds show more than half
    /// of the change.
    pub fn plan(&self, before: &RunRecord, after: &RunRecord, runs: &Path) -> Confirmation {
        if let Backing::Erase { path, .. } = &after.plan.device.backing {
            let path = path.display();
            return Confirmation::NotPossible(format!(
                "its runs erased {path}, and only a command that names the device may do that: fsarena ab --erase {path} …"
            ));
        }
        let side = |record: &RunRecord, name| {
            Side::of_run(record, &after.plan, (self.variant, name), runs)
                .map_err(|error| format!("the variant {name} the change (run {}): {error}", record.id))
        };
        let (old, new) = match (side(before, BEFORE), side(after, AFTER)) {
            (Ok(old), Ok(new)) => (old, new),
            (Err(why), _) | (_, Err(why)) => return Confirmation::NotPossible(why),
        };
        let differences: Vec<&String> = old.differences(&new).collect();
        if differences.is_empty() && old.levels == new.levels {
            return Confirmation::SameSides;
        }
        for (side, record) in [(&old, before), (&new, after)] {
            let is_gone = |key: &&&String| side.stored_parts.get(**key) != side.current_parts.get(**key);
            let gone: Vec<&str> = differences.iter().filter(is_gone).map(|key| key.as_str()).collect();
            if !gone.is_empty() {
                return Confirmation::NotPossible(format!("{} of run {} is gone", gone.join(", "), record.id));
            }
        }
        match self.comparison(after, [old.variant, new.variant], before) {
            Ok(plan) => Confirmation::Plan(Box::new(plan)),
            Err(error) => Confirmation::NotPossible(error.to_string()),
        }
    }

    fn comparison(&self, after: &RunRecord, sides: [Variant; 2], before: &RunRecord) -> Result<Plan> {
        let mut plan = with_variants(after.plan.clone(), sides.into());
        let margin = (self.ln_change.abs() / 2.0).exp_m1().min(MAX_MARGIN);
        // The claim: the change is at most half as large as in the history. If the change is confirmed, the claim fails.
        let (low, high) = if self.ln_change > 0.0 { (BEFORE, AFTER) } else { (AFTER, BEFORE) };
        let quantity = Quantity::of_all(self.metric);
        let percent = (1e8 * margin).round() / 1e6;
        let claim = format!("{quantity}: {high} <= {low} within {percent}%");
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
            when_decided: true,
            has_gate: true,
            ..StopPlan::default()
        };
        plan.stage = Some(Stage {
            name: "confirmation".into(),
            earlier: [(BEFORE.into(), before.id.clone()), (AFTER.into(), after.id.clone())].into(),
            not_compared: vec![],
            error_split: Some(self.error_split),
        });
        Ok(plan)
    }
}
