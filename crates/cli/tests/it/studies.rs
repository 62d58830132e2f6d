//! The plans of the studies, their conclusions, and their published figures.

use crate::common::{Sandbox, runs_as_root};
use serde_json::Value;

fn expect_json(sandbox: &Sandbox, args: &[&str]) -> Value {
    let (text, _) = sandbox.expect(0, &[args, &["--format", "json"]].concat());
    serde_json::from_str(&text).unwrap()
}

#[test]
fn the_answer_of_wilton_has_the_ratios_of_its_table() {
    let sandbox = Sandbox::new();
    let (text, _) = sandbox.expect(0, &["compare", "published:wilton"]);
    let answer = text.split("Answer").nth(1).unwrap().split_whitespace().collect::<Vec<_>>().join(" ");
    // The table "Sample by sample" has their inverses, such as 2.23 and 2.60.
    let expected = "- xfs is lower than all 3 others by iowait per request: 0.419 [0.257–0.543] times reiserfs, \
                0.449 [0.232–0.632] times ext3, 0.384 [0.213–0.508] times jfs. - No two services differ \
                significantly by user per request or system per request";
    assert!(answer.starts_with(expected), "{answer}");
    let compared = expect_json(&sandbox, &["compare", "published:wilton"]);
    assert_eq!(compared["paired"][0]["samples"], 10, "a daily average does not count as a sample");
    let shown = expect_json(&sandbox, &["show", "published:wilton"]);
    assert_eq!(compared["conclusions"], shown["conclusions"]);
}

/// The resolved plan of a study.
fn resolve_plan(sandbox: &Sandbox, args: &[&str]) -> String {
    sandbox.expect(0, &[&["run", "--dry-run"], args].concat()).0
}

#[test]
fn conclusions_of_gus3_apply_to_the_variants_with_the_full_cpu_speed() {
    if !runs_as_root() {
        return;
    }
    let sandbox = Sandbox::new();
    let plan =
        resolve_plan(&sandbox, &["gus3", "--fs", "ext2,ext4", "--options", "default", "--factor", "cpu_speed=,50%"]);
    // Two filesystems, four schedulers and two speeds.
    assert!(plan.contains("# 16 variants: ext2/none/plain, ext2/none/50%"), "{plan}");
    // One stage of the study, without idle wait.
    let plan = "name = \"gus3\"\n[factors]\nfs = [\"ext2\", \"ext4\"]\ncpu_speed = [\"\", \"50%\"]\n[stop]\n\
                rounds = 1\n[idle]\ntimeout = \"1ms\"\n[[workload]]\nuse = \"dbench-like\"\nclients = 5\n\
                seconds = 0.1\n[[stage]]\nname = \"saturation\"\n";
    std::fs::write(sandbox.dir.join("plan.toml"), plan).unwrap();
    sandbox.expect(0, &["run", "plan.toml", "--quiet", "--scale", "tiny"]);
    sandbox.assert_clean();
    let report = expect_json(&sandbox, &["report", "latest"]);
    let variants = report["variants"].to_string();
    assert!(["ext2/plain", "ext2/50%"].iter().all(|name| variants.contains(name)), "{variants}");
    let mut conclusions = report["conclusions"].as_array().unwrap().iter();
    let first = conclusions.find(|conclusion| conclusion["says"].as_str().unwrap().contains("ext2 is first")).unwrap();
    // Of the six other filesystems of the conclusion, only ext4 was measured.
    assert_eq!((&first["here"]["checked"], &first["here"]["of"]), (&1.into(), &6.into()), "{first:#}");
}

#[test]
fn peiffer_compares_ext4_without_and_with_extents_as_before_and_after() {
    if !runs_as_root() {
        return;
    }
    let sandbox = Sandbox::new();
    for (args, variants) in [
        (&["peiffer"][..], "# 2 variants: before, after\n"),
        (&["peiffer", "--factor", "memory=,64MiB"], "before/plain, before/64MiB, after/plain, after/64MiB\n"),
        (&["peiffer", "--fs", "ext2,ext4"], "# 2 variants: ext2, ext4\n"),
    ] {
        let plan = resolve_plan(&sandbox, args);
        assert!(plan.contains(variants), "{plan}");
    }
    assert!(resolve_plan(&sandbox, &["peiffer", "--scale", "paper"]).contains("rounds = 100\n"));
    for dir in ["one", "two"] {
        std::fs::create_dir(sandbox.dir.join(dir)).unwrap();
        std::fs::write(sandbox.dir.join(dir).join(dir), dir).unwrap();
    }
    let trees = ["--tree", "one", "--tree", "two"];
    let run = ["run", "peiffer", "--quiet", "--scale", "tiny", "--rounds", "1", "--set", "driver=native"];
    sandbox.expect(0, &[&run[..], &trees].concat());
    sandbox.assert_clean();
    let report = expect_json(&sandbox, &["report", "latest"]);
    assert!(report.to_string().contains("/one and "), "{report:#}");
    let has_extents = |name: &str| {
        let text = sandbox.run_text("report.md");
        let line = text.lines().find(|line| line.starts_with(&format!("| {name} | mkfs | ")));
        line.unwrap_or_else(|| panic!("{text}")).contains("extent")
    };
    assert!(has_extents("before") && has_extents("after"));
    let compared = expect_json(&sandbox, &["compare", "latest", "published:peiffer-1"]);
    assert_eq!(compared["tasks"][0]["variants"], serde_json::json!(["before", "after"]));

    let shown = expect_json(&sandbox, &["show", "published:peiffer-2"]);
    let differences: Vec<&Value> = shown["figures"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|figure| figure.get("system_difference_percent"))
        .collect();
    assert_eq!(differences, [-0.14, 0.0]);
}

