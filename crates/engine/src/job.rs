//! The settings of a load on files, and the checks before it starts.

use crate::error::{EngineError, Result};
use crate::verify;
use fsarena_core::names::unknown_name;
use serde::Serialize;

/// The longest duration of a job, in seconds.
const MAX_SECONDS: f64 = 1e7;

/// How operations reach the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Default)]
#[serde(rename_all = "snake_case")]
pub enum Engine {
    /// One `pread` or `pwrite` at a time in each thread.
    #[default]
    Sync,
    /// One io_uring per thread, with [`LoadJob::depth`] operations in flight.
    IoUring,
    /// Copies from and to a shared memory mapping of the files.
    Mmap,
}

/// How the files are opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Default)]
pub struct OpenMode {
    /// Bypass the page cache (`O_DIRECT`).
    pub direct: bool,
    /// When a write returns.
    pub durability: Durability,
    /// Remove and recreate the files, so that writes extend them, as sysbench's `seqwr` does.
    pub recreate: bool,
}

/// When a write returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Default)]
#[serde(rename_all = "snake_case")]
pub enum Durability {
    /// When the data is in the page cache; with direct I/O, when the device has accepted it.
    #[default]
    Plain,
    /// When the data is on the device (`O_DSYNC`).
    Dsync,
    /// When data and metadata are on the device (`O_SYNC`).
    Sync,
}

/// The pattern of offsets. Random patterns draw aligned blocks from all files together.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Default)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Pattern {
    /// Block after block and file after file; after the last block again from the start.
    Sequential {
        /// Whether all threads share one cursor, as in sysbench. Otherwise each thread has its own cursor and starts at its
        /// own share of the files.
        shared_cursor: bool,
    },
    /// Every block is equally likely.
    #[default]
    Uniform,
    /// The k-th most popular block has probability ∝ k^−theta. Popular blocks are scattered over the files.
    Zipf {
        /// Skew, above 0; 0.6–1.2 is usual.
        theta: f64,
    },
    /// The self-similar rule (Gray et al. 1994), which fio calls pareto: a share h of the blocks takes a
    /// share 1 − h of the operations. Popular blocks are scattered over the files.
    Pareto {
        /// Between 0 and 0.5; 0.2 gives 80:20.
        h: f64,
    },
    /// A normal distribution around the middle of the files. A draw outside the files is repeated.
    Normal {
        /// Standard deviation, per cent of the size of all files.
        deviation_percent: f64,
    },
}

impl Pattern {
    /// Parses a random pattern in fio's notation: `random`, `zipf:THETA`, `pareto:H`, `normal:DEVIATION%`.
    ///
    /// # Errors
    /// The text is not a pattern. The message lists the accepted patterns.
    pub fn parse_random(text: &str) -> Result<Pattern, String> {
        let number = |text: &str| text.parse().map_err(|_| format!("cannot read the number `{text}`"));
        match text.split_once(':') {
            None if text == "random" => Ok(Pattern::Uniform),
            Some(("zipf", theta)) => Ok(Pattern::Zipf { theta: number(theta)? }),
            Some(("pareto", h)) => Ok(Pattern::Pareto { h: number(h)? }),
            Some(("normal", deviation)) => {
                let deviation_percent = number(deviation.strip_suffix('%').unwrap_or(deviation))?;
                Ok(Pattern::Normal { deviation_percent })
            }
            _ => {
                let known = ["random", "zipf:THETA", "pareto:H", "normal:DEVIATION%"];
                Err(unknown_name("distribution", text, known).into())
            }
        }
    }
}

/// How a mixed load alternates reads and writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Default)]
#[serde(rename_all = "snake_case")]
pub enum Mixing {
    /// The engine draws each operation independently.
    #[default]
    Random,
    /// Each thread keeps the share of reads as close to the setting as possible, as sysbench does.
    Even,
}

/// The system call that syncs data to the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Default)]
#[serde(rename_all = "snake_case")]
pub enum SyncCall {
    /// `fsync`.
    #[default]
    Fsync,
    /// `fdatasync`.
    Fdatasync,
}

/// Syncs every file after each `requests` requests. A request is a read or a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct SyncEvery {
    /// Requests between two rounds of syncs.
    pub requests: u64,
    /// Whether to count the requests of all threads together, as sysbench does. Then each operation increments a shared
    /// counter.
    pub over_all_threads: bool,
}

/// When the run ends.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// After a number of seconds.
    Seconds(f64),
    /// After a number of operations of all threads together. A sync between requests counts as an operation.
    Operations(u64),
    /// After reads and writes of a number of bytes, rounded up to whole blocks. Syncs between requests do not count.
    Bytes(u64),
    /// When the series is steady (see [`crate::steady`]), or after `at_most_s` seconds.
    Steady {
        /// Seconds after which the run ends anyway and reports that it is not steady.
        at_most_s: f64,
    },
}

