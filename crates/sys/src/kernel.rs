//! Readers of `/proc` and `/sys`, below a root directory that tests can fake.

use crate::Error;
use procfs_core::process::MountInfo;
use std::collections::{BTreeSet, HashMap};
use std::io;
use std::path::{Path, PathBuf};

/// The root directory below which fsarena reads `/proc`, `/sys` and `/lib/modules`.
#[derive(Debug, Clone)]
pub struct SysRoot {
    root: PathBuf,
}

/// A mounted filesystem.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MountEntry {
    /// Where it is mounted.
    pub target: PathBuf,
    /// The source of the mount: a device for most filesystems, any word for some.
    pub source: String,
    /// The kernel's name of its type.
    pub fs_type: String,
    /// Options of this mount, `ro` or `rw` first: `rw,noatime`.
    pub mount_options: String,
    /// Options of the filesystem itself.
    pub super_options: String,
    /// The device number (`major:minor`) that stat(2) returns for its files; for btrfs this is not a block device.
    pub major_minor: String,
}

impl SysRoot {
    /// The root of this machine.
    pub fn host() -> SysRoot {
        SysRoot::at("/")
    }

    /// Another root directory, for tests.
    pub fn at(root: impl Into<PathBuf>) -> SysRoot {
        SysRoot { root: root.into() }
    }

    /// The path of `proc/…`, `sys/…` or `lib/modules/…` below the root.
    pub fn path(&self, relative_path: &str) -> PathBuf {
        self.root.join(relative_path.trim_start_matches('/'))
    }

    /// The text of a kernel file: `proc/meminfo`, `sys/class/block/loop0/queue/scheduler`.
    ///
    /// # Errors
    /// The file is missing or cannot be read.
    pub fn read(&self, relative_path: &str) -> io::Result<String> {
        Ok(String::from_utf8_lossy(&std::fs::read(self.path(relative_path))?).into_owned())
    }

    /// The text of a kernel file that fsarena requires.
    ///
    /// # Errors
    /// [`Error::KernelUnreadable`] if the file is missing or cannot be read.
    pub fn read_required(&self, relative_path: &str) -> Result<String, Error> {
        self.read(relative_path).map_err(Error::kernel_unreadable(self.path(relative_path)))
    }

    /// The sorted names in a directory of the kernel that fsarena requires.
    ///
    /// # Errors
    /// [`Error::KernelUnreadable`] if the directory is missing or cannot be read.
    pub fn list_required(&self, relative_path: &str) -> Result<Vec<String>, Error> {
        sorted_names(&self.path(relative_path)).map_err(Error::kernel_unreadable(self.path(relative_path)))
    }

    /// Checks that `/proc` shows what a run and a recovery need: processes, mounts, and the boot id.
    ///
    /// # Errors
    /// [`Error::KernelUnreadable`], for instance if another filesystem is mounted over `/proc`, or it has the option
    /// `subset=pid`.
    pub fn check_proc(&self) -> Result<(), Error> {
        for file in ["proc/self/stat", "proc/self/mountinfo", "proc/filesystems", "proc/sys/kernel/random/boot_id"] {
            self.read_required(file)?;
        }
        Ok(())
    }

    /// Checks that `/sys` lists the devices.
    ///
    /// # Errors
    /// [`Error::KernelUnreadable`], for instance if another filesystem is mounted over `/sys`.
    pub fn check_sys(&self) -> Result<(), Error> {
        for directory in ["sys/block", "sys/dev/block", "sys/class/block"] {
            self.list_required(directory)?;
        }
        Ok(())
    }

    /// The trimmed text of a kernel file; None if the file is missing, unreadable or empty.
    pub fn read_trimmed(&self, relative_path: &str) -> Option<String> {
        self.read(relative_path).ok().map(|text| text.trim().to_string()).filter(|text| !text.is_empty())
    }

    /// The value in bytes of a line `name value kB` of a kernel file, such as `MemAvailable:` in `proc/meminfo`.
    pub fn bytes_of_line(&self, relative_path: &str, name: &str) -> Option<u64> {
        let text = self.read(relative_path).ok()?;
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
    }

    /// All mounts of this mount namespace, in the order in which they were made.
    ///
    /// # Errors
    /// The kernel's list cannot be read. A caller that checks whether a device is in use must then refuse the device.
    pub fn mounts(&self) -> Result<Vec<MountEntry>, Error> {
        const MOUNTINFO: &str = "proc/self/mountinfo";
        let text = self.read_required(MOUNTINFO)?;
        let bad_format = |why: String| Error::BadFormat { path: self.path(MOUNTINFO), why };
        text.lines().map(|line| parse_mount(line).map_err(bad_format)).collect()
    }

    /// Returns an error if a device is mounted.
    pub(crate) fn check_unmounted(&self, device: &Path) -> Result<(), Error> {
        match self.mounts()?.iter().find(|mount| Path::new(&mount.source) == device) {
            Some(mount) => {
                Err(Error::Unusable { object: device.into(), why: format!("it is mounted at {:?}", mount.target) })
            }
            None => Ok(()),
        }
    }

