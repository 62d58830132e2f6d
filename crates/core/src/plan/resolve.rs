//! From what was written to what it means here: defaults, the command line, and every check.

mod stop;
mod workloads;

pub(crate) use stop::percentage;

use super::error::{PlanError, did_you_mean};
use super::file::PlanFile;
use super::{Backing, DevicePlan, Plan, SettlePlan, claims};
use crate::cell::{Arm, StepInfo};
use crate::factor::{self, FACTORS};
use crate::scale::Scale;
use crate::setting::WorkloadDef;
use bytesize::ByteSize;
use std::collections::{BTreeMap, BTreeSet};
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
    /// Every workload.
    pub workloads: Vec<&'static WorkloadDef>,
    /// Every metric and reading.
    pub metrics: Vec<String>,
    /// The steps of a plan's cells, in their order.
    pub outline: fn(&Plan) -> Vec<StepInfo>,
}

/// What the command line says over the plan.
#[derive(Debug, Clone, Default)]
pub struct Overrides {
    /// `--scale`.
    pub scale: Option<Scale>,
    /// `--seed`.
    pub seed: Option<u64>,
    /// `--blocks`.
    pub blocks: Option<u32>,
    /// `--budget`, in seconds.
    pub budget_s: Option<f64>,
    /// `--max-blocks`.
    pub max_blocks: Option<u32>,
    /// `--margin`, as a fraction.
    pub margin: Option<f64>,
    /// `--claim`.
    pub claims: Vec<String>,
    /// `--fs`, `--options`, `--factor NAME=LEVEL,LEVEL`: levels in place of the plan's.
    pub factors: Vec<(String, Vec<String>)>,
    /// `--workload`: in place of the plan's only one.
    pub workload: Option<String>,
    /// `--set NAME=VALUE`.
    pub settings: Vec<(String, String)>,
    /// `--on`, `--erase`.
    pub backing: Option<Backing>,
    /// `--size`.
    pub size: Option<ByteSize>,
    /// `--other`.
    pub other_dir: Option<PathBuf>,
    /// The seed taken where neither plan nor command line gives one.
    pub fresh_seed: u64,
}

