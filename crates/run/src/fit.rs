//! The two runs of advice, and how many variants fit the budget of each, from one cell that is run beforehand.

use crate::execute::{Keep, Request, RunError};
use crate::{again::unstored, deciding::cost, executor::Fatal};
use fsarena_core::plan::{Plan, Stage, StopPlan};
use fsarena_core::{cell::Variant, matrix, number::plural};
use fsarena_stats::table;
use std::{collections::BTreeMap, path::Path, time::Duration};

/// The names of the runs, which share the error.
pub const STAGES: [&str; 2] = ["filesystems", "options"];

/// The plan of one of them: these variants within this budget; `earlier` has the run before.
pub fn stage(
    plan: &Plan,
    name: &str,
    variants: Vec<Variant>,
    budget: Duration,
    earlier: &BTreeMap<String, String>,
) -> Plan {
    let mut plan = plan.clone();
    plan.title = format!("{}, stage {name}", plan.title);
    plan.factors.clear();
    plan.variants = variants;
    plan.stop.budget_s = Some(budget.as_secs_f64());
    let error_split = Some(STAGES.len() as u32);
    plan.stage = Some(Stage { name: name.into(), earlier: earlier.clone(), error_split });
    plan
}

/// What a cell takes.
pub struct Fit {
    cell: Duration,
}

impl Fit {
    /// Runs the work once on the first variant, as a user, and keeps nothing; images go into `dir`.
    ///
    /// # Errors
    /// Where that cell fails, so that no comparison can succeed.
    pub fn pilot(mut plan: Plan, dir: &Path, user: Option<&str>) -> Result<Fit, RunError> {
        let first = matrix::expand(&plan).into_iter().find(|variant| !variant.is_bare_device());
        let Some(first) = first else {
            return Err(Fatal::Missing("this machine can make no filesystem to advise on".into()).into());
        };
        let names = [first.name.clone()].into();
        plan.factors.clear();
        plan.variants = vec![first];
        plan.stop = StopPlan { rounds: 1, ..StopPlan::default() };
        let mut request = Request::new(plan, Keep::Nothing(dir.into()));
        request.user = user.map(String::from);
        let seconds = cost(&unstored(request, &mut [])?, &names);
        Ok(Fit { cell: Duration::from_secs_f64(seconds.max(1e-9)) })
    }

    /// The most variants that can be compared within a budget: each in as many rounds as the first look that can exclude one
    /// takes.
    fn most(&self, budget: Duration) -> usize {
        let takes = |variants: usize| {
            let rounds = table::rounds_for_an_answer(STAGES.len() * variants.saturating_sub(1))?;
            Some(self.cell * (rounds * variants) as u32)
        };
        (2..=64)
            .take_while(|variants| takes(*variants).is_some_and(|time| time <= budget))
            .last()
            .unwrap_or(1)
    }

    /// The variants that fit, the first ones before others, and the names of the rest. Two are always compared: their report
    /// says what is still open.
    pub fn within(&self, budget: Duration, mut variants: Vec<Variant>) -> (Vec<Variant>, Vec<String>) {
        let rest = variants.split_off(variants.len().min(self.most(budget).max(2)));
        (variants, rest.into_iter().map(|variant| variant.name).collect())
    }

    /// `a cell takes 1.2 s, so 9 variants fit 7 min 30 s; comparing 6`.
    pub fn words(&self, budget: Duration, tried: usize, not_tried: &[String]) -> String {
        let (cell, most) = (self.cell.as_secs_f64(), self.most(budget));
        let fit = match most {
            1 => "too few rounds fit for a certain answer".to_string(),
            64 => "64 variants and more fit".into(),
            most => format!("{most} variants fit"),
        };
        let budget = humantime::format_duration(Duration::from_secs(budget.as_secs()));
        let mut text =
            format!("a cell takes {cell:.1} s, so in {budget} {fit}; comparing {}", plural(tried, "variant"));
        if !not_tried.is_empty() {
            text.push_str(&format!("; left out, try them with a larger --budget: {}", not_tried.join(", ")));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variants(names: &[&str]) -> Vec<Variant> {
        names.iter().map(|name| Variant { name: name.to_string(), levels: Default::default() }).collect()
    }

    #[test]
    fn as_many_variants_fit_as_their_first_look_takes() {
        let fit = Fit { cell: Duration::from_secs(1) };
        // Two variants have one rival at half of 5%: 8 rounds, 16 cells. Three: 4 bounds, 10 rounds, 30 cells.
        assert_eq!([15, 16, 29, 30].map(|s| fit.most(Duration::from_secs(s))), [1, 2, 2, 3]);
        let (tried, rest) = fit.within(Duration::from_secs(16), variants(&["a", "b", "c"]));
        assert_eq!((tried.len(), rest), (2, vec!["c".to_string()]));
        assert_eq!(fit.within(Duration::ZERO, variants(&["a", "b"])).1, Vec::<String>::new());
    }

    #[test]
    fn what_fits_is_said_with_what_does_not() {
        let fit = Fit { cell: Duration::from_millis(500) };
        assert_eq!(
            fit.words(Duration::from_secs(8), 2, &["btrfs".into()]),
            "a cell takes 0.5 s, so in 8s 2 variants fit; comparing 2 variants; left out, try them with a larger \
             --budget: btrfs"
        );
    }
}
