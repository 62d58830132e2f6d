//! Nothing holds a signal up: pipes and devices are refused before they are opened, and what computes ends at once.

use crate::common::gate::{Gate, Running, When, fifo};
use crate::common::kernel::has;
use crate::common::{Place, root, stored};
use rustix::process::Signal;
use std::time::{Duration, Instant};

/// A second is promised; the machine of a test may be busy.
const WITHIN: Duration = Duration::from_secs(30);

/// Whether a process has a handler for SIGTERM by now.
fn catches_signals(pid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).map(str::trim);
    let mask = mask.and_then(|digits| u64::from_str_radix(digits, 16).ok()).unwrap_or(0);
    mask >> (Signal::TERM.as_raw() - 1) & 1 == 1
}

/// Starts a command that would go on for long, and ends it by each signal.
#[track_caller]
fn ended_by_every_signal(args: &[&str]) {
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let place = Place::new();
        let mut run = Running::start(&place, place.fsarena(args));
        let pid = run.child.id();
        run.until("it catches signals", || catches_signals(pid));
        std::thread::sleep(Duration::from_millis(300));
        run.signal(signal);
        let begun = Instant::now();
        run.ended_by(signal);
        assert!(begun.elapsed() < WITHIN, "{:?}", begun.elapsed());
        place.assert_clean();
    }
}

#[test]
fn a_signal_while_a_plan_is_resolved_ends_fsarena() {
    ended_by_every_signal(&["run", "plan.toml", "--on", "dir:home", "--set", "tree_files=10000000", "--dry-run"]);
}

#[test]
fn while_the_buffers_of_a_load_are_filled() {
    let load = "load --rw write --create-on-open --bs 1g --size 1g --numjobs 2 --dir home --quiet";
    ended_by_every_signal(&load.split(' ').collect::<Vec<_>>());
}

/// Runs a line that must end by itself with exit code 2 and these words.
#[track_caller]
fn refused(place: &Place, line: &str, words: &[&str]) {
    let mut run = Running::start(place, place.fsarena(&line.split(' ').collect::<Vec<_>>()));
    let code = run.ended().code();
    let said = run.said();
    assert!(code == Some(2) && words.iter().all(|word| said.contains(word)), "{line}: {code:?}\n{said}");
    std::fs::remove_file(place.dir.join("said")).unwrap();
}

#[test]
fn pipes_devices_and_directories_are_refused_by_what_they_are() {
    let place = Place::new();
    drop(fifo(&place.dir.join("pipe")));
    let pipe = ["pipe", "a named pipe (FIFO)", "requires a regular file"];
    for line in [
        "run pipe",
        "run gus3 --workload dbench --on dir:home --scale tiny --set loadfile=pipe",
        "ab pipe --a fs=ext4 --b fs=ext4",
        "watch --log pipe --windows 1 --window 1s",
        "compare pipe pipe",
    ] {
        refused(&place, line, &pipe);
    }
    let zero = ["/dev/zero", "a character device"];
    for line in [
        "run /dev/zero",
        "run gus3 --workload dbench --on dir:home --scale tiny --set loadfile=/dev/zero",
        "watch --log /dev/zero --windows 1 --window 1s",
        "compare /dev/zero /dev/zero",
    ] {
        refused(&place, line, &zero);
    }
    if has(&["qemu-system-x86_64"]) {
        refused(&place, "run plan.toml --on qemu --kernel pipe --dry-run", &pipe);
        refused(&place, "run plan.toml --on qemu --kernel /dev/zero --dry-run", &zero);
    }
    std::fs::rename(place.dir.join("pipe"), place.dir.join("pipe.csv")).unwrap();
    refused(&place, "analyse pipe.csv", &pipe[1..]);
    refused(&place, "run home", &["home", "a directory"]);
    assert!(!place.runs().exists(), "fsarena began a run");
    place.assert_clean();
}

#[test]
fn pipes_in_the_directory_of_a_run_are_refused() {
    for (file, lines) in [
        ("command.log", ["show latest", "report latest --format html"]),
        ("plan.toml", ["show latest", "report latest"]),
    ] {
        let place = Place::new();
        let run = stored::run(&place.runs());
        let path = run.path().join(file);
        std::fs::remove_file(&path).unwrap();
        drop(fifo(&path));
        for line in lines {
            refused(&place, line, &[file, "a named pipe (FIFO)"]);
        }
        // A listing reads the database alone.
        let (listed, _) = place.expect(0, &["list", "runs"]);
        assert!(listed.contains(&run.id()), "{listed}");
    }
}

#[test]
fn a_run_that_was_killed_before_its_first_command_is_shown() {
    if !root() {
        return;
    }
    let place = Place::new();
    let mut gate = Gate::new(&place, When::Before, "mkfs.ext4", "*-V*", 0);
    let mut run = Running::start(&place, place.fsarena(&["run", "plan.toml"]));
    gate.wait(&mut run);
    run.signal(Signal::KILL);
    run.ended_by(Signal::KILL);
    gate.open();
    assert!(place.run_file("command.log").is_none() && place.run_file("plan.toml").is_some());
    let (shown, _) = place.expect(0, &["show", "latest"]);
    assert!(shown.contains("no commands: the run ended before its first one"), "{shown}");
    let (json, _) = place.expect(0, &["show", "latest", "--format", "json"]);
    assert!(json.contains("\"commands\": []"), "{json}");
    let (report, _) = place.expect(0, &["report", "latest"]);
    assert!(report.contains("Nothing was measured: the run ended before its first task"), "{report}");
    let (listed, _) = place.expect(0, &["list", "runs"]);
    assert!(listed.contains("interrupted"), "{listed}");
    let (_, said) = place.expect(2, &["report", "latest", "--weight", "touch=3"]);
    assert!(said.contains("--weight"), "{said}");
}
