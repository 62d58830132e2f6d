//! How runs fit their time: the two stages of advice, and the scale of the default run.

use crate::execute::{Keep, Request, RunError};
use crate::stopping::{duration, rounded_up, rounds_for_an_answer};
use crate::{again::unstored, deciding::cost, executor::Fatal};
use fsarena_core::plan::{Plan, Stage, StopPlan};
use fsarena_core::{cell::Variant, matrix, number::plural};
use fsarena_sys::cancel;
use std::{collections::BTreeMap, path::Path, time::Duration};

/// The names of the runs of advice, which share the error.
pub const STAGES: [&str; 2] = ["filesystems", "options"];

/// What the stages before one of them found.
#[derive(Debug, Clone, Default)]
pub struct Earlier {
    /// Their runs, by name.
    pub runs: BTreeMap<String, String>,
    /// The variants that the budget did not hold.
    pub not_compared: Vec<String>,
}

/// The plan of one stage of advice: these variants within this budget. Its first round is a pilot, which no figure counts:
/// every variant runs once, in this order, and those stay that the budget holds.
pub fn stage(plan: &Plan, name: &str, variants: Vec<Variant>, budget: Duration, earlier: Earlier) -> Plan {
    let mut plan = plan.clone();
    plan.title = format!("{}, stage {name}", plan.title);
    plan.factors.clear();
    plan.variants = variants;
    plan.stop.budget_s = Some(budget.as_secs_f64());
    plan.stop.warmup = 1;
    let error_split = Some(STAGES.len() as u32);
    let Earlier { runs, not_compared } = earlier;
    plan.stage = Some(Stage { name: name.into(), earlier: runs, not_compared, error_split });
    plan
}

/// The plan with the work of `smaller`, the same at a smaller scale, and why, where the first answer would take longer than
/// the budget. Runs the work once on the first variant, as a user, and keeps nothing; images go into `dir`. Where that is
/// too slow it runs once more, since the first time finds cold caches.
///
/// # Errors
/// A signal. A cell that fails keeps the scale: the run itself then says what is wrong.
pub fn scaled(
    plan: &Plan,
    smaller: Plan,
    dir: &Path,
    user: Option<&str>,
) -> Result<Option<(Plan, String)>, RunError> {
    let Some(budget) = plan.stop.extended_s() else { return Ok(None) };
    let variants = matrix::expand(plan);
    let rounds = rounds_for_an_answer(&variants, plan.error_split());
    let whole = |cell: f64| cell * variants.len() as f64 * f64::from(rounds);
    let mut cell = f64::INFINITY;
    for _ in 0..2 {
        match pilot(plan, &variants, dir, user) {
            Ok(Some(seconds)) => cell = cell.min(seconds),
            Err(error) if cancel::requested().is_some() => return Err(error),
            Ok(None) | Err(_) => return Ok(None),
        }
        if whole(cell) <= budget {
            return Ok(None);
        }
    }
    let (large, small) = (plan.scale.name(), smaller.scale.name());
    let why = format!(
        "At scale {large} one variant takes {cell:.1} s here, so {rounds} rounds of {} take about {}: this run uses scale \
         {small}. For the larger work: --scale {large} --budget {}.",
        plural(variants.len(), "variant"),
        duration(whole(cell)),
        rounded_up(1.2 * whole(cell))
    );
    Ok(Some((Plan { stop: plan.stop.clone(), seed: plan.seed, ..smaller }, why)))
}

/// The seconds that the work takes once, on the first variant with a filesystem. None where there is none.
fn pilot(plan: &Plan, variants: &[Variant], dir: &Path, user: Option<&str>) -> Result<Option<f64>, RunError> {
    let Some(first) = variants.iter().find(|variant| !variant.is_bare_device()) else { return Ok(None) };
    let names = [first.name.clone()].into();
    let mut plan = plan.clone();
    plan.factors.clear();
    plan.claims.clear();
    plan.variants = vec![first.clone()];
    plan.stop = StopPlan { rounds: 1, ..StopPlan::default() };
    let mut request = Request::new(plan, Keep::Nothing(dir.into()));
    request.user = user.map(String::from);
    Ok(Some(cost(&unstored(request, &mut [])?, &names)))
}

/// That advice requires a filesystem to choose.
///
/// # Errors
/// Where none of these variants has one.
pub fn something_to_advise_on(variants: &[Variant]) -> Result<(), RunError> {
    let any = variants.iter().any(|variant| !variant.is_bare_device());
    let none = || Fatal::Missing("this machine can make no filesystem to advise on".into());
    if any { Ok(()) } else { Err(none().into()) }
}
