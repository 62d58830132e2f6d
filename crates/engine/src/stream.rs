//! Generates the operations of one thread: the kind of each, and its block.
//!
//! As in sysbench's fileio, after every N requests each file is synced once. So events come in rounds of N requests and as many
//! syncs as there are files, and the number of an event determines its kind.

use crate::files::BlockLayout;
use crate::job::{LoadJob, Mixing, Pattern};
use fsarena_core::schedule::mix;
use rand::{RngExt, SeedableRng, rngs::Xoshiro256PlusPlus};
use rand_distr::{Distribution, Normal, Zipf};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

/// A kind of operation. Its number is the index of its lane in a tally.
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

/// An operation that has been drawn but not started yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlannedOp {
    /// Its kind.
    pub op: Op,
    /// The number of its file.
    pub file: u32,
    /// The offset in that file, in bytes.
    pub offset: u64,
    /// The number of its block, counted through all files.
    pub block: u64,
}

/// The stream of operations of one thread.
#[derive(Debug)]
pub struct OpStream<'a> {
    event_numbers: EventNumbers<'a>,
    cadence: SyncCadence,
    picker: BlockPicker,
    choice: ReadWriteChoice,
    layout: BlockLayout,
}

/// Chooses between reads and writes.
#[derive(Debug)]
struct ReadWriteChoice {
    /// The kind of all requests; None for a mixed load.
    only_kind: Option<Op>,
    read_share: f64,
    /// Whether reads and writes alternate as regularly as the share allows; otherwise each choice is random.
    is_even: bool,
    /// The number of reads so far.
    reads: f64,
    /// The number of writes so far.
    writes: f64,
    rng: Xoshiro256PlusPlus,
}

/// A thread's share of the blocks. Verified writes of the thread stay in this share, and the thread's own cursor starts there.
pub fn own_blocks(blocks: u64, threads: u32, thread: u32) -> Range<u64> {
    let start_of = |thread: u32| (u128::from(blocks) * u128::from(thread) / u128::from(threads)) as u64;
    start_of(thread)..start_of(thread + 1)
}

impl<'a> OpStream<'a> {
    /// Makes the stream of a thread. `counter` numbers the events if they are counted over all threads.
    pub fn new(job: &LoadJob, layout: BlockLayout, thread: u32, counter: &'a AtomicU64) -> OpStream<'a> {
        // A sequential cursor follows the numbers of the events, so if these are counted over all threads, all threads share a
        // cursor.
        let has_shared_numbers = matches!(job.pattern, Pattern::Sequential { shared_cursor: true })
            || job.sync_every.is_some_and(|every| every.over_all_threads);
        let own_range = own_blocks(layout.blocks(), job.threads, thread);
        // Only one thread writes a verified block, because that thread counts how often the block was written.
        // `LoadJob::check` refuses verified writes with a shared count.
        let (range, start) = if job.verify && job.writes() {
            (own_range, 0)
        } else if has_shared_numbers {
            (0..layout.blocks(), 0)
        } else {
            (0..layout.blocks(), own_range.start)
        };
        let seed = mix(job.seed, u64::from(thread));
        OpStream {
            event_numbers: if has_shared_numbers { EventNumbers::Shared(counter) } else { EventNumbers::Own(0) },
            cadence: SyncCadence::new(job.sync_every.map(|every| every.requests), layout.file_count),
            picker: BlockPicker::new(job.pattern, range, start, seed),
            choice: ReadWriteChoice {
                only_kind: match (job.reads(), job.writes()) {
                    (true, false) => Some(Op::Read),
                    (false, true) => Some(Op::Write),
                    _ => None,
                },
                read_share: job.read_share,
                is_even: job.mixing == Mixing::Even,
                reads: 0.0,
                writes: 0.0,
                rng: Xoshiro256PlusPlus::seed_from_u64(mix(seed, 7)),
            },
            layout,
        }
    }

    /// Draws the next operation.
    #[inline(always)]
    pub fn next(&mut self) -> PlannedOp {
        let request = match self.cadence.event_at(self.event_numbers.next()) {
            Event::Request(request) => request,
            Event::Sync(file) => return PlannedOp { op: Op::Sync, file, offset: 0, block: 0 },
        };
        let block = self.picker.next(request);
        let (file, offset) = self.layout.locate(block);
        PlannedOp { op: self.choice.next(), file, offset, block }
    }
}

impl ReadWriteChoice {
    /// Chooses the kind of the next request.
    #[inline(always)]
    fn next(&mut self) -> Op {
        if let Some(op) = self.only_kind {
            return op;
        }
        let is_read = if self.is_even {
            // sysbench: a read while (reads + 1) / (writes + 1) is below the ratio of the shares.
            (self.reads + 1.0) * (1.0 - self.read_share) < self.read_share * (self.writes + 1.0)
        } else {
            self.rng.random::<f64>() < self.read_share
        };
        if is_read {
            self.reads += 1.0;
            Op::Read
        } else {
            self.writes += 1.0;
            Op::Write
        }
    }
}

/// The source of a thread's event numbers.
#[derive(Debug)]
pub enum EventNumbers<'a> {
    /// The thread counts its own events.
    Own(u64),
    /// All threads share a counter. This is the only shared write in a hot loop, used only for a shared cursor or for
    /// syncs after a number of requests of all threads.
    Shared(&'a AtomicU64),
}

impl EventNumbers<'_> {
    /// The next number.
    #[inline(always)]
    pub fn next(&mut self) -> u64 {
        match self {
            EventNumbers::Own(counter) => {
                *counter += 1;
                *counter - 1
            }
            EventNumbers::Shared(counter) => counter.fetch_add(1, Ordering::Relaxed),
        }
    }
}

