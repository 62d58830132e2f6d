//! The rights of a process that runs a workload: its user, its capabilities, and the directories that it can write to.
//!
//! A mount namespace confines workloads: in it everything except those directories is read-only. Landlock would take time for
//! each access to a file, so it confines only mkfs: see docs/adr/0018.

use crate::{kernel::SysRoot, user::User};
use rustix::mount::{MountFlags, MountPropagationFlags as Propagation, UnmountFlags};
use rustix::process::{DumpableBehavior, Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{self, CapabilitySet, CapabilitySets, Gid, Uid, UnshareFlags};
use std::ffi::CString;
use std::path::{Path, PathBuf};
use std::{io, os::unix::ffi::OsStrExt};

/// The capabilities that a workload keeps if it runs as root. A workload of another user has none.
///
/// - `CHOWN`, `FOWNER`, `DAC_OVERRIDE`, `FSETID`: tar restores the owners of an archive, and a directory to benchmark
///   can belong to any user. They reach no file outside the directories that the process can write to.
/// - `IPC_LOCK`: io_uring registers buffers beyond RLIMIT_MEMLOCK.
/// - `SETUID`, `SETGID`, `KILL`: the workloads squid and postgres start and stop a server that runs as another user.
const ROOT_CAPABILITIES: CapabilitySet = CapabilitySet::CHOWN
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::FSETID)
    .union(CapabilitySet::IPC_LOCK)
    .union(CapabilitySet::SETUID)
    .union(CapabilitySet::SETGID)
    .union(CapabilitySet::KILL);
/// Device nodes that programs may open, in addition to the device under test.
const ALLOWED_DEVICES: [&str; 5] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"];

impl User {
    /// Gives this process the ids of this user for good, and drops all its capabilities; if the user is root, all except
    /// `ROOT_CAPABILITIES`. Call it while the process has a single thread.
    ///
    /// # Errors
    /// The error of the system call that failed.
    pub fn drop_privileges(&self) -> io::Result<()> {
        let allowed = if self.is_root() { ROOT_CAPABILITIES } else { CapabilitySet::empty() };
        for capability in CapabilitySet::all().difference(allowed).iter() {
            // An older kernel does not have the newest capabilities, and a container may not be permitted to drop any.
            let _ = thread::remove_capability_from_bounding_set(capability);
        }
        // The buffers of io_uring count against this limit.
        let unlimited = Rlimit { current: None, maximum: None };
        if setrlimit(Resource::Memlock, unlimited).is_err() {
            let maximum = getrlimit(Resource::Memlock).maximum;
            setrlimit(Resource::Memlock, Rlimit { current: maximum, maximum })?;
        }
        if !self.runs_this_process() {
            self.apply_ids_to_thread()?;
        }
        let capabilities = allowed & thread::capabilities(None)?.permitted;
        let sets =
            CapabilitySets { effective: capabilities, permitted: capabilities, inheritable: CapabilitySet::empty() };
        thread::set_capabilities(None, sets)?;
        thread::set_no_new_privs(true)?;
        // Without this, the files of this process in /proc belong to root, and the probes could not read them.
        Ok(rustix::process::set_dumpable_behavior(DumpableBehavior::Dumpable)?)
    }

    /// Calls `work` in a new thread that has the ids of this user; the calling thread keeps its own ids.
    ///
    /// # Errors
    /// The kernel refuses the ids or the thread.
    pub fn run_as<T: Send>(&self, work: impl FnOnce() -> T + Send) -> io::Result<T> {
        if self.runs_this_process() {
            return Ok(work());
        }
        let dumpable = rustix::process::dumpable_behavior()?;
        let result = std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().spawn_scoped(scope, || {
                self.apply_ids_to_thread()?;
                Ok(work())
            })?;
            thread.join().map_err(|_| io::Error::other("the thread panicked"))?
        });
        // The change of ids has cleared this flag for the whole process.
        rustix::process::set_dumpable_behavior(dumpable)?;
        result
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

/// Whether this process may make a mount namespace and make it read-only. A short-lived thread tries both.
pub fn can_restrict_writes() -> bool {
    let attempt = std::thread::spawn(|| {
        unshare_mount_namespace(Propagation::DOWNSTREAM)?;
        set_mount_attributes(Path::new("/"), libc::MOUNT_ATTR_RDONLY, 0)
    });
    attempt.join().is_ok_and(|result| result.is_ok())
}

