//! Takes the cells of one shard into a merged run, in one transaction.

use super::{Merge, each_round};
use crate::rows::Source;
use crate::{Error, Result, RunDir, commands, log, output, read, schema};
use fsarena_core::{metric::Declared, record::LogLine};
use rusqlite::{Connection, OptionalExtension};
use std::collections::{BTreeMap, HashSet};

/// The rows that are new: which cells, and for each kind of name that rows refer to, its id here.
const PREPARE: &str = "
CREATE TEMP TABLE IF NOT EXISTS fresh(id INTEGER PRIMARY KEY);
CREATE TEMP TABLE IF NOT EXISTS map(kind TEXT, old INTEGER, new INTEGER, PRIMARY KEY(kind, old)) WITHOUT ROWID;
DELETE FROM fresh;
DELETE FROM map;
INSERT OR IGNORE INTO main.host(hostname, boot_id, kernel, facts)
    SELECT hostname, boot_id, kernel, facts FROM part.host ORDER BY id;
INSERT OR IGNORE INTO main.variant(name, levels) SELECT name, levels FROM part.variant ORDER BY id;
INSERT OR IGNORE INTO main.task(name, params, title, number, in_totals)
    SELECT name, params, title, number, in_totals FROM part.task ORDER BY id;
INSERT OR IGNORE INTO main.metric(name, unit, direction, scope, over_tasks, over_ranks, over_hosts, numerator, denominator, help)
    SELECT name, unit, direction, scope, over_tasks, over_ranks, over_hosts, numerator, denominator, help
    FROM part.metric ORDER BY id;
INSERT INTO map SELECT 'host', p.id, m.id FROM part.host p CROSS JOIN main.host m
    USING(hostname, boot_id, kernel, facts);
INSERT INTO map SELECT 'variant', p.id, m.id FROM part.variant p CROSS JOIN main.variant m USING(name, levels);
INSERT INTO map SELECT 'task', p.id, m.id FROM part.task p CROSS JOIN main.task m USING(name, params);
INSERT INTO map SELECT 'metric', p.id, m.id FROM part.metric p CROSS JOIN main.metric m USING(name);
INSERT INTO fresh SELECT id FROM part.cell p
    WHERE NOT EXISTS (SELECT 1 FROM main.cell m WHERE m.hash = p.hash);
";

/// A cell that two runs measured.
const TWICE: &str = "
SELECT p.round, v.name, h.hostname FROM part.cell p CROSS JOIN main.cell m USING(hash)
    CROSS JOIN main.host h ON h.id = m.host CROSS JOIN main.variant v ON v.id = m.variant
WHERE m.started_at <> p.started_at LIMIT 1";

/// What each table takes: its name, the columns that it keeps, what else it is joined with, and which rows are new. `+C` is
/// added to the ids of cells, `+S` to those of samples.
const TAKE: [(&str, &str, &str, &str); 5] = [
    (
        "cell",
        "id+C, hash, round, position, v.new, workload, outcome, h.new, started_at, spent",
        "CROSS JOIN map v ON v.kind = 'variant' AND v.old = p.variant
         CROSS JOIN map h ON h.kind = 'host' AND h.old = p.host",
        "p.id IN fresh",
    ),
    (
        "sample",
        "id+S, cell+C, t.new, started_at",
        "CROSS JOIN map t ON t.kind = 'task' AND t.old = p.task",
        "p.cell IN fresh",
    ),
    (
        "value",
        "sample+S, m.new, value",
        "CROSS JOIN map m ON m.kind = 'metric' AND m.old = p.metric",
        OF_SAMPLES,
    ),
    (
        "series",
        "sample+S, point, start_s, length_s, warm_up, operations, bytes,
         latency_p50_ns, latency_p99_ns, latency_p999_ns",
        "",
        OF_SAMPLES,
    ),
    ("latencies", "sample+S, counts", "", OF_SAMPLES),
];
/// The rows of new cells' samples. Left out where every cell is new.
const OF_SAMPLES: &str = "p.sample IN (SELECT id FROM part.sample WHERE cell IN fresh)";
/// Notes of cells come with these; those of no cell are often the same on every machine, and are taken once.
const NOTES: [&str; 2] = [
    "INSERT INTO main.note(round, cell, kind, variant, task, text, fix)
     SELECT round, cell+C, kind, variant, task, text, fix FROM part.note WHERE cell IN fresh ORDER BY id",
    "INSERT INTO main.note(round, cell, kind, variant, task, text, fix)
     SELECT round, NULL, kind, variant, task, text, fix FROM part.note WHERE cell IS NULL
     EXCEPT SELECT round, NULL, kind, variant, task, text, fix FROM main.note WHERE cell IS NULL",
];

const ROUNDS: &str = "
INSERT OR REPLACE INTO main.round(number, host, variant_order, finished)
SELECT r.number, h.new, r.variant_order, r.finished FROM part.round r
CROSS JOIN map h ON h.kind = 'host' AND h.old = r.host";

const RUN: &str = "
UPDATE main.run SET
    started = CASE WHEN (SELECT count(*) FROM main.cell) = 0 THEN (SELECT started FROM part.run)
              ELSE min(started, (SELECT started FROM part.run)) END,
    ended = max(ended, (SELECT ended FROM part.run))";

impl Merge {
    /// Takes what is new of a shard. How many cells that was.
    pub(super) fn take(&mut self, part: &RunDir) -> Result<usize> {
        let path = part.database();
        self.db.execute("ATTACH ?1 AS part", [schema::uri(&path, "mode=ro")?]).map_err(Error::read(&path))?;
        let taken = self.take_attached(part);
        let _ = self.db.execute_batch("DETACH part");
        let fresh = taken?;
        self.log_commands(part, &fresh)?;
        output::merge(&part.outputs(), &self.run.outputs())?;
        Ok(fresh.len())
    }

