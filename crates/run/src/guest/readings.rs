//! Adapts the readings of a guest to its emulator: removes those that the emulator cannot measure, and converts times
//! to instructions.

use crate::bench::reading_defs;
use fsarena_core::sample::{Readings, Sample, Unit};
use fsarena_core::{metric::reading, plan::Emulator};
use fsarena_guest::instruction_counter::InstructionCounts;

/// Readings of CPU time, each with the reading of instructions that replaces it in a guest whose clock counts
/// instructions. Readings of waiting time have no such counterpart, because such a clock skips waiting.
const INSTRUCTIONS_BY_TIME: [(&str, &str); 2] = [
    (reading::MACHINE_CPU, reading::GUEST_INSTRUCTIONS),
    (reading::TREE_CPU_SYNCED, reading::TREE_INSTRUCTIONS_SYNCED),
];

/// Returns the sample without the readings that this emulator cannot measure. If the emulator counts instructions, the
/// sample has instructions instead of times.
pub fn sample_for_emulator(emulator: Emulator, sample: Sample, counts: Option<InstructionCounts>) -> Sample {
    match emulator {
        Emulator::Qemu => sample,
        // Without time there is no time series either.
        Emulator::Exact => {
            Sample { readings: instruction_readings(&sample.readings, counts), series: vec![], ..sample }
        }
    }
}

/// Replaces times with instructions, and drops other times and rates. The clock of a guest that counts instructions
/// advances by 1 ns for each instruction, so its numbers of nanoseconds are numbers of instructions. `counts` come from
/// the instruction counter, a plugin of QEMU; they are `None` for parts of a task, and if this QEMU cannot load
/// the plugin.
fn instruction_readings(readings: &Readings, counts: Option<InstructionCounts>) -> Readings {
    let mut converted = Readings::default();
    if let (Some(user), Some(system)) = (readings.get(reading::USER_CPU), readings.get(reading::SYSTEM_CPU)) {
        converted.set(reading::TREE_INSTRUCTIONS, user + system);
        converted.set(reading::USER_INSTRUCTIONS, user);
        converted.set(reading::KERNEL_INSTRUCTIONS, system);
    }
    for (id, value) in &readings.0 {
        match INSTRUCTIONS_BY_TIME.iter().find(|(time, _)| time == id) {
            Some((_, instructions)) => converted.set(instructions, *value),
            None if !is_time_or_rate(id) => converted.set(id, *value),
            None => {}
        }
    }
    if let Some(counts) = counts {
        converted.set(reading::USER_INSTRUCTIONS, counts.user_synced as f64);
        converted.set(reading::KERNEL_INSTRUCTIONS, counts.kernel_synced as f64);
        converted.set(reading::GUEST_INSTRUCTIONS, (counts.user_synced + counts.kernel_synced) as f64);
        converted.set(reading::SYSTEM_CALLS, counts.system_calls as f64);
        converted.set(reading::INSTRUCTIONS_AT_RETURN, (counts.user + counts.kernel) as f64);
    }
    converted
}

/// Whether a reading of fsarena is a time or a rate. False for what a command printed: such values stay as they are.
fn is_time_or_rate(id: &str) -> bool {
    let units = [Unit::Nanoseconds, Unit::Seconds, Unit::PerSecond, Unit::BytesPerSecond];
    reading_defs().any(|def| def.id == id && units.contains(&def.unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn readings(pairs: &[(&str, f64)]) -> Readings {
        Readings(pairs.iter().map(|(id, value)| (id.to_string(), *value)).collect())
    }

    #[test]
    fn instructions_replace_times_and_no_time_remains() {
        let original = readings(&[
            ("elapsed_ns", 9.0),
            ("user_ns", 1.0),
            ("system_ns", 5.0),
            ("machine_cpu_ns", 7.0),
            ("major_faults", 2.0),
            ("read_iops_per_s", 3.0),
        ]);
        let from_times = [
            ("tree_instructions", 6.0),
            ("user_instructions", 1.0),
            ("kernel_instructions", 5.0),
            ("guest_instructions", 7.0),
            ("major_faults", 2.0),
        ];
        assert_eq!(instruction_readings(&original, None), readings(&from_times));
        let counts = InstructionCounts { user: 1, kernel: 10, user_synced: 2, kernel_synced: 20, system_calls: 5 };
        let counted = instruction_readings(&original, Some(counts));
        let count = |id| counted.get(id);
        assert_eq!([count("user_instructions"), count("kernel_instructions")], [Some(2.0), Some(20.0)]);
        assert_eq!([count("guest_instructions"), count("returned_instructions")], [Some(22.0), Some(11.0)]);
        assert_eq!(count("system_calls_count"), Some(5.0));
    }
}
