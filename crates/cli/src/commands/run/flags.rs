//! The flags of `fsarena run`.

use crate::commands::report::{Export, parse_export};
use crate::failure::Failure;
use crate::flags::{Runs, View};
use bytesize::ByteSize;
use fsarena_core::exit::ExitCode;
use fsarena_core::factor;
use fsarena_core::metric;
use fsarena_core::plan::Emulator;
use fsarena_core::scale::Scale;
use fsarena_report::exporter::Output;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What a run is made of, which cannot change while it goes on.
const FIXED: [&str; 29] = [
    "after",
    "factor",
    "plan",
    "on",
    "fs",
    "options",
    "mkfs",
    "mount",
    "scale",
    "tree",
    "set",
    "engine",
    "modes",
    "bs",
    "threads",
    "rounds",
    "budget",
    "max_rounds",
    "claim",
    "seed",
    "size",
    "erase",
    "erase_signature",
    "other",
    "kernel",
    "modules",
    "guest_memory",
    "guest_timeout",
    "fresh_guests",
];

/// Run a study or a plan and answer its question
///
/// Every filesystem is made on a loop image that fsarena creates and removes again; no other device is
/// touched. Once a round each filesystem is made afresh and does the work, in random order. Rounds are the
/// unit of replication: with 8 or more, differences come with exact 95% intervals.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A study (`fsarena list studies`) or a plan file [default: piszcz]
    #[arg(value_name = "STUDY|PLAN.toml")]
    pub plan: Option<String>,

    /// Where it runs [default: loop, and qemu without root]
    ///
    /// `loop` or `loop:DIR` (image on disk), `ram` (image in memory), `zram` (compressed memory), `dir:PATH` (an
    /// existing directory as it is, no root needed; repeat it to compare directories), `qemu` or `uml` (a guest kernel,
    /// no root needed), `exact` (a guest that counts instructions instead of time)
    #[arg(long, value_name = "WHERE", value_parser = On::parse, help_heading = "What is compared")]
    pub on: Vec<On>,
    /// Filesystems to compare
    #[arg(long, value_name = "FS,…", value_delimiter = ',', help_heading = "What is compared")]
    pub fs: Vec<String>,
    /// Option sets to compare (`fsarena list filesystems`)
    #[arg(long, value_name = "SET,…", value_delimiter = ',', help_heading = "What is compared")]
    pub options: Vec<String>,
    /// Further mkfs arguments; repeat it to compare several
    #[arg(long, value_name = "ARGS", allow_hyphen_values = true, help_heading = "What is compared")]
    pub mkfs: Vec<String>,
    /// Further mount options, comma-separated; repeat it to compare several
    #[arg(long, value_name = "OPTIONS", help_heading = "What is compared")]
    pub mount: Vec<String>,

    /// Levels of any factor to compare, such as `scheduler=none,bfq` or `journal=,external` (`fsarena list factors`);
    /// repeatable
    #[arg(long, value_name = "FACTOR=LEVEL,…", value_parser = parse_factor, help_heading = "What is compared")]
    pub factor: Vec<Levels>,

    /// Kernel of a guest: a path, or a Debian version as in `debian:6.1`; repeat it to compare kernels
    ///
    /// Of a Debian version the newest package is taken, installed or fetched into a cache.
    #[arg(long, value_name = "KERNEL", help_heading = "Guests")]
    pub kernel: Vec<String>,
    /// Where the modules of kernels named by their path are
    ///
    /// The directory of their release, or one above it.
    #[arg(long, value_name = "DIR", help_heading = "Guests")]
    pub modules: Option<PathBuf>,
    /// Memory of a guest [default: 1GiB]
    #[arg(long, value_name = "SIZE", help_heading = "Guests")]
    pub guest_memory: Option<ByteSize>,
    /// The longest silence after which a guest is taken for hung [default: 10m, and 2m for booting]
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration, help_heading = "Guests")]
    pub guest_timeout: Option<Duration>,
    /// Boot each guest by itself
    ///
    /// Under translation guests begin with a machine that has booted once and is kept: in a second instead of four or
    /// more. They are all alike then; guests that boot differ in where their kernels put things in memory.
    #[arg(long, help_heading = "Guests")]
    pub fresh_guests: bool,

    /// Size of the work: `paper` as published, `quick` a few minutes, `tiny` seconds
    #[arg(long, value_name = "SCALE", value_parser = parse_scale, help_heading = "How much work")]
    pub scale: Option<Scale>,
    /// A real tree to work on, instead of the generated one
    #[arg(long, value_name = "DIR", help_heading = "How much work")]
    pub tree: Option<PathBuf>,
    /// Another workload instead of the plan's: `dbench`, the real loadfile, instead of gus3's `dbench-like`
    #[arg(long, value_name = "WORKLOAD", help_heading = "How much work")]
    pub workload: Option<String>,
    /// A setting of the workload (`fsarena list workloads`)
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse_setting, help_heading = "How much work")]
    pub set: Vec<(String, String)>,
    /// What does the I/O of a load: native, sysbench or fio; of dbench's, native or dbench
    #[arg(long, value_name = "ENGINE", help_heading = "How much work")]
    pub engine: Option<String>,
    /// Modes of a load: seqrd, rndrd, seqwr, rndwr
    #[arg(long, value_name = "MODE,…", help_heading = "How much work")]
    pub modes: Option<String>,
    /// Block sizes of a load, in bytes
    #[arg(long, value_name = "BYTES,…", help_heading = "How much work")]
    pub bs: Option<String>,
    /// Numbers of threads of a load
    #[arg(long, value_name = "N,…", help_heading = "How much work")]
    pub threads: Option<String>,
    /// Number of rounds; with claims the default is as many as it takes to decide them
    #[arg(long, alias = "blocks", value_name = "N", help_heading = "How much work")]
    pub rounds: Option<u32>,
    /// No more rounds than this, where claims or --budget decide how many it takes [default: 400]
    #[arg(
        long,
        alias = "max-blocks",
        value_name = "N",
        conflicts_with = "rounds",
        help_heading = "How much work"
    )]
    pub max_rounds: Option<u32>,
    /// Start no round that would end later than this: `150s`, `10m`. Without --rounds the time is used up;
    /// after three rounds it is said what it can resolve
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration, help_heading = "How much work")]
    pub budget: Option<Duration>,
    /// The seed of all that is random: orders, payload
    #[arg(long, value_name = "N", help_heading = "How much work")]
    pub seed: Option<u64>,

    /// A claim to be decided, such as `untar.elapsed: xfs < ext4 by 5%`; repeatable
    #[arg(long, value_name = "CLAIM", help_heading = "Claims")]
    pub claim: Vec<String>,

    /// Size of the image [default: what the work needs]
    #[arg(long, value_name = "SIZE", conflicts_with = "erase", help_heading = "Devices")]
    pub size: Option<ByteSize>,
    /// Use this block device, and ERASE it; its name under /dev/disk/by-id/
    #[arg(long, value_name = "DEVICE", conflicts_with = "on", help_heading = "Devices")]
    pub erase: Option<PathBuf>,
    /// The filesystem signature on that device which you give up
    #[arg(long, value_name = "TYPE", requires = "erase", help_heading = "Devices")]
    pub erase_signature: Option<String>,
    /// The directory that stands for the other disk, with `--on dir:`
    #[arg(long, value_name = "DIR", help_heading = "Devices")]
    pub other: Option<PathBuf>,

    /// Go on with a run that was cut short
    #[arg(long, value_name = "RUN", conflicts_with_all = FIXED, help_heading = "The run")]
    pub resume: Option<String>,
    /// Go on with the stages of a study that come after this run of one of them
    #[arg(long, value_name = "RUN", help_heading = "The run")]
    pub after: Option<String>,
    /// Say what would be run, and run nothing
    #[arg(long, help_heading = "The run")]
    pub dry_run: bool,
    /// The metrics to answer for, the first in full [default: what answers for the workloads,
    /// see `list workloads`]
    #[arg(long, value_name = "METRIC,…", value_delimiter = ',', help_heading = "The run")]
    pub metric: Vec<String>,
    /// Also write a report: `md=FILE`, `csv=FILE`, `json=FILE`, `junit=FILE`
    #[arg(long, value_name = "FORMAT=FILE", value_parser = parse_export, help_heading = "The run")]
    pub export: Vec<Export>,
    #[command(flatten)]
    pub view: View,
    /// No progress on standard error
    #[arg(long, short, help_heading = "The run")]
    pub quiet: bool,
    #[command(flatten)]
    pub runs: Runs,
}