#[test]
fn two_other_variants_are_matched_to_the_published_ones_by_position() {
    if !runs_as_root() {
        return;
    }
    let sandbox = Sandbox::new();
    let line = "ab peiffer --quiet --scale tiny --rounds 1 --set driver=native --a fs=ext2 --b fs=ext4";
    sandbox.expect(4, &line.split_whitespace().collect::<Vec<_>>());
    let (text, _) = sandbox.expect(0, &["compare", "latest", "published:peiffer-1"]);
    assert!(text.contains("Matched to the published variants by position: ext2 as before, ext4 as after."), "{text}");
}

#[test]
fn a_comparison_of_two_published_sets_reports_changes_of_the_order() {
    let sandbox = Sandbox::new();
    let args = ["compare", "published:piszcz-I", "published:piszcz-II"];
    let compared = expect_json(&sandbox, &args);
    let answer: Vec<&str> = compared["answer"].as_array().unwrap().iter().map(|line| line.as_str().unwrap()).collect();
    // Sums of the published figures: xfs 288.87 s and 358.31 s, jfs 322.09 s and 288.56 s.
    let expected = "The order over all 21 tasks changed from piszcz-I to piszcz-II: xfs was first in piszcz-I, jfs in \
                piszcz-II; the best filesystem differs in 13 of the tasks.";
    assert_eq!(answer[0], expected);
    assert!(answer.iter().any(|line| line.starts_with("xfs: 1.24 times the total; lower in 4 of 21")), "{answer:#?}");
    assert_eq!(*answer.last().unwrap(), "Not compared, only in piszcz-II: reiser4.");
    assert_eq!(compared["tasks"].as_array().unwrap().len(), 21);
    let (text, _) = sandbox.expect(0, &args);
    assert!(text.contains("Dell Optiplex GX1") && text.contains("first in piszcz-II"), "{text}");
    let (_, stderr) = sandbox.expect(2, &["compare", "published:piszcz-I", "published:engel"]);
    assert!(stderr.contains("Unknown metric `elapsed`"), "{stderr}");
    let (_, stderr) = sandbox.expect(2, &["compare", "published:piszcz-I", "published:peiffer-1"]);
    assert!(stderr.contains("no two variants in common"), "{stderr}");
}

#[test]
fn figures_outside_the_tasks_have_their_kind_and_are_in_no_total() {
    let sandbox = Sandbox::new();
    let shown = expect_json(&sandbox, &["show", "published:piszcz-II"]);
    let mkfs = shown["figures"].as_array().unwrap().iter().find(|figure| figure["task"] == "mkfs").unwrap();
    assert_eq!((&mkfs["elapsed_s"], &mkfs["kind"]), (&2.62.into(), &"stated".into()));
    assert_eq!(shown["machine"]["memory"], "768 MB");
    assert!((shown["totals"]["elapsed_s"]["ext2"].as_f64().unwrap() - 359.81).abs() < 1e-9);
    let (text, _) = sandbox.expect(0, &["show", "published:piszcz-II"]);
    assert!(text.contains("2.62 s (stated)") && text.contains("TOTAL of 21 tasks"), "{text}");
}

#[test]
fn wilton_at_scale_paper_has_the_published_settings() {
    let sandbox = Sandbox::new();
    let args = "wilton --scale paper --on dir:home --set cache_bytes=1048576";
    let plan = resolve_plan(&sandbox, &args.split_whitespace().collect::<Vec<_>>());
    assert!(plan.contains("rates = [14, 30, 60]") && plan.contains("rounds = 10"), "{plan}");
    if !runs_as_root() {
        return;
    }
    let args = ["wilton", "--fs", "ext3,ext4", "--set", "cache_bytes=1048576"];
    let paper_plan = resolve_plan(&sandbox, &[&args[..], &["--scale", "paper"]].concat());
    assert_eq!(paper_plan.matches("memory = \"512MiB\"").count(), 2, "{paper_plan}");
    let overridden_plan =
        resolve_plan(&sandbox, &[&args[..], &["--scale", "paper", "--factor", "memory=,1GiB"]].concat());
    assert!(overridden_plan.contains("ext3/plain, ext3/1GiB, ext4/plain, ext4/1GiB"), "{overridden_plan}");
    assert!(!resolve_plan(&sandbox, &args).contains("memory = "));
    // Conclusions name the middle rate of each scale, and a run has one of them.
    let shown = expect_json(&sandbox, &["show", "wilton"]);
    let claims = shown["plan"]["conclusion"][0]["claims"].to_string();
    assert!(claims.contains("iowait_per_request[rate=30|400|2000]"), "{claims}");
    let run = "run wilton --quiet --on ram --scale tiny --fs ext3,ext4 --set rates=30 --rounds 1 --claim";
    let claim = "iowait_per_request[rate=30|400|2000]: ext3 < ext4";
    sandbox.expect(4, &[&run.split_whitespace().collect::<Vec<_>>()[..], &[claim]].concat());
    let shown = expect_json(&sandbox, &["show", "published:wilton"]);
    assert_eq!(shown["conclusions"][0]["then"]["outcome"], "held");
}
