//! The text of the headline with its clauses: whether the recommendation also holds by mean cost, and whether another metric
//! favours another variant.

use crate::number::{percent, percent_range, plural};
use crate::phrases::{is_task_time, join_with_and, join_with_and_up_to, join_with_or, shorten_list_to};
use crate::sections::decision::{Decision, comparative, cost_ratio, gain, metric_suffix};
use fsarena_core::observations::{bare_devices, combine_tasks};
use fsarena_core::{record::MetricSpec, sample::Direction};
use fsarena_stats::regret::{Regrets, RelativeCost};
use fsarena_stats::{
    critical_values::FIRST_LOOK_ROUNDS, decision::Recommendation, mean_ratio::MeanRatio, slow_rounds::find_slow_rounds,
};
use serde_json::{Value, json};

/// The largest number of variants that the headline describes.
const MAX_VARIANTS: usize = 3;

impl Decision<'_> {
    /// The headline: `Use xfs: in a typical round 12% faster [8–15%] in total than the next, ext4.`
    pub fn headline(&self) -> String {
        let mean_cost_clause = self.mean_cost_clause();
        let mut headline =
            self.headline_without_clauses(if mean_cost_clause.is_some() { " for typical speed" } else { "" });
        if let Some(clause) = mean_cost_clause {
            headline.push_str(&format!("; {clause}"));
        }
        if let Some(clause) = self.other_metrics_clause() {
            headline.push_str(&format!(", {clause}"));
        }
        let names: Vec<String> = self.report.record.not_compared().into_iter().map(String::from).collect();
        if !names.is_empty() {
            // The budget was too small for these variants.
            headline.push_str(&format!("; not compared: {}", join_with_and_up_to(&names, MAX_VARIANTS)));
        }
        headline + "."
    }

    /// The headline without its clauses. `purpose` follows the recommended variants if the mean cost
    /// recommends others.
    fn headline_without_clauses(&self, purpose: &str) -> String {
        let measure = self.measure_phrase();
        match &self.recommendation {
            Recommendation::TooFewRounds { rounds, needed_rounds: needed } => {
                let grid = &self.analysis.grid;
                let image_note = grid.images().filter(|_| *rounds < FIRST_LOOK_ROUNDS);
                let image_note = image_note.map_or("", |_| "; what follows is about these images only");
                format!("No answer yet: {rounds} of at least {}{image_note}", plural(*needed, grid.column_noun()))
            }
            Recommendation::Use { choice, next: None } => {
                format!("Use {}: every other variant gives up safety", self.name(*choice))
            }
            Recommendation::Use { choice, next: Some(next) } => {
                let (name, behind) = (self.name(*choice), self.name(next.variant));
                match self.lead_over(*choice, next.variant) {
                    Some(lead) => {
                        format!("Use {name}{purpose}: in a typical round {lead}{measure} than the next, {behind}")
                    }
                    None => format!("Use {name}{purpose}: every other variant is significantly worse{measure}"),
                }
            }
            Recommendation::Keep { current, rivals } => self.keep_sentence(*current, rivals),
            Recommendation::Move { current, targets } => {
                let (from_name, to_names) = (self.current_name(*current), join_with_or(&self.names_of_costs(targets)));
                let leads = self.leads_over(targets, *current);
                format!("Move from {from_name} to {to_names}{purpose}: in a typical round {leads}{measure}")
            }
            Recommendation::Better { current, better } => {
                let (are, open_question) = match better.len() {
                    1 => ("is", "whether it is the best"),
                    _ => ("are", "which of them is the best"),
                };
                let (names, leads) = (join_with_and(&self.names_of_costs(better)), self.leads_over(better, *current));
                let current = self.current_name(*current);
                format!("{names} {are} in a typical round {leads}{measure} than {current}; {open_question} is open")
            }
            Recommendation::Choose { choices, regret } => self.choose_sentence(choices, *regret),
            Recommendation::TooNoisy { first, second } => {
                let (one, name) = (self.name(*first), self.name(second.variant));
                let Some(span) = describe_span(&self.analysis.metric, second) else {
                    return format!("This machine is too noisy to tell: {one} and {name} ran together in no round");
                };
                let span = span.replacen("takes", "take", 1).replacen("has", "have", 1);
                let after = plural(self.regrets.rounds, self.analysis.grid.column_noun());
                format!("This machine is too noisy to tell: after {after} {name} may {span} than {one}{measure}")
            }
        }
    }

    /// The names of the variants of these costs.
    fn names_of_costs(&self, costs: &[RelativeCost]) -> Vec<String> {
        costs.iter().map(|cost| self.name(cost.variant).to_string()).collect()
    }

    /// The headline that recommends to keep the current variant: `Keep ext4: xfs takes 1% less to 2% more time, no significant
    /// difference`.
    fn keep_sentence(&self, current: usize, rivals: &[RelativeCost]) -> String {
        let mut spans = vec![];
        for rival in rivals {
            let span = describe_span(&self.analysis.metric, rival).unwrap_or("ran with it in no round".into());
            spans.push(format!("{} {span}", self.name(rival.variant)));
        }
        let spans = shorten_list_to(spans, MAX_VARIANTS, "variants").join(", ");
        let verdict = if rivals.iter().any(|rival| rival.high < 0.0) {
            format!("less than {}", percent(self.report.margin))
        } else {
            "no significant difference".into()
        };
        format!("Keep {}: {spans}, {verdict}{}", self.current_name(current), self.measure_phrase())
    }

    /// The headline that recommends one or several variants, with the largest possible regret: `Use ext4 or xfs: with 95%
    /// confidence either costs at most 2% more than the best`.
    fn choose_sentence(&self, choices: &[usize], regret: f64) -> String {
        let metric = &self.analysis.metric;
        let claim = match choices.len() {
            1 => {
                let most = if regret > 0.0 {
                    format!("more than {} ", percent_rounded_up(gain(metric, regret)))
                } else {
                    String::new()
                };
                format!("with 95% confidence no other variant is {most}{}", super::comparative_with_metric(metric))
            }
            _ if regret <= 0.0 => "they measure the same".into(),
            count => {
                let each = if count == 2 { "either costs" } else { "each of them costs" };
                let most = percent_rounded_up(regret.exp_m1());
                format!("with 95% confidence {each} at most {most} more than the best")
            }
        };
        format!("Use {}: {claim}{}", join_with_or(&self.names(choices)), self.measure_phrase())
    }

    /// How far variants are ahead of another one. If there are several, each has its name in parentheses.
    fn leads_over(&self, ahead: &[RelativeCost], behind: usize) -> String {
        let mut leads = vec![];
        for cost in ahead {
            let suffix = if ahead.len() > 1 { format!(" ({})", self.name(cost.variant)) } else { String::new() };
            leads.extend(self.lead_over(cost.variant, behind).map(|lead| format!("{lead}{suffix}")));
        }
        join_with_and_up_to(&leads, MAX_VARIANTS)
    }

    /// How far a variant is ahead of another one: `12% faster [8–15%]`. `None` if the two variants have no common round.
    fn lead_over(&self, variant: usize, behind: usize) -> Option<String> {
        let values = &self.overall.total_or_geometric().values;
        let metric = &self.analysis.metric;
        let log_cost_ratio = cost_ratio(metric, &values[variant], &values[behind])?.value.ln();
        let interval = self.regrets.cost_relative_to(behind, variant);
        interval.low.is_finite().then(|| format_lead(metric, log_cost_ratio, &interval))
    }

    /// The intervals that the headline quotes, as ratios of costs, as JSON.
    pub(super) fn quoted_costs_json(&self) -> Vec<Value> {
        let (reference, costs) = match &self.recommendation {
            Recommendation::Use { choice, next } => (*choice, next.iter().copied().collect()),
            Recommendation::Keep { current, rivals } => (*current, rivals.clone()),
            Recommendation::Move { current, targets } => (*current, targets.clone()),
            Recommendation::Better { current, better } => (*current, better.clone()),
            Recommendation::TooNoisy { first, second } => (*first, vec![*second]),
            Recommendation::TooFewRounds { .. } | Recommendation::Choose { .. } => return vec![],
        };
        let ratio = |log: f64| Some(log.exp()).filter(|ratio| ratio.is_finite() && *ratio > 0.0);
        let cost = |cost: &RelativeCost| {
            json!({
                "variant": self.name(cost.variant),
                "relative_to": self.name(reference),
                "low": ratio(cost.low),
                "high": ratio(cost.high),
            })
        };
        costs.iter().map(cost).collect()
    }
}

