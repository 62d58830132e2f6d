//! Scratch devices for the tests on real loop devices.

use fsarena_fs::safety::ScratchDevice;
use fsarena_sys::loopdev::{self, LoopDevice, LoopOptions};
use fsarena_sys::{image, undo::Journal};
use std::path::{Path, PathBuf};

pub use fsarena_sys::testkit::root;

/// A temporary directory with a blank and a newline in its name, and an undo journal.
pub struct Place {
    pub dir: PathBuf,
    pub journal: Journal,
    // Removed last, when nothing is mounted in it any more.
    _temp: tempfile::TempDir,
}

impl Place {
    pub fn new() -> Place {
        let temp = tempfile::Builder::new().prefix("fsarena-test-").tempdir().unwrap();
        let dir = temp.path().canonicalize().unwrap().join("a dir\nwith \\ marks");
        std::fs::create_dir(&dir).unwrap();
        let journal = Journal::create(&dir.join("state"), "test").unwrap();
        Place { dir, journal, _temp: temp }
    }

    /// Makes a scratch device: a loop device with a sparse image.
    pub fn scratch(&self, name: &str, mib: u64) -> ScratchDevice {
        let image = image::create(&self.journal, &self.dir.join(name), mib << 20, false).unwrap();
        let device = self.attach(image.path(), true);
        ScratchDevice::from_loop(device, image).unwrap()
    }

    pub fn attach(&self, image: &Path, discard: bool) -> LoopDevice {
        let opts = LoopOptions { direct_io: false, discard };
        loopdev::attach(&self.journal, image, opts, &mut |_| {}).unwrap()
    }

    /// Makes a loop device with a sparse file that fsarena does not own; it stands in for a disk of the user.
    pub fn foreign(&self, name: &str, mib: u64) -> LoopDevice {
        let path = self.dir.join(name);
        std::fs::File::create(&path).unwrap().set_len(mib << 20).unwrap();
        self.attach(&path, true)
    }

    pub fn mount_point(&self, name: &str) -> PathBuf {
        let path = self.dir.join(name);
        std::fs::create_dir_all(&path).unwrap();
        path
    }
}

/// Runs a command that has to succeed.
pub fn run(program: &str, args: &[&str]) {
    let argv = fsarena_sys::argv::Argv::new(program).args(args);
    argv.run_checked(&mut |_| {}).unwrap_or_else(|error| panic!("{error}"));
}