/// The part at the start of a run that the results leave out.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Default)]
#[serde(rename_all = "snake_case")]
pub enum Warmup {
    /// No warm-up.
    None,
    /// A number of seconds.
    Seconds(f64),
    /// The warm-up that MSER-5 detects from the throughput of the intervals.
    #[default]
    Detect,
}

/// The distribution of the intended start times in an open loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Default)]
#[serde(rename_all = "snake_case")]
pub enum Arrivals {
    /// Exponential gaps, as with many independent users.
    #[default]
    Poisson,
    /// Equal gaps.
    Fixed,
}

/// The rate of an open loop, in which operations start when they are due, even if earlier ones are slow.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Rate {
    /// Operations per second of all threads together.
    pub per_s: f64,
    /// The distribution of the start times.
    pub arrivals: Arrivals,
}

/// The content of written blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Default)]
#[serde(rename_all = "snake_case")]
pub enum Content {
    /// Random data, which compression and deduplication cannot shrink.
    #[default]
    Random,
    /// Zeros. A compressing filesystem then writes almost nothing.
    Zeros,
}

/// Kinds of extents that a job accepts, although the results then do not measure plain I/O to the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Default)]
pub struct AllowedExtents {
    /// Allocated but never written: reads return zeros without access to the device.
    pub unwritten: bool,
    /// Holes.
    pub sparse: bool,
    /// Shared with another file: a write must first copy the data.
    pub shared: bool,
    /// Stored in the inode or in another file's tail block.
    pub inline: bool,
    /// Compressed or encrypted by the filesystem.
    pub encoded: bool,
}

/// The io_uring features that the engine may use if the kernel has them; all by default. Without a feature the engine behaves
/// as on a kernel that lacks it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct UringFeatures {
    /// `IORING_SETUP_DEFER_TASKRUN` (Linux 6.1). Needs `single_issuer`.
    pub defer_taskrun: bool,
    /// `IORING_SETUP_SINGLE_ISSUER` (Linux 6.0).
    pub single_issuer: bool,
    /// `IORING_SETUP_COOP_TASKRUN` (Linux 5.19).
    pub coop_taskrun: bool,
    /// Registered files.
    pub fixed_files: bool,
    /// Registered buffers, for direct I/O.
    pub fixed_buffers: bool,
}

impl Default for UringFeatures {
    fn default() -> UringFeatures {
        UringFeatures {
            defer_taskrun: true,
            single_issuer: true,
            coop_taskrun: true,
            fixed_files: true,
            fixed_buffers: true,
        }
    }
}

/// All settings of one load on a set of files.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LoadJob {
    /// How operations reach the kernel.
    pub engine: Engine,
    /// How files are opened.
    pub open: OpenMode,
    /// Bytes of one operation.
    pub block_bytes: u32,
    /// Threads, 1–1024.
    pub threads: u32,
    /// Operations in flight in each thread, 1–1024; above 1 for io_uring only.
    pub depth: u32,
    /// Completions to wait for in one system call, 1–depth. 1 keeps a device's queue full; a larger number makes larger
    /// batches.
    pub batch: u32,
    /// The pattern of offsets.
    pub pattern: Pattern,
    /// Share of reads, 0–1.
    pub read_share: f64,
    /// How reads and writes alternate.
    pub mixing: Mixing,
    /// Syncs between requests.
    pub sync_every: Option<SyncEvery>,
    /// The call that syncs.
    pub sync_call: SyncCall,
    /// Sync all files in every thread at the end. Ignored if the job does not write.
    pub sync_end: bool,
    /// When the run ends.
    pub bound: Bound,
    /// The part at the start that the results leave out.
    pub warmup: Warmup,
    /// The rate of an open loop; a closed loop if absent.
    pub rate: Option<Rate>,
    /// The content of written blocks.
    pub content: Content,
    /// Whether written blocks contain their offset, generation and checksum, and reads check these.
    pub verify: bool,
    /// The kinds of extents that the job accepts, although the results then do not measure plain I/O to the device.
    pub allow: AllowedExtents,
    /// Milliseconds of one interval of the series.
    pub interval_ms: u32,
    /// The seed of everything random.
    pub seed: u64,
    /// io_uring features.
    pub uring: UringFeatures,
}

