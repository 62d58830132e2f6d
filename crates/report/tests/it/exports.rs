//! What a run exports for other tools comes back as it was, read as those tools' own.

use crate::fixture;
use fsarena_core::record::{MetricSpec, RunRecord};
use fsarena_core::sample::{Direction, Unit};
use fsarena_core::series::{LatencyPercentiles, Point, SeriesTable};
use fsarena_report::exporters::find;
use fsarena_report::import::{Samples, parse};
use proptest::prelude::*;
use std::collections::BTreeMap;

const ROUNDS: u32 = 3;

/// Readings of loads: name, and value on the first variant in the first round.
const LOADS: [(&str, f64); 12] = [
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

/// What a reading has in a row.
fn value(record: &RunRecord, row: usize, first: f64) -> f64 {
    let cell = &record.cells[record.samples.cell[row] as usize];
    first * (1.0 + cell.variant as f64) + f64::from(cell.round)
}

/// A run of one load on two variants.
fn loads() -> RunRecord {
    let mut record = fixture::run(&["ext4", "xfs"], ROUNDS);
    let task = record.tasks.iter().position(|task| task.id.name == "touch").unwrap();
    record.tasks[task].id.params.insert("clients".into(), "8".into());
    record.readings =
        LOADS.map(|(id, _)| MetricSpec::new(id.into(), Unit::Count, Direction::Neutral, String::new())).to_vec();
    let rows = record.samples.len();
    let of = |row: usize, first: f64| match record.samples.task[row] as usize == task {
        true => value(&record, row, first),
        false => f64::NAN,
    };
    let values = LOADS.map(|(_, first)| (0..rows).map(|row| of(row, first)).collect()).to_vec();
    record.samples.values = values;
    record
}

fn export(record: RunRecord, format: &str) -> Vec<u8> {
    let report = fixture::report(record, &[]).unwrap();
    let mut out = vec![];
    find(format).unwrap().export(&report, &mut out).unwrap();
    out
}

/// Exported and read back; the format is found out by itself.
fn back(format: &str) -> Samples {
    let samples = parse("a", &export(loads(), format), None).unwrap();
    assert_eq!(samples.format, format);
    samples
}

#[track_caller]
fn assert_has(samples: &Samples, name: &str, metric: &str, expected: [f64; ROUNDS as usize]) {
    let of = |s: &&fsarena_report::import::Series| s.name == name && s.metric == metric;
    let found = samples.series.iter().find(of).unwrap_or_else(|| panic!("{name} {metric}: {samples:#?}"));
    assert_eq!(found.values.len(), expected.len(), "{name} {metric}");
    for (found, expected) in found.values.iter().zip(expected) {
        assert!((found / expected - 1.0).abs() < 1e-12, "{name} {metric}: {found} {expected}");
    }
}

#[test]
fn fio_has_each_task_of_each_variant_as_a_job() {
    let samples = back("fio");
    assert_has(&samples, "touch[clients=8] on ext4 read", "iops", [1500.125, 1501.125, 1502.125]);
    assert_has(&samples, "touch[clients=8] on xfs read", "latency", [1_300_246.0, 1_300_247.0, 1_300_248.0]);
    assert!(samples.series.iter().all(|one| !one.name.ends_with("write")), "nothing was written");
}

#[test]
fn sysbench_has_each_sample_as_a_run() {
    let samples = back("sysbench");
    assert_has(&samples, "touch[clients=8] on ext4", "reads", [1500.125, 1501.125, 1502.125]);
    assert_has(&samples, "touch[clients=8] on ext4", "time", [2.0, 2.000_000_001, 2.000_000_002]);
    assert_has(&samples, "touch[clients=8] on xfs", "latency", [1.400_002, 1.400_003, 1.400_004]);
}

#[test]
fn dbench_has_each_sample_as_a_run_of_its_load() {
    let samples = back("dbench");
    let of = |what: &str| format!("{what}[load=touch[clients=8] on ext4]");
    assert_has(&samples, &of("all operations"), "throughput", [321.5, 321.500_001, 321.500_002]);
    assert_has(&samples, &of("Flush"), "latency", [2.5, 2.500_001, 2.500_002]);
    let text = String::from_utf8(export(loads(), "dbench")).unwrap();
    assert!(text.contains("8 clients  8 procs  max_latency=2 ms"), "{text}");
}

#[test]
fn a_run_of_tasks_has_nothing_for_formats_of_loads() {
    let report = fixture::report(fixture::run(&["ext4", "xfs"], 2), &[]).unwrap();
    for format in ["fio", "sysbench", "dbench"] {
        let error = find(format).unwrap().export(&report, &mut vec![]).unwrap_err();
        assert!(error.to_string().contains("format=csv"), "{error}");
    }
}

#[test]
fn series_are_rows_and_their_medians_are_in_the_document() {
    let mut record = loads();
    let rows: Vec<u32> =
        (0..record.samples.len() as u32).filter(|row| !record.samples.values[0][*row as usize].is_nan()).collect();
    let point = |row: u32, at: u32| Point {
        start_s: f64::from(at) * 0.5,
        length_s: 0.5,
        warm_up: at == 0,
        operations: u64::from(100 * (at + 1) + record.cells[record.samples.cell[row as usize] as usize].round),
        bytes: 4096,
        latency: (at > 0).then_some(LatencyPercentiles { p50_ns: 10, p99_ns: 20, p999_ns: 30 }),
    };
    record.series = SeriesTable {
        points: rows.iter().flat_map(|row| [point(*row, 0), point(*row, 1)]).collect(),
        sample_row: rows.iter().flat_map(|row| [*row, *row]).collect(),
        left_out: 0,
    };
    let csv = String::from_utf8(export(record.clone(), "series")).unwrap();
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

    let document: serde_json::Value = serde_json::from_slice(&export(record, "json")).unwrap();
    let series = &document["time_series"][0];
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

/// Every unit, so that a generated run has printed figures of each.
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

/// A figure that a command prints, as fsarena names it. Some of the names are those of fsarena's own.
fn printed() -> impl Strategy<Value = MetricSpec> {
    let name = prop_oneof!["[a-z][a-z0-9_]{0,8}", "tps|elapsed|iops|threads|bs|kps|round|latency_p50|commits|synced"];
    (name, 0..UNITS.len()).prop_map(|(name, unit)| {
        MetricSpec::new(UNITS[unit].with_suffix(&name), UNITS[unit], Direction::Higher, String::new())
    })
}

/// A run with printed figures, of which some are absent.
fn runs() -> impl Strategy<Value = RunRecord> {
    let names = prop::collection::btree_set("[a-z0-9][a-z0-9=,;\"' .-]{0,6}[a-z0-9]", 1..4);
    let figures =
        prop::collection::vec((printed(), prop::collection::vec(prop::option::weighted(0.9, 1e-9..1e12_f64), 5)), 1..6);
    (names, 1..4_u32, figures).prop_map(|(names, rounds, figures)| {
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let mut record = fixture::run(&names, rounds);
        let rows = record.samples.len();
        for (info, values) in figures {
            if record.readings.iter().any(|known| known.id == info.id) {
                continue;
            }
            record.readings.push(info);
            let value = |row: usize| values[row % values.len()].unwrap_or(f64::NAN);
            record.samples.values.push((0..rows).map(value).collect());
        }
        record
    })
}

/// The values of each reading in the order of the rows, without what is absent.
fn values_of(record: &RunRecord, column: usize) -> Vec<u64> {
    let mut values: Vec<u64> =
        record.samples.values[column].iter().filter(|v| !v.is_nan()).map(|v| v.to_bits()).collect();
    values.sort_unstable();
    values
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Every value of every reading comes back, in rounds, and under no name that another one has.
    #[test]
    fn csv_of_any_run_comes_back(record in runs()) {
        let csv = export(record.clone(), "csv");
        let head = csv.split(|byte| *byte == b'\n').next().unwrap();
        let head: Vec<&str> = std::str::from_utf8(head).unwrap().split(',').collect();
        let place = head.iter().position(|name| *name == "started_at_s").unwrap() + 1;
        let samples = parse("a", &csv, None).unwrap();
        prop_assert!(samples.left_out.is_empty());
        for (column, reading) in record.readings.iter().enumerate() {
            let name = head[place + column];
            let mut found: Vec<u64> = vec![];
            let unit = reading.unit;
            let of_column = samples.series.iter().filter(|series| series.unit == unit.symbol());
            // A metric of fsarena's own is read without its unit.
            for series in of_column.filter(|series| series.metric == name || unit.with_suffix(&series.metric) == name) {
                prop_assert!(series.rounds.is_some());
                prop_assert_eq!(series.values.len(), series.rounds.as_ref().unwrap().len());
                found.extend(series.values.iter().map(|value| value.to_bits()));
            }
            found.sort_unstable();
            prop_assert_eq!(found, values_of(&record, column), "{}", name);
        }
    }

    /// What fsarena writes for other tools it reads as those tools' own.
    #[test]
    fn times_of_any_run_come_back(record in runs()) {
        for format in ["gobench", "hyperfine"] {
            let samples = parse("a", &export(record.clone(), format), None).unwrap();
            prop_assert_eq!(samples.format, format);
            let cells = record.cells.len() * record.tasks.len();
            let values: BTreeMap<&str, usize> = samples.series.iter().fold(BTreeMap::new(), |mut all, series| {
                *all.entry(series.metric.as_str()).or_default() += series.values.len();
                all
            });
            prop_assert_eq!(values[if format == "gobench" { "ns/op" } else { "time" }], cells);
        }
    }
}

#[test]
fn reports_have_no_samples_and_are_refused_by_name() {
    for format in ["json", "junit", "html"] {
        let file = export(fixture::run(&["ext4", "xfs"], 2), format);
        let error = parse("a", &file, None).unwrap_err().to_string();
        assert!(error.contains("fsarena does not read") && error.contains("--export csv"), "{error}");
    }
    for format in ["md", "term"] {
        let file = export(fixture::run(&["ext4", "xfs"], 2), format);
        let error = parse("a", &file, None).unwrap_err().to_string();
        assert!(error.contains("in no format that fsarena reads"), "{format}: {error}");
    }
}

#[test]
fn warm_up_rounds_of_csv_are_left_out() {
    let mut record = fixture::run(&["ext4", "xfs"], 3);
    record.plan.stop.warmup = 1;
    let samples = parse("a", &export(record, "csv"), None).unwrap();
    let elapsed = samples.series.iter().find(|series| series.metric == "elapsed").unwrap();
    assert_eq!(elapsed.values.len(), 2);
    assert_eq!(samples.left_out[0].to_string(), "10 rows: warm-up, which no figure counts");
}
