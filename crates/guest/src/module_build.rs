//! Compiles kernel modules that Debian's kernels do not include (such as ZFS) for a guest kernel. This does not need root: apt
//! only downloads the DKMS package with the source and the kernel's headers, and fsarena unpacks them in the cache.
//!
//! An interrupted build continues at its last step, and within the compilation at the last file. The cache keeps the modules
//! of each kernel with their digests.

use crate::apt::{AptDirs, OnCommand};
use crate::{Error, Result, cache};
use fsarena_sys::{CommandError, argv::Argv, cancel, lock::LockedFile, program};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::time::Duration;
use walkdir::WalkDir;

/// A step of a build.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BuildStep {
    /// Waits for another process that compiles.
    Waiting,
    /// Fetches the sources and the headers.
    Fetching,
    /// Continues a build that was interrupted.
    Continuing,
    /// Detects the features of the kernel by compiling small tests.
    Configuring,
    /// Compiles. The fields are the number of compiled files and the number of all files.
    Compiling(usize, usize),
}

/// A function that is called at the beginning of each step, and again as the compilation progresses.
pub type OnStep<'a> = &'a mut dyn FnMut(BuildStep);

/// The directory of the compiled modules of a package for a kernel, in a cache.
fn modules_dir(cache: &Path, package: &str, release: &str) -> PathBuf {
    cache.join(format!("modules-{package}-{release}"))
}

/// The directories in these caches with compiled modules for a kernel, whatever the package. Removes damaged ones.
pub(crate) fn find_compiled_modules(caches: [&Path; 2], release: &str) -> Vec<PathBuf> {
    let mut dirs: Vec<PathBuf> = vec![];
    for cache in caches {
        for entry in std::fs::read_dir(cache).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let package = name.strip_prefix("modules-").and_then(|rest| rest.strip_suffix(release));
            let is_new = dirs.iter().all(|dir| dir.file_name() != Some(OsStr::new(&name)));
            if release.is_empty() || package.is_none_or(|package| !package.ends_with('-')) || !is_new {
                continue;
            }
            if cache::verify_package(&entry.path()) {
                dirs.push(entry.path());
            } else {
                cache::record_damage(&entry.path(), "runs guests without these modules until you compile them again");
                cache::remove_entry(&entry.path());
            }
        }
    }
    dirs
}

/// Compiles the modules of a package for the kernel of this release, unless the cache has them. Returns their directory in the
/// cache `cache_dir`.
///
/// # Errors
/// A program is missing, the sources or headers cannot be fetched, they do not compile, or a signal interrupted this process.
pub fn build_modules(
    package: &str,
    release: &str,
    (cache_dir, apt_dirs): (&Path, &AptDirs),
    on_step: OnStep,
    log: OnCommand,
) -> Result<PathBuf> {
    let final_dir = modules_dir(cache_dir, package, release);
    check_program("make", "make")?;
    check_program("objcopy", "binutils")?;
    let build_dir = cache_dir.join(format!("building-{package}-{release}"));
    std::fs::create_dir_all(&build_dir).map_err(Error::io("making", &build_dir))?;
    let _lock = lock_build(&build_dir, on_step)?;
    if final_dir.is_dir() {
        cache::remove_entry(&build_dir);
        return Ok(final_dir);
    }
    let source = build_dir.join("source");
    // `unpack` moves the whole directory to its place at once, so a directory that exists is complete.
    if source.is_dir() {
        on_step(BuildStep::Continuing);
    } else {
        on_step(BuildStep::Fetching);
        apt_dirs.refresh(log)?;
        let names = list_packages(package, release, apt_dirs, log)?;
        apt_dirs.unpack(&names, &source, log)?;
    }
    let tree = SourceTree::open(&source.join("usr/src"), release)?;
    tree.prepare_headers()?;
    if !tree.is_configured() {
        on_step(BuildStep::Configuring);
        tree.configure(log)?;
    }
    tree.compile(on_step, log)?;
    tree.install(release, &build_dir.join("done"), log)?;
    std::fs::rename(build_dir.join("done"), &final_dir).map_err(Error::io("moving modules to", &final_dir))?;
    cache::remove_entry(&build_dir);
    Ok(final_dir)
}

