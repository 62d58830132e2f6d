//! Checks by trial whether this process may mount filesystems and attach loop devices. Root in a container often may do
//! neither, and no user id, capability or device node predicts that reliably.

use crate::{check_return, kernel::SysRoot, process_output::text_without_errno};
use rustix::fs::{MemfdFlags, Mode, OFlags, memfd_create, open};
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags};
use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

/// How often fsarena tries to attach the file: another process may take the free loop device first.
const ATTACH_ATTEMPTS: u32 = 20;
/// The size of the file that is attached as a trial, in bytes.
const TRIAL_BYTES: u64 = 64 << 10;

/// Why this process may not do something, and how to change that.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct Obstacle {
    /// The attempt and its error: `mounting a filesystem: Operation not permitted`.
    pub why: String,
    /// The remedy for the user.
    pub fix: &'static str,
}

/// Checks that this process may mount filesystems of block devices, by mounting `/dev/null`. The kernel checks the
/// permission first, which is lacking in a user namespace or container, and only then refuses the character device.
///
/// # Errors
/// The kernel or a security module does not permit mounting.
pub fn check_mount(kernel: &SysRoot) -> Result<(), Obstacle> {
    let filesystems = kernel.read("proc/filesystems").unwrap_or_default();
    // Filesystems of block devices have lines like `\text4`; lines of others begin with `nodev`.
    let fs_type = filesystems.lines().find_map(|line| line.strip_prefix('\t')).unwrap_or("ext4");
    let flags = MountFlags::RDONLY | MountFlags::SILENT;
    match rustix::mount::mount("/dev/null", "/", fs_type, flags, None) {
        Ok(()) => {
            // This should be impossible. If it happens, nothing stays mounted.
            let _ = rustix::mount::unmount("/", UnmountFlags::DETACH);
            Ok(())
        }
        Err(error @ (Errno::PERM | Errno::ACCESS | Errno::NOSYS)) => Err(Obstacle {
            why: format!("mounting a filesystem: {}", text_without_errno(&error.into())),
            fix: "run it as root of the machine, or give the container CAP_SYS_ADMIN (`--privileged`)",
        }),
        Err(_) => Ok(()),
    }
}

/// Checks that this process may attach a file to a loop device, by attaching a file in memory to a free device. The kernel
/// detaches it when this process closes the device or dies.
///
/// # Errors
/// A device node is missing, or the kernel refuses to attach.
pub fn check_loop_device(kernel: &SysRoot) -> Result<(), Obstacle> {
    let control = open_node(&kernel.path("dev/loop-control"))?;
    let file = make_trial_file().map_err(|error| loop_obstacle("making a file in memory", error))?;
    let mut failed_attempts = 0;
    loop {
        let number =
            free_device_number(&control).map_err(|error| loop_obstacle("requesting a free loop device", error))?;
        let path = kernel.path(&format!("dev/loop{number}"));
        let device = open_node(&path)?;
        match attach_until_closed(&device, file.as_raw_fd()) {
            Ok(()) => return check_sysfs(kernel, number),
            Err(Errno::BUSY) if failed_attempts < ATTACH_ATTEMPTS => failed_attempts += 1,
            Err(error) => return Err(loop_obstacle(&format!("attaching a file to {}", path.display()), error)),
        }
    }
}

/// The obstacle if an attempt with loop devices failed.
fn loop_obstacle(attempt: &str, error: Errno) -> Obstacle {
    Obstacle {
        why: format!("{attempt}: {}", text_without_errno(&error.into())),
        fix: "`modprobe loop`; in a container, give it the loop devices of the machine (`--privileged -v /dev:/dev`)",
    }
}

fn open_node(path: &Path) -> Result<File, Obstacle> {
    let opened = open(path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty());
    opened.map(File::from).map_err(|error| loop_obstacle(&format!("opening {}", path.display()), error))
}

/// A file in memory, to be attached as a trial.
fn make_trial_file() -> Result<OwnedFd, Errno> {
    let file = memfd_create("fsarena-trial", MemfdFlags::CLOEXEC)?;
    rustix::fs::ftruncate(&file, TRIAL_BYTES)?;
    Ok(file)
}

