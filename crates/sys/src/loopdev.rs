//! Loop devices, attached and detached with losetup(8).

use crate::argv::Argv;
use crate::kernel::Kernel;
use crate::undo::{Armed, Journal, Undo};
use crate::{Error, argv};
use fsarena_core::event::CommandRecord;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How often attaching is tried: another process may take the same free device first.
const TRIES: u32 = 20;
/// How long the kernel may take to let go of a detached device.
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
    // Dropped in this order: attributes are put back while the device is still attached.
    attributes: Vec<Armed>,
    attached: Option<Armed>,
}

/// Attaches an image to a free loop device.
///
/// # Errors
/// Where losetup fails, or what it attached is not the image.
pub fn attach(
    journal: &Journal,
    image: &Path,
    opts: LoopOptions,
    log: &mut dyn FnMut(CommandRecord),
) -> Result<LoopDevice, Error> {
    let kernel = Kernel::host();
    let image = image.canonicalize().map_err(Error::io("looking for", image))?;
    let attached = journal.arm(Undo::Detach { image: image.clone() })?;
    let path = losetup(&image, opts, log)?;
    let mut device = LoopDevice { path, image, attributes: vec![], attached: Some(attached) };
    if !self::attached(&kernel, &device.image).contains(&device.path) {
        return Err(Error::NotOurs {
            path: device.path.clone(),
            why: format!("losetup named it for {:?}, but it carries something else", device.image),
        });
    }
    device.set_discard(journal, opts.discard)?;
    Ok(device)
}

fn losetup(image: &Path, opts: LoopOptions, log: &mut dyn FnMut(CommandRecord)) -> Result<PathBuf, Error> {
    let direct = if opts.direct_io { "--direct-io=on" } else { "--direct-io=off" };
    let argv =
        Argv::new("losetup").args(["--find", "--show", direct]).arg(image).env("LC_ALL", "C").to_the_end();
    for _ in 1..TRIES {
        match argv.expect(log) {
            Err(argv::Error::Failed { said, .. })
                if said.contains("busy") || said.contains("temporarily") =>
            {
                std::thread::sleep(Duration::from_millis(20));
            }
            finished => return Ok(PathBuf::from(finished?.stdout.trim())),
        }
    }
    Ok(PathBuf::from(argv.expect(log)?.stdout.trim()))
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

    /// Whether it really bypasses the page cache below: not every filesystem lets it.
    pub fn direct_io(&self) -> bool {
        Kernel::host().fact(&self.attribute("loop/dio")).as_deref() == Some("1")
    }

    /// Detaches it.
    ///
    /// # Errors
    /// Where it is still in use, or losetup fails; it then stays in the journal.
    pub fn detach(mut self, log: &mut dyn FnMut(CommandRecord)) -> Result<(), Error> {
        for attribute in self.attributes.drain(..) {
            attribute.undo()?;
        }
        detach_image(&Kernel::host(), &self.image, log)?;
        self.attached.take().map_or(Ok(()), Armed::forget)
    }

    fn attribute(&self, name: &str) -> String {
        let device = self.path.file_name().unwrap_or_default().to_string_lossy();
        format!("sys/class/block/{device}/{name}")
    }

    /// Offers or withholds discard. The limit outlives the image, so it is put back at the end.
    fn set_discard(&mut self, journal: &Journal, offered: bool) -> Result<(), Error> {
        let kernel = Kernel::host();
        let path = kernel.path(&self.attribute("queue/discard_max_bytes"));
        let Some(now) = kernel.fact(&self.attribute("queue/discard_max_bytes")) else { return Ok(()) };
        let most = kernel.fact(&self.attribute("queue/discard_max_hw_bytes")).unwrap_or_else(|| now.clone());
        let wanted = if offered { most } else { "0".to_string() };
        if now != wanted {
            self.attributes.push(journal.arm(Undo::RestoreAttr { path: path.clone(), value: now })?);
            std::fs::write(&path, wanted).map_err(Error::io("writing", &path))?;
        }
        Ok(())
    }
}

/// The loop devices that carry an image, which may be deleted already.
pub fn attached(kernel: &Kernel, image: &Path) -> Vec<PathBuf> {
    let image = image.canonicalize().unwrap_or_else(|_| image.to_path_buf());
    let Ok(entries) = std::fs::read_dir(kernel.path("sys/block")) else { return vec![] };
    let carries = |name: &String| {
        let file = kernel.path(&format!("sys/block/{name}/loop/backing_file"));
        std::fs::read(file).is_ok_and(|text| names(&text, &image))
    };
    let loops = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
    loops
        .filter(|name| name.starts_with("loop"))
        .filter(carries)
        .map(|name| Path::new("/dev").join(name))
        .collect()
}

/// Whether the kernel's text of a backing file names this image.
fn names(text: &[u8], image: &Path) -> bool {
    // The kernel adds one newline; all others are the path's own.
    let text = text.strip_suffix(b"\n").unwrap_or(text);
    text == image.as_os_str().as_bytes()
        || text.strip_suffix(b" (deleted)") == Some(image.as_os_str().as_bytes())
}

/// Detaches every loop device of an image, and waits until the kernel has let go.
///
/// # Errors
/// Where one stays in use (mounted, for example), or losetup fails.
pub fn detach_image(kernel: &Kernel, image: &Path, log: &mut dyn FnMut(CommandRecord)) -> Result<(), Error> {
    let image = image.canonicalize().unwrap_or_else(|_| image.to_path_buf());
    for device in attached(kernel, &image) {
        // On a device in use losetup succeeds, and the kernel detaches it when its last user goes:
        // what must not happen while something is mounted from it.
        let users = kernel.mounts()?;
        if let Some(mount) = users.iter().find(|mount| Path::new(&mount.source) == device) {
            return Err(Error::NotOurs { path: device, why: format!("it is mounted at {:?}", mount.target) });
        }
        let ended =
            Argv::new("losetup").arg("--detach").arg(&device).env("LC_ALL", "C").to_the_end().expect(log);
        let begun = std::time::Instant::now();
        while attached(kernel, &image).contains(&device) {
            if begun.elapsed() > GOING {
                ended?;
                return Err(Error::NotOurs {
                    path: device,
                    why: "losetup detached it, but something still uses it".into(),
                });
            }
            std::thread::sleep(Duration::from_millis(5));
        }
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
    fn loops_of_an_image_are_found() {
        let dir = tempfile::tempdir().unwrap();
        for (name, file) in
            [("loop0", "/x/1\n"), ("loop1", "/x/2\n"), ("loop12", "/x/1\n"), ("sda", "/x/1\n")]
        {
            let at = dir.path().join("sys/block").join(name).join("loop");
            std::fs::create_dir_all(&at).unwrap();
            std::fs::write(at.join("backing_file"), file).unwrap();
        }
        let mut found = attached(&Kernel::at(dir.path()), Path::new("/x/1"));
        found.sort();
        assert_eq!(found, [Path::new("/dev/loop0"), Path::new("/dev/loop12")]);
    }
}
