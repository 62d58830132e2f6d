//! Filesystems that are made once and never written to: every guest has its own copy of what it writes.

use crate::executor::{Log, Result};
use fsarena_fs::lifecycle::{self, Devices, VariantOptions};
use fsarena_fs::{def::FsDef, grammar, safety::ScratchDevice};
use fsarena_sys::{image, undo::Journal};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Makes a filesystem: the command that did, with its features, and these alone.
///
/// # Errors
/// Where mkfs fails.
pub fn make(devices: &Devices, def: &FsDef, options: &VariantOptions, log: Log) -> Result<(String, String)> {
    let argv = lifecycle::format(devices.clone(), def, options, log)?.argv.join(" ");
    let features = lifecycle::describe(devices.members[0], def, log).unwrap_or_default();
    let said = if features.is_empty() { argv } else { format!("{argv}: {features}") };
    Ok((said, features))
}

/// A filesystem as mkfs left it.
#[derive(Debug)]
pub struct Made {
    /// Its image.
    pub device: ScratchDevice,
    /// The command that made it, and its features as its own tool names them.
    pub said: String,
    /// Its features alone.
    pub features: String,
}

/// Every filesystem that was made, by its name and the arguments of its mkfs.
#[derive(Debug)]
pub struct Pristine {
    dir: PathBuf,
    size_bytes: u64,
    journal: Journal,
    made: BTreeMap<(&'static str, Vec<String>), Made>,
}

impl Pristine {
    /// None yet. Images of this size go to a directory.
    pub fn new(dir: &Path, size_bytes: u64, journal: &Journal) -> Pristine {
        Pristine { dir: dir.into(), size_bytes, journal: journal.clone(), made: BTreeMap::new() }
    }

    /// The filesystem of these options, made where it is not yet. What mkfs would draw by chance is always the same, so
    /// that variants and runs have the same directories.
    ///
    /// # Errors
    /// Where mkfs fails.
    pub fn of(&mut self, def: &'static FsDef, options: &VariantOptions, log: Log) -> Result<&Made> {
        let mut options = options.clone();
        grammar::pin_random_values(def, &mut options.mkfs);
        let key = (def.id, options.mkfs.clone());
        if !self.made.contains_key(&key) {
            let path = self.dir.join(format!("{}-{}.img", def.id, self.made.len()));
            let device =
                ScratchDevice::from_image(image::create(&self.journal, &path, self.size_bytes, false)?);
            let (said, features) = make(&(&device).into(), def, &options, log)?;
            self.made.insert(key.clone(), Made { device, said, features });
        }
        Ok(&self.made[&key])
    }

    /// Removes the images.
    ///
    /// # Errors
    /// Where one is still in use; it stays in the journal.
    pub fn release(self, log: Log) -> Result<()> {
        Ok(self.made.into_values().try_for_each(|made| made.device.release(log))?)
    }
}
