//! From samples and published figures to the rows of a matrix.

use crate::error::Error;
use fsarena_core::cell::{Arm, StepId};
use fsarena_core::factor;
use fsarena_core::metric::{CLIENT_BOUND, reading};
use fsarena_core::published::Published;
use fsarena_core::record::RunRecord;
use fsarena_stats::comparison::median;
use fsarena_stats::grid;
use fsarena_stats::matrix::cells::{Matrix, Row};
use std::collections::BTreeSet;

/// What is compared.
const METRIC: &str = "iops";
/// The parameters of a step that belongs to a matrix.
const SIZE: &str = "bs";
const THREADS: &str = "threads";

/// The name of a cell's step.
pub fn step(mode: &str, block_size: u64, threads: u32) -> String {
    let params = [(SIZE, block_size.to_string()), (THREADS, threads.to_string())];
    StepId { name: mode.into(), params: params.map(|(name, value)| (name.into(), value)).into() }.to_string()
}

/// The matrix that a run measured.
///
/// # Errors
/// Where it measured none.
pub fn matrix_of_run(record: &RunRecord) -> Result<Matrix, Error> {
    let rows = of_run(record);
    if rows.is_empty() {
        return Err(no_matrix(&format!("run {}", record.id)));
    }
    Ok(Matrix::new(&rows)?)
}

fn of_run(record: &RunRecord) -> Vec<Row> {
    let Some((_, values)) = record.metric(METRIC) else { return vec![] };
    let dropped = grid::dropped(record);
    let blocks = record.cells.iter().map(|cell| cell.block as usize + 1).max().unwrap_or(0);
    let tools: BTreeSet<&str> = record.cells.iter().map(|cell| cell.workload.as_str()).collect();
    let client = record.metric(reading::CLIENT).map(|(_, shares)| shares);
    let (mut rows, mut shares): (Vec<Row>, Vec<Vec<f64>>) = (Vec::new(), Vec::new());
    for (sample, value) in values.iter().enumerate().filter(|(_, value)| !value.is_nan()) {
        let cell = &record.cells[record.samples.cell[sample] as usize];
        let step = &record.steps[record.samples.step[sample] as usize].id;
        let Some((block_size, threads)) = place(step) else { continue };
        if dropped.contains(&cell.block) {
            continue;
        }
        let arm = &record.arms[cell.arm];
        // Where several tools measured the same cells, each is an arm of its own.
        let name =
            if tools.len() > 1 { format!("{} by {}", arm.name, cell.workload) } else { arm.name.clone() };
        let is_it = |row: &Row| {
            (row.block_size, row.threads) == (block_size, threads) && row.mode == step.name && row.arm == name
        };
        let found = rows.iter().position(is_it).unwrap_or_else(|| {
            let iops = vec![None; blocks];
            let mode = step.name.clone();
            let raw = is_raw(arm);
            rows.push(Row { arm: name.clone(), raw, mode, block_size, threads, iops, client_bound: false });
            shares.push(vec![]);
            rows.len() - 1
        });
        rows[found].iops[cell.block as usize] = Some(*value);
        shares[found].extend(client.as_ref().map(|shares| shares[sample]).filter(|share| !share.is_nan()));
    }
    for (row, shares) in rows.iter_mut().zip(&shares) {
        row.client_bound = median(shares).is_some_and(|share| share > CLIENT_BOUND);
    }
    rows
}

/// The rows of a published matrix: one value a cell.
///
/// # Errors
/// Where it is none.
pub fn of_published(published: &Published) -> Result<Vec<Row>, Error> {
    let figures = published.rows.iter().filter(|figure| figure.metric == METRIC);
    let row = |figure: &fsarena_core::published::Figure| {
        let (block_size, threads) = place(&figure.step_id())?;
        let (arm, mode) = (figure.arm.clone(), figure.step.clone());
        let (raw, iops) = (arm == factor::RAW, vec![Some(figure.value)]);
        Some(Row { arm, raw, mode, block_size, threads, iops, client_bound: false })
    };
    match figures.filter_map(row).collect::<Vec<_>>() {
        rows if rows.is_empty() => Err(no_matrix(&format!("published:{}", published.name()))),
        rows => Ok(rows),
    }
}

fn place(step: &StepId) -> Option<(u64, u32)> {
    Some((step.params.get(SIZE)?.parse().ok()?, step.params.get(THREADS)?.parse().ok()?))
}

/// Whether an arm is the bare device.
fn is_raw(arm: &Arm) -> bool {
    arm.level(factor::DIR).is_empty() && arm.level(factor::FS) == factor::RAW
}

fn no_matrix(source: &str) -> Error {
    Error::NoMatrix(source.into())
}
