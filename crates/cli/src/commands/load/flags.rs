//! The flags of `fsarena load`.

use super::fio_options::{FioFlags, Switch, parse_whole_percent};
use crate::flags::{parse_duration, parse_size};
use clap::ArgAction;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use fsarena_core::names;
use fsarena_engine::{AllowedExtents, Arrivals, Durability, Engine, meta::Operation};
use std::{path::PathBuf, time::Duration};

/// The flags of reads and writes, which conflict with `--meta`.
const DATA_FLAGS: &str = "rw bs rwmixread random_distribution shared_cursor zero_buffers verify \
    ioengine iodepth batch direct invalidate sync fsync fdatasync end_fsync rate rate_process \
    runtime number_ios io_size steady ramp_time file size nrfiles create_on_open allow \
    name time_based norandommap randrepeat refill_buffers overwrite buffered rwmixwrite";

/// Run the load engine alone, with fio's options
///
/// fsarena records every latency, and measures and reports the cost of its load generator. By default it creates
/// files in the current directory, fills them, works on them for ten seconds and removes them. It refuses block
/// devices: `fsarena run engel --fs raw` measures one safely, with the load of the study `engel`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// I/O mode: read, write, rw, randread, randwrite, randrw, or sysbench's seqrd, seqwr, rndrd, rndwr, rndrw
    #[arg(long, visible_alias = "readwrite", value_name = "RW", value_parser = word_parser(ACCESS_MODES), default_value = "randread", hide_possible_values = true, help_heading = "Work")]
    pub rw: AccessMode,
    /// Block size: 4k, 64KiB, 1m, …
    #[arg(long, visible_alias = "blocksize", value_name = "SIZE", value_parser = parse_size, default_value = "4k", help_heading = "Work")]
    pub bs: u64,
    /// Read percentage of a mixed workload [default: 50]
    #[arg(long, value_name = "PERCENT", value_parser = parse_whole_percent, help_heading = "Work")]
    pub rwmixread: Option<u8>,
    /// Distribution of random offsets: random, zipf:THETA, pareto:H, normal:DEVIATION%
    #[arg(long, alias = "random_distribution", value_name = "KIND", default_value = "random", help_heading = "Work")]
    pub random_distribution: String,
    /// Share one file position among all threads of a sequential load, as sysbench does
    #[arg(long, help_heading = "Work")]
    pub shared_cursor: bool,
    /// Write zeros instead of random bytes
    #[arg(long, alias = "zero_buffers", switch(), default_value = "0", help_heading = "Work")]
    pub zero_buffers: bool,
    /// Write offset, generation and checksum into every block, and check them on reads
    #[arg(long, value_name = "crc32", num_args = 0..=1, require_equals = true, default_missing_value = "crc32", default_value = "0", hide_default_value = true, value_parser = parse_checksum, action = ArgAction::Set, help_heading = "Work")]
    pub verify: bool,

    /// I/O engine [default: sync; io_uring if --iodepth is above 1]
    #[arg(long, value_name = "IOENGINE", value_parser = word_parser(ENGINES), help_heading = "Engine")]
    pub ioengine: Option<Engine>,
    /// Number of operations in flight for each thread
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Engine")]
    pub iodepth: u32,
    /// Number of completions to wait for at once (fio's iodepth_batch_complete_min)
    #[arg(long, alias = "iodepth_batch_complete_min", value_name = "N", default_value_t = 1, help_heading = "Engine")]
    pub batch: u32,
    /// Number of threads
    #[arg(long, visible_alias = "threads", value_name = "N", default_value_t = 1, help_heading = "Engine")]
    pub numjobs: u32,
    /// Use O_DIRECT
    #[arg(long, switch(), default_value = "0", help_heading = "Engine")]
    pub direct: bool,
    /// Drop the files from the page cache first
    #[arg(long, switch(), default_value = "1", help_heading = "Engine")]
    pub invalidate: bool,
    /// Open files with O_DSYNC (dsync) or O_SYNC (sync)
    #[arg(long, value_name = "SYNC", value_parser = word_parser(SYNC_MODES), default_value = "none", help_heading = "Engine")]
    pub sync: Durability,
    /// Call fsync on every file after N writes
    #[arg(long, value_name = "N", conflicts_with = "fdatasync", help_heading = "Engine")]
    pub fsync: Option<u64>,
    /// Call fdatasync on every file after N writes
    #[arg(long, value_name = "N", help_heading = "Engine")]
    pub fdatasync: Option<u64>,
    /// Call fsync at the end
    #[arg(long, alias = "end_fsync", switch(), default_value = "0", help_heading = "Engine")]
    pub end_fsync: bool,
    /// Operations per second of all threads in an open loop, with latencies from the intended start (fio's rate_iops)
    #[arg(long, alias = "rate-iops", alias = "rate_iops", value_name = "N", value_parser = parse_operations_per_second, help_heading = "Engine")]
    pub rate: Option<f64>,
    /// Arrivals of the open loop: poisson (like many users) or linear (equal gaps)
    #[arg(long, alias = "rate_process", value_name = "RATE_PROCESS", value_parser = word_parser(ARRIVALS), default_value = "poisson", requires = "rate", help_heading = "Engine")]
    pub rate_process: Arrivals,

    /// Run time [default: 10s if no other limit is given]
    #[arg(long, value_name = "TIME", value_parser = parse_duration, help_heading = "Limits")]
    pub runtime: Option<Duration>,
    /// Number of operations
    #[arg(long, alias = "number_ios", value_name = "N", conflicts_with_all = ["runtime", "io_size"], help_heading = "Limits")]
    pub number_ios: Option<u64>,
    /// Bytes to read and write
    #[arg(long, alias = "io_size", value_name = "SIZE", value_parser = parse_size, conflicts_with = "runtime", help_heading = "Limits")]
    pub io_size: Option<u64>,
    /// Run until throughput is steady, for at most --runtime
    #[arg(long, conflicts_with_all = ["number_ios", "io_size"], help_heading = "Limits")]
    pub steady: bool,
    /// Warm-up time to leave out [default: the rule MSER-5 finds its end]
    #[arg(long, alias = "ramp_time", value_name = "TIME", value_parser = parse_duration, help_heading = "Limits")]
    pub ramp_time: Option<Duration>,

    /// Directory to create files in; fsarena removes them afterwards
    #[arg(long, visible_alias = "directory", value_name = "DIR", default_value = ".", help_heading = "Files")]
    pub dir: PathBuf,
    /// File to use instead; created if missing, kept, and CHANGED by writes
    #[arg(long, visible_alias = "filename", value_name = "PATH", conflicts_with_all = ["dir", "nrfiles"], help_heading = "Files")]
    pub file: Option<PathBuf>,
    /// Size of each file [default: 1g; for an existing file, its own]
    #[arg(long, visible_alias = "filesize", value_name = "SIZE", value_parser = parse_size, help_heading = "Files")]
    pub size: Option<u64>,
    /// Number of files
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=65536), help_heading = "Files")]
    pub nrfiles: u32,
    /// Create files when they are opened, so that writes extend them
    #[arg(
        long,
        alias = "create_on_open",
        switch(),
        default_value = "0",
        conflicts_with = "file",
        help_heading = "Files"
    )]
    pub create_on_open: bool,
    /// Accept files with these kinds of extents, whose reads and writes are not plain I/O to the device
    #[arg(long, value_delimiter = ',', value_name = "KIND,…", value_parser = word_parser(EXTENTS), help_heading = "Files")]
    pub allow: Vec<fn(&mut AllowedExtents)>,

    /// Metadata operations to run, phase by phase: create, open, stat, readdir, rename, link, symlink, chmod,
    /// setxattr, getxattr, unlink, mkdir, rmdir
    #[arg(long, value_name = "OPERATION,…", value_delimiter = ',', value_parser = parse_operation, conflicts_with_all = DATA_FLAGS.split_whitespace(), help_heading = "Metadata")]
    pub meta: Vec<Operation>,
    /// Number of names for each thread
    #[arg(long, value_name = "N", default_value_t = 10_000, requires = "meta", help_heading = "Metadata")]
    pub files: u32,
    /// Share the directories among all threads
    #[arg(long, requires = "meta", help_heading = "Metadata")]
    pub shared: bool,
    /// Depth of the directory tree; 0 is flat
    #[arg(long, value_name = "N", default_value_t = 0, requires = "meta", help_heading = "Metadata")]
    pub depth: u32,
    /// Number of subdirectories in each directory
    #[arg(long, value_name = "N", default_value_t = 10, requires = "meta", help_heading = "Metadata")]
    pub fan_out: u32,

    /// Random seed
    #[arg(long, visible_alias = "randseed", value_name = "N", default_value_t = 1, help_heading = "Output")]
    pub seed: u64,
    /// Format on standard output
    #[arg(long, default_value = "term", value_parser = fsarena_report::page::FORMATS, help_heading = "Output")]
    pub format: String,
    /// Print no progress
    #[arg(long, short, help_heading = "Output")]
    pub quiet: bool,
    #[command(flatten)]
    pub fio: FioFlags,
}

