//! The image files of a run in guests: for the filesystem under test, the members of arrays, journals and the source disk.

use super::host_programs;
use crate::checkpoint::Checkpoint;
use crate::context::RunContext;
use crate::device_layout::{DeviceLayout, DeviceRole, DeviceSpec};
use crate::error::Result;
use crate::executor::{Log, RunSink, remove_run_dir, with_log};
use crate::packed::PackedFilesystems;
use crate::protocol::COPIES_DIR;
use crate::{backing, packed_programs, work::DrawnInputs, work::make_inputs};
use fsarena_core::cell::{Cell, CellId};
use fsarena_core::plan::{Backing, Emulator, Plan};
use fsarena_fs::{grammar, lifecycle, safety::ScratchDevice};
use fsarena_guest::{config::StackConfig, stripes};
use fsarena_sys::image::{self, Image};
use fsarena_sys::undo::MadeDir;
use fsarena_sys::{Error, argv::Argv, dirs};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// The size of the disk of ageing guests is a multiple of this, in bytes.
const STAGE_STEP: u64 = 64 << 20;

/// All images of a run.
pub struct Images {
    // Dropped in this order: the images and the files of guests, then their directory.
    /// The image that mkfs formats. For an array its contents are then spread over the images of the members.
    pub mkfs_image: Rc<ScratchDevice>,
    /// The images of cells, in an aged run in which each cell has its own: those of cells whose guests may still run.
    cell_images: BTreeMap<CellId, ScratchDevice>,
    /// The images of the other devices: members of arrays, journals, and devices below a stack.
    other_images: BTreeMap<DeviceSpec, ScratchDevice>,
    /// The image of the source disk.
    source_disk: ScratchDevice,
    /// The source disks by round, if each round draws its inputs: those of rounds whose guests may still run.
    source_disks_by_round: BTreeMap<u32, ScratchDevice>,
    /// The files of the source disk, if rounds draw some of them.
    inputs: Option<(MadeDir, DrawnInputs)>,
    /// The read-only filesystems of the run, if there are any.
    pub packed: Option<PackedFilesystems>,
    /// The directory for the files that guests boot with, removed with its contents.
    pub guest_files: MadeDir,
    /// The directory of the images.
    pub dir: MadeDir,
}

impl Images {
    /// Makes the images, and the inputs that all cells share.
    ///
    /// # Errors
    /// There is not enough space, or a command fails.
    pub fn make(run: &RunContext, dir: &Path, emit: RunSink) -> Result<Images> {
        let RunContext { requirements, journal, .. } = run;
        let dir = MadeDir::make(journal, dir)?;
        let guest_files = MadeDir::make_tree(journal, &dir.path().join("guests"))?;
        let file = |name: &str, size| -> Result<ScratchDevice> {
            Ok(ScratchDevice::from_image(image::create(journal, &dir.path().join(name), size, false)?))
        };
        let mkfs_image = Rc::new(file("test.img", requirements.size_bytes)?);
        let mut other_images = BTreeMap::new();
        for spec in requirements.devices.iter().filter(|spec| spec.role != DeviceRole::Whole) {
            other_images.insert(*spec, file(&spec.image_name(), spec.bytes)?);
        }
        let source_disk = file("other.img", requirements.source_disk_bytes)?;
        let inputs = MadeDir::make_tree(journal, &guest_files.path().join("inputs"))?;
        make_source_disk(run, &source_disk, inputs.path(), emit)?;
        let role = run.agent_config.role.as_root();
        let packed = PackedFilesystems::make(run, role, &dir.path().join("packed"), inputs.path(), emit)?;
        let inputs = if DrawnInputs::has_any(&run.plan)? {
            Some((inputs, DrawnInputs::default()))
        } else {
            inputs.remove()?;
            None
        };
        let (cell_images, source_disks_by_round) = Default::default();
        Ok(Images {
            dir,
            guest_files,
            mkfs_image,
            cell_images,
            other_images,
            source_disk,
            source_disks_by_round,
            inputs,
            packed,
        })
    }