    fn take_attached(&mut self, part: &RunDir) -> Result<HashSet<String>> {
        let path = part.database();
        let rounds = self.rounds_of(part)?;
        let transaction = self.db.transaction().map_err(Error::write(&self.path))?;
        // Both files are in use here: SQLite names a full disk, and otherwise the part is to blame.
        let failed = |error: rusqlite::Error| match error.sqlite_error_code() {
            Some(rusqlite::ErrorCode::DiskFull) => Error::write(&self.path)(error),
            _ => Error::read(&path)(error),
        };
        contradiction(&transaction, part, &mut self.declared)?;
        transaction.execute_batch(RUN).and_then(|()| transaction.execute_batch(PREPARE)).map_err(failed)?;
        twice(&transaction, part)?;
        let fresh = || -> rusqlite::Result<HashSet<String>> {
            let mut found =
                transaction.prepare("SELECT hash FROM fresh CROSS JOIN part.cell c ON c.id = fresh.id")?;
            found.query_map([], |row| row.get(0))?.collect()
        };
        let fresh = fresh().map_err(failed)?;
        let number = |sql: &str| transaction.query_row(sql, [], |row| row.get::<_, i64>(0)).map_err(failed);
        let cells = number("SELECT ifnull(max(id), 0) FROM main.cell")?;
        let samples = number("SELECT ifnull(max(id), 0) FROM main.sample")?;
        let moved =
            |sql: &str| sql.replace("+C", &format!(" + {cells}")).replace("+S", &format!(" + {samples}"));
        let all_new = number("SELECT count(*) FROM part.cell")? == fresh.len() as i64;
        for (table, columns, joins, new) in TAKE {
            let new = if all_new && new == OF_SAMPLES { "TRUE" } else { new };
            let expected = number(&format!("SELECT count(*) FROM part.{table} p WHERE {new}"))?;
            let insert = format!(
                "INSERT INTO main.{table} SELECT {} FROM part.{table} p {joins} WHERE {new}",
                moved(columns)
            );
            if transaction.execute(&insert, []).map_err(failed)? as i64 != expected {
                let what = format!("damaged: table {table} refers to rows that are missing");
                return Err(Error::damaged(&path, what));
            }
        }
        for notes in NOTES {
            transaction.execute(&moved(notes), []).map_err(failed)?;
        }
        transaction.execute_batch(ROUNDS).map_err(failed)?;
        transaction.commit().map_err(Error::write(&self.path))?;
        self.rounds.extend(rounds);
        Ok(fresh)
    }

    /// The rounds of a part, each measured on one host: variants are compared within rounds.
    fn rounds_of(&self, part: &RunDir) -> Result<BTreeMap<u32, String>> {
        let mut rounds: BTreeMap<u32, String> = BTreeMap::new();
        let mut split = None;
        each_round(&self.db, "part", |round, host| {
            let known = rounds.get(&round).or(self.rounds.get(&round)).filter(|known| **known != host);
            if let Some(known) = known.cloned() {
                split.get_or_insert((round, known, host.clone()));
            }
            rounds.insert(round, host);
        })
        .map_err(Error::read(&part.database()))?;
        let Some((round, one, other)) = split else { return Ok(rounds) };
        let round = round + 1;
        let what = format!(
            "cannot be merged: round {round} was measured on two hosts, {one} and {other}; leave out one of the runs"
        );
        Err(Error::damaged(part.path(), what))
    }

    /// Copies the log lines of new cells, and those of no cell where every cell is new.
    fn log_commands(&mut self, part: &RunDir, fresh: &HashSet<String>) -> Result<()> {
        if fresh.is_empty() {
            return Ok(());
        }
        let (mut text, mut times) = (String::new(), 0);
        commands(part, &mut |line: &LogLine| {
            if line.cell.as_ref().is_none_or(|cell| fresh.contains(cell)) {
                text.push_str(&log::json_line(line));
                times += line.command.times;
            }
        })?;
        self.log.append_lines(&text)?;
        let count = "UPDATE main.run SET commands = commands + ?1";
        self.db.execute(count, [times as i64]).map(drop).map_err(Error::write(&self.path))
    }
}

/// Refuses a part in which commands declared a metric with another meaning than in one that was taken before.
fn contradiction(db: &Connection, part: &RunDir, declared: &mut Declared) -> Result<()> {
    let by = part.path().display().to_string();
    for metric in read::metrics(&Source { db, path: &part.database() }, "part")? {
        declared
            .declare(&metric, &by)
            .map_err(|error| Error::damaged(part.path(), format!("cannot be merged: {error}")))?;
    }
    Ok(())
}

/// Refuses a cell that another run measured as well: to choose one of them could be a choice by value.
fn twice(db: &Connection, part: &RunDir) -> Result<()> {
    let found = db
        .query_row(TWICE, [], |row| {
            Ok((row.get::<_, u32>(0)?, row.get::<_, String>(1)?, row.get::<_, String>(2)?))
        })
        .optional();
    let Some((round, variant, host)) = found.map_err(Error::read(&part.database()))? else { return Ok(()) };
    let round = round + 1;
    let what = format!(
        "cannot be merged: another run, on host {host}, also measured round {round} of {variant}; leave out one of the runs"
    );
    Err(Error::damaged(part.path(), what))
}
