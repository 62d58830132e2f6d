//! Runs cells in this kernel: makes a filesystem on an image or on an erased device, mounts it, runs the workload, and
//! unmounts it.

use crate::aged_images::AgedImages;
use crate::ager::LocalAger;
use crate::axes::{self, Conditions, Confinement};
use crate::bench::{self, Bench};
use crate::context::{RunContext, facts_before_mount};
use crate::device_layout::filesystem_of;
use crate::error::{CellError, Result, RunError, require};
use crate::executor::{CellSink, CommandLog, Executor, RunSink};
use crate::packed_filesystems::{PackedFilesystems, WORK_DIR};
use crate::protocol::{AgentRequest, MountRequest};
use crate::work::DrawnInputsState;
use crate::{
    backing::BackingDevices, backing::make_stack, child, erased_device::ErasedDevice, layers,
    preflight::raw_device_refusal,
};
use fsarena_core::cell::{Cell, Variant};
use fsarena_core::event::{Activity, CellEvent, Note, NoteKind, Outcome, Phase};
use fsarena_core::{factor, metric::reading, sample::TaskOutput};
use fsarena_fs::lifecycle::{self, Devices, VariantOptions};
use fsarena_fs::{def::FsDef, fairness::VariantFacts};
use fsarena_guest::instruction_counter::Mark;
use fsarena_sys::{Error, device::is_claimed, mount, undo::UndoStep};
use std::cell::RefCell;
use std::{collections::BTreeMap, fs::File, path::Path, time::Instant};

/// The executor of this kernel.
pub struct LocalExecutor {
    run: RunContext,
    facts: BTreeMap<String, VariantFacts>,
    /// The device that the user named for erasing, if there is one.
    erased: Option<ErasedDevice>,
    /// The read-only filesystems, if the run has any.
    packed: RefCell<Option<PackedFilesystems>>,
    /// The aged filesystems, if the run has any.
    aged_images: Option<AgedImages>,
    backing: BackingDevices,
    inputs: DrawnInputsState,
}

/// The function that a [`Bench`] in this kernel calls at each [`Mark`]: it does nothing, because only guests count
/// instructions.
const IGNORE_MARKS: fn(Mark) = |_| ();

impl LocalExecutor {
    /// Makes the devices and the inputs that all cells share.
    ///
    /// # Errors
    /// There is not enough room, the guard refuses, or a command fails.
    pub fn start(run: RunContext, emit: RunSink) -> Result<LocalExecutor> {
        let backing = BackingDevices::make(&run, emit)?;
        run.agent_config.role.give_to_workload_user(backing.source_disk.root())?;
        let role = run.agent_config.role.clone();
        let packed = PackedFilesystems::make(&run, role, &run.dir.join("packed"), backing.source_disk.root(), emit)?;
        let erased = ErasedDevice::prepare(&run, backing.erased_device(), emit)?;
        let aged_images = AgedImages::make(&run, &LocalAger::new(&run, &backing), emit)?;
        let (packed, inputs) = (RefCell::new(packed), DrawnInputsState::default());
        Ok(LocalExecutor { run, facts: BTreeMap::new(), erased, packed, aged_images, backing, inputs })
    }

    /// Makes the filesystem of a cell: by mkfs, from an aged image, or from the image of a read-only filesystem. A
    /// filesystem in memory is made by its mount. Returns the facts of the filesystem, and for a read-only one the size
    /// with all its files, in bytes. An error is a failure of this cell only.
    fn make_filesystem(
        &self,
        cell: &Cell,
        devices: &Devices,
        emit: CellSink,
    ) -> Result<(VariantFacts, Option<u64>), CellError> {
        let (def, mut options) = filesystem_of(&cell.variant)?;
        if def.traits.read_only {
            let (facts, packed_bytes) = self.write_packed(cell, devices, emit)?;
            return Ok((facts, Some(packed_bytes)));
        }
        let facts = if def.traits.volatile {
            let size_bytes = self.run.requirements.size_bytes;
            options.limit_size(def, size_bytes);
            facts_of(cell, def, options, size_bytes, String::new())
        } else if let Some(facts) = self.restore_aged(cell, devices, emit)? {
            facts
        } else {
            self.format(cell, devices, emit)?
        };
        Ok((facts, None))
    }

