//! The words of the headline.

use super::{Decision, comparative, cost, gain, of_what};
use crate::number::{percent, plural};
use crate::words::{either, few_of, is_time, listed, listed_up_to};
use fsarena_core::record::MetricSpec;
use fsarena_core::sample::Direction;
use fsarena_stats::{decision::Answer, regret::Cost};
use serde_json::{Value, json};

/// The most variants that the headline describes.
const MOST: usize = 3;

impl Decision<'_> {
    /// `Use xfs: in a typical round 12% faster [8–15%] in total than the next, ext4.`
    pub fn headline(&self) -> String {
        let by_mean = self.by_mean_cost();
        let but = self.but().map_or(String::new(), |clause| format!(", {clause}"));
        let sentence = self.sentence(if by_mean.is_some() { " for typical speed" } else { "" });
        let by_mean = by_mean.map_or(String::new(), |clause| format!("; {clause}"));
        format!("{sentence}{by_mean}{but}{}.", self.not_compared())
    }

    /// `; not compared: ext2 and ext3`, the variants that the budget did not hold.
    fn not_compared(&self) -> String {
        let names: Vec<String> = self.report.record.not_compared().into_iter().map(String::from).collect();
        if names.is_empty() {
            return String::new();
        }
        format!("; not compared: {}", listed_up_to(&names, MOST))
    }

    /// The headline without its clauses. `aim` follows the recommended variants, where the mean cost recommends others.
    fn sentence(&self, aim: &str) -> String {
        let over = self.measure();
        match &self.answer {
            Answer::TooFewRounds { rounds, needed: Some(needed) } => {
                format!("No answer yet: {rounds} of at least {}", plural(*needed, "round"))
            }
            Answer::TooFewRounds { needed: None, .. } => {
                format!(
                    "No answer: {} are too many to compare at once",
                    plural(self.candidates.len(), "variant")
                )
            }
            Answer::Use { choice, next: None } => {
                format!("Use {}: every other variant gives up safety", self.name(*choice))
            }
            Answer::Use { choice, next: Some(next) } => {
                let (name, behind) = (self.name(*choice), self.name(next.variant));
                match self.ahead_of(*choice, next.variant) {
                    Some(lead) => {
                        format!("Use {name}{aim}: in a typical round {lead}{over} than the next, {behind}")
                    }
                    None => format!("Use {name}{aim}: every other variant is significantly worse{over}"),
                }
            }
            Answer::Keep { current, rivals } => self.keep(*current, rivals),
            Answer::Move { from, to } => {
                let names: Vec<String> = to.iter().map(|cost| self.name(cost.variant).to_string()).collect();
                let leads = listed_up_to(&self.leads(to, *from), MOST);
                format!(
                    "Move from {} to {}{aim}: in a typical round {leads}{over}",
                    self.current(*from),
                    either(&names)
                )
            }
            Answer::Better { current, better } => {
                let names: Vec<String> =
                    better.iter().map(|cost| self.name(cost.variant).to_string()).collect();
                let (are, open) = match better.len() {
                    1 => ("is", "whether it is the best"),
                    _ => ("are", "which of them is the best"),
                };
                let leads = listed_up_to(&self.leads(better, *current), MOST);
                let (names, current) = (listed(&names), self.current(*current));
                format!("{names} {are} in a typical round {leads}{over} than {current}; {open} is open")
            }
            Answer::Choose { choices, regret } => self.choose(choices, *regret),
            Answer::TooNoisy { one, other } => {
                let (one, name) = (self.name(*one), self.name(other.variant));
                let after = plural(self.regrets.rounds, "round");
                match span(&self.analysis.metric, other) {
                    Some(span) => format!(
                        "This machine is too noisy to tell: after {after} {name} may {} than {one}{over}",
                        span.replacen("takes", "take", 1).replacen("has", "have", 1)
                    ),
                    None => format!(
                        "This machine is too noisy to tell: {one} and {name} ran together in no round"
                    ),
                }
            }
        }
    }

    fn keep(&self, current: usize, rivals: &[Cost]) -> String {
        let said = |rival: &Cost| {
            let span = span(&self.analysis.metric, rival);
            format!("{} {}", self.name(rival.variant), span.unwrap_or("ran with it in no round".into()))
        };
        let said = few_of(rivals.iter().map(said).collect(), MOST).join(", ");
        let verdict = match rivals.iter().any(|rival| rival.high < 0.0) {
            true => format!("less than {}", percent(self.report.margin)),
            false => "no significant difference".into(),
        };
        format!("Keep {}: {said}, {verdict}{}", self.current(current), self.measure())
    }

    fn choose(&self, choices: &[usize], regret: f64) -> String {
        let (names, over) = (either(&self.names(choices)), self.measure());
        match (choices.len(), regret > 0.0) {
            (1, _) => {
                let metric = &self.analysis.metric;
                let than = if regret > 0.0 {
                    format!("more than {} ", rounded_up(gain(metric, regret)))
                } else {
                    String::new()
                };
                let better = super::better(metric);
                format!("Use {names}: with 95% confidence no other variant is {than}{better}{over}")
            }
            (_, false) => format!("Use {names}: they measure the same{over}"),
            (count, true) => {
                let each = if count == 2 { "either costs" } else { "each of them costs" };
                let most = rounded_up(regret.exp_m1());
                format!("Use {names}: with 95% confidence {each} at most {most} more than the best{over}")
            }
        }
    }

    /// How far variants are ahead of another one: of several each with its name.
    fn leads(&self, ahead: &[Cost], of: usize) -> Vec<String> {
        let one = ahead.len() == 1;
        let lead = |cost: &Cost| {
            let lead = self.ahead_of(cost.variant, of)?;
            Some(if one { lead } else { format!("{lead} ({})", self.name(cost.variant)) })
        };
        ahead.iter().filter_map(lead).collect()
    }

    /// `12% faster [8–15%]`; none where the two share no round.
    fn ahead_of(&self, variant: usize, of: usize) -> Option<String> {
        let values = &self.overall.main().values;
        let metric = &self.analysis.metric;
        let typical = cost(metric, &values[variant], &values[of])?.value.ln();
        let behind = self.regrets.cost(of, variant);
        behind.low.is_finite().then(|| lead(metric, typical, &behind))
    }

    /// For programs: the intervals that the headline quotes, as ratios of costs.
    pub(super) fn costs_json(&self) -> Vec<Value> {
        let (to, costs) = match &self.answer {
            Answer::Use { choice, next } => (*choice, next.iter().copied().collect()),
            Answer::Keep { current, rivals } => (*current, rivals.clone()),
            Answer::Move { from, to } => (*from, to.clone()),
            Answer::Better { current, better } => (*current, better.clone()),
            Answer::TooNoisy { one, other } => (*one, vec![*other]),
            Answer::TooFewRounds { .. } | Answer::Choose { .. } => return vec![],
        };
        let ratio = |log: f64| Some(log.exp()).filter(|ratio| ratio.is_finite() && *ratio > 0.0);
        let cost = |cost: &Cost| {
            json!({
                "variant": self.name(cost.variant),
                "relative_to": self.name(to),
                "low": ratio(cost.low),
                "high": ratio(cost.high),
            })
        };
        costs.iter().map(cost).collect()
    }
}

