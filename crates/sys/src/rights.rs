//! The rights of a process that runs a workload: its user, its capabilities, and the directories that it can write to.
//!
//! A mount namespace in which everything else is read-only costs no time for each file. Landlock does, so it confines
//! mkfs only: see docs/adr/0018.

use crate::{kernel::SysRoot, user::User};
use rustix::mount::{MountFlags, MountPropagationFlags as Propagation, UnmountFlags};
use rustix::process::{DumpableBehavior, Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{self, CapabilitySet, CapabilitySets, Gid, Uid, UnshareFlags};
use std::ffi::{CStr, CString};
use std::path::{Path, PathBuf};
use std::{io, os::unix::ffi::OsStrExt};

/// The capabilities that a workload keeps where it runs as root. Another user has none.
///
/// - `CHOWN`, `FOWNER`, `DAC_OVERRIDE`, `FSETID`: tar restores the owners of an archive, and a directory to benchmark
///   can belong to any user. They reach no file outside the directories that the process can write to.
/// - `IPC_LOCK`: io_uring registers buffers beyond RLIMIT_MEMLOCK.
/// - `SETUID`, `SETGID`, `KILL`: the workloads squid and postgres start and stop a server as its own user.
const ROOT_KEEPS: CapabilitySet = CapabilitySet::CHOWN
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::FSETID)
    .union(CapabilitySet::IPC_LOCK)
    .union(CapabilitySet::SETUID)
    .union(CapabilitySet::SETGID)
    .union(CapabilitySet::KILL);
/// Device nodes that programs open, beside the device under test.
const DEVICES: [&str; 5] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"];

impl User {
    /// Gives this process, which has one thread, the identity of this user, and drops all capabilities but those that a root
    /// workload needs. It cannot gain any later.
    ///
    /// # Errors
    /// Where the kernel refuses.
    pub fn drop_privileges(&self) -> io::Result<()> {
        let keep = if self.is_root() { ROOT_KEEPS } else { CapabilitySet::empty() };
        for capability in CapabilitySet::all().difference(keep).iter() {
            // An older kernel does not know the last ones, and a container may lack the right to drop any.
            let _ = thread::remove_capability_from_bounding_set(capability);
        }
        // Buffers of io_uring count against it.
        let locked = Rlimit { current: None, maximum: None };
        if setrlimit(Resource::Memlock, locked).is_err() {
            let maximum = getrlimit(Resource::Memlock).maximum;
            setrlimit(Resource::Memlock, Rlimit { current: maximum, maximum })?;
        }
        if !self.is_this_process() {
            self.apply_ids_to_thread()?;
        }
        let kept = keep & thread::capabilities(None)?.permitted;
        let sets = CapabilitySets { effective: kept, permitted: kept, inheritable: CapabilitySet::empty() };
        thread::set_capabilities(None, sets)?;
        thread::set_no_new_privs(true)?;
        // Its own files in /proc belong to it again; the probes read them.
        Ok(rustix::process::set_dumpable_behavior(DumpableBehavior::Dumpable)?)
    }

    /// Calls `work` in a new thread that has the identity of this user; this thread keeps its own.
    ///
    /// # Errors
    /// Where the kernel refuses that identity, or a thread.
    pub fn run_as<T: Send>(&self, work: impl FnOnce() -> T + Send) -> io::Result<T> {
        if self.is_this_process() {
            return Ok(work());
        }
        let dumpable = rustix::process::dumpable_behavior()?;
        let done = std::thread::scope(|scope| {
            let lent = std::thread::Builder::new().spawn_scoped(scope, || {
                self.apply_ids_to_thread()?;
                Ok(work())
            })?;
            lent.join().map_err(|_| io::Error::other("the thread panicked"))?
        });
        // The kernel took it away from the whole process with the change of identity.
        rustix::process::set_dumpable_behavior(dumpable)?;
        done
    }

    /// Gives this thread the user and group ids of this user.
    fn apply_ids_to_thread(&self) -> io::Result<()> {
        let (uid, gid) = (Uid::from_raw(self.uid), Gid::from_raw(self.gid));
        let groups: Vec<_> = self.groups.iter().map(|gid| Gid::from_raw(*gid)).collect();
        thread::set_thread_groups(&groups)?;
        thread::set_thread_res_gid(gid, gid, gid)?;
        Ok(thread::set_thread_res_uid(uid, uid, uid)?)
    }
}

