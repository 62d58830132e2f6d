//! The warnings of a report about commands of the user that can hardly show differences between filesystems.

use crate::fixture::{self, run};
use fsarena_core::record::{MetricSpec, RunRecord};
use fsarena_core::sample::{Direction, Unit};
use fsarena_core::setting::SettingValue;

/// A run of commands of the user. User CPU time is `user_share` of the elapsed time, and each task writes `written_bytes` to the
/// device.
fn run_of_commands(user_share: f64, written_bytes: f64) -> RunRecord {
    let mut record = run(&["ext4", "xfs"], 8);
    record.plan.workloads[0].settings.0.insert("metric_regex".into(), SettingValue::List(vec![]));
    let elapsed = record.samples.values[record.reading_column("elapsed_ns").unwrap()].clone();
    let rows = elapsed.len();
    let mut set_reading = |id: &str, unit: Unit, values: Vec<f64>| {
        if let Some(column) = record.reading_column(id) {
            record.samples.values[column] = values;
            return;
        }
        record.readings.push(MetricSpec::new(id.into(), unit, Direction::Lower, String::new()));
        record.samples.values.push(values);
    };
    set_reading("user_ns", Unit::Nanoseconds, elapsed.iter().map(|elapsed| user_share * elapsed).collect());
    set_reading("system_ns", Unit::Nanoseconds, vec![0.0; rows]);
    set_reading("device_read_bytes", Unit::Bytes, vec![0.0; rows]);
    set_reading("device_write_bytes", Unit::Bytes, vec![written_bytes; rows]);
    set_reading("process_start_ns", Unit::Nanoseconds, vec![0.9e6; rows]);
    record
}

fn markdown_report(record: RunRecord) -> String {
    fixture::export(&fixture::report(record, &["elapsed"]).unwrap(), "md")
}

#[test]
fn a_report_warns_of_commands_that_hardly_use_the_filesystem() {
    let text = markdown_report(run_of_commands(0.98, 0.0));
    assert!(text.contains("98% of untar is user CPU time: a faster filesystem could save about 2% at most."), "{text}");
    assert!(text.contains("untar moved no byte to or from the device"), "{text}");
    // "untar" takes 1.6 s, far longer than starting a program.
    assert!(!text.contains("starting programs"), "{text}");
    let text = markdown_report(run_of_commands(0.5, 4096.0));
    assert!(!text.contains("user CPU time: a faster") && !text.contains("moved no byte"), "{text}");
    let mut short_commands = run_of_commands(0.5, 4096.0);
    let elapsed = short_commands.reading_column("elapsed_ns").unwrap();
    short_commands.samples.values[elapsed].iter_mut().for_each(|elapsed| *elapsed /= 1000.0);
    let text = markdown_report(short_commands.clone());
    assert!(text.contains("takes 0.900 ms here, so starting programs dominates"), "{text}");
    // On this machine programs start faster.
    let process_start = short_commands.reading_column("process_start_ns").unwrap();
    short_commands.samples.values[process_start].fill(0.01e6);
    assert!(!markdown_report(short_commands).contains("starting programs"));
    let mut writes_elsewhere = run_of_commands(0.5, 4096.0);
    let reading = |id: &str| MetricSpec::new(id.into(), Unit::Bytes, Direction::Lower, String::new());
    writes_elsewhere.readings.extend(["source_write_bytes", "root_write_bytes"].map(reading));
    let rows = writes_elsewhere.samples.len();
    writes_elsewhere.samples.values.extend([vec![3e6; rows], vec![0.5e6; rows]]);
    let text = markdown_report(writes_elsewhere);
    assert!(text.contains("While untar ran, 2.86 MiB were written to the source disk, outside"), "{text}");
    assert!(!text.contains("the root disk"), "{text}");
    // The workloads of a study are not commands of the user.
    let mut study = run_of_commands(0.98, 0.0);
    study.plan.workloads[0].settings.0.clear();
    assert!(!markdown_report(study).contains("moved no byte"));
}
