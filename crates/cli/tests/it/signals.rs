//! Signals in every phase of a run: no mount, loop device, image or process is left, finished cells are stored, and the run
//! ends by the signal.

use crate::common::disk::{FrozenFilesystem, MountedDisk, waits_for_disk};
use crate::common::gate::{BackgroundRun, Gate, When};
use crate::common::{self, Sandbox, runs_as_root};
use rustix::process::{Pid, Signal};
use std::{io::Write, os::unix::process::CommandExt};

const SIGNALS: [Signal; 3] = [Signal::INT, Signal::TERM, Signal::HUP];

/// The tasks of a complete cell of the plan.
const TASKS_OF_CELL: [&str; 6] = ["mkfs", "mount", "touch", "find-files", "rm-files", "unmount"];

/// Lets a stopped run continue after it has received the signal.
type Release = Box<dyn FnOnce()>;

/// For each signal: brings a run to a phase, sends the signal, and asserts that the run ends by it and leaves nothing.
/// `complete_cells` is the expected number of stored complete cells.
fn check_every_signal(complete_cells: u32, start_until_phase: fn(&Sandbox) -> (BackgroundRun, Release)) {
    if !runs_as_root() {
        return;
    }
    for signal in SIGNALS {
        let sandbox = Sandbox::new();
        let (mut run, release) = start_until_phase(&sandbox);
        run.signal(signal);
        release();
        run.assert_ended_by(signal);
        sandbox.assert_clean();
        assert_eq!(count_complete_cells(&sandbox), complete_cells, "{}", run.output());
    }
}

/// Starts a run of two rounds with one variant. The source disk is ext4, so its mkfs differs from that of the variant.
fn start_run(sandbox: &Sandbox, args: &[&str]) -> BackgroundRun {
    let args = [&["run", "plan.toml", "--fs", "ext2", "--rounds", "2"], args].concat();
    BackgroundRun::start(sandbox, sandbox.fsarena(&args))
}

/// The number of cells of which every task is stored.
fn count_complete_cells(sandbox: &Sandbox) -> u32 {
    let rows = sandbox.rows("latest");
    let tasks_of_round = |round| rows.iter().filter(|row| row.0 == round).map(|row| row.2.as_str()).collect::<Vec<_>>();
    (0..2).filter(|round| tasks_of_round(*round) == TASKS_OF_CELL).count() as u32
}

/// Starts a run and waits until it stops at a gate. The release opens the gate.
fn start_until_gate(sandbox: &Sandbox, mut gate: Gate, args: &[&str]) -> (BackgroundRun, Release) {
    let mut run = start_run(sandbox, args);
    gate.wait_until_stopped(&mut run);
    (run, Box::new(move || gate.open()))
}

/// Options of the user are tried before a run begins.
#[test]
fn signals_while_options_are_tried_leave_nothing() {
    if !runs_as_root() {
        return;
    }
    let gates = [
        (When::After, "losetup", "*fsarena-trial*", &[][..]),
        (When::Before, "mkfs.ext2", "*/dev/loop*", &["--dry-run"]),
        (When::After, "mount", "*fsarena-trial*", &[]),
        (When::After, "umount", "*fsarena-trial*", &[]),
    ];
    for ((when, program, pattern, extra_args), signal) in gates.into_iter().zip(SIGNALS.into_iter().cycle()) {
        let sandbox = Sandbox::new();
        let args = [&["--mkfs=-m 1", "--mount", "noatime"], extra_args].concat();
        let (mut run, release) = start_until_gate(&sandbox, Gate::new(&sandbox, when, program, pattern, 0), &args);
        run.signal(signal);
        release();
        run.assert_ended_by(signal);
        sandbox.assert_clean();
        assert_eq!(sandbox.run_file(""), None, "a run began: {}", run.output());
        assert!(!run.output().contains("could not be tried"), "{}", run.output());
    }
}

#[test]
fn signals_while_an_image_is_made_leave_nothing() {
    check_every_signal(0, |sandbox| {
        let mut run = start_run(sandbox, &["--size", "1GiB"]);
        run.wait_until("the image exists", || sandbox.run_file("images/test.img").is_some());
        (run, Box::new(|| {}))
    });
}

#[test]
fn signals_while_a_loop_device_is_attached_leave_nothing() {
    check_every_signal(0, |sandbox| {
        start_until_gate(sandbox, Gate::new(sandbox, When::Before, "losetup", "*test.img*", 0), &[])
    });
}

#[test]
fn signals_while_the_source_disk_is_made_leave_nothing() {
    check_every_signal(0, |sandbox| {
        start_until_gate(sandbox, Gate::new(sandbox, When::Before, "mkfs.ext4", "*/dev/loop*", 0), &[])
    });
}

