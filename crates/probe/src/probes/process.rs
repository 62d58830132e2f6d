//! CPU time, context switches and page faults of the process tree.

use crate::gauge::Gauge;
use crate::probe::{Opened, Probe, ProbeReading, Scene, Takes, Unavailable};
use fsarena_core::metric::reading;
use fsarena_core::sample::{Direction, ReadingDef, Unit};

/// getrusage(2) of this process and of its children that were waited for.
pub struct Process;

const READINGS: &[ProbeReading] = &[
    time(
        reading::USER,
        Takes::DeltaToReturn,
        "user time of the process tree, from getrusage; its sum with system time is exact, the split between them is sampled at ticks",
    ),
    time(
        reading::SYSTEM,
        Takes::DeltaToReturn,
        "system time of the process tree, from getrusage; its sum with user time is exact, the split between them is sampled at ticks",
    ),
    time(
        reading::TREE_CPU_DURABLE,
        Takes::DeltaToDurable,
        "user and system time of the process tree until the data was synced, from getrusage",
    ),
    count("voluntary_switches", "times that the process tree waited for something, from getrusage"),
    count("involuntary_switches", "times that the process tree was made to wait for a CPU, from getrusage"),
    count("major_faults", "page faults of the process tree that needed I/O, from getrusage"),
];

const fn time(id: &'static str, takes: Takes, help: &'static str) -> ProbeReading {
    ProbeReading { def: ReadingDef { id, unit: Unit::Nanoseconds, direction: Direction::Lower, help }, takes }
}

const fn count(id: &'static str, help: &'static str) -> ProbeReading {
    let def = ReadingDef { id, unit: Unit::Count, direction: Direction::Lower, help };
    ProbeReading { def, takes: Takes::DeltaToReturn }
}

impl Probe for Process {
    fn id(&self) -> &'static str {
        "process"
    }

    fn help(&self) -> &'static str {
        "CPU time, context switches and major faults of the process tree"
    }

    fn readings(&self) -> &'static [ProbeReading] {
        READINGS
    }

    fn open(&self, _: &Scene) -> Result<Opened, Unavailable> {
        Ok(Opened::new(Usage))
    }
}

struct Usage;

impl Gauge for Usage {
    fn read(&mut self, out: &mut [f64]) -> std::io::Result<()> {
        let (own, children) = (usage(libc::RUSAGE_SELF)?, usage(libc::RUSAGE_CHILDREN)?);
        let user = nanoseconds(own.ru_utime) + nanoseconds(children.ru_utime);
        let system = nanoseconds(own.ru_stime) + nanoseconds(children.ru_stime);
        out.copy_from_slice(&[
            user,
            system,
            user + system,
            (own.ru_nvcsw + children.ru_nvcsw) as f64,
            (own.ru_nivcsw + children.ru_nivcsw) as f64,
            (own.ru_majflt + children.ru_majflt) as f64,
        ]);
        Ok(())
    }
}

fn usage(who: libc::c_int) -> std::io::Result<libc::rusage> {
    // SAFETY: rusage is plain data for which all-zero is valid.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a live local.
    match unsafe { libc::getrusage(who, &mut usage) } {
        0 => Ok(usage),
        _ => Err(std::io::Error::last_os_error()),
    }
}

fn nanoseconds(time: libc::timeval) -> f64 {
    time.tv_sec as f64 * 1e9 + time.tv_usec as f64 * 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn children_that_were_waited_for_count() {
        let mut before = [0.0; READINGS.len()];
        Usage.read(&mut before).unwrap();
        let status =
            std::process::Command::new("ls").arg("/").stdout(std::process::Stdio::null()).status().unwrap();
        assert!(status.success());
        let mut after = [0.0; READINGS.len()];
        Usage.read(&mut after).unwrap();
        assert!(after[2] > before[2], "a child cost no CPU: {before:?} {after:?}");
        assert_eq!(after[2], after[0] + after[1]);
    }

    #[test]
    fn times_are_nanoseconds() {
        assert_eq!(nanoseconds(libc::timeval { tv_sec: 2, tv_usec: 3 }), 2_000_003_000.0);
    }
}