    /// Writes the aged image of a cell to its devices. None if the cell does not begin with an aged image. An error is
    /// a failure of this cell only.
    fn restore_aged(&self, cell: &Cell, devices: &Devices, emit: CellSink) -> Result<Option<VariantFacts>, CellError> {
        let Some(aged_images) = &self.aged_images else { return Ok(None) };
        let Some(checkpoint) = aged_images.image_of_cell(&self.run.plan, cell)? else { return Ok(None) };
        let (def, options) = filesystem_of(&cell.variant)?;
        let mut bench = Bench::open(&self.run.kernel, device_numbers(devices), &self.run.plan.idle, IGNORE_MARKS, emit);
        bench.emit(CellEvent::Phase { name: Phase::Task("image".into()) });
        let started = Instant::now();
        self.erased.iter().try_for_each(|erased| erased.discard_before_mkfs(devices, &mut bench.log()))?;
        checkpoint.restore(devices)?;
        bench.record_time(Activity::Lifecycle, started.elapsed());
        let text = format!("{}, once for each image: {}", checkpoint.info.mkfs, checkpoint.info.features);
        self.note_mkfs(&cell.variant, text, &mut bench);
        Ok(Some(facts_of(cell, def, options, total_bytes(devices), checkpoint.info.features.clone())))
    }

    /// Writes the image of a read-only filesystem to its device. In the first cell of a variant mkfs makes the image,
    /// as a measured task. Returns the facts of the filesystem, and its size with all files, in bytes. An error is a
    /// failure of this cell only.
    fn write_packed(&self, cell: &Cell, devices: &Devices, emit: CellSink) -> Result<(VariantFacts, u64), CellError> {
        let mut packed = self.packed.borrow_mut();
        let packed = packed.as_mut().ok_or_else(|| CellError::internal("no files to pack were made"))?;
        let variant = &cell.variant;
        let (def, _) = filesystem_of(variant)?;
        let options = packed.options(cell, def)?;
        let mut bench = Bench::open(&self.run.kernel, device_numbers(devices), &self.run.plan.idle, IGNORE_MARKS, emit);
        if !packed.has_image(def, &options) {
            bench.wait_until_idle("mkfs");
            let work = |log: CommandLog| packed.image(variant, def, &options, log).map(|_| TaskOutput::default());
            let info = bench::lifecycle_task("mkfs", "Make the filesystem");
            bench.measure(&info, Activity::Lifecycle, work, || Ok(()))?;
        }
        let started = Instant::now();
        let mut log = bench.log();
        let image = packed.image(variant, def, &options, &mut log)?;
        self.erased.iter().try_for_each(|erased| erased.discard_before_mkfs(devices, &mut log))?;
        drop(log);
        let bytes = image.filesystem.packed_bytes.unwrap_or(0);
        lifecycle::write_image(image.device.path(), bytes, devices.members[0])?;
        bench.record_time(Activity::Lifecycle, started.elapsed());
        let description = &image.filesystem.description;
        let text = format!("once in the run, then copied to the device: {bytes} bytes; {description}");
        self.note_mkfs(variant, text, &mut bench);
        let features = image.filesystem.features.clone();
        Ok((facts_of(cell, def, options, devices.members[0].size_bytes(), features), bytes))
    }

    /// Runs mkfs as a measured task. An error is a failure of this cell only.
    fn format(&self, cell: &Cell, devices: &Devices, emit: CellSink) -> Result<VariantFacts, CellError> {
        let (def, mut options) = filesystem_of(&cell.variant)?;
        if self.run.plan.device.precondition {
            options.disable_discard(def);
        }
        let mut bench = Bench::open(&self.run.kernel, device_numbers(devices), &self.run.plan.idle, IGNORE_MARKS, emit);
        self.erased.iter().try_for_each(|erased| erased.discard_before_mkfs(devices, &mut bench.log()))?;
        bench.wait_until_idle("mkfs");
        let mut argv = vec![];
        let work = |log: CommandLog| {
            argv = lifecycle::format(devices.clone(), def, &options, log)?.argv;
            Ok(TaskOutput::default())
        };
        let sync = || devices.iter().try_for_each(|device| File::open(device.path())?.sync_all());
        let measured =
            bench.measure(&bench::lifecycle_task("mkfs", "Make the filesystem"), Activity::Lifecycle, work, sync);
        let level = cell.variant.level(factor::MKFS);
        measured.map_err(|error: fsarena_fs::Error| CellError::from_mkfs(error, level))?;
        let started = Instant::now();
        let completing_command = lifecycle::reformat_if_work_left(devices, def, &options, &mut bench.log())?;
        if completing_command.is_some() {
            sync().map_err(Error::io("syncing", devices.first()))?;
            bench.record_time(Activity::Lifecycle, started.elapsed());
        }
        let features = lifecycle::describe_features(devices.members[0], def, &mut bench.log()).unwrap_or_default();
        let mut text = argv.join(" ");
        if let Some(completing_command) = completing_command {
            let why = "so that the kernel has nothing to initialise";
            text += &format!(", timed; then made again with `{completing_command}`, {why}");
        }
        if !features.is_empty() {
            text += &format!(": {features}");
        }
        self.note_mkfs(&cell.variant, text, &mut bench);
        Ok(facts_of(cell, def, options, total_bytes(devices), features))
    }

