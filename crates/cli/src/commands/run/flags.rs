//! The flags of `fsarena run`.

use super::command_flags::CommandFlags;
use super::variants::{self, parse_variant, split_levels};
use crate::commands::report::{Export, parse_export};
use crate::failure::{Failure, usage_error};
use crate::flags::{
    ExitStyle, ExplicitFlags, ReportFlags, RunsDir, average_parser, parse_byte_size, parse_duration, parse_metric,
    parse_percent_as_fraction,
};
use bytesize::ByteSize;
use fsarena_core::average::Average;
use fsarena_core::names::{self, unknown_name};
use fsarena_core::{factor, plan::Emulator, plan::shard::Shard, scale::Scale, setting_grid};
use fsarena_report::{exporter::Exporter, exporters};
use fsarena_run::baseline;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Flags that define a run: `--resume` takes them from the interrupted run.
const FLAGS_KEPT_BY_RESUME: &str = "plan on variant fs options mkfs mount factor vary kernel modules guest_memory guest_timeout fresh_guests \
    fixed_layout scale tree workload set grid engine modes bs threads rounds warmup shard max_rounds budget find within by seed claim \
    size erase precondition other age_images repository after stage \
    cmd name setup prepare check cache input env metric_regex timeout command";

/// Run a study or a plan and answer its question
///
/// fsarena makes every filesystem on a loop image that it creates and removes again; it touches no other device.
/// In each round every variant starts with a fresh filesystem and does the same work, in random order. Rounds
/// are the unit of replication: from 8 on, differences have exact 95% confidence intervals.
#[derive(Debug, clap::Args)]
pub struct Args {
    // Must be the first field: clap removes each argument when it reads it into a field.
    #[command(flatten)]
    pub explicit_flags: ExplicitFlags,
    /// Study (`fsarena list studies`), application (`fsarena list apps`), plan file or fio job file to run [default: piszcz]
    #[arg(value_name = "STUDY|PLAN.toml|JOB.fio")]
    pub plan: Option<String>,

    /// Where to run: loop or loop:DIR, ram, zram, dir:PATH, qemu or exact [default: loop, without root qemu]
    ///
    /// loop or loop:DIR: image on disk. ram: image in memory. zram: compressed memory. dir:PATH: existing directory
    /// as it is, without root; repeat it to compare directories. qemu: guest kernel, without root. exact: guest that
    /// counts instructions instead of time.
    #[arg(long, value_name = "WHERE", value_parser = RunPlace::parse, help_heading = "Variants")]
    pub on: Vec<RunPlace>,
    /// Variant to compare, with its own options: `btrfs,options=compress-zstd`; repeat it for each
    ///
    /// A filesystem, and `factor=level` for each other factor of this variant (list them: `fsarena list factors`). A level
    /// extends to the next `factor=`. The variants replace those of the plan. Other flags, such as --mount, reach every
    /// variant.
    #[arg(long, value_name = "VARIANT", value_parser = parse_variant, conflicts_with = "fs", help_heading = "Variants")]
    pub variant: Vec<variants::Levels>,
    /// Filesystems to compare
    #[arg(long, value_name = "FS,…", value_delimiter = ',', help_heading = "Variants")]
    pub fs: Vec<String>,
    /// Option sets to compare (list them: `fsarena list filesystems`)
    #[arg(long, value_name = "SET,…", value_delimiter = ',', help_heading = "Variants")]
    pub options: Vec<String>,
    /// Additional mkfs arguments; repeat it to compare several
    #[arg(long, value_name = "ARGS", allow_hyphen_values = true, help_heading = "Variants")]
    pub mkfs: Vec<String>,
    /// Additional mount options, comma-separated; repeat it to compare several
    #[arg(long, value_name = "OPTIONS", help_heading = "Variants")]
    pub mount: Vec<String>,

