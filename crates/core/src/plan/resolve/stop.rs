//! Resolves the stopping rule from the plan and the command line.

use super::Resolver;
use crate::average::Average;
use crate::plan::{Backing, Emulator, OPEN_ENDED_ROUNDS, StopPlan, limits};
use crate::setting_text::setting;
use crate::{number::parse_percentage, plan::error::PlanError, plan::shard::Shard, study};

/// The error for a shard of a run whose number of rounds is not fixed.
fn rounds_not_fixed_error() -> PlanError {
    let rounds = setting("rounds", "N");
    let message = format!(
        "all shards must have the same number of rounds, which neither claims nor a budget may change; set it: {rounds}"
    );
    PlanError::in_setting("shard", message)
}

/// How to write a margin or bound.
const MARGIN_SYNTAX: &str = "write it like \"1%\", above 0% and at most 10000%";
/// How to write an average.
const AVERAGE_SYNTAX: &str = "write \"typical\" or \"mean\"";

/// The seconds that eight rounds of two variants take in guests that count instructions: on a busy core each boot takes ten
/// seconds or more.
const EIGHT_ROUNDS_OF_COUNTING_GUESTS_S: f64 = 300.0;

/// Parses a margin or bound such as `1%` as a fraction. None if it is not a percentage or is outside the limits of a
/// difference.
fn parse_difference(text: &str) -> Option<f64> {
    limits::check_difference(parse_percentage(text)?).ok()
}

