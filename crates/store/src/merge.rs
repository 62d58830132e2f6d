//! Merges shards into one run. A shard is a run with some of the rounds of a plan, measured on one of several machines.
//!
//! The name of the merged run ends with a hash of the plan and the build. A later merge finds the run by that name and
//! continues it, for instance after a crash or with further shards. A cell is identified by its hash and copied once.

use crate::command_log::{CommandLog, json_line};
use crate::rows::{Cursor, Source};
use crate::{Error, Result, RunDir, commands, dir, read, schema, views};
use fsarena_core::plan::{Backing, Plan};
use fsarena_core::setting_text::setting;
use fsarena_core::{host::BUILD, metric::Declared, number::plural, record::LogLine};
use rusqlite::{Connection, OptionalExtension, params};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::{Path, PathBuf};

/// The result of [`merge`].
#[derive(Debug)]
pub struct Merged {
    /// The merged run.
    pub run: RunDir,
    /// The number of cells that this merge added.
    pub added: usize,
    /// Whether the run has every round of the plan.
    pub complete: bool,
    /// A sentence on how many rounds the run has, and which shards lack rounds.
    pub why: String,
}

/// The properties that all shards of a run must have in common.
struct Identity {
    plan: Plan,
    version: String,
    build: String,
}

/// Merges shards into a run in `runs_root`: a new run, or the run that an earlier merge of the same plan and build made.
///
/// # Errors
/// A shard has another plan or build than the others, two shards measured the same round, or a file cannot be read or
/// written. The message names the shard. Shards before it stay merged, and a later merge continues.
pub fn merge(runs_root: &Path, parts: &[RunDir]) -> Result<Merged> {
    let [first, others @ ..] = parts else {
        return Err(Error::damaged(runs_root, "nothing to merge: it contains no shards"));
    };
    let expected = read_identity(first)?;
    for part in others {
        expected.check_same(&read_identity(part)?).map_err(|what| {
            let what = format!("cannot be merged with {}: {what}", first.path().display());
            Error::damaged(part.path(), what)
        })?;
    }
    let mut merge = Merge::open(runs_root, &expected)?;
    let added = parts.iter().map(|part| merge.copy_shard(part)).sum::<Result<usize>>()?;
    let shard_count = parts.iter().find_map(|part| part.plan().ok()?.stop.shard).map_or(1, |shard| shard.of);
    let (complete, why) = merge.finish(&expected.plan, shard_count)?;
    Ok(Merged { run: merge.run.clone(), added, complete, why })
}

/// Reads the identity of a shard.
fn read_identity(part: &RunDir) -> Result<Identity> {
    let plan = part.plan()?;
    let path = part.database();
    let db = schema::open_to_read(&path)?;
    let source = Source { db: &db, path: &path };
    let version = source.one("run", "SELECT version FROM run", |row| row.text(0))?;
    let facts = |row: &Cursor| row.json::<BTreeMap<String, String>>(1);
    let (hosts, _) = source.table("host", "SELECT id, facts FROM host", facts)?;
    let mut builds: BTreeSet<_> = hosts.iter().map(|facts| facts.get(BUILD).cloned()).collect();
    match (builds.pop_first(), builds.len()) {
        (Some(Some(build)), 0) => Ok(Identity { plan: without_machine_specifics(plan), version, build }),
        (Some(Some(_)), _) => Err(Error::damaged(part.path(), "several builds of fsarena measured this run")),
        _ => Err(Error::damaged(
            part.path(),
            format!("not a shard: make shards with fsarena run {}", setting("shard", "I/N")),
        )),
    }
}

/// A plan without the parts that may differ between machines: the number of the shard, and the paths of the devices.
fn without_machine_specifics(mut plan: Plan) -> Plan {
    plan.stop.shard = None;
    match &mut plan.device.backing {
        Backing::Loop { path } => *path = None,
        Backing::Erase { path, signature } => (*path, *signature) = (PathBuf::new(), None),
        _ => {}
    }
    // Whether the plan has a source disk matters, not the path of that disk.
    plan.device.other_dir = plan.device.other_dir.map(|_| PathBuf::new());
    if let Some(other) = &mut plan.device.other_device {
        (other.path, other.signature) = (PathBuf::new(), None);
    }
    plan
}

