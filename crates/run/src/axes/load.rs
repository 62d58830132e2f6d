//! The axes of the load: its clients, its CPUs, its memory, and the time to idle before each task.

use super::axis::{Axis, CellSetup, LevelCheck};
use crate::error::{Result, require};
use bytesize::ByteSize;
use fsarena_core::factor;
use fsarena_core::setting::parse_size;
use fsarena_sys::kernel::parse_cpu_list;
use fsarena_sys::{Error, cgroup::Controller};
use std::time::Duration;

/// The number of clients of the load. The level changes a setting of the workload, so nothing is set up for a cell.
pub const CLIENTS: Axis = Axis::new(
    factor::CLIENTS,
    "1, 5, 20",
    "number of clients of the load, as a difference between variants: it sets the workload's `clients` or `threads`; empty leaves them",
    |level| factor::parse_client_count(level).map(drop),
)
.also_for_directories()
.with_check(check_clients);

fn check_clients(check: &LevelCheck) -> Result<()> {
    if check.level().is_empty() {
        return Ok(());
    }
    let Some(workload) = check.plan.workloads.iter().find(|work| !factor::has_client_setting(&work.settings)) else {
        return Ok(());
    };
    let why = format!("workload {} has neither clients nor threads", workload.name);
    Err(check.plan_error(why))
}

/// The CPUs that the load may run on. The affinity of the measuring process binds it to them, so nothing has to be
/// undone.
pub const CPUS: Axis = Axis::new(
    factor::CPUS,
    "0, 0-3, 0-1+4",
    "CPUs that the load may run on, by number: `0`, `0-3`, `0-1+4`; threads of the kernel are not bound. Empty for all",
    |level| parse_cpus(level).map(drop),
)
.also_for_directories()
.with_check(check_cpus)
.with_set_up(set_up_cpus);

fn check_cpus(check: &LevelCheck) -> Result<()> {
    let parsed = parse_cpus(check.level()).map_err(|why| check.plan_error(why))?;
    let Some(cpus) = parsed else { return Ok(()) };
    let Some(online) = check.kernel.read_trimmed("sys/devices/system/cpu/online") else { return Ok(()) };
    let online_cpus = parse_cpus(&online).ok().flatten().unwrap_or_default();
    let why = |cpu| format!("there is no CPU {cpu}; online are {online}");
    cpus.iter().try_for_each(|cpu| require(online_cpus.contains(cpu), || check.missing_error(why(cpu))))
}

fn set_up_cpus(setup: &mut CellSetup) -> Result<(), Error> {
    setup.conditions.confinement.cpus = setup.parse_level(parse_cpus)?;
    Ok(())
}

/// Parses a level of [`CPUS`]: CPU numbers, ascending. None stands for all.
///
/// # Errors
/// An invalid list; the message shows how to write one.
pub fn parse_cpus(level: &str) -> Result<Option<Vec<usize>>, String> {
    if level.is_empty() {
        return Ok(None);
    }
    // Accepts `+`, which plans use, and `,`, which taskset(1) uses.
    let cpus = parse_cpu_list(&level.replace('+', ","));
    cpus.map(Some).ok_or_else(|| format!("invalid list of CPUs `{level}`; write `0`, `0-3` or `0-1+4`"))
}

/// Idling after the idle wait, before each task: shows whether the idle wait is long enough.
pub const FURTHER_IDLE: Axis = Axis::new(
    factor::FURTHER_IDLE,
    "60s, 500ms",
    "time to idle after the idle wait, before each task: 60s; empty begins at once",
    |level| parse_idle_time(level).map(drop),
)
.also_for_directories();

/// Parses a level of [`FURTHER_IDLE`].
///
/// # Errors
/// An unreadable time; the message shows how to write it.
pub fn parse_idle_time(level: &str) -> Result<Duration, String> {
    match level {
        "" => Ok(Duration::ZERO),
        level => humantime::parse_duration(level)
            .map_err(|error| format!("invalid time `{level}` ({error}); write it like 60s or 500ms")),
    }
}

/// The memory that the load may use, limited by a control group.
pub const MEMORY: Axis = Axis::new(
    factor::MEMORY,
    "64MiB, 1GiB",
    "memory of the load by a cgroup limit, page cache that it fills included: `256MiB`; empty for no limit",
    |level| parse_memory(level).map(drop),
)
.also_for_directories()
.with_check(check_memory)
.with_set_up(set_up_memory);

fn check_memory(check: &LevelCheck) -> Result<()> {
    let why = "this kernel offers no memory controller (cgroup)";
    let is_possible = check.level().is_empty() || Controller::find(check.kernel, "memory", "memory").is_some();
    require(is_possible, || check.missing_error(why))
}

fn set_up_memory(setup: &mut CellSetup) -> Result<(), Error> {
    let Some(max_bytes) = setup.parse_level(parse_memory)? else { return Ok(()) };
    let controller = setup.find_controller("memory", "memory")?;
    let group = controller.make_group(setup.journal)?;
    let attribute = if controller.is_v2 { "memory.max" } else { "memory.limit_in_bytes" };
    group.set(attribute, &max_bytes.to_string())?;
    setup.conditions.add_group(group);
    Ok(())
}

/// The smallest limit of memory, in bytes. The measuring process itself needs this much.
const MIN_MEMORY_BYTES: u64 = 32 << 20;

/// Parses a level of [`MEMORY`], in bytes. None stands for unlimited.
///
/// # Errors
/// An invalid size; the message shows how to write one.
pub fn parse_memory(level: &str) -> Result<Option<u64>, String> {
    if level.is_empty() {
        return Ok(None);
    }
    let bytes = parse_size(level)?;
    if bytes < MIN_MEMORY_BYTES {
        let least = ByteSize(MIN_MEMORY_BYTES);
        return Err(format!("`{level}` is too little: the measuring process itself needs {least}"));
    }
    Ok(Some(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_cpus_has_numbers_and_ranges() {
        assert_eq!(parse_cpus("0-1+4").unwrap().unwrap(), [0, 1, 4]);
        assert_eq!(parse_cpus("3,1").unwrap().unwrap(), [1, 3]);
        for wrong in ["all", "1-0", "-1", "0-", "99999"] {
            assert!(parse_cpus(wrong).is_err(), "{wrong}");
        }
    }
}
