//! Directories as they are: nothing is formatted or mounted, and no root is needed.

use crate::axes;
use crate::clients::Clients;
use crate::executor::{Emit, Executor, Fatal, Tell, remove};
use crate::protocol::{Agents, Power, Request};
use crate::work::inputs;
use fsarena_core::cell::Cell;
use fsarena_core::event::{CellEvent, Event, Note, NoteKind, Outcome};
use fsarena_core::factor;
use fsarena_core::matrix;
use fsarena_core::plan::Plan;
use fsarena_sys::device;
use fsarena_sys::kernel::Kernel;
use fsarena_sys::undo::{Journal, MadeDir};
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The executor of existing directories.
pub struct Directories {
    kernel: Kernel,
    plan: Plan,
    journal: Journal,
    run_id: String,
    other: MadeDir,
    agents: Agents,
    clients: Box<dyn Clients>,
    /// The directory made in each directory under test: it lasts as long as the run, and each cell works in it.
    made: BTreeMap<PathBuf, MadeDir>,
}

impl Directories {
    /// Makes the inputs in a directory of their own, and notes what each directory lies on.
    ///
    /// # Errors
    /// Where a directory cannot be written.
    pub fn start(
        kernel: &Kernel,
        plan: &Plan,
        journal: &Journal,
        run_dir: &Path,
        agents: Agents,
        mut clients: Box<dyn Clients>,
        tell: Tell,
    ) -> Result<Directories, Fatal> {
        let run_id = run_dir.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let other =
            plan.device.other_dir.as_deref().unwrap_or(run_dir).join(format!("fsarena-{run_id}-other"));
        check_missing(&other)?;
        let other = MadeDir::make_tree(journal, &other)?;
        inputs(plan, other.path())?;
        agents.role.give(other.path())?;
        let variants = matrix::expand(plan);
        for variant in &variants {
            let dir = Path::new(variant.level(factor::DIR));
            for note in notes(kernel, dir, other.path()) {
                tell(Event::Note(note.variant(&variant.name)))?;
            }
        }
        clients.begin(plan, &variants, tell)?;
        Ok(Directories {
            kernel: kernel.clone(),
            plan: plan.clone(),
            journal: journal.clone(),
            run_id,
            other,
            agents,
            clients,
            made: BTreeMap::new(),
        })
    }
}

impl Executor for Directories {
    fn run(&mut self, cell: &Cell, emit: Emit) -> Result<Outcome, Fatal> {
        let dir = Path::new(cell.variant.level(factor::DIR));
        let within = dir.join(format!("fsarena-{}", self.run_id));
        if !self.made.contains_key(&within) {
            check_missing(&within)?;
            self.made.insert(within.clone(), MadeDir::make(&self.journal, &within)?);
        }
        let root = MadeDir::make_tree(&self.journal, &within.join("work"))?;
        let request = Request {
            cell: cell.clone(),
            idle: self.plan.idle.clone(),
            mount: None,
            device: device::behind(&self.kernel, dir).map(|device| (device.major, device.minor)),
            root: root.path().to_path_buf(),
            other: self.other.path().to_path_buf(),
            profiling: self.agents.profiling,
            role: self.agents.role.clone(),
            power: Power::On,
            client: None,
        };
        let conditions = axes::set_up(&self.kernel, &self.journal, &cell.variant, &[])?;
        for note in &conditions.notes {
            emit(CellEvent::Note(note.clone().variant(&cell.variant.name)));
        }
        let outcome = self.clients.work(&self.journal, &request, &conditions.confine, emit);
        conditions.undo()?;
        root.remove()?;
        outcome
    }

    fn remarks(&self) -> Vec<Note> {
        let text = "nothing was formatted: these directories differ in age, fullness and fragmentation as well as \
                    in their filesystems, and rounds share one filesystem";
        let mut notes = self.clients.remarks();
        notes.push(
            Note::new(NoteKind::Fairness, text)
                .fix("as root, without --on, every round starts on a fresh mkfs"),
        );
        notes
    }

    fn finish(self: Box<Self>, tell: Tell) -> Result<(), Fatal> {
        self.made.into_values().chain([self.other]).try_for_each(|dir| remove(dir, tell))
    }
}

/// The directory must be new: what is in it already is not fsarena's to remove.
fn check_missing(dir: &Path) -> Result<(), Fatal> {
    match dir.exists() {
        true => {
            Err(Fatal::Plan(format!("{dir:?} exists already; remove it if it is left from an earlier run")))
        }
        false => Ok(()),
    }
}

/// What a directory lies on, as the kernel says.
fn notes(kernel: &Kernel, dir: &Path, other: &Path) -> Vec<Note> {
    let mut notes = vec![];
    let path = dir.canonicalize().unwrap_or_else(|_| dir.to_path_buf());
    let mounts = kernel.mounts().unwrap_or_default();
    let mount = mounts
        .iter()
        .filter(|mount| path.starts_with(&mount.target))
        .max_by_key(|mount| mount.target.as_os_str().len());
    if let Some(mount) = mount {
        let text =
            format!("{} on {}: {},{}", mount.fs_type, mount.source, mount.mount_options, mount.super_options);
        notes.push(Note::new(NoteKind::Options, text).task("mount"));
    }
    let device_of = |path: &Path| std::fs::metadata(path).map(|meta| meta.dev()).ok();
    if device_of(dir).is_some() && device_of(dir) == device_of(other) {
        let text =
            "the source disk is a directory of the same filesystem: copies to and from it stay on one device";
        notes.push(Note::new(NoteKind::Fairness, text).fix("--other DIR with a directory on another device"));
    }
    notes
}
