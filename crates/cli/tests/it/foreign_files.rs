//! Files that a user puts into a run's directories while it runs: fsarena keeps them and prints their names.

use crate::common::gate::{Gate, Running, When};
use crate::common::{Place, root};
use rustix::process::Signal;
use std::path::{Path, PathBuf};

/// The file that must stay. Where it is.
fn put(dir: &Path, name: &str) -> PathBuf {
    let path = dir.join(name);
    std::fs::write(&path, "precious").unwrap();
    path
}

#[track_caller]
fn stays(path: &Path) {
    assert_eq!(std::fs::read_to_string(path).unwrap_or_default(), "precious", "{path:?}");
}

/// A run on a loop image, standing still while its filesystems are mounted.
fn standing(place: &Place) -> (Gate, Running) {
    let mut gate = Gate::new(place, When::Before, "umount", "*mnt/test*", 0);
    let mut run = Running::start(place, place.fsarena(&["run", "plan.toml"]));
    gate.wait(&mut run);
    (gate, run)
}

#[test]
fn files_in_images_and_mnt_stay_when_the_run_ends() {
    if !root() {
        return;
    }
    let place = Place::new();
    let (mut gate, mut run) = standing(&place);
    let (images, mounts) = (place.run_file("images").unwrap(), place.run_file("mnt").unwrap());
    let foreign = [put(&images, "thesis.img.gz"), put(&mounts, "notes")];
    gate.open();
    assert_eq!(run.ended().code(), Some(0), "{}", run.said());
    foreign.iter().for_each(|path| stays(path));
    assert!(place.run_text("events.jsonl").contains("thesis.img.gz"), "{}", place.run_text("events.jsonl"));
    assert!(["thesis.img.gz", "notes"].iter().all(|name| run.said().contains(name)), "{}", run.said());
    // Nothing else is left, and nothing is left to recover.
    assert_eq!(std::fs::read_dir(images).unwrap().count(), 1);
    assert_eq!(std::fs::read_dir(mounts).unwrap().count(), 1);
    place.assert_clean();
}

#[test]
fn files_in_images_and_mnt_stay_when_a_killed_run_is_recovered() {
    if !root() {
        return;
    }
    let place = Place::new();
    let (_gate, mut run) = standing(&place);
    let (images, mounts) = (place.run_file("images").unwrap(), place.run_file("mnt").unwrap());
    let foreign = [put(&images, "thesis.img.gz"), put(&mounts, "notes")];
    run.signal(Signal::KILL);
    run.ended_by(Signal::KILL);
    let (_, said) = place.expect(0, &["recover"]);
    assert!(["thesis.img.gz", "notes"].iter().all(|name| said.contains(name)), "{said}");
    foreign.iter().for_each(|path| stays(path));
    place.assert_clean();
    place.expect(0, &["run", "--resume", "latest"]);
    foreign.iter().for_each(|path| stays(path));
    place.assert_clean();
}

/// A run in a directory, standing still in its work; and the directory that it has made there.
fn standing_in_a_directory(place: &Place) -> (Gate, Running, PathBuf) {
    let dir = place.dir.join("mine");
    std::fs::create_dir(&dir).unwrap();
    place.edit_plan("fs = [\"ext4\"]", "");
    let args = ["run", "plan.toml", "--on", "dir:mine", "--rounds", "2", "--set", "driver=commands"];
    let mut gate = Gate::new(place, When::Before, "touch", "*f00010", 0);
    let mut run = Running::start(place, place.fsarena(&args));
    gate.wait(&mut run);
    (gate, run, names(&dir).remove(0))
}

fn names(dir: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect()
}

#[test]
fn a_file_beside_the_work_in_a_directory_stays() {
    let place = Place::new();
    let (mut gate, mut run, made) = standing_in_a_directory(&place);
    let foreign = put(&made, "thesis");
    gate.open();
    assert_eq!(run.ended().code(), Some(0), "{}", run.said());
    stays(&foreign);
    assert!(run.said().contains("thesis"), "{}", run.said());
    // The work is gone.
    assert_eq!(names(&made), [foreign]);
    assert_eq!(place.rows("latest").len(), 2 * 3);
    place.assert_clean();
}

#[test]
fn a_directory_that_was_exchanged_for_another_stays() {
    let place = Place::new();
    let (_gate, mut run, made) = standing_in_a_directory(&place);
    let (work, moved) = (made.join("work"), place.dir.join("moved"));
    run.signal(Signal::KILL);
    run.ended_by(Signal::KILL);
    std::fs::rename(&work, &moved).unwrap();
    std::fs::create_dir(&work).unwrap();
    let foreign = put(&work, "thesis");
    let (_, said) = place.expect(6, &["recover"]);
    assert!(said.contains("another directory is there"), "{said}");
    stays(&foreign);
    // As it was, so that what the killed run left can go.
    std::fs::remove_dir_all(&work).unwrap();
    std::fs::rename(&moved, &work).unwrap();
    place.expect(0, &["recover"]);
    assert!(!made.exists());
    place.assert_clean();
}