/// One event of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// A request, with its number.
    Request(u64),
    /// The sync of the file of this number.
    Sync(u32),
}

/// The order of requests and syncs.
#[derive(Debug, Clone, Copy)]
struct SyncCadence {
    /// Requests of a round, before its syncs; 0 without syncs.
    requests_per_round: u64,
    /// Requests and syncs of a round; 0 without syncs.
    events_per_round: u64,
}

impl SyncCadence {
    /// Syncs each of `files` files after every `requests` requests, or never if `requests` is absent.
    pub fn new(requests: Option<u64>, files: u32) -> SyncCadence {
        let requests_per_round = requests.unwrap_or(0);
        let events_per_round = if requests_per_round == 0 { 0 } else { requests_per_round + u64::from(files) };
        SyncCadence { requests_per_round, events_per_round }
    }

    /// The event with this number.
    #[inline(always)]
    pub fn event_at(&self, number: u64) -> Event {
        if self.events_per_round == 0 {
            return Event::Request(number);
        }
        let (round, event) = (number / self.events_per_round, number % self.events_per_round);
        match event.checked_sub(self.requests_per_round) {
            None => Event::Request(round * self.requests_per_round + event),
            Some(file) => Event::Sync(file as u32),
        }
    }
}

/// Draws block numbers, which count through all files together.
#[derive(Debug, Clone)]
pub struct BlockPicker {
    /// The first block of the range.
    first: u64,
    /// The number of blocks in the range.
    blocks: u64,
    distribution: BlockDistribution,
    rng: Xoshiro256PlusPlus,
}

/// The distribution of the drawn blocks within the range.
#[derive(Debug, Clone)]
enum BlockDistribution {
    /// Block after block, from this block of the range on.
    Sequential(u64),
    Uniform,
    Zipf(Zipf<f64>, BlockPermutation),
    /// The self-similar (80/20) distribution with the exponent p: the rank of a block among n is u^p·n, where u is uniform in
    /// 0..1.
    Pareto(f64, BlockPermutation),
    Normal(Normal<f64>),
}

impl BlockPicker {
    /// Draws from a range of blocks. A sequence starts `start` blocks into the range and wraps around.
    ///
    /// # Panics
    /// If the range is empty or the pattern has not been checked.
    pub fn new(pattern: Pattern, range: Range<u64>, start: u64, seed: u64) -> BlockPicker {
        let blocks = range.end - range.start;
        assert!(blocks > 0, "there is nothing to draw from");
        // The same blocks are popular for all threads, so the seed does not depend on the thread.
        let permutation = || BlockPermutation::new(blocks, mix(0x9e3779b9, blocks));
        let distribution = match pattern {
            Pattern::Sequential { .. } => BlockDistribution::Sequential(start),
            Pattern::Uniform => BlockDistribution::Uniform,
            Pattern::Zipf { theta } => {
                BlockDistribution::Zipf(Zipf::new(blocks as f64, theta).expect("theta is checked"), permutation())
            }
            Pattern::Pareto { h } => BlockDistribution::Pareto(h.ln() / (1.0 - h).ln(), permutation()),
            Pattern::Normal { deviation_percent } => {
                let (middle, deviation) = (blocks as f64 / 2.0, blocks as f64 * deviation_percent / 100.0);
                BlockDistribution::Normal(Normal::new(middle, deviation).expect("the deviation is checked"))
            }
        };
        BlockPicker { first: range.start, blocks, distribution, rng: Xoshiro256PlusPlus::seed_from_u64(seed) }
    }

