//! The stopping rule, from the plan and from the command line.

use super::Resolver;
use crate::average::Average;
use crate::plan::{Backing, Emulator, MOST_ROUNDS, StopPlan, limits};
use crate::{number::percentage, plan::error::PlanError, plan::shard::Shard};

/// The default number of rounds.
const ROUNDS: u32 = 8;
/// Why a shard is refused.
const FIXED: &str = "all shards must have the same number of rounds, which neither claims nor a budget may change; set it: \
                     --rounds N";
/// How a margin or bound is written.
const MARGIN: &str = "write it like \"1%\", above 0% and at most 10000%";
/// How an average is written.
const AVERAGE: &str = "write \"typical\" or \"mean\"";

/// The seconds of eight rounds of two variants where instructions are counted: a boot takes ten or more on a busy core.
const EIGHT_COUNTED_ROUNDS_S: f64 = 300.0;

/// A margin or bound as a fraction; none where it is not within the limits of a difference.
fn fraction(text: &str) -> Option<f64> {
    limits::difference(percentage(text)?).ok()
}

impl Resolver<'_> {
    /// With claims the run ends when they are decided, or with `best_within` when the choice is good enough, unless
    /// `--rounds` asks for a number. A budget that was
    /// asked for is used up, and not cut short by the rounds of the plan.
    pub(super) fn stop(&self) -> Result<StopPlan, PlanError> {
        let (at_scale, written) = (&self.at_scale, &self.file.stop);
        let rounds = at_scale.rounds.as_ref().or(written.rounds.as_ref());
        let (rounds, most) =
            (self.within(rounds, limits::rounds)?, self.within(written.max_rounds.as_ref(), limits::rounds)?);
        self.flags()?;
        let claims = !self.file.claims.is_empty() || !self.over.claims.is_empty();
        // A stored plan says for itself whether its claims ended it.
        let may_decide = self.written.stored.as_ref().is_none_or(|plan| plan.stop.when_decided);
        let best_within = self.read(&written.best_within, fraction, "best_within", MARGIN)?;
        let best_within = self.over.best_within.or(best_within.filter(|_| self.over.rounds.is_none()));
        let best_by = self.read(&written.best_by, Average::named, "best_by", AVERAGE)?;
        let when_decided = claims
            && best_within.is_none()
            && self.over.rounds.is_none()
            && (may_decide || !self.over.claims.is_empty());
        let most = self.over.max_rounds.or(most);
        let budget = if at_scale.budget.is_some() { &at_scale.budget } else { &written.budget };
        let shard = self.shard(rounds)?;
        let open_ended = when_decided
            || best_within.is_some()
            || (self.over.budget_s.is_some() && self.over.rounds.is_none());
        let fixed = self.over.rounds.or(rounds).unwrap_or(ROUNDS).min(most.unwrap_or(u32::MAX));
        let stop = StopPlan {
            rounds: if open_ended { most.unwrap_or(MOST_ROUNDS) } else { fixed },
            warmup: self.warmup(shard)?,
            // An explicit number of rounds overrides the plan's time budget.
            budget_s: match (self.over.budget_s, self.over.rounds) {
                (Some(budget), _) => Some(budget),
                (None, Some(_)) => None,
                (None, None) => self.duration(budget)?.map(|budget| budget.max(self.least_budget_s())),
            },
            when_decided,
            margin: self.over.margin.or(self.read(&written.margin, fraction, "margin", MARGIN)?),
            best_within,
            best_metric: best_within
                .and_then(|_| self.over.best_metric.clone().or_else(|| written.best_metric.clone())),
            best_by: best_within.and(self.over.best_by.or(best_by)).unwrap_or_default(),
            shard,
        };
        let refused = |message: String| Err(PlanError::flag("--shard", message));
        match shard {
            Some(_) if stop.open_ended() || stop.budget_s.is_some() => refused(FIXED.into()),
            Some(shard) if stop.rounds_here() == 0 => refused(format!(
                "shard {shard} has no round, because the plan has {}; use fewer shards",
                stop.rounds
            )),
            _ => Ok(stop),
        }
    }

    /// The shard to run. Each machine resolves the plan by itself, so nothing may be left to chance or to a default.
    fn shard(&self, rounds: Option<u32>) -> Result<Option<Shard>, PlanError> {
        let lacking = match (self.over.shard, self.over.rounds.or(rounds), self.over.seed, &self.file.seed) {
            (None, ..) | (_, Some(_), Some(_), _) | (_, Some(_), _, Some(_)) => return Ok(self.over.shard),
            (_, None, ..) => FIXED,
            _ => "all shards must have the same seed, and the plan names none; choose one: --seed N",
        };
        Err(PlanError::flag("--shard", lacking))
    }

    /// Where instructions are counted the first eight rounds decide, so they get the time that they take.
    fn least_budget_s(&self) -> f64 {
        match &self.over.backing {
            Some(Backing::Guest(guest)) if guest.emulator == Emulator::Exact => EIGHT_COUNTED_ROUNDS_S,
            _ => 0.0,
        }
    }

    /// The warm-up rounds of all shards: each machine warms up.
    fn warmup(&self, shard: Option<Shard>) -> Result<u32, PlanError> {
        let written = self.file.stop.warmup.as_ref();
        let rounds = self.over.warmup.or(written.map(|rounds| *rounds.get_ref())).unwrap_or(0);
        let all = limits::warmup(rounds.saturating_mul(shard.map_or(1, |shard| shard.of)));
        all.or_else(|fault| match (self.over.warmup, written) {
            (None, Some(rounds)) => self.bad(rounds.span(), fault),
            _ => Err(PlanError::flag("--warmup", fault)),
        })
    }

    /// Checks the numbers of the flags.
    fn flags(&self) -> Result<(), PlanError> {
        fn within<T>(
            flag: &str,
            value: Option<T>,
            limit: fn(T) -> Result<T, String>,
        ) -> Result<(), PlanError> {
            value.map(limit).transpose().map(drop).map_err(|fault| PlanError::flag(flag, fault))
        }
        let over = self.over;
        within("--rounds", over.rounds, limits::rounds)?;
        within("--max-rounds", over.max_rounds, limits::rounds)?;
        within("--budget", over.budget_s, limits::seconds)?;
        within("--margin", over.margin, limits::difference)?;
        within("--within", over.best_within, limits::difference)?;
        within("--size", over.size, limits::size)?;
        let guest = if let Some(Backing::Guest(guest)) = &over.backing { Some(guest) } else { None };
        within("--guest-timeout", guest.map(|guest| guest.patience_s), limits::seconds)?;
        within("--guest-memory", guest.map(|guest| guest.memory), limits::memory)
    }
}
