//! A run over a grid of a setting: the chart and the sentences of how the cost of one unit grows.

use crate::fixture;
use fsarena_core::cell::{TaskId, TaskInfo};
use fsarena_core::record::RunRecord;
use fsarena_core::schedule::mix;
use fsarena_report::{charts, drawing::Mark};

/// The numbers of files.
const AMOUNTS: [u32; 7] = [1_000, 3_200, 10_000, 32_000, 100_000, 320_000, 1_000_000];

/// A run of four rounds with seven numbers of files. On ext4 the cost of a file grows above 32,000 files; on xfs it is constant.
fn run_over_grid() -> RunRecord {
    let mut record = fixture::run(&["ext4", "xfs"], 4);
    record.plan.workloads[0].grid_settings.push("files".into());
    record.tasks.truncate(2);
    for amount in AMOUNTS {
        let mut id = TaskId::new("create");
        id.params.insert("files".into(), amount.to_string());
        record.tasks.push(TaskInfo { id, title: "Create files".into(), number: None, in_totals: true });
    }
    let samples = &mut record.samples;
    samples.cell.clear();
    samples.task.clear();
    samples.started_at.clear();
    samples.values.iter_mut().for_each(Vec::clear);
    for (index, cell) in record.cells.iter().enumerate() {
        for (task, amount) in AMOUNTS.into_iter().enumerate() {
            let files = f64::from(amount);
            let noise = 1.0 + (mix(index as u64, task as u64) % 1_000) as f64 / 1e5;
            let growth = if cell.variant == 0 { (files / 32_000.0).max(1.0).powf(0.5) } else { 1.0 };
            samples.cell.push(index as u32);
            samples.task.push(2 + task as u32);
            samples.started_at.push(cell.started_at);
            samples.values.iter_mut().for_each(|column| column.push(20_000.0 * files * growth * noise));
        }
    }
    record
}

#[test]
fn the_growth_of_a_cost_is_drawn_with_its_law_its_bend_and_the_interval_beyond_the_data() {
    let mut report = fixture::report(run_over_grid(), &["elapsed"]).unwrap();
    let charts = charts::charts_of_report(&report);
    let chart = charts.iter().find(|chart| chart.id == "growth-elapsed").expect("a chart of the growth");
    let [panel] = &chart.panels[..] else { panic!("{} panels", chart.panels.len()) };
    assert_eq!(panel.title, "Create files");
    let count = |kind: fn(&Mark) -> bool| panel.marks.iter().filter(|mark| kind(mark)).count();
    assert_eq!(count(|mark| matches!(mark, Mark::Dot { .. })), 2 * AMOUNTS.len());
    // One curve bends; both are drawn up to ten times the last amount.
    assert_eq!(count(|mark| matches!(mark, Mark::Box { .. })), 1);
    let band_ends = panel.marks.iter().filter_map(|mark| match mark {
        Mark::Band { points, .. } => points.last().map(|(amount, low, high)| (amount.round(), low < high)),
        _ => None,
    });
    assert_eq!(band_ends.collect::<Vec<_>>(), [(1e7, true); 2]);
    let keys: Vec<&str> = chart.legend.iter().map(|key| key.label.as_str()).collect();
    assert_eq!(keys[..2], ["ext4", "xfs"]);
    assert!(keys[3].starts_with("where it bends"), "{keys:?}");

    report.is_full = true;
    let text = fixture::export(&report, "md");
    assert!(text.contains("How elapsed / files grows with files") && text.contains(" to N^0.5"), "{text}");
}
