//! `wal`: a write-ahead log, as databases have it. Each client appends a record and waits until it is on the device.
//! Clients that wait at the same time share one `fdatasync` (group commit).

mod log;

use crate::pace::{self, PacedLoad};
use crate::payload::{load_number, save_number};
use crate::task::{Action, Result, Task};
use crate::workload::{Job, Place, Room, Survey, Workload, remark};
use fsarena_core::cell::{TaskId, TaskInfo};
use fsarena_core::setting::{SettingDef, WorkloadDef};
use fsarena_core::{event::Note, sample::TaskOutput};
use fsarena_engine::custom_load;
use log::{Allocation, Log, LogShape};
use std::path::Path;

/// The workload.
pub struct Wal;

/// Seconds of a task by scale.
const SECONDS: [f64; 3] = [60.0, 1.5, 0.2];
/// The file on the source disk with the number of committed records.
const COMMITTED: &str = "committed";

const DEF: WorkloadDef = WorkloadDef {
    id: "wal",
    help: "append records to a log, each on the device before the next (fdatasync), flat out or at set rates, with group commit",
    metrics: &["commits_per_s", "latency_p50", "latency_p99", "latency_p999", "latency_max"],
    settings: &[
        SettingDef::ints("clients", 1..=1024, &[1])
            .help("clients that commit at once, each a task; those that wait together share one fdatasync"),
        SettingDef::size("record", 32..=1 << 20, 2300)
            .help("bytes of a record, with its header of 16 bytes; 2300 is usual in tests of disks for etcd"),
        SettingDef::choice("allocation", &["preallocate", "append", "recycle"], "preallocate")
            .help("segments get their blocks before use as in etcd, or grow with each record, or are old ones overwritten as RocksDB can"),
        SettingDef::size("segment", 0..=1 << 32, 0)
            .help("bytes after which the next segment begins; 0 for 64 MiB at scale paper as in etcd, 8 MiB at quick, 256 KiB at tiny"),
        SettingDef::int("keep", 1..=1000, 5)
            .help("segments that are kept; older ones are removed or recycled"),
        pace::RATES,
        pace::ARRIVALS,
        pace::SECONDS,
        pace::OPERATIONS,
    ],
};

fn task_info(load: PacedLoad) -> TaskInfo {
    load.info("wal", "Commit records to a log")
}

fn shape(job: &Job) -> LogShape {
    let settings = &job.settings;
    LogShape {
        record: settings.int("record") as usize,
        allocation: match settings.text("allocation") {
            "append" => Allocation::Append,
            "recycle" => Allocation::Recycle,
            _ => Allocation::Preallocate,
        },
        segment: job.number("segment", [64 << 20, 8 << 20, 256 << 10]),
        keep: settings.int("keep") as u64,
        seed: job.seed,
    }
}

impl Workload for Wal {
    fn def(&self) -> &'static WorkloadDef {
        &DEF
    }

    fn outline(&self, job: &Job) -> Vec<TaskInfo> {
        PacedLoad::all(&job.settings).into_iter().map(task_info).collect()
    }

    fn survey(&self, job: &Job) -> Result<Survey> {
        let shape = shape(job);
        let most = PacedLoad::all(&job.settings).iter().map(|load| load.clients).max().unwrap_or(1);
        // A group that is larger than `segment` makes its segment larger.
        let segment = shape.segment.max(u64::from(most) * shape.record as u64);
        let room = Room { bytes: (shape.keep + 2) * segment, inodes: shape.keep + 2, other_bytes: 4096 };
        Ok(Survey { room, remarks: remarks(job, &shape), ..Survey::default() })
    }

    fn steps(&self, job: &Job, place: &Place) -> Result<Vec<Task>> {
        let (dir, shape) = (place.root.join("wal"), shape(job));
        let task = |load: PacedLoad| {
            let (job, committed) = (job.clone(), place.other.join(COMMITTED));
            let empty = Action::on("empty", &dir, move |dir| log::prepare(dir, &shape));
            let work = Action::on("commit", &dir, move |dir| commit(&job, load, &shape, dir, &committed));
            Task::new(task_info(load), work).after([empty])
        };
        Ok(PacedLoad::all(&job.settings).into_iter().map(task).collect())
    }

    /// Checks that every committed record is in the log, which is read as a database does after a crash.
    fn checks(&self, job: &Job, place: &Place, _: &TaskId) -> Vec<Action> {
        let (committed, shape) = (place.other.join(COMMITTED), shape(job));
        vec![Action::on("replay", &place.root.join("wal"), move |dir| {
            log::verify(dir, &shape, load_number(&committed)?)
        })]
    }
}

fn commit(job: &Job, load: PacedLoad, shape: &LogShape, dir: &Path, committed: &Path) -> Result<TaskOutput> {
    let log = Log::open(dir, *shape)?;
    let outcome = custom_load::run(&load.config(job, &["commit"], pace::bound(job, SECONDS)), &log)?;
    let (records, syncs) = log.counts();
    let mut found = outcome.task_output();
    found.readings.set("sync_operations_count", syncs as f64);
    save_number(committed, records)?;
    Ok(found)
}

