//! Finds programs in `PATH`, and checks that a user can execute them.
//!
//! fsarena can fetch programs as packages with all their libraries, without installing them. The dynamic loader of the package
//! starts them, so that a program of a newer distribution runs on this one.

use crate::error::CommandError;
use crate::{dirs, process_output::text_without_errno, user::User};
use rustix::fs::{Access, AtFlags, CWD, StatVfsMountFlags};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// The number of bytes at the beginning of a script in which the kernel looks for the interpreter.
const FIRST_LINE_BYTES: u64 = 256;

/// The number of nested interpreters (scripts whose interpreter is a script) that the kernel follows at most.
const MAX_INTERPRETERS: u32 = 4;

/// Finds a program in the directories of `PATH`, else in those where Debian keeps PostgreSQL, else among the programs that
/// fsarena has fetched. Returns its path; None if it is in none of these.
pub fn find(program: &str) -> Option<PathBuf> {
    let installed = find_dir_with_programs(&[program]).map(|dir| dir.join(program));
    installed.or_else(|| fetched_packages().iter().find_map(|package| find_in_package(package, Path::new(program))))
}

/// The path of a program that is named by a path with a slash, or by a name to find; None if a name is not found.
pub fn find_by_name_or_path(program: &str) -> Option<PathBuf> {
    if program.contains('/') { Some(program.into()) } else { find(program) }
}

/// Checks that programs, each with its Debian package, are installed or fetched.
///
/// # Errors
/// The first missing program, with the command that installs it.
pub fn check_installed(programs: &[(&str, &str)]) -> Result<(), String> {
    match programs.iter().find(|(name, _)| find(name).is_none()) {
        Some((name, package)) => Err(format!("{name} is not installed: apt-get install {package}")),
        None => Ok(()),
    }
}

/// The first directory of `PATH`, or of Debian's PostgreSQL, that has all these programs.
pub fn find_dir_with_programs(programs: &[&str]) -> Option<PathBuf> {
    find_dir_in_path(&std::env::var_os("PATH").unwrap_or_default(), programs)
}

/// Does the work of [`find_dir_with_programs`] with `path` as the value of `PATH`.
fn find_dir_in_path(path: &OsStr, programs: &[&str]) -> Option<PathBuf> {
    let has_all = |dir: &PathBuf| programs.iter().all(|program| is_executable(&dir.join(program)));
    program_directories(path, Path::new(POSTGRESQL_DIR)).find(has_all)
}

/// The directory outside `PATH` in which Debian keeps the programs of PostgreSQL, in `VERSION/bin`.
const POSTGRESQL_DIR: &str = "/usr/lib/postgresql";

/// The directories of a value of `PATH`, then `bin` of each numbered directory below `versions`, the highest number first.
fn program_directories(path: &OsStr, versions: &Path) -> impl Iterator<Item = PathBuf> {
    let number_of = |dir: &Path| dir.file_name()?.to_str()?.parse::<u32>().ok();
    let entries = std::fs::read_dir(versions).into_iter().flatten().flatten();
    let mut numbered: Vec<_> = entries.filter_map(|entry| Some((number_of(&entry.path())?, entry.path()))).collect();
    numbered.sort_unstable_by_key(|(number, _)| std::cmp::Reverse(*number));
    let version_dirs = numbered.into_iter().map(|(_, dir)| dir.join("bin"));
    std::env::split_paths(path).collect::<Vec<_>>().into_iter().chain(version_dirs)
}

/// Checks that a user can execute a program, given as a path with a slash or as a name in the directories of `PATH`.
///
/// # Errors
/// [`CommandError::NotFound`] for a name that no directory has, and [`CommandError::NotExecutable`] with the file and the
/// reason.
pub fn check_executable(program: &str, user: &User) -> Result<(), CommandError> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    // If no thread can run as the user, fsarena checks nothing: starting the command then reports the error.
    user.run_as(|| check_as_this_thread(program, &path, &user.name)).unwrap_or(Ok(()))
}

