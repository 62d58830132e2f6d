//! The image files of a run in guests: the filesystem under test, the members of arrays, journals, the source disk.

use crate::executor::{Result, Tell, logged, remove};
use crate::layout::{Layout, Role, Wanted};
use crate::{preflight::Check, recovery, source_disk, work::inputs};
use fsarena_core::plan::Plan;
use fsarena_fs::{lifecycle, safety::ScratchDevice};
use fsarena_guest::{config::Array, stripes};
use fsarena_sys::image::{self, Image};
use fsarena_sys::undo::{Journal, MadeDir};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// All images of a run.
pub struct Images {
    // Dropped in this order: the images and the files of guests, then their directory.
    /// The image that mkfs formats, whatever carries it then.
    pub whole: ScratchDevice,
    further: BTreeMap<Wanted, ScratchDevice>,
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
    pub fn make(plan: &Plan, check: &Check, journal: &Journal, dir: &Path, tell: Tell) -> Result<Images> {
        let dir = MadeDir::make(journal, dir)?;
        let guests = MadeDir::make_tree(journal, &dir.path().join("guests"))?;
        let file = |name: &str, size| -> Result<ScratchDevice> {
            Ok(ScratchDevice::from_image(image::create(journal, &dir.path().join(name), size, false)?))
        };
        let whole = file("test.img", check.size_bytes)?;
        let wanted = check.devices.iter().filter(|wanted| wanted.role != Role::Whole);
        let further = wanted.map(|wanted| Ok((*wanted, file(&wanted.image(), wanted.bytes)?)));
        let further = further.collect::<Result<_>>()?;
        let other = file("other.img", check.other_bytes)?;
        let inputs = MadeDir::make_tree(journal, &guests.path().join("inputs"))?;
        fill(plan, &other, inputs.path(), tell)?;
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

    /// The images that carry a filesystem, for a guest: its own, or the members of an array that it is spread over.
    ///
    /// # Errors
    /// Where it cannot be spread.
    pub fn disks(&self, image: &Path, layout: &Layout, array: Option<Array>) -> Result<Vec<PathBuf>> {
        let Some(array) = array else { return Ok(vec![image.to_path_buf()]) };
        let members = layout.members.iter().filter_map(|wanted| self.further.get(wanted));
        let paths: Vec<&Path> = members.map(ScratchDevice::path).collect();
        stripes::spread(image, &paths, array)?;
        Ok(paths.into_iter().map(Path::to_path_buf).collect())
    }

    /// Removes them.
    ///
    /// # Errors
    /// Where one cannot be removed; it stays in the undo journal.
    pub fn finish(self, tell: Tell) -> Result<()> {
        let Images { whole, further, other, guests, dir } = self;
        for device in std::iter::once(whole).chain(further.into_values()).chain([other]) {
            logged(tell, |log| device.release(log))??;
        }
        [guests, dir].into_iter().try_for_each(|dir| remove(dir, tell))
    }
}

/// The source disk: its inputs are made in a directory, which mkfs then copies into the image.
fn fill(plan: &Plan, other: &ScratchDevice, dir: &Path, tell: Tell) -> Result<()> {
    inputs(plan, dir)?;
    logged(tell, |log| recovery::pack(plan, dir, log))??;
    let (def, mut options) = source_disk::filesystem(&plan.device)?;
    // Nothing is left to initialise, which cells would wait for. Its directories are read by every cell, so their order
    // is part of the work.
    options.mkfs.extend(["-E".to_string(), "lazy_itable_init=0,lazy_journal_init=0".to_string()]);
    fsarena_fs::grammar::pin_random_values(def, &mut options.mkfs);
    options.contents = Some(dir.into());
    logged(tell, |log| lifecycle::format(other, def, &options, log))??;
    Ok(())
}
