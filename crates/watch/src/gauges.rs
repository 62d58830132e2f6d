//! The kernel's counters at the ends of windows.

use crate::readings::{PROBES_USED, is_of_windows};
use fsarena_core::{event::Note, sample::Readings};
use fsarena_probe::{Gauge, Probe, Scene, Takes, probes::PROBES};

/// Every gauge that answers here.
pub struct Gauges {
    scene: Scene,
    open: Vec<Open>,
}

struct Open {
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
                    Open { probe, gauge: Some(opened.gauge), begun }
                }
                Err(unavailable) => {
                    notes.push(unavailable.note(probe.id));
                    Open { probe, gauge: None, begun }
                }
            }
        });
        let open = open.collect();
        (Gauges { scene, open }, notes)
    }

    /// Another device from now on.
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

impl Open {
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
}
