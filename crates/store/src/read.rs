//! Reads a whole run from its directory into a `RunRecord`.

use crate::rows::{RowIds, RunDatabase, TableRow};
use crate::{Error, Result, RunDir, command_log, schema, values};
use fsarena_core::cell::{TaskId, TaskInfo, Variant};
use fsarena_core::record::{
    CellRecord, CommandLogLine, MAX_READINGS, MetricSpec, PooledLatencies, RunRecord, RunStatus, SampleTable,
};
use fsarena_core::{event::Note, host::Host, latency::LatencyHistogram, sample::FoldRules};
use std::collections::{BTreeSet, HashMap};
use std::{cmp::Ordering, ops::ControlFlow};

/// Reads a whole run, also while another process writes it: all queries are in one transaction, so they see the run at the
/// same moment.
///
/// # Errors
/// A file is missing, damaged, not a run, or of another version; the message names the file.
pub fn read(run: &RunDir) -> Result<RunRecord> {
    let plan = run.plan()?;
    let path = run.database_file();
    let db = schema::open_to_read(&path)?;
    let database = RunDatabase { db: &db, path: &path };

    let (hosts, host_ids) =
        database.read_table("host", "SELECT id, hostname, boot_id, kernel, facts FROM host ORDER BY id", |row| {
            let (hostname, boot_id) = (row.text(1)?, row.text(2)?);
            Ok(Host { hostname, boot_id, kernel: row.text(3)?, facts: row.json(4)? })
        })?;
    let (variants, variant_ids) =
        database.read_table("variant", "SELECT id, name, levels FROM variant ORDER BY id", |row| {
            Ok(Variant { name: row.text(1)?, levels: row.json(2)? })
        })?;
    let (tasks, task_ids, task_positions) = read_tasks(&database)?;
    let (readings, reading_ids) = read_reading_definitions(&database, "main")?;
    let (cells, cell_ids) = read_cells(&database, &variant_ids, &host_ids)?;
    let (mut samples, sample_ids) = read_samples(&database, &cell_ids, (&task_ids, &task_positions))?;
    check_size(&database, [tasks.len(), variants.len(), samples.len()], &cells)?;
    samples.values = values::read_columns(&database, &sample_ids, &reading_ids, values::SAMPLES_PER_PART)?;
    let sql = "SELECT id, version, started, ended, complete, why, commands FROM run";
    let ([id, version, started, ended], status, command_count) = database.read_one("run", sql, |row| {
        let status = run_status(row.int(4)? != 0, row.text(5)?, run.is_being_written());
        Ok(([row.text(0)?, row.text(1)?, row.text(2)?, row.text(3)?], status, row.int_as(6)?))
    })?;
    Ok(RunRecord {
        id,
        version,
        started,
        ended,
        status,
        series: values::read_series(&database, &sample_ids, values::MAX_POINTS_IN_MEMORY)?,
        notes: read_notes(&database)?,
        latencies: read_pooled_latencies(&database, plan.stop.warmup, (&task_ids, &task_positions), &variant_ids)?,
        plan,
        hosts,
        variants,
        tasks,
        readings,
        cells,
        samples,
        command_count,
    })
}

/// Returns an error for a damaged run that would make the analysis too large (it allocates an entry for each
/// task of each variant in each round), or whose times overflow when added up.
fn check_size(database: &RunDatabase, [tasks, variants, samples]: [usize; 3], cells: &[CellRecord]) -> Result<()> {
    let rounds = cells.iter().map(|cell| cell.round).collect::<BTreeSet<u32>>().len();
    let entries = tasks.saturating_mul(variants).saturating_mul(rounds);
    if entries > values::UNCHECKED_VALUES && entries / values::MAX_SPARSITY > samples {
        let reason = format!(
            "damaged: {tasks} tasks of {variants} variants in {rounds} rounds are an absurd number for {samples} samples"
        );
        return Err(Error::damaged(database.path, reason));
    }
    let mut spent = cells.iter().flat_map(|cell| &cell.spent).map(|(_, ns)| *ns);
    match spent.try_fold(0, u64::checked_add) {
        Some(_) => Ok(()),
        None => Err(Error::damaged(database.path, "damaged: an impossible sum of times in table cell")),
    }
}

