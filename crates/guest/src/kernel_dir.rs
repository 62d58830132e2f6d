//! Directories with kernels: those that packages or `make install` filled, with an image in `boot/` and modules in
//! `lib/modules/`, and build trees.

use crate::{Error, Result, debian::compare_releases, modules::Modules};
use rustix::fs::Access;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// An installed or unpacked kernel with modules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PackagedKernel {
    /// The directory that the package was unpacked into: the root of this machine for one that is installed.
    pub root: PathBuf,
    /// The output of `uname -r`.
    pub release: String,
    /// The file to boot.
    pub image: PathBuf,
    /// The directory of its modules.
    pub modules_dir: PathBuf,
}

impl PackagedKernel {
    /// The file with its configuration, which not every package has.
    pub fn config_path(&self) -> PathBuf {
        self.root.join("boot").join(format!("config-{}", self.release))
    }
}

/// The kernels below these roots that have modules.
pub(crate) fn find_packaged_kernels(roots: &[PathBuf]) -> Vec<PackagedKernel> {
    let mut kernels = vec![];
    for root in roots {
        let mut releases = BTreeSet::new();
        for parent in ["usr/lib/modules", "lib/modules"] {
            for entry in std::fs::read_dir(root.join(parent)).into_iter().flatten().flatten() {
                let release = entry.file_name().to_string_lossy().into_owned();
                let (modules_dir, image_in_boot) = (entry.path(), root.join("boot").join(format!("vmlinuz-{release}")));
                // Debian's packages from 7.2 on have the kernel beside its modules.
                let images = [image_in_boot, modules_dir.join("vmlinuz")];
                // An ordinary user may not read the kernels of some distributions.
                let image = images.into_iter().find(|image| rustix::fs::access(image, Access::READ_OK).is_ok());
                // Where /lib is /usr/lib, both have it.
                if let Some(image) = image
                    && modules_dir.is_dir()
                    && releases.insert(release.clone())
                {
                    kernels.push(PackagedKernel { root: root.clone(), release, image, modules_dir });
                }
            }
        }
    }
    kernels
}

/// The files of a kernel.
#[derive(Debug)]
pub(crate) struct KernelFiles {
    /// The file to boot, a vmlinux or a bzImage.
    pub image: PathBuf,
    /// Its modules; None if it is not known where they are.
    pub modules: Option<Modules>,
    /// Its configuration, which may be missing.
    pub config: PathBuf,
}

/// The path of the compressed kernel in the build tree of a kernel for x86.
const BZIMAGE_PATH: &str = "arch/x86/boot/bzImage";
/// What to do to get a kernel that fsarena finds, for messages.
const REMEDY: &str = "build one there (make bzImage modules), or install one (make install INSTALL_PATH=DIR/boot, make \
                   modules_install INSTALL_MOD_PATH=DIR)";

/// Finds the kernel that the user built in a directory: a build tree, or a directory that `make install` filled.
///
/// # Errors
/// A directory without a kernel, or with modules that are not built.
pub(crate) fn find_built_kernel(dir: &Path) -> Result<KernelFiles> {
    if let Some(image) = newest_image(dir) {
        return Ok(KernelFiles { image, modules: read_built_modules(dir)?, config: dir.join(".config") });
    }
    let installed = find_packaged_kernels(&[dir.to_path_buf()]);
    let Some(installed) = installed.into_iter().max_by(|a, b| compare_releases(&a.release, &b.release)) else {
        return Err(Error::invalid_file(
            dir,
            format!("has neither vmlinux, {BZIMAGE_PATH} nor boot/vmlinuz-RELEASE; {REMEDY}"),
        ));
    };
    let config = installed.config_path();
    Ok(KernelFiles { modules: Some(Modules::open(&installed.modules_dir)?), image: installed.image, config })
}

/// The newer one of the kernels of a build tree. The bzImage is made of the vmlinux, so it is stale if it is older; otherwise
/// it is preferred, because it has no debug symbols.
fn newest_image(tree: &Path) -> Option<PathBuf> {
    let built_image = |path: &str| {
        let path = tree.join(path);
        Some((std::fs::metadata(&path).ok().filter(std::fs::Metadata::is_file)?.modified().ok()?, path))
    };
    match (built_image(BZIMAGE_PATH), built_image("vmlinux")) {
        (Some((bzimage_time, _)), Some((vmlinux_time, path))) if bzimage_time < vmlinux_time => Some(path),
        (Some((_, path)), _) | (None, Some((_, path))) => Some(path),
        (None, None) => None,
    }
}

