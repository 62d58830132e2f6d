//! Processes: is one alive, who uses a directory, and ending those that fsarena started.

use crate::kernel::Kernel;
use crate::{Error, found};
use procfs_core::{FromRead, process::Stat};
use rustix::io::Errno;
use std::time::{Duration, Instant};
use std::{io, path::Path};

/// The variable in the environment of every command that says which undo journal it belongs to.
pub const MARK: &str = "FSARENA_JOURNAL";

/// How long a killed process may take to end. It ends only when its current system call returns, and
/// writing back a file can take a while.
const GOING: Duration = Duration::from_secs(30);

/// The states of a process that ended: not yet reaped, and just being reaped.
const ENDED: [char; 2] = ['Z', 'X'];

/// What the kernel says of a process; None if it ended.
///
/// # Errors
/// Where the kernel's file cannot be read for another reason: the process may still run.
pub fn stat(kernel: &Kernel, pid: i32) -> Result<Option<Stat>, Error> {
    let path = kernel.path(&format!("proc/{pid}/stat"));
    let Some(bytes) = unless_ended(std::fs::read(&path)).map_err(Error::hidden(&path))? else {
        return Ok(None);
    };
    let stat = Stat::from_read(&bytes[..]);
    stat.map(Some).map_err(|error| Error::Unreadable { path, why: error.to_string() })
}

/// The result of reading a file of a process; None if the process ended.
fn unless_ended<T>(read: io::Result<T>) -> io::Result<Option<T>> {
    match read {
        Err(error) if Errno::from_io_error(&error) == Some(Errno::SRCH) => Ok(None),
        read => found(read),
    }
}

/// When a process started, in clock ticks since boot. None if the process ended.
/// With the pid it identifies a process within one boot.
pub fn start_time(kernel: &Kernel, pid: i32) -> Option<u64> {
    Some(stat(kernel, pid).ok()??.starttime)
}

/// Whether a process that started then is still running. One that ended and is not yet reaped is not; one whose state
/// cannot be read is, as far as anyone can tell.
pub fn is_alive(kernel: &Kernel, pid: i32, started: u64) -> bool {
    match stat(kernel, pid) {
        Ok(Some(stat)) => stat.starttime == started && !ENDED.contains(&stat.state),
        Ok(None) => false,
        Err(_) => true,
    }
}

/// The random id of this boot.
///
/// # Errors
/// Where the kernel's file cannot be read: then nobody knows whether something ended with an earlier boot.
pub fn boot_id(kernel: &Kernel) -> Result<String, Error> {
    Ok(kernel.text("proc/sys/kernel/random/boot_id")?.trim().to_string())
}

/// Every process there is, the kernel's own threads included.
///
/// # Errors
/// Where `/proc` cannot be read.
pub fn all(kernel: &Kernel) -> Result<Vec<i32>, Error> {
    let mut pids: Vec<i32> = kernel.list("proc")?.iter().filter_map(|name| name.parse().ok()).collect();
    pids.sort_unstable();
    Ok(pids)
}

/// Pids of the processes that use anything at or below a directory: open files, working directory,
/// root, program, mapped files. Only those that this user may inspect. For messages: where `/proc` cannot be read, none.
pub fn holders(kernel: &Kernel, target: &Path) -> Vec<i32> {
    all(kernel).unwrap_or_default().into_iter().filter(|pid| uses(kernel, *pid, target)).collect()
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

/// The processes that carry a journal's mark: commands it started, and all that those started. A process that this user
/// may not inspect is another user's, and none of those.
///
/// # Errors
/// Where `/proc`, or the environment of a process that this user may inspect, cannot be read.
pub fn marked(kernel: &Kernel, journal: &str) -> Result<Vec<i32>, Error> {
    let mark = format!("{MARK}={journal}");
    let mut marked = vec![];
    for pid in all(kernel)? {
        let path = kernel.path(&format!("proc/{pid}/environ"));
        let environ = match unless_ended(std::fs::read(&path)) {
            Ok(environ) => environ.unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => continue,
            Err(error) => return Err(Error::hidden(&path)(error)),
        };
        if environ.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes()) {
            marked.push(pid);
        }
    }
    Ok(marked)
}

/// The processes of a group whose leader started then. Where the leader is gone its members still count:
/// the kernel gives no new process the number of a group that has members.
fn group(kernel: &Kernel, pgid: i32, started: u64) -> Result<Vec<i32>, Error> {
    if stat(kernel, pgid)?.is_some_and(|stat| stat.starttime != started) {
        return Ok(vec![]);
    }
    let mut members = vec![];
    for pid in all(kernel)? {
        if stat(kernel, pid)?.is_some_and(|stat| stat.pgrp == pgid) {
            members.push(pid);
        }
    }
    Ok(members)
}

/// The processes of a group that have not ended.
pub(crate) fn living(kernel: &Kernel, pgid: i32, started: u64) -> Result<Vec<i32>, Error> {
    not_ended(kernel, group(kernel, pgid, started)?)
}

/// Those of some processes that have not ended.
fn not_ended(kernel: &Kernel, pids: Vec<i32>) -> Result<Vec<i32>, Error> {
    let mut living = vec![];
    for pid in pids {
        if stat(kernel, pid)?.is_some_and(|stat| !ENDED.contains(&stat.state)) {
            living.push(pid);
        }
    }
    Ok(living)
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
    let found = marked(kernel, journal)?.len();
    kill_and_wait(kernel, &|| marked(kernel, journal))?;
    Ok(found)
}

fn kill_and_wait(kernel: &Kernel, who: &dyn Fn() -> Result<Vec<i32>, Error>) -> Result<(), Error> {
    let begun = Instant::now();
    loop {
        let alive = not_ended(kernel, who()?)?;
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
        while marked(&kernel, &mark).unwrap().is_empty() && child.try_wait().unwrap().is_none() {
            std::thread::yield_now();
        }
        assert_eq!(marked(&kernel, &mark).unwrap(), [child.id() as i32]);
        assert_eq!(kill_marked(&kernel, &mark).unwrap(), 1);
        child.wait().unwrap();
        assert_eq!(kill_marked(&kernel, &mark).unwrap(), 0);
    }

    #[test]
    fn a_process_whose_file_cannot_be_read_is_not_taken_for_gone() {
        let dir = tempfile::tempdir().unwrap();
        // Reading a directory fails for another reason than that nothing is there.
        for file in ["stat", "environ"] {
            std::fs::create_dir_all(dir.path().join("proc/7").join(file)).unwrap();
        }
        let kernel = Kernel::at(dir.path());
        assert!(is_alive(&kernel, 7, 1) && !is_alive(&kernel, 8, 1));
        assert!(living(&kernel, 9, 1).is_err() && marked(&kernel, "x").is_err());
        assert!(kill_group(&kernel, 9, 1).is_err() && kill_marked(&kernel, "x").is_err());
        let hidden = Kernel::at(dir.path().join("hidden"));
        assert!(matches!(all(&hidden), Err(Error::Hidden { .. })));
        assert!(matches!(boot_id(&hidden), Err(Error::Hidden { .. })));
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
