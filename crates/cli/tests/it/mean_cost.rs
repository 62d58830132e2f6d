//! Mean cost and slow rounds, through the real binary on runs whose figures are planted.

use crate::common::{Place, stored};
use fsarena_core::cell::{TaskId, TaskInfo};
use fsarena_core::event::{CellEvent, Event, Outcome};
use fsarena_core::metric::reading;
use fsarena_core::sample::{Readings, Sample};
use fsarena_core::{host::Host, matrix, plan::Plan, schedule::mix};
use fsarena_store::{RunDir, Writer};
use serde_json::Value;
use std::path::Path;

/// A complete run of ext4 and xfs with one task, which takes `seconds` of a variant in a round.
fn planted(runs: &Path, rounds: u32, seconds: impl Fn(&str, u32) -> f64) -> RunDir {
    let plan = format!(
        "name = 'clone'\ntitle = 'Clones'\nquestion = 'Which?'\nscale = 'quick'\nseed = 7\n[factors]\n\
         fs = ['ext4', 'xfs']\n[device]\ndirect_io = true\ndiscard = false\nother_fs = 'ext4'\n\
         backing = {{ kind = 'loop' }}\n[stop]\nrounds = {rounds}\n[idle]\ntimeout_s = 5.0\ndirty = '4 MiB'\n\
         io_pressure_percent = 10.0\n[[workload]]\nuse = 'coreutils'\ndriver = 'commands'\n"
    );
    let plan: Plan = toml::from_str(&plan).unwrap();
    let run = RunDir::create(runs, &plan, "0.1.0").unwrap();
    let mut writer = Writer::open(&run, &Host::default(), &stored::readings()).unwrap();
    let variants = matrix::expand(&plan);
    for round in 0..rounds {
        for cell in matrix::cells(&plan, &variants, &[0, 1], round) {
            let mut readings = Readings::default();
            let ns = (1e9 * seconds(&cell.variant.name, round)).round();
            readings.set(reading::ELAPSED, ns);
            readings.set(reading::SYNCED, ns);
            let id = TaskId::new("clone");
            let task = TaskInfo { id, title: "Clone".into(), number: None, in_totals: true };
            let started_at = 1.8e9 + f64::from(round);
            let sample = Sample { task, started_at, readings, series: vec![], latencies: Default::default() };
            let inside = Event::Cell { cell: cell.id(), what: CellEvent::Sample(sample) };
            let finished = Event::CellFinished { cell: cell.id(), outcome: Outcome::Done };
            for event in [Event::CellStarted { cell }, inside, finished] {
                writer.apply(&event).unwrap();
            }
        }
    }
    let why = format!("all {rounds} rounds are done");
    writer.apply(&Event::RunFinished { why, complete: true }).unwrap();
    run
}

/// Noise of 1% either way.
fn noise(variant: &str, round: u32) -> f64 {
    0.99 + (mix(u64::from(round), variant.len() as u64) % 2001) as f64 / 100_000.0
}

/// xfs stalls by 60% in 3 of 24 rounds, and is as fast as ext4 in the others.
fn stalling(variant: &str, round: u32) -> f64 {
    let stalls = variant == "xfs" && [4, 11, 19].contains(&round);
    noise(variant, round) * if stalls { 1.6 } else { 1.0 }
}

/// A text in one line, for words that the width of a terminal breaks.
fn in_a_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn a_stall_in_3_of_24_rounds_is_reported() {
    let place = Place::new();
    planted(&place.runs(), 24, stalling);
    let told = in_a_line(&place.expect(0, &["report"]).0);
    assert!(told.contains("By elapsed in a typical round: inconclusive: +"), "{told}");
    let slow = "xfs took more than 1.5 times its median in 3 of 24 rounds (at most 1.6 times: 1.6";
    assert!(told.contains(slow) && told.contains(", ext4 in none."), "{told}");
    assert!(!told.contains("more often"), "three stalls are no significant difference: {told}");
    let unseen = "stalls rarer than about one in 8 rounds (3/24) are not excluded";
    assert!(told.contains(unseen), "{told}");
    let by_mean = told.split("By mean cost: +").nth(1).unwrap_or_else(|| panic!("{told}"));
    assert!(by_mean.starts_with('7') && by_mean.contains('['), "{by_mean}");

    let report: Value = serde_json::from_str(&place.expect(0, &["report", "--format", "json"]).0).unwrap();
    let row = &report["pair"]["rows"][0];
    assert_eq!((&row["metric"], &row["verdict"]), (&"elapsed".into(), &"inconclusive".into()));
    let mean = &row["mean_ratio_b_to_a"];
    let of = |name: &str| mean[name].as_f64().unwrap();
    assert!((of("value") - 1.075).abs() < 0.005, "{mean}");
    assert!(of("low") < 1.0 && of("high") > 1.12 && of("stalls_not_excluded_share") == 0.125, "{mean}");
    let slow: Vec<&Value> = report["slow_rounds"].as_array().unwrap().iter().collect();
    let of_xfs = slow.iter().find(|one| one["variant"] == "xfs" && one["metric"] == "elapsed").unwrap();
    let mut rounds: Vec<u64> =
        of_xfs["slow"].as_array().unwrap().iter().map(|slow| slow["round"].as_u64().unwrap()).collect();
    rounds.sort_unstable();
    assert_eq!((rounds, &of_xfs["significantly_more_often"]), (vec![4, 11, 19], &false.into()));

    let markdown = place.expect(0, &["report", "--format", "md"]).0;
    for words in ["| MEAN total over rounds |", "mean elapsed", "### Slow rounds", unseen] {
        assert!(markdown.contains(words), "{words}: {markdown}");
    }
}

