//! A run over a grid of a setting: its costs are drawn with their law, their bend and the interval beyond the data.

use crate::fixture;
use fsarena_core::cell::{TaskId, TaskInfo};
use fsarena_core::record::RunRecord;
use fsarena_core::schedule::mix;
use fsarena_report::{charts, drawing::Mark, exporters};

const AMOUNTS: [u32; 7] = [1_000, 3_200, 10_000, 32_000, 100_000, 320_000, 1_000_000];

/// Four rounds of the fixture at seven numbers of files. On ext4 the cost of a file grows from 32,000 on, on xfs never.
fn record() -> RunRecord {
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
    for (cell, of) in record.cells.iter().enumerate() {
        for (at, amount) in AMOUNTS.into_iter().enumerate() {
            let n = f64::from(amount);
            let noise = 1.0 + (mix(cell as u64, at as u64) % 1_000) as f64 / 1e5;
            let bent = if of.variant == 0 { (n / 32_000.0).max(1.0).powf(0.5) } else { 1.0 };
            samples.cell.push(cell as u32);
            samples.task.push(2 + at as u32);
            samples.started_at.push(of.started_at);
            samples.values.iter_mut().for_each(|column| column.push(20_000.0 * n * bent * noise));
        }
    }
    record
}

#[test]
fn the_growth_of_a_cost_is_drawn_with_its_law_its_bend_and_what_follows() {
    let mut report = fixture::report(record(), &["elapsed"]).unwrap();
    let charts = charts::charts_of_report(&report);
    let chart = charts.iter().find(|chart| chart.id == "growth-elapsed").expect("a chart of the growth");
    let [panel] = &chart.panels[..] else { panic!("{} panels", chart.panels.len()) };
    assert_eq!(panel.title, "Create files");
    let count = |kind: fn(&Mark) -> bool| panel.marks.iter().filter(|mark| kind(mark)).count();
    assert_eq!(count(|mark| matches!(mark, Mark::Dot { .. })), 2 * AMOUNTS.len());
    // One curve bends; both go on to ten times the last amount.
    assert_eq!(count(|mark| matches!(mark, Mark::Box { .. })), 1);
    let ends = panel.marks.iter().filter_map(|mark| match mark {
        Mark::Band { points, .. } => points.last().map(|(n, low, high)| (n.round(), low < high)),
        _ => None,
    });
    assert_eq!(ends.collect::<Vec<_>>(), [(1e7, true); 2]);
    let keys: Vec<&str> = chart.legend.iter().map(|key| key.label.as_str()).collect();
    assert_eq!(keys[..2], ["ext4", "xfs"]);
    assert!(keys[3].starts_with("where it bends"), "{keys:?}");

    report.full = true;
    let mut out = vec![];
    exporters::find("md").unwrap().export(&report, &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    assert!(text.contains("How elapsed / files grows with files") && text.contains(" to N^0.5"), "{text}");
}
