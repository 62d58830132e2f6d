//! Failures: each is reported with its cause and its variant, and the other variants continue.

use crate::common::disk::MountedDisk;
use crate::common::gate::{BackgroundRun, Gate, When, fifo};
use crate::common::{self, Sandbox, runs_as_root};
use std::{io::Write, path::Path, process::Stdio};

/// Flags that run one round of two variants with the real programs.
const RUN_ARGS: [&str; 6] = ["run", "plan.toml", "--fs", "ext2,ext3", "--set", "driver=commands"];

/// The tasks of a complete cell of the plan.
const TASKS_OF_CELL: [&str; 6] = ["mkfs", "mount", "touch", "find-files", "rm-files", "unmount"];

/// The arguments of [`RUN_ARGS`] and these.
fn run_args<'a>(args: &[&'a str]) -> Vec<&'a str> {
    [&RUN_ARGS, args].concat()
}

/// The stored tasks of a variant.
fn stored_tasks(sandbox: &Sandbox, variant: &str) -> Vec<String> {
    sandbox.rows("latest").into_iter().filter(|row| row.1 == variant).map(|row| row.2).collect()
}

/// Asserts that only the variant `failed` failed, that the report has this text, and that the machine is clean.
#[track_caller]
fn assert_only_failure(sandbox: &Sandbox, failed: &str, text: &str) {
    let other = if failed == "ext2" { "ext3" } else { "ext2" };
    assert_eq!(stored_tasks(sandbox, other), TASKS_OF_CELL);
    assert_ne!(stored_tasks(sandbox, failed), TASKS_OF_CELL);
    let (report, _) = sandbox.expect(0, &["report", "latest", "--format", "md"]);
    let report = report.replace('\\', "");
    assert!(report.contains(&format!("{failed}: failed in round 1")), "{report}");
    assert!(report.contains(text), "{report}");
    sandbox.assert_clean();
}

/// Asserts that fsarena made nothing: no run, journal or image.
#[track_caller]
fn assert_nothing_made(sandbox: &Sandbox) {
    assert!(!sandbox.runs_dir().exists() && !sandbox.state_dir().exists());
    sandbox.assert_clean();
}

#[test]
fn an_image_that_is_too_small_for_the_work_is_refused() {
    if !runs_as_root() {
        return;
    }
    let sandbox = Sandbox::new();
    let (_, stderr) = sandbox.expect(6, &run_args(&["--size", "8MiB"]));
    assert!(stderr.contains("8.0 MiB is too small") && stderr.contains("MiB for this work"), "{stderr}");
    assert_nothing_made(&sandbox);
    // The size that the error names is enough.
    let needed = stderr.split("need ").nth(1).unwrap().split(" for this work").next().unwrap();
    sandbox.expect(0, &run_args(&["--size", &needed.replace(' ', "")]));
}

#[test]
fn too_little_space_for_images_is_refused() {
    if !runs_as_root() {
        return;
    }
    let sandbox = Sandbox::new();
    let disk = sandbox.keep_mounted(MountedDisk::tmpfs(64));
    let (_, stderr) = sandbox.expect(6, &run_args(&["--on", &format!("loop:{}", disk.display())]));
    assert!(stderr.contains("needed, 64.0 MiB free") && stderr.contains("--on loop:DIR"), "{stderr}");
    assert_nothing_made(&sandbox);
}

#[test]
fn space_that_is_used_up_before_the_image_is_made_is_reported() {
    if !runs_as_root() {
        return;
    }
    let sandbox = Sandbox::new();
    let disk = sandbox.keep_mounted(MountedDisk::tmpfs(400));
    let mut gate = Gate::new(&sandbox, When::Before, "losetup", "*other.img*", 0);
    let on = format!("loop:{}", disk.display());
    let mut run = BackgroundRun::start(&sandbox, sandbox.fsarena(&run_args(&["--on", &on])));
    gate.wait_until_stopped(&mut run);
    std::fs::write(disk.join("file of a user"), vec![0; 100 << 20]).unwrap();
    gate.open();
    assert_eq!(run.wait_for_exit().code(), Some(6), "{}", run.output());
    assert!(run.output().contains("no room for the image"), "{}", run.output());
    std::fs::remove_file(disk.join("file of a user")).unwrap();
    sandbox.assert_clean();
    assert_eq!(std::fs::read_dir(disk).unwrap().count(), 0);
}

#[test]
fn a_failing_mkfs_ends_only_its_variant() {
    if !runs_as_root() {
        return;
    }
    let sandbox = Sandbox::new();
    sandbox.shim("mkfs.ext2", "echo 'the disk is cursed' >&2; exit 1");
    sandbox.expect(0, &RUN_ARGS);
    assert_only_failure(&sandbox, "ext2", "mkfs.ext2 -F /dev/loop");
    assert_only_failure(&sandbox, "ext2", "failed (exit 1): the disk is cursed");
}

