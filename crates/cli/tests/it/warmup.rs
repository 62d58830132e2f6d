//! Warm-up rounds: run, stored, and part of no comparison.

use crate::common::Place;

fn place() -> Place {
    let place = Place::new();
    ["a", "b"].iter().for_each(|dir| std::fs::create_dir(place.dir.join(dir)).unwrap());
    place.edit_plan("rounds = 1", "rounds = 2\nwarmup = 1");
    place
}

const RUN: [&str; 6] = ["run", "plan.toml", "--on", "dir:a", "--on", "dir:b"];

/// Of each row of the raw samples: its round, from 0, and whether that was warm-up.
fn rounds(place: &Place) -> Vec<(u32, bool)> {
    let (csv, _) = place.expect(0, &["report", "--format", "csv"]);
    let column = |name: &str| csv.lines().next().unwrap().split(',').position(|head| head == name).unwrap();
    let (round, warmup) = (column("round"), column("warmup"));
    let cells = csv.lines().skip(1).map(|line| line.split(',').collect::<Vec<_>>());
    let mut rounds: Vec<_> = cells.map(|cells| (cells[round].parse().unwrap(), cells[warmup] == "true")).collect();
    rounds.sort_unstable();
    rounds.dedup();
    rounds
}

#[test]
fn they_come_first_and_no_figure_counts_them() {
    let place = place();
    let (plan, _) = place.expect(0, &[&RUN[..], &["--dry-run", "--warmup", "2"]].concat());
    assert!(plan.contains("# 2 rounds, 2 of warm-up;") && plan.contains("warmup = 2"), "{plan}");
    let (printed, said) = place.expect(0, &RUN);
    assert!(printed.contains("2 rounds of 2 planned after 1 round of warm-up"), "{printed}");
    assert!(said.contains("round 1/3 (warm-up) done"), "{said}");
    assert_eq!(rounds(&place), [(0, true), (1, false), (2, false)]);
    let (json, _) = place.expect(0, &["report", "--format", "json"]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["analyses"][0]["rounds"], serde_json::json!([1, 2]));
    assert_eq!(json["plan"]["stop"]["warmup"], 1);
    // The plan that it stored has them again.
    let stored = place.run_file("plan.toml").unwrap();
    let (plan, _) = place.expect(0, &["run", stored.to_str().unwrap(), "--dry-run"]);
    assert!(plan.contains("# 2 rounds, 1 of warm-up;"), "{plan}");
    let (_, said) = place.expect(2, &[&RUN[..], &["--warmup", "5001"]].concat());
    assert!(said.contains("--warmup: at most 5000 warm-up rounds"), "{said}");
}

#[test]
fn every_shard_warms_up() {
    let place = place();
    for shard in ["1/2", "2/2"] {
        place.expect(0, &[&RUN[..], &["--rounds", "4", "--shard", shard]].concat());
    }
    assert_eq!(rounds(&place), [(1, true), (3, false), (5, false)]);
    let (printed, _) = place.expect(0, &["merge", "runs"]);
    assert!(printed.contains("merged: all 4 rounds"), "{printed}");
    assert_eq!(rounds(&place), (0..6).map(|round| (round, round < 2)).collect::<Vec<_>>());
}
