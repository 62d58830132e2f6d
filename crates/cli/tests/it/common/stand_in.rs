//! Loop devices that stand for disks, with stable names as udev would make them.

use fsarena_sys::kernel::SysRoot;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

const BY_ID: &str = "/dev/disk/by-id";

/// Runs a command that has to succeed, and gives what it printed.
#[track_caller]
pub fn run(program: &str, args: &[&str]) -> String {
    let output = Command::new(program).args(args).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{program} {args:?}: {said}");
    String::from_utf8(output.stdout).unwrap().trim().into()
}

/// Path as text.
pub fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// A loop device that fsarena did not make, of an empty file.
pub struct Disk {
    pub image: PathBuf,
    pub path: PathBuf,
    name: Name,
    temp: tempfile::TempDir,
}

impl Disk {
    pub fn new(mib: u64) -> Disk {
        let temp = tempfile::Builder::new().prefix("fsarena-disk-").tempdir().unwrap();
        let image = temp.path().canonicalize().unwrap().join("disk");
        std::fs::File::create(&image).unwrap().set_len(mib << 20).unwrap();
        // Between finding a free device and taking it another test may have taken it.
        let attach = || run("losetup", &["--find", "--show", text(&image)]);
        let path = PathBuf::from((0..50).find_map(|_| std::panic::catch_unwind(attach).ok()).unwrap());
        Disk { name: Name::of(&path), image, path, temp }
    }

    /// Its stable name.
    pub fn id(&self) -> &str {
        text(&self.name.0)
    }

    /// A directory beside its image.
    pub fn dir(&self, name: &str) -> PathBuf {
        let dir = self.temp.path().join(name);
        std::fs::create_dir_all(&dir).unwrap();
        dir
    }

    /// All its bytes. Whatever was written by its name is seen, on the device or still in its cache.
    pub fn bytes(&self) -> Vec<u8> {
        std::fs::read(&self.path).unwrap()
    }

    /// The types that wipefs finds on it.
    pub fn signatures(&self) -> String {
        run("wipefs", &["--no-act", "--noheadings", "--output", "TYPE", text(&self.path)])
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let attached = fsarena_sys::loopdev::devices_of_image(&SysRoot::host(), &self.image).unwrap();
        for device in attached {
            let _ = Command::new("losetup").arg("--detach").arg(device).status();
        }
    }
}

/// A link in `/dev/disk/by-id`.
pub struct Name(pub PathBuf);

impl Name {
    pub fn of(target: &Path) -> Name {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = Path::new(BY_ID).join(format!("fsarena-test-{}-cli-{number}", std::process::id()));
        // The tests make this directory if it is missing, and removing its last name removes it.
        for _ in 0..1000 {
            let _ = std::fs::create_dir_all(BY_ID);
            match std::os::unix::fs::symlink(target, &path) {
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                made => {
                    made.unwrap();
                    return Name(path);
                }
            }
        }
        panic!("{path:?} cannot be made");
    }
}

impl Drop for Name {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
        // Fails while there is any other name in it.
        let _ = std::fs::remove_dir(BY_ID).and_then(|()| std::fs::remove_dir("/dev/disk"));
    }
}

/// Something that is mounted or swapped on for as long as this lives.
pub struct InUse {
    undo: [String; 2],
}

impl InUse {
    pub fn mounted(device: &str, at: &Path) -> InUse {
        run("mount", &["-o", "ro", device, text(at)]);
        InUse { undo: ["umount".into(), text(at).into()] }
    }

    pub fn swap(device: &Path) -> InUse {
        run("swapon", &[text(device)]);
        InUse { undo: ["swapoff".into(), text(device).into()] }
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        let _ = Command::new(&self.undo[0]).arg(&self.undo[1]).status();
    }
}
