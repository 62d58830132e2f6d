//! Finds the processes of the watched service, and adds up the CPU time that they use in a window.

use crate::watch::counter::WatchError;
use crate::watch::gauges::{SERVICE_CPU, SERVICE_MEMORY, SERVICE_PROCESSES};
use fsarena_core::setting_text::setting;
use fsarena_core::{metric::reading, sample::Readings};
use fsarena_sys::process::{self, ProcessIdentity};
use fsarena_sys::{cpu, kernel::SysRoot};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The number of readings after which fsarena searches for new processes. It also searches at the end of each window. A
/// search is expensive, because it reads a file of each process on the machine.
const READINGS_PER_SEARCH: u32 = 30;

/// How to find the service's processes: by a command name, a process id, or a cgroup's directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum ServiceSpec {
    /// The command name in `/proc/PID/comm`, at most 15 bytes.
    Name(String),
    /// A process id: the process that has this id when the watch begins.
    Pid(i32),
    /// The directory of a cgroup: all processes in it and in the cgroups below it.
    Cgroup(PathBuf),
}

impl ServiceSpec {
    /// Parses a text: a number is a process id, an absolute path a cgroup, and any other text a command name.
    pub fn parse(text: &str) -> ServiceSpec {
        match text.parse() {
            Ok(pid) => ServiceSpec::Pid(pid),
            Err(_) if text.starts_with('/') => ServiceSpec::Cgroup(text.into()),
            // The kernel keeps 15 bytes of a name.
            Err(_) => ServiceSpec::Name(String::from_utf8_lossy(&text.as_bytes()[..text.len().min(15)]).into()),
        }
    }
}

impl From<String> for ServiceSpec {
    fn from(text: String) -> ServiceSpec {
        ServiceSpec::parse(&text)
    }
}

/// The text that [`ServiceSpec::parse`] parses.
impl From<ServiceSpec> for String {
    fn from(spec: ServiceSpec) -> String {
        match spec {
            ServiceSpec::Name(name) => name,
            ServiceSpec::Pid(pid) => pid.to_string(),
            ServiceSpec::Cgroup(dir) => dir.display().to_string(),
        }
    }
}

/// The processes of the service, and the CPU time that they used in the open window.
pub struct Service {
    kernel: SysRoot,
    specs: Vec<ServiceSpec>,
    /// The processes of each [`ServiceSpec::Pid`], with their start times: when they have ended, the kernel reuses
    /// their ids.
    processes_of_pids: Vec<ProcessIdentity>,
    /// The processes found so far, by process id and start time.
    processes: BTreeMap<(i32, u64), ProcessTimes>,
    /// The CPU time used in the window, in nanoseconds.
    used_ns: u64,
    /// The clock ticks of user and of system time used in the window.
    used_ticks: (u64, u64),
    readings_since_search: u32,
    /// When the watch began, in clock ticks since boot.
    begin_ticks: u64,
}

/// The CPU times of a process at the last reading.
#[derive(Debug, Clone, Copy)]
struct ProcessTimes {
    /// User and system time in nanoseconds.
    ns: u64,
    /// The clock ticks of user and of system time.
    ticks: (u64, u64),
}

impl Service {
    /// Starts to watch the processes that match these specifications. The CPU time that they used before does not count.
    ///
    /// # Errors
    /// No process has the process id of a specification.
    pub fn new(kernel: &SysRoot, specs: &[ServiceSpec]) -> Result<Service, WatchError> {
        let mut processes_of_pids = vec![];
        for spec in specs {
            let ServiceSpec::Pid(pid) = *spec else { continue };
            let Some(start_time) = process::start_time(kernel, pid) else {
                let option = setting("service", &pid.to_string());
                return Err(WatchError::Unavailable(format!("{option}: no process has this id")));
            };
            processes_of_pids.push(ProcessIdentity { pid, start_time });
        }
        let mut service = Service {
            kernel: kernel.clone(),
            specs: specs.to_vec(),
            processes_of_pids,
            processes: BTreeMap::new(),
            used_ns: 0,
            used_ticks: (0, 0),
            readings_since_search: 0,
            begin_ticks: ticks_since_boot(),
        };
        service.add_new_processes();
        Ok(service)
    }

    /// Adds the CPU time that the processes used since the last reading. Call it often: when a process ends, its time
    /// since the last reading is lost.
    pub fn read(&mut self) {
        if self.specs.is_empty() {
            return;
        }
        self.readings_since_search += 1;
        let mut ended = vec![];
        for (identity, times) in &mut self.processes {
            match cpu::process_cpu_ns(identity.0) {
                Some(ns) if ns >= times.ns => {
                    self.used_ns += ns - times.ns;
                    times.ns = ns;
                }
                _ => ended.push(*identity),
            }
        }
        if !ended.is_empty() || self.readings_since_search >= READINGS_PER_SEARCH {
            self.processes.retain(|identity, _| !ended.contains(identity));
            self.add_new_processes();
        }
    }

