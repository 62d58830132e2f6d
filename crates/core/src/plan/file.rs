//! The structure of a plan file: parsed values with their positions in the text, not yet checked or completed.

use crate::scale::Scale;
use serde::Deserialize;
use std::{collections::BTreeMap, path::PathBuf};
use toml::Spanned;

/// The size limit of a plan, in bytes: far above any plan that a person writes.
pub const MAX_PLAN_BYTES: usize = 1 << 20;

/// Keys and values of a table, with their positions in the text.
pub type Pairs = BTreeMap<Spanned<String>, Spanned<toml::Value>>;

/// A parsed plan file; [`super::resolve`] checks it and sets the defaults of missing keys.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanFile {
    /// The name of the study or plan.
    pub name: Spanned<String>,
    /// A title of one line.
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
    /// The levels of each factor.
    #[serde(default)]
    pub factors: Pairs,
    /// Levels that are each compared alone with the plain variant, instead of in every combination.
    #[serde(default)]
    pub vary: Pairs,
    /// Settings of the workloads with the values at which the run measures them ([`crate::setting_grid`]): `tree_files =
    /// "1e3..1e6"`.
    #[serde(default)]
    pub grid: Pairs,
    /// Variants named one by one, instead of the product of the factors.
    #[serde(default, rename = "variant")]
    pub variants: Vec<Pairs>,
    /// The devices of the filesystems.
    #[serde(default)]
    pub device: DeviceTable,
    /// How filesystems are aged.
    #[serde(default)]
    pub age: AgeTable,
    /// When to stop.
    #[serde(default)]
    pub stop: StopTable,
    /// When the machine counts as idle.
    #[serde(default)]
    pub idle: IdleTable,
    /// Settings that apply only at one scale, by scale.
    #[serde(default)]
    pub scales: BTreeMap<Scale, ScaleTable>,
    /// The precision of the study's published figures, and the machine they are from.
    #[serde(default)]
    pub published: PublishedTable,
    /// Stages of a study. Each stage is a separate run, and a later stage can use the best level of an earlier one.
    #[serde(default, rename = "stage")]
    pub stages: Vec<StageTable>,
    /// The conclusions of the author of a study.
    #[serde(default, rename = "conclusion")]
    pub conclusions: Vec<ConclusionTable>,
    /// The workloads: each has `use = "WORKLOAD"` and that workload's settings.
    #[serde(default, rename = "workload")]
    pub workloads: Vec<Pairs>,
}

/// The table `[device]`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceTable {
    /// Size of each image: `"2GiB"`.
    pub size: Option<Spanned<String>>,
    /// Whether loop images bypass the page cache of the filesystem that stores them.
    pub direct_io: Option<bool>,
    /// Whether the loop device supports discard.
    pub discard: Option<bool>,
    /// Whether fsarena writes an erased device into its steady state before the first round.
    pub precondition: Option<bool>,
    /// The filesystem of the second device.
    pub other_fs: Option<Spanned<String>>,
}

/// The table `[age]`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgeTable {
    /// The number of images of each variant, each aged from another seed.
    pub images: Option<Spanned<u32>>,
    /// The git repository whose commits are pulled, instead of a generated history.
    pub repository: Option<PathBuf>,
}

/// The table `[stop]`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StopTable {
    /// The number of rounds.
    pub rounds: Option<Spanned<u32>>,
    /// The number of warm-up rounds, which run first and which no comparison uses; with shards, per shard.
    pub warmup: Option<Spanned<u32>>,
    /// Time budget: `"150s"`. A round starts only if it will probably end within it.
    pub budget: Option<Spanned<String>>,
    /// The largest number of rounds of a run that ends once its claims are decided.
    pub max_rounds: Option<Spanned<u32>>,
    /// Whether the claims of the form `candidate <= baseline within 1%` are a gate, which passes or fails as a whole.
    pub gate: Option<Spanned<bool>>,
    /// The difference under which variants count as equivalent: `"1%"`.
    pub margin: Option<Spanned<String>>,
    /// Search for the best variant until the choice costs at most this much more than the best: `"1%"`.
    pub best_within: Option<Spanned<String>>,
    /// The metric of that search; default: the primary metric of the workload.
    pub best_metric: Option<String>,
    /// Whether that search compares the typical round or the mean cost: `"typical"` (default) or `"mean"`.
    pub best_by: Option<Spanned<String>>,
}

