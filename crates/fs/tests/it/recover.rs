//! Tests recovery after a SIGKILL: a child process mounts a filesystem and is killed before it can clean up; the parent then
//! recovers.

use crate::common::runs_as_root;
use fsarena_fs::lifecycle::{self, VariantOptions};
use fsarena_fs::{filesystems, safety::ScratchDevice};
use fsarena_sys::loopdev::{self, LoopOptions};
use fsarena_sys::undo::{Journal, UndoStep, recover};
use fsarena_sys::{argv::Argv, image, kernel::SysRoot, process};
use std::path::Path;
use std::process::{Command, Stdio};

/// The environment variable with the directory of the child process. It is unset in the parent.
const CHILD: &str = "FSARENA_TEST_CHILD";

#[test]
fn recover_removes_everything_that_a_killed_process_left() {
    if let Some(dir) = std::env::var_os(CHILD) {
        set_up_and_wait(Path::new(&dir));
    }
    if !runs_as_root() {
        return;
    }
    let temp = tempfile::Builder::new().prefix("fsarena-test-").tempdir().unwrap();
    let dir = temp.path().canonicalize().unwrap().join("a dir\nof a run");
    std::fs::create_dir(&dir).unwrap();
    let state = dir.join("state");
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "recover::recover_removes_everything_that_a_killed_process_left"])
        .env(CHILD, &dir)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let kernel = SysRoot::host();
    let (image, target) = (dir.join("work/image 1"), dir.join("work/mnt"));
    while process::processes_using(&kernel, &target).is_empty() {
        assert!(child.try_wait().unwrap().is_none(), "the child failed");
        std::thread::yield_now();
    }
    assert_eq!(loopdev::devices_of_image(&kernel, &image).unwrap().len(), 1);
    let living = recover(&kernel, &state, None, &mut |_| {}).unwrap();
    assert_eq!((living.undone, living.still_running), (0, 1));

    child.kill().unwrap();
    child.wait().unwrap();
    let mut messages = vec![];
    let done = recover(&kernel, &state, None, &mut |text| messages.push(text.to_string())).unwrap();
    assert_eq!(done.failed, 0, "{messages:#?}");
    assert!(done.undone >= 4, "{messages:#?}");
    assert!(!kernel.mounts().unwrap().iter().any(|mount| mount.target == target));
    assert!(loopdev::devices_of_image(&kernel, &image).unwrap().is_empty());
    assert!(!dir.join("work").exists());
    let again = recover(&kernel, &state, None, &mut |_| {}).unwrap();
    assert_eq!(again, Default::default());
}

/// Runs in the child process and never returns: mounts a filesystem, and runs a command in it.
fn set_up_and_wait(dir: &Path) -> ! {
    let journal = Journal::create(&dir.join("state"), "runs/killed").unwrap();
    let (work, target) = (dir.join("work"), dir.join("work/mnt"));
    let _tree = journal.record(UndoStep::RemoveTree { path: work.clone() }).unwrap();
    std::fs::create_dir_all(&target).unwrap();
    let image = image::create(&journal, &work.join("image 1"), 64 << 20, false).unwrap();
    let options = LoopOptions { direct_io: false, discard: false };
    let device = loopdev::attach(&journal, image.path(), options, &mut |_| {}).unwrap();
    let scratch = ScratchDevice::from_loop(device, image).unwrap();
    let (ext4, options) = (filesystems::find("ext4").unwrap(), VariantOptions::default());
    lifecycle::format(&scratch, ext4, &options, &mut |_| {}).unwrap();
    let _mounted = lifecycle::mount(&scratch, &journal, ext4, &options, &target, &mut |_| {}).unwrap();
    // A command that uses the filesystem and outlives this process.
    let _ = Argv::new("sleep").arg("60").cwd(&target).run();
    loop {
        std::thread::park();
    }
}
