//! The thread that empties the ring buffers while the work runs.

use crate::trace::decode::{self, Decoder};
use crate::trace::order::{Event, Order};
use crate::trace::rings::{Ring, Rings};
use crate::trace::tally::Tally;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::time::ClockId;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

/// How long the thread sleeps at most. Buffers that fill up wake it sooner.
const GLANCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
/// A record is written a moment after its time is taken; on a virtual machine that is not running, a long one.
const SLACK_NS: u64 = 20_000_000;

/// What the thread found.
pub struct Finished {
    /// All that was seen.
    pub tally: Tally,
    /// How long the events were on, in nanoseconds.
    pub duration_ns: u64,
}

/// Nanoseconds of CLOCK_MONOTONIC, which the records have too.
pub fn now() -> u64 {
    let time = rustix::time::clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Reads until `stop` is readable, then switches the events off and reads what is left.
pub fn run(mut rings: Rings, begun: u64, stop: &OwnedFd, mut tally: Tally) -> Finished {
    tally.not_this_thread = Some(rustix::thread::gettid().as_raw_nonzero().get() as u32);
    let mut order = Order::default();
    while !wait(&rings.rings, stop) {
        let round = now();
        drain(&mut rings.rings, &mut tally, &mut order);
        order.until(round.saturating_sub(SLACK_NS)).for_each(|event| tally.add(&event));
    }
    // Beginnings first: see `Rings::rings`.
    for ring in rings.rings.iter_mut().rev() {
        // It fails for a CPU that went offline, and has nothing to say any more.
        let _ = ring.sampler.disable();
    }
    let duration_ns = now() - begun;
    drain(&mut rings.rings, &mut tally, &mut order);
    order.until(u64::MAX).for_each(|event| tally.add(&event));
    tally.pairing.finish();
    Finished { tally, duration_ns }
}

/// Waits until there is much to read, or a while. Whether it is time to stop.
fn wait(rings: &[Ring], stop: &OwnedFd) -> bool {
    let mut fds = vec![PollFd::new(stop, PollFlags::IN)];
    fds.extend(rings.iter().map(|ring| {
        // SAFETY: the ring owns the descriptor and outlives this borrow.
        let fd = unsafe { BorrowedFd::borrow_raw(ring.sampler.as_raw_fd()) };
        PollFd::from_borrowed_fd(fd, PollFlags::IN)
    }));
    match rustix::event::poll(&mut fds, Some(&GLANCE)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => {}
        // Short of memory: the buffers can still be read.
        Err(_) => std::thread::sleep(std::time::Duration::from_millis(10)),
    }
    !fds[0].revents().is_empty()
}

fn drain(rings: &mut [Ring], tally: &mut Tally, order: &mut Order) {
    for Ring { cpu, decoder, sampler } in rings {
        while let Some(record) = sampler.next_record() {
            match event(*decoder, *cpu, record.ty(), &record.to_contiguous(), tally) {
                Ok(Some(event)) => order.push(event),
                Ok(None) => {}
                // Never seen; a reader must not take a figure for whole that is not.
                Err(decode::Malformed) => tally.lost += 1,
            }
        }
    }
}

fn event(
    decoder: Decoder,
    cpu: u32,
    record_type: u32,
    body: &[u8],
    tally: &mut Tally,
) -> Result<Option<Event>, decode::Malformed> {
    let Some(record) = decoder.decode(record_type, body)? else { return Ok(None) };
    let what = record.what.map(|chain| tally.chains.intern(chain));
    Ok(Some(Event { time: record.time, cpu, pid: record.pid, tid: record.tid, what }))
}
