//! Resolves a parsed plan: applies defaults and the command line, and checks everything.

mod stop;
mod workloads;

use super::error::PlanError;
use super::file::{PlanFile, ScaleFile};
pub use super::overrides::Overrides;
pub use super::overrides::Vocabulary;
use super::{AgePlan, Backing, DevicePlan, IdlePlan, MOST_GATE_CLAIMS, Plan, Written, claims, limits};
use crate::cell::Variant;
use crate::names::unknown;
use crate::plan::file::Pairs;
use crate::scale::Scale;
use crate::setting_text::setting;
use crate::{factor, matrix, one_at_a_time};
use bytesize::ByteSize;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use toml::Spanned;

/// A value that a plan file writes as text, such as a size or a duration. None if the file does not set it.
type Text = Option<Spanned<String>>;

/// Turns a parsed plan into a complete, checked [`Plan`] for this machine.
///
/// # Errors
/// A value is invalid. The error has the line and column if the value is in the plan's text, or the name of its flag.
pub fn resolve(written: &Written, over: &Overrides, words: &Vocabulary) -> Result<Plan, PlanError> {
    let scale = over.scale.or(written.file.scale).unwrap_or_default();
    let at_scale = written.file.scales.get(&scale).cloned().unwrap_or_default();
    Resolver { written, file: &written.file, scale, at_scale, over, words }.plan()
}

struct Resolver<'a> {
    written: &'a Written,
    file: &'a PlanFile,
    scale: Scale,
    /// The settings of the plan that apply only at `scale`.
    at_scale: ScaleFile,
    over: &'a Overrides,
    words: &'a Vocabulary,
}

