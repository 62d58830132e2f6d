//! What a report says of commands that can tell filesystems apart badly.

use crate::fixture::run;
use fsarena_core::record::{MetricSpec, RunRecord};
use fsarena_core::sample::{Direction, Unit};
use fsarena_core::setting::Value;
use fsarena_report::exporters;
use fsarena_report::report::{self, ReportOptions};

/// A run of own commands in which user CPU time is this share of the elapsed time, and tasks move this number of bytes.
fn planted(user: f64, bytes: f64) -> RunRecord {
    let mut record = run(&["ext4", "xfs"], 8);
    record.plan.workloads[0].settings.0.insert("metric_regex".into(), Value::List(vec![]));
    let elapsed = record.samples.values[record.reading("elapsed_ns").unwrap()].clone();
    let rows = elapsed.len();
    let mut add = |id: &str, unit: Unit, values: Vec<f64>| {
        if let Some(known) = record.reading(id) {
            record.samples.values[known] = values;
            return;
        }
        let info = MetricSpec::new(id.into(), unit, Direction::Lower, String::new());
        record.readings.push(info);
        record.samples.values.push(values);
    };
    add("user_ns", Unit::Nanoseconds, elapsed.iter().map(|elapsed| user * elapsed).collect());
    add("system_ns", Unit::Nanoseconds, vec![0.0; rows]);
    add("device_read_bytes", Unit::Bytes, vec![0.0; rows]);
    add("device_write_bytes", Unit::Bytes, vec![bytes; rows]);
    add("process_start_ns", Unit::Nanoseconds, vec![0.9e6; rows]);
    record
}

fn printed(record: RunRecord) -> String {
    let report =
        report::analyse_run(record, ReportOptions { metrics: vec!["elapsed".into()], ..ReportOptions::default() })
            .unwrap();
    let mut out = vec![];
    exporters::find("md").unwrap().export(&report, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn work_that_can_show_little_is_named() {
    let text = printed(planted(0.98, 0.0));
    assert!(text.contains("98% of untar is user CPU time: a faster filesystem could save about 2% at most."), "{text}");
    assert!(text.contains("untar moved no byte to or from the device"), "{text}");
    // It takes 1.6 s.
    assert!(!text.contains("starting programs"), "{text}");
    let text = printed(planted(0.5, 4096.0));
    assert!(!text.contains("user CPU time: a faster") && !text.contains("moved no byte"), "{text}");
    let mut short = planted(0.5, 4096.0);
    let elapsed = short.reading("elapsed_ns").unwrap();
    short.samples.values[elapsed].iter_mut().for_each(|elapsed| *elapsed /= 1000.0);
    let text = printed(short.clone());
    assert!(text.contains("takes 0.900 ms here, so starting programs dominates"), "{text}");
    // A machine on which `true` takes longer or less time.
    let start = short.reading("process_start_ns").unwrap();
    short.samples.values[start].fill(0.01e6);
    assert!(!printed(short).contains("starting programs"));
    let mut astray = planted(0.5, 4096.0);
    let reading = |id: &str| MetricSpec::new(id.into(), Unit::Bytes, Direction::Lower, String::new());
    astray.readings.extend(["source_write_bytes", "root_write_bytes"].map(reading));
    let rows = astray.samples.len();
    astray.samples.values.extend([vec![3e6; rows], vec![0.5e6; rows]]);
    let text = printed(astray);
    assert!(text.contains("While untar ran, 2.86 MiB were written to the source disk, outside"), "{text}");
    assert!(!text.contains("the root disk"), "{text}");
    // Studies have no own commands.
    let mut study = planted(0.98, 0.0);
    study.plan.workloads[0].settings.0.clear();
    assert!(!printed(study).contains("moved no byte"));
}
