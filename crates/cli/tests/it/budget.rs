//! Budgets that are too short: the run reports how many rounds they allow, and the default run uses a smaller scale.

use crate::common::{Sandbox, runs_as_root};

#[test]
fn a_budget_too_short_for_an_answer_is_reported_after_the_first_round() {
    let sandbox = Sandbox::new();
    ["a", "b"].iter().for_each(|dir| std::fs::create_dir(sandbox.dir.join(dir)).unwrap());
    let on = ["run", "--on", "dir:a", "--on", "dir:b", "--budget", "2s", "--", "sleep", "0.3"];
    let (_, stderr) = sandbox.expect(0, &on);
    let warning_line =
        stderr.lines().position(|line| line.contains(" rounds that a first answer requires. For an answer: --budget "));
    let warning_line = warning_line.unwrap_or_else(|| panic!("{stderr}"));
    let second_round_line = stderr.lines().position(|line| line.contains("round 2 done")).unwrap_or(usize::MAX);
    assert!(warning_line < second_round_line, "{stderr}");
    assert!(!stderr.contains("--scale"), "a command has no scale: {stderr}");
    // The report of the stored run has the warning too.
    let (text, _) = sandbox.expect(0, &["report"]);
    let flowed = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let ended = " of the 8 rounds that a first answer requires (remedy: --budget ";
    assert!(flowed.contains("the budget of 2 s held ") && flowed.contains(ended), "{text}");
}

#[test]
fn the_default_run_uses_a_smaller_scale_if_the_machine_is_too_slow() {
    if !runs_as_root() {
        return;
    }
    let sandbox = Sandbox::new();
    // No machine completes ten rounds of this workload in a second.
    let on = ["run", "--workload", "wal", "--fs", "ext2,ext4", "--on", "ram", "--budget", "1s"];
    let (_, stderr) = sandbox.expect(0, &on);
    assert!(stderr.contains("this run uses scale tiny. For the larger work: --scale quick --budget "), "{stderr}");
    assert!(sandbox.run_text("plan.toml").contains("scale = \"tiny\""), "{stderr}");
    let (text, _) = sandbox.expect(0, &["report", "--full", "--format", "md"]);
    assert!(text.contains("this run uses scale tiny"), "{text}");
    assert!(sandbox.run_text("plan.toml").contains("rounds = 400"), "the run has its own budget");
    sandbox.assert_clean();
}

#[test]
fn a_named_scale_or_plan_is_kept() {
    if !runs_as_root() {
        return;
    }
    let sandbox = Sandbox::new();
    for more in [&["--scale", "quick"][..], &["piszcz"], &["--dry-run"]] {
        let line = [&["run", "--fs", "ext4", "--dry-run"], more].concat();
        let (printed, stderr) = sandbox.expect(0, &line[..line.len() - usize::from(more == ["--dry-run"])]);
        assert!(printed.contains("scale = \"quick\"") && !stderr.contains("to choose the scale"), "{stderr}");
    }
}
