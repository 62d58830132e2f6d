//! The load engine: reads, writes and syncs files as fast as possible or at a set rate, and records every latency.
//!
//! ```text
//! Files::prepare → LoadJob::check → check_extents → calibrate → drive (workers → tallies → intervals) → LoadOutcome
//! ```
//!
//! A hot loop does not allocate and has no dynamic calls. It writes two shared counters at most: rarely, to claim operations; and
//! for each operation, if all threads share a cursor or count their requests together. Every run also measures the cost of the
//! load generator itself, and reports that cost as a separate figure.

mod block_io;
mod buffers;
mod calibrate;
pub mod clock;
pub mod custom_load;
mod drive;
mod error;
pub mod extent_check;
mod files;
mod histogram;
mod job;
mod load;
pub mod meta;
mod outcome;
pub mod readings;
mod ring;
mod ring_loop;
mod schedule;
pub mod series;
pub mod steady;
mod stream;
pub mod strides;
mod sync_loop;
mod tally;
#[cfg(test)]
mod tests;
mod verify;
mod work;

use crate::{
    block_io::Mappings, buffers::IoBuffers, drive::DriveSettings, error::Result, files::BlockLayout, load::FileLoad,
};
use bytesize::ByteSize;
use fsarena_sys::kernel::SysRoot;
use rustix::fd::{AsFd, BorrowedFd};

pub use calibrate::Calibration;
pub use error::EngineError;
pub use files::{FileSpec, Files, dio_align};
pub use histogram::{empty_histogram, quantiles, to_latencies};
pub use job::{
    AllowedExtents, Arrivals, Bound, Content, Durability, Engine, LoadJob, Mixing, OpenMode, Pattern, Rate, SyncCall,
    SyncEvery, UringFeatures, Warmup,
};
pub use outcome::{Fairness, LoadOutcome, OpStats, jain_index};
pub use stream::BlockPicker;
pub use tally::Interval;

/// Runs a job on its files. Calls `on_interval` as soon as an interval of the series is over.
///
/// # Errors
/// If the job contradicts itself or does not fit its files, if threads, rings or memory are unavailable, or an operation
/// fails or reads a wrong block. The first such operation ends the job.
pub fn run(job: &LoadJob, files: &Files, on_interval: &mut dyn FnMut(&Interval)) -> Result<LoadOutcome> {
    job.check()?;
    let layout = files.layout(job)?;
    check_block_count(job, files, layout)?;
    check_memory(job)?;
    // Files that are made anew are empty, so they have no extents yet.
    let extent_check = if job.open.recreate { None } else { Some(extent_check::check_extents(files, job.allow)?) };
    let calibration = calibrate::calibrate(job, layout)?;
    calibrate::check_cancelled()?;
    let descriptors = files::open_all(job, files)?;
    let open_files: Vec<BorrowedFd> = descriptors.iter().map(AsFd::as_fd).collect();
    let data_only = job.sync_call == SyncCall::Fdatasync;
    let map_files = || Mappings::new(&open_files, &files.paths, files.bytes_per_file, job.writes(), data_only);
    let mappings = (job.engine == Engine::Mmap).then(map_files).transpose()?;
    let load = FileLoad::new(job, layout, &files.paths, &open_files, mappings.as_ref());
    let settings = DriveSettings {
        threads: job.threads,
        kinds: &calibrate::op_kinds(job),
        interval_ms: job.interval_ms,
        bound: job.bound,
        warmup: job.warmup,
        rate: job.rate,
    };
    let mut outcome = LoadOutcome::measure(&settings, &load, calibration, on_interval)?;
    outcome.extent_check = extent_check;
    outcome.verified_blocks = load.verified_blocks.into_inner();
    Ok(outcome)
}

/// Checks that there are enough blocks for verified writes. The blocks are divided among the threads, and a block has at most
/// one operation in flight: a thread draws again if it has drawn a block with one. With two blocks for each operation in flight,
/// at least half of all draws succeed.
fn check_block_count(job: &LoadJob, files: &Files, layout: BlockLayout) -> Result {
    let needed = 2 * u64::from(job.threads) * u64::from(job.depth);
    if job.verify && job.writes() && layout.blocks() < needed {
        let why = format!(
            "verified writes need at least two blocks for each operation in flight: {needed}, and there are {}",
            layout.blocks()
        );
        return Err(EngineError::Files { path: files.paths[0].clone(), why });
    }
    Ok(())
}

/// Checks that the buffers fit into available memory. Otherwise the kernel would kill a process, perhaps another one.
fn check_memory(job: &LoadJob) -> Result {
    let buffer_count = u64::from(job.threads) * u64::from(job.depth);
    let needed_bytes = buffer_count.saturating_mul(IoBuffers::bytes_per_buffer(job.block_bytes, job.open.direct));
    match fsarena_sys::host::available_memory_bytes(&SysRoot::host()) {
        Some(available_bytes) if needed_bytes > available_bytes => {
            let [block, needed, available] = [u64::from(job.block_bytes), needed_bytes, available_bytes].map(ByteSize);
            let why = format!("{buffer_count} buffers of {block} need {needed}, and {available} are available");
            Err(EngineError::Memory(why))
        }
        _ => Ok(()),
    }
}
