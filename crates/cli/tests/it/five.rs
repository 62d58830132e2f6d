//! All filesystems of this kernel on real loop mounts, by the real programs and by their system calls.

use crate::common::kernel::has_programs;
use crate::common::{Sandbox, runs_as_root};
use std::collections::BTreeSet;

const FILESYSTEMS: [&str; 5] = ["ext2", "ext3", "ext4", "xfs", "btrfs"];

/// The tasks of a cell: the lifecycle, and the 21 tasks in the order in which they run.
const TASKS: [&str; 24] = [
    "mkfs",
    "mount",
    "touch",
    "find-files",
    "rm-files",
    "mkdir",
    "find-dirs",
    "rm-dirs",
    "copy-in",
    "copy-out",
    "untar",
    "tar",
    "copy-tree",
    "rm-tree",
    "copy-10",
    "create",
    "copy-file",
    "split-1000",
    "split-1024",
    "split-2048",
    "split-4096",
    "split-8192",
    "cat",
    "unmount",
];

/// Makes a sandbox with a plan of all tasks on all five filesystems.
fn make_sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.edit_plan("fs = [\"ext4\"]", &format!("fs = {FILESYSTEMS:?}"));
    sandbox.edit_plan("tasks = [1, 2, 3]\n", "");
    sandbox.edit_plan("timeout = \"50ms\"", "timeout = \"1ms\"");
    sandbox
}

/// The samples of a run from its CSV file, by column name.
struct Samples {
    header: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Samples {
    fn read(sandbox: &Sandbox) -> Samples {
        let text = sandbox.run_text("samples.csv");
        let mut lines = text.lines().map(|line| line.split(',').map(String::from).collect::<Vec<_>>());
        Samples { header: lines.next().unwrap(), rows: lines.collect() }
    }

    /// The text of a column in a row.
    fn text<'a>(&self, row: &'a [String], column: &str) -> &'a str {
        let index = self.header.iter().position(|head| head == column);
        &row[index.unwrap_or_else(|| panic!("no column {column} in {:?}", self.header))]
    }

    /// A number that must exist.
    fn number(&self, row: &[String], column: &str) -> f64 {
        let text = self.text(row, column);
        text.parse().unwrap_or_else(|_| panic!("{column} is {text:?} in {row:?}"))
    }

    /// The rows of a task.
    fn rows_of_task<'a>(&'a self, task: &'a str) -> impl Iterator<Item = &'a Vec<String>> {
        self.rows.iter().filter(move |row| self.text(row, "task") == task)
    }
}

#[test]
fn every_filesystem_has_plausible_samples_with_the_real_programs() {
    check_all_samples("commands");
}

#[test]
fn every_filesystem_has_plausible_samples_with_native_system_calls() {
    check_all_samples("native");
}

/// Runs all tasks on all filesystems and checks the samples.
fn check_all_samples(driver: &str) {
    if !runs_as_root() || !has_programs(&["mkfs.xfs", "mkfs.btrfs"]) {
        return;
    }
    let sandbox = make_sandbox();
    let driver = format!("driver={driver}");
    let (answer, _) = sandbox.expect(0, &["run", "plan.toml", "--rounds", "2", "--set", &driver]);
    sandbox.assert_clean();
    let samples = Samples::read(&sandbox);
    assert_complete(&samples);
    assert_plausible_times(&samples);
    assert_plausible_bytes(&samples);
    assert_plausible_space(&samples);
    assert_report_has_all_variants(&sandbox, &answer);
}

/// Asserts that every task of every variant is there in every round, once and in order.
fn assert_complete(samples: &Samples) {
    let cells: BTreeSet<(&str, &str)> =
        samples.rows.iter().map(|row| (samples.text(row, "round"), samples.text(row, "variant"))).collect();
    assert_eq!(cells.len(), 2 * FILESYSTEMS.len(), "{cells:?}");
    for (round, variant) in cells {
        let mut rows: Vec<_> = samples.rows.iter().collect();
        rows.retain(|row| samples.text(row, "round") == round && samples.text(row, "variant") == variant);
        rows.sort_by(|a, b| samples.number(a, "started_at_s").total_cmp(&samples.number(b, "started_at_s")));
        let tasks: Vec<&str> = rows.iter().map(|row| samples.text(row, "task")).collect();
        assert_eq!(tasks, TASKS, "{variant} in round {round}");
    }
}