/// A factor and its levels.
pub type Levels = (String, Vec<String>);

/// Where a run takes place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum On {
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

impl On {
    fn parse(text: &str) -> Result<On, String> {
        if let Some(emulator) = Emulator::ALL.into_iter().find(|emulator| emulator.name() == text) {
            return Ok(On::Guest(emulator));
        }
        match text.split_once(':') {
            None if text == "loop" => Ok(On::Loop(None)),
            None if text == "ram" => Ok(On::Ram),
            None if text == "zram" => Ok(On::Zram),
            Some(("loop", dir)) if !dir.is_empty() => Ok(On::Loop(Some(dir.into()))),
            Some(("dir", dir)) if !dir.is_empty() => Ok(On::Dir(dir.into())),
            _ => Err("it is `loop`, `loop:DIR`, `ram`, `zram`, `dir:PATH`, `qemu`, `uml` or `exact`".into()),
        }
    }
}

fn parse_scale(text: &str) -> Result<Scale, String> {
    Scale::ALL
        .into_iter()
        .find(|scale| scale.name() == text)
        .ok_or_else(|| format!("it is one of {}", Scale::ALL.map(Scale::name).join(", ")))
}

/// `FACTOR=LEVEL,…`. A level of mount options has commas of its own: for that there is `--mount`.
fn parse_factor(text: &str) -> Result<Levels, String> {
    match text.split_once('=') {
        Some((id, levels)) if factor::find(id).is_some() => {
            Ok((id.into(), levels.split(',').map(String::from).collect()))
        }
        Some((id, _)) => {
            let known: Vec<&str> = factor::FACTORS.iter().map(|factor| factor.id).collect();
            Err(format!("`{id}` is no factor; there are {}", known.join(", ")))
        }
        None => Err("write it FACTOR=LEVEL,LEVEL".into()),
    }
}

fn parse_setting(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.into(), value.into())),
        _ => Err("write it NAME=VALUE".into()),
    }
}

impl Args {
    /// Finds before a run what would keep its answer from being written after it.
    pub fn check_outputs(&self) -> Result<(), Failure> {
        let known = |id: &str| {
            metric::find(id).is_some() || fsarena_run::vocabulary::readings().any(|reading| reading.id == id)
        };
        if let Some(unknown) = self.metric.iter().find(|id| !known(id)) {
            let message = format!("--metric: no metric `{unknown}`; `fsarena list metrics` names them all");
            return Err(Failure::new(ExitCode::Usage, message));
        }
        for (exporter, path) in &self.export {
            let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
            // Charts go into a folder, which is made where it is not there.
            let charts = exporter.output() == Output::Folder;
            let in_the_way = if charts { path.exists() && !path.is_dir() } else { path.is_dir() };
            if in_the_way || !(charts || dir.is_dir()) {
                let message = format!(
                    "--export: {} cannot be written: name a file in a directory that exists, or for charts a folder",
                    path.display()
                );
                return Err(Failure::new(ExitCode::Usage, message));
            }
        }
        Ok(())
    }
}