/// The status of a run. `complete` and `why` are what the run stored at its end; `why` is empty if it did not reach its end.
pub(crate) fn run_status(complete: bool, why: String, is_being_written: bool) -> RunStatus {
    let why = match why.as_str() {
        "" if is_being_written => "running".into(),
        "" => "interrupted".into(),
        _ => why,
    };
    RunStatus { complete, why }
}

/// The tasks in the order of reports, the ids of the rows of the table `task`, and for each of these rows the position of its
/// task in the first list.
fn read_tasks(database: &RunDatabase) -> Result<(Vec<TaskInfo>, RowIds, Vec<u32>)> {
    let sql = "SELECT id, name, params, title, number, in_totals FROM task ORDER BY id";
    let (tasks_by_row, ids) = database.read_table("task", sql, |row| {
        Ok(TaskInfo {
            id: TaskId { name: row.text(1)?, params: row.json(2)? },
            title: row.text(3)?,
            number: row.optional(4, TableRow::text)?,
            in_totals: row.int(5)? != 0,
        })
    })?;
    let mut positions = vec![0; tasks_by_row.len()];
    let ordered = group_by_name(tasks_by_row.into_iter().enumerate().collect(), |(_, task)| &task.id);
    let mut tasks = vec![];
    for (position, (row, task)) in ordered.into_iter().enumerate() {
        positions[row] = position as u32;
        tasks.push(task);
    }
    Ok((tasks, ids, positions))
}

/// The definition of the reading with this name; None if the run has no such reading.
///
/// # Errors
/// The errors of [`read`].
pub fn find_reading_definition(run: &RunDir, name: &str) -> Result<Option<MetricSpec>> {
    let path = run.database_file();
    let db = schema::open_to_read(&path)?;
    let (readings, _) = read_reading_definitions(&RunDatabase { db: &db, path: &path }, "main")?;
    Ok(readings.into_iter().find(|reading| reading.id == name))
}

/// The definitions of the readings in a database that is attached under the name `schema`, and their row ids.
///
/// # Errors
/// The errors of [`read`].
pub(crate) fn read_reading_definitions(database: &RunDatabase, schema: &str) -> Result<(Vec<MetricSpec>, RowIds)> {
    let sql = format!(
        "SELECT id, name, unit, direction, scope, over_tasks, over_ranks, over_hosts, numerator, denominator, help
         FROM {schema}.metric ORDER BY id"
    );
    let (readings, ids) = database.read_table("metric", &sql, |row| {
        let quotient_of = match [row.optional(8, TableRow::text)?, row.optional(9, TableRow::text)?] {
            [Some(numerator), Some(denominator)] => Some([numerator, denominator]),
            [None, None] => None,
            _ => return Err(row.damaged("a quotient without one of its parts")),
        };
        Ok(MetricSpec {
            id: row.text(1)?,
            unit: row.serde_name(2)?,
            direction: row.serde_name(3)?,
            scope: row.serde_name(4)?,
            over: FoldRules { tasks: row.serde_name(5)?, ranks: row.serde_name(6)?, hosts: row.serde_name(7)? },
            quotient_of,
            help: row.text(10)?,
        })
    })?;
    if readings.len() > MAX_READINGS {
        return Err(Error::damaged(database.path, "damaged: an absurd number of readings in table metric"));
    }
    Ok((readings, ids))
}

/// The cells, and their row ids.
fn read_cells(database: &RunDatabase, variants: &RowIds, hosts: &RowIds) -> Result<(Vec<CellRecord>, RowIds)> {
    let sql = "SELECT id, hash, round, position, variant, workload, outcome, host, started_at, spent
               FROM cell ORDER BY id";
    database.read_table("cell", sql, |row| {
        Ok(CellRecord {
            id: row.text(1)?,
            round: row.round(2)?,
            position: row.int_as(3)?,
            variant: variants.index(row.int(4)?, row)?,
            workload: row.text(5)?,
            outcome: row.json(6)?,
            host: hosts.index(row.int(7)?, row)?,
            started_at: row.time(8)?,
            spent: row.json(9)?,
        })
    })
}

