//! `fsarena ab --max-slowdown`: a gate passes, fails, or is inconclusive.

use crate::common::{Sandbox, text};
use serde_json::Value;
use std::process::Command;

/// Compares the directories `a` and `b`: every task sleeps for 0.01 s, only `slow` in `b` for 0.05 s. Expects this exit
/// code.
fn expect_ab(sandbox: &Sandbox, code: i32, extra_args: &[&str]) -> (String, String) {
    make_plan(sandbox, "case $FSARENA_VARIANT in */b) sleep 0.05;; *) sleep 0.01;; esac; echo tps = 100");
    let args = ["ab", "plan.toml", "--a", "dir=a", "--b", "dir=b", "-q"];
    sandbox.expect(code, &[&args[..], extra_args].concat())
}

/// Makes the directories `a` and `b`, and a plan with the tasks `equal`, which sleeps, and `slow`, which is this command.
fn make_plan(sandbox: &Sandbox, command: &str) {
    for name in ["a", "b"] {
        std::fs::create_dir_all(sandbox.dir.join(name)).unwrap();
    }
    let plan = format!(
        "name = 'gate'\ntitle = 'A gate'\nquestion = 'Too slow?'\n[idle]\ntimeout = '50ms'\ndirty = '1GiB'\n\
         io_pressure_percent = 100.0\n[[workload]]\nuse = 'command'\n\
         metric_regex = ['tps per_s higher: tps = ([0-9.]+)']\n\
         [[workload.task]]\nname = 'equal'\ncmd = 'sleep 0.01; echo tps = 1'\n\
         [[workload.task]]\nname = 'slow'\ncmd = '{command}'\n"
    );
    std::fs::write(sandbox.dir.join("plan.toml"), plan).unwrap();
}

#[test]
fn a_gate_passes_or_fails_by_the_margins_of_its_tasks() {
    let sandbox = Sandbox::new();
    let (passed, _) = expect_ab(&sandbox, 0, &["--max-slowdown", "2000%"]);
    assert!(passed.contains("Gate passed") && passed.contains("total.elapsed passed: "), "{passed}");
    // The baseline leads: the claim names the directories.
    let (json, _) = sandbox.expect(0, &["report", "--format", "json"]);
    let report: Value = serde_json::from_str(&json).unwrap();
    let claim = report["claims"][0]["claim"].as_str().unwrap();
    let [a, b] = ["a", "b"].map(|name| sandbox.dir.join(name).display().to_string());
    assert_eq!(claim, format!("total.elapsed: {b} <= {a} within 2000%"));
    assert!(report["gate"]["claims"][0]["upper_bound_ratio"].as_f64().unwrap() < 21.0);

    // The total may take 21 times as long, which it does not. The task `slow` may take 1.5 times as long, and takes 5 times.
    let two_limits = ["--max-slowdown", "2000%", "--max-slowdown", "slow.elapsed=50%", "--format", "json"];
    let (json, _) = expect_ab(&sandbox, 3, &two_limits);
    let report: Value = serde_json::from_str(&json).unwrap();
    let exits = |claims: &Value| {
        claims.as_array().unwrap().iter().map(|claim| claim["exit"].as_u64().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!((exits(&report["claims"]), exits(&report["gate"]["claims"])), (vec![0, 3], vec![0, 3]));
    assert_eq!((&report["exit"], &report["gate"]["outcome"]), (&3.into(), &"failed".into()));
    assert!(report["gate"]["claims"][1]["lower_bound_ratio"].as_f64().unwrap() > 1.5);
    let why = report["run"]["why"].as_str().unwrap();
    assert!(why.starts_with("the gate fails: slow.elapsed: "), "{why}");
    // The report of the stored run fails too. Other claims may also use the names `baseline` and `candidate`.
    let (failed, _) = sandbox.expect(3, &["report", "--claim", "slow.elapsed: candidate > baseline"]);
    assert!(failed.contains("Gate failed") && failed.contains("slow.elapsed failed: "), "{failed}");
    sandbox.expect(3, &["report", "--format", "junit"]);
}

#[test]
fn a_gate_of_few_rounds_is_inconclusive() {
    let sandbox = Sandbox::new();
    let (text, _) = expect_ab(&sandbox, 4, &["--max-slowdown", "2000%", "--max-rounds", "3"]);
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        text.contains("Gate inconclusive") && text.contains("an equal candidate passes in about 8 rounds"),
        "{text}"
    );
}

#[test]
fn limits_become_claims_in_the_direction_that_is_worse() {
    let sandbox = Sandbox::new();
    let claims_of_plan = |args: &[&str]| -> Vec<String> {
        let (text, _) = expect_ab(&sandbox, 0, &[args, &["--dry-run"]].concat());
        assert!(text.lines().any(|line| line == "gate = true"), "{text}");
        text.lines().filter_map(|line| line.strip_prefix("# claim: ").map(String::from)).collect()
    };
    let [a, b] = ["a", "b"].map(|name| sandbox.dir.join(name).display().to_string());
    assert_eq!(
        claims_of_plan(&["--max-slowdown", "slow.tps_per_s=5%"]),
        [format!("slow.tps_per_s: {b} >= {a} within 5%")]
    );
    assert_eq!(
        claims_of_plan(&["--metric", "synced", "--max-slowdown", "0.5%"]),
        [format!("total.synced: {b} <= {a} within 0.5%")]
    );
    let limits: Vec<String> = (1..=100).map(|percent| format!("slow.elapsed={percent}%")).collect();
    let flags: Vec<&str> = limits.iter().flat_map(|limit| ["--max-slowdown", limit]).collect();
    assert_eq!(claims_of_plan(&flags).len(), 100);
    let with_claim = claims_of_plan(&["--claim", "slow.elapsed: candidate > baseline", "--max-slowdown", "1%"]);
    assert_eq!(with_claim[0], format!("slow.elapsed: {b} > {a}"));
    assert_eq!(with_claim.len(), 2);
}

#[test]
fn limits_of_unknown_quantities_are_usage_errors() {
    let sandbox = Sandbox::new();
    let refusal = |limit: &str| expect_ab(&sandbox, 2, &["--max-slowdown", limit]).1;
    assert!(refusal("equl.elapsed=5%").contains("Did you mean `equal`?"));
    assert!(refusal("equal.nosuch_per_s=5%").contains("--metric-regex 'NAME UNIT lower: REGEX'"));
    assert!(refusal("5 percent").contains("write a percentage"));
    assert!(refusal("equal elapsed=5%").contains("write it TASK.METRIC=PERCENT"));
    assert!(refusal("equal.device_share=5%").contains("neither more nor less"));
}

/// Makes a repository whose commits hold the duration of the task `slow`: before the commit `first_bad` that of the
/// baseline, from it on five times as much. The commit `broken` makes the task fail.
fn make_repository(sandbox: &Sandbox, commit_count: usize, first_bad: usize, broken: usize) {
    git(sandbox, &["init", "-q"]);
    for number in 0..commit_count {
        let seconds = if number < first_bad { "0.01" } else { "0.05" };
        std::fs::write(sandbox.dir.join("repo/cost"), if number == broken { "none" } else { seconds }).unwrap();
        std::fs::write(sandbox.dir.join("repo/number"), number.to_string()).unwrap();
        git(sandbox, &["add", "."]);
        git(sandbox, &["commit", "-q", "-m", &format!("commit {number}")]);
    }
}

/// Runs git in the repository, and returns its output.
fn git(sandbox: &Sandbox, args: &[&str]) -> String {
    let repository = sandbox.dir.join("repo");
    std::fs::create_dir_all(&repository).unwrap();
    let identity = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "init.defaultBranch=main"];
    let mut command = Command::new("git");
    command.args(identity).args(args).current_dir(repository).env("HOME", sandbox.dir.join("home"));
    command.env("FSARENA_STATE_DIR", sandbox.state_dir()).env("FSARENA_RUNS", sandbox.runs_dir());
    let output = command.output().unwrap();
    let (printed, stderr) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "git {args:?}: {printed}\n{stderr}");
    printed
}

