//! The peak resident memory of a process during a task.

use crate::probe::{Gauge, TextGauge, Unavailable, number_after};
use crate::probe::{OpenedProbe, Probe, ProbeTarget, Sampling};
use fsarena_core::metric::reading;
use fsarena_core::sample::{Fold, ReadingDef, Unit};
use std::path::PathBuf;

/// `VmHWM` of this process, reset before each task.
pub const PROBE: Probe = Probe {
    id: "memory",
    help: "peak resident memory",
    readings: &[Sampling::AtReturn.reading(
        ReadingDef::lower(reading::PEAK_MEMORY, Unit::Bytes)
            .tasks(Fold::Max)
            .help("largest resident memory of one process during the task: VmHWM of this process, or ru_maxrss of a command where that is more; a command counts at least the pages of the process that started it"),
    )],
    open,
};

fn open(target: &ProbeTarget) -> Result<OpenedProbe, Unavailable> {
    let status = TextGauge::open(&target.kernel, "proc/self/status", parse)?;
    let mut peak = PeakGauge { status, clear_refs: target.kernel.path("proc/self/clear_refs") };
    match peak.reset_peak() {
        Ok(()) => Ok(OpenedProbe::new(peak)),
        Err(error) => Err(Unavailable::new(format!("the peak cannot be reset with /proc/self/clear_refs: {error}"))
            .with_fix("use a kernel with CONFIG_PROC_PAGE_MONITOR")),
    }
}

struct PeakGauge {
    status: TextGauge,
    clear_refs: PathBuf,
}

impl PeakGauge {
    /// Sets the peak to the memory that is resident now (proc_pid_clear_refs(5)).
    fn reset_peak(&mut self) -> std::io::Result<()> {
        std::fs::write(&self.clear_refs, "5")
    }
}

impl Gauge for PeakGauge {
    fn read(&mut self, out: &mut [f64]) -> std::io::Result<()> {
        self.status.read(out)
    }

    fn reset_peaks(&mut self) {
        // This worked when the probe was opened. If it fails now, the peak includes earlier tasks.
        let _ = self.reset_peak();
    }
}

fn parse(text: &str, out: &mut [f64]) -> Option<()> {
    out[0] = number_after(text, "VmHWM:")? * 1024.0;
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::testing::read_once;
    use fsarena_sys::kernel::SysRoot;

    #[test]
    fn vm_hwm_is_parsed_in_bytes() {
        let mut out = [f64::NAN];
        parse("Name:\tcat\nVmPeak:\t    3060 kB\nVmHWM:\t    1740 kB\n", &mut out).unwrap();
        assert_eq!(out, [1740.0 * 1024.0]);
        assert_eq!(parse("Name:\tkthreadd\n", &mut out), None);
    }

    #[test]
    fn a_peak_is_measured_and_reset() {
        const ALLOCATED_BYTES: usize = 64 << 20;
        let Ok(mut opened) = (PROBE.open)(&ProbeTarget { kernel: SysRoot::host(), device: None }) else {
            fsarena_sys::testkit::record_skip("this kernel cannot reset peaks");
            return;
        };
        opened.gauge.reset_peaks();
        let low = read_once(opened.gauge.as_mut(), 1)[0];
        drop(std::hint::black_box(vec![1u8; ALLOCATED_BYTES]));
        let high = read_once(opened.gauge.as_mut(), 1)[0];
        assert!(high >= low.max(ALLOCATED_BYTES as f64), "{low} {high}");
        opened.gauge.reset_peaks();
        assert!(read_once(opened.gauge.as_mut(), 1)[0] < high);
    }
}
