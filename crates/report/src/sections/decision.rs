//! The section with the headline: which variant to use, or that none is significantly better, and how many more rounds
//! would make an inconclusive result conclusive.

mod headline;

use crate::document::{Detail, Document};
use crate::number::{percent, percent_range, plural};
use crate::phrases::{
    REQUEST_COST_METRICS, format_rounds_needed, is_synced_time, is_task_time, join_with_or, list_sentence, shorten_list,
};
use crate::report::{CurrentVariant, Report};
use fsarena_core::event::{Activity, NoteKind};
use fsarena_core::{record::MetricSpec, sample::Direction, setting_text::setting};
use fsarena_stats::analyse::{Analysis, Overall};
use fsarena_stats::decision::{MAX_REGRET, Recommendation};
use fsarena_stats::power::{rounds_to_detect, spread};
use fsarena_stats::ratio::{Ratio, log_ratios};
use fsarena_stats::{critical_values::FIRST_LOOK_ROUNDS, regret::Regrets};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Adds the headline and the sentences that explain it.
pub fn add_decision(document: &mut Document, report: &Report, _: Detail) {
    let Some(decision) = Decision::new(report) else { return };
    document.text(decision.headline());
    let sentences = [
        decision.provisional_note(),
        decision.less_safe_sentences(),
        decision.stopped_variants_sentence(),
        decision.cost_of_staying_sentence(),
        decision.geometric_mean_sentence(),
        decision.deciding_task_sentence(),
        decision.lost_tasks_sentence(),
        decision.how_to_settle_sentence(),
    ];
    document.list(sentences.into_iter().flatten().collect());
}

/// The page of the guide about noisy machines.
const NOISE_GUIDE: &str = "docs/guide/troubleshooting.md";

/// The recommendation of a run, by its primary metric.
pub struct Decision<'a> {
    report: &'a Report,
    /// The analysis by the primary metric.
    analysis: &'a Analysis,
    /// The figures of that analysis over all tasks.
    overall: &'a Overall,
    /// The variants that may be recommended, the best first. They keep all guarantees of safety, unless no variant does.
    candidates: Vec<usize>,
    /// The regret of each candidate: its cost compared with the best candidate.
    regrets: Regrets,
    /// The regrets by geometric mean.
    geometric_regrets: Regrets,
    recommendation: Recommendation,
    /// The first recommended variant; if none is recommended, the variant with the least regret.
    leader: usize,
}

