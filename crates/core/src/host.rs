//! The machine that measured a sample, and the storage below its filesystems.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// A machine since its last boot. Facts are text, because fsarena prints most of them as they are.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Host {
    /// Its name.
    pub hostname: String,
    /// The kernel's random id of this boot.
    pub boot_id: String,
    /// The kernel version, as in `uname -r`.
    pub kernel: String,
    /// Everything needed to repeat a run: CPU model, cores, memory, governor, tool versions, …
    pub facts: BTreeMap<String, String>,
}

/// The name of the fact that identifies the build of fsarena: the beginning of the BLAKE3 hash of its executable.
pub const BUILD_FACT: &str = "fsarena_build";

/// The prefix of facts about the [`Storage`] of loop images and of guests' image files.
pub const IMAGES_PREFIX: &str = "images";

/// The prefix of facts about the [`Storage`] of the device that the user named for erasing.
pub const ERASED_PREFIX: &str = "erased device";

/// The prefix of facts about the [`Storage`] of a directory under test.
pub fn directory_prefix(path: &str) -> String {
    format!("directory {path}")
}

/// The storage below a run's images, directory or device. Results of the run are valid for this storage only. Each part is a
/// fact of the [`Host`], such as `images: model`, and None if the kernel does not provide it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Storage {
    /// The directory.
    pub directory: Option<String>,
    /// The filesystem of the directory: `ext4`.
    pub filesystem: Option<String>,
    /// The device of that filesystem: `nvme0n1p2`.
    pub device: Option<String>,
    /// The model of the disk.
    pub model: Option<String>,
    /// The version of the disk's firmware.
    pub firmware: Option<String>,
    /// Whether the disk is known to be a rotating one.
    pub is_rotating: bool,
}

impl Storage {
    /// The storage as facts of a host. `prefix` is [`IMAGES_PREFIX`], [`ERASED_PREFIX`] or the result of
    /// [`directory_prefix`].
    pub fn to_facts(&self, prefix: &str) -> BTreeMap<String, String> {
        let parts = [
            ("directory", &self.directory),
            ("filesystem", &self.filesystem),
            ("device", &self.device),
            ("model", &self.model),
            ("firmware", &self.firmware),
            ("rotating", &self.is_rotating.then(|| "yes".to_string())),
        ];
        let known_parts = parts.into_iter().filter_map(|(name, part)| Some((name, part.as_ref()?)));
        known_parts.map(|(name, part)| (format!("{prefix}: {name}"), part.clone())).collect()
    }

    /// Reads the storage from the facts of a host; None if no fact has this prefix.
    pub fn from_facts(facts: &BTreeMap<String, String>, prefix: &str) -> Option<Storage> {
        let fact = |name: &str| facts.get(&format!("{prefix}: {name}")).cloned();
        let storage = Storage {
            directory: fact("directory"),
            filesystem: fact("filesystem"),
            device: fact("device"),
            model: fact("model"),
            firmware: fact("firmware"),
            is_rotating: fact("rotating").is_some(),
        };
        (storage != Storage::default()).then_some(storage)
    }

    /// The model and firmware of the disk: `Samsung SSD 980, firmware 3B4QFXO7`. None if neither is known.
    pub fn disk_label(&self) -> Option<String> {
        let firmware = self.firmware.as_ref().map(|version| format!("firmware {version}"));
        let parts: Vec<String> = self.model.iter().cloned().chain(firmware).collect();
        (!parts.is_empty()).then(|| parts.join(", "))
    }
}

/// Formats the storage as `/data on nvme0n1p2 (ext4; Samsung SSD 980, firmware 3B4QFXO7)`.
impl fmt::Display for Storage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let location = [&self.directory, &self.device].into_iter().flatten();
        f.write_str(&location.map(String::as_str).collect::<Vec<_>>().join(" on "))?;
        let details: Vec<String> = self.filesystem.iter().cloned().chain(self.disk_label()).collect();
        if details.is_empty() { Ok(()) } else { write!(f, " ({})", details.join("; ")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn storage_is_read_back_from_its_facts_and_displays_its_known_parts() {
        let part = |text: &str| Some(text.to_string());
        let storage = Storage {
            directory: part("/data"),
            filesystem: part("ext4"),
            device: part("nvme0n1p2"),
            model: part("Samsung SSD 980"),
            firmware: part("3B4QFXO7"),
            is_rotating: false,
        };
        assert_eq!(storage.to_string(), "/data on nvme0n1p2 (ext4; Samsung SSD 980, firmware 3B4QFXO7)");
        let facts = storage.to_facts(IMAGES_PREFIX);
        assert_eq!(facts["images: model"], "Samsung SSD 980");
        assert_eq!(Storage::from_facts(&facts, IMAGES_PREFIX), Some(storage));
        assert_eq!(Storage::from_facts(&facts, ERASED_PREFIX), None);
        let disk = Storage { model: part("ST4000DM004"), is_rotating: true, ..Storage::default() };
        assert_eq!(Storage::from_facts(&disk.to_facts(ERASED_PREFIX), ERASED_PREFIX), Some(disk));
        let memory = Storage { directory: part("/tmp"), filesystem: part("tmpfs"), ..Storage::default() };
        assert_eq!(memory.to_string(), "/tmp (tmpfs)");
    }
}
