//! By how much counts of the same work differ.

use fsarena_core::{factor, record::RunRecord};
use fsarena_stats::comparison::median;
use serde::Serialize;
use std::collections::BTreeMap;

/// By how much a task varies.
#[derive(Debug, Serialize)]
pub struct Spread {
    /// The filesystem.
    pub filesystem: String,
    /// The workload and its task.
    pub task: String,
    /// One number a repeat.
    pub kernel_instructions: Vec<f64>,
    /// The largest less the smallest, of the median, in per cent.
    pub percent: f64,
}

impl Spread {
    /// The spread of every task on every filesystem.
    pub fn all_of(record: &RunRecord, reading: &str) -> Vec<Spread> {
        let Some(counted) = record.reading(reading) else { return vec![] };
        let mut counts: BTreeMap<(String, String), Vec<f64>> = BTreeMap::new();
        for (row, count) in record.samples.values[counted].iter().enumerate() {
            let cell = &record.cells[record.samples.cell[row] as usize];
            let task = &record.tasks[record.samples.task[row] as usize];
            if task.in_composite && !count.is_nan() {
                let filesystem = record.variants[cell.variant].level(factor::FS).to_string();
                counts
                    .entry((filesystem, format!("{} {}", cell.workload, task.id)))
                    .or_default()
                    .push(*count);
            }
        }
        counts.iter().filter_map(|(key, counts)| Spread::of(key, counts)).collect()
    }

    /// The median over tasks.
    pub fn median(spreads: &[Spread]) -> Option<f64> {
        median(&spreads.iter().map(|one| one.percent).collect::<Vec<_>>())
    }

    /// The spread of one; none where nothing was counted.
    pub fn of((filesystem, task): &(String, String), counts: &[f64]) -> Option<Spread> {
        let (least, most) = counts.iter().fold((f64::MAX, f64::MIN), |(a, b), x| (a.min(*x), b.max(*x)));
        let percent = 100.0 * (most - least) / median(counts).filter(|median| *median > 0.0)?;
        let (filesystem, task) = (filesystem.clone(), task.clone());
        Some(Spread { filesystem, task, kernel_instructions: counts.to_vec(), percent })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_is_of_the_median() {
        let key = ("ext4".to_string(), "cp".to_string());
        let spread = Spread::of(&key, &[1000.0, 1001.0, 1002.0]).unwrap();
        assert!((spread.percent - 200.0 / 1001.0).abs() < 1e-12);
        assert!(Spread::of(&key, &[]).is_none() && Spread::of(&key, &[0.0]).is_none());
    }
}