    /// Emits the note on how the filesystem of a variant was made, unless an earlier cell of the variant succeeded.
    fn note_mkfs(&self, variant: &Variant, text: String, bench: &mut Bench) {
        if !self.facts.contains_key(&variant.name) {
            bench.note(Note::new(NoteKind::Options, text).task("mkfs").variant(&variant.name));
        }
    }

    /// The request to an agent that works in the directory or on the device `root`.
    fn agent_request(&self, cell: &Cell, devices: &Devices, root: &Path) -> AgentRequest {
        AgentRequest {
            device: device_numbers(devices),
            ..self.run.agent_request(cell, root, self.backing.source_disk.root())
        }
    }

    /// Runs the workload of a cell on the bare device, without a filesystem. Refuses devices that fsarena did not make.
    fn run_on_bare_device(
        &self,
        cell: &Cell,
        devices: &Devices,
        confinement: &Confinement,
        emit: CellSink,
    ) -> Result<Outcome> {
        require(devices.members[0].is_made_by_fsarena(), || RunError::Plan(raw_device_refusal()))?;
        let mut request = self.agent_request(cell, devices, devices.first());
        // The device belongs to root.
        request.role = self.run.agent_config.role.as_root();
        child::run_agent(&self.run.journal, &request, confinement, &mut |event| emit(event))
    }

    /// Runs a cell on a new filesystem, from mkfs to unmount. The filesystem is made on `devices`; readings cover
    /// `measured`, the devices below the stack. Also returns the facts of the variant if the cell succeeded.
    fn run_on_filesystem(
        &self,
        cell: &Cell,
        devices: &Devices,
        measured: &Devices,
        confinement: &Confinement,
        emit: CellSink,
    ) -> Result<(Outcome, Option<VariantFacts>)> {
        let def = fsarena_fs::filesystems::find(cell.variant.level(factor::FS))?;
        // After mkfs, the links `snapshot` and `thin-snapshot` of the stack take their snapshot.
        let ready = self.make_filesystem(cell, devices, emit).and_then(|ready| {
            let finished = devices.members.iter().try_for_each(|device| device.finish_stack());
            finished.map_err(|error| CellError::missing(error.to_string()))?;
            Ok(ready)
        });
        let (mut facts, packed_bytes) = match ready {
            Ok(ready) => ready,
            Err(error) => return Ok((error.into_setup_outcome(), None)),
        };
        let target = self.backing.mount_point.path();
        let layer = layers::layer_request(cell.variant.level(factor::LAYER), target, None);
        let root = layers::layer_root(target, cell.variant.level(factor::LAYER));
        let mut request = self.agent_request(cell, measured, &root.join(WORK_DIR));
        let mount = MountRequest::on_devices(def, &facts.options, devices, target);
        request.mount = Some(MountRequest { layer, packed_bytes, ..mount });
        let filesystem_unmount = self.run.journal.record(UndoStep::unmount(target))?;
        let layer_unmount = self.run.journal.record(UndoStep::unmount(&root))?;
        let is_reported = self.facts.contains_key(&cell.variant.name);
        let image_seed =
            self.aged_images.as_ref().and_then(|aged_images| aged_images.seed_of_cell(&self.run.plan, cell));
        let outcome = child::run_agent(&self.run.journal, &request, confinement, &mut |event| match event {
            CellEvent::Note(note) if note.kind == NoteKind::Options => {
                if note.task.as_deref() == Some("mount") {
                    facts.effective_options = note.text.clone();
                }
                if !is_reported {
                    emit(CellEvent::Note(note.variant(&cell.variant.name)));
                }
            }
            CellEvent::Sample(mut sample) => {
                if let Some(seed) = image_seed.filter(|_| sample.task.id.name == "mount") {
                    sample.readings.set(reading::IMAGE_SEED, seed as f64);
                }
                emit(CellEvent::Sample(sample));
            }
            event => emit(event),
        });
        // Usually the agent has unmounted the filesystems. It may have ended before that.
        for dir in [&root, target] {
            mount::unmount(dir, &mut |record| emit(CellEvent::Command(record)))?;
        }
        layer_unmount.disarm()?;
        filesystem_unmount.disarm()?;
        let outcome = outcome?;
        let facts = (outcome == Outcome::Done).then_some(facts);
        Ok((outcome, facts))
    }

