//! A signal ends fsarena at once: pipes and devices are refused before they are opened, and long computations stop.

use crate::common::gate::{BackgroundRun, Gate, When, fifo};
use crate::common::kernel::has_programs;
use crate::common::{Sandbox, runs_as_root, stored};
use rustix::process::Signal;
use std::time::{Duration, Instant};

/// The guide promises a second; the machine of a test may be busy.
const MAX_DELAY: Duration = Duration::from_secs(30);

/// Whether a process has a handler for SIGTERM by now.
fn catches_signals(pid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).map(str::trim);
    let mask = mask.and_then(|digits| u64::from_str_radix(digits, 16).ok()).unwrap_or(0);
    mask >> (Signal::TERM.as_raw() - 1) & 1 == 1
}

/// Starts a command that takes long, once for each signal, and ends it by the signal.
#[track_caller]
fn assert_every_signal_ends(args: &[&str]) {
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let sandbox = Sandbox::new();
        let mut run = BackgroundRun::start(&sandbox, sandbox.fsarena(args));
        let pid = run.child.id();
        run.wait_until("it catches signals", || catches_signals(pid));
        std::thread::sleep(Duration::from_millis(300));
        run.signal(signal);
        let begun = Instant::now();
        run.assert_ended_by(signal);
        assert!(begun.elapsed() < MAX_DELAY, "{:?}", begun.elapsed());
        sandbox.assert_clean();
    }
}

#[test]
fn a_signal_while_a_plan_is_resolved_ends_fsarena() {
    assert_every_signal_ends(&["run", "plan.toml", "--on", "dir:home", "--set", "tree_files=10000000", "--dry-run"]);
}

#[test]
fn a_signal_while_the_buffers_of_a_load_are_filled_ends_fsarena() {
    let load = "load --rw write --create-on-open --bs 1g --size 1g --numjobs 2 --dir home --quiet";
    assert_every_signal_ends(&load.split(' ').collect::<Vec<_>>());
}

/// Asserts that a command ends by itself with exit code 2, and that its output contains all these words.
#[track_caller]
fn assert_refused(sandbox: &Sandbox, line: &str, words: &[&str]) {
    let mut run = BackgroundRun::start(sandbox, sandbox.fsarena(&line.split(' ').collect::<Vec<_>>()));
    let code = run.wait_for_exit().code();
    let output = run.output();
    assert!(code == Some(2) && words.iter().all(|word| output.contains(word)), "{line}: {code:?}\n{output}");
    std::fs::remove_file(sandbox.dir.join("output")).unwrap();
}

#[test]
fn pipes_devices_and_directories_are_refused_by_their_kind() {
    let sandbox = Sandbox::new();
    drop(fifo(&sandbox.dir.join("pipe")));
    let pipe_words = ["pipe", "a named pipe (FIFO)", "requires a regular file"];
    for line in [
        "run pipe",
        "run gus3 --workload dbench --on dir:home --scale tiny --set loadfile=pipe",
        "ab pipe --a fs=ext4 --b fs=ext4",
        "watch --log pipe --windows 1 --window 1s",
        "compare pipe pipe",
    ] {
        assert_refused(&sandbox, line, &pipe_words);
    }
    let device_words = ["/dev/zero", "a character device"];
    for line in [
        "run /dev/zero",
        "run gus3 --workload dbench --on dir:home --scale tiny --set loadfile=/dev/zero",
        "watch --log /dev/zero --windows 1 --window 1s",
        "compare /dev/zero /dev/zero",
    ] {
        assert_refused(&sandbox, line, &device_words);
    }
    if has_programs(&["qemu-system-x86_64"]) {
        assert_refused(&sandbox, "run plan.toml --on qemu --kernel pipe --dry-run", &pipe_words);
        assert_refused(&sandbox, "run plan.toml --on qemu --kernel /dev/zero --dry-run", &device_words);
    }
    std::fs::rename(sandbox.dir.join("pipe"), sandbox.dir.join("pipe.csv")).unwrap();
    assert_refused(&sandbox, "analyse pipe.csv", &pipe_words[1..]);
    assert_refused(&sandbox, "run home", &["home", "a directory"]);
    assert!(!sandbox.runs_dir().exists(), "fsarena began a run");
    sandbox.assert_clean();
}

#[test]
fn pipes_in_the_directory_of_a_run_are_refused() {
    for (file, lines) in [
        ("command.log", ["show latest", "report latest --format html"]),
        ("plan.toml", ["show latest", "report latest"]),
    ] {
        let sandbox = Sandbox::new();
        let run = stored::store_run(&sandbox.runs_dir());
        let path = run.path().join(file);
        std::fs::remove_file(&path).unwrap();
        drop(fifo(&path));
        for line in lines {
            assert_refused(&sandbox, line, &[file, "a named pipe (FIFO)"]);
        }
        // A listing reads the database alone.
        let (listed, _) = sandbox.expect(0, &["list", "runs"]);
        assert!(listed.contains(&run.id()), "{listed}");
    }
}

#[test]
fn a_run_that_was_killed_before_its_first_command_is_shown() {
    if !runs_as_root() {
        return;
    }
    let sandbox = Sandbox::new();
    let mut gate = Gate::new(&sandbox, When::Before, "mkfs.ext4", "*-V*", 0);
    let mut run = BackgroundRun::start(&sandbox, sandbox.fsarena(&["run", "plan.toml"]));
    gate.wait_until_stopped(&mut run);
    run.signal(Signal::KILL);
    run.assert_ended_by(Signal::KILL);
    gate.open();
    assert!(sandbox.run_file("command.log").is_none() && sandbox.run_file("plan.toml").is_some());
    let (shown, _) = sandbox.expect(0, &["show", "latest"]);
    assert!(shown.contains("no commands: the run ended before its first one"), "{shown}");
    let (json, _) = sandbox.expect(0, &["show", "latest", "--format", "json"]);
    assert_eq!(serde_json::from_str::<serde_json::Value>(&json).unwrap()["commands"], serde_json::json!([]), "{json}");
    let (report, _) = sandbox.expect(0, &["report", "latest"]);
    assert!(report.contains("Nothing was measured: the run ended before its first task"), "{report}");
    let (listed, _) = sandbox.expect(0, &["list", "runs"]);
    assert!(listed.contains("interrupted"), "{listed}");
    let (_, stderr) = sandbox.expect(2, &["report", "latest", "--weight", "touch=3"]);
    assert!(stderr.contains("--weight"), "{stderr}");
}
