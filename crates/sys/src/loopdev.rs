//! Loop devices, attached and detached with losetup(8).

use crate::argv::Argv;
use crate::attribute::diskseq_of;
use crate::device::is_claimed;
use crate::error::{CommandError, Error, check_return};
use crate::kernel::{MountEntry, SysRoot, parse_mount};
use crate::process;
use crate::undo::{FileIdentity, Journal, UndoGuard, UndoStep};
use crate::wait::{Cancel, retry, wait_until};
use fsarena_core::event::CommandRecord;
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::fs::File;
use std::os::{fd::AsRawFd, unix::ffi::OsStrExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{ffi::OsStr, io};

/// How often fsarena tries to attach an image: another process may take the same free device first.
const ATTACH_ATTEMPTS: u32 = 20;
/// How long fsarena waits until the kernel has released a detached device: udev or blkid(8) may be reading it.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(10);
/// The wait for a device that is still mounted in another mount namespace. A starting container has a copy of all mounts for a
/// moment and then unmounts the device. A mount elsewhere stays, so a longer wait does not help.
const RELEASE_TIMEOUT_MOUNTED: Duration = Duration::from_secs(3);
/// How long fsarena waits until udev has closed a detached device that it is about to create again.
const RECREATE_TIMEOUT: Duration = Duration::from_millis(400);

/// The options of losetup(8) when fsarena attaches an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoopOptions {
    /// Bypass the page cache of the filesystem that the image is on, as a real device would.
    pub direct_io: bool,
    /// Offer discard, which punches holes into the image.
    pub discard: bool,
}

/// A loop device that fsarena attached. Dropping this value detaches it.
#[derive(Debug)]
pub struct LoopDevice {
    path: PathBuf,
    image: PathBuf,
    identity: Option<FileIdentity>,
    guard: UndoGuard,
}

/// Attaches an image to a free loop device.
///
/// # Errors
/// Losetup fails, or attached another file.
pub fn attach(
    journal: &Journal,
    image: &Path,
    options: LoopOptions,
    log: &mut dyn FnMut(CommandRecord),
) -> Result<LoopDevice, Error> {
    let kernel = SysRoot::host();
    let image = image.canonicalize().map_err(Error::io("looking for", image))?;
    let identity = FileIdentity::at_path(&image);
    let guard = journal.record(UndoStep::DetachImage { image: image.clone(), identity })?;
    let mut device = LoopDevice { path: attach_by_losetup(&image, options, log)?, image, identity, guard };
    if options.discard && has_discard_disabled(&kernel, &device.path) {
        // An earlier user of this loop device disabled discard. `detach_image` creates the device again.
        detach_image(&kernel, &device.image, identity, log)?;
        device.path = attach_by_losetup(&device.image, options, log)?;
    }
    if !devices_of_image(&kernel, &device.image)?.contains(&device.path) {
        let why = format!("losetup named it for {:?}, but another file is attached to it", device.image);
        return Err(Error::Unusable { object: device.path.clone(), why });
    }
    if !options.discard {
        let path = kernel.path(&attribute_path(&device.path, "queue/discard_max_bytes"));
        std::fs::write(&path, "0").map_err(Error::io("writing", &path))?;
    }
    Ok(device)
}

/// Attaches an image with losetup(8), and returns the device that it chose.
fn attach_by_losetup(image: &Path, options: LoopOptions, log: &mut dyn FnMut(CommandRecord)) -> Result<PathBuf, Error> {
    let direct_io_option = if options.direct_io { "--direct-io=on" } else { "--direct-io=off" };
    let argv =
        Argv::new("losetup").args(["--find", "--show", direct_io_option]).arg(image).env("LC_ALL", "C").ignore_cancel();
    let is_temporary = |error: &CommandError| match error {
        // "No such": another fsarena may have removed the free device for a moment, see `recreate_without_discard_limit`.
        CommandError::Failed { output, .. } => {
            ["busy", "temporarily", "No such"].iter().any(|word| output.contains(word))
        }
        _ => false,
    };
    Ok(PathBuf::from(retry(ATTACH_ATTEMPTS, is_temporary, || argv.run_checked(log))?.stdout.trim()))
}

