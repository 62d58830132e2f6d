//! Formats filesystems on image files, and keeps the images of formatted filesystems, from which several cells can
//! start.

use crate::error::Result;
use crate::executor::CommandLog;
use fsarena_fs::lifecycle::{self, Devices, VariantOptions};
use fsarena_fs::{def::FsDef, grammar, safety::ScratchDevice};
use fsarena_sys::image;
use fsarena_sys::undo::Journal;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A filesystem that was just made.
#[derive(Debug, Clone)]
pub struct MadeFilesystem {
    /// The command that made it, and its features as its own tool prints them.
    pub description: String,
    /// The features of the filesystem alone.
    pub features: String,
    /// The size of a read-only filesystem with all its files, in bytes; None for other filesystems.
    pub packed_bytes: Option<u64>,
}

/// Formats a filesystem on these devices, and reads its features.
///
/// # Errors
/// mkfs fails.
pub fn format(devices: &Devices, def: &FsDef, options: &VariantOptions, log: CommandLog) -> Result<MadeFilesystem> {
    let formatted = lifecycle::format(devices.clone(), def, options, log)?;
    let (argv, packed_bytes) = (formatted.argv.join(" "), formatted.packed_bytes);
    let features = lifecycle::describe_features(devices.members[0], def, log).unwrap_or_default();
    let description = if features.is_empty() { argv } else { format!("{argv}: {features}") };
    Ok(MadeFilesystem { description, features, packed_bytes })
}

/// An image with a new filesystem that nothing has mounted.
#[derive(Debug)]
pub struct FormattedImage {
    /// The image.
    pub device: ScratchDevice,
    /// The filesystem.
    pub filesystem: MadeFilesystem,
}

/// What decides the contents of an image: the filesystem, the arguments of mkfs, the directory that mkfs copies, and
/// the program.
type ImageKey = (&'static str, Vec<String>, [Option<PathBuf>; 2]);

/// A cache of formatted images. Nothing writes to the images: every cell gets a copy, or mounts a read-only filesystem.
#[derive(Debug)]
pub struct FormatCache {
    dir: PathBuf,
    size_bytes: u64,
    journal: Journal,
    images: BTreeMap<ImageKey, FormattedImage>,
}

impl FormatCache {
    /// An empty cache, whose images will lie in the directory `dir` and have the size `size_bytes`.
    pub fn new(dir: &Path, size_bytes: u64, journal: &Journal) -> FormatCache {
        FormatCache { dir: dir.into(), size_bytes, journal: journal.clone(), images: BTreeMap::new() }
    }

    /// Whether it has the image of a filesystem with these options.
    pub fn has_image(&self, def: &'static FsDef, options: &VariantOptions) -> bool {
        self.images.contains_key(&image_key(def, options))
    }

    /// Returns the image of a filesystem with these options; formats it if it is missing. Values that mkfs would choose
    /// at random are pinned, so that the directories of all variants and runs have the same order.
    ///
    /// # Errors
    /// mkfs fails.
    pub fn get_or_format(
        &mut self,
        def: &'static FsDef,
        options: &VariantOptions,
        log: CommandLog,
    ) -> Result<&FormattedImage> {
        let key = image_key(def, options);
        if !self.images.contains_key(&key) {
            let path = self.dir.join(format!("{}-{}.img", def.id, self.images.len()));
            // A read-only filesystem takes as much room as its files, which the preflight has checked.
            let image = match def.traits.read_only {
                true => image::create_sparse(&self.journal, &path, self.size_bytes)?,
                false => image::create(&self.journal, &path, self.size_bytes, false)?,
            };
            let device = ScratchDevice::from_image(image);
            let options = VariantOptions { mkfs: key.1.clone(), ..options.clone() };
            let filesystem = format(&(&device).into(), def, &options, log)?;
            self.images.insert(key.clone(), FormattedImage { device, filesystem });
        }
        Ok(&self.images[&key])
    }

    /// Removes the images.
    ///
    /// # Errors
    /// An image is still in use; it stays in the undo journal.
    pub fn release(self, log: CommandLog) -> Result<()> {
        Ok(self.images.into_values().try_for_each(|image| image.device.release(log))?)
    }
}

/// The key of a filesystem with these options. Values that mkfs would choose at random are pinned in it.
fn image_key(def: &'static FsDef, options: &VariantOptions) -> ImageKey {
    let mut mkfs_args = options.mkfs.clone();
    grammar::pin_random_values(def, &mut mkfs_args);
    (def.id, mkfs_args, [options.contents.clone(), options.program.clone()])
}
