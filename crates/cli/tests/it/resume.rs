//! What a SIGKILL leaves is recovered, and a run that was cut short is completed: every cell once.

use crate::common::disk::{Disk, Frozen, waits_for_disk};
use crate::common::gate::{Gate, Running, When};
use crate::common::{Place, root, text};
use rustix::process::Signal;
use std::sync::OnceLock;

/// Two variants whose mkfs is not that of the source disk, two rounds.
const RUN: [&str; 6] = ["run", "plan.toml", "--fs", "ext2,ext3", "--rounds", "2"];

/// Round, place in the round, variant and task of every row, in the order of the run.
fn rows(place: &Place) -> Vec<[String; 4]> {
    let (csv, _) = place.expect(0, &["report", "latest", "--format", "csv"]);
    let columns = |line: &str| [1, 2, 3, 8].map(|n| line.split(',').nth(n).unwrap().to_string());
    assert_eq!(csv.lines().next().map(columns), Some(["round", "position", "variant", "task"].map(String::from)));
    csv.lines().skip(1).map(columns).collect()
}

/// The rows of an undisturbed run. The plan sets its seed.
fn undisturbed() -> &'static Vec<[String; 4]> {
    static ROWS: OnceLock<Vec<[String; 4]>> = OnceLock::new();
    ROWS.get_or_init(|| {
        let place = Place::new();
        place.expect(0, &RUN);
        let rows = rows(&place);
        // mkfs, mount, three tasks, unmount.
        assert_eq!(rows.len(), 2 * 2 * 6);
        rows
    })
}

/// Resumes the run, which then has every cell once, in the order that its seed says.
#[track_caller]
fn completes(place: &Place) {
    let id = place.run_file(".").unwrap().file_name().map(|name| name.to_os_string());
    place.expect(0, &["run", "--resume", "latest"]);
    place.assert_clean();
    assert_eq!(&rows(place), undisturbed());
    assert_eq!(place.run_file(".").unwrap().file_name().map(|name| name.to_os_string()), id);
}

/// Kills a run once `reach` has brought it to its phase; recovers twice, and resumes.
fn killed(args: &[&str], gate: impl FnOnce(&Place) -> Gate) {
    if !root() {
        return;
    }
    let place = Place::new();
    let mut gate = gate(&place);
    let mut run = Running::start(&place, place.fsarena(&[&RUN, args].concat()));
    gate.wait(&mut run);
    run.signal(Signal::KILL);
    run.ended_by(Signal::KILL);
    recovers(&place);
    completes(&place);
}

#[track_caller]
fn recovers(place: &Place) {
    assert_ne!(place.left(), [""; 0], "nothing was left, so nothing is tried");
    place.expect(0, &["recover"]);
    place.assert_clean();
    let (printed, said) = place.expect(0, &["recover"]);
    assert_eq!((printed.as_str(), said.as_str()), ("0 undone, 0 failed, 0 still running\n", ""));
}

#[test]
fn a_run_killed_before_the_loop_device_is_resumed() {
    killed(&[], |place| Gate::new(place, When::Before, "losetup", "*other.img*", 0));
}

#[test]
fn a_run_killed_after_the_loop_device_is_resumed() {
    killed(&[], |place| Gate::new(place, When::After, "losetup", "*test.img*", 0));
}

#[test]
fn a_run_killed_during_mkfs_is_resumed() {
    killed(&[], |place| Gate::new(place, When::Before, "mkfs.ext3", "*/dev/loop*", 0));
}

#[test]
fn a_run_killed_after_mount_is_resumed() {
    killed(&[], |place| Gate::new(place, When::After, "mount", "*mnt/test*", 2));
}

#[test]
fn a_run_killed_during_a_command_is_resumed() {
    killed(&["--set", "driver=commands"], |place| Gate::new(place, When::Before, "touch", "*f00010", 3));
}

#[test]
fn a_run_killed_during_unmount_is_resumed() {
    killed(&[], |place| Gate::new(place, When::Before, "umount", "*mnt/test*", 1));
}

#[test]
fn killed_while_the_devices_are_given_back() {
    killed(&[], |place| Gate::new(place, When::After, "losetup", "*--detach*", 0));
}

