//! The flags of `fsarena load`.

use super::words;
use clap::{ArgAction, ValueEnum};
use fsarena_engine::meta::Operation;
use std::path::PathBuf;

/// What belongs to reads and writes, and not to metadata operations.
const OF_DATA: [&str; 26] = [
    "rw",
    "bs",
    "iodepth",
    "batch",
    "size",
    "nrfiles",
    "runtime",
    "number_ios",
    "io_size",
    "steady",
    "ramp_time",
    "direct",
    "sync",
    "fsync",
    "fdatasync",
    "end_fsync",
    "ioengine",
    "rate",
    "rate_process",
    "rwmixread",
    "random_distribution",
    "verify",
    "zero_buffers",
    "create_on_open",
    "allow",
    "file",
];

/// Drive files with the load engine alone, in fio's words
///
/// Every latency is recorded, and what the generator itself costs is measured and said. By default fsarena makes
/// files of its own in the current directory, fills them, works on them for ten seconds and removes them.
/// Block devices are refused: `fsarena run engel --fs raw` measures one safely.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// What is done: read, write, rw in sequence; randread, randwrite, randrw anywhere
    #[arg(long, visible_alias = "readwrite", value_enum, default_value = "randread", help_heading = "Work")]
    pub rw: Rw,
    /// Bytes of one operation
    #[arg(long, visible_alias = "blocksize", value_name = "SIZE", value_parser = words::size, default_value = "4k", help_heading = "Work")]
    pub bs: u64,
    /// Per cent of reads where both are done
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(0..=100), default_value_t = 50, help_heading = "Work")]
    pub rwmixread: u8,
    /// Where random operations go: random, zipf:THETA, pareto:H, normal:DEVIATION%
    #[arg(
        long,
        alias = "random_distribution",
        value_name = "KIND",
        default_value = "random",
        help_heading = "Work"
    )]
    pub random_distribution: String,
    /// One cursor for all threads of a sequential load, as sysbench has it; else each has its own
    #[arg(long, help_heading = "Work")]
    pub shared_cursor: bool,
    /// Write zeros instead of noise
    #[arg(long, alias = "zero_buffers", help_heading = "Work")]
    pub zero_buffers: bool,
    /// Blocks carry their offset, generation and checksum, and reads check them
    #[arg(long, help_heading = "Work")]
    pub verify: bool,

    /// How operations reach the kernel [default: sync, or io_uring where --iodepth is above 1]
    #[arg(long, value_enum, help_heading = "How")]
    pub ioengine: Option<IoEngine>,
    /// Operations in flight in each thread
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "How")]
    pub iodepth: u32,
    /// Completions to wait for at once (fio's iodepth_batch_complete_min)
    #[arg(
        long,
        alias = "iodepth_batch_complete_min",
        value_name = "N",
        default_value_t = 1,
        help_heading = "How"
    )]
    pub batch: u32,
    /// Threads
    #[arg(long, visible_alias = "threads", value_name = "N", default_value_t = 1, help_heading = "How")]
    pub numjobs: u32,
    /// Past the page cache
    #[arg(long, value_name = "0|1", num_args = 0..=1, require_equals = true, default_missing_value = "1", default_value = "0", value_parser = clap::builder::BoolishValueParser::new(), action = ArgAction::Set, help_heading = "How")]
    pub direct: bool,
    /// Drop cached pages of the files first
    #[arg(long, value_name = "0|1", num_args = 0..=1, require_equals = true, default_missing_value = "1", default_value = "1", value_parser = clap::builder::BoolishValueParser::new(), action = ArgAction::Set, help_heading = "How")]
    pub invalidate: bool,
    /// When a write counts as done: with its data on the device (dsync), or with metadata too (sync)
    #[arg(long, value_enum, default_value = "none", help_heading = "How")]
    pub sync: Sync,
    /// fsync every file after so many writes
    #[arg(long, value_name = "N", conflicts_with = "fdatasync", help_heading = "How")]
    pub fsync: Option<u64>,
    /// fdatasync every file after so many writes
    #[arg(long, value_name = "N", help_heading = "How")]
    pub fdatasync: Option<u64>,
    /// fsync at the end
    #[arg(long, alias = "end_fsync", help_heading = "How")]
    pub end_fsync: bool,
    /// Operations a second, of all threads (fio's rate_iops): an open loop, with latencies from the intended start
    #[arg(long, alias = "rate-iops", alias = "rate_iops", value_name = "N", help_heading = "How")]
    pub rate: Option<f64>,
    /// Gaps of an open loop: poisson as of many users, linear alike
    #[arg(
        long,
        alias = "rate_process",
        value_enum,
        default_value = "poisson",
        requires = "rate",
        help_heading = "How"
    )]
    pub rate_process: RateProcess,

    /// How long [default: 10s, where nothing else bounds it]
    #[arg(long, value_name = "TIME", value_parser = words::seconds, help_heading = "How long")]
    pub runtime: Option<f64>,
    /// So many operations
    #[arg(long, alias = "number_ios", value_name = "N", conflicts_with_all = ["runtime", "io_size"], help_heading = "How long")]
    pub number_ios: Option<u64>,
    /// So many bytes
    #[arg(long, alias = "io_size", value_name = "SIZE", value_parser = words::size, conflicts_with = "runtime", help_heading = "How long")]
    pub io_size: Option<u64>,
    /// Until the series is steady; --runtime is then the longest it may take
    #[arg(long, conflicts_with_all = ["number_ios", "io_size"], help_heading = "How long")]
    pub steady: bool,
    /// Time to leave out at the start [default: what MSER-5 finds in the series]
    #[arg(long, alias = "ramp_time", value_name = "TIME", value_parser = words::seconds, help_heading = "How long")]
    pub ramp_time: Option<f64>,

    /// Directory to make files in, and to remove them from afterwards
    #[arg(
        long,
        visible_alias = "directory",
        value_name = "DIR",
        default_value = ".",
        help_heading = "Files"
    )]
    pub dir: PathBuf,
    /// One file instead of those: made where it is not there, and kept. Writes change what is in it
    #[arg(long, visible_alias = "filename", value_name = "PATH", conflicts_with_all = ["dir", "nrfiles"], help_heading = "Files")]
    pub file: Option<PathBuf>,
    /// Bytes of each file [default: 1g; of a file that is there, its own]
    #[arg(long, visible_alias = "filesize", value_name = "SIZE", value_parser = words::size, help_heading = "Files")]
    pub size: Option<u64>,
    /// Number of files
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=65536), help_heading = "Files")]
    pub nrfiles: u32,
    /// Make the files anew when they are opened, so that writes grow them
    #[arg(long, alias = "create_on_open", conflicts_with = "file", help_heading = "Files")]
    pub create_on_open: bool,
    /// Extents to accept although they make a read measure something else
    #[arg(long, value_enum, value_delimiter = ',', value_name = "KIND,…", help_heading = "Files")]
    pub allow: Vec<Extents>,

    /// Metadata operations instead of reads and writes, phase by phase: create, open, stat, readdir, rename,
    /// link, symlink, chmod, setxattr, getxattr, unlink, mkdir, rmdir
    #[arg(long, value_name = "OPERATION,…", value_delimiter = ',', value_parser = operation, conflicts_with_all = OF_DATA, help_heading = "Metadata")]
    pub meta: Vec<Operation>,
    /// Names for each thread
    #[arg(long, value_name = "N", default_value_t = 10_000, requires = "meta", help_heading = "Metadata")]
    pub files: u32,
    /// All threads in the same directories; else each in its own
    #[arg(long, requires = "meta", help_heading = "Metadata")]
    pub shared: bool,
    /// Levels of directories; 0 is flat
    #[arg(long, value_name = "N", default_value_t = 0, requires = "meta", help_heading = "Metadata")]
    pub depth: u32,
    /// Directories in each directory of a tree
    #[arg(long, value_name = "N", default_value_t = 10, requires = "meta", help_heading = "Metadata")]
    pub fan_out: u32,

    /// The seed of everything random
    #[arg(long, visible_alias = "randseed", value_name = "N", default_value_t = 1, help_heading = "Output")]
    pub seed: u64,
    /// The format on standard output: term, md, json
    #[arg(long, default_value = "term", value_parser = fsarena_report::page::FORMATS, help_heading = "Output")]
    pub format: String,
    /// No live line on standard error
    #[arg(long, short, help_heading = "Output")]
    pub quiet: bool,
}

