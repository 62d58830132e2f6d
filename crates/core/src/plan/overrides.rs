//! The inputs of plan resolution besides the plan: the names that plans may use on this machine, and the command line.

use super::error::PlanError;
use super::shard::Shard;
use super::{Backing, GuestPlan, OtherDevice, Plan, Written};
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
    pub available: Vec<String>,
    /// Every factor.
    pub factors: Vec<FactorDef>,
    /// Every workload.
    pub workloads: Vec<&'static WorkloadDef>,
    /// Every metric and reading.
    pub metrics: Vec<String>,
    /// The tasks of a plan's cells, in their order.
    pub outline: fn(&Plan) -> Vec<TaskInfo>,
    /// The rounds that the first answer of a plan requires.
    pub rounds: fn(&Plan) -> u32,
}

/// The settings from the command line, which override the plan. Each field names its flag.
#[derive(Debug, Clone, Default)]
pub struct Overrides {
    /// `--scale`.
    pub scale: Option<Scale>,
    /// `--seed`.
    pub seed: Option<u64>,
    /// `--rounds`.
    pub rounds: Option<u32>,
    /// `--warmup`.
    pub warmup: Option<u32>,
    /// `--shard`.
    pub shard: Option<Shard>,
    /// `--budget`, in seconds.
    pub budget_s: Option<f64>,
    /// `--max-rounds`.
    pub max_rounds: Option<u32>,
    /// `--margin`, as a fraction.
    pub margin: Option<f64>,
    /// `--find best --within`, as a fraction.
    pub best_within: Option<f64>,
    /// The first metric of `--metric`, for a run that searches for the best variant.
    pub best_metric: Option<String>,
    /// `--by`: the average that the search for the best variant compares.
    pub best_by: Option<Average>,
    /// `--claim`.
    pub claims: Vec<String>,
    /// Whether `--max-slowdown` makes the claims a gate.
    pub gate: bool,
    /// `--fs`, `--options`, `--factor NAME=LEVEL,LEVEL`: levels instead of the plan's.
    pub factors: Vec<(String, Vec<String>)>,
    /// `--vary NAME=LEVEL,LEVEL`: levels that are each compared alone, instead of the plan's.
    pub vary: Vec<(String, Vec<String>)>,
    /// `--grid NAME=FROM..TO`: values of a setting at which the workloads run, instead of the plan's.
    pub grid: Vec<(String, String)>,
    /// `--workload`: replaces the only workload of the plan.
    pub workload: Option<String>,
    /// `--set NAME=VALUE`.
    pub settings: Vec<(String, String)>,
    /// `--on`, `--erase`.
    pub backing: Option<Backing>,
    /// The directory of loop images if `--on` does not name one.
    pub images: Option<PathBuf>,
    /// `--size`.
    pub size: Option<ByteSize>,
    /// `--precondition`.
    pub precondition: bool,
    /// `--age-images`.
    pub age_images: Option<u32>,
    /// `--repository`.
    pub repository: Option<PathBuf>,
    /// `--other` with a directory.
    pub other_dir: Option<PathBuf>,
    /// `--other` with a block device.
    pub other_device: Option<OtherDevice>,
    /// The seed if neither the plan nor the command line sets one.
    pub fresh_seed: u64,
}

impl Overrides {
    /// Takes over the devices of a stored plan, unless the command line selects them.
    ///
    /// # Errors
    /// The stored run erased a device. Only the command line may name a device to erase.
    pub fn where_it_ran(&mut self, written: &Written) -> Result<(), PlanError> {
        let Some(plan) = &written.stored else { return Ok(()) };
        let again = |path: &Path, name: &str| {
            let message = format!(
                "the run of this plan erased {}; to erase a device again, name it: {}",
                path.display(),
                setting(name, "DEVICE")
            );
            Err(PlanError::in_setting(name, message))
        };
        if self.other_dir.is_none() && self.other_device.is_none() {
            if let Some(other) = &plan.device.other_device {
                return again(&other.path, "other");
            }
            self.other_dir.clone_from(&plan.device.other_dir);
        }
        if self.backing.is_some() {
            return Ok(());
        }
        self.backing = Some(match plan.device.backing.clone() {
            Backing::Erase { path, .. } => return again(&path, "erase"),
            // The preflight selects the accelerator anew.
            Backing::Guest(guest) => Backing::Guest(GuestPlan { accelerator: None, ..guest }),
            backing => backing,
        });
        Ok(())
    }
}
