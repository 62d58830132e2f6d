//! `fsarena ab --max-slowdown` through the real binary: a gate passes, fails, or cannot tell.

use crate::common::Place;
use serde_json::Value;

/// Compares the directories `a` and `b` by commands: each sleeps for a hundredth of a second, `slow` in `b` for five.
fn ab(place: &Place, code: i32, more: &[&str]) -> (String, String) {
    for name in ["a", "b"] {
        std::fs::create_dir_all(place.dir.join(name)).unwrap();
    }
    let slow = "case $PWD in */b|*/b/*) sleep 0.05;; *) sleep 0.01;; esac; echo tps = 100";
    let commands = ["--name", "equal", "--cmd", "sleep 0.01", "--name", "slow", "--cmd", slow];
    let args = ["ab", "--a", "dir=a", "--b", "dir=b", "-q", "--max-rounds", "12"];
    place.expect(code, &[&args[..], &commands, more].concat())
}

#[test]
fn a_gate_passes_or_fails_by_the_margins_of_its_tasks() {
    let place = Place::new();
    let (passed, _) = ab(&place, 0, &["--max-slowdown", "2000%"]);
    assert!(passed.contains("Gate passed") && passed.contains("total.elapsed passed: "), "{passed}");
    // The baseline leads: the claim names the directories.
    let (json, _) = place.expect(0, &["report", "--format", "json"]);
    let report: Value = serde_json::from_str(&json).unwrap();
    let claim = report["claims"][0]["claim"].as_str().unwrap();
    let [a, b] = ["a", "b"].map(|name| place.dir.join(name).display().to_string());
    assert_eq!(claim, format!("total.elapsed: {b} <= {a} within 2000%"));
    assert!(report["gate"]["claims"][0]["upper_bound_ratio"].as_f64().unwrap() < 21.0);

    // The whole may cost twenty times as much, one task half as much again: it takes five times as long.
    let both = ["--max-slowdown", "2000%", "--max-slowdown", "slow.elapsed=50%", "--format", "json"];
    let (json, _) = ab(&place, 3, &both);
    let report: Value = serde_json::from_str(&json).unwrap();
    let exits = |list: &Value| {
        list.as_array().unwrap().iter().map(|one| one["exit"].as_u64().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!((exits(&report["claims"]), exits(&report["gate"]["claims"])), (vec![0, 3], vec![0, 3]));
    assert_eq!((&report["exit"], &report["gate"]["outcome"]), (&3.into(), &"failed".into()));
    assert!(report["gate"]["claims"][1]["lower_bound_ratio"].as_f64().unwrap() > 1.5);
    let why = report["run"]["why"].as_str().unwrap();
    assert!(why.starts_with("the gate fails: slow.elapsed: "), "{why}");
    // The stored run says the same again, and other claims may use the names of the sides too.
    let (failed, _) = place.expect(3, &["report", "--claim", "slow.elapsed: candidate > baseline"]);
    assert!(failed.contains("Gate failed") && failed.contains("slow.elapsed failed: +"), "{failed}");
    place.expect(3, &["report", "--format", "junit"]);
}

#[test]
fn a_gate_of_few_rounds_cannot_tell() {
    let place = Place::new();
    let (text, _) = ab(&place, 4, &["--max-slowdown", "2000%", "--max-rounds", "3"]);
    assert!(
        text.contains("Gate inconclusive") && text.contains("an equal candidate passes in about 8 rounds"),
        "{text}"
    );
}

#[test]
fn limits_become_claims_in_the_direction_that_is_worse() {
    let place = Place::new();
    let lines = |more: &[&str]| -> Vec<String> {
        let (text, _) = ab(&place, 0, &[more, &["--dry-run"]].concat());
        assert!(text.lines().any(|line| line == "gate = true"), "{text}");
        text.lines().filter_map(|line| line.strip_prefix("# claim: ").map(String::from)).collect()
    };
    let [a, b] = ["a", "b"].map(|name| place.dir.join(name).display().to_string());
    let rule = ["--metric-regex", "tps per_s higher: tps = ([0-9.]+)"];
    assert_eq!(
        lines(&[&rule[..], &["--max-slowdown", "slow.tps=5%"]].concat()),
        [format!("slow.tps: {b} >= {a} within 5%")]
    );
    assert_eq!(
        lines(&["--metric", "synced", "--max-slowdown", "0.5%"]),
        [format!("total.synced: {b} <= {a} within 0.5%")]
    );
    let with_claim = lines(&["--claim", "slow.elapsed: candidate > baseline", "--max-slowdown", "1%"]);
    assert_eq!(with_claim[0], format!("slow.elapsed: {b} > {a}"));
    assert_eq!(with_claim.len(), 2);
}

#[test]
fn limits_of_unknown_quantities_are_usage_errors() {
    let place = Place::new();
    let said = |limit: &str| ab(&place, 2, &["--max-slowdown", limit]).1;
    assert!(said("equl.elapsed=5%").contains("Did you mean `equal`?"));
    assert!(said("equal.tps=5%").contains("--metric-regex 'tps UNIT lower: REGEX'"));
    assert!(said("5 percent").contains("write a percentage"));
    assert!(said("equal elapsed=5%").contains("write it TASK.METRIC=PERCENT"));
    assert!(said("equal.device_share=5%").contains("neither more nor less"));
    let many: Vec<String> = (1..=65).map(|i| format!("slow.elapsed={i}%")).collect();
    let flags: Vec<&str> = many.iter().flat_map(|limit| ["--max-slowdown", limit]).collect();
    assert!(ab(&place, 2, &flags).1.contains("at most 64 claims"));
}
