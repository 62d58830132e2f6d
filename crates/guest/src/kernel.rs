//! Finding a kernel: a file that the user names, a kernel of a Debian package, or the newest available one.

pub use crate::apt::OnCommand;
use crate::debian::{self, compare_releases, matches_version, sort_releases};
use crate::kernel_dir::{self, KernelFiles, PackagedKernel, find_packaged_kernels};
use crate::vmlinux::{ELF_MAGIC, ElfKind, elf_kind};
use crate::{Error, Result, apt::AptDirs, cache, kernel_config, module_build, modules::Modules, vmlinux};
use fsarena_core::setting_text::setting;
use fsarena_sys::dirs::{SHARED_CACHE, cache_dir};
use fsarena_sys::input;
use std::path::{Path, PathBuf};

/// The word before the version of a kernel that Debian packages: `debian:6.1`.
pub const DEBIAN: &str = "debian";

/// A kernel that a guest can boot.
#[derive(Debug, Clone, Default)]
pub struct GuestKernel {
    /// The file that the emulator boots.
    pub image: PathBuf,
    /// The file in which its code can be searched: the image, or the decompressed kernel if QEMU boots a bzImage.
    pub code: PathBuf,
    /// The output of `uname -r` in the guest; empty where the file does not contain it.
    pub release: String,
    /// Its modules.
    pub modules: Modules,
    /// The text of its configuration; empty if that is unknown.
    pub config: String,
}

/// The directories with kernels.
#[derive(Debug, Clone)]
pub struct KernelDirs {
    /// The root of the kernels of this machine: `boot/` and `lib/modules/` are below it.
    pub root: PathBuf,
    /// The cache for fetched and unpacked kernels.
    pub cache: PathBuf,
    /// The cache of root, which every user may read.
    pub shared_cache: PathBuf,
    /// The directory of the modules of kernels that are named by their path; None to search near the kernel.
    pub modules_dir: Option<PathBuf>,
    /// The suites of Debian that kernels are fetched from.
    pub apt_dirs: AptDirs,
}

impl GuestKernel {
    /// Its name in messages: its release, or its file if that is unknown.
    pub fn name(&self) -> String {
        if self.release.is_empty() { self.image.display().to_string() } else { self.release.clone() }
    }

    /// The parts of it that check the kernel itself while it runs, such as KASAN.
    pub fn debug_options(&self) -> Vec<&'static str> {
        kernel_config::find_debug_options(&self.config)
    }

    /// Whether it supports a filesystem. If its modules are unknown, this searches its code for the name, which a kernel
    /// with a built-in filesystem contains. Returns true if the code cannot be read or decompressed.
    pub fn supports(&self, filesystem: &str) -> bool {
        if self.modules.is_known() {
            return self.modules.has(filesystem);
        }
        let Ok(bytes) = input::read(&self.code, vmlinux::MAX_KERNEL_BYTES) else { return true };
        let name = [filesystem.as_bytes(), b"\0"].concat();
        // `memmem` is many times as fast as `windows`, and a kernel is large.
        vmlinux::is_compressed(&bytes) || memchr::memmem::find(&bytes, &name).is_some()
    }
}

impl KernelDirs {
    /// The default directories of this machine.
    pub fn of_this_machine(modules_dir: Option<PathBuf>) -> KernelDirs {
        let cache = cache_dir();
        let apt_dirs = AptDirs::in_cache(&cache);
        KernelDirs { root: "/".into(), cache, shared_cache: SHARED_CACHE.into(), modules_dir, apt_dirs }
    }

    /// The directories that kernels lie below: each fetched package, and the root of this machine.
    fn roots(&self) -> Vec<PathBuf> {
        let caches = [&self.cache, &self.shared_cache].into_iter().flat_map(std::fs::read_dir);
        let entries = caches.flatten().flatten().map(|entry| entry.path());
        let is_package = |path: &PathBuf| ["boot", "usr/lib/modules"].iter().any(|dir| path.join(dir).is_dir());
        let mut roots: Vec<PathBuf> = entries.filter(is_package).collect();
        roots.push(self.root.clone());
        roots
    }

    /// Returns the release and the modules of the kernel that a guest boots by default, if it is available.
    ///
    /// # Errors
    /// The kernels or their modules cannot be read.
    pub fn default_kernel(&self) -> Result<Option<(String, Modules)>> {
        let Some(kernel) = newest_kernel(&self.roots(), "") else { return Ok(None) };
        let modules = self.modules_of(&kernel)?;
        Ok(Some((kernel.release, modules)))
    }