    /// Levels of a factor to compare, such as `scheduler=none,bfq` (list them: `fsarena list factors`); repeatable
    #[arg(long, value_name = "FACTOR=LEVEL,…", value_parser = parse_factor, help_heading = "Variants")]
    pub factor: Vec<FactorLevels>,
    /// Levels of a factor to compare one at a time with the variant without them, such as `stack=crypt,thin`; repeatable
    ///
    /// --factor combines every level with every level of the other factors. With --vary, each level adds one variant to the
    /// variant without it, and the report shows the cost of each level. Quote a level that contains a comma:
    /// `mount="noatime,nodiratime",sync`.
    #[arg(long, value_name = "FACTOR=LEVEL,…", value_parser = parse_factor, help_heading = "Variants")]
    pub vary: Vec<FactorLevels>,

    /// Guest kernel: a path, or `debian:6.1`; repeat it to compare kernels
    ///
    /// debian:VERSION is the newest Debian package of that version, installed or downloaded into a cache. A path is a bzImage, a
    /// vmlinux, or a directory: the tree in which you built a kernel, or one with boot/ and lib/modules/.
    #[arg(long, value_name = "KERNEL", help_heading = "Guests")]
    pub kernel: Vec<String>,
    /// Directory with the modules of kernels that are named by path
    ///
    /// The directory of the kernel release, or its parent.
    #[arg(long, value_name = "DIR", help_heading = "Guests")]
    pub modules: Option<PathBuf>,
    /// Guest memory [default: 1GiB]
    #[arg(long, value_name = "SIZE", value_parser = parse_byte_size, help_heading = "Guests")]
    pub guest_memory: Option<ByteSize>,
    /// Silence after which a guest counts as hung [default: 10m; 2m while it boots]
    #[arg(long, value_name = "TIME", value_parser = parse_duration, help_heading = "Guests")]
    pub guest_timeout: Option<Duration>,
    /// Boot every guest instead of starting from a snapshot
    ///
    /// Without KVM, guests start from a snapshot of a booted machine: in one second instead of four or more. Guests from
    /// one snapshot share its memory layout; with this flag each guest has its own layout, so no layout affects every round.
    #[arg(long, help_heading = "Guests")]
    pub fresh_guests: bool,
    /// Give all guests that count instructions the same memory layout
    ///
    /// Without it, each round of `--on exact` gets another random layout of memory, so that no verdict depends on one. With it,
    /// the same work takes exactly the same number of instructions in each cell.
    #[arg(long, help_heading = "Guests")]
    pub fixed_layout: bool,

