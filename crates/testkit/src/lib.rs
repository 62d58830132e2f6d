//! For tests alone: skips that are counted, and fake `/proc` and `/sys` directories.
//!
//! A test that this machine cannot run says what the machine lacks, so that a skip is never silent. `make test` names a file
//! in `FSARENA_SKIPS`; each skip appends a line to it. `.ci/run` fails if a test was skipped for lack of something that the
//! machine has.

use std::path::{Path, PathBuf};
use std::{fs::File, io::Write};

/// The environment variable that names the file of skips.
pub const FILE: &str = "FSARENA_SKIPS";

/// Notes that the running test is skipped because this machine lacks something: `root`, `program fio`, or any other
/// reason in words. `.ci/run` looks up the first two.
pub fn skipped(lacks: &str) {
    let test = std::thread::current().name().unwrap_or("a test").to_string();
    println!("skipped: {lacks}");
    let Some(path) = std::env::var_os(FILE) else { return };
    let file = File::options().append(true).create(true).open(&path);
    let written = file.and_then(|mut file| file.write_all(format!("{test}\t{lacks}\n").as_bytes()));
    written.unwrap_or_else(|error| panic!("{FILE} names {}: {error}", path.display()));
}

/// Whether this process is root; notes a skip if it is not.
pub fn root() -> bool {
    // The owner of this process's own entry in /proc is its effective user.
    let owner = std::fs::metadata("/proc/self").map(|meta| std::os::unix::fs::MetadataExt::uid(&meta));
    let root = owner.is_ok_and(|uid| uid == 0);
    if !root {
        skipped("root");
    }
    root
}

/// Whether a program is installed; notes a skip if it is not.
pub fn program(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let usual = ["/usr/local/sbin", "/usr/sbin", "/sbin"].map(PathBuf::from);
    let found = std::env::split_paths(&path).chain(usual).any(|dir| dir.join(name).is_file());
    if !found {
        skipped(&format!("program {name}"));
    }
    found
}

/// A directory with fake files of the kernel below `proc` and `sys`, removed when dropped. Readers of the kernel take its
/// [`path`](FakeRoot::path) as their root.
#[derive(Debug)]
pub struct FakeRoot(tempfile::TempDir);

impl FakeRoot {
    /// A root with these files, given as path and text: `("proc/swaps", "…")`.
    ///
    /// # Panics
    /// Where the directory for temporary files cannot be written.
    pub fn with(files: &[(&str, &str)]) -> FakeRoot {
        let root = FakeRoot(tempfile::tempdir().expect("a temporary directory"));
        for (rel, text) in files {
            root.file(rel, text);
        }
        root
    }

    /// The root directory.
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// Writes a file, and makes the directories above it.
    ///
    /// # Panics
    /// Where it cannot be written.
    pub fn file(&self, rel: &str, text: &str) {
        std::fs::write(self.below(rel), text).expect("a file of the fake root can be written");
    }

    /// Makes a directory, and those above it.
    ///
    /// # Panics
    /// Where it cannot be made.
    pub fn dir(&self, rel: &str) {
        std::fs::create_dir_all(self.path().join(rel)).expect("a directory of the fake root can be made");
    }

    /// Makes a symbolic link to `target`, and the directories above the link.
    ///
    /// # Panics
    /// Where it cannot be made.
    pub fn link(&self, rel: &str, target: impl AsRef<Path>) {
        std::os::unix::fs::symlink(target, self.below(rel)).expect("a link of the fake root can be made");
    }

    /// The path of an entry, whose directory exists then.
    fn below(&self, rel: &str) -> PathBuf {
        let path = self.path().join(rel);
        std::fs::create_dir_all(path.parent().unwrap_or(self.path())).expect("a directory can be made");
        path
    }
}
