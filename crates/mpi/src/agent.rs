//! The agent of a rank in one cell: its time limit, its start of each task, and the partial samples that it sends.

use crate::wire::Wire;
use fsarena_core::event::{Cause, Note, NoteKind, Outcome};
use fsarena_core::{metric::reading, plan::IdlePlan, sample::Sample, series::Point};
use fsarena_run::idle::{self, wait_until_idle};
use fsarena_run::{CellError, protocol::Request};
use fsarena_sys::kernel::SysRoot;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The agent of a cell, as its rank watches it.
pub struct Agent {
    idle: IdlePlan,
    device: Option<(u32, u32)>,
    root: PathBuf,
    timeout: Duration,
    /// When this client last started something; none while it waits for others.
    since: Option<Instant>,
    task: String,
    /// NFS traffic of this machine when the task began.
    nfs_before: Option<NfsBytes>,
}

impl Agent {
    /// Watches the agent of one cell, which may take `timeout` for each task.
    pub fn new(request: &Request, timeout: Duration) -> Agent {
        Agent {
            idle: request.idle.clone(),
            device: request.device,
            root: request.root.clone(),
            timeout,
            since: Some(Instant::now()),
            task: "the preparation".into(),
            nfs_before: None,
        }
    }

    /// Stops the time limit, because the client waits for others.
    pub fn pause_timeout(&mut self) {
        self.since = None;
    }

    /// Restarts the time limit, because the client continues.
    pub fn restart_timeout(&mut self) -> Outcome {
        self.since = Some(Instant::now());
        Outcome::Done
    }

    /// Waits until this machine is idle. Returns a note if it is still busy after the time limit.
    pub fn wait_until_idle(&mut self, task: &str) -> Option<Note> {
        self.task = task.into();
        let scene = idle::IdleTarget { kernel: &SysRoot::host(), device: self.device, timeouts: 0 };
        let wait = wait_until_idle(scene, &self.idle);
        if wait.busy.is_empty() {
            return None;
        }
        let text = format!("still busy after {:.1} s: {}", wait.waited.as_secs_f64(), wait.busy.join(", "));
        Some(Note::new(NoteKind::IdleTimeout, text).task(task))
    }

    /// Waits in the barrier for all ranks and starts the task.
    pub fn begin(&mut self, wire: &dyn Wire) -> Outcome {
        self.nfs_before = nfs_traffic(&self.root);
        if !wire.barrier(self.timeout) {
            return CellError::internal("not all ranks came to the barrier").into();
        }
        self.restart_timeout()
    }

    /// Returns the partial sample to send for a finished task. On NFS the traffic with the server counts as that of the
    /// device.
    pub fn finish_task(&mut self, sample: Sample) -> Sample {
        self.since = Some(Instant::now());
        self.task = format!("what follows {}", sample.task.id);
        let mut sample = partial_sample(sample);
        if let (Some(before), Some(after)) = (self.nfs_before.take(), nfs_traffic(&self.root)) {
            sample.readings.set(reading::DEVICE_READ, after.read - before.read);
            sample.readings.set(reading::DEVICE_WRITTEN, after.written - before.written);
        }
        sample
    }

    /// Returns the failure of an agent that exceeds its time limit.
    pub fn overdue(&self) -> Option<Outcome> {
        if self.since?.elapsed() <= self.timeout {
            return None;
        }
        let why = format!("{} did not end within {:?} (--timeout)", self.task, self.timeout);
        Some(CellError::new(Cause::Work, why).into())
    }
}

fn nfs_traffic(root: &Path) -> Option<NfsBytes> {
    nfs_bytes(&SysRoot::host().read("proc/self/mountstats").ok()?, root)
}

/// Bytes between an NFS client and its server since the mount.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct NfsBytes {
    read: f64,
    written: f64,
}

/// Finds the counters of a directory's mount in the text of `/proc/self/mountstats`; none if it is not on NFS.
fn nfs_bytes(text: &str, dir: &Path) -> Option<NfsBytes> {
    let mounts = text.split("device ").filter_map(|mount| {
        // server:/export mounted on /mnt with fstype nfs4 statvers=1.1
        let target = mount.split_once(" mounted on ")?.1.split_once(" with fstype ")?.0;
        dir.starts_with(target).then_some((target, mount))
    });
    let (_, mount) = mounts.max_by_key(|(target, _)| target.len())?;
    // Normal, direct and server's bytes, read before written.
    let counters = mount.lines().find_map(|line| line.trim_start().strip_prefix("bytes:"))?;
    let counters: Vec<f64> =
        counters.split_ascii_whitespace().map(|word| word.parse().ok()).collect::<Option<_>>()?;
    Some(NfsBytes { read: *counters.get(4)?, written: *counters.get(5)? })
}

/// Points of a time series in a partial sample: enough to know what a client did in a part of its time.
const POINTS: usize = 20;

/// Reduces a sample to what rank 0 merges: a shorter time series without latencies.
pub fn partial_sample(mut sample: Sample) -> Sample {
    let size = sample.series.len().div_ceil(POINTS).max(1);
    sample.series = sample.series.chunks(size).map(join_points).collect();
    sample
}

/// Joins consecutive points of a series into one, without latencies.
fn join_points(points: &[Point]) -> Point {
    Point {
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

    const TEXT: &str = "device rootfs mounted on / with fstype ext4\n\
        device server:/home mounted on /home with fstype nfs4 statvers=1.1\n\
        \topts:\trw,vers=4.2\n\tage:\t12\n\tbytes:\t1 2 3 4 500 600 7 8\n\n\
        device server:/home/x mounted on /home/x with fstype nfs4 statvers=1.1\n\tbytes:\t1 2 3 4 50 60 7 8\n";

    #[test]
    fn nfs_bytes_are_those_of_the_innermost_mount() {
        assert_eq!(nfs_bytes(TEXT, Path::new("/home/me")), Some(NfsBytes { read: 500.0, written: 600.0 }));
        assert_eq!(nfs_bytes(TEXT, Path::new("/home/x/y")), Some(NfsBytes { read: 50.0, written: 60.0 }));
        assert_eq!(nfs_bytes(TEXT, Path::new("/srv")), None);
    }

    #[test]
    fn neighbours_are_joined_and_nothing_is_lost() {
        let point = |at: u32| Point {
            start_s: f64::from(at) * 0.5,
            length_s: 0.5,
            warm_up: at < 3,
            operations: 2,
            bytes: 8,
            latency: None,
        };
        let whole = Sample { series: (0..50).map(point).collect(), ..sample(0.0, 1.0, &[]) };
        let reduced = partial_sample(whole);
        assert_eq!(reduced.series.len(), 17);
        assert_eq!(reduced.series[1].start_s, 1.5);
        assert_eq!((reduced.series[0].warm_up, reduced.series[1].warm_up), (true, false));
        assert_eq!(reduced.series.iter().map(|point| point.operations).sum::<u64>(), 100);
        assert_eq!(reduced.series.iter().map(|point| point.length_s).sum::<f64>(), 25.0);
    }
}
