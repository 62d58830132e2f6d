//! Factors and their levels.

use super::Resolver;
use crate::{factor, names::unknown, plan::Backing, plan::error::PlanError};
use std::collections::{BTreeMap, BTreeSet};
use toml::Spanned;

/// The way out for a filesystem that fsarena does not make.
const ELSEWHERE: &str = "Any other filesystem needs its own mkfs and mount: set it up yourself, and compare its directory with \
                         one of another filesystem, --on dir:PATH --on dir:PATH";

/// Levels of factors by the names of the factors.
type Levels = BTreeMap<String, Vec<String>>;

impl Resolver<'_> {
    /// The factors with their levels, and which filesystems are left out because they lack an option set.
    pub(super) fn factors(&self) -> Result<(Levels, Option<String>), PlanError> {
        let (mut factors, mut left_out) = (BTreeMap::new(), None);
        for (key, value) in self.file.factors.iter().chain(&self.at_scale.factors) {
            let id = self.factor_name(key)?;
            let levels = self.level_list(value)?;
            factors.insert(id.to_string(), self.checked_levels(id, levels, &|m| self.bad(value.span(), m))?);
        }
        for (id, levels) in &self.over.factors {
            let flag = format!("--{id}");
            factor::check_name(id, &self.words.factors)
                .map_err(|unknown| PlanError::flag("--factor", unknown))?;
            let levels = self.checked_levels(id, levels.clone(), &|m| Err(PlanError::flag(&flag, m)))?;
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

    /// Without `--fs`, drops the filesystems that lack one of the option sets.
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

    /// The fault of one level of a factor.
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
