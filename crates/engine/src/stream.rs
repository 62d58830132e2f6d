//! The stream of operations of one thread.

use super::cadence::{Cadence, Event, Tickets};
use super::job::{Job, Mixing, Pattern};
use super::{files::Layout, offsets::Offsets};
use fsarena_core::schedule::mix;
use rand::{RngExt, SeedableRng, rngs::Xoshiro256PlusPlus};
use std::{ops::Range, sync::atomic::AtomicU64};

/// A kind of operation; its number is that of its lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub enum Op {
    /// A read.
    Read = 0,
    /// A write.
    Write = 1,
    /// A sync of one file.
    Sync = 2,
}

impl Op {
    /// Its name in readings and errors.
    pub const fn name(self) -> &'static str {
        ["read", "write", "sync"][self as usize]
    }
}

/// Requests are reads only. The hot loops are compiled for each of these.
pub const READS: u8 = 0;
/// Requests are writes only.
pub const WRITES: u8 = 1;
/// Requests are both.
pub const MIXED: u8 = 2;

/// Compiles an expression for each kind of requests, and evaluates it for that of a job.
macro_rules! by_requests {
    ($job:expr, $requests:ident, $run:expr) => {
        match ($job.reads(), $job.writes()) {
            (true, false) => {
                const $requests: u8 = crate::stream::READS;
                $run
            }
            (false, true) => {
                const $requests: u8 = crate::stream::WRITES;
                $run
            }
            _ => {
                const $requests: u8 = crate::stream::MIXED;
                $run
            }
        }
    };
}
pub(crate) use by_requests;

/// The next operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Next {
    /// What.
    pub op: Op,
    /// In which file.
    pub file: u32,
    /// Where in it, in bytes.
    pub offset: u64,
    /// The block's number through all files.
    pub block: u64,
}

/// The stream of operations of one thread.
#[derive(Debug)]
pub struct Stream<'a> {
    tickets: Tickets<'a>,
    cadence: Cadence,
    offsets: Offsets,
    mix: Mix,
    layout: Layout,
}

#[derive(Debug)]
struct Mix {
    read_share: f64,
    even: bool,
    reads: f64,
    writes: f64,
    rng: Xoshiro256PlusPlus,
}

/// The blocks that only this thread writes.
pub fn own_share(blocks: u64, threads: u32, thread: u32) -> Range<u64> {
    let at = |thread: u32| (u128::from(blocks) * u128::from(thread) / u128::from(threads)) as u64;
    at(thread)..at(thread + 1)
}

