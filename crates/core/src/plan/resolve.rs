//! Resolves a parsed plan: applies defaults and the command line, and checks everything.

mod stop;
mod workloads;

use super::error::PlanError;
use super::file::{PlanFile, ScaleTable};
pub use super::overrides::{Overrides, Vocabulary};
use super::{AgePlan, Backing, DevicePlan, IdlePlan, ParsedPlan, Plan, claims, limits};
use crate::cell::{TaskInfo, Variant};
use crate::names::{distinct, unknown_name};
use crate::plan::file::Pairs;
use crate::scale::Scale;
use crate::setting::parse_size_or_zero;
use crate::setting_text::setting;
use crate::{factor, matrix, matrix::LevelsByFactor};
use bytesize::ByteSize;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use toml::Spanned;

/// A value that a plan file writes as text, such as a size or a duration. None if the file does not set it.
type WrittenText = Option<Spanned<String>>;

/// Turns a parsed plan into a complete, checked [`Plan`] for this machine.
///
/// # Errors
/// A value is invalid. The error has the line and column if the value is in the plan's text, or the name of its setting.
pub fn resolve(parsed: &ParsedPlan, overrides: &Overrides, vocabulary: &Vocabulary) -> Result<Plan, PlanError> {
    let scale = overrides.scale.or(parsed.file.scale).unwrap_or_default();
    let at_scale = parsed.file.scales.get(&scale).cloned().unwrap_or_default();
    Resolver { parsed, file: &parsed.file, scale, at_scale, overrides, vocabulary }.resolve_plan()
}

/// The inputs of a resolution; its methods resolve the parts of the plan.
struct Resolver<'a> {
    parsed: &'a ParsedPlan,
    file: &'a PlanFile,
    scale: Scale,
    /// The settings of the plan that apply only at `scale`.
    at_scale: ScaleTable,
    overrides: &'a Overrides,
    vocabulary: &'a Vocabulary,
}