#[test]
fn signals_while_inputs_are_made_leave_nothing() {
    check_every_signal(0, |sandbox| {
        let mut gate = Gate::new(sandbox, When::After, "mount", "*mnt/other*", 0);
        let mut run = start_run(sandbox, &["--set", "tasks=9"]);
        gate.wait_until_stopped(&mut run);
        let frozen = FrozenFilesystem::new(&sandbox.run_file("mnt/other").unwrap());
        gate.open();
        let pid = run.child.id() as i32;
        run.wait_until("it waits for the disk", || waits_for_disk(pid));
        (run, Box::new(move || drop(frozen)))
    });
}

#[test]
fn signals_during_the_idle_wait_leave_nothing() {
    if !runs_as_root() {
        return;
    }
    for signal in SIGNALS {
        let sandbox = Sandbox::new();
        let mut run = start_at_terminal(&sandbox);
        run.wait_for_output("wait until idle before mkfs");
        let fsarena = Pid::from_raw(sandbox.process_running("run").unwrap()).unwrap();
        rustix::process::kill_process(fsarena, signal).unwrap();
        assert_eq!(run.wait_for_exit().code(), Some(128 + signal.as_raw()), "{}", run.output());
        sandbox.assert_clean();
    }
}

#[test]
fn signals_during_mkfs_leave_nothing() {
    check_every_signal(1, |sandbox| {
        start_until_gate(sandbox, Gate::new(sandbox, When::Before, "mkfs.ext2", "*/dev/loop*", 1), &[])
    });
}

#[test]
fn signals_during_mount_leave_nothing() {
    check_every_signal(1, |sandbox| {
        start_until_gate(sandbox, Gate::new(sandbox, When::Before, "mount", "*mnt/test*", 1), &[])
    });
    check_every_signal(1, |sandbox| {
        start_until_gate(sandbox, Gate::new(sandbox, When::After, "mount", "*mnt/test*", 1), &[])
    });
}

#[test]
fn signals_during_a_native_task_leave_nothing() {
    check_every_signal(1, |sandbox| {
        let mut gate = Gate::new(sandbox, When::After, "mount", "*mnt/test*", 1);
        let mut run = start_run(sandbox, &[]);
        gate.wait_until_stopped(&mut run);
        // The filesystem is mounted only in the mount namespace of the agents.
        let agent_path =
            format!("/proc/{}/root{}", sandbox.agents()[0], sandbox.run_file("mnt/test").unwrap().display());
        let frozen = FrozenFilesystem::new(agent_path.as_ref());
        gate.open();
        run.wait_until("the agent waits for the disk", || sandbox.agents().into_iter().any(waits_for_disk));
        (run, Box::new(move || drop(frozen)))
    });
}

#[test]
fn signals_during_a_command_leave_nothing() {
    check_every_signal(1, |sandbox| {
        start_until_gate(
            sandbox,
            Gate::new(sandbox, When::Before, "touch", "*f00010", 1),
            &["--set", "driver=commands"],
        )
    });
}

#[test]
fn signals_during_the_sync_after_a_task_leave_nothing() {
    check_every_signal(0, |sandbox| {
        let disk = sandbox.keep_mounted(MountedDisk::ext4());
        let mut gate = Gate::new(sandbox, When::After, "touch", "*f00019", 0);
        let on = format!("loop:{}", disk.display());
        let mut run = start_run(sandbox, &["--set", "driver=commands", "--on", &on]);
        gate.wait_until_stopped(&mut run);
        // The device under test lies on this disk.
        let frozen = FrozenFilesystem::new(&disk);
        gate.open();
        run.wait_until("the agent waits for the disk", || sandbox.agents().into_iter().any(waits_for_disk));
        (run, Box::new(move || drop(frozen)))
    });
}

#[test]
fn signals_during_unmount_leave_nothing() {
    check_every_signal(1, |sandbox| {
        start_until_gate(sandbox, Gate::new(sandbox, When::Before, "umount", "*mnt/test*", 1), &[])
    });
}

#[test]
fn signals_while_devices_are_removed_leave_nothing() {
    check_every_signal(2, |sandbox| {
        start_until_gate(sandbox, Gate::new(sandbox, When::Before, "losetup", "*--detach*", 0), &[])
    });
}

#[test]
fn signals_while_reports_are_written_leave_nothing() {
    check_every_signal(2, |sandbox| {
        // Opening a pipe waits for a reader, and there is none.
        let pipe = sandbox.dir.join("pipe");
        drop(common::gate::fifo(&pipe));
        let mut run = start_run(sandbox, &["--export", &format!("csv={}", pipe.display())]);
        run.wait_until("the first reports exist", || !sandbox.run_text("samples.csv").is_empty());
        (run, Box::new(|| {}))
    });
}