impl<'a> Stream<'a> {
    /// The stream of a thread. Where events are numbered over all threads, `counter` does it.
    pub fn new(job: &Job, layout: Layout, thread: u32, counter: &'a AtomicU64) -> Stream<'a> {
        let shared = matches!(job.pattern, Pattern::Sequential { shared_cursor: true })
            || job.sync_every.is_some_and(|every| every.over_all_threads);
        let own = own_share(layout.blocks(), job.threads, thread);
        // Verified blocks have one writer, so that their generation is known.
        let (range, start) = match job.verify && job.writes() {
            true => (own, 0),
            false if shared => (0..layout.blocks(), 0),
            false => (0..layout.blocks(), own.start),
        };
        let seed = mix(job.seed, u64::from(thread));
        Stream {
            tickets: if shared { Tickets::Shared(counter) } else { Tickets::Own(0) },
            cadence: Cadence::new(job.sync_every.map(|every| every.requests), layout.files),
            offsets: Offsets::new(job.pattern, range, start, seed),
            mix: Mix {
                read_share: job.read_share,
                even: job.mixing == Mixing::Even,
                reads: 0.0,
                writes: 0.0,
                rng: Xoshiro256PlusPlus::seed_from_u64(mix(seed, 7)),
            },
            layout,
        }
    }

    /// The next operation, of a kind of requests known to the compiler.
    #[inline(always)]
    pub fn next<const REQUESTS: u8>(&mut self) -> Next {
        let request = match self.cadence.event(self.tickets.next()) {
            Event::Request(request) => request,
            Event::Sync(file) => return Next { op: Op::Sync, file, offset: 0, block: 0 },
        };
        let block = self.offsets.next(request);
        let (file, offset) = self.layout.place(block);
        let op = match REQUESTS {
            READS => Op::Read,
            WRITES => Op::Write,
            _ => self.mix.next(),
        };
        Next { op, file, offset, block }
    }
}

impl Mix {
    #[inline(always)]
    fn next(&mut self) -> Op {
        let read = if self.even {
            // sysbench: a read while (reads + 1) / (writes + 1) is below the ratio of the shares.
            (self.reads + 1.0) * (1.0 - self.read_share) < self.read_share * (self.writes + 1.0)
        } else {
            self.rng.random::<f64>() < self.read_share
        };
        if read {
            self.reads += 1.0;
            Op::Read
        } else {
            self.writes += 1.0;
            Op::Write
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::job::SyncEvery;
    use super::*;

    const LAYOUT: Layout = Layout { files: 4, per_file: 25, block: 4096 };

    #[test]
    fn a_shared_cursor_covers_every_block_once_in_each_pass() {
        let job = Job { pattern: Pattern::Sequential { shared_cursor: true }, threads: 4, ..Job::default() };
        let counter = AtomicU64::new(0);
        let mut seen: Vec<(u32, u64)> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4)
                .map(|thread| {
                    let (job, counter) = (&job, &counter);
                    scope.spawn(move || {
                        let mut stream = Stream::new(job, LAYOUT, thread, counter);
                        (0..50)
                            .map(|_| stream.next::<READS>())
                            .map(|n| (n.file, n.offset))
                            .collect::<Vec<_>>()
                    })
                })
                .collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        seen.sort_unstable();
        let once = (0..4).flat_map(|file| (0..25).map(move |at| (file, at * 4096)));
        let twice: Vec<(u32, u64)> = once.flat_map(|place| [place, place]).collect();
        assert_eq!(seen, twice);
    }

    #[test]
    fn cursors_of_their_own_start_at_their_share() {
        let job = Job { pattern: Pattern::Sequential { shared_cursor: false }, threads: 4, ..Job::default() };
        let counter = AtomicU64::new(0);
        for thread in 0..4 {
            let mut stream = Stream::new(&job, LAYOUT, thread, &counter);
            let first = stream.next::<READS>();
            assert_eq!((first.file, first.offset), (thread, 0));
            assert_eq!(stream.next::<READS>().offset, 4096);
        }
        assert_eq!(counter.into_inner(), 0);
    }

    #[test]
    fn shares_are_disjoint_and_whole() {
        let shares: Vec<Range<u64>> = (0..7).map(|thread| own_share(100, 7, thread)).collect();
        assert_eq!((shares[0].start, shares[6].end), (0, 100));
        assert!(shares.windows(2).all(|pair| pair[0].end == pair[1].start));
    }

    #[test]
    fn syncs_come_between_requests_of_all_threads() {
        let job = Job {
            read_share: 0.0,
            threads: 2,
            sync_every: Some(SyncEvery { requests: 10, over_all_threads: true }),
            ..Job::default()
        };
        let counter = AtomicU64::new(0);
        let mut streams = [0, 1].map(|thread| Stream::new(&job, LAYOUT, thread, &counter));
        let ops: Vec<Next> = (0..28).map(|event| streams[event % 2].next::<WRITES>()).collect();
        let synced: Vec<u32> = ops.iter().filter(|n| n.op == Op::Sync).map(|n| n.file).collect();
        assert_eq!(synced, [0, 1, 2, 3, 0, 1, 2, 3]);
        assert!(ops[10..14].iter().all(|next| next.op == Op::Sync));
    }

    #[test]
    fn shares_of_reads_are_kept() {
        let counter = AtomicU64::new(0);
        // sysbench's default ratio is 1.5 reads a write.
        for mixing in [Mixing::Even, Mixing::Random] {
            let job = Job { read_share: 0.6, mixing, ..Job::default() };
            let mut stream = Stream::new(&job, LAYOUT, 0, &counter);
            let reads = (0..10_000).filter(|_| stream.next::<MIXED>().op == Op::Read).count();
            let slack = if mixing == Mixing::Even { 1 } else { 200 };
            assert!(reads.abs_diff(6000) <= slack, "{mixing:?}: {reads}");
        }
    }

    #[test]
    fn an_even_mix_alternates_as_sysbench_does() {
        let counter = AtomicU64::new(0);
        let job = Job { read_share: 0.6, mixing: Mixing::Even, ..Job::default() };
        let mut stream = Stream::new(&job, LAYOUT, 0, &counter);
        let ops: String =
            (0..10).map(|_| if stream.next::<MIXED>().op == Op::Read { 'r' } else { 'w' }).collect();
        // (r+1)/(w+1) < 1.5: r, then 2/1 ≥ 1.5: w, then 2/2 < 1.5: r, 3/2 ≥ 1.5: w, 3/3: r, 4/3: r, 5/3: w …
        assert_eq!(ops, "rwrwrrwrwr");
    }
}