#[test]
fn a_run_whose_event_log_cannot_be_written_goes_on_and_tells_the_user() {
    if !root() {
        return;
    }
    let place = Place::new();
    let mut gate = Gate::new(&place, When::Before, "mkfs.ext3", "*/dev/loop*", 0);
    let mut run = Running::start(&place, place.fsarena(&RUN));
    gate.wait(&mut run);
    run.signal(Signal::KILL);
    run.ended_by(Signal::KILL);
    recovers(&place);
    let log = place.run_file("events.jsonl").unwrap();
    std::fs::remove_file(&log).unwrap();
    std::fs::create_dir(&log).unwrap();
    let (_, said) = place.expect(0, &["run", "--resume", "latest"]);
    let incomplete = format!("the event log {} is incomplete (Is a directory", log.display());
    assert_eq!(said.matches(&incomplete).count(), 1, "{said}");
    let (record, _) = place.expect(0, &["report", "latest", "--format", "json"]);
    assert!(record.contains("is incomplete (Is a directory"), "{record}");
    assert_eq!(&rows(&place), undisturbed());
    place.assert_clean();
}

#[test]
fn a_run_killed_during_a_hanging_sync_is_resumed() {
    if !root() {
        return;
    }
    let place = Place::new();
    let disk = place.mount(Disk::ext4());
    let mut gate = Gate::new(&place, When::After, "touch", "*f00019", 1);
    let on = format!("loop:{}", disk.display());
    let args = [&RUN[..], &["--set", "driver=commands", "--on", &on]].concat();
    let mut run = Running::start(&place, place.fsarena(&args));
    gate.wait(&mut run);
    let frozen = Frozen::new(&disk);
    gate.open();
    run.until("the agent waits for the disk", || place.agents().into_iter().any(waits_for_disk));
    run.signal(Signal::KILL);
    run.ended_by(Signal::KILL);
    // The agent is killed and cannot go before the disk answers.
    let mut recover = Running::start(&place, place.fsarena(&["recover"]));
    recover.until_said("is gone");
    drop(frozen);
    assert_eq!(recover.ended().code(), Some(0), "{}", recover.said());
    place.assert_clean();
    completes(&place);
}

#[test]
fn without_recover_resuming_makes_way_for_itself() {
    if !root() {
        return;
    }
    let place = Place::new();
    let mut gate = Gate::new(&place, When::Before, "umount", "*mnt/test*", 1);
    let mut run = Running::start(&place, place.fsarena(&RUN));
    gate.wait(&mut run);
    run.signal(Signal::KILL);
    run.ended_by(Signal::KILL);
    completes(&place);
}

/// Such a run is complete already.
#[test]
fn resuming_gives_back_the_devices_that_a_complete_run_was_giving_back() {
    if !root() {
        return;
    }
    let place = Place::new();
    let mut gate = Gate::new(&place, When::After, "losetup", "*--detach*", 0);
    let mut run = Running::start(&place, place.fsarena(&RUN));
    gate.wait(&mut run);
    run.signal(Signal::KILL);
    run.ended_by(Signal::KILL);
    assert_ne!(place.left(), [""; 0]);
    completes(&place);
}

#[test]
fn an_interrupted_run_is_completed() {
    if !root() {
        return;
    }
    let place = Place::new();
    let mut gate = Gate::new(&place, When::Before, "mkfs.ext2", "*/dev/loop*", 1);
    let mut run = Running::start(&place, place.fsarena(&RUN));
    gate.wait(&mut run);
    run.signal(Signal::INT);
    run.ended_by(Signal::INT);
    let said = run.said();
    let id = said.split("fsarena run --resume ").nth(1).unwrap().split_whitespace().next().unwrap();
    assert!(place.runs().join(id).is_dir(), "{said}");
    completes(&place);
}

#[test]
fn of_a_complete_run_nothing_is_left_to_do() {
    if !root() {
        return;
    }
    let place = Place::new();
    place.expect(0, &RUN);
    let log = place.run_text("command.log");
    std::fs::remove_file(place.run_file("report.md").unwrap()).unwrap();
    let (printed, said) = place.expect(0, &["run", "--resume", "latest"]);
    assert!(said.contains("nothing is left to do") && printed.contains("Report: "), "{said}{printed}");
    assert_eq!(place.run_text("command.log"), log);
    assert!(place.run_text("report.md").contains("Touch 20 files"));
}

