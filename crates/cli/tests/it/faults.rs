//! What can fail, fails in words: what lacks, in which variant, and the other variants go on.

use crate::common::disk::Disk;
use crate::common::gate::{Gate, Running, When, fifo};
use crate::common::{self, Place, root};
use std::{io::Write, path::Path, process::Stdio};

/// Two variants, one round, by the real programs.
const RUN: [&str; 6] = ["run", "plan.toml", "--fs", "ext2,ext3", "--set", "driver=commands"];

/// The tasks of a whole cell of the test plan.
const CELL: [&str; 6] = ["mkfs", "mount", "touch", "find-files", "rm-files", "unmount"];

fn with<'a>(args: &[&'a str]) -> Vec<&'a str> {
    [&RUN, args].concat()
}

/// The tasks of a variant that are in the store.
fn steps(place: &Place, variant: &str) -> Vec<String> {
    place.rows("latest").into_iter().filter(|row| row.1 == variant).map(|row| row.2).collect()
}

/// One variant failed in these words, which the report has; the other went on. The machine is clean.
#[track_caller]
fn only_fails(place: &Place, failed: &str, words: &str) {
    let other = if failed == "ext2" { "ext3" } else { "ext2" };
    assert_eq!(steps(place, other), CELL);
    assert_ne!(steps(place, failed), CELL);
    let (report, _) = place.expect(0, &["report", "latest", "--format", "md"]);
    let report = report.replace('\\', "");
    assert!(report.contains(&format!("{failed}: failed in round 1")), "{report}");
    assert!(report.contains(words), "{report}");
    place.assert_clean();
}

/// Nothing was made: no run, no journal, no image.
#[track_caller]
fn nothing_made(place: &Place) {
    assert!(!place.runs().exists() && !place.state().exists());
    place.assert_clean();
}

#[test]
fn an_image_that_is_too_small_for_the_work() {
    if !root() {
        return;
    }
    let place = Place::new();
    let (_, said) = place.expect(6, &with(&["--size", "8MiB"]));
    assert!(said.contains("8.0 MiB is too small") && said.contains("MiB for this work"), "{said}");
    nothing_made(&place);
    // What it says is needed is enough.
    let needed = said.split("need ").nth(1).unwrap().split(" for this work").next().unwrap();
    place.expect(0, &with(&["--size", &needed.replace(' ', "")]));
}

#[test]
fn too_little_space_for_images_is_refused() {
    if !root() {
        return;
    }
    let place = Place::new();
    let disk = place.mount(Disk::memory(64));
    let (_, said) = place.expect(6, &with(&["--on", &format!("loop:{}", disk.display())]));
    assert!(said.contains("needed, 64.0 MiB free") && said.contains("--on loop:DIR"), "{said}");
    nothing_made(&place);
}

#[test]
fn room_that_is_gone_when_the_image_is_made() {
    if !root() {
        return;
    }
    let place = Place::new();
    let disk = place.mount(Disk::memory(400));
    let mut gate = Gate::new(&place, When::Before, "losetup", "*other.img*", 0);
    let on = format!("loop:{}", disk.display());
    let mut run = Running::start(&place, place.fsarena(&with(&["--on", &on])));
    gate.wait(&mut run);
    std::fs::write(disk.join("a user's"), vec![0; 100 << 20]).unwrap();
    gate.open();
    assert_eq!(run.ended().code(), Some(6), "{}", run.said());
    assert!(run.said().contains("no room for the image"), "{}", run.said());
    std::fs::remove_file(disk.join("a user's")).unwrap();
    place.assert_clean();
    assert_eq!(std::fs::read_dir(disk).unwrap().count(), 0);
}

#[test]
fn a_failing_mkfs_ends_only_its_variant() {
    if !root() {
        return;
    }
    let place = Place::new();
    place.shim("mkfs.ext2", "echo 'the disk is cursed' >&2; exit 1");
    place.expect(0, &RUN);
    only_fails(&place, "ext2", "mkfs.ext2 -F /dev/loop");
    only_fails(&place, "ext2", "failed (exit 1): the disk is cursed");
}

#[test]
fn a_cell_whose_mkfs_crashes_runs_once_more() {
    if !root() {
        return;
    }
    let place = Place::new();
    // mkfs may write to its device only, so the log of the run says whether it has crashed.
    let once = "grep -qs '\"signal 6\"' \"$DIR\"/runs/*/command.log || kill -ABRT $$";
    place.shim("mkfs.ext2", &format!("case \"$*\" in */dev/loop*) {once};; esac; exec \"$REAL\" \"$@\""));
    place.expect(0, &RUN);
    assert_eq!(steps(&place, "ext2"), CELL);
    let (report, _) = place.expect(0, &["report", "latest", "--format", "md"]);
    assert!(report.contains("died in round 1, and fsarena ran the cell again"), "{report}");
    place.assert_clean();
}

