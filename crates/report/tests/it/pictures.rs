//! Charts: their marks, and the captions that state which values they leave out.

use crate::fixture;
use fsarena_core::cell::{TaskId, TaskInfo};
use fsarena_core::latency::LatencyHistogram;
use fsarena_core::record::{MetricSpec, RunRecord};
use fsarena_core::sample::{Direction, Unit};
use fsarena_report::charts;
use fsarena_report::drawing::{Chart, KeySign, Mark};
use std::collections::BTreeMap;

fn charts_of_run(record: RunRecord) -> Vec<Chart> {
    charts::charts_of_report(&fixture::report(record, &["elapsed"]).unwrap())
}

fn find_chart<'c>(charts: &'c [Chart], id: &str) -> &'c Chart {
    charts.iter().find(|chart| chart.id == id).unwrap()
}

/// Sets the elapsed times to zero for which `is_zero` returns true, by variant and round.
fn with_zeros(mut record: RunRecord, is_zero: impl Fn(usize, u32) -> bool) -> RunRecord {
    let elapsed = record.reading_column("elapsed_ns").unwrap();
    for row in 0..record.samples.len() {
        let cell = &record.cells[record.samples.cell[row] as usize];
        if is_zero(cell.variant, cell.round) {
            record.samples.values[elapsed][row] = 0.0;
        }
    }
    record
}

fn count_intervals(chart: &Chart) -> usize {
    let marks = chart.panels.iter().flat_map(|panel| &panel.marks);
    marks.filter(|mark| matches!(mark, Mark::HorizontalInterval { .. } | Mark::VerticalInterval { .. })).count()
}

#[test]
fn the_caption_states_which_values_are_left_out_because_of_zeros() {
    // ext4 is zero in all rounds, xfs in all but two.
    let is_zero = |variant, round| variant == 0 || (variant == 1 && round > 1);
    let charts = charts_of_run(with_zeros(fixture::run(&["ext4", "xfs", "btrfs"], 8), is_zero));
    let ratios = find_chart(&charts, "ratios-elapsed");
    assert!(ratios.caption.contains("ext4 is not drawn"), "{}", ratios.caption);
    assert!(ratios.caption.contains(": in every round either it or the best variant is zero"), "{}", ratios.caption);
    assert!(ratios.caption.contains("in TOTAL: 6 of 8 rounds are left out"), "{}", ratios.caption);
    assert!(ratios.caption.contains("largest value, because fewer than 8 rounds have a ratio"), "{}", ratios.caption);
    assert!(!ratios.caption.contains("give no 95% interval"), "there are 8 rounds: {}", ratios.caption);
    assert_eq!(count_intervals(ratios), 5, "one variant against the best: three tasks, TOTAL, GEOMETRIC MEAN");
    // In units, zeros have an interval: three variants and a panel for each task and the TOTAL.
    assert_eq!(count_intervals(find_chart(&charts, "raw-elapsed")), 3 * 4);

    let is_zero_but_once = |variant, round| variant == 0 || (variant == 1 && round > 0);
    let charts = charts_of_run(with_zeros(fixture::run(&["ext4", "xfs", "btrfs"], 8), is_zero_but_once));
    let ratios = find_chart(&charts, "ratios-elapsed");
    assert!(ratios.caption.contains("has no interval in TOTAL: in 7 of 8 rounds"), "{}", ratios.caption);
    assert_eq!(count_intervals(ratios), 0);
}

#[test]
fn charts_of_a_complete_run_leave_nothing_out() {
    for chart in charts_of_run(fixture::run(&["ext4", "xfs", "btrfs"], 9)) {
        for words in ["ot drawn", "left out", "no interval in"] {
            assert!(!chart.caption.contains(words), "{}: {}", chart.id, chart.caption);
        }
    }
}

#[test]
fn an_interval_that_extends_beyond_the_chart_is_labelled_with_its_end() {
    let mut record = fixture::run(&["ext4", "xfs"], 9);
    let elapsed = record.reading_column("elapsed_ns").unwrap();
    for row in 0..record.samples.len() {
        let cell = &record.cells[record.samples.cell[row] as usize];
        if cell.variant == 1 && cell.round == 4 {
            record.samples.values[elapsed][row] *= 20.0;
        }
    }
    let charts = charts_of_run(record);
    let end_labels = |id: &str| -> Vec<String> {
        let marks = find_chart(&charts, id).panels.iter().flat_map(|panel| &panel.marks);
        let end_label = |mark: &Mark| match mark {
            Mark::ValueText { text, .. } => text.split_once('→').map(|(_, end)| end.to_string()),
            _ => None,
        };
        marks.filter_map(end_label).collect()
    };
    let ratio_ends = end_labels("ratios-elapsed");
    assert!(!ratio_ends.is_empty() && ratio_ends.iter().all(|end| end.ends_with('%')), "{ratio_ends:?}");
    let raw_ends = end_labels("raw-elapsed");
    assert!(raw_ends.iter().any(|end| end.ends_with(" s")), "{raw_ends:?}");
    let svg = fsarena_report::drawing::svg::inline_svg(find_chart(&charts, "ratios-elapsed"));
    assert!(svg.contains(&ratio_ends[0]), "{ratio_ends:?}");
}

