//! Killed and interrupted runs: what they left is recovered, and a resumption completes them, with every cell once.

use crate::common::disk::{FrozenFilesystem, MountedDisk, waits_for_disk};
use crate::common::gate::{BackgroundRun, Gate, When};
use crate::common::{Sandbox, runs_as_root, text};
use rustix::process::Signal;
use std::sync::OnceLock;

/// A run of two rounds with two variants whose mkfs is not that of the source disk.
const RUN_ARGS: [&str; 6] = ["run", "plan.toml", "--fs", "ext2,ext3", "--rounds", "2"];

/// Round, position in the round, variant and task of every sample, in the order of the run.
fn sample_rows(sandbox: &Sandbox) -> Vec<[String; 4]> {
    let (csv, _) = sandbox.expect(0, &["report", "latest", "--format", "csv"]);
    let columns = |line: &str| [1, 2, 3, 8].map(|n| line.split(',').nth(n).unwrap().to_string());
    assert_eq!(csv.lines().next().map(columns), Some(["round", "position", "variant", "task"].map(String::from)));
    csv.lines().skip(1).map(columns).collect()
}

/// The rows of a run with the same seed that is not interrupted.
fn undisturbed_rows() -> &'static Vec<[String; 4]> {
    static ROWS: OnceLock<Vec<[String; 4]>> = OnceLock::new();
    ROWS.get_or_init(|| {
        let sandbox = Sandbox::new();
        sandbox.expect(0, &RUN_ARGS);
        let rows = sample_rows(&sandbox);
        // mkfs, mount, three tasks, unmount.
        assert_eq!(rows.len(), 2 * 2 * 6);
        rows
    })
}

/// Resumes the run. Asserts that it then has every cell once, in the order of its seed.
#[track_caller]
fn resume_and_check(sandbox: &Sandbox) {
    let run_dir = sandbox.run_file(".").unwrap().canonicalize().unwrap();
    sandbox.expect(0, &["run", "--resume", "latest"]);
    sandbox.assert_clean();
    assert_eq!(&sample_rows(sandbox), undisturbed_rows());
    assert_eq!(sandbox.run_file(".").unwrap().canonicalize().unwrap(), run_dir);
}

/// Kills a run when it reaches a gate, recovers twice, and resumes.
fn kill_recover_and_resume(args: &[&str], make_gate: impl FnOnce(&Sandbox) -> Gate) {
    if !runs_as_root() {
        return;
    }
    let sandbox = Sandbox::new();
    let mut gate = make_gate(&sandbox);
    let mut run = BackgroundRun::start(&sandbox, sandbox.fsarena(&[&RUN_ARGS, args].concat()));
    gate.wait_until_stopped(&mut run);
    run.signal(Signal::KILL);
    run.assert_ended_by(Signal::KILL);
    recover_twice(&sandbox);
    resume_and_check(&sandbox);
}

/// Recovers. Asserts that there is something to recover, and that a second recovery finds nothing.
#[track_caller]
fn recover_twice(sandbox: &Sandbox) {
    assert_ne!(sandbox.leftovers(), [""; 0], "there is nothing to recover");
    sandbox.expect(0, &["recover"]);
    sandbox.assert_clean();
    let (printed, stderr) = sandbox.expect(0, &["recover"]);
    assert_eq!((printed.as_str(), stderr.as_str()), ("0 undone, 0 failed, 0 still running\n", ""));
}

#[test]
fn a_run_killed_before_the_loop_device_is_resumed() {
    kill_recover_and_resume(&[], |sandbox| Gate::new(sandbox, When::Before, "losetup", "*other.img*", 0));
}

#[test]
fn a_run_killed_after_the_loop_device_is_resumed() {
    kill_recover_and_resume(&[], |sandbox| Gate::new(sandbox, When::After, "losetup", "*test.img*", 0));
}

#[test]
fn a_run_killed_during_mkfs_is_resumed() {
    kill_recover_and_resume(&[], |sandbox| Gate::new(sandbox, When::Before, "mkfs.ext3", "*/dev/loop*", 0));
}

#[test]
fn a_run_killed_after_mount_is_resumed() {
    kill_recover_and_resume(&[], |sandbox| Gate::new(sandbox, When::After, "mount", "*mnt/test*", 2));
}

#[test]
fn a_run_killed_during_a_command_is_resumed() {
    kill_recover_and_resume(&["--set", "driver=commands"], |sandbox| {
        Gate::new(sandbox, When::Before, "touch", "*f00010", 3)
    });
}

#[test]
fn a_run_killed_during_unmount_is_resumed() {
    kill_recover_and_resume(&[], |sandbox| Gate::new(sandbox, When::Before, "umount", "*mnt/test*", 1));
}

#[test]
fn a_run_killed_while_its_devices_are_detached_is_resumed() {
    kill_recover_and_resume(&[], |sandbox| Gate::new(sandbox, When::After, "losetup", "*--detach*", 0));
}

