//! Arms that a plan names.

use super::super::error::PlanError;
use super::super::file::PlanFile;
use super::super::{Backing, Plan};
use super::{Pairs, Resolver};
use crate::cell::Arm;
use crate::factor;
use std::collections::{BTreeMap, BTreeSet};

impl Resolver<'_> {
    pub(super) fn arms(&self, file: &PlanFile) -> Result<Vec<Arm>, PlanError> {
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

    pub(super) fn arm_names_differ(&self, plan: &Plan) -> Result<(), PlanError> {
        let mut seen = BTreeSet::new();
        let arms = crate::matrix::expand(plan);
        match arms.iter().find(|arm| !seen.insert(&arm.name)) {
            Some(arm) => {
                Err(PlanError::flag(self.origin, format!("two arms are both called `{}`", arm.name)))
            }
            None => Ok(()),
        }
    }
}
