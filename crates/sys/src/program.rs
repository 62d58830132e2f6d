//! Looking for programs.

use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Looks for a program as execvp(3) does, in the directories of `PATH`.
pub fn find(path: &OsStr, program: &str) -> Option<PathBuf> {
    std::env::split_paths(path).map(|dir| dir.join(program)).find(|file| executable(file))
}

fn executable(file: &Path) -> bool {
    file.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_executable_files_are_programs() {
        let file = std::env::temp_dir().join(format!("fsarena-program-{}", std::process::id()));
        std::fs::write(&file, "").unwrap();
        let look = || find(std::env::temp_dir().as_os_str(), file.file_name()?.to_str()?);
        assert_eq!(look(), None);
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(look(), Some(file.clone()));
        std::fs::remove_file(&file).unwrap();
    }
}
