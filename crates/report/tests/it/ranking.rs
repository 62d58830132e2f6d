//! Ranks, weights, and the variant that the headline recommends.

use crate::fixture::{self, export_json, run};
use fsarena_core::host::{IMAGES_PREFIX, Storage};
use fsarena_core::record::RunRecord;
use fsarena_report::report::{ReportOptions, analyse_run, check_weights};
use serde_json::{Value, json};

/// The ranking of a run, as JSON.
fn ranking_json(record: RunRecord, weights: &[(&str, f64)]) -> Value {
    let weights = weights.iter().map(|(name, weight)| (name.to_string(), *weight)).collect();
    let report = analyse_run(record, ReportOptions { weights, ..ReportOptions::default() }).unwrap();
    export_json(&report)["ranking"].take()
}

/// The run with the elapsed times of one task of one variant multiplied by `factor`.
fn with_slower_task(mut record: RunRecord, task: &str, variant: usize, factor: f64) -> RunRecord {
    let column = record.reading_column("elapsed_ns").unwrap();
    for row in 0..record.samples.len() {
        let cell = &record.cells[record.samples.cell[row] as usize];
        if record.tasks[record.samples.task[row] as usize].id.name == task && cell.variant == variant {
            record.samples.values[column][row] *= factor;
        }
    }
    record
}

/// The decision of a report as JSON, and the report as Markdown.
fn decide(record: RunRecord, options: ReportOptions) -> (Value, String) {
    let report = analyse_run(record, options).unwrap();
    (export_json(&report)["decision"].take(), fixture::export(&report, "md"))
}

fn headline(record: RunRecord) -> String {
    decide(record, ReportOptions::default()).0["headline"].as_str().unwrap().into()
}

