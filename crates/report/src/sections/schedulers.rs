//! The section about variants that differ in the I/O scheduler: the figure of each filesystem under each scheduler, as a share
//! of its best scheduler, and as a share of the best filesystem under the same scheduler.

use crate::document::{Cell, Detail, Document, Source, Table, labelled_row};
use crate::report::Report;
use crate::{number::three, words::label};
use fsarena_core::{cell::Variant, factor::SCHEDULER, names::distinct, sample::Direction};
use fsarena_stats::analyse::without_level;

/// Adds two tables for each task, by the first metric; nothing if the scheduler does not vary.
pub fn add_schedulers(document: &mut Document, report: &Report, _: Detail) {
    let Some(analysis) = report.analyses.first() else { return };
    let direction = analysis.metric.direction;
    if direction == Direction::Neutral {
        return;
    }
    let Some(grid) = SchedulerGrid::of(&report.record.variants) else { return };
    document.heading(3, format!("Normalised, by {}", analysis.metric.id));
    for task in analysis.tasks() {
        let median = |at: &Option<usize>| task.comparison.variants.get((*at)?)?.median;
        let values: Vec<Vec<_>> = grid.at.iter().map(|row| row.iter().map(median).collect()).collect();
        let name = label(&task.task);
        let number = report.record.task(&task.task.id);
        let shares = to_best_of_rows(&values, direction);
        document.text(format!("{name}: relative to the best scheduler of each filesystem."));
        document.table(share_table(&grid, &shares, &share_sources(&grid.at, &shares, number)));
        let shares = to_best_of_rows(&transposed(&values), direction);
        let sources = share_sources(&transposed(&grid.at), &shares, number);
        document.text(format!("{name}: relative to the best filesystem under each scheduler."));
        document.table(share_table(&grid, &transposed(&shares), &transposed(&sources)));
    }
    document.text(
        "Shares of medians; 1.00 is the best of its row in the first table of each pair and of its column in the \
         second. These shares have no intervals: a best share may be chance. The answer has the intervals.",
    );
}

/// A table of the shares; a share of 1.00 is highlighted.
fn share_table(grid: &SchedulerGrid, shares: &[Vec<Option<f64>>], sources: &[Vec<Option<Source>>]) -> Table {
    let shown = |share: Option<f64>| match share {
        None => "–".into(),
        Some(1.0) => Cell::from("1.00").strong(),
        Some(share) => three(share).into(),
    };
    let rows = grid.names.iter().zip(shares).zip(sources).map(|((name, shares), sources)| {
        let cells =
            shares.iter().zip(sources).map(|(share, source)| shown(*share).with_source(source.clone()));
        labelled_row(name.as_str(), cells)
    });
    Table::figures(std::iter::once("").chain(grid.schedulers.iter().map(String::as_str))).with(rows)
}

/// Each value as a share of the best of its row: `value / best`, or `best / value` if lower is better.
fn to_best_of_rows(values: &[Vec<Option<f64>>], direction: Direction) -> Vec<Vec<Option<f64>>> {
    let shares = |row: &Vec<Option<f64>>| {
        let known = || row.iter().flatten().copied();
        let lower = direction == Direction::Lower;
        let best = if lower { known().fold(f64::INFINITY, f64::min) } else { known().fold(0.0, f64::max) };
        let share = |value: f64| if lower { best / value } else { value / best };
        row.iter().map(|value| value.map(share)).collect()
    };
    values.iter().map(shares).collect()
}

/// The source of each share: its variant and the best variant of the row.
fn share_sources(
    variants: &[Vec<Option<usize>>],
    shares: &[Vec<Option<f64>>],
    task: Option<usize>,
) -> Vec<Vec<Option<Source>>> {
    let row = |(variants, shares): (&Vec<Option<usize>>, &Vec<Option<f64>>)| -> Vec<Option<Source>> {
        let best = shares.iter().position(|share| *share == Some(1.0)).and_then(|at| variants[at]);
        let known = |variant: &Option<usize>| Source::of(task, std::iter::once((*variant)?).chain(best));
        variants.iter().map(known).collect()
    };
    variants.iter().zip(shares).map(row).collect()
}

/// The matrix with rows and columns swapped.
fn transposed<T: Clone>(values: &[Vec<T>]) -> Vec<Vec<T>> {
    let columns = values.first().map_or(0, Vec::len);
    (0..columns).map(|at| values.iter().map(|row| row[at].clone()).collect()).collect()
}

/// The variants of a run as a grid: rows are the names without the scheduler, columns are the schedulers.
pub struct SchedulerGrid {
    /// The names of the variants without their scheduler.
    pub names: Vec<String>,
    /// The names of the schedulers.
    pub schedulers: Vec<String>,
    /// `at[name][scheduler]`: the index of the variant; `None` if the run lacks it.
    pub at: Vec<Vec<Option<usize>>>,
}

impl SchedulerGrid {
    /// The grid of these variants. `None` if no filesystem was measured with two schedulers, because then there is nothing to
    /// compare.
    pub fn of(variants: &[Variant]) -> Option<SchedulerGrid> {
        let schedulers: Vec<&str> = variants.iter().map(|variant| variant.level(SCHEDULER)).collect();
        let names: Vec<String> =
            variants.iter().map(|variant| without_level(variant, SCHEDULER).name).collect();
        let rows = distinct(names.iter().map(String::as_str));
        let columns = distinct(schedulers.iter().copied());
        let find = |name: &str, scheduler: &str| {
            (0..variants.len()).find(|at| names[*at] == name && schedulers[*at] == scheduler)
        };
        let row = |name: &&str| columns.iter().map(|scheduler| find(name, scheduler)).collect();
        let at: Vec<Vec<Option<usize>>> = rows.iter().map(row).collect();
        if !at.iter().any(|row| row.iter().flatten().count() > 1) {
            return None;
        }
        let title = |level: &&str| if level.is_empty() { "as it is".into() } else { level.to_string() };
        let (names, schedulers) =
            (rows.iter().map(ToString::to_string).collect(), columns.iter().map(title).collect());
        Some(SchedulerGrid { names, schedulers, at })
    }

    /// The first of the variants that differ from this one only in the scheduler.
    pub fn first_of_row(&self, variant: usize) -> usize {
        let row = self.at.iter().find(|row| row.contains(&Some(variant)));
        row.and_then(|row| row.iter().flatten().min().copied()).unwrap_or(variant)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_source_of_a_share_is_its_variant_and_the_best_of_the_row() {
        let sources =
            share_sources(&[vec![Some(4), Some(7), None]], &[vec![Some(0.5), Some(1.0), None]], Some(2));
        let variants = |at: usize| sources[0][at].as_ref().map(Source::variants_attribute);
        assert_eq!([variants(0), variants(1), variants(2)], [Some("4 7".into()), Some("7".into()), None]);
    }

    #[test]
    fn shares_are_relative_to_the_best_of_the_row_or_column() {
        let values = vec![vec![Some(2.0), Some(4.0)], vec![Some(8.0), None]];
        let rows = to_best_of_rows(&values, Direction::Higher);
        assert_eq!(rows, [[Some(0.5), Some(1.0)], [Some(1.0), None]]);
        let columns = transposed(&to_best_of_rows(&transposed(&values), Direction::Higher));
        assert_eq!(columns, [[Some(0.25), Some(1.0)], [Some(1.0), None]]);
        assert_eq!(to_best_of_rows(&values, Direction::Lower)[0], [Some(1.0), Some(0.5)]);
    }
}
