//! Variants, cells, and what identifies them.

use crate::factor::{self, clients};
use crate::setting::Settings;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, fmt};

/// One combination of target levels: what is being compared.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Variant {
    /// The levels that vary, joined: `ext4`, `ext4/noatime`. Unique in a run.
    pub name: String,
    /// The level of every factor that the plan names; [`Variant::level`] adds the defaults.
    pub levels: BTreeMap<String, String>,
}

impl Variant {
    /// The level of a factor; its default where the variant does not say.
    pub fn level(&self, factor: &str) -> &str {
        match self.levels.get(factor) {
            Some(level) => level,
            None => crate::factor::default_level(factor),
        }
    }

    /// Whether it is the bare device, which says how fast any filesystem could be: a reference, never a candidate.
    pub fn is_bare_device(&self) -> bool {
        self.level(factor::DIR).is_empty() && self.level(factor::FS) == factor::RAW
    }

    /// The number of clients that do a task: the task's own, else that of the variant.
    pub fn clients(&self, task: &TaskId) -> Option<u32> {
        task.clients().unwrap_or(self.level(factor::CLIENTS)).parse().ok()
    }
}

/// A workload with its settings, as a plan asks for it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WorkloadPlan {
    /// Which workload.
    #[serde(rename = "use")]
    pub name: String,
    /// Its complete settings.
    #[serde(flatten)]
    pub settings: Settings,
}

impl WorkloadPlan {
    /// The name of a directory for what belongs to it, which no other workload of a plan has: the same in all cells,
    /// however many clients a variant has.
    pub fn directory(&self) -> String {
        let mut settings = self.settings.clone();
        clients::set(&mut settings, 1);
        let text = serde_json::to_vec(&settings).expect("settings are plain data");
        format!("{}-{}", self.name, &blake3::hash(&text).to_hex()[..8])
    }
}

/// What identifies a cell in any store of any machine: a hash of all that defines it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CellId(pub String);

impl fmt::Display for CellId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A variant × one setting of a workload, in one round.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// The round it belongs to, from 0.
    pub round: u32,
    /// Its place in the order of that round, from 0.
    pub position: u32,
    /// The variant that runs.
    pub variant: Variant,
    /// What it does.
    pub workload: WorkloadPlan,
    /// The scale of its work.
    pub scale: crate::scale::Scale,
    /// The seed of everything random inside it. The same for all variants of a round.
    pub seed: u64,
}

impl Cell {
    /// The hash of all that defines this cell.
    pub fn id(&self) -> CellId {
        let text = serde_json::to_vec(&(&self.variant, &self.workload, self.scale, self.round, self.seed))
            .expect("a cell is plain data");
        CellId(blake3::hash(&text).to_hex()[..16].to_string())
    }
}

/// One timed part of a workload, with the parameters that tell it from its siblings.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct TaskId {
    /// `untar`, `rndwr`.
    pub name: String,
    /// `bs` → `4096`, `threads` → `1`; empty for most.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub params: BTreeMap<String, String>,
}

impl TaskId {
    /// A task without parameters.
    pub fn new(name: impl Into<String>) -> TaskId {
        TaskId { name: name.into(), params: BTreeMap::new() }
    }

    /// The number of clients or threads in its parameters.
    pub fn clients(&self) -> Option<&str> {
        clients::SETTINGS.iter().find_map(|name| Some(self.params.get(*name)?.as_str()))
    }

    /// Takes that number from its parameters: variants that differ in it share the task.
    pub fn forget_clients(&mut self) {
        self.params.retain(|name, _| !clients::SETTINGS.contains(&name.as_str()));
    }

    /// Takes from its parameters what a factor of the variant sets: variants that differ in it share the task.
    pub fn forget_factors(&mut self, variant: &Variant) {
        if !variant.level(factor::CLIENTS).is_empty() {
            self.forget_clients();
        }
        for setting in variant.levels.keys().filter_map(|id| id.strip_prefix(factor::SETTING)) {
            self.params.remove(setting);
        }
    }
}

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        for (i, (key, value)) in self.params.iter().enumerate() {
            write!(f, "{}{key}={value}", if i == 0 { "[" } else { "," })?;
        }
        f.write_str(if self.params.is_empty() { "" } else { "]" })
    }
}

/// A task as reports name it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TaskInfo {
    /// What identifies it.
    pub id: TaskId,
    /// What people read: "Untar the kernel tree".
    pub title: String,
    /// The published number, where a study numbers its tasks: `009`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<String>,
    /// Whether the total and the geometric mean count it. Tasks of the lifecycle (mkfs, mount) do not.
    pub in_totals: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::setting::Value;

    fn workload(name: &str, settings: &[(&str, i64)]) -> WorkloadPlan {
        let settings = settings.iter().map(|(id, value)| (id.to_string(), Value::Int(*value))).collect();
        WorkloadPlan { name: name.into(), settings: Settings(settings) }
    }

    #[test]
    fn clients_are_those_of_the_task_or_else_of_the_variant() {
        let level = (factor::CLIENTS.to_string(), "8".to_string());
        let [eight, plain] =
            [[level].into(), BTreeMap::new()].map(|levels| Variant { name: "ext4".into(), levels });
        let mut task = TaskId { params: [("threads".into(), "4".into())].into(), ..TaskId::new("dbench") };
        assert_eq!([eight.clients(&task), plain.clients(&task)], [Some(4), Some(4)]);
        task.forget_clients();
        assert_eq!([eight.clients(&task), plain.clients(&task)], [Some(8), None]);
        assert_eq!(task, TaskId::new("dbench"));
    }

    #[test]
    fn workloads_share_no_directory_and_variants_do() {
        let one = workload("dbench", &[("clients", 4), ("files", 7)]).directory();
        assert_eq!(one, workload("dbench", &[("clients", 20), ("files", 7)]).directory());
        assert_ne!(one, workload("dbench", &[("clients", 4), ("files", 8)]).directory());
        assert_ne!(one, workload("tree", &[("clients", 4), ("files", 7)]).directory());
        assert!(one.starts_with("dbench-") && one.len() == "dbench-".len() + 8, "{one}");
    }
}
