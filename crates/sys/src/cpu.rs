//! CPU time of processes and kernel threads in nanoseconds, and the processes that keep the machine busy.
//!
//! The times come from CPU clocks (clock_getcpuclockid(3)), because `/proc/PID/stat` counts in steps of 10 ms and
//! `/proc/PID/schedstat` covers only the first thread. The time of a process is lost when it ends, so callers that need all
//! of it must read often.

use crate::{kernel::SysRoot, process};
use bytesize::ByteSize;
use nix::sys::resource::{UsageWho, getrusage};
use nix::{sys::time::TimeVal, time::ClockId, unistd::Pid};
use procfs_core::FromBufRead;
use procfs_core::process::{Io, StatFlags};
use std::time::{Duration, Instant};
use std::{collections::BTreeMap, ops::AddAssign};

/// CPU times of processes in nanoseconds, by pid and start time in clock ticks, because pids are reused.
pub type ProcessCpuTimes = BTreeMap<(i32, u64), u64>;

/// The CPU time of a process in nanoseconds, including threads that ended; None if the process is gone.
pub fn process_cpu_ns(pid: i32) -> Option<u64> {
    let time = ClockId::pid_cpu_clock_id(Pid::from_raw(pid)).and_then(ClockId::now).ok()?;
    Some(time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64)
}

/// User and system time in nanoseconds. Their sum is exact; the kernel estimates the split by sampling at its ticks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CpuTime {
    /// In user mode.
    pub user_ns: u64,
    /// In the kernel.
    pub system_ns: u64,
}

impl CpuTime {
    /// The CPU time of this thread up to now.
    pub fn of_this_thread() -> CpuTime {
        CpuTime::from_rusage(UsageWho::RUSAGE_THREAD)
    }

    /// The CPU time of this process up to now.
    pub fn of_this_process() -> CpuTime {
        CpuTime::from_rusage(UsageWho::RUSAGE_SELF)
    }

    /// The CPU time of all children of this process that have ended and were waited for.
    pub fn of_ended_children() -> CpuTime {
        CpuTime::from_rusage(UsageWho::RUSAGE_CHILDREN)
    }

    /// The CPU time that getrusage(2) reports.
    fn from_rusage(who: UsageWho) -> CpuTime {
        let ns = |time: TimeVal| time.tv_sec() as u64 * 1_000_000_000 + time.tv_usec() as u64 * 1000;
        // getrusage(2) fails only for an unknown `who`.
        match getrusage(who) {
            Ok(usage) => CpuTime { user_ns: ns(usage.user_time()), system_ns: ns(usage.system_time()) },
            Err(_) => CpuTime::default(),
        }
    }

    /// The same total time, split into user and system time in the ratio of `sample`; unchanged if `sample` is zero.
    pub fn split_like(self, sample: CpuTime) -> CpuTime {
        let (total_ns, sampled_ns) = (self.total_ns(), sample.total_ns());
        if sampled_ns == 0 {
            return self;
        }
        let user_ns = (u128::from(total_ns) * u128::from(sample.user_ns) / u128::from(sampled_ns)) as u64;
        CpuTime { user_ns, system_ns: total_ns - user_ns }
    }

    /// User and system time together.
    pub fn total_ns(self) -> u64 {
        self.user_ns + self.system_ns
    }

    /// The CPU time since an earlier reading.
    pub fn since(self, earlier: CpuTime) -> CpuTime {
        CpuTime {
            user_ns: self.user_ns.saturating_sub(earlier.user_ns),
            system_ns: self.system_ns.saturating_sub(earlier.system_ns),
        }
    }
}

impl AddAssign for CpuTime {
    fn add_assign(&mut self, other: CpuTime) {
        self.user_ns += other.user_ns;
        self.system_ns += other.system_ns;
    }
}

/// The CPU times of the kernel threads. Threads that cannot be read are left out.
pub fn kernel_thread_times(kernel: &SysRoot) -> ProcessCpuTimes {
    let mut times = ProcessCpuTimes::new();
    for pid in process::all_pids(kernel).unwrap_or_default() {
        let Ok(Some(stat)) = process::stat(kernel, pid) else { continue };
        let is_kernel_thread = StatFlags::from_bits_truncate(stat.flags).contains(StatFlags::PF_KTHREAD);
        if is_kernel_thread && let Some(ns) = process_cpu_ns(pid) {
            times.insert((pid, stat.starttime), ns);
        }
    }
    times
}

