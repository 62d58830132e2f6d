//! The image files of a run in guests: the filesystem under test, the members of arrays, journals, the source disk; and
//! the filesystems that are formatted once and only copied.

use crate::error::Result;
use crate::executor::{Log, RunSink, logged, remove};
use crate::layout::{DeviceRole, DeviceSpec, Layout};
use crate::{backing, guest_programs, preflight::Check, work::inputs};
use fsarena_core::plan::Plan;
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
    /// The image that mkfs formats, whatever carries it then.
    pub whole: ScratchDevice,
    further: BTreeMap<DeviceSpec, ScratchDevice>,
    /// The image of the source disk.
    pub other: ScratchDevice,
    /// A directory for what guests boot with, which goes with all in it.
    pub guests: MadeDir,
    /// Where they are.
    pub dir: MadeDir,
}

impl Images {
    /// Makes them, and the inputs that all cells share.
    ///
    /// # Errors
    /// If there is not enough room, or a command fails.
    pub fn make(plan: &Plan, check: &Check, journal: &Journal, dir: &Path, tell: RunSink) -> Result<Images> {
        let dir = MadeDir::make(journal, dir)?;
        let guests = MadeDir::make_tree(journal, &dir.path().join("guests"))?;
        let file = |name: &str, size| -> Result<ScratchDevice> {
            Ok(ScratchDevice::from_image(image::create(journal, &dir.path().join(name), size, false)?))
        };
        let whole = file("test.img", check.size_bytes)?;
        let wanted = check.devices.iter().filter(|wanted| wanted.role != DeviceRole::Whole);
        let further = wanted.map(|wanted| Ok((*wanted, file(&wanted.image(), wanted.bytes)?)));
        let further = further.collect::<Result<_>>()?;
        let other = file("other.img", check.other_bytes)?;
        let inputs = MadeDir::make_tree(journal, &guests.path().join("inputs"))?;
        fill(plan, &check.guest_programs, &other, inputs.path(), tell)?;
        inputs.remove()?;
        Ok(Images { dir, guests, whole, further, other })
    }

    /// The image of a variant's journal, where that lies apart.
    pub fn journal(&self, layout: &Layout) -> Option<&ScratchDevice> {
        self.further.get(layout.journal.as_ref()?)
    }

    /// Makes all that a variant lies on as it was when it was new.
    ///
    /// # Errors
    /// Where an image cannot be written.
    pub fn clear(&self, layout: &Layout) -> Result<(), fsarena_sys::Error> {
        let further = layout.all().filter_map(|wanted| self.further.get(wanted));
        let files = std::iter::once(&self.whole).chain(further).filter_map(ScratchDevice::file);
        files.into_iter().try_for_each(Image::clear)
    }

    /// The images that carry a filesystem, for a guest: its own, the members of an array that it is spread over, or those below
    /// a stack that it will be made on.
    ///
    /// # Errors
    /// Where it cannot be spread.
    pub fn disks(&self, image: &Path, layout: &Layout, stack: &Stack) -> Result<Vec<PathBuf>> {
        if stack.array.is_none() && stack.links.is_empty() {
            return Ok(vec![image.to_path_buf()]);
        }
        let members = layout.members.iter().filter_map(|wanted| self.further.get(wanted));
        let paths: Vec<&Path> = members.map(ScratchDevice::path).collect();
        if let Some(array) = stack.array.filter(|_| stack.links.is_empty()) {
            stripes::spread(image, &paths, array)?;
        }
        Ok(paths.into_iter().map(Path::to_path_buf).collect())
    }

    /// Removes them.
    ///
    /// # Errors
    /// Where one cannot be removed; it stays in the undo journal.
    pub fn finish(self, tell: RunSink) -> Result<()> {
        let Images { whole, further, other, guests, dir } = self;
        for device in std::iter::once(whole).chain(further.into_values()).chain([other]) {
            logged(tell, |log| device.release(log))??;
        }
        [guests, dir].into_iter().try_for_each(|dir| remove(dir, tell))
    }
}

/// The source disk: its inputs are made in a directory, which mkfs then copies into the image.
fn fill(plan: &Plan, programs: &[String], other: &ScratchDevice, dir: &Path, tell: RunSink) -> Result<()> {
    inputs(plan, dir)?;
    logged(tell, |log| guest_programs::pack(programs.iter().map(String::as_str), dir, log))??;
    guest_programs::pack_file(Path::new("/etc/mke2fs.conf"), dir)?;
    let (def, mut options) = backing::source_filesystem(&plan.device)?;
    // Nothing is left to initialise, which cells would wait for. Its directories are read by every cell, so their order
    // is part of the work.
    options.mkfs.extend(["-E".to_string(), "lazy_itable_init=0,lazy_journal_init=0".to_string()]);
    grammar::pin_random_values(def, &mut options.mkfs);
    options.contents = Some(dir.into());
    logged(tell, |log| lifecycle::format(other, def, &options, log))??;
    Ok(())
}

/// Formats a filesystem. Returns the command with the features of the filesystem, and the features alone.
///
/// # Errors
/// Where mkfs fails.
pub fn format(
    devices: &Devices,
    def: &FsDef,
    options: &VariantOptions,
    log: Log,
) -> Result<(String, String)> {
    let argv = lifecycle::format(devices.clone(), def, options, log)?.argv.join(" ");
    let features = lifecycle::describe(devices.members[0], def, log).unwrap_or_default();
    let said = if features.is_empty() { argv } else { format!("{argv}: {features}") };
    Ok((said, features))
}

/// A filesystem as mkfs left it.
#[derive(Debug)]
pub struct FormattedImage {
    /// Its image.
    pub device: ScratchDevice,
    /// The command that made it, and its features as its own tool names them.
    pub said: String,
    /// Its features alone.
    pub features: String,
}

/// The filesystems that were formatted, by their names and the arguments of mkfs. Nothing writes to them: every guest gets
/// a copy.
#[derive(Debug)]
pub struct FormatCache {
    dir: PathBuf,
    size_bytes: u64,
    journal: Journal,
    made: BTreeMap<(&'static str, Vec<String>), FormattedImage>,
}

impl FormatCache {
    /// An empty cache, whose images have this size and go into this directory.
    pub fn new(dir: &Path, size_bytes: u64, journal: &Journal) -> FormatCache {
        FormatCache { dir: dir.into(), size_bytes, journal: journal.clone(), made: BTreeMap::new() }
    }

    /// The filesystem with these options; formats it if it is missing. What mkfs would choose at random is fixed, so that
    /// variants and runs have the same directories.
    ///
    /// # Errors
    /// Where mkfs fails.
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
            let (said, features) = format(&(&device).into(), def, &options, log)?;
            self.made.insert(key.clone(), FormattedImage { device, said, features });
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
