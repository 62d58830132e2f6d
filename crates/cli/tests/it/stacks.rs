//! Layers over a filesystem, stacks below it, and levels that are varied one at a time.

use crate::common::gate::{BackgroundRun, Gate, When};
use crate::common::kernel::{find_debian_kernel, has_programs};
use crate::common::nobody::Nobody;
use crate::common::{Sandbox, runs_as_root};
use rustix::process::Signal;

/// The variants of the latest run.
fn variants(sandbox: &Sandbox) -> Vec<String> {
    let mut variants: Vec<String> = sandbox.rows("latest").into_iter().map(|(_, variant, _)| variant).collect();
    variants.sort();
    variants.dedup();
    variants
}

#[test]
fn each_level_is_compared_with_the_plain_variant_and_layers_leave_nothing() {
    if !runs_as_root() {
        return;
    }
    let sandbox = Sandbox::new();
    let vary = ["--vary", "layer=none,overlay:2", "--vary", "mount=noatime"];
    sandbox.expect(0, &[&["run", "plan.toml", "--set", "driver=native"][..], &vary].concat());
    assert_eq!(variants(&sandbox), ["ext4", "ext4/noatime", "ext4/none", "ext4/overlay:2"]);
    let log = sandbox.run_text("command.log");
    assert!(log.contains("mnt/test/lower2:") && log.contains("mnt/test/lower1,upperdir="), "{log}");
    let (report, _) = sandbox.expect(0, &["report", "latest", "--format", "md"]);
    assert!(report.contains("one level at a time (ext4 is the reference)"), "{report}");
    assert!(report.contains("works through a layer over its filesystem"), "{report}");
    assert!(!report.contains("differs between variants that differ in other factors too"), "{report}");
    let (json, _) = sandbox.expect(0, &["report", "latest", "--format", "json"]);
    let costs = &serde_json::from_str::<serde_json::Value>(&json).unwrap()["costs"];
    let mut costs = costs.as_array().unwrap().iter();
    assert!(costs.any(|cost| cost["variant"] == "ext4/overlay:2" && cost["reference"] == "ext4"));
    sandbox.assert_clean();
    // The stored plan has the levels.
    let plan = sandbox.run_file("plan.toml").unwrap();
    let (printed_plan, _) = sandbox.expect(0, &["run", plan.to_str().unwrap(), "--dry-run"]);
    assert!(printed_plan.contains("[vary]") && printed_plan.contains("overlay:2"), "{printed_plan}");
}

#[test]
fn layers_of_a_killed_run_are_recovered() {
    if !runs_as_root() {
        return;
    }
    for layer in ["overlay", "fuse"] {
        if layer == "fuse" && !has_programs(&["fuse2fs"]) {
            continue;
        }
        let sandbox = Sandbox::new();
        let mut gate = Gate::new(&sandbox, When::Before, "umount", "*mnt/test/merged*", 0);
        let factor = format!("layer={layer}");
        let mut run = BackgroundRun::start(&sandbox, sandbox.fsarena(&["run", "plan.toml", "--factor", &factor]));
        gate.wait_until_stopped(&mut run);
        run.kill_and_recover(&sandbox);
    }
}

#[test]
fn levels_that_cannot_be_made_here_are_refused_with_a_remedy() {
    if !runs_as_root() {
        return;
    }
    let sandbox = Sandbox::new();
    let run = ["run", "plan.toml"];
    for (code, args, words) in [
        (2, &["--vary", "layer=ovrelay"][..], "Did you mean `overlay`"),
        (2, &["--vary", "layer=overlay:99"], "N from 1 to 16"),
        (2, &["--vary", "stack=crypt+lusk"], "Unknown link `lusk`"),
        (6, &["--vary", "stack=crypt"], "--on qemu"),
        (2, &["--vary", "speed=9"], "Unknown factor `speed`"),
        (2, &["--vary", "layer=overlay,overlay"], "is given twice"),
        (2, &["--vary", "layer="], "has layer at its default already"),
        (2, &["--factor", "layer=,overlay", "--vary", "layer=bindfs"], "would be the same"),
        (2, &["--vary", "layer=overlay", "--fs", "vfat"], "vfat lacks owners"),
        (2, &["--on", "dir:.", "--vary", "layer=overlay"], "directories are used as they are"),
        (
            2,
            &["--on", "qemu", "--factor", "journal=external", "--vary", "stack=crypt"],
            "leave out `journal` or `stack`",
        ),
    ] {
        let (_, stderr) = sandbox.expect(code, &[&run[..], args].concat());
        assert!(stderr.contains(words), "{args:?}: {stderr}");
    }
    let (_, stderr) = sandbox.expect(2, &["ab", "plan.toml", "--a", "ext4", "--b", "xfs", "--vary", "fs=ext2"]);
    assert!(stderr.contains("fsarena run --vary"), "{stderr}");
    for (level, program) in [("fuse", "fuse2fs"), ("bindfs", "bindfs")] {
        let vary = format!("layer={level}");
        let output = sandbox.fsarena_without(program, &[&run[..], &["--vary", &vary]].concat()).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(6), "{stderr}");
        assert!(stderr.contains(&format!("apt-get install {program}")), "{stderr}");
    }
    assert!(!sandbox.runs_dir().exists(), "nothing was made");
}

