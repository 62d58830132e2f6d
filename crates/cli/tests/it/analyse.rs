//! `fsarena analyse` through the real binary: published figures, a run, fresh rounds, and the lock.

use crate::common::{self, Sandbox, runs_as_root};
use serde_json::Value;
use std::{collections::BTreeSet, os::unix::fs::PermissionsExt, os::unix::process::CommandExt};

/// A workload whose writes to new blocks need the lock of the inode.
const WRITING_WORKLOAD: &str = r#"
[[workload]]
use = "fileio"
modes = ["seqwr", "rndwr"]
bs = [512]
threads = [1, 16]
files = 1
total_bytes = 8388608
fsync_every = 0
events = 2000
"#;

/// Makes a sandbox with a run of one round in memory.
fn sandbox_with_run() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.edit_plan(r#"fs = ["ext4"]"#, r#"fs = ["ext4", "raw"]"#);
    sandbox.edit_plan("[[workload]]\nuse = \"coreutils\"\ndriver = \"native\"\ntasks = [1, 2, 3]\n", WRITING_WORKLOAD);
    sandbox.expect(0, &["run", "plan.toml", "--on", "ram", "--quiet"]);
    sandbox
}

fn json(sandbox: &Sandbox, args: &[&str]) -> Value {
    let (printed, _) = sandbox.expect(0, &[args, &["--format", "json", "--quiet"]].concat());
    serde_json::from_str(&printed).unwrap()
}

#[test]
fn the_findings_of_the_published_matrix_are_as_recorded() {
    let sandbox = Sandbox::new();
    let (printed, _) = sandbox.expect(0, &["analyse", "published:engel"]);
    insta::assert_snapshot!("published_engel", printed);
    let analysis = json(&sandbox, &["analyse", "published:engel"]);
    assert_eq!(analysis["findings"].as_array().unwrap().len(), 12);
    // Without the author's ceiling the device does not excuse ext4's random writes at 629 MB/s.
    let analysis = json(&sandbox, &["analyse", "published:engel", "--ceiling", "10GB/s"]);
    assert_eq!(analysis["findings"].as_array().unwrap().len(), 13);
}

#[test]
fn figures_that_cannot_be_analysed_are_refused() {
    let sandbox = Sandbox::new();
    let (_, stderr) = sandbox.expect(2, &["analyse", "published:piszcz-II"]);
    assert!(stderr.contains("has no matrix"), "{stderr}");
    let (_, stderr) = sandbox.expect(2, &["analyse", "published:engel", "--explain"]);
    assert!(stderr.contains("long ago"), "{stderr}");
    let (_, stderr) = sandbox.expect(2, &["analyse", "published:engel", "--ceiling", "fast"]);
    assert!(stderr.contains("650MB/s"), "{stderr}");
    sandbox.expect(2, &["analyse", "nothing"]);
}

#[test]
fn a_run_is_analysed_and_its_worst_cells_run_again() {
    if !runs_as_root() {
        return;
    }
    let sandbox = sandbox_with_run();
    let analysis = json(&sandbox, &["analyse"]);
    assert_eq!(analysis["rounds"], 1);
    assert_eq!(
        (&analysis["block_size_bytes"], &analysis["threads"]),
        (&serde_json::json!([512]), &serde_json::json!([1, 16]))
    );
    let raw = |matrix: &&Value| matrix["raw_device"].as_bool().unwrap();
    assert_eq!(analysis["matrices"].as_array().unwrap().iter().filter(raw).count(), 2, "two modes of the bare device");
    if !analysis["client_bound"].as_array().unwrap().is_empty() {
        return fsarena_sys::testkit::record_skip("a build for tests is too slow a generator for this machine");
    }
    // A filesystem's write of 512 bytes costs more than the bare device's in memory.
    assert!(!analysis["findings"].as_array().unwrap().is_empty());
    // The question of the study is about anomalies, so every report answers it.
    for format in ["term", "md", "html"] {
        let (report, _) = sandbox.expect(0, &["report", "--format", format]);
        assert!(report.contains("Filesystems with anomalies: ext4"), "{format}: {report}");
    }
    let before = run_ids(&sandbox);
    let confirmed = json(&sandbox, &["analyse", "--confirm", "--rounds", "1"]);
    let fresh: Vec<String> = run_ids(&sandbox).difference(&before).cloned().collect();
    assert_eq!(fresh.len(), 1);
    assert!(confirmed["source"].as_str().unwrap().contains(&fresh[0]), "{}", confirmed["source"]);
    // One round cannot confirm anything.
    assert!(confirmed["findings"].as_array().unwrap().iter().all(|finding| finding["standing"] == "single-values"));
    let again: BTreeSet<String> = sandbox.rows(&fresh[0]).into_iter().map(|(_, _, task)| task).collect();
    let first = before.iter().next().unwrap();
    // An analysis with the stored fresh run gives the same findings.
    assert_eq!(json(&sandbox, &["analyse", first, "--fresh", &fresh[0]])["findings"], confirmed["findings"]);
    let tasks: BTreeSet<String> = sandbox.rows(first).into_iter().map(|(_, _, task)| task).collect();
    assert!(again.is_subset(&tasks) && again.iter().any(|task| task.contains("bs=512")), "{again:?}");
    sandbox.assert_clean();
}

