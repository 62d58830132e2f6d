//! The section about variants that differ in the I/O scheduler: the figure of each filesystem under each scheduler, as a share
//! of its best scheduler, and as a share of the best filesystem under the same scheduler.

use crate::document::{Cell, Detail, Document, FigureSource, Table, labelled_row};
use crate::{number::three_digits, phrases::task_label, report::Report};
use fsarena_core::{cell::Variant, factor::SCHEDULER, names::distinct, sample::Direction};
use fsarena_stats::analyse::without_level;

/// Adds two tables for each task, by the first metric; nothing if the scheduler does not vary.
pub fn add_schedulers(document: &mut Document, report: &Report, _: Detail) {
    let Some(analysis) = report.ranked_analysis() else { return };
    let Some(grid) = SchedulerGrid::from_variants(&report.record.variants) else { return };
    document.heading(3, format!("Normalised, by {}", analysis.metric.id));
    for task in analysis.tasks_in_totals() {
        let name = task_label(&task.task);
        let medians = VariantMedians {
            values: task.comparison.variants.iter().map(|variant| variant.median).collect(),
            direction: analysis.metric.direction,
            task: report.record.task_index(&task.task.id),
        };
        document.text(format!("{name}: relative to the best scheduler of each filesystem."));
        document.table(share_table(&grid, &grid.variants, &medians));
        document.text(format!("{name}: relative to the best filesystem under each scheduler."));
        document.table(share_table(&grid, &grid.by_scheduler(), &medians));
    }
    document.text(
        "Shares of medians; 1.00 is the best of its row in the first table of each pair and of its column in the \
         second. These shares have no intervals: a best share may be chance. The answer has the intervals.",
    );
}

/// The medians of the variants in a task.
struct VariantMedians {
    /// The median of each variant; `None` if it has no value.
    values: Vec<Option<f64>>,
    /// Whether lower or higher values are better.
    direction: Direction,
    /// The index of the task in the run.
    task: Option<usize>,
}

impl VariantMedians {
    /// The share of a variant in the best of these candidates: `value / best`, or `best / value` if lower is better. `None` if
    /// the variant has no value.
    fn share_of_best(&self, variant: usize, candidates: &[usize]) -> Option<Cell> {
        let lower_is_better = self.direction == Direction::Lower;
        let own_value = self.values[variant]?;
        let known = candidates.iter().filter_map(|other| Some((self.values[*other]?, *other)));
        let is_better = |value: f64, other: f64| if lower_is_better { value < other } else { value > other };
        let (best, best_variant) = known.reduce(|best, other| if is_better(other.0, best.0) { other } else { best })?;
        let share = if lower_is_better { best / own_value } else { own_value / best };
        let cell = if share == 1.0 { Cell::from("1.00").highlighted() } else { three_digits(share).into() };
        Some(cell.with_source(FigureSource::new(self.task, [variant, best_variant])))
    }
}

/// A table of the variants by name and scheduler, each as a share of the best variant of its group. The best variants are
/// highlighted.
fn share_table(grid: &SchedulerGrid, groups: &[Vec<Option<usize>>], medians: &VariantMedians) -> Table {
    let mut table = Table::of_figures(std::iter::once("").chain(grid.schedulers.iter().map(String::as_str)));
    for (name, variants) in grid.row_names.iter().zip(&grid.variants) {
        let cell = |variant: &Option<usize>| {
            let group = groups.iter().find(|group| group.contains(variant))?;
            medians.share_of_best((*variant)?, &grid.candidates_in(group))
        };
        let cells = variants.iter().map(|variant| cell(variant).unwrap_or("–".into()));
        table.rows.push(labelled_row(name.as_str(), cells));
    }
    table
}

/// The variants of a run as a grid: rows are the names without the scheduler, columns are the schedulers.
pub struct SchedulerGrid {
    /// The names of the variants without their scheduler.
    pub row_names: Vec<String>,
    /// The names of the schedulers.
    pub schedulers: Vec<String>,
    /// `variants[name][scheduler]`: the index of the variant; `None` if the run lacks it.
    pub variants: Vec<Vec<Option<usize>>>,
    /// The indexes of the variants that are the bare device.
    bare_devices: Vec<usize>,
}