    /// Returns the block of a request. Only sequences depend on the request's number.
    #[inline(always)]
    pub fn next(&mut self, request: u64) -> u64 {
        let rng = &mut self.rng;
        let block_in_range = match &self.distribution {
            BlockDistribution::Sequential(start) => (start + request) % self.blocks,
            BlockDistribution::Uniform => rng.random_range(0..self.blocks),
            BlockDistribution::Zipf(zipf, permutation) => permutation.block_of_rank(zipf.sample(rng) as u64 - 1),
            BlockDistribution::Pareto(exponent, permutation) => {
                let rank = (self.blocks as f64 * rng.random::<f64>().powf(*exponent)) as u64;
                permutation.block_of_rank(rank.min(self.blocks - 1))
            }
            BlockDistribution::Normal(normal) => loop {
                let position = normal.sample(rng);
                if (0.0..self.blocks as f64).contains(&position) {
                    break position as u64;
                }
            },
        };
        self.first + block_in_range
    }
}

/// A pseudo-random permutation of 0..n without a table: a four-round Feistel network over the next power of four, applied
/// repeatedly until the result is in the range (Black and Rogaway 2002). It scatters the popular blocks of skewed patterns.
#[derive(Debug, Clone, Copy)]
struct BlockPermutation {
    blocks: u64,
    half_bits: u32,
    keys: [u64; 4],
}

impl BlockPermutation {
    fn new(blocks: u64, seed: u64) -> BlockPermutation {
        let bits = (64 - (blocks - 1).leading_zeros()).max(2);
        let half_bits = bits.div_ceil(2);
        BlockPermutation { blocks, half_bits, keys: [0, 1, 2, 3].map(|round| mix(seed, round)) }
    }

    /// The block with this rank of popularity.
    fn block_of_rank(&self, rank: u64) -> u64 {
        let mut block = self.permute(rank);
        while block >= self.blocks {
            block = self.permute(block);
        }
        block
    }

    /// Permutes the numbers below the power of four.
    fn permute(&self, value: u64) -> u64 {
        let mask = (1u64 << self.half_bits) - 1;
        let (mut left, mut right) = (value >> self.half_bits, value & mask);
        for key in self.keys {
            let hash = (right ^ key).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            (left, right) = (right, left ^ (hash >> 32 & mask));
        }
        left << self.half_bits | right
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::SyncEvery;

    const LAYOUT: BlockLayout = BlockLayout { file_count: 4, blocks_per_file: 25, block_bytes: 4096 };

    #[test]
    fn a_shared_cursor_covers_every_block_once_in_each_pass() {
        let job = LoadJob { pattern: Pattern::Sequential { shared_cursor: true }, threads: 4, ..LoadJob::default() };
        let counter = AtomicU64::new(0);
        let mut drawn: Vec<(u32, u64)> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4)
                .map(|thread| {
                    let (job, counter) = (&job, &counter);
                    scope.spawn(move || {
                        let mut stream = OpStream::new(job, LAYOUT, thread, counter);
                        (0..50).map(|_| stream.next()).map(|op| (op.file, op.offset)).collect::<Vec<_>>()
                    })
                })
                .collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        drawn.sort_unstable();
        let all_blocks = (0..4).flat_map(|file| (0..25).map(move |block| (file, block * 4096)));
        let all_blocks_twice: Vec<(u32, u64)> = all_blocks.flat_map(|place| [place, place]).collect();
        assert_eq!(drawn, all_blocks_twice);
    }

    #[test]
    fn the_cursor_of_each_thread_starts_at_its_share() {
        let job = LoadJob { pattern: Pattern::Sequential { shared_cursor: false }, threads: 4, ..LoadJob::default() };
        let counter = AtomicU64::new(0);
        for thread in 0..4 {
            let mut stream = OpStream::new(&job, LAYOUT, thread, &counter);
            let first = stream.next();
            assert_eq!((first.file, first.offset), (thread, 0));
            assert_eq!(stream.next().offset, 4096);
        }
        assert_eq!(counter.into_inner(), 0);
    }

