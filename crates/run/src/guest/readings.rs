//! What the readings of a guest are worth.

use fsarena_core::metric::reading;
use fsarena_core::plan::Emulator;
use fsarena_core::sample::{Readings, Sample, Unit};

/// Times that are instructions where the clock counts them: CPU, not waiting, which such a clock skips.
const COUNTED: [(&str, &str); 4] = [
    (reading::USER, reading::USER_INSTRUCTIONS),
    (reading::SYSTEM, reading::KERNEL_INSTRUCTIONS),
    (reading::MACHINE_CPU, reading::GUEST_INSTRUCTIONS),
    (reading::TREE_CPU_DURABLE, reading::TREE_INSTRUCTIONS_DURABLE),
];

/// The sample as it may be kept: without what this emulator cannot tell, and with instructions for times where it
/// counts them.
pub fn of(emulator: Emulator, sample: Sample) -> Sample {
    match emulator {
        Emulator::Qemu => sample,
        Emulator::Uml => Sample { readings: without_split(sample.readings), ..sample },
        // Nor is there a course over time.
        Emulator::Exact => Sample { readings: counted(&sample.readings), series: vec![], ..sample },
    }
}

/// User Mode Linux charges all CPU time as user time.
fn without_split(mut readings: Readings) -> Readings {
    for id in [reading::USER, reading::SYSTEM] {
        readings.0.remove(id);
    }
    readings
}

fn counted(readings: &Readings) -> Readings {
    let mut kept = Readings::default();
    for (id, value) in &readings.0 {
        match COUNTED.iter().find(|(time, _)| time == id) {
            Some((_, instructions)) => kept.set(instructions, *value),
            None if !is_time(id) => kept.set(id, *value),
            None => {}
        }
    }
    kept
}

/// Whether a reading is a time or a rate: its name ends in its unit.
fn is_time(id: &str) -> bool {
    let timed = [Unit::Nanoseconds, Unit::Seconds, Unit::PerSecond, Unit::BytesPerSecond];
    timed.iter().any(|unit| id.ends_with(&format!("_{}", unit.suffix())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn readings(pairs: &[(&str, f64)]) -> Readings {
        Readings(pairs.iter().map(|(id, value)| (id.to_string(), *value)).collect())
    }

    #[test]
    fn instructions_stand_for_times_and_no_time_is_left() {
        let taken = readings(&[
            ("elapsed_ns", 9.0),
            ("system_ns", 5.0),
            ("machine_cpu_ns", 7.0),
            ("major_faults", 2.0),
            ("read_iops_per_s", 3.0),
        ]);
        let kept = counted(&taken);
        let expected =
            readings(&[("kernel_instructions", 5.0), ("guest_instructions", 7.0), ("major_faults", 2.0)]);
        assert_eq!(kept, expected);
    }

    #[test]
    fn user_mode_linux_does_not_split_cpu_time() {
        let taken = readings(&[("user_ns", 1.0), ("system_ns", 0.0), ("elapsed_ns", 2.0)]);
        assert_eq!(without_split(taken), readings(&[("elapsed_ns", 2.0)]));
    }
}
