//! The image files of a run in guests: for the filesystem under test, the members of arrays, journals and the source disk.

use super::host_programs;
use crate::checkpoint::Saved;
use crate::context::RunContext;
use crate::error::Result;
use crate::executor::{Log, RunSink, logged, remove};
use crate::layout::{DeviceRole, DeviceSpec, Layout};
use crate::packed::Packed;
use crate::protocol::COPIES;
use crate::{backing, packed_programs, work::DrawnInputs, work::make_inputs};
use fsarena_core::cell::{Cell, CellId};
use fsarena_core::plan::{Backing, Emulator, Plan};
use fsarena_fs::{grammar, lifecycle, safety::ScratchDevice};
use fsarena_guest::{config::Stack, stripes};
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
    pub whole: Rc<ScratchDevice>,
    /// The images of the cells of an aged run whose guests may run, where each cell has its own.
    of_cells: BTreeMap<CellId, ScratchDevice>,
    further: BTreeMap<DeviceSpec, ScratchDevice>,
    /// The image of the source disk.
    other: ScratchDevice,
    /// The source disks of the rounds whose guests may run, where each round draws its inputs, by their rounds.
    of_rounds: BTreeMap<u32, ScratchDevice>,
    /// The files of the source disk, if rounds draw some of them.
    inputs: Option<(MadeDir, DrawnInputs)>,
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
    /// There is not enough space, or a command fails.
    pub fn make(run: &RunContext, dir: &Path, emit: RunSink) -> Result<Images> {
        let RunContext { check, journal, .. } = run;
        let dir = MadeDir::make(journal, dir)?;
        let guests = MadeDir::make_tree(journal, &dir.path().join("guests"))?;
        let file = |name: &str, size| -> Result<ScratchDevice> {
            Ok(ScratchDevice::from_image(image::create(journal, &dir.path().join(name), size, false)?))
        };
        let whole = Rc::new(file("test.img", check.size_bytes)?);
        let mut further = BTreeMap::new();
        for spec in check.devices.iter().filter(|spec| spec.role != DeviceRole::Whole) {
            further.insert(*spec, file(&spec.image(), spec.bytes)?);
        }
        let other = file("other.img", check.other_bytes)?;
        let inputs = MadeDir::make_tree(journal, &guests.path().join("inputs"))?;
        fill_source_disk(run, &other, inputs.path(), emit)?;
        let role = run.agents.role.as_root();
        let packed = Packed::make(run, role, &dir.path().join("packed"), inputs.path(), emit)?;
        let inputs = if DrawnInputs::has_any(&run.plan)? {
            Some((inputs, DrawnInputs::default()))
        } else {
            inputs.remove()?;
            None
        };
        let (of_cells, of_rounds) = Default::default();
        Ok(Images { dir, guests, whole, of_cells, further, other, of_rounds, inputs, packed })
    }

    /// The image of the source disk for the guest of a cell, with the inputs of its round. Guests that count instructions may
    /// run before the turns of their cells, so each round has an image; for other guests it is made again.
    ///
    /// # Errors
    /// There is not enough space, or the inputs cannot be made.
    pub fn source_disk(&mut self, run: &RunContext, cell: &Cell, log: Log) -> Result<&Path> {
        let Some((inputs, drawn)) = &mut self.inputs else { return Ok(self.other.path()) };
        let guest_counts =
            matches!(&run.plan.device.backing, Backing::Guest(guest) if guest.emulator == Emulator::Exact);
        if !guest_counts {
            if drawn.draw(&run.plan, cell, inputs.path())? {
                self.other.file().map_or(Ok(()), Image::clear)?;
                format_source_disk(&run.plan, &self.other, inputs.path(), log)?;
            }
            return Ok(self.other.path());
        }
        if !self.of_rounds.contains_key(&cell.round) {
            drawn.draw(&run.plan, cell, inputs.path())?;
            let path = self.dir.path().join(format!("other-{}.img", cell.round + 1));
            let image = image::create(&run.journal, &path, run.check.other_bytes, false)?;
            let device = ScratchDevice::from_image(image);
            format_source_disk(&run.plan, &device, inputs.path(), log)?;
            self.of_rounds.insert(cell.round, device);
        }
        Ok(self.of_rounds[&cell.round].path())
    }

    /// Removes the source disks of rounds before this one.
    ///
    /// # Errors
    /// A disk cannot be removed; it stays in the undo journal.
    pub fn forget_rounds_before(&mut self, round: u32, log: Log) -> Result<()> {
        let of_later = self.of_rounds.split_off(&round);
        for device in std::mem::replace(&mut self.of_rounds, of_later).into_values() {
            device.release(log)?;
        }
        Ok(())
    }

    /// The image of a cell that has its own, with the content of a checkpoint.
    ///
    /// # Errors
    /// There is not enough space.
    pub fn of_cell(&mut self, run: &RunContext, cell: &Cell, saved: &Saved) -> Result<PathBuf> {
        let id = cell.id();
        if !self.of_cells.contains_key(&id) {
            let path = self.dir.path().join(format!("aged-{id}.img"));
            let image = image::create(&run.journal, &path, run.check.size_bytes, false)?;
            let device = ScratchDevice::from_image(image);
            saved.restore(&(&device).into())?;
            self.of_cells.insert(id.clone(), device);
        }
        Ok(self.of_cells[&id].path().into())
    }

    /// Removes the image of a cell that has its own, once its guest has ended.
    ///
    /// # Errors
    /// The disk cannot be removed; it stays in the undo journal.
    pub fn forget_cell(&mut self, cell: &Cell, log: Log) -> Result<()> {
        match self.of_cells.remove(&cell.id()) {
            Some(device) => Ok(device.release(log)?),
            None => Ok(()),
        }
    }

    /// Makes a disk that guests which age filesystems keep copies of trees and histories on, with the programs that they need and
    /// with copies of these files of this machine. It grows as it is written.
    ///
    /// # Errors
    /// A file cannot be copied, or mkfs fails.
    pub fn make_stage(&self, run: &RunContext, copies: &[PathBuf], log: Log) -> Result<ScratchDevice> {
        let RunContext { plan, check, journal, .. } = run;
        let files = MadeDir::make_tree(journal, &self.guests.path().join("stage"))?;
        packed_programs::pack(check.packed_programs.iter().map(String::as_str), files.path(), log)?;
        packed_programs::pack_file(Path::new("/etc/mke2fs.conf"), files.path())?;
        for path in copies {
            let copy = files.path().join(COPIES).join(path.strip_prefix("/").unwrap_or(path));
            let above = copy.parent().unwrap_or(files.path());
            dirs::make_dirs(above).map_err(Error::io("making", above))?;
            let copied = Argv::new("cp").args(["-a", "--"]).arg(path).arg(&copy).expect(log);
            copied.map_err(Error::from)?;
        }
        run.agents.role.give_to_workload_user(files.path())?;
        let bytes = (check.size_bytes + check.size_bytes / 2).next_multiple_of(STAGE_STEP);
        let image = image::sparse(journal, &self.dir.path().join("stage.img"), bytes)?;
        let device = ScratchDevice::from_image(image);
        format_source_disk(plan, &device, files.path(), log)?;
        files.remove()?;
        Ok(device)
    }

    /// The image of a variant's journal, if the journal is separate.
    pub fn journal(&self, layout: &Layout) -> Option<&ScratchDevice> {
        self.further.get(layout.journal.as_ref()?)
    }

    /// Empties all images of a variant.
    ///
    /// # Errors
    /// An image cannot be written.
    pub fn clear(&self, layout: &Layout) -> Result<(), fsarena_sys::Error> {
        let further = layout.all().filter_map(|spec| self.further.get(spec));
        let files = std::iter::once(&*self.whole).chain(further).filter_map(ScratchDevice::file);
        files.into_iter().try_for_each(Image::clear)
    }

    /// The images that a guest gets as disks for the filesystem under test: `image` itself; for an array the images of its
    /// members, over which the contents of `image` are spread; or those below a stack that the filesystem will be made on.
    ///
    /// # Errors
    /// The contents cannot be copied to the members.
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
    /// A disk cannot be removed; it stays in the undo journal.
    pub fn finish(self, emit: RunSink) -> Result<()> {
        let Images { whole, of_cells, further, other, of_rounds, inputs, guests, dir, packed } = self;
        if let Some(packed) = packed {
            packed.finish(emit)?;
        }
        let further = further.into_values().chain(of_rounds.into_values()).chain(of_cells.into_values());
        for device in Rc::into_inner(whole).into_iter().chain(further).chain([other]) {
            logged(emit, |log| device.release(log))??;
        }
        inputs.map(|(dir, _)| dir).into_iter().chain([guests, dir]).try_for_each(|dir| remove(dir, emit))
    }
}