    /// Sets up the levels of the machine for a cell, and emits the notes on them. An error is a failure of this cell
    /// only.
    fn set_up_conditions(&self, cell: &Cell, devices: &Devices, emit: CellSink) -> Result<Conditions, CellError> {
        let block_devices: Vec<_> = devices.iter().filter_map(|device| device.device()).collect();
        let conditions = axes::set_up(&self.run.kernel, &self.run.journal, &cell.variant, &block_devices)?;
        let paths: Vec<&Path> = devices.iter().map(|device| device.path()).collect();
        let mut notes: Vec<Note> = lifecycle::recipe_change_note(&cell.variant).into_iter().collect();
        notes.extend(bench::first_device_note(&paths));
        notes.extend(conditions.notes.clone());
        for note in notes {
            emit(CellEvent::Note(note.variant(&cell.variant.name)));
        }
        Ok(conditions)
    }
}

/// The size of all devices with data, in bytes.
fn total_bytes(devices: &Devices) -> u64 {
    devices.members.iter().map(|device| device.size_bytes()).sum()
}

/// The facts of a filesystem that was just made, on devices of `device_bytes` in all.
fn facts_of(
    cell: &Cell,
    def: &'static FsDef,
    options: VariantOptions,
    device_bytes: u64,
    features: String,
) -> VariantFacts {
    let copies = if options.raid.is_some_and(|raid| raid.mirrored) { 2 } else { 1 };
    facts_before_mount(&cell.variant, def, options, device_bytes / copies, features)
}

/// The major and minor number of the first device, which readings cover; None for a filesystem in memory.
fn device_numbers(devices: &Devices) -> Option<(u32, u32)> {
    devices.members.first()?.device().map(bench::device_numbers)
}

impl Executor for LocalExecutor {
    fn run(&mut self, cell: &Cell, emit: CellSink) -> Result<Outcome> {
        let source_dir = self.backing.source_disk.root();
        if self.inputs.draw(&self.run.plan, cell, source_dir)? {
            self.run.agent_config.role.give_to_workload_user(source_dir)?;
        }
        let layout = self.run.device_layout(&cell.variant)?;
        let devices = self.backing.devices(&layout)?;
        let conditions = match self.set_up_conditions(cell, &devices, emit) {
            Ok(conditions) => conditions,
            Err(error) => return Ok(error.into_setup_outcome()),
        };
        let stack_device = match make_stack(&self.run, &cell.variant, &devices) {
            Ok(stack_device) => stack_device,
            Err(error) => return Ok(error.into_setup_outcome()),
        };
        if stack_device.is_some() {
            emit(CellEvent::Note(bench::below_stack_note().variant(&cell.variant.name)));
        }
        let top_devices = stack_device.as_ref().map_or_else(|| devices.clone(), Devices::from);
        let (outcome, facts) = match cell.variant.level(factor::FS) {
            factor::RAW => (self.run_on_bare_device(cell, &devices, &conditions.confinement, emit)?, None),
            _ => self.run_on_filesystem(cell, &top_devices, &devices, &conditions.confinement, emit)?,
        };
        if let Some(stack_device) = stack_device {
            stack_device.release(&mut |record| emit(CellEvent::Command(record)))?;
        }
        conditions.undo()?;
        let still_claimed = devices.iter().any(|device| is_claimed(device.path()).unwrap_or(false));
        if still_claimed {
            // A container that started meanwhile has a copy of the mount. Removing the mount point ends the copy, which
            // would keep the device busy for the next mkfs.
            self.backing.mount_point.renew()?;
        }
        if let Some(note) = self.erased.as_mut().and_then(ErasedDevice::throttling_note) {
            emit(CellEvent::Note(note.variant(&cell.variant.name)));
        }
        if let Some(facts) = facts {
            self.facts.entry(cell.variant.name.clone()).or_insert(facts);
        }
        Ok(outcome)
    }

    fn remarks(&self) -> Vec<Note> {
        self.run.fairness_notes(&self.facts)
    }

    fn finish(self: Box<Self>, emit: RunSink) -> Result<()> {
        if let Some(packed) = self.packed.into_inner() {
            packed.finish(emit)?;
        }
        self.backing.finish(emit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsarena_core::factor::device::Raid;

    #[test]
    fn a_mirrored_filesystem_has_half_the_size_of_its_devices() {
        let record = crate::testing::empty_record(&["btrfs"], &[]);
        let plan = &record.plan;
        let (variant, workload) = (record.variants[0].clone(), plan.workloads[0].clone());
        let cell = Cell { round: 0, position: 0, variant, workload, scale: plan.scale, seed: 1 };
        let def = fsarena_fs::filesystems::find("btrfs").unwrap();
        let size_bytes = |mirrored: bool| {
            let options =
                VariantOptions { raid: Some(Raid { mirrored, member_count: 2 }), ..VariantOptions::default() };
            facts_of(&cell, def, options, 200, String::new()).size_bytes
        };
        assert_eq!([size_bytes(true), size_bytes(false)], [100, 200]);
    }
}
