//! The values of a run, read back: by far the most rows there are.

use crate::rows::{Ids, Source};
use crate::{Error, Result, schema};
use rusqlite::Connection;
use std::ops::{ControlFlow, Range};
use std::sync::Mutex;

/// The most values that are kept in memory at once, absent ones included: 1.6 GB.
const MOST_VALUES: usize = 200_000_000;
/// So many need no second thought: 80 MB.
pub const FEW_VALUES: usize = 10_000_000;
/// Of more, one in this number is there at least. Real runs have one in six; a damaged file may be small and name many
/// samples and readings, and not hold one value.
pub const SPARSE: usize = 20;
/// The samples that are read at a time. Where there are more, two readers take turns.
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
        self.columns.iter_mut().for_each(|column| column.fill(f64::NAN));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{cells, plan, run_cell, writer};
    use fsarena_core::event::{Event, Outcome};

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
}
