//! Processes: is one alive, who uses a directory, and ending those that fsarena started.

use crate::Error;
use crate::kernel::{Kernel, names};
use procfs_core::{FromRead, process::Stat};
use std::path::Path;
use std::time::{Duration, Instant};

/// The variable in the environment of every command that says which undo journal it belongs to.
pub const MARK: &str = "FSARENA_JOURNAL";

/// How long a killed process may take to end. It ends only when its current system call returns, and
/// writing back a file can take a while.
const GOING: Duration = Duration::from_secs(30);

/// The states of a process that ended: not yet reaped, and just being reaped.
const ENDED: [char; 2] = ['Z', 'X'];

/// What the kernel says of a process; None if it ended.
pub fn stat(kernel: &Kernel, pid: i32) -> Option<Stat> {
    Stat::from_read(std::fs::File::open(kernel.path(&format!("proc/{pid}/stat"))).ok()?).ok()
}

/// When a process started, in clock ticks since boot. None if the process ended.
/// With the pid it identifies a process within one boot.
pub fn start_time(kernel: &Kernel, pid: i32) -> Option<u64> {
    Some(stat(kernel, pid)?.starttime)
}

/// Whether a process that started then is still running. One that ended and is not yet reaped is not.
pub fn is_alive(kernel: &Kernel, pid: i32, started: u64) -> bool {
    stat(kernel, pid).is_some_and(|stat| stat.starttime == started && !ENDED.contains(&stat.state))
}

/// The random id of this boot.
pub fn boot_id(kernel: &Kernel) -> String {
    kernel.fact("proc/sys/kernel/random/boot_id").unwrap_or_default()
}

/// Every process there is, the kernel's own threads included.
pub fn all(kernel: &Kernel) -> Vec<i32> {
    let mut pids: Vec<i32> =
        names(&kernel.path("proc")).iter().filter_map(|name| name.parse().ok()).collect();
    pids.sort_unstable();
    pids
}

/// Pids of the processes that use anything at or below a directory: open files, working directory,
/// root, program, mapped files. Only those that this user may inspect.
pub fn holders(kernel: &Kernel, target: &Path) -> Vec<i32> {
    all(kernel).into_iter().filter(|pid| uses(kernel, *pid, target)).collect()
}

fn uses(kernel: &Kernel, pid: i32, target: &Path) -> bool {
    let links_below = |dir: &str| {
        let entries = std::fs::read_dir(kernel.path(&format!("proc/{pid}/{dir}")));
        entries.is_ok_and(|entries| entries.flatten().any(|entry| points_below(&entry.path(), target)))
    };
    ["cwd", "root", "exe"]
        .iter()
        .any(|link| points_below(&kernel.path(&format!("proc/{pid}/{link}")), target))
        || links_below("fd")
        || links_below("map_files")
}

fn points_below(link: &Path, target: &Path) -> bool {
    link.read_link().is_ok_and(|to| to.starts_with(target))
}

/// `pid (name)`, for people.
pub fn name(kernel: &Kernel, pid: i32) -> String {
    let name = kernel.fact(&format!("proc/{pid}/comm")).unwrap_or_else(|| "gone".into());
    format!("{pid} ({name})")
}

/// The processes that carry a journal's mark: commands it started, and all that those started.
pub fn marked(kernel: &Kernel, journal: &str) -> Vec<i32> {
    let mark = format!("{MARK}={journal}");
    let carries = |pid: &i32| {
        let environ = std::fs::read(kernel.path(&format!("proc/{pid}/environ"))).unwrap_or_default();
        environ.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes())
    };
    all(kernel).into_iter().filter(carries).collect()
}

/// The processes of a group whose leader started then. Where the leader is gone its members still count:
/// the kernel gives no new process the number of a group that has members.
fn group(kernel: &Kernel, pgid: i32, started: u64) -> Vec<i32> {
    if start_time(kernel, pgid).is_some_and(|now| now != started) {
        return vec![];
    }
    all(kernel).into_iter().filter(|pid| stat(kernel, *pid).is_some_and(|stat| stat.pgrp == pgid)).collect()
}

/// The processes of a group that have not ended.
pub(crate) fn living(kernel: &Kernel, pgid: i32, started: u64) -> Vec<i32> {
    group(kernel, pgid, started).into_iter().filter(|pid| has_not_ended(kernel, *pid)).collect()
}

