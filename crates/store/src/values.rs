//! Reads the large tables of a run: the values of samples, and the time series of loads.

use crate::rows::{RowIds, RunDatabase, TableRow};
use crate::{Error, Result, schema};
use fsarena_core::series::{LatencyPercentiles, SeriesPoint, SeriesTable};
use rusqlite::Connection;
use std::ops::{ControlFlow, Range};
use std::sync::Mutex;

/// The largest number of values in memory, missing ones included: 200 million take 1.6 GB.
const MAX_VALUES_IN_MEMORY: usize = 200_000_000;
/// In a table of up to this many values (80 MB), any number of values may be missing.
pub const UNCHECKED_VALUES: usize = 10_000_000;
/// In a larger table, at least one in this many values must exist. Real runs have one in six; a small damaged file may have
/// many samples and readings without any value.
pub const MAX_SPARSITY: usize = 20;
/// The number of samples that one reader reads at a time. A run with more samples is read by two readers.
pub const SAMPLES_PER_PART: usize = 20_000;

/// Reads all values into columns: `[reading][sample]`, NaN if a sample lacks a reading. Reads `part_size`
/// samples at a time.
pub fn read_columns(
    database: &RunDatabase,
    samples: &RowIds,
    readings: &RowIds,
    part_size: usize,
) -> Result<Vec<Vec<f64>>> {
    let (rows, columns) = (samples.0.len(), readings.0.len());
    let value_count = rows.saturating_mul(columns);
    if value_count > MAX_VALUES_IN_MEMORY
        || (value_count > UNCHECKED_VALUES && value_count / MAX_SPARSITY > count_values(database)?)
    {
        let reason = format!("damaged: {rows} samples of {columns} readings are an absurd number");
        return Err(Error::damaged(database.path, reason));
    }
    // Zeroed memory is not touched before its first use, so each thread first uses the memory of its own parts.
    let mut table: Vec<Vec<f64>> = (0..columns).map(|_| vec![0.0; rows]).collect();
    let second_db = if rows > part_size { open_second_connection(database)? } else { None };
    let parts = Mutex::new(split_into_parts(&mut table, rows, part_size).into_iter());
    let next_part = || parts.lock().expect("no thread panics while it holds this lock").next();
    let read_parts = |database: &RunDatabase| -> Result<()> {
        while let Some(part) = next_part() {
            part.read_values(database, samples, readings)?;
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let path = database.path;
        let second_thread = second_db.map(|db| scope.spawn(move || read_parts(&RunDatabase { db: &db, path })));
        read_parts(database)?;
        match second_thread {
            Some(thread) => thread.join().expect("a reader returns errors and does not panic"),
            None => Ok(()),
        }
    })?;
    drop(parts);
    Ok(table)
}

/// The number of rows in the table `value`.
fn count_values(database: &RunDatabase) -> Result<usize> {
    database.read_one("value", "SELECT count(*) FROM value", |row| row.int_as(0))
}

/// Opens a second connection to the same data; None if the run has continued since the first connection began to read. Both
/// connections are in a read transaction ([`schema::open_to_read`]), so neither sees later changes.
fn open_second_connection(database: &RunDatabase) -> Result<Option<Connection>> {
    let second_db = schema::open_to_read(database.path)?;
    // Every written cell changes these sums, because it starts later than all cells before it.
    let cell_sums = |db: &Connection| {
        let sql = "SELECT count(*), total(id), total(started_at) FROM cell";
        let sums =
            db.query_row(sql, [], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, f64>(1)?, row.get::<_, f64>(2)?)));
        sums.map_err(Error::while_reading(database.path))
    };
    let is_unchanged = cell_sums(database.db)? == cell_sums(&second_db)?;
    Ok(is_unchanged.then_some(second_db))
}

/// A range of consecutive samples.
struct SamplePart<'a> {
    /// The indices of the samples.
    indices: Range<usize>,
    /// The values of these samples: `[reading][sample]`.
    columns: Vec<&'a mut [f64]>,
}

/// Splits the table into parts of `part_size` samples. Without samples there is still one part, because a
/// damaged file may have values without samples.
fn split_into_parts(table: &mut [Vec<f64>], rows: usize, part_size: usize) -> Vec<SamplePart<'_>> {
    let starts = (0..rows.max(1)).step_by(part_size);
    let part_from = |start| SamplePart { indices: start..rows.min(start + part_size), columns: vec![] };
    let mut parts: Vec<SamplePart> = starts.map(part_from).collect();
    for column in table {
        for (part, values) in parts.iter_mut().zip(column.chunks_mut(part_size)) {
            part.columns.push(values);
        }
    }
    parts
}