/// Does the work of [`check_executable`] with the rights of this thread and `path` as the value of `PATH`. `user` is the name
/// of the thread's user.
fn check_as_this_thread(program: &str, path: &OsStr, user: &str) -> Result<(), CommandError> {
    let not_executable = |file: &Path, why| CommandError::NotExecutable { program: file.display().to_string(), why };
    if program.contains('/') {
        let file = Path::new(program);
        return check_executable_file(file, user, MAX_INTERPRETERS).map_err(|why| not_executable(file, why));
    }
    // Like execvp(3), this skips a file that may not be executed; the error names the first such file.
    let mut first_error = None;
    for file in std::env::split_paths(path).map(|dir| dir.join(program)) {
        match check_executable_file(&file, user, MAX_INTERPRETERS) {
            Ok(()) => return Ok(()),
            Err(why) if file.is_file() && first_error.is_none() => first_error = Some(not_executable(&file, why)),
            Err(_) => {}
        }
    }
    Err(first_error.unwrap_or_else(|| CommandError::NotFound { program: program.into() }))
}

/// Checks that this thread can execute a file, and its interpreter if it is a script. `user` is the name of the thread's
/// user, and `interpreters_left` the number of nested interpreters to check. The error is the reason.
fn check_executable_file(file: &Path, user: &str, interpreters_left: u32) -> Result<(), String> {
    let meta = file.metadata().map_err(|error| match error.kind() {
        ErrorKind::PermissionDenied => format!("user {user} may not enter its directory"),
        _ => text_without_errno(&error),
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
            error => text_without_errno(&error.into()),
        });
    }
    // If the file may be executed but not read, its interpreter cannot be checked.
    let Ok(start) = read_start(file) else { return Ok(()) };
    // execvp(3) runs a text file without `#!` with a shell.
    let Some(line) = start.strip_prefix(b"#!") else { return Ok(()) };
    let line = line.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let line = String::from_utf8_lossy(line);
    let interpreter = line.split_whitespace().next().ok_or("its first line names no interpreter")?;
    if interpreters_left == 0 {
        return Ok(());
    }
    check_executable_file(Path::new(interpreter), user, interpreters_left - 1)
        .map_err(|why| format!("its first line names {interpreter}: {why}"))
}

/// Reads the beginning of a file, which has `#!` and the interpreter if it is a script.
fn read_start(file: &Path) -> io::Result<Vec<u8>> {
    let mut start = vec![];
    File::open(file)?.take(FIRST_LINE_BYTES).read_to_end(&mut start)?;
    Ok(start)
}

/// Whether any user may execute a file.
fn is_executable(file: &Path) -> bool {
    file.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

/// The name of the directory in a cache that has a directory for each package of fetched programs.
pub const FETCHED_DIR: &str = "tools";
/// The directories of programs in a package.
const PROGRAM_DIRS: [&str; 4] = ["usr/sbin", "usr/bin", "sbin", "bin"];
/// The directories of libraries in a Debian package for this architecture.
const LIBRARY_DIRS: [&str; 2] = ["usr/lib/x86_64-linux-gnu", "lib/x86_64-linux-gnu"];
/// The file name of the dynamic loader.
const LOADER: &str = "ld-linux-x86-64.so.2";

/// The command that starts a fetched program: the loader, the directories of its libraries, its file. None if the program is
/// installed in `PATH` or was not fetched.
pub fn fetched_command(program: &OsStr) -> Option<Vec<OsString>> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    if std::env::split_paths(&path).any(|dir| dir.join(program).is_file()) {
        return None;
    }
    fetched_packages().iter().find_map(|package| fetched_command_in(package, Path::new(program)))
}

/// Whether a path is that of a fetched program.
pub fn is_fetched(path: &Path) -> bool {
    fetched_packages().iter().any(|package| path.starts_with(package))
}