impl Identity {
    /// Checks that another identity is the same; the error describes the difference.
    fn check_same(&self, other: &Identity) -> std::result::Result<(), String> {
        let json = |plan: &Plan| serde_json::to_value(plan).unwrap_or_default();
        if let Some(what) = first_difference("", &json(&self.plan), &json(&other.plan)) {
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

    /// The last part of the name of the merged run: 12 hexadecimal digits.
    fn hash_suffix(&self) -> String {
        let text = crate::insert::json(&(&self.plan, &self.version, &self.build));
        blake3::hash(text.as_bytes()).to_hex()[..12].to_string()
    }
}

/// The first key in which two JSON values differ, with both values: `seed (8, and 7 in the other)`. `path` is the key that
/// leads to the values. None if they are equal.
fn first_difference(path: &str, one: &Value, other: &Value) -> Option<String> {
    let (Value::Object(one_map), Value::Object(other_map)) = (one, other) else {
        return (one != other).then(|| format!("{path} ({other}, and {one} in the other)"));
    };
    let keys: BTreeSet<&String> = one_map.keys().chain(other_map.keys()).collect();
    keys.into_iter().find_map(|key| {
        let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
        let missing = Value::Null;
        first_difference(&path, one_map.get(key).unwrap_or(&missing), other_map.get(key).unwrap_or(&missing))
    })
}

/// The merged run while shards are copied into it.
struct Merge {
    run: RunDir,
    db: Connection,
    path: PathBuf,
    log: CommandLog,
    /// The rounds that the run has, each with the host that measured it.
    rounds: BTreeMap<u32, String>,
    /// The metrics of all copied shards, each with the first shard that has it.
    declared: Declared,
}

impl Merge {
    /// Opens the merged run, makes it if it is missing, and locks it against other writers.
    fn open(runs_root: &Path, identity: &Identity) -> Result<Merge> {
        let suffix = format!("-{}", identity.hash_suffix());
        let existing = RunDir::all(runs_root)?.into_iter().find(|run| run.id().ends_with(&suffix));
        let run = match existing {
            Some(run) => run,
            None => RunDir::create_with_suffix(runs_root, &identity.plan, &identity.version, || {
                identity.hash_suffix()
            })?,
        };
        let log = CommandLog::open(&run.command_log())?;
        let path = run.database();
        let db = schema::open_to_merge(&path)?;
        db.execute_batch(&views::views_sql(&identity.plan)).map_err(Error::while_writing(&path))?;
        let mut rounds = BTreeMap::new();
        each_round(&db, "main", |round, host| drop(rounds.insert(round, host)))
            .map_err(Error::while_reading(&path))?;
        let mut declared = Declared::default();
        for metric in read::readings(&Source { db: &db, path: &path }, "main")?.0 {
            // A run has each name once, so no two definitions contradict each other here.
            let _ = declared.declare(&metric, &run.path().display().to_string());
        }
        Ok(Merge { run, db, path, log, rounds, declared })
    }

    /// Writes the status to the run and returns it: whether the run is complete, and a sentence about the missing rounds.
    /// `shard_count` is the number of shards of the plan.
    fn finish(&self, plan: &Plan, shard_count: u32) -> Result<(bool, String)> {
        let finished = self.finished_rounds().map_err(Error::while_reading(&self.path))?;
        let all = plan.stop.all_rounds();
        let missing: Vec<u32> = (0..all).filter(|round| !finished.contains(round)).collect();
        let complete = missing.is_empty();
        let why = if complete {
            let hosts = self.rounds.values().collect::<BTreeSet<_>>().len();
            format!("merged: all {} rounds, of {}", plan.stop.rounds, plural(hosts, "host"))
        } else {
            let merged = all as usize - missing.len();
            let shards = name_shards(&missing, shard_count.max(1));
            format!("{merged} of {all} rounds are merged; shards {shards} lack rounds")
        };
        self.db
            .execute("UPDATE run SET complete = ?1, why = ?2", params![complete, why])
            .map_err(Error::while_writing(&self.path))?;
        Ok((complete, why))
    }

    fn finished_rounds(&self) -> rusqlite::Result<BTreeSet<u32>> {
        let mut statement = self.db.prepare("SELECT number FROM round WHERE finished = 1")?;
        statement.query_map([], |row| row.get(0))?.collect()
    }
}

/// The names of the shards that these rounds belong to, at most eight: `1/3, 2/3`.
fn name_shards(rounds: &[u32], shard_count: u32) -> String {
    let shards: BTreeSet<u32> = rounds.iter().map(|round| round % shard_count + 1).collect();
    let names: Vec<String> = shards.iter().take(8).map(|shard| format!("{shard}/{shard_count}")).collect();
    let more = if shards.len() > 8 { ", …" } else { "" };
    format!("{}{more}", names.join(", "))
}

impl Drop for Merge {
    /// Leaves a single database file without `-wal` and `-shm` files, like [`crate::Writer`].
    fn drop(&mut self) {
        let _ = self.db.query_row("PRAGMA journal_mode = DELETE", [], |_| Ok(()));
    }
}

/// Calls `each` with every pair of a round and the name of a host that measured cells of it. `schema` is the name under which
/// the database is attached.
fn each_round(db: &Connection, schema: &str, mut each: impl FnMut(u32, String)) -> rusqlite::Result<()> {
    let sql = format!(
        "SELECT DISTINCT cell.round, host.hostname
         FROM {schema}.cell CROSS JOIN {schema}.host ON host.id = cell.host"
    );
    let mut statement = db.prepare(&sql)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        each(row.get(0)?, row.get(1)?);
    }
    Ok(())
}

/// Copies the names of hosts, variants, tasks and metrics from the shard (`part`) to the merged run (`main`), and fills two
/// temporary tables: `fresh` with the ids of the shard's cells that the run lacks, and `map` with the id in the run (`new`)
/// for each id in the shard (`old`).
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

/// Selects a cell that both the shard and the merged run have, but with another start time: two machines measured it.
const MEASURED_TWICE: &str = "
SELECT p.round, v.name, h.hostname FROM part.cell p CROSS JOIN main.cell m USING(hash)
    CROSS JOIN main.host h ON h.id = m.host CROSS JOIN main.variant v ON v.id = m.variant
WHERE m.started_at <> p.started_at LIMIT 1";

/// How the rows of each table are copied from the shard: the table, the selected columns, the joins, and the condition for new
/// rows. `+C` stands for the offset of the ids of cells, `+S` for that of the ids of samples.
const COPIED_TABLES: [(&str, &str, &str, &str); 5] = [
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
/// The condition for rows that belong to samples of new cells. If all cells of the shard are new, `TRUE` replaces it.
const OF_SAMPLES: &str = "p.sample IN (SELECT id FROM part.sample WHERE cell IN fresh)";
/// Statements that copy notes: the notes of new cells, and the notes that belong to no cell. The latter are often the same on
/// every machine and are copied once.
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
    /// Copies the new cells of a shard with their logs and outputs, and returns the number of cells.
    fn copy_shard(&mut self, part: &RunDir) -> Result<usize> {
        let path = part.database();
        self.db
            .execute("ATTACH ?1 AS part", [schema::uri(&path, "mode=ro")?])
            .map_err(Error::while_reading(&path))?;
        let copied = self.copy_attached(part);
        let _ = self.db.execute_batch("DETACH part");
        let fresh = copied?;
        self.log_commands(part, &fresh)?;
        dir::merge_outputs(&part.outputs(), &self.run.outputs())?;
        Ok(fresh.len())
    }

    /// Copies the rows of new cells from the database that is attached as `part`, in one transaction. Returns the hashes of
    /// these cells.
    fn copy_attached(&mut self, part: &RunDir) -> Result<HashSet<String>> {
        let path = part.database();
        let rounds = self.check_rounds(part)?;
        let transaction = self.db.transaction().map_err(Error::while_writing(&self.path))?;
        // An error may come from either file. A full disk is an error of the merged run; any other, of the shard.
        let failed = |error: rusqlite::Error| match error.sqlite_error_code() {
            Some(rusqlite::ErrorCode::DiskFull) => Error::while_writing(&self.path)(error),
            _ => Error::while_reading(&path)(error),
        };
        check_metrics(&transaction, part, &mut self.declared)?;
        transaction.execute_batch(RUN).and_then(|()| transaction.execute_batch(PREPARE)).map_err(failed)?;
        check_measured_once(&transaction, part)?;
        let fresh = fresh_hashes(&transaction).map_err(failed)?;
        let number = |sql: &str| transaction.query_row(sql, [], |row| row.get::<_, i64>(0)).map_err(failed);
        let last_cell = number("SELECT ifnull(max(id), 0) FROM main.cell")?;
        let last_sample = number("SELECT ifnull(max(id), 0) FROM main.sample")?;
        let with_offsets = |sql: &str| {
            sql.replace("+C", &format!(" + {last_cell}")).replace("+S", &format!(" + {last_sample}"))
        };
        let all_new = number("SELECT count(*) FROM part.cell")? == fresh.len() as i64;
        for (table, columns, joins, new) in COPIED_TABLES {
            let new = if all_new && new == OF_SAMPLES { "TRUE" } else { new };
            let expected = number(&format!("SELECT count(*) FROM part.{table} p WHERE {new}"))?;
            let insert = format!(
                "INSERT INTO main.{table} SELECT {} FROM part.{table} p {joins} WHERE {new}",
                with_offsets(columns)
            );
            if transaction.execute(&insert, []).map_err(failed)? as i64 != expected {
                let what = format!("damaged: table {table} refers to rows that are missing");
                return Err(Error::damaged(&path, what));
            }
        }
        for notes in NOTES {
            transaction.execute(&with_offsets(notes), []).map_err(failed)?;
        }
        transaction.execute_batch(ROUNDS).map_err(failed)?;
        transaction.commit().map_err(Error::while_writing(&self.path))?;
        self.rounds.extend(rounds);
        Ok(fresh)
    }

    /// The rounds of a shard with their hosts. Returns an error if two hosts measured the same round: variants are compared
    /// within rounds.
    fn check_rounds(&self, part: &RunDir) -> Result<BTreeMap<u32, String>> {
        let mut rounds: BTreeMap<u32, String> = BTreeMap::new();
        let mut conflict = None;
        each_round(&self.db, "part", |round, host| {
            let other_host = rounds.get(&round).or(self.rounds.get(&round)).filter(|other| **other != host);
            if let Some(other_host) = other_host.cloned() {
                conflict.get_or_insert((round, other_host, host.clone()));
            }
            rounds.insert(round, host);
        })
        .map_err(Error::while_reading(&part.database()))?;
        let Some((round, one, other)) = conflict else { return Ok(rounds) };
        let round = round + 1;
        let what = format!(
            "cannot be merged: round {round} was measured on two hosts, {one} and {other}; leave out one of the runs"
        );
        Err(Error::damaged(part.path(), what))
    }

    /// Copies the log lines of new cells, and the lines that belong to no cell. Copies nothing if no cell is new.
    fn log_commands(&mut self, part: &RunDir, fresh: &HashSet<String>) -> Result<()> {
        if fresh.is_empty() {
            return Ok(());
        }
        let (mut text, mut times) = (String::new(), 0);
        commands(part, &mut |line: &LogLine| {
            if line.cell.as_ref().is_none_or(|cell| fresh.contains(cell)) {
                text.push_str(&json_line(line));
                times += line.command.times;
            }
        })?;
        self.log.append_lines(&text)?;
        let count = "UPDATE main.run SET commands = commands + ?1";
        self.db.execute(count, [times as i64]).map(drop).map_err(Error::while_writing(&self.path))
    }
}

/// The hashes of the cells in the temporary table `fresh`.
fn fresh_hashes(db: &Connection) -> rusqlite::Result<HashSet<String>> {
    let mut statement = db.prepare("SELECT hash FROM fresh CROSS JOIN part.cell c ON c.id = fresh.id")?;
    statement.query_map([], |row| row.get(0))?.collect()
}

/// Returns an error if a shard defines a metric in another way than a shard that was copied before.
fn check_metrics(db: &Connection, part: &RunDir, declared: &mut Declared) -> Result<()> {
    let by = part.path().display().to_string();
    for metric in read::readings(&Source { db, path: &part.database() }, "part")?.0 {
        declared
            .declare(&metric, &by)
            .map_err(|error| Error::damaged(part.path(), format!("cannot be merged: {error}")))?;
    }
    Ok(())
}

/// Returns an error if another shard measured the same cell: fsarena must not choose between two values.
fn check_measured_once(db: &Connection, part: &RunDir) -> Result<()> {
    let found = db
        .query_row(MEASURED_TWICE, [], |row| {
            Ok((row.get::<_, u32>(0)?, row.get::<_, String>(1)?, row.get::<_, String>(2)?))
        })
        .optional();
    let Some((round, variant, host)) = found.map_err(Error::while_reading(&part.database()))? else {
        return Ok(());
    };
    let round = round + 1;
    let what = format!(
        "cannot be merged: another run, on host {host}, also measured round {round} of {variant}; leave out one of the runs"
    );
    Err(Error::damaged(part.path(), what))
}

#[cfg(test)]
mod tests;
