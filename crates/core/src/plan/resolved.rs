//! The complete, checked plan of a run, and its parts.

use super::limits::{exact, optional, required};
use super::shard::Shard;
use crate::cell::{Variant, WorkloadPlan};
use crate::sample::Unit;
use crate::{average::Average, claim::Claim, scale::Scale};
use bytesize::ByteSize;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, path::PathBuf};

/// A complete, checked plan. It is stored with the run, and read back to resume it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Plan {
    /// The name of the study or plan file.
    pub name: String,
    /// A title of one line.
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
    /// The stage of the study; None if the study has no stages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stage: Option<Stage>,
    /// The levels of each factor.
    pub factors: BTreeMap<String, Vec<String>>,
    /// Levels that are each compared alone with the plain variant, by their factors ([`crate::matrix`]).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub vary: BTreeMap<String, Vec<String>>,
    /// One sentence for each omission: filesystems that lack an option set, settings that the workload of `--workload` does not
    /// have, and settings that do not vary in existing directories.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub omitted: Vec<String>,
    /// The baseline that the run measures again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub baseline: Option<RecalledBaseline>,
    /// The devices of the filesystems.
    pub device: DevicePlan,
    /// How filesystems are aged.
    #[serde(default, skip_serializing_if = "AgePlan::is_default")]
    pub age: AgePlan,
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

/// The stage of a study that a run measures.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Stage {
    /// Its name: `saturation`.
    pub name: String,
    /// The ids of the runs of earlier stages, by the names of the stages.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty", rename = "earlier")]
    pub earlier_runs: BTreeMap<String, String>,
    /// The variants that earlier stages did not compare, because the budget did not suffice for them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_compared: Vec<String>,
    /// The number of runs that share the 5% error probability of one answer: each bounds its regrets at 5% divided by it.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "optional::error_split")]
    pub error_split: Option<u32>,
}

impl Plan {
    /// The number of runs that share the error probability of one answer; 1 if the run answers alone.
    pub fn error_split(&self) -> usize {
        self.stage.as_ref().and_then(|stage| stage.error_split).map_or(1, |split| split.max(1) as usize)
    }

    /// The claims of the gate; empty if the run has none.
    pub fn gate_claims(&self) -> Vec<&Claim> {
        self.claims.iter().filter(|claim| self.stop.has_gate && claim.is_one_sided()).collect()
    }

    /// The number of claims that share the error of a failed gate, if this claim belongs to the gate: the claims of the gate
    /// times the runs of [`Plan::error_split`]. None if the claim does not belong to the gate.
    pub fn gate_error_split(&self, claim: &Claim) -> Option<usize> {
        let claims = self.gate_claims();
        claims.contains(&claim).then_some(claims.len() * self.error_split())
    }

    /// Whether a workload can print its own metrics, whose definitions are only known from its output.
    pub fn can_print_metrics(&self) -> bool {
        self.workloads.iter().any(|workload| workload.settings.0.contains_key("metric_regex"))
    }
}

/// How the filesystems of a run are aged, where the factor `age` varies.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AgePlan {
    /// The number of images of each variant, each aged from another seed. Rounds take one after the other.
    #[serde(deserialize_with = "required::images")]
    pub images: u32,
    /// The git repository whose commits are pulled; None for a generated history.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repository: Option<PathBuf>,
}

impl Default for AgePlan {
    fn default() -> AgePlan {
        AgePlan { images: 8, repository: None }
    }
}

impl AgePlan {
    /// Whether it has its default values, which stored plans leave out.
    pub fn is_default(&self) -> bool {
        *self == AgePlan::default()
    }

    /// The seed of the image that all variants of a round begin with, from 1.
    pub fn image_seed(&self, round: u32) -> u64 {
        u64::from(round % self.images.max(1)) + 1
    }
}

/// The storage of the filesystems under test.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Backing {
    /// A loop image on disk.
    Loop {
        /// The directory of the image; default: the directory of the run.
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
        /// The filesystem signature on the device that the user allows fsarena to erase.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signature: Option<String>,
    },
    /// Existing directories, one per variant; fsarena formats and mounts nothing.
    Dir,
    /// Image files in a guest kernel: no root, no device of this machine.
    Guest(GuestPlan),
}

impl Backing {
    /// Whether the cells run in a guest that counts instructions instead of time.
    pub fn counts_instructions(&self) -> bool {
        matches!(self, Backing::Guest(guest) if guest.emulator == Emulator::Exact)
    }