#[test]
fn a_run_whose_event_log_cannot_be_written_continues_and_reports_it() {
    if !runs_as_root() {
        return;
    }
    let sandbox = Sandbox::new();
    let mut gate = Gate::new(&sandbox, When::Before, "mkfs.ext3", "*/dev/loop*", 0);
    let mut run = BackgroundRun::start(&sandbox, sandbox.fsarena(&RUN_ARGS));
    gate.wait_until_stopped(&mut run);
    run.signal(Signal::KILL);
    run.assert_ended_by(Signal::KILL);
    recover_twice(&sandbox);
    let event_log = sandbox.run_file("events.jsonl").unwrap();
    std::fs::remove_file(&event_log).unwrap();
    std::fs::create_dir(&event_log).unwrap();
    let (_, stderr) = sandbox.expect(0, &["run", "--resume", "latest"]);
    let incomplete = format!("the event log {} is incomplete (Is a directory", event_log.display());
    assert_eq!(stderr.matches(&incomplete).count(), 1, "{stderr}");
    let (record, _) = sandbox.expect(0, &["report", "latest", "--format", "json"]);
    assert!(record.contains("is incomplete (Is a directory"), "{record}");
    assert_eq!(&sample_rows(&sandbox), undisturbed_rows());
    sandbox.assert_clean();
}

#[test]
fn a_run_killed_during_a_hanging_sync_is_resumed() {
    if !runs_as_root() {
        return;
    }
    let sandbox = Sandbox::new();
    let disk = sandbox.keep_mounted(MountedDisk::ext4());
    let mut gate = Gate::new(&sandbox, When::After, "touch", "*f00019", 1);
    let on = format!("loop:{}", disk.display());
    let args = [&RUN_ARGS[..], &["--set", "driver=commands", "--on", &on]].concat();
    let mut run = BackgroundRun::start(&sandbox, sandbox.fsarena(&args));
    gate.wait_until_stopped(&mut run);
    let frozen = FrozenFilesystem::new(&disk);
    gate.open();
    run.wait_until("the agent waits for the disk", || sandbox.agents().into_iter().any(waits_for_disk));
    run.signal(Signal::KILL);
    run.assert_ended_by(Signal::KILL);
    // The agent is killed, but ends only when the disk answers.
    let mut recover = BackgroundRun::start(&sandbox, sandbox.fsarena(&["recover"]));
    recover.wait_for_output("is gone");
    drop(frozen);
    assert_eq!(recover.wait_for_exit().code(), Some(0), "{}", recover.output());
    sandbox.assert_clean();
    resume_and_check(&sandbox);
}

#[test]
fn resuming_recovers_a_killed_run_first() {
    if !runs_as_root() {
        return;
    }
    let sandbox = Sandbox::new();
    let mut gate = Gate::new(&sandbox, When::Before, "umount", "*mnt/test*", 1);
    let mut run = BackgroundRun::start(&sandbox, sandbox.fsarena(&RUN_ARGS));
    gate.wait_until_stopped(&mut run);
    run.signal(Signal::KILL);
    run.assert_ended_by(Signal::KILL);
    resume_and_check(&sandbox);
}

#[test]
fn resuming_detaches_the_devices_of_a_complete_run_that_was_killed() {
    if !runs_as_root() {
        return;
    }
    let sandbox = Sandbox::new();
    let mut gate = Gate::new(&sandbox, When::After, "losetup", "*--detach*", 0);
    let mut run = BackgroundRun::start(&sandbox, sandbox.fsarena(&RUN_ARGS));
    gate.wait_until_stopped(&mut run);
    run.signal(Signal::KILL);
    run.assert_ended_by(Signal::KILL);
    assert_ne!(sandbox.leftovers(), [""; 0]);
    resume_and_check(&sandbox);
}

#[test]
fn an_interrupted_run_is_completed() {
    if !runs_as_root() {
        return;
    }
    let sandbox = Sandbox::new();
    let mut gate = Gate::new(&sandbox, When::Before, "mkfs.ext2", "*/dev/loop*", 1);
    let mut run = BackgroundRun::start(&sandbox, sandbox.fsarena(&RUN_ARGS));
    gate.wait_until_stopped(&mut run);
    run.signal(Signal::INT);
    run.assert_ended_by(Signal::INT);
    let stderr = run.output();
    let id = stderr.split("fsarena run --resume ").nth(1).unwrap().split_whitespace().next().unwrap();
    assert!(sandbox.runs_dir().join(id).is_dir(), "{stderr}");
    resume_and_check(&sandbox);
}