/// `12% faster [8–15%]`, from what the other one costs relative to the better one.
pub(super) fn lead(metric: &MetricSpec, typical: f64, behind: &Cost) -> String {
    let [by, low, high] = [typical, behind.low, behind.high].map(|log| percent(gain(metric, log)));
    let ends = match behind.low < 0.0 {
        true => format!("{low} to {high}"),
        false => format!("{}–{high}", low.trim_end_matches('%')),
    };
    format!("{by} {} [{ends}]{}", comparative(metric), of_what(metric))
}

/// What a variant measures relative to another one: `takes 6% less to 9% more time`, `has 2% to 4% higher iops`. None where
/// nothing bounds it.
fn span(metric: &MetricSpec, cost: &Cost) -> Option<String> {
    let (low, high) = match metric.direction {
        Direction::Higher => (-cost.high, -cost.low),
        _ => (cost.low, cost.high),
    };
    if !low.is_finite() || !high.is_finite() {
        return None;
    }
    let synced = of_what(metric);
    let (verb, less, more, what) = match is_time(metric) {
        true => ("takes", "less", "more", format!("time{synced}")),
        false => ("has", "lower", "higher", metric.id.clone()),
    };
    let [from, to] = [low, high].map(|log| percent(log.exp_m1().abs()));
    let range = match (low < 0.0, high > 0.0) {
        (true, true) => format!("{from} {less} to {to} {more}"),
        (true, false) => format!("{to} to {from} {less}"),
        (false, true) => format!("{from} to {to} {more}"),
        (false, false) => "the same".into(),
    };
    Some(format!("{verb} {range} {what}"))
}