impl Resolver<'_> {
    fn plan(&self) -> Result<Plan, PlanError> {
        let (file, stored) = (self.file, self.written.stored.as_ref());
        if file.name.get_ref().is_empty() || file.name.get_ref().contains(['/', '\n', '\0']) {
            return self
                .bad(file.name.span(), "the name becomes part of a directory's: one word without `/`");
        }
        let written_seed = file.seed.as_ref().map(|seed| *seed.get_ref());
        let (factors, without_options) = self.factors()?;
        let omitted = without_options.into_iter().chain(self.settings_without_use()).collect();
        let [name, title, question] = self
            .words_of_workload()
            .unwrap_or_else(|| [file.name.get_ref().clone(), file.title.clone(), file.question.clone()]);
        let mut plan = Plan {
            name,
            title,
            question,
            scale: self.scale,
            // TOML's whole numbers end at 2^63 - 1, and the resolved plan is TOML.
            seed: self.over.seed.or(written_seed).unwrap_or(self.over.fresh_seed) & (u64::MAX >> 1),
            claims: vec![],
            stage: stored.and_then(|plan| plan.stage.clone()),
            factors,
            vary: self.vary()?,
            baseline: None,
            omitted: stored.map_or(omitted, |plan| plan.omitted.clone()),
            device: self.device()?,
            age: self.age()?,
            stop: self.stop()?,
            idle: self.idle()?,
            variants: self.variants()?,
            workloads: self.workloads()?,
        };
        self.check_variants(&plan)?;
        if self.uses_default_rounds() {
            plan.stop.rounds = (self.words.rounds)(&plan).min(plan.stop.rounds);
        }
        plan.claims = claims::resolve(self.written, self.over, &plan, self.words)?;
        self.check_gate(&plan)?;
        Ok(plan)
    }

    /// Checks that a gate has claims, and no more than its bounds allow.
    fn check_gate(&self, plan: &Plan) -> Result<(), PlanError> {
        let message = match plan.gate().len() {
            _ if !plan.stop.gate => return Ok(()),
            1..=MOST_GATE_CLAIMS => return Ok(()),
            0 => "a gate needs a claim such as `total.elapsed: candidate <= baseline within 1%`".into(),
            claims => format!("a gate has at most {MOST_GATE_CLAIMS} claims, and this one has {claims}"),
        };
        match &self.file.stop.gate {
            Some(gate) => self.bad(gate.span(), message),
            None => Err(PlanError::in_setting("max_slowdown", message)),
        }
    }

    /// Fails with an error at a byte range of the plan's text.
    fn bad<T>(&self, span: Range<usize>, message: impl Into<String>) -> Result<T, PlanError> {
        Err(PlanError::at(&self.written.origin, &self.written.text, span, message))
    }

    /// An error of the plan as a whole.
    fn fault(&self, message: impl Into<String>) -> PlanError {
        PlanError::without_position(&self.written.origin, message)
    }

    fn device(&self) -> Result<DevicePlan, PlanError> {
        let (device, over) = (&self.file.device, self.over);
        if let Some(name) = &device.other_fs
            && let Some(message) = self.level_fault(factor::FS, name.get_ref())
        {
            return self.bad(name.span(), message);
        }
        Ok(DevicePlan {
            backing: over.backing.clone().unwrap_or(Backing::Loop { path: over.images.clone() }),
            size: over.size.or(self.device_size(&device.size)?),
            direct_io: device.direct_io.unwrap_or(true),
            discard: device.discard.unwrap_or(false),
            precondition: over.precondition || device.precondition.unwrap_or(false),
            other_fs: device.other_fs.as_ref().map_or("ext4".into(), |name| name.get_ref().clone()),
            other_dir: over.other_dir.clone(),
            other_device: over.other_device.clone(),
        })
    }

    fn age(&self) -> Result<AgePlan, PlanError> {
        let (age, over, plain) = (&self.file.age, self.over, AgePlan::default());
        let images = over.age_images.or(self.within(age.images.as_ref(), limits::images)?);
        let repository = over.repository.clone().or_else(|| age.repository.clone());
        Ok(AgePlan { images: images.unwrap_or(plain.images), repository })
    }

    fn idle(&self) -> Result<IdlePlan, PlanError> {
        let idle = &self.file.idle;
        let pressure = self.within(idle.io_pressure_percent.as_ref(), limits::share)?;
        Ok(IdlePlan {
            timeout_s: self.duration(&idle.timeout)?.unwrap_or(5.0),
            dirty: self.size(&idle.dirty)?.unwrap_or(ByteSize::mib(4)),
            io_pressure_percent: pressure.unwrap_or(10.0),
        })
    }

    fn device_size(&self, text: &Text) -> Result<Option<ByteSize>, PlanError> {
        let at = text.as_ref().zip(self.size(text)?).map(|(text, size)| Spanned::new(text.span(), size));
        self.within(at.as_ref(), limits::size)
    }

    fn size(&self, text: &Text) -> Result<Option<ByteSize>, PlanError> {
        self.read(text, |text| text.parse().ok(), "size", "write it like \"2GiB\"")
    }

    /// Checks a value of the plan against its limit. None if the plan does not set it.
    fn within<T: Copy>(
        &self,
        value: Option<&Spanned<T>>,
        limit: fn(T) -> Result<T, String>,
    ) -> Result<Option<T>, PlanError> {
        let Some(value) = value else { return Ok(None) };
        limit(*value.get_ref()).map(Some).or_else(|fault| self.bad(value.span(), fault))
    }

    fn duration(&self, text: &Text) -> Result<Option<f64>, PlanError> {
        let parse = |text: &str| humantime::parse_duration(text).ok().map(|time| time.as_secs_f64());
        let parsed = self.read(text, parse, "time", "write it like \"150s\" or \"10m\"")?;
        let at = text.as_ref().zip(parsed).map(|(text, seconds)| Spanned::new(text.span(), seconds));
        self.within(at.as_ref(), limits::seconds)
    }

    /// Parses a text of the plan. None if the plan does not set it. If `parse` returns None, the error names the value with
    /// `what`, and shows how to write it with `how`.
    fn read<T>(
        &self,
        text: &Text,
        parse: impl Fn(&str) -> Option<T>,
        what: &str,
        how: &str,
    ) -> Result<Option<T>, PlanError> {
        let Some(text) = text else { return Ok(None) };
        match parse(text.get_ref()) {
            Some(value) => Ok(Some(value)),
            None => self.bad(text.span(), format!("cannot read the {what} `{}`; {how}", text.get_ref())),
        }
    }
}

/// What to do about a filesystem that fsarena cannot make.
const ELSEWHERE: &str = "For any other, run its mkfs and mount yourself, and compare its directory with \
                         one of another filesystem, --on dir:PATH --on dir:PATH";

/// Levels of factors by the names of the factors.
type Levels = BTreeMap<String, Vec<String>>;

