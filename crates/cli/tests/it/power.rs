//! The workload `recovery`: the power of a guest is cut, and its filesystem comes back.

use crate::common::kernel::{debian, has};
use crate::common::{Place, root};

const PLAN: &str = "name = \"cut\"\n[stop]\nrounds = 1\n[[workload]]\nuse = \"recovery\"\nseconds = 2\n";

fn place() -> Place {
    let place = Place::new();
    std::fs::write(place.dir.join("cut.toml"), PLAN).unwrap();
    place
}

/// Without barriers the disk is never flushed, and what a cut loses was synced all the same.
#[test]
fn synced_files_survive_a_power_cut_and_a_lost_one_is_reported() {
    if !root() || !has(&["qemu-system-x86_64"]) || debian("6.1", "-cloud-amd64").is_none() {
        return;
    }
    let place = place();
    let on = ["run", "cut.toml", "--on", "qemu", "--kernel", "debian:6.1-cloud", "--quiet"];
    let (answer, _) = place.expect(0, &[&on[..], &["--fs", "ext4", "--mount", "", "--mount", "barrier=0"]].concat());
    assert!(answer.contains("DATA LOSS: ") && !answer.contains("Use ext4/barrier=0"), "{answer}");
    let tasks: Vec<String> = place.rows("latest").into_iter().map(|(_, _, task)| task).collect();
    assert!(["recover", "fsck"].iter().all(|name| tasks.iter().any(|task| task == name)), "{tasks:?}");
    // Later writes that the disk may keep, and every variant fails.
    let lost = [&on[..], &["--fs", "ext2", "--set", "cut=any"]].concat();
    place.expect(0, &lost);
    let (_, said) = place.expect(3, &[&on[..], &["--fs", "ext4", "--mount", "barrier=0"]].concat());
    assert!(said.contains("DATA LOSS: ") && said.contains("(missing)"), "{said}");
    place.assert_clean();
}

#[test]
fn a_power_cut_needs_a_guest_and_a_check() {
    if !root() || !has(&["qemu-system-x86_64"]) {
        return;
    }
    let place = place();
    for (code, args, words) in [
        (6, "--on ram --fs ext4", "--on qemu"),
        (6, "--on dir:home", "--on qemu"),
        (2, "--on qemu --fs f2fs", "no check of f2fs"),
        (2, "--on qemu --fs ext4 --factor journal=external", "leave out raid, journal"),
    ] {
        let args: Vec<&str> = ["run", "cut.toml"].into_iter().chain(args.split(' ')).collect();
        let (_, said) = place.expect(code, &args);
        assert!(said.contains(words), "{args:?}: {said}");
    }
    assert!(!place.runs().exists());
}
