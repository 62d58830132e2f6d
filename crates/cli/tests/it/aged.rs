//! Aged filesystems: images that are made once, shared by rounds, and continued after a kill.

use super::common::kernel::{debian, has};
use super::common::{Place, gate::Running, root, text};
use rustix::process::Signal;
use std::path::PathBuf;
use std::process::Command;

/// The checkpoints in the cache of a place.
fn checkpoints(place: &Place) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(place.dir.join("cache/aged")).into_iter().flatten();
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

/// Kills a run when it has one of the two parts of a history, and undoes what it left, which is that part's checkpoint.
fn kill_after_first_part(place: &Place, command: Command) {
    let mut killed = Running::start(place, command);
    killed.until_said("image 1: part 2 of 2");
    killed.signal(Signal::KILL);
    killed.ended_by(Signal::KILL);
    let left = checkpoints(place);
    assert!(left.len() == 1 && left[0].extension().is_some_and(|part| part == "00001"), "{left:?}");
    place.expect(0, &["recover"]);
    place.assert_clean();
}

#[test]
fn ageing_continues_after_a_kill_and_the_next_run_finds_the_images() {
    if !root() {
        return;
    }
    let place = Place::new();
    let args = ["--factor", "age=none,churn:2x", "--workload", "tree", "--set", "tree_files=20"];
    kill_after_first_part(&place, run(&place, &args));

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

/// What the agents report of the files of the only checkpoint in a place, as they wrote it.
fn left(place: &Place) -> serde_json::Value {
    let paths = checkpoints(place);
    assert_eq!(paths.len(), 1, "{paths:?}");
    let bytes = std::fs::read(&paths[0]).unwrap();
    // The description, its length in eight bytes, and the version of the format in sixteen.
    let (rest, end) = bytes.split_at(bytes.len() - 24);
    let length = u64::from_le_bytes(end[..8].try_into().unwrap()) as usize;
    let about: serde_json::Value = serde_json::from_slice(&rest[rest.len() - length..]).unwrap();
    about["left"].clone()
}

/// Whether guests can boot here.
fn can_boot() -> bool {
    root() && has(&["qemu-system-x86_64"]) && debian("6.", "-amd64").is_some()
}

/// Where instructions are counted nothing depends on the host, so the guest's kernel puts the files at the same places each time.
#[test]
fn equal_seeds_leave_equal_trees_everywhere_and_equal_layouts_in_exact_guests() {
    if !can_boot() {
        return;
    }
    let age = |place: &Place, on: &str| {
        let flags = format!(
            "run --on {on} --fs ext4 --scale tiny --size 80MiB --factor age=churn:0.02x --age-images 1 --rounds 1 \
             --workload tree --set tree_files=20"
        );
        let mut command = place.fsarena(&flags.split_ascii_whitespace().collect::<Vec<_>>());
        command.env("FSARENA_CACHE_DIR", place.dir.join("cache"));
        Running::start(place, command)
    };
    let places = [Place::new(), Place::new(), Place::new()];
    let mut runs: Vec<Running> =
        places.iter().zip(["exact", "exact", "ram"]).map(|(place, on)| age(place, on)).collect();
    for (run, place) in runs.iter_mut().zip(&places) {
        // The work of the cell adds nothing to what this test is about.
        run.until("the image is kept", || !checkpoints(place).is_empty());
        run.signal(Signal::TERM);
        run.ended();
        place.assert_clean();
    }
    let [one, other, here] = [0, 1, 2].map(|at| left(&places[at]));
    assert!(one["layout"].is_string() && one["tree"]["files"].as_u64() > Some(100), "{one}");
    assert_eq!(one, other);
    assert_eq!(one["tree"], here["tree"]);
}

#[test]
#[ignore = "boots several guests; `make test-long` runs it"]
fn ageing_in_a_guest_continues_after_a_kill() {
    if !can_boot() {
        return;
    }
    let place = Place::new();
    let guest = || {
        let flags = "run --on qemu --fs ext4 --scale tiny --size 128MiB --factor age=none,churn:2x --age-images 1 --rounds 1 \
                     --workload tree --set tree_files=20";
        let mut command = place.fsarena(&flags.split_ascii_whitespace().collect::<Vec<_>>());
        command.env("FSARENA_CACHE_DIR", place.dir.join("cache"));
        command
    };
    kill_after_first_part(&place, guest());

    let output = guest().output().unwrap();
    let said = text(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(!said.contains("image 1: part 1 of") && said.contains("image 1: part 2 of 2"), "{said}");
    assert_eq!(checkpoints(&place).len(), 2);
    let (samples, _) = place.expect(0, &["report", "latest", "--format", "tidy-csv"]);
    assert_eq!(samples.lines().filter(|line| line.contains("image_seed")).count(), 2, "{samples}");
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
