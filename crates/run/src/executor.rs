//! The seam between the runner and the places where cells run: cell in, samples out.

use fsarena_core::event::{CellEvent, CommandRecord, Event, Note, NoteKind, Outcome};
use fsarena_core::{metric::Declared, plan::Plan};
use fsarena_fs::fairness::{self, VariantFacts};
use fsarena_sys::kernel::SysRoot;
use fsarena_sys::undo::{Journal, MadeDir};
use std::path::{Path, PathBuf};
use std::{cell::RefCell, collections::BTreeMap, rc::Rc};

use crate::error::Result;
use crate::privsep::Agents;
use crate::protocol::{Power, Request};
use crate::{layout::Layout, preflight::Check, work::workload};
use fsarena_core::cell::{Cell, Variant};

/// Receives the events of a run.
pub type RunSink<'a> = &'a mut dyn FnMut(Event) -> Result<()>;
/// Receives the events of a cell.
pub type CellSink<'a> = &'a mut dyn FnMut(CellEvent);
/// Receives the commands that were executed.
pub type Log<'a> = &'a mut dyn FnMut(CommandRecord);

/// Where cells run: this kernel, a directory as it is, a guest kernel, a rank.
pub trait Executor {
    /// Runs one cell and says what happened. A failure of the variant is an outcome.
    ///
    /// # Errors
    /// What makes every further cell pointless: a device that cannot be given back, say.
    fn run(&mut self, cell: &Cell, emit: CellSink) -> Result<Outcome>;

    /// What a reader of the comparison should know, once every variant has run.
    fn remarks(&self) -> Vec<Note>;

    /// Takes down what was set up for the whole run, and tells of the commands that this takes. Dropping
    /// an executor takes it down too, silently.
    ///
    /// # Errors
    /// Where something is still in use; it stays in the undo journal.
    fn finish(self: Box<Self>, tell: RunSink) -> Result<()>;
}

/// A run that has been checked and is about to begin.
#[derive(Debug, Clone)]
pub struct RunContext {
    /// The machine.
    pub kernel: SysRoot,
    /// The plan, with everything that only a trial here could decide.
    pub plan: Plan,
    /// The requirements of the plan.
    pub check: Check,
    /// Where everything is noted before it is done.
    pub journal: Journal,
    /// The directory of the run.
    pub dir: PathBuf,
    /// The part that its agents play.
    pub agents: Agents,
    /// The metrics that its commands have declared so far by printing them.
    pub declared: Rc<RefCell<Declared>>,
}

impl RunContext {
    /// The name of its directory.
    pub fn id(&self) -> String {
        self.dir.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// The devices of a variant.
    ///
    /// # Errors
    /// An unknown filesystem or option set.
    pub fn layout(&self, variant: &Variant) -> Result<Layout, fsarena_fs::Error> {
        Layout::of(&self.plan, variant, self.check.size_bytes)
    }

    /// The request to an agent that works in `root`, where nothing is mounted and no device is known.
    pub fn request(&self, cell: &Cell, root: &Path, other: &Path) -> Request {
        Request {
            cell: cell.clone(),
            idle: self.plan.idle.clone(),
            mount: None,
            root: root.into(),
            other: other.into(),
            device: None,
            profiling: self.agents.profiling,
            role: self.agents.role.clone(),
            power: Power::On,
            server_user: self.agents.server_user(&cell.workload.name),
            client: None,
            declared: self.declared.borrow().clone(),
        }
    }

    /// What makes the variants unequal.
    pub fn unfair(&self, facts: &BTreeMap<String, VariantFacts>) -> Vec<Note> {
        let clones = |asked| workload(&self.plan, asked).is_ok_and(|(work, job)| work.may_clone(&job));
        let may_clone = self.plan.workloads.iter().any(clones);
        fairness::lint(&facts.values().cloned().collect::<Vec<_>>(), may_clone)
    }
}

/// Removes a directory of a run. Where it holds files that fsarena did not make it stays, and a note names them.
///
/// # Errors
/// Where it cannot be removed for another reason, or the consumer fails.
pub fn remove(dir: MadeDir, tell: RunSink) -> Result<()> {
    let Some(text) = dir.remove()? else { return Ok(()) };
    let fix = "move the files elsewhere, then remove the directory";
    tell(Event::Note(Note::new(NoteKind::Remark, text).fix(fix)))
}

/// Runs something that logs its commands, and tells of them.
///
/// # Errors
/// If a consumer fails.
pub fn logged<T>(tell: RunSink, work: impl FnOnce(Log) -> T) -> Result<T> {
    let mut commands = Vec::new();
    let result = work(&mut |record| commands.push(record));
    commands.into_iter().try_for_each(|record| tell(Event::Command(record)))?;
    Ok(result)
}