    #[test]
    fn the_shares_of_the_threads_cover_all_blocks_once() {
        let shares: Vec<Range<u64>> = (0..7).map(|thread| own_blocks(100, 7, thread)).collect();
        assert_eq!((shares[0].start, shares[6].end), (0, 100));
        assert!(shares.windows(2).all(|pair| pair[0].end == pair[1].start));
    }

    #[test]
    fn syncs_come_between_requests_of_all_threads() {
        let job = LoadJob {
            read_share: 0.0,
            threads: 2,
            sync_every: Some(SyncEvery { requests: 10, over_all_threads: true }),
            ..LoadJob::default()
        };
        let counter = AtomicU64::new(0);
        let mut streams = [0, 1].map(|thread| OpStream::new(&job, LAYOUT, thread, &counter));
        let ops: Vec<PlannedOp> = (0..28).map(|event| streams[event % 2].next()).collect();
        let synced: Vec<u32> =
            ops.iter().filter(|planned| planned.op == Op::Sync).map(|planned| planned.file).collect();
        assert_eq!(synced, [0, 1, 2, 3, 0, 1, 2, 3]);
        assert!(ops[10..14].iter().all(|planned| planned.op == Op::Sync));
    }

    #[test]
    fn mixed_loads_keep_the_share_of_reads() {
        let counter = AtomicU64::new(0);
        // sysbench's default ratio is 1.5 reads a write.
        for mixing in [Mixing::Even, Mixing::Random] {
            let job = LoadJob { read_share: 0.6, mixing, ..LoadJob::default() };
            let mut stream = OpStream::new(&job, LAYOUT, 0, &counter);
            let reads = (0..10_000).filter(|_| stream.next().op == Op::Read).count();
            let tolerance = if mixing == Mixing::Even { 1 } else { 200 };
            assert!(reads.abs_diff(6000) <= tolerance, "{mixing:?}: {reads}");
        }
    }

    #[test]
    fn an_even_mix_alternates_as_sysbench_does() {
        let counter = AtomicU64::new(0);
        let job = LoadJob { read_share: 0.6, mixing: Mixing::Even, ..LoadJob::default() };
        let mut stream = OpStream::new(&job, LAYOUT, 0, &counter);
        let ops: String = (0..10).map(|_| if stream.next().op == Op::Read { 'r' } else { 'w' }).collect();
        // (r+1)/(w+1) < 1.5: r, then 2/1 ≥ 1.5: w, then 2/2 < 1.5: r, 3/2 ≥ 1.5: w, 3/3: r, 4/3: r, 5/3: w …
        assert_eq!(ops, "rwrwrrwrwr");
    }

    #[test]
    fn after_every_hundred_requests_each_file_is_synced() {
        let cadence = SyncCadence::new(Some(100), 3);
        let events: Vec<Event> = (0..309).map(|number| cadence.event_at(number)).collect();
        assert_eq!(events[99], Event::Request(99));
        assert_eq!(events[100..104], [Event::Sync(0), Event::Sync(1), Event::Sync(2), Event::Request(100)]);
        assert_eq!(events.iter().filter(|event| matches!(event, Event::Sync(_))).count(), 9);
        let requests: Vec<u64> = events
            .iter()
            .filter_map(|event| match event {
                Event::Request(number) => Some(*number),
                Event::Sync(_) => None,
            })
            .collect();
        assert_eq!(requests, (0..300).collect::<Vec<_>>());
    }

    #[test]
    fn without_syncs_every_event_is_a_request() {
        let cadence = SyncCadence::new(None, 128);
        assert!((0..1000).all(|number| cadence.event_at(number) == Event::Request(number)));
    }