impl Resolver<'_> {
    fn resolve_plan(&self) -> Result<Plan, PlanError> {
        let (file, stored) = (self.file, self.parsed.stored.as_ref());
        if file.name.get_ref().is_empty() || file.name.get_ref().contains(['/', '\n', '\0']) {
            let message = "write a name without `/` or line break: it becomes part of the name of a directory";
            return self.fail_at(file.name.span(), message);
        }
        let seed_of_plan = file.seed.as_ref().map(|seed| *seed.get_ref());
        let (factors, omission) = self.resolve_factors()?;
        let omitted = omission.into_iter().chain(self.unused_settings()).collect();
        let [name, title, question] = self
            .headings_of_replaced_workload()
            .unwrap_or_else(|| [file.name.get_ref().clone(), file.title.clone(), file.question.clone()]);
        let mut plan = Plan {
            name,
            title,
            question,
            scale: self.scale,
            // TOML's whole numbers end at 2^63 - 1, and the resolved plan is TOML.
            seed: self.overrides.seed.or(seed_of_plan).unwrap_or(self.overrides.fresh_seed) & (u64::MAX >> 1),
            claims: vec![],
            stage: stored.and_then(|plan| plan.stage.clone()),
            factors,
            vary: self.resolve_vary()?,
            baseline: None,
            omitted: stored.map_or(omitted, |plan| plan.omitted.clone()),
            device: self.resolve_device()?,
            age: self.resolve_age()?,
            stop: self.resolve_stop()?,
            idle: self.resolve_idle()?,
            variants: self.resolve_variants()?,
            workloads: self.resolve_workloads()?,
        };
        self.check_variants(&plan)?;
        if self.uses_default_rounds() {
            plan.stop.rounds = (self.vocabulary.default_rounds)(&plan).min(plan.stop.rounds);
        }
        let tasks = (self.vocabulary.list_tasks)(&plan);
        self.check_tasks(&tasks)?;
        plan.claims = claims::resolve_claims(self.parsed, self.overrides, &plan, tasks, self.vocabulary)?;
        self.check_gate(&plan)?;
        Ok(plan)
    }

    /// Checks that a gate has claims.
    fn check_gate(&self, plan: &Plan) -> Result<(), PlanError> {
        if !plan.stop.has_gate || !plan.gate_claims().is_empty() {
            return Ok(());
        }
        let message = "a gate needs a claim such as `total.elapsed: candidate <= baseline within 1%`";
        match &self.file.stop.gate {
            Some(gate) => self.fail_at(gate.span(), message),
            None => Err(PlanError::in_setting("max_slowdown", message)),
        }
    }

    /// An error at a byte range of the plan's text.
    fn error_at(&self, span: Range<usize>, message: impl Into<String>) -> PlanError {
        PlanError::at_span(&self.parsed.origin, &self.parsed.text, span, message)
    }

    /// Fails with an error at a byte range of the plan's text.
    fn fail_at<T>(&self, span: Range<usize>, message: impl Into<String>) -> Result<T, PlanError> {
        Err(self.error_at(span, message))
    }

    /// An error of the plan as a whole.
    fn error_of_plan(&self, message: impl Into<String>) -> PlanError {
        PlanError::without_position(&self.parsed.origin, message)
    }

    fn resolve_device(&self) -> Result<DevicePlan, PlanError> {
        let (device, overrides) = (&self.file.device, self.overrides);
        if let Some(name) = &device.other_fs {
            self.check_level(factor::FS, name.get_ref()).map_err(|message| self.error_at(name.span(), message))?;
        }
        Ok(DevicePlan {
            backing: overrides.backing.clone().unwrap_or(Backing::Loop { path: overrides.images_dir.clone() }),
            size: overrides.size.or(self.parse_device_size(&device.size)?),
            direct_io: device.direct_io.unwrap_or(true),
            discard: device.discard.unwrap_or(false),
            precondition: overrides.precondition || device.precondition.unwrap_or(false),
            other_fs: device.other_fs.as_ref().map_or("ext4".into(), |name| name.get_ref().clone()),
            source_dir: overrides.source_dir.clone(),
            source_device: overrides.source_device.clone(),
        })
    }

    fn resolve_age(&self) -> Result<AgePlan, PlanError> {
        let (age, overrides) = (&self.file.age, self.overrides);
        let images = overrides.age_images.or(self.check_limit(age.images.as_ref(), limits::check_images)?);
        let repository = overrides.repository.clone().or_else(|| age.repository.clone());
        Ok(AgePlan { images: images.unwrap_or(AgePlan::default().images), repository })
    }

    fn resolve_idle(&self) -> Result<IdlePlan, PlanError> {
        let idle = &self.file.idle;
        let pressure = self.check_limit(idle.io_pressure_percent.as_ref(), limits::check_percentage)?;
        Ok(IdlePlan {
            timeout_s: self.parse_duration(&idle.timeout)?.unwrap_or(5.0),
            dirty: self.parse_size(&idle.dirty)?.unwrap_or(ByteSize::mib(4)),
            io_pressure_percent: pressure.unwrap_or(10.0),
        })
    }

    fn parse_device_size(&self, text: &WrittenText) -> Result<Option<ByteSize>, PlanError> {
        let size = text.as_ref().zip(self.parse_size(text)?).map(|(text, size)| Spanned::new(text.span(), size));
        self.check_limit(size.as_ref(), limits::check_size)
    }

    fn parse_size(&self, text: &WrittenText) -> Result<Option<ByteSize>, PlanError> {
        self.parse_text(text, parse_size_or_zero, "size", "write it like \"2GiB\"")
    }

    /// Checks a value of the plan's text against its limit. None if the plan does not set it.
    fn check_limit<T: Copy>(
        &self,
        value: Option<&Spanned<T>>,
        limit: fn(T) -> Result<T, String>,
    ) -> Result<Option<T>, PlanError> {
        let Some(value) = value else { return Ok(None) };
        limit(*value.get_ref()).map(Some).map_err(|message| self.error_at(value.span(), message))
    }

    fn parse_duration(&self, text: &WrittenText) -> Result<Option<f64>, PlanError> {
        let parse = |text: &str| humantime::parse_duration(text).ok().map(|time| time.as_secs_f64());
        let parsed = self.parse_text(text, parse, "time", "write it like \"150s\" or \"10m\"")?;
        let seconds = text.as_ref().zip(parsed).map(|(text, seconds)| Spanned::new(text.span(), seconds));
        self.check_limit(seconds.as_ref(), limits::check_seconds)
    }

    /// Parses a value that the plan writes as text. None if the plan does not set it. If `parse` returns None, the error says
    /// what the value is (`noun`) and how to write it (`syntax`).
    fn parse_text<T>(
        &self,
        text: &WrittenText,
        parse: impl Fn(&str) -> Option<T>,
        noun: &str,
        syntax: &str,
    ) -> Result<Option<T>, PlanError> {
        let Some(text) = text else { return Ok(None) };
        match parse(text.get_ref()) {
            Some(value) => Ok(Some(value)),
            None => self.fail_at(text.span(), format!("cannot read the {noun} `{}`; {syntax}", text.get_ref())),
        }
    }
}