#[test]
fn a_cell_whose_mkfs_crashes_runs_once_more() {
    if !runs_as_root() {
        return;
    }
    let sandbox = Sandbox::new();
    // mkfs may write to its device only, so the log of the run says whether it has crashed.
    let crash_once = "grep -qs '\"signal 6\"' \"$DIR\"/runs/*/command.log || kill -ABRT $$";
    sandbox.shim("mkfs.ext2", &format!("case \"$*\" in */dev/loop*) {crash_once};; esac; exec \"$REAL\" \"$@\""));
    sandbox.expect(0, &RUN_ARGS);
    assert_eq!(stored_tasks(&sandbox, "ext2"), TASKS_OF_CELL);
    let (report, _) = sandbox.expect(0, &["report", "latest", "--format", "md"]);
    assert!(report.contains("died in round 1, and fsarena ran the cell again"), "{report}");
    sandbox.assert_clean();
}

#[test]
fn a_failing_mount_ends_only_its_variant() {
    if !runs_as_root() {
        return;
    }
    let sandbox = Sandbox::new();
    sandbox
        .shim("mount", "case \"$*\" in *ext3*) echo 'mount: no such luck' >&2; exit 32;; esac; exec \"$REAL\" \"$@\"");
    sandbox.expect(0, &RUN_ARGS);
    assert_only_failure(&sandbox, "ext3", "failed (exit 32): mount: no such luck");
    assert_eq!(stored_tasks(&sandbox, "ext3"), ["mkfs"]);
}

/// Makes a shim that runs `script` instead of the program at its third call. The returned pipe must stay open meanwhile.
#[must_use]
fn fail_third_call(sandbox: &Sandbox, program: &str, script: &str) -> std::fs::File {
    // The program may write only to the filesystem under test, so it cannot count its calls in a file; it reads from a pipe.
    let turns = fifo(&sandbox.dir.join("turns"));
    (&turns).write_all(&[&b"pps"[..], &[b'p'; 10_000]].concat()).unwrap();
    let is_third = "[ \"$(head -c 1 \"$DIR/turns\")\" = s ]";
    sandbox.shim(program, &format!("if {is_third}; then {script}; fi\nexec \"$REAL\" \"$@\""));
    turns
}

/// The variant that ran first.
fn first_variant(sandbox: &Sandbox) -> String {
    sandbox.rows("latest")[0].1.clone()
}

#[test]
fn a_failing_task_ends_only_its_variant() {
    if !runs_as_root() {
        return;
    }
    let sandbox = Sandbox::new();
    // The first call is `touch --version`.
    let _turns = fail_third_call(&sandbox, "touch", "echo 'touch: worn out' >&2; exit 3");
    sandbox.expect(0, &RUN_ARGS);
    assert_only_failure(&sandbox, &first_variant(&sandbox), "failed (exit 3): touch: worn out");
    assert_eq!(stored_tasks(&sandbox, &first_variant(&sandbox)), ["mkfs", "mount", "unmount"]);
}

#[test]
fn a_full_filesystem_fails_its_variant() {
    if !runs_as_root() {
        return;
    }
    for driver in ["commands", "native"] {
        let sandbox = Sandbox::new();
        // Too few inodes for twenty files.
        let args = ["run", "plan.toml", "--fs", "ext2", "--mkfs", "-N 2048", "--mkfs", "-b 4096 -N 16"];
        sandbox.expect(0, &[&args[..], &["--set", &format!("driver={driver}")]].concat());
        let (report, _) = sandbox.expect(0, &["report", "latest", "--format", "md"]);
        assert!(report.contains("No space left on device"), "{report}");
        assert_eq!(sandbox.rows("latest").len(), TASKS_OF_CELL.len() + 3, "{report}");
        sandbox.assert_clean();
    }
}

#[test]
fn a_run_whose_variants_all_fail_reports_each() {
    if !runs_as_root() {
        return;
    }
    let sandbox = Sandbox::new();
    sandbox
        .shim("touch", "case \"$1\" in --version) exec \"$REAL\" \"$@\";; esac; echo 'no more touching' >&2; exit 1");
    let (_, stderr) = sandbox.expect(4, &RUN_ARGS);
    assert!(stderr.contains("every variant has failed"), "{stderr}");
    let list = stderr.split("every variant has failed:").nth(1).unwrap();
    assert_eq!(list.matches("no more touching").count(), 2, "{stderr}");
    sandbox.assert_clean();
}

#[test]
fn a_missing_mkfs_is_reported_with_its_package() {
    if !runs_as_root() {
        return;
    }
    let sandbox = Sandbox::new();
    let output = sandbox.fsarena_without("mkfs.xfs", &["run", "plan.toml", "--fs", "ext2,xfs"]).output().unwrap();
    let stderr = common::text(&output.stderr);
    assert_eq!(output.status.code(), Some(6), "{stderr}");
    assert!(stderr.contains("mkfs.xfs is not installed: apt-get install xfsprogs"), "{stderr}");
    assert_nothing_made(&sandbox);
}

