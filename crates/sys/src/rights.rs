//! The rights of a process that runs a workload: its user, its capabilities, and the directories that it can write to.
//!
//! A mount namespace in which everything else is read-only costs no time for each file. Landlock does, so it confines
//! mkfs only: see docs/adr/0018.

use crate::{kernel::Kernel, tree};
use nix::unistd::{self, getgrouplist};
use rustix::fs::{AtFlags, CWD, chownat, fchown};
use rustix::mount::{MountPropagationFlags as Propagation, UnmountFlags};
use rustix::process::{DumpableBehavior, Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{self, CapabilitySet, CapabilitySets, Gid, Uid, UnshareFlags};
use serde::{Deserialize, Serialize};
use std::ffi::{CStr, CString};
use std::path::{Path, PathBuf};
use std::{io, os::fd::AsFd, os::fd::BorrowedFd, os::unix::ffi::OsStrExt};

/// A user to run workloads as.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct User {
    /// The login name, or the number of a user without one.
    pub name: String,
    /// User id.
    pub uid: u32,
    /// Main group.
    pub gid: u32,
    /// Further groups.
    pub groups: Vec<u32>,
}

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
    /// The user of this name.
    ///
    /// # Errors
    /// In words, where there is none.
    pub fn named(name: &str) -> Result<User, String> {
        match unistd::User::from_name(name) {
            Ok(Some(user)) => Ok(User::of(user.uid.as_raw(), user.gid.as_raw())),
            _ => Err(format!("unknown user `{name}`; see: getent passwd")),
        }
    }

    /// The user who started fsarena with sudo, or root.
    pub fn invoking() -> User {
        let number = |name: &str| std::env::var(name).ok()?.parse::<u32>().ok();
        match (number("SUDO_UID"), number("SUDO_GID")) {
            (Some(uid), Some(gid)) if rustix::process::geteuid().is_root() => User::of(uid, gid),
            _ => User::of(rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw()),
        }
    }

    /// Root.
    pub fn root() -> User {
        User::of(0, 0)
    }

    /// The home directory and login name of the user of this process; under sudo the environment has root's.
    pub fn home() -> Option<(PathBuf, String)> {
        let user = unistd::User::from_uid(unistd::geteuid()).ok().flatten()?;
        Some((user.dir, user.name))
    }

    fn of(uid: u32, gid: u32) -> User {
        let name = unistd::User::from_uid(uid.into()).ok().flatten().map(|user| user.name);
        let groups = name.as_deref().and_then(|name| CString::new(name).ok());
        let groups = groups.and_then(|name| getgrouplist(&name, gid.into()).ok()).unwrap_or_default();
        let mut groups: Vec<u32> = groups.into_iter().map(unistd::Gid::as_raw).collect();
        if groups.is_empty() {
            groups.push(gid);
        }
        User { name: name.unwrap_or_else(|| uid.to_string()), uid, gid, groups }
    }

    /// Whether it is root.
    pub fn is_root(&self) -> bool {
        self.uid == 0
    }

    /// Makes this user the owner of a file.
    ///
    /// # Errors
    /// Where the filesystem refuses.
    pub fn owns(&self, path: &Path) -> io::Result<()> {
        std::os::unix::fs::lchown(path, Some(self.uid), Some(self.gid))
    }

    /// Makes this user the owner of a directory and of everything below it. Follows no link.
    ///
    /// # Errors
    /// Where the filesystem refuses.
    pub fn owns_tree(&self, path: &Path) -> io::Result<()> {
        self.owns_at(CWD, path)
    }

    fn owns_at(&self, parent: BorrowedFd, name: &Path) -> io::Result<()> {
        let (uid, gid) = (Some(Uid::from_raw(self.uid)), Some(Gid::from_raw(self.gid)));
        let Some(dir) = tree::open(parent, name)? else {
            return Ok(chownat(parent, name, uid, gid, AtFlags::SYMLINK_NOFOLLOW)?);
        };
        fchown(&dir, uid, gid)?;
        tree::names(&dir)?.iter().try_for_each(|child| self.owns_at(dir.as_fd(), child))
    }

    /// Makes this process, which has one thread, one of this user, without capabilities and without a way to gain any.
    ///
    /// # Errors
    /// Where the kernel refuses.
    pub fn become_it(&self) -> io::Result<()> {
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
        let (uid, gid) = (Uid::from_raw(self.uid), Gid::from_raw(self.gid));
        let groups: Vec<_> = self.groups.iter().map(|gid| Gid::from_raw(*gid)).collect();
        thread::set_thread_groups(&groups)?;
        thread::set_thread_res_gid(gid, gid, gid)?;
        thread::set_thread_res_uid(uid, uid, uid)?;
        let kept = keep & thread::capabilities(None)?.permitted;
        let sets = CapabilitySets { effective: kept, permitted: kept, inheritable: CapabilitySet::empty() };
        thread::set_capabilities(None, sets)?;
        thread::set_no_new_privs(true)?;
        // Its own files in /proc belong to it again; the probes read them.
        Ok(rustix::process::set_dumpable_behavior(DumpableBehavior::Dumpable)?)
    }
}