    /// A phrase for the machine that executes the cells. Figures of different executors are never compared.
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
    /// The emulator.
    pub emulator: Emulator,
    /// The directory of the modules of kernels that are named by path; default: the directory of installed kernels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modules: Option<PathBuf>,
    /// The memory of each guest.
    #[serde(deserialize_with = "required::memory", serialize_with = "exact::size")]
    pub memory: ByteSize,
    /// Seconds without output after which fsarena treats a guest as hung.
    #[serde(deserialize_with = "required::silence_timeout", rename = "patience_s")]
    pub silence_timeout_s: f64,
    /// How QEMU executes the instructions of a guest; None before the preflight selects it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accelerator: Option<Accelerator>,
    /// Whether each guest boots anew instead of starting from a snapshot of a booted machine.
    #[serde(default, skip_serializing_if = "std::ops::Not::not", rename = "fresh")]
    pub boots_anew: bool,
    /// Whether all guests that count instructions have one memory layout, instead of one that is drawn for each cell.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub fixed_layout: bool,
}

/// How QEMU executes the instructions of a guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Accelerator {
    /// The CPU itself.
    Kvm,
    /// QEMU's translator.
    Tcg,
}

crate::named_enum! {
    /// The emulator of a guest.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    pub enum Emulator {
        /// QEMU, with the CPU's virtualisation if that works, otherwise with translation.
        Qemu = "qemu",
        /// QEMU with instruction counting: its time is instructions, not seconds.
        Exact = "exact",
    }
}

impl GuestPlan {
    /// The name of the device by which a guest reads the files of the host.
    pub const HOST_FILES_DEVICE: &'static str = "fsarena-host";
    /// The beginning of paths that no host has: looking one up takes a guest one request.
    pub const ABSENT_PATH_PREFIX: &'static str = "/.fsarena-absent-";

    /// Guests with default settings.
    pub fn of(emulator: Emulator) -> GuestPlan {
        GuestPlan {
            emulator,
            modules: None,
            memory: ByteSize::gib(1),
            silence_timeout_s: 600.0,
            accelerator: None,
            boots_anew: false,
            fixed_layout: false,
        }
    }
}

/// The devices of a run.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct DevicePlan {
    /// The storage of the filesystems under test.
    pub backing: Backing,
    /// Size of each image; default: the size that the workload needs.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "optional::size",
        serialize_with = "exact::optional_size"
    )]
    pub size: Option<ByteSize>,
    /// Whether loop images bypass the page cache of the filesystem that stores them, like a device.
    pub direct_io: bool,
    /// Whether the loop device supports discard. Without discard, mkfs cannot punch holes into the image, so all variants
    /// use an image with the same allocated blocks.
    pub discard: bool,
    /// Whether fsarena writes an erased device into its steady state before the first round. Then nothing discards it.
    #[serde(default)]
    pub precondition: bool,
    /// The filesystem of the second device ("source disk").
    pub other_fs: String,
    /// The directory of the source disk's image; if the variants are directories, the source directory itself.
    #[serde(rename = "other_dir", default, skip_serializing_if = "Option::is_none")]
    pub source_dir: Option<PathBuf>,
    /// The block device that the user named as source disk; fsarena erases it.
    #[serde(rename = "other_device", default, skip_serializing_if = "Option::is_none")]
    pub source_device: Option<SourceDevice>,
}

/// A block device that becomes the source disk.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SourceDevice {
    /// Its stable name under `/dev/disk/by-id/`.
    pub path: PathBuf,
    /// The filesystem signature on the device that the user allows fsarena to erase, in this run only.
    #[serde(skip)]
    pub signature: Option<String>,
}

/// The largest number of rounds if claims or a budget end the run. The sequential test has its last look at this round.
pub const OPEN_ENDED_ROUNDS: u32 = 400;

/// The factor by which a run may exceed a default budget to reach its first answer.
const DEFAULT_BUDGET_EXTENSION: f64 = 1.25;

