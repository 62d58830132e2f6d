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
/// Number of rows of a large run. Like the next sizes, arguments of the example `make_big_run` of `fsarena-store`: the
/// number of rows, and optionally of tasks and of shards.
const ROW_COUNT: &str = "1000000";
/// A million samples, each with all 21 readings that the run took of a task: 400 rounds, after which every run has
/// decided, of 5 variants with 500 tasks, as many as a full matrix of block sizes and threads has.
const FULL_MATRIX: [&str; 2] = ["21000000", "500"];
const MANY_ROWS: [&str; 1] = ["10000000"];
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
    compare_start_up();
    measure_large_report(dir.path());
    measure_vast_report(dir.path(), "1,000,000 samples", &FULL_MATRIX);
    measure_vast_report(dir.path(), "10,000,000 rows", &MANY_ROWS);
    measure_merge(dir.path());
    measure_overhead(dir.path());
}

/// Compares the start-up with that of `true`.
fn compare_start_up() {
    let (fsarena_s, peer_s) = measure_in_turn(20, &mut || command(FSARENA, &["--help"]), &mut || command("true", &[]));
    print_row("fsarena --help / true, ms", fsarena_s * 1e3, peer_s * 1e3);
}

/// Compares reports with Python's sqlite3, which reads the same rows without analysing them.
fn measure_large_report(dir: &Path) {
    let run = make_big_run(dir, &[ROW_COUNT]);
    for format in ["term", "md", "csv", "html"] {
        let (fsarena_s, peer_s) = measure_in_turn(5, &mut || report(&run, format), &mut || read_all(&run));
        print_row(&format!("report of {ROW_COUNT} rows, {format} / python reads, s"), fsarena_s, peer_s);
    }
    for format in ["term", "html"] {
        let peak = peak_memory_mb(report(&run, format));
        println!("{:<44} {peak:>10.1}", format!("peak memory of that report, {format}, MB"));
    }
    page::print_paint_times(&page::write_page(dir, &run));
}

/// Measures a report of a very large run, as of weeks of measuring or from a foreign database.
fn measure_vast_report(dir: &Path, title: &str, size: &[&str]) {
    let run = make_big_run(dir, size);
    let (fsarena_s, peer_s) = measure_in_turn(5, &mut || report(&run, "html"), &mut || read_all(&run));
    print_row(&format!("report of {title}, html / python reads, s"), fsarena_s, peer_s);
    let peak = peak_memory_mb(report(&run, "html"));
    println!("{:<44} {peak:>10.1}", "peak memory of that report, MB");
    page::print_paint_times(&page::write_page(dir, &run));
}

/// Measures the merge of 1,000 shards: first of all but one, which only merges, then of the last, which also reports.
fn measure_merge(dir: &Path) {
    let last = make_big_run(dir, &SHARDS);
    let all = std::fs::read_dir(last.parent().expect("a directory of shards")).expect("shards");
    let others = all.map(|shard| shard.expect("a shard").path()).filter(|shard| *shard != last).collect();
    for (title, shards) in [("merge of 999 of them", others), ("the last one, and the report", vec![last])] {
        let mut merge = command(FSARENA, &["merge", "--runs"]);
        merge.arg(dir.join("merged")).args(shards);
        let begun = Instant::now();
        let peak = peak_memory_mb(merge);
        let elapsed_s = begun.elapsed().as_secs_f64();
        println!("{:<44} {elapsed_s:>10.1}", format!("10,000,000 samples of 1,000 shards: {title}, s"));
        println!("{:<44} {peak:>10.1}", "peak memory of that, MB");
    }
}

fn read_all(run: &Path) -> Command {
    let mut command = command("python3", &["-c", READ_ALL]);
    command.arg(run.join("run.db"));
    command
}

/// Makes a run of synthetic rows. `size` holds the number of rows and, optionally, the number of tasks.
fn make_big_run(dir: &Path, size: &[&str]) -> PathBuf {
    let runs_dir = dir.join(size[0]);
    let args = ["run", "-q", "--release", "-p", "fsarena-store", "--example", "make_big_run", "--"];
    let status = Command::new(env!("CARGO")).args(args).arg(&runs_dir).args(size).stdout(Stdio::null()).status();
    assert!(status.is_ok_and(|status| status.success()), "the large run could not be made");
    std::fs::read_dir(&runs_dir).expect("runs").next().expect("one run").expect("readable").path()
}

fn report(run: &Path, format: &str) -> Command {
    let mut command = command(FSARENA, &["report", "--format", format]);
    command.arg(run);
    command
}

/// Measures the share of a run that is neither a timed task, mkfs, mount nor idle wait.
fn measure_overhead(dir: &Path) {
    if !rustix::process::geteuid().is_root() {
        println!("overhead of a run: skipped, it needs root");
        return;
    }
    let runs_dir = dir.join("runs");
    let mut run = command(FSARENA, &["run", "--rounds", "4", "--quiet", "--runs"]);
    run.arg(&runs_dir);
    let wall_s = run_to_end_s(run);
    let output = Command::new(FSARENA).args(["report", "--format", "json", "--runs"]).arg(&runs_dir).output();
    let json = output.expect("a report").stdout;
    let report: serde_json::Value = serde_json::from_slice(&json).expect("JSON");
    // [["total", ns], ["timed", ns], …] of every cell.
    let parts = report["cells"].as_array().into_iter().flatten().flat_map(|cell| cell["spent"].as_array());
    let accounted_s: f64 =
        parts.flatten().filter(|part| part[0] != "total").filter_map(|part| part[1].as_f64()).sum::<f64>() / 1e9;
    let share = 100.0 * (wall_s - accounted_s) / wall_s;
    println!("{:<44} {share:>9.1}%   of {wall_s:.1} s", "neither timed, mkfs, mount nor idle wait");
}

/// Runs two commands in turn, each `times` times, and returns their median seconds.
fn measure_in_turn(
    times: usize,
    fsarena: &mut dyn FnMut() -> Command,
    peer: &mut dyn FnMut() -> Command,
) -> (f64, f64) {
    let (mut fsarena_times_s, mut peer_times_s) = (vec![], vec![]);
    for _ in 0..times {
        fsarena_times_s.push(run_to_end_s(fsarena()));
        peer_times_s.push(run_to_end_s(peer()));
    }
    (median(fsarena_times_s), median(peer_times_s))
}

fn command(program: &str, args: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(args).stdin(Stdio::null()).stdout(Stdio::null());
    command
}

/// Runs a command, and returns its seconds.
fn run_to_end_s(mut command: Command) -> f64 {
    let begun = Instant::now();
    let status = command.status();
    let elapsed_s = begun.elapsed().as_secs_f64();
    assert!(status.is_ok_and(|status| status.success()), "{command:?} failed");
    elapsed_s
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Runs a command, and returns the peak of its memory as the kernel counts it.
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

fn print_row(title: &str, fsarena: f64, peer: f64) {
    println!("{title:<44} {fsarena:>10.2} {peer:>10.2} {:>8.2}", fsarena / peer);
}
