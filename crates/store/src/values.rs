//! Reads the large tables of a run: the values of samples, and the time series of loads.

use crate::rows::{Cursor, Ids, Source};
use crate::{Error, Result, schema};
use fsarena_core::series::{Latency, Point, SeriesTable};
use rusqlite::Connection;
use std::ops::{ControlFlow, Range};
use std::sync::Mutex;

/// The largest number of values in memory, absent ones included: 1.6 GB.
const MOST_VALUES: usize = 200_000_000;
/// The number of values up to which a table is read without a check of its density: 80 MB.
pub const FEW_VALUES: usize = 10_000_000;
/// In a larger table at least one value in this number must exist. Real runs have one in six; a small damaged file may name
/// many samples and readings without any value.
pub const SPARSE: usize = 20;
/// The number of samples that are read at a time. If there are more, two readers share the work.
pub const PART: usize = 20_000;

/// Spreads the tall rows over columns: `[reading][sample]`, NaN where there is none. Reads `size` samples at a time.
pub fn in_parts(source: &Source, samples: &Ids, readings: &Ids, size: usize) -> Result<Vec<Vec<f64>>> {
    let (rows, columns) = (samples.0.len(), readings.0.len());
    let all = rows.saturating_mul(columns);
    if all > MOST_VALUES || (all > FEW_VALUES && all / SPARSE > count(source)?) {
        let what = format!("damaged: {rows} samples of {columns} readings are an absurd number");
        return Err(Error::damaged(source.path, what));
    }
    let mut table: Vec<Vec<f64>> = (0..columns).map(|_| vec![0.0; rows]).collect();
    let second = if rows > size { beside(source)? } else { None };
    let parts = Mutex::new(parts(&mut table, rows, size).into_iter());
    let next = || parts.lock().expect("to take a part cannot fail").next();
    let read = |source: &Source| -> Result<()> {
        while let Some(part) = next() {
            part.fill(source, samples, readings)?;
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let path = source.path;
        let other = second.map(|db| scope.spawn(move || read(&Source { db: &db, path })));
        read(source)?;
        other.map_or(Ok(()), |other| other.join().expect("a reader reports what is wrong"))
    })?;
    drop(parts);
    Ok(table)
}

/// The number of values that are there.
fn count(source: &Source) -> Result<usize> {
    source.one("value", "SELECT count(*) FROM value", |row| row.number(0))
}

/// A second reader that sees the same data; none if the run has continued since the first began to read.
fn beside(source: &Source) -> Result<Option<Connection>> {
    let other = schema::open_to_read(source.path)?;
    // A cell that is written, or written again, begins later than all before it.
    let moment = |db: &Connection| {
        let sql = "SELECT count(*), total(id), total(started_at) FROM cell";
        let told = db.query_row(sql, [], |row| {
            Ok((row.get::<_, i64>(0)?, row.get::<_, f64>(1)?, row.get::<_, f64>(2)?))
        });
        told.map_err(Error::read(source.path))
    };
    let same = moment(source.db)? == moment(&other)?;
    Ok(same.then_some(other))
}

/// A range of consecutive samples.
struct Part<'a> {
    places: Range<usize>,
    /// `[reading][sample]` of these.
    columns: Vec<&'a mut [f64]>,
}

/// Splits the table into parts of `size` samples. Without samples there is still one part, because a damaged file may
/// hold values all the same.
fn parts(table: &mut [Vec<f64>], rows: usize, size: usize) -> Vec<Part<'_>> {
    let starts = (0..rows.max(1)).step_by(size);
    let part = |start| Part { places: start..rows.min(start + size), columns: vec![] };
    let mut parts: Vec<Part> = starts.map(part).collect();
    for column in table {
        for (part, values) in parts.iter_mut().zip(column.chunks_mut(size)) {
            part.columns.push(values);
        }
    }
    parts
}

impl Part<'_> {
    /// Fills in the columns. The first part also reads any values before the first sample, the last part any after the
    /// last sample.
    fn fill(mut self, source: &Source, samples: &Ids, readings: &Ids) -> Result<()> {
        for column in &mut self.columns {
            column.fill(f64::NAN);
        }
        let Range { start, end } = self.places;
        let from = if start > 0 { format!("WHERE sample >= {}", samples.0[start]) } else { String::new() };
        let beyond = samples.0.get(end);
        let sql = format!("SELECT sample, metric, value FROM value {from} ORDER BY sample, metric");
        let mut last = (i64::MIN, start);
        let mut column = 0;
        source.in_order("value", &sql, |row| {
            let sample = row.int(0)?;
            if sample != last.0 {
                if beyond.is_some_and(|beyond| sample >= *beyond) {
                    return Ok(ControlFlow::Break(()));
                }
                // Rows are sorted, so the next is most often the one after the last.
                last = (sample, samples.near(sample, last.1 + 1, row)?);
                column = 0;
            }
            column = readings.near(row.int(1)?, column, row)?;
            self.columns[column][last.1 - start] = row.finite(2)?;
            column += 1;
            Ok(ControlFlow::Continue(()))
        })
    }
}

