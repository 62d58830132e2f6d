//! The implementation of [`Wire`] by an MPI library.

use crate::wire::{self, Wire};
use mpi::request::{Request, Scope, scope};
use mpi::traits::{Communicator, CommunicatorCollectives, Destination, MatchedReceiveVec, Source};
use mpi::{environment::Universe, topology::SimpleCommunicator};
use std::time::Duration;

/// Messages of the protocol.
const MESSAGE: i32 = 1;
/// Times of clocks.
const TIME: i32 = 2;

/// The ranks of this job.
pub struct Mpi {
    world: SimpleCommunicator,
    /// Ends MPI when it is dropped.
    _universe: Universe,
}

impl Mpi {
    /// Joins the job that this process was started for. Returns none if the process has joined it before.
    pub fn join() -> Option<Mpi> {
        let universe = mpi::initialize()?;
        Some(Mpi { world: universe.world(), _universe: universe })
    }

    /// Ends all ranks at once.
    pub fn abort(&self, code: u8) -> ! {
        self.world.abort(i32::from(code))
    }
}

/// Sleeps until an operation completes. Returns false on timeout.
fn complete<'a, D: ?Sized, S: Scope<'a>>(
    request: Request<'a, D, S>,
    longest_pause: Duration,
    timeout: Duration,
) -> bool {
    let mut request = Some(request);
    let done = wire::poll_with_pause(longest_pause, timeout, || {
        request = request.take()?.test().err();
        request.is_none().then_some(())
    });
    // The job is ended by force, and MPI keeps what it still needs.
    std::mem::forget(request);
    done.is_some()
}

impl Wire for Mpi {
    fn rank(&self) -> u32 {
        self.world.rank() as u32
    }

    fn size(&self) -> u32 {
        self.world.size() as u32
    }

    fn send(&self, to: u32, message: &[u8]) {
        let to = self.world.process_at_rank(to as i32);
        scope(|scope| {
            complete(to.immediate_send_with_tag(scope, message, MESSAGE), wire::PRECISE_PAUSE, Duration::MAX)
        });
    }

    fn receive(&self) -> Option<(u32, Vec<u8>)> {
        let matched = self.world.any_process().immediate_matched_probe_with_tag(MESSAGE)?;
        let (bytes, status) = matched.matched_receive_vec::<u8>();
        Some((status.source_rank() as u32, bytes))
    }

    fn barrier(&self, timeout: Duration) -> bool {
        // The first barrier may take long if a rank is late, so it polls seldom. All ranks reach the second within one
        // pause of the first, so that one can poll often.
        complete(self.world.immediate_barrier(), wire::MAX_PAUSE, timeout)
            && complete(self.world.immediate_barrier(), wire::PRECISE_PAUSE, timeout)
    }

    fn barrier_awake(&self) {
        self.world.barrier();
    }

    fn send_time(&self, to: u32, seconds: f64) {
        self.world.process_at_rank(to as i32).send_with_tag(&seconds, TIME);
    }

    fn receive_time(&self, from: u32) -> f64 {
        self.world.process_at_rank(from as i32).receive_with_tag::<f64>(TIME).0
    }
}