/// Makes the filesystem of the source disk: makes its inputs in the directory `dir`, which mkfs then copies into the image.
fn fill_source_disk(run: &RunContext, other: &ScratchDevice, dir: &Path, emit: RunSink) -> Result<()> {
    let RunContext { plan, check, .. } = run;
    make_inputs(plan, dir)?;
    let packed = check.packed_programs.iter().map(String::as_str);
    logged(emit, |log| packed_programs::pack(packed, dir, log))??;
    packed_programs::pack_file(Path::new("/etc/mke2fs.conf"), dir)?;
    if let Some(programs) = &check.host_programs {
        host_programs::stage(run, &programs.copies, dir, emit)?;
    }
    logged(emit, |log| format_source_disk(plan, other, dir, log))?
}

/// Makes the filesystem of the source disk with the files of a directory.
fn format_source_disk(plan: &Plan, other: &ScratchDevice, dir: &Path, log: Log) -> Result<()> {
    let (def, mut options) = backing::source_filesystem(&plan.device)?;
    // Initialise everything now, because cells would wait for lazy initialisation. Pin random values, because every cell
    // reads the directories and the values determine the order of their entries.
    options.mkfs.extend(["-E".to_string(), "lazy_itable_init=0,lazy_journal_init=0".to_string()]);
    grammar::pin_random_values(def, &mut options.mkfs);
    options.contents = Some(dir.into());
    lifecycle::format(other, def, &options, log)?;
    Ok(())
}