impl LoopDevice {
    /// The device node: `/dev/loop3`.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The image that is attached.
    pub fn image(&self) -> &Path {
        &self.image
    }

    /// Whether the device reads and writes the image with direct I/O; not every filesystem below it supports that.
    pub fn uses_direct_io(&self) -> bool {
        SysRoot::host().read_trimmed(&attribute_path(&self.path, "loop/dio")).as_deref() == Some("1")
    }

    /// Detaches the device.
    ///
    /// # Errors
    /// The device is still in use, or losetup fails; the step then stays in the journal.
    pub fn detach(self, log: &mut dyn FnMut(CommandRecord)) -> Result<(), Error> {
        detach_image(&SysRoot::host(), &self.image, self.identity, log)?;
        self.guard.disarm()
    }
}

/// The path of an attribute of a block device in sysfs, without the leading slash.
fn attribute_path(device: &Path, name: &str) -> String {
    format!("sys/class/block/{}/{name}", device.file_name().unwrap_or_default().display())
}

/// Whether discard is disabled on a loop device that supports it.
fn has_discard_disabled(kernel: &SysRoot, device: &Path) -> bool {
    let limit = kernel.read_trimmed(&attribute_path(device, "queue/discard_max_bytes"));
    let hardware_limit = kernel.read_trimmed(&attribute_path(device, "queue/discard_max_hw_bytes"));
    limit.as_deref() == Some("0") && hardware_limit.is_some_and(|hardware_limit| hardware_limit != "0")
}

/// Removes a detached loop device and creates it again, if discard is disabled on it: the limit `discard_max_bytes` keeps its
/// value after the image is detached, and Linux 6.18 rejects any other value once it is 0.
fn recreate_without_discard_limit(kernel: &SysRoot, device: &Path) {
    // loop(4).
    const LOOP_CTL_ADD: libc::Ioctl = 0x4C80;
    const LOOP_CTL_REMOVE: libc::Ioctl = 0x4C81;
    let name = device.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let number = name.strip_prefix("loop").and_then(|number| number.parse::<libc::c_int>().ok());
    let (Some(number), Ok(control)) = (number, std::fs::File::open("/dev/loop-control")) else { return };
    // SAFETY: both requests take a plain number and touch no memory of this process. The kernel refuses to remove a device
    // that is attached or open.
    let request_succeeds = |request| unsafe { libc::ioctl(control.as_raw_fd(), request, number) } >= 0;
    let try_once = || {
        let is_removed = has_discard_disabled(kernel, device) && request_succeeds(LOOP_CTL_REMOVE);
        if is_removed {
            request_succeeds(LOOP_CTL_ADD);
        }
        (is_removed || !has_discard_disabled(kernel, device)).then_some(())
    };
    // udev may still have the device open. If that lasts, the device stays without discard, which loses no data.
    let _ = wait_until(Instant::now() + RECREATE_TIMEOUT, Cancel::Never, try_once);
}

/// The loop devices that an image is attached to. The image may be deleted already.
///
/// # Errors
/// The kernel's list of them cannot be read.
pub fn devices_of_image(kernel: &SysRoot, image: &Path) -> Result<Vec<PathBuf>, Error> {
    devices_of_identified_image(kernel, image, None)
}

/// The loop devices that an image is attached to. If `identity`, the identity of the image, is known, a device whose backing
/// file has another identity is left out: another run may have made a file with the same path since.
///
/// # Errors
/// The kernel's list of them cannot be read.
pub(crate) fn devices_of_identified_image(
    kernel: &SysRoot,
    image: &Path,
    identity: Option<FileIdentity>,
) -> Result<Vec<PathBuf>, Error> {
    let image = image.canonicalize().unwrap_or_else(|_| image.to_path_buf());
    find_attached_devices(kernel, |device, backing_path| is_backed_by(device, backing_path, &image, identity))
}

