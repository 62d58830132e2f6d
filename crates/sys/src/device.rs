//! Block devices and their attributes in sysfs.

use crate::kernel::{SysRoot, innermost_mount, sorted_names, word_in_brackets};
use crate::{Error, none_if_missing};
use rustix::fs::{Mode, OFlags};
use std::collections::BTreeSet;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// A block device and its attributes in sysfs.
#[derive(Debug, Clone)]
pub struct BlockDevice {
    /// The path of its device node, with symbolic links resolved.
    pub path: PathBuf,
    /// The kernel's name: `loop0`, `sda1`.
    pub name: String,
    /// Its major number.
    pub major: u32,
    /// Its minor number.
    pub minor: u32,
    /// The sequence number (`diskseq`, Linux 5.15), which changes when a disk, a medium or an image is exchanged.
    diskseq: Option<String>,
    kernel: SysRoot,
}

/// Whether a mount, a swap area or another device uses a device, in any namespace and under any name: the kernel then
/// refuses an exclusive open. fsarena opens the device for reading only, because udev probes a device after a write.
///
/// # Errors
/// The device cannot be opened for another reason.
pub fn is_claimed(path: &Path) -> Result<bool, Error> {
    match rustix::fs::open(path, OFlags::RDONLY | OFlags::EXCL | OFlags::CLOEXEC, Mode::empty()) {
        Ok(_) => Ok(false),
        Err(rustix::io::Errno::BUSY) => Ok(true),
        Err(error) => Err(Error::io("opening", path)(error.into())),
    }
}

impl BlockDevice {
    /// The device of a device node. Follows symbolic links.
    ///
    /// # Errors
    /// The path is missing or is not a block device, or the kernel does not list the device.
    pub fn open(kernel: &SysRoot, path: &Path) -> Result<BlockDevice, Error> {
        let path = path.canonicalize().map_err(Error::io("looking for", path))?;
        let meta = path.metadata().map_err(Error::io("looking at", &path))?;
        if !meta.file_type().is_block_device() {
            return Err(Error::Unusable { object: path, why: "it is something other than a block device".into() });
        }
        let (major, minor) = (rustix::fs::major(meta.rdev()), rustix::fs::minor(meta.rdev()));
        BlockDevice::from_numbers(kernel, major, minor, path)
    }

    /// The device with these device numbers; `path` is its device node.
    ///
    /// # Errors
    /// The kernel does not list the device in `/sys/dev/block`.
    pub fn from_numbers(kernel: &SysRoot, major: u32, minor: u32, path: PathBuf) -> Result<BlockDevice, Error> {
        let link = kernel.path(&format!("sys/dev/block/{major}:{minor}"));
        let real = link.canonicalize().map_err(Error::io("reading", &link))?;
        let name = real.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let device = BlockDevice { path, name, major, minor, diskseq: None, kernel: kernel.clone() };
        Ok(BlockDevice { diskseq: device.own_or_disk_attribute("diskseq"), ..device })
    }

    /// Whether its device node still leads to the same device, with the same medium or image.
    pub fn is_in_place(&self) -> bool {
        let now = BlockDevice::open(&self.kernel, &self.path);
        now.is_ok_and(|now| (now.numbers(), now.diskseq) == (self.numbers(), self.diskseq.clone()))
    }

    /// `major:minor`.
    pub fn numbers(&self) -> String {
        format!("{}:{}", self.major, self.minor)
    }

    /// The path of an attribute in sysfs.
    pub fn attribute_path(&self, attribute: &str) -> PathBuf {
        self.kernel.path(&format!("sys/dev/block/{}/{attribute}", self.numbers()))
    }

    /// The text of an attribute; None if the attribute is missing or empty.
    pub fn attribute(&self, attribute: &str) -> Option<String> {
        self.kernel.read_trimmed(&format!("sys/dev/block/{}/{attribute}", self.numbers()))
    }

    /// An attribute of the device or, if a partition lacks it, of its disk.
    fn own_or_disk_attribute(&self, attribute: &str) -> Option<String> {
        self.attribute(attribute).or_else(|| self.attribute(&format!("../{attribute}")))
    }

