//! The axes of the machine: factors whose levels change the machine around the filesystem, such as the I/O scheduler or
//! the memory limit. The levels of a variant are set up before each of its cells and undone after it.
//!
//! A new axis needs one constant, in a separate file here or beside similar ones, and a line in [`AXES`]. It defines
//! the levels of its factor, checks whether this machine has them, and sets them up. It must write each change into the
//! undo journal before making the change.

pub(crate) mod age;
mod axis;
mod cpu_speed;
pub(crate) mod fill;
mod limit;
pub(crate) mod load;
mod scheduler;
mod storage;

pub use axis::{Axis, CellSetup, Conditions, Confinement, LevelCheck};

use crate::error::{Result, RunError, require};
use fsarena_core::cell::Variant;
use fsarena_core::factor::{self, BUILT_IN, FactorDef};
use fsarena_core::plan::{Backing, Plan};
use fsarena_core::setting_text::setting;
use fsarena_sys::{device::BlockDevice, kernel::SysRoot, undo};

/// Every axis, in the order in which they are set up.
pub const AXES: &[Axis] = &[
    storage::JOURNAL,
    storage::RAID,
    storage::STACK,
    storage::DEVICE,
    storage::LAYER,
    age::AXIS,
    fill::AXIS,
    storage::FAULTS,
    scheduler::AXIS,
    limit::AXIS,
    cpu_speed::AXIS,
    load::MEMORY,
    load::CPUS,
    load::CLIENTS,
    load::FURTHER_IDLE,
];

/// Every factor that a plan can vary, in the order in which the name of a variant lists the levels.
pub fn all_factors() -> Vec<FactorDef> {
    factor::sorted_for_names(BUILT_IN.iter().copied().chain(AXES.iter().map(|axis| axis.def)).collect(), |def| def.id)
}

/// Sets up every level of a variant for one cell. After an error, the levels that were set up already are undone.
///
/// # Errors
/// The first level that cannot be set up.
pub fn set_up(
    kernel: &SysRoot,
    journal: &undo::Journal,
    variant: &Variant,
    devices: &[&BlockDevice],
) -> Result<Conditions, fsarena_sys::Error> {
    // Dropping the conditions undoes the levels, so an early return does too.
    let mut conditions = Conditions::default();
    for axis in AXES.iter().filter(|axis| !variant.level(axis.def.id).is_empty()) {
        let factor = axis.def.id;
        (axis.set_up)(&mut CellSetup { kernel, journal, variant, factor, devices, conditions: &mut conditions })?;
    }
    Ok(conditions)
}

/// Checks every level of every variant against this machine.
///
/// # Errors
/// The first level that this machine or plan does not support, with what is possible.
pub fn check(kernel: &SysRoot, plan: &Plan, variants: &[Variant]) -> Result<()> {
    for variant in variants {
        let dir = variant.level(factor::DIR);
        require(plan.device.backing == Backing::Dir || dir.is_empty(), || {
            RunError::in_variant(variant, format!("`dir` needs {}", setting("on", &format!("dir:{dir}"))))
        })?;
        for axis in AXES {
            let id = axis.def.id;
            let lacks_device = plan.device.backing == Backing::Dir && !axis.allows_directories;
            require(!lacks_device || variant.level(id).is_empty(), || {
                RunError::in_variant(variant, format!("a directory is taken as it is; leave out `{id}`"))
            })?;
            // For guests, `preflight::guests` checks the levels, except the number of clients, which does not depend on
            // the kernel.
            let is_in_guest = matches!(plan.device.backing, Backing::Guest(_));
            if !is_in_guest || id == factor::CLIENTS {
                (axis.check)(&LevelCheck { kernel, plan, variant, factor: id })?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_limit_that_the_kernel_cannot_set_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let (kernel, journal) =
            (SysRoot::at(dir.path()), undo::Journal::create(&dir.path().join("state"), "").unwrap());
        for (id, level) in [(factor::MEMORY, "64MiB"), (factor::CPU_SPEED, "50%"), (factor::LIMIT, "2ms")] {
            let variant = Variant { name: level.into(), levels: [(id.to_string(), level.to_string())].into() };
            let error = set_up(&kernel, &journal, &variant, &[]).unwrap_err().to_string();
            assert!(error.contains("no cgroup controller"), "{error}");
        }
    }

    #[test]
    fn each_factor_accepts_its_own_default_and_examples() {
        let ids: BTreeSet<&str> = AXES.iter().map(|axis| axis.def.id).collect();
        assert_eq!(ids.len(), AXES.len());
        for factor in all_factors() {
            assert!((factor.check)(factor.default).is_ok(), "{}", factor.id);
            let are_valid = factor.example_levels.split(", ").all(|level| (factor.check)(level).is_ok());
            assert!(are_valid, "{}: {}", factor.id, factor.example_levels);
        }
    }
}