    /// The mount that a path is on; None if the path is missing.
    pub fn mount_of(&self, path: &Path) -> Option<MountEntry> {
        let path = path.canonicalize().ok()?;
        innermost_mount(&self.mounts().ok()?, &path).cloned()
    }

    /// The filesystem types that this kernel can mount: built in, loaded, or available as a module file.
    ///
    /// # Errors
    /// `/proc/filesystems` cannot be read.
    pub fn mountable_filesystems(&self) -> Result<BTreeSet<String>, Error> {
        let loaded = self.read_required("proc/filesystems")?;
        let mut types: BTreeSet<String> =
            loaded.lines().filter_map(|line| line.split_whitespace().last()).map(str::to_string).collect();
        if let Some(release) = self.read_trimmed("proc/sys/kernel/osrelease") {
            for list in ["modules.dep", "modules.builtin"] {
                let text = self.read(&format!("lib/modules/{release}/{list}")).unwrap_or_default();
                types.extend(text.lines().filter_map(parse_filesystem_module));
            }
        }
        Ok(types)
    }

    /// The paths of devices and files in use as swap.
    ///
    /// # Errors
    /// `/proc/swaps` cannot be read.
    pub fn swaps(&self) -> Result<Vec<PathBuf>, Error> {
        let text = self.read_required("proc/swaps")?;
        let names = text.lines().skip(1).filter_map(|line| line.split_whitespace().next());
        Ok(names.map(|name| PathBuf::from(unescape(name))).collect())
    }
}

/// The innermost of the mounts that a path is on; of several on one directory the last, because it hides the others. The path
/// has no symbolic links.
pub(crate) fn innermost_mount<'a>(mounts: &'a [MountEntry], path: &Path) -> Option<&'a MountEntry> {
    let mounts_above = mounts.iter().filter(|mount| path.starts_with(&mount.target));
    // `max_by_key` returns the last of equal elements.
    mounts_above.max_by_key(|mount| mount.target.components().count())
}

/// The word in brackets: `mq-deadline` of `none [mq-deadline] kyber`.
pub(crate) fn word_in_brackets(text: &str) -> Option<String> {
    Some(text.split_once('[')?.1.split_once(']')?.0.to_string())
}

