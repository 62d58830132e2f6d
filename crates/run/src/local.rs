//! This kernel: filesystems made on a loop image or an erased device, mounted, worked on, unmounted.

use crate::axes::{self, Conditions, Confine};
use crate::backing::BackingDevices;
use crate::bench::{self, Bench};
use crate::child;
use crate::erased::Erased;
use crate::executor::{Emit, Executor, Failed, Fatal, Tell};
use crate::layout::Layout;
use crate::preflight::{Check, RAW_NEEDS_AN_IMAGE};
use crate::protocol::{Agents, MountRequest, Power, Request};
use crate::work::workload;
use fsarena_core::cell::Cell;
use fsarena_core::event::{CellEvent, Note, NoteKind, Outcome};
use fsarena_core::factor;
use fsarena_core::plan::Plan;
use fsarena_core::sample::Found;
use fsarena_fs::def::FsDef;
use fsarena_fs::fairness::{self, VariantFacts};
use fsarena_fs::lifecycle::{self, Devices};
use fsarena_sys::kernel::Kernel;
use fsarena_sys::mount;
use fsarena_sys::undo::{Journal, Undo};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// The executor of this kernel.
pub struct Local {
    kernel: Kernel,
    plan: Plan,
    journal: Journal,
    facts: BTreeMap<String, VariantFacts>,
    agents: Agents,
    size_bytes: u64,
    /// How the device that the user named is treated, where there is one.
    erased: Option<Erased>,
    backing: BackingDevices,
}

impl Local {
    /// Makes the devices and the inputs that all cells share.
    ///
    /// # Errors
    /// If there is not enough room, the guard refuses, or a command fails.
    pub fn start(
        kernel: &Kernel,
        plan: &Plan,
        check: &Check,
        journal: &Journal,
        run_dir: &Path,
        agents: Agents,
        tell: Tell,
    ) -> Result<Local, Fatal> {
        let backing = BackingDevices::make(kernel, plan, check, journal, run_dir, tell)?;
        agents.role.give(&backing.other())?;
        let erased = Erased::begin(plan, backing.erased(), !check.resumed, tell)?;
        Ok(Local {
            kernel: kernel.clone(),
            plan: plan.clone(),
            journal: journal.clone(),
            facts: BTreeMap::new(),
            agents,
            size_bytes: check.size_bytes,
            erased,
            backing,
        })
    }

    /// mkfs, as a measured task. The error is the variant's own.
    fn format(
        &self,
        cell: &Cell,
        def: &'static FsDef,
        devices: &Devices,
        emit: Emit,
    ) -> Result<VariantFacts, Failed> {
        let mut options = lifecycle::options(def, &cell.variant)?;
        if self.plan.device.precondition {
            options.without_discard(def);
        }
        let mut bench = Bench::open(&self.kernel, numbers(devices), &self.plan.idle, |_| (), emit);
        let mut log = |record| bench.say(CellEvent::Command(record));
        self.erased.iter().try_for_each(|erased| erased.before_mkfs(devices, &mut log))?;
        bench.wait_until_idle("mkfs");
        let mut formatted = None;
        let work = |log: &mut dyn FnMut(_)| {
            let done = lifecycle::format(devices.clone(), def, &options, log)?;
            formatted = Some(done);
            Ok(Found::default())
        };
        let sync = || devices.all().try_for_each(|device| std::fs::File::open(device.path())?.sync_all());
        bench.measure(&bench::lifecycle("mkfs", "Make the filesystem"), "lifecycle", work, sync).map_err(
            |error: fsarena_fs::Error| Failed::from(error).with_options(cell.variant.level(factor::MKFS)),
        )?;
        let formatted = formatted.expect("measured without an error");
        let begun = Instant::now();
        let mut log = |record| bench.say(CellEvent::Command(record));
        let completed = lifecycle::complete(devices, def, &options, &mut log)?;
        if completed.is_some() {
            sync().map_err(fsarena_sys::Error::io("syncing", devices.first()))?;
            bench.spent("lifecycle", begun.elapsed());
        }
        let mut log = |record| bench.say(CellEvent::Command(record));
        let features = lifecycle::describe(devices.members[0], def, &mut log).unwrap_or_default();
        if !self.facts.contains_key(&cell.variant.name) {
            let mut text = formatted.argv.join(" ");
            if let Some(by) = completed {
                text += &format!(
                    ", timed; then made again with `{by}`, so that the kernel has nothing to initialise"
                );
            }
            if !features.is_empty() {
                text += &format!(": {features}");
            }
            bench.say(CellEvent::Note(
                Note::new(NoteKind::Options, text).task("mkfs").variant(&cell.variant.name),
            ));
        }
        let copies = if options.raid.is_some_and(|raid| raid.mirrored) { 2 } else { 1 };
        let size_bytes = devices.members.iter().map(|device| device.size_bytes()).sum::<u64>() / copies;
        Ok(VariantFacts {
            variant: cell.variant.name.clone(),
            def,
            options,
            effective: String::new(),
            features,
            size_bytes,
            levels: cell.variant.levels.clone(),
        })
    }

