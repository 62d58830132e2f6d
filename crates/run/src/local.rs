//! Runs cells in this kernel: makes a filesystem on an image or on an erased device, mounts it, runs the workload, and
//! unmounts it.

use crate::axes::{self, Conditions, Confine};
use crate::bench::{self, Bench};
use crate::context::RunContext;
use crate::error::{CellError, Result, RunError, require};
use crate::executor::{CellSink, Executor, Log, RunSink};
use crate::layout::Layout;
use crate::protocol::{MountRequest, Request};
use crate::{backing::BackingDevices, child, erased::Erased, layers, preflight::raw_needs_an_image};
use fsarena_core::cell::{Cell, Variant};
use fsarena_core::event::{CellEvent, Note, NoteKind, Outcome, SpentOn};
use fsarena_core::{factor, sample::TaskOutput};
use fsarena_fs::lifecycle::{self, Devices};
use fsarena_fs::{def::FsDef, fairness::VariantFacts, safety::ScratchDevice};
use fsarena_sys::argv::Argv;
use fsarena_sys::device_mapper::Mapper;
use fsarena_sys::links::{self, LinkedDevices};
use fsarena_sys::{Error, cancel, device::is_claimed, mount, undo::Undo};
use std::{collections::BTreeMap, fs::File, path::Path, time::Instant};

/// The executor of this kernel.
pub struct Local {
    run: RunContext,
    facts: BTreeMap<String, VariantFacts>,
    /// The device that the user named for erasing, if there is one.
    erased: Option<Erased>,
    backing: BackingDevices,
}

impl Local {
    /// Makes the devices and the inputs that all cells share.
    ///
    /// # Errors
    /// If there is not enough room, the guard refuses, or a command fails.
    pub fn start(run: RunContext, emit: RunSink) -> Result<Local> {
        let backing = BackingDevices::make(&run, emit)?;
        run.agents.role.give_to_workload_user(backing.other.root())?;
        let erased = Erased::begin(&run, backing.erased(), emit)?;
        Ok(Local { run, facts: BTreeMap::new(), erased, backing })
    }

    /// Runs mkfs as a measured task. An error is a failure of the variant.
    fn format(
        &self,
        cell: &Cell,
        def: &'static FsDef,
        devices: &Devices,
        emit: CellSink,
    ) -> Result<VariantFacts, CellError> {
        let mut options = lifecycle::variant_options(def, &cell.variant)?;
        if self.run.plan.device.precondition {
            options.without_discard(def);
        }
        let mut bench = Bench::open(&self.run.kernel, numbers(devices), &self.run.plan.idle, |_| (), emit);
        self.erased.iter().try_for_each(|erased| erased.before_mkfs(devices, &mut bench.log()))?;
        bench.wait_until_idle("mkfs");
        let mut argv = vec![];
        let work = |log: Log| {
            argv = lifecycle::format(devices.clone(), def, &options, log)?.argv;
            Ok(TaskOutput::default())
        };
        let sync = || devices.all().try_for_each(|device| File::open(device.path())?.sync_all());
        let measured =
            bench.measure(&bench::lifecycle("mkfs", "Make the filesystem"), SpentOn::Lifecycle, work, sync);
        let level = cell.variant.level(factor::MKFS);
        measured.map_err(|error: fsarena_fs::Error| CellError::from(error).with_options(level))?;
        let begun = Instant::now();
        let completed = lifecycle::complete(devices, def, &options, &mut bench.log())?;
        if completed.is_some() {
            sync().map_err(Error::io("syncing", devices.first()))?;
            bench.spent(SpentOn::Lifecycle, begun.elapsed());
        }
        let features = lifecycle::describe(devices.members[0], def, &mut bench.log()).unwrap_or_default();
        if !self.facts.contains_key(&cell.variant.name) {
            let mut text = argv.join(" ");
            if let Some(by) = completed {
                let why = "so that the kernel has nothing to initialise";
                text += &format!(", timed; then made again with `{by}`, {why}");
            }
            if !features.is_empty() {
                text += &format!(": {features}");
            }
            bench.note(Note::new(NoteKind::Options, text).task("mkfs").variant(&cell.variant.name));
        }
        let copies = if options.raid.is_some_and(|raid| raid.mirrored) { 2 } else { 1 };
        let size_bytes = devices.members.iter().map(|device| device.size_bytes()).sum::<u64>() / copies;
        let Variant { name: variant, levels } = cell.variant.clone();
        let effective = String::new();
        Ok(VariantFacts { variant, def, options, effective, features, size_bytes, levels })
    }

    /// The request to an agent that works in the directory or on the device `root`.
    fn request(&self, cell: &Cell, devices: &Devices, root: &Path) -> Request {
        Request { device: numbers(devices), ..self.run.request(cell, root, self.backing.other.root()) }
    }

    /// Runs the workload of a cell on the bare device, without a filesystem. Refuses devices that fsarena did not make.
    fn run_on_bare_device(
        &self,
        cell: &Cell,
        devices: &Devices,
        confine: &Confine,
        emit: CellSink,
    ) -> Result<Outcome> {
        require(devices.members[0].is_made(), || RunError::Plan(raw_needs_an_image()))?;
        let mut request = self.request(cell, devices, devices.first());
        // The device belongs to root.
        request.role = self.run.agents.role.as_root();
        child::run(&self.run.journal, &request, confine, &mut |event| emit(event))
    }

