//! Filesystems that a test mounts for itself, to freeze or to fill them.

use std::path::{Path, PathBuf};
use std::{os::fd::AsRawFd, process::Command};

/// A filesystem that the test mounts. Unmounted when dropped.
pub struct MountedDisk {
    pub dir: PathBuf,
    // The last field, so that the directory is removed last.
    _temp: tempfile::TempDir,
}

impl MountedDisk {
    /// Mounts an ext4 of one gibibyte on an image. It can be frozen.
    pub fn ext4() -> MountedDisk {
        MountedDisk::new(|temp, dir| {
            let image = temp.join("disk.img");
            std::fs::File::create(&image).unwrap().set_len(1 << 30).unwrap();
            run_checked(Command::new("mkfs.ext4").args(["-q", "-F"]).arg(&image));
            run_checked(Command::new("mount").args(["-o", "loop"]).arg(&image).arg(dir));
        })
    }

    /// Mounts a tmpfs of `mib` mebibytes.
    pub fn tmpfs(mib: u32) -> MountedDisk {
        MountedDisk::new(|_, dir| {
            run_checked(Command::new("mount").args(["-t", "tmpfs", "-o", &format!("size={mib}m"), "tmpfs"]).arg(dir));
        })
    }

    /// Mounts a ramfs, whose files cannot be opened for direct I/O.
    pub fn ramfs() -> MountedDisk {
        MountedDisk::new(|_, dir| run_checked(Command::new("mount").args(["-t", "ramfs", "ramfs"]).arg(dir)))
    }

    /// Makes a temporary directory with a mount point, and mounts by `mount`, which gets both.
    fn new(mount: impl FnOnce(&Path, &Path)) -> MountedDisk {
        let temp = tempfile::Builder::new().prefix("fsarena-disk-").tempdir().unwrap();
        let dir = temp.path().canonicalize().unwrap().join("mounted");
        std::fs::create_dir(&dir).unwrap();
        mount(temp.path(), &dir);
        MountedDisk { dir, _temp: temp }
    }
}

impl Drop for MountedDisk {
    fn drop(&mut self) {
        unmount(Command::new("umount").arg(&self.dir));
    }
}

/// A frozen filesystem: every write to it waits. It is unfrozen when dropped.
pub struct FrozenFilesystem(std::fs::File);

impl FrozenFilesystem {
    pub fn new(dir: &Path) -> FrozenFilesystem {
        // Keep it open: the process through whose `/proc` directory it was found may have ended before it is unfrozen.
        let dir = std::fs::File::open(dir).unwrap();
        FrozenFilesystem::fsfreeze("--freeze", &dir);
        FrozenFilesystem(dir)
    }

    fn fsfreeze(action: &str, dir: &std::fs::File) {
        let path = format!("/proc/{}/fd/{}", std::process::id(), dir.as_raw_fd());
        run_checked(Command::new("fsfreeze").args([action, &path]));
    }
}

impl Drop for FrozenFilesystem {
    fn drop(&mut self) {
        FrozenFilesystem::fsfreeze("--unfreeze", &self.0);
    }
}

/// Whether a process is in uninterruptible sleep: it waits for a disk.
pub fn waits_for_disk(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('D'))
}

/// Remounts the filesystem read-only.
pub fn remount_read_only(dir: &Path) {
    run_checked(Command::new("mount").args(["-o", "remount,ro"]).arg(dir));
}

/// Runs `umount`, again and again for 5 s: io_uring closes its files only a moment after its process has ended.
fn unmount(command: &mut Command) {
    for _ in 0..100 {
        if command.output().unwrap().status.success() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    run_checked(command);
}

/// Runs a command that must succeed.
fn run_checked(command: &mut Command) {
    let output = command.output().unwrap();
    let stderr = super::text(&output.stderr);
    // If the test has failed already, its own message says more.
    assert!(output.status.success() || std::thread::panicking(), "{command:?}: {stderr}");
}
