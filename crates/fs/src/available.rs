//! Which filesystems this machine can make and mount.

use crate::{def::FsDef, filesystems::FILESYSTEMS};
use fsarena_sys::{kernel::SysRoot, program};
use std::{collections::BTreeMap, path::PathBuf};

/// Whether this machine can make and mount a filesystem.
#[derive(Debug, Clone)]
pub struct Availability {
    /// The filesystem.
    pub def: &'static FsDef,
    /// Whether the kernel can mount it, maybe with a module that it has to load.
    pub is_mountable: bool,
    /// The path of its mkfs program; None if that is not installed, or if it has none.
    pub mkfs: Option<PathBuf>,
}

impl Availability {
    /// Whether fsarena can make and mount it in this kernel. It makes pools in guests only.
    pub fn is_usable(&self) -> bool {
        self.is_mountable && self.can_make()
    }

    /// Whether this machine can make it. Pools are made in guests only.
    pub fn can_make(&self) -> bool {
        (self.mkfs.is_some() || self.def.mkfs.is_empty()) && self.def.pool.is_none()
    }
}

/// Checks for every filesystem in [`FILESYSTEMS`] whether this machine can make and mount it.
///
/// # Errors
/// The kernel's list of filesystems cannot be read.
pub fn survey(kernel: &SysRoot) -> Result<Vec<Availability>, fsarena_sys::Error> {
    let types = kernel.mountable_filesystems()?;
    let mut survey = vec![];
    for def in FILESYSTEMS {
        survey.push(Availability { def, is_mountable: types.contains(def.id), mkfs: find_mkfs(def) });
    }
    Ok(survey)
}

/// The path of the mkfs program of a filesystem; None if it is not installed, or if the filesystem has none.
fn find_mkfs(def: &FsDef) -> Option<PathBuf> {
    Some(def.mkfs).filter(|program| !program.is_empty()).and_then(program::find)
}

/// Whether this machine has the mkfs program of a filesystem, or the filesystem needs none because its mount makes it.
pub fn has_mkfs(def: &FsDef) -> bool {
    def.mkfs.is_empty() || find_mkfs(def).is_some()
}

/// The command that installs the mkfs programs of filesystems on Debian.
pub fn install_command<'a>(defs: impl IntoIterator<Item = &'a FsDef>) -> String {
    let with_component = |def: &'a FsDef| def.packages.iter().map(|package| (*package, def.component));
    let packages: BTreeMap<&str, &str> = defs.into_iter().flat_map(with_component).collect();
    let names: Vec<&str> = packages.keys().copied().collect();
    let mut command = format!("apt-get install {}", names.join(" "));
    for (package, component) in packages.iter().filter(|(_, component)| !component.is_empty()) {
        command.push_str(&format!(" ({package} is in {component}: sources.list has to name that)"));
    }
    command
}

/// Mount options whose value is a character set, and the beginning of the name of its kernel module.
const CHARSET_OPTIONS: [(&str, &str); 3] = [("iocharset=", "nls_"), ("nls=", "nls_"), ("codepage=", "nls_cp")];

/// The names of the kernel modules of the character sets in mount options, with underscores. The driver requests them at mount;
/// a guest without a module loader has to load them before.
pub fn charset_modules(mount_options: &str) -> Vec<String> {
    let module_of = |option: &str| {
        CHARSET_OPTIONS.iter().find_map(|(key, module)| Some(format!("{module}{}", option.strip_prefix(key)?)))
    };
    mount_options.split(',').filter_map(module_of).map(|name| name.replace('-', "_")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_install_command_names_packages_outside_main() {
        let defs = ["hfsplus", "ext4", "ext2"].map(|id| crate::filesystems::find(id).unwrap());
        let line = install_command(defs);
        assert!(line.starts_with("apt-get install e2fsprogs hfsprogs (hfsprogs is in non-free"), "{line}");
        assert_eq!(install_command([defs[1]]), "apt-get install e2fsprogs");
    }

    #[test]
    fn filesystems_that_the_kernel_lists_are_mountable() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("proc")).unwrap();
        std::fs::write(dir.path().join("proc/filesystems"), "nodev\ttmpfs\n\txfs\n").unwrap();
        let survey = survey(&SysRoot::at(dir.path())).unwrap();
        let mountable: Vec<_> = survey.iter().filter(|found| found.is_mountable).map(|found| found.def.id).collect();
        assert_eq!(mountable, ["xfs", "tmpfs"]);
        let with_mkfs = survey.iter().filter(|found| !found.def.mkfs.is_empty());
        assert!(with_mkfs.clone().all(|found| found.mkfs == program::find(found.def.mkfs)));
        assert_eq!(survey.len() - with_mkfs.count(), 1);
    }

    #[test]
    fn character_set_options_name_their_modules() {
        assert_eq!(charset_modules("noatime,codepage=850,iocharset=iso8859-15"), ["nls_cp850", "nls_iso8859_15"]);
        assert_eq!(charset_modules("nls=koi8-r"), ["nls_koi8_r"]);
        assert!(charset_modules("noatime,data=writeback").is_empty());
    }
}