/// The ids of the stored runs.
fn run_ids(sandbox: &Sandbox) -> BTreeSet<String> {
    let entries = std::fs::read_dir(sandbox.runs_dir()).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn the_lock_behind_a_cell_is_named() {
    if !runs_as_root() {
        return;
    }
    let sandbox = sandbox_with_run();
    let args = ["analyse", "--variant", "ext4", "--explain", "seqwr[bs=512,threads=16]", "--format", "json", "--quiet"];
    let output = sandbox.output(&args);
    let stderr = common::text(&output.stderr);
    if output.status.code() == Some(6) {
        fsarena_sys::testkit::record_skip(&stderr);
        return;
    }
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    let analysis: Value = serde_json::from_slice(&output.stdout).unwrap();
    let first = &analysis["profile"]["locks"][0];
    assert_eq!(first["callers"][0], "ext4_file_write_iter", "{first}");
    assert!(["down_read", "down_write"].contains(&first["function"].as_str().unwrap()), "{first}");
    assert!(first["share"].as_f64().unwrap() > 0.5, "{first}");
    assert_eq!(analysis["measured_elsewhere"], false);
    assert_eq!(run_ids(&sandbox).len(), 1, "tracing a cell does not store a run");
    let (_, stderr) = sandbox.expect(2, &["analyse", "--explain", "seqwr[bs=77,threads=16]"]);
    assert!(stderr.contains("Unknown task"), "{stderr}");
    let (_, stderr) = sandbox.expect(2, &["analyse", "--explain", "seqwr[bs=512,threads=16]", "--variant", "ntfs"]);
    assert!(stderr.contains("Available: ext4, raw"), "{stderr}");
    sandbox.assert_clean();
}

#[test]
fn without_the_privilege_to_trace_the_error_names_root() {
    if !runs_as_root() {
        return;
    }
    let sandbox = sandbox_with_run();
    open_to_all(&sandbox.dir);
    let mut command = sandbox.fsarena(&["analyse", "--explain", "seqwr[bs=512,threads=16]"]);
    let output = match command.uid(65534).gid(65534).output() {
        Ok(output) => output,
        Err(error) => {
            return fsarena_sys::testkit::record_skip(&format!("another user cannot start the program: {error}"));
        }
    };
    let stderr = common::text(&output.stderr);
    if output.status.success() {
        return fsarena_sys::testkit::record_skip("here anybody may trace the kernel");
    }
    assert_eq!(output.status.code(), Some(6), "{stderr}");
    assert!(stderr.contains("root"), "{stderr}");
    assert_eq!(run_ids(&sandbox).len(), 1);
}

/// Lets every user read and write a directory and everything in it.
fn open_to_all(dir: &std::path::Path) {
    std::fs::set_permissions(dir, std::fs::Permissions::from_mode(0o777)).unwrap();
    for entry in std::fs::read_dir(dir).unwrap().flatten() {
        match entry.file_type().unwrap().is_dir() {
            true => open_to_all(&entry.path()),
            false => std::fs::set_permissions(entry.path(), std::fs::Permissions::from_mode(0o666)).unwrap(),
        }
    }
}
