//! Finds programs in `PATH`, and checks that a user can execute them.

use crate::{argv::Error, fetched_program, process_output::in_words, user::User};
use rustix::fs::{Access, AtFlags, CWD, StatVfsMountFlags};
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::{ffi::OsStr, fs::File, os::unix::fs::PermissionsExt};

/// The kernel looks for the interpreter of a script in this many bytes at its beginning.
const FIRST_LINE_BYTES: u64 = 256;

/// The kernel follows at most this many interpreters that are scripts themselves.
const MAX_INTERPRETERS: u32 = 4;

/// The path of a program: from the directories of `PATH`, else from those where Debian keeps PostgreSQL, else from what
/// fsarena fetched.
pub fn find(program: &str) -> Option<PathBuf> {
    let installed = dir_with_all(&[program]).map(|dir| dir.join(program));
    installed.or_else(|| fetched_program::find(program))
}

/// The first of these directories that has all of several programs.
pub fn dir_with_all(programs: &[&str]) -> Option<PathBuf> {
    first_with_all(&std::env::var_os("PATH").unwrap_or_default(), programs)
}

/// The first directory of `path`, a value of `PATH`, or of PostgreSQL that has all programs.
fn first_with_all(path: &OsStr, programs: &[&str]) -> Option<PathBuf> {
    let has_all = |dir: &PathBuf| programs.iter().all(|program| executable(&dir.join(program)));
    directories(path, Path::new(POSTGRES)).find(has_all)
}

/// Debian keeps the programs of PostgreSQL outside `PATH`, in `bin` of one directory here for each version.
const POSTGRES: &str = "/usr/lib/postgresql";

/// The directories of a value of `PATH`, then `bin` of each numbered directory below `versions`, the highest first.
fn directories(path: &OsStr, versions: &Path) -> impl Iterator<Item = PathBuf> {
    let number = |dir: &Path| dir.file_name()?.to_str()?.parse::<u32>().ok();
    let entries = std::fs::read_dir(versions).into_iter().flatten().flatten();
    let mut found: Vec<_> =
        entries.filter_map(|entry| Some((number(&entry.path())?, entry.path()))).collect();
    found.sort_unstable_by_key(|(version, _)| std::cmp::Reverse(*version));
    let versions = found.into_iter().map(|(_, dir)| dir.join("bin"));
    std::env::split_paths(path).collect::<Vec<_>>().into_iter().chain(versions)
}

/// Checks that a user can execute a program, given as a path with a slash or as a name in the directories of `PATH`.
///
/// # Errors
/// [`Error::NotFound`] for a name that no directory has, and [`Error::Unusable`] with the file and the reason.
pub fn check(program: &str, user: &User) -> Result<(), Error> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    // If this thread cannot take the identity of the user, nothing is checked: starting the command then reports it.
    user.run_as(|| check_as_this_thread(program, &path, &user.name)).unwrap_or(Ok(()))
}

/// Does the work of [`check`], with the identity of this thread; `user` is its name.
fn check_as_this_thread(program: &str, path: &OsStr, user: &str) -> Result<(), Error> {
    let unusable = |file: &Path, why| Error::Unusable { program: file.display().to_string(), why };
    if program.contains('/') {
        let file = Path::new(program);
        return check_file(file, user, MAX_INTERPRETERS).map_err(|why| unusable(file, why));
    }
    // Like execvp(3), continues after a file that may not be executed; the error names the first such file.
    let mut first = None;
    for file in std::env::split_paths(path).map(|dir| dir.join(program)) {
        match check_file(&file, user, MAX_INTERPRETERS) {
            Ok(()) => return Ok(()),
            Err(why) if file.is_file() && first.is_none() => first = Some(unusable(&file, why)),
            Err(_) => {}
        }
    }
    Err(first.unwrap_or_else(|| Error::NotFound { program: program.into() }))
}

