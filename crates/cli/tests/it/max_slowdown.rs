//! `fsarena ab --max-slowdown` through the real binary: a gate passes, fails, or cannot tell.

use crate::common::{Place, text};
use serde_json::Value;
use std::process::Command;

/// Compares the directories `a` and `b` by commands: each sleeps for a hundredth of a second, `slow` in `b` for five.
fn ab(place: &Place, code: i32, more: &[&str]) -> (String, String) {
    compare_by(place, "case $FSARENA_VARIANT in */b) sleep 0.05;; *) sleep 0.01;; esac; echo tps = 100");
    let args = ["ab", "plan.toml", "--a", "dir=a", "--b", "dir=b", "-q"];
    place.expect(code, &[&args[..], more].concat())
}

/// Makes the directories `a` and `b`, and a plan with two tasks: one sleeps, the other is this command.
fn compare_by(place: &Place, command: &str) {
    for name in ["a", "b"] {
        std::fs::create_dir_all(place.dir.join(name)).unwrap();
    }
    let plan = format!(
        "name = 'gate'\ntitle = 'A gate'\nquestion = 'Too slow?'\n[idle]\ntimeout = '50ms'\ndirty = '1GiB'\n\
         io_pressure_percent = 100.0\n[[workload]]\nuse = 'command'\n\
         metric_regex = ['tps per_s higher: tps = ([0-9.]+)']\n\
         [[workload.task]]\nname = 'equal'\ncmd = 'sleep 0.01; echo tps = 1'\n\
         [[workload.task]]\nname = 'slow'\ncmd = '{command}'\n"
    );
    std::fs::write(place.dir.join("plan.toml"), plan).unwrap();
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
    let exits =
        |list: &Value| list.as_array().unwrap().iter().map(|one| one["exit"].as_u64().unwrap()).collect::<Vec<_>>();
    assert_eq!((exits(&report["claims"]), exits(&report["gate"]["claims"])), (vec![0, 3], vec![0, 3]));
    assert_eq!((&report["exit"], &report["gate"]["outcome"]), (&3.into(), &"failed".into()));
    assert!(report["gate"]["claims"][1]["lower_bound_ratio"].as_f64().unwrap() > 1.5);
    let why = report["run"]["why"].as_str().unwrap();
    assert!(why.starts_with("the gate fails: slow.elapsed: "), "{why}");
    // The stored run says the same again, and other claims may use the names of the sides too.
    let (failed, _) = place.expect(3, &["report", "--claim", "slow.elapsed: candidate > baseline"]);
    assert!(failed.contains("Gate failed") && failed.contains("slow.elapsed failed: "), "{failed}");
    place.expect(3, &["report", "--format", "junit"]);
}

#[test]
fn a_gate_of_few_rounds_cannot_tell() {
    let place = Place::new();
    let (text, _) = ab(&place, 4, &["--max-slowdown", "2000%", "--max-rounds", "3"]);
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
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
    assert_eq!(lines(&["--max-slowdown", "slow.tps_per_s=5%"]), [format!("slow.tps_per_s: {b} >= {a} within 5%")]);
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
    assert!(said("equal.nosuch_per_s=5%").contains("--metric-regex 'NAME UNIT lower: REGEX'"));
    assert!(said("5 percent").contains("write a percentage"));
    assert!(said("equal elapsed=5%").contains("write it TASK.METRIC=PERCENT"));
    assert!(said("equal.device_share=5%").contains("neither more nor less"));
    let many: Vec<String> = (1..=65).map(|i| format!("slow.elapsed={i}%")).collect();
    let flags: Vec<&str> = many.iter().flat_map(|limit| ["--max-slowdown", limit]).collect();
    assert!(ab(&place, 2, &flags).1.contains("at most 64 claims"));
}

/// A repository whose commits choose the cost of the candidate: the commits up to `bad` sleep as long as the baseline, the
/// others five times as long. The commit `broken` has a command that fails.
fn repository(place: &Place, commits: usize, bad: usize, broken: usize) {
    let git = |args: &[&str]| git(place, args);
    git(&["init", "-q"]);
    for number in 0..commits {
        let cost = if number < bad { "0.01" } else { "0.05" };
        std::fs::write(place.dir.join("repo/cost"), if number == broken { "none" } else { cost }).unwrap();
        std::fs::write(place.dir.join("repo/number"), number.to_string()).unwrap();
        git(&["add", "."]);
        git(&["commit", "-q", "-m", &format!("commit {number}")]);
    }
}

/// Runs git in the repository. Returns what it printed.
fn git(place: &Place, args: &[&str]) -> String {
    let repository = place.dir.join("repo");
    std::fs::create_dir_all(&repository).unwrap();
    let identity = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "init.defaultBranch=main"];
    let mut command = Command::new("git");
    command.args(identity).args(args).current_dir(repository).env("HOME", place.dir.join("home"));
    command.env("FSARENA_STATE_DIR", place.state()).env("FSARENA_RUNS", place.runs());
    let output = command.output().unwrap();
    let (printed, said) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "git {args:?}: {printed}\n{said}");
    printed
}

#[test]
fn git_bisect_finds_the_commit_that_is_slower() {
    if !fsarena_sys::testkit::program("git") {
        return;
    }
    let place = Place::new();
    compare_by(&place, "case $FSARENA_VARIANT in */b) sleep $(cat ../repo/cost);; *) sleep 0.01;; esac; echo tps = 1");
    let plan = place.dir.join("plan.toml");
    let text = std::fs::read_to_string(&plan).unwrap();
    let repository_path = place.dir.join("repo").display().to_string();
    std::fs::write(&plan, text.replace("../repo", &repository_path)).unwrap();
    // Bisecting 0 to 8 tries 4 first, which fails to run and is skipped.
    repository(&place, 9, 6, 4);
    git(&place, &["bisect", "start", "main", "main~8"]);
    let [program, plan, a, b] = [crate::common::program(), plan, place.dir.join("a"), place.dir.join("b")];
    let [a, b] = [a, b].map(|dir| format!("dir={}", dir.display()));
    let (program, plan) = (program.display().to_string(), plan.display().to_string());
    let gate = ["--max-slowdown", "slow.elapsed=100%", "--exit-style", "bisect", "-q"];
    let found = git(&place, &[&["bisect", "run", &program, "ab", &plan, "--a", &a, "--b", &b][..], &gate].concat());
    let first_bad = git(&place, &["rev-parse", "main~2"]);
    assert!(found.contains(&format!("{} is the first bad commit", first_bad.trim())), "{found}");
    assert!(git(&place, &["bisect", "log"]).contains("git bisect skip"), "{found}");
    // A wrong command line is no verdict on a commit.
    for (args, code) in [("ab --exit-style bisect --nonsense", 128), ("ab --nonsense", 2)] {
        let args: Vec<&str> = args.split(' ').collect();
        assert_eq!(place.output(&args).status.code(), Some(code));
    }
}
