//! `postgres`: the real PostgreSQL with its data on the filesystem under test, and pgbench, read-only and simple-update.
//!
//! Creating the cluster and loading the tables is not timed. Each task starts a server, to which pgbench connects over a
//! Unix socket, and ends it with a checkpoint. So all CPU time and I/O of the server belongs to the task, and no server runs
//! while fsarena waits until the machine is idle.

mod pgbench;
mod server;
mod settings;

use crate::task::{Action, Result, Task, TaskError, no_figures};
use crate::web::FAILED;
use crate::workload::{Job, Place, Room, Survey, Workload, fairness, remark};
use crate::workloads::postgres::server::{Cluster, PROGRAMS};
use crate::workloads::postgres::settings::{PgbenchTask, PostgresSettings, database_name};
use fsarena_core::sample::{ReadingDef, Readings, TaskOutput, Unit};
use fsarena_core::{cell::TaskInfo, event::Note, metric::reading, setting::WorkloadDef};

/// The workload.
pub struct Postgres;

const DEF: WorkloadDef = WorkloadDef {
    id: "postgres",
    help: "the real PostgreSQL with its data on the filesystem under test, by pgbench: read-only and simple-update",
    metrics: &["tps", "all_latency_p99_ns"],
    settings: settings::SETTINGS,
};

/// Bytes of write-ahead log that the transactions wrote.
const WAL: &str = "wal_bytes";
/// Checkpoints that ended while pgbench ran.
const CHECKPOINTS: &str = "checkpoints_count";

/// The readings of a database, besides those of the load engine.
pub const READINGS: &[ReadingDef] = &[
    ReadingDef::higher(reading::TRANSACTIONS, Unit::PerSecond)
        .help("transactions a second, connecting excluded, as pgbench prints them"),
    ReadingDef::lower(WAL, Unit::Bytes)
        .help("write-ahead log that the transactions wrote, by the position in the log before and after"),
    ReadingDef::neutral(CHECKPOINTS, Unit::Count)
        .help("checkpoints of the server that ended while pgbench ran"),
];

/// Bytes of tables and indexes for each unit of the scale factor; PostgreSQL 15 takes 15.0 MB.
const UNIT_BYTES: u64 = 16 << 20;
/// Bytes of a new cluster, with the first files of its write-ahead log.
const CLUSTER_BYTES: u64 = 128 << 20;
/// Bytes of a database without tables.
const DATABASE_BYTES: u64 = 16 << 20;
/// The largest number of bytes that updates add to tables in a second.
const GROWTH_PER_S: u64 = 8 << 20;
/// The largest number of bytes that updates add to the write-ahead log in a second.
const WAL_PER_S: u64 = 64 << 20;
/// The largest number of bytes that pgbench logs in a second.
const LOG_PER_S: f64 = 8e6;
/// Bytes of one file of the write-ahead log.
const WAL_SEGMENT_BYTES: u64 = 16 << 20;
/// Files of a new cluster and its databases; PostgreSQL 15 makes about 1,000 and 300 more for each database.
const CLUSTER_FILES: u64 = 4096;

impl Workload for Postgres {
    fn def(&self) -> &'static WorkloadDef {
        &DEF
    }

    fn outline(&self, job: &Job) -> Vec<TaskInfo> {
        settings::pgbench_tasks(job).into_iter().map(PgbenchTask::info).collect()
    }

    fn survey(&self, job: &Job) -> Result<Survey> {
        let settings = PostgresSettings::resolve(job)?;
        Ok(Survey { room: room(&settings), remarks: remarks(&settings), ..Survey::default() })
    }

    fn programs(&self, _: &Job) -> Vec<&'static str> {
        PROGRAMS.into()
    }

    fn server_users(&self) -> &'static [&'static str] {
        server::DEF.users
    }

    fn tasks(&self, job: &Job, place: &Place) -> Result<Vec<Task>> {
        let settings = PostgresSettings::resolve(job)?;
        let needed = (Cluster::new(place)?, settings);
        let (cluster, settings) = &needed;
        let init = ["initdb".to_string(), cluster.data.display().to_string()];
        let init = Action::with(&needed, init, |(cluster, settings)| cluster.init(settings));
        let words =
            ["pgbench", "-i"].map(String::from).into_iter().chain(settings.databases().map(database_name));
        let mut prepare =
            vec![init, Action::with(&needed, words, |(cluster, settings)| fill(cluster, settings))];
        let mut tasks = vec![];
        for task in settings.tasks.iter().copied() {
            let words = std::iter::once("pgbench".to_string()).chain(server::arguments(settings, task));
            let work =
                Action::with(&needed, words, move |(cluster, settings)| measure(cluster, settings, task));
            // Only the first task makes the cluster and the tables.
            tasks.push(Task::new(task.info(), work).after(std::mem::take(&mut prepare)));
        }
        Ok(tasks)
    }
}