impl Resolver<'_> {
    /// Returns the factors with their levels, and a sentence about filesystems that were left out because they lack one of
    /// the option sets.
    fn factors(&self) -> Result<(Levels, Option<String>), PlanError> {
        let (mut factors, mut left_out) = (BTreeMap::new(), None);
        for (key, value) in self.file.factors.iter().chain(&self.at_scale.factors) {
            let id = self.factor_name(key)?;
            let levels = self.level_list(value)?;
            factors.insert(id.to_string(), self.checked_levels(id, levels, &|m| self.bad(value.span(), m))?);
        }
        for (id, levels) in &self.over.factors {
            factor::check_name(id, &self.words.factors)
                .map_err(|unknown| PlanError::in_setting("factor", unknown))?;
            let levels = self.checked_levels(id, levels.clone(), &|m| Err(PlanError::in_setting(id, m)))?;
            factors.insert(id.clone(), levels);
        }
        if matches!(self.over.backing, Some(Backing::Dir)) {
            // Directories are used as they are: fsarena makes no filesystem there.
            factors.retain(|id, _| factor::OF_DIRECTORIES.contains(&id.as_str()));
        } else if !self.takes_named() {
            factors.entry(factor::FS.into()).or_insert_with(|| self.words.available.clone());
            factors.entry(factor::OPTIONS.into()).or_insert_with(|| vec!["default".into()]);
            if factors.get(factor::FS) == Some(&self.words.available) {
                left_out = self.leave_out_without_options(&mut factors);
            }
        }
        Ok((factors, left_out))
    }

    /// Removes the filesystems that lack one of the option sets, unless that would remove all of them. Returns a sentence
    /// that names them.
    fn leave_out_without_options(&self, factors: &mut Levels) -> Option<String> {
        let sets = factors.get(factor::OPTIONS).cloned().unwrap_or_default();
        let has_all = |fs: &String| {
            let known = self.words.filesystems.iter().find(|(id, _)| id == fs);
            known.is_none_or(|(_, known)| sets.iter().all(|set| known.contains(set)))
        };
        let levels = factors.get_mut(factor::FS).filter(|levels| levels.iter().any(has_all))?;
        let names: Vec<String> = levels.extract_if(.., |fs| !has_all(fs)).collect();
        let sets = sets.join(" or ");
        (!names.is_empty())
            .then(|| format!("not compared, without the option set {sets}: {}", names.join(", ")))
    }

    pub(super) fn factor_name<'b>(&self, key: &'b Spanned<String>) -> Result<&'b str, PlanError> {
        let id = key.get_ref().as_str();
        factor::check_name(id, &self.words.factors).or_else(|unknown| self.bad(key.span(), unknown))?;
        Ok(id)
    }

    pub(super) fn level_list(&self, value: &Spanned<toml::Value>) -> Result<Vec<String>, PlanError> {
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
                return bad(format!("level `{level}` is given twice"));
            }
            if let Some(message) = self.level_fault(id, level) {
                return bad(message);
            }
        }
        Ok(levels)
    }

    /// What is wrong with one level of a factor; None if it is valid.
    pub(super) fn level_fault(&self, id: &str, level: &str) -> Option<String> {
        let names = || self.words.filesystems.iter().map(|(id, _)| id.as_str());
        if level.contains('\0') {
            return Some("options and paths cannot contain a NUL byte".into());
        }
        if let Some(setting) = id.strip_prefix(factor::SETTING) {
            return self.setting_fault(setting, level);
        }
        match id {
            factor::FS if !names().any(|name| name == level) => {
                Some(format!("{}. {ELSEWHERE}", unknown("filesystem", level, names())))
            }
            factor::OPTIONS => {
                let sets =
                    || self.words.filesystems.iter().flat_map(|(_, sets)| sets.iter().map(String::as_str));
                (!sets().any(|set| set == level)).then(|| unknown("option set", level, sets()).into())
            }
            _ => factor::named(id, &self.words.factors).ok().and_then(|def| (def.check)(level).err()),
        }
    }
}