/// The table `[scales.SCALE]`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ScaleTable {
    /// The number of rounds.
    pub rounds: Option<Spanned<u32>>,
    /// Time budget: `"150s"`. A round starts only if it will probably end within it.
    pub budget: Option<Spanned<String>>,
    /// Levels of factors at this scale.
    pub factors: Pairs,
    /// Settings of the workloads that differ at this scale.
    pub set: Pairs,
    /// Grids over settings of the workloads at this scale.
    pub grid: Pairs,
}

/// The table `[published]`; see [`crate::conclusion::FigurePrecision`].
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PublishedTable {
    /// The name of the set of published figures for each conclusion that does not name a set itself.
    #[serde(rename = "set")]
    pub figure_set: Option<String>,
    /// The difference below which two figures count as equal: `"1%"`.
    pub tolerance: Option<String>,
    /// The step of the last printed digit.
    pub resolution: Option<f64>,
    /// Every filesystem that the author compared; only needed if the published sets do not have all of them.
    pub filesystems: Vec<String>,
    /// Roles of the author's variants, if they are not filesystems: `["before", "after"]`. The variants of a run take
    /// these roles in order.
    pub roles: Vec<String>,
    /// The machine that the author describes, by set.
    pub machine: BTreeMap<String, BTreeMap<String, String>>,
}

/// A table `[[conclusion]]`; see [`crate::conclusion::Conclusion`].
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConclusionTable {
    /// The conclusion in fsarena's words.
    #[serde(rename = "says")]
    pub statement: String,
    /// A short paraphrase of the author's sentence, with its place in the article.
    pub source: String,
    /// The part of the claims that fsarena added, such as a threshold.
    #[serde(rename = "ours")]
    pub our_addition: Option<String>,
    /// The name of the set of published figures that it is about.
    #[serde(rename = "set")]
    pub figure_set: Option<String>,
    /// The stage that it is about; by default any.
    pub stage: Option<String>,
    /// Whether it is about a rotating disk, so that runs on other devices do not check it.
    #[serde(default, rename = "rotating_disk")]
    pub requires_rotating_disk: bool,
    /// The claims. `{a,b}` in a claim makes one claim with each word, `{*}` one claim for each task.
    pub claims: Vec<Spanned<String>>,
    /// How many of them have to hold, or which share of them: `11`, `"50%"`.
    pub at_least: Option<Spanned<toml::Value>>,
}

/// A table `[[stage]]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StageTable {
    /// Its name.
    pub name: String,
    /// Its question; by default the question of the plan.
    #[serde(default)]
    pub question: String,
    /// The name of its workload, which replaces the workloads of the plan. It becomes the value of `use` in a table `[[workload]]`,
    /// so it is checked with that.
    #[serde(rename = "use")]
    pub workload: Option<Spanned<toml::Value>>,
    /// Whether it runs only if `--stage` names it.
    #[serde(default)]
    pub optional: bool,
    /// The levels of factors in this stage; they override the factors of the plan.
    #[serde(default)]
    pub factors: Pairs,
    /// Settings of the workloads in this stage.
    #[serde(default)]
    pub set: Pairs,
    /// Grids over settings of the workloads in this stage.
    #[serde(default)]
    pub grid: Pairs,
    /// A factor. Each variant uses that level of the factor that was best in an earlier stage.
    #[serde(rename = "best")]
    pub best_factor: Option<String>,
    /// The name of that earlier stage.
    #[serde(rename = "of")]
    pub earlier_stage: Option<String>,
    /// The metric that determines the best level; `throughput` by default.
    #[serde(rename = "by")]
    pub best_metric: Option<String>,
    /// Settings that apply only at one scale.
    #[serde(default)]
    pub scales: BTreeMap<Scale, ScaleTable>,
}

/// The table `[idle]`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IdleTable {
    /// The longest wait: `"5s"`. After it the task starts on a busy machine.
    pub timeout: Option<Spanned<String>>,
    /// The most dirty and writeback pages on an idle machine: `"4MiB"`.
    pub dirty: Option<Spanned<String>>,
    /// The largest I/O pressure of an idle machine: per cent of the poll interval in which some process stalled on I/O.
    pub io_pressure_percent: Option<Spanned<f64>>,
}
