//! The implementation of [`Wire`] on an MPI library, through the crate `mpi` (rsmpi).

use crate::wire::{self, Wire};
use mpi::request::{Request, Scope, StaticScope};
use mpi::traits::{Communicator, CommunicatorCollectives, Destination, MatchedReceiveVec, Source};
use mpi::{environment::Universe, topology::SimpleCommunicator};
use std::{mem::ManuallyDrop, slice, time::Duration};

/// The MPI tag of messages.
const MESSAGE_TAG: i32 = 1;
/// The MPI tag of clock times.
const TIME_TAG: i32 = 2;

/// The membership of this process in an MPI job.
pub struct Mpi {
    world: SimpleCommunicator,
    /// Dropping it finalises MPI.
    _universe: Universe,
}

impl Mpi {
    /// Initialises MPI and joins the job of this process. Returns `None` if MPI was initialised before.
    pub fn join() -> Option<Mpi> {
        let universe = mpi::initialize()?;
        Some(Mpi { world: universe.world(), _universe: universe })
    }

    /// Kills all ranks of the job. `code` is the exit code of the job.
    pub fn abort(&self, code: u8) -> ! {
        self.world.abort(i32::from(code))
    }
}

/// Polls an operation, with sleeps of at most `max_pause`, until it completes. Returns false on timeout.
fn wait_for_completion<'a, D: ?Sized, S: Scope<'a>>(
    request: Request<'a, D, S>,
    max_pause: Duration,
    timeout: Duration,
) -> bool {
    let mut request = Some(request);
    let completed = wire::poll_with_pause(max_pause, timeout, || {
        // While the operation is incomplete, `test` returns the request as its error.
        request = request.take()?.test().err();
        request.is_none().then_some(())
    });
    // Dropping an incomplete request panics. After a timeout the job is killed, so the request may leak.
    std::mem::forget(request);
    completed.is_some()
}

impl Wire for Mpi {
    fn rank(&self) -> u32 {
        self.world.rank() as u32
    }

    fn size(&self) -> u32 {
        self.world.size() as u32
    }

    fn send(&self, rank: u32, message: &[u8], timeout: Duration) -> bool {
        let copy = ManuallyDrop::new(message.to_vec());
        // SAFETY: the copy is dropped below only if the request has completed; after a timeout it is never dropped, because
        // the MPI library may still read it.
        let text: &'static [u8] = unsafe { slice::from_raw_parts(copy.as_ptr(), copy.len()) };
        let process = self.world.process_at_rank(rank as i32);
        let request = process.immediate_send_with_tag(StaticScope, text, MESSAGE_TAG);
        let is_sent = wait_for_completion(request, wire::PRECISE_PAUSE, timeout);
        if is_sent {
            drop(ManuallyDrop::into_inner(copy));
        }
        is_sent
    }

    fn receive(&self) -> Option<(u32, Vec<u8>)> {
        let matched = self.world.any_process().immediate_matched_probe_with_tag(MESSAGE_TAG)?;
        let (bytes, status) = matched.matched_receive_vec::<u8>();
        Some((status.source_rank() as u32, bytes))
    }

    fn barrier(&self, timeout: Duration) -> bool {
        // The first barrier polls rarely, because it takes long if a rank is late. All ranks reach the second barrier within
        // one pause, so it can poll often, and all ranks leave it nearly at once.
        wait_for_completion(self.world.immediate_barrier(), wire::MAX_PAUSE, timeout)
            && wait_for_completion(self.world.immediate_barrier(), wire::PRECISE_PAUSE, timeout)
    }

    fn barrier_awake(&self, timeout: Duration) -> bool {
        wait_for_completion(self.world.immediate_barrier(), Duration::ZERO, timeout)
    }

    fn send_time(&self, rank: u32, seconds: f64) {
        self.world.process_at_rank(rank as i32).send_with_tag(&seconds, TIME_TAG);
    }

    fn receive_time(&self, rank: u32, timeout: Duration) -> Option<f64> {
        let process = self.world.process_at_rank(rank as i32);
        let probe = || process.immediate_matched_probe_with_tag(TIME_TAG);
        let (message, _) = wire::poll_with_pause(Duration::ZERO, timeout, probe)?;
        Some(message.matched_receive::<f64>().0)
    }
}
