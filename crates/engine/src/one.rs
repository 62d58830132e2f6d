//! The hot loop of the engines that do one operation at a time.
//!
//! It is compiled for each device, clock and kind of requests, with and without what verification and open loops
//! need, and holds no allocation, no dynamic call and no shared write (but for shared cursors, see
//! [`super::cadence`]). Stamps are chained: the end of one operation is the start of the next, so one stamp an
//! operation is enough and the generator's own nanoseconds count as latency rather than vanish.

use super::device::{Device, whole};
use super::load::{Load, Worker};
use super::stream::{Next, Op, by_requests};
use super::{clock::Clock, error::Result, schedule, tally::Recorder};
use rustix::io::Errno;
use std::io;

/// Runs a worker on a device.
///
/// # Errors
/// The first operation that failed.
pub fn run<D: Device>(
    load: &Load,
    worker: &mut Worker,
    recorder: &mut Recorder,
    device: &D,
    clock: impl Clock,
) -> Result {
    by_requests!(load.job, REQUESTS, {
        match load.job.verify || worker.schedule.is_some() {
            false => operations::<D, _, REQUESTS, false>(load, worker, recorder, device, clock),
            true => operations::<D, _, REQUESTS, true>(load, worker, recorder, device, clock),
        }
    })
}

/// Each operation starts when the one before has ended; in an open loop not before it is due.
fn operations<D: Device, C: Clock, const REQUESTS: u8, const SPECIAL: bool>(
    load: &Load,
    worker: &mut Worker,
    recorder: &mut Recorder,
    device: &D,
    clock: C,
) -> Result {
    let (mut start, mut intended) = (clock.now(), None);
    loop {
        let claimed = recorder.claim();
        if claimed == 0 {
            return late(load, device);
        }
        for _ in 0..claimed {
            if SPECIAL && worker.schedule.is_some() {
                match schedule::begin(&mut worker.schedule, recorder, clock) {
                    Some(begun) => (start, intended) = begun,
                    None => return late(load, device),
                }
            }
            let next = worker.stream.next::<REQUESTS>();
            operate::<SPECIAL>(load, worker, device, &next)?;
            let end = clock.now();
            if !recorder.count(next.op as usize, start, if SPECIAL { intended } else { None }, end) {
                return late(load, device);
            }
            start = end;
        }
    }
}

/// Does one operation.
#[inline(always)]
fn operate<const SPECIAL: bool>(load: &Load, worker: &mut Worker, on: &impl Device, next: &Next) -> Result {
    let verify = SPECIAL && load.job.verify;
    let buffer = worker.slots.get(0);
    let done = match next.op {
        Op::Read => whole(on.read(next.file, next.offset, buffer), buffer.len()),
        Op::Write => {
            if verify {
                worker.filler.seal(buffer, worker.verifier.next_identity(next));
            } else {
                worker.filler.refresh(buffer);
            }
            whole(on.write(next.file, next.offset, buffer), buffer.len())
        }
        Op::Sync => on.sync(next.file).map_err(io::Error::from),
    };
    if let Err(source) = done {
        return Err(load.failed(next.op, next.file, next.offset, source));
    }
    if verify && next.op == Op::Read {
        worker.verifier.check(worker.slots.get(0), next)?;
    }
    Ok(())
}

#[cold]
fn late<D: Device>(load: &Load, device: &D) -> Result {
    device.late_error().map_err(|(file, offset)| load.failed(Op::Read, file, offset, Errno::IO.into()))
}
