//! Merges shards into one run. A shard is a run with some of the rounds of a plan, measured on one of several machines.
//!
//! The name of the merged run ends with a hash of the plan and the build. A later merge finds the run by that name and
//! continues it, for instance after a crash or with further shards. A cell is identified by its hash and copied once.

use crate::command_log::{CommandLog, to_json_line};
use crate::rows::{RunDatabase, TableRow};
use crate::{Error, Result, RunDir, dir, for_each_command, read, schema, views};
use fsarena_core::plan::{Backing, Plan};
use fsarena_core::setting_text::setting;
use fsarena_core::{host::BUILD_FACT, metric::DeclaredMetrics, number::plural, record::CommandLogLine};
use rusqlite::{Connection, OptionalExtension, params};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::{Path, PathBuf};

/// The result of [`merge`].
#[derive(Debug)]
pub struct MergeResult {
    /// The merged run.
    pub run: RunDir,
    /// The number of cells that this merge added.
    pub added_cells: usize,
    /// Whether the run has every round of the plan.
    pub complete: bool,
    /// A sentence on how many rounds the run has, and which shards lack rounds.
    pub why: String,
}

/// The properties that all shards of a run must have in common.
struct ShardIdentity {
    plan: Plan,
    version: String,
    build: String,
}

/// Merges shards into a run in `runs_root`: a new run, or the run that an earlier merge of the same plan and build made.
///
/// # Errors
/// A shard has another plan or build than the others, two shards measured the same round, or a file cannot be read or
/// written. The message names the shard. Shards before it stay merged, and a later merge continues.
pub fn merge(runs_root: &Path, shards: &[RunDir]) -> Result<MergeResult> {
    let [first, others @ ..] = shards else {
        return Err(Error::damaged(runs_root, "nothing to merge: it contains no shards"));
    };
    let expected = read_identity(first)?;
    for shard in others {
        expected.check_equal(&read_identity(shard)?).map_err(|difference| {
            let reason = format!("cannot be merged with {}: {difference}", first.path().display());
            Error::damaged(shard.path(), reason)
        })?;
    }
    let mut target = MergeTarget::open(runs_root, &expected)?;
    let added_cells = shards.iter().map(|shard| target.copy_shard(shard)).sum::<Result<usize>>()?;
    let shard_count = shards.iter().find_map(|shard| shard.plan().ok()?.stop.shard).map_or(1, |shard| shard.count);
    let (complete, why) = target.finish(&expected.plan, shard_count)?;
    Ok(MergeResult { run: target.run.clone(), added_cells, complete, why })
}