    fn mount_request(&self, facts: &VariantFacts, devices: &Devices) -> MountRequest {
        MountRequest {
            source: devices.first().to_path_buf(),
            target: self.backing.target().to_path_buf(),
            fs_type: facts.def.kernel_type.to_string(),
            options: lifecycle::mount_options(facts.def, &facts.options, devices),
            journal: devices.journal.map(|device| device.path().to_path_buf()),
            by_call: false,
        }
    }

    /// The same work on the bare device, without mkfs and mount. Only on a device that fsarena made.
    fn raw(&self, cell: &Cell, devices: &Devices, confine: &Confine, emit: Emit) -> Result<Outcome, Fatal> {
        if !devices.members[0].is_made() {
            return Err(Fatal::Plan(RAW_NEEDS_AN_IMAGE.into()));
        }
        let mut request = self.request(cell, devices, None, devices.first().to_path_buf());
        // The device belongs to root.
        request.role = self.agents.role.as_root();
        child::run(&self.journal, &request, confine, &mut |event| emit(event))
    }

    fn request(&self, cell: &Cell, devices: &Devices, mount: Option<MountRequest>, root: PathBuf) -> Request {
        Request {
            cell: cell.clone(),
            idle: self.plan.idle.clone(),
            mount,
            root,
            other: self.backing.other(),
            device: numbers(devices),
            profiling: self.agents.profiling,
            role: self.agents.role.clone(),
            power: Power::On,
            client: None,
        }
    }

    /// mkfs to unmount; with what became known of the variant where all was well.
    fn filesystem(
        &self,
        cell: &Cell,
        devices: &Devices,
        confine: &Confine,
        emit: Emit,
    ) -> Result<(Outcome, Option<VariantFacts>), Fatal> {
        let def = fsarena_fs::filesystems::find(cell.variant.level(factor::FS))?;
        let mut facts = match self.format(cell, def, devices, emit) {
            Ok(facts) => facts,
            Err(_) if fsarena_sys::cancel::requested().is_some() => return Ok((Outcome::Interrupted, None)),
            Err(failed) => return Ok((failed.into(), None)),
        };
        let mount = self.mount_request(&facts, devices);
        let request = self.request(cell, devices, Some(mount), self.backing.target().join("work"));
        let mounted = self.journal.note(Undo::Unmount { target: self.backing.target().to_path_buf() })?;
        let known = self.facts.contains_key(&cell.variant.name);
        let outcome = child::run(&self.journal, &request, confine, &mut |event| match event {
            CellEvent::Note(note) if note.kind == NoteKind::Options => {
                facts.effective = note.text.clone();
                if !known {
                    emit(CellEvent::Note(note.variant(&cell.variant.name)));
                }
            }
            event => emit(event),
        });
        // The agent unmounts by itself; this is for one that could not.
        mount::unmount(self.backing.target(), &mut |record| emit(CellEvent::Command(record)))?;
        mounted.forget()?;
        let outcome = outcome?;
        let facts = (outcome == Outcome::Done).then_some(facts);
        Ok((outcome, facts))
    }

    /// What holds while the cell runs. The error is the variant's own.
    fn conditions(&self, cell: &Cell, devices: &Devices, emit: Emit) -> Result<Conditions, Failed> {
        let blocks: Vec<_> = devices.all().filter_map(|device| device.device()).collect();
        let conditions = axes::set_up(&self.kernel, &self.journal, &cell.variant, &blocks)?;
        let devices: Vec<&Path> = devices.all().map(|device| device.path()).collect();
        let notes = lifecycle::changes(&cell.variant).into_iter().chain(bench::of_the_first(&devices));
        notes
            .chain(conditions.notes.clone())
            .for_each(|note| emit(CellEvent::Note(note.variant(&cell.variant.name))));
        Ok(conditions)
    }
}

/// The numbers of the device that is measured: the first.
fn numbers(devices: &Devices) -> Option<(u32, u32)> {
    devices.members[0].device().map(|device| (device.major, device.minor))
}

impl Executor for Local {
    fn run(&mut self, cell: &Cell, emit: Emit) -> Result<Outcome, Fatal> {
        let layout = Layout::of(&self.plan, &cell.variant, self.size_bytes)?;
        let devices = self.backing.devices(&layout)?;
        let conditions = match self.conditions(cell, &devices, emit) {
            Ok(conditions) => conditions,
            Err(failed) => return Ok(failed.into()),
        };
        let (outcome, facts) = match cell.variant.level(factor::FS) {
            factor::RAW => (self.raw(cell, &devices, &conditions.confine, emit)?, None),
            _ => self.filesystem(cell, &devices, &conditions.confine, emit)?,
        };
        conditions.undo()?;
        let throttled = self.erased.as_mut().and_then(Erased::throttled);
        throttled.into_iter().for_each(|note| emit(CellEvent::Note(note.variant(&cell.variant.name))));
        if let Some(facts) = facts {
            self.facts.entry(cell.variant.name.clone()).or_insert(facts);
        }
        Ok(outcome)
    }

    fn remarks(&self) -> Vec<Note> {
        let clones = |asked| workload(&self.plan, asked).is_ok_and(|(work, job)| work.may_clone(&job));
        let may_clone = self.plan.workloads.iter().any(clones);
        fairness::lint(&self.facts.values().cloned().collect::<Vec<_>>(), may_clone)
    }

    fn finish(self: Box<Self>, tell: Tell) -> Result<(), Fatal> {
        self.backing.finish(tell)
    }
}