/// The modules that `modules.order` lists; None without that file.
fn read_built_modules(tree: &Path) -> Result<Option<Modules>> {
    let list = tree.join("modules.order");
    let Ok(order) = std::fs::read_to_string(&list) else { return Ok(None) };
    let files: Vec<PathBuf> = order.lines().filter_map(|line| find_module_file(tree, line)).collect();
    if files.is_empty() && !order.trim().is_empty() {
        return Err(Error::invalid_file(&list, "lists modules that are not built: make modules"));
    }
    Modules::from_files(tree, files).map(Some)
}

/// The file of a module in the tree, from a line of the list: the installed path `kernel/fs/jfs/jfs.ko` before Linux 6.2, the
/// object `fs/jfs/jfs.o` since then. None if the module is not built.
fn find_module_file(tree: &Path, line: &str) -> Option<PathBuf> {
    let listed = Path::new(line).with_extension("ko");
    let candidates = [listed.strip_prefix("kernel").ok(), Some(listed.as_path())];
    // The tree has a directory `kernel` with other modules, too.
    let mut paths = candidates.into_iter().flatten().rev().map(|path| tree.join(path));
    paths.find(|path| path.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, SystemTime};

    fn write_tree(files: &[(&str, &str)]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = dir.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        dir
    }

    #[test]
    fn the_modules_of_a_build_tree_are_those_of_its_list() {
        for (order, built_in) in
            [("fs/jfs/jfs.o\nkernel/trace/x-y.o\nfs/no/no.o\n", ""), ("kernel/fs/jfs/jfs.ko\n", "kernel/")]
        {
            let dir = write_tree(&[
                ("vmlinux", ""),
                ("modules.order", order),
                ("modules.builtin", format!("{built_in}fs/ext4/ext4.ko\n").as_str()),
                ("fs/jfs/jfs.ko", ""),
                ("kernel/trace/x-y.ko", ""),
                // Left by an earlier build.
                ("fs/xfs/xfs.ko", ""),
            ]);
            let built = find_built_kernel(dir.path()).unwrap();
            let modules = built.modules.unwrap();
            assert!(modules.has("jfs") && modules.has("ext4") && !modules.has("xfs") && !modules.has("no"));
            assert_eq!(modules.has("x_y"), order.contains("x-y"));
            assert_eq!(built.config, dir.path().join(".config"));
        }
    }

    #[test]
    fn the_image_is_the_one_that_was_built_last() {
        let dir = write_tree(&[("vmlinux", ""), (BZIMAGE_PATH, "")]);
        let image = || find_built_kernel(dir.path()).unwrap().image;
        let set_age = |name: &str, seconds: u64| {
            let file = std::fs::File::options().write(true).open(dir.path().join(name)).unwrap();
            file.set_modified(SystemTime::now() - Duration::from_secs(seconds)).unwrap();
        };
        set_age("vmlinux", 60);
        assert_eq!(image(), dir.path().join(BZIMAGE_PATH));
        set_age(BZIMAGE_PATH, 3600);
        assert_eq!(image(), dir.path().join("vmlinux"));
        assert!(find_built_kernel(dir.path()).unwrap().modules.is_none());
    }

    #[test]
    fn an_installed_kernel_is_found_by_its_release() {
        let dir = write_tree(&[
            ("boot/vmlinuz-6.18.0-mine", ""),
            ("boot/vmlinuz-6.9.0-mine", ""),
            ("lib/modules/6.18.0-mine/kernel/fs/jfs/jfs.ko", ""),
            ("lib/modules/6.9.0-mine/modules.builtin", ""),
        ]);
        let built = find_built_kernel(dir.path()).unwrap();
        assert!(built.image.ends_with("boot/vmlinuz-6.18.0-mine") && built.modules.unwrap().has("jfs"));
        assert_eq!(built.config, dir.path().join("boot/config-6.18.0-mine"));
    }

    #[test]
    fn errors_name_the_missing_kernel_or_modules() {
        let error = |files: &[(&str, &str)]| find_built_kernel(write_tree(files).path()).unwrap_err().to_string();
        assert!(error(&[("README", "")]).contains("neither vmlinux"));
        let unbuilt = error(&[("vmlinux", ""), ("modules.order", "fs/jfs/jfs.o\n")]);
        assert!(unbuilt.contains("modules that are not built: make modules"), "{unbuilt}");
    }
}