/// The loop devices that an image is attached to, even if the image was renamed since. [`detach_image`] does not detach a
/// renamed image, so the caller names the device to the user.
///
/// # Errors
/// The kernel's list of them cannot be read.
pub(crate) fn devices_of_image_even_renamed(
    kernel: &SysRoot,
    image: &Path,
    identity: Option<FileIdentity>,
) -> Result<Vec<PathBuf>, Error> {
    let image = image.canonicalize().unwrap_or_else(|_| image.to_path_buf());
    let is_same_file = |backing_path: &[u8]| {
        let backing = FileIdentity::at_path(Path::new(OsStr::from_bytes(backing_path)));
        identity.zip(backing).is_some_and(|(identity, backing)| identity.is_same(&backing))
    };
    find_attached_devices(kernel, |device, backing_path| {
        is_same_file(backing_path) || is_backed_by(device, backing_path, &image, identity)
    })
}

/// Whether the backing file of a loop device is the image with this path and identity. `backing_path` is the path of the
/// backing file as the kernel prints it.
///
/// The inode number of the backing file decides, because the kernel prints another path in another mount namespace. The
/// number is not reused while the device is attached. If either number is unknown, the path decides. If the image is no longer
/// at its path, its creation time cannot be compared. The inode number may then belong to a newer file, so the path must match
/// as well.
fn is_backed_by(device: &Path, backing_path: &[u8], image: &Path, identity: Option<FileIdentity>) -> bool {
    let Some(identity) = identity else { return is_path_of_image(backing_path, image) };
    let backing = File::open(device).and_then(|device| backing_inode(&device));
    let Ok(backing) = backing else { return is_path_of_image(backing_path, image) };
    // If the backing file is at the path of the image, compare the creation times too: the image may have been removed, and a
    // newer file may have its path and its inode number.
    match FileIdentity::at_path(image).filter(|current| (current.dev, current.ino) == backing) {
        Some(current) => identity.is_same(&current),
        None => {
            (identity.dev, identity.ino) == backing
                && (is_path_of_image(backing_path, image) || is_suffix_of(backing_path, image))
        }
    }
}

/// The device and inode number of the backing file of an open loop device.
///
/// # Errors
/// The device has no backing file.
fn backing_inode(device: &File) -> io::Result<(u64, u64)> {
    // loop(4): the request fills a struct loop_info64, which begins with these two numbers.
    const LOOP_GET_STATUS64: libc::Ioctl = 0x4C05;
    let mut info = [0u64; 29];
    // SAFETY: the array is as large as struct loop_info64 (232 bytes), and the kernel writes nothing else.
    check_return(unsafe { libc::ioctl(device.as_raw_fd(), LOOP_GET_STATUS64, info.as_mut_ptr()) })?;
    let major = (info[0] >> 8 & 0xfff) as u32;
    let minor = (info[0] & 0xff | info[0] >> 12 & 0xf_ff00) as u32;
    Ok((rustix::fs::makedev(major, minor), info[1]))
}

/// The backing file of a loop device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackingFile {
    /// The kernel's name of the loop device: `loop3`.
    pub device: String,
    /// The device number of its filesystem (`major:minor`), and its inode number.
    pub identity: (String, u64),
}

/// The backing files of all loop devices with their inode numbers. Unlike a path, an inode number is the same in every mount
/// namespace and after a rename. Devices that cannot be read, such as a device that was detached meanwhile, are left out.
///
/// # Errors
/// The kernel's list of loop devices cannot be read.
pub fn backing_files(kernel: &SysRoot) -> Result<Vec<BackingFile>, Error> {
    let backing_file = |device: PathBuf| {
        let (dev, inode) = File::open(&device).and_then(|device| backing_inode(&device)).ok()?;
        let filesystem = format!("{}:{}", rustix::fs::major(dev), rustix::fs::minor(dev));
        let name = device.file_name()?.to_string_lossy().into_owned();
        Some(BackingFile { device: name, identity: (filesystem, inode) })
    };
    Ok(find_attached_devices(kernel, |_, _| true)?.into_iter().filter_map(backing_file).collect())
}

