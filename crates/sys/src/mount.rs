//! Mounting and unmounting with mount(8) and umount(8).

use crate::argv::Argv;
use crate::process_output::text_without_errno;
use crate::undo::{FileIdentity, Journal, UndoGuard, UndoStep};
use crate::wait::{Cancel, wait_until};
use crate::{CommandError, Error, kernel::SysRoot, process};
use fsarena_core::{
    event::{CommandEnd, CommandRecord},
    names::distinct,
};
use rustix::fs::{Mode, OFlags};
use rustix::mount::{MountFlags, UnmountFlags};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{ffi::CString, fs::File, os::fd::AsFd};

/// How long fsarena retries to unmount a busy mount point. Killed commands take a moment to end.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// A filesystem that fsarena mounted. Dropping this value unmounts it.
#[derive(Debug)]
pub struct MountedFilesystem {
    target: PathBuf,
    guard: UndoGuard,
}

/// Mounts a device on an existing directory.
///
/// # Errors
/// Something is mounted on the target already, or mount(8) fails.
pub fn mount(
    journal: &Journal,
    log: &mut dyn FnMut(CommandRecord),
    source: &Path,
    target: &Path,
    fs_type: &str,
    options: &str,
) -> Result<MountedFilesystem, Error> {
    let target = target.canonicalize().map_err(Error::io("looking for", target))?;
    if is_mounted(&SysRoot::host(), &target)? {
        return Err(Error::Unusable { object: target, why: "something is mounted there already".into() });
    }
    let guard = journal.record(UndoStep::unmount(&target))?;
    mount_command(source, &target, fs_type, options).ignore_cancel().run_checked(log)?;
    Ok(MountedFilesystem { target, guard })
}

/// The mount(8) command that mounts a device, for callers that time it. The caller first writes the undo step to the journal.
pub fn mount_command(source: &Path, target: &Path, fs_type: &str, options: &str) -> Argv {
    let options = if options.is_empty() { vec![] } else { vec!["-o", options] };
    let argv = Argv::new("mount").args(["-t", fs_type]).args(options);
    argv.arg("--source").arg(source).arg("--target").arg(target)
}

/// Mounts with mount(2), for guests without mount(8). Options that are flags of the system call, and their opposites (`rw`),
/// become flags; `defaults`, `auto` and `noauto` are dropped; the other options go to the filesystem unchanged.
///
/// # Errors
/// The error of the system call.
pub fn mount_by_syscall(
    source: &Path,
    target: &Path,
    fs_type: &str,
    options: &str,
    log: &mut dyn FnMut(CommandRecord),
) -> std::io::Result<()> {
    let (flags, data) = split_flags(options);
    let data = CString::new(data)?;
    let start = Instant::now();
    let mounted = rustix::mount::mount(source, target, fs_type, flags, data.as_c_str());
    log(syscall_record(mount_command(source, target, fs_type, options).words(), start));
    Ok(mounted?)
}

/// Unmounts with umount2(2), for guests without umount(8).
///
/// # Errors
/// The error of the system call.
pub fn unmount_by_syscall(target: &Path, log: &mut dyn FnMut(CommandRecord)) -> Result<(), Error> {
    let start = Instant::now();
    let unmounted = rustix::mount::unmount(target, UnmountFlags::empty());
    log(syscall_record(vec!["umount".into(), target.display().to_string()], start));
    unmounted.map_err(|error| Error::io("unmounting", target)(error.into()))
}

/// The record of a system call that began at `start`, as the command `argv` that does the same.
fn syscall_record(argv: Vec<String>, start: Instant) -> CommandRecord {
    let ms = start.elapsed().as_millis() as u64;
    CommandRecord { argv, times: 1, last: None, cwd: None, ended: CommandEnd::Native, ms, output: None }
}

