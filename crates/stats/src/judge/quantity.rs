//! The quantity of a claim, as values by variant and round.

use crate::grid::{Grid, has_data};
use crate::{all_tasks, trust::reason};
use fsarena_core::metric::reading;
use fsarena_core::plan::{TOTAL, WHOLES};
use fsarena_core::record::{MetricSpec, RunRecord};
use fsarena_core::{cell::TaskInfo, claim::Quantity, names::unknown};
use std::collections::{BTreeMap, BTreeSet};

/// Metrics that tell how a figure was measured: claims about them hold for any figure.
const WITNESSES: [&str; 4] = ["device_share", reading::CLIENT, reading::STEADY, reading::VERIFIED];

/// The values of a quantity.
pub struct Series {
    pub metric: MetricSpec,
    /// `values[variant][round]`; NaN where there is none.
    pub values: Vec<Vec<f64>>,
}

/// All quantities of a run. A metric is derived once, however many claims are about it.
pub struct Quantities<'a> {
    record: &'a RunRecord,
    leave_out: &'a BTreeSet<u32>,
    grids: BTreeMap<String, (MetricSpec, Grid)>,
}

impl<'a> Quantities<'a> {
    pub fn new(record: &'a RunRecord, leave_out: &'a BTreeSet<u32>) -> Quantities<'a> {
        Quantities { record, leave_out, grids: BTreeMap::new() }
    }

    /// The values of a quantity, or why there are none.
    pub fn get(&mut self, quantity: &Quantity) -> Result<Series, String> {
        let (record, leave_out) = (self.record, self.leave_out);
        let (metric, grid) = self.grid(&quantity.metric)?;
        let metric = metric.clone();
        if let Some(whole) = quantity.task.as_deref().filter(|task| WHOLES.contains(task)) {
            let wanted = Quantity { task: None, ..quantity.clone() };
            let wanted = grid.tasks(record).filter(|(task, _)| wanted.fits(&task.id));
            let tasks: Vec<(&TaskInfo, &Vec<Vec<f64>>)> = wanted.collect();
            if tasks.is_empty() {
                return Err(no_task(&metric.id));
            }
            if whole != TOTAL {
                let values = all_tasks::means(&tasks.iter().map(|(_, values)| *values).collect::<Vec<_>>());
                return Ok(Series { metric, values });
            }
            let id = &metric.id;
            let values = all_tasks::totals(record, &metric, leave_out, &tasks).ok_or_else(|| {
                format!("{id} cannot be summed over tasks; claim the geometric mean: geomean.{id}")
            })?;
            return Ok(Series { metric, values });
        }
        let fits = |(at, task): &(usize, &TaskInfo)| quantity.fits(&task.id) && has_data(&grid.values[*at]);
        let fitting: Vec<(usize, &TaskInfo)> = record.tasks.iter().enumerate().filter(fits).collect();
        let rests = |at: &usize| !grid.set_aside.contains_key(at) || WITNESSES.contains(&metric.id.as_str());
        match &fitting[..] {
            [(at, _)] if rests(at) => Ok(Series { metric, values: grid.values[*at].clone() }),
            [(at, task)] => {
                let why = reason(record, &metric.id, *at).unwrap_or_else(|| task.id.to_string());
                Err(format!("no verdict rests on this figure: {why}"))
            }
            [] if quantity.task.is_none() => Err(no_task(&metric.id)),
            [] => Err(self.no_value(quantity)),
            several => {
                let names: Vec<String> = several.iter().map(|(_, task)| task.id.to_string()).collect();
                Err(format!("several tasks have {}; name one of {}", metric.id, names.join(", ")))
            }
        }
    }

    fn no_value(&self, quantity: &Quantity) -> String {
        let tasks = || self.record.tasks.iter().map(|task| task.id.name.as_str()).chain(WHOLES);
        match quantity.task.as_deref().filter(|name| !tasks().any(|task| task == *name)) {
            Some(name) => unknown("task", name, tasks()).into(),
            None => format!("the run has no value of {quantity}"),
        }
    }

    fn grid(&mut self, metric: &str) -> Result<&(MetricSpec, Grid), String> {
        if !self.grids.contains_key(metric) {
            let unknown = || unknown("metric", metric, self.record.metric_ids()).list("fsarena list metrics");
            let found = Grid::without(self.record, metric, self.leave_out).ok_or_else(unknown)?;
            self.grids.insert(metric.to_string(), found);
        }
        Ok(&self.grids[metric])
    }
}

fn no_task(metric: &str) -> String {
    format!("no task of the run has a value of {metric}")
}
