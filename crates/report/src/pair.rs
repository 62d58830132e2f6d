//! Two variants, B against A: the difference by each metric, of all tasks together and of few one by one.

use crate::{difference::Finding, number::plural};
use fsarena_core::names::distinct;
use fsarena_core::observations::Grid;
use fsarena_core::record::{MetricSpec, RunRecord};
use fsarena_stats::analyse::log_ratios_of_tasks;
use fsarena_stats::power::{rounds_for, spread};
use fsarena_stats::ratio::{LogRatios, Ratio, log_ratios};
use fsarena_stats::{comparison::median, mean_ratio::MeanRatio, sequential::Centre};

/// Metrics compared besides the requested ones. CPU time often varies least.
const COST_METRICS: [&str; 2] = ["system", "total_cpu"];
/// Tasks that are listed one by one; of more, only all together.
const MAX_TASKS_LISTED: usize = 4;

/// One metric of one task, or of all.
#[derive(Debug)]
pub struct PairRow {
    /// The task, or how many all are.
    pub task: String,
    /// Whether that is all the work.
    pub whole: bool,
    /// The metric.
    pub metric: MetricSpec,
    /// B over A in a typical round.
    pub ratio: Ratio,
    /// The mean of B over that of A; `None` if the tasks have no total.
    pub mean_ratio: Option<MeanRatio>,
    /// What that says.
    pub finding: Finding,
    /// The spread of d. `None` under three rounds.
    pub sigma: Option<f64>,
    /// Rounds that find the margin in four of five runs. `None` if 400 do not.
    pub rounds: Option<usize>,
    /// Rounds without a ratio, because a value is zero.
    pub excluded: usize,
}

impl PairRow {
    /// `; 2 of 10 rounds left out: a value is zero`.
    pub fn left_out(&self) -> String {
        match self.excluded {
            0 => String::new(),
            some => {
                let all = plural(some + self.ratio.rounds, "round");
                format!("; {some} of {all} left out: a value is zero")
            }
        }
    }
}

/// The comparison of the two variants by each of these metrics and by [`COST_METRICS`]. Empty unless the run has exactly two.
pub fn pair_rows<'a>(record: &RunRecord, asked: impl Iterator<Item = &'a str>, margin: f64) -> Vec<PairRow> {
    if record.variants.len() != 2 {
        return vec![];
    }
    let ids = distinct(asked.chain(COST_METRICS));
    let mut columns: Vec<_> =
        ids.into_iter().map(|id| rows_of_metric(record, (0, 1), id, margin).into_iter()).collect();
    // Order rows by task, then by metric, because readers ask about tasks.
    let most = columns.iter().map(ExactSizeIterator::len).max().unwrap_or(0);
    (0..most).flat_map(|_| columns.iter_mut().filter_map(Iterator::next).collect::<Vec<_>>()).collect()
}

/// The comparison of variant `b` with variant `a` by one metric: of all tasks first, then of each if they are few.
pub fn rows_of_metric(record: &RunRecord, (a, b): (usize, usize), id: &str, margin: f64) -> Vec<PairRow> {
    let Some(grid) = Grid::of(record, id) else { return vec![] };
    let metric = &grid.metric;
    let has_all =
        |values: &[Vec<f64>]| [a, b].iter().all(|variant| values[*variant].iter().any(|v| !v.is_nan()));
    let mut tasks = grid.comparable_tasks();
    tasks.retain(|task| has_all(&grid.values[*task]));
    let one = |task: String, pairs: LogRatios, whole: bool, values: Option<&[Vec<f64>]>| {
        let mean_ratio = values.and_then(|values| MeanRatio::of(&values[a], &values[b]));
        Some(PairRow { mean_ratio, ..pair_row((task, whole), metric, pairs, margin)? })
    };
    let mut rows = Vec::new();
    if tasks.len() > 1 {
        let totals = grid.totals(&tasks);
        let pairs = log_ratios_of_tasks(&grid, (a, b), &tasks, totals.as_ref());
        rows.extend(one(format!("ALL {} tasks", tasks.len()), pairs, true, totals.as_deref()));
    }
    if tasks.len() <= MAX_TASKS_LISTED {
        let alone = tasks.len() == 1;
        let of_task = tasks.iter().filter_map(|task| {
            let (task, values) = (&grid.tasks[*task], &grid.values[*task]);
            one(task.id.to_string(), log_ratios(&values[a], &values[b]), alone, Some(values))
        });
        rows.extend(of_task);
    }
    rows
}

/// One row, without the ratio of the means; `None` without a round that has both.
pub fn pair_row(
    (task, whole): (String, bool),
    metric: &MetricSpec,
    pairs: LogRatios,
    margin: f64,
) -> Option<PairRow> {
    let LogRatios { d, excluded } = pairs;
    let narrow = Centre::of(&d)?.narrow;
    // A clock that mostly sees no difference at all has no spread to plan with.
    let sigma = spread(&d).filter(|_| median(&d.iter().map(|d| d.abs()).collect::<Vec<_>>()) != Some(0.0));
    let ratio = Ratio::of(d)?;
    let finding = Finding::of(Some(ratio), Some(narrow), margin);
    let rounds = sigma.and_then(|sigma| rounds_for(sigma, margin));
    let metric = metric.clone();
    Some(PairRow { task, metric, ratio, mean_ratio: None, finding, sigma, rounds, excluded, whole })
}
