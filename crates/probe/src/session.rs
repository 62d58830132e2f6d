//! Reads all probes around each task of a cell.

use crate::probe::{Gauge, Probe, ProbeTarget, Sampling, Unavailable};
use crate::probes::PROBES;
use fsarena_core::{event::Note, sample::Readings};
use fsarena_sys::{device, kernel::SysRoot};
use std::{ops::Range, path::Path};

/// The available probes of this machine, opened once for all tasks of a cell.
pub struct Session {
    probes: Vec<SessionProbe>,
    notes: Vec<Note>,
}

/// A probe and its opened gauge.
struct SessionProbe {
    probe: &'static Probe,
    gauge: Box<dyn Gauge>,
    /// The positions of its values in a snapshot.
    positions: Range<usize>,
    has_failed: bool,
}

/// The values of all gauges at one moment.
#[derive(Debug, Clone, PartialEq)]
pub struct Snapshot(Vec<f64>);

impl Session {
    /// Opens every probe. The notes name the unavailable probes with the reason, and the sources of some readings.
    pub fn open(target: &ProbeTarget) -> (Session, Vec<Note>) {
        let mut session = Session { probes: vec![], notes: vec![] };
        let mut notes = Vec::new();
        for probe in PROBES {
            let opened_and_read = (probe.open)(target).and_then(|mut opened| {
                let mut values = vec![f64::NAN; probe.readings.len()];
                let read = opened.gauge.read(&mut values);
                read.map(|()| opened).map_err(|error| Unavailable::new(error.to_string()))
            });
            match opened_and_read {
                Ok(opened) => {
                    notes.extend(opened.notes);
                    let start = session.empty_snapshot().0.len();
                    session.probes.push(SessionProbe {
                        probe,
                        gauge: opened.gauge,
                        positions: start..start + probe.readings.len(),
                        has_failed: false,
                    });
                }
                Err(unavailable) => notes.push(unavailable.into_note(probe.id)),
            }
        }
        (session, notes)
    }

    /// Resets peaks and reads all gauges. Call it directly before a task.
    pub fn read_before(&mut self) -> Snapshot {
        for probe in &mut self.probes {
            probe.gauge.reset_peaks();
        }
        let mut snapshot = self.empty_snapshot();
        for probe in self.probes.iter_mut().rev() {
            self.notes.extend(probe.read(&mut snapshot));
        }
        snapshot
    }

    /// Reads the probes that use the values when the work has returned.
    pub fn read_at_return(&mut self) -> Snapshot {
        self.read_probes(|sampling| sampling != Sampling::GrowthUntilSynced)
    }

    /// Reads the probes that use the values when the data is on the device.
    pub fn read_at_synced(&mut self) -> Snapshot {
        self.read_probes(|sampling| sampling == Sampling::GrowthUntilSynced)
    }

    /// Computes the readings of a task from its three snapshots. Readings of a failed gauge and of a counter that decreased are
    /// left out (`iowait` may decrease, see proc_stat(5), and so do the counters of a replaced device).
    pub fn compute_readings(&self, before: &Snapshot, at_return: &Snapshot, at_synced: &Snapshot) -> Readings {
        let mut readings = Readings::default();
        let probe_readings = self.probes.iter().flat_map(|probe| probe.probe.readings);
        for (position, reading) in probe_readings.enumerate() {
            let value = match reading.sampling {
                Sampling::GrowthUntilReturn => at_return.0[position] - before.0[position],
                Sampling::GrowthUntilSynced => at_synced.0[position] - before.0[position],
                Sampling::AtReturn => at_return.0[position],
            };
            if value.is_finite() && value >= 0.0 {
                readings.set(reading.def.id, value);
            }
        }
        readings
    }

    /// Returns the notes on gauges that failed since the last call. Each gauge is reported once per cell.
    pub fn take_notes(&mut self) -> Vec<Note> {
        std::mem::take(&mut self.notes)
    }

    /// A snapshot in which all values are NaN.
    fn empty_snapshot(&self) -> Snapshot {
        Snapshot(vec![f64::NAN; self.probes.last().map_or(0, |probe| probe.positions.end)])
    }

    /// Reads the probes with a reading for which `uses` returns true.
    fn read_probes(&mut self, uses: impl Fn(Sampling) -> bool) -> Snapshot {
        let mut snapshot = self.empty_snapshot();
        for probe in &mut self.probes {
            if probe.probe.readings.iter().any(|reading| uses(reading.sampling)) {
                self.notes.extend(probe.read(&mut snapshot));
            }
        }
        snapshot
    }
}

