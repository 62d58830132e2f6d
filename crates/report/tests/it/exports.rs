//! Files that fsarena exports in the formats of other tools: an import returns the same values.

use crate::fixture;
use fsarena_core::record::{MetricSpec, RunRecord};
use fsarena_core::sample::{Direction, Unit};
use fsarena_core::series::{LatencyPercentiles, SeriesPoint, SeriesTable};
use fsarena_report::exporters::find;
use fsarena_report::import::{Samples, parse};
use proptest::prelude::*;
use std::collections::BTreeMap;

const ROUNDS: u32 = 3;

/// The readings of a load: the id, and the value on the first variant in the first round.
const LOAD_READINGS: [(&str, f64); 12] = [
    ("read_operations_count", 3000.0),
    ("read_iops_per_s", 1500.125),
    ("read_bandwidth_bytes_per_s", 6_144_512.0),
    ("read_latency_mean_ns", 650_123.0),
    ("read_latency_max_ns", 2_000_000.0),
    ("read_latency_p99_ns", 900_000.0),
    ("all_latency_mean_ns", 700_001.0),
    ("all_latency_max_ns", 2_000_000.0),
    ("load_elapsed_ns", 2_000_000_000.0),
    ("served_bytes_per_s", 321_500_000.0),
    ("flush_operations_count", 60.0),
    ("flush_latency_mean_ns", 2_500_000.0),
];

/// A run of one load on two variants.
fn run_of_load() -> RunRecord {
    let mut record = fixture::run(&["ext4", "xfs"], ROUNDS);
    let task = record.tasks.iter().position(|task| task.id.name == "touch").unwrap();
    record.tasks[task].id.params.insert("clients".into(), "8".into());
    record.readings = LOAD_READINGS
        .map(|(id, _)| MetricSpec::new(id.into(), Unit::Count, Direction::Neutral, String::new()))
        .to_vec();
    let rows = record.samples.len();
    let value = |row: usize, first_value: f64| {
        if record.samples.task[row] as usize != task {
            return f64::NAN;
        }
        let cell = &record.cells[record.samples.cell[row] as usize];
        first_value * (1.0 + cell.variant as f64) + f64::from(cell.round)
    };
    let values = LOAD_READINGS.map(|(_, first_value)| (0..rows).map(|row| value(row, first_value)).collect()).to_vec();
    record.samples.values = values;
    record
}

fn export_run(record: RunRecord, format: &str) -> String {
    fixture::export(&fixture::report(record, &[]).unwrap(), format)
}

/// Exports the run of a load in a format, and imports the file, whose format the import must recognise.
fn export_and_import(format: &str) -> Samples {
    let samples = parse("a", export_run(run_of_load(), format).as_bytes(), None).unwrap();
    assert_eq!(samples.format, format);
    samples
}

#[track_caller]
fn assert_series(samples: &Samples, name: &str, metric: &str, expected: [f64; ROUNDS as usize]) {
    let is_wanted = |series: &&fsarena_report::import::Series| series.name == name && series.metric == metric;
    let series = samples.series.iter().find(is_wanted).unwrap_or_else(|| panic!("{name} {metric}: {samples:#?}"));
    assert_eq!(series.values.len(), expected.len(), "{name} {metric}");
    for (value, expected) in series.values.iter().zip(expected) {
        assert!((value / expected - 1.0).abs() < 1e-12, "{name} {metric}: {value} {expected}");
    }
}

#[test]
fn fio_has_each_task_of_each_variant_as_a_job() {
    let samples = export_and_import("fio");
    assert_series(&samples, "touch[clients=8] on ext4 read", "iops", [1500.125, 1501.125, 1502.125]);
    assert_series(&samples, "touch[clients=8] on xfs read", "latency", [1_300_246.0, 1_300_247.0, 1_300_248.0]);
    assert!(samples.series.iter().all(|series| !series.name.ends_with("write")), "nothing was written");
}

#[test]
fn sysbench_has_each_sample_as_a_run() {
    let samples = export_and_import("sysbench");
    assert_series(&samples, "touch[clients=8] on ext4", "reads", [1500.125, 1501.125, 1502.125]);
    assert_series(&samples, "touch[clients=8] on ext4", "time", [2.0, 2.000_000_001, 2.000_000_002]);
    assert_series(&samples, "touch[clients=8] on xfs", "latency", [1.400_002, 1.400_003, 1.400_004]);
}

#[test]
fn dbench_has_each_sample_as_a_run_of_its_load() {
    let samples = export_and_import("dbench");
    let series_name = |subject: &str| format!("{subject}[load=touch[clients=8] on ext4]");
    assert_series(&samples, &series_name("all operations"), "throughput", [321.5, 321.500_001, 321.500_002]);
    assert_series(&samples, &series_name("Flush"), "latency", [2.5, 2.500_001, 2.500_002]);
    let text = export_run(run_of_load(), "dbench");
    assert!(text.contains("8 clients  8 procs  max_latency=2 ms"), "{text}");
}

