//! The analysis of one metric of a run.
//!
//! Intervals are 95% for each pair of arms and step; they are not corrected for how many there are.
//! Verdicts on claims will stand on the same [`Grid`] and [`crate::pairs`] as the tables here.

use crate::comparison::{Comparison, compare, median};
use crate::composite::{self, Composite};
use crate::grid::{self, Grid, has_data};
use crate::simulate::parallel;
use fsarena_core::cell::StepInfo;
use fsarena_core::exit::{ExitCode, Exits};
use fsarena_core::record::{MetricInfo, RunRecord};
use fsarena_core::sample::Unit;
use std::collections::BTreeSet;

/// Everything that reports say of one metric.
#[derive(Debug, Clone)]
pub struct Analysis {
    /// The metric.
    pub metric: MetricInfo,
    /// Its values, by step of the run, arm and block.
    pub grid: Grid,
    /// The blocks that were dropped as a whole, ascending.
    pub dropped: Vec<u32>,
    /// Every step that has data, in the order of the run.
    pub steps: Vec<StepAnalysis>,
    /// All composite steps together. None where there is none with data.
    pub overall: Option<Overall>,
}

/// One step.
#[derive(Debug, Clone, PartialEq)]
pub struct StepAnalysis {
    /// The step.
    pub step: StepInfo,
    /// How the arms compare on it.
    pub comparison: Comparison,
}

/// All composite steps together.
#[derive(Debug, Clone, PartialEq)]
pub struct Overall {
    /// The number of steps in it.
    pub steps: usize,
    /// Their sum, where the unit can be summed.
    pub total: Option<Composite>,
    /// Their geometric mean: every step counts the same.
    pub geometric: Composite,
    /// The sum as it would be without dropping any block, where some were dropped; else the same for the
    /// geometric mean where there is no sum.
    pub without_drops: Option<Comparison>,
}

/// Why a run could not be analysed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No reading or metric has this name.
    #[error("run {run} has no metric `{metric}`; `fsarena list metrics` names them all")]
    UnknownMetric {
        /// The run.
        run: String,
        /// The name that was asked for.
        metric: String,
    },
}

impl Exits for Error {
    fn exit_code(&self) -> ExitCode {
        match self {
            Error::UnknownMetric { .. } => ExitCode::Usage,
        }
    }
}

/// Analyses one metric. Arms and steps without data are left empty, never an error.
///
/// # Errors
/// Where nothing is called `metric`.
pub fn analyse(record: &RunRecord, metric: &str) -> Result<Analysis, Error> {
    let (info, rows) = record.metric(metric).ok_or_else(|| unknown(record, metric))?;
    let dropped = grid::dropped(record);
    let grid = grid::grid(record, &rows, &dropped);
    let with_data: Vec<_> =
        record.steps.iter().zip(&grid.values).filter(|(_, values)| has_data(values)).collect();
    let steps = parallel(with_data.len(), |at| {
        let (step, values) = with_data[at as usize];
        StepAnalysis { step: step.clone(), comparison: compare(values, info.direction) }
    });
    let mut overall = overall(record, &grid, &info);
    if let Some(overall) = overall.as_mut().filter(|_| !dropped.is_empty()) {
        overall.without_drops = without_drops(record, &rows, &info);
    }
    Ok(Analysis { metric: info, grid, dropped: dropped.into_iter().collect(), steps, overall })
}

fn unknown(record: &RunRecord, metric: &str) -> Error {
    Error::UnknownMetric { run: record.id.clone(), metric: metric.to_string() }
}

/// The medians of one step, where nothing is to be compared.
#[derive(Debug, Clone, PartialEq)]
pub struct StepMedians {
    /// The step.
    pub step: StepInfo,
    /// The median over blocks of each arm, in the metric's unit; none where it has no value.
    pub arms: Vec<Option<f64>>,
}

/// The medians of every step of the composite that has data. What [`analyse`] says besides takes far longer.
///
/// # Errors
/// Where nothing is called `metric`.
pub fn medians(record: &RunRecord, metric: &str) -> Result<Vec<StepMedians>, Error> {
    let (_, grid) = Grid::of(record, metric).ok_or_else(|| unknown(record, metric))?;
    let of = |(step, values): (&StepInfo, &Vec<Vec<f64>>)| StepMedians {
        step: step.clone(),
        arms: values.iter().map(|arm| median(arm)).collect(),
    };
    Ok(grid.tasks(record).map(of).collect())
}

fn overall(record: &RunRecord, grid: &Grid, info: &MetricInfo) -> Option<Overall> {
    let steps: Vec<_> = grid.tasks(record).map(|(_, values)| values).collect();
    if steps.is_empty() {
        return None;
    }
    Some(Overall {
        steps: steps.len(),
        total: adds_up(info.unit).then(|| composite::total(&steps, info.direction)),
        geometric: composite::geometric(&steps, info.direction),
        without_drops: None,
    })
}

/// What the answer is about, for each arm and block: the sum over the composite's steps where the unit can be summed,
/// else their geometric mean; NaN where a block lacks one. Dropped blocks are left out.
///
/// # Errors
/// Where nothing is called `metric`.
pub fn composites(record: &RunRecord, metric: &str) -> Result<(MetricInfo, Vec<Vec<f64>>), Error> {
    let (info, grid) = Grid::of(record, metric).ok_or_else(|| unknown(record, metric))?;
    let steps: Vec<_> = grid.tasks(record).map(|(_, values)| values).collect();
    let values = if adds_up(info.unit) { composite::sums(&steps) } else { composite::means(&steps) };
    Ok((info, values))
}

fn without_drops(record: &RunRecord, rows: &[f64], info: &MetricInfo) -> Option<Comparison> {
    let all = overall(record, &grid::grid(record, rows, &BTreeSet::new()), info)?;
    Some(all.total.unwrap_or(all.geometric).comparison)
}

/// Whether the sum over steps means anything. That of rates and shares does not.
pub fn adds_up(unit: Unit) -> bool {
    matches!(unit, Unit::Nanoseconds | Unit::Seconds | Unit::Bytes | Unit::Count)
}

impl Overall {
    /// What the answer is about: the sum, or the geometric mean where there is no sum.
    pub fn main(&self) -> &Composite {
        self.total.as_ref().unwrap_or(&self.geometric)
    }
}

impl Analysis {
    /// The same without any word on which arm is better, for runs that cannot tell ([`Backing::ranks`]).
    ///
    /// [`Backing::ranks`]: fsarena_core::plan::Backing::ranks
    pub fn unranked(mut self) -> Analysis {
        let unranked = |step: StepAnalysis| StepAnalysis { comparison: step.comparison.unranked(), ..step };
        self.steps = self.steps.into_iter().map(unranked).collect();
        // A sum over tasks or a mean of them would have no use but to rank.
        self.overall = None;
        self
    }

    /// Whether no comparison in it has enough blocks for an exact interval.
    pub fn provisional(&self) -> bool {
        match &self.overall {
            Some(overall) => overall.main().comparison.provisional(),
            None => self.steps.iter().all(|step| step.comparison.provisional()),
        }
    }

    /// The steps of the composite.
    pub fn tasks(&self) -> impl Iterator<Item = &StepAnalysis> {
        self.steps.iter().filter(|step| step.step.in_composite)
    }
}
