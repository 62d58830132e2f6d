//! The blocks of one of several clients: those of a separate file, or every n-th block of one file that all clients share.
//!
//! As in IOR, a client opens the file, writes or reads its blocks in order, syncs and closes, and all of that is timed. Each
//! block begins with its writer and its offset, and a reader compares them to detect stale data.

use crate::block_io::{BlockIo, SyscallIo, check_whole_block, sync_file};
use crate::buffers::{Filler, IoBuffers};
use crate::clock::{self, Clock};
use crate::drive::{DriveSettings, Work};
use crate::error::{EngineError, Result};
use crate::tally::{OpKind, Recorder};
use crate::{calibrate::Calibration, files, job::Content, outcome::LoadOutcome};
use rustix::fd::AsFd;
use std::{io, path::PathBuf};

/// Bytes at the start of a block that hold its writer and offset.
const STAMP_BYTES: usize = 16;
/// Milliseconds of one interval of the series.
const INTERVAL_MS: u32 = 20;

/// Blocks to be written or read.
#[derive(Debug, Clone, PartialEq)]
pub struct StridesJob {
    /// The file. A writer creates it if it is missing.
    pub path: PathBuf,
    /// Whether the job writes; otherwise it reads.
    pub is_write: bool,
    /// The client that writes the blocks, or wrote them.
    pub writer: u32,
    /// Number of the first block.
    pub first_block: u64,
    /// Distance from one block to the next, in blocks; 1 for a separate file.
    pub stride: u64,
    /// Number of blocks that the job writes or reads.
    pub block_count: u64,
    /// Bytes of a block.
    pub block_bytes: u32,
    /// Bypass the page cache (`O_DIRECT`).
    pub direct: bool,
    /// Sync the file after the last write.
    pub sync_at_end: bool,
    /// The seed of the written data.
    pub seed: u64,
}

impl StridesJob {
    fn operation_name(&self) -> &'static str {
        if self.is_write { "write" } else { "read" }
    }
}

/// Writes or reads the blocks in order.
///
/// # Errors
/// The first operation that failed, or the first block that its writer did not write.
pub fn run(job: &StridesJob) -> Result<LoadOutcome> {
    let kinds = [
        OpKind { name: job.operation_name(), bytes: u64::from(job.block_bytes), used: true },
        OpKind { name: "sync", bytes: 0, used: job.is_write && job.sync_at_end },
    ];
    let settings = DriveSettings::bounded_by_operations(1, &kinds, INTERVAL_MS, job.block_count);
    LoadOutcome::measure(&settings, &StridesWork(job), Calibration::with_generator(generator_ns(job)?), &mut |_| {})
}

struct StridesWork<'a>(&'a StridesJob);

/// The buffer of one block, and the source of its contents.
struct BlockBuffer {
    io_buffers: IoBuffers,
    filler: Filler,
}

impl BlockBuffer {
    fn for_job(job: &StridesJob) -> Result<BlockBuffer> {
        let mut io_buffers = IoBuffers::new(1, job.block_bytes, job.direct).ok_or_else(|| EngineError::Resource {
            problem: format!("no memory for a block of {} bytes", job.block_bytes),
            source: io::ErrorKind::OutOfMemory.into(),
            advice: "; use smaller blocks",
        })?;
        let mut filler = Filler::new(Content::Random, job.seed.wrapping_add(u64::from(job.writer)));
        filler.fill(io_buffers.get(0));
        Ok(BlockBuffer { io_buffers, filler })
    }

    /// Refreshes the data of the block, and writes its stamp to its start.
    fn write_stamp(&mut self, job: &StridesJob, offset: u64) {
        let buffer = self.io_buffers.get(0);
        self.filler.refresh(buffer);
        buffer[..STAMP_BYTES].copy_from_slice(&stamp_of(job, offset));
    }
}

/// The writer and the offset that a block of the job at this offset begins with.
fn stamp_of(job: &StridesJob, offset: u64) -> [u8; STAMP_BYTES] {
    let mut stamp = [0; STAMP_BYTES];
    stamp[..8].copy_from_slice(&(u64::from(job.writer) + 1).to_le_bytes());
    stamp[8..].copy_from_slice(&offset.to_le_bytes());
    stamp
}