#[test]
fn a_run_without_loads_cannot_be_exported_in_formats_of_loads() {
    let report = fixture::report(fixture::run(&["ext4", "xfs"], 2), &[]).unwrap();
    for format in ["fio", "sysbench", "dbench"] {
        let error = find(format).unwrap().export(&report, &mut vec![]).unwrap_err();
        assert!(error.to_string().contains("format=csv"), "{error}");
    }
}

#[test]
fn points_of_time_series_are_rows_of_csv_and_their_medians_are_in_the_json() {
    let mut record = run_of_load();
    let rows: Vec<u32> =
        (0..record.samples.len() as u32).filter(|row| !record.samples.values[0][*row as usize].is_nan()).collect();
    let point = |row: u32, index: u32| SeriesPoint {
        start_s: f64::from(index) * 0.5,
        length_s: 0.5,
        warm_up: index == 0,
        operations: u64::from(100 * (index + 1) + record.cells[record.samples.cell[row as usize] as usize].round),
        bytes: 4096,
        latency: (index > 0).then_some(LatencyPercentiles { p50_ns: 10, p99_ns: 20, p999_ns: 30 }),
    };
    record.series = SeriesTable {
        points: rows.iter().flat_map(|row| [point(*row, 0), point(*row, 1)]).collect(),
        sample_row: rows.iter().flat_map(|row| [*row, *row]).collect(),
        omitted_count: 0,
    };
    let csv = export_run(record.clone(), "series");
    let lines: Vec<&str> = csv.lines().collect();
    assert_eq!(lines.len(), 1 + 2 * 2 * ROUNDS as usize);
    assert!(lines[0].ends_with(
        "workload,task,start_s,length_s,warm_up,operations_count,bytes,operations_per_s,bandwidth_bytes_per_s,\
         latency_p50_ns,latency_p99_ns,latency_p999_ns"
    ));
    assert!(lines.iter().any(|line| line.ends_with("0,0.5,1,100,4096,200,8192,,,")), "{csv}");
    assert!(lines.iter().any(|line| line.ends_with("0.5,0.5,0,202,4096,404,8192,10,20,30")), "{csv}");

    let samples = parse("a", csv.as_bytes(), None).unwrap();
    assert_eq!(samples.left_out[0].to_string(), "6 rows: warm-up, which no figure counts");
    let rate = samples.series.iter().find(|series| series.metric == "operations_per_s").unwrap();
    assert_eq!(rate.rounds.as_ref().unwrap().values().copied().collect::<Vec<f64>>(), [400.0, 402.0, 404.0]);
    let mut with_warm_up_round = record.clone();
    with_warm_up_round.plan.stop.warmup = 1;
    let samples = parse("a", export_run(with_warm_up_round, "series").as_bytes(), None).unwrap();
    assert_eq!(samples.left_out[0].to_string(), "8 rows: warm-up, which no figure counts");
    let rate = samples.series.iter().find(|series| series.metric == "operations_per_s").unwrap();
    assert_eq!(rate.values, [402.0, 404.0]);

    let json: serde_json::Value = serde_json::from_str(&export_run(record, "json")).unwrap();
    let series = &json["time_series"][0];
    assert_eq!(
        (&series["task"], &series["variant"], &series["rounds"]),
        (&"touch[clients=8]".into(), &"ext4".into(), &3.into())
    );
    let stretch = &series["stretches"][1];
    assert_eq!(stretch["operations_per_s"], 402.0);
    assert_eq!(stretch["operations_range_per_s"], serde_json::json!([400.0, 404.0]));
    assert_eq!((&stretch["warm_up"], &stretch["latency_p99_ns"]), (&false.into(), &20.0.into()));
    assert_eq!(series["stretches"][0]["warm_up"], true);
}

/// Every unit, so that generated runs have readings in each.
const UNITS: [Unit; 8] = [
    Unit::Nanoseconds,
    Unit::Seconds,
    Unit::Bytes,
    Unit::Count,
    Unit::Percent,
    Unit::Ratio,
    Unit::PerSecond,
    Unit::BytesPerSecond,
];

/// A reading that a user's command prints. Some have the name of one of fsarena's metrics or readings.
fn command_readings() -> impl Strategy<Value = MetricSpec> {
    let name = prop_oneof!["[a-z][a-z0-9_]{0,8}", "tps|elapsed|iops|threads|bs|kps|round|latency_p50|commits|synced"];
    (name, 0..UNITS.len()).prop_map(|(name, unit)| {
        MetricSpec::new(UNITS[unit].with_suffix(&name), UNITS[unit], Direction::Higher, String::new())
    })
}

