//! `fsarena history --fail-on-change` through the real binary: changes of real runs, and fresh rounds of both sides.

use crate::common::{Place, root};
use serde_json::Value;

const HISTORY: [&str; 5] = ["history", "--fail-on-change", "--metric", "work_count", "--quiet"];

/// Runs one round of this command on a candidate with these options of mkfs and on the reference, and `count` times so.
fn run(place: &Place, count: usize, mkfs: &str, command: &str) {
    let plan = format!(
        "name = 'work'\ntitle = 'Work'\nquestion = 'How much work?'\n[idle]\ntimeout = '50ms'\ndirty = '1GiB'\n\
         io_pressure_percent = 100.0\n[stop]\nrounds = 1\n\
         [[variant]]\nname = 'candidate'\nfs = 'ext4'\nmkfs = '{mkfs}'\n[[variant]]\nname = 'reference'\nfs = 'ext4'\n\
         [[workload]]\nuse = 'command'\nmetric_regex = ['work count lower: work = ([0-9.]+)']\n\
         needs = ['{}']\n[[workload.task]]\nname = 'work'\ncmd = '{command}'\n",
        command.split_whitespace().find(|word| word.starts_with('/')).unwrap_or("sh")
    );
    std::fs::write(place.dir.join("plan.toml"), plan).unwrap();
    for _ in 0..count {
        place.expect(0, &["run", "plan.toml", "--on", "ram", "--quiet"]);
    }
}

/// Follows the history, which ends with this code, and returns its JSON.
fn follow(place: &Place, code: i32) -> Value {
    let (json, _) = place.expect(code, &[&HISTORY[..], &["--format", "json"]].concat());
    let history: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(history["exit"], code);
    history
}

#[test]
fn a_change_that_fresh_rounds_confirm_is_alarmed_once() {
    if !root() {
        return;
    }
    let place = Place::new();
    // The work is the number of inodes that mkfs was told to make.
    let inodes = "echo work = $(stat -f -c %c .)";
    run(&place, 4, "-N 4096", inodes);
    assert_eq!(follow(&place, 0)["alarms"], Value::Array(vec![]));
    run(&place, 4, "-N 8192", inodes);
    let history = follow(&place, 3);
    let alarm = &history["alarms"][0];
    assert_eq!((&alarm["outcome"], &alarm["number"]), (&"confirmed".into(), &1.into()), "{history}");
    let confirmation = alarm["confirmation"].as_str().unwrap();
    assert_eq!(history["changes"][0]["run"], alarm["run"]);
    // The fresh rounds are a run of their own, of both sides in each round, and no part of the history.
    let (json, _) = place.expect(3, &["report", confirmation, "--format", "json"]);
    let report: Value = serde_json::from_str(&json).unwrap();
    assert!(confirmation.contains("-work-change-"), "{confirmation}");
    assert_eq!(report["claims"][0]["claim"], "geomean.work_count: after <= before within 25%");
    let history = follow(&place, 0);
    assert_eq!((&history["alarms"][0]["outcome"], &history["study"]), (&"confirmed".into(), &"work".into()));
    assert_eq!(history["runs"].as_array().unwrap().len(), 8);
    place.assert_clean();
}

#[test]
fn a_change_of_a_program_that_is_gone_is_unconfirmed() {
    if !root() {
        return;
    }
    let place = Place::new();
    let work = |count: u32| {
        let script = place.dir.join("work");
        let lines = format!("case $FSARENA_VARIANT in candidate) echo work = {count};; *) echo work = 100;; esac");
        std::fs::write(&script, format!("#!/bin/sh\n{lines}\n")).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&script, mode).unwrap();
        run(&place, 4, "", &script.display().to_string());
    };
    work(100);
    work(104);
    let history = follow(&place, 4);
    let alarm = &history["alarms"][0];
    assert_eq!(alarm["outcome"], "unconfirmed", "{history}");
    let why = alarm["why"].as_str().unwrap();
    assert!(why.starts_with("No fresh rounds: ") && why.contains("/work of run "), "{why}");
    assert_eq!(follow(&place, 0)["alarms"], history["alarms"]);
}