    /// Amount of work: `paper` (as published), `quick` (minutes) or `tiny` (seconds) [default: the plan's]
    ///
    /// Without a plan, fsarena first times the work once, and chooses `tiny` if `quick` would take too long on this machine.
    #[arg(long, value_name = "SCALE", value_parser = parse_scale, help_heading = "Work")]
    pub scale: Option<Scale>,
    /// Directory tree to work on instead of a generated one; repeat it to work on several together
    #[arg(long, value_name = "DIR", help_heading = "Work")]
    pub tree: Vec<PathBuf>,
    /// Workload to run instead of the plan's (list them: `fsarena list workloads`); settings that both have are taken from
    /// the plan
    #[arg(long, value_name = "WORKLOAD", help_heading = "Work")]
    pub workload: Option<String>,
    /// Workload setting (list them: `fsarena list workloads`); repeatable
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse_setting, help_heading = "Work")]
    pub set: Vec<(String, String)>,
    /// Values of a workload setting at which to measure, such as `tree_files=1e3..1e6`; repeatable
    ///
    /// The work runs at each value on a fresh filesystem, and the report has the cost per unit over the values: its law, where
    /// it bends, and a forecast for ten times the largest value. A range has two values per decade; `1e3..1e6/3` has three, and
    /// `1000,5000` is a list.
    #[arg(long, value_name = "NAME=FROM..TO", value_parser = parse_grid, help_heading = "Work")]
    pub grid: Vec<(String, String)>,
    /// Program that does the I/O: native, sysbench or fio; for dbench workloads native or dbench
    #[arg(long, value_name = "ENGINE", help_heading = "Work")]
    pub engine: Option<String>,
    /// I/O modes: read, write, randread, randwrite, or sysbench's seqrd, seqwr, rndrd, rndwr
    #[arg(long, value_name = "MODE,…", help_heading = "Work")]
    pub modes: Option<String>,
    /// Block sizes: 4k, 64KiB, 1m, …
    #[arg(long, value_name = "SIZE,…", help_heading = "Work")]
    pub bs: Option<String>,
    /// Numbers of threads
    #[arg(long, value_name = "N,…", help_heading = "Work")]
    pub threads: Option<String>,
    #[command(flatten)]
    pub command: CommandFlags,
    /// Number of rounds [default: the plan's, else the fewest that give an exact interval; with claims, as many as they need]
    #[arg(long, value_name = "N", help_heading = "Work")]
    pub rounds: Option<u32>,
    /// Warm-up rounds, which run before those of --rounds and are left out of every comparison [default: the plan's, else 0]
    #[arg(long, value_name = "N", help_heading = "Work")]
    pub warmup: Option<u32>,
    /// Part of the rounds to run here, such as 3/8: rounds 3, 11, 19, …; other machines run the others
    ///
    /// Merge the runs of all shards: `fsarena merge RUN…`. The plan or --rounds and --seed must set the number of rounds
    /// and the seed. I can also count from 0: 0/8 is the same shard as 8/8.
    #[arg(long, value_name = "I/N", conflicts_with = "budget", help_heading = "Work")]
    pub shard: Option<Shard>,
    /// Maximum number of rounds where claims or --budget set the number [default: 400]
    #[arg(long, value_name = "N", conflicts_with = "rounds", help_heading = "Work")]
    pub max_rounds: Option<u32>,
    /// Time for the whole run, such as 10m; without --rounds the run uses all of it
    ///
    /// fsarena starts no round that would end later. After the first round it reports if this time is too short for an
    /// answer, and which time is enough. After three rounds it reports the smallest difference that the run can detect in
    /// this time.
    #[arg(long, value_name = "TIME", value_parser = parse_duration, help_heading = "Work")]
    pub budget: Option<Duration>,
    /// Run until the best variant is found: `best`
    ///
    /// A variant leaves the run when it cannot be the best by the primary metric; the confidence is 95% for the whole run.
    /// The run ends when the best remaining variant costs at most --within more than the true best.
    #[arg(long, value_name = "WHAT", value_parser = ["best"], conflicts_with = "rounds", help_heading = "Work")]
    pub find: Option<String>,
    /// Largest extra cost over the best that --find accepts [default: 1%]
    #[arg(long, value_name = "PERCENT", value_parser = parse_percent_as_fraction, help_heading = "Work")]
    pub within: Option<f64>,
    /// Average by which --find compares: that of a `typical` round, or the `mean` cost, which counts every stall [default:
    /// typical]
    #[arg(long, value_name = "AVERAGE", value_parser = average_parser(), hide_possible_values = true, help_heading = "Work")]
    pub by: Option<Average>,
    /// Random seed: order of the variants, payload
    #[arg(long, value_name = "N", help_heading = "Work")]
    pub seed: Option<u64>,

    /// Claim to decide, such as `untar.elapsed: xfs < ext4 by 5%`; repeatable
    #[arg(long, value_name = "CLAIM", help_heading = "Claims")]
    pub claim: Vec<String>,
    /// Exit codes: fsarena (as documented), or bisect for `git bisect run` (0 good, 1 bad, 125 skip, 128 stop) [default: fsarena]
    #[arg(
        long,
        value_enum,
        value_name = "STYLE",
        default_value = "fsarena",
        hide_default_value = true,
        hide_possible_values = true,
        help_heading = "Claims"
    )]
    pub exit_style: ExitStyle,

    /// Image size [default: what the work needs]
    #[arg(long, value_name = "SIZE", value_parser = parse_byte_size, conflicts_with = "erase", help_heading = "Devices")]
    pub size: Option<ByteSize>,
    /// Block device to ERASE and use, by its name in /dev/disk/by-id
    #[arg(long, value_name = "DEVICE", conflicts_with = "on", group = "erased", help_heading = "Devices")]
    pub erase: Option<PathBuf>,
    /// Signature on the device that fsarena may erase (`ext4`), or `unknown` for data without one
    #[arg(long, value_name = "TYPE", requires = "erased", help_heading = "Devices")]
    pub erase_signature: Option<String>,
    /// Bring the device of --erase into its steady state before the first round, as SNIA's test specification does
    ///
    /// fsarena discards the device, writes it twice, and writes to it at random until that is steady or for 25 minutes.
    /// From then on nothing discards it, mkfs included. Without this flag, fsarena discards the device before each mkfs.
    #[arg(long, requires = "erase", help_heading = "Devices")]
    pub precondition: bool,
    /// Number of images of each variant with the factor `age`, each aged from another seed
    ///
    /// Rounds use the images in turn; in each round, the images of all variants have the same seed. With fewer than 8 images an
    /// answer holds for these images only. fsarena keeps the images in its cache. [default: 8]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000), help_heading = "Devices")]
    pub age_images: Option<u32>,
    /// Git repository whose commits `age=git:N` pulls, instead of a generated history
    #[arg(long, value_name = "DIR", help_heading = "Devices")]
    pub repository: Option<PathBuf>,
    /// Place of the source disk, a second disk that workloads copy from or to: a directory on another disk, or a block
    /// device to ERASE
    ///
    /// In a directory, fsarena makes the image of the source disk; with `--on dir:PATH` it uses the directory as it is.
    /// fsarena accepts a device by the rules of --erase: by its name in /dev/disk/by-id, unused and blank.
    #[arg(long, value_name = "DIR|DEVICE", help_heading = "Devices")]
    pub other: Option<PathBuf>,
    /// Signature on the device of --other that fsarena may erase, as with --erase-signature
    #[arg(long, value_name = "TYPE", help_heading = "Devices")]
    pub other_signature: Option<String>,

    /// Resume an interrupted run
    #[arg(long, value_name = "RUN", conflicts_with_all = FLAGS_KEPT_BY_RESUME.split_whitespace(), group = "erased", help_heading = "Run")]
    pub resume: Option<String>,
    /// Run the stages of the study that follow this run's stage
    #[arg(long, value_name = "RUN", help_heading = "Run")]
    pub after: Option<String>,
    /// Run only this stage of the study
    #[arg(long, value_name = "STAGE", help_heading = "Run")]
    pub stage: Option<String>,
    /// Print the resolved plan and exit
    #[arg(long, help_heading = "Run")]
    pub dry_run: bool,
    /// Metrics to report; the first is the primary one, also of --find [default: those of the workloads, see `fsarena list
    /// workloads`]
    #[arg(long, value_name = "METRIC,…", value_delimiter = ',', value_parser = parse_metric, help_heading = "Run")]
    pub metric: Vec<String>,
    /// Write a report to a file, or its charts to a directory: `html=FILE`, `svg=DIR`; repeatable
    #[arg(long, value_name = "FORMAT=PATH", value_parser = parse_export, help_heading = "Run")]
    pub export: Vec<Export>,
    /// Keep a variant under a name, to measure it again by `fsarena ab --baseline NAME` [default variant: the only one, or B]
    ///
    /// Keeps the plan, the figures, the digests of mkfs, kernel and modules, and a copy of a kernel that you built.
    #[arg(long, value_name = "NAME[=VARIANT]", value_parser = parse_baseline_name, help_heading = "Run")]
    pub save_baseline: Option<BaselineName>,
    /// Whether `--save-baseline` without a variant saves the last of several: that is B.
    #[arg(skip)]
    pub saves_last_variant: bool,
    /// Format of the answer on standard output (list them: `fsarena list exporters`) [default: term]
    #[arg(long, value_name = "FORMAT", default_value = exporters::DEFAULT_FORMAT, hide_default_value = true, value_parser = exporters::find, help_heading = "Run")]
    pub format: &'static Exporter,
    #[command(flatten)]
    pub report: ReportFlags,
    /// User that the workloads run as [default: who started sudo, else this user]
    #[arg(long, value_name = "NAME", help_heading = "Run")]
    pub user: Option<String>,
    /// Directory for the images of `--on loop`, same as `--on loop:DIR`; hidden, because it is meant for the config file and
    /// the environment
    #[arg(long, value_name = "DIR", env = "FSARENA_IMAGES", hide = true)]
    pub images: Option<PathBuf>,
    /// Print no progress
    #[arg(long, short, help_heading = "Run")]
    pub quiet: bool,
    #[command(flatten)]
    pub runs: RunsDir,
}