impl SamplePart<'_> {
    /// Reads the values of the part into its columns. The first part also reads values before the first sample, and the last
    /// part values after the last sample: these are damage and return an error.
    fn read_values(mut self, database: &RunDatabase, samples: &RowIds, readings: &RowIds) -> Result<()> {
        for column in &mut self.columns {
            column.fill(f64::NAN);
        }
        let Range { start, end } = self.indices;
        let condition = if start > 0 { format!("WHERE sample >= {}", samples.0[start]) } else { String::new() };
        let next_part_id = samples.0.get(end);
        let sql = format!("SELECT sample, metric, value FROM value {condition} ORDER BY sample, metric");
        let mut previous = (i64::MIN, start);
        let mut column = 0;
        database.visit_in_key_order("value", &sql, |row| {
            let sample = row.int(0)?;
            if sample != previous.0 {
                if next_part_id.is_some_and(|next| sample >= *next) {
                    return Ok(ControlFlow::Break(()));
                }
                // Rows are sorted, so the sample is most often the one after the previous sample.
                previous = (sample, samples.index_near(sample, previous.1 + 1, row)?);
                column = 0;
            }
            column = readings.index_near(row.int(1)?, column, row)?;
            self.columns[column][previous.1 - start] = row.finite(2)?;
            column += 1;
            Ok(ControlFlow::Continue(()))
        })
    }
}

/// The largest number of points of time series in memory: a million take 80 MB.
pub const MAX_POINTS_IN_MEMORY: u64 = 1_000_000;

/// An upper limit for the length of any task, in seconds: thirty years.
const MAX_TASK_S: f64 = 1e9;

/// Reads the points of all time series. If there are more than `max_points`, reads only those of every n-th
/// round, and never more than `max_points`.
pub fn read_series(database: &RunDatabase, samples: &RowIds, max_points: u64) -> Result<SeriesTable> {
    let mut table = SeriesTable::default();
    let stored_count: u64 = database.read_one("series", "SELECT count(*) FROM series", |row| row.int_as(0))?;
    let round_step = if stored_count > max_points {
        find_round_step(database, stored_count.div_ceil(max_points), max_points)?
    } else {
        1
    };
    // Whole rounds, so that all variants keep the same rounds. The LIMIT only has an effect if round 0 alone has too many points.
    let condition = match round_step {
        1 => String::new(),
        step => format!(
            "WHERE sample IN (SELECT sample.id FROM sample JOIN cell ON cell.id = sample.cell
                              WHERE cell.round % {step} = 0)"
        ),
    };
    let sql = format!(
        "SELECT sample, start_s, length_s, warm_up, operations, bytes,
                latency_p50_ns, latency_p99_ns, latency_p999_ns
         FROM series {condition} ORDER BY sample, point LIMIT {max_points}"
    );
    database.for_each_row("series", &sql, |row| {
        table.sample_row.push(samples.index(row.int(0)?, row)? as u32);
        table.points.push(read_point(row)?);
        Ok(())
    })?;
    table.omitted_count = stored_count.saturating_sub(table.points.len() as u64);
    Ok(table)
}

/// Returns a number n, at least `min_step`: the rounds 0, n, 2n, … together have at most `max_points` points. It may not be the
/// smallest such number. If round 0 alone has too many points, there is no such number; then n is above the number of the last
/// round, so that only round 0 remains.
fn find_round_step(database: &RunDatabase, min_step: u64, max_points: u64) -> Result<u64> {
    let mut points_by_round: Vec<(u64, u64)> = vec![];
    let sql = "SELECT cell.round, count(*) FROM series JOIN sample ON sample.id = series.sample
               JOIN cell ON cell.id = sample.cell GROUP BY cell.round";
    database.for_each_row("series", sql, |row| {
        points_by_round.push((row.int_as(0)?, row.int_as(1)?));
        Ok(())
    })?;
    let last_round = points_by_round.iter().map(|(round, _)| *round).max().unwrap_or(0);
    let mut step = min_step;
    let count_points = |step| {
        let rounds = points_by_round.iter().filter(|(round, _)| round % step == 0);
        rounds.map(|(_, points)| points).sum::<u64>()
    };
    while step <= last_round && count_points(step) > max_points {
        // Larger steps for large numbers, so that a damaged file with absurd rounds does not take long.
        step += step.div_ceil(4);
    }
    Ok(step)
}