/// Moves this process to a new mount namespace, so that the rest of the machine does not see its mounts. Its child processes
/// see its mounts and unmounts, even from their own namespaces. Unmounts the copied mounts of loop devices, except those that
/// contain a path of `needed_paths`.
///
/// # Errors
/// The kernel refuses a namespace or a mount.
pub fn enter_own_mount_namespace(kernel: &SysRoot, needed_paths: &[&Path]) -> io::Result<()> {
    unshare_mount_namespace(Propagation::DOWNSTREAM)?;
    unmount_copied_loop_mounts(kernel, needed_paths)?;
    Ok(rustix::mount::mount_change("/", Propagation::SHARED | Propagation::REC)?)
}

/// Unmounts the mounts of loop devices that this namespace has copied from the machine: a copy keeps the device in use. Copies
/// that follow the unmounts of the machine (`master:` in `/proc/self/mountinfo`) need no action.
fn unmount_copied_loop_mounts(kernel: &SysRoot, needed_paths: &[&Path]) -> io::Result<()> {
    let text = kernel.read("proc/self/mountinfo")?;
    let mounts = kernel.mounts().map_err(io::Error::other)?;
    for (line, mount) in text.lines().zip(mounts) {
        let is_copy = !line.contains(" master:") && mount.source.starts_with("/dev/loop");
        if is_copy && !needed_paths.iter().any(|path| path.starts_with(&mount.target)) {
            // Fails if the mount is gone already.
            let _ = rustix::mount::unmount(&mount.target, UnmountFlags::DETACH);
        }
    }
    Ok(())
}

/// Makes everything read-only for this process except these directories and devices, and lets it open no other device.
///
/// On `mount_point` another process mounts and unmounts the filesystem under test. If this process is in its own PID namespace
/// (`in_pid_namespace`), this function mounts a /proc that shows that namespace.
///
/// # Errors
/// The kernel refuses a namespace or a mount.
pub fn restrict_writes_to(
    dirs: &[PathBuf],
    mount_point: Option<&Path>,
    device: Option<&Path>,
    in_pid_namespace: bool,
) -> io::Result<()> {
    unshare_mount_namespace(Propagation::DOWNSTREAM)?;
    if in_pid_namespace {
        mount_proc()?;
    }
    let devices = ALLOWED_DEVICES.iter().map(Path::new).filter(|path| path.exists()).chain(device);
    let devices: Vec<&Path> = devices.collect();
    let writable = dirs.iter().map(PathBuf::as_path).chain(devices.iter().copied());
    for path in writable {
        rustix::mount::mount_bind_recursive(path, path)?;
    }
    let root = Path::new("/");
    set_mount_attributes(root, libc::MOUNT_ATTR_RDONLY | libc::MOUNT_ATTR_NODEV | libc::MOUNT_ATTR_NOSUID, 0)?;
    for dir in dirs.iter().map(PathBuf::as_path).chain(mount_point) {
        set_mount_attributes(dir, 0, libc::MOUNT_ATTR_RDONLY)?;
    }
    for node in devices {
        set_mount_attributes(node, 0, libc::MOUNT_ATTR_RDONLY | libc::MOUNT_ATTR_NODEV)?;
    }
    Ok(())
}

/// Moves this process to a new mount namespace, with a /proc that shows its PID namespace.
///
/// # Errors
/// The kernel refuses.
pub fn enter_mount_namespace_with_proc() -> io::Result<()> {
    unshare_mount_namespace(Propagation::DOWNSTREAM)?;
    mount_proc()
}

/// Mounts a /proc that shows the PID namespace of this process.
pub(crate) fn mount_proc() -> io::Result<()> {
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    Ok(rustix::mount::mount("proc", "/proc", "proc", flags, None)?)
}

/// Moves this thread to a new mount namespace, whose mounts all get this propagation.
pub(crate) fn unshare_mount_namespace(propagation: Propagation) -> io::Result<()> {
    // SAFETY: no file descriptor table is unshared.
    unsafe { thread::unshare_unsafe(UnshareFlags::NEWNS)? };
    Ok(rustix::mount::mount_change("/", propagation | Propagation::REC)?)
}

/// Sets and clears attributes (`MOUNT_ATTR_…`) of a mount and of all mounts below it.
fn set_mount_attributes(path: &Path, set: u64, clear: u64) -> io::Result<()> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    let attributes = libc::mount_attr { attr_set: set, attr_clr: clear, propagation: 0, userns_fd: 0 };
    // SAFETY: path and attributes outlive the call, and the size is that of the attributes.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            libc::AT_FDCWD,
            path.as_ptr(),
            libc::AT_RECURSIVE,
            &raw const attributes,
            size_of_val(&attributes),
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