    /// The modules of a packaged kernel, and those that fsarena has compiled for it.
    fn modules_of(&self, kernel: &PackagedKernel) -> Result<Modules> {
        let mut modules = Modules::open(&kernel.modules_dir)?;
        for dir in module_build::find_compiled_modules([&self.cache, &self.shared_cache], &kernel.release) {
            modules.add_dir(&dir)?;
        }
        Ok(modules)
    }

    /// Returns the releases of all available kernels with modules, the oldest first.
    pub fn releases(&self) -> Vec<String> {
        sort_releases(find_packaged_kernels(&self.roots()).into_iter().map(|kernel| kernel.release))
    }

    /// Whether a kernel of this release is installed, instead of fetched into the cache.
    pub fn is_installed(&self, release: &str) -> bool {
        // Debian's packages from 7.2 on have the kernel beside its modules.
        let images = [format!("boot/vmlinuz-{release}"), format!("usr/lib/modules/{release}/vmlinuz")];
        images.iter().any(|image| self.root.join(image).is_file())
    }

    /// The releases of the kernels whose modules can be read and meet a condition.
    pub fn releases_with(&self, accepts: impl Fn(&Modules) -> bool) -> Vec<String> {
        let kernels = find_packaged_kernels(&self.roots()).into_iter();
        let kernels = kernels.filter(|kernel| self.modules_of(kernel).is_ok_and(|modules| accepts(&modules)));
        sort_releases(kernels.map(|kernel| kernel.release))
    }
}

/// Finds the kernel that a level of the factor `kernel` names: a file, a directory with a kernel that was built or
/// installed there, or a version of Debian. An empty level means the newest available kernel, or the newest kernel of
/// Debian if none is available.
///
/// # Errors
/// No such kernel exists, it is damaged, or the cache cannot be written.
pub fn find_or_fetch_kernel(level: &str, dirs: &KernelDirs, log: OnCommand) -> Result<GuestKernel> {
    let KernelFiles { image, modules, config } = find_or_fetch_files(level, dirs, log)?;
    let bytes = read_image(&image)?;
    let info = vmlinux::inspect_kernel(&image, &bytes)?;
    let modules = match modules {
        Some(modules) => modules,
        None => find_modules(&image, &info.release, dirs)?,
    };
    let config_beside_image = image.with_file_name(format!("config-{}", info.release));
    let (image, code) = match vmlinux::find_or_unpack(&image, &bytes, &info, &[&dirs.cache, &dirs.shared_cache])? {
        Some(vmlinux) if vmlinux.kind == ElfKind::Bootable => (vmlinux.path.clone(), vmlinux.path),
        // QEMU boots it only inside its bzImage.
        Some(vmlinux) => (image, vmlinux.path),
        None if bytes.starts_with(ELF_MAGIC) => (check_bootable(&image, elf_kind(&bytes))?, image),
        None => (image.clone(), image),
    };
    let files = [config.as_path(), config_beside_image.as_path()];
    let read_code = || input::read(&code, vmlinux::MAX_KERNEL_BYTES).unwrap_or_default();
    let config = kernel_config::read_config(files, read_code).unwrap_or_default();
    Ok(GuestKernel { image, code, release: info.release, modules, config })
}

/// Finds the files of the kernel that a level names. Fetches a kernel of Debian if no available one has the version.
fn find_or_fetch_files(level: &str, dirs: &KernelDirs, log: OnCommand) -> Result<KernelFiles> {
    let version = match level.split_once(':') {
        _ if level.is_empty() || level == DEBIAN => Some(""),
        Some((DEBIAN, version)) => Some(version),
        _ => None,
    };
    if let Some(version) = version {
        let kernel = find_or_fetch_packaged(version, dirs, log)?;
        let (modules, config) = (dirs.modules_of(&kernel)?, kernel.config_path());
        return Ok(KernelFiles { image: kernel.image, modules: Some(modules), config });
    }
    let path = Path::new(level);
    if path.is_dir() {
        let files = kernel_dir::find_built_kernel(path)?;
        // The modules that the user names by `--modules` come first.
        return Ok(KernelFiles { modules: files.modules.filter(|_| dirs.modules_dir.is_none()), ..files });
    }
    Ok(KernelFiles { image: path.into(), modules: None, config: PathBuf::new() })
}

/// Reads the image of a kernel; the error for a missing file names the forms of the setting `kernel`.
fn read_image(image: &Path) -> Result<Vec<u8>> {
    input::read(image, vmlinux::MAX_KERNEL_BYTES).map_err(|error| {
        let why = format!(
            "{error}; {} takes a file, a directory with a kernel that you built, or debian:VERSION",
            setting("kernel", "")
        );
        if input::is_refusal(&error) || error.kind() == std::io::ErrorKind::NotFound {
            return Error::Plan(format!("{}: {why}", image.display()));
        }
        Error::invalid_file(image, why)
    })
}