fn read_point(row: &TableRow) -> Result<SeriesPoint> {
    let (start_s, length_s) = (row.real(1)?, row.real(2)?);
    if ![start_s, length_s].iter().all(|seconds| (0.0..MAX_TASK_S).contains(seconds)) {
        return Err(row.damaged("an impossible time interval"));
    }
    let latency = match (
        row.optional(6, TableRow::int_as)?,
        row.optional(7, TableRow::int_as)?,
        row.optional(8, TableRow::int_as)?,
    ) {
        (Some(p50_ns), Some(p99_ns), Some(p999_ns)) => Some(LatencyPercentiles { p50_ns, p99_ns, p999_ns }),
        _ => None,
    };
    Ok(SeriesPoint {
        start_s,
        length_s,
        warm_up: row.int(3)? != 0,
        operations: row.int_as(4)?,
        bytes: row.int_as(5)?,
        latency,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{cells, create_run, plan, run_cell, sample};
    use crate::{RunDir, Writer, read};
    use fsarena_core::cell::Cell;
    use fsarena_core::event::{CellEvent, Event, Outcome};
    use rusqlite::Connection;

    /// Writes a run of eight samples with two readings, and returns it with the row ids of its samples and readings.
    fn write_run(root: &std::path::Path) -> (crate::RunDir, crate::Writer, [RowIds; 2]) {
        let plan = plan(&["ext4", "xfs"]);
        let (run, mut writer) = create_run(root, &plan);
        for cell in (0..2).flat_map(|round| cells(&plan, round)) {
            run_cell(&mut writer, &cell, Outcome::Done);
        }
        let ids = |count: i64| RowIds((1..=count).collect());
        (run, writer, [ids(8), ids(2)])
    }

    #[test]
    fn two_readers_return_the_same_columns_as_one() {
        let root = tempfile::tempdir().unwrap();
        let (run, _writer, [samples, readings]) = write_run(root.path());
        let path = run.database_file();
        let db = schema::open_to_read(&path).unwrap();
        let database = RunDatabase { db: &db, path: &path };
        let of_one_reader = read_columns(&database, &samples, &readings, 8).unwrap();
        let elapsed = [0.0, 0.0, 1.0, 1.0, 10.0, 10.0, 11.0, 11.0];
        assert!(of_one_reader.contains(&elapsed.to_vec()), "{of_one_reader:?}");
        let of_two_readers = read_columns(&database, &samples, &readings, 3).unwrap();
        // NaN is not equal to itself.
        assert_eq!(format!("{of_one_reader:?}"), format!("{of_two_readers:?}"));
    }

    #[test]
    fn both_readers_report_a_value_without_a_sample() {
        for change in ["sample = sample + 100 WHERE sample = 8", "sample = -7 WHERE sample = 1"] {
            let root = tempfile::tempdir().unwrap();
            let (run, writer, [samples, readings]) = write_run(root.path());
            drop(writer);
            let path = run.database_file();
            let sql = format!("PRAGMA foreign_keys = OFF; UPDATE value SET {change}");
            Connection::open(&path).unwrap().execute_batch(&sql).unwrap();
            let db = schema::open_to_read(&path).unwrap();
            let error = read_columns(&RunDatabase { db: &db, path: &path }, &samples, &readings, 3).unwrap_err();
            assert!(error.to_string().contains("row that does not exist in table value"), "{error}");
        }
    }

    #[test]
    fn a_run_that_has_continued_is_read_by_one_reader() {
        let root = tempfile::tempdir().unwrap();
        let (run, mut writer, _) = write_run(root.path());
        let path = run.database_file();
        let db = schema::open_to_read(&path).unwrap();
        let database = RunDatabase { db: &db, path: &path };
        assert!(open_second_connection(&database).unwrap().is_some());
        // Runs the last cell again, as a resumed run does with a failed cell.
        let last_cell = cells(&plan(&["ext4", "xfs"]), 1).remove(1);
        writer.apply(&Event::CellStarted { cell: last_cell.clone() }).unwrap();
        writer.apply(&Event::CellFinished { cell: last_cell.id(), outcome: Outcome::Done }).unwrap();
        assert!(open_second_connection(&database).unwrap().is_none());
    }

    fn point(number: u64) -> SeriesPoint {
        let latency =
            (number > 0).then_some(LatencyPercentiles { p50_ns: number, p99_ns: 10 * number, p999_ns: 100 * number });
        let (start_s, warm_up) = (number as f64 * 0.5, number == 0);
        SeriesPoint { start_s, length_s: 0.5, warm_up, operations: 7 * number, bytes: 4096 * number, latency }
    }

    /// Writes a cell with one task that has a time series and one without.
    fn run_cell_with_series(writer: &mut Writer, cell: &Cell, points: u64) {
        let cell_event = |event| Event::Cell { cell: cell.id(), event };
        let mut load = sample("load", 1.0);
        load.series = (0..points).map(point).collect();
        for event in [
            Event::CellStarted { cell: cell.clone() },
            cell_event(CellEvent::Sample(sample("mount", 2.0))),
            cell_event(CellEvent::Sample(load)),
            Event::CellFinished { cell: cell.id(), outcome: Outcome::Done },
        ] {
            writer.apply(&event).unwrap();
        }
    }

    fn write_run_with_series(root: &std::path::Path, rounds: u32) -> RunDir {
        let plan = plan(&["ext4", "xfs"]);
        let (run, mut writer) = create_run(root, &plan);
        (0..rounds).flat_map(|round| cells(&plan, round)).for_each(|cell| run_cell_with_series(&mut writer, &cell, 3));
        run
    }

    fn execute(run: &RunDir, sql: &str) {
        let db = Connection::open(run.database_file()).unwrap();
        db.execute_batch(&format!("PRAGMA foreign_keys = OFF; {sql}")).unwrap();
    }

    #[test]
    fn every_point_is_read_back_with_its_sample() {
        let root = tempfile::tempdir().unwrap();
        let series = read(&write_run_with_series(root.path(), 2)).unwrap().series;
        let points: Vec<SeriesPoint> = (0..3).map(point).collect();
        assert_eq!(
            (series.points_of(0), series.points_of(1), series.points_of(7)),
            (&[][..], &points[..], &points[..])
        );
        assert_eq!((series.points.len(), series.omitted_count), (12, 0));
    }

    #[test]
    fn rerunning_a_cell_removes_its_old_points() {
        let root = tempfile::tempdir().unwrap();
        let plan = plan(&["ext4"]);
        let (run, mut writer) = create_run(root.path(), &plan);
        let cell = cells(&plan, 0).remove(0);
        run_cell_with_series(&mut writer, &cell, 3);
        run_cell_with_series(&mut writer, &cell, 2);
        assert_eq!(read(&run).unwrap().series.sample_row, [1, 1]);
    }

    #[test]
    fn too_many_points_are_reduced_by_whole_rounds() {
        let root = tempfile::tempdir().unwrap();
        let run = write_run_with_series(root.path(), 4);
        let db = Connection::open(run.database_file()).unwrap();
        let path = run.database_file();
        let ids = RowIds((1..=16).collect());
        let table = read_series(&RunDatabase { db: &db, path: &path }, &ids, 12).unwrap();
        // 24 points, so every second round: 0 and 2.
        assert_eq!((table.points.len(), table.omitted_count), (12, 12));
        assert_eq!(table.sample_row, [1, 1, 1, 3, 3, 3, 9, 9, 9, 11, 11, 11]);
        // Rounds 0 and 2, or 0 and 3, have more than 10 points: round 0 alone.
        let table = read_series(&RunDatabase { db: &db, path: &path }, &ids, 10).unwrap();
        assert_eq!((table.sample_row, table.omitted_count), (vec![1, 1, 1, 3, 3, 3], 18));
    }

    #[test]
    fn a_damaged_series_is_refused() {
        let root = tempfile::tempdir().unwrap();
        let run = write_run_with_series(root.path(), 1);
        for (sql, expected) in [
            ("UPDATE series SET length_s = -1.0", "an impossible time interval in table series"),
            ("UPDATE series SET start_s = 9e999", "an impossible time interval"),
            ("UPDATE series SET length_s = 1e300", "an impossible time interval"),
            ("UPDATE series SET operations = -1", "out of range in table series"),
            ("UPDATE series SET sample = sample + 100", "row that does not exist in table series"),
        ] {
            let copy = tempfile::tempdir().unwrap();
            let run = write_run_with_series(copy.path(), 1);
            execute(&run, sql);
            let error = read(&run).unwrap_err().to_string();
            assert!(error.contains(expected), "{sql}: {error}");
        }
        let endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i FROM n) SELECT i FROM n";
        execute(&run, &format!("DROP TABLE series; CREATE VIEW series AS {endless}"));
        assert!(read(&run).unwrap_err().to_string().contains("not an fsarena run"));
    }
}
