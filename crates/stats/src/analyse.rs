//! The analysis of one metric of a run.
//!
//! Each interval has 95% confidence for one pair of variants and one task; intervals are not corrected for their number.
//! Verdicts on claims use the same [`Grid`] and the same paired log ratios.

use crate::comparison::{Comparison, compare_with_references};
use crate::ratio::{LogRatios, log_ratios};
use crate::regret::Regrets;
use crate::{average::median, simulate::in_parallel};
use fsarena_core::cell::{TaskInfo, Variant};
use fsarena_core::factor;
use fsarena_core::matrix::EMPTY_LEVEL_NAME;
use fsarena_core::number::plural;
use fsarena_core::observations::{Grid, InvalidReason, MetricSeries, VariantValues, has_data};
use fsarena_core::sample::MetricSpec;

/// The analysis of one metric, for reports.
#[derive(Debug, Clone)]
pub struct Analysis {
    /// The metric.
    pub metric: MetricSpec,
    /// Its values, by task of the run, variant and round.
    pub grid: Grid,
    /// The rounds that were dropped for all variants, ascending.
    pub dropped: Vec<u32>,
    /// Every task that has data, in the order of the run.
    pub tasks: Vec<TaskAnalysis>,
    /// All tasks in the totals together. None if none of them has data.
    pub overall: Option<Overall>,
}

/// One task.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskAnalysis {
    /// The task.
    pub task: TaskInfo,
    /// How the variants compare on it.
    pub comparison: Comparison,
    /// Why its figures are shown without a ranking; None if they are ranked.
    pub unranked_because: Option<InvalidReason>,
}

/// All tasks in the totals together.
#[derive(Debug, Clone, PartialEq)]
pub struct Overall {
    /// The number of tasks that are combined.
    pub task_count: usize,
    /// The number of tasks in the totals of the run. It can be larger, because not every task has every metric.
    pub task_count_in_totals: usize,
    /// Their total as the metric declares it, if the metric has one.
    pub total: Option<CombinedTasks>,
    /// The name of the value in the answer: `total`, `largest`, `geometric mean`.
    pub name: &'static str,
    /// Their geometric mean, in which every task has the same weight.
    pub geometric: CombinedTasks,
    /// The comparison of the answer over all rounds, including the dropped ones; None if no round was dropped.
    pub with_all_rounds: Option<Comparison>,
}

/// Several tasks combined into one value for each variant and round, and compared like a single task.
#[derive(Debug, Clone, PartialEq)]
pub struct CombinedTasks {
    /// The combined value of each variant in each round, `values[variant][round]`; NaN for a missing value.
    pub values: VariantValues,
    /// The combined values for ratios of mean cost, if they differ from these.
    pub mean_costs: Option<VariantValues>,
    /// The comparison of the variants.
    pub comparison: Comparison,
    /// For each variant, the number of rounds that are left out because only some of their tasks have a value.
    pub left_out_rounds: Vec<usize>,
    /// The regret of choosing each variant: how much more it can cost than the best.
    pub regrets: Regrets,
}

/// Analyses one metric. Variants and tasks without data are left empty.
pub fn analyse(series: MetricSeries) -> Analysis {
    let MetricSeries { grid, dropped, with_dropped, error_split } = series;
    let tasks_with_data: Vec<usize> = (0..grid.tasks.len()).filter(|task| has_data(&grid.values[*task])).collect();
    let mean_costs = grid.mean_costs();
    let tasks = in_parallel(tasks_with_data.len(), |index| {
        let task = tasks_with_data[index as usize];
        let comparison = compare_with_references(&grid.values[task], &grid.references, grid.metric.direction)
            .with_mean_costs(mean_costs.as_ref().map(|costs| &costs.values[task]));
        let unranked_because = grid.excluded.get(&task).copied();
        TaskAnalysis {
            task: grid.tasks[task].clone(),
            comparison: if unranked_because.is_some() { comparison.unranked() } else { comparison },
            unranked_because,
        }
    });
    let mut overall = Overall::combine(&grid, error_split);
    if let (Some(overall), Some(grid_of_all_rounds)) = (&mut overall, &with_dropped) {
        let of_all_rounds = Overall::combine(grid_of_all_rounds, error_split);
        overall.with_all_rounds = of_all_rounds.map(|all| all.total.unwrap_or(all.geometric).comparison);
    }
    Analysis { metric: grid.metric.clone(), grid, dropped, tasks, overall }
}

/// The medians of one task, without a comparison.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskMedians {
    /// The task.
    pub task: TaskInfo,
    /// The median over rounds of each variant, in the metric's unit; None without a value.
    pub medians: Vec<Option<f64>>,
}

