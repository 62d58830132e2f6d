//! The image files of a run in guests: for the filesystem under test, the members of arrays, journals and the source disk.
//! Also a cache of formatted images, which guests only copy.

use super::host_programs;
use crate::error::Result;
use crate::executor::{Log, RunSink, logged, remove};
use crate::layout::{DeviceRole, DeviceSpec, Layout};
use crate::{backing, context::RunContext, guest_programs, work::make_inputs};
use fsarena_fs::lifecycle::{self, Devices, VariantOptions};
use fsarena_fs::{def::FsDef, grammar, safety::ScratchDevice};
use fsarena_guest::{config::Stack, stripes};
use fsarena_sys::image::{self, Image};
use fsarena_sys::undo::{Journal, MadeDir};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// All images of a run.
pub struct Images {
    // Dropped in this order: the images and the files of guests, then their directory.
    /// The image that mkfs formats. For an array its contents are then spread over the images of the members.
    pub whole: ScratchDevice,
    further: BTreeMap<DeviceSpec, ScratchDevice>,
    /// The image of the source disk.
    pub other: ScratchDevice,
    /// The directory for the files that guests boot with, removed with its contents.
    pub guests: MadeDir,
    /// The directory of the images.
    pub dir: MadeDir,
}

impl Images {
    /// Makes the images, and the inputs that all cells share.
    ///
    /// # Errors
    /// If there is not enough space, or a command fails.
    pub fn make(run: &RunContext, dir: &Path, emit: RunSink) -> Result<Images> {
        let RunContext { check, journal, .. } = run;
        let dir = MadeDir::make(journal, dir)?;
        let guests = MadeDir::make_tree(journal, &dir.path().join("guests"))?;
        let file = |name: &str, size| -> Result<ScratchDevice> {
            Ok(ScratchDevice::from_image(image::create(journal, &dir.path().join(name), size, false)?))
        };
        let whole = file("test.img", check.size_bytes)?;
        let mut further = BTreeMap::new();
        for spec in check.devices.iter().filter(|spec| spec.role != DeviceRole::Whole) {
            further.insert(*spec, file(&spec.image(), spec.bytes)?);
        }
        let other = file("other.img", check.other_bytes)?;
        let inputs = MadeDir::make_tree(journal, &guests.path().join("inputs"))?;
        fill_source_disk(run, &other, inputs.path(), emit)?;
        inputs.remove()?;
        Ok(Images { dir, guests, whole, further, other })
    }

    /// The image of a variant's journal, if the journal is separate.
    pub fn journal(&self, layout: &Layout) -> Option<&ScratchDevice> {
        self.further.get(layout.journal.as_ref()?)
    }

    /// Empties all images of a variant.
    ///
    /// # Errors
    /// If an image cannot be written.
    pub fn clear(&self, layout: &Layout) -> Result<(), fsarena_sys::Error> {
        let further = layout.all().filter_map(|spec| self.further.get(spec));
        let files = std::iter::once(&self.whole).chain(further).filter_map(ScratchDevice::file);
        files.into_iter().try_for_each(Image::clear)
    }

    /// The images that a guest gets as disks for the filesystem under test: `image` itself; for an array the images of its
    /// members, over which the contents of `image` are spread; or those below a stack that the filesystem will be made on.
    ///
    /// # Errors
    /// If the contents cannot be copied to the members.
    pub fn disks(&self, image: &Path, layout: &Layout, stack: &Stack) -> Result<Vec<PathBuf>> {
        if stack.array.is_none() && stack.links.is_empty() {
            return Ok(vec![image.to_path_buf()]);
        }
        let members = layout.members.iter().filter_map(|spec| self.further.get(spec));
        let paths: Vec<&Path> = members.map(ScratchDevice::path).collect();
        if let Some(array) = stack.array.filter(|_| stack.links.is_empty()) {
            stripes::spread(image, &paths, array)?;
        }
        Ok(paths.into_iter().map(Path::to_path_buf).collect())
    }

    /// Removes the images and their directories.
    ///
    /// # Errors
    /// If one cannot be removed; it stays in the undo journal.
    pub fn finish(self, emit: RunSink) -> Result<()> {
        let Images { whole, further, other, guests, dir } = self;
        for device in std::iter::once(whole).chain(further.into_values()).chain([other]) {
            logged(emit, |log| device.release(log))??;
        }
        [guests, dir].into_iter().try_for_each(|dir| remove(dir, emit))
    }
}