/// Runs with readings of a user's command, some of which lack values.
fn runs() -> impl Strategy<Value = RunRecord> {
    let variants = prop::collection::btree_set("[a-z0-9][a-z0-9=,;\"' .-]{0,6}[a-z0-9]", 1..4);
    let values = prop::collection::vec(prop::option::weighted(0.9, 1e-9..1e12_f64), 5);
    let readings = prop::collection::vec((command_readings(), values), 1..6);
    (variants, 1..4_u32, readings).prop_map(|(variants, rounds, readings)| {
        let variants: Vec<&str> = variants.iter().map(String::as_str).collect();
        let mut record = fixture::run(&variants, rounds);
        let rows = record.samples.len();
        for (reading, values) in readings {
            if record.readings.iter().any(|other| other.id == reading.id) {
                continue;
            }
            record.readings.push(reading);
            let value = |row: usize| values[row % values.len()].unwrap_or(f64::NAN);
            record.samples.values.push((0..rows).map(value).collect());
        }
        record
    })
}

/// The bits of the values of a reading, sorted, without missing ones.
fn sorted_bits(record: &RunRecord, column: usize) -> Vec<u64> {
    let values = record.samples.values[column].iter().filter(|value| !value.is_nan());
    let mut bits: Vec<u64> = values.map(|value| value.to_bits()).collect();
    bits.sort_unstable();
    bits
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// An import of the CSV of any run returns every value of every reading, with rounds, and in a column of its own.
    #[test]
    fn an_import_of_csv_returns_every_reading(record in runs()) {
        let csv = export_run(record.clone(), "csv");
        let headers: Vec<&str> = csv.lines().next().unwrap().split(',').collect();
        let first_reading = headers.iter().position(|name| *name == "started_at_s").unwrap() + 1;
        let samples = parse("a", csv.as_bytes(), None).unwrap();
        prop_assert!(samples.left_out.is_empty());
        for (column, reading) in record.readings.iter().enumerate() {
            let name = headers[first_reading + column];
            let mut bits: Vec<u64> = vec![];
            let unit = reading.unit;
            // The import removes the unit from the names of fsarena's metrics.
            let is_of_column = |metric: &str| metric == name || unit.with_suffix(metric) == name;
            let series_in_unit = samples.series.iter().filter(|series| series.unit == unit.symbol());
            for series in series_in_unit.filter(|series| is_of_column(&series.metric)) {
                prop_assert!(series.rounds.is_some());
                prop_assert_eq!(series.values.len(), series.rounds.as_ref().unwrap().len());
                bits.extend(series.values.iter().map(|value| value.to_bits()));
            }
            bits.sort_unstable();
            prop_assert_eq!(bits, sorted_bits(&record, column), "{}", name);
        }
    }

    /// An import of the times of any run returns a value for each task of each cell.
    #[test]
    fn an_import_of_times_returns_every_sample(record in runs()) {
        for (format, metric) in [("gobench", "ns/op"), ("hyperfine", "time")] {
            let samples = parse("a", export_run(record.clone(), format).as_bytes(), None).unwrap();
            prop_assert_eq!(samples.format, format);
            let mut value_counts: BTreeMap<&str, usize> = BTreeMap::new();
            for series in &samples.series {
                *value_counts.entry(series.metric.as_str()).or_default() += series.values.len();
            }
            prop_assert_eq!(value_counts[metric], record.cells.len() * record.tasks.len());
        }
    }
}

#[test]
fn an_export_that_the_run_has_no_data_for_keeps_an_existing_file() {
    let report = fixture::report(fixture::run(&["ext4", "xfs"], 2), &[]).unwrap();
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("existing-export");
    std::fs::write(&path, "x".repeat(1 << 20)).unwrap();
    let error = find("fio").unwrap().write(&report, &path).unwrap_err().to_string();
    assert!(error.contains("has no reads or writes of a load"), "{error}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "x".repeat(1 << 20));
    find("junit").unwrap().write(&report, &path).unwrap();
    assert_eq!(std::fs::read_to_string(&path).unwrap(), fixture::export(&report, "junit"));
}

#[test]
fn reports_have_no_samples_and_are_refused_by_name() {
    for format in ["json", "junit", "html"] {
        let file = export_run(fixture::run(&["ext4", "xfs"], 2), format);
        let error = parse("a", file.as_bytes(), None).unwrap_err().to_string();
        assert!(error.contains("fsarena does not read") && error.contains("--export csv"), "{error}");
    }
    for format in ["md", "term"] {
        let file = export_run(fixture::run(&["ext4", "xfs"], 2), format);
        let error = parse("a", file.as_bytes(), None).unwrap_err().to_string();
        assert!(error.contains("in no format that fsarena reads"), "{format}: {error}");
    }
}

#[test]
fn warm_up_rounds_of_csv_are_left_out() {
    let mut record = fixture::run(&["ext4", "xfs"], 3);
    record.plan.stop.warmup = 1;
    let samples = parse("a", export_run(record, "csv").as_bytes(), None).unwrap();
    let elapsed = samples.series.iter().find(|series| series.metric == "elapsed").unwrap();
    assert_eq!(elapsed.values.len(), 2);
    assert_eq!(samples.left_out[0].to_string(), "10 rows: warm-up, which no figure counts");
}
