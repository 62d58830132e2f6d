//! Loop devices, attached and detached with losetup(8).

use crate::Error;
use crate::argv::{self, Argv};
use crate::device::is_claimed;
use crate::kernel::Kernel;
use crate::process;
use crate::retry::retry;
use crate::undo::{Armed, Identity, Journal, Undo};
use fsarena_core::event::CommandRecord;
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::fs::File;
use std::os::{fd::AsRawFd, unix::ffi::OsStrExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{ffi::OsStr, io};

/// How often fsarena tries to attach: another process may take the same free device first.
const TRIES: u32 = 20;
/// How long the kernel may take to release a detached device: udev or blkid(8) may be reading it.
const GOING: Duration = Duration::from_secs(10);

/// The same where the device is mounted in another mount namespace, which does not pass by itself. A container that starts
/// has a copy of all mounts for a moment.
const GOING_MOUNTED: Duration = Duration::from_secs(3);

/// How a loop device is attached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoopOptions {
    /// Bypass the page cache of the filesystem below, as a real device would.
    pub direct_io: bool,
    /// Offer discard, which punches holes into the image.
    pub discard: bool,
}

/// A loop device that fsarena attached. Dropping it detaches it.
#[derive(Debug)]
pub struct LoopDevice {
    path: PathBuf,
    image: PathBuf,
    identity: Option<Identity>,
    attached: Armed,
}

/// Attaches an image to a free loop device.
///
/// # Errors
/// If losetup fails, or attached another file.
pub fn attach(
    journal: &Journal,
    image: &Path,
    opts: LoopOptions,
    log: &mut dyn FnMut(CommandRecord),
) -> Result<LoopDevice, Error> {
    let kernel = Kernel::host();
    let image = image.canonicalize().map_err(Error::io("looking for", image))?;
    let identity = Identity::at(&image);
    let attached = journal.note(Undo::Detach { image: image.clone(), identity })?;
    let mut device = LoopDevice { path: losetup(&image, opts, log)?, image, identity, attached };
    if opts.discard && withholds_discard(&kernel, &device.path) {
        // An earlier user left it so; detaching makes it afresh.
        detach_image(&kernel, &device.image, identity, log)?;
        device.path = losetup(&device.image, opts, log)?;
    }
    if !self::attached(&kernel, &device.image)?.contains(&device.path) {
        let why = format!("losetup named it for {:?}, but it carries something else", device.image);
        return Err(Error::Unfit { what: device.path.clone(), why });
    }
    if !opts.discard {
        let path = kernel.path(&attribute(&device.path, "queue/discard_max_bytes"));
        std::fs::write(&path, "0").map_err(Error::io("writing", &path))?;
    }
    Ok(device)
}

fn losetup(image: &Path, opts: LoopOptions, log: &mut dyn FnMut(CommandRecord)) -> Result<PathBuf, Error> {
    let direct = if opts.direct_io { "--direct-io=on" } else { "--direct-io=off" };
    let argv =
        Argv::new("losetup").args(["--find", "--show", direct]).arg(image).env("LC_ALL", "C").to_the_end();
    let taken = |error: &argv::Error| match error {
        // The device may also be gone again: `renew` removes and adds one.
        argv::Error::Failed { said, .. } => {
            ["busy", "temporarily", "No such"].iter().any(|word| said.contains(word))
        }
        _ => false,
    };
    Ok(PathBuf::from(retry(TRIES, taken, || argv.expect(log))?.stdout.trim()))
}

impl LoopDevice {
    /// The device node: `/dev/loop3`.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The image it carries.
    pub fn image(&self) -> &Path {
        &self.image
    }

    /// Whether it bypasses the page cache of the filesystem below; not every filesystem supports that.
    pub fn direct_io(&self) -> bool {
        Kernel::host().fact(&attribute(&self.path, "loop/dio")).as_deref() == Some("1")
    }

    /// Detaches it.
    ///
    /// # Errors
    /// Where it is still in use, or losetup fails; it then stays in the journal.
    pub fn detach(self, log: &mut dyn FnMut(CommandRecord)) -> Result<(), Error> {
        detach_image(&Kernel::host(), &self.image, self.identity, log)?;
        self.attached.forget()
    }
}

