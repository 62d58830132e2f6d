//! The workload `recovery`: the power of a guest is cut, and its filesystem is recovered.

use crate::common::kernel::{find_debian_kernel, has_programs};
use crate::common::{Sandbox, runs_as_root};

const PLAN: &str = "name = \"cut\"\n[stop]\nrounds = 1\n[[workload]]\nuse = \"recovery\"\nseconds = 2\n";

fn make_sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    std::fs::write(sandbox.dir.join("cut.toml"), PLAN).unwrap();
    sandbox
}

/// Without barriers the disk is never flushed, so a power cut loses synced files.
#[test]
fn synced_files_survive_a_power_cut_and_a_lost_one_is_reported() {
    if !runs_as_root() || !has_programs(&["qemu-system-x86_64"]) || find_debian_kernel("6.1", "-cloud-amd64").is_none()
    {
        return;
    }
    let sandbox = make_sandbox();
    let run = ["run", "cut.toml", "--on", "qemu", "--kernel", "debian:6.1-cloud", "--quiet"];
    let (answer, _) = sandbox.expect(0, &[&run[..], &["--fs", "ext4", "--mount", "", "--mount", "barrier=0"]].concat());
    assert!(answer.contains("DATA LOSS: ") && !answer.contains("Use ext4/barrier=0"), "{answer}");
    let tasks: Vec<String> = sandbox.rows("latest").into_iter().map(|(_, _, task)| task).collect();
    assert!(["recover", "fsck"].iter().all(|name| tasks.iter().any(|task| task == name)), "{tasks:?}");
    // With `cut=any`, ext2 passes too. Without barriers, the only variant fails.
    let any_cut = [&run[..], &["--fs", "ext2", "--set", "cut=any"]].concat();
    sandbox.expect(0, &any_cut);
    let (_, stderr) = sandbox.expect(3, &[&run[..], &["--fs", "ext4", "--mount", "barrier=0"]].concat());
    assert!(stderr.contains("DATA LOSS: ") && stderr.contains("(missing)"), "{stderr}");
    sandbox.assert_clean();
}

#[test]
fn a_power_cut_needs_a_guest_and_a_check() {
    if !runs_as_root() || !has_programs(&["qemu-system-x86_64"]) {
        return;
    }
    let sandbox = make_sandbox();
    for (code, args, words) in [
        (6, "--on ram --fs ext4", "--on qemu"),
        (6, "--on dir:home", "--on qemu"),
        (2, "--on qemu --fs f2fs", "no check of f2fs"),
        (2, "--on qemu --fs ext4 --factor journal=external", "leave out raid, journal"),
    ] {
        let args: Vec<&str> = ["run", "cut.toml"].into_iter().chain(args.split(' ')).collect();
        let (_, stderr) = sandbox.expect(code, &args);
        assert!(stderr.contains(words), "{args:?}: {stderr}");
    }
    assert!(!sandbox.runs_dir().exists());
}
