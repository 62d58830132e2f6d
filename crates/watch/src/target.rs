//! The filesystem and the device behind what is watched.

use crate::gauges::{USED, USED_INODES};
use crate::{Error, window::Mark};
use fsarena_core::event::{Note, NoteKind};
use fsarena_core::sample::Readings;
use fsarena_sys::device::{self, BlockDevice};
use fsarena_sys::{dirs::Space, kernel::SysRoot};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// Where to look.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Where {
    /// A path on the filesystem.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<PathBuf>,
    /// The device; the one behind the path where it is not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<PathBuf>,
}

/// The device behind the watched path.
pub struct Target {
    kernel: SysRoot,
    at: Where,
    found: Option<Found>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Found {
    numbers: (u32, u32),
    name: String,
    /// What a loop device carries; another one may take its number.
    backing: Option<String>,
    empty: bool,
}

impl Target {
    /// Finds the device.
    ///
    /// # Errors
    /// Fails if the path or the device does not exist.
    pub fn find(kernel: &SysRoot, at: &Where) -> Result<Target, Error> {
        if let Some(path) = &at.path {
            path.metadata().map_err(|error| Error::Missing(format!("{}: {error}", path.display())))?;
        }
        if let Some(device) = &at.device {
            BlockDevice::open(kernel, device).map_err(|error| Error::Missing(error.to_string()))?;
        }
        let mut target = Target { kernel: kernel.clone(), at: at.clone(), found: None };
        target.found = target.look();
        Ok(target)
    }

    /// Major and minor number of the device, where there is one.
    pub fn numbers(&self) -> Option<(u32, u32)> {
        self.found.as_ref().map(|found| found.numbers)
    }

    /// Notes on the filesystem and the device, for the beginning of the watch.
    pub fn notes(&self) -> Vec<Note> {
        let mut notes = vec![];
        if let Some(text) = self.at.path.as_deref().and_then(|path| mounted(&self.kernel, path)) {
            notes.push(Note::new(NoteKind::Options, text).task("filesystem"));
        }
        if let Some(found) = &self.found {
            let device =
                BlockDevice::numbered(&self.kernel, found.numbers.0, found.numbers.1, PathBuf::new());
            let scheduler = device.ok().and_then(|device| device.scheduler()).unwrap_or("not known".into());
            let (major, minor) = found.numbers;
            let text = format!("device {} ({major}:{minor}), scheduler {scheduler}", found.name);
            notes.push(Note::new(NoteKind::Options, text).task("device"));
        }
        notes
    }

    /// Looks again; what changed, and the device from now on where that is another.
    pub fn turn(&mut self, readings: &mut Readings) -> Option<Mark> {
        if let Some(space) = self.at.path.as_deref().and_then(|path| Space::at_path(path).ok()) {
            if let Some(used) = space.used_bytes() {
                readings.set(USED, used as f64);
            }
            readings.set(USED_INODES, space.used_inodes() as f64);
        }
        let now = self.look();
        if now == self.found {
            return None;
        }
        let before = std::mem::replace(&mut self.found, now);
        let name = |found: &Option<Found>| match found {
            None => "none".to_string(),
            Some(found) if found.empty => format!("{} without a medium", found.name),
            Some(found) => match &found.backing {
                Some(backing) => format!("{} of {backing}", found.name),
                None => found.name.clone(),
            },
        };
        let text = format!("the device changed: it was {}, now it is {}", name(&before), name(&self.found));
        Some(Mark::Device(text))
    }

    fn look(&self) -> Option<Found> {
        let device = match (&self.at.device, &self.at.path) {
            (Some(device), _) => BlockDevice::open(&self.kernel, device).ok()?,
            (None, Some(path)) => device::device_of_path(&self.kernel, path).ok()??,
            (None, None) => return None,
        };
        Some(Found {
            numbers: (device.major, device.minor),
            backing: device.attribute("loop/backing_file"),
            empty: device.size_bytes() == Some(0),
            name: device.name,
        })
    }
}

/// `ext4 at /srv (rw,noatime)`.
fn mounted(kernel: &SysRoot, path: &Path) -> Option<String> {
    let path = path.canonicalize().ok()?;
    let mounts = kernel.mounts().ok()?;
    let above = mounts.iter().rev().filter(|mount| path.starts_with(&mount.target));
    let mount = above.max_by_key(|mount| mount.target.components().count())?;
    Some(format!(
        "{} at {} ({},{})",
        mount.fs_type,
        mount.target.display(),
        mount.mount_options,
        mount.super_options
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filesystem_is_described_and_measured() {
        let at = Where { path: Some("/proc/self".into()), device: None };
        let mut target = Target::find(&SysRoot::host(), &at).unwrap();
        assert_eq!(target.numbers(), None);
        assert!(target.notes()[0].text.starts_with("proc at /proc"), "{:?}", target.notes());
        let mut readings = Readings::default();
        assert_eq!(target.turn(&mut readings), None);
        assert!(readings.get(USED).is_some());
    }

    #[test]
    fn what_is_not_there_is_said() {
        let find = |at: Where| Target::find(&SysRoot::host(), &at).err().unwrap().to_string();
        assert!(find(Where { path: Some("/nowhere".into()), device: None }).contains("/nowhere"));
        assert!(find(Where { path: None, device: Some("/dev/null".into()) }).contains("/dev/null"));
    }
}
