//! Reads the kernel's counters at the end of each window. [`reading_defs`] defines every reading of a window.

use crate::{Gauge, Probe, ProbeTarget, Sampling, probes::PROBES};
use fsarena_core::event::Note;
use fsarena_core::metric::{SERVICE_READINGS, TIMER_READINGS, reading};
use fsarena_core::sample::{Fold, ReadingDef, Readings, Unit};

/// The gauges of a watch.
pub struct Gauges {
    target: ProbeTarget,
    probes: Vec<WatchedProbe>,
}

/// A probe with its gauge.
struct WatchedProbe {
    probe: &'static Probe,
    /// The gauge; `None` while it cannot be opened.
    gauge: Option<Box<dyn Gauge>>,
    /// The values at the beginning of the window; NaN if unknown.
    values_at_begin: Vec<f64>,
}

impl Gauges {
    /// Opens the gauges of all probes of a watch. The notes name the gauges that cannot be opened, and the sources of the
    /// others.
    pub fn open(target: ProbeTarget) -> (Gauges, Vec<Note>) {
        let (mut probes, mut notes) = (vec![], vec![]);
        for probe in PROBES.iter().filter(|probe| WATCHED_PROBES.contains(&probe.id)) {
            let gauge = match (probe.open)(&target) {
                Ok(opened) => {
                    notes.extend(opened.notes);
                    Some(opened.gauge)
                }
                Err(unavailable) => {
                    notes.push(unavailable.into_note(probe.id));
                    None
                }
            };
            probes.push(WatchedProbe { probe, gauge, values_at_begin: vec![f64::NAN; probe.readings.len()] });
        }
        (Gauges { target, probes }, notes)
    }

    /// Sets the device whose counters are read from now on, and begins a window of the device.
    pub fn set_device(&mut self, device: Option<(u32, u32)>) {
        self.target.device = device;
        for watched in self.probes.iter_mut().filter(|watched| watched.probe.id == "device") {
            watched.gauge = None;
            // If the device cannot be read yet, fsarena tries again at the end of the window.
            let _ = watched.close_window(&self.target, &mut Readings::default());
        }
    }

    /// Closes the window: sets the growth of all counters since the last call in `readings`. Returns the errors of gauges that
    /// have stopped answering; fsarena tries to open them again at the end of the next window.
    pub fn close_window(&mut self, readings: &mut Readings) -> Vec<String> {
        let mut errors = vec![];
        for watched in &mut self.probes {
            let was_open = watched.gauge.is_some();
            if let Err(why) = watched.close_window(&self.target, readings)
                && was_open
            {
                errors.push(format!("no readings of probe {}: {why}", watched.probe.id));
            }
        }
        errors
    }
}

impl WatchedProbe {
    /// Reads the gauge, and sets the growth since the last call in `readings`.
    ///
    /// # Errors
    /// The gauge cannot be opened or read, in words.
    fn close_window(&mut self, target: &ProbeTarget, readings: &mut Readings) -> Result<(), String> {
        let mut now = vec![f64::NAN; self.values_at_begin.len()];
        let read = self.read(target, &mut now);
        if read.is_err() {
            self.gauge = None;
            now.fill(f64::NAN);
        }
        for ((reading, at_begin), now) in self.probe.readings.iter().zip(&self.values_at_begin).zip(&now) {
            let value = if reading.sampling == Sampling::AtReturn { *now } else { now - at_begin };
            if is_window_reading(reading.def.id) && value.is_finite() && value >= 0.0 {
                readings.set(reading.def.id, value);
            }
        }
        self.values_at_begin = now;
        read
    }

    /// Reads the current values into `now`; opens the gauge first if it is not open.
    fn read(&mut self, target: &ProbeTarget, now: &mut [f64]) -> Result<(), String> {
        if self.gauge.is_none() {
            self.gauge = Some((self.probe.open)(target).map_err(|unavailable| unavailable.why)?.gauge);
        }
        match &mut self.gauge {
            Some(gauge) => gauge.read(now).map_err(|error| error.to_string()),
            None => Ok(()),
        }
    }
}

/// The probes of a watch: those that measure a whole machine and can be read at any time.
pub const WATCHED_PROBES: [&str; 5] = ["machine_cpu", "device", "pressure", "page_cache", "iowait"];

/// The CPU time of the service's processes, in nanoseconds.
pub const SERVICE_CPU: &str = "service_cpu_ns";
/// The resident memory of the service's processes at the end of the window.
pub const SERVICE_MEMORY: &str = "service_resident_bytes";
/// The number of the service's processes at the end of the window.
pub const SERVICE_PROCESSES: &str = "service_processes";
/// The CPU time of fsarena itself, in nanoseconds.
pub const WATCH_CPU: &str = "watch_cpu_ns";
/// The bytes in use on the filesystem at the end of the window.
pub const USED_BYTES: &str = "filesystem_used_bytes";
/// The inodes in use on the filesystem at the end of the window.
pub const USED_INODES: &str = "filesystem_used_inodes";