#[test]
fn a_failing_mount_ends_only_its_variant() {
    if !root() {
        return;
    }
    let place = Place::new();
    place.shim("mount", "case \"$*\" in *ext3*) echo 'mount: no such luck' >&2; exit 32;; esac; exec \"$REAL\" \"$@\"");
    place.expect(0, &RUN);
    only_fails(&place, "ext3", "failed (exit 32): mount: no such luck");
    assert_eq!(steps(&place, "ext3"), ["mkfs"]);
}

/// A shim that works until its third call, and does this instead then. As long as the file is open.
#[must_use]
fn third_time(place: &Place, program: &str, instead: &str) -> std::fs::File {
    // It may write to nothing but the filesystem under test, so it reads its turn.
    let turns = fifo(&place.dir.join("turns"));
    (&turns).write_all(&[&b"pps"[..], &[b'p'; 10_000]].concat()).unwrap();
    let turn = "[ \"$(head -c 1 \"$DIR/turns\")\" = s ]";
    place.shim(program, &format!("if {turn}; then {instead}; fi\nexec \"$REAL\" \"$@\""));
    turns
}

/// The variant that runs first.
fn first(place: &Place) -> String {
    place.rows("latest")[0].1.clone()
}

#[test]
fn a_failing_task_ends_only_its_variant() {
    if !root() {
        return;
    }
    let place = Place::new();
    // The first call asks for its version.
    let _turns = third_time(&place, "touch", "echo 'touch: worn out' >&2; exit 3");
    place.expect(0, &RUN);
    only_fails(&place, &first(&place), "failed (exit 3): touch: worn out");
    assert_eq!(steps(&place, &first(&place)), ["mkfs", "mount", "unmount"]);
}

#[test]
fn a_filesystem_fills_up() {
    if !root() {
        return;
    }
    for driver in ["commands", "native"] {
        let place = Place::new();
        // So few inodes that twenty files have no room.
        let args = ["run", "plan.toml", "--fs", "ext2", "--mkfs", "-N 2048", "--mkfs", "-b 4096 -N 16"];
        place.expect(0, &[&args[..], &["--set", &format!("driver={driver}")]].concat());
        let (report, _) = place.expect(0, &["report", "latest", "--format", "md"]);
        assert!(report.contains("No space left on device"), "{report}");
        assert_eq!(place.rows("latest").len(), CELL.len() + 3, "{report}");
        place.assert_clean();
    }
}

#[test]
fn a_run_whose_variants_all_fail_reports_each() {
    if !root() {
        return;
    }
    let place = Place::new();
    place.shim("touch", "case \"$1\" in --version) exec \"$REAL\" \"$@\";; esac; echo 'no more touching' >&2; exit 1");
    let (_, said) = place.expect(4, &RUN);
    assert!(said.contains("every variant has failed"), "{said}");
    let end = said.split("every variant has failed:").nth(1).unwrap();
    assert_eq!(end.matches("no more touching").count(), 2, "{said}");
    place.assert_clean();
}

#[test]
fn mkfs_is_not_installed() {
    if !root() {
        return;
    }
    let place = Place::new();
    let output = place.without("mkfs.xfs", &["run", "plan.toml", "--fs", "ext2,xfs"]).output().unwrap();
    let said = common::text(&output.stderr);
    assert_eq!(output.status.code(), Some(6), "{said}");
    assert!(said.contains("mkfs.xfs is not installed: apt-get install xfsprogs"), "{said}");
    nothing_made(&place);
}

#[test]
fn a_crash_of_the_agent_ends_only_its_variant() {
    if !root() {
        return;
    }
    for (signal, words) in [("KILL", "signal: 9 (SIGKILL)"), ("SEGV", "signal: 11 (SIGSEGV)")] {
        let place = Place::new();
        // Rust's handler survives one SIGSEGV that no fault caused, hence the loop. fsarena also ends the sleep.
        let crash = format!("while kill -{signal} $PPID; do sleep 0.01; done; exec sleep 1000");
        let _turns = third_time(&place, "touch", &crash);
        place.expect(0, &RUN);
        only_fails(&place, &first(&place), words);
    }
}