impl Default for LoadJob {
    fn default() -> LoadJob {
        LoadJob {
            engine: Engine::Sync,
            open: OpenMode::default(),
            block_bytes: 4096,
            threads: 1,
            depth: 1,
            batch: 1,
            pattern: Pattern::Uniform,
            read_share: 1.0,
            mixing: Mixing::Random,
            sync_every: None,
            sync_call: SyncCall::Fsync,
            sync_end: false,
            bound: Bound::Seconds(10.0),
            warmup: Warmup::Detect,
            rate: None,
            content: Content::Random,
            verify: false,
            allow: AllowedExtents::default(),
            interval_ms: 100,
            seed: 1,
            uring: UringFeatures::default(),
        }
    }
}

impl LoadJob {
    /// Whether the job writes.
    pub fn writes(&self) -> bool {
        self.read_share < 1.0
    }

    /// Whether the job reads.
    pub fn reads(&self) -> bool {
        self.read_share > 0.0
    }
}

/// Checks that a setting is in its range.
///
/// # Errors
/// [`EngineError::Job`] if it is not; the message has the range.
pub fn check_range(name: &str, value: u32, low: u32, high: u32) -> Result {
    ensure((low..=high).contains(&value), format!("{name} is {value}; it goes from {low} to {high}"))
}

/// Fails with `fault` unless a setting is valid.
fn ensure(is_valid: bool, fault: String) -> Result {
    if is_valid { Ok(()) } else { Err(EngineError::Job(fault)) }
}

impl LoadJob {
    /// Checks that the settings are in range and do not contradict each other.
    ///
    /// # Errors
    /// [`EngineError::Job`] with the first setting that is out of range or contradicts another.
    pub fn check(&self) -> Result {
        self.check_numbers()?;
        self.check_pattern()?;
        self.check_combinations()
    }

    fn check_numbers(&self) -> Result {
        check_range("threads", self.threads, 1, 1024)?;
        check_range("depth", self.depth, 1, 1024)?;
        check_range("batch", self.batch, 1, self.depth)?;
        check_range("block_bytes", self.block_bytes, 1, 1 << 30)?;
        check_range("interval_ms", self.interval_ms, 1, 60_000)?;
        let share = self.read_share;
        ensure((0.0..=1.0).contains(&share), format!("read_share is {share}; it goes from 0 to 1"))?;
        self.check_bound()?;
        if let Warmup::Seconds(warmup_s) = self.warmup {
            let is_valid = warmup_s.is_finite() && warmup_s >= 0.0;
            ensure(is_valid, format!("a warm-up must be 0 s or longer, not {warmup_s} s"))?;
            if let Bound::Seconds(total_s) | Bound::Steady { at_most_s: total_s } = self.bound {
                ensure(warmup_s < total_s, format!("a warm-up of {warmup_s} s leaves nothing of {total_s} s"))?;
            }
        }
        if let Some(per_s) = self.rate.map(|rate| rate.per_s) {
            let is_valid = per_s.is_finite() && per_s > 0.0;
            ensure(is_valid, format!("a rate must be above 0 operations a second, not {per_s}"))?;
        }
        let has_requests = self.sync_every.is_none_or(|every| every.requests > 0);
        ensure(has_requests, "sync_every needs at least one request between syncs".into())
    }

    fn check_bound(&self) -> Result {
        let (is_valid, amount) = match self.bound {
            Bound::Seconds(s) | Bound::Steady { at_most_s: s } => {
                ensure(s <= MAX_SECONDS || s.is_nan(), format!("a bound of {s} s is longer than {MAX_SECONDS} s"))?;
                (s > 0.0, format!("{s} s"))
            }
            Bound::Operations(operations) => (operations > 0, format!("{operations} operations")),
            Bound::Bytes(bytes) => (bytes > 0, format!("{bytes} bytes")),
        };
        ensure(is_valid, format!("a bound of {amount} measures nothing"))
    }

    fn check_pattern(&self) -> Result {
        let (is_valid, fault) = match self.pattern {
            Pattern::Zipf { theta } => {
                (theta.is_finite() && theta > 0.0, format!("zipf needs a theta above 0, not {theta}"))
            }
            Pattern::Pareto { h } => (h > 0.0 && h < 0.5, format!("pareto needs an h between 0 and 0.5, not {h}")),
            Pattern::Normal { deviation_percent: d } => {
                let fault = format!("normal needs a deviation above 0 and up to 100 per cent, not {d}");
                (d > 0.0 && d <= 100.0, fault)
            }
            Pattern::Sequential { .. } | Pattern::Uniform => return Ok(()),
        };
        ensure(is_valid, fault)
    }

