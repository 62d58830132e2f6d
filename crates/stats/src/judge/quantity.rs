//! What a claim is about, as values by arm and block.

use crate::grid::{Grid, grid, has_data};
use fsarena_core::claim::Quantity;
use fsarena_core::plan::COMPOSITE;
use fsarena_core::record::{MetricInfo, RunRecord};
use fsarena_core::sample::Unit;
use std::collections::{BTreeMap, BTreeSet};

/// The values of a quantity.
pub struct Series {
    pub metric: MetricInfo,
    /// `values[arm][block]`; NaN where there is none.
    pub values: Vec<Vec<f64>>,
}

/// All quantities of a run. A metric is derived once, however many claims are about it.
pub struct Quantities<'a> {
    record: &'a RunRecord,
    leave_out: &'a BTreeSet<u32>,
    grids: BTreeMap<String, (MetricInfo, Grid)>,
}

impl<'a> Quantities<'a> {
    pub fn new(record: &'a RunRecord, leave_out: &'a BTreeSet<u32>) -> Quantities<'a> {
        Quantities { record, leave_out, grids: BTreeMap::new() }
    }

    /// The values of a quantity, or why there are none.
    pub fn get(&mut self, quantity: &Quantity) -> Result<Series, String> {
        let record = self.record;
        let (metric, grid) = self.grid(&quantity.metric)?;
        let metric = metric.clone();
        if quantity.step.as_deref() == Some(COMPOSITE) {
            let wanted = Quantity { step: None, ..quantity.clone() };
            let wanted = grid.tasks(record).filter(|(step, _)| wanted.fits(&step.id));
            let steps: Vec<&Vec<Vec<f64>>> = wanted.map(|(_, values)| values).collect();
            let values = composite(&steps, metric.unit).ok_or_else(|| no_step(&metric.id))?;
            return Ok(Series { metric, values });
        }
        let fitting: Vec<(usize, String)> = record
            .steps
            .iter()
            .enumerate()
            .filter(|(at, step)| quantity.fits(&step.id) && has_data(&grid.values[*at]))
            .map(|(at, step)| (at, step.id.to_string()))
            .collect();
        match &fitting[..] {
            [(at, _)] => Ok(Series { metric, values: grid.values[*at].clone() }),
            [] if quantity.step.is_none() => Err(no_step(&metric.id)),
            [] => Err(format!("the run has no value of {quantity}")),
            several => {
                let names: Vec<&str> = several.iter().map(|(_, name)| name.as_str()).collect();
                Err(format!("several steps have {}; say which: {}", metric.id, names.join(", ")))
            }
        }
    }

    fn grid(&mut self, metric: &str) -> Result<&(MetricInfo, Grid), String> {
        if !self.grids.contains_key(metric) {
            let (info, rows) =
                self.record.metric(metric).ok_or_else(|| format!("the run has no metric `{metric}`"))?;
            let grid = grid(self.record, &rows, self.leave_out);
            self.grids.insert(metric.to_string(), (info, grid));
        }
        Ok(&self.grids[metric])
    }
}

/// The sum over steps where the unit can be summed, else the geometric mean; a block counts where it has all.
fn composite(steps: &[&Vec<Vec<f64>>], unit: Unit) -> Option<Vec<Vec<f64>>> {
    let first = steps.first()?;
    let of = |arm: usize, block: usize| {
        let values = steps.iter().map(|step| step[arm][block]);
        match unit {
            Unit::Nanoseconds | Unit::Seconds | Unit::Bytes | Unit::Count => values.sum(),
            _ => (values.map(f64::ln).sum::<f64>() / steps.len() as f64).exp(),
        }
    };
    let arm = |(arm, blocks): (usize, &Vec<f64>)| (0..blocks.len()).map(|block| of(arm, block)).collect();
    Some(first.iter().enumerate().map(arm).collect())
}

fn no_step(metric: &str) -> String {
    format!("no step of the run has a value of {metric}")
}