    /// The text of an attribute of its queue. For a partition, which has no queue, of the queue of its disk.
    fn queue_attribute(&self, attribute: &str) -> Option<String> {
        self.own_or_disk_attribute(&format!("queue/{attribute}"))
    }

    /// The path of an attribute of its queue in sysfs; for a partition, of the queue of its disk.
    pub fn queue_attribute_path(&self, attribute: &str) -> PathBuf {
        let own_path = self.attribute_path(&format!("queue/{attribute}"));
        if own_path.exists() { own_path } else { self.attribute_path(&format!("../queue/{attribute}")) }
    }

    /// The I/O schedulers that the kernel offers for it.
    pub fn schedulers(&self) -> Option<Vec<String>> {
        let schedulers = self.queue_attribute("scheduler")?;
        Some(schedulers.split_whitespace().map(|word| word.trim_matches(['[', ']']).to_string()).collect())
    }

    /// Its size in bytes.
    pub fn size_bytes(&self) -> Option<u64> {
        // The kernel counts in sectors of 512 bytes, whatever the block size of the device is.
        Some(self.attribute("size")?.parse::<u64>().ok()? * 512)
    }

    /// The I/O scheduler in use.
    pub fn scheduler(&self) -> Option<String> {
        word_in_brackets(&self.queue_attribute("scheduler")?)
    }

    /// Whether the kernel reports it as a rotating disk.
    pub fn is_rotational(&self) -> Option<bool> {
        Some(self.queue_attribute("rotational")? == "1")
    }

    /// Its logical block size in bytes.
    pub fn logical_block_size(&self) -> Option<u32> {
        self.queue_attribute("logical_block_size")?.parse().ok()
    }

    /// The model name of its hardware.
    pub fn model(&self) -> Option<String> {
        self.own_or_disk_attribute("device/model")
    }

    /// The version of its firmware.
    pub fn firmware(&self) -> Option<String> {
        self.own_or_disk_attribute("device/firmware_rev").or_else(|| self.own_or_disk_attribute("device/rev"))
    }

    /// Model and firmware of the disk below it, each None if the kernel does not report it. Both are None if it is built on
    /// several disks.
    pub fn model_and_firmware(&self) -> (Option<String>, Option<String>) {
        match self.slaves().unwrap_or_default().as_slice() {
            [] => (self.model(), self.firmware()),
            [below] => below.model_and_firmware(),
            _ => (None, None),
        }
    }

    /// Whether it supports discards, which mark blocks of an SSD as unused.
    pub fn supports_discard(&self) -> bool {
        self.queue_attribute("discard_max_bytes").is_some_and(|limit| limit != "0")
    }

    /// The mode of its write cache: `write back` or `write through`.
    pub fn write_cache(&self) -> Option<String> {
        self.queue_attribute("write_cache")
    }

    /// Whether the kernel refuses writes to it.
    pub fn is_read_only(&self) -> bool {
        self.attribute("ro").as_deref() == Some("1")
    }

    /// Its first sector on its disk (0 for a whole disk) and its length, in sectors of 512 bytes.
    pub fn start_and_sectors(&self) -> Option<(u64, u64)> {
        let start = self.attribute("start").map_or(Ok(0), |text| text.parse());
        Some((start.ok()?, self.attribute("size")?.parse().ok()?))
    }

    /// The devices that it is built on (LVM, RAID, encryption).
    ///
    /// # Errors
    /// The kernel's list of them cannot be read.
    pub fn slaves(&self) -> Result<Vec<BlockDevice>, Error> {
        let mut slaves = vec![];
        for name in self.list_sysfs_directory("slaves")? {
            let path = Path::new("/dev").join(&name);
            slaves.extend(self.device_in_attribute(&format!("slaves/{name}/dev"), path));
        }
        Ok(slaves)
    }

    /// The names in one of its directories in sysfs; empty if it has no such directory (a partition has no `slaves`).
    fn list_sysfs_directory(&self, directory: &str) -> Result<Vec<String>, Error> {
        let path = self.attribute_path(directory);
        Ok(none_if_missing(sorted_names(&path)).map_err(Error::kernel_unreadable(&path))?.unwrap_or_default())
    }

