//! `shared`: clients that share a filesystem write and read data, as in IOR.
//!
//! Each client writes a separate file and reads that of another client. Then each writes its blocks of one file that
//! all share, and reads the blocks of another client.

use crate::task::{self, Action, Result, Task, failed_to};
use crate::workload::{Client, Demands, Job, Place, Room, Survey, Workload, remark_note};
use bytesize::ByteSize;
use fsarena_core::cell::TaskInfo;
use fsarena_core::setting::{SettingDef, WorkloadDef};
use fsarena_engine::strides;
use std::{fs::File, path::Path};

/// The workload.
pub struct Shared;

const DEF: WorkloadDef = WorkloadDef {
    id: "shared",
    help: "clients write files of their own and one file in strides, and read what another wrote, as IOR does",
    metrics: &["bandwidth", "elapsed"],
    settings: &[
        SettingDef::size("bytes", 0..=1 << 44, 0).help(
            "bytes that each client writes and reads; 0 for 1 GiB at scale paper, 32 MiB at quick, 2 MiB at tiny",
        ),
        SettingDef::size("bs", 512..=1 << 30, 256 << 10)
            .help("bytes of a block; in the shared file the blocks of the clients alternate"),
        SettingDef::flag("direct", false).help("use O_DIRECT"),
        SettingDef::flag("fsync", true).help("each client syncs its file after its last write, and that is timed"),
        SettingDef::choice("cache", &["drop", "keep"], "drop").help(
            "drop asks the kernel to drop the cached pages of a file before another client reads it (posix_fadvise)",
        ),
    ],
};

/// The definition of a task.
#[derive(Clone, Copy)]
struct TaskDef {
    name: &'static str,
    title: &'static str,
    /// Whether it writes; otherwise it reads.
    writes: bool,
    /// Whether it uses the file that all clients share.
    uses_shared_file: bool,
}

/// The tasks in order.
const TASKS: [TaskDef; 4] = [
    TaskDef { name: "write-own", title: "Write a file of one's own", writes: true, uses_shared_file: false },
    TaskDef { name: "read-other", title: "Read another client's file", writes: false, uses_shared_file: false },
    TaskDef { name: "write-strided", title: "Write one file in strides", writes: true, uses_shared_file: true },
    TaskDef { name: "read-strided", title: "Read another client's strides", writes: false, uses_shared_file: true },
];

fn task_info(def: TaskDef) -> TaskInfo {
    task::info(def.name, def.title, [])
}

/// The number of blocks that each client writes and reads.
fn block_count(job: &Job) -> u64 {
    job.int_or_by_scale("bytes", [1 << 30, 32 << 20, 2 << 20]).div_ceil(job.settings.int("bs") as u64)
}

/// The job of the load engine for a task: the blocks that a client writes, or the blocks of another client that it
/// reads.
fn strides_job(job: &Job, root: &Path, client: Client, def: TaskDef) -> strides::StridesJob {
    let block_bytes = job.settings.int("bs") as u32;
    // The client whose blocks the task writes or reads.
    let writer = if def.writes { client.index } else { client.reads_from };
    let name = if def.uses_shared_file { "strided".into() } else { format!("own-{writer}") };
    strides::StridesJob {
        path: root.join(name),
        is_write: def.writes,
        writer,
        first_block: if def.uses_shared_file { u64::from(writer) } else { 0 },
        stride: if def.uses_shared_file { u64::from(client.client_count) } else { 1 },
        block_count: block_count(job),
        block_bytes,
        direct: job.settings.flag("direct"),
        sync_at_end: job.settings.flag("fsync"),
        seed: job.seed,
    }
}

/// Advises the kernel to drop the cached pages of a file.
fn drop_cached_pages(path: &Path) -> Result<()> {
    let file = File::open(path).map_err(failed_to("open", path))?;
    // It is only a hint, so an error does not fail the task.
    let _ = rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed);
    Ok(())
}

impl Workload for Shared {
    fn def(&self) -> &'static WorkloadDef {
        &DEF
    }

    fn outline(&self, _: &Job) -> Vec<TaskInfo> {
        TASKS.map(task_info).into()
    }

    fn survey(&self, job: &Job) -> Result<Survey> {
        let bytes = block_count(job) * job.settings.int("bs") as u64;
        let room = Room { bytes: 2 * bytes, inodes: 2, source_bytes: 0 };
        let sync = if job.settings.flag("fsync") {
            "the measured time of writes includes the sync"
        } else {
            "writes are not synced"
        };
        let text = format!("each client moves {} in each task; {sync}", ByteSize(bytes));
        let demands = Demands { direct_io: job.settings.flag("direct"), ..Demands::default() };
        Ok(Survey { room, demands, remarks: vec![remark_note(text)], ..Survey::default() })
    }

    fn shares_directory(&self) -> bool {
        true
    }

    fn client_tasks(&self, job: &Job, place: &Place, client: Client) -> Result<Vec<Task>> {
        let drops_cache = job.settings.text("cache") == "drop";
        let mut tasks = vec![];
        for def in TASKS {
            let strides_job = strides_job(job, &place.root, client, def);
            let path = strides_job.path.clone();
            let preparation = (!def.writes && drops_cache).then(|| Action::call_on("forget", &path, drop_cached_pages));
            let work = Action::call_on(def.name, &path, move |_| Ok(strides::run(&strides_job)?.task_output()));
            tasks.push(Task::new(task_info(def), work).with_preparation(preparation));
        }
        Ok(tasks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{job, perform_all, place};

    #[test]
    fn clients_write_the_shared_file_together_and_read_the_blocks_of_each_other() {
        let dir = tempfile::tempdir().unwrap();
        let (place, job) = (place(dir.path()), job(&DEF, 3, &[("bytes", "1048576")]));
        let client_of = |index: u32| Client { index, client_count: 2, reads_from: 1 - index };
        let mut clients: Vec<_> =
            [0, 1].map(|client| Shared.client_tasks(&job, &place, client_of(client)).unwrap().into_iter()).into();
        // All clients finish a task before any client starts the next.
        for def in TASKS {
            for client in &mut clients {
                let task = client.next().unwrap();
                perform_all(task.preparation.into_iter().chain(task.work));
                assert_eq!(task.info.id.name, def.name);
            }
        }
        assert_eq!(dir.path().join("strided").metadata().unwrap().len(), 2 << 20);
        assert_eq!(dir.path().join("own-1").metadata().unwrap().len(), 1 << 20);
    }

    #[test]
    fn the_survey_counts_whole_blocks() {
        let survey = |bs: &str, bytes: &str| Shared.survey(&job(&DEF, 3, &[("bs", bs), ("bytes", bytes)])).unwrap();
        let large_block_survey = survey("1073741824", "2097152");
        assert_eq!(large_block_survey.room.bytes, 2 << 30);
        assert!(large_block_survey.remarks[0].text.contains("moves 1.0 GiB"));
        assert!(survey("512", "1024").remarks[0].text.contains("moves 1.0 KiB"));
    }
}
