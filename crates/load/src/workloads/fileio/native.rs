//! A cell as a job of the load engine.

use super::settings::{Cell, Chosen};
use fsarena_engine::{Allow, Bound, Job, Open, Pattern, SyncEvery, Warmup};

/// The job that does what sysbench would do.
pub fn job(chosen: &Chosen, cell: Cell, on_device: bool) -> Job {
    let mode = cell.mode;
    let any = chosen.any_layout;
    Job {
        open: Open { direct: chosen.direct, recreate: mode.recreates() && !on_device, ..Open::default() },
        block_bytes: cell.block,
        threads: cell.threads,
        pattern: match mode.sequential {
            true => Pattern::Sequential { shared_cursor: true },
            false => Pattern::Uniform,
        },
        read_share: if mode.writes { 0.0 } else { 1.0 },
        sync_every: chosen.sync_after(mode).map(|requests| SyncEvery { requests, over_all_threads: true }),
        sync_end: mode.writes && chosen.fsync_end,
        bound: match chosen.events {
            0 => Bound::Steady { at_most_s: chosen.seconds },
            events => Bound::Operations(events),
        },
        content: chosen.content,
        // A device has no layout of ours: what is on it says nothing of where it lies.
        verify: chosen.verify && !mode.writes && !on_device,
        allow: Allow { unwritten: any, sparse: any, shared: any, inline: any, encoded: any },
        interval_ms: chosen.interval_ms,
        seed: chosen.seed,
        ..Job::default()
    }
}

/// The job that writes a bare device before it is read.
pub fn filling(chosen: &Chosen) -> Job {
    Job {
        open: Open { direct: true, ..Open::default() },
        block_bytes: chosen.file_bytes.min(1 << 20) as u32,
        pattern: Pattern::Sequential { shared_cursor: true },
        read_share: 0.0,
        sync_end: true,
        bound: Bound::Bytes(chosen.total_bytes()),
        warmup: Warmup::None,
        content: chosen.content,
        seed: chosen.seed,
        ..Job::default()
    }
}
