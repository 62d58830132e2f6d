//! The hot loop of the io_uring engine, and its ring with the features that the kernel supports.
//!
//! Each iteration submits an operation for every free slot (in an open loop, only operations that are due) in one system call,
//! which also waits for completions, and then reaps all completions. One time stamp per iteration is the end of the reaped
//! operations and the start of the next ones.

use crate::error::{EngineError, Result};
use crate::job::{LoadJob, SyncCall, UringUse};
use crate::load::{Load, Worker};
use crate::stream::{Op, PlannedOp, by_requests};
use crate::tally::Recorder;
use crate::{buffers::Slots, clock::Clock, histogram::Latencies, schedule, sync_loop::whole_block};
use io_uring::types::{Fd, FsyncFlags, SubmitArgs, Timespec};
use io_uring::{IoUring, opcode, squeue};
use rustix::{fd::BorrowedFd, io::Errno};
use std::{io, os::fd::AsRawFd, time::Duration};

/// An operation in flight. Times are in ticks of the clock.
#[derive(Clone, Copy)]
struct Flight {
    op: PlannedOp,
    start: u64,
    /// The intended start; only used in an open loop.
    intended: u64,
}

/// The planned operation of a NOP.
const NOTHING: PlannedOp = PlannedOp { op: Op::Read, file: 0, offset: 0, block: 0 };

/// Runs a worker on its ring. With `nop`, each operation is a NOP, to measure the cost of the ring and the load generator.
///
/// # Errors
/// An operation or the ring failed; the first error is returned. When this returns, no operation is in flight.
pub fn run(
    load: &Load,
    worker: &mut Worker,
    recorder: &mut Recorder,
    clock: impl Clock,
    nop: bool,
) -> Result {
    let Some(mut ring) = worker.ring.take() else { return Ok(()) };
    let special = load.job.verify || worker.schedule.is_some();
    let done = by_requests!(load.job, REQUESTS, {
        match (nop, special) {
            (true, _) => {
                RingWorker::<_, REQUESTS, true, false>::new(load, worker, recorder, clock).run(&mut ring)
            }
            (_, true) => {
                RingWorker::<_, REQUESTS, false, true>::new(load, worker, recorder, clock).run(&mut ring)
            }
            _ => RingWorker::<_, REQUESTS, false, false>::new(load, worker, recorder, clock).run(&mut ring),
        }
    });
    worker.ring = Some(ring);
    done
}

/// The state of a worker's loop. `SPECIAL` compiles in the code for verification and open loops.
struct RingWorker<'l, 'h, 'o, 'd, 't, C, const REQUESTS: u8, const NOP: bool, const SPECIAL: bool> {
    load: &'l Load<'l>,
    worker: &'h mut Worker<'o>,
    recorder: &'d mut Recorder<'t>,
    clock: C,
    /// The operation of each slot.
    flights: Vec<Flight>,
    /// The slots without an operation in flight.
    free: Vec<u16>,
    /// The number of operations that were claimed but not submitted yet.
    claimed: u64,
    /// Whether the worker may submit more operations.
    going: bool,
    /// In an open loop, whether the last wait was only for an operation to become due.
    idle: bool,
    /// The first error of an operation.
    failure: Option<EngineError>,
}