/// Whether this process may make a mount namespace and make it read-only. A thread that then ends tries it.
pub fn can_confine() -> bool {
    let tried = std::thread::spawn(|| {
        own_namespace(Propagation::DOWNSTREAM)?;
        set_mount(Path::new("/"), libc::MOUNT_ATTR_RDONLY, 0)
    });
    tried.join().is_ok_and(|tried| tried.is_ok())
}

/// Moves this process to a mount namespace of its own, so that the rest of the machine does not see what it mounts. Its
/// child processes see what it mounts and unmounts, even from their own namespaces.
///
/// # Errors
/// Where the kernel refuses.
pub fn own_mounts(kernel: &SysRoot, needed: &[&Path]) -> io::Result<()> {
    own_namespace(Propagation::DOWNSTREAM)?;
    release_others(kernel, needed)?;
    Ok(rustix::mount::mount_change("/", Propagation::SHARED | Propagation::REC)?)
}

/// Unmounts the copies of other mounts of loop devices in this namespace: a copy keeps its device in use. Copies that
/// receive the unmounts of the machine (`master:`) need no action.
fn release_others(kernel: &SysRoot, needed: &[&Path]) -> io::Result<()> {
    let text = kernel.read("proc/self/mountinfo")?;
    let mounts = kernel.mounts().map_err(io::Error::other)?;
    let alone = text.lines().zip(mounts).filter(|(line, _)| !line.contains(" master:"));
    for (_, mount) in alone.filter(|(_, mount)| mount.source.starts_with("/dev/loop")) {
        if !needed.iter().any(|path| path.starts_with(&mount.target)) {
            // It fails if the mount is gone already.
            let _ = rustix::mount::unmount(&mount.target, UnmountFlags::DETACH);
        }
    }
    Ok(())
}

/// Makes everything read-only for this process but these directories and devices, and lets it open no other device.
///
/// `mounted` is a mount point where another process mounts and unmounts. `own_proc` says that this process is in a PID
/// namespace of its own, which /proc then shows.
///
/// # Errors
/// Where the kernel refuses.
pub fn write_only_to(
    dirs: &[PathBuf],
    mounted: Option<&Path>,
    device: Option<&Path>,
    own_proc: bool,
) -> io::Result<()> {
    own_namespace(Propagation::DOWNSTREAM)?;
    if own_proc {
        mount_proc()?;
    }
    let devices = DEVICES.iter().map(Path::new).filter(|path| path.exists()).chain(device);
    let devices: Vec<&Path> = devices.collect();
    let own = dirs.iter().map(PathBuf::as_path).chain(devices.iter().copied());
    for path in own {
        rustix::mount::mount_bind_recursive(path, path)?;
    }
    let root = Path::new("/");
    set_mount(root, libc::MOUNT_ATTR_RDONLY | libc::MOUNT_ATTR_NODEV | libc::MOUNT_ATTR_NOSUID, 0)?;
    for dir in dirs.iter().map(PathBuf::as_path).chain(mounted) {
        set_mount(dir, 0, libc::MOUNT_ATTR_RDONLY)?;
    }
    for node in devices {
        set_mount(node, 0, libc::MOUNT_ATTR_RDONLY | libc::MOUNT_ATTR_NODEV)?;
    }
    Ok(())
}

/// Mounts a /proc that shows the PID namespace of this process.
pub(crate) fn mount_proc() -> io::Result<()> {
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    Ok(rustix::mount::mount("proc", "/proc", "proc", flags, None)?)
}

pub(crate) fn own_namespace(propagation: Propagation) -> io::Result<()> {
    // SAFETY: no file descriptor table is unshared.
    unsafe { thread::unshare_unsafe(UnshareFlags::NEWNS)? };
    Ok(rustix::mount::mount_change("/", propagation | Propagation::REC)?)
}

/// Sets and clears attributes of a mount and of all below it.
fn set_mount(path: &Path, set: u64, clear: u64) -> io::Result<()> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    let path: &CStr = &path;
    let attributes = libc::mount_attr { attr_set: set, attr_clr: clear, propagation: 0, userns_fd: 0 };
    // SAFETY: path and attributes live on, and the size is that of the attributes.
    let done = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            libc::AT_FDCWD,
            path.as_ptr(),
            libc::AT_RECURSIVE,
            &raw const attributes,
            size_of_val(&attributes),
        )
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
