//! Workloads and their settings, from the plan and from the command line.

use super::{Pairs, Resolver};
use crate::cell::WorkloadPlan;
use crate::plan::Backing;
use crate::plan::error::{PlanError, did_you_mean};
use crate::plan::file::PlanFile;
use crate::scale::Scale;
use crate::setting::{Settings, Value};
use std::collections::BTreeSet;

impl Resolver<'_> {
    pub(super) fn workloads(&self, file: &PlanFile, scale: Scale) -> Result<Vec<WorkloadPlan>, PlanError> {
        if file.workloads.is_empty() {
            return Err(PlanError::flag(self.origin, "the plan has no [[workload]]: nothing would be done"));
        }
        if self.over.workload.is_some() && file.workloads.len() > 1 {
            let message =
                format!("this plan has {} workloads, and takes no other for one", file.workloads.len());
            return Err(PlanError::flag("--workload", message));
        }
        let mut workloads =
            file.workloads.iter().map(|pairs| self.workload(pairs)).collect::<Result<Vec<_>, _>>()?;
        if let Some(at_scale) = file.scales.get(&scale) {
            self.set_at_scale(&mut workloads, &at_scale.set)?;
        }
        for (id, text) in &self.over.settings {
            self.set(&mut workloads, id, text)?;
        }
        if matches!(self.over.backing, Some(Backing::Guest(_))) {
            self.without_programs(&mut workloads)?;
        }
        Ok(workloads)
    }

    /// A guest has no programs but fsarena: all work is done by system calls there.
    fn without_programs(&self, workloads: &mut [WorkloadPlan]) -> Result<(), PlanError> {
        for id in ["driver", "engine"] {
            let asked = self.over.settings.iter().find(|(name, value)| name == id && value != "native");
            if let Some((_, value)) = asked {
                let message =
                    format!("a guest has no programs but fsarena: `native` works there, `{value}` does not");
                return Err(PlanError::flag(&format!("--set {id}"), message));
            }
            for setting in workloads.iter_mut().filter_map(|workload| workload.settings.0.get_mut(id)) {
                *setting = Value::Text("native".into());
            }
        }
        Ok(())
    }

    fn workload(&self, pairs: &Pairs) -> Result<WorkloadPlan, PlanError> {
        let Some((key, value)) = pairs.iter().find(|(key, _)| key.get_ref() == "use") else {
            let start = pairs.keys().map(|key| key.span().start).min().unwrap_or(0);
            return self.bad(start..start, "this [[workload]] does not say which: `use = \"coreutils\"`");
        };
        let Some(written) = value.get_ref().as_str() else {
            return self.bad(value.span(), "a workload's name is text");
        };
        let name = self.over.workload.as_deref().unwrap_or(written);
        let Some(def) = self.words.workloads.iter().find(|def| def.id == name) else {
            let known = self.words.workloads.iter().map(|def| def.id);
            let message = format!("`{name}` is no workload{}", did_you_mean(name, known));
            return match self.over.workload {
                Some(_) => Err(PlanError::flag("--workload", message)),
                None => self.bad(value.span(), message),
            };
        };
        let mut settings = Settings::defaults(def.settings);
        for (id, value) in pairs.iter().filter(|(id, _)| *id != key) {
            let Some(setting) = def.settings.iter().find(|setting| setting.id == id.get_ref()) else {
                let near = did_you_mean(id.get_ref(), def.settings.iter().map(|setting| setting.id));
                return self
                    .bad(id.span(), format!("workload {name} has no setting `{}`{near}", id.get_ref()));
            };
            match setting_value(value.get_ref()).filter(|value| setting.kind.accepts(value)) {
                Some(value) => settings.0.insert(setting.id.into(), value),
                None => return self.bad(value.span(), format!("`{}` is {}", setting.id, setting.kind)),
            };
        }
        Ok(WorkloadPlan { name: name.into(), settings })
    }

    /// `[scales.SCALE.set]` reaches every workload of the plan that has such a setting.
    fn set_at_scale(&self, workloads: &mut [WorkloadPlan], pairs: &Pairs) -> Result<(), PlanError> {
        for (id, value) in pairs {
            let mut known = BTreeSet::new();
            let mut found = false;
            for workload in workloads.iter_mut() {
                let Some(def) = self.words.workloads.iter().find(|def| def.id == workload.name) else {
                    continue;
                };
                known.extend(def.settings.iter().map(|setting| setting.id));
                let Some(setting) = def.settings.iter().find(|setting| setting.id == id.get_ref()) else {
                    continue;
                };
                match setting_value(value.get_ref()).filter(|value| setting.kind.accepts(value)) {
                    Some(value) => workload.settings.0.insert(setting.id.into(), value),
                    None => return self.bad(value.span(), format!("`{}` is {}", setting.id, setting.kind)),
                };
                found = true;
            }
            if !found {
                let near = did_you_mean(id.get_ref(), known);
                return self
                    .bad(id.span(), format!("no workload here has a setting `{}`{near}", id.get_ref()));
            }
        }
        Ok(())
    }

    /// `--set NAME=VALUE` reaches every workload of the plan that has such a setting.
    fn set(&self, workloads: &mut [WorkloadPlan], id: &str, text: &str) -> Result<(), PlanError> {
        let flag = format!("--set {id}");
        let mut known = BTreeSet::new();
        let mut found = false;
        for workload in workloads {
            let Some(def) = self.words.workloads.iter().find(|def| def.id == workload.name) else { continue };
            known.extend(def.settings.iter().map(|setting| setting.id));
            let Some(setting) = def.settings.iter().find(|setting| setting.id == id) else { continue };
            let wrong = || PlanError::flag(&flag, format!("`{text}` does not fit: it is {}", setting.kind));
            workload.settings.0.insert(id.into(), setting.kind.parse(text).ok_or_else(wrong)?);
            found = true;
        }
        match found {
            true => Ok(()),
            false => Err(PlanError::flag(
                &flag,
                format!("no workload here has such a setting{}", did_you_mean(id, known)),
            )),
        }
    }
}

fn setting_value(value: &toml::Value) -> Option<Value> {
    Some(match value {
        toml::Value::Boolean(value) => Value::Bool(*value),
        toml::Value::Integer(value) => Value::Int(*value),
        toml::Value::Float(value) => Value::Float(*value),
        toml::Value::String(value) => Value::Text(value.clone()),
        toml::Value::Array(values) => Value::List(values.iter().map(setting_value).collect::<Option<_>>()?),
        toml::Value::Datetime(_) | toml::Value::Table(_) => return None,
    })
}
