//! Figures that did not measure what their task claims.

use crate::comparison::median;
use crate::grid::{dropped, grid};
use fsarena_core::metric::Reach;
use fsarena_core::record::RunRecord;
use fsarena_core::setting::Value;

/// Tasks that asked for direct I/O, each with the variants that served it from the page cache: (task, variant).
pub fn cache_served(record: &RunRecord) -> Vec<(usize, usize)> {
    let direct: Vec<bool> = record.tasks.iter().enumerate().map(|(task, _)| direct(record, task)).collect();
    if !direct.contains(&true) {
        return vec![];
    }
    let Some((_, shares)) = record.metric("device_share") else { return vec![] };
    let shares = grid(record, &shares, &dropped(record)).values;
    let of_task = |task: usize| {
        let variants = shares[task].iter().enumerate();
        let served = variants.filter(|(_, rounds)| median(rounds).map(Reach::of) == Some(Reach::Cache));
        served.map(move |(variant, _)| (task, variant)).collect::<Vec<_>>()
    };
    (0..direct.len()).filter(|task| direct[*task]).flat_map(of_task).collect()
}

/// Whether every workload of the plan that ran this task was set to direct I/O.
fn direct(record: &RunRecord, task: usize) -> bool {
    let rows = record.samples.task.iter().zip(&record.samples.cell).filter(|(of, _)| **of as usize == task);
    let mut names: Vec<&str> = rows.map(|(_, cell)| record.cells[*cell as usize].workload.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    let mut plans =
        record.plan.workloads.iter().filter(|plan| names.contains(&plan.name.as_str())).peekable();
    plans.peek().is_some() && plans.all(|plan| plan.settings.0.get("direct") == Some(&Value::Bool(true)))
}
