//! The axes of the machine: what a level of a factor changes around the filesystem, for the time of one cell.
//!
//! A new axis is one file here, its definition of the same name in `fsarena_core::factor`, and its line in
//! [`AXES`]. What it changes goes into the undo journal before it is changed.

mod axis;
mod clients;
mod cpu_speed;
mod cpus;
mod device;
mod faults;
mod journal;
mod limit;
mod memory;
mod raid;
mod scheduler;

pub use axis::{Axis, Conditions, Confine};

use crate::executor::Fatal;
use axis::{Asked, Stage};
use fsarena_core::cell::Variant;
use fsarena_core::factor;
use fsarena_core::plan::{Backing, Plan};
use fsarena_sys::device::BlockDevice;
use fsarena_sys::kernel::Kernel;
use fsarena_sys::undo;

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
];

/// Brings about every level of a variant. What an error leaves is undone.
///
/// # Errors
/// Where the machine does not take a level.
pub fn set_up(
    kernel: &Kernel,
    journal: &undo::Journal,
    variant: &Variant,
    devices: &[&BlockDevice],
) -> Result<Conditions, fsarena_sys::Error> {
    let mut done = Conditions::default();
    for axis in AXES.iter().filter(|axis| !variant.level(axis.factor).is_empty()) {
        (axis.set_up)(&mut Stage { kernel, journal, variant, devices, done: &mut done })?;
    }
    Ok(done)
}

/// Checks every level of every variant against this machine.
///
/// # Errors
/// The first that cannot be had, with what would be possible.
pub fn check(kernel: &Kernel, plan: &Plan, variants: &[Variant]) -> Result<(), Fatal> {
    for variant in variants {
        for axis in AXES {
            if plan.device.backing == Backing::Dir
                && !axis.of_directories
                && !variant.level(axis.factor).is_empty()
            {
                let what = axis.factor;
                let message =
                    format!("variant {}: a directory is taken as it is; leave out `{what}`", variant.name);
                return Err(Fatal::Plan(message));
            }
            // What a guest's kernel can do is for the preflight of guests to say; the work is the same everywhere.
            let guest = matches!(plan.device.backing, Backing::Guest(_));
            if !guest || axis.factor == factor::CLIENTS {
                (axis.check)(&Asked { kernel, plan, variant })?;
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
    fn every_axis_of_core_is_brought_about_here() {
        let here: BTreeSet<&str> = AXES.iter().map(|axis| axis.factor).collect();
        let defined: BTreeSet<&str> = factor::axes().map(|def| def.id).collect();
        assert_eq!(here, defined);
    }
}
