//! Measures the costs of fsarena itself: start-up, reports of large runs, merges, and the time of a run outside its
//! measurements.
//!
//! `cargo bench -p fsarena`. Prints figures and ratios to other programs measured in the same run; asserts nothing.

#[allow(dead_code)] // the console is for tests
#[path = "../../tests/it/browser/driver.rs"]
mod driver;
mod page;
#[path = "../../tests/it/browser/window.rs"]
mod window;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

const FSARENA: &str = env!("CARGO_BIN_EXE_fsarena");
const ROWS: &str = "1000000";
/// A million samples, each with all 21 readings that the run took of a task: 400 rounds, after which every run has
/// decided, of 5 variants with 500 tasks, as many as a full matrix of block sizes and threads has.
const SAMPLES: [&str; 2] = ["21000000", "500"];
const VAST: [&str; 1] = ["10000000"];
/// Ten million samples with five readings each, of 1,000 shards of one round.
const SHARDS: [&str; 3] = ["50000000", "2000", "1000"];

/// A Python program for comparison: it reads every row of the database and does nothing else.
const READ_ALL: &str = "import sqlite3, sys
n = 0
for (value,) in sqlite3.connect(sys.argv[1]).execute('select value from value'):
    n += 1
print(n)";

fn main() {
    let dir = tempfile::tempdir().expect("a directory for the runs");
    println!("{:<44} {:>10} {:>10} {:>8}", "", "fsarena", "peer", "ratio");
    start_up();
    large_report(dir.path());
    vast_report(dir.path(), "1,000,000 samples", &SAMPLES);
    vast_report(dir.path(), "10,000,000 rows", &VAST);
    merge(dir.path());
    overhead(dir.path());
}

/// Compares the start-up with that of `true`.
fn start_up() {
    let (ours, peer) = pair(20, &mut || command(FSARENA, &["--help"]), &mut || command("true", &[]));
    row("fsarena --help / true, ms", ours * 1e3, peer * 1e3);
}

/// Compares reports with Python's sqlite3, which reads the same rows without analysing them.
fn large_report(dir: &Path) {
    let run = big_run(dir, &[ROWS]);
    for format in ["term", "md", "csv", "html"] {
        let mut report = || report(&run, format);
        let (ours, peer) = pair(5, &mut report, &mut || read_all(&run));
        row(&format!("report of {ROWS} rows, {format} / python reads, s"), ours, peer);
    }
    for format in ["term", "html"] {
        let peak = peak_memory_mb(report(&run, format));
        println!("{:<44} {peak:>10.1}", format!("peak memory of that report, {format}, MB"));
    }
    page::first_paint(&page::write(dir, &run));
}

/// Measures a report of a very large run, as of weeks of measuring or from a foreign database.
fn vast_report(dir: &Path, what: &str, size: &[&str]) {
    let run = big_run(dir, size);
    let (ours, peer) = pair(5, &mut || report(&run, "html"), &mut || read_all(&run));
    row(&format!("report of {what}, html / python reads, s"), ours, peer);
    let peak = peak_memory_mb(report(&run, "html"));
    println!("{:<44} {peak:>10.1}", "peak memory of that report, MB");
    page::first_paint(&page::write(dir, &run));
}

/// Measures the merge of 1,000 shards: first of all but one, which only merges, then of the last, which also reports.
fn merge(dir: &Path) {
    let last = big_run(dir, &SHARDS);
    let all = std::fs::read_dir(last.parent().expect("a directory of shards")).expect("shards");
    let others = all.map(|shard| shard.expect("a shard").path()).filter(|shard| *shard != last).collect();
    for (what, shards) in [("merge of 999 of them", others), ("the last one, and the report", vec![last])] {
        let mut merge = command(FSARENA, &["merge", "--runs"]);
        merge.arg(dir.join("merged")).args(shards);
        let begun = Instant::now();
        let peak = peak_memory_mb(merge);
        let took = begun.elapsed().as_secs_f64();
        println!("{:<44} {took:>10.1}", format!("10,000,000 samples of 1,000 shards: {what}, s"));
        println!("{:<44} {peak:>10.1}", "peak memory of that, MB");
    }
}

