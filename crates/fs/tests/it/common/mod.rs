//! Scratch devices for the tests on real loop devices.

use fsarena_fs::safety::ScratchDevice;
use fsarena_sys::loopdev::{self, LoopDevice, LoopOptions};
use fsarena_sys::{image, undo::Journal};
use std::path::{Path, PathBuf};

pub use fsarena_sys::testkit::runs_as_root;

/// A temporary directory with a blank and a newline in its name, and an undo journal.
pub struct TestDir {
    pub path: PathBuf,
    pub journal: Journal,
    // Removed last, when nothing is mounted in it any more.
    _temp_dir: tempfile::TempDir,
}

impl TestDir {
    pub fn new() -> TestDir {
        let temp_dir = tempfile::Builder::new().prefix("fsarena-test-").tempdir().unwrap();
        let path = temp_dir.path().canonicalize().unwrap().join("a dir\nwith \\ marks");
        std::fs::create_dir(&path).unwrap();
        let journal = Journal::create(&path.join("state"), "test").unwrap();
        TestDir { path, journal, _temp_dir: temp_dir }
    }

    /// Makes a scratch device: a loop device with a sparse image.
    pub fn make_scratch_device(&self, name: &str, mib: u64) -> ScratchDevice {
        let image = image::create(&self.journal, &self.path.join(name), mib << 20, false).unwrap();
        let device = self.attach(image.path(), true);
        ScratchDevice::from_loop(device, image).unwrap()
    }

    /// Attaches an image to a loop device.
    pub fn attach(&self, image: &Path, discard: bool) -> LoopDevice {
        let options = LoopOptions { direct_io: false, discard };
        loopdev::attach(&self.journal, image, options, &mut |_| {}).unwrap()
    }

    /// Makes a loop device with a sparse file that fsarena does not own; it stands in for a disk of the user.
    pub fn make_user_disk(&self, name: &str, mib: u64) -> LoopDevice {
        let path = self.path.join(name);
        std::fs::File::create(&path).unwrap().set_len(mib << 20).unwrap();
        self.attach(&path, true)
    }

    /// Makes a directory.
    pub fn make_dir(&self, name: &str) -> PathBuf {
        let path = self.path.join(name);
        std::fs::create_dir_all(&path).unwrap();
        path
    }
}

/// Runs a command that has to succeed.
pub fn run(program: &str, args: &[&str]) {
    let argv = fsarena_sys::argv::Argv::new(program).args(args);
    argv.run_checked(&mut |_| {}).unwrap_or_else(|error| panic!("{error}"));
}
