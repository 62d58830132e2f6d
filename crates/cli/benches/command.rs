//! Measures the overhead of a task of the workload `command`, compared with hyperfine, on the program `true`.
//!
//! `cargo bench -p fsarena --bench command`. Prints medians and ratios of alternating pairs; asserts nothing.

use serde_json::Value;
use std::process::{Command, Stdio};
use std::{path::Path, time::Instant};

/// Number of pairs of a run of fsarena and a run of hyperfine.
const PAIR_COUNT: usize = 10;
/// Number of times that `true` runs in each run.
const TASK_COUNT: usize = 100;

fn main() {
    if Command::new("hyperfine").arg("--version").stdout(Stdio::null()).status().is_err() {
        println!("command: skipped, hyperfine is not installed");
        return;
    }
    let dir = tempfile::tempdir_in("/dev/shm").expect("a directory");
    let tasks: String =
        (0..TASK_COUNT).map(|n| format!("[[workload.task]]\nname = \"t{n}\"\nrun = [\"true\"]\n")).collect();
    let plan = format!(
        "name = \"true\"\n[stop]\nrounds = 1\n[idle]\ntimeout = \"1ms\"\ndirty = \"1TiB\"\nio_pressure_percent = 100.0\n\
         [[workload]]\nuse = \"command\"\nroom = \"1MiB\"\n{tasks}"
    );
    std::fs::write(dir.path().join("plan.toml"), plan).expect("the plan is written");
    let mut pairs: Vec<[[f64; 2]; 2]> = vec![];
    for _ in 0..PAIR_COUNT {
        pairs.push([measure_fsarena(dir.path()), measure_hyperfine(dir.path())]);
    }
    println!("{:<44} {:>10} {:>10} {:>8}", "ms a task, of `true`", "fsarena", "hyperfine", "ratio");
    for (index, title) in ["measured, median of the tasks", "whole run, without idle wait"].iter().enumerate() {
        let fsarena_s = median(pairs.iter().map(|[fsarena, _]| fsarena[index]).collect());
        let hyperfine_s = median(pairs.iter().map(|[_, hyperfine]| hyperfine[index]).collect());
        let ratio = median(pairs.iter().map(|[fsarena, hyperfine]| fsarena[index] / hyperfine[index]).collect());
        println!("{title:<44} {:>10.2} {:>10.2} {ratio:>8.2}", fsarena_s * 1e3, hyperfine_s * 1e3);
    }
    let overhead_s = median(pairs.iter().map(|[fsarena, _]| fsarena[1] - fsarena[0]).collect());
    println!("{:<44} {:>10.2}   (to stay under 5)", "beyond the process", overhead_s * 1e3);
}

/// Returns the median of the recorded times of the tasks, and the time of the whole cell without idle wait divided by the
/// number of tasks, in seconds.
fn measure_fsarena(dir: &Path) -> [f64; 2] {
    let mut run = Command::new(env!("CARGO_BIN_EXE_fsarena"));
    run.args(["run", "plan.toml", "--on", "dir:.", "--quiet"]).current_dir(dir).stdout(Stdio::null());
    run.env("FSARENA_STATE_DIR", dir.join("state")).env("FSARENA_RUNS", dir.join("runs"));
    assert!(run.status().is_ok_and(|status| status.success()), "the run failed");
    let mut report = Command::new(env!("CARGO_BIN_EXE_fsarena"));
    report.args(["report", "latest", "--format", "json"]).env("FSARENA_RUNS", dir.join("runs"));
    let report: Value = serde_json::from_slice(&report.output().expect("a report").stdout).expect("JSON");
    let tasks = report["analyses"][0]["tasks"].as_array().expect("tasks");
    let task_medians_s = tasks.iter().filter_map(|task| task["variants"][0]["median_s"].as_f64()).collect();
    // [["total", ns], ["idle", ns], …]
    let spent = report["cells"][0]["spent"].as_array().expect("times of the cell");
    let spent_s = |phase: &str| {
        let entry = spent.iter().find(|entry| entry[0] == phase);
        entry.and_then(|entry| entry[1].as_f64()).unwrap_or(0.0) / 1e9
    };
    [median(task_medians_s), (spent_s("total") - spent_s("idle")) / TASK_COUNT as f64]
}

/// Returns the median of the times that hyperfine measures, and its whole time divided by the number of runs of `true`, in
/// seconds.
fn measure_hyperfine(dir: &Path) -> [f64; 2] {
    let runs = TASK_COUNT.to_string();
    let mut run = Command::new("hyperfine");
    run.args(["--shell=none", "--style=none", "--runs", &runs, "--export-json", "h.json", "true"]);
    let begun = Instant::now();
    assert!(run.current_dir(dir).stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok());
    let whole_s = begun.elapsed().as_secs_f64();
    let json: Value = serde_json::from_slice(&std::fs::read(dir.join("h.json")).expect("a result")).expect("JSON");
    [json["results"][0]["median"].as_f64().expect("a median"), whole_s / TASK_COUNT as f64]
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