/// The medians of every task in the totals that has data, also of tasks without a ranking. Much faster than [`analyse`].
pub fn task_medians(grid: &Grid) -> Vec<TaskMedians> {
    let mut tasks = vec![];
    for (task, values) in grid.tasks.iter().zip(&grid.values) {
        if task.in_totals && has_data(values) {
            let medians = values.iter().map(|variant| median(variant)).collect();
            tasks.push(TaskMedians { task: task.clone(), medians });
        }
    }
    tasks
}

impl Overall {
    /// Combines all comparable tasks in the totals. None without such a task. `error_split` is the number of runs that share
    /// the error probability of the regrets.
    fn combine(grid: &Grid, error_split: usize) -> Option<Overall> {
        let tasks = grid.comparable_tasks();
        if tasks.is_empty() {
            return None;
        }
        let totals = grid.totals(&tasks);
        let costs = grid.mean_costs();
        let mean_totals = costs.as_ref().and_then(|costs| costs.totals(&tasks));
        let means = costs.map(|costs| costs.geometric_means(&tasks));
        Some(Overall {
            task_count: tasks.len(),
            task_count_in_totals: grid.tasks.iter().filter(|task| task.in_totals).count(),
            name: grid.metric.total_name().filter(|_| totals.is_some()).unwrap_or("geometric mean"),
            total: totals.map(|values| CombinedTasks::compare(grid, &tasks, (values, mean_totals), error_split)),
            geometric: CombinedTasks::compare(grid, &tasks, (grid.geometric_means(&tasks), means), error_split),
            with_all_rounds: None,
        })
    }

    /// The number of tasks in words: `6 tasks`, or `2 of 6 tasks` if others lack the metric or do not combine with these.
    pub fn scope(&self) -> String {
        if self.task_count < self.task_count_in_totals {
            format!("{} of {}", self.task_count, plural(self.task_count_in_totals, "task"))
        } else {
            plural(self.task_count, "task")
        }
    }

    /// The comparison by total and the comparison by geometric mean. The first is None if the metric has no total. The second
    /// is None if there is only one task with a total, because it would repeat the first.
    pub fn comparisons(&self) -> [Option<&Comparison>; 2] {
        let total = self.total.as_ref().map(|total| &total.comparison);
        let geometric = (self.task_count > 1 || total.is_none()).then_some(&self.geometric.comparison);
        [total, geometric]
    }

    /// The values that decide the answer: the total, or the geometric mean if the metric has no total.
    pub fn total_or_geometric(&self) -> &CombinedTasks {
        self.total.as_ref().unwrap_or(&self.geometric)
    }
}

impl CombinedTasks {
    /// Compares variants by their combined values, and by those for ratios of mean cost if these differ. `error_split` is the
    /// number of runs that share the error probability of the regrets.
    fn compare(
        grid: &Grid,
        tasks: &[usize],
        (values, mean_costs): (VariantValues, Option<VariantValues>),
        error_split: usize,
    ) -> CombinedTasks {
        let mut left_out_rounds = vec![];
        for (variant, combined) in values.iter().enumerate() {
            let has_some_task = |round: usize| tasks.iter().any(|task| !grid.values[*task][variant][round].is_nan());
            let is_left_out = |round: &usize| combined[*round].is_nan() && has_some_task(*round);
            left_out_rounds.push((0..combined.len()).filter(is_left_out).count());
        }
        let direction = grid.metric.direction;
        CombinedTasks {
            left_out_rounds,
            comparison: compare_with_references(&values, &grid.references, direction)
                .with_mean_costs(mean_costs.as_ref()),
            regrets: Regrets::compute(&values, &grid.references, direction, error_split),
            values,
            mean_costs,
        }
    }
}

impl Analysis {
    /// Whether there are too few rounds for an exact interval.
    pub fn is_provisional(&self) -> bool {
        match &self.overall {
            Some(overall) => overall.total_or_geometric().comparison.is_provisional(),
            None => self.tasks.iter().all(|task| task.comparison.is_provisional()),
        }
    }

    /// The tasks in the totals.
    pub fn tasks_in_totals(&self) -> impl Iterator<Item = &TaskAnalysis> {
        self.tasks.iter().filter(|task| task.task.in_totals)
    }
}

