//! The memory that the kernel keeps for itself: inodes, directory entries, and the filesystem's own structures.
//!
//! The memory may shrink during a task. `Session::compute_readings` leaves out a negative growth.

use crate::probe::{OpenedProbe, Probe, Sampling};
use crate::probe::{TextGauge, number_after};
use fsarena_core::metric::reading;
use fsarena_core::sample::{ReadingDef, Unit};

/// `Slab` of `/proc/meminfo`.
pub const PROBE: Probe = Probe {
    id: "kernel_memory",
    help: "growth of the kernel's own memory during the task",
    readings: &[Sampling::GrowthUntilReturn.reading(ReadingDef::neutral(reading::SLAB_GROWTH, Unit::Bytes).machine().help(
        "growth of the kernel's slab caches while the command ran (Slab of /proc/meminfo): inodes, directory entries and the filesystem's structures in memory. Other programs that run at that time also count. A task has no value if the caches shrank",
    ))],
    open: |target| TextGauge::open(&target.kernel, "proc/meminfo", parse).map(OpenedProbe::new),
};

fn parse(text: &str, out: &mut [f64]) -> Option<()> {
    out[0] = number_after(text, "Slab:")? * 1024.0;
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slab_is_parsed_in_bytes() {
        let mut out = [f64::NAN];
        parse("MemTotal: 9 kB\nSlab:  700 kB\nSReclaimable: 600 kB\n", &mut out).unwrap();
        assert_eq!(out, [700.0 * 1024.0]);
        assert_eq!(parse("MemTotal: 9 kB\n", &mut out), None);
    }
}