impl Decision<'_> {
    /// Decides which variant to use. `None` if the run cannot compare its variants, or the metric has no better direction.
    pub fn new(report: &Report) -> Option<Decision<'_>> {
        let analysis = report.ranked_analysis()?;
        let overall = analysis.overall.as_ref()?;
        let main = overall.total_or_geometric();
        let mut order = main.comparison.order.clone();
        order.retain(|variant| report.record.violations().all(|(cell, _)| cell.variant != *variant));
        let candidates = report.record.with_full_guarantees(&order);
        let regrets = main.regrets.among(&candidates);
        let geometric_regrets = overall.geometric.regrets.among(&candidates);
        let least_regret = regrets.choose(&candidates);
        let recommendation = match candidates[..] {
            // If only one variant keeps all guarantees, there is nothing to weigh.
            [only] if order.len() > 1 => only_safe_variant(only, &main.regrets),
            _ => {
                // Without any bounded regret there is nothing to recommend.
                least_regret?;
                let current = report.current.map(|current| current.variant);
                Recommendation::from_regrets(&regrets, &candidates, current, report.margin.ln_1p())?
            }
        };
        let first_choice = recommendation.recommended().first().copied();
        let leader = first_choice.or(least_regret).or(candidates.first().copied())?;
        Some(Decision { report, analysis, overall, candidates, regrets, geometric_regrets, recommendation, leader })
    }

    /// The indexes of the recommended variants, the best first; empty if the run recommends none.
    pub fn choices(&self) -> Vec<usize> {
        self.recommendation.recommended()
    }

    /// The candidates that can still be the best, in order.
    pub fn possible_best(&self) -> Vec<usize> {
        let mut possible_best = self.candidates.clone();
        possible_best.retain(|variant| self.regrets.provisional || !self.regrets.is_dominated(*variant));
        possible_best
    }

    /// The variants ahead of the choice that give up safety, each with the guarantees that it weakens.
    pub fn less_safe_variants(&self) -> Vec<(usize, Vec<&str>)> {
        let order = &self.overall.total_or_geometric().comparison.order;
        let mut less_safe = vec![];
        for variant in order.iter().take_while(|variant| **variant != self.leader) {
            let weakened = self.report.record.weakened_guarantees(*variant);
            if !weakened.is_empty() {
                less_safe.push((*variant, weakened));
            }
        }
        less_safe
    }

    /// The note that the ranges are not confidence intervals yet, with the number of missing rounds. `None` if there are enough
    /// rounds.
    fn provisional_note(&self) -> Option<String> {
        let Recommendation::TooFewRounds { rounds, needed_rounds: needed } = self.recommendation else { return None };
        let grid = &self.analysis.grid;
        let round_noun = grid.column_noun();
        let reason = if rounds < FIRST_LOOK_ROUNDS {
            "what follows has the range of the rounds so far, not a confidence interval".into()
        } else {
            format!("to compare {} at once takes more {round_noun}s", plural(self.candidates.len(), "variant"))
        };
        let missing = needed.saturating_sub(rounds);
        // More rounds on the same images would not help.
        let remedy =
            grid.images().map_or(String::new(), |_| format!(" ({})", setting("age_images", &needed.to_string())));
        let more_rounds = plural(missing, &format!("more {round_noun}"));
        Some(format!("Provisional: {reason}. {more_rounds}{remedy}: {}.", self.format_time_for(missing)))
    }

    /// Sentences with the variants that are better than the choice but less safe: `ext2 is 12% faster in total, but gives up
    /// safety: no journal, …`.
    fn less_safe_sentences(&self) -> Option<String> {
        let (metric, main) = (&self.analysis.metric, self.overall.total_or_geometric());
        let mut sentences = vec![];
        for (variant, weakened) in self.less_safe_variants() {
            let Some(cost) = cost_ratio(metric, &main.values[variant], &main.values[self.leader]) else {
                continue;
            };
            let certainty = if main.comparison.differs[self.leader][variant] { "" } else { " (inconclusive)" };
            sentences.push(format!(
                "{} is {} {}{}{certainty}, but gives up safety: {}.",
                self.name(variant),
                percent(gain(metric, cost.value.ln())),
                comparative_with_metric(metric),
                self.measure_phrase(),
                weakened.join("; ")
            ));
        }
        (!sentences.is_empty()).then(|| sentences.join(" "))
    }

    /// A sentence with the cost of keeping the current variant: `Staying on ext4 costs 3% [−0.4% to 7%].` `None` without a
    /// current variant or a recommendation.
    fn cost_of_staying_sentence(&self) -> Option<String> {
        let CurrentVariant { variant: current, .. } = self.report.current?;
        if !matches!(self.recommendation, Recommendation::Use { .. } | Recommendation::Choose { .. }) {
            return None;
        }
        let name = self.current_name(current);
        if self.choices().contains(&current) {
            return Some(format!("{name} is the current variant: stay on it."));
        }
        let values = &self.overall.total_or_geometric().values;
        let cost = cost_ratio(&self.analysis.metric, &values[self.leader], &values[current])?;
        let [value, low, high] = [cost.value, cost.low, cost.high].map(|ratio| ratio - 1.0);
        Some(format!("Staying on {name} costs {} [{}].", percent(value), percent_range(low, high)))
    }

    /// The variants that are not the best and left the run, because fsarena stopped measuring them or because they failed. Each has
    /// its last round, counted from 1.
    fn departed_variants(&self) -> Vec<(usize, u32)> {
        let record = &self.report.record;
        // Without `best_within`, fsarena measures every variant until the end of the run.
        if record.plan.stop.best_within.is_none() {
            return vec![];
        }
        let last_round_of_run = record.cells.iter().map(|cell| cell.round + 1).max();
        let regrets = &self.overall.total_or_geometric().regrets;
        let mut departed = vec![];
        for variant in 0..record.variants.len() {
            let rounds = record.cells.iter().filter(|cell| cell.variant == variant).map(|cell| cell.round + 1);
            if let Some(last_round) = rounds.max()
                && Some(last_round) < last_round_of_run
                && regrets.is_dominated(variant)
            {
                departed.push((variant, last_round));
            }
        }
        departed
    }

    /// A sentence with the variants that fsarena stopped measuring: `fsarena stopped measuring variants that are not the
    /// best (95% confidence): ext3 after round 10.`
    fn stopped_variants_sentence(&self) -> Option<String> {
        let has_failed = |variant: usize| {
            let mut failures = self.report.record.notes_of(NoteKind::VariantFailed);
            failures.any(|(_, note)| note.variant.as_deref() == Some(self.name(variant)))
        };
        let stopped = self.departed_variants().into_iter().filter(|(variant, _)| !has_failed(*variant));
        let items: Vec<String> =
            stopped.map(|(variant, round)| format!("{} after round {round}", self.name(variant))).collect();
        list_sentence("fsarena stopped measuring variants that are not the best (95% confidence)", &items)
    }

    /// A sentence with the recommendation by geometric mean, if it differs from the choice.
    fn geometric_mean_sentence(&self) -> Option<String> {
        self.overall.total.as_ref()?;
        let mut order = self.overall.geometric.comparison.order.clone();
        order.retain(|variant| self.candidates.contains(variant));
        let current = self.report.current.map(|current| current.variant);
        let margin = self.report.margin.ln_1p();
        let others = Recommendation::from_regrets(&self.geometric_regrets, &order, current, margin)?.recommended();
        let choices = self.choices();
        if choices.is_empty() || others.is_empty() || others.iter().any(|other| choices.contains(other)) {
            return None;
        }
        let names = join_with_or(&self.names(&others));
        Some(format!("With equal weight for every task (geometric mean) the choice is {names}."))
    }

    /// A sentence with the variant that would be ahead if one task were left out. `None` unless the choice is first only
    /// because of one task.
    fn deciding_task_sentence(&self) -> Option<String> {
        let ranking = self.report.ranking().filter(|ranking| ranking.rounds > 1)?;
        let (first, other) = (ranking.variants.first()?.variant, ranking.overtaken_by()?);
        if self.choices().first() != Some(&first) {
            return None;
        }
        Some(format!("A single task decides that: without it, {} is ahead.", self.name(other)))
    }

    /// A sentence with the tasks in which another variant is significantly better than the choice: `ext4 loses 2 of 21
    /// tasks: untar (xfs is 12% faster)`.
    fn lost_tasks_sentence(&self) -> Option<String> {
        let choice = *self.choices().first()?;
        let metric = &self.analysis.metric;
        let mut lost = vec![];
        for task in self.analysis.tasks_in_totals() {
            let ratio = task.comparison.variants[choice].ratio.filter(Ratio::is_significant);
            let (Some(ratio), Some(best)) = (ratio, task.comparison.best()) else { continue };
            let log_ratio = ratio.value.ln();
            let log_cost = if metric.direction == Direction::Higher { -log_ratio } else { log_ratio };
            let lead = percent(gain(metric, log_cost));
            lost.push(format!("{} ({} is {lead} {})", task.task.id, self.name(best), comparative(metric)));
        }
        if lost.is_empty() {
            return None;
        }
        let (name, count) = (self.name(choice), lost.len());
        let tasks = plural(self.analysis.tasks_in_totals().count(), "task");
        Some(format!("{name} loses {count} of {tasks}: {}.", shorten_list(lost, "tasks").join(", ")))
    }

    /// A sentence on how to decide an inconclusive result: the number of further rounds and their time, and on a noisy
    /// machine other remedies.
    fn how_to_settle_sentence(&self) -> Option<String> {
        match self.recommendation {
            Recommendation::TooFewRounds { .. } => None,
            Recommendation::TooNoisy { .. } | Recommendation::Better { .. } => {
                let possible_best = self.possible_best();
                let spreads = possible_best.iter().filter_map(|variant| self.spread(*variant, &possible_best));
                Some(self.remedies_sentence(spreads.reduce(f64::max)))
            }
            _ => self.rounds_to_separate_sentence(),
        }
    }

    /// The remedies for a spread of the log ratio within rounds: `To settle it: 48 rounds, about 20 min more; …`.
    fn remedies_sentence(&self, spread: Option<f64>) -> String {
        let more_rounds = || format!("more {}s", self.analysis.grid.column_noun());
        let rounds = spread.and_then(|spread| self.rounds_to_find(MAX_REGRET, spread)).unwrap_or_else(more_rounds);
        let is_exact = self.report.record.plan.device.backing.counts_instructions();
        let exact_hint = if is_exact || !is_task_time(&self.analysis.metric) {
            String::new()
        } else {
            format!("; or `{}`, which counts instructions instead of time", setting("on", "exact"))
        };
        format!("To settle it: {rounds}; a quieter machine ({NOISE_GUIDE}){exact_hint}.")
    }

    /// The number of rounds that finds a difference, given as a fraction, with this spread of the log ratio:
    /// `48 rounds, about 20 min more`. `None` if the run already has that many.
    fn rounds_to_find(&self, difference: f64, spread: f64) -> Option<String> {
        let (rounds_so_far, round_noun) = (self.analysis.grid.rounds.len(), self.analysis.grid.column_noun());
        match rounds_to_detect(spread, difference) {
            None => Some(format!("{} {round_noun}s with this noise", format_rounds_needed(None))),
            Some(rounds) if rounds <= rounds_so_far => None,
            Some(rounds) => {
                Some(format!("{}, {} more", plural(rounds, round_noun), self.format_time_for(rounds - rounds_so_far)))
            }
        }
    }

    /// A sentence with the number of rounds that would show a difference between the choice and the variants that do not differ
    /// from it significantly. `None` if every variant differs significantly. Also `None` if the run already has that number of
    /// rounds, because then the difference is probably smaller than the margin.
    fn rounds_to_separate_sentence(&self) -> Option<String> {
        let differs = &self.overall.total_or_geometric().comparison.differs;
        let choices = self.choices();
        let mut inconclusive = self.candidates.clone();
        inconclusive.retain(|variant| !choices.contains(variant) && !differs[self.leader][*variant]);
        let needed = self.rounds_to_find(self.report.margin, self.spread(self.leader, &inconclusive)?)?;
        let names = self.names(&inconclusive);
        let others = if names.len() > 6 { shorten_list(names, "variants").join(", ") } else { join_with_or(&names) };
        let (name, margin) = (self.name(self.leader), percent(self.report.margin));
        Some(format!("Inconclusive whether {name} differs from {others}: to find {margin} takes {needed}."))
    }

    /// The largest standard deviation of the log ratio within rounds, between a variant and the others. `None` if it is
    /// unknown or zero for each of them.
    fn spread(&self, variant: usize, others: &[usize]) -> Option<f64> {
        let values = &self.overall.total_or_geometric().values;
        let spreads = others.iter().filter_map(|other| spread(&log_ratios(&values[variant], &values[*other]).d));
        spreads.filter(|sigma| *sigma > 0.0).reduce(f64::max)
    }

    /// The time that this number of rounds takes, at the mean pace of the run so far: `about 3 min`. In a run with aged
    /// images, of this number of images, each with all its rounds.
    fn format_time_for(&self, rounds: usize) -> String {
        let grid = &self.analysis.grid;
        let counted_rounds = &grid.by_round().rounds;
        let counted_cells =
            self.report.record.cells.iter().filter(|cell| counted_rounds.binary_search(&cell.round).is_ok());
        let spent_ns: u64 = counted_cells.map(|cell| cell.spent_on(Activity::Total)).sum();
        let rounds_so_far = grid.rounds.len().max(1);
        format!("about {} min", (spent_ns as f64 / rounds_so_far as f64 * rounds as f64 / 60e9).ceil())
    }

    /// The decision as JSON. A regret is the cost of a variant relative to the best one, minus one.
    pub fn to_json(&self) -> Value {
        let regrets = &self.regrets;
        let choices = self.choices();
        let less_safe = self.less_safe_variants().into_iter();
        let less_safe =
            less_safe.map(|(variant, weakened)| json!({ "variant": self.name(variant), "gives_up": weakened }));
        let departed = self.departed_variants().into_iter().map(|(variant, round)| (self.name(variant), round));
        let largest_regret =
            |regrets: &Regrets| choices.iter().filter_map(|choice| regrets.regret_of(*choice)).reduce(f64::max);
        let geometric_regret = largest_regret(&self.geometric_regrets).filter(|_| self.has_comparable_geometric_mean());
        json!({
            "answer": self.recommendation.id(),
            "choose": choices.first().map(|choice| self.name(*choice)),
            "equal": self.names(choices.get(1..).unwrap_or_default()),
            "possible": self.names(&self.possible_best()),
            "current": self.report.current.map(|current| self.name(current.variant)),
            "current_is_guessed": self.report.current.map(|current| current.is_guess),
            "costs": self.quoted_costs_json(),
            "other_metrics": self.other_metrics_json(),
            "regret": largest_regret(regrets).map(f64::exp_m1),
            "regret_by_geometric_mean": geometric_regret.map(f64::exp_m1),
            "cheaper_but_less_safe": less_safe.collect::<Vec<_>>(),
            "metric": self.analysis.metric.id,
            "rounds": regrets.rounds,
            "rounds_needed": regrets.needed_rounds,
            "provisional": regrets.provisional,
            "left": departed.collect::<BTreeMap<_, _>>(),
            "headline": self.headline(),
        })
    }

    fn name(&self, variant: usize) -> &str {
        self.report.record.variant_name(variant)
    }

    fn names(&self, variants: &[usize]) -> Vec<String> {
        variants.iter().map(|variant| self.name(*variant).to_string()).collect()
    }

    /// The name of the current variant; if fsarena guessed it, with the reason: `ext4 (the filesystem below)`.
    fn current_name(&self, variant: usize) -> String {
        let guessed = self.report.current.is_some_and(|current| current.is_guess);
        let reason = if guessed { " (the filesystem below)" } else { "" };
        format!("{}{reason}", self.name(variant))
    }

    /// Whether the regret by geometric mean can be shown beside the main one: the main answer is by the total of several
    /// tasks, and both have enough rounds or both too few.
    fn has_comparable_geometric_mean(&self) -> bool {
        let equally_provisional = self.geometric_regrets.provisional == self.regrets.provisional;
        self.overall.total.is_some() && self.overall.task_count > 1 && equally_provisional
    }

    /// The quantity that variants are compared by: ` in total over 20 of 21 tasks`. With figures of a single task, only
    /// the scope: ` over 1 of 21 tasks`, or nothing.
    fn measure_phrase(&self) -> String {
        let is_part = self.overall.task_count < self.overall.task_count_in_totals;
        let scope = if is_part { format!(" over {}", self.overall.scope()) } else { String::new() };
        match (self.overall.task_count, self.overall.name) {
            (1, _) => scope,
            (_, "total") => format!(" in total{scope}"),
            (_, name) => format!(" by {name}{scope}"),
        }
    }
}

