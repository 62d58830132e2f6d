//! The hot loop of the engines that perform one operation at a time.
//!
//! The loop is compiled for each [`BlockIo`]. It has no allocation and no dynamic call. It writes to shared memory only to number
//! events that are counted over all threads (see [`crate::stream::EventNumbers`]) and, once for several operations, to claim
//! them from the budget. The end of one operation is the start of the next, so each operation needs only one time stamp, and
//! the latency includes the time of the load generator.

use crate::block_io::{BlockIo, check_whole_block};
use crate::load::{FileLoad, Worker};
use crate::stream::{Op, PlannedOp};
use crate::{clock::Clock, error::Result, schedule, tally::Recorder};
use rustix::io::Errno;
use std::io;

/// Runs a worker until the run ends: performs one operation after the other; in an open loop, none before it is
/// due.
///
/// # Errors
/// An operation failed.
pub fn run(load: &FileLoad, worker: &mut Worker, recorder: &mut Recorder, io: &impl BlockIo, clock: Clock) -> Result {
    let (mut start, mut intended_start) = (clock.now(), None);
    loop {
        let mut claimed = recorder.claim();
        if claimed == 0 {
            return check_late_error(load, io);
        }
        while claimed > 0 {
            if worker.schedule.is_some() {
                match schedule::wait_for_next_start(&mut worker.schedule, recorder, clock) {
                    Some(times) => (start, intended_start) = times,
                    None => return check_late_error(load, io),
                }
            }
            let planned = worker.stream.next();
            claimed -= load.budget_cost(planned.op);
            perform(load, worker, io, &planned)?;
            let end = clock.now();
            if !recorder.count(planned.op as usize, start, intended_start, end) {
                return check_late_error(load, io);
            }
            start = end;
        }
    }
}

/// Performs one operation.
#[inline(always)]
fn perform(load: &FileLoad, worker: &mut Worker, io: &impl BlockIo, planned: &PlannedOp) -> Result {
    let result = match planned.op {
        Op::Read => {
            let buffer = worker.buffers.get(0);
            check_whole_block(io.read(planned.file, planned.offset, buffer), buffer.len())
        }
        Op::Write => {
            worker.fill_buffer(load.job, 0, planned);
            let buffer = worker.buffers.get(0);
            check_whole_block(io.write(planned.file, planned.offset, buffer), buffer.len())
        }
        Op::Sync => io.sync(planned.file).map_err(io::Error::from),
    };
    worker.check_result(load, 0, planned, result)
}

/// Checks for an error that the operations did not report: a page fault in a mapping, which has neither a kind of operation
/// nor an error number. It is reported as EIO, of a read if the load has reads, else of a write.
#[cold]
fn check_late_error(load: &FileLoad, io: &impl BlockIo) -> Result {
    let op = if load.job.reads() { Op::Read } else { Op::Write };
    io.check_late_error().map_err(|(file, offset)| load.operation_error(op, file, offset, Errno::IO.into()))
}
