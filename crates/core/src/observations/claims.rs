//! The values that claims compare, by round.

use super::grid::Grid;
use super::images::RoundsByImage;
use super::validity::invalid_reason;
use super::values::{VariantValues, dropped_rounds, has_data, rounds_left_out, warmup_rounds};
use crate::average::Average;
use crate::claim::{Claim, ExtremeRelation, PairRelation, Quantity, Relation, RightSide};
use crate::event::Outcome;
use crate::metric::reading;
use crate::names::unknown_name;
use crate::plan::{ALL_TASKS, TOTAL, compared_variants};
use crate::record::RunRecord;
use crate::sample::{Direction, MetricSpec};
use std::collections::{BTreeMap, BTreeSet};

/// A claim with the values that it compares.
#[derive(Debug, Clone, PartialEq)]
pub struct ClaimSeries {
    /// The claim.
    pub claim: Claim,
    /// The margin of the run as a fraction, for claims without their own percentage.
    pub margin: f64,
    /// The number of claims that share the error of a failed gate, if the claim belongs to the gate; see
    /// [`crate::plan::Plan::gate_error_split`].
    pub gate_error_split: Option<usize>,
    /// The noun for what one value of a variant was measured in: `round`, or `aged image`.
    pub column_noun: &'static str,
    /// The variants that the claim names and the run has.
    pub variants: Vec<usize>,
    /// The values without warm-up rounds and dropped rounds, or a sentence about why the run has none.
    pub series: Result<ComparedSeries, String>,
    /// The values with the dropped rounds; None if no round was dropped.
    pub with_dropped: Option<Result<ComparedSeries, String>>,
}

/// The values that a claim compares, by round; NaN in a round that lacks the variant.
#[derive(Debug, Clone, PartialEq)]
pub enum ComparedSeries {
    /// The two sides of a claim about a pair.
    Pair {
        /// The relation that the claim states.
        relation: PairRelation,
        /// The variant on the left.
        variant: usize,
        /// The values of the left side.
        left: Vec<f64>,
        /// The right side with its values: another variant, or another quantity of the same variant.
        right: Rival,
    },
    /// A variant and all its rivals.
    Extreme {
        /// The relation that the claim states.
        relation: ExtremeRelation,
        /// The variant.
        variant: usize,
        /// Its values.
        own_values: Vec<f64>,
        /// The variants that it competes with.
        rivals: Vec<Rival>,
        /// Which way is better.
        direction: Direction,
    },
}

/// The values with which a variant is compared.
#[derive(Debug, Clone, PartialEq)]
pub struct Rival {
    /// The variant and its name; None for another quantity of the same variant.
    pub variant: Option<(usize, String)>,
    /// Its values.
    pub values: Vec<f64>,
}

/// Returns each claim with its values from a run. The claims need not be those of the run's plan.
pub fn claim_series<'a>(record: &'a RunRecord, claims: &'a [Claim]) -> impl Iterator<Item = ClaimSeries> + 'a {
    claim_series_among(record, claims, compared_variants(&record.variants))
}

/// The same as [`claim_series`], but a claim about the best or the worst variant compares only `candidates`.
pub fn claim_series_among<'a>(
    record: &'a RunRecord,
    claims: &'a [Claim],
    candidates: Vec<&'a str>,
) -> impl Iterator<Item = ClaimSeries> + 'a {
    let mut without_dropped = SeriesReader::new(record, candidates.clone(), rounds_left_out(record));
    let mut with_dropped =
        (!dropped_rounds(record).is_empty()).then(|| SeriesReader::new(record, candidates, warmup_rounds(record)));
    let column_noun =
        if RoundsByImage::of(record, &rounds_left_out(record)).is_some() { "aged image" } else { "round" };
    claims.iter().map(move |claim| ClaimSeries {
        column_noun,
        claim: claim.clone(),
        margin: record.plan.stop.margin(),
        gate_error_split: record.plan.gate_error_split(claim),
        variants: claim.variants().into_iter().filter_map(|name| record.variant_index(name)).collect(),
        series: without_dropped.series(claim),
        with_dropped: with_dropped.as_mut().map(|reader| reader.series(claim)),
    })
}

/// Metrics that describe how a figure was measured. Claims about them are valid even if the figure is not.
const CIRCUMSTANCE_METRICS: [&str; 4] =
    ["device_share", reading::GENERATOR_SHARE, reading::STEADY, reading::VERIFIED_BLOCKS];

/// Finds the values of claims. It caches the grid of each metric, because several claims use the same metric.
struct SeriesReader<'a> {
    record: &'a RunRecord,
    candidates: Vec<&'a str>,
    excluded_rounds: BTreeSet<u32>,
    /// The average of the current claim.
    average: Average,
    /// The grids by metric and by the name of the average.
    grids: BTreeMap<(String, &'static str), Grid>,
}

