//! Resolves the workloads and their settings from the plan and the command line.

use super::Resolver;
use crate::names::unknown_name;
use crate::setting::{DRIVER_SETTINGS, SettingDef, SettingValue, Settings, WorkloadDef};
use crate::{cell::WorkloadPlan, plan::Backing, plan::error::PlanError, plan::file::Pairs};
use crate::{factor::SETTING_PREFIX, setting_grid};
use std::collections::{BTreeMap, BTreeSet};
use toml::Spanned;

impl Resolver<'_> {
    pub(super) fn resolve_workloads(&self) -> Result<Vec<WorkloadPlan>, PlanError> {
        if self.file.workloads.is_empty() {
            return Err(self.error_of_plan("the plan has no [[workload]]; add one: use = \"coreutils\""));
        }
        if self.overrides.workload.is_some() && self.file.workloads.len() > 1 {
            let count = self.file.workloads.len();
            let message = format!("replaces the only workload of a plan, and this plan has {count}");
            return Err(PlanError::in_setting("workload", message));
        }
        let workloads = self.file.workloads.iter().map(|pairs| self.read_workload(pairs));
        let mut workloads = workloads.collect::<Result<Vec<_>, _>>()?;
        self.set_at_scale(&mut workloads)?;
        for (id, text) in &self.overrides.settings {
            self.set_from_command_line(&mut workloads, id, text)?;
        }
        workloads = self.expand_grids(workloads)?;
        if matches!(self.overrides.backing, Some(Backing::Guest(_))) {
            self.set_native_drivers(&mut workloads);
        }
        Ok(workloads)
    }

    /// The name, title and question of a run whose workload the command line replaces. None if the command line does not change
    /// the workload; the plan then states them.
    pub(super) fn headings_of_replaced_workload(&self) -> Option<[String; 3]> {
        let name = self.overrides.workload.as_deref()?;
        let def = self.vocabulary.workload(name)?;
        let written = self.file.workloads.first()?.iter().find(|(key, _)| key.get_ref() == "use")?.1;
        let question = format!("Which variant is best at {name}?");
        // The title is the first part of the help, without details.
        let title = def.help.split([',', ';', ':', '(']).next().unwrap_or_default().trim_end();
        (written.get_ref().as_str() != Some(name)).then(|| [name.into(), title.into(), question])
    }

    /// A sentence about the settings of the plan that the workload of the command line does not have; None if it has them all.
    pub(super) fn unused_settings(&self) -> Option<String> {
        let name = self.overrides.workload.as_deref()?;
        let def = self.vocabulary.workload(name)?;
        let written = self.file.workloads.iter().chain([&self.at_scale.set]);
        let ids = written.flat_map(|pairs| pairs.keys()).map(|id| id.get_ref().as_str());
        let is_unused = |id: &&str| *id != "use" && def.setting(id).is_none();
        let ids: BTreeSet<&str> = ids.filter(is_unused).collect();
        if ids.is_empty() {
            return None;
        }
        let names = ids.into_iter().collect::<Vec<_>>().join(", ");
        Some(format!("ignored settings of the plan, which {name} lacks: {names}"))
    }

    /// Makes all workloads use fsarena's own system calls instead of programs in a guest, except by settings that the command
    /// line sets.
    fn set_native_drivers(&self, workloads: &mut [WorkloadPlan]) {
        let is_overridden = |id: &str| self.overrides.settings.iter().any(|(name, _)| name == id);
        let ids: Vec<&str> = DRIVER_SETTINGS.into_iter().filter(|id| !is_overridden(id)).collect();
        workloads.iter_mut().for_each(|workload| workload.settings.set_native(&ids));
    }

    /// Resolves one `[[workload]]` of the plan.
    fn read_workload(&self, pairs: &Pairs) -> Result<WorkloadPlan, PlanError> {
        let Some((key, value)) = pairs.iter().find(|(key, _)| key.get_ref() == "use") else {
            let start = pairs.keys().map(|key| key.span().start).min().unwrap_or(0);
            return self.fail_at(start..start, "this [[workload]] lacks its name; add one: use = \"coreutils\"");
        };
        let Some(written) = value.get_ref().as_str() else {
            return self.fail_at(value.span(), "a workload's name is text");
        };
        let name = self.overrides.workload.as_deref().unwrap_or(written);
        let Some(def) = self.vocabulary.workload(name) else {
            let message = unknown_name("workload", name, self.vocabulary.workloads.iter().map(|def| def.id));
            return match self.overrides.workload {
                Some(_) => Err(PlanError::in_setting("workload", message)),
                None => self.fail_at(value.span(), message),
            };
        };
        let mut settings = Settings::defaults(def.settings);
        let mut grid_settings = vec![];
        for (id, value) in pairs.iter().filter(|(id, _)| *id != key) {
            if id.get_ref() == "grid" && self.parsed.stored.is_some() {
                grid_settings = self.read_levels(value)?;
                continue;
            }
            let Some(setting) = def.setting(id.get_ref()) else {
                if self.overrides.workload.is_some() {
                    continue; // a setting of the workload that was replaced
                }
                return self.fail_at(id.span(), no_setting_message(id.get_ref(), &[def]));
            };
            settings.0.insert(setting.id.into(), self.convert_value(setting, value)?);
        }
        Ok(WorkloadPlan { name: name.into(), settings, grid_settings })
    }

    /// Applies `[scales.SCALE.set]` to every workload of the plan that has the setting. Ignores a setting that no workload has
    /// if the command line replaced the workload.
    fn set_at_scale(&self, workloads: &mut [WorkloadPlan]) -> Result<(), PlanError> {
        for (id, value) in &self.at_scale.set {
            let exists = workloads.iter().any(|workload| workload.settings.0.contains_key(id.get_ref()));
            if self.overrides.workload.is_some() && !exists {
                continue;
            }
            let read = |setting: &SettingDef| self.convert_value(setting, value);
            self.set_in_all(workloads, id.get_ref(), read, |message| self.error_at(id.span(), message))?;
        }
        Ok(())
    }

    /// Applies a setting of the command line to every workload of the plan that has it.
    fn set_from_command_line(&self, workloads: &mut [WorkloadPlan], id: &str, text: &str) -> Result<(), PlanError> {
        let error = |message| PlanError::in_setting("set", message);
        let read =
            |setting: &SettingDef| setting.kind.parse(text).ok_or_else(|| error(setting.rejection_message(text)));
        self.set_in_all(workloads, id, read, error)
    }

    /// The workloads at every value of the grids of the plan, the scale and the command line. A grid of the command line
    /// replaces the plan's for that setting. If the command line replaced the workload, grids over settings that it lacks
    /// are left out.
    fn expand_grids(&self, mut workloads: Vec<WorkloadPlan>) -> Result<Vec<WorkloadPlan>, PlanError> {
        let mut grids = BTreeMap::new();
        for (id, value) in self.file.grid.iter().chain(&self.at_scale.grid) {
            let has_setting = |workload: &WorkloadPlan| workload.settings.0.contains_key(id.get_ref());
            if self.overrides.workload.is_none() || workloads.iter().any(has_setting) {
                let values = setting_grid::parse_grid(&self.read_levels(value)?.join(","));
                let values = values.map_err(|message| self.error_at(value.span(), message))?;
                grids.insert(id.get_ref().clone(), (values, value.span()));
            }
        }
        let in_setting = |message| PlanError::in_setting("grid", message);
        for (id, text) in &self.overrides.grid {
            grids.remove(id);
            let values = setting_grid::parse_grid(text).map_err(in_setting)?;
            workloads = self.expand_grid(workloads, id, &values, in_setting)?;
        }
        for (id, (values, span)) in &grids {
            workloads = self.expand_grid(workloads, id, values, |message| self.error_at(span.clone(), message))?;
        }
        Ok(workloads)
    }

    /// The workloads at every value of a grid; those without the setting as they are.
    fn expand_grid(
        &self,
        workloads: Vec<WorkloadPlan>,
        id: &str,
        values: &[i64],
        error: impl Fn(String) -> PlanError,
    ) -> Result<Vec<WorkloadPlan>, PlanError> {
        for value in values {
            self.check_setting_level(id, &value.to_string()).map_err(&error)?;
        }
        let factor = format!("{SETTING_PREFIX}{id}");
        let factor_ids = self.file.factors.keys().chain(self.at_scale.factors.keys()).map(|key| key.get_ref());
        if factor_ids.chain(self.overrides.factors.iter().map(|(id, _)| id)).any(|name| *name == factor) {
            return Err(error(format!("`{id}` cannot have a grid and be the factor `{factor}`: leave one out")));
        }
        let mut expanded: Vec<WorkloadPlan> = vec![];
        for workload in workloads {
            let setting = self.vocabulary.workload(&workload.name).and_then(|def| def.setting(id));
            let versions = setting.map_or(vec![workload.clone()], |setting| workload.expand_grid(setting, values));
            // A stored plan has the workload at other values of the same setting already.
            expanded.extend(versions.into_iter().filter(|version| !expanded.contains(version)).collect::<Vec<_>>());
        }
        Ok(expanded)
    }

    /// Sets a setting in every workload that has it. `read` returns its value; `error` makes the error if no workload has the
    /// setting.
    fn set_in_all(
        &self,
        workloads: &mut [WorkloadPlan],
        id: &str,
        read: impl Fn(&SettingDef) -> Result<SettingValue, PlanError>,
        error: impl Fn(String) -> PlanError,
    ) -> Result<(), PlanError> {
        let defs = workloads.iter().filter_map(|workload| self.vocabulary.workload(&workload.name));
        let defs: Vec<&WorkloadDef> = defs.collect();
        let mut is_set = false;
        for workload in workloads {
            let def = self.vocabulary.workload(&workload.name);
            if let Some(setting) = def.and_then(|def| def.setting(id)) {
                workload.settings.0.insert(id.into(), read(setting)?);
                is_set = true;
            }
        }
        if is_set { Ok(()) } else { Err(error(no_setting_message(id, &defs))) }
    }

    /// Checks a level of a factor `set.ID`.
    ///
    /// # Errors
    /// No workload of the plan has the setting, or the setting does not accept the level.
    pub(super) fn check_setting_level(&self, id: &str, level: &str) -> Result<(), String> {
        let name_of = |pairs: &Pairs| {
            let written = pairs.iter().find(|(key, _)| key.get_ref() == "use")?.1.get_ref().as_str();
            self.overrides.workload.as_deref().or(written).map(String::from)
        };
        let names: Vec<String> = self.file.workloads.iter().filter_map(name_of).collect();
        let mut defs = self.vocabulary.workloads.clone();
        defs.retain(|def| names.iter().any(|name| name == def.id));
        let settings: Vec<&SettingDef> = defs.iter().filter_map(|def| def.setting(id)).collect();
        if settings.is_empty() {
            return Err(no_setting_message(id, &defs));
        }
        for setting in settings {
            let default = SettingValue::from(setting.default);
            if !level.is_empty() {
                if setting.kind.convert(default.parse_same_kind(level)).is_none() {
                    return Err(setting.rejection_message(level));
                }
            } else if matches!(default, SettingValue::List(items) if !items.is_empty()) {
                return Err(format!("`{id}` is a list, each item a task: write one item in each level"));
            }
        }
        Ok(())
    }

    /// Converts a value of the plan to the form that settings store.
    fn convert_value(&self, setting: &SettingDef, value: &Spanned<toml::Value>) -> Result<SettingValue, PlanError> {
        match value.get_ref().clone().try_into().ok().and_then(|value| setting.kind.convert(value)) {
            Some(value) => Ok(value),
            None => {
                self.fail_at(value.span(), setting.rejection_message(value.get_ref().to_string().trim_matches('"')))
            }
        }
    }
}

/// The message for a setting that none of the workloads has.
fn no_setting_message(id: &str, workloads: &[&WorkloadDef]) -> String {
    let names: Vec<&str> = workloads.iter().map(|def| def.id).collect();
    let settings = workloads.iter().flat_map(|def| def.settings).map(|setting| setting.id);
    unknown_name("setting", id, settings).with_place(format!("of workload {}", names.join(", "))).into()
}
