//! `postgres`: the real PostgreSQL with its data on the filesystem under test, and pgbench, read-only and
//! simple-update.
//!
//! Creating the cluster and loading the tables is not timed. Each task starts a server, to which pgbench connects over
//! a Unix socket, and ends it with a checkpoint. So all CPU time and I/O of the server belongs to the task, and no
//! server runs while fsarena waits until the machine is idle.

mod pgbench;
mod server;
mod settings;

use crate::task::{Action, Result, Task, TaskError, no_figures_error};
use crate::web::FAILED_COUNT;
use crate::workload::{Job, Place, Room, Survey, Workload, fairness_note, remark_note};
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
const WAL_BYTES: &str = "wal_bytes";
/// Checkpoints that ended while pgbench ran.
const CHECKPOINT_COUNT: &str = "checkpoints_count";

/// The readings of a database, besides those of the load engine.
pub const READINGS: &[ReadingDef] = &[
    ReadingDef::higher(reading::TRANSACTION_RATE, Unit::PerSecond)
        .help("transactions a second, connecting excluded, as pgbench prints them"),
    ReadingDef::lower(WAL_BYTES, Unit::Bytes)
        .help("write-ahead log that the transactions wrote, by the position in the log before and after"),
    ReadingDef::neutral(CHECKPOINT_COUNT, Unit::Count).help("checkpoints of the server that ended while pgbench ran"),
];

/// Bytes of tables and indexes for each unit of the scale factor; PostgreSQL 15 takes 15.0 MB.
const BYTES_PER_SCALE_UNIT: u64 = 16 << 20;
/// Bytes of a new cluster, with the first files of its write-ahead log.
const CLUSTER_BYTES: u64 = 128 << 20;
/// Bytes of a database without tables.
const DATABASE_BYTES: u64 = 16 << 20;
/// The largest number of bytes that updates add to tables in a second.
const TABLE_BYTES_PER_S: u64 = 8 << 20;
/// The largest number of bytes that updates add to the write-ahead log in a second.
const WAL_BYTES_PER_S: u64 = 64 << 20;
/// The largest number of bytes that pgbench logs in a second.
const LOG_BYTES_PER_S: f64 = 8e6;
/// Bytes of one file of the write-ahead log.
const WAL_SEGMENT_BYTES: u64 = 16 << 20;
/// Files of a new cluster and its databases; PostgreSQL 15 makes about 1,000 and 300 more for each database.
const CLUSTER_FILES: u64 = 4096;

impl Workload for Postgres {
    fn def(&self) -> &'static WorkloadDef {
        &DEF
    }

    fn outline(&self, job: &Job) -> Vec<TaskInfo> {
        settings::pgbench_tasks(job).into_iter().map(PgbenchTask::task_info).collect()
    }

    fn survey(&self, job: &Job) -> Result<Survey> {
        let settings = PostgresSettings::resolve(job)?;
        Ok(Survey { room: space_needed(&settings), remarks: remarks(&settings), ..Survey::default() })
    }

    fn programs(&self, _: &Job) -> Vec<&'static str> {
        PROGRAMS.into()
    }

    fn server_users(&self) -> &'static [&'static str] {
        server::SERVICE_DEF.users
    }

    fn tasks(&self, job: &Job, place: &Place) -> Result<Vec<Task>> {
        let settings = PostgresSettings::resolve(job)?;
        let input = (Cluster::new(place)?, settings);
        let (cluster, settings) = &input;
        let init_argv = ["initdb".to_string(), cluster.data_dir.display().to_string()];
        let init_cluster = Action::call_with(&input, init_argv, |(cluster, settings)| cluster.init(settings));
        let logged_argv =
            ["pgbench", "-i"].map(String::from).into_iter().chain(settings.database_scales().map(database_name));
        let mut preparation = vec![
            init_cluster,
            Action::call_with(&input, logged_argv, |(cluster, settings)| create_databases(cluster, settings)),
        ];
        let mut tasks = vec![];
        for task in settings.tasks.iter().copied() {
            let logged_argv = std::iter::once("pgbench".to_string()).chain(server::pgbench_arguments(settings, task));
            let work = Action::call_with(&input, logged_argv, move |(cluster, settings)| {
                measure_pgbench(cluster, settings, task)
            });
            // Only the first task makes the cluster and the tables.
            tasks.push(Task::new(task.task_info(), work).with_preparation(std::mem::take(&mut preparation)));
        }
        Ok(tasks)
    }
}

/// The space that the databases and the write-ahead log take on the filesystem under test, and the log of pgbench on
/// the source disk.
fn space_needed(settings: &PostgresSettings) -> Room {
    let table_bytes: u64 =
        settings.database_scales().map(|scale| scale as u64 * BYTES_PER_SCALE_UNIT + DATABASE_BYTES).sum();
    let update_tasks = settings.tasks.iter().filter(|task| task.updates);
    let update_seconds: u64 = update_tasks.map(|task| settings.task_seconds(*task)).sum();
    // `max_wal_size` is a soft limit: the log grows beyond it until a checkpoint ends.
    let max_wal_bytes = settings::max_wal_bytes(&settings.conf) / 4 * 5;
    let wal_bytes = (table_bytes + update_seconds * WAL_BYTES_PER_S).min(max_wal_bytes);
    let bytes = CLUSTER_BYTES + table_bytes + update_seconds * TABLE_BYTES_PER_S + wal_bytes;
    let max_seconds = settings.tasks.iter().map(|task| settings.task_seconds(*task)).max().unwrap_or(0);
    let log_bytes = max_seconds as f64 * LOG_BYTES_PER_S * settings.sampling_share;
    let source_bytes = (16 << 20) + log_bytes as u64;
    Room { bytes, inodes: CLUSTER_FILES + bytes / WAL_SEGMENT_BYTES, source_bytes }
}

