//! Merges shards: the rounds that several machines ran of one plan become one run.
//!
//! The merged run has a name that follows from the plan, the seed and the build, so that a merge that was cut short, or
//! gets further shards, goes on where it stopped. A cell is known by its hash: it is taken once.

use crate::logs::{self, CommandLog};
use crate::rows::{Cursor, Source};
use crate::{Error, Result, RunDir, commands, dir, read, schema};
use fsarena_core::plan::{Backing, Plan};
use fsarena_core::{host::BUILD, metric::Declared, number::plural, record::LogLine};
use rusqlite::{Connection, OptionalExtension, params};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::{Path, PathBuf};

/// A merged run, and what it lacks.
#[derive(Debug)]
pub struct Merged {
    /// The merged run.
    pub run: RunDir,
    /// Cells that this merge added.
    pub added: usize,
    /// Whether every round of the plan is there.
    pub complete: bool,
    /// A sentence about that, which names the missing rounds.
    pub why: String,
}

/// The facts that shards must have in common.
struct Identity {
    plan: Plan,
    version: String,
    build: String,
}

/// Merges shards into a run in `runs_root`: a new one, or the one that earlier merges of this plan began.
///
/// # Errors
/// If a run does not belong to the others, if two of them measured the same round, or if a file cannot be read or written.
/// The message names the run. What was merged before it stays, and a later merge continues.
pub fn merge(runs_root: &Path, parts: &[RunDir]) -> Result<Merged> {
    let [first, others @ ..] = parts else {
        return Err(Error::damaged(runs_root, "nothing to merge: it contains no shards"));
    };
    let known = identity(first)?;
    for part in others {
        known.same(&identity(part)?).map_err(|what| {
            let what = format!("cannot be merged with {}: {what}", first.path().display());
            Error::damaged(part.path(), what)
        })?;
    }
    let mut merge = Merge::open(runs_root, &known)?;
    let added = parts.iter().map(|part| merge.take(part)).sum::<Result<usize>>()?;
    let of = parts.iter().find_map(|part| part.plan().ok()?.stop.shard).map_or(1, |shard| shard.of);
    let (complete, why) = merge.finish(&known.plan, of)?;
    Ok(Merged { run: merge.run.clone(), added, complete, why })
}

/// Reads the identity of a shard.
fn identity(part: &RunDir) -> Result<Identity> {
    let plan = part.plan()?;
    let path = part.database();
    let db = schema::open_to_read(&path)?;
    let source = Source { db: &db, path: &path };
    let version = source.one("run", "SELECT version FROM run", |row| row.text(0))?;
    let facts = |row: &Cursor| row.json::<BTreeMap<String, String>>(1);
    let (hosts, _) = source.table("host", "SELECT id, facts FROM host", facts)?;
    let mut builds: BTreeSet<_> = hosts.iter().map(|facts| facts.get(BUILD).cloned()).collect();
    match (builds.pop_first(), builds.len()) {
        (Some(Some(build)), 0) => Ok(Identity { plan: shared(plan), version, build }),
        (Some(Some(_)), _) => Err(Error::damaged(part.path(), "several builds of fsarena measured this run")),
        _ => Err(Error::damaged(part.path(), "not a shard: make shards with fsarena run --shard I/N")),
    }
}

/// A plan without what may differ from machine to machine: the shard, and where its devices are.
fn shared(mut plan: Plan) -> Plan {
    plan.stop.shard = None;
    match &mut plan.device.backing {
        Backing::Loop { path } => *path = None,
        Backing::Erase { path, signature } => (*path, *signature) = (PathBuf::new(), None),
        _ => {}
    }
    // Whether there is another disk matters, and not its name.
    plan.device.other_dir = plan.device.other_dir.map(|_| PathBuf::new());
    if let Some(other) = &mut plan.device.other_device {
        (other.path, other.signature) = (PathBuf::new(), None);
    }
    plan
}

impl Identity {
    /// Compares with another identity; the error describes the difference.
    fn same(&self, other: &Identity) -> std::result::Result<(), String> {
        let json = |plan: &Plan| serde_json::to_value(plan).unwrap_or_default();
        if let Some(what) = difference("", &json(&self.plan), &json(&other.plan)) {
            return Err(format!("the plans differ in {what}"));
        }
        if self.version != other.version {
            return Err(format!("fsarena {} measured it, and {} the other", other.version, self.version));
        }
        if self.build != other.build {
            let (ours, theirs) = (&other.build, &self.build);
            return Err(format!("another build of fsarena measured it ({ours}, and {theirs} the other)"));
        }
        Ok(())
    }

    /// The last part of the name of the merged run.
    fn letters(&self) -> String {
        let text = crate::writer::json(&(&self.plan, &self.version, &self.build));
        blake3::hash(text.as_bytes()).to_hex()[..12].to_string()
    }
}