/// The CPU time used between two readings, in nanoseconds. A process that started in between counts with all its time; a
/// process that ended in between does not count.
pub fn cpu_ns_between(before: &ProcessCpuTimes, after: &ProcessCpuTimes) -> u64 {
    after.iter().map(|(process, ns)| ns.saturating_sub(before.get(process).copied().unwrap_or(0))).sum()
}

/// The user and system time of a process and its threads, in clock ticks; None if the process is gone or cannot be read.
pub fn user_and_system_ticks(kernel: &SysRoot, pid: i32) -> Option<(u64, u64)> {
    process::stat(kernel, pid).ok()?.map(|stat| (stat.utime, stat.stime))
}

/// A process that uses at least this share of one CPU counts as a disturber.
const DISTURBING_CPU_SHARE: f64 = 0.1;
/// A process that reads and writes at least this many bytes counts as a disturber.
const DISTURBING_BYTES: u64 = 1 << 20;
/// The largest number of disturbers in a list.
const MAX_DISTURBERS: usize = 3;

/// The CPU time and I/O of all processes at one moment.
#[derive(Debug)]
pub struct ProcessReadings {
    read_at: Instant,
    processes: BTreeMap<i32, ProcessReading>,
}

/// The resource use of a process since it started: CPU time in clock ticks, and bytes read and written.
#[derive(Debug)]
struct ProcessReading {
    start_time: u64,
    name: String,
    ticks: u64,
    bytes: u64,
}

impl ProcessReadings {
    /// Reads every process. Skips processes that ended meanwhile or cannot be read; if this user may not read the I/O of a
    /// process, it counts as 0.
    pub fn read(kernel: &SysRoot) -> ProcessReadings {
        let read_process = |pid: i32| Some((pid, ProcessReading::read(kernel, pid)?));
        let pids = process::all_pids(kernel).unwrap_or_default();
        ProcessReadings { read_at: Instant::now(), processes: pids.into_iter().filter_map(read_process).collect() }
    }

    /// Descriptions of the busiest processes since `earlier`, without this process: `rsync (4711) moved 35.0 MiB`. At most
    /// `MAX_DISTURBERS`, the busiest first.
    pub fn disturbers_since(&self, earlier: &ProcessReadings) -> Vec<String> {
        let elapsed_s = self.read_at.duration_since(earlier.read_at).max(Duration::from_millis(1)).as_secs_f64();
        let ticks_per_s = rustix::param::clock_ticks_per_second() as f64;
        let mut disturbers: Vec<(f64, String)> = vec![];
        for (pid, now) in self.processes.iter().filter(|(pid, _)| **pid != std::process::id() as i32) {
            let before = earlier.processes.get(pid).filter(|before| before.start_time == now.start_time);
            let (ticks_before, bytes_before) = before.map_or((0, 0), |before| (before.ticks, before.bytes));
            let cpu_share = now.ticks.saturating_sub(ticks_before) as f64 / ticks_per_s / elapsed_s;
            let moved_bytes = now.bytes.saturating_sub(bytes_before);
            let mut descriptions = vec![];
            if cpu_share >= DISTURBING_CPU_SHARE {
                descriptions.push(format!("used {:.0}% of a CPU", 100.0 * cpu_share.min(1e3)));
            }
            if moved_bytes >= DISTURBING_BYTES {
                descriptions.push(format!("moved {}", ByteSize(moved_bytes)));
            }
            if !descriptions.is_empty() {
                // Score: one fully used CPU counts like 100 MiB/s of I/O.
                let score = cpu_share + moved_bytes as f64 / elapsed_s / f64::from(100 << 20);
                disturbers.push((score, format!("{} ({pid}) {}", now.name, descriptions.join(" and "))));
            }
        }
        disturbers.sort_by(|a, b| b.0.total_cmp(&a.0));
        disturbers.into_iter().take(MAX_DISTURBERS).map(|(_, description)| description).collect()
    }
}

