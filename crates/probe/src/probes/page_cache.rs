//! Sizes of the machine's page cache when the work has returned.

use crate::probe::{OpenedProbe, Probe, ProbeReading, Sampling};
use crate::probe::{TextGauge, number_after};
use fsarena_core::sample::{Fold, ReadingDef, Unit};

/// A reading of the whole machine that is taken when the work returns. Of several tasks the largest value counts.
const fn reading_at_return(def: ReadingDef, help: &'static str) -> ProbeReading {
    Sampling::AtReturn.reading(def.tasks(Fold::Max).machine().help(help))
}

/// `/proc/meminfo`.
pub const PROBE: Probe = Probe {
    id: "page_cache",
    help: "dirty bytes, bytes under writeback and cached bytes when the command returned",
    readings: &[
        reading_at_return(
            ReadingDef::lower("dirty_at_return_bytes", Unit::Bytes),
            "bytes of the machine's page cache that were not yet sent to a device when the command returned (Dirty)",
        ),
        reading_at_return(
            ReadingDef::lower("writeback_at_return_bytes", Unit::Bytes),
            "bytes on their way to a device when the command returned (Writeback)",
        ),
        reading_at_return(
            ReadingDef::neutral("cached_at_return_bytes", Unit::Bytes),
            "bytes in the machine's page cache when the command returned (Cached)",
        ),
    ],
    open: |target| TextGauge::open(&target.kernel, "proc/meminfo", parse).map(OpenedProbe::new),
};

fn parse(text: &str, out: &mut [f64]) -> Option<()> {
    for (name, value) in ["Dirty:", "Writeback:", "Cached:"].into_iter().zip(out) {
        *value = number_after(text, name)? * 1024.0;
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dirty_writeback_and_cached_bytes_are_parsed() {
        let mut out = [f64::NAN; 3];
        let text =
            "MemTotal: 9 kB\nSwapCached: 8 kB\nCached:  700 kB\nDirty:  12 kB\nWritebackTmp: 5 kB\nWriteback: 3 kB\n";
        parse(text, &mut out).unwrap();
        assert_eq!(out, [12.0 * 1024.0, 3.0 * 1024.0, 700.0 * 1024.0]);
        assert_eq!(parse("Dirty: 12 kB\n", &mut out), None);
    }
}
