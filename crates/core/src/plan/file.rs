//! A plan as it was written: parsed, inert, every value with its place in the text.

use crate::scale::Scale;
use serde::Deserialize;
use std::collections::BTreeMap;
use toml::Spanned;

/// The size limit of a plan, in bytes: far above any plan that a person writes.
pub const MAX_BYTES: usize = 1 << 20;

/// Names and values with their places in the text.
pub type Pairs = BTreeMap<Spanned<String>, Spanned<toml::Value>>;

/// A plan file, parsed and nothing more.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanFile {
    /// The name of the study or plan.
    pub name: Spanned<String>,
    /// One line for people.
    #[serde(default)]
    pub title: String,
    /// The question that the run answers.
    #[serde(default)]
    pub question: String,
    /// The size of the work; `quick` by default.
    pub scale: Option<Scale>,
    /// The seed of everything random; by default a new one per run.
    pub seed: Option<Spanned<u64>>,
    /// The claims to test ([`crate::claim`]).
    #[serde(default)]
    pub claims: Vec<Spanned<String>>,
    /// What varies.
    #[serde(default)]
    pub factors: Pairs,
    /// Levels that are each compared alone with the plain variant, instead of in every combination.
    #[serde(default)]
    pub vary: Pairs,
    /// Variants one by one, instead of the product of the factors.
    #[serde(default, rename = "variant")]
    pub variants: Vec<Pairs>,
    /// What carries the filesystems.
    #[serde(default)]
    pub device: DeviceFile,
    /// When to stop.
    #[serde(default)]
    pub stop: StopFile,
    /// When the machine counts as idle.
    #[serde(default)]
    pub idle: IdleFile,
    /// What differs at one scale.
    #[serde(default)]
    pub scales: BTreeMap<Scale, ScaleFile>,
    /// How far the published figures of a study can be trusted.
    #[serde(default)]
    pub published: PublishedFile,
    /// Stages, each a run, the later ones of what an earlier one found best.
    #[serde(default, rename = "stage")]
    pub stages: Vec<StageFile>,
    /// What the author of a study concluded.
    #[serde(default, rename = "conclusion")]
    pub conclusions: Vec<ConclusionFile>,
    /// The workloads: each has `use = "WORKLOAD"` and that workload's settings.
    #[serde(default, rename = "workload")]
    pub workloads: Vec<Pairs>,
}

/// `[device]` as written.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceFile {
    /// Size of each image: `"2GiB"`.
    pub size: Option<Spanned<String>>,
    /// Whether loop images bypass the page cache below them.
    pub direct_io: Option<bool>,
    /// Whether the loop device offers discard.
    pub discard: Option<bool>,
    /// Whether an erased device is brought into its steady state before the first round.
    pub precondition: Option<bool>,
    /// The filesystem of the second device.
    pub other_fs: Option<Spanned<String>>,
}

/// `[stop]` as written.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StopFile {
    /// The number of rounds.
    pub rounds: Option<Spanned<u32>>,
    /// Rounds before these that belong to no comparison; with shards, of each shard.
    pub warmup: Option<Spanned<u32>>,
    /// Time after which no round is started: `"150s"`.
    pub budget: Option<Spanned<String>>,
    /// The most rounds, where claims determine how many are needed.
    pub max_rounds: Option<Spanned<u32>>,
    /// The difference under which variants count as equivalent: `"1%"`.
    pub margin: Option<Spanned<String>>,
    /// Look for the best variant, until the choice costs at most this much more than the best: `"1%"`.
    pub best_within: Option<Spanned<String>>,
    /// The metric of that, where it is not the primary one of the workload: `"tps_per_s"`.
    pub best_metric: Option<String>,
    /// Whether the best costs least in a typical round or in the mean: `"typical"` (default) or `"mean"`.
    pub best_by: Option<Spanned<String>>,
}

/// `[scales.SCALE]` as written.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ScaleFile {
    /// The number of rounds.
    pub rounds: Option<Spanned<u32>>,
    /// Time after which no round is started: `"150s"`.
    pub budget: Option<Spanned<String>>,
    /// Levels of factors at this scale.
    pub factors: Pairs,
    /// Settings of the workloads that differ at this scale.
    pub set: Pairs,
}

/// `[published]` as written; see [`crate::conclusion::Trust`].
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PublishedFile {
    /// The set that conclusions are about which name none.
    pub set: Option<String>,
    /// The difference below which two figures count as equal: `"1%"`.
    pub tolerance: Option<String>,
    /// The step of the last printed digit.
    pub resolution: Option<f64>,
    /// Every filesystem that the author compared, if the sets lack figures of some.
    pub filesystems: Vec<String>,
    /// Roles of the author's variants, if they are not filesystems: `["before", "after"]`. The variants of a run take
    /// these roles in order.
    pub roles: Vec<String>,
    /// The author's machine as he states it, by set.
    pub machine: BTreeMap<String, BTreeMap<String, String>>,
}

/// `[[conclusion]]` as written; see [`crate::conclusion::Conclusion`].
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConclusionFile {
    /// In our words.
    pub says: String,
    /// A short paraphrase of the author's sentence, with its place in the article.
    pub source: String,
    /// The part of the claims that is ours and not the author's, such as a threshold.
    pub ours: Option<String>,
    /// The set of published figures that it is about.
    pub set: Option<String>,
    /// The stage that it is about; by default any.
    pub stage: Option<String>,
    /// Claims; `{a,b}` stands for one claim with each, `{*}` for all tasks.
    pub claims: Vec<Spanned<String>>,
    /// How many of them have to hold, or which share of them: `11`, `"50%"`.
    pub at_least: Option<Spanned<toml::Value>>,
}

/// `[[stage]]` as written.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StageFile {
    /// Its name.
    pub name: String,
    /// Its question; by default that of the whole plan.
    #[serde(default)]
    pub question: String,
    /// Its workload, instead of the plan's.
    #[serde(rename = "use")]
    pub workload: Option<Spanned<toml::Value>>,
    /// Whether it runs only if `--stage` names it.
    #[serde(default)]
    pub optional: bool,
    /// What varies in it, before what varies in all stages.
    #[serde(default)]
    pub factors: Pairs,
    /// Settings of the workloads in it.
    #[serde(default)]
    pub set: Pairs,
    /// The factor of which each variant keeps the best level of an earlier stage.
    pub best: Option<String>,
    /// That stage.
    pub of: Option<String>,
    /// The metric that determines the best level; `throughput` by default.
    pub by: Option<String>,
    /// What differs at one scale.
    #[serde(default)]
    pub scales: BTreeMap<Scale, ScaleFile>,
}

/// `[idle]` as written.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IdleFile {
    /// Time after which a task starts all the same: `"5s"`.
    pub timeout: Option<Spanned<String>>,
    /// Dirty and writeback pages left on the machine: `"4MiB"`.
    pub dirty: Option<Spanned<String>>,
    /// Share of time that some task may stall on I/O, in per cent.
    pub io_pressure_percent: Option<Spanned<f64>>,
}