    /// The image of the source disk for the guest of a cell, with the inputs of its round. Guests that count instructions may
    /// run before the turns of their cells, so each round has an image; for other guests it is made again.
    ///
    /// # Errors
    /// There is not enough space, or the inputs cannot be made.
    pub fn source_disk_of(&mut self, run: &RunContext, cell: &Cell, log: Log) -> Result<&Path> {
        let Some((inputs, drawn)) = &mut self.inputs else { return Ok(self.source_disk.path()) };
        let guest_counts =
            matches!(&run.plan.device.backing, Backing::Guest(guest) if guest.emulator == Emulator::Exact);
        if !guest_counts {
            if drawn.draw(&run.plan, cell, inputs.path())? {
                self.source_disk.file().map_or(Ok(()), Image::clear)?;
                format_source_disk(&run.plan, &self.source_disk, inputs.path(), log)?;
            }
            return Ok(self.source_disk.path());
        }
        if !self.source_disks_by_round.contains_key(&cell.round) {
            drawn.draw(&run.plan, cell, inputs.path())?;
            let path = self.dir.path().join(format!("other-{}.img", cell.round + 1));
            let image = image::create(&run.journal, &path, run.requirements.source_disk_bytes, false)?;
            let device = ScratchDevice::from_image(image);
            format_source_disk(&run.plan, &device, inputs.path(), log)?;
            self.source_disks_by_round.insert(cell.round, device);
        }
        Ok(self.source_disks_by_round[&cell.round].path())
    }

    /// Removes the source disks of rounds before this one.
    ///
    /// # Errors
    /// A disk cannot be removed; it stays in the undo journal.
    pub fn remove_source_disks_before(&mut self, round: u32, log: Log) -> Result<()> {
        let of_later = self.source_disks_by_round.split_off(&round);
        for device in std::mem::replace(&mut self.source_disks_by_round, of_later).into_values() {
            device.release(log)?;
        }
        Ok(())
    }

    /// The image of a cell that has its own, with the content of a checkpoint.
    ///
    /// # Errors
    /// There is not enough space.
    pub fn cell_image(&mut self, run: &RunContext, cell: &Cell, saved: &Checkpoint) -> Result<PathBuf> {
        let id = cell.id();
        if !self.cell_images.contains_key(&id) {
            let path = self.dir.path().join(format!("aged-{id}.img"));
            let image = image::create(&run.journal, &path, run.requirements.size_bytes, false)?;
            let device = ScratchDevice::from_image(image);
            saved.restore(&(&device).into())?;
            self.cell_images.insert(id.clone(), device);
        }
        Ok(self.cell_images[&id].path().into())
    }

    /// Removes the image of a cell that has its own, once its guest has ended.
    ///
    /// # Errors
    /// The disk cannot be removed; it stays in the undo journal.
    pub fn remove_cell_image(&mut self, cell: &Cell, log: Log) -> Result<()> {
        match self.cell_images.remove(&cell.id()) {
            Some(device) => Ok(device.release(log)?),
            None => Ok(()),
        }
    }

    /// Makes a disk that guests which age filesystems keep copies of trees and histories on, with the programs that they need and
    /// with copies of these files of this machine. It grows as it is written.
    ///
    /// # Errors
    /// A file cannot be copied, or mkfs fails.
    pub fn make_stage_disk(&self, run: &RunContext, copies: &[PathBuf], log: Log) -> Result<ScratchDevice> {
        let RunContext { plan, requirements, journal, .. } = run;
        let files = MadeDir::make_tree(journal, &self.guest_files.path().join("stage"))?;
        packed_programs::pack_programs(requirements.packed_programs.iter().map(String::as_str), files.path(), log)?;
        packed_programs::pack_file(Path::new("/etc/mke2fs.conf"), files.path())?;
        for path in copies {
            let copy = files.path().join(COPIES_DIR).join(path.strip_prefix("/").unwrap_or(path));
            let parent = copy.parent().unwrap_or(files.path());
            dirs::make_dirs(parent).map_err(Error::io("making", parent))?;
            let copied = Argv::new("cp").args(["-a", "--"]).arg(path).arg(&copy).run_checked(log);
            copied.map_err(Error::from)?;
        }
        run.agent_config.role.give_to_workload_user(files.path())?;
        let bytes = (requirements.size_bytes + requirements.size_bytes / 2).next_multiple_of(STAGE_STEP);
        let image = image::create_sparse(journal, &self.dir.path().join("stage.img"), bytes)?;
        let device = ScratchDevice::from_image(image);
        format_source_disk(plan, &device, files.path(), log)?;
        files.remove()?;
        Ok(device)
    }

