//! Whether the recommendation holds by mean cost too.

use super::Decision;
use crate::words::listed;
use fsarena_core::sample::Direction;
use fsarena_stats::decision::Answer;
use fsarena_stats::mean_ratio::MeanRatio;
use fsarena_stats::slow_rounds::slow_rounds;

impl Decision<'_> {
    /// `by mean cost ext4 is as good, since xfs stalls`: the variants that are behind in a typical round and not by mean cost. None
    /// where the recommendation holds both ways, or where too few rounds bound the mean cost.
    pub(super) fn by_mean_cost(&self) -> Option<String> {
        let behind: Vec<usize> = match &self.answer {
            Answer::Use { choice, next: Some(_) } => {
                self.candidates.iter().copied().filter(|one| one != choice).collect()
            }
            Answer::Move { from, .. } => vec![*from],
            _ => return None,
        };
        let choice = *self.choices().first()?;
        let costs = behind.iter().filter_map(|one| Some((*one, self.mean_cost(*one, choice)?)));
        let costs: Vec<(usize, (f64, f64))> = costs.filter(|(_, (low, _))| *low <= 1.0).collect();
        let named = |better: bool| {
            let those = costs.iter().filter(|(_, (_, high))| (*high < 1.0) == better);
            those.map(|(one, _)| self.name(*one).to_string()).collect::<Vec<_>>()
        };
        let (verb, names) = match (named(true), named(false)) {
            (better, _) if !better.is_empty() => ("better", better),
            (_, equal) if !equal.is_empty() => ("as good", equal),
            _ => return None,
        };
        let values = &self.overall.main().values[choice];
        let stalls = slow_rounds(values, self.analysis.metric.direction);
        let stalls = stalls.is_some_and(|found| !found.slow.is_empty());
        let since = if stalls { format!(", since {} stalls", self.name(choice)) } else { String::new() };
        let are = if names.len() == 1 { "is" } else { "are" };
        Some(format!("by mean cost {} {are} {verb}{since}", listed(&names)))
    }

    /// The 95% interval of the mean cost of a variant over that of another one; none where there is none.
    fn mean_cost(&self, variant: usize, to: usize) -> Option<(f64, f64)> {
        let values = &self.overall.main().values;
        let (low, high) = MeanRatio::of(&values[to], &values[variant])?.interval.ok()?;
        Some(if self.analysis.metric.direction == Direction::Higher {
            (1.0 / high, 1.0 / low)
        } else {
            (low, high)
        })
    }
}