#[test]
fn the_headline_names_the_variant_and_its_lead() {
    // Each variant takes a tenth of the first variant's time longer than the one before it, in all tasks but one.
    let variants = ["ext4", "xfs", "btrfs"];
    let ranking = ranking_json(run(&variants, 24), &[]);
    assert_eq!(ranking["variants"][0]["variant"], "ext4");
    assert_eq!(ranking["variants"][0]["ranks"], json!({"first": 1, "last": 1}));
    assert_eq!(ranking["variants"][0]["probability_best"], 1.0);
    let without_one_task = &ranking["variants"][1]["without_one_task"];
    assert!(without_one_task["low"].as_f64().unwrap() > 1.0, "{without_one_task}");
    let (decision, text) = decide(run(&variants, 24), ReportOptions::default());
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
fn with_too_few_rounds_the_headline_states_how_many_are_needed() {
    // Three variants require 8 rounds, five require 10.
    let headline_after = |variants: &[&str], rounds: u32| headline(run(variants, rounds));
    assert_eq!(headline_after(&["ext4", "xfs", "btrfs"], 7), "No answer yet: 7 of at least 8 rounds.");
    assert!(headline_after(&["ext4", "xfs", "btrfs"], 8).starts_with("Use ext4: "));
    assert_eq!(headline_after(&["a", "b", "c", "d", "e"], 9), "No answer yet: 9 of at least 10 rounds.");
    assert!(headline_after(&["a", "b", "c", "d", "e"], 10).starts_with("Use a: "));
    let (decision, text) = decide(run(&["a", "b"], 1), ReportOptions::default());
    assert_eq!(decision["headline"], "No answer yet: 1 of at least 8 rounds.");
    assert_eq!((&decision["choose"], &decision["rounds_needed"]), (&Value::Null, &json!(8)));
    assert!(text.contains("Provisional: ") && text.contains(" 7 more rounds: about "), "{text}");
    assert!(!text.contains("Use a"), "{text}");
}

/// A run in which xfs differs from ext4 only by noise.
fn run_with_equal_variants() -> RunRecord {
    with_slower_task(with_slower_task(run(&["ext4", "xfs", "btrfs"], 24), "untar", 1, 1.0 / 1.1), "touch", 1, 1.0 / 1.1)
}

#[test]
fn variants_without_a_significant_difference_are_both_named_or_the_current_one_is_kept() {
    let text = headline(run_with_equal_variants());
    assert!(text.contains(" or ") && text.contains("either costs at most") && !text.contains("btrfs"), "{text}");
    let current = |name: &str| ReportOptions {
        current: Some(name.into()),
        metrics: vec!["elapsed".into()],
        ..ReportOptions::default()
    };
    let (decision, text) = decide(run_with_equal_variants(), current("xfs"));
    let headline = decision["headline"].as_str().unwrap();
    assert!(headline.starts_with("Keep xfs: ext4 takes ") && headline.contains("% less to "), "{headline}");
    assert!(headline.ends_with("% more time, no significant difference in total."), "{headline}");
    assert_eq!((&decision["answer"], &decision["choose"]), (&json!("keep"), &json!("xfs")));
    assert!(!text.contains("Staying on"), "{text}");
    // btrfs is slower than both, so the headline recommends to move to either of them.
    let (decision, _) = decide(run_with_equal_variants(), current("btrfs"));
    let headline = decision["headline"].as_str().unwrap();
    assert!(headline.starts_with("Move from btrfs to ") && headline.contains(" or "), "{headline}");
    assert!(headline.contains("% faster [") && headline.contains("(ext4)") && headline.contains("(xfs)"), "{headline}");
}

#[test]
fn exact_ties_are_not_ordered() {
    let mut record = run(&["ext4", "xfs"], 12);
    record.samples.values.iter_mut().flatten().for_each(|value| *value = 1e9);
    assert_eq!(headline(record.clone()), "Use ext4 or xfs: they measure the same in total.");
    let current = ReportOptions { current: Some("xfs".into()), ..ReportOptions::default() };
    let expected = "Keep xfs: ext4 takes the same time, no significant difference in total.";
    assert_eq!(decide(record, current).0["headline"], expected);
}

#[test]
fn noise_that_hides_large_differences_has_no_recommendation() {
    // In each round one of the variants takes twice as long; the variants alternate after two rounds.
    let mut record = run(&["ext4", "xfs"], 12);
    for row in 0..record.samples.len() {
        let cell = &record.cells[record.samples.cell[row] as usize];
        if (cell.round as usize / 2 + cell.variant).is_multiple_of(2) {
            record.samples.values.iter_mut().for_each(|column| column[row] *= 2.0);
        }
    }
    let (decision, text) = decide(record, ReportOptions::default());
    let headline = decision["headline"].as_str().unwrap();
    assert!(headline.starts_with("This machine is too noisy to tell: after 12 rounds "), "{headline}");
    assert!(headline.contains("% less to ") && headline.contains("% more time than "), "{headline}");
    assert_eq!((&decision["answer"], &decision["choose"]), (&json!("too_noisy"), &Value::Null));
    for words in ["To settle it: ", "a quieter machine (docs/guide/troubleshooting.md)", "on=exact"] {
        assert!(text.contains(words), "{text}");
    }
}

#[test]
fn another_metric_that_favours_another_variant_is_part_of_the_headline() {
    // xfs is 10% slower until its commands return, and 20% faster until its data is synced.
    let mut record = run(&["ext4", "xfs", "btrfs"], 12);
    let column = record.reading_column("synced_ns").unwrap();
    for row in 0..record.samples.len() {
        if record.cells[record.samples.cell[row] as usize].variant == 1 {
            record.samples.values[column][row] /= 1.32;
        }
    }
    let text = headline(record.clone());
    assert!(text.starts_with("Use ext4: ") && text.contains(", but xfs is "), "{text}");
    assert!(text.contains("% faster [") && text.ends_with("] (synced) than ext4."), "{text}");
    let only_elapsed = ReportOptions { metrics: vec!["elapsed".into()], ..ReportOptions::default() };
    assert!(!decide(record, only_elapsed).0["headline"].as_str().unwrap().contains("but"));
}

#[test]
fn the_current_variant_is_the_one_that_the_user_names_or_the_filesystem_of_the_images() {
    let current = |name: &str| ReportOptions { current: Some(name.into()), ..ReportOptions::default() };
    let (decision, text) = decide(run(&["ext4", "xfs", "btrfs"], 24), current("xfs"));
    assert!(text.contains("Staying on xfs costs 9."), "{text}");
    assert_eq!((&decision["current"], &decision["current_is_guessed"]), (&json!("xfs"), &json!(false)));
    let (_, text) = decide(run(&["ext4", "xfs"], 24), current("ext4"));
    assert!(text.contains("ext4 is the current variant: stay on it."), "{text}");
    // If the user names none, it is the filesystem that held the images, if the run has this filesystem with default options.
    let with_images_on = |mut record: RunRecord, fs: &str| {
        let fact = |text: &str| Some(text.to_string());
        let storage = Storage {
            directory: fact("/data"),
            filesystem: fact(fs),
            device: fact("sda1"),
            model: fact("Example 2000"),
            firmware: fact("1.07"),
            is_rotating: false,
        };
        record.hosts[0].facts.extend(storage.to_facts(IMAGES_PREFIX));
        record
    };
    let (_, text) = decide(with_images_on(run(&["ext4", "xfs", "btrfs"], 24), "xfs"), ReportOptions::default());
    assert!(text.contains("Staying on xfs (the filesystem below) costs 9."), "{text}");
    assert!(text.contains("on loop images in /data on sda1 (xfs; Example 2000, firmware 1.07)"), "{text}");
    let text = headline(with_images_on(run_with_equal_variants(), "ext4"));
    assert!(text.starts_with("Keep ext4 (the filesystem below): xfs takes "), "{text}");
    assert!(!decide(with_images_on(run(&["ext4", "xfs"], 24), "f2fs"), ReportOptions::default()).1.contains("below"));
    let error = analyse_run(run(&["ext4", "xfs"], 8), current("xsf")).unwrap_err().to_string();
    assert!(error.contains("Unknown variant `xsf`") && error.contains("xfs"), "{error}");
}

#[test]
fn a_choice_that_depends_on_one_task_is_reported_with_the_tasks_that_it_loses() {
    // xfs gains in one task more than it loses in the two others.
    let record =
        with_slower_task(with_slower_task(run(&["ext4", "xfs", "btrfs"], 24), "untar", 0, 3.0), "untar", 2, 3.0);
    let (decision, text) = decide(record, ReportOptions::default());
    assert_eq!(decision["choose"], "xfs");
    assert!(text.contains("A single task decides that"), "{text}");
    assert!(text.contains("xfs loses 1 of 3 tasks: touch (ext4 is "), "{text}");
}

#[test]
fn an_inconclusive_comparison_states_how_many_rounds_would_decide_it() {
    let options = ReportOptions { margin: Some(0.001), current: Some("ext4".into()), ..ReportOptions::default() };
    let (_, text) = decide(run_with_equal_variants(), options);
    assert!(text.contains("Inconclusive whether ext4 differs from xfs: to find 0.1% takes "), "{text}");
    assert!(text.contains(" min more."), "{text}");
}

#[test]
fn a_run_with_one_variant_or_no_rounds_has_no_decision() {
    for record in [run(&["xfs"], 9), run(&["ext4", "xfs"], 0)] {
        assert_eq!(decide(record, ReportOptions::default()).0, Value::Null);
    }
}

#[test]
fn weights_change_the_ranking_and_are_checked() {
    let record = with_slower_task(run(&["ext4", "xfs"], 24), "rm-tree", 0, 1.3);
    let best = |weights: &[(&str, f64)]| ranking_json(record.clone(), weights)["variants"][0]["variant"].clone();
    assert_eq!(best(&[("untar", 5.0)]), "ext4");
    // One task by its name and by its number: the last weight counts.
    assert_eq!(best(&[("rm-tree", 1.0), ("011", 9.0)]), "xfs");
    let error =
        |name: &str, weight: f64| check_weights(&record.tasks, &[(name.into(), weight)]).unwrap_err().to_string();
    assert!(error("untarr", 1.0).contains("Did you mean `untar`?"), "{}", error("untarr", 1.0));
    assert!(error("untar", -1.0).contains("a number from 0 to"));
    assert!(error("untar", f64::NAN).contains("a number from 0 to"));
    let all_zero = ["touch", "untar", "rm-tree"].map(|name| (name.to_string(), 0.0));
    assert!(check_weights(&record.tasks, &all_zero).unwrap_err().to_string().contains("every task has the weight 0"));
}

#[test]
fn a_run_of_two_variants_compares_b_with_a() {
    let options = ReportOptions { margin: Some(0.05), ..ReportOptions::default() };
    let report = analyse_run(run(&["ext4", "ext4/new"], 24), options).unwrap();
    let pair = export_json(&report)["pair"].take();
    let rows = pair["rows"].as_array().unwrap();
    let row =
        |task: &str, metric: &str| rows.iter().find(|row| row["task"] == task && row["metric"] == metric).unwrap();
    // B takes 1.1 times as long in all but rm-tree, with 1% noise.
    assert_eq!(row("untar", "elapsed")["verdict"], "different");
    assert_eq!(row("rm-tree", "elapsed")["verdict"], "equivalent");
    let ratio = row("untar", "system")["ratio_b_to_a"]["value"].as_f64().unwrap();
    assert!((ratio - 1.1).abs() < 0.01, "{ratio}");
    assert_eq!(row("untar", "elapsed")["rounds_for_margin"], 8);
    assert_eq!(export_json(&fixture::report(run(&["a", "b", "c"], 8), &[]).unwrap())["pair"], Value::Null);
}

#[test]
fn a_variant_that_shares_no_round_with_the_best_has_no_ratio_in_the_ranking() {
    let mut record = run(&["ext4", "xfs"], 16);
    let column = record.reading_column("elapsed_ns").unwrap();
    for row in 0..record.samples.len() {
        let cell = &record.cells[record.samples.cell[row] as usize];
        if (cell.round < 8) == (cell.variant == 0) {
            record.samples.values[column][row] = f64::NAN;
        }
    }
    let weights = vec![("untar".to_string(), 2.0)];
    let report = analyse_run(record, ReportOptions { weights, ..ReportOptions::default() }).unwrap();
    let text = fixture::export(&report, "md");
    assert!(text.contains("| ext4 | 1.00 | ? |") && text.contains("| xfs | – | ? |"), "{text}");
}

#[test]
fn the_best_level_of_each_filesystem_is_named() {
    let terminal_report = |filesystems: &[&str], rounds: u32| {
        let names: Vec<String> =
            filesystems.iter().flat_map(|fs| ["none", "bfq"].map(|level| format!("{fs}/{level}"))).collect();
        let mut record = run(&names.iter().map(String::as_str).collect::<Vec<_>>(), rounds);
        for variant in &mut record.variants {
            let (fs, scheduler) = variant.name.split_once('/').unwrap();
            variant.levels = [("fs", fs), ("scheduler", scheduler)].map(|(id, level)| (id.into(), level.into())).into();
        }
        let levels = |levels: &[&str]| -> Vec<String> { levels.iter().map(|level| level.to_string()).collect() };
        record.plan.factors =
            [("fs".into(), levels(filesystems)), ("scheduler".into(), levels(&["none", "bfq"]))].into();
        fixture::unwrap_lines(&fixture::export(&fixture::report(record, &["elapsed"]).unwrap(), "term"))
    };
    let text = terminal_report(&["ext4", "xfs"], 9);
    assert!(text.contains("- Best scheduler by elapsed: ext4 none, xfs none."), "{text}");
    let text = terminal_report(&["ext4", "xfs"], 3);
    let expected = "- Best scheduler by elapsed (by the estimate, inconclusive): ext4 none, xfs none.";
    assert!(text.contains(expected), "{text}");
    // A brief report cuts a long list, but not the remark.
    let names: Vec<String> = (0..12).map(|number| format!("filesystem{number}")).collect();
    let text = terminal_report(&names.iter().map(String::as_str).collect::<Vec<_>>(), 3);
    assert!(text.contains("- Best scheduler by elapsed (by the estimate, inconclusive): filesystem0 none,"), "{text}");
}