/// The loop devices whose backing file is below a directory; `dir` is its path as the kernel prints it.
///
/// # Errors
/// The kernel's list of them cannot be read.
pub(crate) fn devices_with_files_below(kernel: &SysRoot, dir: &Path) -> Result<Vec<PathBuf>, Error> {
    find_attached_devices(kernel, |_, backing_path| Path::new(OsStr::from_bytes(backing_path)).starts_with(dir))
}

/// The attached loop devices for which `matches` returns true. Its arguments are the device node and the path of its backing
/// file as the kernel prints it.
fn find_attached_devices(kernel: &SysRoot, matches: impl Fn(&Path, &[u8]) -> bool) -> Result<Vec<PathBuf>, Error> {
    let mut devices = vec![];
    for name in kernel.list_required("sys/block")?.iter().filter(|name| name.starts_with("loop")) {
        let device = Path::new("/dev").join(name);
        if read_backing_path(kernel, name)?.is_some_and(|backing_path| matches(&device, &backing_path)) {
            devices.push(device);
        }
    }
    Ok(devices)
}

/// Reads the path of the backing file of a loop device, as the kernel prints it; None if nothing is attached.
fn read_backing_path(kernel: &SysRoot, device_name: &str) -> Result<Option<Vec<u8>>, Error> {
    let file = kernel.path(&format!("sys/block/{device_name}/loop/backing_file"));
    match std::fs::read(&file) {
        Ok(mut path) => {
            // The kernel adds one newline; any other is part of the path.
            path.pop_if(|last| *last == b'\n');
            Ok(Some(path))
        }
        // Nothing is attached, or the device went away meanwhile.
        Err(error) if matches!(Errno::from_io_error(&error), Some(Errno::NOENT | Errno::NXIO | Errno::NODEV)) => {
            Ok(None)
        }
        Err(error) => Err(Error::kernel_unreadable(&file)(error)),
    }
}

/// The text that the kernel appends to the path of a removed file.
const DELETED_SUFFIX: &[u8] = b" (deleted)";

/// Whether a backing file is this image, by its path as the kernel prints it.
fn is_path_of_image(backing_path: &[u8], image: &Path) -> bool {
    let image = image.as_os_str().as_bytes();
    backing_path == image || backing_path.strip_suffix(DELETED_SUFFIX) == Some(image)
}

/// Whether the path of a backing file, as the kernel prints it, is the end of the path of an image: in another mount namespace
/// the kernel prints the path from a mount point on.
fn is_suffix_of(backing_path: &[u8], image: &Path) -> bool {
    let suffix = backing_path.strip_suffix(DELETED_SUFFIX).unwrap_or(backing_path);
    image.ends_with(OsStr::from_bytes(suffix.strip_prefix(b"/").unwrap_or(suffix)))
}

