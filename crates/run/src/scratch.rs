//! A directory of ours for a while.

use crate::executor::{Fatal, Result, require};
use fsarena_sys::undo::{self, Journal, MadeDir};
use fsarena_sys::{Error, dirs};
use std::path::Path;

/// A directory that goes with all that is in it: when it is dropped, and after a SIGKILL by `fsarena recover`.
pub struct Scratch {
    /// The undo journal that its removal is in, for all that is made in it.
    pub journal: Journal,
    dir: MadeDir,
}

impl Scratch {
    /// Makes it below this directory. Its name ends with the number of this process.
    ///
    /// # Errors
    /// Where it cannot be made, or is there already.
    pub fn make(below: &Path, name: &str) -> Result<Scratch> {
        dirs::make_dirs(below).map_err(Error::io("making", below))?;
        let below = below.canonicalize().map_err(Error::io("reading", below))?;
        let dir = below.join(format!("{name}-{}", std::process::id()));
        let journal = Journal::create(&undo::state_dir(), &dir.to_string_lossy())?;
        let why =
            || format!("{0} exists already; remove it if an earlier run left it: rm -r {0}", dir.display());
        require(dir.symlink_metadata().is_err(), || Fatal::Plan(why()))?;
        Ok(Scratch { dir: MadeDir::make_tree(&journal, &dir)?, journal })
    }

    /// Where it is.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Removes it with all that is in it.
    ///
    /// # Errors
    /// Where something in it is in use.
    pub fn clear(self) -> Result<()> {
        self.dir.remove()?;
        Ok(())
    }
}