/// The directories of fetched packages in the caches of this user and of root.
fn fetched_packages() -> Vec<PathBuf> {
    let mut packages = vec![];
    for cache in [dirs::cache_dir(), dirs::SHARED_CACHE.into()] {
        let tools = cache.join(FETCHED_DIR);
        // fsarena starts no program that another user could have written.
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

/// The file of a program in a fetched package.
fn find_in_package(package: &Path, program: &Path) -> Option<PathBuf> {
    if program.components().count() != 1 {
        return None;
    }
    PROGRAM_DIRS.iter().map(|dir| package.join(dir).join(program)).find(|path| path.is_file())
}

/// The command that starts a program of a fetched package: see [`fetched_command`]. None if the package lacks the program or
/// a loader.
fn fetched_command_in(package: &Path, program: &Path) -> Option<Vec<OsString>> {
    let file = find_in_package(package, program)?;
    let libraries = LIBRARY_DIRS.map(|dir| package.join(dir));
    let loader = libraries.iter().map(|dir| dir.join(LOADER)).find(|path| path.is_file())?;
    let library_path = std::env::join_paths(libraries).ok()?;
    Some(vec![loader.into(), "--library-path".into(), library_path, file.into()])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_of_path_come_before_those_of_postgresql() {
        let root = std::env::temp_dir().join(format!("fsarena-versions-{}", std::process::id()));
        for version in ["9", "15", "main"] {
            std::fs::create_dir_all(root.join(version)).unwrap();
        }
        let found: Vec<PathBuf> = program_directories(OsStr::new("/a:/b"), &root).collect();
        let bin_dir = |version: &str| root.join(version).join("bin");
        assert_eq!(found, [PathBuf::from("/a"), PathBuf::from("/b"), bin_dir("15"), bin_dir("9")]);
        std::fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn a_file_that_a_user_cannot_execute_is_named_with_the_reason() {
        let dir = tempfile::tempdir().unwrap();
        let set_mode = |path: &Path, mode| {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
        };
        set_mode(dir.path(), 0o755);
        let make = |name: &str, text: &str, mode| {
            std::fs::write(dir.path().join(name), text).unwrap();
            set_mode(&dir.path().join(name), mode);
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
        set_mode(&dir.path().join("closed"), 0o700);
        let own = User::of_process();
        let nobody = User { name: "nobody".into(), uid: 65534, gid: 65534, groups: vec![65534], home: None };
        let check_error = |name: &str, user: &User| {
            check_executable(dir.path().join(name).to_str().unwrap(), user).err().map(|error| error.to_string())
        };
        for name in ["script", "text", "empty", "mine", "closed/script"] {
            assert_eq!(check_error(name, &own), None, "{name}");
        }
        for (name, why) in [
            ("gone", "No such file or directory"),
            ("closed", "it is not a file"),
            ("plain", "has no permission to (`chmod +x "),
            ("orphan", "its first line names /no/python: No such file or directory"),
            ("nameless", "its first line names no interpreter"),
        ] {
            let error = check_error(name, &own).unwrap();
            let path = dir.path().join(name);
            assert!(error.starts_with(&format!("{} cannot be executed: ", path.display())), "{error}");
            assert!(error.contains(why), "{error}");
        }
        let path_error =
            |name: &str| check_as_this_thread(name, dir.path().as_os_str(), "me").err().map(|error| error.to_string());
        assert_eq!(path_error("script"), None);
        assert!(path_error("plain").unwrap().contains("/plain cannot be executed: user me has no permission"));
        assert_eq!(path_error("gone").unwrap(), "gone is not installed");
        if !crate::testkit::runs_as_root() {
            return;
        }
        assert_eq!(check_error("script", &nobody), None);
        assert!(check_error("mine", &nobody).unwrap().contains("user nobody has no permission to"));
        assert!(check_error("closed/script", &nobody).unwrap().contains("user nobody may not enter its directory"));
        assert_eq!(check_error("mine", &own), None, "this process keeps its user");
    }

    #[test]
    fn only_executable_files_are_found_as_programs() {
        let file = std::env::temp_dir().join(format!("fsarena-program-{}", std::process::id()));
        std::fs::write(&file, "").unwrap();
        let name = file.file_name().unwrap().to_str().unwrap();
        let find = || find_dir_in_path(std::env::temp_dir().as_os_str(), &[name]).map(|dir| dir.join(name));
        assert_eq!(find(), None);
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(find(), Some(file.clone()));
        std::fs::remove_file(&file).unwrap();
    }

    fn create_empty_file(path: &Path) {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, "").unwrap();
    }

    #[test]
    fn a_fetched_program_is_started_by_the_loader_of_its_libraries() {
        let dir = tempfile::tempdir().unwrap();
        let package = dir.path().join("tools");
        create_empty_file(&package.join("usr/sbin/mkfs.bcachefs"));
        assert_eq!(fetched_command_in(&package, Path::new("mkfs.bcachefs")), None);
        create_empty_file(&package.join(LIBRARY_DIRS[0]).join(LOADER));
        let command = fetched_command_in(&package, Path::new("mkfs.bcachefs")).unwrap();
        let ends = [LOADER, "--library-path", LIBRARY_DIRS[1], "usr/sbin/mkfs.bcachefs"];
        assert!(
            command.len() == 4 && command.iter().zip(ends).all(|(word, end)| word.to_str().unwrap().ends_with(end))
        );
        assert_eq!(fetched_command_in(&package, Path::new("mkfs.xfs")), None);
        assert_eq!(fetched_command_in(&package, Path::new("/usr/sbin/mkfs.bcachefs")), None);
    }
}
