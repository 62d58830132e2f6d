//! The quantity of a claim, as values by variant and round.

use crate::grid::{Grid, grid, has_data};
use crate::trust::cache_served;
use fsarena_core::claim::Quantity;
use fsarena_core::names::unknown;
use fsarena_core::plan::COMPOSITE;
use fsarena_core::record::{MetricInfo, RunRecord};
use fsarena_core::sample::Unit;
use std::collections::{BTreeMap, BTreeSet};

/// The values of a quantity.
pub struct Series {
    pub metric: MetricInfo,
    /// `values[variant][round]`; NaN where there is none.
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
        if quantity.task.as_deref() == Some(COMPOSITE) {
            let wanted = Quantity { task: None, ..quantity.clone() };
            let wanted = grid.tasks(record).filter(|(task, _)| wanted.fits(&task.id));
            let tasks: Vec<&Vec<Vec<f64>>> = wanted.map(|(_, values)| values).collect();
            let values = composite(&tasks, metric.unit).ok_or_else(|| no_task(&metric.id))?;
            return Ok(Series { metric, values });
        }
        let fitting: Vec<(usize, String)> = record
            .tasks
            .iter()
            .enumerate()
            .filter(|(at, task)| quantity.fits(&task.id) && has_data(&grid.values[*at]))
            .map(|(at, task)| (at, task.id.to_string()))
            .collect();
        let served = cache_served(record);
        if let [(at, id)] = &fitting[..]
            && let Some((_, variant)) = served.iter().find(|(task, _)| task == at)
            && metric.id != "device_share"
        {
            return Err(format!(
                "{} at {id} served direct I/O from the page cache, so no verdict rests on it",
                record.variants[*variant].name
            ));
        }
        match &fitting[..] {
            [(at, _)] => Ok(Series { metric, values: grid.values[*at].clone() }),
            [] if quantity.task.is_none() => Err(no_task(&metric.id)),
            [] => Err(self.no_value(quantity)),
            several => {
                let names: Vec<&str> = several.iter().map(|(_, name)| name.as_str()).collect();
                Err(format!("several tasks have {}; name one of {}", metric.id, names.join(", ")))
            }
        }
    }

    fn no_value(&self, quantity: &Quantity) -> String {
        let tasks = || self.record.tasks.iter().map(|task| task.id.name.as_str()).chain([COMPOSITE]);
        match quantity.task.as_deref().filter(|name| !tasks().any(|task| task == *name)) {
            Some(name) => unknown("task", name, tasks()).into(),
            None => format!("the run has no value of {quantity}"),
        }
    }

    fn grid(&mut self, metric: &str) -> Result<&(MetricInfo, Grid), String> {
        if !self.grids.contains_key(metric) {
            let unknown = || unknown("metric", metric, self.record.metric_ids()).list("fsarena list metrics");
            let (info, rows) = self.record.metric(metric).ok_or_else(unknown)?;
            let grid = grid(self.record, &rows, self.leave_out).trusted(self.record);
            self.grids.insert(metric.to_string(), (info, grid));
        }
        Ok(&self.grids[metric])
    }
}

/// The sum over tasks where the unit can be summed, else the geometric mean; a round counts where it has all.
fn composite(tasks: &[&Vec<Vec<f64>>], unit: Unit) -> Option<Vec<Vec<f64>>> {
    let first = tasks.first()?;
    let of = |variant: usize, round: usize| {
        let values = tasks.iter().map(|task| task[variant][round]);
        match unit {
            Unit::Nanoseconds | Unit::Seconds | Unit::Bytes | Unit::Count => values.sum(),
            _ => (values.map(f64::ln).sum::<f64>() / tasks.len() as f64).exp(),
        }
    };
    let variant =
        |(variant, rounds): (usize, &Vec<f64>)| (0..rounds.len()).map(|round| of(variant, round)).collect();
    Some(first.iter().enumerate().map(variant).collect())
}

fn no_task(metric: &str) -> String {
    format!("no task of the run has a value of {metric}")
}
