//! What a plan means here: complete and checked. It is stored with the run.

use super::limits::{de, maybe};
use super::shard::Shard;
use crate::cell::{Variant, WorkloadPlan};
use crate::{average::Average, claim::Claim, scale::Scale};
use bytesize::ByteSize;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, path::PathBuf};

/// A complete, checked plan. It is stored with the run, and read back to resume it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Plan {
    /// The study or plan it came from.
    pub name: String,
    /// One line for people.
    pub title: String,
    /// The question that the run answers.
    pub question: String,
    /// The size of the work.
    pub scale: Scale,
    /// The seed of everything random.
    pub seed: u64,
    /// The claims that the run tests.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub claims: Vec<Claim>,
    /// Which stage of a study it is, where that has several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stage: Option<Stage>,
    /// What varies, and its levels.
    pub factors: BTreeMap<String, Vec<String>>,
    /// Levels that are each compared alone with the plain variant, by their factors ([`crate::one_at_a_time`]).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub vary: BTreeMap<String, Vec<String>>,
    /// The omissions, a sentence each: filesystems that lack an option set, and settings that
    /// the workload of `--workload` lacks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub omitted: Vec<String>,
    /// Where the variants live.
    pub device: DevicePlan,
    /// When to stop.
    pub stop: StopPlan,
    /// When the machine counts as idle.
    pub idle: IdlePlan,
    /// Variants named one by one, instead of the product of the factors.
    #[serde(default, rename = "variant", skip_serializing_if = "Vec::is_empty")]
    pub variants: Vec<Variant>,
    /// The workloads.
    #[serde(rename = "workload")]
    pub workloads: Vec<WorkloadPlan>,
}

/// Which stage of a study a run is.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Stage {
    /// Its name: `saturation`.
    pub name: String,
    /// The runs of the stages before it, by the names of these.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub earlier: BTreeMap<String, String>,
    /// The variants that earlier stages did not compare, because the budget did not hold them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_compared: Vec<String>,
    /// Runs among which the error of one answer is split, where it is: each bounds its regrets at that part of 5%.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "maybe::split")]
    pub error_split: Option<u32>,
}

impl Plan {
    /// The runs among which the error of one answer is split: 1 where a run answers alone.
    pub fn error_split(&self) -> usize {
        self.stage.as_ref().and_then(|stage| stage.error_split).map_or(1, |split| split.max(1) as usize)
    }

    /// Whether a workload can print metrics that only its output defines.
    pub fn prints(&self) -> bool {
        self.workloads.iter().any(|workload| workload.settings.0.contains_key("metric_regex"))
    }
}

/// What carries the filesystems under test.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Backing {
    /// A loop image on disk.
    Loop {
        /// The directory that holds the image; the run's own where it is not given.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        path: Option<PathBuf>,
    },
    /// A loop image in memory (tmpfs).
    #[default]
    Ram,
    /// Compressed memory as a block device.
    Zram,
    /// A block device that the user named for erasing.
    Erase {
        /// Its stable name under `/dev/disk/by-id/`.
        path: PathBuf,
        /// The filesystem signature that the user gives up.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signature: Option<String>,
    },
    /// Existing directories, one a variant; nothing is formatted or mounted.
    Dir,
    /// Image files in a guest kernel: no root, no device of this machine.
    Guest(GuestPlan),
}

impl Backing {
    /// What executes the cells. Figures of different executors are never compared.
    pub fn executor(&self) -> &'static str {
        match self {
            Backing::Guest(guest) => match (guest.emulator, guest.accelerator) {
                (Emulator::Qemu, Some(Accelerator::Kvm)) => "a virtual machine (QEMU with KVM)",
                (Emulator::Qemu, _) => "an emulated machine (QEMU, translated)",
                (Emulator::Exact, _) => "a guest that counts instructions (QEMU)",
            },
            _ => "the kernel of the machine itself",
        }
    }
}

/// How guests are run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GuestPlan {
    /// What emulates them.
    pub emulator: Emulator,
    /// The modules of kernels that are named by their path; where installed ones are where this is not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modules: Option<PathBuf>,
    /// Their memory.
    #[serde(deserialize_with = "de::memory")]
    pub memory: ByteSize,
    /// The longest silence in seconds after which a guest is taken for hung.
    #[serde(deserialize_with = "de::patience")]
    pub patience_s: f64,
    /// What executes its instructions; none before the preflight selects one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accelerator: Option<Accelerator>,
    /// Whether each guest boots by itself, where it could begin with a machine that has booted already.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub fresh: bool,
}

/// What runs the instructions of a guest under QEMU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Accelerator {
    /// The CPU itself.
    Kvm,
    /// QEMU's translator.
    Tcg,
}

/// What emulates a guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Emulator {
    /// QEMU, by the CPU's own virtualisation where that works, else by translation.
    Qemu,
    /// QEMU with instruction counting: its time is instructions, not seconds.
    Exact,
}

impl Emulator {
    /// All of them.
    pub const ALL: [Emulator; 2] = [Emulator::Qemu, Emulator::Exact];

    /// The word of `--on`.
    pub const fn name(self) -> &'static str {
        match self {
            Emulator::Qemu => "qemu",
            Emulator::Exact => "exact",
        }
    }
}