impl ProcessReading {
    /// Reads the resource use of a process; None if the process is gone or cannot be read.
    fn read(kernel: &SysRoot, pid: i32) -> Option<ProcessReading> {
        let stat = process::stat(kernel, pid).ok()??;
        let io = kernel.read(&format!("proc/{pid}/io")).ok();
        let io = io.and_then(|text| Io::from_buf_read(text.as_bytes()).ok());
        Some(ProcessReading {
            start_time: stat.starttime,
            ticks: stat.utime + stat.stime,
            bytes: io.map_or(0, |io| io.read_bytes + io.write_bytes),
            name: stat.comm,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testkit::FakeRoot;

    #[test]
    fn this_process_has_cpu_time_and_is_not_a_kernel_thread() {
        let kernel = SysRoot::host();
        let pid = std::process::id() as i32;
        let before = process_cpu_ns(pid).unwrap();
        let start = Instant::now();
        while start.elapsed().as_millis() < 5 {
            std::hint::spin_loop();
        }
        assert!(process_cpu_ns(pid).unwrap() > before);
        assert!(!kernel_thread_times(&kernel).keys().any(|(id, _)| *id == pid));
        assert!(user_and_system_ticks(&kernel, pid).is_some());
        // Linux assigns pids below 2²² only.
        assert_eq!(process_cpu_ns(1 << 22), None);
    }

    #[test]
    fn the_cpu_time_of_ended_children_counts() {
        let before = CpuTime::of_ended_children().total_ns();
        let busy = "i=0; while [ $i -lt 20000 ]; do i=$((i + 1)); done";
        assert!(std::process::Command::new("sh").args(["-c", busy]).status().unwrap().success());
        assert!(CpuTime::of_ended_children().total_ns() > before);
    }

    #[test]
    fn splitting_keeps_the_total() {
        let exact = CpuTime { user_ns: 100, system_ns: 0 };
        assert_eq!(exact.split_like(CpuTime { user_ns: 1, system_ns: 3 }), CpuTime { user_ns: 25, system_ns: 75 });
        assert_eq!(exact.split_like(CpuTime::default()), exact);
    }

    #[test]
    fn a_new_process_counts_with_all_its_time_and_an_ended_one_does_not_count() {
        let before = ProcessCpuTimes::from([((1, 0), 100), ((2, 0), 50)]);
        let after = ProcessCpuTimes::from([((1, 0), 130), ((3, 9), 7)]);
        assert_eq!(cpu_ns_between(&before, &after), 37);
        // The same pid with another start time is another process.
        assert_eq!(cpu_ns_between(&before, &ProcessCpuTimes::from([((2, 8), 60)])), 60);
    }

    /// A machine with these processes: pid, name, start, ticks of CPU time, bytes written.
    fn fake_machine(processes: &[(i32, &str, u64, u64, u64)]) -> FakeRoot {
        let root = FakeRoot::with(&[]);
        for (pid, name, started, ticks, bytes) in processes {
            let rest = format!("{ticks} 0 0 0 20 0 1 0 {started} 0 0 {}", "0 ".repeat(27));
            root.write_file(&format!("proc/{pid}/stat"), &format!("{pid} ({name}) S 1 1 1 0 -1 0 0 0 0 0 {rest}\n"));
            let io = format!("rchar: 0\nwchar: 0\nsyscr: 0\nsyscw: 0\nread_bytes: 0\nwrite_bytes: {bytes}\n");
            root.write_file(&format!("proc/{pid}/io"), &(io + "cancelled_write_bytes: 0\n"));
        }
        root
    }

    #[test]
    fn the_busiest_processes_are_named() {
        let start = Instant::now();
        let read_after = |root: &FakeRoot, seconds: u64| ProcessReadings {
            read_at: start + Duration::from_secs(seconds),
            ..ProcessReadings::read(&SysRoot::at(root.path()))
        };
        let before =
            read_after(&fake_machine(&[(1, "init", 1, 500, 0), (7, "cc1", 9, 100, 0), (8, "gone", 9, 0, 0)]), 0);
        let after = fake_machine(&[
            (1, "init", 1, 501, 4096),
            (7, "cc1", 9, 190, 0),
            (8, "rsync", 99, 0, 35 << 20),
            (9, "dd", 99, 50, 2 << 20),
        ]);
        // Over one second of 100 ticks. 8 is another process than before.
        assert_eq!(
            read_after(&after, 1).disturbers_since(&before),
            ["cc1 (7) used 90% of a CPU", "dd (9) used 50% of a CPU and moved 2.0 MiB", "rsync (8) moved 35.0 MiB"]
        );
        assert!(read_after(&after, 2).disturbers_since(&read_after(&after, 1)).is_empty());
    }
}
