//! `fsarena run --find best` through the real binary: a variant that cannot be the best leaves, also if the run is interrupted.

use crate::common::gate::{BackgroundRun, Gate, When};
use crate::common::{Sandbox, runs_as_root};
use rustix::process::Signal;
use serde_json::Value;
use std::collections::BTreeMap;

/// A task whose printed cost is high for the variant `slow`. The two others are a little more expensive in turn, so that
/// neither is better.
const TASK_KEYS: &str = r#"
name = "work"
cmd = """
case $FSARENA_VARIANT-$FSARENA_ROUND in
    slow-*) cost=200 ;;
    one-*[02468] | two-*[13579]) cost=120 ;;
    *) cost=100 ;;
esac
echo fsarena-metric: cost $((cost + FSARENA_ROUND)) ns lower"""
"#;

#[test]
fn a_variant_that_cannot_be_the_best_leaves_and_stays_away_when_the_run_is_resumed() {
    if !runs_as_root() {
        return;
    }
    let sandbox = Sandbox::new();
    let variant = |name: &str, fs: &str| format!("[[variant]]\nname = \"{name}\"\nfs = \"{fs}\"\n");
    let variants = variant("one", "ext3") + &variant("two", "ext3") + &variant("slow", "ext4");
    let stop = "[stop]\nbest_within = \"0.001%\"\nmax_rounds = 11\n[idle]\ntimeout = \"50ms\"\n";
    let work = format!("[[workload]]\nuse = \"command\"\nroom = \"8MiB\"\n[[workload.task]]{TASK_KEYS}");
    let plan = format!("name = \"best\"\nseed = 1\n{stop}{variants}{work}");
    std::fs::write(sandbox.dir.join("plan.toml"), plan).unwrap();
    // mkfs.ext3 runs twice in each round, so this call is in the tenth round.
    let mut gate = Gate::new(&sandbox, When::Before, "mkfs.ext3", "*/dev/loop*", 19);
    let mut running = BackgroundRun::start(&sandbox, sandbox.fsarena(&["run", "plan.toml", "--metric", "cost_ns"]));
    gate.wait_until_stopped(&mut running);
    running.signal(Signal::TERM);
    gate.open();
    running.assert_ended_by(Signal::TERM);
    std::fs::remove_file(sandbox.dir.join("shims/mkfs.ext3")).unwrap();

    let (printed, _) = sandbox.expect(0, &["run", "--resume", "latest"]);
    let sentence = "fsarena stopped measuring variants that are not the best (95% confidence): slow after round 8.";
    let flowed = printed.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(flowed.contains(sentence), "{printed}");
    let mut rounds: BTreeMap<String, Vec<u32>> = BTreeMap::new();
    for (round, variant, _) in sandbox.rows("latest").into_iter().filter(|row| row.2 == "work") {
        rounds.entry(variant).or_default().push(round);
    }
    let rounds_before = |rounds: u32| (0..rounds).collect::<Vec<_>>();
    let expected = [("one", rounds_before(11)), ("slow", rounds_before(8)), ("two", rounds_before(11))];
    assert_eq!(rounds, expected.map(|(variant, rounds)| (variant.to_string(), rounds)).into());
    let (json, _) = sandbox.expect(0, &["report", "--format", "json"]);
    assert!(json.contains("all 11 rounds are done; 2 variants can still be the best"), "{json}");
    let decision = &serde_json::from_str::<Value>(&json).unwrap()["decision"];
    assert_eq!(decision["left"], serde_json::json!({ "slow": 8 }));
    assert_ne!(decision["choose"], "slow");
    sandbox.assert_clean();
}

#[test]
fn flags_that_contradict_the_search_are_refused() {
    if !runs_as_root() {
        return;
    }
    let sandbox = Sandbox::new();
    for more in [&["--within", "1%"][..], &["--find", "best", "--rounds", "3"], &["--find", "worst"]] {
        sandbox.expect(2, &[&["run", "plan.toml", "--dry-run"], more].concat());
    }
    let find = ["run", "plan.toml", "--dry-run", "--fs", "ext2,ext4", "--find", "best"];
    let find_by = |average: &'static str| [&find[..], &["--by", average]].concat();
    assert!(sandbox.expect(0, &find_by("mean")).0.contains("best_by = \"mean\""));
    assert!(!sandbox.expect(0, &find_by("typical")).0.contains("best_by"));
    assert!(sandbox.expect(2, &find_by("median")).1.contains("possible values: typical, mean"));
    let alone = sandbox.expect(2, &["run", "plan.toml", "--dry-run", "--by", "mean"]).1;
    assert!(alone.contains("--by: requires --find best"), "{alone}");
    let (_, stderr) = sandbox.expect(2, &["run", "plan.toml", "--on", "dir:home", "--find", "best"]);
    assert!(stderr.contains("finding the best requires two variants or more"), "{stderr}");
}