impl Resolver<'_> {
    /// Resolves when the run stops. With claims it ends once they are decided, and with `best_within` once the choice is good
    /// enough; a number of rounds from the command line overrides both. With a time budget from the command line, the run uses
    /// all of that time: the rounds of the plan do not end it earlier.
    pub(super) fn resolve_stop(&self) -> Result<StopPlan, PlanError> {
        let (at_scale, of_plan) = (&self.at_scale, &self.file.stop);
        let rounds = at_scale.rounds.as_ref().or(of_plan.rounds.as_ref());
        let rounds = self.check_limit(rounds, limits::check_rounds)?;
        let max_rounds_of_plan = self.check_limit(of_plan.max_rounds.as_ref(), limits::check_rounds)?;
        self.check_overrides()?;
        // A stored plan records whether its claims ended the run.
        let may_end_when_decided = self.parsed.stored.as_ref().is_none_or(|plan| plan.stop.ends_when_decided);
        let best_within = self.parse_text(&of_plan.best_within, parse_difference, "best_within", MARGIN_SYNTAX)?;
        let best_within = self.overrides.best_within.or(best_within.filter(|_| self.overrides.rounds.is_none()));
        let best_by = self.parse_text(&of_plan.best_by, Average::from_name, "best_by", AVERAGE_SYNTAX)?;
        let ends_when_decided = self.has_claims()
            && best_within.is_none()
            && self.overrides.rounds.is_none()
            && (may_end_when_decided || !self.overrides.claims.is_empty());
        let max_rounds = self.overrides.max_rounds.or(max_rounds_of_plan);
        let budget = if at_scale.budget.is_some() { &at_scale.budget } else { &of_plan.budget };
        let shard = self.resolve_shard(rounds)?;
        let is_open_ended = ends_when_decided
            || best_within.is_some()
            || (self.overrides.budget_s.is_some() && self.overrides.rounds.is_none());
        let limit = max_rounds.unwrap_or(OPEN_ENDED_ROUNDS);
        let fixed_rounds = match self.overrides.rounds.or(rounds) {
            Some(rounds) => rounds.min(max_rounds.unwrap_or(u32::MAX)),
            None => limit,
        };
        let stop = StopPlan {
            rounds: if is_open_ended { limit } else { fixed_rounds },
            warmup: self.resolve_warmup(shard)?,
            // An explicit number of rounds overrides the plan's time budget.
            budget_s: match (self.overrides.budget_s, self.overrides.rounds) {
                (Some(budget), _) => Some(budget),
                (None, Some(_)) => None,
                (None, None) => self.parse_duration(budget)?.map(|budget| budget.max(self.min_budget_s())),
            },
            has_default_budget: self.has_default_budget(),
            ends_when_decided,
            has_gate: self.overrides.has_gate || of_plan.gate.as_ref().is_some_and(|gate| *gate.get_ref()),
            margin: self.overrides.margin.or(self.parse_text(
                &of_plan.margin,
                parse_difference,
                "margin",
                MARGIN_SYNTAX,
            )?),
            best_within,
            best_metric: best_within
                .and_then(|_| self.overrides.best_metric.clone().or_else(|| of_plan.best_metric.clone())),
            best_by: best_within.and(self.overrides.best_by.or(best_by)).unwrap_or_default(),
            shard,
        };
        match shard {
            Some(_) if stop.is_adaptive() || stop.budget_s.is_some() => Err(rounds_not_fixed_error()),
            Some(shard) if stop.rounds_here() == 0 => {
                let rounds = stop.rounds;
                let message = format!("shard {shard} has no round, because the plan has {rounds}; use fewer shards");
                Err(PlanError::in_setting("shard", message))
            }
            _ => Ok(stop),
        }
    }

    /// Whether the run uses the default number of rounds: the plan and the command line set neither rounds nor anything else
    /// that ends the run.
    pub(super) fn uses_default_rounds(&self) -> bool {
        let (at_scale, of_plan) = (&self.at_scale, &self.file.stop);
        let sets_rounds = self.overrides.rounds.is_some() || at_scale.rounds.is_some() || of_plan.rounds.is_some();
        let searches = self.overrides.best_within.is_some() || of_plan.best_within.is_some();
        let is_stored = self.parsed.stored.is_some();
        !sets_rounds && !searches && !self.has_claims() && self.overrides.budget_s.is_none() && !is_stored
    }

    fn has_claims(&self) -> bool {
        !self.file.claims.is_empty() || !self.overrides.claims.is_empty()
    }

    /// Whether the time budget comes from a plan that ships with fsarena, not from the user.
    fn has_default_budget(&self) -> bool {
        let (at_scale, of_plan) = (&self.at_scale.budget, &self.file.stop.budget);
        let is_overridden = self.overrides.budget_s.is_some() || self.overrides.rounds.is_some();
        let is_shipped = match &self.parsed.stored {
            Some(plan) => plan.stop.has_default_budget,
            None => study::is_text_of_shipped_plan(&self.parsed.text),
        };
        is_shipped && !is_overridden && (at_scale.is_some() || of_plan.is_some())
    }

    /// The shard to run; None if the run is not sharded. Every machine resolves the plan by itself, so the number of rounds and
    /// the seed must be set explicitly.
    fn resolve_shard(&self, rounds: Option<u32>) -> Result<Option<Shard>, PlanError> {
        let Some(shard) = self.overrides.shard else { return Ok(None) };
        if self.overrides.rounds.or(rounds).is_none() {
            return Err(rounds_not_fixed_error());
        }
        if self.overrides.seed.is_none() && self.file.seed.is_none() {
            let seed = setting("seed", "N");
            let message = format!("all shards must have the same seed, and the plan names none; choose one: {seed}");
            return Err(PlanError::in_setting("shard", message));
        }
        Ok(Some(shard))
    }

    /// The smallest time budget in seconds: it replaces a smaller budget of the plan. A guest that counts instructions
    /// needs only eight rounds for an answer, so the budget must allow these. The stored budget of a run in such guests stays:
    /// the user may have set a smaller one.
    fn min_budget_s(&self) -> f64 {
        let is_counting =
            |backing: &Backing| matches!(backing, Backing::Guest(guest) if guest.emulator == Emulator::Exact);
        let was_counting = self.parsed.stored.as_ref().is_some_and(|plan| is_counting(&plan.device.backing));
        match &self.overrides.backing {
            Some(backing) if is_counting(backing) && !was_counting => EIGHT_ROUNDS_OF_COUNTING_GUESTS_S,
            _ => 0.0,
        }
    }

    /// The warm-up rounds of all shards together: each machine runs its own.
    fn resolve_warmup(&self, shard: Option<Shard>) -> Result<u32, PlanError> {
        let of_plan = self.file.stop.warmup.as_ref();
        let rounds = self.overrides.warmup.or(of_plan.map(|rounds| *rounds.get_ref())).unwrap_or(0);
        let checked = limits::check_warmup(rounds.saturating_mul(shard.map_or(1, |shard| shard.count)));
        checked.map_err(|message| match (self.overrides.warmup, of_plan) {
            (None, Some(rounds)) => self.error_at(rounds.span(), message),
            _ => PlanError::in_setting("warmup", message),
        })
    }

    /// Checks the numbers of the command line against their limits.
    fn check_overrides(&self) -> Result<(), PlanError> {
        type Limit<T> = fn(T) -> Result<T, String>;
        fn check<T>(name: &str, value: Option<T>, limit: Limit<T>) -> Result<(), PlanError> {
            value.map_or(Ok(()), |value| limit(value).map(drop)).map_err(|message| PlanError::in_setting(name, message))
        }
        let overrides = self.overrides;
        check("rounds", overrides.rounds, limits::check_rounds)?;
        check("max_rounds", overrides.max_rounds, limits::check_rounds)?;
        check("budget", overrides.budget_s, limits::check_seconds)?;
        check("margin", overrides.margin, limits::check_difference)?;
        check("within", overrides.best_within, limits::check_difference)?;
        check("size", overrides.size, limits::check_size)?;
        let guest = if let Some(Backing::Guest(guest)) = &overrides.backing { Some(guest) } else { None };
        check("guest_timeout", guest.map(|guest| guest.silence_timeout_s), limits::check_seconds)?;
        check("guest_memory", guest.map(|guest| guest.memory), limits::check_memory)
    }
}