#[test]
fn one_clone_of_21_seconds_is_mentioned() {
    let place = Place::new();
    let seconds = |variant: &str, round: u32| {
        if (variant, round) == ("ext4", 9) { 20.97 } else { 0.7 * noise(variant, round) }
    };
    planted(&place.runs(), 22, seconds);
    let told = in_a_line(&place.expect(0, &["report"]).0);
    assert!(told.contains("ext4 took more than 1.5 times its median in 1 of 22 rounds (30 times: 21.0 s"), "{told}");
    // One round that makes up the whole spread leaves no interval.
    assert!(told.contains("(no interval: one round makes up most of the spread)"), "{told}");
}

#[test]
fn a_variant_that_stalls_significantly_more_often_is_named_at_the_end() {
    let place = Place::new();
    let seconds =
        |variant: &str, round: u32| noise(variant, round) * if variant == "xfs" && round % 4 == 3 { 2.0 } else { 1.0 };
    planted(&place.runs(), 40, seconds);
    let told = in_a_line(&place.expect(0, &["report"]).0);
    assert!(
        told.contains("in 10 of 40 rounds") && told.contains("Significantly more often than the others: xfs."),
        "{told}"
    );
}

#[test]
fn a_claim_by_mean_counts_what_a_typical_round_hides() {
    let place = Place::new();
    // 3% faster, but for one round in twelve that takes eight times as long.
    let seconds = |variant: &str, round: u32| {
        let xfs = if round % 12 == 11 { 8.0 } else { 0.97 };
        noise(variant, round) * if variant == "xfs" { xfs } else { 1.0 }
    };
    planted(&place.runs(), 121, seconds);
    let claims = [
        ("clone.elapsed: xfs < ext4", "held"),
        ("clone.elapsed: xfs < ext4 by mean", "refuted"),
        ("clone.elapsed: xfs > ext4 by 2% by mean", "held"),
        ("elapsed: best is ext4 by mean", "held"),
    ];
    let mut args = vec!["report", "--format", "json"];
    claims.iter().for_each(|(claim, _)| args.extend(["--claim", claim]));
    let report: Value = serde_json::from_str(&place.expect(3, &args).0).unwrap();
    let told = report["claims"].as_array().unwrap().iter();
    let told: Vec<(&str, &str)> =
        told.map(|one| (one["claim"].as_str().unwrap(), one["outcome"].as_str().unwrap())).collect();
    assert_eq!(told, claims);
    // Under 20 rounds the interval is withheld, and so is the verdict.
    planted(&place.runs(), 19, seconds);
    let few = place.expect(4, &["report", "latest", "--claim", "clone.elapsed: xfs > ext4 by mean"]).0;
    for words in [
        "no verdict by mean cost: fewer than 20 rounds",
        "stalls rarer than about one in 6 rounds (3/19) are not excluded",
    ] {
        assert!(in_a_line(&few).contains(words), "{few}");
    }
    let wrong = place.expect(2, &["report", "latest", "--claim", "clone.elapsed: xfs < ext4 by median"]).1;
    assert!(wrong.contains("expected a percentage such as `5%`, or `mean`"), "{wrong}");
}

#[test]
fn exact_ties_have_no_winner() {
    let place = Place::new();
    planted(&place.runs(), 9, |_, round| 1.0 + f64::from(round) / 10.0);
    let report: Value = serde_json::from_str(&place.expect(0, &["report", "--format", "json"]).0).unwrap();
    let task = &report["analyses"][0]["tasks"][0];
    let ranks: Vec<&Value> = task["variants"].as_array().unwrap().iter().map(|one| &one["rank"]).collect();
    assert_eq!((ranks, &task["winner"]), (vec![&Value::from(1); 2], &Value::Null));
}
