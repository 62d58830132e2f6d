//! From the rows of a record to one value for each step, arm and block.

use fsarena_core::cell::StepInfo;
use fsarena_core::event::NoteKind;
use fsarena_core::record::{MetricInfo, RunRecord};
use std::collections::{BTreeMap, BTreeSet};

/// Values by step, arm and block.
#[derive(Debug, Clone, PartialEq)]
pub struct Grid {
    /// The blocks that the columns stand for, ascending.
    pub blocks: Vec<u32>,
    /// `values[step][arm][column]`; NaN where there is none.
    pub values: Vec<Vec<Vec<f64>>>,
}

impl Grid {
    /// A metric or reading without the blocks that were dropped as a whole. None where nothing is called so.
    pub fn of(record: &RunRecord, metric: &str) -> Option<(MetricInfo, Grid)> {
        let (info, rows) = record.metric(metric)?;
        Some((info, grid(record, &rows, &dropped(record))))
    }

    /// The steps of the composite that have data, with their values by arm and block.
    pub fn tasks<'a>(
        &'a self,
        record: &'a RunRecord,
    ) -> impl Iterator<Item = (&'a StepInfo, &'a Vec<Vec<f64>>)> {
        let steps = record.steps.iter().zip(&self.values);
        steps.filter(|(step, values)| step.in_composite && has_data(values))
    }
}

/// Sorts one value a row into the grid, leaving out some blocks. Several values of one step in one cell's
/// block (workloads that share a step, or repeats on one mkfs) are one observation: their mean.
pub fn grid(record: &RunRecord, rows: &[f64], leave_out: &BTreeSet<u32>) -> Grid {
    let blocks = blocks(record, leave_out);
    let empty = vec![vec![f64::NAN; blocks.len()]; record.arms.len()];
    let mut values = vec![empty; record.steps.len()];
    let mut means = Means::default();
    each_placed(record, rows, &blocks, |place, value| {
        means.add(&mut values[place.step][place.arm][place.column], place, value);
    });
    Grid { blocks, values }
}

/// What [`grid`] holds, for each arm one column behind the other, with every step in it: the order in which rows come,
/// so that it takes far less time. For sums over steps.
pub fn by_block(record: &RunRecord, rows: &[f64], leave_out: &BTreeSet<u32>) -> Vec<Vec<f64>> {
    let (blocks, steps) = (blocks(record, leave_out), record.steps.len());
    let mut values = vec![vec![f64::NAN; blocks.len() * steps]; record.arms.len()];
    let mut means = Means::default();
    each_placed(record, rows, &blocks, |place, value| {
        means.add(&mut values[place.arm][place.column * steps + place.step], place, value);
    });
    values
}

/// Where a value belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    step: usize,
    arm: usize,
    column: usize,
}

/// Calls `each` with the values that are there and their places among these blocks.
fn each_placed(record: &RunRecord, rows: &[f64], blocks: &[u32], mut each: impl FnMut(Place, f64)) {
    // There are far more rows than cells.
    let of_cell: Vec<(usize, Option<usize>)> =
        record.cells.iter().map(|cell| (cell.arm, blocks.binary_search(&cell.block).ok())).collect();
    let placed = record.samples.cell.iter().zip(&record.samples.step).zip(rows);
    for ((cell, step), value) in placed.filter(|(_, value)| !value.is_nan()) {
        let (arm, Some(column)) = of_cell[*cell as usize] else { continue };
        each(Place { step: *step as usize, arm, column }, *value);
    }
}

/// Turns several values of one place into their mean, one after the other.
#[derive(Default)]
struct Means {
    /// How many there are of places that have more than one.
    counts: BTreeMap<Place, f64>,
}

impl Means {
    fn add(&mut self, slot: &mut f64, place: Place, value: f64) {
        if slot.is_nan() {
            *slot = value;
        } else {
            let count = self.counts.entry(place).or_insert(1.0);
            *count += 1.0;
            *slot += (value - *slot) / *count;
        }
    }
}

/// The blocks that a run has begun, ascending, but for those to leave out.
pub fn blocks(record: &RunRecord, leave_out: &BTreeSet<u32>) -> Vec<u32> {
    let mut blocks: Vec<u32> = record.cells.iter().map(|cell| cell.block).collect();
    blocks.sort_unstable();
    blocks.dedup();
    blocks.retain(|block| !leave_out.contains(block));
    blocks
}

/// Whether any arm of a step has a value in any block.
pub fn has_data(values: &[Vec<f64>]) -> bool {
    values.iter().flatten().any(|value| !value.is_nan())
}

/// The blocks that were dropped as a whole.
pub fn dropped(record: &RunRecord) -> BTreeSet<u32> {
    record
        .notes
        .iter()
        .filter(|(_, note)| note.kind == NoteKind::Dropped)
        .filter_map(|(block, _)| *block)
        .collect()
}
