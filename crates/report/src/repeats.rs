//! The spread of kernel instruction counts between repeats of the same task.

use fsarena_core::{factor, number, record::RunRecord, row::Row};
use fsarena_stats::comparison::median;
use serde::Serialize;
use std::collections::BTreeMap;

/// The largest spread of kernel instructions between repeats that fsarena promises, in per cent: the median over the tasks.
pub const PROMISED_SPREAD_PERCENT: f64 = 0.05;

/// The spread of the kernel instructions of a task over its repeats.
#[derive(Debug, Serialize)]
pub struct InstructionSpread {
    /// The filesystem.
    pub filesystem: String,
    /// The names of the workload and the task.
    pub task: String,
    /// The number of kernel instructions in each repeat.
    pub kernel_instructions: Vec<f64>,
    /// The difference of the largest and the smallest count, in per cent of the median.
    pub percent: f64,
}

impl InstructionSpread {
    /// The spread of each task on each filesystem, ordered by filesystem. `reading` is the id of the reading with the counts.
    /// Empty if the run does not have the reading.
    pub fn of_all_tasks(record: &RunRecord, reading: &str) -> Vec<InstructionSpread> {
        let Some(counted) = record.reading_column(reading) else { return vec![] };
        let mut counts: BTreeMap<(String, String), Vec<f64>> = BTreeMap::new();
        for (row, count) in record.samples.values[counted].iter().enumerate() {
            let cell = &record.cells[record.samples.cell[row] as usize];
            let task = &record.tasks[record.samples.task[row] as usize];
            if task.in_totals && !count.is_nan() {
                let filesystem = record.variants[cell.variant].level(factor::FS).to_string();
                counts.entry((filesystem, format!("{} {}", cell.workload, task.id))).or_default().push(*count);
            }
        }
        counts.iter().filter_map(|(key, counts)| InstructionSpread::from_counts(key, counts)).collect()
    }

    /// The median of the spreads of the tasks that were counted at least twice, in per cent; `None` if there are none.
    pub fn median_percent(spreads: &[InstructionSpread]) -> Option<f64> {
        median(&repeated(spreads).map(|spread| spread.percent).collect::<Vec<_>>())
    }

    /// The spread of these counts of a task on a filesystem; `None` if there are none, or their median is 0.
    pub fn from_counts((filesystem, task): &(String, String), counts: &[f64]) -> Option<InstructionSpread> {
        let (min, max) =
            counts.iter().fold((f64::MAX, f64::MIN), |(min, max), count| (min.min(*count), max.max(*count)));
        let percent = 100.0 * (max - min) / median(counts).filter(|median| *median > 0.0)?;
        let (filesystem, task) = (filesystem.clone(), task.clone());
        Some(InstructionSpread { filesystem, task, kernel_instructions: counts.to_vec(), percent })
    }
}

/// The spreads of the tasks that were counted at least twice. The others are 0 whatever was counted: their repeats failed.
fn repeated(spreads: &[InstructionSpread]) -> impl Iterator<Item = &InstructionSpread> {
    spreads.iter().filter(|spread| spread.kernel_instructions.len() > 1)
}

/// A summary of the spreads of the tasks on one filesystem that were counted at least twice.
#[derive(Serialize)]
pub struct FilesystemSpread {
    filesystem: String,
    /// The number of tasks.
    tasks: usize,
    /// The median of the spreads of the tasks, as text in per cent.
    median: String,
    /// The largest spread of a task, as text in per cent.
    worst: String,
    /// The task with the largest spread.
    worst_task: String,
}

impl Row for FilesystemSpread {
    const COLUMNS: &'static [&'static str] = &["filesystem", "tasks", "median: MEDIAN SPREAD", "worst", "worst_task"];
}

/// The largest median difference over the tasks between restored and booted cells, in per cent of kernel instructions. The kernel
/// of a restored cell has another memory layout, so small differences are normal. A cell that wrongly reads the images of the
/// saved machine instead of its own would differ by more.
pub const MAX_RESTORED_DIFFERENCE_PERCENT: f64 = 2.0;

/// The differences between cells that started from a saved machine and cells that booted, in per cent of kernel instructions,
/// for each task that both have.
pub fn restored_differences(restored: &[InstructionSpread], booted: &[InstructionSpread]) -> Vec<f64> {
    let mut differences = vec![];
    for spread in restored {
        let same_task =
            |other: &&InstructionSpread| (&other.filesystem, &other.task) == (&spread.filesystem, &spread.task);
        let Some(booted_spread) = booted.iter().find(same_task) else { continue };
        if let (Some(restored_count), Some(booted_count)) =
            (spread.kernel_instructions.first(), booted_spread.kernel_instructions.first())
        {
            differences.push(100.0 * (restored_count / booted_count - 1.0).abs());
        }
    }
    differences
}

