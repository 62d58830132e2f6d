//! Variants that differ in the I/O scheduler: each filesystem at each scheduler, as a share of what it reaches under its best one,
//! and as a share of the best filesystem under the same.

use crate::document::{Cell, Source, Table, labelled_row};
use crate::section::{Chapter, Detail, Document, Report, Section};
use crate::{number::three, words::label};
use fsarena_core::{cell::Variant, factor::SCHEDULER, names::distinct, sample::Direction};
use fsarena_stats::analyse::without_level;

/// Each filesystem under each I/O scheduler.
pub const SCHEDULERS: Section = Section::full(Chapter::Data, add_schedulers);

/// The tables, a pair for each task of the first metric; nothing where the scheduler does not vary.
fn add_schedulers(document: &mut Document, report: &Report, _: Detail) {
    let Some(analysis) = report.analyses.first() else { return };
    let direction = analysis.metric.direction;
    let Some(crossed) =
        SchedulerGrid::of(&report.record.variants).filter(|_| direction != Direction::Neutral)
    else {
        return;
    };
    document.heading(3, format!("Normalised, by {}", analysis.metric.id));
    for task in analysis.tasks() {
        let median = |at: &Option<usize>| task.comparison.variants.get((*at)?)?.median;
        let values: Vec<Vec<_>> = crossed.at.iter().map(|row| row.iter().map(median).collect()).collect();
        let name = label(&task.task);
        let number = report.record.task(&task.task.id);
        let shares = to_best_of_rows(&values, direction);
        document.text(format!("{name}: relative to the best scheduler of each filesystem."));
        document.table(share_table(&crossed, &shares, &share_sources(&crossed.at, &shares, number)));
        let shares = to_best_of_rows(&transposed(&values), direction);
        let sources = share_sources(&transposed(&crossed.at), &shares, number);
        document.text(format!("{name}: relative to the best filesystem under each scheduler."));
        document.table(share_table(&crossed, &transposed(&shares), &transposed(&sources)));
    }
    document.text(
        "Shares of medians; 1.00 is the best of its row in the first table of each pair and of its column in the \
         second. These shares have no intervals: a best share may be chance. The answer has the intervals.",
    );
}

fn share_table(
    crossed: &SchedulerGrid,
    shares: &[Vec<Option<f64>>],
    sources: &[Vec<Option<Source>>],
) -> Table {
    let shown = |share: Option<f64>| match share {
        None => "–".into(),
        Some(1.0) => Cell::from("1.00").strong(),
        Some(share) => three(share).into(),
    };
    let rows = crossed.names.iter().zip(shares).zip(sources).map(|((name, shares), sources)| {
        let cells =
            shares.iter().zip(sources).map(|(share, source)| shown(*share).with_source(source.clone()));
        labelled_row(name.as_str(), cells)
    });
    Table::figures(std::iter::once("").chain(crossed.schedulers.iter().map(String::as_str))).with(rows)
}

/// Each value over the best of its row; of times the best over each.
fn to_best_of_rows(values: &[Vec<Option<f64>>], direction: Direction) -> Vec<Vec<Option<f64>>> {
    let share = |row: &Vec<Option<f64>>| {
        let known = || row.iter().flatten().copied();
        let lower = direction == Direction::Lower;
        let best = if lower { known().fold(f64::INFINITY, f64::min) } else { known().fold(0.0, f64::max) };
        let of = |value: f64| if lower { best / value } else { value / best };
        row.iter().map(|value| value.map(of)).collect()
    };
    values.iter().map(share).collect()
}

/// The sources of each share: its variant and the best variant of the row.
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

fn transposed<T: Clone>(values: &[Vec<T>]) -> Vec<Vec<T>> {
    let columns = values.first().map_or(0, Vec::len);
    (0..columns).map(|at| values.iter().map(|row| row[at].clone()).collect()).collect()
}

/// Variants by what they are besides their scheduler, and by scheduler.
pub struct SchedulerGrid {
    /// The names of the variants without their scheduler.
    pub names: Vec<String>,
    /// The schedulers.
    pub schedulers: Vec<String>,
    /// `at[name][scheduler]`: a variant of the run.
    pub at: Vec<Vec<Option<usize>>>,
}

impl SchedulerGrid {
    /// The variants of a report by filesystem and scheduler. `None` if no filesystem was measured with two schedulers,
    /// because then there is nothing to compare.
    pub fn of(variants: &[Variant]) -> Option<SchedulerGrid> {
        let of: Vec<&str> = variants.iter().map(|variant| variant.level(SCHEDULER)).collect();
        let rests: Vec<String> =
            variants.iter().map(|variant| without_level(variant, SCHEDULER).name).collect();
        let (levels, names) = (distinct(of.iter().copied()), distinct(rests.iter().map(String::as_str)));
        let find = |name: &str, level: &str| (0..of.len()).find(|at| rests[*at] == name && of[*at] == level);
        let row = |name: &&str| levels.iter().map(|level| find(name, level)).collect();
        let at: Vec<Vec<Option<usize>>> = names.iter().map(row).collect();
        let shown = |level: &&str| if level.is_empty() { "as it is".into() } else { level.to_string() };
        let schedulers = levels.iter().map(shown).collect();
        let names = names.into_iter().map(String::from).collect();
        let crossed = at.iter().any(|row| row.iter().flatten().count() > 1);
        crossed.then_some(SchedulerGrid { names, schedulers, at })
    }

    /// The first of the variants that differ from this one in the scheduler alone.
    pub fn first(&self, variant: usize) -> usize {
        let row = self.at.iter().find(|row| row.contains(&Some(variant)));
        row.and_then(|row| row.iter().flatten().min().copied()).unwrap_or(variant)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_made_of_its_variant_and_of_the_best_of_its_row() {
        let made =
            share_sources(&[vec![Some(4), Some(7), None]], &[vec![Some(0.5), Some(1.0), None]], Some(2));
        let variants = |at: usize| made[0][at].as_ref().map(Source::variants);
        assert_eq!([variants(0), variants(1), variants(2)], [Some("4 7".into()), Some("7".into()), None]);
    }

    #[test]
    fn shares_of_the_best_of_rows_and_columns() {
        let values = vec![vec![Some(2.0), Some(4.0)], vec![Some(8.0), None]];
        let rows = to_best_of_rows(&values, Direction::Higher);
        assert_eq!(rows, [[Some(0.5), Some(1.0)], [Some(1.0), None]]);
        let columns = transposed(&to_best_of_rows(&transposed(&values), Direction::Higher));
        assert_eq!(columns, [[Some(0.25), Some(1.0)], [Some(1.0), None]]);
        assert_eq!(to_best_of_rows(&values, Direction::Lower)[0], [Some(1.0), Some(0.5)]);
    }
}