impl<'l, 'h, 'o, 'd, 't, C: Clock, const REQUESTS: u8, const NOP: bool, const SPECIAL: bool>
    RingWorker<'l, 'h, 'o, 'd, 't, C, REQUESTS, NOP, SPECIAL>
{
    fn new(load: &'l Load<'l>, worker: &'h mut Worker<'o>, recorder: &'d mut Recorder<'t>, clock: C) -> Self {
        let depth = load.job.depth as u16;
        let flights = vec![Flight { op: NOTHING, start: 0, intended: 0 }; depth.into()];
        let free = (0..depth).rev().collect();
        RingWorker {
            load,
            worker,
            recorder,
            clock,
            flights,
            free,
            claimed: 0,
            going: true,
            idle: true,
            failure: None,
        }
    }

    fn run(mut self, ring: &mut Ring) -> Result {
        let mut now = self.clock.now();
        loop {
            self.submit(ring, now);
            let in_flight = self.flights.len() - self.free.len();
            if in_flight == 0 {
                if !self.going {
                    return self.failure.map_or(Ok(()), Err);
                }
                // Only an open loop can have no operation in flight before its end.
                let due = self.due();
                match schedule::wait_until(due, self.recorder, self.clock) {
                    Some(woken) => now = woken,
                    None => self.going = false,
                }
                self.idle = true;
                continue;
            }
            let waited = self.wait(ring, in_flight, now);
            now = self.clock.now();
            if now >= self.recorder.boundary && !self.recorder.turn(now) {
                self.going = false;
                // Operations still in flight belong to the last interval.
                self.recorder.boundary = u64::MAX;
            }
            self.reap(ring, now);
            if let Err(source) = waited {
                self.drain(ring);
                return Err(EngineError::Resource {
                    what: "io_uring_enter failed".into(),
                    source,
                    advice: "",
                });
            }
        }
    }

    /// Waits for all operations that the kernel has in flight, because it writes to their buffers until they end. Operations
    /// that are only queued are never started.
    #[cold]
    fn drain(&mut self, ring: &mut Ring) {
        loop {
            match ring.drain_one(self.flights.len() - self.free.len()) {
                Ok(true) => self.reap(ring, self.clock.now()),
                Ok(false) => return,
                // Without completions the worker cannot find out when the kernel stops writing to the buffers.
                Err(_) => return self.worker.slots.leak(),
            }
        }
    }

    /// When the next operation is due, in ticks.
    fn due(&self) -> u64 {
        let times = &self.recorder.times;
        self.worker.schedule.as_ref().map_or(times.start, |schedule| schedule::due(times, schedule))
    }

    /// Queues an operation for each free slot; in an open loop, only operations that are due.
    #[inline(always)]
    fn submit(&mut self, ring: &mut Ring, now: u64) {
        let in_use = ring.in_use;
        if self.claimed == 0 && self.going {
            self.claimed = self.recorder.claim();
            self.going = self.claimed > 0;
        }
        let room = if self.going { self.claimed.min(self.free.len() as u64) } else { 0 };
        let mut submitted = 0;
        let mut queue = ring.uring.submission();
        while submitted < room {
            let mut intended = now;
            if SPECIAL && self.worker.schedule.is_some() {
                let due = self.due();
                if due > now {
                    break;
                }
                // If the worker only woke up late, the delay is not the fault of the measured system.
                intended = if self.idle { now } else { due };
                if let Some(schedule) = &mut self.worker.schedule {
                    schedule.advance();
                }
            }
            let Some(slot) = self.free.pop() else { break };
            submitted += 1;
            let next = if NOP { NOTHING } else { self.draw() };
            if next.op == Op::Write && !NOP {
                let buffer = self.worker.slots.get(slot.into());
                if SPECIAL && self.load.job.verify {
                    self.worker.filler.seal(buffer, self.worker.verifier.next_identity(&next));
                } else {
                    self.worker.filler.refresh(buffer);
                }
            }
            let entry = self.entry(&next, slot, in_use).user_data(slot.into());
            // SAFETY: the worker does not touch the buffer of a slot in flight, and keeps it until all operations are drained.
            // The queue has one entry for each slot, so it has room.
            let pushed = unsafe { queue.push(&entry) };
            debug_assert!(pushed.is_ok());
            let flight = &mut self.flights[usize::from(slot)];
            flight.start = now;
            if !NOP {
                *flight = Flight { op: next, start: now, intended };
            }
        }
        self.claimed -= submitted;
        self.idle = false;
    }

    /// Draws the next operation. With verification, skips blocks in flight, because the order of completions is unknown.
    #[inline(always)]
    fn draw(&mut self) -> PlannedOp {
        loop {
            let next = self.worker.stream.next::<REQUESTS>();
            let verified = SPECIAL && self.load.job.verify && self.load.job.writes() && next.op != Op::Sync;
            if !verified || !self.is_in_flight(next.block) {
                return next;
            }
        }
    }

    /// Whether a read or write of the block is in flight.
    fn is_in_flight(&self, block: u64) -> bool {
        (0..self.flights.len() as u16).any(|slot| {
            let planned = &self.flights[usize::from(slot)].op;
            planned.block == block && planned.op != Op::Sync && !self.free.contains(&slot)
        })
    }

    /// Makes the submission queue entry of an operation.
    #[inline(always)]
    fn entry(&mut self, next: &PlannedOp, slot: u16, in_use: UringUse) -> squeue::Entry {
        if NOP {
            return opcode::Nop::new().build();
        }
        let (pointer, length) = (self.worker.slots.pointer(slot.into()), self.load.job.block_bytes);
        let (file, flags) = if in_use.fixed_files {
            (Fd(next.file as i32), squeue::Flags::FIXED_FILE)
        } else {
            (Fd(self.load.files[next.file as usize].as_raw_fd()), squeue::Flags::empty())
        };
        let entry = match (next.op, in_use.fixed_buffers) {
            (Op::Read, true) => {
                opcode::ReadFixed::new(file, pointer, length, slot).offset(next.offset).build()
            }
            (Op::Read, false) => opcode::Read::new(file, pointer, length).offset(next.offset).build(),
            (Op::Write, true) => {
                opcode::WriteFixed::new(file, pointer, length, slot).offset(next.offset).build()
            }
            (Op::Write, false) => opcode::Write::new(file, pointer, length).offset(next.offset).build(),
            (Op::Sync, _) => opcode::Fsync::new(file).flags(self.sync_flags()).build(),
        };
        entry.flags(flags)
    }

    fn sync_flags(&self) -> FsyncFlags {
        match self.load.job.sync_call {
            SyncCall::Fsync => FsyncFlags::empty(),
            SyncCall::Fdatasync => FsyncFlags::DATASYNC,
        }
    }

    /// Submits all queued operations and waits for a batch of completions; in an open loop, at most until the next operation
    /// is due.
    #[inline(always)]
    fn wait(&mut self, ring: &mut Ring, in_flight: usize, now: u64) -> io::Result<()> {
        let want = in_flight.min(self.load.job.batch as usize);
        let timed = SPECIAL && self.worker.schedule.is_some() && self.going && !self.free.is_empty();
        if timed {
            return self.wait_until_due(ring, in_flight, now);
        }
        ring.submit_and_wait(want).or_else(|error| ring.retry_after(error, in_flight))
    }

    #[cold]
    fn wait_until_due(&mut self, ring: &mut Ring, in_flight: usize, now: u64) -> io::Result<()> {
        let until = self.due().min(self.recorder.boundary);
        let left = self.recorder.times.scale.ns(until.saturating_sub(now));
        if !ring.timed_wait {
            // The kernel has no timed waits, so poll the ring.
            return ring.submit_and_wait(0).or_else(|error| ring.retry_after(error, in_flight));
        }
        let time = Timespec::new().sec(left / 1_000_000_000).nsec((left % 1_000_000_000) as u32);
        match ring.submit_and_wait_for(time) {
            Err(error) if error.raw_os_error() == Some(libc::ETIME) => {
                self.idle = true;
                Ok(())
            }
            waited => waited.or_else(|error| ring.retry_after(error, in_flight)),
        }
    }

    /// Counts all completions. Operations that were submitted and reaped together have the same latency and are counted at
    /// once.
    #[inline(always)]
    fn reap(&mut self, ring: &mut Ring, end: u64) {
        let scale = self.recorder.times.scale;
        let mut run = Run { op: Op::Read, start: 0, count: 0 };
        for completion in ring.uring.completion() {
            let slot = completion.user_data() as u16;
            self.free.push(slot);
            let Flight { op: next, start, intended } = self.flights[usize::from(slot)];
            if !NOP && let Err(error) = self.check_completion(completion.result(), &next, slot) {
                self.failure.get_or_insert(error);
                self.going = false;
                continue;
            }
            if (next.op, start) != (run.op, run.start) {
                run.record(&mut self.recorder.tally, scale.ns(end.saturating_sub(run.start)));
                run = Run { op: next.op, start, count: 0 };
            }
            run.count += 1;
            if SPECIAL && self.worker.schedule.is_some() {
                self.recorder.correct(next.op as usize, intended, end);
            }
        }
        run.record(&mut self.recorder.tally, scale.ns(end.saturating_sub(run.start)));
    }

    /// Checks the result of an operation, and the content of a verified block.
    #[inline(always)]
    fn check_completion(&mut self, result: i32, next: &PlannedOp, slot: u16) -> Result {
        let moved = if result < 0 { Err(Errno::from_raw_os_error(-result)) } else { Ok(result as usize) };
        let done = match next.op {
            Op::Sync => moved.map(drop).map_err(io::Error::from),
            _ => whole_block(moved, self.load.job.block_bytes as usize),
        };
        if let Err(source) = done {
            return Err(self.load.failed(next.op, next.file, next.offset, source));
        }
        if SPECIAL && self.load.job.verify && next.op == Op::Read {
            self.worker.verifier.check(self.worker.slots.get(slot.into()), next)?;
        }
        Ok(())
    }
}

