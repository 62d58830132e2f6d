//! The source disk in a directory or on a device that the user named for erasing, and refusals of both.

use crate::common::gate::{BackgroundRun, Gate, When};
use crate::common::stand_in::{InUse, LoopDisk, run, text};
use crate::common::{Sandbox, disk, runs_as_root};
use crate::guard::assert_run_refused;

/// Makes a sandbox whose plan copies from the source disk and to it.
fn make_sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.edit_plan("tasks = [1, 2, 3]", "tasks = [7, 8]");
    sandbox
}

#[test]
fn the_report_says_when_one_disk_holds_both_images() {
    if !runs_as_root() {
        return;
    }
    let sandbox = make_sandbox();
    let (tested_dir, source_dir) =
        (sandbox.keep_mounted(disk::MountedDisk::ext4()), sandbox.keep_mounted(disk::MountedDisk::tmpfs(256)));
    let on = format!("loop:{}", tested_dir.display());
    let words = "the source disk lies on the same physical disk as the filesystems under test: ";
    let run_and_report = |args: &[&str]| {
        sandbox.expect(0, &[&["run", "plan.toml", "--quiet", "--on", &on], args].concat());
        sandbox.assert_clean();
        sandbox.expect(0, &["report", "--format", "md"]).0
    };
    let report = run_and_report(&[]);
    assert!(report.contains(words) && report.contains("--other DIR"), "{report}");
    let report = run_and_report(&["--other", text(&source_dir)]);
    assert!(!report.contains(words), "{report}");
    let (log, _) = sandbox.expect(0, &["show", "latest"]);
    assert!(log.contains(&format!("{}/fsarena-", source_dir.display())) && log.contains("/other.img"), "{log}");
}

#[test]
fn a_device_becomes_the_source_disk_by_the_rules_of_erase() {
    if !runs_as_root() {
        return;
    }
    let sandbox = make_sandbox();
    let other = LoopDisk::new(256);
    let run_args = ["run", "plan.toml", "--quiet", "--other", other.id()];
    // The device is blank, and in the second run as fsarena left it.
    sandbox.expect(0, &run_args);
    sandbox.expect(0, &run_args);
    sandbox.assert_clean();
    assert_eq!(other.signatures(), "ext4");
    let (plan, _) = sandbox.expect(0, &["show", "latest"]);
    assert!(plan.contains(&format!("[device.other_device]\npath = \"{}\"", other.id())), "{plan}");
    // A stored plan does not erase a device again: the command line names it each time.
    let saved = sandbox.dir.join("saved.toml");
    std::fs::copy(sandbox.run_file("plan.toml").unwrap(), &saved).unwrap();
    let (_, stderr) = sandbox.expect(2, &["run", text(&saved), "--quiet"]);
    assert!(stderr.contains("to erase a device again, name it: --other DEVICE"), "{stderr}");

    run("mkfs.ext2", &["-q", "-F", text(&other.path)]);
    std::fs::remove_dir_all(sandbox.runs_dir()).unwrap();
    let before = other.bytes();
    let assert_refused = |args: &[&str], words: &[&str]| {
        assert_run_refused(&sandbox, args, words);
        assert!(other.bytes() == before, "{args:?} wrote to it");
    };
    let other_args = ["--other", other.id()];
    assert_refused(&other_args, &[other.id(), "carries ext2", "--other-signature ext2"]);
    assert_refused(&[&other_args[..], &["--other-signature", "xfs"]].concat(), &["carries ext2"]);
    assert_refused(&["--other", text(&other.path)], &["after a reboot", other.id()]);
    let file = other.image.clone();
    assert_refused(&["--other", text(&file)], &["a regular file", "--other DIR"]);
    let mounted = InUse::mount(other.id(), &other.dir("mnt"));
    assert_refused(&[&other_args[..], &["--other-signature", "ext2"]].concat(), &["is mounted at"]);
    drop(mounted);
    sandbox.expect(0, &[&run_args[..], &["--other-signature", "ext2"]].concat());
}

#[test]
fn both_devices_of_a_run_are_named_and_differ() {
    if !runs_as_root() {
        return;
    }
    let sandbox = make_sandbox();
    let (tested, other) = (LoopDisk::new(256), LoopDisk::new(256));
    let erase = ["run", "plan.toml", "--quiet", "--fs", "ext2", "--erase", tested.id(), "--other"];
    let (_, stderr) = sandbox.expect(2, &[&erase[..], &[tested.id()]].concat());
    assert!(stderr.contains("is both --erase and --other"), "{stderr}");
    sandbox.expect(0, &[&erase[..], &[other.id()]].concat());
    sandbox.assert_clean();
    assert_eq!((tested.signatures(), other.signatures()), ("ext2".into(), "ext4".into()));
}

#[test]
fn recover_detaches_the_source_disk_of_a_killed_run_and_resume_asks_for_its_signature() {
    if !runs_as_root() {
        return;
    }
    let sandbox = make_sandbox();
    let other = LoopDisk::new(256);
    let args = ["run", "plan.toml", "--fs", "ext2", "--other", other.id()];
    let mut gate = Gate::new(&sandbox, When::Before, "umount", "*mnt/test*", 0);
    let mut run = BackgroundRun::start(&sandbox, sandbox.fsarena(&args));
    gate.wait_until_stopped(&mut run);
    run.kill_and_recover(&sandbox);
    let (_, stderr) = sandbox.expect(2, &["run", "--resume", "latest", "--erase-signature", "ext4"]);
    assert!(stderr.contains("--erase-signature: this run erases no such device"), "{stderr}");
    let (_, stderr) = sandbox.expect(5, &["run", "--resume", "latest"]);
    assert!(stderr.contains("--other-signature ext4"), "{stderr}");
    sandbox.expect(0, &["run", "--resume", "latest", "--other-signature", "ext4"]);
    sandbox.assert_clean();
}
