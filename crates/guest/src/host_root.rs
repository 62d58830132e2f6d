//! The root filesystem of a guest that runs programs of the host: it shows the files of the host and takes writes.
//!
//! The lower layer is the host's `/`, read-only, over 9p: the host decides what the user who started fsarena may read. An
//! overlay keeps the writes of the guest in memory, so that they vanish with the guest. The guest has its own `/proc`,
//! `/sys`, `/dev`, `/run` and `/tmp`, which describe a running system.

use fsarena_core::plan::GuestPlan;
use fsarena_sys::{check_return, mount::mount_by_syscall};
use rustix::mount::{MountFlags, MountPropagationFlags};
use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::{Error, Result};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{OpenOptionsExt, lchown, symlink};
use std::path::{Path, PathBuf};

/// The kernel modules that such a root requires.
pub const MODULES: [&str; 3] = ["9p", "9pnet_virtio", "overlay"];
/// Directories that each guest has for itself. They hide the directories of the host with these names.
const OWN_DIRS: [&str; 5] = ["/proc", "/sys", "/dev", "/run", "/tmp"];
/// The mount point of the files of the host in the guest.
pub(crate) const HOST_MOUNT: &str = "/host";
/// The mount point of the tmpfs that holds the guest's writes.
const WRITES_MOUNT: &str = "/written";
/// The mount point of both as one tree, which becomes the root.
pub(crate) const ROOT_MOUNT: &str = "/root";
/// The mounts in that tree: type, mount point, options.
const MOUNTS: [(&str, &str, &str); 7] = [
    ("proc", "proc", "nosuid,nodev,noexec"),
    ("sysfs", "sys", "nosuid,nodev,noexec"),
    ("devtmpfs", "dev", "nosuid"),
    ("devpts", "dev/pts", "nosuid,noexec,mode=620,ptmxmode=666"),
    ("tmpfs", "dev/shm", "nosuid,nodev,mode=1777"),
    ("tmpfs", "run", "nosuid,nodev,mode=755"),
    ("tmpfs", "tmp", "nosuid,nodev,mode=1777"),
];
/// Links that udev makes in `/dev`.
const DEV_LINKS: [(&str, &str); 4] = [
    ("/proc/self/fd", "/dev/fd"),
    ("/proc/self/fd/0", "/dev/stdin"),
    ("/proc/self/fd/1", "/dev/stdout"),
    ("/proc/self/fd/2", "/dev/stderr"),
];

/// Makes the files of the host the root of this process. Its child processes see its later mounts and unmounts, even from their
/// own namespaces.
///
/// # Errors
/// The kernel lacks 9p or overlays, or QEMU does not export the files.
pub fn enter() -> Result<()> {
    mount_host()?;
    mount("tmpfs", "tmpfs", Path::new(WRITES_MOUNT), "mode=755")?;
    for dir in ["upper", "work"] {
        std::fs::create_dir(Path::new(WRITES_MOUNT).join(dir))?;
    }
    let layers =
        format!("nosuid,nodev,lowerdir={HOST_MOUNT},upperdir={WRITES_MOUNT}/upper,workdir={WRITES_MOUNT}/work");
    mount("overlay", "overlay", Path::new(ROOT_MOUNT), &layers)?;
    enter_tree()
}

/// Mounts the files of the host.
pub(crate) fn mount_host() -> Result<()> {
    mount(
        "9p",
        GuestPlan::HOST_FILES_DEVICE,
        Path::new(HOST_MOUNT),
        "ro,nosuid,nodev,trans=virtio,version=9p2000.L,access=any,cache=loose,msize=262144",
    )
}

/// Makes the tree on `/root`, which must be mounted already, the root of this process; the last part of [`enter`].
///
/// # Errors
/// The kernel refuses.
pub fn enter_tree() -> Result<()> {
    for (kind, mount_point, options) in MOUNTS {
        mount(kind, kind, &Path::new(ROOT_MOUNT).join(mount_point), options)?;
    }
    std::env::set_current_dir(ROOT_MOUNT)?;
    rustix::mount::mount_move(".", "/")?;
    rustix::process::chroot(".")?;
    std::env::set_current_dir("/")?;
    for (target, link) in DEV_LINKS {
        symlink(target, link).or_else(|error| if Path::new(link).exists() { Ok(()) } else { Err(error) })?;
    }
    rustix::mount::mount_change("/", MountPropagationFlags::SHARED | MountPropagationFlags::REC)?;
    enable_loopback()
}

/// Makes a directory and mounts a filesystem on it.
pub(crate) fn mount(kind: &str, source: &str, target: &Path, options: &str) -> Result<()> {
    std::fs::create_dir_all(target)?;
    mount_by_syscall(Path::new(source), target, kind, options, &mut |_| ()).map_err(|error| {
        let why = match error.raw_os_error() {
            Some(libc::ENODEV) => format!("this kernel has no {kind}, which programs of the host require"),
            _ => format!("mounting {kind} for programs of the host: {error}"),
        };
        Error::other(why)
    })
}

/// Whether a path of the host lies below a directory that each guest has for itself.
pub fn is_in_own_dir(path: &Path) -> bool {
    OWN_DIRS.iter().any(|dir| path.starts_with(dir))
}

