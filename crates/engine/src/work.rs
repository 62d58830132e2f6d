//! The work of each worker of a load on files.

use crate::block_io::{BlockIo, SyscallIo, check_whole_block};
use crate::error::Result;
use crate::job::{Engine, SyncCall};
use crate::load::{FileLoad, Worker};
use crate::stream::{Op, own_blocks};
use crate::{clock::Clock, drive::Work, ring::Ring, ring_loop, sync_loop, tally::Recorder, verify::check_block};
use std::sync::atomic::Ordering;

impl FileLoad<'_> {
    fn syscall_io(&self) -> SyscallIo<'_> {
        SyscallIo { files: self.files, data_only: self.job.sync_call == SyncCall::Fdatasync }
    }

    /// Reads and checks all blocks that a worker may write. Calls `expected_generation` with the number and the generation of
    /// each block; if it returns a generation, the block must have this one.
    fn check_own_blocks(
        &self,
        worker: &mut Worker,
        mut expected_generation: impl FnMut(u64, u32) -> Option<u32>,
    ) -> Result {
        for block in own_blocks(self.layout.blocks(), self.job.threads, worker.thread) {
            let (file, offset) = self.layout.locate(block);
            let buffer = worker.buffers.get(0);
            check_whole_block(self.syscall_io().read(file, offset, buffer), buffer.len())
                .map_err(|source| self.operation_error(Op::Read, file, offset, source))?;
            let path = &self.paths[file as usize];
            let generation = check_block(buffer, path, file, offset, None)?;
            worker.verifier.verified_blocks += 1;
            if let Some(expected) = expected_generation(block, generation) {
                check_block(buffer, path, file, offset, Some(expected))?;
            }
        }
        Ok(())
    }
}

impl<'a> Work<'a> for FileLoad<'_> {
    type Worker = Worker<'a>;

    fn prepare(&'a self, thread: u32) -> Result<Worker<'a>> {
        let mut worker = self.create_worker(thread)?;
        if self.job.verify && self.job.writes() {
            let blocks = own_blocks(self.layout.blocks(), self.job.threads, thread);
            let mut generations = Vec::with_capacity((blocks.end - blocks.start) as usize);
            self.check_own_blocks(&mut worker, |_, generation| {
                generations.push(generation);
                None
            })?;
            (worker.verifier.first_block, worker.verifier.generations) = (blocks.start, generations);
        }
        if self.job.engine == Engine::IoUring {
            worker.ring = Some(Ring::new(self.job, self.files, &mut worker.buffers)?);
        }
        Ok(worker)
    }

    fn perform_operations(&'a self, worker: &mut Worker<'a>, recorder: &mut Recorder, clock: Clock) -> Result {
        match (self.job.engine, self.mappings) {
            (Engine::IoUring, _) => ring_loop::run(self, worker, recorder, clock, false),
            (Engine::Mmap, Some(mappings)) => sync_loop::run(self, worker, recorder, mappings, clock),
            _ => sync_loop::run(self, worker, recorder, &self.syscall_io(), clock),
        }
    }

    /// Syncs all files, if the job requires it.
    fn sync_at_end(&'a self) -> Result<u64> {
        if !self.job.sync_end || !self.job.writes() {
            return Ok(0);
        }
        for file in 0..self.layout.file_count {
            let result = self.syscall_io().sync(file);
            result.map_err(|source| self.operation_error(Op::Sync, file, 0, source.into()))?;
        }
        Ok(self.layout.file_count.into())
    }

    /// Reads back all blocks if they are verified.
    fn finish(&'a self, mut worker: Worker<'a>) -> Result {
        if self.job.verify && self.job.writes() {
            let generations = std::mem::take(&mut worker.verifier.generations);
            let first = worker.verifier.first_block;
            self.check_own_blocks(&mut worker, |block, _| generations.get((block - first) as usize).copied())?;
        }
        self.verified_blocks.fetch_add(worker.verifier.verified_blocks, Ordering::Relaxed);
        Ok(())
    }
}
