//! From what was written to what it means here: defaults, the command line, and every check.

mod factors;
mod stop;
mod variants;
mod workloads;

pub(crate) use stop::percentage;

use super::error::PlanError;
use super::file::{PlanFile, Written};
use super::shard::Shard;
use super::{Backing, DevicePlan, IdlePlan, OtherDevice, Plan, claims};
use crate::cell::TaskInfo;
use crate::factor::{self, FactorDef};
use crate::scale::Scale;
use crate::setting::WorkloadDef;
use bytesize::ByteSize;
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::PathBuf;
use toml::Spanned;

/// What exists: the words a plan may use.
#[derive(Debug, Clone)]
pub struct Vocabulary {
    /// Every known filesystem with its option sets.
    pub filesystems: Vec<(String, Vec<String>)>,
    /// Those that this machine can make and mount.
    pub available: Vec<String>,
    /// Every factor.
    pub factors: Vec<FactorDef>,
    /// Every workload.
    pub workloads: Vec<&'static WorkloadDef>,
    /// Every metric and reading.
    pub metrics: Vec<String>,
    /// The tasks of a plan's cells, in their order.
    pub outline: fn(&Plan) -> Vec<TaskInfo>,
}

/// What the command line says over the plan.
#[derive(Debug, Clone, Default)]
pub struct Overrides {
    /// `--scale`.
    pub scale: Option<Scale>,
    /// `--seed`.
    pub seed: Option<u64>,
    /// `--rounds`.
    pub rounds: Option<u32>,
    /// `--warmup`.
    pub warmup: Option<u32>,
    /// `--shard`.
    pub shard: Option<Shard>,
    /// `--budget`, in seconds.
    pub budget_s: Option<f64>,
    /// `--max-rounds`.
    pub max_rounds: Option<u32>,
    /// `--margin`, as a fraction.
    pub margin: Option<f64>,
    /// `--find best --within`, as a fraction.
    pub best_within: Option<f64>,
    /// The first of `--metric`, which counts where the run looks for the best.
    pub best_metric: Option<String>,
    /// `--claim`.
    pub claims: Vec<String>,
    /// `--fs`, `--options`, `--factor NAME=LEVEL,LEVEL`: levels instead of the plan's.
    pub factors: Vec<(String, Vec<String>)>,
    /// `--workload`: instead of the plan's only one.
    pub workload: Option<String>,
    /// `--set NAME=VALUE`.
    pub settings: Vec<(String, String)>,
    /// `--on`, `--erase`.
    pub backing: Option<Backing>,
    /// Where loop images lie if nothing names their directory.
    pub images: Option<PathBuf>,
    /// `--size`.
    pub size: Option<ByteSize>,
    /// `--precondition`.
    pub precondition: bool,
    /// `--other` with a directory.
    pub other_dir: Option<PathBuf>,
    /// `--other` with a block device.
    pub other_device: Option<OtherDevice>,
    /// The seed taken where neither plan nor command line gives one.
    pub fresh_seed: u64,
}

/// Resolves a parsed plan.
///
/// # Errors
/// One, with line and column where it lies in the plan's text, or the flag where it lies in one.
pub fn resolve(written: &Written, over: &Overrides, words: &Vocabulary) -> Result<Plan, PlanError> {
    let Written { origin, text, file } = written;
    Resolver { origin, text, over, words }.plan(file)
}

struct Resolver<'a> {
    origin: &'a str,
    text: &'a str,
    over: &'a Overrides,
    words: &'a Vocabulary,
}

type Pairs = BTreeMap<Spanned<String>, Spanned<toml::Value>>;

