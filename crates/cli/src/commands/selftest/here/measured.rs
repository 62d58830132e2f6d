//! What the self-test measures of its variants.

use fsarena_core::record::RunRecord;
use fsarena_stats::grid::Grid;
use std::collections::BTreeMap;

/// How many files more, in per cent, the variants have; in the order of the plan.
pub const MORE: [(&str, u64); 5] =
    [("base", 0), ("same", 0), ("1% more files", 1), ("2% more files", 2), ("5% more files", 5)];
/// The metrics to analyse.
pub const METRICS: [&str; 4] = ["elapsed", "durable", "system", "total_cpu"];

/// Measured values.
#[derive(Debug, Default)]
pub struct Measured {
    /// By task and metric: for each variant the value of each round, NaN where there is none.
    pub values: BTreeMap<(String, &'static str), Vec<Vec<f64>>>,
    /// Rounds.
    pub rounds: usize,
}

impl Measured {
    /// What a run has measured.
    pub fn of(record: &RunRecord) -> Measured {
        let mut measured = Measured::default();
        for metric in METRICS {
            let Some((_, grid)) = Grid::of(record, metric) else { continue };
            measured.rounds = grid.rounds.len();
            let values =
                grid.tasks(record).map(|(task, values)| ((task.id.to_string(), metric), values.clone()));
            measured.values.extend(values);
        }
        measured
    }
}
