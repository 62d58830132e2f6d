//! Every signal in every phase: no mount, no loop device, no image and no process is left, what was
//! finished is in the store, and the run dies by that signal.

use crate::common::disk::{Disk, Frozen, waits_for_disk};
use crate::common::gate::{Gate, Running, When};
use crate::common::{self, Place, root};
use rustix::process::{Pid, Signal};
use std::{io::Write, os::unix::process::CommandExt};

const SIGNALS: [Signal; 3] = [Signal::INT, Signal::TERM, Signal::HUP];

/// The tasks of a whole cell of the test plan.
const CELL: [&str; 6] = ["mkfs", "mount", "touch", "find-files", "rm-files", "unmount"];

/// What a phase leaves to do for when the signal has been sent.
type Release = Box<dyn FnOnce()>;

/// Brings a run to a phase and sends a signal, with each of the signals. `finished` is the number of cells
/// that are in the store then.
fn every_signal(finished: u32, phase: fn(&Place) -> (Running, Release)) {
    if !root() {
        return;
    }
    for signal in SIGNALS {
        let place = Place::new();
        let (mut run, release) = phase(&place);
        run.signal(signal);
        release();
        run.ended_by(signal);
        place.assert_clean();
        assert_eq!(whole_cells(&place), finished, "{}", run.said());
    }
}

/// Starts two rounds of one variant. The source disk is ext4, so that its mkfs differs from that of the variant.
fn start(place: &Place, args: &[&str]) -> Running {
    let all = [&["run", "plan.toml", "--fs", "ext2", "--rounds", "2"], args].concat();
    Running::start(place, place.fsarena(&all))
}

/// Cells of which every task is in the store.
fn whole_cells(place: &Place) -> u32 {
    let rows = place.rows("latest");
    let of = |round| rows.iter().filter(|row| row.0 == round).map(|row| row.2.as_str()).collect::<Vec<_>>();
    (0..2).filter(|round| of(*round) == CELL).count() as u32
}

/// Starts a run and waits until it stands at a gate, which opens when the signal has been sent.
fn at(place: &Place, mut gate: Gate, args: &[&str]) -> (Running, Release) {
    let mut run = start(place, args);
    gate.wait(&mut run);
    (run, Box::new(move || gate.open()))
}

/// The user's options are tried before the run: no run begins.
#[test]
fn signals_while_options_are_tried_leave_nothing() {
    if !root() {
        return;
    }
    let gates = [
        (When::After, "losetup", "*fsarena-trial*", &[][..]),
        (When::Before, "mkfs.ext2", "*/dev/loop*", &["--dry-run"]),
        (When::After, "mount", "*fsarena-trial*", &[]),
        (When::After, "umount", "*fsarena-trial*", &[]),
    ];
    for ((when, program, pattern, more), signal) in gates.into_iter().zip(SIGNALS.into_iter().cycle()) {
        let place = Place::new();
        let args = [&["--mkfs=-m 1", "--mount", "noatime"], more].concat();
        let (mut run, release) = at(&place, Gate::new(&place, when, program, pattern, 0), &args);
        run.signal(signal);
        release();
        run.ended_by(signal);
        place.assert_clean();
        assert_eq!(place.run_file(""), None, "a run began: {}", run.said());
        assert!(!run.said().contains("could not be tried"), "{}", run.said());
    }
}

#[test]
fn signals_while_an_image_is_made_leave_nothing() {
    every_signal(0, |place| {
        let mut run = start(place, &["--size", "1GiB"]);
        run.until("the image is there", || place.run_file("images/test.img").is_some());
        (run, Box::new(|| {}))
    });
}

#[test]
fn signals_while_a_loop_device_is_attached_leave_nothing() {
    every_signal(0, |place| at(place, Gate::new(place, When::Before, "losetup", "*test.img*", 0), &[]));
}

#[test]
fn signals_while_the_source_disk_is_made_leave_nothing() {
    every_signal(0, |place| at(place, Gate::new(place, When::Before, "mkfs.ext4", "*/dev/loop*", 0), &[]));
}

