//! Two runs: their ratios and their orders, task by task and variant by variant.

use super::order::{OrderPair, VariantOrder};
use crate::{error::Error, number::plural, words::label};
use fsarena_core::observations::{MetricSeries, has_data};
use fsarena_core::{metric::Declared, record::RunRecord};
use fsarena_stats::analyse::{Analysis, analyse};
use fsarena_stats::hodges_lehmann::independent_ratio;
use fsarena_stats::{comparison::Comparison, ratio::Ratio};

/// The comparison of one task: b over a for each common variant, and the two orders.
pub struct TaskRatios<'a> {
    /// Its title.
    pub title: String,
    /// In the order of the variants of the pair.
    pub ratios: Vec<Option<Ratio>>,
    /// None where fewer than two variants are in both.
    pub orders: Option<OrderPair<'a>>,
    /// Whether it sums up others.
    pub over_all: bool,
}

/// One run with its analysis and its values.
pub struct ComparedRun<'a> {
    /// The run.
    pub record: &'a RunRecord,
    /// By the metric that is compared.
    pub analysis: Analysis,
}

/// A run beside the first.
pub struct RunPair<'a> {
    /// The first run.
    pub a: &'a ComparedRun<'a>,
    /// The other run.
    pub b: &'a ComparedRun<'a>,
    /// The variants that are in both.
    pub variants: Variants,
    /// The tasks that are in both, and their total.
    pub tasks: Vec<TaskRatios<'a>>,
}

/// Indices of the same variants in both runs.
type Variants = Vec<(usize, usize)>;

impl<'a> ComparedRun<'a> {
    /// A run, analysed by a metric.
    pub fn of(record: &'a RunRecord, metric: &str) -> Result<ComparedRun<'a>, Error> {
        Ok(ComparedRun { record, analysis: analyse(MetricSeries::of(record, metric)?) })
    }

    /// The values of a task, by variant and round.
    fn values(&self, task: usize) -> &Vec<Vec<f64>> {
        &self.analysis.grid.values[task]
    }

    /// Refuses another run if it is of another executor.
    pub fn comparable(&self, other: &RunRecord) -> Result<(), Error> {
        let [in_a, in_b] = [self.record, other].map(|record| record.plan.device.backing.executor());
        if in_a != in_b {
            let (a, b) = (&self.record.id, &other.id);
            return Err(Error::Usage(format!(
                "{a} ran in {in_a} and {b} in {in_b}: figures of different executors are not compared; run both in the same"
            )));
        }
        Ok(())
    }
}

impl<'a> RunPair<'a> {
    /// Compares the variants and tasks that both runs have.
    ///
    /// # Errors
    /// If they have no variant or task in common, or the metric means something else in the other.
    pub fn of(a: &'a ComparedRun, b: &'a ComparedRun) -> Result<RunPair<'a>, Error> {
        let mut declared = Declared::default();
        for side in [a, b] {
            declared
                .declare(&side.analysis.metric, &format!("run {}", side.record.id))
                .map_err(|contradiction| Error::Usage(contradiction.to_string()))?;
        }
        let nothing = |what| Error::nothing_in_common(&a.record.id, &b.record.id, what);
        let variants = common(&a.record.variants, &b.record.variants, |variant| &variant.name);
        if variants.is_empty() {
            return Err(nothing("variant"));
        }
        let shared = common(&a.record.tasks, &b.record.tasks, |task| &task.id);
        let mut pair = RunPair { a, b, variants, tasks: vec![] };
        pair.tasks = shared.iter().filter_map(|(i, j)| pair.task(*i, *j)).collect();
        if pair.tasks.is_empty() {
            return Err(nothing("task"));
        }
        pair.tasks.extend(pair.total(&shared));
        Ok(pair)
    }

    fn task(&self, i: usize, j: usize) -> Option<TaskRatios<'a>> {
        let info = &self.a.record.tasks[i];
        let of = |side: &'a ComparedRun| side.analysis.tasks.iter().find(|task| task.task.id == info.id);
        let orders = self.orders(&of(self.a)?.comparison, &of(self.b)?.comparison);
        let ratios = self.ratios(self.a.values(i), self.b.values(j));
        let known = ratios.iter().any(Option::is_some);
        known.then(|| TaskRatios { title: label(info), ratios, orders, over_all: false })
    }

    /// The total over the tasks in the totals that are in both.
    fn total(&self, tasks: &[(usize, usize)]) -> Option<TaskRatios<'a>> {
        let (a, b) = (self.a, self.b);
        let counts = |i: usize| a.record.tasks[i].in_totals && has_data(a.values(i));
        let tasks = tasks.iter().filter(|(i, j)| counts(*i) && has_data(b.values(*j)));
        let (first, second): (Vec<usize>, Vec<usize>) = tasks.copied().unzip();
        let (overall_a, overall_b) = (a.analysis.overall.as_ref()?, b.analysis.overall.as_ref()?);
        if first.is_empty() {
            return None;
        }
        let totals = |run: &ComparedRun, tasks: &[usize]| run.analysis.grid.totals(tasks);
        // The orders are those of each run's own total; they speak of the same work only if it has the same tasks.
        let same = overall_a.tasks == first.len() && overall_b.tasks == first.len();
        let orders = self.orders(&overall_a.main().comparison, &overall_b.main().comparison);
        Some(TaskRatios {
            title: format!("{} of {}", overall_a.name.to_uppercase(), plural(first.len(), "task")),
            ratios: self.ratios(&totals(a, &first)?, &totals(b, &second)?),
            orders: orders.filter(|_| same),
            over_all: true,
        })
    }

    fn ratios(&self, a: &[Vec<f64>], b: &[Vec<f64>]) -> Vec<Option<Ratio>> {
        self.variants.iter().map(|(i, j)| independent_ratio(&a[*i], &b[*j])).collect()
    }

    fn orders(&self, a: &'a Comparison, b: &'a Comparison) -> Option<OrderPair<'a>> {
        let there = |(i, j): &&(usize, usize)| a.order.contains(i) && b.order.contains(j);
        let (first, second): (Vec<usize>, Vec<usize>) = self.variants.iter().filter(there).copied().unzip();
        (first.len() > 1).then_some(())?;
        Some(OrderPair {
            names: first.iter().map(|variant| self.a.record.variants[*variant].name.as_str()).collect(),
            then: VariantOrder::of_variants(a, &first)?,
            here: VariantOrder::of_variants(b, &second)?,
        })
    }
}

/// Where the same key is in both lists.
fn common<T, K: PartialEq>(a: &[T], b: &[T], key: impl Fn(&T) -> &K) -> Vec<(usize, usize)> {
    a.iter().enumerate().filter_map(|(i, x)| Some((i, b.iter().position(|y| key(y) == key(x))?))).collect()
}
