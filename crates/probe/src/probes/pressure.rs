//! The time that tasks waited for I/O, CPU or memory (pressure stall information).

use crate::probe::{Gauge, KernelFile, Unavailable, parse_counter};
use crate::probe::{OpenedProbe, Probe, ProbeReading, ProbeTarget, Sampling};
use fsarena_core::metric::reading::machine_time;

const FILES: [&str; 3] = ["proc/pressure/io", "proc/pressure/cpu", "proc/pressure/memory"];

/// A reading of the time that processes waited, from before a task of the benchmark until its work had returned.
const fn stall_time(id: &'static str, help: &'static str) -> ProbeReading {
    Sampling::GrowthUntilReturn.reading(machine_time(id).help(help))
}

/// Pressure stall information, `/proc/pressure/*` (Documentation/accounting/psi.rst).
pub const PROBE: Probe = Probe {
    id: "pressure",
    help: "how long tasks waited for I/O, CPU or memory (PSI)",
    // Two of each file, in the order of [`FILES`].
    readings: &[
        stall_time("pressure_io_some_ns", "time in which some task waited for I/O (PSI)"),
        stall_time("pressure_io_full_ns", "time in which all tasks that had work waited for I/O (PSI)"),
        stall_time("pressure_cpu_some_ns", "time in which some task waited for a CPU (PSI)"),
        stall_time(
            "pressure_cpu_full_ns",
            "time in which all tasks that had work waited for a CPU (PSI; the kernel reports it for control groups only, and 0 for the whole machine)",
        ),
        stall_time("pressure_memory_some_ns", "time in which some task waited for memory (PSI)"),
        stall_time("pressure_memory_full_ns", "time in which all tasks that had work waited for memory (PSI)"),
    ],
    open,
};

fn open(target: &ProbeTarget) -> Result<OpenedProbe, Unavailable> {
    let open_file = |path: &str| {
        KernelFile::open(&target.kernel, path)
            .map_err(|unavailable| unavailable.with_fix("use a kernel with CONFIG_PSI, booted with psi=1"))
    };
    Ok(OpenedProbe::new(PressureGauge([open_file(FILES[0])?, open_file(FILES[1])?, open_file(FILES[2])?])))
}

struct PressureGauge([KernelFile; 3]);

impl Gauge for PressureGauge {
    fn read(&mut self, out: &mut [f64]) -> std::io::Result<()> {
        for (file, values) in self.0.iter_mut().zip(out.chunks_exact_mut(2)) {
            let parsed = parse(file.read_text()?, values);
            parsed.ok_or_else(|| file.unknown_format_error())?;
        }
        Ok(())
    }
}

/// Parses the lines `some … total=µs` and `full … total=µs` into nanoseconds. Old kernels have no line `full` for the CPU;
/// then `out[1]` keeps its value, NaN.
fn parse(text: &str, out: &mut [f64]) -> Option<()> {
    let total_ns = |line: &str| parse_counter(line.split_once("total=")?.1.trim()).map(|us| us * 1e3);
    out[0] = total_ns(text.lines().find(|line| line.starts_with("some "))?)?;
    if let Some(full) = text.lines().find(|line| line.starts_with("full ")) {
        out[1] = total_ns(full)?;
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_and_full_totals_are_parsed() {
        let mut out = [f64::NAN; 2];
        let text = "some avg10=0.18 avg60=0.08 avg300=0.38 total=10308896\nfull avg10=0.18 avg60=0.08 avg300=0.37 total=10080032\n";
        parse(text, &mut out).unwrap();
        assert_eq!(out, [10_308_896e3, 10_080_032e3]);
    }

    #[test]
    fn a_missing_full_line_is_accepted_and_a_missing_some_line_is_not() {
        let mut out = [f64::NAN; 2];
        parse("some avg10=0.00 total=7\n", &mut out).unwrap();
        assert!(out[0] == 7e3 && out[1].is_nan());
        for text in ["", "full total=1\n", "some total=x\n", "some\n"] {
            assert_eq!(parse(text, &mut out), None, "{text:?}");
        }
    }
}