/// The log ratios of variant `b` to variant `a` over some tasks, one for each round: of the totals if there are any, else the
/// mean of the log ratios of the tasks.
pub fn log_ratios_of_tasks(
    grid: &Grid,
    (a, b): (usize, usize),
    tasks: &[usize],
    totals: Option<&VariantValues>,
) -> LogRatios {
    if let Some(totals) = totals {
        return log_ratios(&totals[a], &totals[b]);
    }
    let mut d_by_task: Vec<Vec<f64>> = vec![];
    for task in tasks {
        let values = &grid.values[*task];
        d_by_task.push(values[a].iter().zip(&values[b]).map(|(a, b)| (b / a).ln()).collect());
    }
    let has_both = |round: &usize| {
        tasks
            .iter()
            .map(|task| &grid.values[*task])
            .all(|values| !values[a][*round].is_nan() && !values[b][*round].is_nan())
    };
    let rounds = (0..d_by_task.first().map_or(0, Vec::len)).filter(has_both).count();
    let means = weighted_means(&d_by_task, &vec![1.0; d_by_task.len()]);
    let d: Vec<f64> = means.into_iter().filter(|d| d.is_finite()).collect();
    LogRatios { excluded_rounds: rounds.saturating_sub(d.len()), d }
}

/// The weighted mean over tasks in each round, G_b = Σ_t w_t·d_{t,b}/Σ_t w_t, of the log ratios `d[task][round]`. NaN if a task
/// with weight is missing. The result is a log ratio too.
pub fn weighted_means(d: &[Vec<f64>], weights: &[f64]) -> Vec<f64> {
    let rounds = d.iter().map(Vec::len).min().unwrap_or(0);
    let total_weight: f64 = weights.iter().sum();
    let mean = |round: usize| {
        let weighted_tasks = d.iter().zip(weights).filter(|(_, weight)| **weight != 0.0);
        weighted_tasks.map(|(task, weight)| weight * task[round]).sum::<f64>() / total_weight
    };
    (0..rounds).map(mean).collect()
}

/// The best of several variants that differ only in one factor.
#[derive(Debug, Clone, PartialEq)]
pub struct BestLevel {
    /// The best variant, named by the levels that all of them have in common.
    pub variant: Variant,
    /// Its level of the factor.
    pub level: String,
    /// Whether it differs significantly from every rival. If not, only its estimate is the best.
    pub is_decided: bool,
}

/// For every combination of the other factors' levels, returns the level of `factor` with the best geometric mean over all
/// tasks, in the order of the run's variants. Ignores variants without data.
pub fn best_levels(variants: &[Variant], analysis: &Analysis, factor: &str) -> Vec<BestLevel> {
    let Some(overall) = &analysis.overall else { return vec![] };
    let comparison = &overall.geometric.comparison;
    let mut groups: Vec<(Variant, Vec<usize>)> = Vec::new();
    for (index, variant) in variants.iter().enumerate() {
        if comparison.variants[index].median.is_none() {
            continue;
        }
        let without_factor = without_level(variant, factor);
        match groups.iter_mut().find(|(known, _)| known.levels == without_factor.levels) {
            Some((_, members)) => members.push(index),
            None => groups.push((without_factor, vec![index])),
        }
    }
    let mut best = vec![];
    for (mut variant, members) in groups {
        let Some(&first) = comparison.order.iter().find(|index| members.contains(index)) else { continue };
        let is_decided = members.iter().all(|other| *other == first || comparison.differs[first][*other]);
        let level = variants[first].level(factor).to_string();
        variant.levels.insert(factor.to_string(), level.clone());
        best.push(BestLevel { variant, level, is_decided });
    }
    best
}

/// A variant without its level of one factor, named by its other levels.
pub fn without_level(variant: &Variant, factor: &str) -> Variant {
    let level = variant.level(factor).to_string();
    let mut reduced = variant.clone();
    reduced.levels.remove(factor);
    let name_part = if level.is_empty() { EMPTY_LEVEL_NAME } else { &level };
    let mut parts: Vec<&str> = variant.name.split('/').collect();
    // If two parts of the name are equal, remove the last.
    if let Some(index) = parts.iter().rposition(|part| *part == name_part) {
        parts.remove(index);
    }
    reduced.name = if parts.is_empty() { variant.level(factor::FS).to_string() } else { parts.join("/") };
    reduced
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_level_removes_the_level_and_its_part_of_the_name() {
        let levels = [("fs", "xfs"), ("scheduler", "none")].map(|(id, level)| (id.to_string(), level.to_string()));
        let variant = Variant { name: "xfs/none".into(), levels: levels.into() };
        let reduced = without_level(&variant, "scheduler");
        assert_eq!((reduced.name.as_str(), reduced.levels.len()), ("xfs", 1));
        let alone = Variant { name: "none".into(), ..variant };
        assert_eq!(without_level(&alone, "scheduler").name, "xfs");
    }
}
