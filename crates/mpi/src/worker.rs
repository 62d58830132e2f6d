//! The workers, all ranks except rank 0: they run the cells that rank 0 sends.

use crate::wire::{self, FromRank, LEAVE_TIMEOUT, Machine, SIGNAL_CHECK_INTERVAL, ToRank, Wire};
use crate::{agent::AgentSupervisor, guard, measure};
use fsarena_core::event::{CellEvent, Outcome};
use fsarena_run::child::{self, AgentParent};
use fsarena_run::{CellError, RunError};
use fsarena_run::{axes::Confinement, protocol::PrivilegedRequest};
use fsarena_sys::cancel;
use fsarena_sys::undo::{Journal, state_dir};
use std::path::PathBuf;

/// Handles the messages of rank 0 until the run is over or a signal arrives.
///
/// # Errors
/// If this rank cannot work, for instance because its state directory cannot be written.
pub fn run(wire: &dyn Wire) -> Result<(), RunError> {
    let journal = Journal::create(&state_dir(), &format!("rank {} of fsarena-mpi", wire.rank()))?;
    let mut _guard = None;
    wire::send_to_coordinator(wire, &FromRank::Hello(Machine::here()));
    while cancel::received_signal().is_none() {
        let Some(message) = wire::poll_until(SIGNAL_CHECK_INTERVAL, || wire::receive_from_coordinator(wire)) else {
            continue;
        };
        let answer = match message {
            ToRank::StartGuard => {
                _guard = Some(guard::start()?);
                continue;
            }
            ToRank::AnswerClock => {
                wire::answer_clock_measurement(wire);
                continue;
            }
            ToRank::End => {
                // All ranks must leave MPI together.
                let _ = wire.barrier(LEAVE_TIMEOUT);
                return Ok(());
            }
            // These messages belong to a cell that this rank has already ended.
            ToRank::AllReady | ToRank::WaitUntilIdle(_) | ToRank::StartTask | ToRank::Abandon => continue,
            ToRank::CheckFiles(paths) => FromRank::FilesChecked(find_missing_file(&paths)),
            ToRank::Cell(request, timeout) => {
                let mut cell = WorkerCell { wire, agent: AgentSupervisor::new(&request, timeout) };
                let outcome = child::run_agent(&journal, &request, &Confinement::default(), &mut cell);
                FromRank::Ended(outcome.unwrap_or_else(|fatal| CellError::from(fatal).into()))
            }
            ToRank::Echo(bytes) => FromRank::Echo(bytes),
            ToRank::Barrier(wait) => measure::measure_barrier(wire, wait),
        };
        wire::send_to_coordinator(wire, &answer);
    }
    // The caller ends this process by the signal, without leaving MPI; mpirun then ends the other ranks.
    Ok(())
}

/// Returns the first of these paths that is missing on this machine, with the error.
fn find_missing_file(paths: &[PathBuf]) -> Option<String> {
    paths.iter().find_map(|path| Some(format!("{}: {}", path.display(), path.metadata().err()?)))
}

/// This rank's part of a cell: the parent process of the rank's agent.
struct WorkerCell<'a> {
    wire: &'a dyn Wire,
    agent: AgentSupervisor,
}

impl AgentParent for WorkerCell<'_> {
    fn receive(&mut self, event: CellEvent) {
        let message = match event {
            CellEvent::Sample(sample) => FromRank::Sample(Box::new(self.agent.finish_task(sample))),
            CellEvent::Reading(metric) => FromRank::NewMetric(metric),
            CellEvent::Note(note) => FromRank::Note(note),
            // Of all other events (commands, phases …) the run has only those of rank 0: all ranks run the same
            // commands.
            _ => return,
        };
        wire::send_to_coordinator(self.wire, &message);
    }

    /// Tells rank 0 that the agent has sent this request (`Ready`), and waits until rank 0 lets all ranks continue. For the
    /// request before a task, rank 0 sends `WaitUntilIdle` to one rank of each machine and then `StartTask` to all; for any other
    /// request it sends `AllReady`. The time limit of the agent pauses meanwhile, because the agent waits for other ranks; it
    /// restarts with `AllReady`, or in [`AgentSupervisor::start_task`].
    fn answer(&mut self, request: PrivilegedRequest) -> Result<Outcome, RunError> {
        self.agent.pause_timeout();
        wire::send_to_coordinator(self.wire, &FromRank::Ready(request));
        loop {
            if cancel::received_signal().is_some() {
                return Ok(Outcome::Interrupted);
            }
            match wire::poll_until(SIGNAL_CHECK_INTERVAL, || wire::receive_from_coordinator(self.wire)) {
                Some(ToRank::WaitUntilIdle(task)) => {
                    wire::send_to_coordinator(self.wire, &FromRank::Idle(self.agent.wait_until_idle(&task)));
                }
                Some(ToRank::AllReady) => {
                    self.agent.restart_timeout();
                    return Ok(Outcome::Done);
                }
                Some(ToRank::StartTask) => return Ok(self.agent.start_task(self.wire)),
                Some(ToRank::Abandon) => return Ok(Outcome::Interrupted),
                _ => {}
            }
        }
    }

    fn poll(&mut self) -> Option<Outcome> {
        match wire::receive_from_coordinator(self.wire) {
            Some(ToRank::Abandon) => Some(Outcome::Interrupted),
            // While an agent works, rank 0 sends nothing else, except `End` after a fatal failure. This rank ignores
            // `End` here, so it does not come to the barrier, and rank 0 aborts the job.
            _ => self.agent.timeout_failure(),
        }
    }
}
