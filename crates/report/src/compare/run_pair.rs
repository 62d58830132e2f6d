//! The comparison of two runs: their ratios and the orders of their variants, task by task.

use super::order::{OrderPair, VariantOrder};
use crate::{error::Error, number::plural, phrases::task_label};
use fsarena_core::observations::{Grid, MetricSeries, has_data};
use fsarena_core::{metric::DeclaredMetrics, record::RunRecord};
use fsarena_stats::analyse::{Analysis, analyse};
use fsarena_stats::comparison::Comparison;
use fsarena_stats::ratio::{Ratio, independent_ratio};

/// The comparison of one task: b over a for each common variant, and the two orders.
pub struct TaskRatios<'a> {
    /// The title of the task or of the total.
    pub title: String,
    /// The ratio of each variant, in the order of the pair's variants; `None` if one run has no values.
    pub ratios: Vec<Option<Ratio>>,
    /// The orders of the variants in both runs; `None` if fewer than two variants have data in both, or if the totals of the
    /// runs contain different tasks.
    pub orders: Option<OrderPair<'a>>,
    /// Whether this is the total over several tasks.
    pub is_total: bool,
}

/// One run with its analysis.
pub struct ComparedRun<'a> {
    /// The run.
    pub record: &'a RunRecord,
    /// The analysis by the compared metric.
    pub analysis: Analysis,
}

/// A run and the first run, with which it is compared.
pub struct RunPair<'a> {
    /// The first run.
    pub a: &'a ComparedRun<'a>,
    /// The other run.
    pub b: &'a ComparedRun<'a>,
    /// The variants that both runs have: their indexes in the first run and in the other.
    pub variants: Vec<(usize, usize)>,
    /// The tasks that both runs have, and their total.
    pub tasks: Vec<TaskRatios<'a>>,
}

impl<'a> ComparedRun<'a> {
    /// Analyses a run by a metric.
    ///
    /// # Errors
    /// If the run lacks the metric.
    pub fn analyse(record: &'a RunRecord, metric: &str) -> Result<ComparedRun<'a>, Error> {
        Ok(ComparedRun { record, analysis: analyse(MetricSeries::of(record, metric)?) })
    }

    /// The values of a task, by variant and round.
    fn values(&self, task: usize) -> &Vec<Vec<f64>> {
        &self.analysis.grid.values[task]
    }

    /// Checks that another run used the same executor.
    ///
    /// # Errors
    /// If the other run used another executor.
    pub fn check_same_executor(&self, other: &RunRecord) -> Result<(), Error> {
        let [executor_a, executor_b] = [self.record, other].map(|record| record.plan.device.backing.executor());
        if executor_a != executor_b {
            let (a, b) = (&self.record.id, &other.id);
            return Err(Error::Usage(format!(
                "{a} ran in {executor_a} and {b} in {executor_b}: figures of different executors are not compared; run both in the same"
            )));
        }
        Ok(())
    }
}

impl<'a> RunPair<'a> {
    /// Compares the variants and tasks that both runs have.
    ///
    /// # Errors
    /// If the runs have no variant or task in common, or define the metric differently.
    pub fn compare(a: &'a ComparedRun, b: &'a ComparedRun) -> Result<RunPair<'a>, Error> {
        let mut declared = DeclaredMetrics::default();
        for run in [a, b] {
            declared
                .declare(&run.analysis.metric, &format!("run {}", run.record.id))
                .map_err(|contradiction| Error::Usage(contradiction.to_string()))?;
        }
        let nothing_in_common = |kind| Error::nothing_in_common(&a.record.id, &b.record.id, kind);
        let variants = common_indexes(&a.record.variants, &b.record.variants, |variant| &variant.name);
        if variants.is_empty() {
            return Err(nothing_in_common("variant"));
        }
        let common_tasks = common_indexes(&a.record.tasks, &b.record.tasks, |task| &task.id);
        let mut pair = RunPair { a, b, variants, tasks: vec![] };
        pair.tasks = common_tasks.iter().filter_map(|(in_a, in_b)| pair.task_ratios(*in_a, *in_b)).collect();
        if pair.tasks.is_empty() {
            return Err(nothing_in_common("task"));
        }
        pair.tasks.extend(pair.total_ratios(&common_tasks));
        Ok(pair)
    }