/// The value of `--save-baseline`: the name of the baseline, and the variant to save in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BaselineName {
    /// The name of the baseline.
    pub name: String,
    /// The name of the variant; None if the user did not name it.
    pub variant: Option<String>,
}

/// Parses `NAME` or `NAME=VARIANT`.
fn parse_baseline_name(text: &str) -> Result<BaselineName, String> {
    let (name, variant) = match text.split_once('=') {
        Some((name, variant)) => (name, Some(variant.to_string())),
        None => (text, None),
    };
    baseline::check_baseline_name(name)?;
    Ok(BaselineName { name: name.into(), variant })
}

/// A factor and its levels.
pub type FactorLevels = (String, Vec<String>);

/// Where a run takes place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunPlace {
    /// A loop image on disk, in the run's directory or in this one.
    Loop(Option<PathBuf>),
    /// A loop image in memory.
    Ram,
    /// A zram device: compressed memory.
    Zram,
    /// A directory as it is.
    Dir(PathBuf),
    /// A guest kernel.
    Guest(Emulator),
}

impl RunPlace {
    fn parse(text: &str) -> Result<RunPlace, String> {
        if let Some(emulator) = Emulator::ALL.into_iter().find(|emulator| emulator.name() == text) {
            return Ok(RunPlace::Guest(emulator));
        }
        match text.split_once(':') {
            None if text == "loop" => Ok(RunPlace::Loop(None)),
            None if text == "ram" => Ok(RunPlace::Ram),
            None if text == "zram" => Ok(RunPlace::Zram),
            Some(("loop", dir)) if !dir.is_empty() => Ok(RunPlace::Loop(Some(dir.into()))),
            Some(("dir", dir)) if !dir.is_empty() => Ok(RunPlace::Dir(dir.into())),
            _ => {
                let words = ["loop", "loop:DIR", "ram", "zram", "dir:PATH"];
                let guests = Emulator::ALL.map(Emulator::name);
                Err(unknown_name("place", text, words.into_iter().chain(guests)).into())
            }
        }
    }
}

