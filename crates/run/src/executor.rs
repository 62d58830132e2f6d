//! The seam between the runner and the places where cells run: cell in, samples out.

use fsarena_core::event::{CellEvent, CommandRecord, Event, Note, NoteKind, Outcome};
use fsarena_sys::undo::MadeDir;

use crate::error::Result;
use fsarena_core::cell::Cell;

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
