//! From the rows of a record to one value for each task, variant and round.

use fsarena_core::{cell::TaskInfo, event::NoteKind, record::RunRecord};
use std::collections::{BTreeMap, BTreeSet};

/// Why a figure of one task and variant may not rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Doubt {
    /// The page cache served direct I/O.
    Cache,
    /// The load generator took more than a tenth of an operation.
    ClientBound,
    /// Blocks were to be verified, and none was.
    Unverified,
    /// It had too few requests for the percentile.
    FewRequests,
}

impl Doubt {
    /// Every reason.
    pub const ALL: [Doubt; 4] = [Doubt::Cache, Doubt::ClientBound, Doubt::Unverified, Doubt::FewRequests];

    /// What the variant did; follows the names of the variant and the task.
    pub fn words(self) -> &'static str {
        match self {
            Doubt::Cache => "served direct I/O from the page cache",
            Doubt::ClientBound => "was bound by the load generator",
            Doubt::Unverified => "verified no block, although the plan asks for that",
            Doubt::FewRequests => "had too few requests a round for the percentile",
        }
    }
}

/// Values by task, variant and round.
#[derive(Debug, Clone, PartialEq)]
pub struct Grid {
    /// The rounds that the columns stand for, ascending.
    pub rounds: Vec<u32>,
    /// `values[task][variant][column]`; NaN where there is none.
    pub values: Vec<Vec<Vec<f64>>>,
    /// The tasks that rank no variant, because a figure of theirs did not measure what it claims.
    pub set_aside: BTreeMap<usize, Doubt>,
    /// The tasks whose figures do not combine with those of the others: reads beside commits.
    pub apart: BTreeSet<usize>,
    /// The variants that are the bare device: a reference for the others.
    pub references: Vec<usize>,
}

impl Grid {
    /// The tasks in the totals that have data, may rank and combine, with their values by variant and round.
    pub fn tasks<'a>(
        &'a self,
        record: &'a RunRecord,
    ) -> impl Iterator<Item = (&'a TaskInfo, &'a Vec<Vec<f64>>)> {
        let tasks = record.tasks.iter().zip(&self.values).enumerate();
        let kept = tasks.filter(|(at, (task, values))| {
            task.in_totals && has_data(values) && !self.set_aside.contains_key(at) && !self.apart.contains(at)
        });
        kept.map(|(_, of)| of)
    }
}

/// Sorts one value a row into the grid, leaving out some rounds. Several values of one task in one cell's
/// round (workloads that share a task, or repeats on one mkfs) are one observation: their mean.
pub fn grid(record: &RunRecord, rows: &[f64], leave_out: &BTreeSet<u32>) -> Grid {
    let rounds = rounds(record, leave_out);
    let empty = vec![vec![f64::NAN; rounds.len()]; record.variants.len()];
    let empty = vec![empty; record.tasks.len()];
    let values = spread(record, rows, &rounds, empty, |values, (task, variant, column)| {
        &mut values[task][variant][column]
    });
    Grid {
        rounds,
        values,
        set_aside: BTreeMap::new(),
        apart: BTreeSet::new(),
        references: references(record),
    }
}

/// The variants that are the bare device.
pub fn references(record: &RunRecord) -> Vec<usize> {
    let variants = record.variants.iter().enumerate();
    variants.filter(|(_, variant)| variant.is_bare_device()).map(|(at, _)| at).collect()
}

/// What [`grid`] holds, for each variant one column behind the other, with every task in it: the order in which rows come,
/// so that it takes far less time. For sums over tasks.
pub fn by_round(record: &RunRecord, rows: &[f64], leave_out: &BTreeSet<u32>) -> Vec<Vec<f64>> {
    let (rounds, tasks) = (rounds(record, leave_out), record.tasks.len());
    let empty = vec![vec![f64::NAN; rounds.len() * tasks]; record.variants.len()];
    spread(record, rows, &rounds, empty, |values, (task, variant, column)| {
        &mut values[variant][column * tasks + task]
    })
}

/// A task, a variant and a column.
type Place = (usize, usize, usize);

/// Puts the values that are there in their places among these rounds. Several values of one place become their mean, one
/// after the other.
fn spread<V>(
    record: &RunRecord,
    rows: &[f64],
    rounds: &[u32],
    mut values: V,
    slot: impl Fn(&mut V, Place) -> &mut f64,
) -> V {
    // There are far more rows than cells.
    let of_cell: Vec<(usize, Option<usize>)> =
        record.cells.iter().map(|cell| (cell.variant, rounds.binary_search(&cell.round).ok())).collect();
    // How many there are of places that have more than one.
    let mut counts: BTreeMap<Place, f64> = BTreeMap::new();
    let placed = record.samples.cell.iter().zip(&record.samples.task).zip(rows);
    for ((cell, task), value) in placed.filter(|(_, value)| !value.is_nan()) {
        let (variant, Some(column)) = of_cell[*cell as usize] else { continue };
        let place = (*task as usize, variant, column);
        let slot = slot(&mut values, place);
        if slot.is_nan() {
            *slot = *value;
        } else {
            let count = counts.entry(place).or_insert(1.0);
            *count += 1.0;
            *slot += (value - *slot) / *count;
        }
    }
    values
}

/// The rounds that a run has begun, ascending, but for those to leave out.
pub fn rounds(record: &RunRecord, leave_out: &BTreeSet<u32>) -> Vec<u32> {
    let begun: BTreeSet<u32> = record.cells.iter().map(|cell| cell.round).collect();
    begun.difference(leave_out).copied().collect()
}

/// Whether any variant of a task has a value in any round.
pub fn has_data(values: &[Vec<f64>]) -> bool {
    values.iter().flatten().any(|value| !value.is_nan())
}

/// The rounds that belong to no comparison: warm-up, and those that were dropped.
pub fn left_out(record: &RunRecord) -> BTreeSet<u32> {
    &warmup(record) | &dropped(record)
}

/// The warm-up rounds.
pub fn warmup(record: &RunRecord) -> BTreeSet<u32> {
    (0..record.plan.stop.warmup).collect()
}

/// The rounds to compare that were dropped as a whole.
pub fn dropped(record: &RunRecord) -> BTreeSet<u32> {
    let dropped = record.notes_of(NoteKind::Dropped).filter_map(|(round, _)| round);
    dropped.filter(|round| *round >= record.plan.stop.warmup).collect()
}
