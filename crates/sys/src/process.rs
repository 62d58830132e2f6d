//! Processes: whether a process is alive, which processes use a directory, and killing the commands of fsarena.

use crate::error::{Error, UsingProcess, none_if_missing};
use crate::kernel::SysRoot;
use crate::wait::{Cancel, wait_until};
use procfs_core::{FromRead, process::Stat};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, kill_process_group, pidfd_open, pidfd_send_signal};
use std::time::{Duration, Instant};
use std::{io, path::Path, process::Child};

/// The environment variable of every command that fsarena starts; its value is the name of the undo journal.
pub const JOURNAL_VARIABLE: &str = "FSARENA_JOURNAL";

/// How long fsarena waits until killed processes have ended. A process ends only when its current system call returns, and
/// a system call that writes a file back can take long.
const KILL_TIMEOUT: Duration = Duration::from_secs(30);

/// The states in `/proc/PID/stat` of a process that has ended: zombie (`Z`) and dead (`X`).
const ENDED_STATES: [char; 2] = ['Z', 'X'];

/// The contents of `/proc/PID/stat`; None if the process ended.
///
/// # Errors
/// The file cannot be read for another reason: the process may still run.
pub fn stat(kernel: &SysRoot, pid: i32) -> Result<Option<Stat>, Error> {
    let path = kernel.path(&format!("proc/{pid}/stat"));
    let Some(bytes) = none_if_ended(std::fs::read(&path)).map_err(Error::kernel_unreadable(&path))? else {
        return Ok(None);
    };
    let stat = Stat::from_read(&bytes[..]);
    stat.map(Some).map_err(|error| Error::BadFormat { path, why: error.to_string() })
}

/// The contents of `/proc/PID/stat`; None if the process ended, or if this user may not inspect it: with the mount option
/// `hidepid=1` of `/proc`, reading fails with EPERM for the processes of other users.
fn visible_stat(kernel: &SysRoot, pid: i32) -> Result<Option<Stat>, Error> {
    none_if_forbidden(stat(kernel, pid))
}

/// Turns the error of a file that this user may not read into `Ok(None)`.
fn none_if_forbidden<T>(read: Result<Option<T>, Error>) -> Result<Option<T>, Error> {
    match read {
        Err(Error::KernelUnreadable { source, .. }) if source.kind() == io::ErrorKind::PermissionDenied => Ok(None),
        read => read,
    }
}

/// Turns the error of reading a file of a process that has ended into `Ok(None)`.
fn none_if_ended<T>(read: io::Result<T>) -> io::Result<Option<T>> {
    match read {
        Err(error) if Errno::from_io_error(&error) == Some(Errno::SRCH) => Ok(None),
        read => none_if_missing(read),
    }
}

/// When a process started, in clock ticks since boot; None if the process ended or its state cannot be read. The pid and the
/// start time together identify a process within one boot.
pub fn start_time(kernel: &SysRoot, pid: i32) -> Option<u64> {
    Some(stat(kernel, pid).ok()??.starttime)
}

/// Whether the process with this pid and start time is still running. A zombie is not running; a process whose state
/// cannot be read counts as running.
pub fn is_alive(kernel: &SysRoot, pid: i32, start_time: u64) -> bool {
    match stat(kernel, pid) {
        Ok(Some(stat)) => stat.starttime == start_time && !ENDED_STATES.contains(&stat.state),
        Ok(None) => false,
        Err(_) => true,
    }
}

/// The random id that the kernel gave this boot.
///
/// # Errors
/// [`Error::KernelUnreadable`] if the kernel's file cannot be read.
pub fn boot_id(kernel: &SysRoot) -> Result<String, Error> {
    Ok(kernel.read_required("proc/sys/kernel/random/boot_id")?.trim().to_string())
}

/// The pids of all processes and kernel threads, sorted.
///
/// # Errors
/// `/proc` cannot be read.
pub fn all_pids(kernel: &SysRoot) -> Result<Vec<i32>, Error> {
    let mut pids: Vec<i32> = kernel.list_required("proc")?.iter().filter_map(|name| name.parse().ok()).collect();
    pids.sort_unstable();
    Ok(pids)
}

