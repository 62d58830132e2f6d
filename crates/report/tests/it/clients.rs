//! A run over several numbers of clients: the charts and the sentences of its curves.

use crate::fixture;
use fsarena_core::metric::reading;
use fsarena_core::published::parse_published;
use fsarena_core::record::{MetricSpec, RunRecord};
use fsarena_core::sample::{Direction, Unit};
use fsarena_report::{charts, report::Report, scaling::curves::client_curves_of_published};

/// A run in which three tasks are one load with 1, 2 and 4 clients. Its throughput with 4 is hardly larger than with 2.
fn run_over_clients() -> RunRecord {
    let mut record = fixture::run(&["ext4", "xfs"], 9);
    for (task, clients) in record.tasks[2..].iter_mut().zip(["1", "2", "4"]) {
        task.id.name = "serve".into();
        task.id.params = [("clients".to_string(), clients.to_string())].into();
    }
    let throughput = |row: usize| {
        let noise = 1.0 + (record.samples.values[0][row] % 1_000.0) / 1e5;
        [f64::NAN, f64::NAN, 1e6, 1.9e6, 1.91e6][record.samples.task[row] as usize] * noise
    };
    let values = (0..record.samples.len()).map(throughput).collect();
    record.samples.values.push(values);
    record.readings.push(MetricSpec::new(
        reading::SERVED_BANDWIDTH.into(),
        Unit::BytesPerSecond,
        Direction::Higher,
        String::new(),
    ));
    record
}

fn full_terminal_report(report: &mut Report) -> String {
    report.is_full = true;
    fixture::export(report, "term")
}

#[test]
fn curves_have_a_law_a_saturation_and_a_peak() {
    let mut report = fixture::report(run_over_clients(), &["throughput"]).unwrap();
    let charts = charts::charts_of_report(&report);
    let chart = |id: &str| charts.iter().find(|chart| chart.id == id).unwrap_or_else(|| panic!("no {id}"));
    assert_eq!(chart("clients").panels.len(), 1);
    let fit_chart = chart("clients-fit");
    assert_eq!(fit_chart.panels.len(), 2, "a panel for each variant");
    assert!(fit_chart.panels[0].title.starts_with("ext4: saturation 2, peak 4"), "{}", fit_chart.panels[0].title);
    let text = full_terminal_report(&mut report);
    assert!(text.contains("How throughput scales with clients") && !text.contains("left out: zero"), "{text}");
}

#[test]
fn a_value_of_zero_is_left_out_of_its_curve_and_counted() {
    let mut record = run_over_clients();
    let (column, row) = (record.readings.len() - 1, record.samples.task.iter().position(|task| *task == 3));
    record.samples.values[column][row.unwrap()] = 0.0;
    let mut report = fixture::report(record, &["throughput"]).unwrap();
    assert!(charts::charts_of_report(&report).iter().any(|chart| chart.id == "clients-fit"));
    // The sentence may be wrapped.
    let text = full_terminal_report(&mut report).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("1 value of zero left out"), "{text}");
}

#[test]
fn published_curves_are_separate_for_each_task() {
    let mut csv = String::from("set,task,title,filesystem,clients,metric,value,unit\n");
    for (task, clients, value) in [("1", 1, 10), ("1", 2, 20), ("2", 1, 300), ("2", 2, 400)] {
        csv += &format!(",{task},Load,ext4,{clients},throughput,{value},ratio\n");
    }
    let tasks = [("1", "read"), ("2", "write")].map(|(number, name)| (number.to_string(), name.to_string()));
    let sets = parse_published("old", &csv, &tasks.into()).unwrap();
    let curves = client_curves_of_published(&sets[0]).unwrap().unwrap();
    let names_and_values: Vec<(&str, Vec<f64>)> =
        curves.iter().map(|curve| (curve.name.as_str(), curve.x.concat())).collect();
    assert_eq!(names_and_values, [("ext4 read", vec![10.0, 20.0]), ("ext4 write", vec![300.0, 400.0])]);
}
