//! Reads the time series of loads.

use crate::Result;
use crate::rows::{Cursor, Ids, Source};
use fsarena_core::series::{Latency, Point, SeriesTable};

/// The most points to hold in memory at once: 80 MB.
pub const MOST_POINTS: u64 = 1_000_000;

/// An upper limit for the length of any task, in seconds: thirty years.
const LONGEST_S: f64 = 1e9;

/// Reads every point, or, where there are more than `most`, those of every n-th round.
pub fn up_to(source: &Source, samples: &Ids, most: u64) -> Result<SeriesTable> {
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
        table.points.push(point(row)?);
        Ok(())
    })?;
    table.left_out = there_are.saturating_sub(table.points.len() as u64);
    Ok(table)
}

fn point(row: &Cursor) -> Result<Point> {
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
    use crate::testing::{cells, plan, sample, writer};
    use crate::{RunDir, Writer, read};
    use fsarena_core::cell::Cell;
    use fsarena_core::event::{CellEvent, Event, Outcome};
    use rusqlite::Connection;

    fn point(at: u64) -> Point {
        let latency = (at > 0).then_some(Latency { p50_ns: at, p99_ns: 10 * at, p999_ns: 100 * at });
        let (start_s, warm_up) = (at as f64 * 0.5, at == 0);
        Point { start_s, length_s: 0.5, warm_up, operations: 7 * at, bytes: 4096 * at, latency }
    }

    /// A cell with one task that has a series and one that has none.
    fn run_cell(writer: &mut Writer, cell: &Cell, points: u64) {
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

    fn stored(root: &std::path::Path, rounds: u32) -> RunDir {
        let plan = plan(&["ext4", "xfs"]);
        let (run, mut writer) = writer(root, &plan);
        (0..rounds).flat_map(|round| cells(&plan, round)).for_each(|cell| run_cell(&mut writer, &cell, 3));
        run
    }

    fn change(run: &RunDir, sql: &str) {
        let db = Connection::open(run.database()).unwrap();
        db.execute_batch(&format!("PRAGMA foreign_keys = OFF; {sql}")).unwrap();
    }

    #[test]
    fn every_point_comes_back_with_its_sample() {
        let root = tempfile::tempdir().unwrap();
        let series = read(&stored(root.path(), 2)).unwrap().series;
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
        run_cell(&mut writer, &cell, 3);
        run_cell(&mut writer, &cell, 2);
        assert_eq!(read(&run).unwrap().series.row, [1, 1]);
    }

    #[test]
    fn of_too_many_whole_rounds_are_kept() {
        let root = tempfile::tempdir().unwrap();
        let run = stored(root.path(), 4);
        let db = Connection::open(run.database()).unwrap();
        let path = run.database();
        let ids = Ids((1..=16).collect());
        let table = up_to(&Source { db: &db, path: &path }, &ids, 12).unwrap();
        // 24 points, so every second round: 0 and 2.
        assert_eq!((table.points.len(), table.left_out), (12, 12));
        assert_eq!(table.row, [1, 1, 1, 3, 3, 3, 9, 9, 9, 11, 11, 11]);
    }

    #[test]
    fn what_is_no_series_is_refused() {
        let root = tempfile::tempdir().unwrap();
        let run = stored(root.path(), 1);
        for (sql, words) in [
            ("UPDATE series SET length_s = -1.0", "stretch of time that is none in table series"),
            ("UPDATE series SET start_s = 9e999", "stretch of time that is none"),
            ("UPDATE series SET length_s = 1e300", "stretch of time that is none"),
            ("UPDATE series SET operations = -1", "out of range in table series"),
            ("UPDATE series SET sample = sample + 100", "row that is not there in table series"),
        ] {
            let copy = tempfile::tempdir().unwrap();
            let run = stored(copy.path(), 1);
            change(&run, sql);
            let error = read(&run).unwrap_err().to_string();
            assert!(error.contains(words), "{sql}: {error}");
        }
        let endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i FROM n) SELECT i FROM n";
        change(&run, &format!("DROP TABLE series; CREATE VIEW series AS {endless}"));
        assert!(read(&run).unwrap_err().to_string().contains("not an fsarena run"));
    }
}
