//! Mean cost and slow rounds in reports of runs with invented figures.

use crate::common::{Sandbox, stored};
use fsarena_core::cell::{TaskId, TaskInfo};
use fsarena_core::event::{CellEvent, Event, Outcome};
use fsarena_core::metric::reading;
use fsarena_core::sample::{Readings, Sample};
use fsarena_core::{host::Host, matrix, plan::Plan, schedule::mix};
use fsarena_store::{RunDir, Writer};
use serde_json::Value;
use std::path::Path;

/// Stores a complete run of ext4 and xfs with one task, whose duration `seconds` returns for a variant and a round.
fn store_run(runs_dir: &Path, rounds: u32, seconds: impl Fn(&str, u32) -> f64) -> RunDir {
    let plan = format!(
        "name = 'clone'\ntitle = 'Clones'\nquestion = 'Which?'\nscale = 'quick'\nseed = 7\n[factors]\n\
         fs = ['ext4', 'xfs']\n[device]\ndirect_io = true\ndiscard = false\nother_fs = 'ext4'\n\
         backing = {{ kind = 'loop' }}\n[stop]\nrounds = {rounds}\n[idle]\ntimeout_s = 5.0\ndirty = '4 MiB'\n\
         io_pressure_percent = 10.0\n[[workload]]\nuse = 'coreutils'\ndriver = 'commands'\n"
    );
    let plan: Plan = toml::from_str(&plan).unwrap();
    let run = RunDir::create(runs_dir, &plan, "0.1.0").unwrap();
    let mut writer = Writer::open(&run, &Host::default(), &stored::readings()).unwrap();
    let variants = matrix::expand(&plan);
    for round in 0..rounds {
        for cell in matrix::cells_of_round(&plan, &variants, &[0, 1], round) {
            let mut readings = Readings::default();
            let ns = (1e9 * seconds(&cell.variant.name, round)).round();
            readings.set(reading::ELAPSED, ns);
            readings.set(reading::SYNCED, ns);
            let id = TaskId::new("clone");
            let task = TaskInfo { id, title: "Clone".into(), number: None, in_totals: true };
            let started_at = 1.8e9 + f64::from(round);
            let sample = Sample { task, started_at, readings, series: vec![], latencies: Default::default() };
            let sampled = Event::Cell { cell: cell.id(), event: CellEvent::Sample(sample) };
            let finished = Event::CellFinished { cell: cell.id(), outcome: Outcome::Done };
            for event in [Event::CellStarted { cell }, sampled, finished] {
                writer.apply(&event).unwrap();
            }
        }
    }
    let why = format!("all {rounds} rounds are done");
    writer.apply(&Event::RunFinished { why, complete: true }).unwrap();
    run
}

/// A factor from 0.99 to 1.01.
fn noise(variant: &str, round: u32) -> f64 {
    0.99 + (mix(u64::from(round), variant.len() as u64) % 2001) as f64 / 100_000.0
}

/// xfs takes 60% longer in 3 of 24 rounds, and as long as ext4 in the others.
fn seconds_with_stalls(variant: &str, round: u32) -> f64 {
    let stalls = variant == "xfs" && [4, 11, 19].contains(&round);
    noise(variant, round) * if stalls { 1.6 } else { 1.0 }
}

