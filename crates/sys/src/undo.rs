//! Undoing the setup of a run, even after its process is gone.
//!
//! Each process that sets something up keeps one [`Journal`]: a file of JSON lines in the state
//! directory, to which a line is appended and synced *before* the thing is done. Another line says when it is
//! undone; a journal with nothing left to undo is deleted. [`recover`] undoes what a dead owner left.

mod act;
mod dir;
mod journal;
mod owner;
mod recover;
mod step;
mod verify;

pub use dir::MadeDir;
pub use journal::{Journal, UndoGuard, make_state_dir, state_dir};
pub(crate) use recover::is_noted;
pub use recover::{Recovered, images, recover, recover_host};
pub use step::{Identity, Undo};
