//! The headline: which variant to use, or that none is significantly better, and what would settle it.

mod headline;
mod mean_cost;
mod other_metrics;

use crate::number::{beside, percent, plural};
use crate::report::Current;
use crate::section::{Chapter, Detail, Document, Report, Section};
use crate::words::{either, few, is_synced_time, is_time, rounds_needed, sentence};
use fsarena_core::event::SpentOn;
use fsarena_core::plan::{Backing, Emulator};
use fsarena_core::record::MetricSpec;
use fsarena_core::sample::Direction;
use fsarena_stats::analyse::{Analysis, Overall};
use fsarena_stats::decision::{Answer, MOST_REGRET};
use fsarena_stats::power::{rounds_for, spread};
use fsarena_stats::ratio::{Ratio, log_ratios};
use fsarena_stats::regret::Regrets;
use fsarena_stats::table::FIRST_LOOK;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The headline.
pub const SECTION: Section = Section::new(Chapter::Answer, add);

fn add(document: &mut Document, report: &Report, _: Detail) {
    let Some(decision) = Decision::of(report) else { return };
    document.text(decision.headline());
    let further = [
        decision.provisional(),
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

/// The page of the guide about machines that measure badly.
const TROUBLESHOOTING: &str = "docs/guide/troubleshooting.md";

/// The answer by the primary metric.
pub struct Decision<'a> {
    report: &'a Report,
    analysis: &'a Analysis,
    overall: &'a Overall,
    /// The variants that may be chosen, in order.
    candidates: Vec<usize>,
    /// What choosing one of them costs against the others of them, and that by geometric mean.
    regrets: Regrets,
    means: Regrets,
    answer: Answer,
    /// The first that is recommended, or where none is the one with the least regret.
    lead: usize,
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
        let candidates = report.record.with_full_guarantees(&order);
        let regrets = main.regrets.among(&candidates);
        let means = overall.geometric.regrets.among(&candidates);
        let current = report.current.map(|current| current.variant);
        let answer = match candidates[..] {
            // Where one alone is as safe, nothing is left to weigh.
            [only] if order.len() > 1 => only_safe(only, &main.regrets),
            _ => {
                regrets.choose(&candidates)?;
                Answer::of(&regrets, &candidates, current, report.margin.ln_1p())?
            }
        };
        let recommended = answer.recommended().first().copied();
        let lead = recommended.or_else(|| regrets.choose(&candidates)).or(candidates.first().copied())?;
        Some(Decision { report, analysis, overall, candidates, regrets, means, answer, lead })
    }

    /// The recommended variants, the best first; none where the run recommends none.
    pub fn choices(&self) -> Vec<usize> {
        self.answer.recommended()
    }

    /// The variants as safe as the choice that can still be the best, in order.
    pub fn possible(&self) -> Vec<usize> {
        let possible = |variant: &usize| self.regrets.provisional || !self.regrets.is_dominated(*variant);
        self.candidates.iter().copied().filter(possible).collect()
    }

    /// The variants ahead of the choice that give up safety, and what.
    pub fn cheaper_variants(&self) -> Vec<(usize, Vec<&str>)> {
        let order = &self.overall.main().comparison.order;
        let ahead = order.iter().copied().take_while(|variant| *variant != self.lead);
        let unsafe_ones = ahead.map(|variant| (variant, self.report.record.weakened_guarantees(variant)));
        unsafe_ones.filter(|(_, words)| !words.is_empty()).collect()
    }

    /// That the figures are no confidence intervals yet, and when they will be.
    fn provisional(&self) -> Option<String> {
        let Answer::TooFewRounds { rounds, needed } = self.answer else { return None };
        let why = match rounds < FIRST_LOOK {
            true => "what follows has the range of the rounds so far, not a confidence interval".into(),
            false => {
                format!("to compare {} at once takes more rounds", plural(self.candidates.len(), "variant"))
            }
        };
        let more = needed.and_then(|needed| needed.checked_sub(rounds)).filter(|more| *more > 0);
        let more = more.map_or(String::new(), |more| {
            format!(" {}: {}.", plural(more, "more round"), self.time_for(more))
        });
        Some(format!("Provisional: {why}.{more}"))
    }

    /// `ext2 is 12% faster in total, but gives up safety: no journal, …`.
    fn cheaper(&self) -> Option<String> {
        let metric = &self.analysis.metric;
        let main = self.overall.main();
        let said = self.cheaper_variants().into_iter().filter_map(|(variant, words)| {
            let ahead = cost(metric, &main.values[variant], &main.values[self.lead])?.value.ln();
            let sure = if main.comparison.separated[self.lead][variant] { "" } else { " (inconclusive)" };
            let (by, is) = (percent(gain(metric, ahead)), better(metric));
            let (name, over, words) = (self.name(variant), self.measure(), words.join("; "));
            Some(format!("{name} is {by} {is}{over}{sure}, but gives up safety: {words}."))
        });
        Some(said.collect::<Vec<_>>().join(" ")).filter(|said| !said.is_empty())
    }

    /// `Staying on ext4 costs 3% [−0.4, 7].` Where the current variant is not part of the headline.
    fn staying(&self) -> Option<String> {
        let Current { variant: current, .. } = self.report.current?;
        if !matches!(self.answer, Answer::Use { .. } | Answer::Choose { .. }) {
            return None;
        }
        let name = self.current(current);
        if self.choices().contains(&current) {
            return Some(format!("{name} is the current variant: stay on it."));
        }
        let values = &self.overall.main().values;
        let cost = cost(&self.analysis.metric, &values[self.lead], &values[current])?;
        let [value, low, high] =
            [cost.value, cost.low, cost.high].map(|ratio| beside(100.0 * (ratio - 1.0), &[0.0]));
        Some(format!("Staying on {name} costs {value}% [{low}, {high}]."))
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
        let gone = |(variant, rounds): &(usize, u32)| Some(*rounds) < last && regrets.is_dominated(*variant);
        all.filter(gone).filter(|_| record.plan.stop.best_within.is_some()).collect()
    }

    /// `Left the run, because they are not the best with 95% confidence: ext3 after round 10.`
    fn left(&self) -> Option<String> {
        let each = |(variant, rounds)| format!("{} after round {rounds}", self.name(variant));
        let names: Vec<String> = self.gone().into_iter().map(each).collect();
        sentence("fsarena stopped measuring variants that are not the best (95% confidence)", &names)
    }

    /// What the geometric mean recommends, where that is another variant.
    fn by_mean(&self) -> Option<String> {
        self.overall.total.as_ref()?;
        let mut order = self.overall.geometric.comparison.order.clone();
        order.retain(|one| self.candidates.contains(one));
        let current = self.report.current.map(|current| current.variant);
        let others = Answer::of(&self.means, &order, current, self.report.margin.ln_1p())?.recommended();
        let (ours, same) = (self.choices(), |one: &usize| self.choices().contains(one));
        if ours.is_empty() || others.is_empty() || others.iter().any(same) {
            return None;
        }
        let names = either(&self.names(&others));
        Some(format!("With equal weight for every task (geometric mean) the choice is {names}."))
    }

    /// Whether a single task makes the ranking's first what it is.
    fn one_task(&self) -> Option<String> {
        let ranking = self.report.ranking().filter(|ranking| ranking.rounds > 1)?;
        let (first, other) = (ranking.variants.first()?.variant, ranking.overtaken_by()?);
        let choice = self.choices().first() == Some(&first);
        choice.then(|| format!("A single task decides that: without it, {} is ahead.", self.name(other)))
    }

    /// The tasks in which another variant is significantly better: `ext4 loses 2 of 21 tasks: untar (xfs is 12% faster)`.
    fn losses(&self) -> Option<String> {
        let choice = *self.choices().first()?;
        let metric = &self.analysis.metric;
        let lost = self.analysis.tasks().filter_map(|task| {
            let ratio = task.comparison.variants[choice].ratio.filter(Ratio::separated)?.value;
            let behind = if metric.direction == Direction::Higher { -ratio.ln() } else { ratio.ln() };
            let (best, by) = (self.name(task.comparison.best()?), percent(gain(metric, behind)));
            Some(format!("{} ({best} is {by} {})", task.task.id, comparative(metric)))
        });
        let lost: Vec<String> = lost.collect();
        let tasks = plural(self.analysis.tasks().count(), "task");
        let (name, count) = (self.name(choice), lost.len());
        (count > 0).then(|| format!("{name} loses {count} of {tasks}: {}.", few(lost).join(", ")))
    }

    /// What it takes to settle what is open: rounds and the time that they take at the pace so far, and where the machine is too
    /// noisy what helps besides.
    fn to_settle(&self) -> Option<String> {
        match self.answer {
            Answer::TooFewRounds { .. } => None,
            Answer::TooNoisy { .. } | Answer::Better { .. } => {
                let possible = self.possible();
                let spread = possible.iter().filter_map(|one| self.spread(*one, &possible)).reduce(f64::max);
                Some(self.remedies(spread))
            }
            _ => self.inconclusive(),
        }
    }

    /// `To settle it: 48 rounds, about 20 min more; …`.
    fn remedies(&self, spread: Option<f64>) -> String {
        let so_far = self.analysis.grid.rounds.len();
        let rounds = match spread.map(|sigma| rounds_for(sigma, MOST_REGRET)) {
            Some(Some(rounds)) if rounds > so_far => {
                format!("{}, {} more", plural(rounds, "round"), self.time_for(rounds - so_far))
            }
            Some(None) => format!("{} rounds with this noise", rounds_needed(None)),
            _ => "more rounds".into(),
        };
        let exact = matches!(&self.report.record.plan.device.backing, Backing::Guest(guest) if guest.emulator == Emulator::Exact);
        let count = if exact || !is_time(&self.analysis.metric) {
            ""
        } else {
            "; or `--on exact`, which counts instructions instead of time"
        };
        format!("To settle it: {rounds}; a quieter machine ({TROUBLESHOOTING}){count}.")
    }

    /// The rounds that tell the choice from the variants that do not differ from it significantly.
    fn inconclusive(&self) -> Option<String> {
        let separated = &self.overall.main().comparison.separated;
        let choices = self.choices();
        let open = |variant: &usize| !choices.contains(variant) && !separated[self.lead][*variant];
        let open: Vec<usize> = self.candidates.iter().copied().filter(open).collect();
        let sigma = self.spread(self.lead, &open)?;
        let so_far = self.analysis.grid.rounds.len();
        let names = self.names(&open);
        let needed = match rounds_for(sigma, self.report.margin) {
            None => format!("{} rounds", rounds_needed(None)),
            // With that many rounds done, the difference is probably below the margin.
            Some(rounds) if rounds <= so_far => return None,
            Some(rounds) => {
                format!("{}, {} more", plural(rounds, "round"), self.time_for(rounds - so_far))
            }
        };
        let others = if names.len() > 6 { few(names).join(", ") } else { either(&names) };
        let (name, margin) = (self.name(self.lead), percent(self.report.margin));
        Some(format!("Inconclusive whether {name} differs from {others}: to find {margin} takes {needed}."))
    }

    /// The largest spread within rounds of a variant and any of the others; none where there is none.
    fn spread(&self, variant: usize, others: &[usize]) -> Option<f64> {
        let values = &self.overall.main().values;
        let of = |other: &usize| spread(&log_ratios(&values[variant], &values[*other]).d);
        others.iter().filter_map(of).filter(|sigma| *sigma > 0.0).reduce(f64::max)
    }

    /// `about 3 min`: the time of rounds at the pace so far.
    fn time_for(&self, rounds: usize) -> String {
        let spent: u64 = self.report.record.cells.iter().map(|cell| cell.spent_on(SpentOn::Total)).sum();
        let so_far = self.analysis.grid.rounds.len().max(1);
        format!("about {} min", (spent as f64 / so_far as f64 * rounds as f64 / 60e9).ceil())
    }

    /// For programs: regrets are the cost over the cheapest choice, less one.
    pub fn json(&self) -> Value {
        let regrets = &self.regrets;
        let choices = self.choices();
        let cheaper = self.cheaper_variants().into_iter();
        let cheaper = cheaper.map(|(at, words)| json!({ "variant": self.name(at), "gives_up": words }));
        let left = self.gone().into_iter().map(|(variant, rounds)| (self.name(variant), rounds));
        let largest = |of: &Regrets| choices.iter().filter_map(|one| of.of(*one)).reduce(f64::max);
        json!({
            "answer": self.answer.id(),
            "choose": choices.first().map(|choice| self.name(*choice)),
            "equal": self.names(choices.get(1..).unwrap_or_default()),
            "possible": self.names(&self.possible()),
            "current": self.report.current.map(|current| self.name(current.variant)),
            "current_is_guessed": self.report.current.map(|current| current.guessed),
            "costs": self.costs_json(),
            "other_metrics": self.other_metrics_json(),
            "regret": largest(regrets).map(f64::exp_m1),
            "regret_by_geometric_mean": self.has_means().then(|| largest(&self.means)).flatten().map(f64::exp_m1),
            "cheaper_but_less_safe": cheaper.collect::<Vec<_>>(),
            "metric": self.analysis.metric.id,
            "rounds": regrets.rounds,
            "rounds_needed": regrets.needed,
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

    /// The name of the current variant, and where fsarena has it from: `ext4 (the filesystem below)`.
    fn current(&self, variant: usize) -> String {
        let guessed = self.report.current.is_some_and(|current| current.guessed);
        let from = if guessed { " (the filesystem below)" } else { "" };
        format!("{}{from}", self.name(variant))
    }

    /// Whether the geometric mean says something besides the total, with as many rounds.
    fn has_means(&self) -> bool {
        let alike = self.means.provisional == self.regrets.provisional;
        self.overall.total.is_some() && self.overall.tasks > 1 && alike
    }

    /// Over what: nothing where there is one task.
    fn measure(&self) -> String {
        let part = self.overall.tasks < self.overall.of;
        let scope = if part { format!(" over {}", self.overall.scope()) } else { String::new() };
        match (self.overall.tasks, self.overall.name) {
            (1, _) => scope,
            (_, "total") => format!(" in total{scope}"),
            (_, name) => format!(" by {name}{scope}"),
        }
    }
}

/// The answer where all but one variant give up safety.
fn only_safe(choice: usize, regrets: &Regrets) -> Answer {
    match regrets.provisional {
        true => Answer::TooFewRounds { rounds: regrets.rounds, needed: regrets.needed },
        false => Answer::Use { choice, next: None },
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
    format!("{}{}", comparative(metric), of_what(metric))
}

/// What a comparative is about: nothing for the time until a command returns, ` (synced)`, ` in iops`.
fn of_what(metric: &MetricSpec) -> String {
    match is_time(metric) {
        false => format!(" in {}", metric.id),
        true if is_synced_time(metric) => " (synced)".into(),
        true => String::new(),
    }
}