    /// The device whose numbers (`major:minor`) an attribute has; `path` is its device node.
    fn device_in_attribute(&self, attribute: &str, path: PathBuf) -> Option<BlockDevice> {
        let (major, minor) = parse_device_numbers(&self.attribute(attribute)?)?;
        BlockDevice::from_numbers(&self.kernel, major, minor, path).ok()
    }

    /// The kernel's names of the devices that are built on it (LVM, RAID, encryption).
    ///
    /// # Errors
    /// The kernel's list of them cannot be read.
    pub fn holder_names(&self) -> Result<Vec<String>, Error> {
        self.list_sysfs_directory("holders")
    }

    /// The kernel's names of its partitions.
    ///
    /// # Errors
    /// The kernel's list of them cannot be read.
    pub fn partition_names(&self) -> Result<Vec<String>, Error> {
        let path = self.attribute_path("");
        let is_partition = |name: &String| self.attribute_path(name).join("partition").exists();
        // The device exists, so its directory must exist too.
        let names = sorted_names(&path).map_err(Error::kernel_unreadable(&path))?;
        Ok(names.into_iter().filter(is_partition).collect())
    }

    /// The disk that it is a partition of; None if it is not a partition.
    pub fn parent_disk(&self) -> Option<BlockDevice> {
        self.attribute("partition")?;
        self.device_in_attribute("../dev", PathBuf::new())
    }

    /// The kernel's names of the physical disks below it; its own name if no device below it is known. For reports only:
    /// devices that cannot be read are left out.
    pub fn disk_names(&self) -> BTreeSet<String> {
        let mut lower_devices = self.slaves().unwrap_or_default();
        lower_devices.extend(self.parent_disk());
        let image = self.attribute("loop/backing_file");
        lower_devices.extend(image.and_then(|image| device_of_path(&self.kernel, Path::new(&image)).ok().flatten()));
        if lower_devices.is_empty() {
            return [self.name.clone()].into();
        }
        lower_devices.iter().flat_map(BlockDevice::disk_names).collect()
    }
}

/// All block devices that the kernel lists, without hidden ones.
///
/// # Errors
/// The kernel's list of them cannot be read.
pub fn all_block_devices(kernel: &SysRoot) -> Result<Vec<BlockDevice>, Error> {
    let mut devices = vec![];
    for numbers in kernel.list_required("sys/dev/block")? {
        let Some((major, minor)) = parse_device_numbers(&numbers) else { continue };
        let Ok(mut device) = BlockDevice::from_numbers(kernel, major, minor, PathBuf::new()) else {
            continue;
        };
        // sysfs has `!` where the name has a slash.
        device.path = Path::new("/dev").join(device.name.replace('!', "/"));
        if device.attribute("hidden").as_deref() != Some("1") {
            devices.push(device);
        }
    }
    Ok(devices)
}

