//! Undoing the setup of a run, even after its process is gone.
//!
//! Each process that sets something up keeps one [`Journal`]: a file of JSON lines in the state directory. A line is
//! appended and synced *before* the setup it describes, and another line after that is undone. A journal with nothing
//! left to undo is deleted. [`recover`] undoes what a dead owner left.

mod journal;
mod recover;
mod step;

pub use journal::{Journal, MadeDir, UndoGuard, make_state_dir, state_dir};
pub(crate) use recover::is_noted;
pub use recover::{Recovered, images, recover, recover_host};
pub use step::{Identity, Undo};