/// Joins the lines of a text, so that a search finds words that the width of a terminal separates.
fn join_lines(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn a_stall_in_3_of_24_rounds_is_reported() {
    let sandbox = Sandbox::new();
    store_run(&sandbox.runs_dir(), 24, seconds_with_stalls);
    let text = join_lines(&sandbox.expect(0, &["report"]).0);
    assert!(text.contains("By elapsed in a typical round: inconclusive: +"), "{text}");
    let slow = "xfs took more than 1.5 times its median in 3 of 24 rounds (at most 1.6 times: 1.6";
    assert!(text.contains(slow) && text.contains(", ext4 in none."), "{text}");
    assert!(!text.contains("more often"), "three stalls are no significant difference: {text}");
    let not_excluded = "stalls rarer than about one in 8 rounds (3/24) are not excluded";
    assert!(text.contains(not_excluded), "{text}");
    let by_mean = text.split("By mean cost: +").nth(1).unwrap_or_else(|| panic!("{text}"));
    assert!(by_mean.starts_with('7') && by_mean.contains('['), "{by_mean}");

    let report: Value = serde_json::from_str(&sandbox.expect(0, &["report", "--format", "json"]).0).unwrap();
    let row = &report["pair"]["rows"][0];
    assert_eq!((&row["metric"], &row["verdict"]), (&"elapsed".into(), &"inconclusive".into()));
    let mean = &row["mean_ratio_b_to_a"];
    let number = |name: &str| mean[name].as_f64().unwrap();
    assert!((number("value") - 1.075).abs() < 0.005, "{mean}");
    assert!(number("low") < 1.0 && number("high") > 1.12 && number("stalls_not_excluded_share") == 0.125, "{mean}");
    let mut entries = report["slow_rounds"].as_array().unwrap().iter();
    let of_xfs = entries.find(|entry| entry["variant"] == "xfs" && entry["metric"] == "elapsed").unwrap();
    let mut rounds: Vec<u64> =
        of_xfs["slow"].as_array().unwrap().iter().map(|slow| slow["round"].as_u64().unwrap()).collect();
    rounds.sort_unstable();
    assert_eq!((rounds, &of_xfs["significantly_more_often"]), (vec![4, 11, 19], &false.into()));

    let markdown = sandbox.expect(0, &["report", "--format", "md"]).0;
    for words in ["| MEAN total over rounds |", "mean elapsed", "### Slow rounds", not_excluded] {
        assert!(markdown.contains(words), "{words}: {markdown}");
    }
}

#[test]
fn one_clone_of_21_seconds_is_mentioned() {
    let sandbox = Sandbox::new();
    let seconds = |variant: &str, round: u32| {
        if (variant, round) == ("ext4", 9) { 20.97 } else { 0.7 * noise(variant, round) }
    };
    store_run(&sandbox.runs_dir(), 22, seconds);
    let text = join_lines(&sandbox.expect(0, &["report"]).0);
    assert!(text.contains("ext4 took more than 1.5 times its median in 1 of 22 rounds (30 times: 21.0 s"), "{text}");
    // One round that makes up the whole spread leaves no interval.
    assert!(text.contains("(no interval: one round makes up most of the spread)"), "{text}");
}

#[test]
fn a_variant_that_stalls_significantly_more_often_is_named_at_the_end() {
    let sandbox = Sandbox::new();
    let seconds =
        |variant: &str, round: u32| noise(variant, round) * if variant == "xfs" && round % 4 == 3 { 2.0 } else { 1.0 };
    store_run(&sandbox.runs_dir(), 40, seconds);
    let text = join_lines(&sandbox.expect(0, &["report"]).0);
    assert!(
        text.contains("in 10 of 40 rounds") && text.contains("Significantly more often than the others: xfs."),
        "{text}"
    );
}

#[test]
fn a_claim_by_mean_counts_what_a_typical_round_hides() {
    let sandbox = Sandbox::new();
    // 3% faster, but for one round in twelve that takes eight times as long.
    let seconds = |variant: &str, round: u32| {
        let xfs_factor = if round % 12 == 11 { 8.0 } else { 0.97 };
        noise(variant, round) * if variant == "xfs" { xfs_factor } else { 1.0 }
    };
    store_run(&sandbox.runs_dir(), 121, seconds);
    let claims = [
        ("clone.elapsed: xfs < ext4", "held"),
        ("clone.elapsed: xfs < ext4 by mean", "refuted"),
        ("clone.elapsed: xfs > ext4 by 2% by mean", "held"),
        ("elapsed: best is ext4 by mean", "held"),
    ];
    let mut args = vec!["report", "--format", "json"];
    claims.iter().for_each(|(claim, _)| args.extend(["--claim", claim]));
    let report: Value = serde_json::from_str(&sandbox.expect(3, &args).0).unwrap();
    let reported = report["claims"].as_array().unwrap().iter();
    let reported: Vec<(&str, &str)> =
        reported.map(|claim| (claim["claim"].as_str().unwrap(), claim["outcome"].as_str().unwrap())).collect();
    assert_eq!(reported, claims);
    // Under 20 rounds the interval is withheld, and so is the verdict.
    store_run(&sandbox.runs_dir(), 19, seconds);
    let few = sandbox.expect(4, &["report", "latest", "--claim", "clone.elapsed: xfs > ext4 by mean"]).0;
    for words in [
        "no verdict by mean cost: fewer than 20 rounds",
        "stalls rarer than about one in 6 rounds (3/19) are not excluded",
    ] {
        assert!(join_lines(&few).contains(words), "{few}");
    }
    let wrong = sandbox.expect(2, &["report", "latest", "--claim", "clone.elapsed: xfs < ext4 by median"]).1;
    assert!(wrong.contains("expected a percentage such as `5%`, or `mean`"), "{wrong}");
}

#[test]
fn exact_ties_have_no_winner() {
    let sandbox = Sandbox::new();
    store_run(&sandbox.runs_dir(), 9, |_, round| 1.0 + f64::from(round) / 10.0);
    let report: Value = serde_json::from_str(&sandbox.expect(0, &["report", "--format", "json"]).0).unwrap();
    let task = &report["analyses"][0]["tasks"][0];
    let ranks: Vec<&Value> = task["variants"].as_array().unwrap().iter().map(|variant| &variant["rank"]).collect();
    assert_eq!((ranks, &task["winner"]), (vec![&Value::from(1); 2], &Value::Null));
}
