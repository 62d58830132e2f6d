//! Loop devices as disks, with stable names as udev would make them.

use fsarena_sys::kernel::SysRoot;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

const BY_ID: &str = "/dev/disk/by-id";

/// Runs a command that must succeed, and returns its standard output.
#[track_caller]
pub fn run(program: &str, args: &[&str]) -> String {
    let output = Command::new(program).args(args).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{program} {args:?}: {stderr}");
    String::from_utf8(output.stdout).unwrap().trim().into()
}

/// A path as text.
pub fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// A loop device that fsarena did not make, of an image full of zeros. Detached when dropped.
pub struct LoopDisk {
    pub image: PathBuf,
    pub path: PathBuf,
    by_id: ByIdLink,
    temp: tempfile::TempDir,
}

impl LoopDisk {
    pub fn new(mib: u64) -> LoopDisk {
        let temp = tempfile::Builder::new().prefix("fsarena-disk-").tempdir().unwrap();
        let image = temp.path().canonicalize().unwrap().join("disk");
        std::fs::File::create(&image).unwrap().set_len(mib << 20).unwrap();
        // losetup fails if another test takes the free device that it has found.
        let attach = || run("losetup", &["--find", "--show", text(&image)]);
        let path = PathBuf::from((0..50).find_map(|_| std::panic::catch_unwind(attach).ok()).unwrap());
        LoopDisk { by_id: ByIdLink::make(&path), image, path, temp }
    }

    /// Its stable name in `/dev/disk/by-id`.
    pub fn id(&self) -> &str {
        text(&self.by_id.0)
    }

    /// Makes a directory beside its image.
    pub fn dir(&self, name: &str) -> PathBuf {
        let dir = self.temp.path().join(name);
        std::fs::create_dir_all(&dir).unwrap();
        dir
    }

    /// All its bytes, as written through its name: those on the device, and those still in the page cache.
    pub fn bytes(&self) -> Vec<u8> {
        std::fs::read(&self.path).unwrap()
    }

    /// The types that wipefs finds on it.
    pub fn signatures(&self) -> String {
        run("wipefs", &["--no-act", "--noheadings", "--output", "TYPE", text(&self.path)])
    }
}

impl Drop for LoopDisk {
    fn drop(&mut self) {
        let attached = fsarena_sys::loopdev::devices_of_image(&SysRoot::host(), &self.image).unwrap();
        for device in attached {
            let _ = Command::new("losetup").arg("--detach").arg(device).status();
        }
    }
}

/// A link in `/dev/disk/by-id`. Removed when dropped.
pub struct ByIdLink(pub PathBuf);

impl ByIdLink {
    pub fn make(target: &Path) -> ByIdLink {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = Path::new(BY_ID).join(format!("fsarena-test-{}-cli-{number}", std::process::id()));
        // The tests make this directory if it is missing, and removing its last name removes it.
        for _ in 0..1000 {
            let _ = std::fs::create_dir_all(BY_ID);
            match std::os::unix::fs::symlink(target, &path) {
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                result => {
                    result.unwrap();
                    return ByIdLink(path);
                }
            }
        }
        panic!("{path:?} cannot be made");
    }
}

impl Drop for ByIdLink {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
        // This fails while the directory has other links.
        let _ = std::fs::remove_dir(BY_ID).and_then(|()| std::fs::remove_dir("/dev/disk"));
    }
}

/// A device that is mounted or used as swap until this value is dropped.
pub struct InUse {
    /// The program that ends the use, and its argument.
    undo: [String; 2],
}

impl InUse {
    /// Mounts a device read-only.
    pub fn mount(device: &str, dir: &Path) -> InUse {
        run("mount", &["-o", "ro", device, text(dir)]);
        InUse { undo: ["umount".into(), text(dir).into()] }
    }

    /// Uses a device as swap.
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