/// Checks that this thread, whose user has this name, can execute a file. The error is the reason.
fn check_file(file: &Path, user: &str, interpreters: u32) -> Result<(), String> {
    let meta = file.metadata().map_err(|error| match error.kind() {
        ErrorKind::PermissionDenied => format!("user {user} may not enter its directory"),
        _ => in_words(&error),
    })?;
    if !meta.is_file() {
        return Err("it is not a file".into());
    }
    if let Err(error) = rustix::fs::accessat(CWD, file, Access::EXEC_OK, AtFlags::empty()) {
        let noexec = rustix::fs::statvfs(file).is_ok_and(|fs| fs.f_flag.contains(StatVfsMountFlags::NOEXEC));
        return Err(match error {
            rustix::io::Errno::ACCESS if noexec => "its filesystem is mounted with noexec".into(),
            rustix::io::Errno::ACCESS => {
                format!("user {user} has no permission to (`chmod +x {}`)", file.display())
            }
            error => in_words(&error.into()),
        });
    }
    // A file that may be executed but not read: its interpreter cannot be checked.
    let Ok(head) = head(file) else { return Ok(()) };
    // execvp(3) runs a text file without `#!` with a shell.
    let Some(line) = head.strip_prefix(b"#!") else { return Ok(()) };
    let line = line.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let line = String::from_utf8_lossy(line);
    let interpreter = line.split_whitespace().next().ok_or("its first line names no interpreter")?;
    let fault = |why| format!("its first line names {interpreter}: {why}");
    match interpreters {
        0 => Ok(()),
        left => check_file(Path::new(interpreter), user, left - 1).map_err(fault),
    }
}

/// The beginning of a file, in which `#!` and the interpreter are.
fn head(file: &Path) -> io::Result<Vec<u8>> {
    let mut head = vec![];
    File::open(file)?.take(FIRST_LINE_BYTES).read_to_end(&mut head)?;
    Ok(head)
}

/// Whether a file is executable by somebody.
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
    fn what_a_user_cannot_execute_is_named_with_the_reason() {
        let dir = tempfile::tempdir().unwrap();
        let open = |path: &Path, mode| {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
        };
        open(dir.path(), 0o755);
        let make = |name: &str, text: &str, mode| {
            std::fs::write(dir.path().join(name), text).unwrap();
            open(&dir.path().join(name), mode);
        };
        make("script", "#! /bin/sh -e\ntrue\n", 0o755);
        make("orphan", "#!/no/python\n", 0o755);
        make("nameless", "#!\ntrue\n", 0o755);
        make("text", "true\n", 0o755);
        make("empty", "", 0o755);
        make("plain", "#!/bin/sh\n", 0o644);
        make("mine", "#!/bin/sh\n", 0o700);
        std::fs::create_dir(dir.path().join("closed")).unwrap();
        make("closed/script", "#!/bin/sh\n", 0o755);
        open(&dir.path().join("closed"), 0o700);
        let own = User::of_process();
        let nobody = User { name: "nobody".into(), uid: 65534, gid: 65534, groups: vec![65534], home: None };
        let said = |name: &str, user: &User| {
            check(dir.path().join(name).to_str().unwrap(), user).err().map(|error| error.to_string())
        };
        for name in ["script", "text", "empty", "mine", "closed/script"] {
            assert_eq!(said(name, &own), None, "{name}");
        }
        for (name, why) in [
            ("gone", "No such file or directory"),
            ("closed", "it is not a file"),
            ("plain", "has no permission to (`chmod +x "),
            ("orphan", "its first line names /no/python: No such file or directory"),
            ("nameless", "its first line names no interpreter"),
        ] {
            let said = said(name, &own).unwrap();
            let path = dir.path().join(name);
            assert!(said.starts_with(&format!("{} cannot be executed: ", path.display())), "{said}");
            assert!(said.contains(why), "{said}");
        }
        let path = |name: &str| {
            check_as_this_thread(name, dir.path().as_os_str(), "me").err().map(|error| error.to_string())
        };
        assert_eq!(path("script"), None);
        assert!(path("plain").unwrap().contains("/plain cannot be executed: user me has no permission"));
        assert_eq!(path("gone").unwrap(), "gone is not installed");
        if !fsarena_testkit::root() {
            return;
        }
        assert_eq!(said("script", &nobody), None);
        assert!(said("mine", &nobody).unwrap().contains("user nobody has no permission to"));
        assert!(said("closed/script", &nobody).unwrap().contains("user nobody may not enter its directory"));
        assert_eq!(said("mine", &own), None, "this process is what it was");
    }

    #[test]
    fn only_executable_files_are_programs() {
        let file = std::env::temp_dir().join(format!("fsarena-program-{}", std::process::id()));
        std::fs::write(&file, "").unwrap();
        let name = file.file_name().unwrap().to_str().unwrap();
        let look = || first_with_all(std::env::temp_dir().as_os_str(), &[name]).map(|dir| dir.join(name));
        assert_eq!(look(), None);
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(look(), Some(file.clone()));
        std::fs::remove_file(&file).unwrap();
    }
}