impl Resolver<'_> {
    /// Whether the run compares existing directories. fsarena uses them as they are and makes no filesystem there.
    fn uses_directories(&self) -> bool {
        matches!(self.overrides.backing, Some(Backing::Dir))
    }

    /// Returns the factors with their levels, and a sentence about what was left out: filesystems that lack one of the option
    /// sets, or settings that vary in the plan but not in existing directories.
    fn resolve_factors(&self) -> Result<(LevelsByFactor, Option<String>), PlanError> {
        let written = self.file.factors.iter().chain(&self.at_scale.factors);
        let mut factors = self.levels(written, &self.overrides.factors, "factor", |id| setting(id, ""))?;
        if self.uses_directories() {
            return Ok((factors, self.settings_not_varied()));
        }
        if self.uses_named_variants() {
            return Ok((factors, None));
        }
        let available = &self.vocabulary.available_filesystems;
        factors.entry(factor::FS.into()).or_insert_with(|| available.clone());
        factors.entry(factor::OPTIONS.into()).or_insert_with(|| vec!["default".into()]);
        let omission = if factors.get(factor::FS) == Some(available) {
            self.remove_filesystems_without_options(&mut factors)
        } else {
            None
        };
        Ok((factors, omission))
    }

    /// A sentence about the settings that the plan varies and existing directories do not; None if there are none.
    fn settings_not_varied(&self) -> Option<String> {
        let (file, at_scale) = (self.file, &self.at_scale);
        let ids = file.factors.keys().chain(at_scale.factors.keys()).chain(file.vary.keys());
        let ids = ids.map(|id| id.get_ref().as_str());
        let ids: BTreeSet<&str> = ids.filter(|id| id.starts_with(factor::SETTING_PREFIX)).collect();
        let names = ids.into_iter().collect::<Vec<_>>().join(", ");
        (!names.is_empty()).then(|| format!("not varied in existing directories: {names}"))
    }

    /// The levels that are compared one at a time. If the command line names a factor, its levels replace the plan's.
    fn resolve_vary(&self) -> Result<LevelsByFactor, PlanError> {
        self.levels(self.file.vary.iter(), &self.overrides.vary, "vary", |id| setting("vary", id))
    }

    /// The levels of factors in the plan's text (`written`). If the command line names a factor, its levels replace the plan's.
    /// Errors name the setting with an unknown factor `setting_name`, and the setting with an invalid level `origin(factor)`.
    fn levels<'b>(
        &self,
        written: impl Iterator<Item = (&'b Spanned<String>, &'b Spanned<toml::Value>)>,
        overrides: &[(String, Vec<String>)],
        setting_name: &str,
        origin: fn(&str) -> String,
    ) -> Result<LevelsByFactor, PlanError> {
        let mut levels_by_factor = LevelsByFactor::new();
        for (key, value) in written {
            let id = self.check_factor_name(key)?;
            let levels = self.checked_levels(id, self.read_levels(value)?);
            levels_by_factor.insert(id.to_string(), levels.map_err(|message| self.error_at(value.span(), message))?);
        }
        for (id, levels) in overrides {
            factor::check_name(id, &self.vocabulary.factors)
                .map_err(|unknown| PlanError::in_setting(setting_name, unknown))?;
            let levels = self.checked_levels(id, levels.clone());
            levels_by_factor
                .insert(id.clone(), levels.map_err(|message| PlanError::without_position(&origin(id), message))?);
        }
        if self.uses_directories() {
            levels_by_factor.retain(|id, _| factor::DIRECTORY_FACTORS.contains(&id.as_str()));
        }
        Ok(levels_by_factor)
    }

    /// Removes the filesystems that lack one of the option sets, unless that would remove all of them. Returns a sentence
    /// that names them.
    fn remove_filesystems_without_options(&self, factors: &mut LevelsByFactor) -> Option<String> {
        let sets = factors.get(factor::OPTIONS).cloned().unwrap_or_default();
        let has_all = |fs: &String| {
            let def = self.vocabulary.filesystems.iter().find(|(id, _)| id == fs);
            def.is_none_or(|(_, known_sets)| sets.iter().all(|set| known_sets.contains(set)))
        };
        let levels = factors.get_mut(factor::FS).filter(|levels| levels.iter().any(has_all))?;
        let names: Vec<String> = levels.extract_if(.., |fs| !has_all(fs)).collect();
        let sets = sets.join(" or ");
        (!names.is_empty()).then(|| format!("not compared, without the option set {sets}: {}", names.join(", ")))
    }

    pub(super) fn check_factor_name<'b>(&self, key: &'b Spanned<String>) -> Result<&'b str, PlanError> {
        let id = key.get_ref().as_str();
        factor::check_name(id, &self.vocabulary.factors).or_else(|unknown| self.fail_at(key.span(), unknown))?;
        Ok(id)
    }

    pub(super) fn read_levels(&self, value: &Spanned<toml::Value>) -> Result<Vec<String>, PlanError> {
        let read_level = |value: &toml::Value| match value {
            toml::Value::String(text) => Some(text.clone()),
            toml::Value::Integer(number) => Some(number.to_string()),
            _ => None,
        };
        let levels = match value.get_ref() {
            toml::Value::Array(levels) => levels.iter().map(read_level).collect::<Option<Vec<_>>>(),
            level => read_level(level).map(|level| vec![level]),
        };
        match levels {
            Some(levels) if !levels.is_empty() => Ok(levels),
            Some(_) => self.fail_at(value.span(), "a factor needs at least one level"),
            None => self.fail_at(value.span(), "levels are text or whole numbers, or a list of them"),
        }
    }

    /// Checks the levels of a factor, and replaces `fs = "available"` by the filesystems of this machine.
    fn checked_levels(&self, id: &str, levels: Vec<String>) -> Result<Vec<String>, String> {
        if id == factor::FS && levels == ["available"] {
            return Ok(self.vocabulary.available_filesystems.clone());
        }
        let mut distinct_levels = BTreeSet::new();
        for level in &levels {
            if !distinct_levels.insert(level) {
                return Err(format!("level `{level}` is given twice"));
            }
            self.check_level(id, level)?;
        }
        Ok(levels)
    }

    /// Checks one level of a factor.
    ///
    /// # Errors
    /// The level is invalid, or names something unknown.
    pub(super) fn check_level(&self, id: &str, level: &str) -> Result<(), String> {
        let names = || self.vocabulary.filesystems.iter().map(|(id, _)| id.as_str());
        if level.contains('\0') {
            return Err("options and paths cannot contain a NUL byte".into());
        }
        if let Some(setting) = id.strip_prefix(factor::SETTING_PREFIX) {
            return self.check_setting_level(setting, level);
        }
        match id {
            factor::FS if !names().any(|name| name == level) => {
                let directory = setting("on", "dir:PATH");
                Err(format!(
                    "{}. For any other, run its mkfs and mount yourself, and compare its directory with one of another \
                     filesystem, {directory} {directory}",
                    unknown_name("filesystem", level, names())
                ))
            }
            factor::OPTIONS => {
                let sets = || self.vocabulary.filesystems.iter().flat_map(|(_, sets)| sets.iter().map(String::as_str));
                if sets().any(|set| set == level) {
                    Ok(())
                } else {
                    Err(unknown_name("option set", level, sets()).into())
                }
            }
            _ => factor::find(id, &self.vocabulary.factors).map_or(Ok(()), |def| (def.check)(level)),
        }
    }
}