/// How much better a variant is: `12% faster [8–15%]`. `log_cost_ratio` is the logarithm of the cost of the other variant
/// divided by that of the better one, and `interval` has the interval of that logarithm.
fn format_lead(metric: &MetricSpec, log_cost_ratio: f64, interval: &RelativeCost) -> String {
    let [lead, low, high] = [log_cost_ratio, interval.low, interval.high].map(|log| gain(metric, log));
    format!("{} {} [{}]{}", percent(lead), comparative(metric), percent_range(low, high), metric_suffix(metric))
}

/// The difference of a variant to another one in words: `takes 6% less to 9% more time`, `has 2% to 4% higher iops`. `None` if
/// the interval has no bounds.
fn describe_span(metric: &MetricSpec, cost: &RelativeCost) -> Option<String> {
    let (low, high) = match metric.direction {
        Direction::Higher => (-cost.high, -cost.low),
        _ => (cost.low, cost.high),
    };
    if !low.is_finite() || !high.is_finite() {
        return None;
    }
    let (verb, less, more, quantity) = if is_task_time(metric) {
        ("takes", "less", "more", format!("time{}", metric_suffix(metric)))
    } else {
        ("has", "lower", "higher", metric.id.clone())
    };
    let [low_percent, high_percent] = [low, high].map(|log| percent(log.exp_m1().abs()));
    let range = match (low < 0.0, high > 0.0) {
        (true, true) => format!("{low_percent} {less} to {high_percent} {more}"),
        (true, false) => format!("{high_percent} to {low_percent} {less}"),
        (false, true) => format!("{low_percent} to {high_percent} {more}"),
        (false, false) => "the same".into(),
    };
    Some(format!("{verb} {range} {quantity}"))
}

