//! What a window is read of.

use fsarena_core::metric::{SERVICE, TIMER, reading};
use fsarena_core::sample::{Fold, ReadingDef, Unit};
use fsarena_probe::probes::PROBES;

/// The probes whose gauges make sense for a whole machine at any moment.
pub const PROBES_USED: [&str; 5] = ["machine_cpu", "device", "pressure", "page_cache", "iowait"];

/// CPU time of the service's processes.
pub const SERVICE_CPU: &str = "service_cpu_ns";
/// Resident memory of them at the end.
pub const SERVICE_MEMORY: &str = "service_resident_bytes";
/// How many there were at the end.
pub const SERVICE_PROCESSES: &str = "service_processes";
/// What watching itself cost.
pub const OWN_CPU: &str = "watch_cpu_ns";
/// Bytes in use on the filesystem at the end.
pub const USED: &str = "filesystem_used_bytes";
/// Inodes in use on it.
pub const USED_INODES: &str = "filesystem_used_inodes";

const OWN: &[ReadingDef] = &[
    reading::cpu_time(SERVICE_CPU)
        .help("CPU time of the service's processes, user and system, from their CPU clocks: exact"),
    ReadingDef::neutral(SERVICE_MEMORY, Unit::Bytes)
        .tasks(Fold::Max)
        .help("resident memory of the service when the window closed"),
    ReadingDef::neutral(SERVICE_PROCESSES, Unit::Count)
        .tasks(Fold::Max)
        .help("processes of the service when the window closed"),
    reading::cpu_time(OWN_CPU)
        .help("CPU time of fsarena while it watched, the command of its counter included"),
    ReadingDef::neutral(USED, Unit::Bytes)
        .tasks(Fold::Max)
        .machine()
        .help("bytes in use on the watched filesystem when the window closed"),
    ReadingDef::neutral(USED_INODES, Unit::Count)
        .tasks(Fold::Max)
        .machine()
        .help("inodes in use on it when the window closed"),
];

/// Readings of these probes that only a command has, because it returns.
const OF_COMMANDS: [&str; 2] = ["device_read_to_return_bytes", "device_write_to_return_bytes"];

/// Whether a reading of these probes is one of a window.
pub fn is_of_windows(id: &str) -> bool {
    !OF_COMMANDS.contains(&id)
}

/// Every reading that a window can have.
pub fn defs() -> Vec<ReadingDef> {
    let elapsed = TIMER.iter().copied().filter(|def| def.id == reading::ELAPSED);
    let probes = PROBES.iter().filter(|probe| PROBES_USED.contains(&probe.id));
    let of_probes = probes.flat_map(|probe| probe.readings).map(|reading| reading.def);
    let own = SERVICE.iter().chain(OWN).copied();
    elapsed.chain(of_probes.filter(|def| is_of_windows(def.id))).chain(own).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_the_probes_are_there() {
        let mut ids: Vec<&str> = defs().iter().map(|def| def.id).collect();
        let all = ids.len();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), all);
        let probes = PROBES.iter().flat_map(|probe| probe.readings);
        assert_eq!(probes.filter(|reading| !is_of_windows(reading.def.id)).count(), OF_COMMANDS.len());
        for id in
            ["machine_cpu_ns", "iowait_ns", "pressure_io_some_ns", "device_write_bytes", "requests_count"]
        {
            assert!(ids.contains(&id), "{id}");
        }
        assert!(PROBES_USED.iter().all(|id| PROBES.iter().any(|probe| probe.id == *id)));
    }
}
