//! The analysis of one metric of a run.
//!
//! Intervals are 95% for each pair of variants and task; they are not corrected for how many there are.
//! Verdicts on claims stand on the same [`Grid`] and [`crate::pairs`] as the tables here.

use crate::all_tasks::{self, AllTasks};
use crate::comparison::{Comparison, compare_with};
use crate::grid::{self, Grid, has_data};
use crate::{average::median, simulate::parallel, trust::Doubt};
use fsarena_core::cell::TaskInfo;
use fsarena_core::names::{self, Unknown};
use fsarena_core::number::plural;
use fsarena_core::record::{MetricSpec, RunRecord};
use std::collections::BTreeSet;

/// Everything that reports say of one metric.
#[derive(Debug, Clone)]
pub struct Analysis {
    /// The metric.
    pub metric: MetricSpec,
    /// Its values, by task of the run, variant and round.
    pub grid: Grid,
    /// The rounds that were dropped as a whole, ascending.
    pub dropped: Vec<u32>,
    /// Every task that has data, in the order of the run.
    pub tasks: Vec<TaskAnalysis>,
    /// All tasks in the totals together. None where there is none with data.
    pub overall: Option<Overall>,
}

/// One task.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskAnalysis {
    /// The task.
    pub task: TaskInfo,
    /// How the variants compare on it.
    pub comparison: Comparison,
    /// Why its figures are shown but rank no variant, where they do not.
    pub set_aside: Option<Doubt>,
}

/// All tasks in the totals together.
#[derive(Debug, Clone, PartialEq)]
pub struct Overall {
    /// The number of tasks in it.
    pub tasks: usize,
    /// The number of tasks in the totals of the run, which can be more: not every task has every metric.
    pub of: usize,
    /// Their total as the metric declares it, where it does.
    pub total: Option<AllTasks>,
    /// The name of the one number that the answer quotes: `total`, `largest`, `geometric mean`.
    pub name: &'static str,
    /// Their geometric mean: every task counts the same.
    pub geometric: AllTasks,
    /// The total as it would be without dropping any round, where some were dropped; else the same for the
    /// geometric mean of metrics that have no total.
    pub without_drops: Option<Comparison>,
}

/// Why a run could not be analysed: it has no metric of that name.
pub type Error = Unknown;

/// Analyses one metric. Variants and tasks without data are left empty, never an error.
///
/// # Errors
/// Where nothing is called `metric`.
pub fn analyse(record: &RunRecord, metric: &str) -> Result<Analysis, Error> {
    let (info, grid) = Grid::of(record, metric).ok_or_else(|| unknown(record, metric))?;
    let dropped = grid::dropped(record);
    let all = record.tasks.iter().zip(&grid.values).enumerate();
    let with_data: Vec<_> = all.filter(|(_, (_, values))| has_data(values)).collect();
    let tasks = parallel(with_data.len(), |at| {
        let (index, (task, values)) = with_data[at as usize];
        let comparison = compare_with(values, &grid.references, info.direction);
        let set_aside = grid.set_aside.get(&index).copied();
        TaskAnalysis {
            task: task.clone(),
            comparison: if set_aside.is_some() { comparison.unranked() } else { comparison },
            set_aside,
        }
    });
    let mut overall = overall(record, &grid, &info, &grid::left_out(record));
    if let Some(overall) = overall.as_mut().filter(|_| !dropped.is_empty()) {
        overall.without_drops = without_drops(record, metric);
    }
    Ok(Analysis { metric: info, grid, dropped: dropped.into_iter().collect(), tasks, overall })
}

fn unknown(record: &RunRecord, metric: &str) -> Error {
    names::unknown("metric", metric, record.metric_ids())
        .at(format!("in run {}", record.id))
        .list("fsarena list metrics")
}

/// The medians of one task, where nothing is to be compared.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskMedians {
    /// The task.
    pub task: TaskInfo,
    /// The median over rounds of each variant, in the metric's unit; none where it has no value.
    pub variants: Vec<Option<f64>>,
}