#[test]
fn programs_of_layers_end_with_the_run() {
    if !runs_as_root() || !has_programs(&["bindfs", "fuse2fs"]) {
        return;
    }
    let sandbox = Sandbox::new();
    sandbox.expect(0, &["run", "plan.toml", "--vary", "layer=bindfs,fuse"]);
    let log = sandbox.run_text("command.log");
    assert!(log.contains("\"bindfs\",\"-f\"") && log.contains("\"fuse2fs\",\"-f\",\"-s\""), "{log}");
    assert_eq!(sandbox.processes(), Vec::<i32>::new());
    sandbox.assert_clean();
}

/// Changing the mode or the name of a file copies it to the upper directory of an overlay; reading and removing do not.
#[test]
fn prepared_files_are_copied_up_when_they_change() {
    if !runs_as_root() {
        return;
    }
    let sandbox = Sandbox::new();
    let setup = "mkdir tree && for name in a b c; do head -c 100000 /dev/zero > tree/$name; done && ln -s a tree/l";
    let tasks = ["cat tree/* > /dev/null", "chmod 600 tree/a", "mv tree/b tree/d", "rm tree/c"];
    let names = ["read", "mode", "move", "remove"];
    let mut args = vec!["run", "--fs", "ext4", "--rounds", "1", "--setup", setup];
    for (name, task) in names.iter().zip(&tasks) {
        args.extend(["--name", name, "--cmd", task]);
    }
    let copy_up_lines = |layer: &str| {
        sandbox.expect(0, &[&args[..], &["--factor", &format!("layer={layer}")]].concat());
        let (report, _) = sandbox.expect(0, &["report", "latest", "--full"]);
        let lines = report.lines().filter(|line| line.contains("copied up")).map(str::trim);
        lines.map(String::from).collect::<Vec<_>>()
    };
    assert_eq!(
        copy_up_lines("overlay:2"),
        [
            "- ext4, mode: copied up to the upper directory: 1 file, 97.7 KiB after the task",
            "- ext4, move: copied up to the upper directory: 1 file, 97.7 KiB after the task",
        ]
    );
    assert_eq!(copy_up_lines("overlay-upper"), Vec::<String>::new());
    sandbox.assert_clean();
}

/// The names of the devices of the device mapper that fsarena made.
fn mapper_devices() -> Vec<String> {
    let disks = std::fs::read_dir("/sys/block").unwrap().flatten();
    let names = disks.filter_map(|disk| std::fs::read_to_string(disk.path().join("dm/name")).ok());
    names.filter(|name| name.starts_with("fsarena-")).collect()
}

#[test]
fn devices_are_stacked_in_this_kernel_and_leave_nothing() {
    if !runs_as_root() {
        return;
    }
    if !fsarena_sys::device_mapper::is_supported() {
        fsarena_sys::testkit::record_skip("no device mapper here");
        return;
    }
    let sandbox = Sandbox::new();
    let luks = if has_programs(&["cryptsetup"]) { ",luks" } else { "" };
    let vary = format!("stack=crypt,integrity,thin+crypt,snapshot{luks}");
    sandbox.expect(0, &["run", "plan.toml", "--vary", &vary]);
    assert_eq!(variants(&sandbox).len(), 2 + vary.matches(',').count());
    assert_eq!(mapper_devices(), Vec::<String>::new());
    sandbox.assert_clean();
    // `recover` removes the filesystem and the devices below it after a kill too.
    let mut gate = Gate::new(&sandbox, When::Before, "umount", "*mnt/test*", 0);
    let stack = if luks.is_empty() { "stack=thin+crypt" } else { "stack=thin+luks" };
    let mut run = BackgroundRun::start(&sandbox, sandbox.fsarena(&["run", "plan.toml", "--factor", stack]));
    gate.wait_until_stopped(&mut run);
    run.signal(Signal::KILL);
    run.assert_ended_by(Signal::KILL);
    assert!(!mapper_devices().is_empty());
    sandbox.expect(0, &["recover"]);
    assert_eq!(mapper_devices(), Vec::<String>::new());
    sandbox.assert_clean();
}

/// The guest makes a stack of two links and an overlay.
#[test]
fn a_guest_stacks_devices_and_layers_without_root() {
    if !runs_as_root()
        || !has_programs(&["qemu-system-x86_64", "mkfs.ext4", "ldd"])
        || find_debian_kernel("6.1", "-amd64").is_none()
    {
        return;
    }
    let sandbox = Sandbox::new();
    let nobody = Nobody::within(&sandbox);
    std::fs::copy(sandbox.dir.join("plan.toml"), nobody.home.join("plan.toml")).unwrap();
    let stack = "stack=thin-snapshot+crypt";
    let args = ["run", "plan.toml", "--on", "qemu", "--factor", stack, "--factor", "layer=overlay", "--full"];
    let (answer, _) = nobody.expect(0, &args);
    assert!(answer.contains("readings of the device are of the disk below the stack"), "{answer}");
}
