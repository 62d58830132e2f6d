//! Guests through the real binary, as an ordinary user.

mod common;
#[path = "common/nobody.rs"]
mod nobody;

use common::{Place, root};
use fsarena_sys::program;
use nobody::Nobody;

/// One cell that is over in a moment.
const ONE: [&str; 8] = ["run", "--scale", "tiny", "--blocks", "1", "--set", "tasks=1", "--quiet"];

/// Says so where a test is skipped for the lack of an emulator.
fn has(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = program::find(&path, name).is_some();
    if !found {
        println!("skipped: no {name}");
    }
    found
}

#[test]
fn user_mode_linux_mounts_what_this_kernel_cannot() {
    if !root() || !has("linux.uml") || !has("mkfs.jfs") || !has("mkfs.reiserfs") {
        return;
    }
    let place = Place::new();
    let nobody = Nobody::within(&place);
    let args = [&ONE[..], &["--on", "uml", "--fs", "ext4,jfs,reiserfs"]].concat();
    let (answer, _) = nobody.expect(0, &args);
    assert!(answer.contains("jfs") && answer.contains("reiserfs"), "{answer}");
    assert!(answer.contains("neither rank"), "{answer}");
    let runs = nobody.home.join("runs");
    let run = std::fs::read_dir(&runs).unwrap().next().unwrap().unwrap().path();
    assert!(!run.join("images").exists(), "images are left");
    let guests: Vec<_> = std::fs::read_dir(run.join("guests")).unwrap().flatten().collect();
    assert_eq!(guests.len(), 3);
    assert!(guests.iter().all(|guest| guest.path().join("command.json").exists()));
}

#[test]
fn what_is_no_kernel_is_refused_before_anything_is_made() {
    if !root() || !has("qemu-system-x86_64") {
        return;
    }
    let place = Place::new();
    let nobody = Nobody::within(&place);
    let kernel = nobody.home.join("bzImage");
    std::fs::write(&kernel, "text").unwrap();
    let args = [&ONE[..], &["--on", "qemu", "--kernel", kernel.to_str().unwrap(), "--fs", "ext4"]].concat();
    let (_, said) = nobody.expect(6, &args);
    assert!(said.contains("is no kernel for x86"), "{said}");
    assert!(!nobody.home.join("runs").exists());
}

#[test]
fn a_kernel_is_for_guests_alone() {
    if !root() {
        return;
    }
    let place = Place::new();
    let nobody = Nobody::within(&place);
    let (_, said) = nobody.expect(2, &["run", "--on", "qemu", "--set", "driver=commands"]);
    assert!(said.contains("a guest has no programs but fsarena"), "{said}");
}