/// Asserts that the times and the CPU times of all rows are plausible.
fn assert_plausible_times(samples: &Samples) {
    for row in &samples.rows {
        let (elapsed, synced) = (samples.number(row, "elapsed_s"), samples.number(row, "synced_s"));
        assert!(0.0 < elapsed && elapsed <= synced && synced < 60.0, "{row:?}");
        let cpu = samples.number(row, "user_s") + samples.number(row, "system_s");
        assert!((samples.number(row, "cpu_s") - cpu).abs() < 1e-6, "{row:?}");
        assert!(samples.number(row, "total_cpu_s") > 0.0, "{row:?}");
    }
}

/// Asserts that the bytes of the device and the memory are plausible.
fn assert_plausible_bytes(samples: &Samples) {
    // 3 MiB of zeros that no filesystem here compresses, synced.
    for row in samples.rows_of_task("create") {
        assert!(samples.number(row, "written_bytes") >= 3.0 * 1048576.0, "{row:?}");
        assert!(samples.number(row, "device_write_bytes") >= 3.0 * 1048576.0, "{row:?}");
        assert!(samples.number(row, "write_amplification_ratio") >= 1.0, "{row:?}");
    }
    for row in samples.rows_of_task("cat") {
        assert!(samples.number(row, "read_bytes") >= 3.0 * 1048576.0, "{row:?}");
    }
    for row in samples.rows_of_task("mkfs") {
        assert!(samples.number(row, "device_write_bytes") > 0.0, "{row:?}");
    }
    for row in &samples.rows {
        assert!(samples.number(row, "peak_memory_bytes") > 0.0, "{row:?}");
    }
}

/// Asserts that the sizes of the filesystems are plausible.
fn assert_plausible_space(samples: &Samples) {
    for row in samples.rows_of_task("mount") {
        let (usable, device) = (samples.number(row, "usable_bytes"), samples.number(row, "device_bytes"));
        assert!(0.0 < usable && usable < device, "{row:?}");
        let share = samples.number(row, "usable_space_percent");
        assert!((share - 100.0 * usable / device).abs() < 0.01, "{row:?}");
    }
    let sizes: BTreeSet<&str> = samples.rows_of_task("mount").map(|row| samples.text(row, "device_bytes")).collect();
    assert_eq!(sizes.len(), 1, "the variants have devices of different sizes: {sizes:?}");
}

/// Asserts that the answer names every variant, and that the report has their options as mkfs and the kernel printed them.
fn assert_report_has_all_variants(sandbox: &Sandbox, answer: &str) {
    let report = sandbox.run_text("report.md");
    for fs in FILESYSTEMS {
        assert!(answer.contains(fs), "{answer}");
        for (task, words) in [("mkfs", format!("mkfs.{fs} ")), ("mount", "rw,relatime".to_string())] {
            let line = report.lines().find(|line| line.starts_with(&format!("| {fs} | {task} | ")));
            assert!(line.is_some_and(|line| line.contains(&words)), "{fs}, {task}: {line:?}");
        }
    }
    // Mount options that neither mkfs nor the plan sets: only the kernel reports them.
    for (fs, option) in [("ext4", "data=ordered"), ("xfs", "logbufs=8"), ("btrfs", "subvolid=5")] {
        let line = report.lines().find(|line| line.starts_with(&format!("| {fs} | mount | "))).unwrap();
        assert!(line.contains(option), "{line}");
    }
    assert!(answer.contains("No answer yet: 2 of at least 10 rounds."), "{answer}");
    let (whole, _) = sandbox.expect(0, &["report", "--full"]);
    assert!(whole.contains("PROVISIONAL") && whole.contains("001 Touch 20 files"), "{whole}");
}

#[test]
fn a_run_on_images_in_memory_leaves_nothing() {
    if !runs_as_root() {
        return;
    }
    let sandbox = Sandbox::new();
    sandbox.expect(0, &["run", "plan.toml", "--on", "ram"]);
    sandbox.assert_clean();
    let run = sandbox.run_file("").unwrap();
    let images = format!("/dev/shm/fsarena-{}", run.file_name().unwrap().to_str().unwrap());
    let (log, _) = sandbox.expect(0, &["show", "latest"]);
    assert!(log.contains(&format!("{images}/test.img")), "{log}");
    assert!(!std::path::Path::new(&images).exists());
    assert!(sandbox.run_text("report.md").contains("in memory"));
}
