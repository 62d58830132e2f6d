//! What the ranks other than 0 do for the run.

use crate::message::{FromRank, Machine, ToRank};
use crate::wire::{self, GLANCE, LEAVING, Wire};
use crate::{agent::Agent, clock, guard, measure};
use fsarena_core::event::{CellEvent, Outcome};
use fsarena_run::child::{self, Parent};
use fsarena_run::{CellError, RunError};
use fsarena_run::{axes::Confine, protocol::PrivilegedRequest};
use fsarena_sys::cancel;
use fsarena_sys::undo::{Journal, state_dir};
use std::path::PathBuf;

/// Follows rank 0 until the run is over, or a signal comes.
///
/// # Errors
/// What makes this rank useless: its state directory cannot be written, say.
pub fn follow(wire: &dyn Wire) -> Result<(), RunError> {
    let journal = Journal::create(&state_dir(), &format!("rank {} of fsarena-mpi", wire.rank()))?;
    let mut _guard = None;
    wire::tell(wire, &FromRank::Hello(Machine::here()));
    while cancel::requested().is_none() {
        let Some(asked) = wire::wait(GLANCE, || wire::asked(wire)) else { continue };
        match asked {
            ToRank::Guard => _guard = Some(guard::start()?),
            ToRank::Look(paths) => wire::tell(wire, &FromRank::Looked(unseen(&paths))),
            ToRank::Clock(trips) => clock::answer(wire, trips),
            ToRank::Cell(request, patience) => {
                let agent = Agent::new(&request, patience);
                let outcome = child::run(&journal, &request, &Confine::default(), &mut Work { wire, agent });
                wire::tell(
                    wire,
                    &FromRank::Ended(outcome.unwrap_or_else(|fatal| CellError::from(fatal).into())),
                );
            }
            ToRank::Echo(bytes) => wire::tell(wire, &FromRank::Echo(bytes)),
            ToRank::Barrier(asleep) => wire::tell(wire, &measure::barrier(wire, asleep)),
            ToRank::End => {
                // MPI can only be left together.
                let _ = wire.barrier(LEAVING);
                return Ok(());
            }
            // Of a cell that this rank has ended already.
            ToRank::Met | ToRank::WaitUntilIdle(_) | ToRank::Begin | ToRank::Abandon => {}
        }
    }
    Ok(())
}

/// The first of these paths that is not here.
fn unseen(paths: &[PathBuf]) -> Option<String> {
    paths.iter().find_map(|path| Some(format!("{}: {}", path.display(), path.metadata().err()?)))
}

/// The cell of this rank, as the parent of its agent.
struct Work<'a> {
    wire: &'a dyn Wire,
    agent: Agent,
}

impl Parent for Work<'_> {
    fn hear(&mut self, event: CellEvent) {
        match event {
            CellEvent::Sample(sample) => {
                wire::tell(self.wire, &FromRank::Sample(Box::new(self.agent.measured(sample))));
            }
            CellEvent::Reading(metric) => wire::tell(self.wire, &FromRank::Reading(metric)),
            CellEvent::Note(note) => wire::tell(self.wire, &FromRank::Note(note)),
            // The log of rank 0 has what all ranks do.
            _ => {}
        }
    }

    fn answer(&mut self, ask: PrivilegedRequest) -> Result<Outcome, RunError> {
        self.agent.waits();
        wire::tell(self.wire, &FromRank::Ready(ask));
        loop {
            if cancel::requested().is_some() {
                return Ok(Outcome::Interrupted);
            }
            match wire::wait(GLANCE, || wire::asked(self.wire)) {
                Some(ToRank::WaitUntilIdle(task)) => {
                    wire::tell(self.wire, &FromRank::Idle(self.agent.wait_until_idle(&task)));
                }
                Some(ToRank::Met) => return Ok(self.agent.goes_on()),
                Some(ToRank::Begin) => return Ok(self.agent.begin(self.wire)),
                Some(ToRank::Abandon) => return Ok(Outcome::Interrupted),
                _ => {}
            }
        }
    }

    fn look(&mut self) -> Option<Outcome> {
        match wire::asked(self.wire) {
            Some(ToRank::Abandon) => Some(Outcome::Interrupted),
            _ => self.agent.overdue(),
        }
    }
}
