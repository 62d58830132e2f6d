//! The interface between the runner and the executors, which run cells and emit their events; and the temporary
//! directory of work that leaves nothing behind.

use crate::error::{Result, RunError, require};
use fsarena_core::cell::Cell;
use fsarena_core::event::{CellEvent, CommandRecord, Event, Note, NoteKind, Outcome};
use fsarena_sys::undo::{self, Journal, MadeDir};
use fsarena_sys::{Error, dirs};
use std::path::Path;

/// A function that receives the events of a run.
pub type RunSink<'a> = &'a mut dyn FnMut(Event) -> Result<()>;
/// A function that receives the events of a cell.
pub type CellSink<'a> = &'a mut dyn FnMut(CellEvent);
/// A function that receives the record of each command that was executed.
pub type CommandLog<'a> = &'a mut dyn FnMut(CommandRecord);

/// Runs the cells of a run in one kind of place: this kernel, existing directories, or guests.
pub trait Executor {
    /// Receives the cells that will probably be run next, in this order. An executor may begin them before
    /// [`Executor::run`] is called for them, if that does not change what it measures.
    fn announce(&mut self, _upcoming: Vec<Cell>) {}

    /// Runs one cell, emits its events, and returns its outcome. A failure of the variant is an outcome, not an error.
    ///
    /// # Errors
    /// An error that makes every further cell pointless, such as a device that cannot be released.
    fn run(&mut self, cell: &Cell, emit: CellSink) -> Result<Outcome>;

    /// Notes for the report, after all cells have run: for example how the variants differ besides their levels.
    fn remarks(&self) -> Vec<Note>;

    /// Removes the devices, mounts and directories of the run, and emits the commands that this takes. Dropping an
    /// executor removes them too, but emits nothing.
    ///
    /// # Errors
    /// A device or directory is still in use; it stays in the undo journal.
    fn finish(self: Box<Self>, emit: RunSink) -> Result<()>;
}

/// Removes a directory of a run. If it contains files that fsarena did not make, the directory stays and a note names
/// the files.
///
/// # Errors
/// The directory cannot be removed for another reason, or `emit` fails.
pub fn remove_run_dir(dir: MadeDir, emit: RunSink) -> Result<()> {
    let Some(text) = dir.remove()? else { return Ok(()) };
    let fix = "move the files elsewhere, then remove the directory";
    emit(Event::Note(Note::new(NoteKind::Remark, text).fix(fix)))
}

/// Calls `work` with a log that collects the commands that it executes. Then emits these commands, and returns what
/// `work` has returned.
///
/// # Errors
/// `emit` fails.
pub fn emit_logged_commands<T>(emit: RunSink, work: impl FnOnce(CommandLog) -> T) -> Result<T> {
    let mut commands = Vec::new();
    let result = work(&mut |record| commands.push(record));
    commands.into_iter().try_for_each(|record| emit(Event::Command(record)))?;
    Ok(result)
}

/// Checks that a directory does not exist yet. fsarena must not remove files that it did not make.
///
/// # Errors
/// Something has its name, with what to do.
pub fn check_absent(dir: &Path) -> Result<()> {
    let why = || format!("{dir:?} exists already; if a killed run left it: fsarena recover; else move it elsewhere");
    require(dir.symlink_metadata().is_err(), || RunError::Plan(why()))
}

/// A temporary directory, removed with everything in it when it is dropped; after a SIGKILL `fsarena recover` removes
/// it.
pub struct ScratchDir {
    /// The undo journal of the directory and of everything made in it.
    pub journal: Journal,
    dir: MadeDir,
}

impl ScratchDir {
    /// Makes a directory below `parent`, named `name` and the id of this process.
    ///
    /// # Errors
    /// The directory cannot be made, or exists already.
    pub fn make(parent: &Path, name: &str) -> Result<ScratchDir> {
        dirs::make_dirs(parent).map_err(Error::io("making", parent))?;
        let parent = parent.canonicalize().map_err(Error::io("reading", parent))?;
        let dir = parent.join(format!("{name}-{}", std::process::id()));
        let journal = Journal::create(&undo::state_dir(), &dir.to_string_lossy())?;
        check_absent(&dir)?;
        Ok(ScratchDir { dir: MadeDir::make_tree(&journal, &dir)?, journal })
    }

    /// The path of the directory.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Removes the directory with everything in it.
    ///
    /// # Errors
    /// Something in it is in use.
    pub fn remove(self) -> Result<()> {
        self.dir.remove()?;
        Ok(())
    }
}

/// Turns an event of an agent that measures nothing into an event of the run. None for events that the run does not
/// store.
pub fn to_run_event(event: CellEvent) -> Option<Event> {
    match event {
        CellEvent::Command(record) => Some(Event::Command(record)),
        CellEvent::Note(note) => Some(Event::Note(note)),
        _ => None,
    }
}
