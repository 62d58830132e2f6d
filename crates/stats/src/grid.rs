//! From the rows of a record to one value for each step, arm and block.

use fsarena_core::event::NoteKind;
use fsarena_core::record::RunRecord;
use std::collections::{BTreeMap, BTreeSet};

/// Values by step, arm and block.
#[derive(Debug, Clone, PartialEq)]
pub struct Grid {
    /// The blocks that the columns stand for, ascending.
    pub blocks: Vec<u32>,
    /// `values[step][arm][column]`; NaN where there is none.
    pub values: Vec<Vec<Vec<f64>>>,
}

/// Sorts one value a row into the grid, leaving out some blocks. Several values of one step in one cell's
/// block (workloads that share a step, or repeats on one mkfs) are one observation: their mean.
pub fn grid(record: &RunRecord, rows: &[f64], leave_out: &BTreeSet<u32>) -> Grid {
    let blocks = blocks(record, leave_out);
    // There are far more rows than cells.
    let place: Vec<(usize, Option<usize>)> =
        record.cells.iter().map(|cell| (cell.arm, blocks.binary_search(&cell.block).ok())).collect();
    let empty = vec![vec![f64::NAN; blocks.len()]; record.arms.len()];
    let mut values = vec![empty; record.steps.len()];
    let mut repeats: BTreeMap<(usize, usize, usize), f64> = BTreeMap::new();
    for (row, value) in rows.iter().enumerate().filter(|(_, value)| !value.is_nan()) {
        let (arm, Some(at)) = place[record.samples.cell[row] as usize] else { continue };
        let step = record.samples.step[row] as usize;
        let slot = &mut values[step][arm][at];
        if slot.is_nan() {
            *slot = *value;
        } else {
            let count = repeats.entry((step, arm, at)).or_insert(1.0);
            *count += 1.0;
            *slot += (value - *slot) / *count;
        }
    }
    Grid { blocks, values }
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