#[test]
fn a_crash_of_the_agent_ends_only_its_variant() {
    if !runs_as_root() {
        return;
    }
    for (signal, words) in [("KILL", "signal: 9 (SIGKILL)"), ("SEGV", "signal: 11 (SIGSEGV)")] {
        let sandbox = Sandbox::new();
        // Rust's handler survives one SIGSEGV that no fault caused, hence the loop. fsarena also ends the sleep.
        let crash = format!("while kill -{signal} $PPID; do sleep 0.01; done; exec sleep 1000");
        let _turns = fail_third_call(&sandbox, "touch", &crash);
        sandbox.expect(0, &RUN_ARGS);
        assert_only_failure(&sandbox, &first_variant(&sandbox), words);
    }
}

#[test]
fn an_unwritable_runs_directory_is_reported() {
    if !runs_as_root() {
        return;
    }
    let sandbox = Sandbox::new();
    let disk = sandbox.keep_mounted(MountedDisk::tmpfs(1));
    common::disk::remount_read_only(&disk);
    let on = format!("loop:{}", sandbox.dir.display());
    let (_, stderr) = sandbox.expect(6, &run_args(&["--runs", disk.to_str().unwrap(), "--on", &on]));
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    assert!(stderr.contains("Read-only file system") && stderr.contains(disk.to_str().unwrap()), "{stderr}");
    sandbox.assert_clean();
}

#[test]
fn an_unwritable_state_directory_is_reported() {
    if !runs_as_root() {
        return;
    }
    let sandbox = Sandbox::new();
    let disk = sandbox.keep_mounted(MountedDisk::tmpfs(1));
    common::disk::remount_read_only(&disk);
    let mut fsarena = sandbox.fsarena(&RUN_ARGS);
    let output = fsarena.env("FSARENA_STATE_DIR", &disk).output().unwrap();
    let stderr = common::text(&output.stderr);
    assert_eq!(output.status.code(), Some(6), "{stderr}");
    assert!(stderr.contains("Read-only file system") && stderr.contains(disk.to_str().unwrap()), "{stderr}");
    sandbox.assert_clean();
}

#[test]
fn a_full_store_ends_the_run_with_a_message() {
    if !runs_as_root() {
        return;
    }
    let sandbox = Sandbox::new();
    let disk = sandbox.keep_mounted(MountedDisk::tmpfs(4));
    let images = sandbox.dir.join("elsewhere");
    std::fs::create_dir(&images).unwrap();
    let mut gate = Gate::new(&sandbox, When::Before, "umount", "*mnt/test*", 0);
    let on = format!("loop:{}", images.display());
    let args = run_args(&["--runs", disk.to_str().unwrap(), "--on", &on]);
    let mut run = BackgroundRun::start(&sandbox, sandbox.fsarena(&args));
    gate.wait_until_stopped(&mut run);
    fill_filesystem(&disk.join("file of a user"));
    gate.open();
    assert_eq!(run.wait_for_exit().code(), Some(6), "{}", run.output());
    assert!(run.output().contains("run.db") || run.output().contains("command.log"), "{}", run.output());
    sandbox.assert_clean();
}

/// Writes a file until the filesystem is full.
fn fill_filesystem(path: &Path) {
    let mut file = std::fs::File::create(path).unwrap();
    while std::io::Write::write(&mut file, &[0; 4096]).is_ok() {}
}

#[test]
fn a_closed_output_is_not_an_error() {
    if !runs_as_root() {
        return;
    }
    let sandbox = Sandbox::new();
    sandbox.expect(0, &RUN_ARGS);
    let commands: [&[&str]; 9] = [
        &RUN_ARGS,
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
        let output = sandbox.fsarena(args).stdout(writer).stderr(Stdio::piped()).output().unwrap();
        let stderr = common::text(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{args:?}: {stderr}");
        assert!(!stderr.contains("panicked") && !stderr.contains("Broken pipe"), "{args:?}: {stderr}");
    }
    for args in commands {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = sandbox.fsarena(args).stderr(writer).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{args:?}: {}", common::text(&output.stdout));
    }
    sandbox.assert_clean();
}

#[test]
fn paths_with_spaces_and_newlines_work() {
    if !runs_as_root() {
        return;
    }
    let sandbox = Sandbox::new();
    let (runs, images) = (sandbox.dir.join("my runs\nof today"), sandbox.dir.join("my \\ \"images\"\n"));
    std::fs::create_dir(&images).unwrap();
    let runs = runs.to_str().unwrap();
    let on = format!("loop:{}", images.display());
    sandbox.expect(0, &run_args(&["--runs", runs]));
    sandbox.assert_clean();
    sandbox.expect(0, &run_args(&["--runs", runs, "--on", &on]));
    sandbox.assert_clean();
    assert_eq!(std::fs::read_dir(&images).unwrap().count(), 0);
    let (listing, _) = sandbox.expect(0, &["list", "runs", "--runs", runs, "--format", "json"]);
    assert_eq!(listing.matches("\"run\"").count(), 2, "{listing}");
    // A run in such a directory that was killed is recovered.
    let mut gate = Gate::new(&sandbox, When::After, "mount", "*mnt/test*", 0);
    let mut run = BackgroundRun::start(&sandbox, sandbox.fsarena(&run_args(&["--runs", runs, "--on", &on])));
    gate.wait_until_stopped(&mut run);
    run.kill_and_recover(&sandbox);
    assert_eq!(std::fs::read_dir(&images).unwrap().count(), 0);
}
