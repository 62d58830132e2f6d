//! A metric by step and arm, for formats that list samples.

use fsarena_core::record::RunRecord;
use fsarena_stats::grid::Grid;
use std::collections::BTreeMap;

/// The values of one step of one arm.
#[derive(Debug, Clone, PartialEq)]
pub struct Sampled {
    /// The step, with its parameters.
    pub step: String,
    /// The arm.
    pub arm: String,
    /// Block and value, in the order of the blocks.
    pub values: Vec<(u32, f64)>,
}

/// The values of a metric, one entry for each step and arm that has some; blocks that were dropped are left
/// out. Empty where the run does not know the metric.
pub fn sampled(record: &RunRecord, metric: &str) -> Vec<Sampled> {
    let Some((_, grid)) = Grid::of(record, metric) else { return vec![] };
    let mut all = Vec::new();
    for (step, arms) in record.steps.iter().zip(&grid.values) {
        for (arm, values) in record.arms.iter().zip(arms) {
            let values: Vec<(u32, f64)> = grid
                .blocks
                .iter()
                .copied()
                .zip(values.iter().copied())
                .filter(|(_, v)| !v.is_nan())
                .collect();
            if !values.is_empty() {
                all.push(Sampled { step: step.id.to_string(), arm: arm.name.clone(), values });
            }
        }
    }
    all
}

/// One sample, by several metrics.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// Its block.
    pub block: u32,
    /// What was measured, on which arm: `rndrd[bs=4096] on ext4`.
    pub name: String,
    values: BTreeMap<String, f64>,
}

impl Row {
    /// A metric, where the sample has it.
    pub fn get(&self, metric: &str) -> Option<f64> {
        self.values.get(metric).copied()
    }
}

/// Samples that have one of these metrics at least, block by block; blocks that were dropped are left out.
pub fn rows(record: &RunRecord, metrics: &[&str]) -> Vec<Row> {
    let mut rows: BTreeMap<(u32, String), BTreeMap<String, f64>> = BTreeMap::new();
    for metric in metrics {
        for one in sampled(record, metric) {
            let name = format!("{} on {}", one.step, one.arm);
            for (block, value) in one.values {
                rows.entry((block, name.clone())).or_default().insert(metric.to_string(), value);
            }
        }
    }
    rows.into_iter().map(|((block, name), values)| Row { block, name, values }).collect()
}
