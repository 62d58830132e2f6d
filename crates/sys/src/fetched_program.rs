//! Programs that fsarena fetched as packages with all their libraries, and did not install. The loader of the package's C
//! library starts them, so that a program of a newer distribution runs on this one.

use crate::dirs;
use std::ffi::{OsStr, OsString};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The directory in a cache with a directory for each package of programs.
pub const DIR: &str = "tools";
/// Where packages keep their programs.
const PROGRAM_DIRS: [&str; 4] = ["usr/sbin", "usr/bin", "sbin", "bin"];
/// Where Debian's packages for this architecture keep their libraries.
const LIBRARY_DIRS: [&str; 2] = ["usr/lib/x86_64-linux-gnu", "lib/x86_64-linux-gnu"];
const LOADER: &str = "ld-linux-x86-64.so.2";

/// The file of a fetched program.
pub fn find(program: &str) -> Option<PathBuf> {
    packages().iter().find_map(|package| find_in(package, Path::new(program)))
}

/// The words that start a fetched program: its loader, the directories of its libraries, its file. None if it is installed
/// or was not fetched.
pub fn start_words(program: &OsStr) -> Option<Vec<OsString>> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    if std::env::split_paths(&path).any(|dir| dir.join(program).is_file()) {
        return None;
    }
    packages().iter().find_map(|package| start_words_in(package, Path::new(program)))
}

/// Whether this is the path of a fetched program.
pub fn has(path: &Path) -> bool {
    packages().iter().any(|package| path.starts_with(package))
}

/// The directories of packages in the caches of this user and of root.
fn packages() -> Vec<PathBuf> {
    let mut packages = vec![];
    for cache in [dirs::cache_dir(), dirs::SHARED_CACHE.into()] {
        let tools = cache.join(DIR);
        // What others can write is not started.
        let is_safe = tools.metadata().is_ok_and(|meta| {
            let owner = meta.uid();
            (owner == 0 || owner == rustix::process::geteuid().as_raw()) && meta.mode() & 0o022 == 0
        });
        if is_safe {
            let entries = std::fs::read_dir(&tools).into_iter().flatten().flatten();
            packages.extend(entries.map(|entry| entry.path()));
        }
    }
    packages
}

fn find_in(package: &Path, program: &Path) -> Option<PathBuf> {
    if program.components().count() != 1 {
        return None;
    }
    PROGRAM_DIRS.iter().map(|dir| package.join(dir).join(program)).find(|path| path.is_file())
}

fn start_words_in(package: &Path, program: &Path) -> Option<Vec<OsString>> {
    let file = find_in(package, program)?;
    let libraries = LIBRARY_DIRS.map(|dir| package.join(dir));
    let loader = libraries.iter().map(|dir| dir.join(LOADER)).find(|path| path.is_file())?;
    let path = std::env::join_paths(libraries).ok()?;
    Some(vec![loader.into(), "--library-path".into(), path, file.into()])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(path: &Path) {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, "").unwrap();
    }

    #[test]
    fn a_fetched_program_is_started_by_the_loader_of_its_libraries() {
        let dir = tempfile::tempdir().unwrap();
        let package = dir.path().join("tools");
        write(&package.join("usr/sbin/mkfs.bcachefs"));
        assert_eq!(start_words_in(&package, Path::new("mkfs.bcachefs")), None);
        write(&package.join(LIBRARY_DIRS[0]).join(LOADER));
        let words = start_words_in(&package, Path::new("mkfs.bcachefs")).unwrap();
        let ends = [LOADER, "--library-path", LIBRARY_DIRS[1], "usr/sbin/mkfs.bcachefs"];
        assert!(
            words.len() == 4
                && words.iter().zip(ends).all(|(word, end)| word.to_str().unwrap().ends_with(end))
        );
        assert_eq!(start_words_in(&package, Path::new("mkfs.xfs")), None);
        assert_eq!(start_words_in(&package, Path::new("/usr/sbin/mkfs.bcachefs")), None);
    }
}
