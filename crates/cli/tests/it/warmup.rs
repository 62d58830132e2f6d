//! Warm-up rounds: they are run and stored, and are part of no comparison.

use crate::common::Sandbox;

fn make_sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    ["a", "b"].iter().for_each(|dir| std::fs::create_dir(sandbox.dir.join(dir)).unwrap());
    sandbox.edit_plan("rounds = 1", "rounds = 2\nwarmup = 1");
    sandbox
}

const RUN_ARGS: [&str; 6] = ["run", "plan.toml", "--on", "dir:a", "--on", "dir:b"];

/// The rounds that have samples, from 0, and whether each was warm-up.
fn rounds(sandbox: &Sandbox) -> Vec<(u32, bool)> {
    let (csv, _) = sandbox.expect(0, &["report", "--format", "csv"]);
    let column = |name: &str| csv.lines().next().unwrap().split(',').position(|title| title == name).unwrap();
    let (round, warmup) = (column("round"), column("warmup"));
    let rows = csv.lines().skip(1).map(|line| line.split(',').collect::<Vec<_>>());
    let mut rounds: Vec<_> = rows.map(|row| (row[round].parse().unwrap(), row[warmup] == "true")).collect();
    rounds.sort_unstable();
    rounds.dedup();
    rounds
}

#[test]
fn warm_up_rounds_come_first_and_are_in_no_analysis() {
    let sandbox = make_sandbox();
    let (plan, _) = sandbox.expect(0, &[&RUN_ARGS[..], &["--dry-run", "--warmup", "2"]].concat());
    assert!(plan.contains("# 2 rounds, 2 of warm-up;") && plan.contains("warmup = 2"), "{plan}");
    let (printed, stderr) = sandbox.expect(0, &RUN_ARGS);
    assert!(printed.contains("2 rounds of 2 planned after 1 round of warm-up"), "{printed}");
    assert!(stderr.contains("round 1/3 (warm-up) done"), "{stderr}");
    assert_eq!(rounds(&sandbox), [(0, true), (1, false), (2, false)]);
    let (json, _) = sandbox.expect(0, &["report", "--format", "json"]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["analyses"][0]["rounds"], serde_json::json!([1, 2]));
    assert_eq!(json["plan"]["stop"]["warmup"], 1);
    // The stored plan has the warm-up too.
    let stored = sandbox.run_file("plan.toml").unwrap();
    let (plan, _) = sandbox.expect(0, &["run", stored.to_str().unwrap(), "--dry-run"]);
    assert!(plan.contains("# 2 rounds, 1 of warm-up;"), "{plan}");
    let (_, stderr) = sandbox.expect(2, &[&RUN_ARGS[..], &["--warmup", "5001"]].concat());
    assert!(stderr.contains("--warmup: at most 5000 warm-up rounds"), "{stderr}");
}

#[test]
fn every_shard_warms_up() {
    let sandbox = make_sandbox();
    for shard in ["1/2", "2/2"] {
        sandbox.expect(0, &[&RUN_ARGS[..], &["--rounds", "4", "--shard", shard]].concat());
    }
    assert_eq!(rounds(&sandbox), [(1, true), (3, false), (5, false)]);
    let (printed, _) = sandbox.expect(0, &["merge", "runs"]);
    assert!(printed.contains("merged: all 4 rounds"), "{printed}");
    assert_eq!(rounds(&sandbox), (0..6).map(|round| (round, round < 2)).collect::<Vec<_>>());
}
