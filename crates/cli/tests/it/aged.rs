//! Aged filesystems: images that are made once, shared by rounds, and continued after a kill.

use super::common::kernel::{find_debian_kernel, has_programs};
use super::common::{Sandbox, gate::BackgroundRun, runs_as_root, text};
use rustix::process::Signal;
use std::path::PathBuf;
use std::process::Command;

/// The checkpoints in the cache of a sandbox.
fn checkpoints(sandbox: &Sandbox) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(sandbox.dir.join("cache/aged")).into_iter().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some());
    paths.sort();
    paths
}

/// The command that runs small filesystems, with a separate cache.
fn small_run(sandbox: &Sandbox, args: &[&str]) -> Command {
    let small = "run --fs ext4 --on ram --scale tiny --size 128MiB --age-images 2 --rounds 2";
    let mut command = sandbox.fsarena(&small.split(' ').chain(args.iter().copied()).collect::<Vec<_>>());
    command.env("FSARENA_CACHE_DIR", sandbox.dir.join("cache"));
    command
}

/// Kills a run when the first of the two parts of a history is done, and recovers. Asserts that only the checkpoint of that
/// part is left.
fn kill_after_first_part(sandbox: &Sandbox, command: Command) {
    let mut killed = BackgroundRun::start(sandbox, command);
    killed.wait_for_output("image 1: part 2 of 2");
    killed.signal(Signal::KILL);
    killed.assert_ended_by(Signal::KILL);
    let parts = checkpoints(sandbox);
    assert!(parts.len() == 1 && parts[0].extension().is_some_and(|part| part == "00001"), "{parts:?}");
    sandbox.expect(0, &["recover"]);
    sandbox.assert_clean();
}

#[test]
fn ageing_continues_after_a_kill_and_the_next_run_finds_the_images() {
    if !runs_as_root() {
        return;
    }
    let sandbox = Sandbox::new();
    let args = ["--factor", "age=none,churn:2x", "--workload", "tree", "--set", "tree_files=20"];
    kill_after_first_part(&sandbox, small_run(&sandbox, &args));

    let output = small_run(&sandbox, &args).output().unwrap();
    let stderr = text(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    assert!(!stderr.contains("image 1: part 1 of") && stderr.contains("image 1: part 2 of 2"), "{stderr}");
    assert!(stderr.contains("image 2: part 1 of 2"), "{stderr}");
    // Two aged images, and a copy of the files of each.
    assert_eq!(checkpoints(&sandbox).len(), 4);
    let (samples, _) = sandbox.expect(0, &["report", "latest", "--format", "tidy-csv"]);
    let seeds: Vec<&str> = samples.lines().filter(|line| line.contains("image_seed")).collect();
    assert_eq!(seeds.len(), 4, "{samples}");

    let again = small_run(&sandbox, &args).output().unwrap();
    assert!(again.status.success() && !text(&again.stderr).contains("image 1"), "{}", text(&again.stderr));
    sandbox.assert_clean();
}

/// The digests of the aged files in the only checkpoint of a sandbox, as the agent wrote them.
fn aged_digests(sandbox: &Sandbox) -> serde_json::Value {
    let paths = checkpoints(sandbox);
    assert_eq!(paths.len(), 1, "{paths:?}");
    let bytes = std::fs::read(&paths[0]).unwrap();
    // The description, its length in eight bytes, and the version of the format in sixteen.
    let (rest, end) = bytes.split_at(bytes.len() - 24);
    let length = u64::from_le_bytes(end[..8].try_into().unwrap()) as usize;
    let description: serde_json::Value = serde_json::from_slice(&rest[rest.len() - length..]).unwrap();
    description["left"].clone()
}

/// Whether guests can boot here.
fn can_boot() -> bool {
    runs_as_root() && has_programs(&["qemu-system-x86_64"]) && find_debian_kernel("6.", "-amd64").is_some()
}

/// In guests that count instructions nothing depends on the host, so their kernel places the files equally each time.
#[test]
fn equal_seeds_leave_equal_trees_everywhere_and_equal_layouts_in_exact_guests() {
    if !can_boot() {
        return;
    }
    let age = |sandbox: &Sandbox, on: &str| {
        let flags = format!(
            "run --on {on} --fs ext4 --scale tiny --size 80MiB --factor age=churn:0.02x --age-images 1 --rounds 1 \
             --workload tree --set tree_files=20"
        );
        let mut command = sandbox.fsarena(&flags.split_ascii_whitespace().collect::<Vec<_>>());
        command.env("FSARENA_CACHE_DIR", sandbox.dir.join("cache"));
        BackgroundRun::start(sandbox, command)
    };
    let sandboxes = [Sandbox::new(), Sandbox::new(), Sandbox::new()];
    let mut runs: Vec<BackgroundRun> =
        sandboxes.iter().zip(["exact", "exact", "ram"]).map(|(sandbox, on)| age(sandbox, on)).collect();
    for (run, sandbox) in runs.iter_mut().zip(&sandboxes) {
        // This test is only about the image, so it does not wait for the work of the cell.
        run.wait_until("the image is kept", || !checkpoints(sandbox).is_empty());
        run.signal(Signal::TERM);
        run.wait_for_exit();
        sandbox.assert_clean();
    }
    let [one, other, here] = [0, 1, 2].map(|index| aged_digests(&sandboxes[index]));
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
    let sandbox = Sandbox::new();
    let guest = || {
        let flags = "run --on qemu --fs ext4 --scale tiny --size 128MiB --factor age=none,churn:2x --age-images 1 --rounds 1 \
                     --workload tree --set tree_files=20";
        let mut command = sandbox.fsarena(&flags.split_ascii_whitespace().collect::<Vec<_>>());
        command.env("FSARENA_CACHE_DIR", sandbox.dir.join("cache"));
        command
    };
    kill_after_first_part(&sandbox, guest());

    let output = guest().output().unwrap();
    let stderr = text(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    assert!(!stderr.contains("image 1: part 1 of") && stderr.contains("image 1: part 2 of 2"), "{stderr}");
    assert_eq!(checkpoints(&sandbox).len(), 2);
    let (samples, _) = sandbox.expect(0, &["report", "latest", "--format", "tidy-csv"]);
    assert_eq!(samples.lines().filter(|line| line.contains("image_seed")).count(), 2, "{samples}");
    sandbox.assert_clean();
}

#[test]
fn a_setup_that_is_kept_runs_once() {
    if !runs_as_root() {
        return;
    }
    let sandbox = Sandbox::new();
    let plan = "name = 'keep'\n[[workload]]\nuse = 'command'\nroom = '8MiB'\nsetup_once = 'echo 7 > a'\n\
                task = [{ name = 'read', cmd = 'test $(cat a) = 7' }]\n";
    std::fs::write(sandbox.dir.join("keep.toml"), plan).unwrap();
    let stderr = || {
        let output = small_run(&sandbox, &["keep.toml"]).output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stderr)
    };
    let first = stderr();
    assert!(first.contains("Setting up ext4 once."), "{first}");
    assert_eq!(checkpoints(&sandbox).len(), 1);
    let second = stderr();
    assert!(!second.contains("Setting up"), "{second}");
    sandbox.assert_clean();
}
