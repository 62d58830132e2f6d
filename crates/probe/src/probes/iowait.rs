//! The time of all CPUs by state (I/O wait, user, system, interrupts, steal), sampled at clock ticks.

use crate::probe::{OpenedProbe, Probe, ProbeReading, Sampling};
use crate::probe::{TextGauge, cpu_times_ns};
use fsarena_core::metric::reading::machine_time;

/// The reading of a CPU time, from before the task until its data was synced.
const fn cpu_time(id: &'static str, help: &'static str) -> ProbeReading {
    Sampling::GrowthUntilSynced.reading(machine_time(id).help(help))
}

/// The first line of `/proc/stat`.
pub const PROBE: Probe = Probe {
    id: "iowait",
    help: "time of the CPUs by state, sampled at clock ticks",
    readings: &[
        cpu_time(
            "iowait_ns",
            "time that CPUs were idle while a task on them waited for I/O, until the data was synced; tick-sampled (/proc/stat, steps of 1/USER_HZ = 10 ms); the CPUs could do other work in this time",
        ),
        cpu_time(
            "machine_user_ns",
            "user time of the whole machine, nice included, until the data was synced; tick-sampled (/proc/stat, steps of 1/USER_HZ = 10 ms)",
        ),
        cpu_time(
            "machine_system_ns",
            "system time of the whole machine until the data was synced; tick-sampled (/proc/stat, steps of 1/USER_HZ = 10 ms)",
        ),
        cpu_time(
            "machine_irq_ns",
            "time in hard and soft interrupts until the data was synced; tick-sampled (/proc/stat, steps of 1/USER_HZ = 10 ms)",
        ),
        cpu_time(
            "machine_steal_ns",
            "time that a hypervisor withheld from this machine until the data was synced; tick-sampled (/proc/stat, steps of 1/USER_HZ = 10 ms)",
        ),
    ],
    open: |target| TextGauge::open(&target.kernel, "proc/stat", parse).map(OpenedProbe::new),
};

fn parse(text: &str, out: &mut [f64]) -> Option<()> {
    let [user, nice, system, _idle, iowait, irq, softirq, steal] = cpu_times_ns(text)?;
    out.copy_from_slice(&[iowait, user + nice, system, irq + softirq, steal]);
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::tick_ns;

    #[test]
    fn times_of_the_first_line_are_parsed() {
        let mut out = [f64::NAN; 5];
        parse("cpu  14066 4 2426 239211 1078 1 85 248 0 0\ncpu0 7111 0\n", &mut out).unwrap();
        assert_eq!(out.map(|ns| ns / tick_ns()), [1078.0, 14070.0, 2426.0, 86.0, 248.0]);
    }

    #[test]
    fn other_formats_are_refused() {
        for text in ["", "cpu0 1 2 3 4 5 6 7 8\n", "cpu  1 2 3\n", "cpu  1 2 3 4 x 6 7 8\n"] {
            assert_eq!(parse(text, &mut [0.0; 5]), None, "{text:?}");
        }
    }
}
