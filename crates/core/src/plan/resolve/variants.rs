//! Variants that a plan names.

use super::Resolver;
use crate::plan::{Backing, Plan};
use crate::{cell::Variant, factor, matrix, plan::error::PlanError, plan::file::Pairs};
use std::collections::{BTreeMap, BTreeSet};

impl Resolver<'_> {
    pub(super) fn variants(&self) -> Result<Vec<Variant>, PlanError> {
        if matches!(self.over.backing, Some(Backing::Dir)) || !self.takes_named() {
            return Ok(vec![]);
        }
        let variants = self.file.variants.iter().filter_map(|pairs| self.variant(pairs).transpose());
        let variants = self.wanted(variants.collect::<Result<_, _>>()?)?;
        let mut varied = BTreeMap::new();
        for (key, value) in &self.at_scale.factors {
            varied.insert(key.get_ref().clone(), self.level_list(value)?);
        }
        varied.extend(self.over.factors.iter().filter(|(id, _)| id != factor::FS).cloned());
        let varied = factor::in_order(varied.into_iter().collect(), |(id, _)| id);
        Ok(varied.into_iter().fold(variants, |variants, (id, levels)| matrix::vary(variants, &id, &levels)))
    }

    /// Whether the variants that a plan names are those of the run: `--fs` replaces variants that differ in something
    /// else than their filesystems, and takes a choice of the others.
    pub(super) fn takes_named(&self) -> bool {
        let mut seen = BTreeSet::new();
        let fs = |pairs: &Pairs| {
            let level = pairs.iter().find(|(key, _)| key.get_ref() == factor::FS);
            level.and_then(|(_, level)| level.get_ref().as_str().map(String::from))
        };
        let distinct = self.file.variants.iter().filter_map(fs).all(|level| seen.insert(level));
        let asked = self.over.factors.iter().any(|(id, _)| id == factor::FS);
        !self.file.variants.is_empty() && (distinct || !asked)
    }

    /// `--fs` takes a choice of the variants that a plan names.
    fn wanted(&self, mut variants: Vec<Variant>) -> Result<Vec<Variant>, PlanError> {
        let asked = self.over.factors.iter().find(|(id, _)| id == factor::FS);
        let Some((_, levels)) = asked.filter(|_| !variants.is_empty()) else { return Ok(variants) };
        if let Some(level) =
            levels.iter().find(|level| variants.iter().all(|variant| variant.level(factor::FS) != **level))
        {
            let known: Vec<&str> = variants.iter().map(|variant| variant.level(factor::FS)).collect();
            let message = format!(
                "this plan names its variants, and none of them here is {level}: {}",
                known.join(", ")
            );
            return Err(PlanError::flag("--fs", message));
        }
        variants.retain(|variant| levels.iter().any(|level| level == variant.level(factor::FS)));
        Ok(variants)
    }

    /// A variant; none where it is optional and this machine cannot make its filesystem.
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
        let here = self.words.available.iter().any(|fs| fs == variant.level(factor::FS));
        Ok(Some(variant).filter(|_| here || !optional))
    }

    pub(super) fn variant_names_differ(&self, plan: &Plan) -> Result<(), PlanError> {
        if let Some(fault) = matrix::fault(plan) {
            return Err(self.fault(fault));
        }
        let mut seen = BTreeSet::new();
        let variants = matrix::expand(plan);
        match variants.iter().find(|variant| !seen.insert(&variant.name)) {
            Some(variant) => Err(self.fault(format!("two variants are both called `{}`", variant.name))),
            None => Ok(()),
        }
    }
}
