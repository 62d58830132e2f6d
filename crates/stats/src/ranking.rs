//! All variants over all tasks, each with its weight: ranks, and what hangs on one task.

use crate::comparison::{Comparison, compare_with};
use crate::{analyse::Analysis, rank::rank_sets, simultaneous::simultaneous, table::FIRST_LOOK, weights};
use fsarena_core::{cell::TaskInfo, record::RunRecord, sample::Direction};

/// The variants of a run, ranked.
#[derive(Debug, Clone)]
pub struct Ranking {
    /// The metric.
    pub metric: String,
    /// Which way is better.
    pub direction: Direction,
    /// The tasks and their weights.
    pub weights: Vec<(String, f64)>,
    /// How the variants compare on the weighted mean over tasks.
    pub comparison: Comparison,
    /// The variants that are ranked, best first.
    pub variants: Vec<Ranked>,
    /// Rounds that have every variant in every task.
    pub rounds: usize,
}

/// One variant.
#[derive(Debug, Clone)]
pub struct Ranked {
    /// Index into the variants of the run.
    pub variant: usize,
    /// The ranks, first and last, that it may have; all at once with 95%. None under 8 whole rounds. Variants with exactly
    /// the same values have the same ones.
    pub ranks: Option<(usize, usize)>,
    /// The smallest and largest ratio to the best where any one task is left out. None for the best itself,
    /// and where there is one task alone.
    pub without_one: Option<(f64, f64)>,
    /// How often it would be the best in rounds drawn again.
    pub probability_best: Option<f64>,
}

impl Ranking {
    /// Ranks the variants of a run by a metric. None where it has fewer than two variants with data or no way is better.
    pub fn of(record: &RunRecord, analysis: &Analysis, weight: impl Fn(&TaskInfo) -> f64) -> Option<Ranking> {
        let metric = &analysis.metric;
        if metric.direction == Direction::Neutral {
            return None;
        }
        let (tasks, values): (Vec<&TaskInfo>, Vec<Values>) = analysis.grid.tasks(record).unzip();
        if tasks.is_empty() {
            return None;
        }
        let weights: Vec<f64> = tasks.iter().map(|task| weight(task)).collect();
        let means: Vec<Vec<f64>> =
            (0..record.variants.len()).map(|variant| weighted_mean(&values, variant, &weights)).collect();
        let comparison = compare_with(&means, &analysis.grid.references, metric.direction);
        let live = live(&comparison);
        if live.len() < 2 {
            return None;
        }
        let of_live: Vec<Vec<f64>> = live.iter().map(|variant| means[*variant].clone()).collect();
        let whole = |round: usize| of_live.iter().all(|variant| variant[round].is_finite());
        let rounds = (0..of_live[0].len()).filter(|round| whole(*round)).count();
        let ranks = simultaneous(&of_live, record.plan.seed)
            .filter(|_| rounds >= FIRST_LOOK)
            .and_then(|all| rank_sets(&all.intervals, metric.direction));
        let of_tasks: Vec<Vec<&[f64]>> = values
            .iter()
            .map(|task| live.iter().map(|variant| task[*variant].as_slice()).collect())
            .collect();
        let probability = weights::probability_best(&of_tasks, &weights, metric.direction, record.plan.seed);
        let variants = live.iter().enumerate().map(|(at, variant)| Ranked {
            variant: *variant,
            ranks: ranks.as_ref().map(|ranks| ranks[at]),
            without_one: (at > 0).then(|| without_one(&values, live[0], *variant, &weights)).flatten(),
            probability_best: probability.as_ref().map(|all| all[at]),
        });
        Some(Ranking {
            metric: metric.id.clone(),
            direction: metric.direction,
            weights: tasks.iter().map(|task| task.id.to_string()).zip(weights.iter().copied()).collect(),
            variants: variants.collect(),
            comparison,
            rounds,
        })
    }

    /// Whether no task weighs more than another.
    pub fn even(&self) -> bool {
        self.weights.iter().all(|(_, weight)| *weight == self.weights[0].1)
    }

    /// A variant of the same data that would be ahead of the best if some one task were left out. One that is level with it
    /// without each of the tasks is not ahead.
    pub fn overtaken_by(&self) -> Option<usize> {
        let ahead = |ranked: &&Ranked| {
            ranked.without_one.is_some_and(|(low, high)| match self.direction {
                Direction::Higher => high >= 1.0 && (low, high) != (1.0, 1.0),
                _ => low <= 1.0 && (low, high) != (1.0, 1.0),
            })
        };
        self.variants.iter().find(ahead).map(|ranked| ranked.variant)
    }
}

/// `[variant][round]` of a task.
type Values<'a> = &'a Vec<Vec<f64>>;

/// The weighted geometric mean over tasks of a variant in each round.
fn weighted_mean(values: &[Values], variant: usize, weights: &[f64]) -> Vec<f64> {
    let logs = values.iter().map(|task| task[variant].iter().map(|value| value.ln()).collect());
    let means = weights::weighted_means(&logs.collect::<Vec<Vec<f64>>>(), weights).into_iter();
    means.map(|mean| if mean.is_finite() { mean.exp() } else { f64::NAN }).collect()
}

/// The variants with as many rounds as it takes, best first.
fn live(comparison: &Comparison) -> Vec<usize> {
    let most = comparison.variants.iter().map(|variant| variant.rounds).max().unwrap_or(0);
    let enough = |variant: &&usize| comparison.variants[**variant].rounds >= FIRST_LOOK.min(most);
    comparison.order.iter().filter(enough).copied().collect()
}

fn without_one(values: &[Values], best: usize, variant: usize, weights: &[f64]) -> Option<(f64, f64)> {
    let d = |task: &Values| {
        task[best].iter().zip(&task[variant]).map(|(best, other)| (other / best).ln()).collect()
    };
    let d: Vec<Vec<f64>> = values.iter().map(d).collect();
    weights::leave_one_out(&d, weights).map(|(low, high)| (low.exp(), high.exp()))
}
