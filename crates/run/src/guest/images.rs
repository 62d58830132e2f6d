//! The image files of a run in guests: for the filesystem under test, the members of arrays, journals and the source disk.

use super::host_programs;
use crate::context::RunContext;
use crate::error::Result;
use crate::executor::{RunSink, logged, remove};
use crate::layout::{DeviceRole, DeviceSpec, Layout};
use crate::packed::Packed;
use crate::{backing, guest_programs, work::make_inputs};
use fsarena_fs::{grammar, lifecycle, safety::ScratchDevice};
use fsarena_guest::{config::Stack, stripes};
use fsarena_sys::image::{self, Image};
use fsarena_sys::undo::MadeDir;
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
    /// The read-only filesystems of the run, if there are any.
    pub packed: Option<Packed>,
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
        let role = run.agents.role.as_root();
        let packed = Packed::make(run, role, &dir.path().join("packed"), inputs.path(), emit)?;
        inputs.remove()?;
        Ok(Images { dir, guests, whole, further, other, packed })
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
        let Images { whole, further, other, guests, dir, packed } = self;
        if let Some(packed) = packed {
            packed.finish(emit)?;
        }
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