/// The largest number of points of time series in memory: 80 MB.
pub const MOST_POINTS: u64 = 1_000_000;

/// An upper limit for the length of any task, in seconds: thirty years.
const LONGEST_S: f64 = 1e9;

/// Reads every point, or, where there are more than `most`, those of every n-th round.
pub fn series_up_to(source: &Source, samples: &Ids, most: u64) -> Result<SeriesTable> {
    let mut table = SeriesTable::default();
    let there_are: u64 = source.one("series", "SELECT count(*) FROM series", |row| row.number(0))?;
    let every = there_are.div_ceil(most).max(1);
    // Whole rounds, so that no variant is left out where another is not.
    let kept = match every {
        1 => String::new(),
        every => format!(
            "WHERE sample IN (SELECT sample.id FROM sample JOIN cell ON cell.id = sample.cell
                              WHERE cell.round % {every} = 0)"
        ),
    };
    let sql = format!(
        "SELECT sample, start_s, length_s, warm_up, operations, bytes,
                latency_p50_ns, latency_p99_ns, latency_p999_ns
         FROM series {kept} ORDER BY sample, point LIMIT {most}"
    );
    source.each("series", &sql, |row| {
        table.row.push(samples.index(row.int(0)?, row)? as u32);
        table.points.push(read_point(row)?);
        Ok(())
    })?;
    table.left_out = there_are.saturating_sub(table.points.len() as u64);
    Ok(table)
}

