//! A directory of ours for the time of one command.

use crate::failure::Failure;
use fsarena_core::exit::ExitCode;
use fsarena_sys::undo::{self, Armed, Journal, Undo};
use std::path::{Path, PathBuf};

/// A directory that goes with all that is in it: when it is dropped, and after a SIGKILL by `fsarena recover`.
pub struct Room {
    dir: PathBuf,
    journal: Journal,
    armed: Armed,
}

impl Room {
    /// Makes it below a directory that is there. Its name ends with the number of this process.
    pub fn make(below: &Path, name: &str) -> Result<Room, Failure> {
        let below = below.canonicalize().map_err(Failure::file(below))?;
        let dir = below.join(format!("{name}-{}", std::process::id()));
        let journal = Journal::create(&undo::state_dir(), &dir.to_string_lossy())?;
        if dir.symlink_metadata().is_ok() {
            let message = format!("{} is there already; remove it if it is left from before", dir.display());
            return Err(Failure::new(ExitCode::Usage, message));
        }
        let armed = journal.variant(Undo::RemoveTree { path: dir.clone() })?;
        std::fs::create_dir(&dir).map_err(Failure::file(&dir))?;
        Ok(Room { dir, journal, armed })
    }

    /// Where it is.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The undo journal that its removal is in, for all that is made in it.
    pub fn journal(&self) -> &Journal {
        &self.journal
    }

    /// Removes it with all that is in it.
    pub fn clear(self) -> Result<(), Failure> {
        Ok(self.armed.undo()?)
    }
}
