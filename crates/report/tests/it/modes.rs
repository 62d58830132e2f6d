//! A variant with two speeds is named, with what goes with them.

use crate::fixture::run;
use fsarena_core::record::{MetricSpec, RunRecord};
use fsarena_core::sample::{Direction, Unit};
use fsarena_report::exporters;
use fsarena_report::report::{self, ReportOptions};
use serde_json::Value;

fn exported(record: &RunRecord, format: &str) -> String {
    let asked = ReportOptions { metrics: vec!["elapsed".into()], ..ReportOptions::default() };
    let mut report = report::analyse_run(record.clone(), asked).unwrap();
    report.full = true;
    let mut out = vec![];
    exporters::find(format).unwrap().export(&report, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

/// A run in which xfs takes 2.4 times as long for "untar", and writes 4 MiB instead of 1, where `slow` says so of the round
/// and the place in it.
fn planted(slow: impl Fn(u32, u32) -> bool) -> RunRecord {
    let mut record = run(&["ext4", "xfs", "btrfs"], 16);
    let mut written = vec![1048576.0; record.samples.len()];
    let elapsed = record.reading("elapsed_ns").unwrap();
    for (row, written) in written.iter_mut().enumerate() {
        let cell = &record.cells[record.samples.cell[row] as usize];
        let task = &record.tasks[record.samples.task[row] as usize];
        if cell.variant == 1 && task.id.name == "untar" && slow(cell.round, cell.position) {
            record.samples.values[elapsed][row] *= 2.4;
            *written *= 4.0;
        }
    }
    record.readings.push(MetricSpec::new("device_write_bytes".into(), Unit::Bytes, Direction::Lower, String::new()));
    record.samples.values.push(written);
    record
}

#[test]
fn two_speeds_are_named_with_what_goes_with_them() {
    let by_round = planted(|round, _| [1, 2, 5, 7, 8, 10, 13, 15].contains(&round));
    let text = exported(&by_round, "md");
    assert!(text.contains("xfs has two speeds at "), "{text}");
    assert!(text.contains("in 8 rounds, ") && text.contains("slow"), "{text}");
    let modes: Value = serde_json::from_str::<Value>(&exported(&by_round, "json")).unwrap()["modes"].clone();
    assert_eq!(modes.as_array().unwrap().len(), 1, "{modes}");
    assert_eq!((&modes[0]["variant"], &modes[0]["task"]), (&"xfs".into(), &"untar".into()));
    assert_eq!(modes[0]["clusters"][1]["rounds"], serde_json::json!([1, 2, 5, 7, 8, 10, 13, 15]));
    assert_eq!(modes[0]["associated"]["reading"], "device_write_bytes");
    assert_eq!(modes[0]["associated"]["medians"], serde_json::json!([1048576.0, 4194304.0]));
    assert!(exported(&by_round, "html").contains("Two speeds"));
    // By the place: what was drawn at random is the cause.
    let by_place = planted(|_, position| position > 0);
    let modes = serde_json::from_str::<Value>(&exported(&by_place, "json")).unwrap()["modes"].clone();
    assert_eq!(modes[0]["later_is_higher"], true, "{modes}");
    // Noise alone has one speed.
    assert!(!exported(&run(&["ext4", "xfs", "btrfs"], 16), "md").contains("two speeds"));
}