/// The processes that use a directory or anything below it, without the processes that this user may not inspect. For
/// messages only: the list is empty if `/proc` cannot be read.
pub fn processes_using(kernel: &SysRoot, target: &Path) -> Vec<UsingProcess> {
    let mut processes = vec![];
    for pid in all_pids(kernel).unwrap_or_default() {
        let uses = list_uses(kernel, pid, target);
        if !uses.is_empty() {
            processes.push(UsingProcess { pid, name: command_name(kernel, pid), uses });
        }
    }
    processes
}

/// How a process uses a directory: `working directory`, `open file`. Empty if it does not use it.
fn list_uses(kernel: &SysRoot, pid: i32, target: &Path) -> Vec<&'static str> {
    let mut uses = vec![];
    for (link, label) in [("cwd", "working directory"), ("root", "root directory"), ("exe", "program")] {
        if leads_below(&kernel.path(&format!("proc/{pid}/{link}")), target) {
            uses.push(label);
        }
    }
    for (dir, label) in [("fd", "open file"), ("map_files", "mapped file")] {
        let entries = std::fs::read_dir(kernel.path(&format!("proc/{pid}/{dir}")));
        if entries.is_ok_and(|entries| entries.flatten().any(|entry| leads_below(&entry.path(), target))) {
            uses.push(label);
        }
    }
    uses
}

/// Whether a symbolic link leads to a directory or below it.
fn leads_below(link: &Path, dir: &Path) -> bool {
    link.read_link().is_ok_and(|destination| destination.starts_with(dir))
}

/// The pid and the command name of a process, for messages: `1234 (mount)`.
pub fn describe(kernel: &SysRoot, pid: i32) -> String {
    format!("{pid} ({})", command_name(kernel, pid))
}

/// The command name of a process; `gone` if the process ended.
fn command_name(kernel: &SysRoot, pid: i32) -> String {
    kernel.read_trimmed(&format!("proc/{pid}/comm")).unwrap_or_else(|| "gone".into())
}

/// A process, identified by its pid and start time, because the kernel reuses pids.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessIdentity {
    /// Its number.
    pub pid: i32,
    /// When it started, in clock ticks since boot.
    pub start_time: u64,
}

/// The processes of `pids` for which `belongs` returns true, without those that this user may not inspect. The start time is
/// read first: if a pid is reused while `belongs` runs, the result has the start time of the earlier process, and the new
/// process is not killed.
fn filter_processes(
    kernel: &SysRoot,
    pids: Vec<i32>,
    belongs: impl Fn(i32) -> Result<bool, Error>,
) -> Result<Vec<ProcessIdentity>, Error> {
    let mut processes = vec![];
    for pid in pids {
        let Some(stat) = visible_stat(kernel, pid)? else { continue };
        if belongs(pid)? {
            processes.push(ProcessIdentity { pid, start_time: stat.starttime });
        }
    }
    Ok(processes)
}

/// The processes that have [`JOURNAL_VARIABLE`] with this journal in their environment: the commands that the owner of the
/// journal started, and their descendants. Processes that this user may not inspect belong to other users and are left out.
///
/// # Errors
/// `/proc`, or the environment of a process that this user may inspect, cannot be read.
pub fn processes_of_journal(kernel: &SysRoot, journal: &str) -> Result<Vec<ProcessIdentity>, Error> {
    let entry = format!("{JOURNAL_VARIABLE}={journal}");
    filter_processes(kernel, all_pids(kernel)?, |pid| {
        let path = kernel.path(&format!("proc/{pid}/environ"));
        let read = none_if_ended(std::fs::read(&path)).map_err(Error::kernel_unreadable(&path));
        let environ = none_if_forbidden(read)?.unwrap_or_default();
        Ok(environ.split(|byte| *byte == 0).any(|variable| variable == entry.as_bytes()))
    })
}