    /// The ratios and orders of a task, given by its index in each run; `None` if no variant has a ratio.
    fn task_ratios(&self, task_in_a: usize, task_in_b: usize) -> Option<TaskRatios<'a>> {
        let info = &self.a.record.tasks[task_in_a];
        let find_task = |run: &'a ComparedRun| run.analysis.tasks.iter().find(|task| task.task.id == info.id);
        let orders = self.order_pair(&find_task(self.a)?.comparison, &find_task(self.b)?.comparison);
        let ratios = self.ratios(self.a.values(task_in_a), self.b.values(task_in_b));
        if ratios.iter().all(Option::is_none) {
            return None;
        }
        Some(TaskRatios { title: task_label(info), ratios, orders, is_total: false })
    }

    /// The ratios of the total over the tasks with data in both runs that count in totals. `tasks` are the common tasks.
    fn total_ratios(&self, tasks: &[(usize, usize)]) -> Option<TaskRatios<'a>> {
        let (a, b) = (self.a, self.b);
        let is_counted = |task: usize| a.record.tasks[task].in_totals && has_data(a.values(task));
        let tasks = tasks.iter().filter(|(in_a, in_b)| is_counted(*in_a) && has_data(b.values(*in_b)));
        let (tasks_a, tasks_b): (Vec<usize>, Vec<usize>) = tasks.copied().unzip();
        let (overall_a, overall_b) = (a.analysis.overall.as_ref()?, b.analysis.overall.as_ref()?);
        if tasks_a.is_empty() {
            return None;
        }
        let totals = |run: &ComparedRun, tasks: &[usize]| run.analysis.grid.totals(tasks);
        // Each order comes from the total of its own run. If that total contains other tasks, the orders are not comparable.
        let have_same_tasks = is_total_over(&a.analysis.grid, &tasks_a) && is_total_over(&b.analysis.grid, &tasks_b);
        let orders =
            self.order_pair(&overall_a.total_or_geometric().comparison, &overall_b.total_or_geometric().comparison);
        Some(TaskRatios {
            title: format!("{} of {}", overall_a.name.to_uppercase(), plural(tasks_a.len(), "task")),
            ratios: self.ratios(&totals(a, &tasks_a)?, &totals(b, &tasks_b)?),
            orders: orders.filter(|_| have_same_tasks),
            is_total: true,
        })
    }

    /// The ratio of each common variant. The values are by variant and round.
    fn ratios(&self, a: &[Vec<f64>], b: &[Vec<f64>]) -> Vec<Option<Ratio>> {
        self.variants.iter().map(|(in_a, in_b)| independent_ratio(&a[*in_a], &b[*in_b])).collect()
    }

    /// The orders of the common variants with data in both comparisons; `None` if there are fewer than two.
    fn order_pair(&self, a: &'a Comparison, b: &'a Comparison) -> Option<OrderPair<'a>> {
        let is_in_both_orders = |(in_a, in_b): &&(usize, usize)| a.order.contains(in_a) && b.order.contains(in_b);
        let (variants_a, variants_b): (Vec<usize>, Vec<usize>) =
            self.variants.iter().filter(is_in_both_orders).copied().unzip();
        if variants_a.len() < 2 {
            return None;
        }
        Some(OrderPair {
            names: variants_a.iter().map(|variant| self.a.record.variants[*variant].name.as_str()).collect(),
            earlier: VariantOrder::of_variants(a, &variants_a)?,
            later: VariantOrder::of_variants(b, &variants_b)?,
        })
    }
}

/// Whether the total of a run is over these tasks, in any order.
fn is_total_over(grid: &Grid, tasks: &[usize]) -> bool {
    let mut ascending = tasks.to_vec();
    ascending.sort_unstable();
    grid.comparable_tasks() == ascending
}

/// The indexes in both lists of the items with the same key.
fn common_indexes<T, K: PartialEq>(a: &[T], b: &[T], key: impl Fn(&T) -> &K) -> Vec<(usize, usize)> {
    let in_both = |(index, item): (usize, &T)| Some((index, b.iter().position(|other| key(other) == key(item))?));
    a.iter().enumerate().filter_map(in_both).collect()
}