/// The notes on this workload in every report.
fn remarks(settings: &PostgresSettings) -> Vec<Note> {
    let text = format!(
        "pgbench by {} clients in {} threads, protocol {}, on a Unix socket, and its server on the same machine. A \
         task's elapsed time and CPU time include starting and stopping the server; the figures of transactions do not",
        settings.clients, settings.threads, settings.protocol
    );
    let mut notes = vec![remark_note(text)];
    let weakened = settings::weakened_settings(&settings.conf).join(", ");
    if !weakened.is_empty() {
        let text = format!("{weakened}: a power cut can undo commits or damage the database");
        notes.push(fairness_note(text));
    }
    notes
}

/// Creates every database with its tables.
fn create_databases(cluster: &Cluster, settings: &PostgresSettings) -> Result<()> {
    let service = cluster.start()?;
    for scale in settings.database_scales() {
        cluster.create_database(&service, scale)?;
    }
    cluster.stop(service)
}

/// Starts a server and measures one run of pgbench.
fn measure_pgbench(cluster: &Cluster, settings: &PostgresSettings, task: PgbenchTask) -> Result<TaskOutput> {
    let service = cluster.start()?;
    let query_wal_position = || cluster.query(&service, "SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')");
    let wal_before = query_wal_position()?;
    let (printed, thread_logs) = cluster.run_pgbench(&service, settings, task)?;
    let wal_after = query_wal_position()?;
    let checkpoints = service.read_log().matches("checkpoint complete").count();
    cluster.stop(service)?;

    let mut readings = Readings::default();
    let figures = pgbench::parse_output(&printed).ok_or_else(|| no_figures_error(["pgbench", ""], &printed))?;
    if figures.transactions == 0.0 {
        return Err(TaskError::Unfit("no transaction ended in time: allow more seconds".into()));
    }
    readings.set(reading::TRANSACTION_RATE, figures.tps);
    if task.updates {
        readings.set(reading::COMMIT_RATE, figures.tps);
    }
    readings.set(FAILED_COUNT, figures.failed);
    readings.set(CHECKPOINT_COUNT, checkpoints as f64);
    if let (Ok(before), Ok(after)) = (wal_before.parse::<f64>(), wal_after.parse::<f64>()) {
        readings.set(WAL_BYTES, after - before);
    }
    let mut transactions = vec![];
    for text in &thread_logs {
        transactions.extend(pgbench::parse_thread_log(text).map_err(TaskError::Unfit)?);
    }
    let mut series = pgbench::set_readings(transactions, settings.rate_per_s.is_some(), &mut readings);
    if settings.sampling_share < 1.0 {
        // The log has only a share of the transactions, so it does not show their rate over time.
        series.clear();
    }
    Ok(TaskOutput { series, ..TaskOutput::from(readings) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{self, task_ids};

    fn job(changed_settings: &[(&str, &str)]) -> Job {
        testing::job(&DEF, 3, changed_settings)
    }

    #[test]
    fn each_scale_factor_has_each_mode_once() {
        let outline = task_ids(&Postgres.outline(&job(&[("scale_factors", "1,20,1")])));
        let expected =
            ["read-only[scale=1]", "simple-update[scale=1]", "read-only[scale=20]", "simple-update[scale=20]"];
        assert_eq!(outline, expected);
    }

    #[test]
    fn the_arguments_of_pgbench_follow_the_settings() {
        let changed_settings = [("clients", "16"), ("jobs", "4"), ("rate", "200")];
        let settings = PostgresSettings::resolve(&job(&changed_settings)).unwrap();
        let arguments = server::pgbench_arguments(&settings, settings.tasks[1]).join(" ");
        assert_eq!(
            arguments,
            "--no-vacuum --skip-some-updates --client=16 --jobs=4 --protocol=prepared --time=1 --random-seed=3 --log \
             --rate=200"
        );
    }

    #[test]
    fn the_room_covers_tables_and_log_and_weakened_settings_get_a_remark() {
        let changed_settings = [("scale_factors", "100"), ("conf", "fsync=off; max_wal_size=80MB")];
        let survey = Postgres.survey(&job(&changed_settings)).unwrap();
        let mib = survey.room.bytes >> 20;
        assert!((1600 + 100..1600 + 300).contains(&mib), "{mib}");
        assert!(survey.remarks[1].text.starts_with("fsync=off: a power cut"), "{:?}", survey.remarks);
        assert!(Postgres.survey(&job(&[("conf", "port=1")])).is_err());
    }
}
