//! This kernel: filesystems made on a loop image or an erased device, mounted, worked on, unmounted.

use crate::bench::Bench;
use crate::carrier::Carrier;
use crate::executor::{Executor, Fatal, Tell};
use crate::preflight::{Check, RAW_NEEDS_AN_IMAGE};
use crate::protocol::{MountRequest, Request};
use crate::work::workload;
use crate::{agent, child};
use fsarena_core::cell::Cell;
use fsarena_core::event::{CellEvent, Note, NoteKind, Outcome};
use fsarena_core::factor;
use fsarena_core::plan::Plan;
use fsarena_core::sample::Readings;
use fsarena_fs::def::FsDef;
use fsarena_fs::fairness::{self, ArmFacts};
use fsarena_fs::lifecycle;
use fsarena_sys::kernel::Kernel;
use fsarena_sys::mount;
use fsarena_sys::undo::{Journal, Undo};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The executor of this kernel.
pub struct Local {
    kernel: Kernel,
    plan: Plan,
    journal: Journal,
    facts: BTreeMap<String, ArmFacts>,
    trace: bool,
    carrier: Carrier,
}

impl Local {
    /// Makes the devices and the inputs that all cells share.
    ///
    /// # Errors
    /// Where there is no room, the guard refuses, or a command fails.
    pub fn start(
        kernel: &Kernel,
        plan: &Plan,
        check: &Check,
        journal: &Journal,
        run_dir: &Path,
        tell: Tell,
    ) -> Result<Local, Fatal> {
        Ok(Local {
            kernel: kernel.clone(),
            plan: plan.clone(),
            journal: journal.clone(),
            facts: BTreeMap::new(),
            trace: false,
            carrier: Carrier::make(kernel, plan, check, journal, run_dir, tell)?,
        })
    }

    /// The same executor; it traces what each timed step waits for. What is measured meanwhile also measures
    /// the tracer.
    pub fn tracing(self) -> Self {
        Self { trace: true, ..self }
    }

    /// mkfs, as a measured step. The error is the arm's own.
    fn format(
        &self,
        cell: &Cell,
        def: &'static FsDef,
        emit: &mut dyn FnMut(CellEvent),
    ) -> Result<ArmFacts, String> {
        let words = |error: fsarena_fs::Error| error.to_string();
        let options = lifecycle::options(def, &cell.arm).map_err(words)?;
        let mut bench = Bench::open(&self.kernel, Some(self.carrier.numbers()), &self.plan.settle, emit);
        bench.settle("mkfs");
        let device = self.carrier.device();
        let mut formatted = None;
        let work = |log: &mut dyn FnMut(_)| {
            let done = lifecycle::format(device, def, &options, log)?;
            formatted = Some(done);
            Ok((Readings::default(), 0))
        };
        let sync = || std::fs::File::open(device.path())?.sync_all();
        bench
            .measure(&agent::lifecycle("mkfs", "Make the filesystem"), "lifecycle", work, sync)
            .map_err(words)?;
        let formatted = formatted.expect("measured without an error");
        let mut log = |record| bench.say(CellEvent::Command(record));
        let features = lifecycle::describe(device, def, &mut log).unwrap_or_default();
        if !self.facts.contains_key(&cell.arm.name) {
            let made = formatted.argv.join(" ");
            let text = if features.is_empty() { made } else { format!("{made}: {features}") };
            bench.say(CellEvent::Note(Note::new(NoteKind::Options, text).step("mkfs").arm(&cell.arm.name)));
        }
        Ok(ArmFacts {
            arm: cell.arm.name.clone(),
            def,
            options,
            effective: String::new(),
            features,
            size_bytes: device.size_bytes(),
        })
    }

    fn mount_request(&self, facts: &ArmFacts) -> MountRequest {
        MountRequest {
            source: self.carrier.device().path().to_path_buf(),
            target: self.carrier.target().to_path_buf(),
            fs_type: facts.def.kernel_type.to_string(),
            options: facts.options.mount.clone(),
        }
    }

    /// The same work on the bare device, without mkfs and mount. Only on an image that fsarena made.
    fn raw(&self, cell: &Cell, emit: &mut dyn FnMut(CellEvent)) -> Result<Outcome, Fatal> {
        let device = self.carrier.device();
        if device.loop_image().is_none() {
            return Err(Fatal::Plan(RAW_NEEDS_AN_IMAGE.into()));
        }
        let request = self.request(cell, None, device.path().to_path_buf());
        child::run(&self.journal, &request, emit)
    }

    fn request(&self, cell: &Cell, mount: Option<MountRequest>, root: PathBuf) -> Request {
        Request {
            cell: cell.clone(),
            settle: self.plan.settle.clone(),
            mount,
            root,
            other: self.carrier.other(),
            device: Some(self.carrier.numbers()),
            trace: self.trace,
        }
    }
}

impl Executor for Local {
    fn run(&mut self, cell: &Cell, emit: &mut dyn FnMut(CellEvent)) -> Result<Outcome, Fatal> {
        if cell.arm.level(factor::FS) == factor::RAW {
            return self.raw(cell, emit);
        }
        let def = fsarena_fs::filesystems::find(cell.arm.level(factor::FS))?;
        let mut facts = match self.format(cell, def, emit) {
            Ok(facts) => facts,
            Err(_) if fsarena_sys::cancel::requested().is_some() => return Ok(Outcome::Interrupted),
            Err(why) => return Ok(Outcome::Failed { why }),
        };
        let request =
            self.request(cell, Some(self.mount_request(&facts)), self.carrier.target().join("work"));
        let mounted = self.journal.arm(Undo::Unmount { target: self.carrier.target().to_path_buf() })?;
        let known = self.facts.contains_key(&cell.arm.name);
        let outcome = child::run(&self.journal, &request, &mut |event| match event {
            CellEvent::Note(note) if note.kind == NoteKind::Options => {
                facts.effective = note.text.clone();
                if !known {
                    emit(CellEvent::Note(note.arm(&cell.arm.name)));
                }
            }
            event => emit(event),
        });
        // The agent unmounts by itself; this is for one that could not.
        mount::unmount(self.carrier.target(), &mut |record| emit(CellEvent::Command(record)))?;
        mounted.forget()?;
        if !known && matches!(outcome, Ok(Outcome::Done)) {
            self.facts.insert(cell.arm.name.clone(), facts);
        }
        outcome
    }

    fn remarks(&self) -> Vec<Note> {
        let clones = |asked| workload(&self.plan, asked).is_ok_and(|(work, job)| work.may_clone(&job));
        let may_clone = self.plan.workloads.iter().any(clones);
        fairness::lint(&self.facts.values().cloned().collect::<Vec<_>>(), may_clone)
    }

    fn finish(self: Box<Self>, tell: Tell) -> Result<(), Fatal> {
        self.carrier.finish(tell)
    }
}
