//! Ranks, weights, and the variant that the headline names.

use crate::fixture::{self, run};
use fsarena_core::host::{IMAGES_PREFIX, Storage};
use fsarena_core::record::RunRecord;
use fsarena_report::report::{self, Report, ReportOptions};
use fsarena_report::{exporters, report::check_weights};
use serde_json::{Value, json};

fn ranking(record: RunRecord, weights: &[(&str, f64)]) -> Value {
    let weights = weights.iter().map(|(name, weight)| (name.to_string(), *weight)).collect();
    exported(&report::analyse_run(record, ReportOptions { weights, ..ReportOptions::default() }).unwrap())["ranking"]
        .take()
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
fn decided(record: RunRecord, asked: ReportOptions) -> (Value, String) {
    let report = report::analyse_run(record, asked).unwrap();
    let mut text = Vec::new();
    exporters::find("md").unwrap().export(&report, &mut text).unwrap();
    (exported(&report)["decision"].take(), String::from_utf8(text).unwrap())
}

fn headline(record: RunRecord) -> String {
    decided(record, ReportOptions::default()).0["headline"].as_str().unwrap().into()
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
    let (decision, text) = decided(run(&variants, 24), ReportOptions::default());
    let headline = decision["headline"].as_str().unwrap();
    assert!(headline.starts_with("Use ext4: in a typical round 9.") && headline.contains("% faster ["), "{headline}");
    assert!(headline.ends_with("] in total than the next, xfs."), "{headline}");
    // Markdown escapes brackets.
    assert!(text.replace('\\', "").contains(headline), "{text}");
    let keys = ["answer", "choose", "equal", "possible", "regret", "regret_by_geometric_mean", "metric", "rounds"];
    let expected = json!(["use", "ext4", [], ["ext4"], 0.0, 0.0, "elapsed", 24]);
    assert_eq!(json!(keys.map(|key| decision[key].clone())), expected);
    let lead = &decision["costs"][0];
    assert_eq!((&lead["variant"], &lead["relative_to"]), (&json!("xfs"), &json!("ext4")));
    assert!(lead["low"].as_f64().unwrap() > 1.08 && lead["high"].as_f64().unwrap() < 1.11, "{lead}");
}

#[test]
fn few_rounds_have_no_answer_and_say_how_many_it_takes() {
    // Three variants require 8 rounds, five require 10.
    let few = |variants: &[&str], rounds: u32| headline(run(variants, rounds));
    assert_eq!(few(&["ext4", "xfs", "btrfs"], 7), "No answer yet: 7 of at least 8 rounds.");
    assert!(few(&["ext4", "xfs", "btrfs"], 8).starts_with("Use ext4: "));
    assert_eq!(few(&["a", "b", "c", "d", "e"], 9), "No answer yet: 9 of at least 10 rounds.");
    assert!(few(&["a", "b", "c", "d", "e"], 10).starts_with("Use a: "));
    let (decision, text) = decided(run(&["a", "b"], 1), ReportOptions::default());
    assert_eq!(decision["headline"], "No answer yet: 1 of at least 8 rounds.");
    assert_eq!((&decision["choose"], &decision["rounds_needed"]), (&Value::Null, &json!(8)));
    assert!(text.contains("Provisional: ") && text.contains(" 7 more rounds: about "), "{text}");
    assert!(!text.contains("Use a"), "{text}");
}

/// The same figures for xfs as for ext4 in all tasks but the noise.
fn alike() -> RunRecord {
    slower(slower(run(&["ext4", "xfs", "btrfs"], 24), "untar", 1, 1.0 / 1.1), "touch", 1, 1.0 / 1.1)
}

#[test]
fn variants_without_a_significant_difference_are_both_named_or_the_current_one_is_kept() {
    let said = headline(alike());
    assert!(said.contains(" or ") && said.contains("either costs at most") && !said.contains("btrfs"), "{said}");
    let current = |name: &str| ReportOptions {
        current: Some(name.into()),
        metrics: vec!["elapsed".into()],
        ..ReportOptions::default()
    };
    let (decision, text) = decided(alike(), current("xfs"));
    let said = decision["headline"].as_str().unwrap();
    assert!(said.starts_with("Keep xfs: ext4 takes ") && said.contains("% less to "), "{said}");
    assert!(said.ends_with("% more time, no significant difference in total."), "{said}");
    assert_eq!((&decision["answer"], &decision["choose"]), (&json!("keep"), &json!("xfs")));
    assert!(!text.contains("Staying on"), "{text}");
    // btrfs is slower than both, and either is worth moving to.
    let said = decided(alike(), current("btrfs")).0["headline"].clone();
    let said = said.as_str().unwrap();
    assert!(said.starts_with("Move from btrfs to ") && said.contains(" or "), "{said}");
    assert!(said.contains("% faster [") && said.contains("(ext4)") && said.contains("(xfs)"), "{said}");
}

#[test]
fn exact_ties_are_not_ordered() {
    let mut record = run(&["ext4", "xfs"], 12);
    record.samples.values.iter_mut().flatten().for_each(|value| *value = 1e9);
    assert_eq!(headline(record.clone()), "Use ext4 or xfs: they measure the same in total.");
    let current = ReportOptions { current: Some("xfs".into()), ..ReportOptions::default() };
    let kept = "Keep xfs: ext4 takes the same time, no significant difference in total.";
    assert_eq!(decided(record, current).0["headline"], kept);
}

#[test]
fn noise_that_hides_large_differences_has_no_recommendation() {
    // Each variant takes twice as long in every other round, and which one in which changes.
    let mut record = run(&["ext4", "xfs"], 12);
    for row in 0..record.samples.len() {
        let cell = &record.cells[record.samples.cell[row] as usize];
        if (cell.round as usize / 2 + cell.variant).is_multiple_of(2) {
            record.samples.values.iter_mut().for_each(|column| column[row] *= 2.0);
        }
    }
    let (decision, text) = decided(record, ReportOptions::default());
    let said = decision["headline"].as_str().unwrap();
    assert!(said.starts_with("This machine is too noisy to tell: after 12 rounds "), "{said}");
    assert!(said.contains("% less to ") && said.contains("% more time than "), "{said}");
    assert_eq!((&decision["answer"], &decision["choose"]), (&json!("too_noisy"), &Value::Null));
    for words in ["To settle it: ", "a quieter machine (docs/guide/troubleshooting.md)", "on=exact"] {
        assert!(text.contains(words), "{text}");
    }
}

#[test]
fn another_metric_that_favours_another_variant_is_part_of_the_headline() {
    // xfs is 10% slower until its commands return, and 20% faster until its data is synced.
    let mut record = run(&["ext4", "xfs", "btrfs"], 12);
    let column = record.reading("synced_ns").unwrap();
    for row in 0..record.samples.len() {
        if record.cells[record.samples.cell[row] as usize].variant == 1 {
            record.samples.values[column][row] /= 1.32;
        }
    }
    let said = headline(record.clone());
    assert!(said.starts_with("Use ext4: ") && said.contains(", but xfs is "), "{said}");
    assert!(said.contains("% faster [") && said.ends_with("] (synced) than ext4."), "{said}");
    let of_elapsed = ReportOptions { metrics: vec!["elapsed".into()], ..ReportOptions::default() };
    assert!(!decided(record, of_elapsed).0["headline"].as_str().unwrap().contains("but"));
}

#[test]
fn the_current_variant_is_the_one_named_or_the_filesystem_below() {
    let asked = |name: &str| ReportOptions { current: Some(name.into()), ..ReportOptions::default() };
    let (decision, text) = decided(run(&["ext4", "xfs", "btrfs"], 24), asked("xfs"));
    assert!(text.contains("Staying on xfs costs 9."), "{text}");
    assert_eq!((&decision["current"], &decision["current_is_guessed"]), (&json!("xfs"), &json!(false)));
    let (_, text) = decided(run(&["ext4", "xfs"], 24), asked("ext4"));
    assert!(text.contains("ext4 is the current variant: stay on it."), "{text}");
    // Nobody names one: the filesystem that the images lay on, if it ran with its own defaults.
    let lay_on = |mut record: RunRecord, fs: &str| {
        let part = |text: &str| Some(text.to_string());
        let below = Storage {
            directory: part("/data"),
            filesystem: part(fs),
            device: part("sda1"),
            model: part("Example 2000"),
            firmware: part("1.07"),
            rotating: false,
        };
        record.hosts[0].facts.extend(below.facts(IMAGES_PREFIX));
        record
    };
    let (_, text) = decided(lay_on(run(&["ext4", "xfs", "btrfs"], 24), "xfs"), ReportOptions::default());
    assert!(text.contains("Staying on xfs (the filesystem below) costs 9."), "{text}");
    let place = "on loop images in /data on sda1 (xfs; Example 2000, firmware 1.07)";
    assert!(text.contains(place), "{text}");
    let said = headline(lay_on(alike(), "ext4"));
    assert!(said.starts_with("Keep ext4 (the filesystem below): xfs takes "), "{said}");
    assert!(!decided(lay_on(run(&["ext4", "xfs"], 24), "f2fs"), ReportOptions::default()).1.contains("below"));
    let error = report::analyse_run(run(&["ext4", "xfs"], 8), asked("xsf")).unwrap_err().to_string();
    assert!(error.contains("Unknown variant `xsf`") && error.contains("xfs"), "{error}");
}

#[test]
fn a_choice_that_hangs_on_one_task_is_told_with_what_it_loses() {
    // xfs gains in one task more than it loses in the two others.
    let record = slower(slower(run(&["ext4", "xfs", "btrfs"], 24), "untar", 0, 3.0), "untar", 2, 3.0);
    let (decision, text) = decided(record, ReportOptions::default());
    assert_eq!(decision["choose"], "xfs");
    assert!(text.contains("A single task decides that"), "{text}");
    assert!(text.contains("xfs loses 1 of 3 tasks: touch (ext4 is "), "{text}");
}

#[test]
fn what_is_inconclusive_has_the_rounds_that_would_settle_it() {
    let asked = ReportOptions { margin: Some(0.001), current: Some("ext4".into()), ..ReportOptions::default() };
    let (_, text) = decided(alike(), asked);
    assert!(text.contains("Inconclusive whether ext4 differs from xfs: to find 0.1% takes "), "{text}");
    assert!(text.contains(" min more."), "{text}");
}

#[test]
fn nothing_to_choose_from_has_no_decision() {
    for record in [run(&["xfs"], 9), run(&["ext4", "xfs"], 0)] {
        assert_eq!(decided(record, ReportOptions::default()).0, Value::Null);
    }
}

#[test]
fn weights_decide_and_are_checked() {
    let record = slower(run(&["ext4", "xfs"], 24), "rm-tree", 0, 1.3);
    let first = |weights: &[(&str, f64)]| ranking(record.clone(), weights)["variants"][0]["variant"].clone();
    assert_eq!(first(&[("untar", 5.0)]), "ext4");
    // The task by its number, and by its name: the last word counts.
    assert_eq!(first(&[("rm-tree", 1.0), ("011", 9.0)]), "xfs");
    let error =
        |name: &str, weight: f64| check_weights(&record.tasks, &[(name.into(), weight)]).unwrap_err().to_string();
    assert!(error("untarr", 1.0).contains("Did you mean `untar`?"), "{}", error("untarr", 1.0));
    assert!(error("untar", -1.0).contains("a number from 0 to"));
    assert!(error("untar", f64::NAN).contains("a number from 0 to"));
    let nothing = ["touch", "untar", "rm-tree"].map(|name| (name.to_string(), 0.0));
    assert!(check_weights(&record.tasks, &nothing).unwrap_err().to_string().contains("every task has the weight 0"));
}

#[test]
fn two_variants_lead_with_b_against_a() {
    let asked = ReportOptions { margin: Some(0.05), ..ReportOptions::default() };
    let report = report::analyse_run(run(&["ext4", "ext4/new"], 24), asked).unwrap();
    let pair = exported(&report)["pair"].take();
    let rows = pair["rows"].as_array().unwrap();
    let row =
        |task: &str, metric: &str| rows.iter().find(|row| row["task"] == task && row["metric"] == metric).unwrap();
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
            variant.levels = [("fs", fs), ("scheduler", scheduler)].map(|(id, level)| (id.into(), level.into())).into();
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
