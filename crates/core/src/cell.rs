//! Variants, cells and tasks, and their ids.

use crate::factor;
use crate::setting::Settings;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, fmt};

/// One of the alternatives that a run compares: a combination of factor levels.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Variant {
    /// The levels that vary, joined: `ext4`, `ext4/noatime`. Unique in a run.
    pub name: String,
    /// The level of every factor that the plan names; [`Variant::level`] adds the defaults.
    pub levels: BTreeMap<String, String>,
}

impl Variant {
    /// The level of a factor, or the factor's default if the variant does not set it.
    pub fn level(&self, factor: &str) -> &str {
        match self.levels.get(factor) {
            Some(level) => level,
            None => crate::factor::default_level(factor),
        }
    }

    /// Whether it is the bare device without a filesystem. It shows how fast a filesystem could be at most; it is a reference,
    /// not a candidate.
    pub fn is_bare_device(&self) -> bool {
        self.level(factor::DIR).is_empty() && self.level(factor::FS) == factor::RAW
    }

    /// The number of clients of a task: the task's own parameter if it has one, else the variant's level. None if neither
    /// is set.
    pub fn clients(&self, task: &TaskId) -> Option<u32> {
        task.clients().unwrap_or(self.level(factor::CLIENTS)).parse().ok()
    }
}

/// A workload of a plan with its settings.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct WorkloadPlan {
    /// The name of the workload.
    #[serde(rename = "use")]
    pub name: String,
    /// The ids of the settings that have a grid ([`crate::setting_grid`]). The plan has a copy of the workload for each value of
    /// the grid, and the ids of the tasks contain the value.
    #[serde(rename = "grid", default, skip_serializing_if = "Vec::is_empty")]
    pub grid_settings: Vec<String>,
    /// Its complete settings.
    #[serde(flatten)]
    pub settings: Settings,
}

impl WorkloadPlan {
    /// The name of the directory for this workload's files. It is the same in all cells with the same settings. It does not
    /// depend on the number of clients, so workloads of a plan that differ only in that number share it.
    pub fn directory_name(&self) -> String {
        let mut settings = self.settings.clone();
        factor::set_client_count(&mut settings, 1);
        let text = serde_json::to_vec(&settings).expect("settings are plain data");
        format!("{}-{}", self.name, &blake3::hash(&text).to_hex()[..8])
    }
}

/// The id of a cell: a hash of everything that defines it. The same cell has the same id in every run and on every machine.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CellId(pub String);

impl fmt::Display for CellId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// One variant running one workload in one round: the unit that an executor runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// The round it belongs to, from 0.
    pub round: u32,
    /// Its position in the order of that round, from 0.
    pub position: u32,
    /// The variant that runs.
    pub variant: Variant,
    /// The workload that it runs.
    pub workload: WorkloadPlan,
    /// The scale of its work.
    pub scale: crate::scale::Scale,
    /// The seed of everything random inside it. The same for all variants of a round.
    pub seed: u64,
}

impl Cell {
    /// The id of this cell. It does not depend on the cell's position in the round.
    pub fn id(&self) -> CellId {
        let text = serde_json::to_vec(&(&self.variant, &self.workload, self.scale, self.round, self.seed))
            .expect("a cell is plain data");
        CellId(blake3::hash(&text).to_hex()[..16].to_string())
    }
}

/// The id of a task, one timed part of a workload: its name, and parameters that distinguish tasks of the same name.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct TaskId {
    /// The name: `untar`, `rndwr`.
    pub name: String,
    /// The parameters: `bs` → `4096`, `threads` → `1`. Empty for most tasks.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub params: BTreeMap<String, String>,
}

impl TaskId {
    /// A task without parameters.
    pub fn new(name: impl Into<String>) -> TaskId {
        TaskId { name: name.into(), params: BTreeMap::new() }
    }

    /// The number of clients or threads as text, if it is one of the parameters.
    pub fn clients(&self) -> Option<&str> {
        factor::CLIENT_SETTINGS.iter().find_map(|name| Some(self.params.get(*name)?.as_str()))
    }

    /// Removes the number of clients from the parameters, so that variants with different numbers share the task.
    pub fn remove_clients(&mut self) {
        self.params.retain(|name, _| !factor::CLIENT_SETTINGS.contains(&name.as_str()));
    }

    /// Removes the parameters that a factor of the variant sets, so that variants that differ in them share the task.
    pub fn remove_factor_params(&mut self, variant: &Variant) {
        if !variant.level(factor::CLIENTS).is_empty() {
            self.remove_clients();
        }
        for setting in variant.levels.keys().filter_map(|id| id.strip_prefix(factor::SETTING_PREFIX)) {
            self.params.remove(setting);
        }
    }
}

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        for (index, (key, value)) in self.params.iter().enumerate() {
            write!(f, "{}{key}={value}", if index == 0 { "[" } else { "," })?;
        }
        f.write_str(if self.params.is_empty() { "" } else { "]" })
    }
}

/// A task with its title, for reports.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TaskInfo {
    /// Its id.
    pub id: TaskId,
    /// Its title in reports: "Untar the kernel tree".
    pub title: String,
    /// Its number in the published study that the workload repeats: `009`. None if the study does not number its tasks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<String>,
    /// Whether totals and geometric means include it. They exclude tasks of the lifecycle (mkfs, mount).
    pub in_totals: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::setting::SettingValue;

    fn workload(name: &str, settings: &[(&str, i64)]) -> WorkloadPlan {
        let settings = settings.iter().map(|(id, value)| (id.to_string(), SettingValue::Int(*value))).collect();
        WorkloadPlan { name: name.into(), settings: Settings(settings), ..WorkloadPlan::default() }
    }

    #[test]
    fn the_number_of_clients_comes_from_the_task_or_else_from_the_variant() {
        let level = (factor::CLIENTS.to_string(), "8".to_string());
        let [with_eight_clients, plain] =
            [[level].into(), BTreeMap::new()].map(|levels| Variant { name: "ext4".into(), levels });
        let mut task = TaskId { params: [("threads".into(), "4".into())].into(), ..TaskId::new("dbench") };
        assert_eq!([with_eight_clients.clients(&task), plain.clients(&task)], [Some(4), Some(4)]);
        task.remove_clients();
        assert_eq!([with_eight_clients.clients(&task), plain.clients(&task)], [Some(8), None]);
        assert_eq!(task, TaskId::new("dbench"));
    }

    #[test]
    fn a_workload_has_its_own_directory_for_all_numbers_of_clients() {
        let directory = workload("dbench", &[("clients", 4), ("files", 7)]).directory_name();
        assert_eq!(directory, workload("dbench", &[("clients", 20), ("files", 7)]).directory_name());
        assert_ne!(directory, workload("dbench", &[("clients", 4), ("files", 8)]).directory_name());
        assert_ne!(directory, workload("tree", &[("clients", 4), ("files", 7)]).directory_name());
        assert!(directory.starts_with("dbench-") && directory.len() == "dbench-".len() + 8, "{directory}");
    }
}
