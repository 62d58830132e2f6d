//! Layers over a filesystem, stacks below it, and levels that are varied one at a time, through the real binary.

use crate::common::gate::{Gate, Running, When};
use crate::common::kernel::{debian, has};
use crate::common::nobody::Nobody;
use crate::common::{Place, root};
use rustix::process::Signal;

/// The variants of the latest run.
fn variants(place: &Place) -> Vec<String> {
    let mut variants: Vec<String> = place.rows("latest").into_iter().map(|(_, variant, _)| variant).collect();
    variants.sort();
    variants.dedup();
    variants
}

#[test]
fn each_level_is_compared_with_the_plain_variant_and_layers_leave_nothing() {
    if !root() {
        return;
    }
    let place = Place::new();
    let vary = ["--vary", "layer=none,overlay:2", "--vary", "mount=noatime"];
    place.expect(0, &[&["run", "plan.toml", "--set", "driver=native"][..], &vary].concat());
    assert_eq!(variants(&place), ["ext4", "ext4/noatime", "ext4/none", "ext4/overlay:2"]);
    let log = place.run_text("command.log");
    assert!(log.contains("mnt/test/lower2:") && log.contains("mnt/test/lower1,upperdir="), "{log}");
    let (report, _) = place.expect(0, &["report", "latest", "--format", "md"]);
    assert!(report.contains("one level at a time (ext4 is the reference)"), "{report}");
    assert!(report.contains("works through a layer over its filesystem"), "{report}");
    assert!(!report.contains("differs between variants together"), "{report}");
    let (json, _) = place.expect(0, &["report", "latest", "--format", "json"]);
    let costs = &serde_json::from_str::<serde_json::Value>(&json).unwrap()["costs"];
    let of = |cost: &serde_json::Value| (cost["variant"].clone(), cost["reference"].clone());
    assert!(costs.as_array().unwrap().iter().map(of).any(|of| of == ("ext4/overlay:2".into(), "ext4".into())));
    place.assert_clean();
    // The stored plan has the levels, and is read back.
    let plan = place.run_file("plan.toml").unwrap();
    let (again, _) = place.expect(0, &["run", plan.to_str().unwrap(), "--dry-run"]);
    assert!(again.contains("[vary]") && again.contains("overlay:2"), "{again}");
}

#[test]
fn layers_that_a_kill_leaves_are_recovered() {
    if !root() {
        return;
    }
    for layer in ["overlay", "fuse"] {
        if layer == "fuse" && !has(&["fuse2fs"]) {
            continue;
        }
        let place = Place::new();
        let mut gate = Gate::new(&place, When::Before, "umount", "*mnt/test/merged*", 0);
        let factor = format!("layer={layer}");
        let mut run = Running::start(&place, place.fsarena(&["run", "plan.toml", "--factor", &factor]));
        gate.wait(&mut run);
        run.signal(Signal::KILL);
        run.ended_by(Signal::KILL);
        place.expect(0, &["recover"]);
        assert_eq!(place.processes(), Vec::<i32>::new());
        place.assert_clean();
    }
}

#[test]
fn what_cannot_be_varied_or_stacked_here_is_refused_with_a_way_out() {
    if !root() {
        return;
    }
    let place = Place::new();
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
        let (_, said) = place.expect(code, &[&run[..], args].concat());
        assert!(said.contains(words), "{args:?}: {said}");
    }
    let (_, said) = place.expect(2, &["ab", "plan.toml", "--a", "ext4", "--b", "xfs", "--vary", "fs=ext2"]);
    assert!(said.contains("fsarena run --vary"), "{said}");
    for (level, program) in [("fuse", "fuse2fs"), ("bindfs", "bindfs")] {
        let vary = format!("layer={level}");
        let output = place.without(program, &[&run[..], &["--vary", &vary]].concat()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(6), "{said}");
        assert!(said.contains(&format!("apt-get install {program}")), "{said}");
    }
    assert!(!place.runs().exists(), "nothing was made");
}

#[test]
fn programs_serve_layers_and_end_with_them() {
    if !root() || !has(&["bindfs", "fuse2fs"]) {
        return;
    }
    let place = Place::new();
    place.expect(0, &["run", "plan.toml", "--vary", "layer=bindfs,fuse"]);
    let log = place.run_text("command.log");
    assert!(log.contains("\"bindfs\",\"-f\"") && log.contains("\"fuse2fs\",\"-f\",\"-s\""), "{log}");
    assert_eq!(place.processes(), Vec::<i32>::new());
    place.assert_clean();
}