/// Checks that `/sys` shows the backing file of the device that was just attached, because fsarena reads it there later.
fn check_sysfs(kernel: &SysRoot, number: i32) -> Result<(), Obstacle> {
    let path = kernel.path(&format!("sys/block/loop{number}/loop/backing_file"));
    std::fs::read(&path).map(drop).map_err(|error| Obstacle {
        why: format!("reading {} of an attached loop device: {error}", path.display()),
        fix: "mount the whole of /sys: `mount -t sysfs sysfs /sys`",
    })
}

/// Requests the number of a loop device without a backing file.
fn free_device_number(control: &File) -> Result<i32, Errno> {
    /// loop(4).
    const LOOP_CTL_GET_FREE: libc::Ioctl = 0x4C82;
    // SAFETY: the request takes no argument.
    check_return(unsafe { libc::ioctl(control.as_raw_fd(), LOOP_CTL_GET_FREE) })
}

/// `struct loop_info64` of loop(4) (232 bytes), of which fsarena sets only the flags.
#[repr(C)]
struct LoopInfo {
    before_flags: [u32; 13],
    flags: u32,
    after_flags: [u64; 22],
}

/// `struct loop_config` of loop(4).
#[repr(C)]
struct LoopConfig {
    file: u32,
    block_size: u32,
    info: LoopInfo,
    reserved: [u64; 8],
}

/// Attaches the file with the descriptor `file` to a loop device until the device is closed.
fn attach_until_closed(device: &File, file: i32) -> Result<(), Errno> {
    const LOOP_SET_FD: libc::Ioctl = 0x4C00;
    const LOOP_SET_STATUS64: libc::Ioctl = 0x4C04;
    const LOOP_GET_STATUS64: libc::Ioctl = 0x4C05;
    const LOOP_CONFIGURE: libc::Ioctl = 0x4C0A;
    const LO_FLAGS_AUTOCLEAR: u32 = 4;
    let flags = LO_FLAGS_AUTOCLEAR;
    let mut info = LoopInfo { before_flags: [0; 13], flags, after_flags: [0; 22] };
    // SAFETY: the request fills a structure of this layout.
    if unsafe { libc::ioctl(device.as_raw_fd(), LOOP_GET_STATUS64, &raw mut info) } == 0 {
        // The device has a file. LOOP_CONFIGURE would claim it for a moment, so that a mkfs of its owner could fail.
        return Err(Errno::BUSY);
    }
    let config = LoopConfig { file: file as u32, block_size: 0, info, reserved: [0; 8] };
    let device = device.as_raw_fd();
    // SAFETY: the first and the last request take a structure of this layout, which outlives the call; the one between
    // them takes a descriptor.
    let configured = unsafe {
        match check_return(libc::ioctl(device, LOOP_CONFIGURE, &raw const config)) {
            // Before Linux 5.8.
            Err(Errno::INVAL | Errno::NOTTY) => {
                check_return(libc::ioctl(device, LOOP_SET_FD, file))?;
                check_return(libc::ioctl(device, LOOP_SET_STATUS64, &raw const config.info))
            }
            configured => configured,
        }
    };
    configured.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checks_pass_for_root_and_leave_no_mount() {
        if !crate::testkit::runs_as_root() {
            return;
        }
        let kernel = SysRoot::host();
        check_mount(&kernel).unwrap();
        check_loop_device(&kernel).unwrap();
        // Other tests mount filesystems meanwhile, but never the null device.
        let mounts = kernel.read("proc/self/mountinfo").unwrap();
        assert!(!mounts.contains(" /dev/null "), "{mounts}");
    }

    #[test]
    fn a_missing_device_node_is_named_in_the_obstacle() {
        let dir = tempfile::tempdir().unwrap();
        let obstacle = check_loop_device(&SysRoot::at(dir.path())).unwrap_err();
        assert!(obstacle.why.contains("dev/loop-control: No such file"), "{obstacle}");
    }
}