/// Detaches every loop device of an image, and waits until the kernel has released them. If another file now has the path of
/// the image, the devices of that file stay attached.
///
/// # Errors
/// A device stays in use, or losetup fails.
pub fn detach_image(
    kernel: &SysRoot,
    image: &Path,
    identity: Option<FileIdentity>,
    log: &mut dyn FnMut(CommandRecord),
) -> Result<(), Error> {
    for device in devices_of_identified_image(kernel, image, identity)? {
        // While the device is open here, no other process can detach it and attach another file to it.
        let opened = File::open(&device).map_err(Error::io("opening", &device));
        let is_attached = |device: &PathBuf| {
            Ok::<bool, Error>(devices_of_identified_image(kernel, image, identity)?.contains(device))
        };
        if !is_attached(&device)? {
            continue;
        }
        let opened = opened?;
        // On a device in use losetup succeeds, and the kernel detaches it when its last user closes it. A mounted device
        // must not be left in that state.
        kernel.check_unmounted(&device)?;
        let former_diskseq = diskseq_of_loop_device(kernel, &device);
        let detached =
            Argv::new("losetup").arg("--detach").arg(&device).env("LC_ALL", "C").ignore_cancel().run_checked(log);
        drop(opened);
        // If the sequence number has changed, the device was detached, and another process attached the image again.
        let is_released = || Ok(!is_attached(&device)? || diskseq_of_loop_device(kernel, &device) != former_diskseq);
        if !wait_for_release(&device, is_released)? {
            detached?;
            let users = match describe_device_users(kernel, &device) {
                users if users.is_empty() => {
                    "something that shows in no process (another mount, swap or loop device)".into()
                }
                users => users.join(", "),
            };
            return Err(Error::Missing(format!(
                "{device:?} cannot be detached yet, it is in use by {users}; end that and run `fsarena recover`"
            )));
        }
        recreate_without_discard_limit(kernel, &device);
    }
    Ok(())
}

/// Waits until the kernel has released a device; returns false on timeout.
fn wait_for_release(device: &Path, is_released: impl Fn() -> Result<bool, Error>) -> Result<bool, Error> {
    let start = Instant::now();
    let poll = || match is_released() {
        Ok(false) if start.elapsed() > RELEASE_TIMEOUT_MOUNTED && is_claimed(device).unwrap_or(false) => {
            Some(Ok(false))
        }
        Ok(false) => None,
        released => Some(released),
    };
    wait_until(start + RELEASE_TIMEOUT, Cancel::Never, poll).unwrap_or(Ok(false))
}

/// The sequence number (`diskseq`) that the kernel assigns whenever the device is attached; None before Linux 5.15.
fn diskseq_of_loop_device(kernel: &SysRoot, device: &Path) -> Option<u64> {
    diskseq_of(&kernel.path(&attribute_path(device, "loop/backing_file")))
}

/// Descriptions of the users of a device, for messages: the processes that have it open, and one process of each mount
/// namespace in which it is mounted. A new container or sandbox starts with a copy of all mounts, and fsarena cannot unmount
/// that copy.
fn describe_device_users(kernel: &SysRoot, device: &Path) -> Vec<String> {
    let mut descriptions = vec![];
    for process in process::processes_using(kernel, device) {
        descriptions.push(format!("process {} ({}), which has it open", process.pid, process.name));
    }
    let mut namespaces = BTreeSet::new();
    for pid in process::all_pids(kernel).unwrap_or_default() {
        let namespace = kernel.path(&format!("proc/{pid}/ns/mnt")).read_link().ok();
        if namespace.is_none_or(|namespace| !namespaces.insert(namespace)) {
            continue;
        }
        if let Some(target) = mount_point_in_namespace_of(kernel, pid, device) {
            let name = process::describe(kernel, pid);
            let target = target.display();
            descriptions.push(format!("the mount namespace of process {name}, which has it mounted at {target}"));
        }
    }
    descriptions
}

