//! The service's own processes.

use crate::gauges::{SERVICE_CPU, SERVICE_MEMORY, SERVICE_PROCESSES};
use fsarena_core::{metric::reading, sample::Readings};
use fsarena_sys::{cpu, kernel::SysRoot, process};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Finding processes means reading a file of each one on the machine, so it is done at the ends of windows and
/// after this number of readings.
const LOOK_AFTER: u32 = 30;

/// How to find the service's processes: by a command name, a process id, or a cgroup's directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum Known {
    /// `comm`, 15 characters at most.
    Name(String),
    /// A process id.
    Pid(i32),
    /// All processes in a cgroup and those below it.
    Cgroup(PathBuf),
}

impl Known {
    /// A name, a number, or a path.
    pub fn of(text: &str) -> Known {
        match text.parse() {
            Ok(pid) => Known::Pid(pid),
            Err(_) if text.starts_with('/') => Known::Cgroup(text.into()),
            // The kernel keeps 15 bytes of a name.
            Err(_) => Known::Name(String::from_utf8_lossy(&text.as_bytes()[..text.len().min(15)]).into()),
        }
    }
}

impl From<String> for Known {
    fn from(text: String) -> Known {
        Known::of(&text)
    }
}

/// The text that [`Known::of`] parses.
impl From<Known> for String {
    fn from(known: Known) -> String {
        match known {
            Known::Name(name) => name,
            Known::Pid(pid) => pid.to_string(),
            Known::Cgroup(dir) => dir.display().to_string(),
        }
    }
}

/// The processes, and what they used in the window that is open.
pub struct Service {
    kernel: SysRoot,
    known: Vec<Known>,
    /// CPU time in nanoseconds when last seen, and ticks of user and system time likewise.
    seen: BTreeMap<(i32, u64), Seen>,
    used_ns: u64,
    ticks: (u64, u64),
    since_looked: u32,
}

#[derive(Debug, Clone, Copy)]
struct Seen {
    ns: u64,
    ticks: (u64, u64),
}

impl Service {
    /// Starts to watch these processes. Their use so far does not count.
    pub fn new(kernel: &SysRoot, known: &[Known]) -> Service {
        let mut service = Service {
            kernel: kernel.clone(),
            known: known.to_vec(),
            seen: BTreeMap::new(),
            used_ns: 0,
            ticks: (0, 0),
            since_looked: 0,
        };
        service.look(true);
        service
    }

    /// Reads what the processes have used since the last reading: what ends takes its time with it.
    pub fn read(&mut self) {
        if self.known.is_empty() {
            return;
        }
        self.since_looked += 1;
        let mut gone = vec![];
        for (identity, seen) in &mut self.seen {
            match cpu::process_ns(identity.0) {
                Some(ns) if ns >= seen.ns => {
                    self.used_ns += ns - seen.ns;
                    seen.ns = ns;
                }
                _ => gone.push(*identity),
            }
        }
        if !gone.is_empty() || self.since_looked >= LOOK_AFTER {
            self.seen.retain(|identity, _| !gone.contains(identity));
            self.look(false);
        }
    }

    /// Closes the window.
    pub fn turn(&mut self, readings: &mut Readings) {
        if self.known.is_empty() {
            return;
        }
        self.read();
        self.look(false);
        self.split();
        readings.set(SERVICE_PROCESSES, self.seen.len() as f64);
        readings.set(SERVICE_CPU, self.used_ns as f64);
        let (user, system) = self.ticks;
        // Without a single tick there is nothing to split by.
        if user + system > 0 {
            let user_ns = self.used_ns as f64 * user as f64 / (user + system) as f64;
            readings.set(reading::SERVICE_USER, user_ns);
            readings.set(reading::SERVICE_SYSTEM, self.used_ns as f64 - user_ns);
        }
        let resident = self.seen.keys().filter_map(|(pid, _)| resident_bytes(&self.kernel, *pid));
        readings.set(SERVICE_MEMORY, resident.sum::<u64>() as f64);
        (self.used_ns, self.ticks) = (0, (0, 0));
    }

