//! `fsarena analyse` through the real binary: published figures, a run, fresh rounds, and the lock.

use crate::common::{self, Place, root};
use serde_json::Value;
use std::{collections::BTreeSet, os::unix::fs::PermissionsExt, os::unix::process::CommandExt};

/// One ext4 and the bare device; a write to a block never written before needs the inode's lock.
const WORK: &str = r#"
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

/// A run of one round in memory.
fn with_run() -> Place {
    let place = Place::new();
    place.edit_plan(r#"fs = ["ext4"]"#, r#"fs = ["ext4", "raw"]"#);
    place.edit_plan("[[workload]]\nuse = \"coreutils\"\ndriver = \"native\"\ntasks = [1, 2, 3]\n", WORK);
    place.expect(0, &["run", "plan.toml", "--on", "ram", "--quiet"]);
    place
}

fn json(place: &Place, args: &[&str]) -> Value {
    let (printed, _) = place.expect(0, &[args, &["--format", "json", "--quiet"]].concat());
    serde_json::from_str(&printed).unwrap()
}

#[test]
fn the_published_matrix() {
    let place = Place::new();
    let (printed, _) = place.expect(0, &["analyse", "published:engel"]);
    insta::assert_snapshot!("published_engel", printed);
    let found = json(&place, &["analyse", "published:engel"]);
    assert_eq!(found["findings"].as_array().unwrap().len(), 12);
    // Without the author's ceiling the device does not excuse ext4's random writes at 629 MB/s.
    let found = json(&place, &["analyse", "published:engel", "--ceiling", "10GB/s"]);
    assert_eq!(found["findings"].as_array().unwrap().len(), 13);
}

#[test]
fn figures_that_cannot_be_analysed_are_refused() {
    let place = Place::new();
    let (_, said) = place.expect(2, &["analyse", "published:piszcz-II"]);
    assert!(said.contains("has no matrix"), "{said}");
    let (_, said) = place.expect(2, &["analyse", "published:engel", "--explain"]);
    assert!(said.contains("long ago"), "{said}");
    let (_, said) = place.expect(2, &["analyse", "published:engel", "--ceiling", "fast"]);
    assert!(said.contains("650MB/s"), "{said}");
    place.expect(2, &["analyse", "nothing"]);
}

#[test]
fn a_run_is_analysed_and_its_worst_cells_run_again() {
    if !root() {
        return;
    }
    let place = with_run();
    let found = json(&place, &["analyse"]);
    assert_eq!(found["rounds"], 1);
    assert_eq!(
        (&found["block_size_bytes"], &found["threads"]),
        (&serde_json::json!([512]), &serde_json::json!([1, 16]))
    );
    let raw = |matrix: &&Value| matrix["raw_device"].as_bool().unwrap();
    assert_eq!(found["matrices"].as_array().unwrap().iter().filter(raw).count(), 2, "two modes of the bare device");
    if !found["client_bound"].as_array().unwrap().is_empty() {
        return fsarena_sys::testkit::skipped("a build for tests is too slow a generator for this machine");
    }
    // A filesystem's write of 512 bytes costs more than the bare device's in memory.
    assert!(!found["findings"].as_array().unwrap().is_empty());
    // That is what the study asks, so every report answers it.
    for format in ["term", "md", "html"] {
        let (report, _) = place.expect(0, &["report", "--format", format]);
        assert!(report.contains("Filesystems with anomalies: ext4"), "{format}: {report}");
    }
    let before = runs(&place);
    let confirmed = json(&place, &["analyse", "--confirm", "--rounds", "1"]);
    let fresh: Vec<String> = runs(&place).difference(&before).cloned().collect();
    assert_eq!(fresh.len(), 1);
    assert!(confirmed["source"].as_str().unwrap().contains(&fresh[0]), "{}", confirmed["source"]);
    // One round cannot confirm anything.
    assert!(confirmed["findings"].as_array().unwrap().iter().all(|one| one["standing"] == "single-values"));
    let again: BTreeSet<String> = place.rows(&fresh[0]).into_iter().map(|(_, _, task)| task).collect();
    let first = before.iter().next().unwrap();
    // The stored rounds say the same again.
    assert_eq!(json(&place, &["analyse", first, "--fresh", &fresh[0]])["findings"], confirmed["findings"]);
    let all: BTreeSet<String> = place.rows(first).into_iter().map(|(_, _, task)| task).collect();
    assert!(again.is_subset(&all) && again.iter().any(|task| task.contains("bs=512")), "{again:?}");
    place.assert_clean();
}

fn runs(place: &Place) -> BTreeSet<String> {
    let entries = std::fs::read_dir(place.runs()).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn the_lock_behind_a_cell_is_named() {
    if !root() {
        return;
    }
    let place = with_run();
    let args = ["analyse", "--variant", "ext4", "--explain", "seqwr[bs=512,threads=16]", "--format", "json", "--quiet"];
    let output = place.output(&args);
    let said = common::text(&output.stderr);
    if output.status.code() == Some(6) {
        fsarena_sys::testkit::skipped(&said);
        return;
    }
    assert_eq!(output.status.code(), Some(0), "{said}");
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    let first = &found["profile"]["locks"][0];
    assert_eq!(first["callers"][0], "ext4_file_write_iter", "{first}");
    assert!(["down_read", "down_write"].contains(&first["function"].as_str().unwrap()), "{first}");
    assert!(first["share"].as_f64().unwrap() > 0.5, "{first}");
    assert_eq!(found["measured_elsewhere"], false);
    assert_eq!(runs(&place).len(), 1, "tracing a cell does not store a run");
    let (_, said) = place.expect(2, &["analyse", "--explain", "seqwr[bs=77,threads=16]"]);
    assert!(said.contains("Unknown task"), "{said}");
    let (_, said) = place.expect(2, &["analyse", "--explain", "seqwr[bs=512,threads=16]", "--variant", "ntfs"]);
    assert!(said.contains("Available: ext4, raw"), "{said}");
    place.assert_clean();
}

#[test]
fn without_the_privilege_the_required_one_is_named() {
    if !root() {
        return;
    }
    let place = with_run();
    open_to_all(&place.dir);
    let mut command = place.fsarena(&["analyse", "--explain", "seqwr[bs=512,threads=16]"]);
    let output = match command.uid(65534).gid(65534).output() {
        Ok(output) => output,
        Err(error) => {
            return fsarena_sys::testkit::skipped(&format!("another user cannot start the program: {error}"));
        }
    };
    let said = common::text(&output.stderr);
    if output.status.success() {
        return fsarena_sys::testkit::skipped("here anybody may trace the kernel");
    }
    assert_eq!(output.status.code(), Some(6), "{said}");
    assert!(said.contains("root"), "{said}");
    assert_eq!(runs(&place).len(), 1);
}

fn open_to_all(dir: &std::path::Path) {
    std::fs::set_permissions(dir, std::fs::Permissions::from_mode(0o777)).unwrap();
    for entry in std::fs::read_dir(dir).unwrap().flatten() {
        match entry.file_type().unwrap().is_dir() {
            true => open_to_all(&entry.path()),
            false => std::fs::set_permissions(entry.path(), std::fs::Permissions::from_mode(0o666)).unwrap(),
        }
    }
}
