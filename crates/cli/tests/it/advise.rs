//! `advise` through the real binary: filesystems, then the options of those that can be the best, then a command line.

use crate::common::kernel::has;
use crate::common::{Place, root};
use std::collections::BTreeSet;

/// Its figure is bad on ext4, and on ext3 with all but what mounts without access times.
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
    if !root() {
        return;
    }
    let place = Place::new();
    std::fs::write(place.dir.join("mine.toml"), PLAN).unwrap();
    let (printed, said) =
        place.expect(0, &["advise", "mine.toml", "--on", "ram", "--budget", "9m", "--metric", "cost_ns"]);
    let advice = printed.split("\nAdvice\n").nth(1).unwrap_or_else(|| panic!("{printed}"));
    let line = "mkfs.ext3 DEVICE && mount -t ext3 -o noatime DEVICE DIRECTORY";
    assert_eq!(advice.lines().find(|line| !line.is_empty()).map(str::trim), Some(line), "{printed}");
    assert!(advice.contains("Use ext3/noatime") && !advice.contains("ext4 DEVICE"), "{advice}");
    // Before each stage, what it tries: the usual filesystem first.
    let stage = |name: &str| said.lines().find(|line| line.starts_with(&format!("stage {name}, "))).unwrap();
    assert!(stage("filesystems").ends_with(": ext4, ext3"), "{said}");
    assert!(stage("options").contains(": ext3, ext3/noatime"), "{said}");
    assert!(!printed.contains("Not compared"), "{printed}");
    assert!(said.contains("not tried without --allow-unsafe: ext3/writeback"), "{said}");
    let (json, _) = place.expect(0, &["report", "latest", "--format", "json"]);
    assert!(json.contains("\"choose\": \"ext3/noatime\""), "{json}");
    place.assert_clean();
}

/// Takes 0.1 s, but 2 s the first time of all, as if the caches were cold then.
const COLD: &str = r#"
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
    if !root() || !has(&["mkfs.xfs"]) {
        return;
    }
    let place = Place::new();
    std::fs::write(place.dir.join("cold.toml"), COLD).unwrap();
    // Half of the time is for the filesystems: one cold cell, and far fewer than ten rounds of four others.
    let (printed, _) = place.expect(0, &["advise", "cold.toml", "--on", "ram", "--budget", "8s"]);
    let runs = std::fs::read_dir(place.runs()).unwrap().map(|run| run.unwrap().path());
    let first = runs.min().unwrap(); // of the filesystems
    let rows = place.rows(&first.to_string_lossy()).into_iter();
    let compared: BTreeSet<String> = rows.filter(|row| row.0 > 0 && row.2 == "work").map(|row| row.1).collect();
    assert!(compared.contains("ext4") && compared.contains("xfs"), "{compared:?}");
    let missing: Vec<&str> = ["ext2", "ext3"].into_iter().filter(|name| !compared.contains(*name)).collect();
    assert!(!missing.is_empty(), "{compared:?}");
    let named =
        printed.lines().find(|line| line.starts_with("Not compared, because the budget was too small for them"));
    let named = named.unwrap_or_else(|| panic!("{printed}"));
    assert!(missing.iter().all(|name| named.contains(name)), "{printed}");
    place.assert_clean();
}

#[test]
fn flags_that_advise_sets_itself_are_refused() {
    let place = Place::new();
    for (flag, value) in [("--options", "noatime"), ("--rounds", "3"), ("--find", "best"), ("--mkfs", "-n 1")] {
        let (_, said) = place.expect(2, &["advise", flag, value, "--cmd", "true"]);
        assert!(said.contains(&format!("{flag}: advise determines this itself")), "{said}");
    }
    let dir = place.dir.to_string_lossy().into_owned();
    let (_, said) = place.expect(2, &["advise", "--on", &format!("dir:{dir}"), "--cmd", "true"]);
    assert!(said.contains("advise makes filesystems"), "{said}");
}
