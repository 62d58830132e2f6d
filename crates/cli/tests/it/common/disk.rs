//! Filesystems that a test mounts for itself, and stops or fills.

use std::path::{Path, PathBuf};
use std::{os::fd::AsRawFd, process::Command};

/// A filesystem of the test's own. Unmounted when dropped.
pub struct Disk {
    pub dir: PathBuf,
    // Removed last.
    _temp: tempfile::TempDir,
}

impl Disk {
    /// An ext4 of one gibibyte on an image, which can be frozen.
    pub fn ext4() -> Disk {
        Disk::new(|temp, dir| {
            let image = temp.join("disk.img");
            std::fs::File::create(&image).unwrap().set_len(1 << 30).unwrap();
            ran(Command::new("mkfs.ext4").args(["-q", "-F"]).arg(&image));
            ran(Command::new("mount").args(["-o", "loop"]).arg(&image).arg(dir));
        })
    }

    /// So many mebibytes of memory.
    pub fn memory(mib: u32) -> Disk {
        Disk::new(|_, dir| {
            ran(Command::new("mount").args(["-t", "tmpfs", "-o", &format!("size={mib}m"), "tmpfs"]).arg(dir));
        })
    }

    /// Memory without a limit, whose files cannot be opened for direct I/O.
    pub fn without_direct_io() -> Disk {
        Disk::new(|_, dir| ran(Command::new("mount").args(["-t", "ramfs", "ramfs"]).arg(dir)))
    }

    fn new(make: impl FnOnce(&Path, &Path)) -> Disk {
        let temp = tempfile::Builder::new().prefix("fsarena-disk-").tempdir().unwrap();
        let dir = temp.path().canonicalize().unwrap().join("mounted");
        std::fs::create_dir(&dir).unwrap();
        make(temp.path(), &dir);
        Disk { dir, _temp: temp }
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        unmount(Command::new("umount").arg(&self.dir));
    }
}

/// A frozen filesystem: every write to it waits. It thaws when dropped.
pub struct Frozen(std::fs::File);

impl Frozen {
    pub fn new(dir: &Path) -> Frozen {
        // Open until it thaws: the process through which it was found may be gone by then.
        let dir = std::fs::File::open(dir).unwrap();
        Frozen::fsfreeze("--freeze", &dir);
        Frozen(dir)
    }

    fn fsfreeze(how: &str, dir: &std::fs::File) {
        let path = format!("/proc/{}/fd/{}", std::process::id(), dir.as_raw_fd());
        ran(Command::new("fsfreeze").args([how, &path]));
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        Frozen::fsfreeze("--unfreeze", &self.0);
    }
}

/// Whether a process sleeps in the kernel where nothing can wake it: it waits for a disk.
pub fn waits_for_disk(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('D'))
}

/// Remounts the filesystem read-only.
pub fn read_only(dir: &Path) {
    ran(Command::new("mount").args(["-o", "remount,ro"]).arg(dir));
}

/// Unmounts. What io_uring had open is let go of a moment after its process has ended.
fn unmount(command: &mut Command) {
    for _ in 0..100 {
        if command.output().unwrap().status.success() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    ran(command);
}

fn ran(command: &mut Command) {
    let output = command.output().unwrap();
    let said = super::text(&output.stderr);
    // A test that fails already says more than a panic on top of it.
    assert!(output.status.success() || std::thread::panicking(), "{command:?}: {said}");
}