#[test]
fn signals_while_inputs_are_made_leave_nothing() {
    every_signal(0, |place| {
        let mut gate = Gate::new(place, When::After, "mount", "*mnt/other*", 0);
        let mut run = start(place, &["--set", "tasks=9"]);
        gate.wait(&mut run);
        let frozen = Frozen::new(&place.run_file("mnt/other").unwrap());
        gate.open();
        let pid = run.child.id() as i32;
        run.until("it waits for the disk", || waits_for_disk(pid));
        (run, Box::new(move || drop(frozen)))
    });
}

#[test]
fn signals_during_the_idle_wait_leave_nothing() {
    if !root() {
        return;
    }
    for signal in SIGNALS {
        let place = Place::new();
        let mut run = at_terminal(&place);
        run.until_said("wait until idle before mkfs");
        let fsarena = Pid::from_raw(place.process("run").unwrap()).unwrap();
        rustix::process::kill_process(fsarena, signal).unwrap();
        assert_eq!(run.ended().code(), Some(128 + signal.as_raw()), "{}", run.said());
        place.assert_clean();
    }
}

#[test]
fn signals_during_mkfs_leave_nothing() {
    every_signal(1, |place| at(place, Gate::new(place, When::Before, "mkfs.ext2", "*/dev/loop*", 1), &[]));
}

#[test]
fn signals_during_mount_leave_nothing() {
    every_signal(1, |place| at(place, Gate::new(place, When::Before, "mount", "*mnt/test*", 1), &[]));
    every_signal(1, |place| at(place, Gate::new(place, When::After, "mount", "*mnt/test*", 1), &[]));
}

#[test]
fn signals_during_a_native_task_leave_nothing() {
    every_signal(1, |place| {
        let mut gate = Gate::new(place, When::After, "mount", "*mnt/test*", 1);
        let mut run = start(place, &[]);
        gate.wait(&mut run);
        // Only the agents see it.
        let seen = format!("/proc/{}/root{}", place.agents()[0], place.run_file("mnt/test").unwrap().display());
        let frozen = Frozen::new(seen.as_ref());
        gate.open();
        run.until("the agent waits for the disk", || place.agents().into_iter().any(waits_for_disk));
        (run, Box::new(move || drop(frozen)))
    });
}

#[test]
fn signals_during_a_command_leave_nothing() {
    every_signal(1, |place| {
        at(place, Gate::new(place, When::Before, "touch", "*f00010", 1), &["--set", "driver=commands"])
    });
}

#[test]
fn signals_during_the_sync_after_a_task_leave_nothing() {
    every_signal(0, |place| {
        let disk = place.mount(Disk::ext4());
        let mut gate = Gate::new(place, When::After, "touch", "*f00019", 0);
        let on = format!("loop:{}", disk.display());
        let mut run = start(place, &["--set", "driver=commands", "--on", &on]);
        gate.wait(&mut run);
        // The device under test lies on this disk.
        let frozen = Frozen::new(&disk);
        gate.open();
        run.until("the agent waits for the disk", || place.agents().into_iter().any(waits_for_disk));
        (run, Box::new(move || drop(frozen)))
    });
}

#[test]
fn signals_during_unmount_leave_nothing() {
    every_signal(1, |place| at(place, Gate::new(place, When::Before, "umount", "*mnt/test*", 1), &[]));
}

#[test]
fn signals_while_devices_are_removed_leave_nothing() {
    every_signal(2, |place| at(place, Gate::new(place, When::Before, "losetup", "*--detach*", 0), &[]));
}

#[test]
fn signals_while_reports_are_written_leave_nothing() {
    every_signal(2, |place| {
        // Opening a pipe waits for a reader, which never comes.
        let pipe = place.dir.join("pipe");
        drop(common::gate::fifo(&pipe));
        let mut run = start(place, &["--export", &format!("csv={}", pipe.display())]);
        run.until("the first reports are there", || !place.run_text("samples.csv").is_empty());
        (run, Box::new(|| {}))
    });
}