/// The kernel's reason for refusing a mount option, which mount(8) before util-linux 2.39 does not print. None if the kernel
/// accepts the option, or reports no messages (before Linux 5.2).
pub fn reason_for_refused_option(source: &Path, fs_type: &str, option: &str) -> Option<String> {
    use rustix::mount::{FsOpenFlags, fsconfig_create, fsconfig_set_flag, fsconfig_set_string, fsopen};
    let context = fsopen(fs_type, FsOpenFlags::FSOPEN_CLOEXEC).ok()?;
    let set_option = |option: &str| match option.split_once('=') {
        _ if option.is_empty() || find_flag(option).is_some() => Ok(()),
        Some((key, value)) => fsconfig_set_string(context.as_fd(), key, value),
        None => fsconfig_set_flag(context.as_fd(), option),
    };
    let source = source.to_str()?;
    let configured = fsconfig_set_string(context.as_fd(), "source", source).and_then(|()| set_option(option));
    let error = configured.and_then(|()| fsconfig_create(context.as_fd())).err()?;
    let mut reason = String::new();
    let mut message = [0; 512];
    // The last message counts.
    while let Ok(length @ 1..) = rustix::io::read(&context, &mut message) {
        // `e ext4: Unknown parameter 'noatme'`: the first letter is the level.
        let text = String::from_utf8_lossy(&message[..length]);
        let text = text.get(2..).unwrap_or_default().trim();
        reason = text.strip_prefix(fs_type).and_then(|text| text.strip_prefix(": ")).unwrap_or(text).to_string();
    }
    if reason.is_empty() {
        reason = text_without_errno(&error.into());
    }
    Some(reason)
}

/// Splits mount options into flags and the remaining options. Of an option and its opposite the last counts, as in mount(8).
fn split_flags(options: &str) -> (MountFlags, String) {
    let mut flags = MountFlags::empty();
    let mut rest = vec![];
    for word in options.split(',').filter(|word| !matches!(*word, "" | "defaults" | "auto" | "noauto")) {
        match find_flag(word) {
            Some((flag, is_set)) => flags.set(flag, is_set),
            None => rest.push(word),
        }
    }
    (flags, rest.join(","))
}

/// The flag of an option, and whether the option sets the flag; otherwise it clears the flag. None for an option of a
/// filesystem.
fn find_flag(option: &str) -> Option<(MountFlags, bool)> {
    let (setting, _, flag) =
        OPTION_FLAGS.iter().find(|(setting, clearing, _)| [*setting, *clearing].contains(&option))?;
    Some((*flag, *setting == option))
}

/// The options of mount(8) that are flags of mount(2): the option that sets the flag, and the one that clears it, empty if
/// there is none.
const OPTION_FLAGS: &[(&str, &str, MountFlags)] = &[
    ("ro", "rw", MountFlags::RDONLY),
    ("nosuid", "suid", MountFlags::NOSUID),
    ("nodev", "dev", MountFlags::NODEV),
    ("noexec", "exec", MountFlags::NOEXEC),
    ("nosymfollow", "symfollow", MountFlags::NOSYMFOLLOW),
    ("silent", "loud", MountFlags::SILENT),
    ("sync", "async", MountFlags::SYNCHRONOUS),
    ("dirsync", "", MountFlags::DIRSYNC),
    ("noatime", "atime", MountFlags::NOATIME),
    ("nodiratime", "diratime", MountFlags::NODIRATIME),
    ("relatime", "norelatime", MountFlags::RELATIME),
    ("strictatime", "nostrictatime", MountFlags::STRICTATIME),
    ("lazytime", "nolazytime", MountFlags::LAZYTIME),
];

impl MountedFilesystem {
    /// The mount point.
    pub fn target(&self) -> &Path {
        &self.target
    }

    /// Unmounts the filesystem.
    ///
    /// # Errors
    /// [`Error::Busy`] if it stays in use; the step then stays in the journal.
    pub fn unmount(self, log: &mut dyn FnMut(CommandRecord)) -> Result<(), Error> {
        unmount(&self.target, log)?;
        self.guard.disarm()
    }
}

/// Unmounts everything that is mounted on a directory; succeeds if nothing is.
///
/// # Errors
/// [`Error::Busy`] with the processes that use it, or the message of umount(8).
pub fn unmount(target: &Path, log: &mut dyn FnMut(CommandRecord)) -> Result<(), Error> {
    unmount_in(&SysRoot::host(), target, log)
}

