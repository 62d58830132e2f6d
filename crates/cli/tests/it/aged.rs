//! Aged filesystems: images that are made once, shared by rounds, and continued after a kill.

use super::common::{Place, gate::Running, root, text};
use rustix::process::Signal;
use std::path::PathBuf;
use std::process::Command;

/// The checkpoints in the cache of a place.
fn checkpoints(place: &Place) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(place.dir.join("cache/aged")).unwrap();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some());
    paths.sort();
    paths
}

/// A run of small filesystems with its own cache.
fn run(place: &Place, args: &[&str]) -> Command {
    let small = "run --fs ext4 --on ram --scale tiny --size 128MiB --age-images 2 --rounds 2";
    let mut command = place.fsarena(&small.split(' ').chain(args.iter().copied()).collect::<Vec<_>>());
    command.env("FSARENA_CACHE_DIR", place.dir.join("cache"));
    command
}

#[test]
fn ageing_continues_after_a_kill_and_the_next_run_finds_the_images() {
    if !root() {
        return;
    }
    let place = Place::new();
    let args = ["--factor", "age=none,churn:2x", "--workload", "tree", "--set", "tree_files=20"];
    let mut killed = Running::start(&place, run(&place, &args));
    killed.until_said("image 1: part 2 of 2");
    killed.signal(Signal::KILL);
    killed.ended_by(Signal::KILL);
    let left = checkpoints(&place);
    assert!(left.len() == 1 && left[0].extension().is_some_and(|part| part == "00001"), "{left:?}");
    place.expect(0, &["recover"]);
    place.assert_clean();

    let output = run(&place, &args).output().unwrap();
    let said = text(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(!said.contains("image 1: part 1 of") && said.contains("image 1: part 2 of 2"), "{said}");
    assert!(said.contains("image 2: part 1 of 2"), "{said}");
    // Two aged images, and a copy of the files of each.
    assert_eq!(checkpoints(&place).len(), 4);
    let (samples, _) = place.expect(0, &["report", "latest", "--format", "tidy-csv"]);
    let seeds: Vec<&str> = samples.lines().filter(|line| line.contains("image_seed")).collect();
    assert_eq!(seeds.len(), 4, "{samples}");

    let again = run(&place, &args).output().unwrap();
    assert!(again.status.success() && !text(&again.stderr).contains("image 1"), "{}", text(&again.stderr));
    place.assert_clean();
}

#[test]
fn a_setup_that_is_kept_runs_once() {
    if !root() {
        return;
    }
    let place = Place::new();
    let plan = "name = 'keep'\n[[workload]]\nuse = 'command'\nroom = '8MiB'\nsetup_once = 'echo 7 > a'\n\
                task = [{ name = 'read', cmd = 'test $(cat a) = 7' }]\n";
    std::fs::write(place.dir.join("keep.toml"), plan).unwrap();
    let said = || {
        let output = run(&place, &["keep.toml"]).output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stderr)
    };
    let first = said();
    assert!(first.contains("Setting up ext4 once."), "{first}");
    assert_eq!(checkpoints(&place).len(), 1);
    let second = said();
    assert!(!second.contains("Setting up"), "{second}");
    place.assert_clean();
}