/// The samples without their values, and their row ids. `positions` has the position of each task.
fn read_samples(
    database: &RunDatabase,
    cells: &RowIds,
    (tasks, positions): (&RowIds, &[u32]),
) -> Result<(SampleTable, RowIds)> {
    let (mut table, mut ids) = (SampleTable::default(), RowIds::default());
    let mut cell = 0;
    database.visit_in_key_order("sample", "SELECT id, cell, task, started_at FROM sample ORDER BY id", |row| {
        ids.0.push(row.int(0)?);
        // The samples of a cell are in consecutive rows.
        cell = cells.index_near(row.int(1)?, cell, row)?;
        table.cell.push(cell as u32);
        table.task.push(positions[tasks.index(row.int(2)?, row)?]);
        table.started_at.push(row.time(3)?);
        Ok(ControlFlow::Continue(()))
    })?;
    Ok((table, ids))
}

/// The notes, each with its round.
fn read_notes(database: &RunDatabase) -> Result<Vec<(Option<u32>, Note)>> {
    let sql = "SELECT id, round, kind, variant, task, text, fix FROM note ORDER BY id";
    let (notes, _) = database.read_table("note", sql, |row| {
        let note = Note {
            kind: row.serde_name(2)?,
            variant: row.optional(3, TableRow::text)?,
            task: row.optional(4, TableRow::text)?,
            text: row.text(5)?,
            fix: row.optional(6, TableRow::text)?,
        };
        Ok((row.optional(1, TableRow::round)?, note))
    })?;
    Ok(notes)
}

/// Calls `visit` with every command of a run's log, in order. Skips lines that are not commands, such as a
/// line that a crash cut off. Does nothing if the run has no log.
///
/// # Errors
/// The log cannot be read.
pub fn for_each_command(run: &RunDir, visit: &mut dyn FnMut(&CommandLogLine)) -> Result<()> {
    command_log::read_commands(&run.command_log_file(), visit)
}

/// Merges the latencies of each task and variant over all rounds but warm-up rounds and dropped rounds. The first `warmup`
/// rounds are warm-up; rounds count from 0.
fn read_pooled_latencies(
    database: &RunDatabase,
    warmup: u32,
    (tasks, positions): (&RowIds, &[u32]),
    variants: &RowIds,
) -> Result<PooledLatencies> {
    let mut pooled = PooledLatencies::new();
    let sql = format!(
        "SELECT sample.task, cell.variant, counts FROM latencies
         JOIN sample ON sample.id = latencies.sample JOIN cell ON cell.id = sample.cell
         WHERE cell.round >= {warmup}
         AND cell.round NOT IN (SELECT round FROM note WHERE kind = 'dropped' AND round IS NOT NULL)"
    );
    database.for_each_row("latencies", &sql, |row| {
        let task = positions[tasks.index(row.int(0)?, row)?] as usize;
        let variant = variants.index(row.int(1)?, row)?;
        let latencies: LatencyHistogram = row.json(2)?;
        pooled.entry((task, variant)).or_default().merge(&latencies);
        Ok(())
    })?;
    Ok(pooled)
}

/// Sorts tasks so that tasks of the same name follow each other, ordered by their parameters: `clients=5` before `clients=10`.
/// Each name stays at the position of its first task. In the database tasks are in the random order of the first cell.
fn group_by_name<T>(mut tasks: Vec<T>, id: impl Fn(&T) -> &TaskId) -> Vec<T> {
    let mut positions: HashMap<String, usize> = HashMap::new();
    for (position, task) in tasks.iter().enumerate() {
        positions.entry(id(task).name.clone()).or_insert(position);
    }
    tasks.sort_by(|a, b| {
        let (a, b) = (id(a), id(b));
        positions[&a.name].cmp(&positions[&b.name]).then_with(|| compare_parameters(a, b))
    });
    tasks
}

/// Compares tasks parameter by parameter; numbers by their value.
fn compare_parameters(a: &TaskId, b: &TaskId) -> Ordering {
    let pairs = a.params.iter().zip(&b.params);
    let orders = pairs.map(|((a_key, a), (b_key, b))| a_key.cmp(b_key).then_with(|| compare_values(a, b)));
    orders.fold(Ordering::Equal, Ordering::then).then(a.params.len().cmp(&b.params.len()))
}

fn compare_values(a: &str, b: &str) -> Ordering {
    match (a.parse::<f64>(), b.parse::<f64>()) {
        (Ok(a), Ok(b)) => a.total_cmp(&b),
        // Numbers before words, so that the order is transitive.
        (Ok(_), Err(_)) => Ordering::Less,
        (Err(_), Ok(_)) => Ordering::Greater,
        (Err(_), Err(_)) => a.cmp(b),
    }
}

#[cfg(test)]
mod tests;