    /// Closes the window: sets its readings, and begins the next window. Sets no readings if the watch has no service.
    pub fn close_window(&mut self, readings: &mut Readings) {
        if self.specs.is_empty() {
            return;
        }
        self.read();
        self.add_new_processes();
        self.add_ticks();
        readings.set(SERVICE_PROCESSES, self.processes.len() as f64);
        readings.set(SERVICE_CPU, self.used_ns as f64);
        let (user, system) = self.used_ticks;
        // Divide the exact CPU time into user and system time in the ratio of the ticks. Without a tick the ratio is unknown.
        if user + system > 0 {
            let user_ns = self.used_ns as f64 * user as f64 / (user + system) as f64;
            readings.set(reading::SERVICE_USER_CPU, user_ns);
            readings.set(reading::SERVICE_SYSTEM_CPU, self.used_ns as f64 - user_ns);
        }
        let resident = self.processes.keys().filter_map(|(pid, _)| resident_bytes(&self.kernel, *pid));
        readings.set(SERVICE_MEMORY, resident.sum::<u64>() as f64);
        self.used_ns = 0;
        self.used_ticks = (0, 0);
    }

    /// Searches for new processes and adds them. If a process started during the watch, all its CPU time counts. If it
    /// is older and joined the service now, for example its cgroup, its CPU time counts from now on. Each counts until
    /// it ends.
    fn add_new_processes(&mut self) {
        self.readings_since_search = 0;
        for pid in self.find_pids(&self.specs) {
            let Some(start_time) = process::start_time(&self.kernel, pid) else { continue };
            if self.processes.contains_key(&(pid, start_time)) {
                continue;
            }
            let (Some(ns), Some(ticks)) = (cpu::process_cpu_ns(pid), cpu::user_and_system_ticks(&self.kernel, pid))
            else {
                continue;
            };
            let started_during_watch = start_time > self.begin_ticks;
            // A process that started during the watch begins at 0, so that `add_ticks` counts all its ticks.
            let ticks = if started_during_watch { (0, 0) } else { ticks };
            if started_during_watch {
                self.used_ns += ns;
            }
            self.processes.insert((pid, start_time), ProcessTimes { ns, ticks });
        }
    }

    /// Adds the clock ticks that the processes used since the last window.
    fn add_ticks(&mut self) {
        for ((pid, _), times) in &mut self.processes {
            let Some(ticks) = cpu::user_and_system_ticks(&self.kernel, *pid) else { continue };
            self.used_ticks.0 += ticks.0.saturating_sub(times.ticks.0);
            self.used_ticks.1 += ticks.1.saturating_sub(times.ticks.1);
            times.ticks = ticks;
        }
    }

    /// The id of a process that has ended, if a [`ServiceSpec::Pid`] names it; None if all of these processes run.
    pub fn ended_process(&self) -> Option<i32> {
        let mut processes = self.processes_of_pids.iter();
        processes
            .find(|process| !process::is_alive(&self.kernel, process.pid, process.start_time))
            .map(|ended| ended.pid)
    }

    /// The specifications that no running process matches, as text.
    pub fn absent_specs(&self) -> impl Iterator<Item = String> {
        let is_absent = |spec: &&ServiceSpec| {
            let pids = self.find_pids(std::slice::from_ref(*spec));
            !pids.iter().any(|pid| process::start_time(&self.kernel, *pid).is_some())
        };
        self.specs.iter().filter(is_absent).cloned().map(String::from)
    }

    /// The ids of all processes that match one of these specifications, sorted.
    fn find_pids(&self, specs: &[ServiceSpec]) -> Vec<i32> {
        let has_names = specs.iter().any(|spec| matches!(spec, ServiceSpec::Name(_)));
        let all_pids = if has_names { process::all_pids(&self.kernel).unwrap_or_default() } else { vec![] };
        let mut pids = vec![];
        for spec in specs {
            match spec {
                ServiceSpec::Pid(pid) => {
                    let mut with_pid = self.processes_of_pids.iter().filter(|process| process.pid == *pid);
                    let start_time = process::start_time(&self.kernel, *pid);
                    if with_pid.any(|process| Some(process.start_time) == start_time) {
                        pids.push(*pid);
                    }
                }
                ServiceSpec::Cgroup(dir) => add_cgroup_pids(dir, &mut pids),
                ServiceSpec::Name(name) => pids.extend(all_pids.iter().filter(|pid| {
                    self.kernel.read_trimmed(&format!("proc/{pid}/comm")).is_some_and(|comm| comm == *name)
                })),
            }
        }
        pids.sort_unstable();
        pids.dedup();
        pids
    }
}

