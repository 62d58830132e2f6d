//! Ranks, weights, and the variant that the headline names.

use crate::fixture::{self, run};
use fsarena_core::record::RunRecord;
use fsarena_report::report::{self, Asked, Report};
use fsarena_report::{exporters, ranking::check_weights};
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

/// The decision, and the report in text.
fn decided(record: RunRecord, asked: Asked) -> (Value, String) {
    let report = report::of(record, asked).unwrap();
    let mut text = Vec::new();
    exporters::find("md").unwrap().export(&report, &mut text).unwrap();
    (exported(&report)["decision"].take(), String::from_utf8(text).unwrap())
}

fn headline(record: RunRecord) -> String {
    decided(record, Asked::default()).0["headline"].as_str().unwrap().into()
}

#[test]
fn the_headline_names_the_variant_and_what_it_can_cost() {
    // Each variant takes a tenth longer than the one before, in all tasks but one.
    let variants = ["ext4", "xfs", "btrfs"];
    let ranking = ranking(run(&variants, 24), &[]);
    assert_eq!(ranking["variants"][0]["variant"], "ext4");
    assert_eq!(ranking["variants"][0]["ranks"], json!({"first": 1, "last": 1}));
    assert_eq!(ranking["variants"][0]["probability_best"], 1.0);
    let without = &ranking["variants"][1]["without_one_task"];
    assert!(without["low"].as_f64().unwrap() > 1.0, "{without}");
    let (decision, text) = decided(run(&variants, 24), Asked::default());
    let headline = "Use ext4. With 95% confidence no other choice is faster in total or by geometric mean.";
    let mut expected = json!({"cheaper_but_less_safe": [], "left": {}, "choose": "ext4", "equal": [], "regret": 0.0, "regret_by_geometric_mean": 0.0});
    expected["metric"] = "elapsed".into();
    expected["rounds"] = 24.into();
    expected["provisional"] = false.into();
    expected["headline"] = headline.into();
    assert_eq!(decision, expected);
    assert!(text.contains(headline), "{text}");
}

#[test]
fn few_rounds_give_what_was_seen() {
    // Three variants require 8 rounds, five require 10.
    let seen = "Use ext4 for now. In each of the 7 rounds so far no other choice was faster in total";
    assert!(headline(run(&["ext4", "xfs", "btrfs"], 7)).starts_with(seen));
    assert!(headline(run(&["ext4", "xfs", "btrfs"], 8)).contains("With 95% confidence"));
    assert!(headline(run(&["a", "b", "c", "d", "e"], 9)).contains("In each of the 9 rounds so far"));
    assert!(headline(run(&["a", "b", "c", "d", "e"], 10)).contains("With 95% confidence"));
    assert!(headline(run(&["a", "b"], 1)).contains("In the one round so far no other choice was"));
}

#[test]
fn equal_variants_are_both_named() {
    // As fast as the first in all three tasks.
    let record =
        slower(slower(run(&["ext4", "xfs", "btrfs"], 24), "untar", 1, 1.0 / 1.1), "touch", 1, 1.0 / 1.1);
    let said = headline(record);
    assert!(
        said.contains(" or ") && said.contains("either costs at most") && !said.contains("btrfs"),
        "{said}"
    );
}

#[test]
fn staying_on_the_current_variant_has_its_cost() {
    let asked = |name: &str| Asked { current: Some(name.into()), ..Asked::default() };
    let (_, text) = decided(run(&["ext4", "xfs", "btrfs"], 24), asked("xfs"));
    assert!(text.contains("Staying on xfs costs 9."), "{text}");
    let (_, text) = decided(run(&["ext4", "xfs"], 24), asked("ext4"));
    assert!(text.contains("ext4 is the current variant: stay on it."), "{text}");
    // Nobody names one: the filesystem that the images lay on, if it ran with its own defaults.
    let lay_on = |fs: &str| {
        let mut record = run(&["ext4", "xfs", "btrfs"], 24);
        record.hosts[0].facts.insert(fsarena_core::host::IMAGES.into(), format!("/data on sda ({fs})"));
        record
    };
    let (_, text) = decided(lay_on("xfs"), Asked::default());
    assert!(text.contains("Staying on xfs (guessed: the images lay on it) costs 9."), "{text}");
    assert!(!decided(lay_on("f2fs"), Asked::default()).1.contains("guessed"));
    let error = report::of(run(&["ext4", "xfs"], 8), asked("xsf")).unwrap_err().to_string();
    assert!(error.contains("Unknown variant `xsf`") && error.contains("xfs"), "{error}");
}

#[test]
fn a_choice_that_hangs_on_one_task_is_told_with_what_it_loses() {
    // xfs gains in one task more than it loses in the two others.
    let record = slower(slower(run(&["ext4", "xfs", "btrfs"], 24), "untar", 0, 3.0), "untar", 2, 3.0);
    let (decision, text) = decided(record, Asked::default());
    assert_eq!(decision["choose"], "xfs");
    assert!(text.contains("A single task decides that"), "{text}");
    assert!(text.contains("xfs loses 1 of 3 tasks: touch (ext4 is "), "{text}");
}

#[test]
fn what_is_inconclusive_has_the_rounds_that_would_settle_it() {
    let (_, text) = decided(run(&["ext4", "xfs"], 5), Asked { margin: Some(0.01), ..Asked::default() });
    assert!(text.contains("Inconclusive whether ext4 differs from xfs: to find 1% takes "), "{text}");
    assert!(text.contains(" min more."), "{text}");
}

#[test]
fn nothing_to_choose_from_has_no_decision() {
    for record in [run(&["xfs"], 9), run(&["ext4", "xfs"], 0)] {
        assert_eq!(decided(record, Asked::default()).0, Value::Null);
    }
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