/// A bound in per cent, to two digits, never rounded below itself.
fn rounded_up(fraction: f64) -> String {
    if fraction <= 0.0 {
        return "0%".into();
    }
    let digit = 10f64.powf(fraction.log10().floor() - 1.0);
    percent((fraction / digit - 1e-9).ceil() * digit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsarena_core::sample::Unit;

    fn metric(id: &str, unit: Unit, direction: Direction) -> MetricSpec {
        MetricSpec::new(id.into(), unit, direction, String::new())
    }

    #[test]
    fn a_bound_is_rounded_up() {
        let said = [0.0, 0.004, 0.0041, 0.00411, 0.0999, 0.123, 1.234, 0.04].map(rounded_up);
        assert_eq!(said, ["0%", "0.4%", "0.41%", "0.42%", "10%", "13%", "130%", "4%"]);
    }

    #[test]
    fn a_span_is_right_for_times_rates_and_other_metrics() {
        let said = |id: &str, unit, direction, low: f64, high: f64| {
            span(&metric(id, unit, direction), &Cost { variant: 0, low: low.ln(), high: high.ln() }).unwrap()
        };
        let time = |low, high| said("elapsed", Unit::Seconds, Direction::Lower, low, high);
        assert_eq!(time(0.94, 1.09), "takes 6% less to 9% more time");
        assert_eq!(time(0.9, 0.95), "takes 5% to 10% less time");
        assert_eq!(time(1.0, 1.0), "takes the same time");
        // What costs less has more operations a second.
        assert_eq!(
            said("iops", Unit::PerSecond, Direction::Higher, 0.8, 1.25),
            "has 20% lower to 25% higher iops"
        );
        assert_eq!(said("cpu", Unit::Seconds, Direction::Lower, 1.02, 1.1), "has 2% to 10% higher cpu");
        let open = Cost { variant: 0, low: f64::NEG_INFINITY, high: 0.1 };
        assert_eq!(span(&metric("cpu", Unit::Seconds, Direction::Lower), &open), None);
    }

    #[test]
    fn a_lead_has_its_interval_and_its_metric() {
        let behind = |low: f64, high: f64| Cost { variant: 0, low: low.ln(), high: high.ln() };
        let time = metric("synced", Unit::Seconds, Direction::Lower);
        assert_eq!(lead(&time, 1.12f64.ln(), &behind(1.08, 1.15)), "12% faster [8–15%] (synced)");
        let rate = metric("iops", Unit::PerSecond, Direction::Higher);
        assert_eq!(lead(&rate, 1.12f64.ln(), &behind(0.98, 1.15)), "12% higher [−2% to 15%] in iops");
    }
}
