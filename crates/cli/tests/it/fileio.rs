//! Study engel through the real binary: the whole matrix of a small subset, the bare device, the three
//! engines, and what is refused.

use crate::common::{Sandbox, runs_as_root};
use serde_json::Value;

/// The plan of the study, with hardly any idle wait.
const PLAN: &str = concat!(
    include_str!("../../../../studies/engel/plan.toml"),
    "\n[idle]\ntimeout = \"20ms\"\ndirty = \"1GiB\"\nio_pressure_percent = 100.0\n"
);
/// Flags that make the cells as small as possible.
const SMALL_CELL_ARGS: [&str; 4] = ["--set", "total_bytes=4194304", "--set", "seconds=0.05"];

/// Runs the study engel with these arguments. Returns its report.
fn run_engel(sandbox: &Sandbox, extra_args: &[&str]) -> Value {
    std::fs::write(sandbox.dir.join("plan.toml"), PLAN).unwrap();
    let mut args = vec!["run", "plan.toml", "--scale", "tiny", "--quiet"];
    args.extend(SMALL_CELL_ARGS);
    args.extend(extra_args);
    sandbox.expect(0, &args);
    let (json, _) = sandbox.expect(0, &["report", "--format", "json"]);
    serde_json::from_str(&json).unwrap()
}

/// The tasks of the only analysis, which is by iops; without mkfs, mount and unmount.
fn workload_tasks(report: &Value) -> Vec<&Value> {
    assert_eq!(report["analyses"][0]["metric"]["id"], "iops");
    let tasks = report["analyses"][0]["tasks"].as_array().unwrap();
    tasks.iter().filter(|task| task["task"]["in_totals"] == true).collect()
}

#[test]
fn engel_measures_its_matrix_on_filesystems_and_the_bare_device() {
    if !runs_as_root() {
        return;
    }
    let sandbox = Sandbox::new();
    let report = run_engel(&sandbox, &["--fs", "ext4,raw", "--bs", "512,4096", "--threads", "1,2"]);
    sandbox.assert_clean();
    assert_eq!(workload_tasks(&report).len(), 4 * 2 * 2, "{:?}", report["analyses"]);
    let (shown, _) = sandbox.expect(0, &["report", "--full"]);
    // A table for each mode: a row for each block size and variant, a column for each number of threads.
    for mode in ["seqrd", "rndrd", "seqwr", "rndwr"] {
        assert!(shown.lines().any(|line| line.trim() == mode), "{shown}");
    }
    for head in ["512 B ext4", "512 B raw", "4 KiB ext4", "4 KiB raw"] {
        let rows = shown.lines().filter(|line| line.trim().starts_with(head));
        assert_eq!(rows.filter(|row| row.split_whitespace().count() >= 5).count(), 4, "{head}\n{shown}");
    }
    // The time series of each load, with at most 61 points for each task.
    let series = sandbox.run_text("series.csv");
    let points_of = |task: &str| series.lines().filter(|line| line.contains(task)).count();
    assert!((2..=2 * 61).contains(&points_of("\"seqrd[bs=4096,threads=2]\"")), "{series}");
    assert_eq!(report["time_series"].as_array().unwrap().len(), 2 * 4 * 2 * 2);
    // The bare device is neither made nor mounted: ext4 is made for the source disk and for its own variant only, the
    // latter again with its inode tables.
    let log = sandbox.run_text("command.log");
    assert_eq!(log.matches(r#"["mkfs.ext4","-F""#).count(), 3, "{log}");
}

#[test]
fn each_engine_gives_a_rate_for_every_mode() {
    if !runs_as_root() {
        return;
    }
    for engine in ["native", "sysbench", "fio"] {
        if engine != "native" && !fsarena_sys::testkit::has_program(engine) {
            continue;
        }
        let sandbox = Sandbox::new();
        let report = run_engel(&sandbox, &["--fs", "ext4", "--bs", "4096", "--threads", "2", "--engine", engine]);
        let rates: Vec<f64> =
            workload_tasks(&report).iter().filter_map(|task| task["variants"][0]["median_per_s"].as_f64()).collect();
        assert!(rates.len() == 4 && rates.iter().all(|rate| *rate > 0.0), "{engine}: {rates:?}");
    }
}

#[test]
fn the_bare_device_takes_only_loads_that_need_no_filesystem() {
    if !runs_as_root() {
        return;
    }
    let sandbox = Sandbox::new();
    let (_, stderr) = sandbox.expect(2, &["run", "plan.toml", "--fs", "ext4,raw"]);
    assert!(stderr.contains("coreutils needs a filesystem"), "{stderr}");
    let (_, stderr) = sandbox.expect(2, &["run", "engel", "--fs", "raw", "--mkfs", "-b 1024"]);
    assert!(stderr.contains("takes no options"), "{stderr}");
    let (_, stderr) = sandbox.expect(2, &["run", "engel", "--engine", "dd"]);
    assert!(stderr.contains("native, sysbench, fio"), "{stderr}");
    sandbox.assert_clean();
}

#[test]
fn the_published_figures_are_shown_as_matrices() {
    let sandbox = Sandbox::new();
    let (shown, _) = sandbox.expect(0, &["show", "published:engel", "--format", "md"]);
    assert!(shown.contains("512 B ext4") && shown.contains("128 threads"), "{shown}");
    // ext4, rndwr, 512 bytes, 4 threads.
    assert!(shown.contains("1,227,643"), "{shown}");
    let (json, _) = sandbox.expect(0, &["show", "published:engel", "--format", "json"]);
    let published: Value = serde_json::from_str(&json).unwrap();
    let figures = published["figures"].as_array().unwrap();
    assert_eq!(figures.len(), 3 * 4 * 6 * 8);
    assert_eq!(figures[0]["params"]["bs"], "16384");
    assert_eq!(figures[0]["iops_per_s"], 4867.0);
}
