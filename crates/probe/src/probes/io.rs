//! Bytes that the process tree requested to read and write.

use crate::probe::{OpenedProbe, Probe, ProbeReading, ProbeTarget, Sampling};
use crate::probe::{TextGauge, Unavailable, number_after};
use fsarena_core::metric::reading;
use fsarena_core::sample::{ReadingDef, Unit};

/// The reading of a count, from before the task until its work had returned.
const fn until_return(id: &'static str, unit: Unit, help: &'static str) -> ProbeReading {
    Sampling::GrowthUntilReturn.reading(ReadingDef::neutral(id, unit).help(help))
}

/// `/proc/self/io`. The kernel adds the counters of a child when its parent waits for it.
pub const PROBE: Probe = Probe {
    id: "io",
    help: "bytes that the process tree requested to read and write, and its calls",
    readings: &[
        until_return(
            reading::READ_BYTES,
            Unit::Bytes,
            "bytes that the process tree read with read(2) and its kin, from files and pipes, cached or not (rchar of /proc/self/io); mapped files and io_uring are not counted",
        ),
        until_return(
            reading::WRITTEN_BYTES,
            Unit::Bytes,
            "bytes that the process tree wrote with write(2) and its kin, to files and pipes (wchar of /proc/self/io); mapped files and io_uring are not counted",
        ),
        until_return("read_calls", Unit::Count, "read calls of the process tree (syscr of /proc/self/io)"),
        until_return("write_calls", Unit::Count, "write calls of the process tree (syscw of /proc/self/io)"),
        until_return(
            reading::FETCHED_BYTES,
            Unit::Bytes,
            "bytes that were fetched from the device or the server for the process tree itself, because no cache had them (read_bytes of /proc/self/io)",
        ),
    ],
    open,
};

fn open(target: &ProbeTarget) -> Result<OpenedProbe, Unavailable> {
    TextGauge::open(&target.kernel, "proc/self/io", parse)
        .map(OpenedProbe::new)
        .map_err(|unavailable| unavailable.with_fix("use a kernel with CONFIG_TASK_IO_ACCOUNTING"))
}

fn parse(text: &str, out: &mut [f64]) -> Option<()> {
    for (name, value) in ["rchar:", "wchar:", "syscr:", "syscw:", "read_bytes:"].into_iter().zip(out) {
        *value = number_after(text, name)?;
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::Gauge;
    use fsarena_sys::kernel::SysRoot;

    #[test]
    fn counters_of_proc_self_io_are_parsed() {
        let mut out = [f64::NAN; 5];
        parse("rchar: 6976\nwchar: 5\nsyscr: 10\nsyscw: 2\nread_bytes: 3\n", &mut out).unwrap();
        assert_eq!(out, [6976.0, 5.0, 10.0, 2.0, 3.0]);
        assert_eq!(parse("rchar: x\n", &mut out), None);
    }

    #[test]
    fn a_child_counts_after_its_parent_waited_for_it() {
        let Ok(mut gauge) = TextGauge::open(&SysRoot::host(), "proc/self/io", parse) else {
            fsarena_sys::testkit::record_skip("this kernel has no /proc/self/io");
            return;
        };
        let (mut before, mut after) = ([0.0; 5], [0.0; 5]);
        gauge.read(&mut before).unwrap();
        let status = std::process::Command::new("dd")
            .args(["if=/dev/zero", "of=/dev/null", "bs=1000000", "count=3", "status=none"])
            .status()
            .unwrap();
        assert!(status.success());
        gauge.read(&mut after).unwrap();
        assert!(after[0] - before[0] >= 3e6 && after[1] - before[1] >= 3e6, "{before:?} {after:?}");
    }
}
