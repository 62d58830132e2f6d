//! Ranks, weights, and recommendations that are refused where the data cannot carry them.

use crate::fixture::{self, run};
use fsarena_core::record::RunRecord;
use fsarena_report::exporters;
use fsarena_report::ranking::check_weights;
use fsarena_report::report::{self, Asked, Report};
use serde_json::{Value, json};

fn ranking(record: RunRecord, weights: &[(&str, f64)]) -> Value {
    let weights = weights.iter().map(|(name, weight)| (name.to_string(), *weight)).collect();
    exported(&report::of(record, Asked { weights, ..Asked::default() }).unwrap())["ranking"].take()
}

fn exported(report: &Report) -> Value {
    let mut out = Vec::new();
    exporters::find("json").unwrap().export(report, &mut out).unwrap();
    serde_json::from_slice(&out).unwrap()
}

/// Multiplies the elapsed times of one task of one variant.
fn slower(mut record: RunRecord, task: &str, variant: usize, factor: f64) -> RunRecord {
    let column = record.reading("elapsed_ns").unwrap();
    for row in 0..record.samples.len() {
        let cell = &record.cells[record.samples.cell[row] as usize];
        if record.tasks[record.samples.task[row] as usize].id.name == task && cell.variant == variant {
            record.samples.values[column][row] *= factor;
        }
    }
    record
}

fn words(ranking: &Value) -> &str {
    ranking["recommendation"].as_str().unwrap()
}

#[test]
fn the_variant_that_leads_whatever_is_left_out_is_recommended() {
    // Each variant takes a tenth longer than the one before, in all tasks but one.
    let ranking = ranking(run(&["ext4", "xfs", "btrfs"], 24), &[]);
    assert_eq!(ranking["variants"][0]["variant"], "ext4");
    assert_eq!(ranking["variants"][0]["ranks"], json!({"first": 1, "last": 1}));
    assert_eq!(ranking["variants"][0]["probability_best"], 1.0);
    let without = &ranking["variants"][1]["without_one_task"];
    assert!(without["low"].as_f64().unwrap() > 1.0, "{without}");
    assert!(words(&ranking).starts_with("Recommended by elapsed"), "{}", words(&ranking));
}

#[test]
fn few_rounds_recommend_nothing() {
    let ranking = ranking(run(&["ext4", "xfs", "btrfs"], 7), &[]);
    assert_eq!(words(&ranking), "No recommendation: 7 complete rounds, and a verdict requires 8.");
    assert_eq!(ranking["variants"][0]["ranks"], Value::Null);
}

#[test]
fn variants_that_are_alike_do_not_differ_significantly() {
    // Only the task in which all are alike has weight.
    let ranking = ranking(run(&["ext4", "xfs", "btrfs"], 24), &[("touch", 0.0), ("untar", 0.0)]);
    assert!(words(&ranking).contains("no significant difference"), "{}", words(&ranking));
}

#[test]
fn what_hangs_on_one_task_is_not_recommended() {
    // xfs gains in one task more than it loses in the two others.
    let record = slower(slower(run(&["ext4", "xfs", "btrfs"], 24), "untar", 0, 3.0), "untar", 2, 3.0);
    let ranking = ranking(record, &[]);
    assert_eq!(ranking["variants"][0]["variant"], "xfs");
    assert!(words(&ranking).contains("because of a single task"), "{}", words(&ranking));
}

#[test]
fn weights_decide_and_are_checked() {
    let record = slower(run(&["ext4", "xfs"], 24), "rm-tree", 0, 1.3);
    let first = |weights: &[(&str, f64)]| ranking(record.clone(), weights)["variants"][0]["variant"].clone();
    assert_eq!(first(&[("untar", 5.0)]), "ext4");
    // The task by its number, and by its name: the last word counts.
    assert_eq!(first(&[("rm-tree", 1.0), ("011", 9.0)]), "xfs");
    let error = |name: &str, weight: f64| {
        check_weights(&record.tasks, &[(name.into(), weight)]).unwrap_err().to_string()
    };
    assert!(error("untarr", 1.0).contains("Did you mean `untar`?"), "{}", error("untarr", 1.0));
    assert!(error("untar", -1.0).contains("a number from 0 to"));
    assert!(error("untar", f64::NAN).contains("a number from 0 to"));
    let nothing = ["touch", "untar", "rm-tree"].map(|name| (name.to_string(), 0.0));
    assert!(
        check_weights(&record.tasks, &nothing)
            .unwrap_err()
            .to_string()
            .contains("every task has the weight 0")
    );
}

#[test]
fn two_variants_lead_with_b_against_a() {
    let asked = Asked { margin: Some(0.05), ..Asked::default() };
    let report = report::of(run(&["ext4", "ext4/new"], 24), asked).unwrap();
    let pair = exported(&report)["pair"].take();
    let rows = pair["rows"].as_array().unwrap();
    let row = |task: &str, metric: &str| {
        rows.iter().find(|row| row["task"] == task && row["metric"] == metric).unwrap()
    };
    // B takes 1.1 times as long in all but rm-tree, with 1% noise.
    assert_eq!(row("untar", "elapsed")["verdict"], "different");
    assert_eq!(row("rm-tree", "elapsed")["verdict"], "equivalent");
    let ratio = row("untar", "system")["ratio_b_to_a"]["value"].as_f64().unwrap();
    assert!((ratio - 1.1).abs() < 0.01, "{ratio}");
    assert_eq!(row("untar", "elapsed")["rounds_for_margin"], 8);
    assert_eq!(exported(&fixture::report(run(&["a", "b", "c"], 8), &[]).unwrap())["pair"], Value::Null);
}

#[test]
fn the_best_level_of_each_filesystem_is_named() {
    let told = |rounds: u32| {
        let mut record = run(&["ext4/none", "ext4/bfq", "xfs/none", "xfs/bfq"], rounds);
        for variant in &mut record.variants {
            let (fs, scheduler) = variant.name.split_once('/').unwrap();
            variant.levels =
                [("fs", fs), ("scheduler", scheduler)].map(|(id, level)| (id.into(), level.into())).into();
        }
        let levels = |levels: [&str; 2]| levels.map(String::from).to_vec();
        record.plan.factors =
            [("fs".into(), levels(["ext4", "xfs"])), ("scheduler".into(), levels(["none", "bfq"]))].into();
        let mut out = Vec::new();
        let report = fixture::report(record, &["elapsed"]).unwrap();
        exporters::find("term").unwrap().export(&report, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    };
    assert!(told(9).contains("- Best scheduler by elapsed: ext4 none, xfs none.\n"), "{}", told(9));
    assert!(
        told(3).contains("- Best scheduler by elapsed: ext4 none, xfs none (by the estimate, inconclusive"),
        "{}",
        told(3)
    );
}