impl Resolver<'_> {
    /// The variants that the plan names one by one, varied by the factors of the scale and the command line. Empty if the
    /// variants are the product of the factors instead.
    fn resolve_variants(&self) -> Result<Vec<Variant>, PlanError> {
        if self.uses_directories() || !self.uses_named_variants() {
            return Ok(vec![]);
        }
        let variants = self.file.variants.iter().filter_map(|pairs| self.read_variant(pairs).transpose());
        let mut variants = variants.collect::<Result<Vec<_>, _>>()?;
        // Variants that differ in something else, such as the kernel, take the filesystem of the flag.
        let names_filesystems = variants.iter().any(|variant| variant.levels.contains_key(factor::FS));
        if names_filesystems {
            variants = self.select_by_fs(variants)?;
        }
        let mut overrides = self.overrides.factors.clone();
        overrides.retain(|(id, _)| id != factor::FS || !names_filesystems);
        let levels_by_factor = self.levels(self.at_scale.factors.iter(), &overrides, "factor", |id| setting(id, ""))?;
        let levels_by_factor = factor::sorted_for_names(levels_by_factor.into_iter().collect(), |(id, _)| id);
        let variants = levels_by_factor
            .into_iter()
            .fold(variants, |variants, (id, levels)| matrix::cross_with_levels(variants, &id, &levels));
        // The variants of a stored plan already include the variants for its levels of `vary`.
        let is_complete = self.parsed.stored.is_some() && self.overrides.vary.is_empty();
        Ok(if is_complete { variants } else { matrix::add_one_at_a_time(variants, &self.resolve_vary()?) })
    }

    /// Whether the run uses the variants that the plan names one by one. If the command line names filesystems, the run
    /// uses them only if each has a different filesystem: then the command line selects some of them. Otherwise the
    /// product of the factors replaces them.
    fn uses_named_variants(&self) -> bool {
        let mut distinct_filesystems = BTreeSet::new();
        let fs_of = |pairs: &Pairs| {
            let level = pairs.iter().find(|(key, _)| key.get_ref() == factor::FS);
            level.and_then(|(_, level)| level.get_ref().as_str().map(String::from))
        };
        let has_distinct_filesystems =
            self.file.variants.iter().filter_map(fs_of).all(|level| distinct_filesystems.insert(level));
        let names_filesystems = self.overrides.factors.iter().any(|(id, _)| id == factor::FS);
        !self.file.variants.is_empty() && (has_distinct_filesystems || !names_filesystems)
    }

    /// Keeps the variants whose filesystem the command line names; all of them if it names none.
    fn select_by_fs(&self, mut variants: Vec<Variant>) -> Result<Vec<Variant>, PlanError> {
        let selected = self.overrides.factors.iter().find(|(id, _)| id == factor::FS);
        let Some((_, levels)) = selected.filter(|_| !variants.is_empty()) else { return Ok(variants) };
        if let Some(level) =
            levels.iter().find(|level| variants.iter().all(|variant| variant.level(factor::FS) != **level))
        {
            let filesystems = distinct(variants.iter().map(|variant| variant.level(factor::FS)));
            let message =
                format!("this plan names its variants, and none of them here is {level}: {}", filesystems.join(", "));
            return Err(PlanError::in_setting("fs", message));
        }
        variants.retain(|variant| levels.iter().any(|level| level == variant.level(factor::FS)));
        Ok(variants)
    }

    /// Reads one variant of the plan. None if it is optional and this machine cannot make its filesystem.
    fn read_variant(&self, pairs: &Pairs) -> Result<Option<Variant>, PlanError> {
        let mut variant = Variant { name: String::new(), levels: BTreeMap::new() };
        let mut is_optional = false;
        for (key, value) in pairs {
            if key.get_ref() == "optional" {
                is_optional = match value.get_ref() {
                    toml::Value::Boolean(optional) => *optional,
                    _ => return self.fail_at(value.span(), "optional is true or false"),
                };
                continue;
            }
            let mut levels = self.read_levels(value)?;
            if levels.len() != 1 {
                return self.fail_at(value.span(), "a variant has one level of each factor");
            }
            let level = levels.remove(0);
            if key.get_ref() == "name" {
                variant.name = level;
                continue;
            }
            let id = self.check_factor_name(key)?;
            self.check_level(id, &level).map_err(|message| self.error_at(value.span(), message))?;
            variant.levels.insert(id.to_string(), level);
        }
        if variant.name.is_empty() {
            let levels = variant.levels.values().map(String::as_str).filter(|level| !level.is_empty());
            variant.name = levels.collect::<Vec<_>>().join("/");
        }
        let is_available = self.vocabulary.available_filesystems.iter().any(|fs| fs == variant.level(factor::FS));
        if is_available || !is_optional { Ok(Some(variant)) } else { Ok(None) }
    }

    /// Checks the number of variants, and that no two have the same name.
    fn check_variants(&self, plan: &Plan) -> Result<(), PlanError> {
        matrix::check_plan_size(plan).map_err(|message| self.error_of_plan(message))?;
        let variants = matrix::expand(plan);
        matrix::check_one_at_a_time(&variants, &plan.vary).map_err(|message| self.error_of_plan(message))?;
        let mut names = BTreeSet::new();
        match variants.iter().find(|variant| !names.insert(&variant.name)) {
            Some(variant) => Err(self.error_of_plan(format!("two variants are both called `{}`", variant.name))),
            None => Ok(()),
        }
    }

    /// Checks that no two tasks have the same id, because reports would mix their figures.
    fn check_tasks(&self, tasks: &[TaskInfo]) -> Result<(), PlanError> {
        let mut ids = BTreeSet::new();
        match tasks.iter().find(|task| !ids.insert(&task.id)) {
            Some(task) => Err(self.error_of_plan(format!(
                "two tasks have the name `{}`: reports would mix their figures. Give each task its own name. A plan has a \
                 workload once; values of its settings are a `[grid]`, or factors: `\"set.tree_files\" = [200, 400]`",
                task.id
            ))),
            None => Ok(()),
        }
    }
}