/// The time since boot in clock ticks, the unit of the start times in `/proc/PID/stat`.
fn ticks_since_boot() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let ticks_per_s = rustix::param::clock_ticks_per_second();
    time.tv_sec as u64 * ticks_per_s + time.tv_nsec as u64 * ticks_per_s / 1_000_000_000
}

/// Adds the ids of all processes in a cgroup and in the cgroups below it.
fn add_cgroup_pids(dir: &Path, pids: &mut Vec<i32>) {
    let text = std::fs::read_to_string(dir.join("cgroup.procs")).unwrap_or_default();
    pids.extend(text.lines().filter_map(|line| line.parse::<i32>().ok()));
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            add_cgroup_pids(&entry.path(), pids);
        }
    }
}

/// The resident memory of a process in bytes: the second number of `/proc/PID/statm`, which is in pages.
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
    fn a_service_is_a_name_a_process_id_or_a_cgroup() {
        assert_eq!(ServiceSpec::parse("squid"), ServiceSpec::Name("squid".into()));
        assert_eq!(ServiceSpec::parse("a-name-of-many-letters"), ServiceSpec::Name("a-name-of-many-".into()));
        assert_eq!(ServiceSpec::parse("café"), ServiceSpec::Name("café".into()));
        assert_eq!(ServiceSpec::parse("17"), ServiceSpec::Pid(17));
        assert_eq!(ServiceSpec::parse("/sys/fs/cgroup/x"), ServiceSpec::Cgroup("/sys/fs/cgroup/x".into()));
    }

    #[test]
    fn a_process_counts_until_it_ends() {
        let kernel = SysRoot::host();
        let mut child = Command::new("yes").stdout(Stdio::null()).spawn().unwrap();
        let mut service = Service::new(&kernel, &[ServiceSpec::Pid(child.id() as i32)]).unwrap();
        // A busy machine may delay the process, but not for a minute.
        let has_used_cpu = (0..12_000).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(5));
            let mut readings = Readings::default();
            service.close_window(&mut readings);
            assert_eq!(readings.get(SERVICE_PROCESSES), Some(1.0));
            assert!(readings.get(SERVICE_MEMORY).unwrap() > 0.0);
            readings.get(SERVICE_CPU).unwrap() > 0.0
        });
        assert!(has_used_cpu, "a busy process uses no CPU time");
        assert_eq!(service.ended_process(), None);
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(service.ended_process(), Some(child.id() as i32));
        let mut readings = Readings::default();
        service.close_window(&mut readings);
        assert_eq!(readings.get(SERVICE_PROCESSES), Some(0.0));
    }

    #[test]
    fn another_process_with_the_id_of_an_ended_one_does_not_count() {
        let pid = std::process::id() as i32;
        let mut service = Service::new(&SysRoot::host(), &[ServiceSpec::Pid(pid)]).unwrap();
        service.processes.clear();
        service.processes_of_pids[0].start_time -= 1;
        let mut readings = Readings::default();
        service.close_window(&mut readings);
        assert_eq!((readings.get(SERVICE_PROCESSES), service.ended_process()), (Some(0.0), Some(pid)));
    }

    #[test]
    fn only_a_process_that_started_during_the_watch_counts_with_all_its_time() {
        let group = tempfile::tempdir().unwrap();
        let mut service = Service::new(&SysRoot::host(), &[ServiceSpec::Cgroup(group.path().into())]).unwrap();
        let mut add_and_close = |begin_ticks: u64| {
            service.begin_ticks = begin_ticks;
            service.processes.clear();
            std::fs::write(group.path().join("cgroup.procs"), format!("{}\n", std::process::id())).unwrap();
            let mut readings = Readings::default();
            service.close_window(&mut readings);
            assert_eq!(readings.get(SERVICE_PROCESSES), Some(1.0));
            readings.get(SERVICE_CPU).unwrap()
        };
        // This process has used CPU time, before it joins the group.
        assert_eq!(add_and_close(u64::MAX), 0.0);
        assert!(add_and_close(0) > 0.0);
    }

    #[test]
    fn without_a_service_there_are_no_readings() {
        let mut readings = Readings::default();
        Service::new(&SysRoot::host(), &[]).unwrap().close_window(&mut readings);
        assert!(readings.0.is_empty());
    }
}