/// Calls `work` and reads all probes before and after it, for the device of a directory. Returns the result of `work`, the
/// readings, and notes on probes that could not be read.
pub fn measure_around<T>(kernel: &SysRoot, dir: &Path, work: impl FnOnce() -> T) -> (T, Readings, Vec<Note>) {
    let device = device::device_of_path(kernel, dir).ok().flatten().map(|device| (device.major, device.minor));
    let (mut session, mut notes) = Session::open(&ProbeTarget { kernel: kernel.clone(), device });
    let before = session.read_before();
    let result = work();
    let (at_return, at_synced) = (session.read_at_return(), session.read_at_synced());
    let readings = session.compute_readings(&before, &at_return, &at_synced);
    notes.extend(session.take_notes());
    (result, readings, notes)
}

impl SessionProbe {
    /// Reads the gauge into its positions in the snapshot. Returns a note on its first failure.
    fn read(&mut self, snapshot: &mut Snapshot) -> Option<Note> {
        let out = &mut snapshot.0[self.positions.clone()];
        let error = self.gauge.read(out).err()?;
        out.fill(f64::NAN);
        let failed_before = std::mem::replace(&mut self.has_failed, true);
        (!failed_before).then(|| Unavailable::new(error.to_string()).into_note(self.probe.id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::testing::kernel_with;
    use fsarena_core::event::NoteKind;
    use fsarena_core::plan::GuestPlan;
    use fsarena_sys::kernel::SysRoot;
    use proptest::prelude::*;

    const STAT: &str = "sys/dev/block/7:3/stat";

    /// The kernel files that the probes read, each as its path and text, with this number as the value of every counter.
    fn kernel_files(counter: u64) -> Vec<(&'static str, String)> {
        let pressure = format!("some avg10=0.00 total={counter}\nfull avg10=0.00 total={counter}\n");
        vec![
            ("proc/schedstat", format!("cpu0 0 0 0 0 0 0 {counter} 0 0\n")),
            ("proc/stat", format!("cpu  0 0 0 0 {counter} 0 0 0 0 0\n")),
            (
                "proc/self/io",
                format!(
                    "rchar: {counter}\nwchar: {counter}\nsyscr: {counter}\nsyscw: {counter}\nread_bytes: {counter}\n"
                ),
            ),
            ("proc/self/status", format!("VmHWM:\t{counter} kB\n")),
            ("proc/self/clear_refs", String::new()),
            (
                "proc/meminfo",
                ["Cached", "Dirty", "Writeback", "Slab"].map(|name| format!("{name}: {counter} kB\n")).concat(),
            ),
            ("proc/pressure/io", pressure.clone()),
            ("proc/pressure/cpu", pressure.clone()),
            ("proc/pressure/memory", pressure),
            (STAT, format!("{}\n", vec![counter.to_string(); 17].join(" "))),
            ("sys/bus/virtio/drivers/9pnet_virtio/virtio1/mount_tag", format!("{}\0", GuestPlan::HOST_FILES_DEVICE)),
            ("proc/interrupts", format!(" 25: {counter}  PCI-MSI 81921-edge  virtio1-requests\n")),
        ]
    }

    fn write_kernel_files(kernel: &SysRoot, counter: u64) {
        for (path, text) in kernel_files(counter) {
            std::fs::write(kernel.path(path), text).unwrap();
        }
    }

    fn fake_target(counter: u64) -> (fsarena_sys::testkit::FakeRoot, ProbeTarget) {
        let files = kernel_files(counter);
        let files: Vec<_> = files.iter().map(|(path, text)| (*path, text.as_str())).collect();
        let (dir, kernel) = kernel_with(&files);
        (dir, ProbeTarget { kernel, device: Some((7, 3)) })
    }

    #[test]
    fn each_reading_uses_the_snapshots_that_it_names() {
        let (_dir, target) = fake_target(10);
        let (mut session, notes) = Session::open(&target);
        assert!(notes.iter().all(|note| note.kind == NoteKind::Remark), "{notes:?}");
        let before = session.read_before();
        assert_eq!(target.kernel.read("proc/self/clear_refs").unwrap(), "5");
        write_kernel_files(&target.kernel, 25);
        let at_return = session.read_at_return();
        write_kernel_files(&target.kernel, 110);
        let at_synced = session.read_at_synced();
        let readings = session.compute_readings(&before, &at_return, &at_synced);
        let expected = [
            ("written_bytes", 15.0),
            ("pressure_io_some_ns", 15e3),
            ("device_write_to_return_bytes", 15.0 * 512.0),
            ("device_write_bytes", 100.0 * 512.0),
            ("device_flushes", 100.0),
            ("host_round_trips", 15.0),
            ("device_busy_ns", 100e6),
            ("machine_cpu_ns", 100.0),
            ("dirty_at_return_bytes", 25.0 * 1024.0),
            ("peak_memory_bytes", 25.0 * 1024.0),
        ];
        for (id, value) in expected {
            assert_eq!(readings.get(id), Some(value), "{id}");
        }
        let mut computed_ids: Vec<_> = readings.0.keys().map(String::as_str).collect();
        let mut defined_ids: Vec<_> = crate::probes::reading_defs().iter().map(|def| def.id).collect();
        // The fake kernel counts no interrupt while the gauge measures the time of one request.
        defined_ids.retain(|id| *id != "host_wait_ns");
        computed_ids.sort_unstable();
        defined_ids.sort_unstable();
        assert_eq!(computed_ids, defined_ids);
    }

    #[test]
    fn a_counter_that_decreased_gives_no_reading() {
        let (_dir, target) = fake_target(10);
        let (mut session, _) = Session::open(&target);
        let before = session.read_before();
        write_kernel_files(&target.kernel, 4);
        let (at_return, at_synced) = (session.read_at_return(), session.read_at_synced());
        let readings = session.compute_readings(&before, &at_return, &at_synced);
        assert_eq!((readings.get("iowait_ns"), readings.get("device_writes")), (None, None));
        assert_eq!(readings.get("dirty_at_return_bytes"), Some(4096.0));
    }

    #[test]
    fn unavailable_probes_get_a_note_and_the_others_are_read() {
        let (_dir, mut target) = fake_target(10);
        target.device = None;
        std::fs::remove_file(target.kernel.path("proc/pressure/io")).unwrap();
        let (mut session, notes) = Session::open(&target);
        let missing: Vec<_> = notes.iter().filter(|note| note.kind == NoteKind::Unavailable).collect();
        assert_eq!(missing.len(), 2, "{notes:?}");
        assert!(missing[0].text.contains("probe device"), "{notes:?}");
        assert!(missing[1].text.contains("probe pressure") && missing[1].fix.is_some(), "{notes:?}");
        let now = session.read_before();
        let readings = session.compute_readings(&now, &now, &now);
        assert_eq!((readings.get("written_bytes"), readings.get("device_writes")), (Some(0.0), None));
    }

    #[test]
    fn a_gauge_that_fails_later_gets_one_note() {
        let (_dir, target) = fake_target(10);
        let (mut session, _) = Session::open(&target);
        let before = session.read_before();
        assert_eq!(session.take_notes(), []);
        std::fs::write(target.kernel.path(STAT), "gone").unwrap();
        let (at_return, at_synced) = (session.read_at_return(), session.read_at_synced());
        assert_eq!(session.compute_readings(&before, &at_return, &at_synced).get("device_writes"), None);
        let notes = session.take_notes();
        assert!(notes.len() == 1 && notes[0].text.contains("7:3/stat has a form"), "{notes:?}");
    }

    #[test]
    fn without_kernel_files_only_getrusage_has_readings() {
        let target = ProbeTarget { kernel: SysRoot::at("/nowhere"), device: None };
        let (mut session, notes) = Session::open(&target);
        let now = session.read_before();
        assert_eq!(session.compute_readings(&now, &now, &now).0.len(), 6);
        // Outside guests there are no files of a host, which is not worth a note.
        assert_eq!(notes.len(), PROBES.len() - 2);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Whatever a kernel file contains, a probe returns finite numbers or none.
        #[test]
        fn garbage_never_panics(fragments in proptest::collection::vec(text_fragment(), 0..60), file in 0usize..12) {
            let (_dir, target) = fake_target(10);
            let path = kernel_files(0)[file].0;
            std::fs::write(target.kernel.path(path), fragments.concat()).unwrap();
            let (mut session, _) = Session::open(&target);
            let (before, at_return, at_synced) = (session.read_before(), session.read_at_return(), session.read_at_synced());
            let readings = session.compute_readings(&before, &at_return, &at_synced);
            prop_assert!(readings.0.values().all(|value| value.is_finite() && *value >= 0.0));
        }
    }

    /// Text fragments that the kernel writes, and others that it never writes.
    fn text_fragment() -> impl Strategy<Value = String> {
        let fragments = [
            "cpu",
            "cpu0 ",
            "some ",
            "full ",
            "total=",
            "rchar:",
            "VmHWM:",
            "Dirty:",
            "Writeback:",
            "Cached:",
            " ",
            "\n",
            "\t",
            "0",
            "-1",
            "18446744073709551615",
            "99999999999999999999999",
            "NaN",
            "é",
            "=",
            ":",
        ];
        prop_oneof![
            proptest::sample::select(fragments.map(String::from).to_vec()),
            any::<u64>().prop_map(|n| format!(" {n}")),
            any::<String>()
        ]
    }
}