#[test]
fn resuming_a_complete_run_only_writes_its_report() {
    if !runs_as_root() {
        return;
    }
    let sandbox = Sandbox::new();
    sandbox.expect(0, &RUN_ARGS);
    let log = sandbox.run_text("command.log");
    std::fs::remove_file(sandbox.run_file("report.md").unwrap()).unwrap();
    let (printed, stderr) = sandbox.expect(0, &["run", "--resume", "latest"]);
    assert!(stderr.contains("nothing is left to do") && printed.contains("Report: "), "{stderr}{printed}");
    assert_eq!(sandbox.run_text("command.log"), log);
    assert!(sandbox.run_text("report.md").contains("Touch 20 files"));
}

#[test]
fn a_running_run_is_neither_resumed_nor_recovered() {
    if !runs_as_root() {
        return;
    }
    let sandbox = Sandbox::new();
    let mut gate = Gate::new(&sandbox, When::Before, "mkfs.ext2", "*/dev/loop*", 1);
    let mut run = BackgroundRun::start(&sandbox, sandbox.fsarena(&RUN_ARGS));
    gate.wait_until_stopped(&mut run);
    let output = sandbox.output(&["run", "--resume", "latest"]);
    assert!(text(&output.stderr).contains("(fsarena) is writing this run"), "{}", text(&output.stderr));
    assert!(!output.status.success());
    let (printed, _) = sandbox.expect(0, &["recover"]);
    assert_eq!(printed, "0 undone, 0 failed, 1 still running\n");
    gate.open();
    assert_eq!(run.wait_for_exit().code(), Some(0), "{}", run.output());
    sandbox.assert_clean();
    assert_eq!(&sample_rows(&sandbox), undisturbed_rows());
}

#[test]
fn a_run_that_cannot_be_resumed_is_refused_with_the_reason() {
    let sandbox = Sandbox::new();
    let (_, stderr) = sandbox.expect(2, &["run", "--resume", "nothing"]);
    assert!(stderr.contains("Unknown run `nothing`"), "{stderr}");
    // A resumption changes no setting of the run.
    let (_, stderr) = sandbox.expect(2, &["run", "--resume", "latest", "--rounds", "9"]);
    assert!(stderr.contains("--rounds"), "{stderr}");
}

#[test]
fn a_variant_that_failed_keeps_its_place_in_the_order() {
    if !runs_as_root() {
        return;
    }
    let sandbox = Sandbox::new();
    // With this seed, ext3 is first.
    sandbox
        .shim("mkfs.ext3", "case \"$*\" in */dev/loop*) echo 'no such luck' >&2; exit 1;; esac; exec \"$REAL\" \"$@\"");
    let mut gate = Gate::new(&sandbox, When::Before, "mkfs.ext2", "*/dev/loop*", 0);
    let mut run = BackgroundRun::start(&sandbox, sandbox.fsarena(&RUN_ARGS));
    gate.wait_until_stopped(&mut run);
    run.signal(Signal::KILL);
    run.assert_ended_by(Signal::KILL);
    sandbox.expect(0, &["run", "--resume", "latest"]);
    sandbox.assert_clean();
    let ext2: Vec<_> = undisturbed_rows().iter().filter(|row| row[0] == "0" && row[2] == "ext2").cloned().collect();
    assert_eq!(ext2[0][1], "1");
    assert_eq!(sample_rows(&sandbox)[..ext2.len()], ext2);
    let (report, _) = sandbox.expect(0, &["report", "latest", "--format", "md"]);
    assert!(report.contains("round 1: ext3, ext2") && report.contains("round 2: ext2"), "{report}");
}

#[test]
fn an_interrupted_run_in_a_directory_is_resumed_and_cleaned_up() {
    let sandbox = Sandbox::new();
    let dir = sandbox.dir.join("a dir of mine");
    std::fs::create_dir(&dir).unwrap();
    let on = format!("dir:{}", dir.display());
    let plan = std::fs::read_to_string(sandbox.dir.join("plan.toml")).unwrap();
    std::fs::write(sandbox.dir.join("plan.toml"), plan.replace("fs = [\"ext4\"]", "")).unwrap();
    let args = ["run", "plan.toml", "--rounds", "2", "--on", &on, "--set", "driver=commands"];
    for signal in [Signal::INT, Signal::KILL] {
        let mut gate = Gate::new(&sandbox, When::Before, "touch", "*f00010", 1);
        let mut run = BackgroundRun::start(&sandbox, sandbox.fsarena(&args));
        gate.wait_until_stopped(&mut run);
        run.signal(signal);
        run.assert_ended_by(signal);
        sandbox.expect(0, &["recover"]);
        sandbox.assert_clean();
        assert_eq!(std::fs::read_dir(&dir).unwrap().count(), 0);
        sandbox.expect(0, &["run", "--resume", "latest"]);
        assert_eq!(sandbox.rows("latest").len(), 2 * 3);
        assert_eq!(std::fs::read_dir(&dir).unwrap().count(), 0);
        std::fs::remove_dir_all(sandbox.dir.join("gate-touch")).unwrap();
        std::fs::remove_dir_all(sandbox.runs_dir()).unwrap();
    }
}