/// Operations of one kind that were submitted and reaped together.
struct Run {
    op: Op,
    start: u64,
    count: u32,
}

impl Run {
    #[inline(always)]
    fn record(&self, lanes: &mut [Latencies], ns: u64) {
        if self.count > 0 {
            lanes[self.op as usize].record_n(ns, self.count);
        }
    }
}

/// The pause before a submission is retried for lack of memory, if no operation is in flight that could free some.
const RETRY_PAUSE: Duration = Duration::from_micros(100);
/// `IORING_ENTER_GETEVENTS`, which the crate does not export.
const GET_EVENTS: u32 = 1;

/// A worker's ring.
pub struct Ring {
    /// The ring itself.
    pub uring: IoUring,
    /// The features that it uses.
    pub in_use: UringUse,
    /// Whether waiting can time out (`IORING_FEAT_EXT_ARG`).
    pub timed_wait: bool,
    /// Scripted results of the next calls in tests: this error, or None for the kernel's own result.
    #[cfg(test)]
    pub answers: std::collections::VecDeque<Option<i32>>,
}

impl Ring {
    /// Sets up a ring for a job. The thread that uses the ring must call this.
    ///
    /// # Errors
    /// The kernel has no io_uring, forbids it, or has no memory for another ring.
    pub fn new(job: &LoadJob, files: &[BorrowedFd], slots: &mut Slots) -> Result<Ring> {
        let (uring, mut in_use) = set_up(job.depth, job.uring)?;
        if job.uring.fixed_files && !files.is_empty() {
            let raw: Vec<_> = files.iter().map(|file| file.as_raw_fd()).collect();
            in_use.fixed_files = uring.submitter().register_files(&raw).is_ok();
        }
        // Registration saves pinning pages for each direct operation. Buffered operations pin none.
        if job.uring.fixed_buffers && job.open.direct {
            let iov_len = job.block_bytes as usize;
            let iovec = |slot| libc::iovec { iov_base: slots.pointer(slot).cast(), iov_len };
            let buffers: Vec<_> = (0..job.depth as usize).map(iovec).collect();
            // SAFETY: a worker drops its ring before its buffers, and operations are drained before that.
            in_use.fixed_buffers = unsafe { uring.submitter().register_buffers(&buffers) }.is_ok();
        }
        let timed_wait = uring.params().is_feature_ext_arg();
        Ok(Ring {
            uring,
            in_use,
            timed_wait,
            #[cfg(test)]
            answers: Default::default(),
        })
    }

