//! Zram devices: block devices in compressed memory, which fsarena makes with `hot_add` and removes with `hot_remove`.

use crate::attribute::{diskseq_of, may_belong_to_disk};
use crate::undo::{Journal, UndoGuard, UndoStep};
use crate::{Error, kernel::SysRoot, none_if_missing, wait::retry_while_busy};
use std::path::{Path, PathBuf};

/// The directory with the files `hot_add` and `hot_remove`.
const CONTROL_DIR: &str = "sys/class/zram-control";

/// A zram device that fsarena made. Dropping this value removes the device.
#[derive(Debug)]
pub struct ZramDevice {
    path: PathBuf,
    size_bytes: u64,
    guard: UndoGuard,
}

/// Whether this kernel can make zram devices.
pub fn is_supported(kernel: &SysRoot) -> bool {
    kernel.path(CONTROL_DIR).join("hot_add").exists()
}

/// Makes a device of a size, in bytes.
///
/// # Errors
/// The kernel cannot make one.
pub fn make(journal: &Journal, size_bytes: u64) -> Result<ZramDevice, Error> {
    let kernel = SysRoot::host();
    // The number is unknown until the device exists. If fsarena dies before it writes the size, the device holds no data.
    let hot_add = kernel.path(CONTROL_DIR).join("hot_add");
    let add_device = || std::fs::read_to_string(&hot_add).map_err(Error::io("making a zram device by", &hot_add));
    let removal = UndoStep::RemoveZram { number: None, size_bytes, diskseq: None };
    let (mut guard, text) = journal.record_and_do(removal, add_device)?;
    let number = text.trim().parse().map_err(|_| Error::BadFormat { path: hot_add, why: text.clone() })?;
    let size_path = attribute_path(&kernel, number, "disksize");
    let diskseq = diskseq_of(&size_path);
    guard.update(UndoStep::RemoveZram { number: Some(number), size_bytes, diskseq })?;
    std::fs::write(&size_path, size_bytes.to_string()).map_err(Error::io("writing", size_path))?;
    Ok(ZramDevice { path: format!("/dev/zram{number}").into(), size_bytes, guard })
}

impl ZramDevice {
    /// The device node.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its size in bytes.
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// Removes it.
    ///
    /// # Errors
    /// The device is still in use; the step then stays in the journal.
    pub fn remove(self) -> Result<(), Error> {
        self.guard.undo()
    }
}

/// The path of an attribute of a zram device in sysfs.
fn attribute_path(kernel: &SysRoot, number: u32, name: &str) -> PathBuf {
    kernel.path(&format!("sys/block/zram{number}/{name}"))
}

/// Whether a device with this number and size exists and may be the disk with this sequence number.
///
/// # Errors
/// The size of the device cannot be read.
pub(crate) fn device_exists(
    kernel: &SysRoot,
    number: u32,
    size_bytes: u64,
    diskseq: Option<u64>,
) -> Result<bool, Error> {
    // If the list of devices is unreadable, no device counts as gone.
    kernel.list_required("sys/block")?;
    let size_path = attribute_path(kernel, number, "disksize");
    let text = none_if_missing(std::fs::read_to_string(&size_path)).map_err(Error::kernel_unreadable(&size_path))?;
    let has_size = text.is_some_and(|text| text.trim().parse() == Ok(size_bytes));
    Ok(has_size && may_belong_to_disk(&size_path, diskseq))
}

/// Removes the device with this number, size and sequence number; succeeds if it is gone.
///
/// # Errors
/// [`Error::NotOurs`] if it has another size; or it is still in use.
pub(crate) fn remove_device(
    kernel: &SysRoot,
    number: Option<u32>,
    size_bytes: u64,
    diskseq: Option<u64>,
) -> Result<(), Error> {
    let Some(number) = number else { return Ok(()) };
    // If the list of devices is unreadable, no device counts as gone.
    kernel.list_required("sys/block")?;
    let size_path = attribute_path(kernel, number, "disksize");
    let device = PathBuf::from(format!("/dev/zram{number}"));
    let size_text = none_if_missing(std::fs::read_to_string(&size_path)).map_err(Error::io("reading", &size_path))?;
    let Some(text) = size_text else { return Ok(()) };
    if !may_belong_to_disk(&size_path, diskseq) {
        // The device was removed meanwhile, and another run has made one with the same number.
        return Ok(());
    }
    // A device without a size (0) holds no data: fsarena writes the size right after it makes the device.
    if !text.trim().parse().is_ok_and(|size: u64| size == size_bytes || size == 0) {
        return Err(Error::NotOurs { path: device, why: "it has another size than fsarena gave it".into() });
    }
    kernel.check_unmounted(&device)?;
    let hot_remove = kernel.path(CONTROL_DIR).join("hot_remove");
    let removed = retry_while_busy(|| std::fs::write(&hot_remove, number.to_string()));
    removed.map_err(Error::io("removing by", hot_remove))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_device_of_our_size_is_removed() {
        let dir = crate::testkit::FakeRoot::with(&[
            ("proc/self/mountinfo", ""),
            ("sys/block/zram3/disksize", "4096\n"),
            ("sys/block/zram3/diskseq", "12\n"),
        ]);
        dir.make_dir(CONTROL_DIR);
        let kernel = SysRoot::at(dir.path());
        assert!(matches!(remove_device(&kernel, Some(3), 8192, None), Err(Error::NotOurs { .. })));
        remove_device(&kernel, None, 8192, None).unwrap();
        remove_device(&kernel, Some(9), 8192, None).unwrap();
        assert!(
            device_exists(&kernel, 3, 4096, Some(12)).unwrap() && !device_exists(&kernel, 3, 4096, Some(11)).unwrap()
        );
        remove_device(&kernel, Some(3), 4096, Some(11)).unwrap();
        let written = || std::fs::read_to_string(dir.path().join(CONTROL_DIR).join("hot_remove")).ok();
        assert_eq!(written(), None);
        remove_device(&kernel, Some(3), 4096, Some(12)).unwrap();
        assert_eq!(written().as_deref(), Some("3"));
    }
}
