//! The filesystem and the device of a watch: finding them, and noticing that the device was replaced.

use crate::watch::gauges::{USED_BYTES, USED_INODES};
use crate::watch::{counter::WatchError, window::WindowMark};
use fsarena_core::event::{Note, NoteKind};
use fsarena_core::sample::Readings;
use fsarena_sys::device::{self, BlockDevice};
use fsarena_sys::{dirs::FilesystemSpace, kernel::SysRoot};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// The path and the device that the user named.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct WatchedPlace {
    /// A path on the filesystem.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<PathBuf>,
    /// The device; if `None`, the device of the filesystem with the path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<PathBuf>,
}

/// The watched filesystem and its device.
pub struct WatchTarget {
    kernel: SysRoot,
    place: WatchedPlace,
    /// The device at the last check; `None` if the target had none.
    device: Option<WatchedDevice>,
}

/// The properties by which a watch recognises a device.
#[derive(Debug, Clone, PartialEq, Eq)]
struct WatchedDevice {
    /// Major and minor number.
    numbers: (u32, u32),
    name: String,
    /// The backing file of a loop device. It distinguishes loop devices that reuse a number.
    backing: Option<String>,
    /// Whether the device has no medium.
    lacks_medium: bool,
}

impl WatchTarget {
    /// Finds the device of a watch.
    ///
    /// # Errors
    /// The path or the device does not exist.
    pub fn find(kernel: &SysRoot, place: &WatchedPlace) -> Result<WatchTarget, WatchError> {
        if let Some(path) = &place.path {
            path.metadata().map_err(|error| WatchError::Unavailable(format!("{}: {error}", path.display())))?;
        }
        if let Some(device) = &place.device {
            BlockDevice::open(kernel, device).map_err(|error| WatchError::Unavailable(error.to_string()))?;
        }
        let mut target = WatchTarget { kernel: kernel.clone(), place: place.clone(), device: None };
        target.device = target.find_device();
        Ok(target)
    }

    /// The major and the minor number of the device; `None` without a device.
    pub fn device_numbers(&self) -> Option<(u32, u32)> {
        self.device.as_ref().map(|device| device.numbers)
    }

    /// Notes on the filesystem with its mount options, and on the device with its scheduler.
    pub fn notes(&self) -> Vec<Note> {
        let mut notes = vec![];
        if let Some(text) = self.place.path.as_deref().and_then(|path| describe_mount(&self.kernel, path)) {
            notes.push(Note::new(NoteKind::Options, text).task("filesystem"));
        }
        if let Some(WatchedDevice { numbers: (major, minor), name, .. }) = &self.device {
            let device = BlockDevice::from_numbers(&self.kernel, *major, *minor, PathBuf::new());
            let scheduler = device.ok().and_then(|device| device.scheduler()).unwrap_or("unknown".into());
            let text = format!("device {name} ({major}:{minor}), scheduler {scheduler}");
            notes.push(Note::new(NoteKind::Options, text).task("device"));
        }
        notes
    }

    /// Closes a window: sets the used space in its readings, and finds the device again. Returns a mark if the device changed.
    pub fn close_window(&mut self, readings: &mut Readings) -> Option<WindowMark> {
        if let Some(space) = self.place.path.as_deref().and_then(|path| FilesystemSpace::at_path(path).ok()) {
            if let Some(used) = space.used_bytes() {
                readings.set(USED_BYTES, used as f64);
            }
            readings.set(USED_INODES, space.used_inodes() as f64);
        }
        let current = self.find_device();
        if current == self.device {
            return None;
        }
        let before = std::mem::replace(&mut self.device, current);
        let describe = |device: &Option<WatchedDevice>| match device {
            None => "none".to_string(),
            Some(device) if device.lacks_medium => format!("{} without a medium", device.name),
            Some(WatchedDevice { name, backing: Some(backing), .. }) => format!("{name} of {backing}"),
            Some(device) => device.name.clone(),
        };
        let text = format!("the device changed: it was {}, now it is {}", describe(&before), describe(&self.device));
        Some(WindowMark::DeviceChanged(text))
    }

    /// The current device; `None` if the target has none.
    fn find_device(&self) -> Option<WatchedDevice> {
        let device = match (&self.place.device, &self.place.path) {
            (Some(device), _) => BlockDevice::open(&self.kernel, device).ok()?,
            (None, Some(path)) => device::device_of_path(&self.kernel, path).ok()??,
            (None, None) => return None,
        };
        Some(WatchedDevice {
            numbers: (device.major, device.minor),
            backing: device.attribute("loop/backing_file"),
            lacks_medium: device.size_bytes() == Some(0),
            name: device.name,
        })
    }
}

/// The filesystem of a path with its mount options: `ext4 at /srv (rw,noatime)`.
fn describe_mount(kernel: &SysRoot, path: &Path) -> Option<String> {
    let mount = kernel.mount_of(path)?;
    Some(format!("{} at {} ({},{})", mount.fs_type, mount.target.display(), mount.mount_options, mount.super_options))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_filesystem_of_a_path_is_described_and_its_space_read() {
        let place = WatchedPlace { path: Some("/proc/self".into()), device: None };
        let mut target = WatchTarget::find(&SysRoot::host(), &place).unwrap();
        assert_eq!(target.device_numbers(), None);
        assert!(target.notes()[0].text.starts_with("proc at /proc"), "{:?}", target.notes());
        let mut readings = Readings::default();
        assert_eq!(target.close_window(&mut readings), None);
        assert!(readings.get(USED_BYTES).is_some());
    }

    #[test]
    fn missing_paths_and_devices_are_errors() {
        let find = |place: WatchedPlace| WatchTarget::find(&SysRoot::host(), &place).err().unwrap().to_string();
        assert!(find(WatchedPlace { path: Some("/nowhere".into()), device: None }).contains("/nowhere"));
        assert!(find(WatchedPlace { path: None, device: Some("/dev/null".into()) }).contains("/dev/null"));
    }
}