impl StridesWork<'_> {
    fn operation_error(&self, operation: &'static str, offset: u64, source: io::Error) -> EngineError {
        let StridesJob { path, block_bytes: bytes, .. } = self.0;
        EngineError::Operation { operation, path: path.clone(), offset, bytes: *bytes, source }
    }

    /// Writes or reads one block.
    fn transfer_block(&self, syscall_io: &SyscallIo, block: &mut BlockBuffer, offset: u64) -> Result {
        let job = self.0;
        if job.is_write {
            block.write_stamp(job, offset);
        }
        let buffer = block.io_buffers.get(0);
        let moved = if job.is_write { syscall_io.write(0, offset, buffer) } else { syscall_io.read(0, offset, buffer) };
        check_whole_block(moved, buffer.len())
            .map_err(|source| self.operation_error(job.operation_name(), offset, source))?;
        if job.is_write || buffer[..STAMP_BYTES] == stamp_of(job, offset) {
            return Ok(());
        }
        let number_at = |start: usize| u64::from_le_bytes(std::array::from_fn(|byte| buffer[start + byte]));
        let expected = format!("client {}, offset {offset}", job.writer);
        let found = match number_at(0).checked_sub(1) {
            Some(client) => format!("client {client}, offset {}", number_at(8)),
            None => "a block that no client wrote".into(),
        };
        Err(EngineError::Corrupt { path: job.path.clone(), offset, expected, found })
    }
}

impl<'a> Work<'a> for StridesWork<'_> {
    type Worker = BlockBuffer;

    fn prepare(&self, _: u32) -> Result<BlockBuffer> {
        BlockBuffer::for_job(self.0)
    }

    fn perform_operations(&self, block: &mut BlockBuffer, recorder: &mut Recorder, clock: Clock) -> Result {
        let job = self.0;
        let mut start = clock.now();
        let file = files::open_file(&job.path, job.is_write, job.direct, job.block_bytes)?;
        let files = [file.as_fd()];
        let syscall_io = SyscallIo { files: &files, data_only: false };
        for number in 0..job.block_count {
            let offset = (job.first_block + number * job.stride) * u64::from(job.block_bytes);
            self.transfer_block(&syscall_io, block, offset)?;
            let end = clock.now();
            if !recorder.count(0, start, None, end) {
                return Ok(());
            }
            start = end;
        }
        if job.is_write && job.sync_at_end {
            sync_file(file.as_fd(), false).map_err(|error| self.operation_error("sync", 0, error.into()))?;
            recorder.count(1, start, None, clock.now());
        }
        Ok(())
    }
}

/// Nanoseconds that the generator takes for a block besides its transfer.
fn generator_ns(job: &StridesJob) -> Result<f64> {
    let mut block = BlockBuffer::for_job(job)?;
    Ok(clock::fastest_ns_per_call(1, 20, |number| {
        if job.is_write {
            block.write_stamp(job, u64::from(number))
        } else {
            std::hint::black_box(stamp_of(job, u64::from(number)));
        }
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(path: PathBuf, writer: u32, is_write: bool) -> StridesJob {
        StridesJob {
            path,
            is_write,
            writer,
            first_block: u64::from(writer),
            stride: 3,
            block_count: 4,
            block_bytes: 4096,
            direct: false,
            sync_at_end: true,
            seed: 7,
        }
    }

    #[test]
    fn clients_write_one_file_in_strides_and_read_what_another_wrote() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        for writer in 0..3 {
            let written = run(&job(path.clone(), writer, true)).unwrap();
            assert_eq!((written.operations(), written.bytes()), (5, 4 * 4096), "four writes and a sync");
        }
        assert_eq!(path.metadata().unwrap().len(), 12 * 4096, "no hole is left and nothing lies beyond");
        assert_eq!(run(&job(path.clone(), 1, false)).unwrap().operations(), 4);
        let stale = StridesJob { first_block: 2, ..job(path.clone(), 1, false) };
        let error = run(&stale).unwrap_err().to_string();
        assert!(error.contains("expected client 1, offset 8192, found client 2, offset 8192"), "{error}");
        std::fs::write(&path, vec![0; 12 * 4096]).unwrap();
        let error = run(&job(path, 1, false)).unwrap_err().to_string();
        assert!(error.contains("expected client 1, offset 4096, found a block that no client wrote"), "{error}");
    }
}
