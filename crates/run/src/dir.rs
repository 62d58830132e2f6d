//! Existing directories: nothing is formatted or mounted, and no root is needed. The work of a cell is done by one agent on
//! this machine, or by one on each of many machines ([`Clients`]).

use crate::context::RunContext;
use crate::error::{Result, RunError, require};
use crate::executor::{CellSink, Executor, RunSink, remove};
use crate::settings::setting;
use crate::{axes, axes::Confine, bench::numbers, child, protocol::Request, work::inputs};
use fsarena_core::cell::{Cell, Variant};
use fsarena_core::event::{CellEvent, Event, Note, NoteKind, OF_DIRECTORY, Outcome};
use fsarena_core::{factor, matrix, plan::Plan};
use fsarena_sys::undo::{Journal, MadeDir};
use fsarena_sys::{device, dirs::Space, kernel::SysRoot};
use std::path::{Path, PathBuf};
use std::{collections::BTreeMap, os::unix::fs::MetadataExt};

/// The executor of existing directories.
pub struct Directories {
    run: RunContext,
    other: MadeDir,
    clients: Box<dyn Clients>,
    /// The directory made in each directory under test: it lasts as long as the run, and each cell works in it.
    made: BTreeMap<PathBuf, MadeDir>,
}

impl Directories {
    /// Makes the inputs in a directory of their own, and notes what each directory lies on.
    ///
    /// # Errors
    /// Where a directory cannot be written.
    pub fn start(run: RunContext, mut clients: Box<dyn Clients>, tell: RunSink) -> Result<Directories> {
        let other = run.plan.device.other_dir.as_ref().unwrap_or(&run.dir);
        let other = other.join(format!("fsarena-{}-other", run.id()));
        check_missing(&other)?;
        let other = MadeDir::make_tree(&run.journal, &other)?;
        inputs(&run.plan, other.path())?;
        run.agents.role.give(other.path())?;
        let variants = matrix::expand(&run.plan);
        for variant in &variants {
            let dir = Path::new(variant.level(factor::DIR));
            for note in notes(&run.kernel, dir, other.path()) {
                tell(Event::Note(note.variant(&variant.name)))?;
            }
        }
        clients.begin(&run.plan, &variants, tell)?;
        Ok(Directories { run, other, clients, made: BTreeMap::new() })
    }
}

impl Executor for Directories {
    fn run(&mut self, cell: &Cell, emit: CellSink) -> Result<Outcome> {
        let RunContext { kernel, journal, .. } = &self.run;
        let dir = Path::new(cell.variant.level(factor::DIR));
        let within = dir.join(format!("fsarena-{}", self.run.id()));
        if !self.made.contains_key(&within) {
            check_missing(&within)?;
            self.made.insert(within.clone(), MadeDir::make(journal, &within)?);
        }
        let root = MadeDir::make_tree(journal, &within.join("work"))?;
        let device = device::behind(kernel, dir)?.as_ref().map(numbers);
        let request = Request { device, ..self.run.request(cell, root.path(), self.other.path()) };
        let conditions = axes::set_up(kernel, journal, &cell.variant, &[])?;
        let notes = conditions.notes.iter().cloned();
        notes.for_each(|note| emit(CellEvent::Note(note.variant(&cell.variant.name))));
        let outcome = self.clients.work(journal, &request, &conditions.confine, emit);
        conditions.undo()?;
        root.remove()?;
        outcome
    }

    fn remarks(&self) -> Vec<Note> {
        let text = "nothing was formatted: these directories differ in age, fullness and fragmentation as well as \
                    in their filesystems, and rounds share one filesystem";
        let note = Note::new(NoteKind::Fairness, text);
        let note =
            note.fix(format!("as root, without {}, every round starts on a fresh mkfs", setting("on", "")));
        self.clients.remarks().into_iter().chain([note]).collect()
    }

    fn finish(self: Box<Self>, tell: RunSink) -> Result<()> {
        self.made.into_values().chain([self.other]).try_for_each(|dir| remove(dir, tell))
    }
}

/// The directory must be new: what is in it already is not fsarena's to remove.
fn check_missing(dir: &Path) -> Result<()> {
    let why = || format!("{dir:?} exists already; remove it if it is left from an earlier run");
    require(!dir.exists(), || RunError::Plan(why()))
}

/// What a directory lies on, as the kernel says.
fn notes(kernel: &SysRoot, dir: &Path, other: &Path) -> Vec<Note> {
    let mut notes = vec![];
    if let Some(mount) = kernel.mount_of(dir) {
        let text =
            format!("{} on {}: {},{}", mount.fs_type, mount.source, mount.mount_options, mount.super_options);
        notes.push(Note::new(NoteKind::Options, text).task(OF_DIRECTORY[0]));
    }
    if let Some(percent) = Space::at_path(dir).ok().and_then(|space| space.used_percent()) {
        notes.push(Note::new(NoteKind::Options, format!("{percent}% full")).task(OF_DIRECTORY[1]));
    }
    let device_of = |path: &Path| std::fs::metadata(path).map(|meta| meta.dev()).ok();
    if device_of(dir).is_some() && device_of(dir) == device_of(other) {
        let text =
            "the source disk is a directory of the same filesystem: copies to and from it stay on one device";
        let fix = format!("{} with a directory on another device", setting("other", "DIR"));
        notes.push(Note::new(NoteKind::Fairness, text).fix(fix));
    }
    notes
}

/// The clients of a directory.
pub trait Clients {
    /// Number of clients. Each needs the room of the work.
    fn count(&self) -> u32 {
        1
    }

    /// What a run records of them, besides this machine.
    fn facts(&self) -> Vec<(String, String)> {
        vec![]
    }

    /// Checks that all of them can work, before the first cell.
    ///
    /// # Errors
    /// The first that cannot, with what to do.
    fn begin(&mut self, _plan: &Plan, _variants: &[Variant], _tell: RunSink) -> Result<()> {
        Ok(())
    }

    /// Does the work of one cell with all clients; by default with an agent on this machine.
    ///
    /// # Errors
    /// What makes every further cell pointless.
    fn work(
        &mut self,
        journal: &Journal,
        request: &Request,
        confine: &Confine,
        emit: CellSink,
    ) -> Result<Outcome> {
        child::run(journal, request, confine, &mut |event| emit(event))
    }

    /// What a reader of the comparison should know of them.
    fn remarks(&self) -> Vec<Note> {
        vec![]
    }
}

/// One client: an agent on this machine.
pub struct SingleClient;

impl Clients for SingleClient {}