/// An upper bound in per cent, rounded up to two significant digits.
fn percent_rounded_up(fraction: f64) -> String {
    if fraction <= 0.0 {
        return "0%".into();
    }
    let second_digit = 10f64.powf(fraction.log10().floor() - 1.0);
    percent((fraction / second_digit - 1e-9).ceil() * second_digit)
}

impl Decision<'_> {
    /// The clause about variants that are behind in a typical round but not by mean cost: `by mean cost ext4 is as good, since
    /// xfs stalls`. `None` if the recommendation also holds by mean cost, or if there are too few rounds for it.
    fn mean_cost_clause(&self) -> Option<String> {
        let behind: Vec<usize> = match &self.recommendation {
            Recommendation::Use { choice, next: Some(_) } => {
                self.candidates.iter().copied().filter(|candidate| candidate != choice).collect()
            }
            Recommendation::Move { current, .. } => vec![*current],
            _ => return None,
        };
        let choice = *self.choices().first()?;
        let (mut better, mut equal) = (vec![], vec![]);
        for variant in behind {
            match self.mean_cost_interval(variant, choice) {
                Some((_, high)) if high < 1.0 => better.push(self.name(variant).to_string()),
                Some((low, _)) if low <= 1.0 => equal.push(self.name(variant).to_string()),
                _ => {}
            }
        }
        let (comparison, names) = if better.is_empty() { ("as good", equal) } else { ("better", better) };
        if names.is_empty() {
            return None;
        }
        let values = self.analysis.grid.by_round().combined().swap_remove(choice);
        let slow_rounds = find_slow_rounds(&values, self.analysis.metric.direction);
        let has_stalls = slow_rounds.is_some_and(|slow_rounds| !slow_rounds.slow.is_empty());
        let since = if has_stalls { format!(", since {} stalls", self.name(choice)) } else { String::new() };
        let are = if names.len() == 1 { "is" } else { "are" };
        Some(format!("by mean cost {} {are} {comparison}{since}", join_with_and(&names)))
    }

    /// The 95% interval of the mean cost of a variant divided by that of `reference`; `None` with too few rounds.
    fn mean_cost_interval(&self, variant: usize, reference: usize) -> Option<(f64, f64)> {
        let main = self.overall.total_or_geometric();
        let values = main.mean_costs.as_ref().unwrap_or(&main.values);
        let (low, high) = MeanRatio::from_costs(&values[reference], &values[variant])?.interval.ok()?;
        Some(if self.analysis.metric.direction == Direction::Higher { (1.0 / high, 1.0 / low) } else { (low, high) })
    }
}