/// Changing a mode or a name copies a whole file up; reading and removing do not.
#[test]
fn prepared_files_are_copied_up_when_they_change() {
    if !root() {
        return;
    }
    let place = Place::new();
    let setup = "mkdir tree && for name in a b c; do head -c 100000 /dev/zero > tree/$name; done && ln -s a tree/l";
    let tasks = ["cat tree/* > /dev/null", "chmod 600 tree/a", "mv tree/b tree/d", "rm tree/c"];
    let named = ["read", "mode", "move", "remove"];
    let mut args = vec!["run", "--fs", "ext4", "--rounds", "1", "--setup", setup];
    for (name, task) in named.iter().zip(&tasks) {
        args.extend(["--name", name, "--cmd", task]);
    }
    let copied = |layer: &str| {
        place.expect(0, &[&args[..], &["--factor", &format!("layer={layer}")]].concat());
        let (report, _) = place.expect(0, &["report", "latest", "--full"]);
        let lines = report.lines().filter(|line| line.contains("copied up")).map(str::trim);
        lines.map(String::from).collect::<Vec<_>>()
    };
    assert_eq!(
        copied("overlay:2"),
        [
            "- ext4, mode: copied up to the upper directory: 1 file, 97.7 KiB after the task",
            "- ext4, move: copied up to the upper directory: 1 file, 97.7 KiB after the task",
        ]
    );
    assert_eq!(copied("overlay-upper"), Vec::<String>::new());
    place.assert_clean();
}

/// The devices of the device mapper that a run of fsarena made.
fn mapped() -> Vec<String> {
    let disks = std::fs::read_dir("/sys/block").unwrap().flatten();
    let names = disks.filter_map(|disk| std::fs::read_to_string(disk.path().join("dm/name")).ok());
    names.filter(|name| name.starts_with("fsarena-")).collect()
}

#[test]
fn devices_are_stacked_in_this_kernel_and_leave_nothing() {
    if !root() {
        return;
    }
    if !fsarena_sys::device_mapper::is_supported() {
        fsarena_sys::testkit::skipped("no device mapper here");
        return;
    }
    let place = Place::new();
    let luks = if has(&["cryptsetup"]) { ",luks" } else { "" };
    let vary = format!("stack=crypt,integrity,thin+crypt,snapshot{luks}");
    place.expect(0, &["run", "plan.toml", "--vary", &vary]);
    assert_eq!(variants(&place).len(), 2 + vary.matches(',').count());
    assert_eq!(mapped(), Vec::<String>::new());
    place.assert_clean();
    // The filesystem and the device below it are removed after a kill too.
    let mut gate = Gate::new(&place, When::Before, "umount", "*mnt/test*", 0);
    let stack = if luks.is_empty() { "stack=thin+crypt" } else { "stack=thin+luks" };
    let mut run = Running::start(&place, place.fsarena(&["run", "plan.toml", "--factor", stack]));
    gate.wait(&mut run);
    run.signal(Signal::KILL);
    run.ended_by(Signal::KILL);
    assert!(!mapped().is_empty());
    place.expect(0, &["recover"]);
    assert_eq!(mapped(), Vec::<String>::new());
    place.assert_clean();
}

/// One guest with all of it: a chain of links, made in the guest, and an overlay.
#[test]
fn a_guest_stacks_devices_and_layers_without_root() {
    if !root() || !has(&["qemu-system-x86_64", "mkfs.ext4", "ldd"]) || debian("6.1", "-amd64").is_none() {
        return;
    }
    let place = Place::new();
    let nobody = Nobody::within(&place);
    std::fs::copy(place.dir.join("plan.toml"), nobody.home.join("plan.toml")).unwrap();
    let stack = "stack=thin-snapshot+crypt";
    let args = ["run", "plan.toml", "--on", "qemu", "--factor", stack, "--factor", "layer=overlay", "--full"];
    let (answer, _) = nobody.expect(0, &args);
    assert!(answer.contains("readings of the device are of the disk below the stack"), "{answer}");
}