/// Returns the path of an ELF file if QEMU can boot it.
///
/// # Errors
/// QEMU cannot boot it.
fn check_bootable(image: &Path, kind: ElfKind) -> Result<PathBuf> {
    let why = match kind {
        ElfKind::Bootable => return Ok(image.into()),
        ElfKind::WithoutEntry => {
            let bz_image = setting("kernel", "PATH/bzImage");
            format!("is a kernel without CONFIG_PVH, which QEMU boots only as a bzImage: {bz_image}")
        }
        ElfKind::Program => "is a program, not a kernel that QEMU boots".into(),
    };
    Err(Error::invalid_file(image, why))
}

/// The newest available kernel of that version; of equal ones the installed kernel. Removes fetched kernels that are damaged. If
/// no kernel is left, fetches one.
fn find_or_fetch_packaged(version: &str, dirs: &KernelDirs, log: OnCommand) -> Result<PackagedKernel> {
    let mut roots = dirs.roots();
    while let Some(kernel) = newest_kernel(&roots, version) {
        // fsarena does not verify the kernels that the machine's package manager installed.
        if kernel.root == dirs.root || cache::verify_package(&kernel.root) {
            return Ok(kernel);
        }
        cache::record_damage(&kernel.root, "fetches that kernel again");
        cache::remove_entry(&kernel.root);
        roots.retain(|root| *root != kernel.root);
    }
    let package_dir = debian::fetch_kernel(version, &dirs.cache, &dirs.apt_dirs, &dirs.releases(), log)?;
    newest_kernel(std::slice::from_ref(&package_dir), version).ok_or_else(|| {
        Error::invalid_file(&package_dir, "the package that was unpacked here has no kernel with modules")
    })
}

/// The newest kernel below these roots that has this version. If the version is empty and only kernels of a flavour exist,
/// the newest of those.
fn newest_kernel(roots: &[PathBuf], version: &str) -> Option<PackagedKernel> {
    let mut kernels = find_packaged_kernels(roots);
    let has_match = kernels.iter().any(|kernel| matches_version(&kernel.release, version));
    kernels.retain(|kernel| matches_version(&kernel.release, version) || (version.is_empty() && !has_match));
    kernels.into_iter().max_by(|a, b| compare_releases(&a.release, &b.release))
}