/// The medians of every task in the totals that has data. What [`analyse`] says besides takes far longer.
///
/// # Errors
/// Where nothing is called `metric`.
pub fn medians(record: &RunRecord, metric: &str) -> Result<Vec<TaskMedians>, Error> {
    let (_, mut grid) = Grid::of(record, metric).ok_or_else(|| unknown(record, metric))?;
    // Shown, whatever may rank or combine.
    grid.set_aside.clear();
    grid.apart.clear();
    let of = |(task, values): (&TaskInfo, &Vec<Vec<f64>>)| TaskMedians {
        task: task.clone(),
        variants: values.iter().map(|variant| median(variant)).collect(),
    };
    Ok(grid.tasks(record).map(of).collect())
}

fn overall(record: &RunRecord, grid: &Grid, info: &MetricSpec, leave_out: &BTreeSet<u32>) -> Option<Overall> {
    let tasks: Vec<_> = grid.tasks(record).collect();
    if tasks.is_empty() {
        return None;
    }
    let totals = all_tasks::totals(record, info, leave_out, &tasks);
    let values: Vec<_> = tasks.into_iter().map(|(_, values)| values).collect();
    let split = record.plan.error_split();
    let together = |all| all_tasks::together(&values, all, &grid.references, info.direction, split);
    Some(Overall {
        tasks: values.len(),
        of: record.tasks.iter().filter(|task| task.in_totals).count(),
        name: info.whole().filter(|_| totals.is_some()).unwrap_or("geometric mean"),
        total: totals.map(together),
        geometric: together(all_tasks::means(&values)),
        without_drops: None,
    })
}

/// What the answer is about, for each variant and round: the total over the tasks where the metric has one, else their
/// geometric mean; NaN where a round lacks a task. Dropped rounds are left out.
///
/// # Errors
/// Where nothing is called `metric`.
pub fn combine_tasks(record: &RunRecord, metric: &str) -> Result<(MetricSpec, Vec<Vec<f64>>), Error> {
    let (info, grid) = Grid::of(record, metric).ok_or_else(|| unknown(record, metric))?;
    let tasks: Vec<_> = grid.tasks(record).collect();
    let totals = all_tasks::totals(record, &info, &grid::left_out(record), &tasks);
    let means = || all_tasks::means(&tasks.iter().map(|(_, values)| *values).collect::<Vec<_>>());
    let values = totals.unwrap_or_else(means);
    Ok((info, values))
}

fn without_drops(record: &RunRecord, metric: &str) -> Option<Comparison> {
    let warmup = grid::warmup(record);
    let (info, grid) = Grid::without(record, metric, &warmup)?;
    let all = overall(record, &grid, &info, &warmup)?;
    Some(all.total.unwrap_or(all.geometric).comparison)
}

impl Overall {
    /// `6 tasks`, or where others lack the metric or do not combine with these, `2 of 6 tasks`.
    pub fn scope(&self) -> String {
        if self.tasks < self.of {
            format!("{} of {}", self.tasks, plural(self.of, "task"))
        } else {
            plural(self.tasks, "task")
        }
    }

    /// By total where there is one, and by geometric mean, which of one task says the same as its total.
    pub fn wholes(&self) -> [Option<&Comparison>; 2] {
        let total = self.total.as_ref().map(|total| &total.comparison);
        let geometric = (self.tasks > 1 || total.is_none()).then_some(&self.geometric.comparison);
        [total, geometric]
    }

    /// The comparison that the answer quotes: of the total, or of the geometric mean if the metric has no total.
    pub fn main(&self) -> &AllTasks {
        self.total.as_ref().unwrap_or(&self.geometric)
    }
}

impl Analysis {
    /// Whether no comparison in it has enough rounds for an exact interval.
    pub fn provisional(&self) -> bool {
        match &self.overall {
            Some(overall) => overall.main().comparison.provisional(),
            None => self.tasks.iter().all(|task| task.comparison.provisional()),
        }
    }

    /// The tasks in the totals.
    pub fn tasks(&self) -> impl Iterator<Item = &TaskAnalysis> {
        self.tasks.iter().filter(|task| task.task.in_totals)
    }
}
