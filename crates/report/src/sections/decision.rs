//! The headline: which variant to use, and what that choice can cost at most.

use crate::number::{beside, percent, plural};
use crate::report::Current;
use crate::section::{Chapter, Detail, Document, Report, Section};
use crate::words::{either, few, is_synced_time, is_time, rounds_needed, sentence};
use fsarena_core::record::{MetricSpec, TOTAL};
use fsarena_core::sample::Direction;
use fsarena_stats::analyse::{Analysis, Overall, combine_tasks};
use fsarena_stats::power::{rounds_for, spread};
use fsarena_stats::{pairs::log_ratios, ratio::Ratio, regret::Regrets};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The headline.
pub const SECTION: Section = Section::new(Chapter::Answer, add);

fn add(document: &mut Document, report: &Report, _: Detail) {
    let Some(decision) = Decision::of(report) else { return };
    document.text(decision.headline());
    let further = [
        decision.cheaper(),
        decision.left(),
        decision.staying(),
        decision.by_mean(),
        decision.one_task(),
        decision.losses(),
        decision.to_settle(),
    ];
    document.list(further.into_iter().flatten().collect());
}

/// The choice by the primary metric.
pub struct Decision<'a> {
    report: &'a Report,
    analysis: &'a Analysis,
    overall: &'a Overall,
    /// The variants that may be chosen, in order.
    candidates: Vec<usize>,
    /// What choosing one of them costs against the others of them, and that by geometric mean.
    regrets: Regrets,
    means: Regrets,
    choice: usize,
    /// The choice and the variants equal to it within the margin.
    equal: Vec<usize>,
}

