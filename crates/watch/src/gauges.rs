//! The kernel's counters at the ends of windows.
//!
//! [`readings`] defines every reading of a window.

use fsarena_core::event::Note;
use fsarena_core::metric::{SERVICE, TIMER, reading};
use fsarena_core::sample::{Fold, ReadingDef, Readings, Unit};
use fsarena_probe::{Gauge, Probe, Scene, Takes, probes::PROBES};

/// The gauges of a watch.
pub struct Gauges {
    scene: Scene,
    open: Vec<OpenGauge>,
}

struct OpenGauge {
    probe: &'static Probe,
    /// None while it cannot be opened.
    gauge: Option<Box<dyn Gauge>>,
    begun: Vec<f64>,
}

impl Gauges {
    /// Opens what can be opened. The notes say what cannot, and where figures come from.
    pub fn open(scene: Scene) -> (Gauges, Vec<Note>) {
        let mut notes = vec![];
        let used = PROBES.iter().filter(|probe| PROBES_USED.contains(&probe.id));
        let open = used.map(|probe| {
            let begun = vec![f64::NAN; probe.readings.len()];
            match (probe.open)(&scene) {
                Ok(opened) => {
                    notes.extend(opened.notes);
                    OpenGauge { probe, gauge: Some(opened.gauge), begun }
                }
                Err(unavailable) => {
                    notes.push(unavailable.note(probe.id));
                    OpenGauge { probe, gauge: None, begun }
                }
            }
        });
        let open = open.collect();
        (Gauges { scene, open }, notes)
    }

    /// Sets the device to read from now on.
    pub fn look_at(&mut self, device: Option<(u32, u32)>) {
        self.scene.device = device;
        for open in self.open.iter_mut().filter(|open| open.probe.id == "device") {
            open.gauge = None;
            open.begun.fill(f64::NAN);
        }
    }

    /// Reads all: what happened since the last time, into `readings`. What stopped answering is told, and tried
    /// anew the next time.
    pub fn turn(&mut self, readings: &mut Readings) -> Vec<String> {
        let mut troubles = vec![];
        for open in &mut self.open {
            let had = open.gauge.is_some();
            if let Err(why) = open.turn(&self.scene, readings)
                && had
            {
                troubles.push(format!("no readings of probe {}: {why}", open.probe.id));
            }
        }
        troubles
    }
}

impl OpenGauge {
    fn turn(&mut self, scene: &Scene, readings: &mut Readings) -> Result<(), String> {
        let mut now = vec![f64::NAN; self.begun.len()];
        let read = self.read(scene, &mut now);
        if read.is_err() {
            self.gauge = None;
            now.fill(f64::NAN);
        }
        for ((reading, began), now) in self.probe.readings.iter().zip(&self.begun).zip(&now) {
            let value = if reading.takes == Takes::AtReturn { *now } else { now - began };
            if is_of_windows(reading.def.id) && value.is_finite() && value >= 0.0 {
                readings.set(reading.def.id, value);
            }
        }
        self.begun = now;
        read
    }

    fn read(&mut self, scene: &Scene, now: &mut [f64]) -> Result<(), String> {
        if self.gauge.is_none() {
            self.gauge = Some((self.probe.open)(scene).map_err(|unavailable| unavailable.why)?.gauge);
        }
        match &mut self.gauge {
            Some(gauge) => gauge.read(now).map_err(|error| error.to_string()),
            None => Ok(()),
        }
    }
}

/// The probes whose gauges make sense for a whole machine at any moment.
pub const PROBES_USED: [&str; 5] = ["machine_cpu", "device", "pressure", "page_cache", "iowait"];