    /// Submits all queued operations and waits for this many completions.
    ///
    /// # Errors
    /// The errors of `io_uring_enter`; [`Ring::retry_after`] handles the temporary ones.
    #[inline(always)]
    pub fn submit_and_wait(&mut self, want: usize) -> io::Result<()> {
        self.scripted_error()?;
        self.uring.submit_and_wait(want).map(drop)
    }

    /// Submits all queued operations and waits for one completion, at most for this time.
    ///
    /// # Errors
    /// `ETIME` on timeout, and the errors of [`Ring::submit_and_wait`].
    fn submit_and_wait_for(&mut self, time: Timespec) -> io::Result<()> {
        self.scripted_error()?;
        self.uring.submitter().submit_with_args(1, &SubmitArgs::new().timespec(&time)).map(drop)
    }

    /// Waits for one completion without submitting. Deferred completions become visible only by such a call.
    fn wait_for_one(&mut self) -> io::Result<()> {
        self.scripted_error()?;
        // SAFETY: without a signal mask there is no pointer that the kernel follows.
        let waited = unsafe { self.uring.submitter().enter::<libc::sigset_t>(0, 1, GET_EVENTS, None) };
        match waited {
            // These errors mean that completions have to be reaped first, which serves the caller just as well.
            Err(error) if matches!(error.raw_os_error(), Some(libc::EINTR | libc::EAGAIN | libc::EBUSY)) => {
                Ok(())
            }
            waited => waited.map(drop),
        }
    }

    /// Waits until a failed submission can be retried; its operations are still queued. The kernel returns EAGAIN while it
    /// lacks memory and EBUSY while it lacks room for completions. Both become free when operations end.
    ///
    /// # Errors
    /// The error is not temporary.
    #[cold]
    pub fn retry_after(&mut self, error: io::Error, in_flight: usize) -> io::Result<()> {
        match error.raw_os_error() {
            Some(libc::EINTR) => Ok(()),
            Some(libc::EAGAIN | libc::EBUSY) if self.is_used(in_flight) => self.wait_for_one(),
            Some(libc::EAGAIN | libc::EBUSY) => {
                std::thread::sleep(RETRY_PAUSE);
                Ok(())
            }
            _ => Err(error),
        }
    }