impl<'a> SeriesReader<'a> {
    fn new(record: &'a RunRecord, candidates: Vec<&'a str>, excluded_rounds: BTreeSet<u32>) -> SeriesReader<'a> {
        SeriesReader { record, candidates, excluded_rounds, average: Average::Typical, grids: BTreeMap::new() }
    }

    fn series(&mut self, claim: &Claim) -> Result<ComparedSeries, String> {
        self.average = claim.average;
        match &claim.relation {
            Relation::Pair(pair) => self.pair_series(&claim.subject, pair),
            Relation::Extreme(extreme) => self.extreme_series(&claim.subject, extreme),
        }
    }

    fn pair_series(&mut self, subject: &Quantity, pair: &PairRelation) -> Result<ComparedSeries, String> {
        let variant = self.variant_index(&pair.left)?;
        let (_, mut values) = self.values(subject)?;
        let right = match &pair.right {
            RightSide::Variant(name) => {
                let right = self.variant_index(name)?;
                Rival { variant: Some((right, name.clone())), values: values[right].clone() }
            }
            RightSide::Quantity(quantity) => {
                let (_, values) = self.values(&self.completed_quantity(quantity, subject))?;
                Rival { variant: None, values: values.into_iter().nth(variant).unwrap_or_default() }
            }
        };
        Ok(ComparedSeries::Pair { relation: pair.clone(), variant, left: values.swap_remove(variant), right })
    }

    /// The quantity on the right with the parameters of the left side that it does not name. As written if no task has them all.
    fn completed_quantity(&self, quantity: &Quantity, left: &Quantity) -> Quantity {
        let completed = quantity.with_params_of(left);
        let means_all_tasks = completed.task.as_deref().is_some_and(|task| ALL_TASKS.contains(&task));
        let of_task = Quantity { task: completed.task.clone().filter(|_| !means_all_tasks), ..completed.clone() };
        if self.record.tasks.iter().any(|task| of_task.fits(&task.id)) { completed } else { quantity.clone() }
    }

    fn extreme_series(&mut self, subject: &Quantity, extreme: &ExtremeRelation) -> Result<ComparedSeries, String> {
        let variant = self.variant_index(&extreme.variant)?;
        let (metric, mut values) = self.values(subject)?;
        if metric.direction == Direction::Neutral {
            return Err(format!("neither more nor less of {} is better", metric.id));
        }
        let mut rivals = vec![];
        for rival in (0..self.record.variants.len()).filter(|rival| *rival != variant) {
            if self.competes(rival) {
                let name = self.record.variant_name(rival).to_string();
                rivals.push(Rival { variant: Some((rival, name)), values: values[rival].clone() });
            }
        }
        let own_values = values.swap_remove(variant);
        Ok(ComparedSeries::Extreme {
            relation: extreme.clone(),
            variant,
            own_values,
            rivals,
            direction: metric.direction,
        })
    }

    fn variant_index(&self, name: &str) -> Result<usize, String> {
        self.record.variant_index(name).ok_or_else(|| unknown_name("variant", name, self.record.variant_names()).into())
    }

    /// Whether a variant is compared in claims about the best or the worst. A variant that failed is not: it left the run, so
    /// its samples are incomplete.
    fn competes(&self, variant: usize) -> bool {
        let is_failure = |outcome: &Outcome| matches!(outcome, Outcome::Failed { .. });
        self.candidates.contains(&self.record.variant_name(variant))
            && !self.record.cells.iter().any(|cell| cell.variant == variant && is_failure(&cell.outcome))
    }

    /// The metric of a quantity over all tasks together, and its values by variant and round.
    fn values_over_tasks(&mut self, quantity: &Quantity) -> Result<(MetricSpec, VariantValues), String> {
        let record = self.record;
        let grid = self.grid(&quantity.metric)?;
        let metric = grid.metric.clone();
        let any_task = Quantity { task: None, ..quantity.clone() };
        let mut fitting_tasks = grid.comparable_tasks();
        fitting_tasks.retain(|task| any_task.fits(&record.tasks[*task].id));
        if fitting_tasks.is_empty() {
            return Err(no_task_message(&metric.id));
        }
        if quantity.task.as_deref() != Some(TOTAL) {
            return Ok((metric, grid.geometric_means(&fitting_tasks)));
        }
        let id = &metric.id;
        let totals = grid
            .totals(&fitting_tasks)
            .ok_or_else(|| format!("{id} cannot be summed over tasks; claim the geometric mean: geomean.{id}"))?;
        Ok((metric, totals))
    }

    /// The metric of a quantity and its values by variant and round.
    ///
    /// # Errors
    /// The run has no such values, several tasks fit, or the figure is invalid.
    fn values(&mut self, quantity: &Quantity) -> Result<(MetricSpec, VariantValues), String> {
        if quantity.task.as_deref().is_some_and(|task| ALL_TASKS.contains(&task)) {
            return self.values_over_tasks(quantity);
        }
        let record = self.record;
        let grid = self.grid(&quantity.metric)?;
        let metric = grid.metric.clone();
        let fits = |task: &usize| quantity.fits(&record.tasks[*task].id) && has_data(&grid.values[*task]);
        let fitting_tasks: Vec<usize> = (0..record.tasks.len()).filter(fits).collect();
        match fitting_tasks[..] {
            [task] if grid.excluded.contains_key(&task) && !CIRCUMSTANCE_METRICS.contains(&metric.id.as_str()) => {
                let why = invalid_reason(record, &metric.id, task);
                let why = why.unwrap_or_else(|| record.tasks[task].id.to_string());
                Err(format!("no verdict rests on this figure: {why}"))
            }
            [task] => Ok((metric, grid.values[task].clone())),
            [] if quantity.task.is_none() => Err(no_task_message(&metric.id)),
            [] => Err(self.no_value_message(quantity)),
            _ => {
                let names: Vec<String> = fitting_tasks.iter().map(|task| record.tasks[*task].id.to_string()).collect();
                Err(format!("several tasks have {}; name one of {}", metric.id, names.join(", ")))
            }
        }
    }

    /// The error for a quantity without values: the run has no such task, or the task has no value of the metric.
    fn no_value_message(&self, quantity: &Quantity) -> String {
        let tasks = || self.record.tasks.iter().map(|task| task.id.name.as_str()).chain(ALL_TASKS);
        match quantity.task.as_deref().filter(|name| !tasks().any(|task| task == *name)) {
            Some(name) => unknown_name("task", name, tasks()).into(),
            None => format!("the run has no value of {quantity}"),
        }
    }

    fn grid(&mut self, metric: &str) -> Result<&Grid, String> {
        let key = (metric.to_string(), self.average.name());
        if !self.grids.contains_key(&key) {
            let unknown =
                || unknown_name("metric", metric, self.record.metric_ids()).with_list_command("fsarena list metrics");
            let grid = Grid::without_rounds(self.record, metric, &self.excluded_rounds).ok_or_else(unknown)?;
            self.grids.insert(key.clone(), grid.with_average(self.average));
        }
        Ok(&self.grids[&key])
    }
}