    /// Runs a cell on a new filesystem, from mkfs to unmount. Readings of the device are those of `measured`. Also returns
    /// the facts of the variant if the cell succeeded.
    fn run_on_filesystem(
        &self,
        cell: &Cell,
        devices: &Devices,
        measured: &Devices,
        confine: &Confine,
        emit: CellSink,
    ) -> Result<(Outcome, Option<VariantFacts>)> {
        let def = fsarena_fs::filesystems::find(cell.variant.level(factor::FS))?;
        let made = self.format(cell, def, devices, emit).and_then(|facts| {
            devices.members[0].finish_links().map_err(|error| CellError::missing(error.to_string()))?;
            Ok(facts)
        });
        let mut facts = match made {
            Ok(facts) => facts,
            Err(_) if cancel::requested().is_some() => return Ok((Outcome::Interrupted, None)),
            Err(failed) => return Ok((failed.into(), None)),
        };
        let target = self.backing.target.path();
        let layer = layers::request(cell.variant.level(factor::LAYER), target, None);
        let root = layers::root(target, cell.variant.level(factor::LAYER));
        let mut request = self.request(cell, measured, &root.join("work"));
        request.mount = Some(MountRequest {
            source: devices.first().into(),
            target: target.into(),
            fs_type: def.id.into(),
            options: lifecycle::mount_options(def, &facts.options, devices),
            journal: devices.journal.map(|device| device.path().into()),
            by_call: false,
            layer,
        });
        let mounted = self.run.journal.note(Undo::unmount(target))?;
        let layered = self.run.journal.note(Undo::unmount(&root))?;
        let known = self.facts.contains_key(&cell.variant.name);
        let outcome = child::run(&self.run.journal, &request, confine, &mut |event| match event {
            CellEvent::Note(note) if note.kind == NoteKind::Options => {
                if note.task.as_deref() == Some("mount") {
                    facts.effective = note.text.clone();
                }
                if !known {
                    emit(CellEvent::Note(note.variant(&cell.variant.name)));
                }
            }
            event => emit(event),
        });
        // The agent unmounts the filesystems itself. This is for an agent that could not.
        for dir in [&root, target] {
            mount::unmount(dir, &mut |record| emit(CellEvent::Command(record)))?;
        }
        layered.disarm()?;
        mounted.disarm()?;
        let outcome = outcome?;
        let facts = (outcome == Outcome::Done).then_some(facts);
        Ok((outcome, facts))
    }

    /// Makes the links of the variant's stack. Returns the device above them; None without links. An error is a failure of
    /// the variant.
    fn make_links(
        &self,
        cell: &Cell,
        layout: &Layout,
        devices: &Devices,
        emit: CellSink,
    ) -> Result<Option<ScratchDevice>, CellError> {
        if !layout.is_stacked() {
            return Ok(None);
        }
        let links = links::parse(cell.variant.level(factor::STACK)).map_err(CellError::missing)?;
        let (journal, bytes) = (&self.run.journal, self.run.check.size_bytes);
        let prefix = format!("fsarena-{}-", std::process::id());
        let make = || {
            let mapper = Mapper::open(Some(journal))?;
            LinkedDevices::make(mapper, |name| Argv::new(name), &prefix, &links, devices.first(), bytes)
        };
        let linked = make().map_err(|error| CellError::missing(error.to_string()))?;
        emit(CellEvent::Note(bench::below_the_stack().variant(&cell.variant.name)));
        Ok(Some(ScratchDevice::from_links(linked)?))
    }

    /// Sets up the levels of the machine for a cell, and emits the notes on them. An error is a failure of the variant.
    fn set_up_conditions(
        &self,
        cell: &Cell,
        devices: &Devices,
        emit: CellSink,
    ) -> Result<Conditions, CellError> {
        let blocks: Vec<_> = devices.all().filter_map(|device| device.device()).collect();
        let conditions = axes::set_up(&self.run.kernel, &self.run.journal, &cell.variant, &blocks)?;
        let paths: Vec<&Path> = devices.all().map(|device| device.path()).collect();
        let mut notes: Vec<Note> = lifecycle::note_recipe_changes(&cell.variant).into_iter().collect();
        notes.extend(bench::first_device_note(&paths));
        notes.extend(conditions.notes.clone());
        for note in notes {
            emit(CellEvent::Note(note.variant(&cell.variant.name)));
        }
        Ok(conditions)
    }
}

/// The major and minor number of the first device, which is the one that readings cover.
fn numbers(devices: &Devices) -> Option<(u32, u32)> {
    devices.members[0].device().map(bench::numbers)
}

impl Executor for Local {
    fn run(&mut self, cell: &Cell, emit: CellSink) -> Result<Outcome> {
        let layout = self.run.layout(&cell.variant)?;
        let devices = self.backing.devices(&layout)?;
        let conditions = match self.set_up_conditions(cell, &devices, emit) {
            Ok(conditions) => conditions,
            Err(failed) => return Ok(failed.into()),
        };
        let linked = match self.make_links(cell, &layout, &devices, emit) {
            Ok(linked) => linked,
            Err(failed) => return Ok(failed.into()),
        };
        let top = linked.as_ref().map_or_else(|| devices.clone(), Devices::from);
        let (outcome, facts) = match cell.variant.level(factor::FS) {
            factor::RAW => (self.run_on_bare_device(cell, &devices, &conditions.confine, emit)?, None),
            _ => self.run_on_filesystem(cell, &top, &devices, &conditions.confine, emit)?,
        };
        if let Some(linked) = linked {
            linked.release(&mut |record| emit(CellEvent::Command(record)))?;
        }
        conditions.undo()?;
        let still_claimed = devices.all().any(|device| is_claimed(device.path()).unwrap_or(false));
        if still_claimed {
            // A container that started meanwhile has a copy of the mount. Removing the mount point ends the copy, which
            // would keep the device busy for the next mkfs.
            self.backing.target.renew()?;
        }
        if let Some(note) = self.erased.as_mut().and_then(Erased::throttling_note) {
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
        self.backing.finish(emit)
    }
}
