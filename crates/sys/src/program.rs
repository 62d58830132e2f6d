//! Looking for programs.

use crate::{argv::Error, said::in_words, user::User};
use rustix::fs::{Access, AtFlags, CWD, StatVfsMountFlags};
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::{ffi::OsStr, fs::File, os::unix::fs::PermissionsExt};

/// The bytes at the beginning of a script in which the kernel looks for its interpreter.
const FIRST_LINE: u64 = 256;
/// How many interpreters of interpreters the kernel follows.
const INTERPRETERS: u32 = 4;

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

/// Checks that a user can execute a program: a path where it holds a slash, else a name in the directories of `PATH`.
///
/// # Errors
/// [`Error::NotFound`] for a name that no directory has, and [`Error::Unusable`] with the file and the reason.
pub fn check(program: &str, user: &User) -> Result<(), Error> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    // Where the identity cannot be had, nothing is known: the command will say it.
    user.lend(|| look(program, &path, &user.name)).unwrap_or(Ok(()))
}

/// [`check`] with the identity of this thread, which is that of the user of this name.
fn look(program: &str, path: &OsStr, user: &str) -> Result<(), Error> {
    let unusable = |file: &Path, why| Error::Unusable { program: file.display().to_string(), why };
    if program.contains('/') {
        let file = Path::new(program);
        return usable(file, user, INTERPRETERS).map_err(|why| unusable(file, why));
    }
    // As execvp(3) does, which goes on after a file that may not be executed.
    let mut first = None;
    for file in std::env::split_paths(path).map(|dir| dir.join(program)) {
        match usable(&file, user, INTERPRETERS) {
            Ok(()) => return Ok(()),
            Err(why) if file.is_file() => drop(first.get_or_insert_with(|| unusable(&file, why))),
            Err(_) => {}
        }
    }
    Err(first.unwrap_or_else(|| Error::NotFound { program: program.into() }))
}

/// Why this thread, whose user has this name, cannot execute a file.
fn usable(file: &Path, user: &str, interpreters: u32) -> Result<(), String> {
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
    // What may be executed and not read tells nothing more.
    let Ok(head) = head(file) else { return Ok(()) };
    // execvp(3) gives a text without an interpreter to a shell.
    let Some(line) = head.strip_prefix(b"#!") else { return Ok(()) };
    let line = line.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let line = String::from_utf8_lossy(line);
    let interpreter = line.split_whitespace().next().ok_or("its first line names no interpreter")?;
    let fault = |why| format!("its first line names {interpreter}: {why}");
    match interpreters {
        0 => Ok(()),
        left => usable(Path::new(interpreter), user, left - 1).map_err(fault),
    }
}

/// The first bytes of a file.
fn head(file: &Path) -> io::Result<Vec<u8>> {
    let mut head = vec![];
    File::open(file)?.take(FIRST_LINE).read_to_end(&mut head)?;
    Ok(head)
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
        let path = |name: &str| look(name, dir.path().as_os_str(), "me").err().map(|error| error.to_string());
        assert_eq!(path("script"), None);
        assert!(path("plain").unwrap().contains("/plain cannot be executed: user me has no permission"));
        assert_eq!(path("gone").unwrap(), "gone is not installed");
        if !fsarena_skip::root() {
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
        let look = || having(std::env::temp_dir().as_os_str(), &[name]).map(|dir| dir.join(name));
        assert_eq!(look(), None);
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(look(), Some(file.clone()));
        std::fs::remove_file(&file).unwrap();
    }
}
