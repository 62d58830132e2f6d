//! The hot loops of the engines that do one operation at a time.
//!
//! They are compiled for each device, clock, kind of requests and for verification, and hold no
//! allocation, no dynamic call and no shared write (but for shared cursors, see [`super::cadence`]). Stamps
//! are chained: the end of one operation is the start of the next, so one stamp an operation is enough and
//! the generator's own nanoseconds count as latency rather than vanish.

use super::clock::Clock;
use super::device::Device;
use super::error::Error;
use super::pace;
use super::stream::{Next, Op};
use super::tally::Recorder;
use super::worker::{Load, Worker};
use rustix::io::Errno;
use std::io;

/// Checks that a whole block was moved.
///
/// # Errors
/// The system's word, or that the block was cut short.
#[inline(always)]
pub fn whole(moved: Result<usize, Errno>, block: usize) -> Result<(), io::Error> {
    match moved {
        Ok(bytes) if bytes == block => Ok(()),
        moved => Err(partly(moved, block)),
    }
}

#[cold]
fn partly(moved: Result<usize, Errno>, block: usize) -> io::Error {
    match moved {
        Ok(bytes) => io::Error::new(
            io::ErrorKind::UnexpectedEof,
            format!("only {bytes} of {block} bytes were moved; the file may be shorter than it was, or full"),
        ),
        Err(error) => error.into(),
    }
}

/// Does one operation.
#[inline(always)]
fn operate<D: Device, const VERIFY: bool>(
    load: &Load,
    worker: &mut Worker,
    device: &D,
    next: &Next,
) -> Result<(), Error> {
    let buffer = worker.slots.get(0);
    let done = match next.op {
        Op::Read => whole(device.read(next.file, next.offset, buffer), buffer.len()),
        Op::Write => {
            if VERIFY {
                worker.filler.seal(buffer, worker.verifier.next_identity(next));
            } else {
                worker.filler.refresh(buffer);
            }
            whole(device.write(next.file, next.offset, buffer), buffer.len())
        }
        Op::Sync => device.sync(next.file).map_err(io::Error::from),
    };
    if let Err(source) = done {
        return Err(load.failed(next.op, next.file, next.offset, source));
    }
    if VERIFY && next.op == Op::Read {
        worker.verifier.check(worker.slots.get(0), next)?;
    }
    Ok(())
}

#[cold]
fn late<D: Device>(load: &Load, device: &D) -> Result<(), Error> {
    device.late_error().map_err(|(file, offset)| load.failed(Op::Read, file, offset, Errno::IO.into()))
}

/// Each operation starts when the one before has ended.
///
/// # Errors
/// The first operation that failed.
pub fn closed<D: Device, C: Clock, const REQUESTS: u8, const VERIFY: bool>(
    load: &Load,
    worker: &mut Worker,
    recorder: &mut Recorder,
    device: &D,
    clock: C,
) -> Result<(), Error> {
    let scale = recorder.times.scale;
    let mut start = clock.now();
    loop {
        let claimed = recorder.claim();
        if claimed == 0 {
            return late(load, device);
        }
        for _ in 0..claimed {
            let next = worker.stream.next::<REQUESTS>();
            operate::<D, VERIFY>(load, worker, device, &next)?;
            let end = clock.now();
            let turned = end >= recorder.boundary && !recorder.turn(end);
            recorder.tally.lanes[next.op as usize].raw.record(scale.ns(end.saturating_sub(start)));
            if turned {
                return late(load, device);
            }
            start = end;
        }
    }
}

/// Each operation starts when it is due, or as soon after as the one before has ended.
///
/// # Errors
/// The first operation that failed.
pub fn open<D: Device, C: Clock, const REQUESTS: u8, const VERIFY: bool>(
    load: &Load,
    worker: &mut Worker,
    recorder: &mut Recorder,
    device: &D,
    clock: C,
) -> Result<(), Error> {
    let scale = recorder.times.scale;
    loop {
        let claimed = recorder.claim();
        if claimed == 0 {
            return late(load, device);
        }
        for _ in 0..claimed {
            let Some(schedule) = &mut worker.schedule else { return Ok(()) };
            let due = recorder.times.start.saturating_add(scale.ticks(schedule.due_ns()));
            schedule.advance();
            let waits = clock.now() < due;
            let Some(start) = pace::wait_until(due, recorder, clock) else { return late(load, device) };
            // A worker that waited for its time and woke up late was not held up by what is measured.
            let intended = if waits { start } else { due };
            let next = worker.stream.next::<REQUESTS>();
            operate::<D, VERIFY>(load, worker, device, &next)?;
            let end = clock.now();
            let turned = end >= recorder.boundary && !recorder.turn(end);
            let lane = &mut recorder.tally.lanes[next.op as usize];
            lane.raw.record(scale.ns(end.saturating_sub(start)));
            lane.corrected.record(scale.ns(end.saturating_sub(intended)));
            if turned {
                return late(load, device);
            }
        }
    }
}
