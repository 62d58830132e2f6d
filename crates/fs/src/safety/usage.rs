//! Users of a device: mounts, swap, devices built on it.

use crate::Error;
use fsarena_sys::kernel::{MountEntry, SysRoot};
use fsarena_sys::{device::BlockDevice, loopdev};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Everything that this machine has mounted or swaps to.
pub(super) struct Usage {
    kernel: SysRoot,
    mounts: Vec<MountEntry>,
    swaps: Vec<PathBuf>,
}

/// How a device is used.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Use {
    /// In words that follow the device: `is mounted at "/home"`.
    pub how: String,
    /// What ends it.
    pub fix: &'static str,
}

impl Usage {
    /// # Errors
    /// Where the kernel's lists cannot be read: the guard must then refuse rather than guess.
    pub fn of(kernel: &SysRoot) -> Result<Usage, Error> {
        Ok(Usage { kernel: kernel.clone(), mounts: kernel.mounts()?, swaps: kernel.swaps()? })
    }

    /// How one device is used. Devices named in `except` do not count as its users.
    pub fn device(&self, device: &BlockDevice, except: &[String]) -> Option<Use> {
        // btrfs mounts have numbers of their own, so the source counts as well.
        let carries = |m: &&MountEntry| m.major_minor == device.numbers() || is(Path::new(&m.source), device);
        if let Some(mount) = self.mounts.iter().find(carries) {
            let how = format!("is mounted at {:?}", mount.target);
            return Some(Use { how, fix: "Unmount it if nothing there is needed" });
        }
        if self.swaps.iter().any(|swap| is(swap, device)) {
            return Some(Use { how: "is in use as swap".into(), fix: "Take it out with swapoff(8)" });
        }
        let (holders, above) = match (device.holders(), loopdev::attached(&self.kernel, &device.path)) {
            (Ok(holders), Ok(above)) => (holders, above),
            (Err(error), _) | (_, Err(error)) => {
                let how = format!("may be in use, for fsarena cannot see its users: {error}");
                return Some(Use { how, fix: "Look at it with `lsblk`" });
            }
        };
        if let Some(first) = holders.iter().find(|name| !except.contains(name)) {
            let fix = "Take that apart first (LVM, RAID, encryption, multipath)";
            return Some(Use { how: format!("is part of {first}"), fix });
        }
        let known = |path: &PathBuf| except.iter().any(|name| path.ends_with(name));
        let first = above.iter().find(|path| !known(path))?;
        let how = format!("is attached to {}", first.display());
        Some(Use { how, fix: "Detach that: `losetup --detach`" })
    }

    /// How the file is used that has this identity: the number of its filesystem, and its inode number.
    pub fn file(&self, identity: &(String, u64)) -> Option<Use> {
        let same = |path: &&PathBuf| {
            path.metadata().is_ok_and(|meta| {
                let (major, minor) = (rustix::fs::major(meta.dev()), rustix::fs::minor(meta.dev()));
                meta.is_file() && (format!("{major}:{minor}"), meta.ino()) == *identity
            })
        };
        let swap = self.swaps.iter().find(same)?;
        let how = format!("is in use as swap, as {}", swap.display());
        Some(Use { how, fix: "Take it out with swapoff(8)" })
    }
}

/// Whether a path names this device: by number, or by name where the path cannot be looked at.
pub(super) fn is(path: &Path, device: &BlockDevice) -> bool {
    match path.metadata() {
        Ok(meta) if meta.file_type().is_block_device() => {
            meta.rdev() == rustix::fs::makedev(device.major, device.minor)
        }
        Ok(_) => false,
        Err(_) => path.parent() == Some(Path::new("/dev")) && path.file_name() == Some(device.name.as_ref()),
    }
}
