//! Reports of a run in which a variant has two modes (two speeds): the variant, and the reading that differs between them.

use crate::fixture::{self, run};
use fsarena_core::record::{MetricSpec, RunRecord};
use fsarena_core::sample::{Direction, Unit};
use fsarena_report::report::Report;

fn full_report(record: &RunRecord) -> Report {
    let mut report = fixture::report(record.clone(), &["elapsed"]).unwrap();
    report.is_full = true;
    report
}

/// A run in which xfs takes 2.4 times as long for "untar", and writes 4 MiB instead of 1 MiB, if `is_slow` returns true for the
/// round and the position in the round.
fn run_with_two_speeds(is_slow: impl Fn(u32, u32) -> bool) -> RunRecord {
    let mut record = run(&["ext4", "xfs", "btrfs"], 16);
    let mut written_bytes = vec![1048576.0; record.samples.len()];
    let elapsed = record.reading_column("elapsed_ns").unwrap();
    for (row, bytes) in written_bytes.iter_mut().enumerate() {
        let cell = &record.cells[record.samples.cell[row] as usize];
        let task = &record.tasks[record.samples.task[row] as usize];
        if cell.variant == 1 && task.id.name == "untar" && is_slow(cell.round, cell.position) {
            record.samples.values[elapsed][row] *= 2.4;
            *bytes *= 4.0;
        }
    }
    record.readings.push(MetricSpec::new("device_write_bytes".into(), Unit::Bytes, Direction::Lower, String::new()));
    record.samples.values.push(written_bytes);
    record
}

#[test]
fn two_speeds_are_reported_with_the_reading_that_differs() {
    let by_round = full_report(&run_with_two_speeds(|round, _| [1, 2, 5, 7, 8, 10, 13, 15].contains(&round)));
    let text = fixture::export(&by_round, "md");
    assert!(text.contains("xfs has two speeds at "), "{text}");
    assert!(text.contains("in 8 rounds, ") && text.contains("slow"), "{text}");
    let modes = fixture::export_json(&by_round)["modes"].clone();
    assert_eq!(modes.as_array().unwrap().len(), 1, "{modes}");
    assert_eq!((&modes[0]["variant"], &modes[0]["task"]), (&"xfs".into(), &"untar".into()));
    assert_eq!(modes[0]["clusters"][1]["rounds"], serde_json::json!([1, 2, 5, 7, 8, 10, 13, 15]));
    assert_eq!(modes[0]["associated"]["reading"], "device_write_bytes");
    assert_eq!(modes[0]["associated"]["medians"], serde_json::json!([1048576.0, 4194304.0]));
    assert!(fixture::export(&by_round, "html").contains("Two speeds"));
    // The position in the round, which is random, is the cause.
    let by_position = full_report(&run_with_two_speeds(|_, position| position > 0));
    let modes = fixture::export_json(&by_position)["modes"].clone();
    assert_eq!(modes[0]["later_is_higher"], true, "{modes}");
    let without_modes = full_report(&run(&["ext4", "xfs", "btrfs"], 16));
    assert!(!fixture::export(&without_modes, "md").contains("two speeds"));
}
