//! The inputs of plan resolution besides the plan: the names that plans may use on this machine, and the command line.

use super::error::PlanError;
use super::shard::Shard;
use super::{Backing, GuestPlan, ParsedPlan, Plan, SourceDevice};
use crate::average::Average;
use crate::cell::TaskInfo;
use crate::factor::FactorDef;
use crate::scale::Scale;
use crate::setting::WorkloadDef;
use crate::setting_text::setting;
use bytesize::ByteSize;
use std::path::{Path, PathBuf};

/// The names that a plan may use: filesystems, factors, workloads, metrics and tasks.
#[derive(Debug, Clone)]
pub struct Vocabulary {
    /// Every known filesystem with its option sets.
    pub filesystems: Vec<(String, Vec<String>)>,
    /// The filesystems that this machine can make and mount.
    pub available_filesystems: Vec<String>,
    /// Every factor.
    pub factors: Vec<FactorDef>,
    /// Every workload.
    pub workloads: Vec<&'static WorkloadDef>,
    /// Every metric and reading.
    pub metrics: Vec<String>,
    /// Returns the tasks of a plan's cells, in their order.
    pub list_tasks: fn(&Plan) -> Vec<TaskInfo>,
    /// Returns the number of rounds after which a plan can have its first result.
    pub default_rounds: fn(&Plan) -> u32,
}

impl Vocabulary {
    /// The definition of a workload, by its name; None if the name is unknown.
    pub(super) fn workload(&self, name: &str) -> Option<&'static WorkloadDef> {
        self.workloads.iter().find(|def| def.id == name).copied()
    }
}

/// The settings from outside of the plan, such as the flags of a command line. They override the settings of the plan.
#[derive(Debug, Clone, Default)]
pub struct Overrides {
    /// The scale of the work.
    pub scale: Option<Scale>,
    /// The random seed.
    pub seed: Option<u64>,
    /// The number of rounds. The run then always has this number: decided claims, the best variant and the time budget of the
    /// plan do not end it.
    pub rounds: Option<u32>,
    /// The number of warm-up rounds.
    pub warmup: Option<u32>,
    /// The shard to run.
    pub shard: Option<Shard>,
    /// The time budget in seconds.
    pub budget_s: Option<f64>,
    /// The largest number of rounds.
    pub max_rounds: Option<u32>,
    /// The difference under which variants are equivalent, as a fraction.
    pub margin: Option<f64>,
    /// Makes the run search for the best variant: the largest accepted regret of the choice, as a fraction.
    pub best_within: Option<f64>,
    /// The metric of the search for the best variant.
    pub best_metric: Option<String>,
    /// The average that the search for the best variant compares.
    pub best_by: Option<Average>,
    /// Claims in addition to those of the plan.
    pub claims: Vec<String>,
    /// Whether the claims form a gate, which passes if the candidate costs at most a margin more than the baseline.
    pub has_gate: bool,
    /// Levels of factors, instead of the plan's.
    pub factors: Vec<(String, Vec<String>)>,
    /// Levels that are compared one at a time, instead of the plan's.
    pub vary: Vec<(String, Vec<String>)>,
    /// Values of settings at which the workloads run, such as `1e3..1e6`, instead of the plan's.
    pub grid: Vec<(String, String)>,
    /// A workload that replaces the only workload of the plan.
    pub workload: Option<String>,
    /// Settings of the workloads, each with its value as text.
    pub settings: Vec<(String, String)>,
    /// The place of the filesystems: images, a device, guests or directories.
    pub backing: Option<Backing>,
    /// The directory of loop images if `backing` does not name one.
    pub images_dir: Option<PathBuf>,
    /// The size of the devices.
    pub size: Option<ByteSize>,
    /// Whether fsarena writes an erased device into its steady state before the first round.
    pub precondition: bool,
    /// The number of aged images of each variant.
    pub age_images: Option<u32>,
    /// The git repository whose commits age the filesystems.
    pub repository: Option<PathBuf>,
    /// The directory of the source disk's image; if the variants are directories, the source directory itself.
    pub source_dir: Option<PathBuf>,
    /// The block device that becomes the source disk.
    pub source_device: Option<SourceDevice>,
    /// The seed if neither the plan nor the command line sets one.
    pub fresh_seed: u64,
}

impl Overrides {
    /// Takes over the devices and the source directory of a stored plan, unless the command line selects them.
    ///
    /// # Errors
    /// The stored run erased a device. Only the command line may name a device to erase.
    pub fn keep_devices_of(&mut self, stored: &ParsedPlan) -> Result<(), PlanError> {
        let Some(plan) = &stored.stored else { return Ok(()) };
        let erase_error = |path: &Path, name: &str| {
            let message = format!(
                "the run of this plan erased {}; to erase a device again, name it: {}",
                path.display(),
                setting(name, "DEVICE")
            );
            Err(PlanError::in_setting(name, message))
        };
        if self.source_dir.is_none() && self.source_device.is_none() {
            if let Some(other) = &plan.device.source_device {
                return erase_error(&other.path, "other");
            }
            self.source_dir.clone_from(&plan.device.source_dir);
        }
        if self.backing.is_some() {
            return Ok(());
        }
        self.backing = Some(match plan.device.backing.clone() {
            Backing::Erase { path, .. } => return erase_error(&path, "erase"),
            // The preflight selects the accelerator anew.
            Backing::Guest(guest) => Backing::Guest(GuestPlan { accelerator: None, ..guest }),
            backing => backing,
        });
        Ok(())
    }
}
