//! Loop devices, attached and detached with losetup(8).

use crate::Error;
use crate::argv::{self, Argv};
use crate::kernel::Kernel;
use crate::retry::retry;
use crate::undo::{Armed, Journal, Undo};
use fsarena_core::event::CommandRecord;
use rustix::io::Errno;
use std::path::{Path, PathBuf};
use std::{ffi::OsStr, os::fd::AsRawFd, os::unix::ffi::OsStrExt, os::unix::fs::MetadataExt, time::Duration};

/// How often fsarena tries to attach: another process may take the same free device first.
const TRIES: u32 = 20;
/// How long the kernel may take to release a detached device.
const GOING: Duration = Duration::from_secs(10);

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
    let identity = image.metadata().map(|meta| (meta.dev(), meta.ino())).ok();
    let attached = journal.note(Undo::Detach { image: image.clone(), identity })?;
    let mut device = LoopDevice { path: losetup(&image, opts, log)?, image, attached };
    if opts.discard && withholds_discard(&kernel, &device.path) {
        // An earlier user left it so; detaching makes it afresh.
        detach_image(&kernel, &device.image, log)?;
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
        argv::Error::Failed { said, .. } => said.contains("busy") || said.contains("temporarily"),
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
        detach_image(&Kernel::host(), &self.image, log)?;
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
    carriers(kernel, image, None)
}

/// The loop devices that carry an image, or a file of its identity: it may have been renamed, and then it is for the user
/// to detach it, as another file may have got the inode number instead.
///
/// # Errors
/// Where the kernel's list of them cannot be read.
pub(crate) fn carriers(
    kernel: &Kernel,
    image: &Path,
    identity: Option<(u64, u64)>,
) -> Result<Vec<PathBuf>, Error> {
    let image = image.canonicalize().unwrap_or_else(|_| image.to_path_buf());
    let is = |text: &[u8]| {
        let path = Path::new(OsStr::from_bytes(text.strip_suffix(b"\n").unwrap_or(text)));
        identity.is_some() && path.metadata().map(|meta| (meta.dev(), meta.ino())).ok() == identity
    };
    carrying(kernel, |text| names(text, &image) || is(text))
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
    if carrying(kernel, |_| true)?.is_empty() {
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
    carrying(kernel, |text| Path::new(OsStr::from_bytes(text)).starts_with(dir))
}

/// The loop devices whose backing file, as the kernel prints it, passes a test.
fn carrying(kernel: &Kernel, fits: impl Fn(&[u8]) -> bool) -> Result<Vec<PathBuf>, Error> {
    let mut carrying = vec![];
    for name in kernel.list("sys/block")?.iter().filter(|name| name.starts_with("loop")) {
        let file = kernel.path(&format!("sys/block/{name}/loop/backing_file"));
        match std::fs::read(&file) {
            Ok(text) if fits(&text) => carrying.push(Path::new("/dev").join(name)),
            Ok(_) => {}
            // Nothing is attached, or the device went away meanwhile.
            Err(error)
                if matches!(
                    Errno::from_io_error(&error),
                    Some(Errno::NOENT | Errno::NXIO | Errno::NODEV)
                ) => {}
            Err(error) => return Err(Error::hidden(&file)(error)),
        }
    }
    Ok(carrying)
}

/// Whether the kernel's text of a backing file names this image.
fn names(text: &[u8], image: &Path) -> bool {
    // The kernel adds one newline; all others are the path's own.
    let text = text.strip_suffix(b"\n").unwrap_or(text);
    text == image.as_os_str().as_bytes()
        || text.strip_suffix(b" (deleted)") == Some(image.as_os_str().as_bytes())
}

/// Detaches every loop device of an image, and waits until the kernel has released it.
///
/// # Errors
/// Where one stays in use (mounted, for example), or losetup fails.
pub fn detach_image(kernel: &Kernel, image: &Path, log: &mut dyn FnMut(CommandRecord)) -> Result<(), Error> {
    for device in attached(kernel, image)? {
        // losetup succeeds on a device in use, and the kernel detaches it when its last user goes. That must
        // not happen while it is mounted.
        kernel.check_unmounted(&device)?;
        let ended =
            Argv::new("losetup").arg("--detach").arg(&device).env("LC_ALL", "C").to_the_end().expect(log);
        let begun = std::time::Instant::now();
        while attached(kernel, image)?.contains(&device) {
            if begun.elapsed() > GOING {
                ended?;
                let why = "losetup detached it, but something still uses it".into();
                return Err(Error::Unfit { what: device, why });
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        renew(kernel, &device);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backing_file_is_told_by_its_whole_path() {
        let image = Path::new("/tmp/a b\nc");
        assert!(names(b"/tmp/a b\nc\n", image));
        assert!(names(b"/tmp/a b\nc (deleted)\n", image));
        assert!(!names(b"/tmp/a b\ncd\n", image));
        assert!(!names(b"/tmp/a b\n", image));
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
        // What cannot be read may carry it.
        std::fs::create_dir_all(dir.path().join("sys/block/loop7/loop/backing_file")).unwrap();
        assert!(attached(&Kernel::at(dir.path()), Path::new("/x/1")).is_err());
        assert!(
            detach_image(&Kernel::at(dir.path().join("hidden")), Path::new("/x/9"), &mut |_| {}).is_err()
        );
    }
}