/// Does the work of [`unmount`], with the list of mounts below another root.
pub(crate) fn unmount_in(kernel: &SysRoot, target: &Path, log: &mut dyn FnMut(CommandRecord)) -> Result<(), Error> {
    let target = canonicalize_mount_point(target);
    let argv = Argv::new("umount").arg(&target).env("LC_ALL", "C").ignore_cancel();
    // Several filesystems may be mounted on one directory, so one success is not the end.
    let mut try_once = || {
        while is_mounted(kernel, &target)? {
            match argv.run_checked(log) {
                Err(CommandError::Failed { output, .. }) if output.contains("busy") => return Ok(None),
                finished => finished?,
            };
        }
        Ok(Some(()))
    };
    let unmounted = wait_until(Instant::now() + BUSY_TIMEOUT, Cancel::Never, || try_once().transpose());
    unmounted.unwrap_or_else(|_| {
        let processes = process::processes_using(kernel, &target);
        Err(Error::Busy { target, processes })
    })
}

/// The mount point with all symbolic links resolved. If the mount point itself cannot be read (a FUSE filesystem whose
/// program has ended), only the links in the path of its parent are resolved.
fn canonicalize_mount_point(target: &Path) -> PathBuf {
    let resolve_parent = || Some(target.parent()?.canonicalize().ok()?.join(target.file_name()?));
    target.canonicalize().ok().or_else(resolve_parent).unwrap_or_else(|| target.to_path_buf())
}

/// Whether something is mounted on a directory.
///
/// # Errors
/// The list of mounts cannot be read.
pub fn is_mounted(kernel: &SysRoot, target: &Path) -> Result<bool, Error> {
    Ok(kernel.mounts()?.iter().any(|mount| mount.target == target))
}

/// Whether a mount at a path may be on this directory. False if the directory under the mount is not `dir`: then another run
/// created it and mounted on it. True if either identity is unknown.
pub(crate) fn may_hide_directory(target: &Path, dir: Option<FileIdentity>) -> bool {
    dir.zip(hidden_directory(target)).is_none_or(|(dir, hidden)| dir.is_same(&hidden))
}

/// The identity of the directory that a mount at a path hides. None if the path is missing, or the kernel does not show the
/// directory (before Linux 5.2, or without CAP_SYS_ADMIN).
fn hidden_directory(target: &Path) -> Option<FileIdentity> {
    use rustix::mount::{OpenTreeFlags, open_tree};
    let (parent, name) = (target.parent()?, target.file_name()?);
    // Clones the mount of the parent directory without the mounts below it.
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    let parent = open_tree(rustix::fs::CWD, parent, flags).ok()?;
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let dir = rustix::fs::openat(&parent, name, flags, Mode::empty()).ok()?;
    Some(FileIdentity::from_metadata(&File::from(dir).metadata().ok()?))
}