/// Resolves a parsed plan.
///
/// # Errors
/// One, with line and column where it lies in the plan's text, or the flag where it lies in one.
pub fn resolve(
    origin: &str,
    (file, text): &(PlanFile, String),
    over: &Overrides,
    words: &Vocabulary,
) -> Result<Plan, PlanError> {
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
        if let Some(fault) = file.rounds_fault() {
            return Err(PlanError::flag(self.origin, fault));
        }
        let scale = self.over.scale.or(file.scale).unwrap_or_default();
        let written_seed = file.seed.as_ref().map(|seed| *seed.get_ref());
        let mut plan = Plan {
            name: file.name.get_ref().clone(),
            title: file.title.clone(),
            question: file.question.clone(),
            scale,
            // TOML's whole numbers end at 2^63 - 1, and the resolved plan is TOML.
            seed: self.over.seed.or(written_seed).unwrap_or(self.over.fresh_seed) & (u64::MAX >> 1),
            claims: vec![],
            round: None,
            factors: self.factors(file)?,
            device: self.device(file)?,
            stop: self.stop(file, scale)?,
            settle: self.settle(file)?,
            arms: self.arms(file)?,
            workloads: self.workloads(file, scale)?,
        };
        self.arm_names_differ(&plan)?;
        let written = (self.origin, self.text);
        plan.claims = claims::resolve(written, &file.claims, &self.over.claims, &plan, self.words)?;
        Ok(plan)
    }

    fn bad<T>(&self, span: Range<usize>, message: impl Into<String>) -> Result<T, PlanError> {
        Err(PlanError::at(self.origin, self.text, Some(span), message))
    }

    fn factors(&self, file: &PlanFile) -> Result<BTreeMap<String, Vec<String>>, PlanError> {
        let mut factors = BTreeMap::new();
        for (key, value) in &file.factors {
            let id = self.factor_name(key)?;
            let levels = self.level_list(value)?;
            factors.insert(id.to_string(), self.checked_levels(id, levels, &|m| self.bad(value.span(), m))?);
        }
        for (id, levels) in &self.over.factors {
            let flag = format!("--{id}");
            let unknown = || format!("is no factor{}", did_you_mean(id, FACTORS.iter().map(|f| f.id)));
            factor::find(id).ok_or_else(|| PlanError::flag(&flag, unknown()))?;
            let levels = self.checked_levels(id, levels.clone(), &|m| Err(PlanError::flag(&flag, m)))?;
            factors.insert(id.clone(), levels);
        }
        if matches!(self.over.backing, Some(Backing::Dir)) {
            // Directories are taken as they are: what would make a filesystem does not apply.
            let around = [factor::DIR, factor::CPUS, factor::CPU_SPEED, factor::MEMORY, factor::CLIENTS];
            factors.retain(|id, _| around.contains(&id.as_str()));
        } else if file.arms.is_empty() {
            factors.entry(factor::FS.into()).or_insert_with(|| self.words.available.clone());
            factors.entry(factor::OPTIONS.into()).or_insert_with(|| vec!["default".into()]);
            if factors.get(factor::FS) == Some(&self.words.available) {
                self.leave_out_without_options(&mut factors);
            }
        }
        Ok(factors)
    }

    /// Whoever asks for whatever there is gets what has the option sets that he asks for.
    fn leave_out_without_options(&self, factors: &mut BTreeMap<String, Vec<String>>) {
        let sets = factors.get(factor::OPTIONS).cloned().unwrap_or_default();
        let has_all = |fs: &String| {
            let known = self.words.filesystems.iter().find(|(id, _)| id == fs);
            known.is_none_or(|(_, known)| sets.iter().all(|set| known.contains(set)))
        };
        if let Some(levels) = factors.get_mut(factor::FS)
            && levels.iter().any(has_all)
        {
            levels.retain(has_all);
        }
    }

    fn factor_name<'b>(&self, key: &'b Spanned<String>) -> Result<&'b str, PlanError> {
        let id = key.get_ref().as_str();
        if factor::find(id).is_none() {
            let near = did_you_mean(id, FACTORS.iter().map(|f| f.id));
            return self.bad(key.span(), format!("`{id}` is no factor{near}"));
        }
        Ok(id)
    }

    fn level_list(&self, value: &Spanned<toml::Value>) -> Result<Vec<String>, PlanError> {
        let one = |value: &toml::Value| match value {
            toml::Value::String(text) => Some(text.clone()),
            toml::Value::Integer(number) => Some(number.to_string()),
            _ => None,
        };
        let levels = match value.get_ref() {
            toml::Value::Array(levels) => levels.iter().map(one).collect::<Option<Vec<_>>>(),
            level => one(level).map(|level| vec![level]),
        };
        match levels {
            Some(levels) if !levels.is_empty() => Ok(levels),
            Some(_) => self.bad(value.span(), "a factor needs at least one level"),
            None => self.bad(value.span(), "levels are text or whole numbers, or a list of them"),
        }
    }

    fn checked_levels(
        &self,
        id: &str,
        levels: Vec<String>,
        bad: &dyn Fn(String) -> Result<Vec<String>, PlanError>,
    ) -> Result<Vec<String>, PlanError> {
        if id == factor::FS && levels == ["available"] {
            return Ok(self.words.available.clone());
        }
        let mut seen = BTreeSet::new();
        for level in &levels {
            if !seen.insert(level) {
                return bad(format!("`{level}` is there twice: an arm is not compared with itself"));
            }
            if let Some(message) = self.level_fault(id, level) {
                return bad(message);
            }
        }
        Ok(levels)
    }

    /// What is wrong with one level of a factor.
    fn level_fault(&self, id: &str, level: &str) -> Option<String> {
        let names = || self.words.filesystems.iter().map(|(id, _)| id.as_str());
        match id {
            _ if level.contains('\0') => Some("a NUL byte is part of no option or path".into()),
            factor::FS if !names().any(|name| name == level) => Some(format!(
                "`{level}` is no filesystem that fsarena knows{} (`fsarena list filesystems`)",
                did_you_mean(level, names())
            )),
            factor::OPTIONS => {
                let sets =
                    || self.words.filesystems.iter().flat_map(|(_, sets)| sets.iter().map(String::as_str));
                (!sets().any(|set| set == level)).then(|| {
                    format!("no filesystem has an option set `{level}`{}", did_you_mean(level, sets()))
                })
            }
            _ => factor::find(id).and_then(|def| (def.check)(level).err()),
        }
    }

    fn arms(&self, file: &PlanFile) -> Result<Vec<Arm>, PlanError> {
        if matches!(self.over.backing, Some(Backing::Dir)) {
            return Ok(vec![]);
        }
        let arms = file.arms.iter().filter_map(|pairs| self.arm(pairs).transpose());
        self.wanted(arms.collect::<Result<_, _>>()?)
    }

    /// `--fs` takes a choice of the arms that a plan names.
    fn wanted(&self, mut arms: Vec<Arm>) -> Result<Vec<Arm>, PlanError> {
        let asked = self.over.factors.iter().find(|(id, _)| id == factor::FS);
        let Some((_, levels)) = asked.filter(|_| !arms.is_empty()) else { return Ok(arms) };
        if let Some(level) =
            levels.iter().find(|level| arms.iter().all(|arm| arm.level(factor::FS) != **level))
        {
            let known: Vec<&str> = arms.iter().map(|arm| arm.level(factor::FS)).collect();
            let message =
                format!("this plan names its arms, and none of them here is {level}: {}", known.join(", "));
            return Err(PlanError::flag("--fs", message));
        }
        arms.retain(|arm| levels.iter().any(|level| level == arm.level(factor::FS)));
        Ok(arms)
    }

    /// An arm; none where it is optional and this machine cannot make its filesystem.
    fn arm(&self, pairs: &Pairs) -> Result<Option<Arm>, PlanError> {
        let mut arm = Arm { name: String::new(), levels: BTreeMap::new() };
        let mut optional = false;
        for (key, value) in pairs {
            if key.get_ref() == "optional" {
                optional = match value.get_ref() {
                    toml::Value::Boolean(optional) => *optional,
                    _ => return self.bad(value.span(), "optional is true or false"),
                };
                continue;
            }
            let mut levels = self.level_list(value)?;
            if levels.len() != 1 {
                return self.bad(value.span(), "an arm has one level of each factor");
            }
            let level = levels.remove(0);
            if key.get_ref() == "name" {
                arm.name = level;
                continue;
            }
            let id = self.factor_name(key)?;
            if let Some(message) = self.level_fault(id, &level) {
                return self.bad(value.span(), message);
            }
            arm.levels.insert(id.to_string(), level);
        }
        if arm.name.is_empty() {
            arm.name =
                arm.levels.values().filter(|level| !level.is_empty()).cloned().collect::<Vec<_>>().join("/");
        }
        let here = self.words.available.iter().any(|fs| fs == arm.level(factor::FS));
        Ok(Some(arm).filter(|_| here || !optional))
    }

    fn arm_names_differ(&self, plan: &Plan) -> Result<(), PlanError> {
        let mut seen = BTreeSet::new();
        let arms = crate::matrix::expand(plan);
        match arms.iter().find(|arm| !seen.insert(&arm.name)) {
            Some(arm) => {
                Err(PlanError::flag(self.origin, format!("two arms are both called `{}`", arm.name)))
            }
            None => Ok(()),
        }
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
            backing: self.over.backing.clone().unwrap_or(Backing::Loop { path: None }),
            size: self.over.size.or(self.size(file.device.size.as_ref())?),
            direct_io: file.device.direct_io.unwrap_or(true),
            discard: file.device.discard.unwrap_or(false),
            other_fs,
            other_dir: self.over.other_dir.clone(),
        })
    }

    fn settle(&self, file: &PlanFile) -> Result<SettlePlan, PlanError> {
        let pressure = match &file.settle.io_pressure_percent {
            Some(share) if !(0.0..=100.0).contains(share.get_ref()) => {
                return self.bad(share.span(), "a share of time lies between 0 and 100 per cent");
            }
            share => share.as_ref().map_or(10.0, |share| *share.get_ref()),
        };
        Ok(SettlePlan {
            timeout_s: self.duration(file.settle.timeout.as_ref())?.unwrap_or(5.0),
            dirty: self.size(file.settle.dirty.as_ref())?.unwrap_or(ByteSize::mib(4)),
            io_pressure_percent: pressure,
        })
    }

    fn size(&self, text: Option<&Spanned<String>>) -> Result<Option<ByteSize>, PlanError> {
        let Some(text) = text else { return Ok(None) };
        match text.get_ref().parse() {
            Ok(size) => Ok(Some(size)),
            Err(_) => {
                self.bad(text.span(), format!("`{}` is no size; write it like \"2GiB\"", text.get_ref()))
            }
        }
    }

    fn duration(&self, text: Option<&Spanned<String>>) -> Result<Option<f64>, PlanError> {
        let Some(text) = text else { return Ok(None) };
        match humantime::parse_duration(text.get_ref()) {
            Ok(time) => Ok(Some(time.as_secs_f64())),
            Err(_) => self.bad(
                text.span(),
                format!("`{}` is no time; write it like \"150s\" or \"10m\"", text.get_ref()),
            ),
        }
    }
}