/// Locks the directory of a build until the returned file is dropped.
fn lock_build(build_dir: &Path, on_step: OnStep) -> Result<LockedFile> {
    let path = build_dir.join("lock");
    let file = File::create(&path).map_err(Error::io("opening", &path))?;
    match file.try_lock() {
        Ok(()) => return Ok(LockedFile::new(file)),
        Err(TryLockError::WouldBlock) => on_step(BuildStep::Waiting),
        Err(TryLockError::Error(error)) => return Err(Error::io("locking", &path)(error)),
    }
    file.lock().map_err(Error::io("locking", &path))?;
    // If the other build succeeded, it removed this directory. Makes it again, so that the caller finds it in either case.
    std::fs::create_dir_all(build_dir).map_err(Error::io("making", build_dir))?;
    Ok(LockedFile::new(file))
}

fn check_program(name: &str, package: &str) -> Result<()> {
    if program::find(name).is_some() {
        return Ok(());
    }
    Err(Error::Missing(format!("{name} is not installed, and modules need it: apt-get install {package}")))
}

/// The packages to unpack: the source of the modules, the headers of the kernel, and the parts that these require.
fn list_packages(package: &str, release: &str, apt_dirs: &AptDirs, log: OnCommand) -> Result<Vec<String>> {
    let headers = format!("linux-headers-{release}");
    let packages = apt_dirs.list_packages(&headers, |_| true, log)?;
    let Some(headers) = packages.iter().find(|package| package.name == headers) else {
        return Err(Error::Missing(format!(
            "no suite of Debian has {headers}, without which no module can be compiled for that kernel; \
             `fsarena list kernels` lists the kernels that Debian has"
        )));
    };
    let mut names = vec![package.to_string(), headers.name_and_version()];
    names.extend(apt_dirs.list_required(headers, &["linux-headers-", "linux-kbuild-"], log)?);
    Ok(names)
}

/// The unpacked sources.
struct SourceTree {
    /// The headers of the kernel's flavour.
    flavour: PathBuf,
    /// The headers that all flavours share.
    common: PathBuf,
    /// The source of the modules.
    modules: PathBuf,
}

impl SourceTree {
    /// Finds the parts below `usr/src`.
    fn open(src: &Path, release: &str) -> Result<SourceTree> {
        let entries = std::fs::read_dir(src).map_err(Error::io("reading", src))?.flatten();
        let dirs: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
        let find = |noun: &str, matches: &dyn Fn(&Path) -> bool| {
            let dir = dirs.iter().find(|dir| matches(dir)).cloned();
            dir.ok_or_else(|| Error::invalid_file(src, format!("has no {noun}")))
        };
        Ok(SourceTree {
            flavour: find("headers", &|dir| dir.ends_with(format!("linux-headers-{release}")))?,
            common: find("common headers", &|dir| dir.to_string_lossy().ends_with("-common"))?,
            modules: find("source of modules", &|dir| dir.join("dkms.conf").is_file())?,
        })
    }

    /// Makes the headers usable at this place, and checks that their compiler is installed.
    fn prepare_headers(&self) -> Result<()> {
        let file = self.flavour.join("Makefile");
        let text = std::fs::read_to_string(&file).map_err(Error::io("reading", &file))?;
        let common = self.common.join("Makefile");
        let corrected = format!("include {}\n", common.display());
        if text != corrected {
            std::fs::write(&file, corrected).map_err(Error::io("writing", &file))?;
        }
        // If `vmlinux` were here, the build would make BTF type information for the modules, and that requires pahole.
        let _ = std::fs::remove_file(self.flavour.join("vmlinux"));
        let variables = self.flavour.join(".kernelvariables");
        let text = std::fs::read_to_string(&variables).map_err(Error::io("reading", &variables))?;
        match parse_compiler(&text) {
            Some(gcc) if program::find(&gcc).is_none() => Err(Error::Missing(format!(
                "this kernel was compiled by {gcc}, which is not installed, and its modules need the same: \
                 apt-get install {gcc}; or choose a kernel that was compiled by an installed one"
            ))),
            _ => Ok(()),
        }
    }

    /// Runs the `configure` of the source, with the arguments that ZFS takes; no other package is known yet.
    fn configure(&self, log: OnCommand) -> Result<()> {
        let option = |name: &str, path: &Path| format!("--with-{name}={}", path.display());
        let argv = low_priority_command(&self.modules.join("configure"));
        let argv = argv.arg("--with-config=kernel").arg(option("linux", &self.common));
        argv.arg(option("linux-obj", &self.flavour)).cwd(&self.modules).run_checked(log).map_err(build_error)?;
        let marker = self.configured_marker();
        File::create(&marker).map_err(Error::io("writing", &marker))?;
        Ok(())
    }