/// The CPU time of the whole machine. The headline considers this metric even if the user did not request it.
const MACHINE_CPU: &str = "total_cpu";

/// A variant that another metric significantly favours.
struct FavouredVariant {
    metric: MetricSpec,
    variant: usize,
    /// The variant of the headline that is worse by this metric.
    ahead_of: usize,
    /// The logarithm of the cost of `ahead_of` divided by that of `variant` in a typical round.
    log_cost_ratio: f64,
    /// The interval of that logarithm.
    interval: RelativeCost,
}

impl Decision<'_> {
    /// The clause about each other metric that significantly favours another variant: `but xfs is 8% faster [5–11%] (synced)
    /// than ext4`.
    fn other_metrics_clause(&self) -> Option<String> {
        let mut clauses = vec![];
        for favoured in self.favoured_variants() {
            let (name, other) = (self.name(favoured.variant), self.name(favoured.ahead_of));
            let lead = format_lead(&favoured.metric, favoured.log_cost_ratio, &favoured.interval);
            clauses.push(format!("{name} is {lead} than {other}"));
        }
        (!clauses.is_empty()).then(|| format!("but {}", clauses.join(" and ")))
    }

    /// The variants that other metrics favour, as JSON.
    pub(super) fn other_metrics_json(&self) -> Vec<Value> {
        let favoured_json = |favoured: FavouredVariant| {
            json!({
                "metric": favoured.metric.id,
                "better": self.name(favoured.variant),
                "than": self.name(favoured.ahead_of),
                "cost_ratio": favoured.log_cost_ratio.exp(),
                "low": favoured.interval.low.exp(),
                "high": Some(favoured.interval.high.exp()).filter(|ratio| ratio.is_finite()),
            })
        };
        self.favoured_variants().into_iter().map(favoured_json).collect()
    }

    /// For each requested metric other than the main one, and for the CPU time, the variant that it significantly favours.
    fn favoured_variants(&self) -> Vec<FavouredVariant> {
        let headline_variants = match &self.recommendation {
            Recommendation::TooFewRounds { .. } => return vec![],
            Recommendation::Better { better, .. } => better.iter().map(|cost| cost.variant).collect(),
            Recommendation::TooNoisy { .. } => self.possible_best(),
            _ => self.choices(),
        };
        let main_metric = self.analysis.metric.id.as_str();
        let requested = self.report.analyses.iter().skip(1).map(|analysis| analysis.metric.id.as_str());
        let metrics = fsarena_core::names::distinct(requested.chain([MACHINE_CPU]));
        let others = metrics.into_iter().filter(|id| *id != main_metric);
        others.filter_map(|id| self.favoured_by(id, &headline_variants)).collect()
    }

    /// The variant that is better by this metric than all other variants of the headline, with the confidence
    /// of the headline, and by more than the margin.
    fn favoured_by(&self, metric: &str, headline_variants: &[usize]) -> Option<FavouredVariant> {
        let record = &self.report.record;
        let (metric, values) = combine_tasks(record, metric).ok()?;
        if metric.direction == Direction::Neutral || values.is_empty() {
            return None;
        }
        let error_split = record.plan.error_split();
        let regrets =
            Regrets::compute(&values, &bare_devices(record), metric.direction, error_split).among(&self.candidates);
        if regrets.provisional {
            return None;
        }
        let favoured = |variant: usize| {
            let mut others = headline_variants.iter().copied().filter(|other| *other != variant);
            let ahead_of = others.clone().next()?;
            if !others.all(|other| regrets.cost_relative_to(variant, other).high < 0.0) {
                return None;
            }
            let log_cost_ratio = cost_ratio(&metric, &values[variant], &values[ahead_of])?.value.ln();
            let interval = regrets.cost_relative_to(ahead_of, variant);
            Some(FavouredVariant { metric: metric.clone(), variant, ahead_of, log_cost_ratio, interval })
        };
        let all_favoured = self.candidates.iter().filter_map(|variant| favoured(*variant));
        let largest_lead = all_favoured.max_by(|a, b| a.log_cost_ratio.total_cmp(&b.log_cost_ratio))?;
        (gain(&largest_lead.metric, largest_lead.log_cost_ratio) > self.report.margin).then_some(largest_lead)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsarena_core::sample::Unit;

    fn metric(id: &str, unit: Unit, direction: Direction) -> MetricSpec {
        MetricSpec::new(id.into(), unit, direction, String::new())
    }

    #[test]
    fn bounds_are_rounded_up_to_two_digits() {
        let bounds = [0.0, 0.004, 0.0041, 0.00411, 0.0999, 0.123, 1.234, 0.04].map(percent_rounded_up);
        assert_eq!(bounds, ["0%", "0.4%", "0.41%", "0.42%", "10%", "13%", "130%", "4%"]);
    }

    #[test]
    fn the_span_of_times_rates_and_other_metrics() {
        let span = |id: &str, unit, direction, low: f64, high: f64| {
            describe_span(&metric(id, unit, direction), &RelativeCost { variant: 0, low: low.ln(), high: high.ln() })
                .unwrap()
        };
        let time = |low, high| span("elapsed", Unit::Seconds, Direction::Lower, low, high);
        assert_eq!(time(0.94, 1.09), "takes 6% less to 9% more time");
        assert_eq!(time(0.9, 0.95), "takes 5% to 10% less time");
        assert_eq!(time(1.0, 1.0), "takes the same time");
        // A lower cost means more operations per second.
        assert_eq!(span("iops", Unit::PerSecond, Direction::Higher, 0.8, 1.25), "has 20% lower to 25% higher iops");
        assert_eq!(span("cpu", Unit::Seconds, Direction::Lower, 1.02, 1.1), "has 2% to 10% higher cpu");
        let unbounded = RelativeCost { variant: 0, low: f64::NEG_INFINITY, high: 0.1 };
        assert_eq!(describe_span(&metric("cpu", Unit::Seconds, Direction::Lower), &unbounded), None);
    }

    #[test]
    fn a_lead_has_its_interval_and_its_metric() {
        let interval = |low: f64, high: f64| RelativeCost { variant: 0, low: low.ln(), high: high.ln() };
        let time = metric("synced", Unit::Seconds, Direction::Lower);
        assert_eq!(format_lead(&time, 1.12f64.ln(), &interval(1.08, 1.15)), "12% faster [8–15%] (synced)");
        let rate = metric("iops", Unit::PerSecond, Direction::Higher);
        assert_eq!(format_lead(&rate, 1.12f64.ln(), &interval(0.98, 1.15)), "12% higher [−2% to 15%] in iops");
    }
}
