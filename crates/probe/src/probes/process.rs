//! CPU time, context switches and major page faults of this process and of its children that were waited for.

use crate::probe::Gauge;
use crate::probe::{OpenedProbe, Probe, ProbeReading, Sampling};
use fsarena_core::metric::reading;
use fsarena_core::sample::{ReadingDef, Unit};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;

const fn time_reading(id: &'static str, sampling: Sampling, help: &'static str) -> ProbeReading {
    sampling.reading(reading::cpu_time(id).help(help))
}

const fn count_reading(id: &'static str, help: &'static str) -> ProbeReading {
    Sampling::GrowthUntilReturn.reading(ReadingDef::lower(id, Unit::Count).help(help))
}

/// getrusage(2) of this process and of its children that were waited for.
pub const PROBE: Probe = Probe {
    id: "process",
    help: "CPU time, context switches and major faults of the process tree",
    readings: &[
        time_reading(
            reading::USER_CPU,
            Sampling::GrowthUntilReturn,
            "user time of the process tree, from getrusage; user plus system time is exact, and the kernel samples at clock ticks how it splits into the two",
        ),
        time_reading(
            reading::SYSTEM_CPU,
            Sampling::GrowthUntilReturn,
            "system time of the process tree, from getrusage; user plus system time is exact, and the kernel samples at clock ticks how it splits into the two",
        ),
        time_reading(
            reading::TREE_CPU_SYNCED,
            Sampling::GrowthUntilSynced,
            "user and system time of the process tree until the data was synced, from getrusage",
        ),
        count_reading("voluntary_switches", "times that the process tree waited for something, from getrusage"),
        count_reading("involuntary_switches", "times that the process tree was made to wait for a CPU, from getrusage"),
        count_reading("major_faults", "page faults of the process tree that needed I/O, from getrusage"),
    ],
    open: |_| Ok(OpenedProbe::new(UsageGauge)),
};

struct UsageGauge;

impl Gauge for UsageGauge {
    /// Reads times in nanoseconds, and counts, in the order of the readings of [`PROBE`].
    fn read(&mut self, out: &mut [f64]) -> std::io::Result<()> {
        out.fill(0.0);
        for usage in [getrusage(UsageWho::RUSAGE_SELF)?, getrusage(UsageWho::RUSAGE_CHILDREN)?] {
            let (user, system) = (nanoseconds(usage.user_time()), nanoseconds(usage.system_time()));
            let waits = usage.voluntary_context_switches() as f64;
            let preempted = usage.involuntary_context_switches() as f64;
            let values = [user, system, user + system, waits, preempted, usage.major_page_faults() as f64];
            for (sum, value) in out.iter_mut().zip(values) {
                *sum += value;
            }
        }
        Ok(())
    }
}

fn nanoseconds(time: TimeVal) -> f64 {
    time.tv_sec() as f64 * 1e9 + time.tv_usec() as f64 * 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn children_that_ended_are_counted() {
        let mut before = [0.0; PROBE.readings.len()];
        UsageGauge.read(&mut before).unwrap();
        let status = std::process::Command::new("ls").arg("/").stdout(std::process::Stdio::null()).status().unwrap();
        assert!(status.success());
        let mut after = [0.0; PROBE.readings.len()];
        UsageGauge.read(&mut after).unwrap();
        assert!(after[2] > before[2], "a child cost no CPU: {before:?} {after:?}");
        assert_eq!(after[2], after[0] + after[1]);
    }

    #[test]
    fn values_are_in_the_order_of_the_readings() {
        let ids = PROBE.readings.iter().map(|reading| reading.def.id).collect::<Vec<_>>();
        let times = [reading::USER_CPU, reading::SYSTEM_CPU, reading::TREE_CPU_SYNCED];
        assert_eq!(ids, [&times[..], &["voluntary_switches", "involuntary_switches", "major_faults"]].concat());
    }

    #[test]
    fn times_are_nanoseconds() {
        assert_eq!(nanoseconds(TimeVal::new(2, 3)), 2_000_003_000.0);
    }
}