    /// Finds new processes. Those that started since the watch began count with all their use.
    fn look(&mut self, first: bool) {
        self.since_looked = 0;
        for pid in self.pids(&self.known) {
            let Some(started) = process::start_time(&self.kernel, pid) else { continue };
            if self.seen.contains_key(&(pid, started)) {
                continue;
            }
            let (Some(ns), Some(ticks)) = (cpu::process_ns(pid), cpu::user_and_system(&self.kernel, pid))
            else {
                continue;
            };
            let before = if first { Seen { ns, ticks } } else { Seen { ns: 0, ticks: (0, 0) } };
            self.used_ns += ns - before.ns;
            self.seen.insert((pid, started), Seen { ns, ticks: before.ticks });
        }
    }

    fn split(&mut self) {
        for ((pid, _), seen) in &mut self.seen {
            let Some(now) = cpu::user_and_system(&self.kernel, *pid) else { continue };
            self.ticks.0 += now.0.saturating_sub(seen.ticks.0);
            self.ticks.1 += now.1.saturating_sub(seen.ticks.1);
            seen.ticks = now;
        }
    }

    /// The names of processes of the service of which none runs.
    pub fn absent(&self) -> impl Iterator<Item = String> {
        let absent = |known: &&Known| {
            let pids = self.pids(std::slice::from_ref(*known));
            !pids.iter().any(|pid| process::start_time(&self.kernel, *pid).is_some())
        };
        self.known.iter().filter(absent).cloned().map(String::from)
    }

    fn pids(&self, of: &[Known]) -> Vec<i32> {
        let named = of.iter().any(|known| matches!(known, Known::Name(_)));
        let all = if named { process::all(&self.kernel).unwrap_or_default() } else { vec![] };
        let mut pids = vec![];
        for known in of {
            match known {
                Known::Pid(pid) => pids.push(*pid),
                Known::Cgroup(dir) => in_cgroup(dir, &mut pids),
                Known::Name(name) => pids.extend(all.iter().filter(|pid| {
                    self.kernel.fact(&format!("proc/{pid}/comm")).is_some_and(|comm| comm == *name)
                })),
            }
        }
        pids.sort_unstable();
        pids.dedup();
        pids
    }
}

fn in_cgroup(dir: &Path, pids: &mut Vec<i32>) {
    let text = std::fs::read_to_string(dir.join("cgroup.procs")).unwrap_or_default();
    pids.extend(text.lines().filter_map(|line| line.parse::<i32>().ok()));
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            in_cgroup(&entry.path(), pids);
        }
    }
}

/// The second number of `/proc/PID/statm`, in pages.
fn resident_bytes(kernel: &SysRoot, pid: i32) -> Option<u64> {
    let text = kernel.read(&format!("proc/{pid}/statm")).ok()?;
    let pages: u64 = text.split_ascii_whitespace().nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn names_numbers_and_paths() {
        assert_eq!(Known::of("squid"), Known::Name("squid".into()));
        assert_eq!(Known::of("a-name-of-many-letters"), Known::Name("a-name-of-many-".into()));
        assert_eq!(Known::of("café"), Known::Name("café".into()));
        assert_eq!(Known::of("17"), Known::Pid(17));
        assert_eq!(Known::of("/sys/fs/cgroup/x"), Known::Cgroup("/sys/fs/cgroup/x".into()));
    }

    #[test]
    fn a_process_counts_from_the_beginning_and_until_it_ends() {
        let kernel = SysRoot::host();
        let mut child = Command::new("yes").stdout(Stdio::null()).spawn().unwrap();
        let mut service = Service::new(&kernel, &[Known::Pid(child.id() as i32)]);
        // A busy machine may let it wait, but not for a minute.
        let used = (0..12_000).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(5));
            let mut readings = Readings::default();
            service.turn(&mut readings);
            assert_eq!(readings.get(SERVICE_PROCESSES), Some(1.0));
            assert!(readings.get(SERVICE_MEMORY).unwrap() > 0.0);
            readings.get(SERVICE_CPU).unwrap() > 0.0
        });
        assert!(used, "a busy process uses no CPU time");
        child.kill().unwrap();
        child.wait().unwrap();
        let mut readings = Readings::default();
        service.turn(&mut readings);
        assert_eq!(readings.get(SERVICE_PROCESSES), Some(0.0));
    }

    #[test]
    fn nothing_is_said_of_no_service() {
        let mut readings = Readings::default();
        Service::new(&SysRoot::host(), &[]).turn(&mut readings);
        assert!(readings.0.is_empty());
    }
}