fn no_task_message(metric: &str) -> String {
    format!("no task of the run has a value of {metric}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell::{TaskId, TaskInfo, Variant};
    use crate::record::{CellRecord, SampleTable};
    use crate::sample::Unit;

    /// A run of one round with a value of `x_count` for each task. The load generator took half the time of the second task.
    fn run_with_tasks(tasks: &[(&str, &str)]) -> RunRecord {
        let task = |(name, bs): &(&str, &str)| TaskInfo {
            id: TaskId { params: [("bs".to_string(), bs.to_string())].into(), ..TaskId::new(*name) },
            title: name.to_string(),
            number: None,
            in_totals: true,
        };
        let variants = vec![Variant { name: "ext4".into(), levels: BTreeMap::new() }];
        let mut record = RunRecord { variants, tasks: tasks.iter().map(task).collect(), ..RunRecord::default() };
        for (id, unit) in [("x_count", Unit::Count), (reading::GENERATOR_SHARE, Unit::Ratio)] {
            record.define_reading(MetricSpec::new(id.into(), unit, Direction::Higher, String::new()));
        }
        record.cells.push(CellRecord::done(0, 0));
        let count = tasks.len();
        let mut shares = vec![0.01; count];
        shares[1] = 0.5;
        record.samples = SampleTable {
            cell: vec![0; count],
            task: (0..count as u32).collect(),
            started_at: vec![0.0; count],
            values: vec![vec![7.0; count], shares],
        };
        record
    }

    #[test]
    fn the_right_side_takes_the_parameters_of_the_left_where_a_task_has_them() {
        let series = |tasks: &[(&str, &str)]| {
            let claims: [Claim; 1] = ["seq.x_count[bs=512]: ext4 < rnd.x_count".parse().unwrap()];
            let record = run_with_tasks(tasks);
            claim_series(&record, &claims).next().unwrap().series
        };
        // The reason is about the task with these parameters, although several tasks fit the quantity as written.
        let invalid = series(&[("seq", "512"), ("rnd", "512"), ("rnd", "4096")]).unwrap_err();
        assert!(invalid.starts_with("no verdict rests on this figure: ext4 at rnd[bs=512]"), "{invalid}");
        assert!(series(&[("seq", "512"), ("rnd", "8192"), ("rnd", "4096")]).unwrap_err().contains("several tasks"));
        assert!(series(&[("seq", "512"), ("seq", "4096"), ("rnd", "8192")]).is_ok());
    }
}
