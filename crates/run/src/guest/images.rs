//! The image files of a run in guests: for the filesystem under test, the members of arrays, journals and the source
//! disk.

use super::host_programs;
use crate::checkpoint::Checkpoint;
use crate::context::RunContext;
use crate::device_layout::{DeviceLayout, DeviceRole, DeviceSpec};
use crate::error::Result;
use crate::executor::{CommandLog, RunSink, emit_logged_commands, remove_run_dir};
use crate::packed_filesystems::PackedFilesystems;
use crate::work::{DrawnInputsState, has_drawn_inputs, make_inputs};
use crate::{backing, packed_programs};
use fsarena_core::cell::{Cell, CellId};
use fsarena_core::plan::Plan;
use fsarena_fs::{grammar, lifecycle, safety::ScratchDevice};
use fsarena_guest::{array_members, config::StackConfig};
use fsarena_sys::image::{self, Image};
use fsarena_sys::undo::MadeDir;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// The size of the stage disk is a multiple of this, in bytes.
const STAGE_DISK_STEP_BYTES: u64 = 64 << 20;

/// All images of a run.
pub struct Images {
    // The fields are dropped in this order: the images and the files of guests, then their directory.
    /// The image on which mkfs makes the filesystem. For an array, the contents are then spread over the images of the
    /// members.
    pub mkfs_image: Rc<ScratchDevice>,
    /// The images of single cells, in a run with aged filesystems whose guests count instructions. Only cells whose
    /// guests may still run have one.
    cell_images: BTreeMap<CellId, ScratchDevice>,
    /// The images of the other devices: members of arrays, journals, and devices below a stack.
    other_images: BTreeMap<DeviceSpec, ScratchDevice>,
    /// The image of the source disk.
    source_disk: ScratchDevice,
    /// The source disks by round, if each round draws its inputs and guests count instructions. Only rounds whose
    /// guests may still run have one.
    source_disks_by_round: BTreeMap<u32, ScratchDevice>,
    /// The directory with the files of the source disk, and the inputs drawn last; None if no workload draws its
    /// inputs.
    inputs: Option<(MadeDir, DrawnInputsState)>,
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
        let make_image = |name: &str, size_bytes| make_image(run, &dir.path().join(name), size_bytes);
        let mkfs_image = Rc::new(make_image("test.img", requirements.size_bytes)?);
        let mut other_images = BTreeMap::new();
        for spec in requirements.devices.iter().filter(|spec| spec.role != DeviceRole::Whole) {
            other_images.insert(*spec, make_image(&spec.image_name(), spec.bytes)?);
        }
        let source_disk = make_image("other.img", requirements.source_disk_bytes)?;
        let inputs = MadeDir::make_tree(journal, &guest_files.path().join("inputs"))?;
        make_source_disk(run, &source_disk, inputs.path(), emit)?;
        let role = run.agent_config.role.as_root();
        let packed = PackedFilesystems::make(run, role, &dir.path().join("packed"), inputs.path(), emit)?;
        let inputs = if has_drawn_inputs(&run.plan)? {
            Some((inputs, DrawnInputsState::default()))
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

    /// Prepares the image of the source disk for the guest of a cell, with the inputs of its round, and returns its path.
    /// Guests that count instructions can begin before the turns of their cells, so each round gets a separate image.
    /// For other guests, the image is made again in each round.
    ///
    /// # Errors
    /// There is not enough space, or the inputs cannot be made.
    pub fn prepare_source_disk(&mut self, run: &RunContext, cell: &Cell, log: CommandLog) -> Result<&Path> {
        let Some((inputs, drawn)) = &mut self.inputs else { return Ok(self.source_disk.path()) };
        if !run.plan.device.backing.counts_instructions() {
            if drawn.draw(&run.plan, cell, inputs.path())? {
                self.source_disk.file().map_or(Ok(()), Image::clear)?;
                format_source_disk(&run.plan, &self.source_disk, inputs.path(), log)?;
            }
            return Ok(self.source_disk.path());
        }
        if !self.source_disks_by_round.contains_key(&cell.round) {
            drawn.draw(&run.plan, cell, inputs.path())?;
            let path = self.dir.path().join(format!("other-{}.img", cell.round + 1));
            let device = make_image(run, &path, run.requirements.source_disk_bytes)?;
            format_source_disk(&run.plan, &device, inputs.path(), log)?;
            self.source_disks_by_round.insert(cell.round, device);
        }
        Ok(self.source_disks_by_round[&cell.round].path())
    }

    /// Removes the source disks of rounds before this one.
    ///
    /// # Errors
    /// A disk cannot be removed; it stays in the undo journal.
    pub fn remove_source_disks_before(&mut self, round: u32, log: CommandLog) -> Result<()> {
        let later_rounds = self.source_disks_by_round.split_off(&round);
        for device in std::mem::replace(&mut self.source_disks_by_round, later_rounds).into_values() {
            device.release(log)?;
        }
        Ok(())
    }

    /// Prepares the separate image of a cell, and returns its path. Makes it from a checkpoint if it is missing.
    ///
    /// # Errors
    /// There is not enough space.
    pub fn prepare_cell_image(&mut self, run: &RunContext, cell: &Cell, checkpoint: &Checkpoint) -> Result<PathBuf> {
        let id = cell.id();
        if !self.cell_images.contains_key(&id) {
            let path = self.dir.path().join(format!("aged-{id}.img"));
            let device = make_image(run, &path, run.requirements.size_bytes)?;
            checkpoint.restore(&(&device).into())?;
            self.cell_images.insert(id.clone(), device);
        }
        Ok(self.cell_images[&id].path().into())
    }

    /// Removes the separate image of a cell whose guest has ended, if it has one.
    ///
    /// # Errors
    /// The disk cannot be removed; it stays in the undo journal.
    pub fn remove_cell_image(&mut self, cell: &Cell, log: CommandLog) -> Result<()> {
        match self.cell_images.remove(&cell.id()) {
            Some(device) => Ok(device.release(log)?),
            None => Ok(()),
        }
    }

    /// Makes the stage disk, on which guests that age filesystems keep copies of trees, and what later steps of a
    /// history need. It has the programs that these guests need, and copies of `paths` of this machine. Its
    /// image grows as it is written.
    ///
    /// # Errors
    /// A file cannot be copied, or mkfs fails.
    pub fn make_stage_disk(&self, run: &RunContext, paths: &[PathBuf], log: CommandLog) -> Result<ScratchDevice> {
        let RunContext { plan, requirements, journal, .. } = run;
        let files = MadeDir::make_tree(journal, &self.guest_files.path().join("stage"))?;
        packed_programs::pack_programs(requirements.packed_programs.iter().map(String::as_str), files.path(), log)?;
        packed_programs::pack_file(Path::new("/etc/mke2fs.conf"), files.path())?;
        packed_programs::copy_host_paths(paths, files.path(), log)?;
        run.agent_config.role.give_to_workload_user(files.path())?;
        let bytes = (requirements.size_bytes + requirements.size_bytes / 2).next_multiple_of(STAGE_DISK_STEP_BYTES);
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

    /// Prepares the images that a guest gets as disks for the filesystem under test, and returns their paths. For an
    /// array, these are the images of its members, over which this function spreads the contents of `image`. For links,
    /// they are the images below the links, on which the guest makes the filesystem. Else it is `image` itself.
    ///
    /// # Errors
    /// The contents cannot be copied to the members.
    pub fn prepare_disks(&self, image: &Path, layout: &DeviceLayout, stack: &StackConfig) -> Result<Vec<PathBuf>> {
        if stack.array.is_none() && stack.links.is_empty() {
            return Ok(vec![image.to_path_buf()]);
        }
        let members = layout.members.iter().filter_map(|spec| self.other_images.get(spec));
        let paths: Vec<&Path> = members.map(ScratchDevice::path).collect();
        if let Some(array) = stack.array.filter(|_| stack.links.is_empty()) {
            array_members::spread_over_members(image, &paths, array.mirrored)?;
        }
        Ok(paths.into_iter().map(Path::to_path_buf).collect())
    }

    /// Removes the images and their directories.
    ///
    /// # Errors
    /// A disk cannot be removed; it stays in the undo journal.
    pub fn finish(self, emit: RunSink) -> Result<()> {
        // If something fails, Rust drops the rest in the reverse order of these variables, so `dir` comes last.
        let Images {
            dir,
            guest_files,
            packed,
            inputs,
            source_disks_by_round,
            source_disk,
            other_images,
            cell_images,
            mkfs_image,
        } = self;
        if let Some(packed) = packed {
            packed.finish(emit)?;
        }
        let other_images =
            other_images.into_values().chain(source_disks_by_round.into_values()).chain(cell_images.into_values());
        for device in Rc::into_inner(mkfs_image).into_iter().chain(other_images).chain([source_disk]) {
            emit_logged_commands(emit, |log| device.release(log))??;
        }
        inputs.map(|(dir, _)| dir).into_iter().chain([guest_files, dir]).try_for_each(|dir| remove_run_dir(dir, emit))
    }
}

/// Makes an image of `size_bytes` at `path`.
fn make_image(run: &RunContext, path: &Path, size_bytes: u64) -> Result<ScratchDevice> {
    Ok(ScratchDevice::from_image(image::create(&run.journal, path, size_bytes, false)?))
}

/// Makes the filesystem of the source disk: makes its inputs in the directory `dir`, which mkfs then copies into the
/// image.
fn make_source_disk(run: &RunContext, source_disk: &ScratchDevice, dir: &Path, emit: RunSink) -> Result<()> {
    let RunContext { plan, requirements, .. } = run;
    make_inputs(plan, dir)?;
    let packed = requirements.packed_programs.iter().map(String::as_str);
    emit_logged_commands(emit, |log| packed_programs::pack_programs(packed, dir, log))??;
    packed_programs::pack_file(Path::new("/etc/mke2fs.conf"), dir)?;
    if let Some(programs) = &requirements.host_programs {
        host_programs::fill_source_dir(run, &programs.copied_paths, dir, emit)?;
    }
    emit_logged_commands(emit, |log| format_source_disk(plan, source_disk, dir, log))?
}

/// Makes the filesystem of the source disk with the files of a directory.
fn format_source_disk(plan: &Plan, source_disk: &ScratchDevice, dir: &Path, log: CommandLog) -> Result<()> {
    let (def, mut options) = backing::source_filesystem(&plan.device)?;
    // Initialise everything now, because cells would wait for lazy initialisation. Pin random values, because every
    // cell reads the directories and the values determine the order of their entries.
    options.mkfs.extend(["-E".to_string(), "lazy_itable_init=0,lazy_journal_init=0".to_string()]);
    grammar::pin_random_values(def, &mut options.mkfs);
    options.contents = Some(dir.into());
    lifecycle::format(source_disk, def, &options, log)?;
    Ok(())
}
