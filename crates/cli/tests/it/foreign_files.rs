//! Files that a user puts into a run's directories while it runs: fsarena keeps them and prints their names.

use crate::common::gate::{BackgroundRun, Gate, When};
use crate::common::{Sandbox, runs_as_root};
use rustix::process::Signal;
use std::path::{Path, PathBuf};

/// Writes a file that must stay. Returns its path.
fn write_foreign_file(dir: &Path, name: &str) -> PathBuf {
    let path = dir.join(name);
    std::fs::write(&path, "precious").unwrap();
    path
}

/// Asserts that a file of [`write_foreign_file`] has not changed.
#[track_caller]
fn assert_stays(path: &Path) {
    assert_eq!(std::fs::read_to_string(path).unwrap_or_default(), "precious", "{path:?}");
}

/// Starts a run on a loop image, and stops it while its filesystems are mounted.
fn stopped_run(sandbox: &Sandbox) -> (Gate, BackgroundRun) {
    let mut gate = Gate::new(sandbox, When::Before, "umount", "*mnt/test*", 0);
    let mut run = BackgroundRun::start(sandbox, sandbox.fsarena(&["run", "plan.toml"]));
    gate.wait_until_stopped(&mut run);
    (gate, run)
}

#[test]
fn files_in_images_and_mnt_stay_when_the_run_ends() {
    if !runs_as_root() {
        return;
    }
    let sandbox = Sandbox::new();
    let (mut gate, mut run) = stopped_run(&sandbox);
    let (images, mounts) = (sandbox.run_file("images").unwrap(), sandbox.run_file("mnt").unwrap());
    let foreign = [write_foreign_file(&images, "thesis.img.gz"), write_foreign_file(&mounts, "notes")];
    gate.open();
    assert_eq!(run.wait_for_exit().code(), Some(0), "{}", run.output());
    foreign.iter().for_each(|path| assert_stays(path));
    assert!(sandbox.run_text("events.jsonl").contains("thesis.img.gz"), "{}", sandbox.run_text("events.jsonl"));
    assert!(["thesis.img.gz", "notes"].iter().all(|name| run.output().contains(name)), "{}", run.output());
    // No other file is left, and there is nothing to recover.
    assert_eq!(std::fs::read_dir(images).unwrap().count(), 1);
    assert_eq!(std::fs::read_dir(mounts).unwrap().count(), 1);
    sandbox.assert_clean();
}

#[test]
fn files_in_images_and_mnt_stay_when_a_killed_run_is_recovered() {
    if !runs_as_root() {
        return;
    }
    let sandbox = Sandbox::new();
    let (_gate, mut run) = stopped_run(&sandbox);
    let (images, mounts) = (sandbox.run_file("images").unwrap(), sandbox.run_file("mnt").unwrap());
    let foreign = [write_foreign_file(&images, "thesis.img.gz"), write_foreign_file(&mounts, "notes")];
    run.signal(Signal::KILL);
    run.assert_ended_by(Signal::KILL);
    let (_, stderr) = sandbox.expect(0, &["recover"]);
    assert!(["thesis.img.gz", "notes"].iter().all(|name| stderr.contains(name)), "{stderr}");
    foreign.iter().for_each(|path| assert_stays(path));
    sandbox.assert_clean();
    sandbox.expect(0, &["run", "--resume", "latest"]);
    foreign.iter().for_each(|path| assert_stays(path));
    sandbox.assert_clean();
}

/// Starts a run in a directory, and stops it in its work. Returns the directory that the run made too.
fn stopped_run_in_directory(sandbox: &Sandbox) -> (Gate, BackgroundRun, PathBuf) {
    let dir = sandbox.dir.join("mine");
    std::fs::create_dir(&dir).unwrap();
    sandbox.edit_plan("fs = [\"ext4\"]", "");
    let args = ["run", "plan.toml", "--on", "dir:mine", "--rounds", "2", "--set", "driver=commands"];
    let mut gate = Gate::new(sandbox, When::Before, "touch", "*f00010", 0);
    let mut run = BackgroundRun::start(sandbox, sandbox.fsarena(&args));
    gate.wait_until_stopped(&mut run);
    (gate, run, entries(&dir).remove(0))
}

/// The paths of the entries of a directory.
fn entries(dir: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect()
}

#[test]
fn a_file_beside_the_work_in_a_directory_stays() {
    let sandbox = Sandbox::new();
    let (mut gate, mut run, made) = stopped_run_in_directory(&sandbox);
    let foreign = write_foreign_file(&made, "thesis");
    gate.open();
    assert_eq!(run.wait_for_exit().code(), Some(0), "{}", run.output());
    assert_stays(&foreign);
    assert!(run.output().contains("thesis"), "{}", run.output());
    // The files of the work are removed.
    assert_eq!(entries(&made), [foreign]);
    assert_eq!(sandbox.rows("latest").len(), 2 * 3);
    sandbox.assert_clean();
}

#[test]
fn a_directory_that_replaced_the_one_of_the_run_stays() {
    let sandbox = Sandbox::new();
    let (_gate, mut run, made) = stopped_run_in_directory(&sandbox);
    let (work, moved) = (made.join("work"), sandbox.dir.join("moved"));
    run.signal(Signal::KILL);
    run.assert_ended_by(Signal::KILL);
    std::fs::rename(&work, &moved).unwrap();
    std::fs::create_dir(&work).unwrap();
    let foreign = write_foreign_file(&work, "thesis");
    let (_, stderr) = sandbox.expect(6, &["recover"]);
    assert!(stderr.contains("another directory is there"), "{stderr}");
    assert_stays(&foreign);
    // With the original directory in place, `recover` removes what the killed run left.
    std::fs::remove_dir_all(&work).unwrap();
    std::fs::rename(&moved, &work).unwrap();
    sandbox.expect(0, &["recover"]);
    assert!(!made.exists());
    sandbox.assert_clean();
}