    /// Whether `configure` has finished. Its own `config.status` does not show that, because it exists before the Makefiles do.
    fn is_configured(&self) -> bool {
        self.configured_marker().is_file()
    }

    fn configured_marker(&self) -> PathBuf {
        self.modules.join("fsarena-configured")
    }

    /// Compiles on all CPUs with low priority, and passes on the number of compiled files.
    fn compile(&self, on_step: OnStep, log: OnCommand) -> Result<()> {
        let jobs = std::thread::available_parallelism().map_or(1, usize::from);
        // Without debug information the build takes less time and disk, and the code is the same.
        let argv = low_priority_command(Path::new("make")).arg(format!("-j{jobs}")).arg("KCFLAGS=-g0");
        let argv = argv.cwd(&self.modules).discard_stdout();
        let objects = list_objects(&self.modules.join("module"));
        let finished = std::thread::scope(|scope| {
            let make = scope.spawn(|| argv.run());
            while !make.is_finished() {
                on_step(BuildStep::Compiling(objects.iter().filter(|path| path.is_file()).count(), objects.len()));
                // The end of a scoped thread unparks this one, so the last pause is cut short.
                std::thread::park_timeout(POLL_INTERVAL);
            }
            make.join().expect("it does not panic")
        });
        let finished = finished?;
        log(argv.log_record(&finished));
        argv.check_success(finished).map_err(build_error)?;
        Ok(())
    }

    /// Copies the modules without debug information, with their digests.
    fn install(&self, release: &str, target: &Path, log: OnCommand) -> Result<()> {
        let dir = target.join("lib/modules").join(release);
        std::fs::create_dir_all(&dir).map_err(Error::io("making", &dir))?;
        let mut count = 0;
        for entry in std::fs::read_dir(self.modules.join("module")).into_iter().flatten().flatten() {
            if entry.path().extension() == Some(OsStr::new("ko")) {
                let argv = Argv::new("objcopy").arg("--strip-debug").arg(entry.path());
                argv.arg(dir.join(entry.file_name())).run_checked(log)?;
                count += 1;
            }
        }
        if count == 0 {
            return Err(Error::invalid_file(&self.modules, "make succeeded and made no module"));
        }
        cache::write_digest_list(target).map_err(Error::io("noting the digests of", target))
    }
}

/// The pause between two checks of the progress.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// A command that runs with low priority.
fn low_priority_command(program: &Path) -> Argv {
    Argv::new("nice").args(["-n", "10"]).arg(program).env("LC_ALL", "C")
}

/// The error of a failed build, with the remedy if there is one.
fn build_error(error: CommandError) -> Error {
    match error {
        CommandError::Failed { .. } if cancel::received_signal().is_none() => Error::Missing(format!(
            "the modules cannot be compiled for this kernel: {error}\nTry another kernel: `fsarena list kernels` lists them"
        )),
        error => error.into(),
    }
}

/// The name of the compiler in the text of a kernel's `.kernelvariables`: `gcc-12` from `CC = … $(CROSS_COMPILE)gcc-12`.
fn parse_compiler(variables: &str) -> Option<String> {
    let line = variables.lines().find(|line| line.starts_with("CC ="))?;
    let (_, name) = line.rsplit_once("$(CROSS_COMPILE)")?;
    Some(name.trim().to_string())
}