const EXAMPLES: &str = "\
Examples:
  fsarena load --rw randread --bs 4k --direct --iodepth 32 --numjobs 4 --size 1g
  fsarena load --rw randwrite --bs 4k --direct --rate 5000 --format json
  fsarena load --rw write --bs 64k --create-on-open --end-fsync --dir /mnt
  fsarena load --meta create,stat,unlink --files 10000 --threads 8 --shared --dir /mnt";

/// fio's `readwrite`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Rw {
    /// Reads in sequence.
    Read,
    /// Writes in sequence.
    Write,
    /// Both in sequence.
    #[value(name = "rw", alias = "readwrite")]
    Both,
    /// Reads anywhere.
    Randread,
    /// Writes anywhere.
    Randwrite,
    /// Both anywhere.
    Randrw,
}

/// fio's `ioengine`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum IoEngine {
    /// pread and pwrite.
    #[value(alias = "psync")]
    Sync,
    /// io_uring.
    #[value(name = "io_uring", alias = "io-uring")]
    IoUring,
    /// A shared mapping.
    Mmap,
}

/// fio's `sync`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Sync {
    /// When the kernel has it.
    None,
    /// `O_DSYNC`.
    Dsync,
    /// `O_SYNC`.
    #[value(name = "sync")]
    Full,
}

/// fio's `rate_process`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum RateProcess {
    /// Exponential gaps.
    Poisson,
    /// Equal gaps.
    Linear,
}

/// Kinds of extents that attestation refuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Extents {
    /// Allocated, never written.
    Unwritten,
    /// Holes.
    Sparse,
    /// Shared with another file.
    Shared,
    /// In the inode.
    Inline,
    /// Compressed or encrypted.
    Encoded,
}

fn operation(text: &str) -> Result<Operation, String> {
    let operation = Operation::ALL.into_iter().find(|operation| operation.name() == text);
    operation.ok_or_else(|| format!("it is one of {}", Operation::ALL.map(Operation::name).join(", ")))
}
