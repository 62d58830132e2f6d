//! Who keeps the machine busy: the CPU time and the I/O of each process between two looks.

use crate::{kernel::SysRoot, process};
use bytesize::ByteSize;
use procfs_core::{FromBufRead, process::Io};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// The share of one CPU, and the bytes, from which a process counts as a disturber.
const CPU_SHARE: f64 = 0.1;
const BYTES: u64 = 1 << 20;
/// The most disturbers that are named.
const NAMED: usize = 3;

/// The readings of all processes at one moment.
#[derive(Debug)]
pub struct Usage {
    at: Instant,
    processes: BTreeMap<i32, Process>,
}

/// What a process has used since it started. CPU time is in clock ticks.
#[derive(Debug)]
struct Process {
    started: u64,
    name: String,
    ticks: u64,
    bytes: u64,
}

impl Usage {
    /// Reads every process. Skips those that ended meanwhile or cannot be read; the I/O of those that this user may not
    /// inspect is 0.
    pub fn now(kernel: &SysRoot) -> Usage {
        let read = |pid: i32| Some((pid, Process::read(kernel, pid)?));
        let pids = process::all(kernel).unwrap_or_default();
        Usage { at: Instant::now(), processes: pids.into_iter().filter_map(read).collect() }
    }

    /// The processes that used most since `earlier`, this one excepted, in words: `rsync (4711) moved 35.0 MiB`.
    pub fn disturbers_since(&self, earlier: &Usage) -> Vec<String> {
        let time = self.at.duration_since(earlier.at).max(Duration::from_millis(1)).as_secs_f64();
        let ticks_per_s = rustix::param::clock_ticks_per_second() as f64;
        let mut found: Vec<(f64, String)> = vec![];
        for (pid, now) in self.processes.iter().filter(|(pid, _)| **pid != std::process::id() as i32) {
            let before = earlier.processes.get(pid).filter(|before| before.started == now.started);
            let (ticks, bytes) = before.map_or((0, 0), |before| (before.ticks, before.bytes));
            let share = now.ticks.saturating_sub(ticks) as f64 / ticks_per_s / time;
            let moved = now.bytes.saturating_sub(bytes);
            let cpu = (share >= CPU_SHARE).then(|| format!("used {:.0}% of a CPU", 100.0 * share.min(1e3)));
            let io = (moved >= BYTES).then(|| format!("moved {}", ByteSize(moved)));
            let words: Vec<String> = cpu.into_iter().chain(io).collect();
            if !words.is_empty() {
                // A CPU for the whole time weighs as much as 100 MiB a second.
                let weight = share + moved as f64 / time / f64::from(100 << 20);
                found.push((weight, format!("{} ({pid}) {}", now.name, words.join(" and "))));
            }
        }
        found.sort_by(|a, b| b.0.total_cmp(&a.0));
        found.into_iter().take(NAMED).map(|(_, words)| words).collect()
    }
}

impl Process {
    fn read(kernel: &SysRoot, pid: i32) -> Option<Process> {
        let stat = process::stat(kernel, pid).ok()??;
        let io = kernel.read(&format!("proc/{pid}/io")).ok();
        let io = io.and_then(|text| Io::from_buf_read(text.as_bytes()).ok());
        Some(Process {
            started: stat.starttime,
            ticks: stat.utime + stat.stime,
            bytes: io.map_or(0, |io| io.read_bytes + io.write_bytes),
            name: stat.comm,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine with these processes: pid, name, start, ticks of CPU time, bytes written.
    fn machine(processes: &[(i32, &str, u64, u64, u64)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (pid, name, started, ticks, bytes) in processes {
            let dir = root.path().join(format!("proc/{pid}"));
            std::fs::create_dir_all(&dir).unwrap();
            let rest = format!("{ticks} 0 0 0 20 0 1 0 {started} 0 0 {}", "0 ".repeat(27));
            std::fs::write(dir.join("stat"), format!("{pid} ({name}) S 1 1 1 0 -1 0 0 0 0 0 {rest}\n"))
                .unwrap();
            let io = format!("rchar: 0\nwchar: 0\nsyscr: 0\nsyscw: 0\nread_bytes: 0\nwrite_bytes: {bytes}\n");
            std::fs::write(dir.join("io"), io + "cancelled_write_bytes: 0\n").unwrap();
        }
        root
    }

    #[test]
    fn the_busiest_processes_are_named() {
        let begun = Instant::now();
        let at = |root: &tempfile::TempDir, seconds: u64| Usage {
            at: begun + Duration::from_secs(seconds),
            ..Usage::now(&SysRoot::at(root.path()))
        };
        let before = at(&machine(&[(1, "init", 1, 500, 0), (7, "cc1", 9, 100, 0), (8, "gone", 9, 0, 0)]), 0);
        let after = machine(&[
            (1, "init", 1, 501, 4096),
            (7, "cc1", 9, 190, 0),
            (8, "rsync", 99, 0, 35 << 20),
            (9, "dd", 99, 50, 2 << 20),
        ]);
        // Over one second of 100 ticks. 8 is another process than before.
        assert_eq!(
            at(&after, 1).disturbers_since(&before),
            [
                "cc1 (7) used 90% of a CPU",
                "dd (9) used 50% of a CPU and moved 2.0 MiB",
                "rsync (8) moved 35.0 MiB"
            ]
        );
        assert!(at(&after, 2).disturbers_since(&at(&after, 1)).is_empty());
    }
}