/// The space that the databases and the write-ahead log take on the filesystem under test, and the log of pgbench on the source
/// disk.
fn room(settings: &PostgresSettings) -> Room {
    let tables: u64 = settings.databases().map(|scale| scale as u64 * UNIT_BYTES + DATABASE_BYTES).sum();
    let updates = settings.tasks.iter().filter(|task| task.updates);
    let updating: u64 = updates.map(|task| settings.seconds(*task)).sum();
    // `max_wal_size` is a soft limit: the log grows beyond it until a checkpoint ends.
    let wal = (tables + updating * WAL_PER_S).min(settings::max_wal_bytes(&settings.conf) / 4 * 5);
    let bytes = CLUSTER_BYTES + tables + updating * GROWTH_PER_S + wal;
    let longest = settings.tasks.iter().map(|task| settings.seconds(*task)).max().unwrap_or(0);
    let log = longest as f64 * LOG_PER_S * settings.sampling;
    Room { bytes, inodes: CLUSTER_FILES + bytes / WAL_SEGMENT_BYTES, other_bytes: (16 << 20) + log as u64 }
}

/// The notes on this workload in every report.
fn remarks(settings: &PostgresSettings) -> Vec<Note> {
    let text = format!(
        "pgbench by {} clients in {} threads, protocol {}, on a Unix socket, and its server on the same machine. A \
         task's elapsed time and CPU time include starting and stopping the server; the figures of transactions do not",
        settings.clients, settings.jobs, settings.protocol
    );
    let mut notes = vec![remark(text)];
    let weaker = settings::weakened_settings(&settings.conf).join(", ");
    if !weaker.is_empty() {
        let text = format!("{weaker}: a power cut can undo commits or damage the database");
        notes.push(fairness(text));
    }
    notes
}

/// Creates every database with its tables.
fn fill(cluster: &Cluster, settings: &PostgresSettings) -> Result<()> {
    let service = cluster.start()?;
    for scale in settings.databases() {
        cluster.load(&service, scale)?;
    }
    cluster.stop(service)
}

/// Starts a server and measures one run of pgbench.
fn measure(cluster: &Cluster, settings: &PostgresSettings, task: PgbenchTask) -> Result<TaskOutput> {
    let service = cluster.start()?;
    let wal = || cluster.sql(&service, "SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')");
    let before = wal()?;
    let (printed, logs) = cluster.bench(&service, settings, task)?;
    let after = wal()?;
    let checkpoints = service.log().matches("checkpoint complete").count();
    cluster.stop(service)?;

    let mut found = Readings::default();
    let figures = pgbench::parse(&printed).ok_or_else(|| no_figures(["pgbench", ""], &printed))?;
    if figures.transactions == 0.0 {
        return Err(TaskError::Unfit("no transaction ended in time: allow more seconds".into()));
    }
    found.set(reading::TRANSACTIONS, figures.tps);
    if task.updates {
        found.set(reading::COMMIT_RATE, figures.tps);
    }
    found.set(FAILED, figures.failed);
    found.set(CHECKPOINTS, checkpoints as f64);
    if let (Ok(before), Ok(after)) = (before.parse::<f64>(), after.parse::<f64>()) {
        found.set(WAL, after - before);
    }
    let mut log = pgbench::Log::default();
    for text in &logs {
        log.add(text).map_err(TaskError::Unfit)?;
    }
    let series = log.readings(settings.rate.is_some(), &mut found);
    Ok(TaskOutput { series, ..TaskOutput::from(found) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{self, ids};

    fn job(set: &[(&str, &str)]) -> Job {
        testing::job(&DEF, 3, set)
    }

    #[test]
    fn each_scale_factor_has_each_mode_once() {
        let outline = ids(&Postgres.outline(&job(&[("scale_factors", "1,20,1")])));
        let expected = [
            "read-only[scale=1]",
            "simple-update[scale=1]",
            "read-only[scale=20]",
            "simple-update[scale=20]",
        ];
        assert_eq!(outline, expected);
    }

    #[test]
    fn the_arguments_of_pgbench_follow_the_settings() {
        let set = [("clients", "16"), ("jobs", "4"), ("rate", "200")];
        let settings = PostgresSettings::resolve(&job(&set)).unwrap();
        let words = server::arguments(&settings, settings.tasks[1]).join(" ");
        assert_eq!(
            words,
            "--no-vacuum --skip-some-updates --client=16 --jobs=4 --protocol=prepared --time=1 --random-seed=3 --log \
             --rate=200"
        );
    }

    #[test]
    fn the_room_covers_tables_and_log_and_weakened_settings_get_a_remark() {
        let set = [("scale_factors", "100"), ("conf", "fsync=off; max_wal_size=80MB")];
        let survey = Postgres.survey(&job(&set)).unwrap();
        let mib = survey.room.bytes >> 20;
        assert!((1600 + 100..1600 + 300).contains(&mib), "{mib}");
        assert!(survey.remarks[1].text.starts_with("fsync=off: a power cut"), "{:?}", survey.remarks);
        assert!(Postgres.survey(&job(&[("conf", "port=1")])).is_err());
    }
}