/// When to stop.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct StopPlan {
    /// The largest number of rounds, without the warm-up rounds.
    #[serde(deserialize_with = "required::rounds")]
    pub rounds: u32,
    /// The number of warm-up rounds of all shards together. They run first, and no comparison uses them.
    #[serde(default, skip_serializing_if = "is_zero", deserialize_with = "required::warmup")]
    pub warmup: u32,
    /// Time budget in seconds. A round starts only if it will probably end within it.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "optional::seconds")]
    pub budget_s: Option<f64>,
    /// Whether the budget comes from a plan that ships with fsarena, not from the user. The run may exceed such a budget for
    /// its first answer, up to [`StopPlan::extended_budget_s`].
    #[serde(default, skip_serializing_if = "std::ops::Not::not", rename = "default_budget")]
    pub has_default_budget: bool,
    /// Whether the run ends as soon as every claim is decided.
    #[serde(default, skip_serializing_if = "std::ops::Not::not", rename = "when_decided")]
    pub ends_when_decided: bool,
    /// Whether the claims that allow a difference in one direction are a gate, which passes or fails as a whole.
    #[serde(default, skip_serializing_if = "std::ops::Not::not", rename = "gate")]
    pub has_gate: bool,
    /// The difference that matters, as a fraction; see [`StopPlan::margin()`].
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "optional::difference")]
    pub margin: Option<f64>,
    /// The share of the rounds that this machine runs, if several machines share a run; None for all rounds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shard: Option<Shard>,
    /// If set, the run searches for the best variant. It eliminates variants that cannot be the best, and ends once its
    /// choice costs at most this fraction more than the best.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "optional::difference")]
    pub best_within: Option<f64>,
    /// The metric of that search; default: the primary metric of the workload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub best_metric: Option<String>,
    /// Whether that search compares the typical round or the mean cost.
    #[serde(default, skip_serializing_if = "Average::is_typical")]
    pub best_by: Average,
}

impl StopPlan {
    /// The difference that matters, as a fraction; 1% by default. Claims without their own percentage treat smaller
    /// differences as equivalent.
    pub fn margin(&self) -> f64 {
        self.margin.unwrap_or(0.01)
    }

    /// The longest time in seconds that a run may take for its first answer: the budget, or a quarter more if it is a default
    /// budget.
    pub fn extended_budget_s(&self) -> Option<f64> {
        self.budget_s.map(|budget| if self.has_default_budget { DEFAULT_BUDGET_EXTENSION * budget } else { budget })
    }

    /// Whether this machine runs a round.
    pub fn runs_round(&self, round: u32) -> bool {
        self.shard.is_none_or(|shard| shard.has_round(round))
    }

    /// The largest number of rounds on this machine, without warm-up rounds.
    pub fn rounds_here(&self) -> u32 {
        self.shard.map_or(self.rounds, |shard| shard.count_rounds(self.rounds))
    }

    /// The number of rounds that this machine runs before a round, warm-up rounds included.
    pub fn rounds_here_before(&self, round: u32) -> u32 {
        self.shard.map_or(round, |shard| shard.count_rounds(round))
    }

    /// Warm-up rounds per machine.
    pub fn warmup_here(&self) -> u32 {
        self.warmup / self.shard.map_or(1, |shard| shard.count)
    }

    /// The largest number of rounds of all shards together, warm-up included.
    pub fn all_rounds(&self) -> u32 {
        self.warmup.saturating_add(self.rounds)
    }

    /// Whether the samples decide which variants a round runs, and when the run ends.
    pub fn is_adaptive(&self) -> bool {
        self.ends_when_decided || self.best_within.is_some()
    }

    /// Whether the number of rounds counts as unknown in advance: samples end the run, or the largest number of rounds is so high
    /// ([`OPEN_ENDED_ROUNDS`] or more) that a budget or the user is expected to end it.
    pub fn is_open_ended(&self) -> bool {
        self.is_adaptive() || self.rounds >= OPEN_ENDED_ROUNDS
    }
}

/// Whether stored plans leave `warmup` out.
fn is_zero(rounds: &u32) -> bool {
    *rounds == 0
}

/// When the machine counts as idle, so that a task may begin.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct IdlePlan {
    /// The longest wait in seconds. After it the task starts on a busy machine, and its sample is marked.
    #[serde(deserialize_with = "required::seconds")]
    pub timeout_s: f64,
    /// The most bytes of dirty and writeback pages on an idle machine.
    #[serde(serialize_with = "exact::size")]
    pub dirty: ByteSize,
    /// The largest I/O pressure of an idle machine: per cent of the poll interval in which some process stalled on I/O.
    #[serde(deserialize_with = "required::percentage")]
    pub io_pressure_percent: f64,
}

/// A stored baseline that a run measures again.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct RecalledBaseline {
    /// Its name.
    pub name: String,
    /// The name that its variant has in this run.
    pub variant: String,
    /// When the run that measured it began.
    #[serde(rename = "measured")]
    pub measured_at: String,
    /// The parts of the machine and the work that differ now: the kernel, mkfs, the work and so on. Empty if the state
    /// digests are equal.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changed: Vec<String>,
    /// The stored figures.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub figures: Vec<StoredFigures>,
}

/// The stored values of one task by one metric.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StoredFigures {
    /// The task with its parameters.
    pub task: String,
    /// The id of the metric.
    pub metric: String,
    /// Its unit.
    pub unit: Unit,
    /// The value of each round, with the number of the round.
    pub values: Vec<(u32, f64)>,
}