/// The names in a directory, sorted.
pub(crate) fn sorted_names(dir: &Path) -> io::Result<Vec<String>> {
    let mut names = vec![];
    for entry in std::fs::read_dir(dir)? {
        names.push(entry?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    Ok(names)
}

/// The largest CPU number that [`parse_cpu_list`] accepts.
const MAX_CPU_NUMBER: usize = 8191;

/// Parses a list of CPU numbers such as `0-3,8` into ascending numbers; None if the text has another form.
pub fn parse_cpu_list(text: &str) -> Option<Vec<usize>> {
    let mut cpus = BTreeSet::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        if first > last || last > MAX_CPU_NUMBER {
            return None;
        }
        cpus.extend(first..=last);
    }
    Some(cpus.into_iter().collect())
}

/// Parses a line of `/proc/self/mountinfo`. The error is the line and the reason.
pub(crate) fn parse_mount(line: &str) -> Result<MountEntry, String> {
    let info = MountInfo::from_line(line).map_err(|error| format!("{line:?}: {error}"))?;
    Ok(MountEntry {
        target: PathBuf::from(unescape(&info.mount_point.to_string_lossy())),
        source: unescape(&info.mount_source.unwrap_or_default()),
        fs_type: unescape(&info.fs_type),
        mount_options: join_options(&info.mount_options),
        super_options: join_options(&info.super_options),
        major_minor: info.majmin,
    })
}

/// Options as text in a fixed order: `ro` or `rw`, then the rest by name.
fn join_options(options: &HashMap<String, Option<String>>) -> String {
    let mut words: Vec<String> = options
        .iter()
        .map(|(name, value)| match value {
            Some(value) => unescape(&format!("{name}={value}")),
            None => unescape(name),
        })
        .collect();
    words.sort_by_key(|word| (word != "ro" && word != "rw", word.clone()));
    words.join(",")
}

/// The directories of modules that can be filesystems: those of the kernel, and those built outside its tree (by DKMS, for
/// instance bcachefs from Linux 6.18 on).
const FILESYSTEM_MODULE_DIRS: [&str; 3] = ["kernel/fs/", "updates/", "extra/"];

/// The name of a module in one of [`FILESYSTEM_MODULE_DIRS`]: `kernel/fs/xfs/xfs.ko.xz: …` → `xfs`.
fn parse_filesystem_module(line: &str) -> Option<String> {
    let path = line.split(':').next()?;
    let file = FILESYSTEM_MODULE_DIRS.iter().find_map(|dir| path.strip_prefix(dir))?.rsplit('/').next()?;
    Some(file.split(".ko").next()?.to_string())
}

/// Decodes the octal escapes in a field of a kernel list: `\040` is a space, `\012` a newline.
pub fn unescape(field: &str) -> String {
    let (mut rest, mut out) = (field.as_bytes(), vec![]);
    while let [byte, tail @ ..] = rest {
        let digits = tail.get(..3).filter(|_| *byte == b'\\').and_then(|digits| std::str::from_utf8(digits).ok());
        let octal = digits.and_then(|digits| u8::from_str_radix(digits, 8).ok());
        out.push(octal.unwrap_or(*byte));
        rest = if octal.is_some() { &tail[3..] } else { tail };
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testkit::FakeRoot;

    fn fake_root(files: &[(&str, &str)]) -> (FakeRoot, SysRoot) {
        let root = FakeRoot::with(files);
        let kernel = SysRoot::at(root.path());
        (root, kernel)
    }

    #[test]
    fn escapes_in_mount_fields_are_decoded() {
        let (_dir, kernel) = fake_root(&[(
            "proc/self/mountinfo",
            "36 35 7:3 / /mnt/a\\040b\\012c\\134d rw,noatime shared:1 - ext4 /dev/loop3 rw,errors=continue\n",
        )]);
        let mounts = kernel.mounts().unwrap();
        assert_eq!(mounts[0].target, Path::new("/mnt/a b\nc\\d"));
        assert_eq!((mounts[0].source.as_str(), mounts[0].major_minor.as_str()), ("/dev/loop3", "7:3"));
        assert_eq!(mounts[0].mount_options, "rw,noatime");
        assert_eq!(mounts[0].super_options, "rw,errors=continue");
    }

    #[test]
    fn the_last_of_several_mounts_on_the_innermost_directory_counts() {
        let (_dir, kernel) = fake_root(&[(
            "proc/self/mountinfo",
            "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n2 1 8:2 / /srv rw - xfs /dev/sda2 rw\n3 2 8:3 / /srv rw - btrfs /dev/sda3 rw\n",
        )]);
        let mounts = kernel.mounts().unwrap();
        let source = |path: &str| innermost_mount(&mounts, Path::new(path)).unwrap().source.clone();
        assert_eq!((source("/srv/data"), source("/srvx")), ("/dev/sda3".to_string(), "/dev/sda1".to_string()));
    }

    #[test]
    fn an_unreadable_mount_list_is_an_error_and_not_an_empty_list() {
        let (_dir, kernel) = fake_root(&[("proc/self/mountinfo", "nonsense\n")]);
        assert!(matches!(kernel.mounts(), Err(Error::BadFormat { .. })));
    }

    #[test]
    fn a_hidden_proc_or_sys_is_an_error_with_the_mount_command() {
        SysRoot::host().check_proc().unwrap();
        SysRoot::host().check_sys().unwrap();
        let (_dir, kernel) = fake_root(&[("proc/self/stat", "1 (a) R"), ("proc/self/mountinfo", "")]);
        let fix = |checked: Result<(), Error>| match checked {
            Err(Error::KernelUnreadable { fix, .. }) => fix,
            other => panic!("{other:?}"),
        };
        assert!(fix(kernel.check_proc()).contains("mount -t proc"));
        assert!(fix(kernel.check_sys()).contains("mount -t sysfs"));
    }

    #[test]
    fn module_files_count_as_mountable_types() {
        let (_dir, kernel) = fake_root(&[
            ("proc/filesystems", "nodev\ttmpfs\n\text4\n"),
            ("proc/sys/kernel/osrelease", "6.1.0\n"),
            (
                "lib/modules/6.1.0/modules.dep",
                "kernel/fs/jfs/jfs.ko.xz: kernel/fs/nls/nls_base.ko\nkernel/net/x.ko:\nupdates/dkms/bcachefs.ko.zst:\n",
            ),
            ("lib/modules/6.1.0/modules.builtin", "kernel/fs/ext4/ext4.ko\n"),
        ]);
        let types: Vec<_> = kernel.mountable_filesystems().unwrap().into_iter().collect();
        assert_eq!(types, ["bcachefs", "ext4", "jfs", "tmpfs"]);
    }

    #[test]
    fn swap_names_are_decoded_to_paths() {
        let (_dir, kernel) = fake_root(&[(
            "proc/swaps",
            "Filename Type Size Used Priority\n/swap\\040file file 1024 0 -2\n/dev/sda2 partition 1 0 -3\n",
        )]);
        assert_eq!(kernel.swaps().unwrap(), [Path::new("/swap file"), Path::new("/dev/sda2")]);
    }

    #[test]
    fn a_backslash_without_an_octal_number_stays() {
        assert_eq!(unescape("a\\b\\"), "a\\b\\");
        assert_eq!(unescape("\\777é\\é"), "\\777é\\é");
    }
}
