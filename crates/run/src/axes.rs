//! The axes of the machine: what a level of a factor changes around the filesystem, for the time of one cell.
//!
//! A new axis is one file here and its line in [`AXES`]: what the factor's levels mean, whether this machine has them,
//! and how they are set up. What it changes goes into the undo journal before it is changed.

mod axis;
mod clients;
mod cpu_speed;
mod cpus;
mod device;
mod faults;
pub mod further_idle;
mod journal;
mod limit;
mod memory;
mod raid;
mod scheduler;

pub use axis::{Asked, Axis, Conditions, Confine, Stage, lacking};

use crate::error::{Result, RunError, require};
use fsarena_core::cell::Variant;
use fsarena_core::factor::{self, BUILT_IN, FactorDef};
use fsarena_core::plan::{Backing, Plan};
use fsarena_sys::{device::BlockDevice, kernel::SysRoot, undo};

/// Every axis, in the order in which they are brought about.
pub const AXES: &[Axis] = &[
    journal::AXIS,
    raid::AXIS,
    device::AXIS,
    faults::AXIS,
    scheduler::AXIS,
    limit::AXIS,
    cpu_speed::AXIS,
    memory::AXIS,
    cpus::AXIS,
    clients::AXIS,
    further_idle::AXIS,
];

/// Every factor of a plan, in the order in which variant names spell their levels.
pub fn factors() -> Vec<FactorDef> {
    factor::in_order(BUILT_IN.iter().copied().chain(AXES.iter().map(|axis| axis.def)).collect(), |def| def.id)
}

/// Brings about every level of a variant. What an error leaves is undone.
///
/// # Errors
/// Where the machine does not take a level.
pub fn set_up(
    kernel: &SysRoot,
    journal: &undo::Journal,
    variant: &Variant,
    devices: &[&BlockDevice],
) -> Result<Conditions, fsarena_sys::Error> {
    let mut done = Conditions::default();
    for axis in AXES.iter().filter(|axis| !variant.level(axis.def.id).is_empty()) {
        (axis.set_up)(&mut Stage { kernel, journal, variant, devices, done: &mut done })?;
    }
    Ok(done)
}

/// Checks every level of every variant against this machine.
///
/// # Errors
/// The first that cannot be had, with what would be possible.
pub fn check(kernel: &SysRoot, plan: &Plan, variants: &[Variant]) -> Result<()> {
    for variant in variants {
        let dir = variant.level(factor::DIR);
        require(plan.device.backing == Backing::Dir || dir.is_empty(), || {
            RunError::variant(variant, format!("`dir` needs --on dir:{dir}"))
        })?;
        for axis in AXES {
            let id = axis.def.id;
            let of_devices = plan.device.backing == Backing::Dir && !axis.of_directories;
            require(!of_devices || variant.level(id).is_empty(), || {
                RunError::variant(variant, format!("a directory is taken as it is; leave out `{id}`"))
            })?;
            // What a guest's kernel can do is for the preflight of guests to say; the work is the same everywhere.
            let guest = matches!(plan.device.backing, Backing::Guest(_));
            if !guest || id == factor::CLIENTS {
                (axis.check)(&Asked { kernel, plan, variant })?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_is_registered_and_takes_its_own_default_and_examples() {
        let files = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/src/axes")).unwrap();
        let mut files: Vec<String> = files
            .map(|file| file.unwrap().path().file_stem().unwrap().to_str().unwrap().to_string())
            .collect();
        files.retain(|file| file != "axis");
        files.sort();
        let mut ids: Vec<&str> = AXES.iter().map(|axis| axis.def.id).collect();
        ids.sort_unstable();
        assert_eq!(files, ids);
        for factor in factors() {
            assert!((factor.check)(factor.default).is_ok(), "{}", factor.id);
            let examples = factor.example.split(", ").all(|level| (factor.check)(level).is_ok());
            assert!(examples, "{}: {}", factor.id, factor.example);
        }
    }
}
