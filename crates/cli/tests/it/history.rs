//! `fsarena history --fail-on-change` through the real binary: changes of real runs, and fresh rounds of both sides.

use crate::common::{Sandbox, runs_as_root};
use serde_json::Value;

const HISTORY_ARGS: [&str; 5] = ["history", "--fail-on-change", "--metric", "work_count", "--quiet"];

/// Makes `count` runs of one round each, of a command on a candidate with these options of mkfs and on a reference.
fn make_runs(sandbox: &Sandbox, count: usize, mkfs: &str, command: &str) {
    let plan = format!(
        "name = 'work'\ntitle = 'Work'\nquestion = 'How much work?'\n[idle]\ntimeout = '50ms'\ndirty = '1GiB'\n\
         io_pressure_percent = 100.0\n[stop]\nrounds = 1\n\
         [[variant]]\nname = 'candidate'\nfs = 'ext4'\nmkfs = '{mkfs}'\n[[variant]]\nname = 'reference'\nfs = 'ext4'\n\
         [[workload]]\nuse = 'command'\nmetric_regex = ['work count lower: work = ([0-9.]+)']\n\
         needs = ['{}']\n[[workload.task]]\nname = 'work'\ncmd = '{command}'\n",
        command.split_whitespace().find(|word| word.starts_with('/')).unwrap_or("sh")
    );
    std::fs::write(sandbox.dir.join("plan.toml"), plan).unwrap();
    for _ in 0..count {
        sandbox.expect(0, &["run", "plan.toml", "--on", "ram", "--quiet"]);
    }
}

/// Runs `fsarena history` and asserts its exit code. Returns its JSON.
fn expect_history(sandbox: &Sandbox, code: i32) -> Value {
    let (json, _) = sandbox.expect(code, &[&HISTORY_ARGS[..], &["--format", "json"]].concat());
    let history: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(history["exit"], code);
    history
}

#[test]
fn a_change_that_fresh_rounds_confirm_is_alarmed_once() {
    if !runs_as_root() {
        return;
    }
    let sandbox = Sandbox::new();
    // The metric `work` is the number of inodes, which an option of mkfs sets.
    let inodes = "echo work = $(stat -f -c %c .)";
    make_runs(&sandbox, 4, "-N 4096", inodes);
    assert_eq!(expect_history(&sandbox, 0)["alarms"], Value::Array(vec![]));
    make_runs(&sandbox, 4, "-N 8192", inodes);
    let history = expect_history(&sandbox, 3);
    let alarm = &history["alarms"][0];
    assert_eq!((&alarm["outcome"], &alarm["number"]), (&"confirmed".into(), &1.into()), "{history}");
    let confirmation = alarm["confirmation"].as_str().unwrap();
    assert_eq!(history["changes"][0]["run"], alarm["run"]);
    // The fresh rounds are a separate run with the variant before and after the change in each round. It is not part of the
    // history.
    let (json, _) = sandbox.expect(3, &["report", confirmation, "--format", "json"]);
    let report: Value = serde_json::from_str(&json).unwrap();
    assert!(confirmation.contains("-work-change-"), "{confirmation}");
    assert_eq!(report["claims"][0]["claim"], "geomean.work_count: after <= before within 25%");
    let history = expect_history(&sandbox, 0);
    assert_eq!((&history["alarms"][0]["outcome"], &history["study"]), (&"confirmed".into(), &"work".into()));
    assert_eq!(history["runs"].as_array().unwrap().len(), 8);
    sandbox.assert_clean();
}

#[test]
fn a_change_of_a_program_that_no_longer_exists_cannot_be_confirmed() {
    if !runs_as_root() {
        return;
    }
    let sandbox = Sandbox::new();
    let make_runs_with_work = |count: u32| {
        let script = sandbox.dir.join("work");
        let lines = format!("case $FSARENA_VARIANT in candidate) echo work = {count};; *) echo work = 100;; esac");
        std::fs::write(&script, format!("#!/bin/sh\n{lines}\n")).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&script, mode).unwrap();
        make_runs(&sandbox, 4, "", &script.display().to_string());
    };
    make_runs_with_work(100);
    make_runs_with_work(104);
    let history = expect_history(&sandbox, 4);
    let alarm = &history["alarms"][0];
    assert_eq!(alarm["outcome"], "unconfirmed", "{history}");
    let why = alarm["why"].as_str().unwrap();
    assert!(why.starts_with("No fresh rounds: ") && why.contains("/work of run "), "{why}");
    assert_eq!(expect_history(&sandbox, 0)["alarms"], history["alarms"]);
}
