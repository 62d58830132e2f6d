//! What a run does where its time is short: it says what the budget does not hold, and the default run works at a smaller
//! scale.

use crate::common::{Place, root};

#[test]
fn a_budget_too_short_for_an_answer_is_reported_after_the_first_round() {
    let place = Place::new();
    ["a", "b"].iter().for_each(|dir| std::fs::create_dir(place.dir.join(dir)).unwrap());
    let on = ["run", "--on", "dir:a", "--on", "dir:b", "--budget", "2s", "--", "sleep", "0.3"];
    let (_, said) = place.expect(0, &on);
    let told =
        said.lines().position(|line| line.contains(" rounds that a first answer requires. For an answer: --budget "));
    let told = told.unwrap_or_else(|| panic!("{said}"));
    let second = said.lines().position(|line| line.contains("round 2 done")).unwrap_or(usize::MAX);
    assert!(told < second, "{said}");
    assert!(!said.contains("--scale"), "a command has no scale: {said}");
    // What came of it stays with the run, on the screen too.
    let (text, _) = place.expect(0, &["report"]);
    let flowed = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let ended = " of the 8 rounds that a first answer requires (remedy: --budget ";
    assert!(flowed.contains("the budget of 2 s held ") && flowed.contains(ended), "{text}");
}

#[test]
fn the_default_run_works_at_a_smaller_scale_where_the_machine_is_too_slow() {
    if !root() {
        return;
    }
    let place = Place::new();
    // No machine does ten rounds of it in a second.
    let on = ["run", "--workload", "wal", "--fs", "ext2,ext4", "--on", "ram", "--budget", "1s"];
    let (_, said) = place.expect(0, &on);
    assert!(said.contains("this run uses scale tiny. For the larger work: --scale quick --budget "), "{said}");
    assert!(place.run_text("plan.toml").contains("scale = \"tiny\""), "{said}");
    let (text, _) = place.expect(0, &["report", "--full", "--format", "md"]);
    assert!(text.contains("this run uses scale tiny"), "{text}");
    assert!(place.run_text("plan.toml").contains("rounds = 400"), "a budget of one's own");
    place.assert_clean();
}

#[test]
fn who_names_a_scale_or_a_plan_gets_it() {
    if !root() {
        return;
    }
    let place = Place::new();
    for more in [&["--scale", "quick"][..], &["piszcz"], &["--dry-run"]] {
        let line = [&["run", "--fs", "ext4", "--dry-run"], more].concat();
        let (printed, said) = place.expect(0, &line[..line.len() - usize::from(more == ["--dry-run"])]);
        assert!(printed.contains("scale = \"quick\"") && !said.contains("to choose the scale"), "{said}");
    }
}