/// Reads the identity of a shard.
fn read_identity(shard: &RunDir) -> Result<ShardIdentity> {
    let plan = shard.plan()?;
    let path = shard.database_file();
    let db = schema::open_to_read(&path)?;
    let database = RunDatabase { db: &db, path: &path };
    let version = database.read_one("run", "SELECT version FROM run", |row| row.text(0))?;
    let facts = |row: &TableRow| row.json::<BTreeMap<String, String>>(1);
    let (hosts, _) = database.read_table("host", "SELECT id, facts FROM host", facts)?;
    let mut builds: BTreeSet<_> = hosts.iter().map(|facts| facts.get(BUILD_FACT).cloned()).collect();
    match (builds.pop_first(), builds.len()) {
        (Some(Some(build)), 0) => Ok(ShardIdentity { plan: without_machine_specifics(plan), version, build }),
        (Some(Some(_)), _) => Err(Error::damaged(shard.path(), "several builds of fsarena measured this run")),
        _ => Err(Error::damaged(
            shard.path(),
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
    plan.device.source_dir = plan.device.source_dir.map(|_| PathBuf::new());
    if let Some(other) = &mut plan.device.source_device {
        (other.path, other.signature) = (PathBuf::new(), None);
    }
    plan
}

impl ShardIdentity {
    /// Checks that another identity is the same; the error describes the difference.
    fn check_equal(&self, other: &ShardIdentity) -> std::result::Result<(), String> {
        let to_json = |plan: &Plan| serde_json::to_value(plan).unwrap_or_default();
        if let Some(difference) = first_difference("", &to_json(&self.plan), &to_json(&other.plan)) {
            return Err(format!("the plans differ in {difference}"));
        }
        if self.version != other.version {
            return Err(format!("fsarena {} measured it, and {} the other", other.version, self.version));
        }
        if self.build != other.build {
            let (its_build, expected_build) = (&other.build, &self.build);
            return Err(format!("another build of fsarena measured it ({its_build}, and {expected_build} the other)"));
        }
        Ok(())
    }

    /// The last part of the name of the merged run: 12 hexadecimal digits.
    fn hash_suffix(&self) -> String {
        let text = crate::insert::to_json(&(&self.plan, &self.version, &self.build));
        blake3::hash(text.as_bytes()).to_hex()[..12].to_string()
    }
}

/// The first key in which two JSON values differ, with the found and the expected value: `seed (8, and 7 in the
/// other)`. `path` is the key that leads to the values. None if they are equal.
fn first_difference(path: &str, expected: &Value, found: &Value) -> Option<String> {
    let (Value::Object(expected_map), Value::Object(found_map)) = (expected, found) else {
        return (expected != found).then(|| format!("{path} ({found}, and {expected} in the other)"));
    };
    let keys: BTreeSet<&String> = expected_map.keys().chain(found_map.keys()).collect();
    keys.into_iter().find_map(|key| {
        let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
        let missing = Value::Null;
        first_difference(&path, expected_map.get(key).unwrap_or(&missing), found_map.get(key).unwrap_or(&missing))
    })
}

/// The merged run, open for writing, while shards are copied into it.
struct MergeTarget {
    run: RunDir,
    db: Connection,
    db_path: PathBuf,
    command_log: CommandLog,
    /// The rounds that the run has, each with the host that measured it.
    hosts_by_round: BTreeMap<u32, String>,
    /// The metrics of all copied shards, each with the first shard that has it.
    metrics: DeclaredMetrics,
}

impl MergeTarget {
    /// Opens the merged run, makes it if it is missing, and locks it against other writers.
    fn open(runs_root: &Path, identity: &ShardIdentity) -> Result<MergeTarget> {
        let suffix = format!("-{}", identity.hash_suffix());
        let existing = RunDir::find_all(runs_root)?.into_iter().find(|run| run.id().ends_with(&suffix));
        let run = match existing {
            Some(run) => run,
            None => {
                RunDir::create_with_suffix(runs_root, &identity.plan, &identity.version, || identity.hash_suffix())?
            }
        };
        let command_log = CommandLog::open(&run.command_log_file())?;
        let db_path = run.database_file();
        let db = schema::open_to_merge(&db_path)?;
        db.execute_batch(&views::views_sql(&identity.plan)).map_err(Error::while_writing(&db_path))?;
        let rounds = read_rounds(&db, "main").map_err(Error::while_reading(&db_path))?;
        let mut metrics = DeclaredMetrics::default();
        declare_metrics(&db, "main", &run, &mut metrics)?;
        let hosts_by_round = rounds.into_iter().collect();
        Ok(MergeTarget { run, db, db_path, command_log, hosts_by_round, metrics })
    }

    /// Writes the status to the run and returns it: whether the run is complete, and a sentence about the missing rounds.
    /// `shard_count` is the number of shards of the plan.
    fn finish(&self, plan: &Plan, shard_count: u32) -> Result<(bool, String)> {
        let finished = self.finished_rounds().map_err(Error::while_reading(&self.db_path))?;
        let round_count = plan.stop.all_rounds();
        let missing: Vec<u32> = (0..round_count).filter(|round| !finished.contains(round)).collect();
        let complete = missing.is_empty();
        let why = if complete {
            let hosts = self.hosts_by_round.values().collect::<BTreeSet<_>>().len();
            format!("merged: all {} rounds, of {}", plan.stop.rounds, plural(hosts, "host"))
        } else {
            let merged = round_count as usize - missing.len();
            let shards = name_shards(&missing, shard_count.max(1));
            format!("{merged} of {round_count} rounds are merged; shards {shards} lack rounds")
        };
        self.db
            .execute("UPDATE run SET complete = ?1, why = ?2", params![complete, why])
            .map_err(Error::while_writing(&self.db_path))?;
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
    let ellipsis = if shards.len() > 8 { ", …" } else { "" };
    format!("{}{ellipsis}", names.join(", "))
}

impl Drop for MergeTarget {
    /// Leaves a single database file without `-wal` and `-shm` files, like [`crate::Writer`].
    fn drop(&mut self) {
        let _ = self.db.query_row("PRAGMA journal_mode = DELETE", [], |_| Ok(()));
    }
}

/// Every pair of a round and the name of a host that measured cells of it. `schema` is the name under which the database is
/// attached.
fn read_rounds(db: &Connection, schema: &str) -> rusqlite::Result<Vec<(u32, String)>> {
    let sql = format!(
        "SELECT DISTINCT cell.round, host.hostname
         FROM {schema}.cell CROSS JOIN {schema}.host ON host.id = cell.host"
    );
    let mut statement = db.prepare(&sql)?;
    statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
}

/// Copies the names of hosts, variants, tasks and metrics from the attached shard (`shard`) to the merged run
/// (`main`), and fills two temporary tables: `new_cell` with the ids of the shard's cells that the run lacks,
/// and `map` with the id in the run (`new`) for each id in the shard (`old`).
const MAP_IDS: &str = "
CREATE TEMP TABLE IF NOT EXISTS new_cell(id INTEGER PRIMARY KEY);
CREATE TEMP TABLE IF NOT EXISTS map(kind TEXT, old INTEGER, new INTEGER, PRIMARY KEY(kind, old)) WITHOUT ROWID;
DELETE FROM new_cell;
DELETE FROM map;
INSERT OR IGNORE INTO main.host(hostname, boot_id, kernel, facts)
    SELECT hostname, boot_id, kernel, facts FROM shard.host ORDER BY id;
INSERT OR IGNORE INTO main.variant(name, levels) SELECT name, levels FROM shard.variant ORDER BY id;
INSERT OR IGNORE INTO main.task(name, params, title, number, in_totals)
    SELECT name, params, title, number, in_totals FROM shard.task ORDER BY id;
INSERT OR IGNORE INTO main.metric(name, unit, direction, scope, over_tasks, over_ranks, over_hosts, numerator, denominator, help)
    SELECT name, unit, direction, scope, over_tasks, over_ranks, over_hosts, numerator, denominator, help
    FROM shard.metric ORDER BY id;
INSERT INTO map SELECT 'host', s.id, m.id FROM shard.host s CROSS JOIN main.host m
    USING(hostname, boot_id, kernel, facts);
INSERT INTO map SELECT 'variant', s.id, m.id FROM shard.variant s CROSS JOIN main.variant m USING(name, levels);
INSERT INTO map SELECT 'task', s.id, m.id FROM shard.task s CROSS JOIN main.task m USING(name, params);
INSERT INTO map SELECT 'metric', s.id, m.id FROM shard.metric s CROSS JOIN main.metric m USING(name);
INSERT INTO new_cell SELECT id FROM shard.cell s
    WHERE NOT EXISTS (SELECT 1 FROM main.cell m WHERE m.hash = s.hash);
";

/// Selects a cell that both the shard and the merged run have, but with another start time: two machines measured it.
const MEASURED_TWICE: &str = "
SELECT s.round, v.name, h.hostname FROM shard.cell s CROSS JOIN main.cell m USING(hash)
    CROSS JOIN main.host h ON h.id = m.host CROSS JOIN main.variant v ON v.id = m.variant
WHERE m.started_at <> s.started_at LIMIT 1";

/// How the rows of each table are copied from the shard: the table, the selected columns, the joins, and the condition for new
/// rows. `+C` stands for the offset of the ids of cells, `+S` for the offset of the ids of samples.
const COPIED_TABLES: [(&str, &str, &str, &str); 5] = [
    (
        "cell",
        "id+C, hash, round, position, v.new, workload, outcome, h.new, started_at, spent",
        "CROSS JOIN map v ON v.kind = 'variant' AND v.old = s.variant
         CROSS JOIN map h ON h.kind = 'host' AND h.old = s.host",
        "s.id IN new_cell",
    ),
    (
        "sample",
        "id+S, cell+C, t.new, started_at",
        "CROSS JOIN map t ON t.kind = 'task' AND t.old = s.task",
        "s.cell IN new_cell",
    ),
    ("value", "sample+S, m.new, value", "CROSS JOIN map m ON m.kind = 'metric' AND m.old = s.metric", IS_OF_NEW_SAMPLE),
    (
        "series",
        "sample+S, point, start_s, length_s, warm_up, operations, bytes,
         latency_p50_ns, latency_p99_ns, latency_p999_ns",
        "",
        IS_OF_NEW_SAMPLE,
    ),
    ("latencies", "sample+S, counts", "", IS_OF_NEW_SAMPLE),
];
/// The condition for rows that belong to samples of new cells. If all cells of the shard are new, `TRUE` replaces it.
const IS_OF_NEW_SAMPLE: &str = "s.sample IN (SELECT id FROM shard.sample WHERE cell IN new_cell)";
/// Statements that copy notes: the notes of new cells, and the notes that belong to no cell. The latter are often the same on
/// every machine and are copied once.
const COPY_NOTES: [&str; 2] = [
    "INSERT INTO main.note(round, cell, kind, variant, task, text, fix)
     SELECT round, cell+C, kind, variant, task, text, fix FROM shard.note WHERE cell IN new_cell ORDER BY id",
    "INSERT INTO main.note(round, cell, kind, variant, task, text, fix)
     SELECT round, NULL, kind, variant, task, text, fix FROM shard.note WHERE cell IS NULL
     EXCEPT SELECT round, NULL, kind, variant, task, text, fix FROM main.note WHERE cell IS NULL",
];

/// Copies the rounds of the shard with their orders and hosts, except rounds that the merged run has finished: an interrupted
/// attempt of another machine may have begun one of them.
const COPY_ROUNDS: &str = "
INSERT OR REPLACE INTO main.round(number, host, variant_order, finished)
SELECT r.number, h.new, r.variant_order, r.finished FROM shard.round r
CROSS JOIN map h ON h.kind = 'host' AND h.old = r.host
WHERE NOT EXISTS (SELECT 1 FROM main.round m WHERE m.number = r.number AND m.finished = 1)";

/// Widens the start and end of the merged run, so that they include the shard.
const UPDATE_RUN_TIMES: &str = "
UPDATE main.run SET
    started = CASE WHEN (SELECT count(*) FROM main.cell) = 0 THEN (SELECT started FROM shard.run)
              ELSE min(started, (SELECT started FROM shard.run)) END,
    ended = max(ended, (SELECT ended FROM shard.run))";

impl MergeTarget {
    /// Copies the new cells of a shard with their logs and outputs, and returns the number of cells.
    fn copy_shard(&mut self, shard: &RunDir) -> Result<usize> {
        let path = shard.database_file();
        self.db
            .execute("ATTACH ?1 AS shard", [schema::sqlite_uri(&path, "mode=ro")?])
            .map_err(Error::while_reading(&path))?;
        let copied = self.copy_attached(shard);
        let _ = self.db.execute_batch("DETACH shard");
        let cell_count = copied?;
        dir::copy_missing_outputs(&shard.output_dir(), &self.run.output_dir())?;
        Ok(cell_count)
    }

    /// Copies the rows and the commands of new cells from the database that is attached as `shard`, in one transaction.
    /// Returns the number of these cells.
    fn copy_attached(&mut self, shard: &RunDir) -> Result<usize> {
        let path = shard.database_file();
        let hosts_by_round = self.read_hosts_by_round(shard)?;
        let transaction = self.db.transaction().map_err(Error::while_writing(&self.db_path))?;
        // An error may come from either file. A full disk is an error of the merged run; any other, of the shard.
        let to_error = |error: rusqlite::Error| match error.sqlite_error_code() {
            Some(rusqlite::ErrorCode::DiskFull) => Error::while_writing(&self.db_path)(error),
            _ => Error::while_reading(&path)(error),
        };
        declare_metrics(&transaction, "shard", shard, &mut self.metrics)?;
        transaction
            .execute_batch(UPDATE_RUN_TIMES)
            .and_then(|()| transaction.execute_batch(MAP_IDS))
            .map_err(to_error)?;
        check_measured_once(&transaction, shard)?;
        let new_cells = new_cell_hashes(&transaction).map_err(to_error)?;
        let query_number = |sql: &str| transaction.query_row(sql, [], |row| row.get::<_, i64>(0)).map_err(to_error);
        let last_cell = query_number("SELECT ifnull(max(id), 0) FROM main.cell")?;
        let last_sample = query_number("SELECT ifnull(max(id), 0) FROM main.sample")?;
        let with_offsets =
            |sql: &str| sql.replace("+C", &format!(" + {last_cell}")).replace("+S", &format!(" + {last_sample}"));
        let is_all_new = query_number("SELECT count(*) FROM shard.cell")? == new_cells.len() as i64;
        for (table, columns, joins, condition) in COPIED_TABLES {
            let condition = if is_all_new && condition == IS_OF_NEW_SAMPLE { "TRUE" } else { condition };
            let expected = query_number(&format!("SELECT count(*) FROM shard.{table} s WHERE {condition}"))?;
            let insert = format!(
                "INSERT INTO main.{table} SELECT {} FROM shard.{table} s {joins} WHERE {condition}",
                with_offsets(columns)
            );
            if transaction.execute(&insert, []).map_err(to_error)? as i64 != expected {
                let reason = format!("damaged: table {table} refers to rows that are missing");
                return Err(Error::damaged(&path, reason));
            }
        }
        for copy_notes in COPY_NOTES {
            transaction.execute(&with_offsets(copy_notes), []).map_err(to_error)?;
        }
        transaction.execute_batch(COPY_ROUNDS).map_err(to_error)?;
        let (lines, command_count) = read_commands_of(shard, &new_cells)?;
        let add_count = "UPDATE main.run SET commands = commands + ?1";
        transaction.execute(add_count, [command_count as i64]).map_err(to_error)?;
        // Before the commit: if fsarena dies between the two, the next merge copies these cells again. The log then has
        // their commands twice; in the other order it would never get them.
        self.command_log.append_lines(&lines)?;
        transaction.commit().map_err(Error::while_writing(&self.db_path))?;
        self.hosts_by_round.extend(hosts_by_round);
        Ok(new_cells.len())
    }

    /// The rounds of a shard with their hosts. Returns an error if two hosts measured the same round: variants are compared
    /// within rounds.
    fn read_hosts_by_round(&self, shard: &RunDir) -> Result<BTreeMap<u32, String>> {
        let rounds = read_rounds(&self.db, "shard").map_err(Error::while_reading(&shard.database_file()))?;
        let mut hosts_by_round: BTreeMap<u32, String> = BTreeMap::new();
        for (round, host) in rounds {
            let earlier = hosts_by_round.get(&round).or(self.hosts_by_round.get(&round));
            if let Some(other_host) = earlier.filter(|other| **other != host) {
                let number = round + 1;
                let reason = format!(
                    "cannot be merged: round {number} was measured on two hosts, {other_host} and {host}; leave out one of the runs"
                );
                return Err(Error::damaged(shard.path(), reason));
            }
            hosts_by_round.insert(round, host);
        }
        Ok(hosts_by_round)
    }
}

/// The log lines of a shard's new cells and those that belong to no cell, and the number of commands in them. Nothing
/// if no cell is new.
fn read_commands_of(shard: &RunDir, new_cells: &HashSet<String>) -> Result<(String, u64)> {
    let (mut lines, mut command_count) = (String::new(), 0);
    if !new_cells.is_empty() {
        for_each_command(shard, &mut |line: &CommandLogLine| {
            if line.cell.as_ref().is_none_or(|cell| new_cells.contains(cell)) {
                lines.push_str(&to_json_line(line));
                command_count += line.command.times;
            }
        })?;
    }
    Ok((lines, command_count))
}

/// The hashes of the cells in the temporary table `new_cell`.
fn new_cell_hashes(db: &Connection) -> rusqlite::Result<HashSet<String>> {
    let mut statement = db.prepare("SELECT hash FROM new_cell CROSS JOIN shard.cell c ON c.id = new_cell.id")?;
    statement.query_map([], |row| row.get(0))?.collect()
}

/// Adds the metrics of a run, which is attached under the name `schema`, to `metrics`. Returns an error if a run that was added
/// before defines one of them in another way.
fn declare_metrics(db: &Connection, schema: &str, run: &RunDir, metrics: &mut DeclaredMetrics) -> Result<()> {
    let origin = run.path().display().to_string();
    for metric in read::read_reading_definitions(&RunDatabase { db, path: &run.database_file() }, schema)?.0 {
        metrics
            .declare(&metric, &origin)
            .map_err(|error| Error::damaged(run.path(), format!("cannot be merged: {error}")))?;
    }
    Ok(())
}

/// Returns an error if another shard measured the same cell: fsarena must not choose between two values.
fn check_measured_once(db: &Connection, shard: &RunDir) -> Result<()> {
    let conflict = db
        .query_row(MEASURED_TWICE, [], |row| {
            Ok((row.get::<_, u32>(0)?, row.get::<_, String>(1)?, row.get::<_, String>(2)?))
        })
        .optional();
    let Some((round, variant, host)) = conflict.map_err(Error::while_reading(&shard.database_file()))? else {
        return Ok(());
    };
    let round = round + 1;
    let reason = format!(
        "cannot be merged: another run, on host {host}, also measured round {round} of {variant}; leave out one of the runs"
    );
    Err(Error::damaged(shard.path(), reason))
}

#[cfg(test)]
mod tests;
