//! The comparison of two variants, B against A: the difference in each metric, for all tasks together and, if there are only a
//! few, for each task.

use crate::{number::plural, ratio_verdict::RatioVerdict};
use fsarena_core::record::{MetricSpec, RunRecord};
use fsarena_core::{names::distinct, observations::Grid, sample::Direction};
use fsarena_stats::analyse::log_ratios_of_tasks;
use fsarena_stats::power::{rounds_to_detect, spread};
use fsarena_stats::ratio::{LogRatios, Ratio, log_ratios};
use fsarena_stats::{comparison::median, mean_ratio::MeanRatio, sequential::Centre};

/// Metrics compared besides the requested ones. CPU time often varies least.
const COST_METRICS: [&str; 2] = ["system", "total_cpu"];
/// The largest number of tasks that get a row each. Runs with more tasks only get the row of all tasks.
const MAX_LISTED_TASKS: usize = 4;

/// The comparison of B with A in one metric, for one task or for all tasks together.
#[derive(Debug)]
pub struct PairRow {
    /// The name of the task, or `ALL 21 tasks`.
    pub task: String,
    /// Whether the row covers all tasks of the run.
    pub covers_all_tasks: bool,
    /// The metric.
    pub metric: MetricSpec,
    /// The ratio B / A in a typical round, with its interval.
    pub ratio: Ratio,
    /// The mean of B divided by the mean of A; `None` if the tasks have no total.
    pub mean_ratio: Option<MeanRatio>,
    /// The conclusion from the ratio and the margin.
    pub verdict: RatioVerdict,
    /// The standard deviation of the log ratio of a round. `None` for less than three rounds, or if B and A are equal in most
    /// rounds.
    pub sigma: Option<f64>,
    /// The number of rounds with which a difference as large as the margin is detected with a probability of 80%. `None` if it
    /// is more than 400.
    pub rounds_for_margin: Option<usize>,
    /// The number of rounds without a ratio, because a value is zero.
    pub excluded_rounds: usize,
}

impl PairRow {
    /// The effect of B compared with A in words: `costs more`, `does less`, `has more`.
    pub fn describe_effect(&self) -> &'static str {
        let has_more = self.ratio.value > 1.0;
        match self.metric.direction {
            Direction::Lower if has_more => "costs more",
            Direction::Lower => "costs less",
            Direction::Higher if has_more => "does more",
            Direction::Higher => "does less",
            Direction::Neutral if has_more => "has more",
            Direction::Neutral => "has less",
        }
    }

    /// The number of excluded rounds in words: `; 2 of 10 rounds left out: a value is zero`. Empty if there are none.
    pub fn excluded_rounds_note(&self) -> String {
        if self.excluded_rounds == 0 {
            return String::new();
        }
        let all_rounds = plural(self.excluded_rounds + self.ratio.rounds, "round");
        format!("; {} of {all_rounds} left out: a value is zero", self.excluded_rounds)
    }
}

/// The comparison of the two variants of a run, by each of these metrics and by [`COST_METRICS`]. Empty unless the run has
/// exactly two variants. The rows of all tasks come first; the others are ordered by task, then by metric.
pub fn pair_rows<'a>(record: &RunRecord, metrics: impl Iterator<Item = &'a str>, margin: f64) -> Vec<PairRow> {
    if record.variants.len() != 2 {
        return vec![];
    }
    let metrics = distinct(metrics.chain(COST_METRICS)).into_iter();
    let mut rows: Vec<PairRow> = metrics.flat_map(|id| rows_of_metric(record, (0, 1), id, margin)).collect();
    let tasks = distinct(rows.iter().map(|row| row.task.clone()));
    rows.sort_by_key(|row| (!row.covers_all_tasks).then(|| tasks.iter().position(|task| *task == row.task)));
    rows
}

/// The rows of one metric, in which variant `b` is compared with variant `a`: first the row of all tasks, then those of single
/// tasks.
pub fn rows_of_metric(record: &RunRecord, (a, b): (usize, usize), metric_id: &str, margin: f64) -> Vec<PairRow> {
    let Some(grid) = Grid::of(record, metric_id) else { return vec![] };
    let metric = &grid.metric;
    let has_values = |task: usize, variant: usize| grid.values[task][variant].iter().any(|value| !value.is_nan());
    let mut tasks = grid.comparable_tasks();
    tasks.retain(|task| has_values(*task, a) && has_values(*task, b));
    let mean_costs = grid.mean_costs();
    let means = mean_costs.as_ref().unwrap_or(&grid);
    let row = |task: String, pairs: LogRatios, covers_all_tasks: bool, values: Option<&[Vec<f64>]>| {
        let mean_ratio = values.and_then(|values| MeanRatio::from_costs(&values[a], &values[b]));
        Some(PairRow { mean_ratio, ..pair_row((task, covers_all_tasks), metric, pairs, margin)? })
    };
    let mut rows = Vec::new();
    if tasks.len() > 1 {
        let totals = grid.totals(&tasks);
        let pairs = log_ratios_of_tasks(&grid, (a, b), &tasks, totals.as_ref());
        rows.extend(row(format!("ALL {} tasks", tasks.len()), pairs, true, means.totals(&tasks).as_deref()));
    }
    if tasks.len() <= MAX_LISTED_TASKS {
        for &task in &tasks {
            let (name, values) = (grid.tasks[task].id.to_string(), &grid.values[task]);
            rows.extend(row(name, log_ratios(&values[a], &values[b]), tasks.len() == 1, Some(&means.values[task])));
        }
    }
    rows
}

/// The row for these log ratios of B to A, without the ratio of the means. `None` if no round has both values.
pub fn pair_row(
    (task, covers_all_tasks): (String, bool),
    metric: &MetricSpec,
    pairs: LogRatios,
    margin: f64,
) -> Option<PairRow> {
    let LogRatios { d: log_ratios, excluded_rounds } = pairs;
    let ln_interval_90 = Centre::from_log_ratios(&log_ratios)?.interval_90;
    // If most differences are exactly 0, the clock is too coarse, and the spread is no basis for planning rounds.
    let median_difference = median(&log_ratios.iter().map(|ratio| ratio.abs()).collect::<Vec<_>>());
    let sigma = if median_difference == Some(0.0) { None } else { spread(&log_ratios) };
    let ratio = Ratio::from_log_ratios(log_ratios)?;
    let verdict = RatioVerdict::of_paired_rounds(Some(ratio), Some(ln_interval_90), margin);
    let rounds_for_margin = sigma.and_then(|sigma| rounds_to_detect(sigma, margin));
    let metric = metric.clone();
    Some(PairRow {
        task,
        metric,
        ratio,
        mean_ratio: None,
        verdict,
        sigma,
        rounds_for_margin,
        excluded_rounds,
        covers_all_tasks,
    })
}
