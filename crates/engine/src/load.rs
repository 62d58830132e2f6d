//! The state of a load on files, and of each of its workers.

use crate::buffers::{Filler, IoBuffers};
use crate::error::{EngineError, Result};
use crate::job::LoadJob;
use crate::stream::{Op, PlannedOp, Stream};
use crate::verify::{Identity, check_block};
use crate::{device::Mappings, files::Layout, ring::Ring, schedule::Schedule};
use fsarena_core::schedule::mix;
use rustix::{fd::BorrowedFd, io::Errno};
use std::{path::PathBuf, sync::atomic::AtomicU64};

/// A load on files: the state that all workers share.
pub struct Load<'a> {
    /// The settings of the load.
    pub job: &'a LoadJob,
    /// How blocks lie in the files.
    pub layout: Layout,
    /// Where the files are.
    pub paths: &'a [PathBuf],
    /// The open files.
    pub files: &'a [BorrowedFd<'a>],
    /// Their mappings, for the mmap engine.
    pub mappings: Option<&'a Mappings<'a>>,
    /// Numbers the events of all threads, if [`LoadJob::sync_every`] counts over all threads.
    pub counter: AtomicU64,
    /// Number of blocks that workers verified.
    pub verified: AtomicU64,
}

/// The private state of a worker.
pub struct Worker<'a> {
    /// Its ring. Dropped before the buffers that are registered with it.
    pub ring: Option<Ring>,
    /// Its operations.
    pub stream: Stream<'a>,
    /// Its buffers.
    pub slots: IoBuffers,
    /// What it writes.
    pub filler: Filler,
    /// Checks the blocks that it reads.
    pub verifier: Verifier<'a>,
    /// When operations of an open loop are due.
    pub schedule: Option<Schedule>,
    /// Its number.
    pub thread: u32,
}

impl<'a> Load<'a> {
    /// A load on open files.
    pub fn new(
        job: &'a LoadJob,
        layout: Layout,
        paths: &'a [PathBuf],
        files: &'a [BorrowedFd<'a>],
        mappings: Option<&'a Mappings<'a>>,
    ) -> Load<'a> {
        let (counter, verified) = (AtomicU64::new(0), AtomicU64::new(0));
        Load { job, layout, paths, files, mappings, counter, verified }
    }

    /// Creates the state of a worker; it opens no files.
    ///
    /// # Errors
    /// If memory for its buffers runs out.
    pub fn worker(&self, thread: u32) -> Result<Worker<'_>> {
        let job = self.job;
        let mut slots = IoBuffers::new(job.depth, job.block_bytes, job.open.direct).ok_or_else(|| {
            EngineError::Resource {
                what: format!("no memory for {} buffers of {} bytes", job.depth, job.block_bytes),
                source: Errno::NOMEM.into(),
                advice: "; use fewer threads, less depth or smaller blocks",
            }
        })?;
        let mut filler = Filler::new(job.content, mix(job.seed, u64::from(thread) + 1000));
        (0..job.depth as usize).for_each(|slot| filler.fill(slots.get(slot)));
        Ok(Worker {
            ring: None,
            stream: Stream::new(job, self.layout, thread, &self.counter),
            slots,
            filler,
            verifier: Verifier { paths: self.paths, first: 0, generations: vec![], sound: 0 },
            schedule: job.rate.map(|rate| Schedule::new(rate, job.threads, thread, job.seed)),
            thread,
        })
    }

    /// Names the operation that failed.
    pub fn failed(&self, op: Op, file: u32, offset: u64, source: std::io::Error) -> EngineError {
        let path = self.paths[file as usize].clone();
        let bytes = if op == Op::Sync { 0 } else { self.job.block_bytes };
        EngineError::Operation { operation: op.name(), path, offset, bytes, source }
    }
}

/// Checks the blocks that a worker reads, and stores the generations of those that it writes.
#[derive(Debug)]
pub struct Verifier<'a> {
    paths: &'a [PathBuf],
    /// The first block that the worker writes.
    pub first: u64,
    /// Generation of each block from `first` on; empty if nothing is written, and then any generation is accepted.
    pub generations: Vec<u32>,
    /// Number of blocks that passed the check.
    pub sound: u64,
}

impl Verifier<'_> {
    /// Checks a block that was read.
    ///
    /// # Errors
    /// [`EngineError::Corrupt`].
    pub fn check(&mut self, buffer: &[u8], next: &PlannedOp) -> Result {
        let expected = self.generations.get((next.block.wrapping_sub(self.first)) as usize).copied();
        check_block(buffer, &self.paths[next.file as usize], next.file, next.offset, expected)?;
        self.sound += 1;
        Ok(())
    }

    /// Returns the identity of a block for its next write, and counts the block as written.
    pub fn next_identity(&mut self, next: &PlannedOp) -> Identity {
        let generation = &mut self.generations[(next.block - self.first) as usize];
        *generation += 1;
        Identity { file: next.file, offset: next.offset, generation: *generation }
    }
}
