//! The hot loop of the io_uring engine.
//!
//! Each iteration submits an operation for every free slot (in an open loop, only operations that are due) in one
//! system call, waits for completions in another one if too few are ready, and then reaps all completions. One time
//! stamp per iteration is the end of the reaped operations and the start of the next ones.

use crate::error::{EngineError, Result};
use crate::job::{SyncCall, UringFeatures};
use crate::load::{FileLoad, Worker};
use crate::stream::{Op, PlannedOp};
use crate::{
    block_io::check_whole_block, clock::Clock, histogram::LatencyTally, ring::Ring, schedule, tally::Recorder,
};
use io_uring::types::{Fd, FsyncFlags, Timespec};
use io_uring::{opcode, squeue};
use rustix::io::Errno;
use std::{io, os::fd::AsRawFd};

/// An operation in flight. Times are in ticks of the clock.
#[derive(Clone, Copy)]
struct InFlight {
    planned: PlannedOp,
    start: u64,
    /// The intended start; only used in an open loop.
    intended_start: u64,
}

/// Stands for the planned operation of a NOP.
const NO_OPERATION: PlannedOp = PlannedOp { op: Op::Read, file: 0, offset: 0, block: 0 };

/// Runs a worker on its ring. If `with_nops`, each operation is a NOP, to measure the cost of the ring and the load generator.
///
/// # Errors
/// An operation or the ring failed; the first error is returned. When this returns, no operation is in flight.
pub fn run(load: &FileLoad, worker: &mut Worker, recorder: &mut Recorder, clock: Clock, with_nops: bool) -> Result {
    // Every worker of this engine has a ring.
    let Some(mut ring) = worker.ring.take() else { return Ok(()) };
    let result = if with_nops {
        RingWorker::<true>::new(load, worker, recorder, clock).run(&mut ring)
    } else {
        RingWorker::<false>::new(load, worker, recorder, clock).run(&mut ring)
    };
    worker.ring = Some(ring);
    result
}

/// The state of a worker's loop. Its lifetimes are those of the load (`'l`), of the worker (`'w`) and what the worker
/// refers to (`'o`), and of the recorder (`'r`) and what the recorder refers to (`'t`).
struct RingWorker<'l, 'w, 'o, 'r, 't, const NOP: bool> {
    load: &'l FileLoad<'l>,
    worker: &'w mut Worker<'o>,
    recorder: &'r mut Recorder<'t>,
    clock: Clock,
    /// The operation of each slot.
    flights: Vec<InFlight>,
    /// The slots without an operation in flight.
    free_slots: Vec<u16>,
    /// The number of operations that the worker has claimed with [`Recorder::claim`] but not queued yet.
    claimed: u64,
    /// Whether the worker may submit more operations.
    may_submit: bool,
    /// In an open loop, whether the last wait ended by time and not by a completion. True at first, because the worker
    /// waits for the start of the run.
    was_idle: bool,
    /// The first error of an operation.
    failure: Option<EngineError>,
}

impl<'l, 'w, 'o, 'r, 't, const NOP: bool> RingWorker<'l, 'w, 'o, 'r, 't, NOP> {
    fn new(load: &'l FileLoad<'l>, worker: &'w mut Worker<'o>, recorder: &'r mut Recorder<'t>, clock: Clock) -> Self {
        let depth = load.job.depth as u16;
        let flights = vec![InFlight { planned: NO_OPERATION, start: 0, intended_start: 0 }; depth.into()];
        let free_slots = (0..depth).rev().collect();
        RingWorker {
            load,
            worker,
            recorder,
            clock,
            flights,
            free_slots,
            claimed: 0,
            may_submit: true,
            was_idle: true,
            failure: None,
        }
    }

    fn run(mut self, ring: &mut Ring) -> Result {
        let mut now = self.clock.now();
        loop {
            self.queue_operations(ring, now);
            let in_flight = self.flights.len() - self.free_slots.len();
            if in_flight == 0 {
                if !self.may_submit {
                    return self.failure.map_or(Ok(()), Err);
                }
                // Until the run ends, a closed loop always has an operation in flight, so this is an open loop.
                let due = self.next_due();
                match schedule::wait_until(due, self.recorder, self.clock) {
                    Some(woken) => now = woken,
                    None => self.may_submit = false,
                }
                self.was_idle = true;
                continue;
            }
            let wait_result = self.submit_and_wait(ring, in_flight, now);
            now = self.clock.now();
            if now >= self.recorder.boundary && !self.recorder.end_interval(now) {
                self.may_submit = false;
                // Operations still in flight belong to the last interval.
                self.recorder.boundary = u64::MAX;
            }
            self.reap(ring, now);
            if let Err(source) = wait_result {
                self.drain(ring);
                return Err(EngineError::Resource { problem: "io_uring_enter failed".into(), source, advice: "" });
            }
        }
    }

