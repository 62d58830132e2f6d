//! Temporary directories, which `fsarena recover` removes if a killed process leaves them.

use crate::error::{Result, RunError, require};
use fsarena_sys::undo::{self, Journal, MadeDir};
use fsarena_sys::{Error, dirs};
use std::path::Path;

/// A temporary directory, removed with everything in it when it is dropped; after a SIGKILL `fsarena recover` removes it.
pub struct ScratchDir {
    /// The undo journal of the directory and of everything made in it.
    pub journal: Journal,
    dir: MadeDir,
}

impl ScratchDir {
    /// Makes a directory below `below`, named `name` and the id of this process.
    ///
    /// # Errors
    /// If it cannot be made, or exists already.
    pub fn make(below: &Path, name: &str) -> Result<ScratchDir> {
        dirs::make_dirs(below).map_err(Error::io("making", below))?;
        let below = below.canonicalize().map_err(Error::io("reading", below))?;
        let dir = below.join(format!("{name}-{}", std::process::id()));
        let journal = Journal::create(&undo::state_dir(), &dir.to_string_lossy())?;
        let why =
            || format!("{0} exists already; remove it if an earlier run left it: rm -r {0}", dir.display());
        require(dir.symlink_metadata().is_err(), || RunError::Plan(why()))?;
        Ok(ScratchDir { dir: MadeDir::make_tree(&journal, &dir)?, journal })
    }

    /// The path of the directory.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Removes the directory with everything in it.
    ///
    /// # Errors
    /// If something in it is in use.
    pub fn clear(self) -> Result<()> {
        self.dir.remove()?;
        Ok(())
    }
}