/// Whether this process may make a mount namespace and make it read-only. A thread tries, and takes it with it.
pub fn can_confine() -> bool {
    let tried = std::thread::spawn(|| {
        own_namespace(Propagation::DOWNSTREAM)?;
        set(Path::new("/"), libc::MOUNT_ATTR_RDONLY, 0)
    });
    tried.join().is_ok_and(|tried| tried.is_ok())
}

/// Gives this process mounts that the rest of the machine does not see. Processes that it starts see what it mounts
/// and unmounts, also from a namespace that they make for themselves.
///
/// # Errors
/// Where the kernel refuses.
pub fn own_mounts(kernel: &Kernel, needed: &[&Path]) -> io::Result<()> {
    own_namespace(Propagation::DOWNSTREAM)?;
    release_others(kernel, needed)?;
    Ok(rustix::mount::mount_change("/", Propagation::SHARED | Propagation::REC)?)
}

/// Copies of mounts hold their devices. Where the machine does not say in this namespace that it has unmounted
/// one, the loop devices of others would stay in use; so they are unmounted here.
fn release_others(kernel: &Kernel, needed: &[&Path]) -> io::Result<()> {
    let text = kernel.read("proc/self/mountinfo")?;
    let mounts = kernel.mounts().map_err(io::Error::other)?;
    let alone = text.lines().zip(mounts).filter(|(line, _)| !line.contains(" master:"));
    for (_, mount) in alone.filter(|(_, mount)| mount.source.starts_with("/dev/loop")) {
        if !needed.iter().any(|path| path.starts_with(&mount.target)) {
            // Another may have gone meanwhile, which is as good.
            let _ = rustix::mount::unmount(&mount.target, UnmountFlags::DETACH);
        }
    }
    Ok(())
}

/// Makes everything read-only for this process but these directories and devices, and lets it open no other device.
///
/// `mounted` is a mount point where another process mounts and unmounts.
///
/// # Errors
/// Where the kernel refuses.
pub fn write_only_to(dirs: &[PathBuf], mounted: Option<&Path>, device: Option<&Path>) -> io::Result<()> {
    own_namespace(Propagation::DOWNSTREAM)?;
    let devices = DEVICES.iter().map(Path::new).filter(|path| path.exists()).chain(device);
    let devices: Vec<&Path> = devices.collect();
    let own = dirs.iter().map(PathBuf::as_path).chain(devices.iter().copied());
    own.clone().try_for_each(|path| rustix::mount::mount_bind_recursive(path, path))?;
    set(Path::new("/"), libc::MOUNT_ATTR_RDONLY | libc::MOUNT_ATTR_NODEV | libc::MOUNT_ATTR_NOSUID, 0)?;
    dirs.iter()
        .map(PathBuf::as_path)
        .chain(mounted)
        .try_for_each(|dir| set(dir, 0, libc::MOUNT_ATTR_RDONLY))?;
    devices.iter().try_for_each(|node| set(node, 0, libc::MOUNT_ATTR_RDONLY | libc::MOUNT_ATTR_NODEV))
}

fn own_namespace(propagation: Propagation) -> io::Result<()> {
    // SAFETY: no file descriptor table is unshared.
    unsafe { thread::unshare_unsafe(UnshareFlags::NEWNS)? };
    Ok(rustix::mount::mount_change("/", propagation | Propagation::REC)?)
}

/// Sets and clears attributes of a mount and of all below it.
fn set(path: &Path, set: u64, clear: u64) -> io::Result<()> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{MetadataExt, symlink};

    #[test]
    fn a_tree_is_given_away_and_what_its_links_name_is_not() {
        if !fsarena_skip::root() {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let (tree, outside) = (dir.path().join("tree"), dir.path().join("outside"));
        for dir in [tree.join("a/b"), outside.clone()] {
            std::fs::create_dir_all(&dir).unwrap();
            std::fs::write(dir.join("file"), "").unwrap();
        }
        symlink(&outside, tree.join("link")).unwrap();
        let user = User { name: "u".into(), uid: 12345, gid: 12345, groups: vec![] };
        user.owns_tree(&tree).unwrap();
        user.owns_tree(&tree.join("link")).unwrap();
        let owner = |path: &Path| path.symlink_metadata().unwrap().uid();
        for given in ["", "a", "a/b", "a/b/file", "link"] {
            assert_eq!(owner(&tree.join(given)), 12345, "{given}");
        }
        assert_eq!((owner(&outside), owner(&outside.join("file"))), (0, 0));
    }
}