impl Resolver<'_> {
    /// The variants that the plan names one by one, varied by the factors of the scale and the command line. Empty if the
    /// variants are the product of the factors instead.
    fn variants(&self) -> Result<Vec<Variant>, PlanError> {
        if matches!(self.over.backing, Some(Backing::Dir)) || !self.takes_named() {
            return Ok(vec![]);
        }
        let variants = self.file.variants.iter().filter_map(|pairs| self.variant(pairs).transpose());
        let mut variants = variants.collect::<Result<Vec<_>, _>>()?;
        // Variants that differ in something else, such as the kernel, take the filesystem of the flag.
        let name_fs = variants.iter().any(|variant| variant.levels.contains_key(factor::FS));
        if name_fs {
            variants = self.select_by_fs(variants)?;
        }
        let mut varied = BTreeMap::new();
        for (key, value) in &self.at_scale.factors {
            varied.insert(key.get_ref().clone(), self.level_list(value)?);
        }
        varied.extend(self.over.factors.iter().filter(|(id, _)| id != factor::FS || !name_fs).cloned());
        let varied = factor::in_order(varied.into_iter().collect(), |(id, _)| id);
        let variants =
            varied.into_iter().fold(variants, |variants, (id, levels)| matrix::vary(variants, &id, &levels));
        // The variants of a stored plan include those of its own levels.
        let asked = self.written.stored.is_some() && self.over.vary.is_empty();
        Ok(if asked { variants } else { one_at_a_time::expand(variants, &self.vary()?) })
    }

    /// The levels that are compared one at a time: those of the command line, instead of the plan's for that factor.
    fn vary(&self) -> Result<Levels, PlanError> {
        let mut vary = Levels::new();
        for (key, value) in &self.file.vary {
            let id = self.factor_name(key)?;
            let levels = self.level_list(value)?;
            vary.insert(id.to_string(), self.checked_levels(id, levels, &|m| self.bad(value.span(), m))?);
        }
        for (id, levels) in &self.over.vary {
            factor::check_name(id, &self.words.factors)
                .map_err(|unknown| PlanError::in_setting("vary", unknown))?;
            let origin = setting("vary", id);
            let levels =
                self.checked_levels(id, levels.clone(), &|m| Err(PlanError::without_position(&origin, m)))?;
            vary.insert(id.clone(), levels);
        }
        if matches!(self.over.backing, Some(Backing::Dir)) {
            vary.retain(|id, _| factor::OF_DIRECTORIES.contains(&id.as_str()));
        }
        Ok(vary)
    }

    /// Whether the run uses the variants that the plan names one by one. With `--fs`, it does so only if each of them has
    /// another filesystem: then the flag selects some of them. Otherwise the flag replaces them.
    fn takes_named(&self) -> bool {
        let mut seen = BTreeSet::new();
        let fs = |pairs: &Pairs| {
            let level = pairs.iter().find(|(key, _)| key.get_ref() == factor::FS);
            level.and_then(|(_, level)| level.get_ref().as_str().map(String::from))
        };
        let distinct = self.file.variants.iter().filter_map(fs).all(|level| seen.insert(level));
        let has_flag = self.over.factors.iter().any(|(id, _)| id == factor::FS);
        !self.file.variants.is_empty() && (distinct || !has_flag)
    }

    /// Keeps the variants whose filesystem `--fs` names; all of them without the flag.
    fn select_by_fs(&self, mut variants: Vec<Variant>) -> Result<Vec<Variant>, PlanError> {
        let flag = self.over.factors.iter().find(|(id, _)| id == factor::FS);
        let Some((_, levels)) = flag.filter(|_| !variants.is_empty()) else { return Ok(variants) };
        if let Some(level) =
            levels.iter().find(|level| variants.iter().all(|variant| variant.level(factor::FS) != **level))
        {
            let known: Vec<&str> = variants.iter().map(|variant| variant.level(factor::FS)).collect();
            let message = format!(
                "this plan names its variants, and none of them here is {level}: {}",
                known.join(", ")
            );
            return Err(PlanError::in_setting("fs", message));
        }
        variants.retain(|variant| levels.iter().any(|level| level == variant.level(factor::FS)));
        Ok(variants)
    }

    /// Reads one variant of the plan. None if it is optional and this machine cannot make its filesystem.
    fn variant(&self, pairs: &Pairs) -> Result<Option<Variant>, PlanError> {
        let mut variant = Variant { name: String::new(), levels: BTreeMap::new() };
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
                return self.bad(value.span(), "a variant has one level of each factor");
            }
            let level = levels.remove(0);
            if key.get_ref() == "name" {
                variant.name = level;
                continue;
            }
            let id = self.factor_name(key)?;
            if let Some(message) = self.level_fault(id, &level) {
                return self.bad(value.span(), message);
            }
            variant.levels.insert(id.to_string(), level);
        }
        if variant.name.is_empty() {
            let levels = variant.levels.values().map(String::as_str).filter(|level| !level.is_empty());
            variant.name = levels.collect::<Vec<_>>().join("/");
        }
        let available = self.words.available.iter().any(|fs| fs == variant.level(factor::FS));
        if available || !optional { Ok(Some(variant)) } else { Ok(None) }
    }

    /// Checks the number of variants, and that each has its own name.
    fn check_variants(&self, plan: &Plan) -> Result<(), PlanError> {
        if let Some(fault) = matrix::fault(plan) {
            return Err(self.fault(fault));
        }
        let mut seen = BTreeSet::new();
        let variants = matrix::expand(plan);
        if let Some(fault) = one_at_a_time::fault(&variants, &plan.vary) {
            return Err(self.fault(fault));
        }
        match variants.iter().find(|variant| !seen.insert(&variant.name)) {
            Some(variant) => Err(self.fault(format!("two variants are both called `{}`", variant.name))),
            None => Ok(()),
        }
    }
}
