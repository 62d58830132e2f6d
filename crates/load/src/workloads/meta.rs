//! `meta`: the metadata operations of clients that share a filesystem, in the phases of mdtest.
//!
//! Each client creates files and directories with separate names, in separate directories or in shared ones. It looks
//! up and reads those of another client.

use crate::task::{self, Action, Result, Task, failed_to};
use crate::workload::{Client, Job, Place, Room, Survey, Workload, remark_note};
use fsarena_core::setting::{SettingDef, WorkloadDef};
use fsarena_core::{cell::TaskInfo, metric::reading, sample::Readings};
use fsarena_engine::meta::{self, Operation, Sharing};
use std::{path::Path, sync::Arc, time::Instant};

/// The workload.
pub struct Meta;

/// Number of names of each client: at the scale `paper`, and the smallest number at any scale.
const NAMES_PER_CLIENT: (u64, u64) = (10_000, 20);

const DEF: WorkloadDef = WorkloadDef {
    id: "meta",
    help: "create, stat, read, find and remove files and directories, by many clients, as mdtest does",
    metrics: &["all_iops_per_s", "elapsed"],
    settings: &[
        SettingDef::int("names", 0..=100_000_000, 0).help(
            "how many files, and how many directories, each client makes; 0 means 10,000 at the scale paper, 313 at quick and 20 at tiny",
        ),
        SettingDef::choice("dirs", &["own", "shared"], "own")
            .help("whether each client has separate directories, or all share the same ones"),
        SettingDef::int("depth", 0..=16, 0)
            .help("levels of directories below the top one; names lie in the lowest"),
        SettingDef::int("branching", 1..=1000, 2).help("directories in each directory of a tree"),
        SettingDef::size("bytes", 0..=1 << 20, 0).help("bytes of each file"),
    ],
};

/// Names, titles and operations of the tasks. Tasks that look up or read use the names of another client. A task
/// without an operation walks through all directories.
const TASKS: [(&str, &str, Option<Operation>); 8] = [
    ("mkdir", "Make directories", Some(Operation::Mkdir)),
    ("stat-dir", "Look at another client's directories", Some(Operation::StatDir)),
    ("rmdir", "Remove directories", Some(Operation::Rmdir)),
    ("create", "Create files", Some(Operation::Create)),
    ("stat", "Look at another client's files", Some(Operation::Stat)),
    ("read", "Read another client's files", Some(Operation::Read)),
    ("find", "Find all files", None),
    ("remove", "Remove files", Some(Operation::Unlink)),
];

fn task_info(job: &Job, name: &str, title: &str) -> TaskInfo {
    let dirs = job.settings.text("dirs");
    task::info(name, format!("{title} ({dirs} directories)"), [("dirs", dirs.to_string())])
}

/// The job of the load engine for each client.
fn client_job(job: &Job) -> meta::MetaJob {
    let is_shared = job.settings.text("dirs") == "shared";
    meta::MetaJob {
        names: job.count_or_published("names", NAMES_PER_CLIENT) as u32,
        sharing: if is_shared { Sharing::Shared } else { Sharing::Private },
        depth: job.settings.int("depth") as u32,
        fan_out: job.settings.int("branching") as u32,
        bytes: job.settings.int("bytes") as u32,
        interval_ms: 20,
        ..meta::MetaJob::default()
    }
}

/// Walks through a directory tree and reads the status of every entry. Returns the number of entries.
fn count_entries(dir: &Path) -> std::io::Result<u64> {
    let mut entry_count = 0;
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        entry_count += 1;
        if entry.metadata()?.is_dir() {
            entry_count += count_entries(&entry.path())?;
        }
    }
    Ok(entry_count)
}

/// Walks through all directories and returns the readings: the number and the rate of entries.
fn time_find(root: &Path) -> Result<Readings> {
    let start = Instant::now();
    let entry_count = count_entries(root).map_err(failed_to("find in", root))? as f64;
    let elapsed = start.elapsed();
    let mut readings = Readings::default();
    readings.set("all_operations_count", entry_count);
    readings.set("all_iops_per_s", entry_count / elapsed.as_secs_f64());
    readings.set(reading::LOAD_ELAPSED, elapsed.as_nanos() as f64);
    Ok(readings)
}