/// Makes the filesystem of the source disk: makes its inputs in the directory `dir`, which mkfs then copies into the image.
fn fill_source_disk(run: &RunContext, other: &ScratchDevice, dir: &Path, emit: RunSink) -> Result<()> {
    let RunContext { plan, check, .. } = run;
    make_inputs(plan, dir)?;
    let packed = check.guest_programs.iter().map(String::as_str);
    logged(emit, |log| guest_programs::pack(packed, dir, log))??;
    guest_programs::pack_file(Path::new("/etc/mke2fs.conf"), dir)?;
    if let Some(programs) = &check.host_programs {
        host_programs::stage(run, &programs.copies, dir, emit)?;
    }
    let (def, mut options) = backing::source_filesystem(&plan.device)?;
    // Initialise everything now, because cells would wait for lazy initialisation. Pin random values, because every cell
    // reads the directories and the values determine the order of their entries.
    options.mkfs.extend(["-E".to_string(), "lazy_itable_init=0,lazy_journal_init=0".to_string()]);
    grammar::pin_random_values(def, &mut options.mkfs);
    options.contents = Some(dir.into());
    logged(emit, |log| lifecycle::format(other, def, &options, log))??;
    Ok(())
}

/// Formats a filesystem. Returns a description (the command and the features of the filesystem), and the features alone.
///
/// # Errors
/// If mkfs fails.
pub fn format(
    devices: &Devices,
    def: &FsDef,
    options: &VariantOptions,
    log: Log,
) -> Result<(String, String)> {
    let argv = lifecycle::format(devices.clone(), def, options, log)?.argv.join(" ");
    let features = lifecycle::describe(devices.members[0], def, log).unwrap_or_default();
    let description = if features.is_empty() { argv } else { format!("{argv}: {features}") };
    Ok((description, features))
}

/// An image with a new filesystem that nothing has mounted.
#[derive(Debug)]
pub struct FormattedImage {
    /// The image.
    pub device: ScratchDevice,
    /// The command that made the filesystem, and its features as its own tool prints them.
    pub description: String,
    /// The features alone.
    pub features: String,
}

/// A cache of formatted images, by the filesystem and the arguments of mkfs. Nothing writes to the images: every guest
/// gets a copy.
#[derive(Debug)]
pub struct FormatCache {
    dir: PathBuf,
    size_bytes: u64,
    journal: Journal,
    made: BTreeMap<(&'static str, Vec<String>), FormattedImage>,
}

impl FormatCache {
    /// An empty cache. Its images will have this size and lie in this directory.
    pub fn new(dir: &Path, size_bytes: u64, journal: &Journal) -> FormatCache {
        FormatCache { dir: dir.into(), size_bytes, journal: journal.clone(), made: BTreeMap::new() }
    }

    /// Returns the image of a filesystem with these options; formats it if it is missing. Values that mkfs would choose at
    /// random are pinned, so that the directories of all variants and runs have the same order.
    ///
    /// # Errors
    /// If mkfs fails.
    pub fn get(
        &mut self,
        def: &'static FsDef,
        options: &VariantOptions,
        log: Log,
    ) -> Result<&FormattedImage> {
        let mut options = options.clone();
        grammar::pin_random_values(def, &mut options.mkfs);
        let key = (def.id, options.mkfs.clone());
        if !self.made.contains_key(&key) {
            let path = self.dir.join(format!("{}-{}.img", def.id, self.made.len()));
            let device =
                ScratchDevice::from_image(image::create(&self.journal, &path, self.size_bytes, false)?);
            let (description, features) = format(&(&device).into(), def, &options, log)?;
            self.made.insert(key.clone(), FormattedImage { device, description, features });
        }
        Ok(&self.made[&key])
    }

    /// Removes the images.
    ///
    /// # Errors
    /// If an image is still in use; it stays in the undo journal.
    pub fn release(self, log: Log) -> Result<()> {
        Ok(self.made.into_values().try_for_each(|made| made.device.release(log))?)
    }
}