/// A summary for each filesystem with a task that was counted at least twice; `spreads` must be ordered by filesystem, like the
/// result of [`InstructionSpread::of_all_tasks`].
pub fn summarize_by_filesystem(spreads: &[InstructionSpread]) -> Vec<FilesystemSpread> {
    let summary = |spreads: &[InstructionSpread]| {
        let worst = repeated(spreads).max_by(|a, b| a.percent.total_cmp(&b.percent))?;
        Some(FilesystemSpread {
            filesystem: worst.filesystem.clone(),
            tasks: repeated(spreads).count(),
            median: number::percent(InstructionSpread::median_percent(spreads)? / 100.0),
            worst: number::percent(worst.percent / 100.0),
            worst_task: worst.task.clone(),
        })
    };
    spreads.chunk_by(|a, b| a.filesystem == b.filesystem).filter_map(summary).collect()
}

/// A sentence for people: whether the median over all tasks, `median_percent`, is as small as promised, and how many tasks took
/// the same number of instructions in each repeat.
pub fn describe_spreads(spreads: &[InstructionSpread], repeats: usize, median_percent: Option<f64>) -> String {
    let Some(median_percent) = median_percent else { return "Nothing was counted twice.\n".into() };
    let unchanged = repeated(spreads).filter(|spread| spread.percent == 0.0).count();
    let verdict = if median_percent <= PROMISED_SPREAD_PERCENT { "as promised" } else { "which is MORE than promised" };
    format!(
        "\nKernel instructions of {repeats} repeats of a cell differ by {} (median over {} tasks), {verdict} (at most {PROMISED_SPREAD_PERCENT}%); \
         {unchanged} tasks took exactly the same number each time.\n",
        number::percent(median_percent / 100.0),
        repeated(spreads).count(),
    )
}

/// A sentence for people on the differences between restored and booted cells, whose median is `median_percent`.
pub fn describe_restored_differences(differences: &[f64], median_percent: f64) -> String {
    let largest = differences.iter().copied().fold(0.0, f64::max);
    let verdict = if median_percent <= MAX_RESTORED_DIFFERENCE_PERCENT { "within" } else { "which is MORE than" };
    format!(
        "Cells that started from a saved machine differ from cells that booted by {} (median over {} tasks, at most {}), {verdict} \
         the limit of {MAX_RESTORED_DIFFERENCE_PERCENT}%.\n",
        number::percent(median_percent / 100.0),
        differences.len(),
        number::percent(largest / 100.0),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_spread_is_relative_to_the_median() {
        let key = ("ext4".to_string(), "cp".to_string());
        let spread = InstructionSpread::from_counts(&key, &[1000.0, 1001.0, 1002.0]).unwrap();
        assert!((spread.percent - 200.0 / 1001.0).abs() < 1e-12);
        assert!(
            InstructionSpread::from_counts(&key, &[]).is_none()
                && InstructionSpread::from_counts(&key, &[0.0]).is_none()
        );
    }

    #[test]
    fn each_filesystem_has_a_summary() {
        let spread = |fs: &str, task: &str, counts: &[f64]| {
            InstructionSpread::from_counts(&(fs.into(), task.into()), counts).unwrap()
        };
        let spreads =
            [spread("ext4", "a", &[1.0, 1.0]), spread("ext4", "b", &[1.0, 3.0]), spread("xfs", "a", &[5.0, 5.0])];
        let summaries = summarize_by_filesystem(&spreads);
        assert_eq!((summaries.len(), summaries[0].worst_task.as_str(), summaries[0].tasks), (2, "b", 2));
        assert!(describe_spreads(&spreads, 2, Some(0.0)).contains("2 tasks took exactly the same"));
        assert!(describe_spreads(&spreads, 2, Some(1.0)).contains("MORE"));
    }

    #[test]
    fn a_task_that_was_counted_once_has_no_spread() {
        let spread =
            |task: &str, counts: &[f64]| InstructionSpread::from_counts(&("ext4".into(), task.into()), counts).unwrap();
        let spreads = [spread("a", &[100.0]), spread("b", &[100.0, 102.0]), spread("c", &[100.0])];
        // 2 of the median 101.
        assert!((InstructionSpread::median_percent(&spreads).unwrap() - 200.0 / 101.0).abs() < 1e-12);
        assert_eq!(InstructionSpread::median_percent(&spreads[..1]), None);
        let sentence = describe_spreads(&spreads, 2, Some(200.0 / 101.0));
        assert!(sentence.contains("median over 1 tasks") && sentence.contains("0 tasks took exactly"), "{sentence}");
        assert_eq!(summarize_by_filesystem(&spreads)[0].tasks, 1);
    }

    #[test]
    fn restored_cells_are_compared_with_booted_ones_by_task() {
        let spread =
            |task: &str, counts: &[f64]| InstructionSpread::from_counts(&("xfs".into(), task.into()), counts).unwrap();
        let (restored, booted) =
            ([spread("a", &[101.0, 101.0]), spread("b", &[5.0])], [spread("a", &[100.0]), spread("c", &[5.0])]);
        let differences = restored_differences(&restored, &booted);
        assert!(differences.len() == 1 && (differences[0] - 1.0).abs() < 1e-9, "{differences:?}");
        assert!(describe_restored_differences(&differences, 3.0).contains("MORE than the limit"));
    }
}