impl Resolver<'_> {
    fn plan(&self, file: &PlanFile) -> Result<Plan, PlanError> {
        if file.name.get_ref().is_empty() || file.name.get_ref().contains(['/', '\n', '\0']) {
            return self
                .bad(file.name.span(), "the name becomes part of a directory's: one word without `/`");
        }
        let scale = self.over.scale.or(file.scale).unwrap_or_default();
        let written_seed = file.seed.as_ref().map(|seed| *seed.get_ref());
        let (factors, without_options) = self.factors(file)?;
        let omitted = without_options.into_iter().chain(self.settings_without_use(file, scale)).collect();
        let mut plan = Plan {
            name: file.name.get_ref().clone(),
            title: file.title.clone(),
            question: file.question.clone(),
            scale,
            // TOML's whole numbers end at 2^63 - 1, and the resolved plan is TOML.
            seed: self.over.seed.or(written_seed).unwrap_or(self.over.fresh_seed) & (u64::MAX >> 1),
            claims: vec![],
            stage: file.stored.as_ref().and_then(|plan| plan.stage.clone()),
            factors,
            omitted: file.stored.as_ref().map_or(omitted, |plan| plan.omitted.clone()),
            device: self.device(file)?,
            stop: self.stop(file, scale)?,
            idle: self.idle(file)?,
            variants: self.variants(file)?,
            workloads: self.workloads(file, scale)?,
        };
        self.variant_names_differ(&plan)?;
        let written = (self.origin, self.text);
        plan.claims = claims::resolve(written, &file.claims, &self.over.claims, &plan, self.words)?;
        Ok(plan)
    }

    fn bad<T>(&self, span: Range<usize>, message: impl Into<String>) -> Result<T, PlanError> {
        Err(PlanError::at(self.origin, self.text, Some(span), message))
    }

    fn device(&self, file: &PlanFile) -> Result<DevicePlan, PlanError> {
        let other_fs = match &file.device.other_fs {
            Some(name) => match self.level_fault(factor::FS, name.get_ref()) {
                Some(message) => return self.bad(name.span(), message),
                None => name.get_ref().clone(),
            },
            None => "ext4".into(),
        };
        Ok(DevicePlan {
            backing: self.over.backing.clone().unwrap_or(Backing::Loop { path: self.over.images.clone() }),
            size: self.over.size.or(self.size(file.device.size.as_ref())?),
            direct_io: file.device.direct_io.unwrap_or(true),
            discard: file.device.discard.unwrap_or(false),
            precondition: self.over.precondition || file.device.precondition.unwrap_or(false),
            other_fs,
            other_dir: self.over.other_dir.clone(),
            other_device: self.over.other_device.clone(),
        })
    }

    fn idle(&self, file: &PlanFile) -> Result<IdlePlan, PlanError> {
        let pressure = match &file.idle.io_pressure_percent {
            Some(share) if !(0.0..=100.0).contains(share.get_ref()) => {
                return self.bad(share.span(), "a percentage of time lies between 0 and 100");
            }
            share => share.as_ref().map_or(10.0, |share| *share.get_ref()),
        };
        Ok(IdlePlan {
            timeout_s: self.duration(file.idle.timeout.as_ref())?.unwrap_or(5.0),
            dirty: self.size(file.idle.dirty.as_ref())?.unwrap_or(ByteSize::mib(4)),
            io_pressure_percent: pressure,
        })
    }

    fn size(&self, text: Option<&Spanned<String>>) -> Result<Option<ByteSize>, PlanError> {
        let Some(text) = text else { return Ok(None) };
        match text.get_ref().parse() {
            Ok(size) => Ok(Some(size)),
            Err(_) => self.bad(
                text.span(),
                format!("cannot read the size `{}`; write it like \"2GiB\"", text.get_ref()),
            ),
        }
    }

    fn duration(&self, text: Option<&Spanned<String>>) -> Result<Option<f64>, PlanError> {
        let Some(text) = text else { return Ok(None) };
        match humantime::parse_duration(text.get_ref()) {
            Ok(time) => Ok(Some(time.as_secs_f64())),
            Err(_) => self.bad(
                text.span(),
                format!("cannot read the time `{}`; write it like \"150s\" or \"10m\"", text.get_ref()),
            ),
        }
    }
}
