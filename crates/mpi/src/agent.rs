//! How a rank supervises its agent, the process that does the work of one cell: its time limit, the start of each task, and
//! the partial samples for rank 0.

use crate::wire::Wire;
use fsarena_core::event::{Cause, Note, NoteKind, Outcome};
use fsarena_core::{metric::reading, plan::IdlePlan, sample::Sample, series::SeriesPoint};
use fsarena_run::idle::{self, wait_until_idle};
use fsarena_run::{CellError, protocol::AgentRequest};
use fsarena_sys::kernel::{self, SysRoot};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Supervises the agent of a rank in one cell.
pub struct AgentSupervisor {
    idle_plan: IdlePlan,
    /// The major and minor number of the device under test; `None` if the directory is not on a device.
    device: Option<(u32, u32)>,
    test_dir: PathBuf,
    /// The time limit of each task.
    timeout: Duration,
    /// The start of the current time limit; `None` while this client waits for others.
    limit_start: Option<Instant>,
    /// The current activity, for the message when the time limit is exceeded.
    activity: String,
    /// NFS traffic of this machine when the task began; `None` without NFS.
    nfs_before: Option<NfsBytes>,
}

impl AgentSupervisor {
    /// Begins to supervise the agent of one cell, which may take `timeout` for each task.
    pub fn new(request: &AgentRequest, timeout: Duration) -> AgentSupervisor {
        AgentSupervisor {
            idle_plan: request.idle.clone(),
            device: request.device,
            test_dir: request.root.clone(),
            timeout,
            limit_start: Some(Instant::now()),
            activity: "the preparation".into(),
            nfs_before: None,
        }
    }

    /// Stops the time limit, because the client waits for others.
    pub fn pause_timeout(&mut self) {
        self.limit_start = None;
    }

    /// Restarts the time limit, because the client continues.
    pub fn restart_timeout(&mut self) {
        self.limit_start = Some(Instant::now());
    }

    /// Waits until this machine is idle. Returns a note if it is still busy after the time limit.
    pub fn wait_until_idle(&mut self, task: &str) -> Option<Note> {
        self.activity = task.into();
        let target = idle::IdleTarget { kernel: &SysRoot::host(), device: self.device, timeouts_in_a_row: 0 };
        let wait = wait_until_idle(target, &self.idle_plan);
        if wait.busy.is_empty() {
            return None;
        }
        let text = format!("still busy after {:.1} s: {}", wait.waited.as_secs_f64(), wait.busy.join(", "));
        Some(Note::new(NoteKind::IdleTimeout, text).task(task))
    }

    /// The longest time that a machine may wait until it is idle.
    pub fn longest_idle_wait(&self) -> Duration {
        idle::longest_wait(&self.idle_plan)
    }

    /// Waits in the barrier for all ranks, and restarts the time limit for the task, which starts then. Returns
    /// [`Outcome::Done`], or the failure of the barrier.
    pub fn start_task(&mut self, wire: &dyn Wire) -> Outcome {
        self.nfs_before = read_nfs_traffic(&self.test_dir);
        if !wire.barrier(self.timeout) {
            return CellError::internal("not all ranks came to the barrier").into();
        }
        self.restart_timeout();
        Outcome::Done
    }

    /// Returns the partial sample of a finished task, which rank 0 receives. On NFS, the traffic with the server counts as
    /// the traffic of the device.
    pub fn finish_task(&mut self, sample: Sample) -> Sample {
        self.restart_timeout();
        self.activity = format!("the work after {}", sample.task.id);
        let mut sample = reduce_sample(sample);
        if let (Some(before), Some(after)) = (self.nfs_before.take(), read_nfs_traffic(&self.test_dir)) {
            sample.readings.set(reading::DEVICE_READ_BYTES, after.read - before.read);
            sample.readings.set(reading::DEVICE_WRITTEN_BYTES, after.written - before.written);
        }
        sample
    }

    /// Returns the failure if the agent has exceeded its time limit.
    pub fn timeout_failure(&self) -> Option<Outcome> {
        if self.limit_start?.elapsed() <= self.timeout {
            return None;
        }
        let why = format!("{} did not end within {:?} (--timeout)", self.activity, self.timeout);
        Some(CellError::new(Cause::Work, why).into())
    }
}

/// Reads the NFS traffic of a directory; `None` if it is not on NFS.
fn read_nfs_traffic(dir: &Path) -> Option<NfsBytes> {
    parse_mountstats(&SysRoot::host().read("proc/self/mountstats").ok()?, dir)
}