/// The readings that this crate defines, besides those of probes.
const WATCH_READINGS: &[ReadingDef] = &[
    reading::cpu_time(SERVICE_CPU)
        .help("CPU time of the service's processes, user and system, from their CPU clocks: exact"),
    ReadingDef::neutral(SERVICE_MEMORY, Unit::Bytes)
        .tasks(Fold::Max)
        .help("resident memory of the service when the window closed"),
    ReadingDef::neutral(SERVICE_PROCESSES, Unit::Count)
        .tasks(Fold::Max)
        .help("processes of the service when the window closed"),
    reading::cpu_time(WATCH_CPU).help("CPU time of fsarena while it watched, the command of its counter included"),
    ReadingDef::neutral(USED_BYTES, Unit::Bytes)
        .tasks(Fold::Max)
        .machine()
        .help("bytes in use on the watched filesystem when the window closed"),
    ReadingDef::neutral(USED_INODES, Unit::Count)
        .tasks(Fold::Max)
        .machine()
        .help("inodes in use on it when the window closed"),
];

/// The readings of the device probe until a command returns. A window has no command.
const COMMAND_READINGS: [&str; 2] = ["device_read_to_return_bytes", "device_write_to_return_bytes"];

/// Whether a window has this reading of a probe.
pub fn is_window_reading(id: &str) -> bool {
    !COMMAND_READINGS.contains(&id)
}

/// The definitions of all readings that a window can have.
pub fn reading_defs() -> Vec<ReadingDef> {
    let elapsed = TIMER_READINGS.iter().copied().filter(|def| def.id == reading::ELAPSED);
    let probes = PROBES.iter().filter(|probe| WATCHED_PROBES.contains(&probe.id));
    let probe_readings = probes.flat_map(|probe| probe.readings).map(|reading| reading.def);
    let other_readings = SERVICE_READINGS.iter().chain(WATCH_READINGS).copied();
    elapsed.chain(probe_readings.filter(|def| is_window_reading(def.id))).chain(other_readings).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsarena_sys::kernel::SysRoot;
    use std::path::Path;

    fn write_machine(dir: &Path, idle: u32, written: u32) {
        let stat = dir.join("sys/dev/block/7:0/stat");
        std::fs::create_dir_all(stat.parent().unwrap()).unwrap();
        std::fs::create_dir_all(dir.join("proc")).unwrap();
        std::fs::write(stat, format!("1 0 8 0 {written} 0 {} 0 0 3 3 0 0 0 0 0 0\n", written * 8)).unwrap();
        std::fs::write(dir.join("proc/stat"), format!("cpu  100 0 50 {idle} 7 0 0 0 0 0\n")).unwrap();
        std::fs::write(dir.join("proc/meminfo"), "Cached: 10 kB\nDirty: 4 kB\nWriteback: 0 kB\n").unwrap();
    }

    #[test]
    fn readings_are_growth_and_a_lost_device_is_reported_once() {
        let dir = tempfile::tempdir().unwrap();
        write_machine(dir.path(), 1000, 5);
        let target = ProbeTarget { kernel: SysRoot::at(dir.path()), device: Some((7, 0)) };
        let (mut gauges, notes) = Gauges::open(target);
        assert!(notes.iter().any(|note| note.text.contains("probe pressure")), "{notes:?}");
        let close_window = |gauges: &mut Gauges| {
            let mut readings = Readings::default();
            let errors = gauges.close_window(&mut readings);
            (readings, errors)
        };
        close_window(&mut gauges);
        write_machine(dir.path(), 1000, 8);
        let (readings, errors) = close_window(&mut gauges);
        assert_eq!(
            (readings.get("device_writes"), readings.get("device_write_bytes")),
            (Some(3.0), Some(3.0 * 4096.0))
        );
        assert_eq!(readings.get("dirty_at_return_bytes"), Some(4096.0));
        assert!(readings.get("device_write_to_return_bytes").is_none() && errors.is_empty(), "{errors:?}");

        // A counter that decreases has no reading. A device that disappears leaves its open file empty.
        write_machine(dir.path(), 1000, 2);
        assert_eq!(close_window(&mut gauges).0.get("device_writes"), None);
        std::fs::write(dir.path().join("sys/dev/block/7:0/stat"), "").unwrap();
        assert!(close_window(&mut gauges).1[0].contains("probe device"));
        assert!(close_window(&mut gauges).1.is_empty(), "it is reported once");
        write_machine(dir.path(), 1000, 3);
        gauges.set_device(None);
        assert_eq!(close_window(&mut gauges).0.get("device_writes"), None);
        gauges.set_device(Some((7, 0)));
        write_machine(dir.path(), 1000, 9);
        assert_eq!(close_window(&mut gauges).0.get("device_writes"), Some(6.0));
    }

    #[test]
    fn names_of_readings_are_unique_and_probes_exist() {
        let mut ids: Vec<&str> = reading_defs().iter().map(|def| def.id).collect();
        let count = ids.len();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), count);
        let probes = PROBES.iter().flat_map(|probe| probe.readings);
        assert_eq!(probes.filter(|reading| !is_window_reading(reading.def.id)).count(), COMMAND_READINGS.len());
        for id in ["machine_cpu_ns", "iowait_ns", "pressure_io_some_ns", "device_write_bytes", "requests_count"] {
            assert!(ids.contains(&id), "{id}");
        }
        assert!(WATCHED_PROBES.iter().all(|id| PROBES.iter().any(|probe| probe.id == *id)));
    }
}