#[test]
fn a_variant_looks_the_same_in_every_chart() {
    let mut record = fixture::run(&["ext4/none", "ext4/bfq", "xfs/none", "xfs/bfq", "btrfs"], 9);
    for variant in &mut record.variants {
        let fs = variant.name.split('/').next().unwrap().to_string();
        variant.levels = [("fs".to_string(), fs)].into();
    }
    let names: Vec<String> = record.variants.iter().map(|variant| variant.name.clone()).collect();
    let (mut colours, mut signs) = (BTreeMap::new(), BTreeMap::new());
    for chart in charts_of_run(record) {
        for key in chart.legend.iter().filter(|key| names.contains(&key.label)) {
            let colour = *colours.entry(key.label.clone()).or_insert(key.colour);
            assert_eq!(key.colour, colour, "{} in {}", key.label, chart.id);
            if let KeySign::Series(shape, dash) = key.sign {
                let sign = *signs.entry(key.label.clone()).or_insert((shape, dash));
                assert_eq!((shape, dash), sign, "{} in {}", key.label, chart.id);
            }
        }
    }
    let distinct_colours: std::collections::BTreeSet<_> = colours.values().collect();
    assert_eq!((distinct_colours.len(), signs.len()), (5, 5));
    assert!(signs["ext4/none"].1 != signs["ext4/bfq"].1, "the variants of a filesystem have different dashes");
}

#[test]
fn the_caption_of_pooled_latencies_states_how_many_tasks_it_leaves_out() {
    let mut record = fixture::run(&["ext4", "xfs"], 9);
    for number in 0..13 {
        let id = TaskId::new(format!("load-{number}"));
        record.latencies.insert((record.tasks.len(), 0), LatencyHistogram::new([(100, 900), (200, 90)]));
        record.tasks.push(TaskInfo { id, title: String::new(), number: None, in_totals: false });
    }
    let charts = charts_of_run(record);
    let pooled = find_chart(&charts, "latency-pooled");
    assert_eq!(pooled.panels.len(), 12);
    assert!(pooled.caption.contains(" Of 13 tasks, 12 are shown"), "{}", pooled.caption);
}

#[test]
fn a_higher_score_is_a_higher_throughput_over_time() {
    let mut record = fixture::run(&["ext4", "xfs"], 9);
    // xfs has twice the score of ext4.
    let score = |row: usize| if record.cells[record.samples.cell[row] as usize].variant == 1 { 2.0 } else { 1.0 };
    let scores: Vec<f64> = (0..record.samples.len()).map(score).collect();
    record.samples.values.push(scores);
    record.readings.push(MetricSpec::new("score".into(), Unit::Count, Direction::Higher, String::new()));
    let charts = charts::charts_of_report(&fixture::report(record, &["score"]).unwrap());
    let timeline = find_chart(&charts, "timeline");
    let dots = timeline.panels[0].marks.iter().filter_map(|mark| match mark {
        Mark::Dot { point, colour, .. } => Some((point.1, *colour)),
        _ => None,
    });
    let (_, highest) = dots.max_by(|(a, _), (b, _)| a.total_cmp(b)).unwrap();
    assert_eq!(highest, timeline.legend.iter().find(|key| key.label == "xfs").unwrap().colour);
}

#[test]
fn cells_of_different_workloads_have_one_scale_over_time() {
    let mut record = fixture::run(&["ext4", "xfs"], 9);
    // The cells of odd rounds do other tasks, which take a hundred times as long.
    let tasks = record.tasks.clone();
    for mut task in tasks.clone() {
        task.id.name.push_str("-large");
        record.tasks.push(task);
    }
    let elapsed = record.reading_column("elapsed_ns").unwrap();
    for row in 0..record.samples.len() {
        if record.cells[record.samples.cell[row] as usize].round % 2 == 1 {
            record.samples.task[row] += tasks.len() as u32;
            record.samples.values[elapsed][row] *= 100.0;
        }
    }
    let charts = charts_of_run(record);
    let dots = find_chart(&charts, "timeline").panels[0].marks.iter().filter_map(|mark| match mark {
        Mark::Dot { point, .. } => Some(point.1),
        _ => None,
    });
    let percents: Vec<f64> = dots.collect();
    assert_eq!(percents.len(), 2 * 9);
    assert!(percents.iter().all(|percent| (90.0..110.0).contains(percent)), "{percents:?}");
}
