//! The registry of probes, each in a separate file.

mod device;
mod host_files;
mod io;
mod iowait;
mod kernel_memory;
mod machine_cpu;
mod memory;
mod page_cache;
mod pressure;
mod process;

use crate::probe::Probe;
use fsarena_core::sample::ReadingDef;

/// All probes. After a task they are read in this order: first the probes that reading the others would disturb.
pub const PROBES: &[Probe] = &[
    process::PROBE,
    io::PROBE,
    machine_cpu::PROBE,
    device::PROBE,
    pressure::PROBE,
    memory::PROBE,
    page_cache::PROBE,
    kernel_memory::PROBE,
    iowait::PROBE,
    host_files::PROBE,
];

/// The definitions of the readings of all probes.
pub fn reading_defs() -> Vec<ReadingDef> {
    PROBES.iter().flat_map(|probe| probe.readings).map(|reading| reading.def).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsarena_core::metric::{METRICS, TIMER_READINGS, reading};
    use fsarena_core::sample::Unit;
    use std::collections::BTreeSet;

    #[test]
    fn every_file_is_registered() {
        let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/src/probes");
        let files: BTreeSet<String> = std::fs::read_dir(dir)
            .unwrap()
            .map(|entry| entry.unwrap().path().file_stem().unwrap().to_str().unwrap().to_string())
            .collect();
        let registered: BTreeSet<String> = PROBES.iter().map(|probe| probe.id.to_string()).collect();
        assert_eq!(files, registered);
        assert_eq!(registered.len(), PROBES.len());
    }

    #[test]
    fn names_of_readings_are_unique_and_end_in_their_unit() {
        let mut names: BTreeSet<&str> = METRICS.iter().map(|metric| metric.spec.id).collect();
        for def in reading_defs().iter().chain(TIMER_READINGS) {
            assert!(names.insert(def.id), "{} is defined twice", def.id);
            let suffix = format!("_{}", def.unit.suffix());
            // A count is named for what is counted: `device_reads`.
            assert!(def.unit == Unit::Count || def.id.ends_with(&suffix), "{} in {:?}", def.id, def.unit);
            assert!(!def.help.is_empty());
        }
    }

    #[test]
    fn probes_have_the_readings_that_metrics_build_on() {
        let probe_readings: BTreeSet<&str> = reading_defs().iter().map(|def| def.id).collect();
        for id in [
            reading::USER_CPU,
            reading::SYSTEM_CPU,
            reading::MACHINE_CPU,
            reading::TREE_CPU_SYNCED,
            reading::WRITTEN_BYTES,
            reading::READ_BYTES,
            reading::DEVICE_WRITTEN_BYTES,
            reading::DEVICE_READ_BYTES,
        ] {
            assert!(probe_readings.contains(id), "{id}");
        }
    }
}
