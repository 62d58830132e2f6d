//! `fsarena advise` through the real binary: it compares filesystems, then the options of those that can be the best, and prints
//! a command line.

use crate::common::kernel::has_programs;
use crate::common::{Sandbox, runs_as_root};
use std::collections::BTreeSet;

/// A plan whose metric `cost` is lowest on ext3 with noatime, higher on ext3 with other options, and highest on ext4.
const PLAN: &str = r#"
name = "mine"
title = "My work"
question = "Which is fastest?"
[factors]
fs = ["ext3", "ext4"]
[idle]
timeout = "50ms"
dirty = "1GiB"
io_pressure_percent = 100.0
[[workload]]
use = "command"
room = "2MiB"
[[workload.task]]
name = "work"
cmd = """
case $FSARENA_VARIANT in ext3/noatime) cost=100 ;; ext3*) cost=130 ;; *) cost=160 ;; esac
echo fsarena-metric: cost $((cost + FSARENA_ROUND)) ns lower"""
"#;

#[test]
fn advice_ends_in_the_command_line_of_the_best_options() {
    if !runs_as_root() {
        return;
    }
    let sandbox = Sandbox::new();
    std::fs::write(sandbox.dir.join("mine.toml"), PLAN).unwrap();
    let (printed, stderr) =
        sandbox.expect(0, &["advise", "mine.toml", "--on", "ram", "--budget", "9m", "--metric", "cost_ns"]);
    let advice = printed.split("\nAdvice\n").nth(1).unwrap_or_else(|| panic!("{printed}"));
    let line = "mkfs.ext3 DEVICE && mount -t ext3 -o noatime DEVICE DIRECTORY";
    assert_eq!(advice.lines().find(|line| !line.is_empty()).map(str::trim), Some(line), "{printed}");
    assert!(advice.contains("Use ext3/noatime") && !advice.contains("ext4 DEVICE"), "{advice}");
    // A message before each stage lists its variants, common filesystems first.
    let stage = |name: &str| stderr.lines().find(|line| line.starts_with(&format!("stage {name}, "))).unwrap();
    assert!(stage("filesystems").ends_with(": ext4, ext3"), "{stderr}");
    assert!(stage("options").contains(": ext3, ext3/noatime"), "{stderr}");
    assert!(!printed.contains("Not compared"), "{printed}");
    assert!(stderr.contains("not tried without --allow-unsafe: ext3/writeback"), "{stderr}");
    let (json, _) = sandbox.expect(0, &["report", "latest", "--format", "json"]);
    assert!(json.contains("\"choose\": \"ext3/noatime\""), "{json}");
    sandbox.assert_clean();
}

/// A command of 0.1 s. On ext4 it takes 2 s in the first round, as if the caches were cold.
const PLAN_WITH_COLD_FIRST_ROUND: &str = r#"
name = "cold"
title = "My work"
question = "Which is fastest?"
[factors]
fs = ["ext2", "ext3", "ext4", "xfs"]
[idle]
timeout = "50ms"
dirty = "1GiB"
io_pressure_percent = 100.0
[[workload]]
use = "command"
room = "2MiB"
[[workload.task]]
name = "work"
cmd = "case $FSARENA_VARIANT$FSARENA_ROUND in ext41) sleep 2 ;; esac; sleep 0.1"
"#;

#[test]
fn one_cold_pilot_keeps_no_usual_filesystem_out_and_what_was_not_compared_is_named() {
    if !runs_as_root() || !has_programs(&["mkfs.xfs"]) {
        return;
    }
    let sandbox = Sandbox::new();
    std::fs::write(sandbox.dir.join("cold.toml"), PLAN_WITH_COLD_FIRST_ROUND).unwrap();
    // Half of the time is for the filesystems: one cold cell, and far fewer than ten rounds of four others.
    let (printed, _) = sandbox.expect(0, &["advise", "cold.toml", "--on", "ram", "--budget", "8s"]);
    let runs = std::fs::read_dir(sandbox.runs_dir()).unwrap().map(|run| run.unwrap().path());
    let filesystems_run = runs.min().unwrap();
    let rows = sandbox.rows(&filesystems_run.to_string_lossy()).into_iter();
    let compared: BTreeSet<String> = rows.filter(|row| row.0 > 0 && row.2 == "work").map(|row| row.1).collect();
    assert!(compared.contains("ext4") && compared.contains("xfs"), "{compared:?}");
    let missing: Vec<&str> = ["ext2", "ext3"].into_iter().filter(|name| !compared.contains(*name)).collect();
    assert!(!missing.is_empty(), "{compared:?}");
    let omissions =
        printed.lines().find(|line| line.starts_with("Not compared, because the budget was too small for them"));
    let omissions = omissions.unwrap_or_else(|| panic!("{printed}"));
    assert!(missing.iter().all(|name| omissions.contains(name)), "{printed}");
    sandbox.assert_clean();
}

#[test]
fn flags_that_advise_sets_itself_are_refused() {
    let sandbox = Sandbox::new();
    for (flag, value) in [("--options", "noatime"), ("--rounds", "3"), ("--find", "best"), ("--mkfs", "-n 1")] {
        let (_, stderr) = sandbox.expect(2, &["advise", flag, value, "--cmd", "true"]);
        assert!(stderr.contains(&format!("{flag}: advise determines this itself")), "{stderr}");
    }
    let dir = sandbox.dir.to_string_lossy().into_owned();
    let (_, stderr) = sandbox.expect(2, &["advise", "--on", &format!("dir:{dir}"), "--cmd", "true"]);
    assert!(stderr.contains("advise makes filesystems"), "{stderr}");
}
