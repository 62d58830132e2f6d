//! By how much counts of the same work differ.

use fsarena_core::row::Row;
use fsarena_core::{factor, number, record::RunRecord};
use fsarena_stats::comparison::median;
use serde::Serialize;
use std::collections::BTreeMap;

/// The most that kernel instructions may vary between repeats of a cell, in per cent: the median over the tasks.
pub const PROMISED: f64 = 0.05;

/// The spread of a count over repeats of a task.
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
            if task.in_totals && !count.is_nan() {
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

    /// The spread of one; `None` if nothing was counted.
    pub fn of((filesystem, task): &(String, String), counts: &[f64]) -> Option<Spread> {
        let (least, most) = counts.iter().fold((f64::MAX, f64::MIN), |(a, b), x| (a.min(*x), b.max(*x)));
        let percent = 100.0 * (most - least) / median(counts).filter(|median| *median > 0.0)?;
        let (filesystem, task) = (filesystem.clone(), task.clone());
        Some(Spread { filesystem, task, kernel_instructions: counts.to_vec(), percent })
    }
}

/// The spreads of the tasks of a filesystem.
#[derive(Serialize)]
pub struct Line {
    filesystem: String,
    tasks: usize,
    median: String,
    worst: String,
    worst_task: String,
}

impl Row for Line {
    const COLUMNS: &'static [&'static str] =
        &["filesystem", "tasks", "median: MEDIAN SPREAD", "worst", "worst_task"];
}

/// A line for each filesystem, of spreads in the order of [`Spread::all_of`].
pub fn by_filesystem(spreads: &[Spread]) -> Vec<Line> {
    let line = |of: &[Spread]| {
        let worst = of.iter().max_by(|a, b| a.percent.total_cmp(&b.percent))?;
        Some(Line {
            filesystem: worst.filesystem.clone(),
            tasks: of.len(),
            median: number::percent(Spread::median(of)? / 100.0),
            worst: number::percent(worst.percent / 100.0),
            worst_task: worst.task.clone(),
        })
    };
    spreads.chunk_by(|a, b| a.filesystem == b.filesystem).filter_map(line).collect()
}

/// Whether the median over all tasks is as promised, and how many tasks took the same number in each repeat.
pub fn words(spreads: &[Spread], repeats: usize, all: Option<f64>) -> String {
    let Some(all) = all else { return "Nothing was counted.\n".into() };
    let same = spreads.iter().filter(|one| one.percent == 0.0).count();
    let end = if all <= PROMISED { "as promised" } else { "which is MORE than promised" };
    format!(
        "\nKernel instructions of {repeats} repeats of a cell differ by {} (median over {} tasks), {end} (at most {PROMISED}%); \
         {same} tasks took the very same number each time.\n",
        number::percent(all / 100.0),
        spreads.len(),
    )
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

    #[test]
    fn each_filesystem_is_a_line() {
        let of =
            |fs: &str, task: &str, counts: &[f64]| Spread::of(&(fs.into(), task.into()), counts).unwrap();
        let spreads =
            [of("ext4", "a", &[1.0, 1.0]), of("ext4", "b", &[1.0, 3.0]), of("xfs", "a", &[5.0, 5.0])];
        let lines = by_filesystem(&spreads);
        assert_eq!((lines.len(), lines[0].worst_task.as_str(), lines[0].tasks), (2, "b", 2));
        assert!(words(&spreads, 2, Some(0.0)).contains("2 tasks took the very same"));
        assert!(words(&spreads, 2, Some(1.0)).contains("MORE"));
    }
}
