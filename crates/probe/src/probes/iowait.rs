//! Where the CPUs' time went, as sampled at clock ticks.

use crate::gauge::{TextGauge, number};
use crate::probe::{Opened, Probe, ProbeReading, Scene, Takes, Unavailable};
use fsarena_core::sample::{Direction, ReadingDef, Unit};

/// The first line of `/proc/stat`.
pub struct Iowait;

const READINGS: &[ProbeReading] = &[
    of(
        "iowait_ns",
        "time that CPUs were idle while a task on them waited for I/O, until the data was synced; tick-sampled (/proc/stat, steps of 1/USER_HZ = 10 ms); the CPUs could do other work in this time",
    ),
    of(
        "machine_user_ns",
        "user time of the whole machine, nice included, until the data was synced; tick-sampled (/proc/stat, steps of 1/USER_HZ = 10 ms)",
    ),
    of(
        "machine_system_ns",
        "system time of the whole machine until the data was synced; tick-sampled (/proc/stat, steps of 1/USER_HZ = 10 ms)",
    ),
    of(
        "machine_irq_ns",
        "time in hard and soft interrupts until the data was synced; tick-sampled (/proc/stat, steps of 1/USER_HZ = 10 ms)",
    ),
    of(
        "machine_steal_ns",
        "time that a hypervisor withheld from this machine until the data was synced; tick-sampled (/proc/stat, steps of 1/USER_HZ = 10 ms)",
    ),
];

const fn of(id: &'static str, help: &'static str) -> ProbeReading {
    let def = ReadingDef { id, unit: Unit::Nanoseconds, direction: Direction::Lower, help };
    ProbeReading { def, takes: Takes::DeltaToDurable }
}

impl Probe for Iowait {
    fn id(&self) -> &'static str {
        "iowait"
    }

    fn help(&self) -> &'static str {
        "where the CPUs' time went, sampled at clock ticks"
    }

    fn readings(&self) -> &'static [ProbeReading] {
        READINGS
    }

    fn open(&self, scene: &Scene) -> Result<Opened, Unavailable> {
        TextGauge::open(&scene.kernel, "proc/stat", parse).map(Opened::new)
    }
}

fn parse(text: &str, out: &mut [f64]) -> Option<()> {
    let mut words = text.lines().next()?.strip_prefix("cpu ")?.split_ascii_whitespace();
    let mut fields = [0.0; 8];
    for field in &mut fields {
        *field = number(words.next()?)? * tick_ns();
    }
    let [user, nice, system, _idle, iowait, irq, softirq, steal] = fields;
    out.copy_from_slice(&[iowait, user + nice, system, irq + softirq, steal]);
    Some(())
}

/// Nanoseconds of one unit of `/proc/stat`: 1/USER_HZ, whatever the kernel's own tick is.
pub(crate) fn tick_ns() -> f64 {
    // SAFETY: sysconf has no preconditions.
    let hz = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    1e9 / if hz > 0 { hz as f64 } else { 100.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hand_checked() {
        let mut out = [f64::NAN; 5];
        parse("cpu  14066 4 2426 239211 1078 1 85 248 0 0\ncpu0 7111 0\n", &mut out).unwrap();
        assert_eq!(out.map(|ns| ns / tick_ns()), [1078.0, 14070.0, 2426.0, 86.0, 248.0]);
    }

    #[test]
    fn another_form_is_refused() {
        for text in ["", "cpu0 1 2 3 4 5 6 7 8\n", "cpu  1 2 3\n", "cpu  1 2 3 4 x 6 7 8\n"] {
            assert_eq!(parse(text, &mut [0.0; 5]), None, "{text:?}");
        }
    }
}
