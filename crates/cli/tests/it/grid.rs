//! Scale grids through the real binary: `--grid`, plans with grids, and the study of many files.

use crate::common::Sandbox;

/// Runs a command that must succeed. Returns its JSON.
fn run_for_json(sandbox: &Sandbox, args: &[&str]) -> serde_json::Value {
    serde_json::from_str(&sandbox.expect(0, &[args, &["--format", "json"]].concat()).0).unwrap()
}

#[test]
fn every_value_of_a_grid_is_a_cell_with_its_own_tasks_and_the_growth_is_analysed() {
    let sandbox = Sandbox::new();
    for dir in ["a", "b"] {
        std::fs::create_dir(sandbox.dir.join(dir)).unwrap();
    }
    let work = ["run", "plan.toml", "--workload", "many-files", "--on", "dir:a", "--on", "dir:b", "--scale", "tiny"];
    let grid = ["--grid", "files=20,60,200,600", "--set", "top_directories=2"];
    let claim = ["--claim", "create.elapsed[files=600]: {dir} > read.elapsed[files=20]"];
    let dir = sandbox.dir.join("a").display().to_string();
    let claim = [claim[0].to_string(), claim[1].replace("{dir}", &format!("\"{dir}\""))];
    let claim: Vec<&str> = claim.iter().map(String::as_str).collect();
    sandbox.expect(0, &[&work[..], &grid, &["--rounds", "1"]].concat());
    // One round cannot decide a claim about two values of the grid.
    sandbox.expect(4, &[&["report", "latest", "--format", "json"], &claim[..]].concat());

    let rows = sandbox.rows("latest");
    let count_rows = |task: &str| rows.iter().filter(|(_, _, name)| name == task).count();
    assert_eq!(
        (count_rows("\"create[files=20]\"").max(count_rows("create[files=20]")), rows.len()),
        (2, 2 * 4 * 2),
        "{rows:?}"
    );

    let page = run_for_json(&sandbox, &["analyse", "latest"]);
    assert_eq!((page["over"].as_str(), page["quantity"].as_str()), (Some("files"), Some("elapsed / files")));
    let series = page["series"].as_array().unwrap();
    assert_eq!(series.len(), 4);
    assert!(series.iter().all(|curve| curve["points"].as_array().unwrap().len() == 4), "{page:#}");
    let space = run_for_json(&sandbox, &["analyse", "latest", "--metric", "written_bytes"]);
    let written = space["series"][0]["points"][3]["values"][0].as_f64().unwrap();
    assert!((4000.0..7000.0).contains(&written), "{space:#}");
    let (report, _) = sandbox.expect(0, &["report", "latest", "--format", "md"]);
    assert!(report.contains("How elapsed / files grows with files"), "{report}");

    // The stored plan has the workload at every value, and can be run again.
    let plan = sandbox.run_file("plan.toml").unwrap();
    let dry_run = |extra_args: &[&str]| {
        sandbox.expect(0, &[&["run", plan.to_str().unwrap(), "--dry-run"], extra_args].concat()).0
    };
    let again = dry_run(&[]);
    assert_eq!(again.matches("grid = [\"files\"]").count(), 4, "{again}");
    assert_eq!(dry_run(&["--grid", "files=7,9"]).matches("grid = [\"files\"]").count(), 2);
}

#[test]
fn a_command_finds_the_amount_of_a_grid() {
    let sandbox = Sandbox::new();
    std::fs::create_dir(sandbox.dir.join("a")).unwrap();
    let command = "case $FSARENA_AMOUNT in 3|30) seq $FSARENA_AMOUNT | xargs touch;; *) exit 1;; esac";
    let run = ["run", "--on", "dir:a", "--rounds", "1", "--grid", "amount=3,30", "--name", "work", "--cmd", command];
    let (_, stderr) = sandbox.expect(0, &run);
    assert!(stderr.contains("2 tasks in 2 cells for each variant"), "{stderr}");
    let tasks: Vec<String> = sandbox.rows("latest").into_iter().map(|(_, _, task)| task).collect();
    assert!(tasks.iter().any(|task| task.contains("work[amount=30]")), "{tasks:?}");
}

#[test]
fn grids_that_the_workload_does_not_support_are_refused() {
    let sandbox = Sandbox::new();
    let work = ["run", "plan.toml", "--workload", "many-files", "--on", "dir:.", "--dry-run"];
    for (extra_args, why) in [
        (&["--grid", "files=9..1"][..], "ascending"),
        (&["--grid", "flies=1..9"], "Did you mean `files`"),
        (&["--grid", "files=1e9..1e10"], "a whole number from 0 to"),
        (&["--grid", "files"], "NAME=FROM..TO"),
    ] {
        let (_, stderr) = sandbox.expect(2, &[&work[..], extra_args].concat());
        assert!(stderr.contains(why), "{extra_args:?}: {stderr}");
    }
    // A setting that is a list has one task for each value already.
    let list = ["run", "plan.toml", "--workload", "fileio", "--grid", "threads=1..16/3", "--on", "dir:.", "--dry-run"];
    let (plan, _) = sandbox.expect(0, &list);
    assert!(plan.contains("threads = [") && !plan.contains("grid = "), "{plan}");
}

#[test]
fn the_study_of_many_files_has_the_published_sizes_and_figures() {
    let sandbox = Sandbox::new();
    let dry = |scale: &str| {
        sandbox.expect(0, &["run", "shaikh", "--stage", "sizes", "--scale", scale, "--dry-run", "--on", "dir:."]).0
    };
    assert!(dry("quick").contains("files = 200000"), "{}", dry("quick"));
    let conclusions = run_for_json(&sandbox, &["show", "published:shaikh-files"])["conclusions"].clone();
    let outcome = |text: &str| {
        let mut rows = conclusions.as_array().unwrap().iter();
        let conclusion = rows.find(|row| row["says"].as_str().unwrap().contains(text));
        conclusion.unwrap_or_else(|| panic!("{conclusions:#}"))["then"]["outcome"].clone()
    };
    assert_eq!(outcome("degrades"), "held");
    assert_eq!(outcome("higher throughput than ext4"), "refuted");
    let (text, _) = sandbox.expect(0, &["analyse", "published:shaikh-files"]);
    assert!(text.contains("do not exclude one"), "{text}");
}
