//! Who does the work of a cell in a directory: an agent here, or one on each of many machines.

use crate::error::Result;
use crate::executor::{CellSink, RunSink};
use crate::{axes::Confine, child, protocol::Request};
use fsarena_core::event::{Note, Outcome};
use fsarena_core::{cell::Variant, plan::Plan};
use fsarena_sys::undo::Journal;

/// The clients of a directory.
pub trait Clients {
    /// Number of clients. Each needs the room of the work.
    fn count(&self) -> u32 {
        1
    }

    /// What a run records of them, besides this machine.
    fn facts(&self) -> Vec<(String, String)> {
        vec![]
    }

    /// Checks that all of them can work, before the first cell.
    ///
    /// # Errors
    /// The first that cannot, with what to do.
    fn begin(&mut self, _plan: &Plan, _variants: &[Variant], _tell: RunSink) -> Result<()> {
        Ok(())
    }

    /// Has all of them do the work of one cell: by default that is an agent on this machine.
    ///
    /// # Errors
    /// What makes every further cell pointless.
    fn work(
        &mut self,
        journal: &Journal,
        request: &Request,
        confine: &Confine,
        emit: CellSink,
    ) -> Result<Outcome> {
        child::run(journal, request, confine, &mut |event| emit(event))
    }

    /// What a reader of the comparison should know of them.
    fn remarks(&self) -> Vec<Note> {
        vec![]
    }
}

/// One client: an agent on this machine.
pub struct Alone;

impl Clients for Alone {}
