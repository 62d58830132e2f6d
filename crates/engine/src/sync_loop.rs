//! The hot loop of the engines that perform one operation at a time.
//!
//! The loop is compiled for each device. It has no allocation, no dynamic call and no shared write except for shared
//! cursors (see [`crate::stream::EventNumbers`]). The end of one operation is the start of the next, so each operation needs
//! only one time stamp, and the latency includes the time of the load generator.

use crate::device::{Device, whole_block};
use crate::load::{Load, Worker};
use crate::stream::{Op, PlannedOp};
use crate::{clock::Clock, error::Result, schedule, tally::Recorder};
use rustix::io::Errno;
use std::io;

/// Runs a worker on a device until the run ends: performs one operation after the other; in an open loop, none before it is
/// due.
///
/// # Errors
/// An operation failed.
pub fn run<D: Device>(
    load: &Load,
    worker: &mut Worker,
    recorder: &mut Recorder,
    device: &D,
    clock: Clock,
) -> Result {
    let (mut start, mut intended) = (clock.now(), None);
    loop {
        let claimed = recorder.claim();
        if claimed == 0 {
            return late_error(load, device);
        }
        for _ in 0..claimed {
            if worker.schedule.is_some() {
                match schedule::wait_for_next_start(&mut worker.schedule, recorder, clock) {
                    Some(begun) => (start, intended) = begun,
                    None => return late_error(load, device),
                }
            }
            let next = worker.stream.next();
            perform(load, worker, device, &next)?;
            let end = clock.now();
            if !recorder.count(next.op as usize, start, intended, end) {
                return late_error(load, device);
            }
            start = end;
        }
    }
}

/// Performs one operation.
#[inline(always)]
fn perform(load: &Load, worker: &mut Worker, device: &impl Device, next: &PlannedOp) -> Result {
    let buffer = worker.slots.get(0);
    let done = match next.op {
        Op::Read => whole_block(device.read(next.file, next.offset, buffer), buffer.len()),
        Op::Write => {
            if load.job.verify {
                worker.filler.seal(buffer, worker.verifier.next_identity(next));
            } else {
                worker.filler.refresh(buffer);
            }
            whole_block(device.write(next.file, next.offset, buffer), buffer.len())
        }
        Op::Sync => device.sync(next.file).map_err(io::Error::from),
    };
    if let Err(source) = done {
        return Err(load.failed(next.op, next.file, next.offset, source));
    }
    if load.job.verify && next.op == Op::Read {
        worker.verifier.check(worker.slots.get(0), next)?;
    }
    Ok(())
}

#[cold]
fn late_error<D: Device>(load: &Load, device: &D) -> Result {
    device.late_error().map_err(|(file, offset)| load.failed(Op::Read, file, offset, Errno::IO.into()))
}