fn read_point(row: &Cursor) -> Result<Point> {
    let (start_s, length_s) = (row.real(1)?, row.real(2)?);
    if ![start_s, length_s].iter().all(|seconds| (0.0..LONGEST_S).contains(seconds)) {
        return Err(row.damaged("a stretch of time that is none"));
    }
    let latency = match (
        row.optional(6, Cursor::number)?,
        row.optional(7, Cursor::number)?,
        row.optional(8, Cursor::number)?,
    ) {
        (Some(p50_ns), Some(p99_ns), Some(p999_ns)) => Some(Latency { p50_ns, p99_ns, p999_ns }),
        _ => None,
    };
    Ok(Point {
        start_s,
        length_s,
        warm_up: row.int(3)? != 0,
        operations: row.number(4)?,
        bytes: row.number(5)?,
        latency,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{cells, plan, run_cell, sample, writer};
    use crate::{RunDir, Writer, read};
    use fsarena_core::cell::Cell;
    use fsarena_core::event::{CellEvent, Event, Outcome};
    use rusqlite::Connection;

    /// A run of eight samples with two readings, as its database says it.
    fn stored(root: &std::path::Path) -> (crate::RunDir, crate::Writer, [Ids; 2]) {
        let plan = plan(&["ext4", "xfs"]);
        let (run, mut writer) = writer(root, &plan);
        for cell in (0..2).flat_map(|round| cells(&plan, round)) {
            run_cell(&mut writer, &cell, Outcome::Done);
        }
        let ids = |count: i64| Ids((1..=count).collect());
        (run, writer, [ids(8), ids(2)])
    }

    #[test]
    fn two_readers_find_what_one_does() {
        let root = tempfile::tempdir().unwrap();
        let (run, _writer, [samples, readings]) = stored(root.path());
        let path = run.database();
        let db = schema::open_to_read(&path).unwrap();
        let source = Source { db: &db, path: &path };
        let alone = in_parts(&source, &samples, &readings, 8).unwrap();
        let elapsed = [0.0, 0.0, 1.0, 1.0, 10.0, 10.0, 11.0, 11.0];
        assert!(alone.contains(&elapsed.to_vec()), "{alone:?}");
        let two = in_parts(&source, &samples, &readings, 3).unwrap();
        // NaN is not equal to itself.
        assert_eq!(format!("{alone:?}"), format!("{two:?}"));
    }

    #[test]
    fn a_value_of_no_sample_is_told_by_either_reader() {
        for change in ["sample = sample + 100 WHERE sample = 8", "sample = -7 WHERE sample = 1"] {
            let root = tempfile::tempdir().unwrap();
            let (run, writer, [samples, readings]) = stored(root.path());
            drop(writer);
            let path = run.database();
            let sql = format!("PRAGMA foreign_keys = OFF; UPDATE value SET {change}");
            Connection::open(&path).unwrap().execute_batch(&sql).unwrap();
            let db = schema::open_to_read(&path).unwrap();
            let told = in_parts(&Source { db: &db, path: &path }, &samples, &readings, 3).unwrap_err();
            assert!(told.to_string().contains("row that is not there in table value"), "{told}");
        }
    }

    #[test]
    fn a_run_that_goes_on_has_no_second_reader() {
        let root = tempfile::tempdir().unwrap();
        let (run, mut writer, _) = stored(root.path());
        let path = run.database();
        let db = schema::open_to_read(&path).unwrap();
        let source = Source { db: &db, path: &path };
        assert!(beside(&source).unwrap().is_some());
        // The last cell once more, as a run that is resumed does with one that failed.
        let again = cells(&plan(&["ext4", "xfs"]), 1).remove(1);
        writer.apply(&Event::CellStarted { cell: again.clone() }).unwrap();
        writer.apply(&Event::CellFinished { cell: again.id(), outcome: Outcome::Done }).unwrap();
        assert!(beside(&source).unwrap().is_none());
    }

    fn point(at: u64) -> Point {
        let latency = (at > 0).then_some(Latency { p50_ns: at, p99_ns: 10 * at, p999_ns: 100 * at });
        let (start_s, warm_up) = (at as f64 * 0.5, at == 0);
        Point { start_s, length_s: 0.5, warm_up, operations: 7 * at, bytes: 4096 * at, latency }
    }

    /// A cell with one task that has a series and one that has none.
    fn run_cell_with_series(writer: &mut Writer, cell: &Cell, points: u64) {
        let inside = |what| Event::Cell { cell: cell.id(), what };
        let mut load = sample("load", 1.0);
        load.series = (0..points).map(point).collect();
        for event in [
            Event::CellStarted { cell: cell.clone() },
            inside(CellEvent::Sample(sample("mount", 2.0))),
            inside(CellEvent::Sample(load)),
            Event::CellFinished { cell: cell.id(), outcome: Outcome::Done },
        ] {
            writer.apply(&event).unwrap();
        }
    }

    fn stored_series(root: &std::path::Path, rounds: u32) -> RunDir {
        let plan = plan(&["ext4", "xfs"]);
        let (run, mut writer) = writer(root, &plan);
        (0..rounds)
            .flat_map(|round| cells(&plan, round))
            .for_each(|cell| run_cell_with_series(&mut writer, &cell, 3));
        run
    }

    fn change(run: &RunDir, sql: &str) {
        let db = Connection::open(run.database()).unwrap();
        db.execute_batch(&format!("PRAGMA foreign_keys = OFF; {sql}")).unwrap();
    }

    #[test]
    fn every_point_comes_back_with_its_sample() {
        let root = tempfile::tempdir().unwrap();
        let series = read(&stored_series(root.path(), 2)).unwrap().series;
        let points: Vec<Point> = (0..3).map(point).collect();
        assert_eq!((series.of(0), series.of(1), series.of(7)), (&[][..], &points[..], &points[..]));
        assert_eq!((series.points.len(), series.left_out), (12, 0));
    }

    #[test]
    fn a_cell_that_is_run_again_takes_its_old_points_along() {
        let root = tempfile::tempdir().unwrap();
        let plan = plan(&["ext4"]);
        let (run, mut writer) = writer(root.path(), &plan);
        let cell = cells(&plan, 0).remove(0);
        run_cell_with_series(&mut writer, &cell, 3);
        run_cell_with_series(&mut writer, &cell, 2);
        assert_eq!(read(&run).unwrap().series.row, [1, 1]);
    }

    #[test]
    fn of_too_many_whole_rounds_are_kept() {
        let root = tempfile::tempdir().unwrap();
        let run = stored_series(root.path(), 4);
        let db = Connection::open(run.database()).unwrap();
        let path = run.database();
        let ids = Ids((1..=16).collect());
        let table = series_up_to(&Source { db: &db, path: &path }, &ids, 12).unwrap();
        // 24 points, so every second round: 0 and 2.
        assert_eq!((table.points.len(), table.left_out), (12, 12));
        assert_eq!(table.row, [1, 1, 1, 3, 3, 3, 9, 9, 9, 11, 11, 11]);
    }

    #[test]
    fn what_is_no_series_is_refused() {
        let root = tempfile::tempdir().unwrap();
        let run = stored_series(root.path(), 1);
        for (sql, words) in [
            ("UPDATE series SET length_s = -1.0", "stretch of time that is none in table series"),
            ("UPDATE series SET start_s = 9e999", "stretch of time that is none"),
            ("UPDATE series SET length_s = 1e300", "stretch of time that is none"),
            ("UPDATE series SET operations = -1", "out of range in table series"),
            ("UPDATE series SET sample = sample + 100", "row that is not there in table series"),
        ] {
            let copy = tempfile::tempdir().unwrap();
            let run = stored_series(copy.path(), 1);
            change(&run, sql);
            let error = read(&run).unwrap_err().to_string();
            assert!(error.contains(words), "{sql}: {error}");
        }
        let endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i FROM n) SELECT i FROM n";
        change(&run, &format!("DROP TABLE series; CREATE VIEW series AS {endless}"));
        assert!(read(&run).unwrap_err().to_string().contains("not an fsarena run"));
    }
}