fn has_not_ended(kernel: &Kernel, pid: i32) -> bool {
    stat(kernel, pid).is_some_and(|stat| !ENDED.contains(&stat.state))
}

/// Kills a process group and waits until it is gone.
///
/// # Errors
/// If a process of it has not ended after 30 s, or fsarena may not kill it.
pub fn kill_group(kernel: &Kernel, pgid: i32, started: u64) -> Result<(), Error> {
    kill_and_wait(kernel, &|| group(kernel, pgid, started))
}

/// Kills all processes that carry a journal's mark, waits until they are gone, and returns their number.
///
/// # Errors
/// If one has not ended after 30 s, or fsarena may not kill it.
pub fn kill_marked(kernel: &Kernel, journal: &str) -> Result<usize, Error> {
    let found = marked(kernel, journal).len();
    kill_and_wait(kernel, &|| marked(kernel, journal))?;
    Ok(found)
}

fn kill_and_wait(kernel: &Kernel, who: &dyn Fn() -> Vec<i32>) -> Result<(), Error> {
    let begun = Instant::now();
    loop {
        let alive: Vec<_> = who().into_iter().filter(|pid| has_not_ended(kernel, *pid)).collect();
        let Some(first) = alive.first() else { return Ok(()) };
        if begun.elapsed() > GOING {
            let why = "it was killed and is still there".to_string();
            return Err(Error::Unfit { what: format!("process {}", name(kernel, *first)).into(), why });
        }
        for pid in &alive {
            kill(*pid)?;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn kill(pid: i32) -> Result<(), Error> {
    let Some(process) = rustix::process::Pid::from_raw(pid) else { return Ok(()) };
    match rustix::process::kill_process(process, rustix::process::Signal::KILL) {
        Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
        Err(error) => Err(Error::io("killing process", pid.to_string())(error.into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::CommandExt;
    use std::process::{Command, Stdio};

    #[test]
    fn this_process_is_alive_and_its_successor_is_not() {
        let kernel = Kernel::host();
        let pid = std::process::id() as i32;
        let started = start_time(&kernel, pid).unwrap();
        assert!(is_alive(&kernel, pid, started));
        assert!(!is_alive(&kernel, pid, started + 1));
    }

    #[test]
    fn a_group_is_killed_only_when_it_is_the_same() {
        let kernel = Kernel::host();
        let mut child = Command::new("sleep").arg("20").process_group(0).spawn().unwrap();
        let pid = child.id() as i32;
        let started = start_time(&kernel, pid).unwrap();
        kill_group(&kernel, pid, started + 1).unwrap();
        assert!(is_alive(&kernel, pid, started));
        kill_group(&kernel, pid, started).unwrap();
        assert!(!is_alive(&kernel, pid, started));
        child.wait().unwrap();
    }

    #[test]
    fn marked_processes_are_found_and_killed() {
        let kernel = Kernel::host();
        let mark = format!("test-{}", std::process::id());
        let mut child =
            Command::new("sleep").arg("20").env(MARK, &mark).stdout(Stdio::null()).spawn().unwrap();
        // The kernel shows the environment a moment after the new program has begun.
        while marked(&kernel, &mark).is_empty() && child.try_wait().unwrap().is_none() {
            std::thread::yield_now();
        }
        assert_eq!(marked(&kernel, &mark), [child.id() as i32]);
        assert_eq!(kill_marked(&kernel, &mark).unwrap(), 1);
        child.wait().unwrap();
        assert_eq!(kill_marked(&kernel, &mark).unwrap(), 0);
    }

    #[test]
    fn holders_are_found_by_what_they_use() {
        let dir = tempfile::tempdir().unwrap();
        let proc = dir.path().join("proc");
        std::fs::create_dir_all(proc.join("7/fd")).unwrap();
        std::fs::create_dir_all(proc.join("8/fd")).unwrap();
        std::os::unix::fs::symlink("/mnt/a b/file", proc.join("7/fd/3")).unwrap();
        std::os::unix::fs::symlink("/mnt/a bc", proc.join("8/cwd")).unwrap();
        assert_eq!(holders(&Kernel::at(dir.path()), Path::new("/mnt/a b")), [7]);
    }
}
