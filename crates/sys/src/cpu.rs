//! CPU time of processes and of the kernel's own threads, exact: their CPU clocks (clock_getcpuclockid(3)).
//!
//! The scheduler charges nanoseconds; `/proc/PID/stat` reports them in steps of 10 ms, and `/proc/PID/schedstat`
//! those of the first thread only. A process that ended takes its time with it, so callers that want all of it
//! ask often.

use crate::kernel::SysRoot;
use crate::process::{all, stat};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;
use nix::{time::ClockId, unistd::Pid};
use procfs_core::process::StatFlags;
use std::{collections::BTreeMap, ops::AddAssign};

/// CPU time in nanoseconds of processes, each by its id and the tick at which it started: ids are used again.
pub type Times = BTreeMap<(i32, u64), u64>;

/// CPU time of a process in nanoseconds, with that of its threads that ended; none where the process is gone.
pub fn process_ns(pid: i32) -> Option<u64> {
    let time = ClockId::pid_cpu_clock_id(Pid::from_raw(pid)).and_then(ClockId::now).ok()?;
    Some(time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64)
}

/// CPU time in nanoseconds. The kernel knows the sum exactly; it splits user from system time by what its
/// ticks met.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cpu {
    /// In user mode.
    pub user_ns: u64,
    /// In the kernel.
    pub system_ns: u64,
}

impl Cpu {
    /// Of this thread up to now.
    pub fn of_this_thread() -> Cpu {
        Cpu::of(UsageWho::RUSAGE_THREAD)
    }

    /// Of this process up to now.
    pub fn of_this_process() -> Cpu {
        Cpu::of(UsageWho::RUSAGE_SELF)
    }

    /// Of the children of this process that have ended and were waited for, up to now.
    pub fn of_ended_children() -> Cpu {
        Cpu::of(UsageWho::RUSAGE_CHILDREN)
    }

    fn of(whose: UsageWho) -> Cpu {
        let ns = |time: TimeVal| time.tv_sec() as u64 * 1_000_000_000 + time.tv_usec() as u64 * 1000;
        // getrusage(2) fails only for an unknown `whose`.
        getrusage(whose).map_or(Cpu::default(), |usage| Cpu {
            user_ns: ns(usage.user_time()),
            system_ns: ns(usage.system_time()),
        })
    }

    /// The same time, split as another one is.
    pub fn split_as(self, other: Cpu) -> Cpu {
        let (all, others) = (self.total_ns(), other.total_ns());
        if others == 0 {
            return self;
        }
        let user_ns = (u128::from(all) * u128::from(other.user_ns) / u128::from(others)) as u64;
        Cpu { user_ns, system_ns: all - user_ns }
    }

    /// User and system time together.
    pub fn total_ns(self) -> u64 {
        self.user_ns + self.system_ns
    }

    /// The CPU time since an earlier reading.
    pub fn since(self, earlier: Cpu) -> Cpu {
        Cpu {
            user_ns: self.user_ns.saturating_sub(earlier.user_ns),
            system_ns: self.system_ns.saturating_sub(earlier.system_ns),
        }
    }
}

impl AddAssign for Cpu {
    fn add_assign(&mut self, more: Cpu) {
        self.user_ns += more.user_ns;
        self.system_ns += more.system_ns;
    }
}

/// CPU time of each of the kernel's own threads. A figure for reports: threads that cannot be read are left out.
pub fn kernel_threads(kernel: &SysRoot) -> Times {
    let time = |pid: i32| {
        let stat = stat(kernel, pid).ok()??;
        let own = StatFlags::from_bits_truncate(stat.flags).contains(StatFlags::PF_KTHREAD);
        own.then_some(((pid, stat.starttime), process_ns(pid)?))
    };
    all(kernel).unwrap_or_default().into_iter().filter_map(time).collect()
}

/// CPU time used between two moments: processes that began in between count whole, those that ended not at all.
pub fn used(before: &Times, after: &Times) -> u64 {
    after.iter().map(|(task, now)| now.saturating_sub(before.get(task).copied().unwrap_or(0))).sum()
}

/// User and system time of a process and its threads, in clock ticks. The kernel makes their sum right and
/// splits it by what its ticks met.
pub fn user_and_system(kernel: &SysRoot, pid: i32) -> Option<(u64, u64)> {
    stat(kernel, pid).ok()?.map(|stat| (stat.utime, stat.stime))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_uses_time_and_is_no_kernel_thread() {
        let kernel = SysRoot::host();
        let pid = std::process::id() as i32;
        let before = process_ns(pid).unwrap();
        let begun = std::time::Instant::now();
        while begun.elapsed().as_millis() < 5 {
            std::hint::spin_loop();
        }
        assert!(process_ns(pid).unwrap() > before);
        assert!(!kernel_threads(&kernel).keys().any(|(id, _)| *id == pid));
        assert!(user_and_system(&kernel, pid).is_some());
        // Ids end below 2²².
        assert_eq!(process_ns(1 << 22), None);
    }

    #[test]
    fn children_count_when_they_have_ended() {
        let before = Cpu::of_ended_children().total_ns();
        let busy = "i=0; while [ $i -lt 20000 ]; do i=$((i + 1)); done";
        assert!(std::process::Command::new("sh").args(["-c", busy]).status().unwrap().success());
        assert!(Cpu::of_ended_children().total_ns() > before);
    }

    #[test]
    fn time_is_split_anew_and_its_sum_kept() {
        let exact = Cpu { user_ns: 100, system_ns: 0 };
        assert_eq!(exact.split_as(Cpu { user_ns: 1, system_ns: 3 }), Cpu { user_ns: 25, system_ns: 75 });
        assert_eq!(exact.split_as(Cpu::default()), exact);
    }

    #[test]
    fn what_began_counts_whole_and_what_ended_not_at_all() {
        let before = Times::from([((1, 0), 100), ((2, 0), 50)]);
        let after = Times::from([((1, 0), 130), ((3, 9), 7)]);
        assert_eq!(used(&before, &after), 37);
        // The same id, another process.
        assert_eq!(used(&before, &Times::from([((2, 8), 60)])), 60);
    }
}
