//! Merges shards: the rounds that several machines ran of one plan become one run.
//!
//! The merged run has a name that follows from the plan, the seed and the build, so that a merge that was cut short, or
//! gets further shards, goes on where it stopped. A cell is known by its hash: it is taken once.

mod take;

use crate::rows::{Cursor, Source};
use crate::{Error, Result, RunDir, log::CommandLog, read, schema};
use fsarena_core::plan::{Backing, Plan};
use fsarena_core::{host::BUILD, metric::Declared, number::plural};
use rusqlite::{Connection, params};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// A merged run, and what it lacks.
#[derive(Debug)]
pub struct Merged {
    /// Where it is.
    pub run: RunDir,
    /// Cells that this merge added.
    pub added: usize,
    /// Whether every round of the plan is there.
    pub complete: bool,
    /// The same in words, with what is missing.
    pub why: String,
}

/// What shards must share.
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

/// What a part says of itself.
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
    /// What differs from another, in words.
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

    /// The end of the merged run's name.
    fn letters(&self) -> String {
        let text = crate::cell::json(&(&self.plan, &self.version, &self.build));
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

    /// Notes in the run what it lacks.
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

#[cfg(test)]
mod tests;