/// The modules of a kernel that the user named by its path: below `--modules`, else near the image or installed.
fn find_modules(image: &Path, release: &str, dirs: &KernelDirs) -> Result<Modules> {
    if let Some(named_dir) = &dirs.modules_dir {
        let candidates = ["", "lib/modules", "usr/lib/modules"].map(|dir| named_dir.join(dir).join(release));
        let has_modules = |dir: &&PathBuf| dir.join("kernel").is_dir() || dir.join("modules.builtin").is_file();
        let why = || format!("has no modules of {release}: neither kernel/ nor modules.builtin");
        let modules_dir = candidates.iter().chain([named_dir]).find(has_modules);
        return Modules::open(modules_dir.ok_or_else(|| Error::invalid_file(named_dir, why()))?);
    }
    let near_image = image.parent().unwrap_or(Path::new("/")).join("../lib/modules");
    let candidates = [near_image, dirs.root.join("lib/modules")];
    let found = candidates.iter().map(|dir| dir.join(release)).find(|dir| !release.is_empty() && dir.is_dir());
    found.map_or_else(|| Ok(Modules::default()), |dir| Modules::open(&dir))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dirs_with_kernels(releases: &[&str]) -> (tempfile::TempDir, KernelDirs) {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("root");
        std::fs::create_dir_all(root.join("boot")).unwrap();
        for release in releases {
            std::fs::write(root.join("boot").join(format!("vmlinuz-{release}")), "").unwrap();
            std::fs::create_dir_all(root.join("lib/modules").join(release).join("kernel")).unwrap();
        }
        let cache = dir.path().join("cache");
        let apt_dirs = AptDirs::with_mirror(&cache, "file:///nowhere/debian");
        let dirs = KernelDirs { root, cache, shared_cache: dir.path().join("shared"), modules_dir: None, apt_dirs };
        (dir, dirs)
    }

    #[test]
    fn the_newest_installed_kernel_of_a_version_is_found() {
        let (_dir, dirs) = dirs_with_kernels(&["6.1.0-9-amd64", "6.1.0-53-amd64", "6.12.1-amd64"]);
        let release = |version: &str| {
            let kernel = newest_kernel(std::slice::from_ref(&dirs.root), version)?;
            Some(kernel.image.file_name()?.to_string_lossy().into_owned())
        };
        assert_eq!(release("6.1").as_deref(), Some("vmlinuz-6.1.0-53-amd64"));
        assert_eq!(release("").as_deref(), Some("vmlinuz-6.12.1-amd64"));
        assert_eq!(release("5.10"), None);
        assert_eq!(dirs.releases(), ["6.1.0-9-amd64", "6.1.0-53-amd64", "6.12.1-amd64"]);
    }

    #[test]
    fn a_kernel_beside_its_modules_is_found_once() {
        let (_dir, dirs) = dirs_with_kernels(&[]);
        let modules = dirs.root.join("usr/lib/modules/7.3.4+deb13-amd64");
        std::fs::create_dir_all(&modules).unwrap();
        std::fs::write(modules.join("vmlinuz"), "").unwrap();
        std::os::unix::fs::symlink("usr/lib", dirs.root.join("lib")).unwrap();
        let found = find_packaged_kernels(std::slice::from_ref(&dirs.root));
        let images: Vec<&PathBuf> = found.iter().map(|kernel| &kernel.image).collect();
        assert_eq!(images, [&modules.join("vmlinuz")]);
        assert!(dirs.is_installed("7.3.4+deb13-amd64") && !dirs.is_installed("7.3.4"));
    }

    #[test]
    fn a_flavour_is_used_if_requested_or_if_there_is_no_other() {
        let (_dir, dirs) = dirs_with_kernels(&["6.1.0-53-cloud-amd64"]);
        let found = |version: &str| newest_kernel(&dirs.roots(), version).is_some();
        assert!(found("") && found("6.1-cloud") && !found("6.1"));
        let (_dir, dirs) = dirs_with_kernels(&["6.1.0-9-amd64", "6.1.0-53-cloud-amd64"]);
        assert_eq!(newest_kernel(&dirs.roots(), "").unwrap().release, "6.1.0-9-amd64");
    }

    /// No package has the version 0.01.
    #[test]
    fn a_fetched_kernel_that_was_damaged_is_fetched_again() {
        let (_dir, dirs) = dirs_with_kernels(&[]);
        let package = dirs.cache.join("linux-image-0.01.0-amd64");
        let modules = package.join("lib/modules/0.01.0-amd64");
        std::fs::create_dir_all(package.join("boot")).unwrap();
        std::fs::create_dir_all(&modules).unwrap();
        std::fs::write(package.join("boot/vmlinuz-0.01.0-amd64"), "kernel").unwrap();
        std::fs::write(modules.join("ext4.ko"), "module").unwrap();
        let find = || find_or_fetch_packaged("0.01", &dirs, &mut |_| {});
        assert!(find().is_ok() && find().is_ok());
        std::fs::write(modules.join("ext4.ko"), "modula").unwrap();
        let error = find().unwrap_err().to_string();
        assert!(error.contains("no kernel") && error.contains("0.01") && !package.exists(), "{error}");
        assert!(
            cache::take_damage().iter().any(|line| line.contains("linux-image-0.01.0") && line.contains("fetches"))
        );
    }

    #[test]
    fn a_file_that_is_not_a_kernel_is_refused() {
        let (dir, dirs) = dirs_with_kernels(&[]);
        let path = dir.path().join("bzImage");
        std::fs::write(&path, "text").unwrap();
        let error = find_or_fetch_kernel(path.to_str().unwrap(), &dirs, &mut |_| {}).unwrap_err();
        assert!(error.to_string().contains("not an x86 kernel"), "{error}");
        let error = find_or_fetch_kernel("/nowhere/bzImage", &dirs, &mut |_| {}).unwrap_err();
        assert!(error.to_string().starts_with("/nowhere/bzImage: No such file"), "{error}");
        let error = find_or_fetch_kernel("/proc/self/exe", &dirs, &mut |_| {}).unwrap_err().to_string();
        assert!(error.contains("is a program, not a kernel"), "{error}");
    }

    #[test]
    fn a_kernel_without_modules_supports_what_its_code_names() {
        let dir = tempfile::tempdir().unwrap();
        let image = dir.path().join("vmlinux");
        std::fs::write(&image, b"\x7fELF..\0reiser4\0jfs_commit\0").unwrap();
        let kernel = GuestKernel { code: image, ..GuestKernel::default() };
        assert!(kernel.supports("reiser4") && !kernel.supports("jfs") && !kernel.supports("reiser"));
    }

    #[test]
    fn a_named_directory_of_modules_must_exist() {
        let (dir, mut dirs) = dirs_with_kernels(&["6.1.0-9-amd64"]);
        let image = dir.path().join("image");
        dirs.modules_dir = Some(dir.path().join("root"));
        assert!(find_modules(&image, "6.1.0-9-amd64", &dirs).is_ok());
        dirs.modules_dir = Some(dir.path().join("elsewhere"));
        assert!(find_modules(&image, "6.1.0-9-amd64", &dirs).is_err());
    }
}
