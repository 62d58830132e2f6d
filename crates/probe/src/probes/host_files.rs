//! Requests of a guest for files of the host, which it reads over virtio (9p).
//!
//! Each request ends with one interrupt of the device, so the kernel's own counters have their number, and counting costs
//! nothing while a task runs.

use crate::probe::{Gauge, KernelFile, OpenedProbe, Probe, ProbeTarget, Sampling, Unavailable, parse_counter};
use fsarena_core::metric::reading::{HOST_ROUND_TRIPS, HOST_WAIT, time};
use fsarena_core::plan::GuestPlan;
use fsarena_core::sample::{ReadingDef, Unit};
use fsarena_sys::kernel::SysRoot;
use std::time::{Instant, SystemTime};
use std::{io, path::Path};

/// The interrupts of the device.
pub const PROBE: Probe = Probe {
    id: "host_files",
    help: "requests of a guest for files of the host",
    readings: &[
        Sampling::GrowthUntilReturn.reading(ReadingDef::lower(HOST_ROUND_TRIPS, Unit::Count).help(
            "requests of a guest for files of the host until the command returned: to load programs, and to read what these open on the host",
        )),
        Sampling::GrowthUntilReturn.reading(time(HOST_WAIT).help(
            "estimated time of the requests of a guest for files of the host until the command returned: their number times the mean time of such requests before the first task",
        )),
    ],
    open,
};

/// The directory of the driver. It has a subdirectory for each of the driver's devices, such as `virtio3`.
const DRIVER_DIR: &str = "sys/bus/virtio/drivers/9pnet_virtio";
/// The number of look-ups of missing names with which fsarena measures the time of one request.
const LOOKUPS: u32 = 32;

/// The gauge. None outside of guests, and in guests that have unmounted the host's files because they start no programs
/// from there; then all values are absent.
struct HostFilesGauge(Option<InterruptCounter>);

/// The interrupts of the device, each of which ends a request.
struct InterruptCounter {
    /// `/proc/interrupts`.
    interrupts: KernelFile,
    /// The device's name in `/proc/interrupts`.
    device: String,
    /// The mean time of one request in nanoseconds; NaN if it could not be measured.
    request_ns: f64,
}

fn open(target: &ProbeTarget) -> Result<OpenedProbe, Unavailable> {
    let Some(device) = find_device(&target.kernel) else { return Ok(OpenedProbe::new(HostFilesGauge(None))) };
    let mut interrupts = KernelFile::open(&target.kernel, "proc/interrupts")?;
    let unreadable = |error: io::Error| Unavailable::new(error.to_string());
    if count_interrupts(interrupts.read_text().map_err(unreadable)?, &device).is_none() {
        // The guest reads no files of the host any more: it has freed the interrupts of the device.
        return Ok(OpenedProbe::new(HostFilesGauge(None)));
    }
    let mut counter = InterruptCounter { interrupts, device, request_ns: f64::NAN };
    counter.measure_request().map_err(unreadable)?;
    Ok(OpenedProbe::new(HostFilesGauge(Some(counter))))
}

/// The name of the virtio device with the files of the host, such as `virtio3`.
fn find_device(kernel: &SysRoot) -> Option<String> {
    let mut devices = std::fs::read_dir(kernel.path(DRIVER_DIR)).ok()?.flatten();
    let has_host_files = |dir: &Path| {
        let tag = std::fs::read_to_string(dir.join("mount_tag")).unwrap_or_default();
        tag.trim_end_matches(['\n', '\0']) == GuestPlan::HOST_FILES_DEVICE
    };
    let device = devices.find(|device| has_host_files(&device.path()))?;
    device.file_name().into_string().ok()
}

/// The number of interrupts of a device, over all CPUs: `25:  10  2  PCI-MSI 49152-edge  virtio3-requests` has 12.
fn count_interrupts(text: &str, device: &str) -> Option<f64> {
    let is_of_device = |line: &&str| {
        let queue = line.split_ascii_whitespace().last().and_then(|name| name.strip_prefix(device));
        queue.is_some_and(|queue| ["-requests", "-virtqueues"].contains(&queue))
    };
    let (_, counts) = text.lines().find(is_of_device)?.split_once(':')?;
    Some(counts.split_ascii_whitespace().map_while(parse_counter).sum())
}

impl InterruptCounter {
    /// Reads the number of interrupts so far.
    fn read_count(&mut self) -> io::Result<f64> {
        match count_interrupts(self.interrupts.read_text()?, &self.device) {
            Some(count) => Ok(count),
            None => Err(self.interrupts.unknown_format_error()),
        }
    }

    /// Measures the time of one request, by looking for names that do not exist: nothing has cached them.
    fn measure_request(&mut self) -> io::Result<()> {
        let (count_before, start) = (self.read_count()?, Instant::now());
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |time| time.as_nanos());
        for number in 0..LOOKUPS {
            let name = format!("{}{now}-{number}", GuestPlan::ABSENT_PATH_PREFIX);
            let _ = std::fs::symlink_metadata(name);
        }
        let elapsed_ns = start.elapsed().as_nanos() as f64;
        let requests = self.read_count()? - count_before;
        if requests > 0.0 {
            self.request_ns = elapsed_ns / requests;
        }
        Ok(())
    }
}

impl Gauge for HostFilesGauge {
    fn read(&mut self, out: &mut [f64]) -> io::Result<()> {
        let Some(counter) = &mut self.0 else {
            out.fill(f64::NAN);
            return Ok(());
        };
        let count = counter.read_count()?;
        out.copy_from_slice(&[count, count * counter.request_ns]);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERRUPTS: &str = "           CPU0       CPU1\n  24:         51          0   PCI-MSI 81920-edge      virtio1-config\n  25:       4100         23   PCI-MSI 81921-edge      virtio1-requests\n  26:          9          0   PCI-MSI 81921-edge      virtio11-requests\n";

    #[test]
    fn the_interrupts_of_a_device_are_summed_over_all_cpus() {
        assert_eq!(count_interrupts(INTERRUPTS, "virtio1"), Some(4123.0));
        assert_eq!(count_interrupts(INTERRUPTS, "virtio11"), Some(9.0));
        assert_eq!(count_interrupts(INTERRUPTS, "virtio2"), None);
    }

    #[test]
    fn a_machine_without_the_device_has_no_values() {
        let root = fsarena_sys::testkit::FakeRoot::with(&[
            ("sys/bus/virtio/drivers/9pnet_virtio/virtio1/mount_tag", "home\0"),
            ("proc/interrupts", INTERRUPTS),
        ]);
        let kernel = SysRoot::at(root.path());
        let mut gauge = open(&ProbeTarget { kernel: kernel.clone(), device: None }).unwrap().gauge;
        let mut out = [0.0; 2];
        gauge.read(&mut out).unwrap();
        assert!(out.iter().all(|value| value.is_nan()));
        let tag = root.path().join("sys/bus/virtio/drivers/9pnet_virtio/virtio1/mount_tag");
        std::fs::write(tag, "fsarena-host\0").unwrap();
        let mut gauge = open(&ProbeTarget { kernel, device: None }).unwrap().gauge;
        gauge.read(&mut out).unwrap();
        // The look-ups of this test cause no interrupt in the fake file.
        assert!(out[0] == 4123.0 && out[1].is_nan(), "{out:?}");
        std::fs::write(root.path().join("proc/interrupts"), "           CPU0       CPU1\n").unwrap();
        open(&ProbeTarget { kernel: SysRoot::at(root.path()), device: None }).unwrap().gauge.read(&mut out).unwrap();
        assert!(out.iter().all(|value| value.is_nan()));
    }
}