    /// The image of a variant's journal, if the journal is separate.
    pub fn journal(&self, layout: &DeviceLayout) -> Option<&ScratchDevice> {
        self.other_images.get(layout.journal.as_ref()?)
    }

    /// Empties all images of a variant.
    ///
    /// # Errors
    /// An image cannot be written.
    pub fn clear(&self, layout: &DeviceLayout) -> Result<(), fsarena_sys::Error> {
        let other_images = layout.devices().filter_map(|spec| self.other_images.get(spec));
        let files = std::iter::once(&*self.mkfs_image).chain(other_images).filter_map(ScratchDevice::file);
        files.into_iter().try_for_each(Image::clear)
    }

    /// The images that a guest gets as disks for the filesystem under test: `image` itself; for an array the images of its
    /// members, over which the contents of `image` are spread; or those below a stack that the filesystem will be made on.
    ///
    /// # Errors
    /// The contents cannot be copied to the members.
    pub fn disks(&self, image: &Path, layout: &DeviceLayout, stack: &StackConfig) -> Result<Vec<PathBuf>> {
        if stack.array.is_none() && stack.links.is_empty() {
            return Ok(vec![image.to_path_buf()]);
        }
        let members = layout.members.iter().filter_map(|spec| self.other_images.get(spec));
        let paths: Vec<&Path> = members.map(ScratchDevice::path).collect();
        if let Some(array) = stack.array.filter(|_| stack.links.is_empty()) {
            stripes::spread_over_members(image, &paths, array)?;
        }
        Ok(paths.into_iter().map(Path::to_path_buf).collect())
    }

    /// Removes the images and their directories.
    ///
    /// # Errors
    /// A disk cannot be removed; it stays in the undo journal.
    pub fn finish(self, emit: RunSink) -> Result<()> {
        let Images {
            mkfs_image,
            cell_images,
            other_images,
            source_disk,
            source_disks_by_round,
            inputs,
            guest_files,
            dir,
            packed,
        } = self;
        if let Some(packed) = packed {
            packed.finish(emit)?;
        }
        let other_images =
            other_images.into_values().chain(source_disks_by_round.into_values()).chain(cell_images.into_values());
        for device in Rc::into_inner(mkfs_image).into_iter().chain(other_images).chain([source_disk]) {
            with_log(emit, |log| device.release(log))??;
        }
        inputs.map(|(dir, _)| dir).into_iter().chain([guest_files, dir]).try_for_each(|dir| remove_run_dir(dir, emit))
    }
}

/// Makes the filesystem of the source disk: makes its inputs in the directory `dir`, which mkfs then copies into the image.
fn make_source_disk(run: &RunContext, source_disk: &ScratchDevice, dir: &Path, emit: RunSink) -> Result<()> {
    let RunContext { plan, requirements, .. } = run;
    make_inputs(plan, dir)?;
    let packed = requirements.packed_programs.iter().map(String::as_str);
    with_log(emit, |log| packed_programs::pack_programs(packed, dir, log))??;
    packed_programs::pack_file(Path::new("/etc/mke2fs.conf"), dir)?;
    if let Some(programs) = &requirements.host_programs {
        host_programs::fill_source_dir(run, &programs.copies, dir, emit)?;
    }
    with_log(emit, |log| format_source_disk(plan, source_disk, dir, log))?
}

/// Makes the filesystem of the source disk with the files of a directory.
fn format_source_disk(plan: &Plan, source_disk: &ScratchDevice, dir: &Path, log: Log) -> Result<()> {
    let (def, mut options) = backing::source_filesystem(&plan.device)?;
    // Initialise everything now, because cells would wait for lazy initialisation. Pin random values, because every cell
    // reads the directories and the values determine the order of their entries.
    options.mkfs.extend(["-E".to_string(), "lazy_itable_init=0,lazy_journal_init=0".to_string()]);
    grammar::pin_random_values(def, &mut options.mkfs);
    options.contents = Some(dir.into());
    lifecycle::format(source_disk, def, &options, log)?;
    Ok(())
}