/// The object files that the Kbuild file of a directory lists. Conditions in the file may leave some of these out, so
/// the total may be too high.
fn list_objects(dir: &Path) -> BTreeSet<PathBuf> {
    let text = std::fs::read_to_string(dir.join("Kbuild")).unwrap_or_default();
    let names: BTreeSet<&str> = text.split_whitespace().filter(|word| word.ends_with(".o")).collect();
    let sources = WalkDir::new(dir).into_iter().flatten().map(walkdir::DirEntry::into_path);
    let is_listed = |path: &PathBuf| {
        let object = path.with_extension("o");
        let is_source = path.extension().is_some_and(|end| end == "c" || end == "S");
        is_source && names.iter().any(|name| object.ends_with(name))
    };
    sources.filter(is_listed).map(|path| path.with_extension("o")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_compiler_of_a_kernel_is_found() {
        let text = "override ARCH = x86\nCC = $(if $(DEBIAN_KERNEL_USE_CCACHE),$(CCACHE)) $(CROSS_COMPILE)gcc-12\n";
        assert_eq!(parse_compiler(text).as_deref(), Some("gcc-12"));
        assert_eq!(parse_compiler("CC = gcc\n"), None);
    }

    #[test]
    fn modules_are_found_by_the_release_of_their_kernel_and_damage_removes_them() {
        let dir = tempfile::tempdir().unwrap();
        let [cache, shared] = ["cache", "shared"].map(|name| dir.path().join(name));
        let find = |release: &str| find_compiled_modules([&cache, &shared], release);
        let release = "6.12.1+deb13-amd64";
        let compiled = modules_dir(&cache, "zfs-dkms", release);
        let module = compiled.join("lib/modules").join(release).join("zfs.ko");
        std::fs::create_dir_all(module.parent().unwrap()).unwrap();
        std::fs::write(&module, "module").unwrap();
        crate::cache::write_digest_list(&compiled).unwrap();
        assert_eq!(find(release), [compiled]);
        assert!(find("12.1+deb13-amd64").is_empty() && find("").is_empty());
        std::fs::write(&module, "modula").unwrap();
        assert!(find(release).is_empty() && !module.exists());
    }

    #[test]
    fn objects_are_those_of_kbuild_with_a_source() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("lua")).unwrap();
        for file in ["lua/lapi.c", "lua/other.c", "a.S"] {
            std::fs::write(dir.path().join(file), "").unwrap();
        }
        std::fs::write(dir.path().join("Kbuild"), "spl-y += lapi.o a.o \\\n missing.o\n").unwrap();
        let objects = list_objects(dir.path());
        assert_eq!(objects, ["a.o", "lua/lapi.o"].map(|name| dir.path().join(name)).into());
    }

    #[test]
    fn headers_are_moved_and_name_a_missing_compiler() {
        let dir = tempfile::tempdir().unwrap();
        for (file, text) in [
            ("linux-headers-6.1-amd64/Makefile", "include /usr/src/linux-headers-6.1-common/Makefile\n"),
            ("linux-headers-6.1-amd64/.kernelvariables", "CC = $(CROSS_COMPILE)gcc-0.1\n"),
            ("linux-headers-6.1-common/Makefile", ""),
            ("zfs-1/dkms.conf", ""),
        ] {
            let path = dir.path().join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let tree = SourceTree::open(dir.path(), "6.1-amd64").unwrap();
        let error = tree.prepare_headers().unwrap_err().to_string();
        assert!(error.contains("apt-get install gcc-0.1"), "{error}");
        let text = std::fs::read_to_string(tree.flavour.join("Makefile")).unwrap();
        assert_eq!(text, format!("include {}/Makefile\n", tree.common.display()));
        assert!(SourceTree::open(dir.path(), "6.2-amd64").is_err());
    }

    /// The build of this source only copies files.
    #[test]
    fn a_source_is_configured_and_compiled_and_its_modules_are_kept_with_digests() {
        if !fsarena_sys::testkit::has_program("make") || !fsarena_sys::testkit::has_program("objcopy") {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let write = |file: &str, text: &str| {
            let path = dir.path().join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, text).unwrap();
            path
        };
        let script = write("configure", "#!/bin/sh\necho \"$@\" > config.status\n");
        std::fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        write("Makefile", "all:\n\tcp module/a.c module/a.o\n\tcp /bin/true module/a.ko\n");
        write("module/Kbuild", "obj-m := a.o\n");
        write("module/a.c", "");
        let tree = SourceTree { flavour: "/flavour".into(), common: "/common".into(), modules: dir.path().into() };
        // An interrupted `configure` leaves this file.
        write("config.status", "");
        assert!(!tree.is_configured());
        tree.configure(&mut |_| {}).unwrap();
        assert!(tree.is_configured());
        let words = std::fs::read_to_string(dir.path().join("config.status")).unwrap();
        assert_eq!(words, "--with-config=kernel --with-linux=/common --with-linux-obj=/flavour\n");
        let mut steps = vec![];
        tree.compile(&mut |step| steps.push(step), &mut |_| {}).unwrap();
        assert!(matches!(steps[..], [BuildStep::Compiling(_, 1), ..]), "{steps:?}");
        let done = dir.path().join("done");
        tree.install("6.1-amd64", &done, &mut |_| {}).unwrap();
        assert!(done.join("lib/modules/6.1-amd64/a.ko").is_file() && cache::verify_package(&done));
        write("Makefile", "all:\n\techo broken >&2; exit 1\n");
        let error = tree.compile(&mut |_| {}, &mut |_| {}).unwrap_err().to_string();
        assert!(error.contains("broken") && error.contains("Try another kernel"), "{error}");
    }
}
