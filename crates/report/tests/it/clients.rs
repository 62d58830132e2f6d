//! A run over several numbers of clients: its curves are drawn and said, whatever a single value is.

use crate::fixture;
use fsarena_core::metric::reading;
use fsarena_core::record::{MetricSpec, RunRecord};
use fsarena_core::sample::{Direction, Unit};
use fsarena_report::{charts, exporters, report::Report};

/// The fixture's tasks as loads of 1, 2 and 4 clients; four bring hardly more than two.
fn record() -> RunRecord {
    let mut record = fixture::run(&["ext4", "xfs"], 9);
    for (task, clients) in record.tasks[2..].iter_mut().zip(["1", "2", "4"]) {
        task.id.name = "serve".into();
        task.id.params = [("clients".to_string(), clients.to_string())].into();
    }
    let rate = |row: usize| {
        let noise = 1.0 + (record.samples.values[0][row] % 1_000.0) / 1e5;
        [f64::NAN, f64::NAN, 1e6, 1.9e6, 1.91e6][record.samples.task[row] as usize] * noise
    };
    let rates = (0..record.samples.len()).map(rate).collect();
    record.samples.values.push(rates);
    record.readings.push(MetricSpec::new(
        reading::SERVED_BANDWIDTH.into(),
        Unit::BytesPerSecond,
        Direction::Higher,
        String::new(),
    ));
    record
}

fn term(report: &mut Report) -> String {
    report.full = true;
    let mut out = vec![];
    exporters::find("term").unwrap().export(report, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn curves_have_a_law_a_saturation_and_a_peak() {
    let mut report = fixture::report(record(), &["throughput"]).unwrap();
    let charts = charts::charts_of_report(&report);
    let found = |id: &str| charts.iter().find(|chart| chart.id == id).unwrap_or_else(|| panic!("no {id}"));
    assert_eq!(found("clients").panels.len(), 1);
    let fitted = found("clients-fit");
    assert_eq!(fitted.panels.len(), 2, "a panel a variant");
    assert!(fitted.panels[0].title.starts_with("ext4: saturation 2, peak 4"), "{}", fitted.panels[0].title);
    let said = term(&mut report);
    assert!(said.contains("How throughput scales with clients") && !said.contains("left out: zero"), "{said}");
}

#[test]
fn a_load_that_did_nothing_once_is_left_out_of_its_curve_and_said() {
    let mut record = record();
    let (column, row) = (record.readings.len() - 1, record.samples.task.iter().position(|task| *task == 3));
    record.samples.values[column][row.unwrap()] = 0.0;
    let mut report = fixture::report(record, &["throughput"]).unwrap();
    assert!(charts::charts_of_report(&report).iter().any(|chart| chart.id == "clients-fit"));
    assert!(term(&mut report).contains("1 value of zero left out"), "{}", term(&mut report));
}