fn attribute(device: &Path, name: &str) -> String {
    format!("sys/class/block/{}/{name}", device.file_name().unwrap_or_default().display())
}

fn withholds_discard(kernel: &Kernel, device: &Path) -> bool {
    let limit = |which| kernel.fact(&attribute(device, which));
    limit("queue/discard_max_bytes").as_deref() == Some("0")
        && limit("queue/discard_max_hw_bytes").is_some_and(|most| most != "0")
}

/// Removes and adds a detached loop device, where discard was withheld from it: that limit outlives the
/// image, and Linux 6.18 takes no other value once it is 0.
fn renew(kernel: &Kernel, device: &Path) {
    // loop(4): LOOP_CTL_ADD and LOOP_CTL_REMOVE.
    const ADD: libc::Ioctl = 0x4C80;
    const REMOVE: libc::Ioctl = 0x4C81;
    let name = device.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let number = name.strip_prefix("loop").and_then(|number| number.parse::<libc::c_int>().ok());
    let (Some(number), Ok(control)) = (number, std::fs::File::open("/dev/loop-control")) else { return };
    // SAFETY: both requests take a plain number and touch no memory of this process. The kernel refuses to remove a device
    // that is attached or open.
    let ask = |request| unsafe { libc::ioctl(control.as_raw_fd(), request, number) } >= 0;
    // udev may still be looking at it. In the worst case it goes on without discard: no loss of data.
    for _ in 0..20 {
        if !withholds_discard(kernel, device) {
            return;
        }
        if ask(REMOVE) {
            ask(ADD);
            return;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The loop devices that carry an image, which may be deleted already.
///
/// # Errors
/// Where the kernel's list of them cannot be read.
pub fn attached(kernel: &Kernel, image: &Path) -> Result<Vec<PathBuf>, Error> {
    attached_as(kernel, image, None)
}

/// The loop devices that carry an image. Where its identity is known, a device of another file that has got its path
/// meanwhile is none of them: another run may have made it.
///
/// # Errors
/// Where the kernel's list of them cannot be read.
pub(crate) fn attached_as(
    kernel: &Kernel,
    image: &Path,
    identity: Option<Identity>,
) -> Result<Vec<PathBuf>, Error> {
    let image = image.canonicalize().unwrap_or_else(|_| image.to_path_buf());
    let now = Identity::at(&image);
    carrying(kernel, |device, name| carries(device, name, &image, identity, now))
}

/// The loop devices that carry an image, or a file of its identity: it may have been renamed, and then it is for the user
/// to detach it.
///
/// # Errors
/// Where the kernel's list of them cannot be read.
pub(crate) fn carriers(
    kernel: &Kernel,
    image: &Path,
    identity: Option<Identity>,
) -> Result<Vec<PathBuf>, Error> {
    let image = image.canonicalize().unwrap_or_else(|_| image.to_path_buf());
    let now = Identity::at(&image);
    let is_renamed = |name: &[u8]| {
        let found = Identity::at(Path::new(OsStr::from_bytes(name)));
        identity.zip(found).is_some_and(|(identity, found)| identity.is_same(&found))
    };
    carrying(kernel, |device, name| is_renamed(name) || carries(device, name, &image, identity, now))
}

/// Whether a loop device, whose file the kernel gives this name, carries the file of an identity that was made as this
/// image; `now` is the identity of the file at its path. In another mount namespace the kernel's name of the same file is
/// another one, so the inode number decides: it has no other file as long as the device is attached.
fn carries(
    device: &Path,
    name: &[u8],
    image: &Path,
    identity: Option<Identity>,
    now: Option<Identity>,
) -> bool {
    let backing = identity.and_then(|_| backing(&File::open(device).ok()?).ok());
    let (Some(identity), Some(backing)) = (identity, backing) else { return names(name, image) };
    let numbers = |identity: Identity| (identity.dev, identity.ino);
    match now.filter(|now| numbers(*now) == backing) {
        Some(now) => identity.is_same(&now),
        None => numbers(identity) == backing && (names(name, image) || ends(image, name)),
    }
}

/// The device and inode number of the file that an open loop device carries, whatever its name is now.
///
/// # Errors
/// Where it carries none.
fn backing(device: &File) -> io::Result<(u64, u64)> {
    // loop(4): LOOP_GET_STATUS64 fills a struct loop_info64, which begins with these two numbers.
    const GET_STATUS: libc::Ioctl = 0x4C05;
    let mut info = [0u64; 29];
    // SAFETY: the array is as large as struct loop_info64 (232 bytes), and the kernel writes nothing else.
    match unsafe { libc::ioctl(device.as_raw_fd(), GET_STATUS, info.as_mut_ptr()) } {
        0 => {
            let major = (info[0] >> 8 & 0xfff) as u32;
            let minor = (info[0] & 0xff | info[0] >> 12 & 0xf_ff00) as u32;
            Ok((rustix::fs::makedev(major, minor), info[1]))
        }
        _ => Err(io::Error::last_os_error()),
    }
}

/// A file that a loop device carries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackingFile {
    /// The kernel's name of the loop device: `loop3`.
    pub device: String,
    /// The number of the filesystem that the file lies on, `major:minor`, and the file's inode number there.
    pub identity: (String, u64),
}

/// The files of all loop devices. losetup(8) asks the kernel, which knows them whatever their names are now, in any
/// mount namespace.
///
/// # Errors
/// Where losetup fails or prints something unexpected.
pub fn backing_files(kernel: &Kernel) -> Result<Vec<BackingFile>, Error> {
    if carrying(kernel, |_, _| true)?.is_empty() {
        return Ok(vec![]);
    }
    let argv = Argv::new("losetup").args(["--list", "--json", "--output", "NAME,BACK-INO,BACK-MAJ:MIN"]);
    let text = argv.env("LC_ALL", "C").expect(&mut |_| {})?.stdout;
    parse(&text).ok_or_else(|| Error::Unreadable { path: "losetup --list".into(), why: text })
}

fn parse(text: &str) -> Option<Vec<BackingFile>> {
    let printed: serde_json::Value = serde_json::from_str(text).ok()?;
    let devices = printed["loopdevices"].as_array()?.iter();
    let one = |device: &serde_json::Value| {
        // Some versions print numbers as text.
        let inode = match &device["back-ino"] {
            serde_json::Value::String(text) => text.trim().parse().ok()?,
            number => number.as_u64()?,
        };
        let name = device["name"].as_str()?.strip_prefix("/dev/")?.to_string();
        Some(BackingFile { device: name, identity: (device["back-maj:min"].as_str()?.trim().into(), inode) })
    };
    // One that was detached while losetup looked has no numbers.
    Some(devices.filter_map(one).collect())
}

/// The loop devices that carry a file somewhere below a directory, which is given as the kernel names it.
///
/// # Errors
/// Where the kernel's list of them cannot be read.
pub(crate) fn attached_below(kernel: &Kernel, dir: &Path) -> Result<Vec<PathBuf>, Error> {
    carrying(kernel, |_, text| Path::new(OsStr::from_bytes(text)).starts_with(dir))
}

/// The loop devices that pass a test together with the name of their backing file as the kernel prints it.
fn carrying(kernel: &Kernel, fits: impl Fn(&Path, &[u8]) -> bool) -> Result<Vec<PathBuf>, Error> {
    let mut carrying = vec![];
    for name in kernel.list("sys/block")?.iter().filter(|name| name.starts_with("loop")) {
        let device = Path::new("/dev").join(name);
        if backing_name(kernel, name)?.is_some_and(|text| fits(&device, &text)) {
            carrying.push(device);
        }
    }
    Ok(carrying)
}

/// The name of the file that a loop device carries, as the kernel prints it; None where it carries none.
fn backing_name(kernel: &Kernel, device: &str) -> Result<Option<Vec<u8>>, Error> {
    let file = kernel.path(&format!("sys/block/{device}/loop/backing_file"));
    match std::fs::read(&file) {
        Ok(mut text) => {
            // The kernel adds one newline; all others are the path's own.
            text.pop_if(|last| *last == b'\n');
            Ok(Some(text))
        }
        // Nothing is attached, or the device went away meanwhile.
        Err(error)
            if matches!(Errno::from_io_error(&error), Some(Errno::NOENT | Errno::NXIO | Errno::NODEV)) =>
        {
            Ok(None)
        }
        Err(error) => Err(Error::hidden(&file)(error)),
    }
}

/// The ending of the kernel's name of a file that was removed.
const DELETED: &[u8] = b" (deleted)";

/// Whether the kernel's name of a backing file is that of this image.
fn names(name: &[u8], image: &Path) -> bool {
    let image = image.as_os_str().as_bytes();
    name == image || name.strip_suffix(DELETED) == Some(image)
}

/// Whether the path of an image ends in the kernel's name of a file, which begins at a mount of another namespace.
fn ends(image: &Path, name: &[u8]) -> bool {
    let name = name.strip_suffix(DELETED).unwrap_or(name);
    image.ends_with(OsStr::from_bytes(name.strip_prefix(b"/").unwrap_or(name)))
}

/// Detaches every loop device of an image, and waits until the kernel has released it. A device of another file that got the
/// image's name meanwhile is left alone.
///
/// # Errors
/// Where one stays in use: [`Error::Held`] names the users. Or losetup fails.
pub fn detach_image(
    kernel: &Kernel,
    image: &Path,
    identity: Option<Identity>,
    log: &mut dyn FnMut(CommandRecord),
) -> Result<(), Error> {
    for device in attached_as(kernel, image, identity)? {
        // As long as it is open here, nobody can detach it and attach another file to it.
        let held = File::open(&device).map_err(Error::io("opening", &device));
        let still =
            |device: &PathBuf| Ok::<bool, Error>(attached_as(kernel, image, identity)?.contains(device));
        if !still(&device)? {
            continue;
        }
        let held = held?;
        // losetup succeeds on a device in use, and the kernel detaches it when its last user goes. That must
        // not happen while it is mounted.
        kernel.check_unmounted(&device)?;
        let disk = disk(kernel, &device);
        let ended =
            Argv::new("losetup").arg("--detach").arg(&device).env("LC_ALL", "C").to_the_end().expect(log);
        drop(held);
        let begun = Instant::now();
        // A device with a new number was detached, and somebody attached the image to it again.
        while still(&device)? && self::disk(kernel, &device) == disk {
            let waited = begun.elapsed();
            if waited > GOING || waited > GOING_MOUNTED && is_claimed(&device).unwrap_or(false) {
                ended?;
                return Err(Error::Held { holders: holders(kernel, &device), device });
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        renew(kernel, &device);
    }
    Ok(())
}

/// The number that the kernel gives a loop device whenever it is attached; None before Linux 5.15.
fn disk(kernel: &Kernel, device: &Path) -> Option<u64> {
    crate::attribute::disk_of(&kernel.path(&attribute(device, "loop/backing_file")))
}

/// Who uses a device: processes that have it open, and one of each mount namespace in which it is mounted. A new container
/// or sandbox starts with a copy of all mounts, which unmounting elsewhere does not remove.
fn holders(kernel: &Kernel, device: &Path) -> Vec<String> {
    let open = process::holders(kernel, device).into_iter();
    let mut found: Vec<String> =
        open.map(|pid| format!("process {}, which has it open", process::name(kernel, pid))).collect();
    let numbers = kernel.fact(&attribute(device, "dev"));
    let mut namespaces = BTreeSet::new();
    for pid in process::all(kernel).unwrap_or_default() {
        let namespace = kernel.path(&format!("proc/{pid}/ns/mnt")).read_link().ok();
        if namespace.is_none_or(|namespace| !namespaces.insert(namespace)) {
            continue;
        }
        // `36 35 7:3 / /mnt rw - ext4 /dev/loop3 rw`
        let mounts = kernel.read(&format!("proc/{pid}/mountinfo")).unwrap_or_default();
        let is_its = |words: &Vec<&str>| {
            words.get(2).copied() == numbers.as_deref() || words.iter().any(|word| Path::new(word) == device)
        };
        let mut lines = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
        if let Some(target) = lines.find(is_its).and_then(|words| words.get(4).copied()) {
            let name = process::name(kernel, pid);
            found.push(format!("the mount namespace of process {name}, which has it mounted at {target}"));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backing_file_is_told_by_its_whole_path() {
        let image = Path::new("/tmp/a b\nc");
        assert!(names(b"/tmp/a b\nc", image));
        assert!(names(b"/tmp/a b\nc (deleted)", image));
        assert!(!names(b"/tmp/a b\ncd", image));
        assert!(!names(b"/tmp/a b", image));
        assert!(ends(image, b"/a b\nc (deleted)") && ends(image, b"/a b\nc"));
        assert!(!ends(image, b"/b\nc") && !ends(image, b"/tmp/a"));
    }

    #[test]
    fn losetup_is_read() {
        let text = r#"{"loopdevices": [
            {"name":"/dev/loop1", "back-ino":115, "back-maj:min":"       0:6  "},
            {"name":"/dev/loop0", "back-ino":"9986096", "back-maj:min":"254:0"},
            {"name":"/dev/loop2", "back-ino":null, "back-maj:min":null}]}"#;
        let file = |device: &str, maj_min: &str, inode| BackingFile {
            device: device.into(),
            identity: (maj_min.into(), inode),
        };
        assert_eq!(parse(text).unwrap(), [file("loop1", "0:6", 115), file("loop0", "254:0", 9_986_096)]);
        assert_eq!(parse("losetup: trouble"), None);
    }

    #[test]
    fn the_users_of_a_device_are_named() {
        let dir = tempfile::tempdir().unwrap();
        for rel in ["sys/class/block/loop3", "proc/7/ns", "proc/7/fd", "proc/8/ns", "proc/9/ns"] {
            std::fs::create_dir_all(dir.path().join(rel)).unwrap();
        }
        let write = |rel: &str, text: &str| std::fs::write(dir.path().join(rel), text).unwrap();
        let link = |rel: &str, to: &str| std::os::unix::fs::symlink(to, dir.path().join(rel)).unwrap();
        write("sys/class/block/loop3/dev", "7:3\n");
        link("proc/7/fd/0", "/dev/loop3");
        write("proc/7/comm", "blkid\n");
        for (pid, namespace) in [(7, "mnt:[1]"), (8, "mnt:[2]"), (9, "mnt:[2]")] {
            link(&format!("proc/{pid}/ns/mnt"), namespace);
            let mounts = if pid == 7 { "" } else { "36 35 7:3 / /mnt rw - ext4 /dev/loop3 rw\n" };
            write(&format!("proc/{pid}/mountinfo"), mounts);
        }
        write("proc/8/comm", "sandbox\n");
        let found = holders(&Kernel::at(dir.path()), Path::new("/dev/loop3"));
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].contains("7 (blkid)") && found[1].contains("8 (sandbox)"), "{found:?}");
    }

    /// A mount in another mount namespace, as a container has that was started meanwhile.
    #[test]
    fn a_device_in_use_elsewhere_is_named_with_its_user_and_goes_when_that_ends() {
        use std::process::{Command, Stdio};
        if !fsarena_skip::root() || !fsarena_skip::program("mkfs.ext2") {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().canonicalize().unwrap();
        let target = path.join("mnt");
        std::fs::create_dir(&target).unwrap();
        let journal = Journal::create(&path.join("state"), "").unwrap();
        let image = crate::image::sparse(&journal, &path.join("test.img"), 1 << 20).unwrap();
        let options = LoopOptions { direct_io: false, discard: false };
        let device = attach(&journal, image.path(), options, &mut |_| {}).unwrap();
        Argv::new("mkfs.ext2").arg("-q").arg(device.path()).expect(&mut |_| {}).unwrap();
        let script = "mount \"$0\" \"$1\" && echo ready && exec sleep 60";
        let mut sandbox = Command::new("unshare");
        sandbox.args(["--mount", "sh", "-c", script]).arg(device.path()).arg(&target);
        let mut sandbox = sandbox.stdout(Stdio::piped()).spawn().unwrap();
        io::Read::read_exact(sandbox.stdout.as_mut().unwrap(), &mut [0; 6]).unwrap();
        let detached = device.detach(&mut |_| {});
        sandbox.kill().unwrap();
        sandbox.wait().unwrap();
        let error = detached.unwrap_err();
        assert_eq!(fsarena_core::exit::Exits::exit_code(&error), fsarena_core::exit::ExitCode::Missing);
        assert!(error.to_string().contains(&format!("{} (sleep)", sandbox.id())), "{error}");
        let identity = Identity::at(image.path());
        detach_image(&Kernel::host(), image.path(), identity, &mut |_| {}).unwrap();
        assert!(carriers(&Kernel::host(), image.path(), identity).unwrap().is_empty());
        image.remove().unwrap();
    }

    /// Three processes, each attaching and detaching an image of its own, while a fourth reads every loop device.
    #[test]
    fn devices_are_detached_while_others_attach_and_read_them() {
        if !fsarena_skip::root() {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let journal = Journal::create(&dir.path().join("state"), "").unwrap();
        let stop = std::sync::atomic::AtomicBool::new(false);
        let options = LoopOptions { direct_io: false, discard: false };
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    let devices = carrying(&Kernel::host(), |_, text| {
                        Path::new(OsStr::from_bytes(text)).starts_with(dir.path())
                    });
                    for device in devices.unwrap() {
                        let _ = Argv::new("blkid").arg("-p").arg(device).quiet().run();
                    }
                }
            });
            let attach_and_detach = |number: u32| {
                let image =
                    crate::image::sparse(&journal, &dir.path().join(format!("{number}.img")), 1 << 20)
                        .unwrap();
                for _ in 0..8 {
                    let device = attach(&journal, image.path(), options, &mut |_| {}).unwrap();
                    device.detach(&mut |_| {}).unwrap();
                    assert!(attached(&Kernel::host(), image.path()).unwrap().is_empty());
                }
                image.remove().unwrap();
            };
            let workers: Vec<_> =
                (0..3).map(|number| scope.spawn(move || attach_and_detach(number))).collect();
            workers.into_iter().for_each(|worker| worker.join().unwrap());
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
            reader.join().unwrap();
        });
    }

    #[test]
    fn a_device_of_another_file_with_the_name_of_the_image_stays_attached() {
        if !fsarena_skip::root() {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().canonicalize().unwrap().join("test.img");
        let journal = Journal::create(&dir.path().join("state"), "").unwrap();
        let options = LoopOptions { direct_io: false, discard: false };
        let image = crate::image::sparse(&journal, &path, 1 << 20).unwrap();
        let device = attach(&journal, image.path(), options, &mut |_| {}).unwrap();
        let kernel = Kernel::host();
        let ours = Identity::at(&path).unwrap();
        assert_eq!(backing(&File::open(device.path()).unwrap()).unwrap(), (ours.dev, ours.ino));
        let reused = Identity { made_at: ours.made_at.map(|at| at - 1), ..ours };
        for dead in [Identity { ino: ours.ino + 1, ..ours }, reused] {
            if dead == ours {
                fsarena_skip::skipped("this filesystem does not record when a file was made");
                continue;
            }
            let undo = Undo::Detach { image: path.clone(), identity: Some(dead) };
            drop(journal.note(undo).unwrap());
            assert_eq!(attached(&kernel, &path).unwrap(), [device.path()]);
            assert!(carriers(&kernel, &path, Some(dead)).unwrap().is_empty());
        }
        assert_eq!(carriers(&kernel, &path, Some(ours)).unwrap(), [device.path()]);
        device.detach(&mut |_| {}).unwrap();
        image.remove().unwrap();
    }

    #[test]
    fn loops_of_an_image_are_found() {
        let dir = tempfile::tempdir().unwrap();
        for (name, file) in
            [("loop0", "/x/1\n"), ("loop1", "/x/2\n"), ("loop12", "/x/1\n"), ("sda", "/x/1\n")]
        {
            let at = dir.path().join("sys/block").join(name).join("loop");
            std::fs::create_dir_all(&at).unwrap();
            std::fs::write(at.join("backing_file"), file).unwrap();
        }
        let mut found = attached(&Kernel::at(dir.path()), Path::new("/x/1")).unwrap();
        found.sort();
        assert_eq!(found, [Path::new("/dev/loop0"), Path::new("/dev/loop12")]);
        assert_eq!(attached_below(&Kernel::at(dir.path()), Path::new("/x")).unwrap().len(), 3);
        assert!(attached_below(&Kernel::at(dir.path()), Path::new("/y")).unwrap().is_empty());
    }
}