    #[test]
    fn a_shared_counter_gives_each_number_once() {
        let counter = AtomicU64::new(0);
        let mut all: Vec<u64> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8)
                .map(|_| {
                    scope.spawn(|| {
                        let mut event_numbers = EventNumbers::Shared(&counter);
                        (0..1000).map(|_| event_numbers.next()).collect::<Vec<_>>()
                    })
                })
                .collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        all.sort_unstable();
        assert_eq!(all, (0..8000).collect::<Vec<_>>());
    }

    const DRAWS: u64 = 200_000;

    /// The number of draws of each block.
    fn draws_per_block(pattern: Pattern, blocks: u64) -> Vec<u64> {
        let mut picker = BlockPicker::new(pattern, 0..blocks, 0, 42);
        let mut counts = vec![0; blocks as usize];
        (0..DRAWS).for_each(|request| counts[picker.next(request) as usize] += 1);
        counts
    }

    /// The numbers of draws of all blocks, the largest first.
    fn sorted_draws(pattern: Pattern, blocks: u64) -> Vec<u64> {
        let mut counts = draws_per_block(pattern, blocks);
        counts.sort_unstable_by(|a, b| b.cmp(a));
        counts
    }

    #[test]
    fn a_sequence_wraps_and_starts_at_its_share() {
        let mut picker = BlockPicker::new(Pattern::Sequential { shared_cursor: false }, 10..15, 3, 1);
        assert_eq!((0..7).map(|request| picker.next(request)).collect::<Vec<_>>(), [13, 14, 10, 11, 12, 13, 14]);
    }

    #[test]
    fn uniform_draws_are_even() {
        // 2000 draws of each of 100 blocks are expected. χ² with 99 degrees of freedom has the mean 99, and 99.9% are below
        // 149.
        let draws = draws_per_block(Pattern::Uniform, 100);
        let chi2: f64 = draws.iter().map(|&n| (n as f64 - 2000.0).powi(2) / 2000.0).sum();
        assert!((60.0..149.0).contains(&chi2), "{chi2}");
    }

    #[test]
    fn draws_stay_in_their_range() {
        let patterns = [
            Pattern::Uniform,
            Pattern::Zipf { theta: 0.9 },
            Pattern::Pareto { h: 0.2 },
            Pattern::Normal { deviation_percent: 100.0 },
        ];
        for pattern in patterns {
            let mut picker = BlockPicker::new(pattern, 1000..1007, 0, 5);
            assert!((0..10_000).all(|request| (1000..1007).contains(&picker.next(request))), "{pattern:?}");
            let mut of_one_block = BlockPicker::new(pattern, 7..8, 0, 5);
            assert_eq!(of_one_block.next(0), 7);
        }
    }

    #[test]
    fn zipf_falls_with_rank() {
        // With theta 1 over 100 blocks, the harmonic number H(100) = 5.18738: rank 1 has the share 1/H = 0.19278 of the draws,
        // and rank 10 a tenth of this.
        let draws = sorted_draws(Pattern::Zipf { theta: 1.0 }, 100);
        assert!((draws[0] as f64 / DRAWS as f64 - 0.19278).abs() < 0.004, "{}", draws[0]);
        assert!((draws[9] as f64 / DRAWS as f64 - 0.019278).abs() < 0.002, "{}", draws[9]);
    }

    #[test]
    fn pareto_gives_twenty_per_cent_of_blocks_eighty_per_cent_of_operations() {
        let draws = sorted_draws(Pattern::Pareto { h: 0.2 }, 1000);
        let of_top_20_percent: u64 = draws[..200].iter().sum();
        assert!((of_top_20_percent as f64 / DRAWS as f64 - 0.8).abs() < 0.005, "{of_top_20_percent}");
        // The same rule holds within these blocks: 4% of all blocks take 64% of the draws.
        let of_top_4_percent: u64 = draws[..40].iter().sum();
        assert!((of_top_4_percent as f64 / DRAWS as f64 - 0.64).abs() < 0.01, "{of_top_4_percent}");
    }

    #[test]
    fn normal_draws_lie_around_the_middle() {
        let draws = draws_per_block(Pattern::Normal { deviation_percent: 10.0 }, 1000);
        // 68.27% are within one standard deviation of the middle.
        let near_middle: u64 = draws[400..600].iter().sum();
        assert!((near_middle as f64 / DRAWS as f64 - 0.6827).abs() < 0.005, "{near_middle}");
    }

    #[test]
    fn every_block_has_one_rank_of_popularity() {
        for blocks in [1, 2, 3, 5, 64, 65, 1000] {
            let permutation = BlockPermutation::new(blocks, 9);
            let mut blocks_by_rank: Vec<u64> = (0..blocks).map(|rank| permutation.block_of_rank(rank)).collect();
            if blocks == 1000 {
                assert!(blocks_by_rank.windows(2).filter(|pair| pair[0].abs_diff(pair[1]) < 10).count() < 60);
            }
            blocks_by_rank.sort_unstable();
            assert_eq!(blocks_by_rank, (0..blocks).collect::<Vec<_>>());
        }
    }

    #[test]
    fn the_same_seed_draws_the_same() {
        let draws = |seed| {
            let mut picker = BlockPicker::new(Pattern::Uniform, 0..1 << 40, 0, seed);
            (0..8).map(|request| picker.next(request)).collect::<Vec<_>>()
        };
        assert_eq!(draws(1), draws(1));
        assert_ne!(draws(1), draws(2));
    }
}