#[test]
fn git_bisect_finds_the_first_slow_commit() {
    if !fsarena_sys::testkit::has_program("git") {
        return;
    }
    let sandbox = Sandbox::new();
    make_plan(&sandbox, "case $FSARENA_VARIANT in */b) sleep $(cat ../repo/cost);; *) sleep 0.01;; esac; echo tps = 1");
    let plan = sandbox.dir.join("plan.toml");
    let text = std::fs::read_to_string(&plan).unwrap();
    let repository_path = sandbox.dir.join("repo").display().to_string();
    std::fs::write(&plan, text.replace("../repo", &repository_path)).unwrap();
    // Bisecting 0 to 8 tries 4 first, which fails to run and is skipped.
    make_repository(&sandbox, 9, 6, 4);
    git(&sandbox, &["bisect", "start", "main", "main~8"]);
    let [program, plan, a, b] = [crate::common::program(), plan, sandbox.dir.join("a"), sandbox.dir.join("b")];
    let [a, b] = [a, b].map(|dir| format!("dir={}", dir.display()));
    let (program, plan) = (program.display().to_string(), plan.display().to_string());
    let gate = ["--max-slowdown", "slow.elapsed=100%", "--exit-style", "bisect", "-q"];
    let output = git(&sandbox, &[&["bisect", "run", &program, "ab", &plan, "--a", &a, "--b", &b][..], &gate].concat());
    let first_bad = git(&sandbox, &["rev-parse", "main~2"]);
    assert!(output.contains(&format!("{} is the first bad commit", first_bad.trim())), "{output}");
    assert!(git(&sandbox, &["bisect", "log"]).contains("git bisect skip"), "{output}");
    // A wrong command line is no verdict on a commit.
    for (args, code) in [("ab --exit-style bisect --nonsense", 128), ("ab --nonsense", 2)] {
        let args: Vec<&str> = args.split(' ').collect();
        assert_eq!(sandbox.output(&args).status.code(), Some(code));
    }
}