const EXAMPLES: &str = "\
Examples:
  fsarena load --rw randread --bs 4k --direct --iodepth 32 --numjobs 4 --size 1g
  fsarena load --rw randwrite --bs 4k --direct --rate 5000 --format json
  fsarena load --rw write --bs 64k --create-on-open --end-fsync --dir /mnt
  fsarena load --meta create,stat,unlink --files 10000 --threads 8 --shared --dir /mnt";

/// fio's `readwrite`.
#[derive(Debug, Clone, Copy)]
pub struct AccessMode {
    /// Whether offsets are random.
    pub is_random: bool,
    /// The share of reads among the operations, from 0 to 1; None for a mixed load, whose share other flags set.
    pub read_share: Option<f64>,
}

/// fio's modes, with sysbench's names as aliases.
const ACCESS_MODES: AcceptedWords<AccessMode> = &[
    ("read", "Sequential reads", &["seqrd"], AccessMode { is_random: false, read_share: Some(1.0) }),
    ("write", "Sequential writes", &["seqwr"], AccessMode { is_random: false, read_share: Some(0.0) }),
    ("rw", "Sequential reads and writes", &["readwrite", "seqrw"], AccessMode { is_random: false, read_share: None }),
    ("randread", "Random reads", &["rndrd"], AccessMode { is_random: true, read_share: Some(1.0) }),
    ("randwrite", "Random writes", &["rndwr"], AccessMode { is_random: true, read_share: Some(0.0) }),
    ("randrw", "Random reads and writes", &["rndrw"], AccessMode { is_random: true, read_share: None }),
];

