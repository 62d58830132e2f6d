//! Helpers for tests: a record of skipped tests, and fake `/proc` and `/sys` directories.
//!
//! A test that this machine cannot run prints what the machine lacks, so that a skip is never silent. `make test` sets
//! `FSARENA_SKIPS` to the path of a file, and each skip appends a line to it. `.ci/run` fails if a test was skipped although
//! the machine has what the line names.

use std::path::{Path, PathBuf};
use std::{fs::File, io::Write};

/// The environment variable with the path of the file that records skips.
const SKIPS_VARIABLE: &str = "FSARENA_SKIPS";

/// Records that the running test is skipped because this machine lacks something: `root`, `program fio`, or something else in
/// words. `.ci/run` checks whether the machine really lacks root or the program.
///
/// # Panics
/// If the file of skips cannot be written.
pub fn record_skip(missing: &str) {
    let test = std::thread::current().name().unwrap_or("a test").to_string();
    println!("skipped: {missing}");
    let Some(path) = std::env::var_os(SKIPS_VARIABLE) else { return };
    let file = File::options().append(true).create(true).open(&path);
    let written = file.and_then(|mut file| file.write_all(format!("{test}\t{missing}\n").as_bytes()));
    written.unwrap_or_else(|error| panic!("{SKIPS_VARIABLE} names {}: {error}", path.display()));
}

/// Whether this process is root. Records a skip if it is not.
pub fn runs_as_root() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        record_skip("root");
    }
    is_root
}

/// Whether a program is installed. Records a skip if it is not.
pub fn has_program(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let admin_dirs = ["/usr/local/sbin", "/usr/sbin", "/sbin"].map(PathBuf::from);
    let is_installed = std::env::split_paths(&path).chain(admin_dirs).any(|dir| dir.join(name).is_file());
    if !is_installed {
        record_skip(&format!("program {name}"));
    }
    is_installed
}

/// A temporary directory with fake kernel files below `proc` and `sys`. Functions that read kernel files take its
/// [`path`](FakeRoot::path) as their root. Dropping it removes the directory.
#[derive(Debug)]
pub struct FakeRoot(tempfile::TempDir);

impl FakeRoot {
    /// Makes a root with these files, each as its path and text: `("proc/swaps", "…")`.
    ///
    /// # Panics
    /// If the directory or a file cannot be written.
    pub fn with(files: &[(&str, &str)]) -> FakeRoot {
        let root = FakeRoot(tempfile::tempdir().expect("a temporary directory"));
        for (relative_path, text) in files {
            root.write_file(relative_path, text);
        }
        root
    }

    /// The root directory.
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// Writes a file, and creates the directories above it.
    ///
    /// # Panics
    /// If the file cannot be written.
    pub fn write_file(&self, relative_path: &str, text: &str) {
        std::fs::write(self.create_parents(relative_path), text).expect("a file of the fake root can be written");
    }

    /// Creates a directory, and the directories above it.
    ///
    /// # Panics
    /// If the directory cannot be created.
    pub fn make_dir(&self, relative_path: &str) {
        std::fs::create_dir_all(self.path().join(relative_path)).expect("a directory of the fake root can be made");
    }

    /// Creates a symbolic link to `target`, and the directories above the link.
    ///
    /// # Panics
    /// If the link cannot be created.
    pub fn make_link(&self, relative_path: &str, target: impl AsRef<Path>) {
        std::os::unix::fs::symlink(target, self.create_parents(relative_path))
            .expect("a link of the fake root can be made");
    }

    /// Creates the directories above an entry, and returns the path of the entry.
    fn create_parents(&self, relative_path: &str) -> PathBuf {
        let path = self.path().join(relative_path);
        std::fs::create_dir_all(path.parent().unwrap_or(self.path())).expect("a directory can be made");
        path
    }
}