/// The first mount point of a device in the mount namespace of a process; None if the device is not mounted there.
fn mount_point_in_namespace_of(kernel: &SysRoot, pid: i32, device: &Path) -> Option<PathBuf> {
    let numbers = kernel.read_trimmed(&attribute_path(device, "dev"));
    let text = kernel.read(&format!("proc/{pid}/mountinfo")).ok()?;
    let mut mounts = text.lines().filter_map(|line| parse_mount(line).ok());
    let is_of_device =
        |mount: &MountEntry| Some(&mount.major_minor) == numbers.as_ref() || Path::new(&mount.source) == device;
    mounts.find(is_of_device).map(|mount| mount.target)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testkit::FakeRoot;

    #[test]
    fn a_backing_file_is_matched_by_its_whole_path() {
        let image = Path::new("/tmp/a b\nc");
        assert!(is_path_of_image(b"/tmp/a b\nc", image));
        assert!(is_path_of_image(b"/tmp/a b\nc (deleted)", image));
        assert!(!is_path_of_image(b"/tmp/a b\ncd", image));
        assert!(!is_path_of_image(b"/tmp/a b", image));
        assert!(is_suffix_of(b"/a b\nc (deleted)", image) && is_suffix_of(b"/a b\nc", image));
        assert!(!is_suffix_of(b"/b\nc", image) && !is_suffix_of(b"/tmp/a", image));
    }

    #[test]
    fn the_users_of_a_device_are_named() {
        let root = FakeRoot::with(&[
            ("sys/class/block/loop3/dev", "7:3\n"),
            ("proc/7/comm", "blkid\n"),
            ("proc/8/comm", "sandbox\n"),
        ]);
        root.make_link("proc/7/fd/0", "/dev/loop3");
        for (pid, namespace) in [(7, "mnt:[1]"), (8, "mnt:[2]"), (9, "mnt:[2]")] {
            root.make_link(&format!("proc/{pid}/ns/mnt"), namespace);
            let mounts = if pid == 7 { "" } else { "36 35 7:3 / /mnt rw - ext4 /dev/loop3 rw\n" };
            root.write_file(&format!("proc/{pid}/mountinfo"), mounts);
        }
        let found = describe_device_users(&SysRoot::at(root.path()), Path::new("/dev/loop3"));
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].contains("7 (blkid)") && found[1].contains("8 (sandbox)"), "{found:?}");
    }

    /// Mounts the device in another mount namespace, like a container that starts while the device is mounted.
    #[test]
    fn detaching_a_device_mounted_elsewhere_fails_until_its_user_ends() {
        use std::process::{Command, Stdio};
        if !crate::testkit::runs_as_root() || !crate::testkit::has_program("mkfs.ext2") {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().canonicalize().unwrap();
        let target = path.join("mnt");
        std::fs::create_dir(&target).unwrap();
        let journal = Journal::create(&path.join("state"), "").unwrap();
        let image = crate::image::create_sparse(&journal, &path.join("test.img"), 1 << 20).unwrap();
        let options = LoopOptions { direct_io: false, discard: false };
        let device = attach(&journal, image.path(), options, &mut |_| {}).unwrap();
        Argv::new("mkfs.ext2").arg("-q").arg(device.path()).run_checked(&mut |_| {}).unwrap();
        let script = "mount \"$0\" \"$1\" && echo ready && exec sleep 60";
        let mut sandbox = Command::new("unshare");
        sandbox.args(["--mount", "sh", "-c", script]).arg(device.path()).arg(&target);
        let mut sandbox = sandbox.stdout(Stdio::piped()).spawn().unwrap();
        io::Read::read_exact(sandbox.stdout.as_mut().unwrap(), &mut [0; 6]).unwrap();
        let detached = device.detach(&mut |_| {});
        sandbox.kill().unwrap();
        sandbox.wait().unwrap();
        let error = detached.unwrap_err();
        assert_eq!(fsarena_core::exit::HasExitCode::exit_code(&error), fsarena_core::exit::ExitCode::Missing);
        assert!(error.to_string().contains(&format!("{} (sleep)", sandbox.id())), "{error}");
        let identity = FileIdentity::at_path(image.path());
        detach_image(&SysRoot::host(), image.path(), identity, &mut |_| {}).unwrap();
        assert!(devices_of_image_even_renamed(&SysRoot::host(), image.path(), identity).unwrap().is_empty());
        image.remove().unwrap();
    }

    /// Three processes, each attaching and detaching an image of its own, while a fourth reads every loop device.
    #[test]
    fn devices_are_detached_while_others_attach_and_read_them() {
        if !crate::testkit::runs_as_root() {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let journal = Journal::create(&dir.path().join("state"), "").unwrap();
        let stop = std::sync::atomic::AtomicBool::new(false);
        let options = LoopOptions { direct_io: false, discard: false };
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    let devices = find_attached_devices(&SysRoot::host(), |_, backing_path| {
                        Path::new(OsStr::from_bytes(backing_path)).starts_with(dir.path())
                    });
                    for device in devices.unwrap() {
                        let _ = Argv::new("blkid").arg("-p").arg(device).discard_stdout().run();
                    }
                }
            });
            let attach_and_detach = |number: u32| {
                let image =
                    crate::image::create_sparse(&journal, &dir.path().join(format!("{number}.img")), 1 << 20).unwrap();
                for _ in 0..8 {
                    let device = attach(&journal, image.path(), options, &mut |_| {}).unwrap();
                    device.detach(&mut |_| {}).unwrap();
                    assert!(devices_of_image(&SysRoot::host(), image.path()).unwrap().is_empty());
                }
                image.remove().unwrap();
            };
            let workers: Vec<_> = (0..3).map(|number| scope.spawn(move || attach_and_detach(number))).collect();
            workers.into_iter().for_each(|worker| worker.join().unwrap());
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
            reader.join().unwrap();
        });
    }

    #[test]
    fn a_device_of_another_file_with_the_path_of_the_image_stays_attached() {
        if !crate::testkit::runs_as_root() {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().canonicalize().unwrap().join("test.img");
        let journal = Journal::create(&dir.path().join("state"), "").unwrap();
        let options = LoopOptions { direct_io: false, discard: false };
        let image = crate::image::create_sparse(&journal, &path, 1 << 20).unwrap();
        let device = attach(&journal, image.path(), options, &mut |_| {}).unwrap();
        let kernel = SysRoot::host();
        let identity = FileIdentity::at_path(&path).unwrap();
        assert_eq!(backing_inode(&File::open(device.path()).unwrap()).unwrap(), (identity.dev, identity.ino));
        let filesystem = format!("{}:{}", rustix::fs::major(identity.dev), rustix::fs::minor(identity.dev));
        let files = backing_files(&kernel).unwrap();
        let file = files.iter().find(|file| device.path().ends_with(&file.device)).unwrap();
        assert_eq!(file.identity, (filesystem, identity.ino));
        let of_earlier_file = FileIdentity { created_at_ns: identity.created_at_ns.map(|ns| ns - 1), ..identity };
        // No file has the last inode; a small one could be the image of another test.
        for other in [FileIdentity { ino: u64::MAX, ..identity }, of_earlier_file] {
            if other == identity {
                crate::testkit::record_skip("this filesystem does not record when a file was made");
                continue;
            }
            let undo = UndoStep::DetachImage { image: path.clone(), identity: Some(other) };
            drop(journal.record(undo).unwrap());
            assert_eq!(devices_of_image(&kernel, &path).unwrap(), [device.path()]);
            assert!(devices_of_image_even_renamed(&kernel, &path, Some(other)).unwrap().is_empty());
        }
        assert_eq!(devices_of_image_even_renamed(&kernel, &path, Some(identity)).unwrap(), [device.path()]);
        device.detach(&mut |_| {}).unwrap();
        image.remove().unwrap();
    }

    #[test]
    fn the_loop_devices_of_an_image_are_found() {
        let root = FakeRoot::with(&[
            ("sys/block/loop0/loop/backing_file", "/x/1\n"),
            ("sys/block/loop1/loop/backing_file", "/x/2\n"),
            ("sys/block/loop12/loop/backing_file", "/x/1\n"),
            ("sys/block/sda/loop/backing_file", "/x/1\n"),
        ]);
        let kernel = SysRoot::at(root.path());
        let mut found = devices_of_image(&kernel, Path::new("/x/1")).unwrap();
        found.sort();
        assert_eq!(found, [Path::new("/dev/loop0"), Path::new("/dev/loop12")]);
        assert_eq!(devices_with_files_below(&kernel, Path::new("/x")).unwrap().len(), 3);
        assert!(devices_with_files_below(&kernel, Path::new("/y")).unwrap().is_empty());
    }
}