/// The options of the mount on a directory as the kernel reports them, comma-separated. For ext4, and for ext2 and ext3 by the
/// driver of ext4, these include the defaults, which the mount list leaves out.
///
/// # Errors
/// Nothing is mounted on the target.
pub fn effective_options(kernel: &SysRoot, target: &Path) -> Result<String, Error> {
    let target = target.canonicalize().unwrap_or_else(|_| target.to_path_buf());
    let mounts = kernel.mounts()?;
    let Some(mount) = mounts.iter().rev().find(|mount| mount.target == target) else {
        return Err(Error::Unusable { object: target, why: "nothing is mounted there".into() });
    };
    // The kernel's name of the device: `dm-3` for `/dev/mapper/name`.
    let link = kernel.path(&format!("sys/dev/block/{}", mount.major_minor)).read_link();
    let device = link.unwrap_or_else(|_| mount.source.clone().into());
    let device = device.file_name().unwrap_or_default().to_string_lossy();
    let defaults = kernel.read(&format!("proc/fs/ext4/{device}/options")).unwrap_or_default();
    let reported = mount.mount_options.split(',').chain(mount.super_options.split(',')).chain(defaults.lines());
    Ok(distinct(reported.filter(|word| !word.is_empty())).join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn effective_options_include_defaults_once() {
        let line = "36 35 7:3 / /mnt/no\\040where rw,noatime - ext4 /dev/loop3 rw,nobarrier\n";
        let root = crate::testkit::FakeRoot::with(&[
            ("proc/self/mountinfo", line),
            ("proc/fs/ext4/loop3/options", "rw\nnobarrier\ndata=ordered\n"),
        ]);
        let kernel = SysRoot::at(root.path());
        let options = effective_options(&kernel, Path::new("/mnt/no where")).unwrap();
        assert_eq!(options, "rw,noatime,nobarrier,data=ordered");
        assert!(effective_options(&kernel, Path::new("/mnt")).is_err());
    }

    #[test]
    fn effective_options_include_those_of_the_ext4_driver_for_ext3_on_a_mapped_device() {
        let line = "36 35 253:3 / /mnt rw,relatime - ext3 /dev/mapper/name rw\n";
        let root = crate::testkit::FakeRoot::with(&[
            ("proc/self/mountinfo", line),
            ("proc/fs/ext4/dm-3/options", "rw\ndata=ordered\n"),
            ("sys/dev/block/none", ""),
        ]);
        let link = root.path().join("sys/dev/block/253:3");
        std::os::unix::fs::symlink("../../devices/virtual/block/dm-3", link).unwrap();
        let options = effective_options(&SysRoot::at(root.path()), Path::new("/mnt")).unwrap();
        assert_eq!(options, "rw,relatime,data=ordered");
    }

    #[test]
    fn mount_options_are_split_into_flags_and_filesystem_options() {
        let (flags, data) = split_flags("rw,noatime,data=writeback,,nodev,commit=5");
        assert_eq!(flags, MountFlags::NOATIME | MountFlags::NODEV);
        assert_eq!(data, "data=writeback,commit=5");
        assert_eq!(split_flags(""), (MountFlags::empty(), String::new()));
        assert_eq!(split_flags("ro,nodev,dev,rw,suid"), (MountFlags::empty(), String::new()));
        assert_eq!(split_flags("rw,ro"), (MountFlags::RDONLY, String::new()));
        // The filesystem would refuse these.
        let (flags, data) = split_flags("lazytime,nolazytime,norelatime,noauto,nosymfollow,silent");
        assert_eq!((flags, data.as_str()), (MountFlags::NOSYMFOLLOW | MountFlags::SILENT, ""));
    }

    #[test]
    fn the_directory_that_a_mount_hides_is_identified() {
        if !crate::testkit::runs_as_root() {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().canonicalize().unwrap().join("mnt");
        std::fs::create_dir(&target).unwrap();
        let dir_identity = FileIdentity::at_path(&target);
        let journal = Journal::create(&dir.path().join("state"), "").unwrap();
        let mounted = mount(&journal, &mut |_| {}, Path::new("none"), &target, "tmpfs", "size=4k").unwrap();
        assert_ne!(FileIdentity::at_path(&target), dir_identity);
        assert!(may_hide_directory(&target, dir_identity) && may_hide_directory(&target, None));
        let other_identity = dir_identity.map(|identity| FileIdentity { ino: identity.ino + 1, ..identity });
        assert!(!may_hide_directory(&target, other_identity));
        let undo = UndoStep::Unmount { target: target.clone(), dir: other_identity };
        drop(journal.record(undo).unwrap());
        assert!(is_mounted(&SysRoot::host(), &target).unwrap(), "a mount of another run");
        mounted.unmount(&mut |_| {}).unwrap();
        assert!(!is_mounted(&SysRoot::host(), &target).unwrap());
    }

    #[test]
    fn unmounting_a_directory_without_a_mount_succeeds() {
        let dir = tempfile::tempdir().unwrap();
        unmount(dir.path(), &mut |_| panic!("nothing needs to run")).unwrap();
        unmount(&dir.path().join("gone"), &mut |_| panic!("nothing needs to run")).unwrap();
    }
}
