//! From samples and published figures to the rows of a matrix.

use crate::error::Error;
use crate::matrix::{SIZE, THREADS, place};
use fsarena_core::metric::{CLIENT_BOUND, reading};
use fsarena_core::observations::left_out;
use fsarena_core::published::{Figure, Published};
use fsarena_core::{cell::TaskId, factor, record::RunRecord};
use fsarena_stats::comparison::median;
use fsarena_stats::matrix::cells::{Matrix, Row};
use std::collections::{BTreeMap, BTreeSet};

/// The metric that is compared.
const METRIC: &str = "iops";

/// The name of a cell's task.
pub fn task(mode: &str, block_size: u64, threads: u32) -> String {
    let params = [(SIZE, block_size.to_string()), (THREADS, threads.to_string())];
    TaskId { name: mode.into(), params: params.map(|(name, value)| (name.into(), value)).into() }.to_string()
}

/// The matrix that a run measured.
///
/// # Errors
/// Where it measured none.
pub fn matrix_of_run(record: &RunRecord) -> Result<Matrix, Error> {
    let rows = of_run(record);
    if rows.is_empty() {
        return Err(no_matrix(format!("run {}", record.id)));
    }
    Ok(Matrix::new(&rows)?)
}

fn of_run(record: &RunRecord) -> Vec<Row> {
    let Some((_, values)) = record.metric(METRIC) else { return vec![] };
    let left_out = left_out(record);
    let rounds = record.cells.iter().map(|cell| cell.round as usize + 1).max().unwrap_or(0);
    let tools: BTreeSet<&str> = record.cells.iter().map(|cell| cell.workload.as_str()).collect();
    let client = record.metric(reading::CLIENT).map(|(_, shares)| shares);
    let (mut rows, mut shares): (Vec<Row>, Vec<Vec<f64>>) = (Vec::new(), Vec::new());
    let mut known = BTreeMap::new();
    for (sample, value) in values.iter().enumerate().filter(|(_, value)| !value.is_nan()) {
        let cell = &record.cells[record.samples.cell[sample] as usize];
        let task = &record.tasks[record.samples.task[sample] as usize].id;
        let Some((block_size, threads)) = place(task) else { continue };
        if left_out.contains(&cell.round) {
            continue;
        }
        let variant = &record.variants[cell.variant];
        // If several tools measured the same cells, each is a separate variant.
        let several = tools.len() > 1;
        let by = if several { format!(" by {}", cell.workload) } else { String::new() };
        let row = Row {
            variant: format!("{}{by}", variant.name),
            raw: variant.is_bare_device(),
            mode: task.name.clone(),
            block_size,
            threads,
            iops: vec![None; rounds],
            client_bound: false,
        };
        let key = |row: &Row| (row.block_size, row.threads, row.mode.clone(), row.variant.clone());
        let found = *known.entry(key(&row)).or_insert_with(|| {
            rows.push(row);
            shares.push(vec![]);
            rows.len() - 1
        });
        rows[found].iops[cell.round as usize] = Some(*value);
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
    let row = |figure: &Figure| {
        let (block_size, threads) = place(&figure.task_id())?;
        let (variant, mode) = (figure.variant.clone(), figure.task.clone());
        let (raw, iops) = (variant == factor::RAW, vec![Some(figure.value)]);
        Some(Row { variant, raw, mode, block_size, threads, iops, client_bound: false })
    };
    match figures.filter_map(row).collect::<Vec<_>>() {
        rows if rows.is_empty() => Err(no_matrix(format!("published:{}", published.name()))),
        rows => Ok(rows),
    }
}

fn no_matrix(source: String) -> Error {
    Error::Usage(format!(
        "{source} holds no matrix of block sizes and threads; a run of study engel does, or of any plan with the \
         workload fileio, sysbench or fio"
    ))
}
