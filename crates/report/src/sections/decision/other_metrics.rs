//! Whether another metric favours another variant than the headline names.

use super::headline::lead;
use super::{Decision, cost, gain};
use fsarena_core::observations::combine_tasks;
use fsarena_core::observations::references;
use fsarena_core::record::MetricSpec;
use fsarena_core::sample::Direction;
use fsarena_stats::regret::Regrets;
use fsarena_stats::{decision::Answer, regret::Cost};
use serde_json::{Value, json};

/// All the CPU time of the machine: a metric that people care about, also where the run does not answer for it.
const CPU: &str = "total_cpu";

/// A variant that a further metric significantly favours.
struct Favoured {
    metric: MetricSpec,
    variant: usize,
    /// The named variant that it is ahead of.
    ahead_of: usize,
    /// The typical logarithm of what that one costs relative to it, and its interval.
    typical: f64,
    behind: Cost,
}

impl Decision<'_> {
    /// `but xfs is 8% faster [5–11%] (synced) than ext4`, for each further metric that significantly favours another variant.
    pub(super) fn but(&self) -> Option<String> {
        let all = self.favoured();
        let clause = |one: &Favoured| {
            let (name, other) = (self.name(one.variant), self.name(one.ahead_of));
            format!("{name} is {} than {other}", lead(&one.metric, one.typical, &one.behind))
        };
        let clauses: Vec<String> = all.iter().map(clause).collect();
        (!clauses.is_empty()).then(|| format!("but {}", clauses.join(" and ")))
    }

    /// For programs: the same.
    pub(super) fn other_metrics_json(&self) -> Vec<Value> {
        let one = |one: Favoured| {
            json!({
                "metric": one.metric.id,
                "better": self.name(one.variant),
                "than": self.name(one.ahead_of),
                "cost_ratio": one.typical.exp(),
                "low": one.behind.low.exp(),
                "high": Some(one.behind.high.exp()).filter(|ratio| ratio.is_finite()),
            })
        };
        self.favoured().into_iter().map(one).collect()
    }

    fn favoured(&self) -> Vec<Favoured> {
        let named = match &self.answer {
            Answer::TooFewRounds { .. } => return vec![],
            Answer::Better { better, .. } => better.iter().map(|cost| cost.variant).collect(),
            Answer::TooNoisy { .. } => self.possible(),
            _ => self.choices(),
        };
        let main = self.analysis.metric.id.as_str();
        let asked = self.report.analyses.iter().skip(1).map(|analysis| analysis.metric.id.as_str());
        let further = fsarena_core::names::distinct(asked.chain([CPU])).into_iter().filter(|id| *id != main);
        further.filter_map(|id| self.favoured_by(id, &named)).collect()
    }

    /// The variant that is ahead of all other named ones by a metric: with the confidence of the headline, and by more than the
    /// margin.
    fn favoured_by(&self, metric: &str, named: &[usize]) -> Option<Favoured> {
        let record = &self.report.record;
        let (metric, values) = combine_tasks(record, metric).ok()?;
        if metric.direction == Direction::Neutral || values.is_empty() {
            return None;
        }
        let split = record.plan.error_split();
        let regrets =
            Regrets::compute(&values, &references(record), metric.direction, split).among(&self.candidates);
        if regrets.provisional {
            return None;
        }
        let favoured = self.candidates.iter().filter_map(|variant| {
            let mut others = named.iter().copied().filter(|other| other != variant);
            let ahead_of = others.clone().next()?;
            let ahead = others.all(|behind| regrets.cost(*variant, behind).high < 0.0);
            let typical = cost(&metric, &values[*variant], &values[ahead_of])?.value.ln();
            let behind = regrets.cost(ahead_of, *variant);
            let metric = metric.clone();
            ahead.then_some(Favoured { metric, variant: *variant, ahead_of, typical, behind })
        });
        let most = favoured.max_by(|a, b| a.typical.total_cmp(&b.typical))?;
        (gain(&most.metric, most.typical) > self.report.margin).then_some(most)
    }
}
