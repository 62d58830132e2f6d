//! The work of each worker of a load on files.

use crate::device::{Device, SyscallDevice, whole_block};
use crate::error::Result;
use crate::job::{Engine, SyncCall};
use crate::load::{Load, Worker};
use crate::stream::{Op, own_share};
use crate::{
    clock::Clock, drive::Work, ring::Ring, ring_loop, sync_loop, tally::Recorder, verify::check_block,
};
use std::sync::atomic::Ordering;

impl Load<'_> {
    fn calls(&self) -> SyscallDevice<'_> {
        SyscallDevice { files: self.files, data_only: self.job.sync_call == SyncCall::Fdatasync }
    }

    /// Reads and checks all blocks that a worker may write. Passes their generations to `each`, which may return the
    /// expected one.
    fn read_share(&self, worker: &mut Worker, mut each: impl FnMut(u64, u32) -> Option<u32>) -> Result {
        for block in own_share(self.layout.blocks(), self.job.threads, worker.thread) {
            let (file, offset) = self.layout.place(block);
            let buffer = worker.slots.get(0);
            whole_block(self.calls().read(file, offset, buffer), buffer.len())
                .map_err(|source| self.failed(Op::Read, file, offset, source))?;
            let path = &self.paths[file as usize];
            let generation = check_block(buffer, path, file, offset, None)?;
            worker.verifier.sound += 1;
            if let Some(expected) = each(block, generation) {
                check_block(buffer, path, file, offset, Some(expected))?;
            }
        }
        Ok(())
    }
}

impl<'a> Work<'a> for Load<'_> {
    type Worker = Worker<'a>;

    fn prepare(&'a self, thread: u32) -> Result<Worker<'a>> {
        let mut worker = self.worker(thread)?;
        if self.job.verify && self.job.writes() {
            let own = own_share(self.layout.blocks(), self.job.threads, thread);
            let mut generations = Vec::with_capacity((own.end - own.start) as usize);
            self.read_share(&mut worker, |_, generation| {
                generations.push(generation);
                None
            })?;
            (worker.verifier.first, worker.verifier.generations) = (own.start, generations);
        }
        if self.job.engine == Engine::IoUring {
            worker.ring = Some(Ring::new(self.job, self.files, &mut worker.slots)?);
        }
        Ok(worker)
    }

    fn work(&'a self, worker: &mut Worker<'a>, recorder: &mut Recorder, clock: Clock) -> Result {
        match (self.job.engine, self.mappings) {
            (Engine::IoUring, _) => ring_loop::run(self, worker, recorder, clock, false),
            (Engine::Mmap, Some(mappings)) => sync_loop::run(self, worker, recorder, mappings, clock),
            _ => sync_loop::run(self, worker, recorder, &self.calls(), clock),
        }
    }

    /// Syncs all files, and reads back all blocks if they are verified.
    fn finish(&'a self, mut worker: Worker<'a>) -> Result<u64> {
        let mut syncs = 0;
        if self.job.sync_end && self.job.writes() {
            for file in 0..self.layout.files {
                let done = self.calls().sync(file);
                done.map_err(|source| self.failed(Op::Sync, file, 0, source.into()))?;
                syncs += 1;
            }
        }
        if self.job.verify && self.job.writes() {
            let known = std::mem::take(&mut worker.verifier.generations);
            let first = worker.verifier.first;
            self.read_share(&mut worker, |block, _| known.get((block - first) as usize).copied())?;
        }
        self.verified.fetch_add(worker.verifier.sound, Ordering::Relaxed);
        Ok(syncs)
    }
}
