//! The undo journal: it removes the setup of a run, even if the process of the run is killed.
//!
//! Each process that changes the machine keeps one [`Journal`]: a file of JSON lines in the state directory. It appends and
//! syncs a line with the undo step *before* each change, and another line after it has undone the change. A journal without
//! steps left to undo is deleted. [`recover`] performs the steps that a dead process has left.

mod journal;
mod perform;
mod recover;
mod step;

pub use journal::{Journal, MadeDir, UndoGuard, make_state_dir, state_dir};
pub(crate) use recover::has_pending_step;
pub use recover::{RecoveryCounts, journaled_images, recover};
pub use step::{FileIdentity, UndoStep};