/// fio's `ioengine`.
const ENGINES: AcceptedWords<Engine> = &[
    ("sync", "pread and pwrite", &["psync"], Engine::Sync),
    ("io_uring", "io_uring", &["io-uring"], Engine::IoUring),
    ("mmap", "A shared mapping", &[], Engine::Mmap),
];

/// fio's `sync`.
const SYNC_MODES: AcceptedWords<Durability> = &[
    ("none", "No flag: a write returns when the kernel has the data", &["0"], Durability::Plain),
    ("dsync", "`O_DSYNC`", &[], Durability::Dsync),
    ("sync", "`O_SYNC`", &["1"], Durability::Sync),
];

/// fio's `rate_process`.
const ARRIVALS: AcceptedWords<Arrivals> =
    &[("poisson", "Exponential gaps", &[], Arrivals::Poisson), ("linear", "Equal gaps", &[], Arrivals::Fixed)];

/// The kinds of extents that the extent check refuses by default.
const EXTENTS: AcceptedWords<fn(&mut AllowedExtents)> = &[
    ("unwritten", "Allocated, never written", &[], |allow| allow.unwritten = true),
    ("sparse", "Holes", &[], |allow| allow.sparse = true),
    ("shared", "Shared with another file", &[], |allow| allow.shared = true),
    ("inline", "In the inode", &[], |allow| allow.inline = true),
    ("encoded", "Compressed or encrypted", &[], |allow| allow.encoded = true),
];

/// The words that a flag accepts: each with its help, its aliases and its meaning.
type AcceptedWords<T> = &'static [(&'static str, &'static str, &'static [&'static str], T)];

/// A parser that accepts these words and their aliases, and returns the meaning.
fn word_parser<T: Copy + Send + Sync>(words: AcceptedWords<T>) -> impl TypedValueParser<Value = T> {
    let value = |(name, help, aliases, _): &_| PossibleValue::new(name).help(help).aliases(*aliases);
    PossibleValuesParser::new(words.iter().map(value)).map(|text| {
        let matches = |name: &str, aliases: &[&str]| name == text || aliases.contains(&text.as_str());
        words.iter().find(|(name, _, aliases, _)| matches(name, aliases)).expect("clap accepts no others").3
    })
}

/// Reads fio's name of the checksum of verified blocks, and returns whether blocks are verified; `0` is no checksum.
fn parse_checksum(text: &str) -> Result<bool, String> {
    match text {
        "crc32" | "1" => Ok(true),
        "0" => Ok(false),
        _ => Err("blocks of the load engine have the checksum crc32; for others run the real fio: fsarena run job.fio"
            .into()),
    }
}

/// Reads the operations a second of all threads. fio's option of this name is a bandwidth.
fn parse_operations_per_second(text: &str) -> Result<f64, String> {
    text.parse().map_err(|_| {
        "give a number of operations a second, as for fio's rate_iops; a bandwidth is that number times --bs"
            .to_string()
    })
}

fn parse_operation(text: &str) -> Result<Operation, String> {
    Ok(names::find_by_id("operation", text, Operation::ALL, |operation| operation.name())?)
}
