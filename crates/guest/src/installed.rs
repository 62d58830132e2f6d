//! The kernels that packages or `make install` brought: an image in `boot/` and modules in `lib/modules/`.

use rustix::fs::Access;
use std::collections::BTreeSet;
use std::path::PathBuf;

/// A kernel with modules that a package brought.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PackagedKernel {
    /// The directory that the package was unpacked into: the root of this machine for one that is installed.
    pub root: PathBuf,
    /// The output of `uname -r`.
    pub release: String,
    /// The file to boot.
    pub image: PathBuf,
    /// The directory of its modules.
    pub modules: PathBuf,
}

impl PackagedKernel {
    /// The file with its configuration, which not every package has.
    pub fn config(&self) -> PathBuf {
        self.root.join("boot").join(format!("config-{}", self.release))
    }
}

/// The kernels below these roots that have modules.
pub(crate) fn packages(roots: &[PathBuf]) -> Vec<PackagedKernel> {
    let mut found = vec![];
    for root in roots {
        let mut releases = BTreeSet::new();
        for modules_dir in ["usr/lib/modules", "lib/modules"] {
            for entry in std::fs::read_dir(root.join(modules_dir)).into_iter().flatten().flatten() {
                let release = entry.file_name().to_string_lossy().into_owned();
                let (modules, in_boot) = (entry.path(), root.join("boot").join(format!("vmlinuz-{release}")));
                // Debian's packages from 7.2 on have the kernel beside its modules.
                let images = [in_boot, modules.join("vmlinuz")];
                // An ordinary user may not read the kernels of some distributions.
                let image =
                    images.into_iter().find(|image| rustix::fs::access(image, Access::READ_OK).is_ok());
                // Where /lib is /usr/lib, both have it.
                if let Some(image) = image
                    && modules.is_dir()
                    && releases.insert(release.clone())
                {
                    found.push(PackagedKernel { root: root.clone(), release, image, modules });
                }
            }
        }
    }
    found
}
