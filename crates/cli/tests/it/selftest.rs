//! `fsarena selftest`.

use crate::common::{Sandbox, runs_as_root};
use serde_json::Value;

#[test]
fn few_simulations_are_inconclusive() {
    let sandbox = Sandbox::new();
    // 100 runs cannot show a rate to be under 6%, so the exit code is that of an inconclusive result.
    let (json, _) = sandbox.expect(4, &["selftest", "--simulations", "100", "--format", "json"]);
    let report: Value = serde_json::from_str(&json).unwrap();
    let checks = report["checks"].as_array().unwrap();
    assert_eq!(
        checks.len(),
        24 * 6 + 1,
        "four rules, six regrets, three searches for the best, advice, four gates, a history, three numbers of aged images and two \
         bisections under six noises; and rounds on one aged image as if they were independent"
    );
    let shares: Vec<f64> = checks.iter().filter_map(|check| check["time_share"].as_f64()).collect();
    assert!(matches!(shares[..], [spread, two, equal] if spread < 0.9 && two < 0.9 && equal <= 1.0), "{shares:?}");
    assert!(checks.iter().all(|check| check["state"] != "BROKEN"), "{json}");
    let means = report["mean_costs"].as_array().unwrap();
    assert_eq!(means.len(), 15 * 2, "ten promised pairs of noises and five shown, with and without drift");
    assert!(means.iter().all(|check| check["state"] != "BROKEN"), "{json}");
    assert_eq!(means.iter().filter(|check| check["limit"].is_null()).count(), 10);
    let growth = report["growth"].as_array().unwrap();
    let states: Vec<_> = growth.iter().map(|check| (check["law"].as_str().unwrap(), &check["state"])).collect();
    assert!(states.len() == 6 && states.iter().all(|(_, state)| *state != "BROKEN"), "{json}");
    // The interval must miss where the cost bends beyond the data.
    assert_eq!(states[5], ("bend beyond the data", &"ok".into()));
    // Without random order the drift breaks the rule so often that even 100 runs show it.
    assert_eq!((&report["negative"]["order"], &report["negative"]["state"]), (&"fixed".into(), &"ok".into()));
    assert!(report["negative"]["rate"].as_f64().unwrap() > 0.5);
    assert_eq!(report["passed"], false);
}

#[test]
fn one_round_here_gives_no_verdict_and_leaves_nothing() {
    if !runs_as_root() {
        return;
    }
    let sandbox = Sandbox::new();
    let args = ["selftest", "--here", "--budget", "1ms", "--tree-files", "100", "--format", "json", "-q"];
    let (json, _) = sandbox.expect(4, &args);
    let result: Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&result["rounds"], &result["verdicts"]), (&1.into(), &0.into()));
    // So little work may take no measurable CPU time, but it takes time.
    let power = result["power"].as_array().unwrap();
    let tasks_with = |extra_percent: u64| {
        let rows = power.iter().filter(|row| row["more_percent"] == extra_percent && row["metric"] == "elapsed");
        rows.map(|row| row["task"].as_str().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!([tasks_with(1), tasks_with(2), tasks_with(5)], [["cp", "rm"]; 3]);
    let stored = std::fs::read_to_string(sandbox.state_dir().join("selftest.json")).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&stored).unwrap(), result);
    sandbox.assert_clean();
    // Reports do not quote a result without a verdict.
    sandbox.expect(0, &["run", "plan.toml", "--on", "ram", "-q"]);
    assert!(!sandbox.run_text("report.md").contains("can resolve"));
}

#[test]
fn the_idle_wait_is_checked_against_longer_idling() {
    if !runs_as_root() {
        return;
    }
    let sandbox = Sandbox::new();
    let short_args = ["--budget", "1ms", "--tree-files", "100", "--fs", "ext2,ext4", "--format", "json", "-q"];
    // One round shows nothing, so the exit code is that of an inconclusive result.
    let begun = std::time::Instant::now();
    let (json, _) = sandbox.expect(4, &[&["selftest", "--here", "--idle", "700ms"], &short_args[..]].concat());
    // Two filesystems have two tasks each.
    assert!(begun.elapsed().as_millis() >= 4 * 700, "{:?}", begun.elapsed());
    let lines: Value = serde_json::from_str(&json).unwrap();
    let values = |key: &str| lines.as_array().unwrap().iter().map(|line| line[key].clone()).collect::<Vec<_>>();
    assert_eq!(values("filesystem"), ["ext2", "ext4"]);
    assert_eq!(values("rounds"), [1, 1]);
    assert_eq!(values("outcome"), ["inconclusive"; 2]);
    sandbox.assert_clean();
}

#[test]
fn reports_quote_what_this_machine_can_resolve() {
    if !runs_as_root() {
        return;
    }
    let sandbox = Sandbox::new();
    sandbox.expect(0, &["run", "plan.toml", "--on", "ram", "-q"]);
    let (json, _) = sandbox.expect(0, &["report", "--format", "json"]);
    let host = serde_json::from_str::<Value>(&json).unwrap()["hosts"][0].take();
    let report_with_selftest_of = |kernel: &Value| {
        let noise = serde_json::json!({
            "task": "cp", "metric": "elapsed", "sigma_percent": 1.0, "resolves_8_percent": 1.93,
            "rounds_for_1_percent": 30,
        });
        let selftest = serde_json::json!({
            "measured_at_s": 0, "hostname": host["hostname"], "kernel": kernel, "rounds": 56, "verdicts": 56,
            "false_verdicts": 2, "chance": 0.6, "noise": [noise], "power": [],
        });
        std::fs::write(sandbox.state_dir().join("selftest.json"), selftest.to_string()).unwrap();
        sandbox.expect(0, &["report", "--format", "md"]).0
    };
    assert!(report_with_selftest_of(&host["kernel"]).contains("8 rounds can resolve 1.93% of cp elapsed"));
    assert!(!report_with_selftest_of(&"another".into()).contains("can resolve"));
}

#[test]
fn flags_that_contradict_each_other_are_refused() {
    let sandbox = Sandbox::new();
    sandbox.expect(2, &["selftest", "--simulations", "3"]);
    sandbox.expect(2, &["selftest", "--here", "--simulations", "1000"]);
    sandbox.expect(2, &["selftest", "--budget", "1m"]);
    sandbox.expect(2, &["selftest", "--idle"]);
}
