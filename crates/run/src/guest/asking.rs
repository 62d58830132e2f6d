//! The request to the agent in a guest.

use crate::executor::Fatal;
use crate::protocol::{Guest, MountRequest, Power, Profiling, Request, Role};
use fsarena_core::cell::{Cell, Variant};
use fsarena_core::factor;
use fsarena_core::plan::{Emulator, Plan};
use fsarena_fs::fairness::VariantFacts;
use std::path::{Path, PathBuf};

/// Where the guest mounts the filesystem under test.
const TARGET: &str = "/mnt/test";
/// Where it mounts the source disk.
const OTHER: &str = "/mnt/other";

/// The request for a cell on this filesystem.
///
/// # Errors
/// What cannot be written as JSON.
pub fn request(
    plan: &Plan,
    emulator: Emulator,
    profiling: Option<Profiling>,
    cell: &Cell,
    facts: &VariantFacts,
    power: Power,
) -> Result<serde_json::Value, Fatal> {
    let mount = MountRequest {
        // The guest finds it by its serial number.
        source: PathBuf::new(),
        target: TARGET.into(),
        fs_type: facts.def.kernel_type.to_string(),
        options: facts.options.mount.clone(),
        journal: None,
        by_call: true,
    };
    let request = Request {
        cell: if emulator == Emulator::Exact { unnamed(cell) } else { cell.clone() },
        idle: plan.idle.clone(),
        mount: Some(mount),
        root: Path::new(TARGET).join("work"),
        other: OTHER.into(),
        device: None,
        profiling,
        // It is root in a kernel that is there for this cell alone.
        role: Role::Alone,
        power,
        client: None,
    };
    let asked = Guest { request, other_type: plan.device.other_fs.clone() };
    serde_json::to_value(&asked).map_err(|error| Fatal::Agent(error.to_string()))
}

/// The cell without what tells it from others that do the same: a longer name would be more to read, and lie elsewhere
/// in memory. The factor that the names of tasks depend on stays.
fn unnamed(cell: &Cell) -> Cell {
    let mut levels = cell.variant.levels.clone();
    levels.retain(|factor, level| factor == factor::CLIENTS && !level.is_empty());
    let variant = Variant { name: "variant".into(), levels };
    Cell { round: 0, position: 0, variant, ..cell.clone() }
}
