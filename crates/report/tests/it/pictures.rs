//! What pictures show and what they say that they leave out.

use crate::fixture;
use fsarena_core::record::RunRecord;
use fsarena_report::charts;
use fsarena_report::drawing::{Chart, KeySign, Mark};
use std::collections::BTreeMap;

fn all(record: RunRecord) -> Vec<Chart> {
    charts::charts_of_report(&fixture::report(record, &["elapsed"]).unwrap())
}

fn named<'c>(charts: &'c [Chart], id: &str) -> &'c Chart {
    charts.iter().find(|chart| chart.id == id).unwrap()
}

/// Sets the time of tasks to zero where asked, by variant and round.
fn with_zeros(mut record: RunRecord, zero: impl Fn(usize, u32) -> bool) -> RunRecord {
    let elapsed = record.readings.iter().position(|info| info.id == "elapsed_ns").unwrap();
    for row in 0..record.samples.len() {
        let cell = &record.cells[record.samples.cell[row] as usize];
        if zero(cell.variant, cell.round) {
            record.samples.values[elapsed][row] = 0.0;
        }
    }
    record
}

fn intervals(chart: &Chart) -> usize {
    let marks = chart.panels.iter().flat_map(|panel| &panel.marks);
    marks.filter(|mark| matches!(mark, Mark::HorizontalInterval { .. } | Mark::VerticalInterval { .. })).count()
}

#[test]
fn what_zeros_leave_out_is_said() {
    // ext4 is always zero, xfs but in two rounds.
    let zero = |variant, round| variant == 0 || (variant == 1 && round > 1);
    let charts = all(with_zeros(fixture::run(&["ext4", "xfs", "btrfs"], 8), zero));
    let ratios = named(&charts, "ratios-elapsed");
    assert!(ratios.caption.contains("ext4 is not drawn"), "{}", ratios.caption);
    assert!(ratios.caption.contains(": in every round either it or the best variant is zero"), "{}", ratios.caption);
    assert!(ratios.caption.contains("in TOTAL: 6 of 8 rounds are left out"), "{}", ratios.caption);
    assert!(ratios.caption.contains("largest value, because fewer than 8 rounds have a ratio"), "{}", ratios.caption);
    assert!(!ratios.caption.contains("give no 95% interval"), "there are 8 rounds: {}", ratios.caption);
    assert_eq!(intervals(ratios), 5, "one variant against the best: three tasks, TOTAL, GEOMETRIC MEAN");
    // In units, zeros have an interval: three variants and a panel for each task and the TOTAL.
    assert_eq!(intervals(named(&charts, "raw-elapsed")), 3 * 4);

    let one_round = |variant, round| variant == 0 || (variant == 1 && round > 0);
    let charts = all(with_zeros(fixture::run(&["ext4", "xfs", "btrfs"], 8), one_round));
    let ratios = named(&charts, "ratios-elapsed");
    assert!(ratios.caption.contains("has no interval in TOTAL: in 7 of 8 rounds"), "{}", ratios.caption);
    assert_eq!(intervals(ratios), 0);
}

#[test]
fn whole_runs_leave_nothing_out() {
    for chart in all(fixture::run(&["ext4", "xfs", "btrfs"], 9)) {
        for words in ["ot drawn", "left out", "no interval in"] {
            assert!(!chart.caption.contains(words), "{}: {}", chart.id, chart.caption);
        }
    }
}

#[test]
fn an_interval_beyond_the_picture_says_its_end() {
    let mut record = fixture::run(&["ext4", "xfs"], 9);
    let elapsed = record.readings.iter().position(|info| info.id == "elapsed_ns").unwrap();
    for row in 0..record.samples.len() {
        let cell = &record.cells[record.samples.cell[row] as usize];
        if cell.variant == 1 && cell.round == 4 {
            record.samples.values[elapsed][row] *= 20.0;
        }
    }
    let charts = all(record);
    let ends = |id: &str| -> Vec<String> {
        let marks = named(&charts, id).panels.iter().flat_map(|panel| &panel.marks);
        let end = |mark: &Mark| match mark {
            Mark::ValueText { text, .. } => text.split_once('→').map(|(_, end)| end.to_string()),
            _ => None,
        };
        marks.filter_map(end).collect()
    };
    let of_tasks = ends("ratios-elapsed");
    assert!(!of_tasks.is_empty() && of_tasks.iter().all(|end| end.ends_with('%')), "{of_tasks:?}");
    assert!(ends("raw-elapsed").iter().any(|end| end.ends_with(" s")), "{:?}", ends("raw-elapsed"));
    let drawn = fsarena_report::drawing::svg::inline_element(named(&charts, "ratios-elapsed"));
    assert!(drawn.contains(&of_tasks[0]), "{of_tasks:?}");
}

#[test]
fn a_variant_looks_the_same_in_every_picture() {
    let mut record = fixture::run(&["ext4/none", "ext4/bfq", "xfs/none", "xfs/bfq", "btrfs"], 9);
    for variant in &mut record.variants {
        let fs = variant.name.split('/').next().unwrap().to_string();
        variant.levels = [("fs".to_string(), fs)].into();
    }
    let names: Vec<String> = record.variants.iter().map(|variant| variant.name.clone()).collect();
    let (mut colours, mut lines) = (BTreeMap::new(), BTreeMap::new());
    for chart in all(record) {
        for key in chart.legend.iter().filter(|key| names.contains(&key.label)) {
            let colour = *colours.entry(key.label.clone()).or_insert(key.colour);
            assert_eq!(key.colour, colour, "{} in {}", key.label, chart.id);
            if let KeySign::Series(shape, dash) = key.sign {
                let line = *lines.entry(key.label.clone()).or_insert((shape, dash));
                assert_eq!((shape, dash), line, "{} in {}", key.label, chart.id);
            }
        }
    }
    let different: std::collections::BTreeSet<_> = colours.values().collect();
    assert_eq!((different.len(), lines.len()), (5, 5));
    assert!(lines["ext4/none"].1 != lines["ext4/bfq"].1, "a dash tells the variants of a filesystem apart");
}
