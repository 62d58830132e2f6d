//! This kernel: filesystems made on a loop image or an erased device, mounted, worked on, unmounted.

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
    /// How the device that the user named is treated, where there is one.
    erased: Option<Erased>,
    backing: BackingDevices,
}

impl Local {
    /// Makes the devices and the inputs that all cells share.
    ///
    /// # Errors
    /// If there is not enough room, the guard refuses, or a command fails.
    pub fn start(run: RunContext, tell: RunSink) -> Result<Local> {
        let backing = BackingDevices::make(&run, tell)?;
        run.agents.role.give(backing.other.root())?;
        let erased = Erased::begin(&run, backing.erased(), tell)?;
        Ok(Local { run, facts: BTreeMap::new(), erased, backing })
    }

    /// mkfs, as a measured task. The error is the variant's own.
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
        let asked = cell.variant.level(factor::MKFS);
        measured.map_err(|error: fsarena_fs::Error| CellError::from(error).with_options(asked))?;
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

    fn request(&self, cell: &Cell, devices: &Devices, root: &Path) -> Request {
        Request { device: numbers(devices), ..self.run.request(cell, root, self.backing.other.root()) }
    }

    /// The same work on the bare device, without mkfs and mount. Only on a device that fsarena made.
    fn raw(&self, cell: &Cell, devices: &Devices, confine: &Confine, emit: CellSink) -> Result<Outcome> {
        require(devices.members[0].is_made(), || RunError::Plan(raw_needs_an_image()))?;
        let mut request = self.request(cell, devices, devices.first());
        // The device belongs to root.
        request.role = self.run.agents.role.as_root();
        child::run(&self.run.journal, &request, confine, &mut |event| emit(event))
    }

    /// mkfs to unmount; with what became known of the variant where all was well. Device readings are of those `measured`.
    fn filesystem(
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
        let layer = layers::request(cell.variant.level(factor::LAYER), None);
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
        // The agent unmounts by itself; this is for one that could not.
        for dir in [&root, target] {
            mount::unmount(dir, &mut |record| emit(CellEvent::Command(record)))?;
        }
        layered.disarm()?;
        mounted.disarm()?;
        let outcome = outcome?;
        let facts = (outcome == Outcome::Done).then_some(facts);
        Ok((outcome, facts))
    }

    /// The device above the links of the variant's stack, if it has any. The error is the variant's own.
    fn linked(
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

    /// What holds while the cell runs. The error is the variant's own.
    fn conditions(&self, cell: &Cell, devices: &Devices, emit: CellSink) -> Result<Conditions, CellError> {
        let blocks: Vec<_> = devices.all().filter_map(|device| device.device()).collect();
        let conditions = axes::set_up(&self.run.kernel, &self.run.journal, &cell.variant, &blocks)?;
        let devices: Vec<&Path> = devices.all().map(|device| device.path()).collect();
        let notes =
            lifecycle::note_recipe_changes(&cell.variant).into_iter().chain(bench::of_the_first(&devices));
        notes
            .chain(conditions.notes.clone())
            .for_each(|note| emit(CellEvent::Note(note.variant(&cell.variant.name))));
        Ok(conditions)
    }
}

/// The numbers of the device that is measured: the first.
fn numbers(devices: &Devices) -> Option<(u32, u32)> {
    devices.members[0].device().map(bench::numbers)
}

impl Executor for Local {
    fn run(&mut self, cell: &Cell, emit: CellSink) -> Result<Outcome> {
        let layout = self.run.layout(&cell.variant)?;
        let devices = self.backing.devices(&layout)?;
        let conditions = match self.conditions(cell, &devices, emit) {
            Ok(conditions) => conditions,
            Err(failed) => return Ok(failed.into()),
        };
        let linked = match self.linked(cell, &layout, &devices, emit) {
            Ok(linked) => linked,
            Err(failed) => return Ok(failed.into()),
        };
        let top = linked.as_ref().map_or_else(|| devices.clone(), Devices::from);
        let (outcome, facts) = match cell.variant.level(factor::FS) {
            factor::RAW => (self.raw(cell, &devices, &conditions.confine, emit)?, None),
            _ => self.filesystem(cell, &top, &devices, &conditions.confine, emit)?,
        };
        if let Some(linked) = linked {
            linked.release(&mut |record| emit(CellEvent::Command(record)))?;
        }
        conditions.undo()?;
        let copied = devices.all().any(|device| is_claimed(device.path()).unwrap_or(false));
        if copied {
            // A container that started meanwhile has a copy of the mount, which would keep mkfs from the device.
            self.backing.target.renew()?;
        }
        let throttled = self.erased.as_mut().and_then(Erased::throttled);
        throttled.into_iter().for_each(|note| emit(CellEvent::Note(note.variant(&cell.variant.name))));
        if let Some(facts) = facts {
            self.facts.entry(cell.variant.name.clone()).or_insert(facts);
        }
        Ok(outcome)
    }

    fn remarks(&self) -> Vec<Note> {
        self.run.unfair(&self.facts)
    }

    fn finish(self: Box<Self>, tell: RunSink) -> Result<()> {
        self.backing.finish(tell)
    }
}