impl Workload for Meta {
    fn def(&self) -> &'static WorkloadDef {
        &DEF
    }

    fn outline(&self, job: &Job) -> Vec<TaskInfo> {
        TASKS.iter().map(|(name, title, _)| task_info(job, name, title)).collect()
    }

    fn survey(&self, job: &Job) -> Result<Survey> {
        let client_job = client_job(job);
        client_job.check()?;
        let meta::MetaJob { names, depth, fan_out, bytes, .. } = client_job;
        let tree_directories: u64 = (0..=depth).map(|level| u64::from(fan_out).pow(level)).sum();
        // The directory above the trees counts too.
        let inodes = u64::from(names) + tree_directories + 1;
        // On most filesystems, a small file takes at least 1 KiB.
        let bytes_each = u64::from(bytes).next_multiple_of(4096).max(1024);
        let room = Room { bytes: inodes * bytes_each, inodes, source_bytes: 0 };
        let remarks = vec![remark_note(format!("each client makes {names} files and as many directories"))];
        Ok(Survey { room, remarks, ..Survey::default() })
    }

    fn shares_directory(&self) -> bool {
        true
    }

    fn client_tasks(&self, job: &Job, place: &Place, client: Client) -> Result<Vec<Task>> {
        let engine_client = |number| meta::MetaClient::new(client_job(job), &place.root, number).map(Arc::new);
        // The client whose names it looks up and reads is another one.
        let (own_client, other_client) = (engine_client(client.index)?, engine_client(client.reads_from)?);
        let mut make_directories = Some(Action::call_with(&own_client, ["make", "directories"], |own_client| {
            Ok(own_client.create_directories()?)
        }));
        let mut tasks = vec![];
        for (name, title, operation) in TASKS {
            let work = match operation {
                None => Action::call_on("find", &place.root, time_find),
                Some(operation) => {
                    let uses_other_files = matches!(operation, Operation::StatDir | Operation::Stat | Operation::Read);
                    let client = if uses_other_files { &other_client } else { &own_client };
                    Action::call_with(client, [operation.name()], move |client| {
                        Ok(client.perform(operation)?.task_output())
                    })
                }
            };
            tasks.push(Task::new(task_info(job, name, title), work).with_preparation(make_directories.take()));
        }
        Ok(tasks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{job, perform_all, place};

    #[test]
    fn the_survey_refuses_too_many_directories() {
        let job = job(&DEF, 1, &[("depth", "16"), ("branching", "16")]);
        let error = Meta.survey(&job).unwrap_err();
        assert!(error.to_string().contains("at most a million"), "{error}");
    }

    #[test]
    fn the_survey_counts_every_directory_of_a_tree() {
        let inodes = |depth: &str, branching: &str| {
            let settings = [("names", "100"), ("depth", depth), ("branching", branching)];
            Meta.survey(&job(&DEF, 1, &settings)).unwrap().room.inodes
        };
        assert_eq!([inodes("0", "2"), inodes("16", "1"), inodes("2", "3")], [102, 118, 114]);
    }

    #[test]
    fn clients_find_the_files_of_others_and_remove_their_own() {
        for dirs in ["own", "shared"] {
            let dir = tempfile::tempdir().unwrap();
            let place = place(dir.path());
            let job = job(&DEF, 1, &[("dirs", dirs), ("depth", "1"), ("bytes", "10")]);
            let client_of = |index: u32| Client { index, client_count: 2, reads_from: 1 - index };
            let mut clients: Vec<_> =
                [0, 1].map(|index| Meta.client_tasks(&job, &place, client_of(index)).unwrap().into_iter()).into();
            for _ in TASKS {
                let tasks: Vec<Task> = clients.iter_mut().map(|tasks| tasks.next().unwrap()).collect();
                // As in a run, all clients prepare a task before any client starts it.
                let (preparation, work): (Vec<_>, Vec<_>) =
                    tasks.into_iter().map(|task| (task.preparation, task.work)).unzip();
                perform_all(preparation.into_iter().flatten());
                let outputs = work.into_iter().flatten().map(|action| perform_all([action]));
                let counts: Vec<f64> =
                    outputs.filter_map(|output| output.readings.get("all_operations_count")).collect();
                assert!(counts.len() == 2 && counts.iter().all(|count| *count >= 20.0), "{counts:?}");
            }
            let entry_count = count_entries(dir.path()).unwrap();
            let directory_count = if dirs == "own" { 1 + 2 * 3 } else { 1 + 3 };
            assert_eq!(entry_count, directory_count, "only the directories of the trees are left");
        }
    }
}