impl GuestPlan {
    /// Guests with default settings.
    pub fn of(emulator: Emulator) -> GuestPlan {
        GuestPlan {
            emulator,
            modules: None,
            memory: ByteSize::gib(1),
            patience_s: 600.0,
            accelerator: None,
            fresh: false,
        }
    }
}

/// The devices of a run.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct DevicePlan {
    /// What carries the filesystems under test.
    pub backing: Backing,
    /// Size of each image; what the workload needs where it is not given.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "maybe::size")]
    pub size: Option<ByteSize>,
    /// Whether loop images bypass the page cache of the filesystem below them, as a device would.
    pub direct_io: bool,
    /// Whether the loop device offers discard. Without it mkfs cannot punch the image, so that all variants
    /// find the same blocks allocated below them.
    pub discard: bool,
    /// Whether an erased device is brought into its steady state before the first round; then nothing discards it.
    #[serde(default)]
    pub precondition: bool,
    /// The filesystem of the second device ("source disk").
    pub other_fs: String,
    /// The directory for the source disk: for its image, or used as it is where variants are directories.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub other_dir: Option<PathBuf>,
    /// The block device that the user named for erasing, to be the source disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub other_device: Option<OtherDevice>,
}

/// A block device that becomes the source disk.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OtherDevice {
    /// Its stable name under `/dev/disk/by-id/`.
    pub path: PathBuf,
    /// The filesystem signature that the user gives up, in this run alone.
    #[serde(skip)]
    pub signature: Option<String>,
}

/// Rounds at most where claims or a budget decide how many there are: the last look of the sequential test.
pub const MOST_ROUNDS: u32 = 400;

/// How much longer than a default budget a run may take for its first answer.
const EXTENSION: f64 = 1.25;

/// When to stop.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct StopPlan {
    /// The most rounds.
    #[serde(deserialize_with = "de::rounds")]
    pub rounds: u32,
    /// Rounds that run before these and belong to no comparison, those of all shards together.
    #[serde(default, skip_serializing_if = "is_zero", deserialize_with = "de::warmup")]
    pub warmup: u32,
    /// Seconds after which no round is started that would probably end later.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "maybe::seconds")]
    pub budget_s: Option<f64>,
    /// Whether the budget is that of a plan that ships with fsarena, and not the user's: the run may exceed it for its
    /// first answer, up to [`StopPlan::extended_s`].
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub default_budget: bool,
    /// Whether the run ends as soon as every claim is decided.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub when_decided: bool,
    /// The difference that matters, as a fraction; see [`StopPlan::margin()`].
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "maybe::difference")]
    pub margin: Option<f64>,
    /// Which of the rounds run here, where other machines run the others; all of them without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shard: Option<Shard>,
    /// The run looks for the best variant, and ends once its choice costs at most this fraction more than the best;
    /// variants that cannot be the best leave.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "maybe::difference")]
    pub best_within: Option<f64>,
    /// The metric by which it is the best, where that is not the primary one of the workload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub best_metric: Option<String>,
    /// Whether it is the best in a typical round or by mean cost.
    #[serde(default, skip_serializing_if = "Average::is_typical")]
    pub best_by: Average,
}

impl StopPlan {
    /// The difference that matters, as a fraction; 1% by default. Claims without their own percentage treat smaller
    /// differences as equivalent.
    pub fn margin(&self) -> f64 {
        self.margin.unwrap_or(0.01)
    }

    /// The budget in seconds, and where it is a default one, what a run may take for its first answer: a quarter more.
    pub fn extended_s(&self) -> Option<f64> {
        self.budget_s.map(|budget| if self.default_budget { EXTENSION * budget } else { budget })
    }

    /// Whether a round runs here.
    pub fn has(&self, round: u32) -> bool {
        self.shard.is_none_or(|shard| shard.has(round))
    }

    /// How many rounds run here to be compared, at most.
    pub fn rounds_here(&self) -> u32 {
        self.shard.map_or(self.rounds, |shard| shard.rounds(self.rounds))
    }

    /// How many warm-up rounds run here: as many as on each other machine.
    pub fn warmup_here(&self) -> u32 {
        self.warmup / self.shard.map_or(1, |shard| shard.of)
    }

    /// The rounds of all shards at most, warm-up included: the number of the last one, counted from 1.
    pub fn all_rounds(&self) -> u32 {
        self.warmup.saturating_add(self.rounds)
    }

    /// Whether the samples decide which variants a round runs, and when the run ends.
    pub fn adapts(&self) -> bool {
        self.when_decided || self.best_within.is_some()
    }

    /// Whether the number of rounds is unknown in advance, because samples or the time budget end the run.
    pub fn open_ended(&self) -> bool {
        self.adapts() || self.rounds >= MOST_ROUNDS
    }
}

/// Plans without warm-up rounds do not mention them.
fn is_zero(rounds: &u32) -> bool {
    *rounds == 0
}

/// When the machine counts as idle, so that a task may begin.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct IdlePlan {
    /// Seconds after which a task starts all the same, and its sample is tagged.
    #[serde(deserialize_with = "de::seconds")]
    pub timeout_s: f64,
    /// Dirty and writeback pages left on the machine.
    pub dirty: ByteSize,
    /// Share of time that some task may stall on I/O, in per cent, over one poll.
    #[serde(deserialize_with = "de::share")]
    pub io_pressure_percent: f64,
}