impl Decision<'_> {
    /// The decision of a run that compares variants; none where nothing bounds what a choice costs.
    pub fn of(report: &Report) -> Option<Decision<'_>> {
        let better = |analysis: &&Analysis| analysis.metric.direction != Direction::Neutral;
        let analysis = report.analyses.first().filter(better)?;
        let overall = analysis.overall.as_ref()?;
        let main = overall.main();
        let broke = |variant: usize| report.record.violations().any(|(cell, _)| cell.variant == variant);
        let mut order = main.comparison.order.clone();
        order.retain(|variant| !broke(*variant));
        let candidates = report.record.as_safe(&order);
        let regrets = main.regrets.among(&candidates);
        let means = overall.geometric.regrets.among(&candidates);
        // Where one alone is as safe, nothing is left to weigh.
        let choice = match candidates[..] {
            [only] if order.len() > 1 => only,
            _ => regrets.choose(&candidates)?,
        };
        let mut equal = regrets.equal(choice, report.margin.ln_1p());
        equal.insert(0, choice);
        Some(Decision { report, analysis, overall, candidates, regrets, means, choice, equal })
    }

    /// `Use xfs. With 95% confidence no other choice is more than 0.4% faster in total (1.1% by geometric mean).`
    pub fn headline(&self) -> String {
        let regrets = &self.regrets;
        let names = self.names(&self.equal);
        if self.candidates.len() == 1 {
            return format!("Use {}: every other variant gives up safety.", names[0]);
        }
        if names.len() > 1 {
            let most = self.regret().map_or(String::new(), |most| rounded_up(most.exp_m1()));
            let all = if names.len() == 2 { "either costs" } else { "each of them costs" };
            let (names, over) = (either(&names), self.measure());
            return format!(
                "Use {names}: with 95% confidence {all} at most {most} more than the best{over}."
            );
        }
        let (is, when) = match (regrets.provisional, regrets.rounds) {
            (false, _) => ("is", "With 95% confidence no".to_string()),
            (true, 1) => ("was", "In the one round so far no".into()),
            (true, rounds) => ("was", format!("In each of the {} so far no", plural(rounds, "round"))),
        };
        let use_it = if regrets.provisional { "Use {} for now" } else { "Use {}" }.replace("{}", &names[0]);
        let regret = self.regret().unwrap_or_default();
        let than = if regret > 0.0 { format!("more than {} ", self.gain(regret)) } else { String::new() };
        let by_mean = match self.mean_regret().map(|mean| (mean > 0.0, self.gain(mean))) {
            None => String::new(),
            Some((false, _)) if regret > 0.0 => " (none by geometric mean)".into(),
            Some((false, _)) => " or by geometric mean".into(),
            Some((true, mean)) if regret > 0.0 => format!(" ({mean} by geometric mean)"),
            Some((true, mean)) => format!(" (at most {mean} by geometric mean)"),
        };
        let better = better(&self.analysis.metric);
        format!("{use_it}. {when} other choice {is} {than}{better}{}{by_mean}.", self.measure())
    }

    /// The choice, and after it the variants that are equal to it within the margin.
    pub fn choices(&self) -> &[usize] {
        &self.equal
    }

    /// The variants as safe as the choice that can still be the best, in order.
    pub fn possible(&self) -> Vec<usize> {
        let possible = |variant: &usize| self.regrets.provisional || !self.regrets.beaten(*variant);
        self.candidates.iter().copied().filter(possible).collect()
    }

    /// The variants ahead of the choice that give up safety, and what.
    pub fn cheaper_variants(&self) -> Vec<(usize, Vec<&str>)> {
        let order = &self.overall.main().comparison.order;
        let ahead = order.iter().copied().take_while(|variant| *variant != self.choice);
        let unsafe_ones = ahead.map(|variant| (variant, self.report.record.given_up(variant)));
        unsafe_ones.filter(|(_, words)| !words.is_empty()).collect()
    }

    /// `ext2 is 12% faster in total, but gives up safety: no journal, …`.
    fn cheaper(&self) -> Option<String> {
        let metric = &self.analysis.metric;
        let comparison = &self.overall.main().comparison;
        let (_, values) = combine_tasks(&self.report.record, &metric.id).ok()?;
        let said = self.cheaper_variants().into_iter().filter_map(|(variant, words)| {
            let ahead = cost(metric, &values[variant], &values[self.choice])?.value.ln();
            let sure = if comparison.separated[self.choice][variant] { "" } else { " (inconclusive)" };
            let (by, is) = (percent(gain(metric, ahead)), better(metric));
            let (name, over, words) = (self.name(variant), self.measure(), words.join("; "));
            Some(format!("{name} is {by} {is}{over}{sure}, but gives up safety: {words}."))
        });
        Some(said.collect::<Vec<_>>().join(" ")).filter(|said| !said.is_empty())
    }

    /// `Staying on ext4 costs 3% [−0.4, 7].`
    fn staying(&self) -> Option<String> {
        let Current { variant: current, guessed } = self.report.current?;
        let name = self.name(current);
        let guess = if guessed { " (guessed: the images lay on it)" } else { "" };
        if self.equal.contains(&current) {
            return Some(format!("{name} is the current variant{guess}: stay on it."));
        }
        let (metric, values) = combine_tasks(&self.report.record, &self.analysis.metric.id).ok()?;
        let cost = cost(&metric, &values[self.choice], &values[current])?;
        let [value, low, high] =
            [cost.value, cost.low, cost.high].map(|ratio| beside(100.0 * (ratio - 1.0), &[0.0]));
        let about = if cost.provisional { ", the range of the rounds so far" } else { "" };
        Some(format!("Staying on {name}{guess} costs {value}% [{low}, {high}]{about}."))
    }

    /// The variants that left because they are not the best, each with its last round.
    fn gone(&self) -> Vec<(usize, u32)> {
        let record = &self.report.record;
        let rounds = |variant: usize| {
            record.cells.iter().filter(move |cell| cell.variant == variant).map(|cell| cell.round + 1).max()
        };
        let all = (0..record.variants.len()).filter_map(|variant| Some((variant, rounds(variant)?)));
        let last = all.clone().map(|(_, rounds)| rounds).max();
        let regrets = &self.overall.main().regrets;
        let gone = |(variant, rounds): &(usize, u32)| Some(*rounds) < last && regrets.beaten(*variant);
        all.filter(gone).filter(|_| record.plan.stop.best_within.is_some()).collect()
    }

    /// `Left the run, because they are not the best with 95% confidence: ext3 after round 10.`
    fn left(&self) -> Option<String> {
        let each = |(variant, rounds)| format!("{} after round {rounds}", self.name(variant));
        let names: Vec<String> = self.gone().into_iter().map(each).collect();
        sentence("fsarena stopped measuring variants that are not the best (95% confidence)", &names)
    }

    /// The choice by the geometric mean, where that is another.
    fn by_mean(&self) -> Option<String> {
        let mean = &self.overall.geometric;
        let mut order = mean.comparison.order.clone();
        order.retain(|one| self.candidates.contains(one));
        let choice = self.means.choose(&order).filter(|choice| !self.equal.contains(choice))?;
        self.overall.total.as_ref().filter(|_| !self.means.provisional)?;
        let name = self.name(choice);
        Some(format!("With equal weight for every task (geometric mean) the choice is {name}."))
    }

    /// Whether a single task makes the ranking's first what it is.
    fn one_task(&self) -> Option<String> {
        let ranking = self.report.ranking().filter(|ranking| ranking.rounds > 1)?;
        let (first, other) = (ranking.variants.first()?.variant, ranking.overtaken_by()?);
        let choice = first == self.choice;
        choice.then(|| format!("A single task decides that: without it, {} is ahead.", self.name(other)))
    }

    /// The tasks in which another variant is significantly better: `ext4 loses 2 of 21 tasks: untar (xfs is 12% faster)`.
    fn losses(&self) -> Option<String> {
        let metric = &self.analysis.metric;
        let lost = self.analysis.tasks().filter_map(|task| {
            let ratio = task.comparison.variants[self.choice].ratio.filter(Ratio::separated)?.value;
            let behind = if metric.direction == Direction::Higher { -ratio.ln() } else { ratio.ln() };
            let (best, by) = (self.name(task.comparison.best()?), percent(gain(metric, behind)));
            Some(format!("{} ({best} is {by} {})", task.task.id, comparative(metric)))
        });
        let lost: Vec<String> = lost.collect();
        let tasks = plural(self.analysis.tasks().count(), "task");
        let (name, count) = (self.name(self.choice), lost.len());
        (count > 0).then(|| format!("{name} loses {count} of {tasks}: {}.", few(lost).join(", ")))
    }

    /// What it takes to tell the choice from those that it does not differ from significantly: rounds, and the time that they
    /// take at the pace so far.
    fn to_settle(&self) -> Option<String> {
        let comparison = &self.overall.main().comparison;
        let open =
            |variant: &usize| !self.equal.contains(variant) && !comparison.separated[self.choice][*variant];
        let open: Vec<usize> = self.candidates.iter().copied().filter(open).collect();
        let record = &self.report.record;
        let (_, values) = combine_tasks(record, &self.analysis.metric.id).ok()?;
        let sigma = |rival: &usize| spread(&log_ratios(&values[self.choice], &values[*rival]).d);
        let sigma = open.iter().filter_map(sigma).filter(|sigma| *sigma > 0.0).reduce(f64::max)?;
        let so_far = self.analysis.grid.rounds.len();
        let names = self.names(&open);
        let needed = match rounds_for(sigma, self.report.margin) {
            None => format!("{} rounds", rounds_needed(None)),
            // With that many rounds done, the difference is probably below the margin.
            Some(rounds) if rounds <= so_far => return None,
            Some(rounds) => {
                let spent: u64 = record.cells.iter().map(|cell| cell.spent_on(TOTAL)).sum();
                let more = spent as f64 / so_far as f64 * (rounds - so_far) as f64 / 60e9;
                format!("{}, about {} min more", plural(rounds, "round"), more.ceil())
            }
        };
        let others = if names.len() > 6 { few(names).join(", ") } else { either(&names) };
        let (name, margin) = (self.name(self.choice), percent(self.report.margin));
        Some(format!("Inconclusive whether {name} differs from {others}: to find {margin} takes {needed}."))
    }

    /// For programs: regrets are the cost over the cheapest choice, less one.
    pub fn json(&self) -> Value {
        let regrets = &self.regrets;
        let cheaper = self.cheaper_variants().into_iter();
        let cheaper = cheaper.map(|(at, words)| json!({ "variant": self.name(at), "gives_up": words }));
        let left = self.gone().into_iter().map(|(variant, rounds)| (self.name(variant), rounds));
        json!({
            "choose": self.name(self.choice),
            "equal": self.names(&self.equal[1..]),
            "regret": self.regret().map(f64::exp_m1),
            "regret_by_geometric_mean": self.mean_regret().map(f64::exp_m1),
            "cheaper_but_less_safe": cheaper.collect::<Vec<_>>(),
            "metric": self.analysis.metric.id,
            "rounds": regrets.rounds,
            "provisional": regrets.provisional,
            "left": left.collect::<BTreeMap<_, _>>(),
            "headline": self.headline(),
        })
    }

    fn name(&self, variant: usize) -> &str {
        self.report.record.name(variant)
    }

    fn names(&self, variants: &[usize]) -> Vec<String> {
        variants.iter().map(|variant| self.name(*variant).to_string()).collect()
    }

    /// The largest regret of the equal choices.
    fn regret(&self) -> Option<f64> {
        let regrets = &self.regrets;
        self.equal.iter().filter_map(|variant| regrets.of(*variant)).reduce(f64::max)
    }

    /// The regret of the choice by geometric mean, where the headline is about the total.
    fn mean_regret(&self) -> Option<f64> {
        self.overall.total.as_ref()?;
        let mean = &self.means;
        let alike = self.overall.tasks > 1 && mean.provisional == self.regrets.provisional;
        mean.of(self.choice).filter(|_| alike)
    }

    /// Over what: nothing where there is one task.
    fn measure(&self) -> String {
        match (self.overall.tasks, self.overall.name) {
            (1, _) => String::new(),
            (_, "total") => " in total".into(),
            (_, name) => format!(" by {name}"),
        }
    }

    fn gain(&self, regret: f64) -> String {
        rounded_up(gain(&self.analysis.metric, regret))
    }
}