#[test]
fn a_run_that_goes_on_is_left_alone() {
    if !root() {
        return;
    }
    let place = Place::new();
    let mut gate = Gate::new(&place, When::Before, "mkfs.ext2", "*/dev/loop*", 1);
    let mut run = Running::start(&place, place.fsarena(&RUN));
    gate.wait(&mut run);
    let output = place.output(&["run", "--resume", "latest"]);
    assert!(text(&output.stderr).contains("(fsarena) is writing this run"), "{}", text(&output.stderr));
    assert!(!output.status.success());
    let (printed, _) = place.expect(0, &["recover"]);
    assert_eq!(printed, "0 undone, 0 failed, 1 still running\n");
    gate.open();
    assert_eq!(run.ended().code(), Some(0), "{}", run.said());
    place.assert_clean();
    assert_eq!(&rows(&place), undisturbed());
}

#[test]
fn a_run_that_cannot_be_resumed_is_refused_with_the_reason() {
    let place = Place::new();
    let (_, said) = place.expect(2, &["run", "--resume", "nothing"]);
    assert!(said.contains("Unknown run `nothing`"), "{said}");
    // A run goes on as it was begun.
    let (_, said) = place.expect(2, &["run", "--resume", "latest", "--rounds", "9"]);
    assert!(said.contains("--rounds"), "{said}");
}

#[test]
fn a_variant_that_failed_keeps_its_place_in_the_order() {
    if !root() {
        return;
    }
    let place = Place::new();
    // By the seed ext3 comes first.
    place
        .shim("mkfs.ext3", "case \"$*\" in */dev/loop*) echo 'no such luck' >&2; exit 1;; esac; exec \"$REAL\" \"$@\"");
    let mut gate = Gate::new(&place, When::Before, "mkfs.ext2", "*/dev/loop*", 0);
    let mut run = Running::start(&place, place.fsarena(&RUN));
    gate.wait(&mut run);
    run.signal(Signal::KILL);
    run.ended_by(Signal::KILL);
    place.expect(0, &["run", "--resume", "latest"]);
    place.assert_clean();
    let ext2: Vec<_> = undisturbed().iter().filter(|row| row[0] == "0" && row[2] == "ext2").cloned().collect();
    assert_eq!(ext2[0][1], "1");
    assert_eq!(rows(&place)[..ext2.len()], ext2);
    let (report, _) = place.expect(0, &["report", "latest", "--format", "md"]);
    assert!(report.contains("round 1: ext3, ext2") && report.contains("round 2: ext2"), "{report}");
}

#[test]
fn an_interrupted_run_in_a_directory_is_resumed_and_cleaned_up() {
    let place = Place::new();
    let dir = place.dir.join("a dir of mine");
    std::fs::create_dir(&dir).unwrap();
    let on = format!("dir:{}", dir.display());
    let plan = std::fs::read_to_string(place.dir.join("plan.toml")).unwrap();
    std::fs::write(place.dir.join("plan.toml"), plan.replace("fs = [\"ext4\"]", "")).unwrap();
    let args = ["run", "plan.toml", "--rounds", "2", "--on", &on, "--set", "driver=commands"];
    for signal in [Signal::INT, Signal::KILL] {
        let mut gate = Gate::new(&place, When::Before, "touch", "*f00010", 1);
        let mut run = Running::start(&place, place.fsarena(&args));
        gate.wait(&mut run);
        run.signal(signal);
        run.ended_by(signal);
        place.expect(0, &["recover"]);
        place.assert_clean();
        assert_eq!(std::fs::read_dir(&dir).unwrap().count(), 0);
        place.expect(0, &["run", "--resume", "latest"]);
        assert_eq!(place.rows("latest").len(), 2 * 3);
        assert_eq!(std::fs::read_dir(&dir).unwrap().count(), 0);
        std::fs::remove_dir_all(place.dir.join("gate-touch")).unwrap();
        std::fs::remove_dir_all(place.runs()).unwrap();
    }
}