    fn check_combinations(&self) -> Result {
        let has_shared_cursor = matches!(self.pattern, Pattern::Sequential { shared_cursor: true });
        let has_shared_count = self.sync_every.is_some_and(|every| every.over_all_threads);
        let verifies_writes = self.verify && self.writes();
        let is_mmap = self.engine == Engine::Mmap;
        let fault = if self.engine != Engine::IoUring && self.depth > 1 {
            "a depth above 1 needs the io_uring engine: the others do one operation at a time"
        } else if is_mmap && self.open.direct {
            "mmap goes through the page cache: it cannot be direct"
        } else if is_mmap && self.open.durability != Durability::Plain {
            "mmap writes to the page cache, where O_DSYNC and O_SYNC have no effect: use sync_every instead"
        } else if is_mmap && self.open.recreate {
            "mmap cannot write files that are made anew: they are empty and a mapping does not grow them"
        } else if self.open.recreate && self.reads() {
            "files that are made anew are empty: recreate is for writes only"
        } else if self.open.recreate && self.verify {
            "files that are made anew hold nothing to verify; verify prepared files"
        } else if self.sync_every.is_some() && !self.writes() {
            "sync_every without writes would sync nothing: add writes or leave it out"
        } else if self.verify && self.block_bytes < verify::HEADER_BYTES as u32 * 2 {
            "verified blocks need at least 64 bytes"
        } else if verifies_writes && has_shared_cursor {
            "verified writes need a cursor for each thread: two threads may not write the same block"
        } else if verifies_writes && has_shared_count {
            // If the drawn block already has a write in flight, the thread draws again, and each draw increments the shared
            // count.
            "verified writes need a count of requests for each thread: sync_every over all threads would count requests \
             that fsarena skips"
        } else if self.verify && self.content == Content::Zeros {
            "verified blocks are not zeros: use content random"
        } else {
            return Ok(());
        };
        Err(EngineError::Job(fault.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn assert_refused(change: impl FnOnce(&mut LoadJob), word: &str) {
        let mut job = LoadJob::default();
        change(&mut job);
        let error = job.check().unwrap_err().to_string();
        assert!(error.contains(word), "{error}");
    }

    #[test]
    fn verified_writes_are_refused_by_the_setting_that_is_shared() {
        let verified = LoadJob { verify: true, read_share: 0.0, ..LoadJob::default() };
        let shared = LoadJob { pattern: Pattern::Sequential { shared_cursor: true }, ..verified.clone() };
        assert!(shared.check().unwrap_err().to_string().contains("cursor"));
        for (over_all_threads, refused) in [(true, true), (false, false)] {
            let sync_every = Some(SyncEvery { requests: 100, over_all_threads });
            let checked = LoadJob { sync_every, ..verified.clone() }.check();
            let message = checked.map_err(|error| error.to_string());
            assert_eq!(message.is_err_and(|message| message.contains("sync_every")), refused);
        }
    }

    #[test]
    fn the_default_job_passes_the_check() {
        LoadJob::default().check().unwrap();
    }

    #[test]
    fn invalid_settings_are_refused_by_name() {
        assert_refused(|job| job.threads = 0, "threads is 0");
        assert_refused(|job| job.threads = 1025, "1024");
        assert_refused(|job| job.depth = 2, "io_uring");
        assert_refused(|job| job.batch = 2, "batch");
        assert_refused(|job| job.read_share = 1.1, "read_share");
        assert_refused(|job| job.read_share = f64::NAN, "read_share");
        assert_refused(|job| job.bound = Bound::Operations(0), "measures nothing");
        assert_refused(|job| job.bound = Bound::Seconds(f64::NAN), "measures nothing");
        assert_refused(|job| job.bound = Bound::Seconds(1e8), "longer than 10000000 s");
        assert_refused(|job| job.warmup = Warmup::Seconds(10.0), "leaves nothing");
        assert_refused(|job| job.pattern = Pattern::Zipf { theta: 0.0 }, "theta");
        assert_refused(|job| job.pattern = Pattern::Pareto { h: 0.5 }, "h between");
        assert_refused(|job| job.pattern = Pattern::Normal { deviation_percent: 0.0 }, "deviation");
        assert_refused(|job| job.open = OpenMode { recreate: true, ..OpenMode::default() }, "made anew");
        assert_refused(|job| job.rate = Some(Rate { per_s: 0.0, arrivals: Default::default() }), "rate");
        assert_refused(
            |job| job.sync_every = Some(SyncEvery { requests: 100, over_all_threads: true }),
            "sync nothing",
        );
        assert_refused(
            |job| {
                job.engine = Engine::Mmap;
                job.open.direct = true;
            },
            "mmap",
        );
        for durability in [Durability::Dsync, Durability::Sync] {
            assert_refused(
                |job| {
                    job.engine = Engine::Mmap;
                    job.open.durability = durability;
                },
                "O_DSYNC and O_SYNC have no effect",
            );
        }
    }
}