/// What `b` costs over `a`, round by round: speed and rates are inverse to cost.
fn cost(metric: &MetricSpec, a: &[f64], b: &[f64]) -> Option<Ratio> {
    let (a, b) = if metric.direction == Direction::Higher { (b, a) } else { (a, b) };
    Ratio::of(log_ratios(a, b).d)
}

/// What the better one gains, from ln(cost/its cost): speed and rates are inverse to cost.
fn gain(metric: &MetricSpec, log: f64) -> f64 {
    let inverse = metric.direction == Direction::Higher || is_time(metric);
    if inverse { log.exp_m1() } else { -(-log).exp_m1() }
}

/// The metrics of what a request costs: of less of it people say that it is cheaper.
const PER_REQUEST: [&str; 4] =
    ["user_per_request", "system_per_request", "cpu_per_request", "iowait_per_request"];

fn comparative(metric: &MetricSpec) -> &'static str {
    match metric.direction {
        Direction::Higher => "higher",
        _ if is_time(metric) => "faster",
        _ if PER_REQUEST.contains(&metric.id.as_str()) => "cheaper",
        _ => "lower",
    }
}

/// `faster`, `higher in iops`.
fn better(metric: &MetricSpec) -> String {
    match comparative(metric) {
        word if !is_time(metric) => format!("{word} in {}", metric.id),
        word if is_synced_time(metric) => format!("{word} (synced)"),
        word => word.into(),
    }
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

    #[test]
    fn a_bound_is_rounded_up() {
        let said = [0.0, 0.004, 0.0041, 0.00411, 0.0999, 0.123, 1.234, 0.04].map(rounded_up);
        assert_eq!(said, ["0%", "0.4%", "0.41%", "0.42%", "10%", "13%", "130%", "4%"]);
    }
}