fn parse_scale(text: &str) -> Result<Scale, String> {
    Ok(names::find_by_id("scale", text, Scale::ALL, |scale| scale.name())?)
}

/// Reads `FACTOR=LEVEL,…`. A comma in quotes belongs to its level.
pub fn parse_factor(text: &str) -> Result<FactorLevels, String> {
    let (id, levels) = text.split_once('=').ok_or("write it FACTOR=LEVEL,LEVEL")?;
    factor::check_name(id, &fsarena_run::axes::all_factors())?;
    Ok((id.into(), split_levels(levels)?))
}

fn parse_grid(text: &str) -> Result<(String, String), String> {
    let (name, values) = text.split_once('=').filter(|(name, _)| !name.is_empty()).ok_or("write it NAME=FROM..TO")?;
    setting_grid::parse_grid(values)?;
    Ok((name.into(), values.into()))
}

fn parse_setting(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.into(), value.into())),
        _ => Err("write it NAME=VALUE".into()),
    }
}

impl Args {
    /// Prints a message to standard error, unless `--quiet` is set.
    pub fn print_message(&self, text: &str) {
        if !self.quiet {
            crate::failure::print_message(text);
        }
    }

    /// Whether fsarena chooses the scale of the work by the speed of the machine: without a plan, a command or `--scale`.
    pub fn chooses_scale(&self) -> bool {
        self.plan.is_none() && !self.command.has_commands() && self.scale.is_none() && !self.dry_run
    }

    /// Checks before a run that its reports can be written after the run.
    pub fn check_outputs(&self) -> Result<(), Failure> {
        for (exporter, path) in &self.export {
            let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
            // Charts need a directory, which the exporter makes; a report needs a file in an existing directory.
            let is_writable =
                if exporter.writes_folder() { path.is_dir() || !path.exists() } else { dir.is_dir() && !path.is_dir() };
            if !is_writable {
                return usage_error(format!(
                    "--export: cannot write {}: name a file in an existing directory, or a directory for charts",
                    path.display()
                ));
            }
        }
        Ok(())
    }
}