/// Bytes between an NFS client and its server since the mount.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct NfsBytes {
    read: f64,
    written: f64,
}

/// Finds the counters of a directory's mount in the text of `/proc/self/mountstats`; `None` if it is not on NFS.
fn parse_mountstats(text: &str, dir: &Path) -> Option<NfsBytes> {
    let mounts = text.split("device ").filter_map(|mount| {
        // server:/export mounted on /mnt with fstype nfs4 statvers=1.1
        let target = kernel::unescape(mount.split_once(" mounted on ")?.1.split_once(" with fstype ")?.0);
        dir.starts_with(&target).then_some((target, mount))
    });
    let (_, mount) = mounts.max_by_key(|(target, _)| target.len())?;
    // Read and written bytes: by normal calls, by direct I/O, and to and from the server.
    let counters = mount.lines().find_map(|line| line.trim_start().strip_prefix("bytes:"))?;
    let counters: Vec<f64> = counters.split_ascii_whitespace().map(|word| word.parse().ok()).collect::<Option<_>>()?;
    Some(NfsBytes { read: *counters.get(4)?, written: *counters.get(5)? })
}

/// The largest number of points of a time series in a partial sample. It suffices to count the operations of a client in a
/// part of its time.
const MAX_REDUCED_POINTS: usize = 20;

/// Reduces a sample for rank 0: joins the points of its time series until there are few, and removes their latencies.
pub fn reduce_sample(mut sample: Sample) -> Sample {
    let points_per_chunk = sample.series.len().div_ceil(MAX_REDUCED_POINTS).max(1);
    sample.series = sample.series.chunks(points_per_chunk).map(join_points).collect();
    sample
}

/// Joins consecutive points of a time series into one, without latencies.
fn join_points(points: &[SeriesPoint]) -> SeriesPoint {
    SeriesPoint {
        start_s: points[0].start_s,
        length_s: points.iter().map(|point| point.length_s).sum(),
        warm_up: points.iter().all(|point| point.warm_up),
        operations: points.iter().map(|point| point.operations).sum(),
        bytes: points.iter().map(|point| point.bytes).sum(),
        latency: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::merge::tests::sample;

    const MOUNTSTATS: &str = "device rootfs mounted on / with fstype ext4\n\
        device server:/home mounted on /home with fstype nfs4 statvers=1.1\n\
        \topts:\trw,vers=4.2\n\tage:\t12\n\tbytes:\t1 2 3 4 500 600 7 8\n\n\
        device server:/home/x mounted on /home/x with fstype nfs4 statvers=1.1\n\tbytes:\t1 2 3 4 50 60 7 8\n\
        device server:/b mounted on /mnt/a\\040b with fstype nfs4 statvers=1.1\n\tbytes:\t1 2 3 4 5 6 7 8\n";

    #[test]
    fn nfs_bytes_are_those_of_the_innermost_mount() {
        assert_eq!(parse_mountstats(MOUNTSTATS, Path::new("/home/me")), Some(NfsBytes { read: 500.0, written: 600.0 }));
        assert_eq!(parse_mountstats(MOUNTSTATS, Path::new("/home/x/y")), Some(NfsBytes { read: 50.0, written: 60.0 }));
        assert_eq!(parse_mountstats(MOUNTSTATS, Path::new("/mnt/a b")), Some(NfsBytes { read: 5.0, written: 6.0 }));
        assert_eq!(parse_mountstats(MOUNTSTATS, Path::new("/srv")), None);
    }

    #[test]
    fn joined_points_keep_all_operations_and_all_time() {
        let point = |index: u32| SeriesPoint {
            start_s: f64::from(index) * 0.5,
            length_s: 0.5,
            warm_up: index < 3,
            operations: 2,
            bytes: 8,
            latency: None,
        };
        let whole = Sample { series: (0..50).map(point).collect(), ..sample(0.0, 1.0, &[]) };
        let reduced = reduce_sample(whole);
        assert_eq!(reduced.series.len(), 17);
        assert_eq!(reduced.series[1].start_s, 1.5);
        assert_eq!((reduced.series[0].warm_up, reduced.series[1].warm_up), (true, false));
        assert_eq!(reduced.series.iter().map(|point| point.operations).sum::<u64>(), 100);
        assert_eq!(reduced.series.iter().map(|point| point.length_s).sum::<f64>(), 25.0);
    }
}