/// The members of the process group whose leader has this start time. If the leader is gone, the members still count: the
/// kernel does not reuse the number of a group that has members.
fn group_members(kernel: &SysRoot, pgid: i32, start_time: u64) -> Result<Vec<ProcessIdentity>, Error> {
    if stat(kernel, pgid)?.is_some_and(|stat| stat.starttime != start_time) {
        return Ok(vec![]);
    }
    filter_processes(kernel, all_pids(kernel)?, |pid| {
        Ok(visible_stat(kernel, pid)?.is_some_and(|stat| stat.pgrp == pgid))
    })
}

/// The processes of a control group.
pub(crate) fn cgroup_members(kernel: &SysRoot, cgroup: &Path) -> Result<Vec<ProcessIdentity>, Error> {
    let list_pids = || -> Result<Vec<i32>, Error> {
        let path = cgroup.join("cgroup.procs");
        let text = none_if_missing(std::fs::read_to_string(&path)).map_err(Error::kernel_unreadable(&path))?;
        Ok(text.unwrap_or_default().lines().filter_map(|pid| pid.parse().ok()).collect())
    };
    let candidates = list_pids()?;
    if candidates.is_empty() {
        return Ok(vec![]);
    }
    let mut members = filter_processes(kernel, candidates, |_| Ok(true))?;
    // If a pid was reused meanwhile by a process outside the group, the second list lacks it.
    let listed_again = list_pids()?;
    members.retain(|process| listed_again.contains(&process.pid));
    Ok(members)
}

/// The pids of the processes of a process group that have not ended.
pub(crate) fn living_group_pids(kernel: &SysRoot, pgid: i32, start_time: u64) -> Result<Vec<i32>, Error> {
    let living = living_processes(kernel, group_members(kernel, pgid, start_time)?)?;
    Ok(living.iter().map(|process| process.pid).collect())
}

/// The pid of a process in a process group that is stopped (SIGSTOP, SIGTSTP); None if none is.
///
/// # Errors
/// `/proc` cannot be read.
pub fn find_stopped_process(kernel: &SysRoot, pgid: i32) -> Result<Option<i32>, Error> {
    for pid in all_pids(kernel)? {
        if visible_stat(kernel, pid)?.is_some_and(|stat| stat.pgrp == pgid && stat.state == 'T') {
            return Ok(Some(pid));
        }
    }
    Ok(None)
}

/// The processes of a list that have not ended.
fn living_processes(kernel: &SysRoot, processes: Vec<ProcessIdentity>) -> Result<Vec<ProcessIdentity>, Error> {
    let mut living = vec![];
    for process in processes {
        if stat(kernel, process.pid)?.is_some_and(|stat| !ENDED_STATES.contains(&stat.state)) {
            living.push(process);
        }
    }
    Ok(living)
}

/// Kills the process group whose leader has this start time, and waits until it is gone.
///
/// # Errors
/// A process of the group has not ended after 30 s, or fsarena may not kill it.
pub fn kill_group(kernel: &SysRoot, pgid: i32, start_time: u64) -> Result<(), Error> {
    kill_and_wait(kernel, &|| group_members(kernel, pgid, start_time))
}

/// Kills the process group that a child of this process leads. Succeeds if the group has ended already.
pub fn kill_group_of(child: &Child) {
    let _ = kill_process_group(Pid::from_child(child), Signal::KILL);
}

/// Kills all processes that have the name of a journal in their environment, waits until they are gone, and returns the number
/// that it found at first.
///
/// # Errors
/// A process has not ended after 30 s, or fsarena may not kill it.
pub fn kill_processes_of_journal(kernel: &SysRoot, journal: &str) -> Result<usize, Error> {
    let count = processes_of_journal(kernel, journal)?.len();
    kill_and_wait(kernel, &|| processes_of_journal(kernel, journal))?;
    Ok(count)
}