/// The notes on this workload in every report.
fn remarks(job: &Job, shape: &LogShape) -> Vec<Note> {
    let how = match shape.allocation {
        Allocation::Append => "that grow with each record",
        Allocation::Preallocate => "whose blocks are allocated before use",
        Allocation::Recycle => "that overwrite old ones",
    };
    let is_paced = job.settings.ints(pace::RATES.id).iter().any(|rate| *rate > 0);
    let paced = if is_paced { "; at a set rate latency counts from when a record was due" } else { "" };
    let text = format!(
        "wal: records of {} bytes in segments of {} KiB {how}, {} kept; a commit ends when fdatasync returns{paced}; all \
         kept records are read back and compared after each task",
        shape.record,
        shape.segment >> 10,
        shape.keep
    );
    vec![remark(text)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{self, ids, perform};
    use std::os::unix::fs::FileExt;

    fn job(set: &[(&str, &str)]) -> Job {
        testing::job(&DEF, 5, set)
    }

    /// Runs the first task, and returns the directories and the output of the task.
    fn committed(job: &Job) -> (tempfile::TempDir, Place, TaskOutput) {
        let dir = tempfile::tempdir().unwrap();
        let place = Place { root: dir.path().join("root"), other: dir.path().into(), server_user: None };
        std::fs::create_dir(&place.root).unwrap();
        let task = Wal.steps(job, &place).unwrap().remove(0);
        let found = perform(task.prepare.into_iter().chain(task.work));
        (dir, place, found)
    }

    fn verified(job: &Job, place: &Place) -> Result<(), String> {
        let check = Wal.checks(job, place, &TaskId::new("wal")).remove(0);
        check.perform(&mut |_| {}).map(drop).map_err(|error| error.to_string())
    }

    #[test]
    fn every_allocation_commits_and_keeps_whole_segments() {
        for allocation in ["append", "preallocate", "recycle"] {
            let set = [("operations", "100"), ("record", "512"), ("segment", "4096"), ("keep", "3")];
            let job = job(&[&set[..], &[("allocation", allocation), ("clients", "4")]].concat());
            let (_dir, place, found) = committed(&job);
            let get = |id: &str| found.readings.get(id);
            assert_eq!(get("commit_operations_count"), Some(100.0), "{allocation}");
            assert_eq!(get("all_operations_count"), Some(100.0));
            // Each sync commits the records of one to four clients.
            let syncs = get("sync_operations_count").unwrap();
            assert!((25.0..=100.0).contains(&syncs), "{syncs}");
            assert!(!found.series.is_empty());
            assert_eq!(verified(&job, &place), Ok(()), "{allocation}");
            let sizes: Vec<u64> = std::fs::read_dir(place.root.join("wal"))
                .unwrap()
                .map(|entry| entry.unwrap().metadata().unwrap().len())
                .collect();
            assert_eq!(sizes.len(), 3, "{allocation}");
            assert!(sizes.iter().all(|size| *size <= 4096 && (allocation == "append" || *size == 4096)));
        }
    }

    #[test]
    fn a_record_that_is_lost_or_damaged_is_a_violation() {
        // Eight records to a segment.
        let job = job(&[("operations", "20"), ("record", "512"), ("segment", "4096")]);
        let (_dir, place, _) = committed(&job);
        let second = log::segment_path(&place.root.join("wal"), 6);
        let file = std::fs::OpenOptions::new().read(true).write(true).open(second).unwrap();
        let mut byte = [0];
        file.read_exact_at(&mut byte, 1000).unwrap();
        file.write_all_at(&[!byte[0]], 1000).unwrap();
        assert!(verified(&job, &place).unwrap_err().contains("record 10 at byte 512 of"));
        // Zeros instead of record 10, as if it had never been written.
        file.write_all_at(&[0; 512], 512).unwrap();
        let error = verified(&job, &place).unwrap_err();
        assert!(
            error.contains("11 of 20 committed records are missing: the log ends after record 9"),
            "{error}"
        );
    }

    #[test]
    fn each_number_of_clients_and_rate_is_a_task_and_paced_latency_counts_from_the_due_time() {
        let job = job(&[("clients", "1,8"), ("rates", "0,500"), ("seconds", "0.05")]);
        let all =
            ["1,rate=max", "1,rate=500", "8,rate=max", "8,rate=500"].map(|one| format!("wal[clients={one}]"));
        assert_eq!(ids(&Wal.outline(&job)), all);
        let job = Job { settings: self::job(&[("rates", "500"), ("operations", "20")]).settings, ..job };
        let (_dir, place, found) = committed(&job);
        assert_eq!(found.readings.get("asked_iops_per_s"), Some(500.0));
        let p99 = (fsarena_core::metric::find("latency_p99").unwrap().from)(&|id| found.readings.get(id));
        // Converting to seconds and back can lose a fraction of a nanosecond.
        let ns = p99.map(|seconds| (seconds * 1e9).round());
        assert_eq!(ns, found.readings.get("corrected_latency_p99_ns"));
        assert_eq!(verified(&job, &place), Ok(()));
    }
}