    /// Waits for all operations that the kernel has in flight, because it writes to their buffers until they end. Operations
    /// that are only queued are never started.
    #[cold]
    fn drain(&mut self, ring: &mut Ring) {
        while ring.has_started_any(self.flights.len() - self.free_slots.len()) {
            if ring.wait_for_one().is_err() {
                // Without completions the worker cannot find out when the kernel stops writing to the buffers.
                return self.worker.buffers.leak();
            }
            self.reap(ring, self.clock.now());
        }
    }

    /// When the next operation is due, in ticks.
    fn next_due(&self) -> u64 {
        let times = &self.recorder.times;
        self.worker.schedule.as_ref().map_or(times.start, |schedule| schedule::next_due(times, schedule))
    }

    /// Queues an operation for each free slot; in an open loop, only operations that are due.
    #[inline(always)]
    fn queue_operations(&mut self, ring: &mut Ring, now: u64) {
        let features = ring.features;
        if self.claimed == 0 && self.may_submit {
            self.claimed = self.recorder.claim();
            self.may_submit = self.claimed > 0;
        }
        let mut queue = ring.uring.submission();
        while self.may_submit
            && self.claimed > 0
            && let Some(&slot) = self.free_slots.last()
        {
            let mut intended_start = now;
            if self.worker.schedule.is_some() {
                let due = self.next_due();
                if due > now {
                    break;
                }
                // If the worker waited until the operation was due and woke up late, the measured system did not cause
                // this delay.
                intended_start = if self.was_idle { now } else { due };
                if let Some(schedule) = &mut self.worker.schedule {
                    schedule.advance();
                }
            }
            let planned = if NOP { NO_OPERATION } else { self.draw() };
            self.claimed -= self.load.budget_cost(planned.op);
            // The slot counts as free while the operation is drawn: its last operation is no longer in flight.
            self.free_slots.pop();
            if planned.op == Op::Write && !NOP {
                self.worker.fill_buffer(self.load.job, slot.into(), &planned);
            }
            let entry = self.build_entry(&planned, slot, features).user_data(slot.into());
            // SAFETY: the worker does not touch the buffer of a slot in flight, and keeps it until all operations are drained.
            // The queue has one entry for each slot, so it has room.
            let pushed = unsafe { queue.push(&entry) };
            debug_assert!(pushed.is_ok());
            let flight = &mut self.flights[usize::from(slot)];
            if NOP {
                flight.start = now;
            } else {
                *flight = InFlight { planned, start: now, intended_start };
            }
        }
        self.was_idle = false;
    }

    /// Draws the next operation. With verification, skips blocks in flight, because the order of completions is unknown.
    #[inline(always)]
    fn draw(&mut self) -> PlannedOp {
        loop {
            let planned = self.worker.stream.next();
            let verified = self.load.job.verify && self.load.job.writes() && planned.op != Op::Sync;
            if !verified || !self.is_in_flight(planned.block) {
                return planned;
            }
        }
    }

    /// Whether a read or write of the block is in flight.
    fn is_in_flight(&self, block: u64) -> bool {
        (0..self.flights.len() as u16).any(|slot| {
            let planned = &self.flights[usize::from(slot)].planned;
            planned.block == block && planned.op != Op::Sync && !self.free_slots.contains(&slot)
        })
    }

