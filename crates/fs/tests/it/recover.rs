//! What `fsarena recover` does after its owner was killed: a child process sets everything up, is killed
//! without a chance to clean up, and the parent recovers.

use crate::common::root;
use fsarena_fs::lifecycle::{self, VariantOptions};
use fsarena_fs::{filesystems, safety::ScratchDevice};
use fsarena_sys::loopdev::{self, LoopOptions};
use fsarena_sys::undo::{Journal, Undo, recover};
use fsarena_sys::{argv::Argv, image, kernel::SysRoot, process};
use std::path::Path;
use std::process::{Command, Stdio};

/// Names the directory in which the child sets things up. Where it is not set this test is the parent.
const CHILD: &str = "FSARENA_TEST_CHILD";

#[test]
fn everything_a_killed_process_left_is_taken_away() {
    if let Some(dir) = std::env::var_os(CHILD) {
        set_up_and_wait(Path::new(&dir));
    }
    if !root() {
        return;
    }
    let temp = tempfile::Builder::new().prefix("fsarena-test-").tempdir().unwrap();
    let dir = temp.path().canonicalize().unwrap().join("a dir\nof a run");
    std::fs::create_dir(&dir).unwrap();
    let state = dir.join("state");
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "recover::everything_a_killed_process_left_is_taken_away"])
        .env(CHILD, &dir)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let kernel = SysRoot::host();
    let (image, target) = (dir.join("work/image 1"), dir.join("work/mnt"));
    while process::holders(&kernel, &target).is_empty() {
        assert!(child.try_wait().unwrap().is_none(), "the child failed");
        std::thread::yield_now();
    }
    assert_eq!(loopdev::attached(&kernel, &image).unwrap().len(), 1);
    let living = recover(&kernel, &state, &mut |_| {}).unwrap();
    assert_eq!((living.undone, living.still_running), (0, 1));

    child.kill().unwrap();
    child.wait().unwrap();
    let mut said = vec![];
    let done = recover(&kernel, &state, &mut |text| said.push(text.to_string())).unwrap();
    assert_eq!(done.failed, 0, "{said:#?}");
    assert!(done.undone >= 4, "{said:#?}");
    assert!(!kernel.mounts().unwrap().iter().any(|mount| mount.target == target));
    assert!(loopdev::attached(&kernel, &image).unwrap().is_empty());
    assert!(!dir.join("work").exists());
    let again = recover(&kernel, &state, &mut |_| {}).unwrap();
    assert_eq!(again, Default::default());
}

/// Runs in the child, and never returns: a mounted filesystem with a command busy on it.
fn set_up_and_wait(dir: &Path) -> ! {
    let journal = Journal::create(&dir.join("state"), "runs/killed").unwrap();
    let (work, target) = (dir.join("work"), dir.join("work/mnt"));
    let _tree = journal.note(Undo::RemoveTree { path: work.clone() }).unwrap();
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