    /// Waits for one completion without submitting. Returns false if the kernel has no operation in flight.
    ///
    /// # Errors
    /// The wait failed.
    fn drain_one(&mut self, in_flight: usize) -> io::Result<bool> {
        if !self.is_used(in_flight) {
            return Ok(false);
        }
        self.wait_for_one()?;
        Ok(true)
    }

    /// Whether the kernel has started any of the operations in flight; the others are still queued.
    fn is_used(&mut self, in_flight: usize) -> bool {
        in_flight > self.uring.submission().len()
    }

    #[inline(always)]
    fn scripted_error(&mut self) -> io::Result<()> {
        #[cfg(test)]
        if let Some(Some(error)) = self.answers.pop_front() {
            return Err(io::Error::from_raw_os_error(error));
        }
        Ok(())
    }
}

/// The allowed combinations of setup flags for a ring, the best first.
fn setup_ways(allowed: UringUse) -> Vec<UringUse> {
    let ways = [[true, true, false], [true, false, true], [false, false, true], [false; 3]];
    let way = |[single_issuer, defer_taskrun, coop_taskrun]: [bool; 3]| UringUse {
        single_issuer,
        defer_taskrun,
        coop_taskrun,
        fixed_files: false,
        fixed_buffers: false,
    };
    let allowed = [allowed.single_issuer, allowed.defer_taskrun, allowed.coop_taskrun];
    let fits = |way: &[bool; 3]| way.iter().zip(allowed).all(|(uses, allowed)| allowed || !uses);
    ways.into_iter().filter(fits).map(way).collect()
}

fn set_up(depth: u32, allowed: UringUse) -> Result<(IoUring, UringUse)> {
    let mut refused = None;
    for way in setup_ways(allowed) {
        let mut builder = IoUring::builder();
        if way.single_issuer {
            builder.setup_single_issuer();
        }
        if way.defer_taskrun {
            builder.setup_defer_taskrun();
        }
        if way.coop_taskrun {
            builder.setup_coop_taskrun();
        }
        match builder.build(depth) {
            Ok(uring) => return Ok((uring, way)),
            // The kernel does not support one of the flags; try the next combination.
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => refused = Some(error),
            Err(error) => return Err(unavailable(error)),
        }
    }
    Err(unavailable(refused.unwrap_or_else(|| io::Error::from_raw_os_error(libc::EINVAL))))
}

