//! The values of a run, read back: by far the most rows there are.

use crate::rows::{Ids, Source};
use crate::scan::Table;
use crate::{Error, Result, schema};
use rusqlite::Connection;

const VALUES: Table =
    Table { name: "value", key: "sample, metric", whole: &["sample", "metric"], real: "value" };

/// The most values that are kept in memory at once, absent ones included: 1.6 GB.
const MOST_VALUES: usize = 200_000_000;
/// From so many samples on two read, a half each.
const MANY: usize = 10_000;

/// Spreads the tall rows over columns: `[reading][sample]`, NaN where there is none.
pub(crate) fn values(source: &Source, samples: &Ids, readings: &Ids) -> Result<Vec<Vec<f64>>> {
    up_from(source, samples, readings, MANY)
}

fn up_from(source: &Source, samples: &Ids, readings: &Ids, many: usize) -> Result<Vec<Vec<f64>>> {
    let (rows, columns) = (samples.len(), readings.len());
    if rows.saturating_mul(columns) > MOST_VALUES {
        let what = format!("damaged: {rows} samples of {columns} readings are an absurd number");
        return Err(Error::damaged(source.path, what));
    }
    let mut table = vec![vec![f64::NAN; rows]; columns];
    let second = if rows >= many { beside(source)? } else { None };
    let middle = if second.is_some() { rows / 2 } else { rows };
    let halves = table.iter_mut().map(|column| column.split_at_mut(middle));
    let (mut first, mut rest): (Vec<&mut [f64]>, Vec<&mut [f64]>) = halves.unzip();
    let Some(second) = second else {
        Part { samples, readings, from: 0, which: String::new() }.fill(source, &mut first)?;
        return Ok(table);
    };
    let split = samples.id(middle);
    let part = |from, sign| Part { samples, readings, from, which: format!("WHERE sample {sign} {split}") };
    let (low, high) = (part(0, "<"), part(middle, ">="));
    let path = source.path;
    std::thread::scope(|scope| {
        let other = scope.spawn(move || high.fill(&Source { db: &second, path }, &mut rest));
        low.fill(source, &mut first)?;
        other.join().expect("a reader reports what is wrong")
    })?;
    Ok(table)
}

/// A second reader of the same moment; none where the run went on since the first began to read.
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

/// The samples that one reader reads.
struct Part<'a> {
    samples: &'a Ids,
    readings: &'a Ids,
    /// The place of the first.
    from: usize,
    /// The condition that they meet.
    which: String,
}

impl Part<'_> {
    /// Fills in the columns, which begin with the first sample of the part.
    fn fill(&self, source: &Source, columns: &mut [&mut [f64]]) -> Result<()> {
        let lost = || VALUES.lost(source);
        let mut last = (i64::MIN, self.from);
        let mut column = 0;
        VALUES.each(source, &self.which, |row| {
            let sample = row.int(0);
            if sample != last.0 {
                // Rows are sorted, so the next is most often the one after the last.
                last = (sample, self.samples.near(sample, last.1 + 1).ok_or_else(lost)?);
                column = 0;
            }
            column = self.readings.near(row.int(1), column).ok_or_else(lost)?;
            columns[column][last.1 - self.from] = row.real(2);
            column += 1;
            Ok(())
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
        for cell in (0..2).flat_map(|block| cells(&plan, block)) {
            run_cell(&mut writer, &cell, Outcome::Done);
        }
        let ids = |count: i64| {
            let mut ids = Ids::default();
            (1..=count).for_each(|id| ids.push(id));
            ids
        };
        (run, writer, [ids(8), ids(2)])
    }

    #[test]
    fn two_readers_find_what_one_does() {
        let root = tempfile::tempdir().unwrap();
        let (run, _writer, [samples, readings]) = stored(root.path());
        let path = run.database();
        let db = schema::open_to_read(&path).unwrap();
        let source = Source { db: &db, path: &path };
        let alone = up_from(&source, &samples, &readings, 9).unwrap();
        let elapsed = [0.0, 0.0, 1.0, 1.0, 10.0, 10.0, 11.0, 11.0];
        assert!(alone.contains(&elapsed.to_vec()), "{alone:?}");
        let two = up_from(&source, &samples, &readings, 1).unwrap();
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
            let told = up_from(&Source { db: &db, path: &path }, &samples, &readings, 1).unwrap_err();
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