impl SchedulerGrid {
    /// The grid of these variants. `None` if no filesystem was measured with two schedulers, because then there is nothing to
    /// compare.
    pub fn from_variants(variants: &[Variant]) -> Option<SchedulerGrid> {
        let schedulers: Vec<&str> = variants.iter().map(|variant| variant.level(SCHEDULER)).collect();
        let names: Vec<String> = variants.iter().map(|variant| without_level(variant, SCHEDULER).name).collect();
        let (rows, columns) = (distinct(names.iter().cloned()), distinct(schedulers.iter().copied()));
        let find = |name: &str, scheduler: &str| {
            (0..variants.len()).find(|index| names[*index] == name && schedulers[*index] == scheduler)
        };
        let row = |name: &String| columns.iter().map(|scheduler| find(name, scheduler)).collect();
        let grid: Vec<Vec<Option<usize>>> = rows.iter().map(row).collect();
        if !grid.iter().any(|row| row.iter().flatten().count() > 1) {
            return None;
        }
        let title = |level: &&str| if level.is_empty() { "as it is".into() } else { level.to_string() };
        let bare_devices = (0..variants.len()).filter(|index| variants[*index].is_bare_device()).collect();
        let schedulers = columns.iter().map(title).collect();
        Some(SchedulerGrid { row_names: rows, schedulers, variants: grid, bare_devices })
    }

    /// The variants that can be the best of a group, a row or a column of the grid. The bare device is a reference and no
    /// candidate, except in a group of bare devices only.
    pub fn candidates_in(&self, group: &[Option<usize>]) -> Vec<usize> {
        let mut candidates: Vec<usize> = group.iter().copied().flatten().collect();
        if candidates.iter().any(|variant| !self.bare_devices.contains(variant)) {
            candidates.retain(|variant| !self.bare_devices.contains(variant));
        }
        candidates
    }

    /// The indexes of the variants by scheduler, and then by name.
    pub fn by_scheduler(&self) -> Vec<Vec<Option<usize>>> {
        let column = |index: usize| self.variants.iter().map(|row| row[index]).collect();
        (0..self.schedulers.len()).map(column).collect()
    }

    /// The first of the variants that differ from this one only in the scheduler.
    pub fn first_of_row(&self, variant: usize) -> usize {
        let row = self.variants.iter().find(|row| row.contains(&Some(variant)));
        row.and_then(|row| row.iter().flatten().min().copied()).unwrap_or(variant)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_relative_to_the_best_of_its_group_and_names_both() {
        let medians = |direction| VariantMedians { values: vec![Some(2.0), Some(4.0), None], direction, task: Some(2) };
        let (higher, lower) = (medians(Direction::Higher), medians(Direction::Lower));
        let group = [0, 1, 2];
        let cell = higher.share_of_best(0, &group).unwrap();
        assert_eq!((cell.lines[0].as_str(), cell.is_highlighted), ("0.500", false));
        assert_eq!(cell.source.unwrap().variants, [0, 1]);
        let best = higher.share_of_best(1, &group).unwrap();
        assert_eq!((best.lines[0].as_str(), best.is_highlighted), ("1.00", true));
        assert_eq!(lower.share_of_best(1, &group).unwrap().lines[0], "0.500");
        assert_eq!(higher.share_of_best(2, &group), None);
    }

    #[test]
    fn the_bare_device_is_the_best_of_bare_devices_only() {
        let variant = |fs: &str, scheduler: &str| Variant {
            name: format!("{fs}/{scheduler}"),
            levels: [("fs", fs), ("scheduler", scheduler)].map(|(id, level)| (id.into(), level.into())).into(),
        };
        let variants = [variant("raw", "none"), variant("raw", "bfq"), variant("ext4", "none"), variant("ext4", "bfq")];
        let grid = SchedulerGrid::from_variants(&variants).unwrap();
        let candidates = |groups: &[Vec<Option<usize>>]| -> Vec<Vec<usize>> {
            groups.iter().map(|group| grid.candidates_in(group)).collect()
        };
        assert_eq!(candidates(&grid.variants), [[0, 1], [2, 3]]);
        assert_eq!(candidates(&grid.by_scheduler()), [[2], [3]]);
    }
}
