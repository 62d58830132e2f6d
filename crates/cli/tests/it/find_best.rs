//! `run --find best` through the real binary: who cannot be the best leaves, also where the run is interrupted.

use crate::common::gate::{Gate, Running, When};
use crate::common::{Place, root};
use rustix::process::Signal;
use serde_json::Value;
use std::collections::BTreeMap;

/// The figure of each task is slow on ext4, and a little slower on one of the two others: on another one in each round,
/// so that neither is better.
const WORK: &str = r#"
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
    if !root() {
        return;
    }
    let place = Place::new();
    let variant = |name: &str, fs: &str| format!("[[variant]]\nname = \"{name}\"\nfs = \"{fs}\"\n");
    let variants = variant("one", "ext3") + &variant("two", "ext3") + &variant("slow", "ext4");
    let stop = "[stop]\nbest_within = \"0.001%\"\nmax_rounds = 11\n[idle]\ntimeout = \"50ms\"\n";
    let work = format!("[[workload]]\nuse = \"command\"\nroom = \"8MiB\"\n[[workload.task]]{WORK}");
    let plan = format!("name = \"best\"\nseed = 1\n{stop}{variants}{work}");
    std::fs::write(place.dir.join("plan.toml"), plan).unwrap();
    // Two of them in each round, none made again (ext3 has no inode tables to complete): this is in the tenth round.
    let mut gate = Gate::new(&place, When::Before, "mkfs.ext3", "*/dev/loop*", 19);
    let mut running = Running::start(&place, place.fsarena(&["run", "plan.toml", "--metric", "cost_ns"]));
    gate.wait(&mut running);
    running.signal(Signal::TERM);
    gate.open();
    running.ended_by(Signal::TERM);
    std::fs::remove_file(place.dir.join("shims/mkfs.ext3")).unwrap();

    let (printed, _) = place.expect(0, &["run", "--resume", "latest"]);
    let gone = "fsarena stopped measuring variants that are not the best (95% confidence): slow after round 8.";
    let flowed = printed.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(flowed.contains(gone), "{printed}");
    let mut rounds: BTreeMap<String, Vec<u32>> = BTreeMap::new();
    for (round, variant, _) in place.rows("latest").into_iter().filter(|row| row.2 == "work") {
        rounds.entry(variant).or_default().push(round);
    }
    let until = |rounds: u32| (0..rounds).collect::<Vec<_>>();
    let expected = [("one", until(11)), ("slow", until(8)), ("two", until(11))];
    assert_eq!(rounds, expected.map(|(variant, rounds)| (variant.to_string(), rounds)).into());
    let (json, _) = place.expect(0, &["report", "--format", "json"]);
    assert!(json.contains("all 11 rounds are done; 2 variants can still be the best"), "{json}");
    let decision = &serde_json::from_str::<Value>(&json).unwrap()["decision"];
    assert_eq!(decision["left"], serde_json::json!({ "slow": 8 }));
    assert_ne!(decision["choose"], "slow");
    place.assert_clean();
}

#[test]
fn flags_that_contradict_the_search_are_refused() {
    if !root() {
        return;
    }
    let place = Place::new();
    for more in [&["--within", "1%"][..], &["--find", "best", "--rounds", "3"], &["--find", "worst"]] {
        place.expect(2, &[&["run", "plan.toml", "--dry-run"], more].concat());
    }
    let find = ["run", "plan.toml", "--dry-run", "--fs", "ext2,ext4", "--find", "best"];
    let by = |average: &'static str| [&find[..], &["--by", average]].concat();
    assert!(place.expect(0, &by("mean")).0.contains("best_by = \"mean\""));
    assert!(!place.expect(0, &by("typical")).0.contains("best_by"));
    assert!(place.expect(2, &by("median")).1.contains("possible values: typical, mean"));
    let alone = place.expect(2, &["run", "plan.toml", "--dry-run", "--by", "mean"]).1;
    assert!(alone.contains("--by: requires --find best"), "{alone}");
    let (_, said) = place.expect(2, &["run", "plan.toml", "--on", "dir:home", "--find", "best"]);
    assert!(said.contains("finding the best requires two variants or more"), "{said}");
}