/// Kills the processes that `find` returns, except this process, and repeats that until `find` returns no living process.
///
/// # Errors
/// A process has not ended after 30 s, or fsarena may not kill it, or `find` fails.
pub(crate) fn kill_and_wait(
    kernel: &SysRoot,
    find: &dyn Fn() -> Result<Vec<ProcessIdentity>, Error>,
) -> Result<(), Error> {
    let own_pid = std::process::id() as i32;
    let mut survivor = own_pid;
    let mut kill_all = || {
        let mut living = living_processes(kernel, find()?)?;
        living.retain(|process| process.pid != own_pid);
        let Some(first) = living.first() else { return Ok(Some(())) };
        survivor = first.pid;
        for process in &living {
            process.kill(kernel)?;
        }
        Ok(None)
    };
    let killed_all = wait_until(Instant::now() + KILL_TIMEOUT, Cancel::Never, || kill_all().transpose());
    killed_all.unwrap_or_else(|_| {
        let why = "it was killed and is still there".to_string();
        Err(Error::Unusable { object: format!("process {}", describe(kernel, survivor)).into(), why })
    })
}

impl ProcessIdentity {
    /// Kills the process, unless another process has its pid by now.
    ///
    /// A pidfd always refers to the same process. If the start time matches after `pidfd_open`, the pidfd refers to this
    /// process.
    ///
    /// # Errors
    /// The process cannot be killed, or its start time cannot be read.
    fn kill(self, kernel: &SysRoot) -> Result<(), Error> {
        let Some(pid) = Pid::from_raw(self.pid) else { return Ok(()) };
        let pidfd = pidfd_open(pid, PidfdFlags::empty());
        if stat(kernel, self.pid)?.is_none_or(|stat| stat.starttime != self.start_time) {
            return Ok(());
        }
        let killed = match pidfd {
            Ok(pidfd) => pidfd_send_signal(pidfd, Signal::KILL),
            // Linux before 5.3 has no pidfd, and the seccomp filter of some containers forbids it with EPERM. Killing by pid
            // leaves a short race: another process could get the pid between the comparison above and this call.
            Err(Errno::NOSYS | Errno::PERM) => kill_process(pid, Signal::KILL),
            Err(error) => Err(error),
        };
        match killed {
            Ok(()) | Err(Errno::SRCH) => Ok(()),
            Err(error) => Err(Error::io("killing process", self.pid.to_string())(error.into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::CommandExt;
    use std::process::{Command, Stdio};

    #[test]
    fn a_process_is_alive_only_with_its_own_start_time() {
        let kernel = SysRoot::host();
        let pid = std::process::id() as i32;
        let own_start_time = start_time(&kernel, pid).unwrap();
        assert!(is_alive(&kernel, pid, own_start_time));
        assert!(!is_alive(&kernel, pid, own_start_time + 1));
    }

    #[test]
    fn a_group_is_killed_only_if_the_start_time_of_its_leader_matches() {
        let kernel = SysRoot::host();
        let mut leader = Command::new("sleep").arg("20").process_group(0).spawn().unwrap();
        let pgid = leader.id() as i32;
        let leader_start_time = start_time(&kernel, pgid).unwrap();
        kill_group(&kernel, pgid, leader_start_time + 1).unwrap();
        assert!(is_alive(&kernel, pgid, leader_start_time));
        kill_group(&kernel, pgid, leader_start_time).unwrap();
        assert!(!is_alive(&kernel, pgid, leader_start_time));
        leader.wait().unwrap();
    }

    #[test]
    fn a_process_with_a_reused_pid_is_not_killed() {
        let kernel = SysRoot::host();
        let mut child = Command::new("sleep").arg("20").spawn().unwrap();
        let pid = child.id() as i32;
        let start_time = start_time(&kernel, pid).unwrap();
        // A process that started earlier and had the same pid.
        ProcessIdentity { pid, start_time: start_time - 1 }.kill(&kernel).unwrap();
        assert!(is_alive(&kernel, pid, start_time));
        ProcessIdentity { pid, start_time }.kill(&kernel).unwrap();
        child.wait().unwrap();
        ProcessIdentity { pid, start_time }.kill(&kernel).unwrap();
    }

    #[test]
    fn a_pid_reused_during_the_search_keeps_the_earlier_start_time() {
        let dir = tempfile::tempdir().unwrap();
        let kernel = SysRoot::at(dir.path());
        let stat = |start: u64| format!("7 (x) S 1 7 7 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 {start}{}", " 0".repeat(30));
        std::fs::create_dir_all(dir.path().join("proc/7")).unwrap();
        std::fs::write(dir.path().join("proc/7/stat"), stat(100)).unwrap();
        let found = filter_processes(&kernel, all_pids(&kernel).unwrap(), |_| {
            std::fs::write(dir.path().join("proc/7/stat"), stat(200)).unwrap();
            Ok(true)
        })
        .unwrap();
        assert_eq!(found, [ProcessIdentity { pid: 7, start_time: 100 }]);
        assert_eq!(start_time(&kernel, 7), Some(200));
    }

    #[test]
    fn the_processes_of_a_journal_are_found_and_killed() {
        let kernel = SysRoot::host();
        let journal = format!("test-{}", std::process::id());
        let mut child =
            Command::new("sleep").arg("20").env(JOURNAL_VARIABLE, &journal).stdout(Stdio::null()).spawn().unwrap();
        // The kernel shows the environment a moment after exec.
        while processes_of_journal(&kernel, &journal).unwrap().is_empty() && child.try_wait().unwrap().is_none() {
            std::thread::yield_now();
        }
        let found: Vec<i32> = processes_of_journal(&kernel, &journal).unwrap().iter().map(|found| found.pid).collect();
        assert_eq!(found, [child.id() as i32]);
        assert_eq!(kill_processes_of_journal(&kernel, &journal).unwrap(), 1);
        child.wait().unwrap();
        assert_eq!(kill_processes_of_journal(&kernel, &journal).unwrap(), 0);
    }

    #[test]
    fn a_process_whose_stat_cannot_be_read_counts_as_alive() {
        let dir = tempfile::tempdir().unwrap();
        // Reading a directory fails with another error than ENOENT.
        for file in ["stat", "environ"] {
            std::fs::create_dir_all(dir.path().join("proc/7").join(file)).unwrap();
        }
        let kernel = SysRoot::at(dir.path());
        assert!(is_alive(&kernel, 7, 1) && !is_alive(&kernel, 8, 1));
        assert!(ProcessIdentity { pid: 7, start_time: 1 }.kill(&kernel).is_err());
        assert!(living_group_pids(&kernel, 9, 1).is_err() && processes_of_journal(&kernel, "x").is_err());
        assert!(kill_group(&kernel, 9, 1).is_err() && kill_processes_of_journal(&kernel, "x").is_err());
        let hidden = SysRoot::at(dir.path().join("hidden"));
        assert!(matches!(all_pids(&hidden), Err(Error::KernelUnreadable { .. })));
        assert!(matches!(boot_id(&hidden), Err(Error::KernelUnreadable { .. })));
    }

    #[test]
    fn a_process_that_the_user_may_not_inspect_is_left_out() {
        let fails_with = |errno: Errno| Err(Error::kernel_unreadable("/proc/7/stat")(errno.into()));
        assert_eq!(none_if_forbidden::<i32>(fails_with(Errno::PERM)).unwrap(), None);
        assert!(none_if_forbidden::<i32>(fails_with(Errno::IO)).is_err());
    }

    #[test]
    fn processes_are_listed_with_their_uses_of_a_directory() {
        let root = crate::testkit::FakeRoot::with(&[("proc/7/comm", "tail\n")]);
        let link = |target: &str, path: &str| root.make_link(&format!("proc/{path}"), target);
        link("/mnt/a b/file", "7/fd/3");
        link("/mnt/a b/lib", "7/map_files/0-1");
        link("/mnt/a bc", "8/cwd");
        link("/mnt/a b", "9/cwd");
        link("/mnt/a b", "9/root");
        link("/mnt/a b/sh (deleted)", "9/exe");
        let using_process =
            |pid, name: &str, uses: &[&'static str]| UsingProcess { pid, name: name.into(), uses: uses.into() };
        let expected = [
            using_process(7, "tail", &["open file", "mapped file"]),
            using_process(9, "gone", &["working directory", "root directory", "program"]),
        ];
        let kernel = SysRoot::at(root.path());
        assert_eq!(processes_using(&kernel, Path::new("/mnt/a b")), expected);
    }
}