/// The first place where two values differ, with both.
fn difference(at: &str, one: &Value, other: &Value) -> Option<String> {
    match (one, other) {
        (Value::Object(a), Value::Object(b)) => {
            let keys: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
            let get = |of: &serde_json::Map<String, Value>, key| of.get(key).cloned().unwrap_or_default();
            keys.into_iter().find_map(|key| {
                let at = if at.is_empty() { key.clone() } else { format!("{at}.{key}") };
                difference(&at, &get(a, key), &get(b, key))
            })
        }
        _ => (one != other).then(|| format!("{at} ({other}, and {one} in the other)")),
    }
}

/// A merged run that is being written.
struct Merge {
    run: RunDir,
    db: Connection,
    path: PathBuf,
    log: CommandLog,
    /// The host of every round that is there.
    rounds: BTreeMap<u32, String>,
    /// The metrics of all runs that were taken, each with the first that has it.
    declared: Declared,
}

impl Merge {
    /// Finds or makes the run, and keeps other writers away from it.
    fn open(runs_root: &Path, identity: &Identity) -> Result<Merge> {
        let end = format!("-{}", identity.letters());
        let known = RunDir::all(runs_root)?.into_iter().find(|run| run.id().ends_with(&end));
        let run = match known {
            Some(run) => run,
            None => {
                RunDir::create_ending(runs_root, &identity.plan, &identity.version, || identity.letters())?
            }
        };
        let log = CommandLog::open(&run.command_log())?;
        let path = run.database();
        let db = schema::open_to_merge(&path)?;
        let mut rounds = BTreeMap::new();
        each_round(&db, "main", |round, host| drop(rounds.insert(round, host)))
            .map_err(Error::read(&path))?;
        let mut declared = Declared::default();
        for metric in read::metrics(&Source { db: &db, path: &path }, "main")? {
            // A run has each name once.
            let _ = declared.declare(&metric, &run.path().display().to_string());
        }
        Ok(Merge { run, db, path, log, rounds, declared })
    }

    /// Writes to the run whether it is complete, and what it lacks.
    fn finish(&self, plan: &Plan, of: u32) -> Result<(bool, String)> {
        let of = of.max(1);
        let done = || -> rusqlite::Result<BTreeSet<u32>> {
            let mut found = self.db.prepare("SELECT number FROM round WHERE finished = 1")?;
            found.query_map([], |row| row.get(0))?.collect()
        };
        let done = done().map_err(Error::read(&self.path))?;
        let hosts = self.rounds.values().collect::<BTreeSet<_>>().len();
        let missing: Vec<u32> = (0..plan.stop.all_rounds()).filter(|round| !done.contains(round)).collect();
        let shards: BTreeSet<u32> = missing.iter().map(|round| round % of + 1).collect();
        let why = match missing.len() {
            0 => format!("merged: all {} rounds, of {}", plan.stop.rounds, plural(hosts, "host")),
            lacking => {
                let names: Vec<String> = shards.iter().take(8).map(|shard| format!("{shard}/{of}")).collect();
                let (names, more) = (names.join(", "), if shards.len() > 8 { ", …" } else { "" });
                let all = plan.stop.all_rounds();
                let there = all as usize - lacking;
                format!("{there} of {all} rounds are merged; shards {names}{more} lack rounds")
            }
        };
        self.db
            .execute("UPDATE run SET complete = ?1, why = ?2", params![missing.is_empty(), why])
            .map_err(Error::write(&self.path))?;
        Ok((missing.is_empty(), why))
    }
}

impl Drop for Merge {
    /// Leaves one plain file, as a writer of a run does.
    fn drop(&mut self) {
        let _ = self.db.query_row("PRAGMA journal_mode = DELETE", [], |_| Ok(()));
    }
}

/// Calls `each` with every round of a database and the name of a host that measured cells of it.
fn each_round(db: &Connection, of: &str, mut each: impl FnMut(u32, String)) -> rusqlite::Result<()> {
    let sql = format!(
        "SELECT DISTINCT cell.round, host.hostname FROM {of}.cell CROSS JOIN {of}.host ON host.id = cell.host"
    );
    let mut found = db.prepare(&sql)?;
    let mut rows = found.query([])?;
    while let Some(row) = rows.next()? {
        each(row.get(0)?, row.get(1)?);
    }
    Ok(())
}

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
    /// Copies the new cells of a shard, and returns their number.
    fn take(&mut self, part: &RunDir) -> Result<usize> {
        let path = part.database();
        self.db.execute("ATTACH ?1 AS part", [schema::uri(&path, "mode=ro")?]).map_err(Error::read(&path))?;
        let taken = self.take_attached(part);
        let _ = self.db.execute_batch("DETACH part");
        let fresh = taken?;
        self.log_commands(part, &fresh)?;
        dir::merge_outputs(&part.outputs(), &self.run.outputs())?;
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
                text.push_str(&logs::json_line(line));
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

#[cfg(test)]
mod tests;