/// CPU time of the service's processes.
pub const SERVICE_CPU: &str = "service_cpu_ns";
/// Resident memory of the service's processes at the end.
pub const SERVICE_MEMORY: &str = "service_resident_bytes";
/// The number of processes of the service at the end.
pub const SERVICE_PROCESSES: &str = "service_processes";
/// CPU time of the watch itself.
pub const OWN_CPU: &str = "watch_cpu_ns";
/// Bytes in use on the filesystem at the end.
pub const USED: &str = "filesystem_used_bytes";
/// Inodes in use on the filesystem at the end.
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

/// Readings of these probes that exist only for commands, because a window does not return.
const OF_COMMANDS: [&str; 2] = ["device_read_to_return_bytes", "device_write_to_return_bytes"];

/// Whether a reading of these probes is one of a window.
pub fn is_of_windows(id: &str) -> bool {
    !OF_COMMANDS.contains(&id)
}

/// Every reading that a window can have.
pub fn readings() -> Vec<ReadingDef> {
    let elapsed = TIMER.iter().copied().filter(|def| def.id == reading::ELAPSED);
    let probes = PROBES.iter().filter(|probe| PROBES_USED.contains(&probe.id));
    let of_probes = probes.flat_map(|probe| probe.readings).map(|reading| reading.def);
    let own = SERVICE.iter().chain(OWN).copied();
    elapsed.chain(of_probes.filter(|def| is_of_windows(def.id))).chain(own).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsarena_sys::kernel::SysRoot;
    use std::path::Path;

    fn machine(dir: &Path, idle: u32, written: u32) {
        let stat = dir.join("sys/dev/block/7:0/stat");
        std::fs::create_dir_all(stat.parent().unwrap()).unwrap();
        std::fs::create_dir_all(dir.join("proc")).unwrap();
        std::fs::write(stat, format!("1 0 8 0 {written} 0 {} 0 0 3 3 0 0 0 0 0 0\n", written * 8)).unwrap();
        std::fs::write(dir.join("proc/stat"), format!("cpu  100 0 50 {idle} 7 0 0 0 0 0\n")).unwrap();
        std::fs::write(dir.join("proc/meminfo"), "Cached: 10 kB\nDirty: 4 kB\nWriteback: 0 kB\n").unwrap();
    }

    #[test]
    fn windows_follow_each_other_and_a_device_that_goes_is_told_once() {
        let dir = tempfile::tempdir().unwrap();
        machine(dir.path(), 1000, 5);
        let scene = Scene { kernel: SysRoot::at(dir.path()), device: Some((7, 0)) };
        let (mut gauges, notes) = Gauges::open(scene);
        assert!(notes.iter().any(|note| note.text.contains("probe pressure")), "{notes:?}");
        let turn = |gauges: &mut Gauges| {
            let mut readings = Readings::default();
            let troubles = gauges.turn(&mut readings);
            (readings, troubles)
        };
        turn(&mut gauges);
        machine(dir.path(), 1000, 8);
        let (readings, troubles) = turn(&mut gauges);
        assert_eq!(
            (readings.get("device_writes"), readings.get("device_write_bytes")),
            (Some(3.0), Some(3.0 * 4096.0))
        );
        assert_eq!(readings.get("dirty_at_return_bytes"), Some(4096.0));
        assert!(
            readings.get("device_write_to_return_bytes").is_none() && troubles.is_empty(),
            "{troubles:?}"
        );

        // Counters that go back are not had. A file that is open stays; a device that goes takes it along.
        machine(dir.path(), 1000, 2);
        assert_eq!(turn(&mut gauges).0.get("device_writes"), None);
        std::fs::write(dir.path().join("sys/dev/block/7:0/stat"), "").unwrap();
        assert!(turn(&mut gauges).1[0].contains("probe device"));
        assert!(turn(&mut gauges).1.is_empty(), "it is told once");
        machine(dir.path(), 1000, 3);
        gauges.look_at(None);
        assert_eq!(turn(&mut gauges).0.get("device_writes"), None);
    }

    #[test]
    fn names_are_unique_and_the_probes_are_there() {
        let mut ids: Vec<&str> = readings().iter().map(|def| def.id).collect();
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
