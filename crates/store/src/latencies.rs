//! Reads the latencies of loads, those of all rounds together.

use crate::Result;
use crate::rows::{Ids, Source};
use fsarena_core::{latency::Latencies, record::PooledLatencies};

/// Adds up the latencies of each task and variant, without warm-up rounds and those that the run dropped.
pub fn pooled(
    source: &Source,
    warmup: u32,
    tasks: (&Ids, &[u32]),
    variants: &Ids,
) -> Result<PooledLatencies> {
    let ((tasks, places), mut pooled) = (tasks, PooledLatencies::new());
    let sql = format!(
        "SELECT sample.task, cell.variant, counts FROM latencies
         JOIN sample ON sample.id = latencies.sample JOIN cell ON cell.id = sample.cell
         WHERE cell.round >= {warmup}
         AND cell.round NOT IN (SELECT round FROM note WHERE kind = 'dropped' AND round IS NOT NULL)"
    );
    source.each("latencies", &sql, |row| {
        let task = places[tasks.index(row.int(0)?, row)?] as usize;
        let variant = variants.index(row.int(1)?, row)?;
        let counted: Latencies = row.json(2)?;
        pooled.entry((task, variant)).or_default().add(&counted);
        Ok(())
    })?;
    Ok(pooled)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{cells, plan, sample, writer};
    use crate::{RunDir, read};
    use fsarena_core::event::{CellEvent, Event, Outcome};
    use rusqlite::Connection;

    /// Rounds of one variant; in round n, n + 1 operations took 100 ns and one took 200.
    fn stored(root: &std::path::Path, rounds: u32) -> RunDir {
        let plan = plan(&["ext4"]);
        let (run, mut writer) = writer(root, &plan);
        for cell in (0..rounds).flat_map(|round| cells(&plan, round)) {
            let mut load = sample("load", 1.0);
            load.latencies = Latencies::new([(100, u64::from(cell.round) + 1), (200, 1)]);
            for event in [
                Event::CellStarted { cell: cell.clone() },
                Event::Cell { cell: cell.id(), what: CellEvent::Sample(sample("mount", 2.0)) },
                Event::Cell { cell: cell.id(), what: CellEvent::Sample(load) },
                Event::CellFinished { cell: cell.id(), outcome: Outcome::Done },
            ] {
                writer.apply(&event).unwrap();
            }
        }
        let db = Connection::open(run.database()).unwrap();
        db.execute("INSERT INTO note(round, kind, text) VALUES(1, 'dropped', 'a neighbour')", []).unwrap();
        run
    }

    #[test]
    fn rounds_add_up_without_those_that_were_dropped() {
        let root = tempfile::tempdir().unwrap();
        let record = read(&stored(root.path(), 3)).unwrap();
        let task = record.tasks.iter().position(|task| task.id.name == "load").unwrap();
        let all: Vec<_> = record.latencies.iter().map(|(at, of)| (*at, of.entries().to_vec())).collect();
        assert_eq!(all, [((task, 0), vec![(100, 1 + 3), (200, 2)])]);
    }

    #[test]
    fn damage_is_told() {
        let root = tempfile::tempdir().unwrap();
        let run = stored(root.path(), 1);
        let change = |sql: &str| {
            let db = Connection::open(run.database()).unwrap();
            db.execute_batch(&format!("PRAGMA foreign_keys = OFF; {sql}")).unwrap();
        };
        change("UPDATE latencies SET counts = '[[1,-1]]'");
        assert!(read(&run).unwrap_err().to_string().contains("table latencies"));
    }
}