/// Enables the loopback interface, on which servers listen. A guest has no other interface.
fn enable_loopback() -> Result<()> {
    let socket = rustix::net::socket(rustix::net::AddressFamily::INET, rustix::net::SocketType::DGRAM, None)?;
    // SAFETY: an all-zero request is valid, and the name fits.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (slot, byte) in request.ifr_name.iter_mut().zip(b"lo") {
        *slot = *byte as libc::c_char;
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
    // SAFETY: the socket is open, and the request outlives the call.
    check_return(unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, &raw const request) })?;
    Ok(())
}

/// Mounts a copy of a file or directory of the host at its path, read-only, because each read of the host's own file would be a
/// request to the host.
///
/// # Errors
/// The copy is missing.
pub fn mount_copy(copy: &Path, target: &Path) -> Result<()> {
    let to_error = |error: Error| Error::other(format!("showing the copy of {}: {error}", target.display()));
    let mount = || -> Result<()> {
        if !target.exists() {
            // The path lies in a directory that the guest has for itself.
            std::fs::create_dir_all(target.parent().unwrap_or(Path::new("/")))?;
            if copy.metadata()?.is_dir() {
                std::fs::create_dir(target)?;
            } else {
                File::create(target)?;
            }
        }
        rustix::mount::mount_bind_recursive(copy, target)?;
        let flags = MountFlags::BIND | MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV;
        Ok(rustix::mount::mount_remount(target, flags, c"")?)
    };
    mount().map_err(to_error)
}

/// Copies files of the host into the memory of the guest, so that programs find them there. Skips missing files, because a
/// program may choose other files each time.
pub fn copy_up(files: &[PathBuf]) {
    for file in files {
        if file.is_dir() {
            keep_listing(file);
        } else {
            // The overlay copies a file when it is opened for writing. O_NONBLOCK: a named pipe may have no reader.
            let _ = OpenOptions::new().write(true).custom_flags(libc::O_NONBLOCK).open(file);
        }
    }
}

/// Makes the overlay keep the names in a directory while the guest runs. The overlay keeps names only of directories that
/// it has copied, and only while a process has the directory open.
fn keep_listing(dir: &Path) {
    let listed = lchown(dir, None, None).and_then(|()| std::fs::read_dir(dir));
    if let Ok(mut listing) = listed {
        while listing.next().is_some() {}
        std::mem::forget(listing);
    }
}

/// Looks up paths, so that the kernel knows which exist, and copies the symbolic links on their way into memory: the kernel
/// reads a link from the host each time.
pub fn look_up(names: &[PathBuf]) {
    let mut copied = BTreeSet::new();
    for name in names {
        copy_links(name, &mut copied);
        drop(name.metadata());
    }
}

/// Copies up the symbolic links on the way to a path, and those on the way to their targets. `copied` has the links
/// copied so far.
fn copy_links(path: &Path, copied: &mut BTreeSet<PathBuf>) {
    let mut ancestors: Vec<&Path> = path.ancestors().collect();
    ancestors.reverse();
    for link in ancestors {
        let Ok(target) = std::fs::read_link(link) else { continue };
        if copied.insert(link.into()) {
            // The overlay copies a link when its owner is set, even to the same owner.
            drop(lchown(link, None, None));
            copy_links(&link.parent().unwrap_or(link).join(target), copied);
        }
    }
}

/// The number of attempts so far to reach another machine, by the counters of the kernel: packets and connections
/// without a route, and datagrams without a receiver: a guest has no name server, so a program that looks up the name
/// of a machine sends its query to a port of the loopback interface that nobody listens on.
pub fn count_network_attempts() -> u64 {
    let text = |name: &str| std::fs::read_to_string(name).unwrap_or_default();
    let (of_ip4, of_ip6) = (text("/proc/net/snmp"), text("/proc/net/snmp6"));
    let ip4 = [("Ip:", "OutNoRoutes"), ("Udp:", "NoPorts")].map(|(group, name)| snmp_counter(&of_ip4, group, name));
    let ip6 = ["Ip6OutNoRoutes", "Udp6NoPorts"].map(|name| {
        let line = of_ip6.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|count| count.trim().parse().ok()).unwrap_or(0)
    });
    ip4.iter().chain(&ip6).sum()
}

/// A counter in the format of `/proc/net/snmp`: a line with names, then a line with values, both beginning with the group.
fn snmp_counter(text: &str, group: &str, name: &str) -> u64 {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix(group));
    let (names, values) = (lines.next().unwrap_or_default(), lines.next().unwrap_or_default());
    let mut counters = names.split_whitespace().zip(values.split_whitespace());
    counters.find(|(counter, _)| *counter == name).and_then(|(_, value)| value.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_named_pipe_does_not_block_copying_up() {
        let dir = tempfile::tempdir().unwrap();
        let pipe = dir.path().join("pipe");
        let mode = rustix::fs::Mode::RWXU;
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        copy_up(&[pipe]);
    }

    #[test]
    fn a_counter_is_found_by_its_group_and_name() {
        let text = "Ip: Forwarding OutNoRoutes\nIp: 2 7\nUdp: InDatagrams NoPorts\nUdp: 5 3\n";
        assert_eq!((snmp_counter(text, "Ip:", "OutNoRoutes"), snmp_counter(text, "Udp:", "NoPorts")), (7, 3));
        assert_eq!((snmp_counter(text, "Tcp:", "NoPorts"), snmp_counter("", "Ip:", "OutNoRoutes")), (0, 0));
    }
}
