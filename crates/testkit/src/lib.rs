//! Tests that a machine cannot run say what they lack, so that a skip is counted and named and never silent.
//!
//! `make test` names a file in `FSARENA_SKIPS`; each skip appends a line to it. `.ci/run` fails if a test skipped for want
//! of something that the machine has.

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
    let usual = ["/usr/local/sbin", "/usr/sbin", "/sbin"].map(std::path::PathBuf::from);
    let found = std::env::split_paths(&path).chain(usual).any(|dir| dir.join(name).is_file());
    if !found {
        skipped(&format!("program {name}"));
    }
    found
}