fn unavailable(source: io::Error) -> EngineError {
    let advice = match source.raw_os_error() {
        Some(libc::ENOSYS) => "; this kernel has no io_uring: take the sync engine",
        Some(libc::EPERM | libc::EACCES) => {
            "; io_uring is forbidden here (sysctl kernel.io_uring_disabled, or a container): take the sync engine"
        }
        Some(libc::EMFILE | libc::ENFILE) => "; raise `ulimit -n`, or take fewer threads",
        Some(libc::ENOMEM) => "; raise `ulimit -l`, or take fewer threads or less depth",
        _ => "",
    };
    EngineError::Resource { what: "no io_uring".into(), source, advice }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::{Monotonic, Scale};
    use crate::tally::{Budget, Times};
    use crate::{calibrate::kinds, files::Layout, job::Engine};
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::{fs::File, io::Write, os::fd::AsFd};

    const BLOCK: usize = 4096;

    /// The result of ten reads of a pipe, four at a time.
    struct Done {
        /// The number of counted reads.
        count: Result<u64>,
        /// Whether the worker leaked its buffers.
        leaked: bool,
    }

    /// Reads the pipe while the calls of the ring have these results: an error, or None for the kernel's own result. Later
    /// calls have the kernel's own result. Returns None without io_uring.
    fn read(pipe: &File, answers: &[Option<i32>]) -> Option<Done> {
        let job = LoadJob {
            engine: Engine::IoUring,
            depth: 4,
            batch: 1,
            read_share: 1.0,
            block_bytes: BLOCK as u32,
            ..LoadJob::default()
        };
        let (paths, files) = (["pipe".into()], [pipe.as_fd()]);
        let layout = Layout { files: 1, per_file: 64, block: BLOCK as u64 };
        let load = Load::new(&job, layout, &paths, &files, None);
        let mut worker = load.worker(0).unwrap();
        match Ring::new(&job, &files, &mut worker.slots) {
            Ok(ring) => worker.ring = Some(Ring { answers: answers.iter().copied().collect(), ..ring }),
            Err(error) => {
                fsarena_testkit::skipped(&error.to_string());
                return None;
            }
        }
        let (budget, scale) = (Budget::new(Some(10)), Scale::NANOSECONDS);
        let times = Times { start: 0, interval: u64::MAX, deadline: u64::MAX, scale };
        let kinds = kinds(&job);
        let mut recorder = Recorder::new(&kinds, times, None, &budget, 1);
        let done = run(&load, &mut worker, &mut recorder, Monotonic, false);
        let count = done.map(|()| recorder.tally[Op::Read as usize].count());
        Some(Done { count, leaked: format!("{:?}", worker.slots).contains("[]") })
    }

    fn pipe() -> (tempfile::TempDir, File) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pipe");
        mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let pipe = File::options().read(true).write(true).open(path).unwrap();
        (dir, pipe)
    }

    #[test]
    fn temporary_errors_do_not_end_a_load() {
        let (_dir, pipe) = pipe();
        let (interrupted, again, busy) = (Some(libc::EINTR), Some(libc::EAGAIN), Some(libc::EBUSY));
        for answers in [
            // Nothing is in flight yet.
            vec![again, busy, interrupted, again],
            // Three are; the call that waits for one of them is refused, too, and then none is.
            vec![None, again, again, again, None, busy, interrupted],
        ] {
            (&pipe).write_all(&[7; 10 * BLOCK]).unwrap();
            let Some(done) = read(&pipe, &answers) else { return };
            assert_eq!(done.count.unwrap(), 10, "{answers:?}");
        }
    }

    #[test]
    fn a_load_that_a_refusal_ends_first_waits_for_what_is_in_flight() {
        let (_dir, pipe) = pipe();
        let begun = AtomicBool::new(false);
        let done = std::thread::scope(|scope| {
            (&pipe).write_all(&[7; BLOCK]).unwrap();
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(200));
                begun.store(true, Ordering::SeqCst);
                (&pipe).write_all(&[7; 3 * BLOCK]).unwrap();
            });
            // The first call submits four and waits for one; the fifth stays queued.
            let done = read(&pipe, &[None, Some(libc::EIO)])?;
            assert!(begun.load(Ordering::SeqCst), "the kernel still writes into buffers that are free");
            Some(done)
        });
        let Some(done) = done else { return };
        assert!(done.count.unwrap_err().to_string().contains("io_uring_enter failed"));
        assert!(!done.leaked);
    }

    #[test]
    fn buffers_stay_where_nothing_says_when_the_kernel_is_done_with_them() {
        let (_dir, pipe) = pipe();
        (&pipe).write_all(&[7; BLOCK]).unwrap();
        let Some(done) = read(&pipe, &[None, Some(libc::EIO), Some(libc::EBADF)]) else { return };
        assert!(done.count.is_err() && done.leaked);
    }

    fn allow(bits: [bool; 3]) -> UringUse {
        let [single_issuer, defer_taskrun, coop_taskrun] = bits;
        UringUse { single_issuer, defer_taskrun, coop_taskrun, ..UringUse::default() }
    }

    #[test]
    fn older_ways_follow_newer_ones() {
        let shown = |allowed| -> Vec<(bool, bool, bool)> {
            setup_ways(allowed).iter().map(|w| (w.single_issuer, w.defer_taskrun, w.coop_taskrun)).collect()
        };
        assert_eq!(
            shown(allow([true; 3])),
            [(true, true, false), (true, false, true), (false, false, true), (false, false, false)]
        );
        // Deferred task work needs a single issuer.
        assert_eq!(shown(allow([false, true, true])), [(false, false, true), (false, false, false)]);
        assert_eq!(shown(allow([false; 3])), [(false, false, false)]);
    }

    #[test]
    fn what_is_switched_off_is_not_used() {
        let job = LoadJob {
            depth: 4,
            engine: super::super::job::Engine::IoUring,
            uring: UringUse { fixed_buffers: false, fixed_files: false, ..allow([false; 3]) },
            ..LoadJob::default()
        };
        let mut slots = Slots::new(4, 4096, job.open.direct).unwrap();
        match Ring::new(&job, &[], &mut slots) {
            Ok(ring) => {
                let used = ring.in_use;
                assert!(!used.single_issuer && !used.defer_taskrun && !used.coop_taskrun);
                assert!(!used.fixed_files && !used.fixed_buffers);
            }
            // A machine without io_uring says what to do instead.
            Err(error) => assert!(error.to_string().contains("take the sync engine"), "{error}"),
        }
    }
}
