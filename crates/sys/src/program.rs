//! Looking for programs.

use std::path::{Path, PathBuf};
use std::{ffi::OsStr, os::unix::fs::PermissionsExt};

/// Looks for a program as execvp(3) does, in the directories of `PATH`, and then where Debian keeps PostgreSQL.
pub fn find(program: &str) -> Option<PathBuf> {
    together(&[program]).map(|dir| dir.join(program))
}

/// The first of the same directories that has all of these programs.
pub fn together(programs: &[&str]) -> Option<PathBuf> {
    having(&std::env::var_os("PATH").unwrap_or_default(), programs)
}

fn having(path: &OsStr, programs: &[&str]) -> Option<PathBuf> {
    let has_all = |dir: &PathBuf| programs.iter().all(|program| executable(&dir.join(program)));
    directories(path, Path::new(POSTGRES)).find(has_all)
}

/// Debian's programs of PostgreSQL are in a directory below for each version, not in `PATH`.
const POSTGRES: &str = "/usr/lib/postgresql";

/// The directories of `PATH`, and `bin` of each version, the newest first.
fn directories(path: &OsStr, versions: &Path) -> impl Iterator<Item = PathBuf> {
    let number = |dir: &Path| dir.file_name()?.to_str()?.parse::<u32>().ok();
    let entries = std::fs::read_dir(versions).into_iter().flatten().flatten();
    let mut found: Vec<_> =
        entries.filter_map(|entry| Some((number(&entry.path())?, entry.path()))).collect();
    found.sort_unstable_by_key(|(version, _)| std::cmp::Reverse(*version));
    let versions = found.into_iter().map(|(_, dir)| dir.join("bin"));
    std::env::split_paths(path).collect::<Vec<_>>().into_iter().chain(versions)
}

fn executable(file: &Path) -> bool {
    file.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_comes_before_the_newest_version() {
        let root = std::env::temp_dir().join(format!("fsarena-versions-{}", std::process::id()));
        for version in ["9", "15", "main"] {
            std::fs::create_dir_all(root.join(version)).unwrap();
        }
        let found: Vec<PathBuf> = directories(OsStr::new("/a:/b"), &root).collect();
        let of = |version: &str| root.join(version).join("bin");
        assert_eq!(found, [PathBuf::from("/a"), PathBuf::from("/b"), of("15"), of("9")]);
        std::fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn only_executable_files_are_programs() {
        let file = std::env::temp_dir().join(format!("fsarena-program-{}", std::process::id()));
        std::fs::write(&file, "").unwrap();
        let name = file.file_name().unwrap().to_str().unwrap();
        let look = || having(std::env::temp_dir().as_os_str(), &[name]).map(|dir| dir.join(name));
        assert_eq!(look(), None);
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(look(), Some(file.clone()));
        std::fs::remove_file(&file).unwrap();
    }
}