/// Parses device numbers: `254:1` → (254, 1).
pub fn parse_device_numbers(text: &str) -> Option<(u32, u32)> {
    let (major, minor) = text.trim().split_once(':')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// The block device of the filesystem that a path is on; None for filesystems without one (tmpfs, network filesystems).
///
/// # Errors
/// The path or the kernel's list of mounts cannot be read.
pub fn device_of_path(kernel: &SysRoot, path: &Path) -> Result<Option<BlockDevice>, Error> {
    let dev = path.metadata().map_err(Error::io("looking at", path))?.dev();
    let (major, minor) = (rustix::fs::major(dev), rustix::fs::minor(dev));
    let mounts = kernel.mounts()?;
    let mount = mounts.iter().rev().find(|mount| mount.major_minor == format!("{major}:{minor}"));
    if let Some(mount) = mount
        && let Ok(device) = BlockDevice::open(kernel, Path::new(&mount.source))
    {
        return Ok(Some(device));
    }
    // The source may be a name without a device node (`/dev/root`). A btrfs subvolume has its own device number, which no
    // mount shows: then the innermost mount above the path has the device.
    let node = PathBuf::from(format!("/dev/block/{major}:{minor}"));
    if let Ok(device) = BlockDevice::from_numbers(kernel, major, minor, node) {
        return Ok(Some(device));
    }
    let path = path.canonicalize().map_err(Error::io("looking for", path))?;
    Ok(innermost_mount(&mounts, &path).and_then(|mount| BlockDevice::open(kernel, Path::new(&mount.source)).ok()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testkit::FakeRoot;

    fn fake_disk() -> (FakeRoot, SysRoot) {
        let root = FakeRoot::with(&[]);
        for dir in ["holders/dm-0", "power"] {
            root.make_dir(&format!("sys/devices/pci/block/sda/{dir}"));
        }
        for (path, text) in [
            ("size", "2048\n"),
            ("ro", "0\n"),
            ("dev", "8:0\n"),
            ("queue/scheduler", "none [mq-deadline] kyber\n"),
            ("queue/rotational", "1\n"),
            ("queue/logical_block_size", "4096\n"),
            ("queue/write_cache", "write back\n"),
            ("device/model", "Example 2000     \n"),
            ("device/rev", "1.07\n"),
            ("sda1/partition", "1\n"),
            ("sda2/partition", "2\n"),
        ] {
            root.write_file(&format!("sys/devices/pci/block/sda/{path}"), text);
        }
        root.make_link("sys/dev/block/8:0", "../../devices/pci/block/sda");
        root.make_link("sys/dev/block/8:1", "../../devices/pci/block/sda/sda1");
        let kernel = SysRoot::at(root.path());
        (root, kernel)
    }

    #[test]
    fn the_attributes_of_a_disk_are_read() {
        let (_dir, kernel) = fake_disk();
        let disk = BlockDevice::from_numbers(&kernel, 8, 0, "/dev/sda".into()).unwrap();
        assert_eq!(disk.name, "sda");
        assert_eq!(disk.size_bytes(), Some(1024 * 1024));
        assert_eq!(disk.scheduler().as_deref(), Some("mq-deadline"));
        assert_eq!(disk.schedulers().unwrap(), ["none", "mq-deadline", "kyber"]);
        assert!(disk.queue_attribute_path("scheduler").ends_with("8:0/queue/scheduler"));
        assert_eq!(disk.is_rotational(), Some(true));
        assert_eq!(disk.logical_block_size(), Some(4096));
        assert_eq!(disk.write_cache().as_deref(), Some("write back"));
        assert_eq!(disk.model_and_firmware(), (Some("Example 2000".into()), Some("1.07".into())));
        assert_eq!(disk.start_and_sectors(), Some((0, 2048)));
        assert_eq!(disk.holder_names().unwrap(), ["dm-0"]);
        assert_eq!(disk.partition_names().unwrap(), ["sda1", "sda2"]);
        assert!(disk.parent_disk().is_none() && !disk.is_read_only());
    }

    #[test]
    fn a_partition_has_the_queue_of_its_disk() {
        let (_dir, kernel) = fake_disk();
        let partition = BlockDevice::from_numbers(&kernel, 8, 1, "/dev/sda1".into()).unwrap();
        assert_eq!(partition.parent_disk().unwrap().name, "sda");
        assert_eq!(partition.scheduler().as_deref(), Some("mq-deadline"));
        assert_eq!(partition.model_and_firmware().0.as_deref(), Some("Example 2000"));
    }

    #[test]
    fn a_device_on_one_disk_has_its_model_and_one_on_two_disks_has_none() {
        let (root, kernel) = fake_disk();
        let slave =
            |name: &str, dev: &str| root.write_file(&format!("sys/devices/virtual/block/dm-0/slaves/{name}/dev"), dev);
        slave("sda1", "8:1\n");
        root.make_link("sys/dev/block/253:0", "../../devices/virtual/block/dm-0");
        let model = || BlockDevice::from_numbers(&kernel, 253, 0, "/dev/dm-0".into()).unwrap().model_and_firmware().0;
        assert_eq!(model().as_deref(), Some("Example 2000"));
        slave("sda", "8:0\n");
        assert_eq!(model(), None);
    }
}
