//! The state of a load on files, and of each of its workers.

use crate::buffers::{Filler, IoBuffers};
use crate::error::{EngineError, Result};
use crate::job::{Bound, LoadJob};
use crate::stream::{Op, OpStream, PlannedOp};
use crate::verify::{BlockIdentity, check_block};
use crate::{block_io::Mappings, files::BlockLayout, ring::Ring, schedule::Schedule};
use fsarena_core::schedule::mix;
use rustix::{fd::BorrowedFd, io::Errno};
use std::{path::PathBuf, sync::atomic::AtomicU64};

/// A load on files: the state that all workers share.
pub struct FileLoad<'a> {
    /// The settings of the load.
    pub job: &'a LoadJob,
    /// How blocks lie in the files.
    pub layout: BlockLayout,
    /// The paths of the files.
    pub paths: &'a [PathBuf],
    /// The open files.
    pub files: &'a [BorrowedFd<'a>],
    /// Their mappings, for the mmap engine.
    pub mappings: Option<&'a Mappings<'a>>,
    /// Numbers the requests and syncs of all threads, if [`LoadJob::sync_every`] counts over all threads.
    pub event_counter: AtomicU64,
    /// Number of blocks that workers verified.
    pub verified_blocks: AtomicU64,
}

/// The private state of a worker.
pub struct Worker<'a> {
    /// Its ring, for the io_uring engine. Dropped before the buffers that are registered with it.
    pub ring: Option<Ring>,
    /// Its operations.
    pub stream: OpStream<'a>,
    /// Its buffers.
    pub buffers: IoBuffers,
    /// Makes the content of the blocks that it writes.
    pub filler: Filler,
    /// Checks the blocks that it reads.
    pub verifier: Verifier<'a>,
    /// When its operations are due in an open loop; None in a closed loop.
    pub schedule: Option<Schedule>,
    /// Its number.
    pub thread: u32,
}

impl<'a> FileLoad<'a> {
    /// A load on open files.
    pub fn new(
        job: &'a LoadJob,
        layout: BlockLayout,
        paths: &'a [PathBuf],
        files: &'a [BorrowedFd<'a>],
        mappings: Option<&'a Mappings<'a>>,
    ) -> FileLoad<'a> {
        let (event_counter, verified_blocks) = (AtomicU64::new(0), AtomicU64::new(0));
        FileLoad { job, layout, paths, files, mappings, event_counter, verified_blocks }
    }

    /// Creates the state of a worker, without a ring and without generations of blocks, which the caller adds.
    ///
    /// # Errors
    /// If memory for its buffers runs out.
    pub fn create_worker(&self, thread: u32) -> Result<Worker<'_>> {
        let job = self.job;
        let mut buffers =
            IoBuffers::new(job.depth, job.block_bytes, job.open.direct).ok_or_else(|| EngineError::Resource {
                problem: format!("no memory for {} buffers of {} bytes", job.depth, job.block_bytes),
                source: Errno::NOMEM.into(),
                advice: "; use fewer threads, less depth or smaller blocks",
            })?;
        // Plus 1000, because `OpStream` draws the operations with the seed of `thread` itself.
        let mut filler = Filler::new(job.content, mix(job.seed, u64::from(thread) + 1000));
        (0..job.depth as usize).for_each(|slot| filler.fill(buffers.get(slot)));
        Ok(Worker {
            ring: None,
            stream: OpStream::new(job, self.layout, thread, &self.event_counter),
            buffers,
            filler,
            verifier: Verifier { paths: self.paths, first_block: 0, generations: vec![], verified_blocks: 0 },
            schedule: job.rate.map(|rate| Schedule::new(rate, job.threads, thread, job.seed)),
            thread,
        })
    }

    /// How many claimed operations an operation uses up: 1, or 0 for a sync in a load that is bounded by bytes, because
    /// a sync moves no bytes.
    #[inline(always)]
    pub fn budget_cost(&self, op: Op) -> u64 {
        u64::from(op != Op::Sync || !matches!(self.job.bound, Bound::Bytes(_)))
    }

    /// Returns the error of a failed operation.
    pub fn operation_error(&self, op: Op, file: u32, offset: u64, source: std::io::Error) -> EngineError {
        let path = self.paths[file as usize].clone();
        let bytes = if op == Op::Sync { 0 } else { self.job.block_bytes };
        EngineError::Operation { operation: op.name(), path, offset, bytes, source }
    }
}

impl Worker<'_> {
    /// Fills the buffer of a slot for a write.
    #[inline(always)]
    pub fn fill_buffer(&mut self, job: &LoadJob, slot: usize, planned: &PlannedOp) {
        let buffer = self.buffers.get(slot);
        if job.verify {
            self.filler.seal(buffer, self.verifier.next_identity(planned));
        } else {
            self.filler.refresh(buffer);
        }
    }

    /// Checks the result of an operation, and the content of a verified block that it read into the buffer of a slot.
    ///
    /// # Errors
    /// The operation failed, or the block is not the expected one.
    #[inline(always)]
    pub fn check_result(
        &mut self,
        load: &FileLoad,
        slot: usize,
        planned: &PlannedOp,
        result: std::io::Result<()>,
    ) -> Result {
        result.map_err(|source| load.operation_error(planned.op, planned.file, planned.offset, source))?;
        if load.job.verify && planned.op == Op::Read {
            self.verifier.check(self.buffers.get(slot), planned)?;
        }
        Ok(())
    }
}

/// Checks the blocks that a worker reads, and stores the generations of those that it writes.
#[derive(Debug)]
pub struct Verifier<'a> {
    paths: &'a [PathBuf],
    /// The first block that the worker writes.
    pub first_block: u64,
    /// The generation of each block from `first_block` on: the number of its writes. Empty if the job does not write;
    /// then any generation is accepted.
    pub generations: Vec<u32>,
    /// Number of blocks that passed the check.
    pub verified_blocks: u64,
}

impl Verifier<'_> {
    /// Checks a block that was read.
    ///
    /// # Errors
    /// [`EngineError::Corrupt`].
    pub fn check(&mut self, block: &[u8], planned: &PlannedOp) -> Result {
        let expected = self.generations.get((planned.block.wrapping_sub(self.first_block)) as usize).copied();
        check_block(block, &self.paths[planned.file as usize], planned.file, planned.offset, expected)?;
        self.verified_blocks += 1;
        Ok(())
    }

    /// Returns the identity of a block for its next write, and counts the block as written.
    pub fn next_identity(&mut self, planned: &PlannedOp) -> BlockIdentity {
        let generation = &mut self.generations[(planned.block - self.first_block) as usize];
        *generation += 1;
        BlockIdentity { file: planned.file, offset: planned.offset, generation: *generation }
    }
}