/// Starts a run at a terminal that waits in vain until the machine is idle.
fn at_terminal(place: &Place) -> Running {
    // Data written to this disk stays dirty for a while, and a single dirty page means that the machine is not idle.
    let disk = place.mount(Disk::ext4());
    std::fs::write(disk.join("dirty"), [1; 1 << 20]).unwrap();
    place.edit_plan("1GiB", "0B");
    place.edit_plan("50ms", "10m");
    Running::at_terminal(place, &place.fsarena(&["run", "plan.toml", "--fs", "ext2"]))
}

#[test]
fn ctrl_c_at_a_terminal_ends_the_run_and_cleans_up() {
    if !root() {
        return;
    }
    let place = Place::new();
    let mut gate = Gate::new(&place, When::Before, "touch", "*f00010", 0);
    let mut run = Running::at_terminal(&place, &place.fsarena(&["run", "plan.toml", "--set", "driver=commands"]));
    gate.wait(&mut run);
    // The terminal sends SIGINT to the whole foreground group.
    run.child.stdin.as_mut().unwrap().write_all(b"\x03").unwrap();
    assert_eq!(run.ended().code(), Some(128 + Signal::INT.as_raw()), "{}", run.said());
    place.assert_clean();
}

#[test]
fn a_closed_terminal_ends_the_run_and_cleans_up() {
    if !root() {
        return;
    }
    let place = Place::new();
    let mut gate = Gate::new(&place, When::Before, "touch", "*f00010", 0);
    let mut run = Running::at_terminal(&place, &place.fsarena(&["run", "plan.toml", "--set", "driver=commands"]));
    gate.wait(&mut run);
    run.signal(Signal::KILL);
    run.ended_by(Signal::KILL);
    common::gate::wait_until("it is gone", || place.processes().is_empty());
    place.assert_clean();
}

#[test]
fn a_signal_to_the_whole_group() {
    if !root() {
        return;
    }
    for signal in SIGNALS {
        let place = Place::new();
        let mut gate = Gate::new(&place, When::Before, "touch", "*f00010", 1);
        let mut fsarena =
            place.fsarena(&["run", "plan.toml", "--fs", "ext2", "--rounds", "2", "--set", "driver=commands"]);
        fsarena.process_group(0);
        let mut run = Running::start(&place, fsarena);
        gate.wait(&mut run);
        rustix::process::kill_process_group(Pid::from_child(&run.child), signal).unwrap();
        run.ended_by(signal);
        place.assert_clean();
        assert_eq!(whole_cells(&place), 1);
    }
}

#[test]
fn nohup_keeps_its_meaning() {
    if !root() {
        return;
    }
    let place = Place::new();
    let mut gate = Gate::new(&place, When::Before, "mkfs.ext2", "*/dev/loop*", 0);
    let nohup = place.started_by(&["nohup"], &["run", "plan.toml", "--fs", "ext2"]);
    let mut run = Running::start(&place, nohup);
    gate.wait(&mut run);
    run.signal(Signal::HUP);
    gate.open();
    assert_eq!(run.ended().code(), Some(0), "{}", run.said());
    place.assert_clean();
}

#[test]
fn a_second_signal_does_not_break_the_clean_up() {
    if !root() {
        return;
    }
    let place = Place::new();
    let mut mkfs = Gate::new(&place, When::Before, "mkfs.ext2", "*/dev/loop*", 1);
    let mut detach = Gate::new(&place, When::Before, "losetup", "*--detach*", 0);
    let mut run = start(&place, &[]);
    mkfs.wait(&mut run);
    run.signal(Signal::TERM);
    run.signal(Signal::TERM);
    detach.wait(&mut run);
    // It cleans up by now.
    for signal in SIGNALS {
        run.signal(signal);
    }
    detach.open();
    run.ended_by(Signal::TERM);
    place.assert_clean();
    assert_eq!(whole_cells(&place), 1);
}
