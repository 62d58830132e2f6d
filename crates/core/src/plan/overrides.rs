//! The words that a plan may use on this machine, and the command line.

use super::error::PlanError;
use super::shard::Shard;
use super::{Backing, GuestPlan, OtherDevice, Plan, Written};
use crate::average::Average;
use crate::cell::TaskInfo;
use crate::factor::FactorDef;
use crate::scale::Scale;
use crate::setting::WorkloadDef;
use bytesize::ByteSize;
use std::path::{Path, PathBuf};

/// What exists: the words a plan may use.
#[derive(Debug, Clone)]
pub struct Vocabulary {
    /// Every known filesystem with its option sets.
    pub filesystems: Vec<(String, Vec<String>)>,
    /// Those that this machine can make and mount.
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

/// What the command line says over the plan.
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
    /// The first of `--metric`, which counts where the run looks for the best.
    pub best_metric: Option<String>,
    /// `--by`: the average by which the best is found.
    pub best_by: Option<Average>,
    /// `--claim`.
    pub claims: Vec<String>,
    /// `--fs`, `--options`, `--factor NAME=LEVEL,LEVEL`: levels instead of the plan's.
    pub factors: Vec<(String, Vec<String>)>,
    /// `--vary NAME=LEVEL,LEVEL`: levels that are each compared alone, instead of the plan's.
    pub vary: Vec<(String, Vec<String>)>,
    /// `--workload`: instead of the plan's only one.
    pub workload: Option<String>,
    /// `--set NAME=VALUE`.
    pub settings: Vec<(String, String)>,
    /// `--on`, `--erase`.
    pub backing: Option<Backing>,
    /// Where loop images lie if nothing names their directory.
    pub images: Option<PathBuf>,
    /// `--size`.
    pub size: Option<ByteSize>,
    /// `--precondition`.
    pub precondition: bool,
    /// `--other` with a directory.
    pub other_dir: Option<PathBuf>,
    /// `--other` with a block device.
    pub other_device: Option<OtherDevice>,
    /// The seed taken where neither plan nor command line gives one.
    pub fresh_seed: u64,
}

impl Overrides {
    /// Takes over from a stored plan where it ran, unless the command line says where to run.
    ///
    /// # Errors
    /// Where a device was erased for it: that is for the command line to say, each time.
    pub fn where_it_ran(&mut self, written: &Written) -> Result<(), PlanError> {
        let Some(plan) = &written.stored else { return Ok(()) };
        let again = |path: &Path, flag: &str| {
            let message = format!(
                "the run of this plan erased {}; to erase a device again, name it: {flag} DEVICE",
                path.display()
            );
            Err(PlanError::flag(flag, message))
        };
        if self.other_dir.is_none() && self.other_device.is_none() {
            if let Some(other) = &plan.device.other_device {
                return again(&other.path, "--other");
            }
            self.other_dir.clone_from(&plan.device.other_dir);
        }
        if self.backing.is_some() {
            return Ok(());
        }
        self.backing = Some(match plan.device.backing.clone() {
            Backing::Erase { path, .. } => return again(&path, "--erase"),
            // What runs the guest's instructions is found out anew.
            Backing::Guest(guest) => Backing::Guest(GuestPlan { accelerator: None, ..guest }),
            backing => backing,
        });
        Ok(())
    }
}