/// The answer if only one variant keeps all safety guarantees.
fn only_safe_variant(choice: usize, regrets: &Regrets) -> Recommendation {
    if regrets.provisional {
        Recommendation::TooFewRounds { rounds: regrets.rounds, needed_rounds: regrets.needed_rounds }
    } else {
        Recommendation::Use { choice, next: None }
    }
}

/// The cost of `other` divided by the cost of `base`, within rounds. For a metric where higher is better, the cost is
/// its inverse.
fn cost_ratio(metric: &MetricSpec, base: &[f64], other: &[f64]) -> Option<Ratio> {
    let (base, other) = if metric.direction == Direction::Higher { (other, base) } else { (base, other) };
    Ratio::from_log_ratios(log_ratios(base, other).d)
}

/// How much better the better variant is, as a fraction that fits [`comparative`]. If the worse variant costs 1.25
/// times as much, the better one is 25% faster or higher, but 20% lower or cheaper.
/// `log_cost_ratio` is the logarithm of the cost of the worse variant divided by that of the better one.
fn gain(metric: &MetricSpec, log_cost_ratio: f64) -> f64 {
    let is_speed = metric.direction == Direction::Higher || is_task_time(metric);
    if is_speed { log_cost_ratio.exp_m1() } else { -(-log_cost_ratio).exp_m1() }
}

/// The comparative for the better variant: `faster`, `higher`, `cheaper`, `lower`.
fn comparative(metric: &MetricSpec) -> &'static str {
    match metric.direction {
        Direction::Higher => "higher",
        _ if is_task_time(metric) => "faster",
        _ if REQUEST_COST_METRICS.contains(&metric.id.as_str()) => "cheaper",
        _ => "lower",
    }
}

/// The comparative with the metric: `faster`, `higher in iops`.
fn comparative_with_metric(metric: &MetricSpec) -> String {
    format!("{}{}", comparative(metric), metric_suffix(metric))
}

/// The metric after a comparative: ` (synced)`, ` in iops`; empty for the time until a command returns.
fn metric_suffix(metric: &MetricSpec) -> String {
    if !is_task_time(metric) {
        format!(" in {}", metric.id)
    } else if is_synced_time(metric) {
        " (synced)".into()
    } else {
        String::new()
    }
}