#[test]
fn an_unwritable_runs_directory_is_reported() {
    if !root() {
        return;
    }
    let place = Place::new();
    let disk = place.mount(Disk::memory(1));
    common::disk::read_only(&disk);
    let on = format!("loop:{}", place.dir.display());
    let (_, said) = place.expect(6, &with(&["--runs", disk.to_str().unwrap(), "--on", &on]));
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.contains("Read-only file system") && said.contains(disk.to_str().unwrap()), "{said}");
    place.assert_clean();
}

#[test]
fn an_unwritable_state_directory_is_reported() {
    if !root() {
        return;
    }
    let place = Place::new();
    let disk = place.mount(Disk::memory(1));
    common::disk::read_only(&disk);
    let mut fsarena = place.fsarena(&RUN);
    let output = fsarena.env("FSARENA_STATE_DIR", &disk).output().unwrap();
    let said = common::text(&output.stderr);
    assert_eq!(output.status.code(), Some(6), "{said}");
    assert!(said.contains("Read-only file system") && said.contains(disk.to_str().unwrap()), "{said}");
    place.assert_clean();
}

#[test]
fn a_full_store_ends_the_run_with_a_message() {
    if !root() {
        return;
    }
    let place = Place::new();
    let disk = place.mount(Disk::memory(4));
    let images = place.dir.join("elsewhere");
    std::fs::create_dir(&images).unwrap();
    let mut gate = Gate::new(&place, When::Before, "umount", "*mnt/test*", 0);
    let on = format!("loop:{}", images.display());
    let args = with(&["--runs", disk.to_str().unwrap(), "--on", &on]);
    let mut run = Running::start(&place, place.fsarena(&args));
    gate.wait(&mut run);
    fill(&disk.join("a user's"));
    gate.open();
    assert_eq!(run.ended().code(), Some(6), "{}", run.said());
    assert!(run.said().contains("run.db") || run.said().contains("command.log"), "{}", run.said());
    place.assert_clean();
}

/// Writes a file until the filesystem is full.
fn fill(path: &Path) {
    let mut file = std::fs::File::create(path).unwrap();
    while std::io::Write::write(&mut file, &[0; 4096]).is_ok() {}
}

#[test]
fn nobody_reads_the_output() {
    if !root() {
        return;
    }
    let place = Place::new();
    place.expect(0, &RUN);
    let commands: [&[&str]; 9] = [
        &RUN,
        &["report", "latest"],
        &["report", "latest", "--format", "csv"],
        &["show", "latest"],
        &["list", "metrics"],
        &["list", "runs", "--format", "json"],
        &["compare", "latest", "latest"],
        &["doctor"],
        &["recover"],
    ];
    for args in commands {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = place.fsarena(args).stdout(writer).stderr(Stdio::piped()).output().unwrap();
        let said = common::text(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{args:?}: {said}");
        assert!(!said.contains("panicked") && !said.contains("Broken pipe"), "{args:?}: {said}");
    }
    for args in commands {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = place.fsarena(args).stderr(writer).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{args:?}: {}", common::text(&output.stdout));
    }
    place.assert_clean();
}

#[test]
fn paths_with_spaces_and_newlines_work() {
    if !root() {
        return;
    }
    let place = Place::new();
    let (runs, images) = (place.dir.join("my runs\nof today"), place.dir.join("my \\ \"images\"\n"));
    std::fs::create_dir(&images).unwrap();
    let runs = runs.to_str().unwrap();
    let on = format!("loop:{}", images.display());
    place.expect(0, &with(&["--runs", runs]));
    place.assert_clean();
    place.expect(0, &with(&["--runs", runs, "--on", &on]));
    place.assert_clean();
    assert_eq!(std::fs::read_dir(&images).unwrap().count(), 0);
    let (listed, _) = place.expect(0, &["list", "runs", "--runs", runs, "--format", "json"]);
    assert_eq!(listed.matches("\"run\"").count(), 2, "{listed}");
    // And what is killed there is recovered.
    let mut gate = Gate::new(&place, When::After, "mount", "*mnt/test*", 0);
    let mut run = Running::start(&place, place.fsarena(&with(&["--runs", runs, "--on", &on])));
    gate.wait(&mut run);
    run.signal(rustix::process::Signal::KILL);
    run.ended();
    place.expect(0, &["recover"]);
    place.assert_clean();
    assert_eq!(std::fs::read_dir(&images).unwrap().count(), 0);
}