fn read_all(run: &Path) -> Command {
    let mut command = command("python3", &["-c", READ_ALL]);
    command.arg(run.join("run.db"));
    command
}

/// Makes a run of synthetic rows. `size` holds the number of rows and, optionally, the number of tasks.
fn big_run(dir: &Path, size: &[&str]) -> PathBuf {
    let runs = dir.join(size[0]);
    let args = ["run", "-q", "--release", "-p", "fsarena-store", "--example", "make_big_run", "--"];
    let made = Command::new(env!("CARGO")).args(args).arg(&runs).args(size).stdout(Stdio::null()).status();
    assert!(made.is_ok_and(|status| status.success()), "the large run could not be made");
    std::fs::read_dir(&runs).expect("runs").next().expect("one run").expect("readable").path()
}

fn report(run: &Path, format: &str) -> Command {
    let mut command = command(FSARENA, &["report", "--format", format]);
    command.arg(run);
    command
}

/// Measures the share of a run that is neither a timed task, mkfs, mount nor idle wait.
fn overhead(dir: &Path) {
    if !rustix::process::geteuid().is_root() {
        println!("overhead of a run: skipped, it needs root");
        return;
    }
    let runs = dir.join("runs");
    let mut run = command(FSARENA, &["run", "--rounds", "4", "--quiet", "--runs"]);
    run.arg(&runs);
    let wall = seconds(run);
    let shown = Command::new(FSARENA).args(["report", "--format", "json", "--runs"]).arg(&runs).output();
    let text = shown.expect("a report").stdout;
    let report: serde_json::Value = serde_json::from_slice(&text).expect("JSON");
    // [["total", ns], ["timed", ns], …] of every cell.
    let parts = report["cells"].as_array().into_iter().flatten().flat_map(|cell| cell["spent"].as_array());
    let accounted: f64 =
        parts.flatten().filter(|part| part[0] != "total").filter_map(|part| part[1].as_f64()).sum::<f64>() / 1e9;
    let share = 100.0 * (wall - accounted) / wall;
    println!("{:<44} {share:>9.1}%   of {wall:.1} s", "neither timed, mkfs, mount nor idle wait");
}

/// The median seconds of two commands that run in turn.
fn pair(times: usize, ours: &mut dyn FnMut() -> Command, peer: &mut dyn FnMut() -> Command) -> (f64, f64) {
    let mut taken = (Vec::new(), Vec::new());
    for _ in 0..times {
        taken.0.push(seconds(ours()));
        taken.1.push(seconds(peer()));
    }
    (median(taken.0), median(taken.1))
}

fn command(program: &str, args: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(args).stdin(Stdio::null()).stdout(Stdio::null());
    command
}

fn seconds(mut command: Command) -> f64 {
    let begun = Instant::now();
    let status = command.status();
    let took = begun.elapsed().as_secs_f64();
    assert!(status.is_ok_and(|status| status.success()), "{command:?} failed");
    took
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Peak memory of a command, as the kernel counted it for our children.
fn peak_memory_mb(mut command: Command) -> f64 {
    let mut child = command.spawn().expect("fsarena starts");
    let status = format!("/proc/{}/status", child.id());
    let mut peak = 0.0_f64;
    while child.try_wait().expect("our child").is_none() {
        let text = std::fs::read_to_string(&status).unwrap_or_default();
        let kib = text.lines().find_map(|line| line.strip_prefix("VmHWM:")?.split_whitespace().next()?.parse().ok());
        peak = peak.max(kib.unwrap_or(0.0) / 1024.0);
    }
    peak
}

fn row(what: &str, ours: f64, peer: f64) {
    println!("{what:<44} {ours:>10.2} {peer:>10.2} {:>8.2}", ours / peer);
}