    /// Makes the submission queue entry of an operation.
    #[inline(always)]
    fn build_entry(&mut self, planned: &PlannedOp, slot: u16, features: UringFeatures) -> squeue::Entry {
        if NOP {
            return opcode::Nop::new().build();
        }
        let (pointer, length) = (self.worker.buffers.pointer(slot.into()), self.load.job.block_bytes);
        let (file, flags) = if features.fixed_files {
            (Fd(planned.file as i32), squeue::Flags::FIXED_FILE)
        } else {
            (Fd(self.load.files[planned.file as usize].as_raw_fd()), squeue::Flags::empty())
        };
        let entry = match (planned.op, features.fixed_buffers) {
            (Op::Read, true) => opcode::ReadFixed::new(file, pointer, length, slot).offset(planned.offset).build(),
            (Op::Read, false) => opcode::Read::new(file, pointer, length).offset(planned.offset).build(),
            (Op::Write, true) => opcode::WriteFixed::new(file, pointer, length, slot).offset(planned.offset).build(),
            (Op::Write, false) => opcode::Write::new(file, pointer, length).offset(planned.offset).build(),
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
    fn submit_and_wait(&mut self, ring: &mut Ring, in_flight: usize, now: u64) -> io::Result<()> {
        let completions = in_flight.min(self.load.job.batch as usize);
        let may_become_due = self.worker.schedule.is_some() && self.may_submit && !self.free_slots.is_empty();
        if may_become_due {
            return self.submit_and_wait_until_due(ring, in_flight, now);
        }
        ring.submit_and_wait(completions).or_else(|error| ring.wait_before_retry(error, in_flight))
    }

    /// Submits all queued operations and waits for a completion, at most until the next operation is due or the interval ends.
    #[cold]
    fn submit_and_wait_until_due(&mut self, ring: &mut Ring, in_flight: usize, now: u64) -> io::Result<()> {
        let until = self.next_due().min(self.recorder.boundary);
        let timeout_ns = self.recorder.times.scale.ns(until.saturating_sub(now));
        if !ring.can_time_out {
            // The kernel has no timed waits, so poll the ring.
            return ring.submit_and_wait(0).or_else(|error| ring.wait_before_retry(error, in_flight));
        }
        let timeout = Timespec::new().sec(timeout_ns / 1_000_000_000).nsec((timeout_ns % 1_000_000_000) as u32);
        match ring.submit_and_wait_for(timeout) {
            Err(error) if error.raw_os_error() == Some(libc::ETIME) => {
                self.was_idle = true;
                Ok(())
            }
            result => result.or_else(|error| ring.wait_before_retry(error, in_flight)),
        }
    }

    /// Counts all completions. Operations that were submitted and reaped together have the same latency and are counted at
    /// once.
    #[inline(always)]
    fn reap(&mut self, ring: &mut Ring, end: u64) {
        let scale = self.recorder.times.scale;
        let mut group = EqualOps { op: Op::Read, start: 0, count: 0 };
        for completion in ring.uring.completion() {
            let slot = completion.user_data() as u16;
            self.free_slots.push(slot);
            let InFlight { planned, start, intended_start } = self.flights[usize::from(slot)];
            if !NOP && let Err(error) = self.check_completion(completion.result(), &planned, slot) {
                self.failure.get_or_insert(error);
                self.may_submit = false;
                continue;
            }
            if (planned.op, start) != (group.op, group.start) {
                group.record(&mut self.recorder.tally, scale.ns(end.saturating_sub(group.start)));
                group = EqualOps { op: planned.op, start, count: 0 };
            }
            group.count += 1;
            if self.worker.schedule.is_some() {
                self.recorder.count_from_intended_start(planned.op as usize, intended_start, end);
            }
        }
        group.record(&mut self.recorder.tally, scale.ns(end.saturating_sub(group.start)));
    }

    /// Checks the result of an operation, and the content of a verified block.
    #[inline(always)]
    fn check_completion(&mut self, result: i32, planned: &PlannedOp, slot: u16) -> Result {
        let moved = if result < 0 { Err(Errno::from_raw_os_error(-result)) } else { Ok(result as usize) };
        let result = match planned.op {
            Op::Sync => moved.map(drop).map_err(io::Error::from),
            _ => check_whole_block(moved, self.load.job.block_bytes as usize),
        };
        self.worker.check_result(self.load, slot.into(), planned, result)
    }
}

/// Operations of one kind that were submitted and reaped together, and so have the same latency.
struct EqualOps {
    op: Op,
    start: u64,
    count: u32,
}

impl EqualOps {
    /// Counts the operations with their latency of `ns` nanoseconds. There is a tally for each kind of operation.
    #[inline(always)]
    fn record(&self, tallies: &mut [LatencyTally], ns: u64) {
        if self.count > 0 {
            tallies[self.op as usize].record_n(ns, self.count);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::TickScale;
    use crate::tally::{OperationBudget, RunTimes};
    use crate::{calibrate::op_kinds, files::BlockLayout, job::Engine, job::LoadJob, job::Pattern};
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    use std::os::{fd::AsFd, unix::fs::FileExt};
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::{fs::File, io::Write, time::Duration};

    const BLOCK: usize = 4096;

    /// The result of a load on a ring.
    struct RingLoad {
        /// The number of counted reads and writes.
        count: Result<u64>,
        /// Whether the worker leaked its buffers.
        has_leaked_buffers: bool,
    }

    /// Runs operations of a job on the first 64 blocks of a file, with scripted results of the methods of [`Ring`] that wait or
    /// submit, one for each call: `Some` is the errno that the call returns, and `None` performs the call. Later calls are
    /// performed. Returns None without io_uring.
    fn run_on_ring(job: &LoadJob, file: &File, operations: u64, scripted_results: &[Option<i32>]) -> Option<RingLoad> {
        let (paths, files) = (["file".into()], [file.as_fd()]);
        let layout = BlockLayout { file_count: 1, blocks_per_file: 64, block_bytes: BLOCK as u64 };
        let load = FileLoad::new(job, layout, &paths, &files, None);
        let mut worker = load.create_worker(0).unwrap();
        worker.verifier.generations = vec![0; 64];
        match Ring::new(job, &files, &mut worker.buffers) {
            Ok(ring) => {
                worker.ring = Some(Ring { scripted_results: scripted_results.iter().copied().collect(), ..ring })
            }
            Err(error) => {
                fsarena_sys::testkit::record_skip(&error.to_string());
                return None;
            }
        }
        let (budget, scale) = (OperationBudget::new(Some(operations)), TickScale::NANOSECONDS);
        let times = RunTimes { start: 0, interval_length: u64::MAX, deadline: u64::MAX, scale };
        let kinds = op_kinds(job);
        let mut recorder = Recorder::new(&kinds, times, None, &budget, 1);
        let result = run(&load, &mut worker, &mut recorder, Clock::monotonic(), false);
        let count = result.map(|()| recorder.tally.iter().map(|kind| kind.count()).sum());
        Some(RingLoad { count, has_leaked_buffers: format!("{:?}", worker.buffers).contains("[]") })
    }

    /// A job on a ring with four operations in flight.
    fn ring_job() -> LoadJob {
        LoadJob { engine: Engine::IoUring, depth: 4, batch: 1, block_bytes: BLOCK as u32, ..LoadJob::default() }
    }

    /// Reads ten blocks of a pipe; see [`run_on_ring`].
    fn read_pipe(pipe: &File, scripted_results: &[Option<i32>]) -> Option<RingLoad> {
        run_on_ring(&ring_job(), pipe, 10, scripted_results)
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
        for scripted_results in [
            // The errors come before any operation is in flight.
            vec![again, busy, interrupted, again],
            // The first error comes while three operations are in flight, and the call that then waits for one of them fails
            // too.
            vec![None, again, again, again, None, busy, interrupted],
        ] {
            (&pipe).write_all(&[7; 10 * BLOCK]).unwrap();
            let Some(reads) = read_pipe(&pipe, &scripted_results) else { return };
            assert_eq!(reads.count.unwrap(), 10, "{scripted_results:?}");
        }
    }

    #[test]
    fn a_failed_load_waits_for_the_operations_in_flight() {
        let (_dir, pipe) = pipe();
        let has_written_rest = AtomicBool::new(false);
        let reads = std::thread::scope(|scope| {
            (&pipe).write_all(&[7; BLOCK]).unwrap();
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(200));
                has_written_rest.store(true, Ordering::SeqCst);
                (&pipe).write_all(&[7; 3 * BLOCK]).unwrap();
            });
            // The first call submits four and waits for one; the fifth stays queued.
            let reads = read_pipe(&pipe, &[None, Some(libc::EIO)])?;
            assert!(has_written_rest.load(Ordering::SeqCst), "the load ended while reads were in flight");
            Some(reads)
        });
        let Some(reads) = reads else { return };
        assert!(reads.count.unwrap_err().to_string().contains("io_uring_enter failed"));
        assert!(!reads.has_leaked_buffers);
    }

    #[test]
    fn buffers_are_leaked_if_the_operations_in_flight_cannot_be_drained() {
        let (_dir, pipe) = pipe();
        (&pipe).write_all(&[7; BLOCK]).unwrap();
        let Some(reads) = read_pipe(&pipe, &[None, Some(libc::EIO), Some(libc::EBADF)]) else { return };
        assert!(reads.count.is_err() && reads.has_leaked_buffers);
    }

    #[test]
    fn a_verified_sequential_load_begins_with_the_first_block() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(64 * BLOCK as u64).unwrap();
        let job = LoadJob {
            pattern: Pattern::Sequential { shared_cursor: false },
            read_share: 0.0,
            verify: true,
            ..ring_job()
        };
        let Some(load) = run_on_ring(&job, &file, 10, &[]) else { return };
        assert_eq!(load.count.unwrap(), 10);
        let mut block = [0; BLOCK];
        for number in 0..10 {
            file.read_exact_at(&mut block, number * BLOCK as u64).unwrap();
            assert!(block != [0; BLOCK], "block {number} was not written");
        }
    }
}