/// Starts a run at a terminal, on a machine that does not become idle during the idle wait.
fn start_at_terminal(sandbox: &Sandbox) -> BackgroundRun {
    // Data written to this disk stays dirty for a while, and a single dirty page means that the machine is not idle.
    let disk = sandbox.keep_mounted(MountedDisk::ext4());
    std::fs::write(disk.join("dirty"), [1; 1 << 20]).unwrap();
    sandbox.edit_plan("1GiB", "0B");
    sandbox.edit_plan("50ms", "10m");
    BackgroundRun::at_terminal(sandbox, &sandbox.fsarena(&["run", "plan.toml", "--fs", "ext2"]))
}

#[test]
fn ctrl_c_at_a_terminal_ends_the_run_and_cleans_up() {
    if !runs_as_root() {
        return;
    }
    let sandbox = Sandbox::new();
    let mut gate = Gate::new(&sandbox, When::Before, "touch", "*f00010", 0);
    let mut run =
        BackgroundRun::at_terminal(&sandbox, &sandbox.fsarena(&["run", "plan.toml", "--set", "driver=commands"]));
    gate.wait_until_stopped(&mut run);
    // The terminal sends SIGINT to the whole foreground group.
    run.child.stdin.as_mut().unwrap().write_all(b"\x03").unwrap();
    assert_eq!(run.wait_for_exit().code(), Some(128 + Signal::INT.as_raw()), "{}", run.output());
    sandbox.assert_clean();
}

#[test]
fn a_closed_terminal_ends_the_run_and_cleans_up() {
    if !runs_as_root() {
        return;
    }
    let sandbox = Sandbox::new();
    let mut gate = Gate::new(&sandbox, When::Before, "touch", "*f00010", 0);
    let mut run =
        BackgroundRun::at_terminal(&sandbox, &sandbox.fsarena(&["run", "plan.toml", "--set", "driver=commands"]));
    gate.wait_until_stopped(&mut run);
    run.signal(Signal::KILL);
    run.assert_ended_by(Signal::KILL);
    common::gate::wait_until("it is gone", || sandbox.processes().is_empty());
    sandbox.assert_clean();
}

#[test]
fn a_signal_to_the_process_group_leaves_nothing() {
    if !runs_as_root() {
        return;
    }
    for signal in SIGNALS {
        let sandbox = Sandbox::new();
        let mut gate = Gate::new(&sandbox, When::Before, "touch", "*f00010", 1);
        let mut fsarena =
            sandbox.fsarena(&["run", "plan.toml", "--fs", "ext2", "--rounds", "2", "--set", "driver=commands"]);
        fsarena.process_group(0);
        let mut run = BackgroundRun::start(&sandbox, fsarena);
        gate.wait_until_stopped(&mut run);
        rustix::process::kill_process_group(Pid::from_child(&run.child), signal).unwrap();
        run.assert_ended_by(signal);
        sandbox.assert_clean();
        assert_eq!(count_complete_cells(&sandbox), 1);
    }
}

#[test]
fn a_run_under_nohup_ignores_a_hangup() {
    if !runs_as_root() {
        return;
    }
    let sandbox = Sandbox::new();
    let mut gate = Gate::new(&sandbox, When::Before, "mkfs.ext2", "*/dev/loop*", 0);
    let nohup = sandbox.fsarena_under(&["nohup"], &["run", "plan.toml", "--fs", "ext2"]);
    let mut run = BackgroundRun::start(&sandbox, nohup);
    gate.wait_until_stopped(&mut run);
    run.signal(Signal::HUP);
    gate.open();
    assert_eq!(run.wait_for_exit().code(), Some(0), "{}", run.output());
    sandbox.assert_clean();
}

#[test]
fn a_second_signal_does_not_break_the_clean_up() {
    if !runs_as_root() {
        return;
    }
    let sandbox = Sandbox::new();
    let mut mkfs_gate = Gate::new(&sandbox, When::Before, "mkfs.ext2", "*/dev/loop*", 1);
    let mut detach_gate = Gate::new(&sandbox, When::Before, "losetup", "*--detach*", 0);
    let mut run = start_run(&sandbox, &[]);
    mkfs_gate.wait_until_stopped(&mut run);
    run.signal(Signal::TERM);
    run.signal(Signal::TERM);
    detach_gate.wait_until_stopped(&mut run);
    // The run cleans up now.
    for signal in SIGNALS {
        run.signal(signal);
    }
    detach_gate.open();
    run.assert_ended_by(Signal::TERM);
    sandbox.assert_clean();
    assert_eq!(count_complete_cells(&sandbox), 1);
}
