//! The CPUs that the load may run on, by affinity: it goes with the process, so there is nothing to undo.

use super::axis::{Asked, Axis, Stage, lacking, unfit, wrong};
use crate::error::{Result, require};
use fsarena_core::factor;
use fsarena_sys::{Error, kernel::cpu_list};

/// The axis.
pub const AXIS: Axis = Axis::of_devices(
    factor::CPUS,
    "0, 0-3, 0-1+4",
    "CPUs that the load may run on, by number: `0`, `0-3`, `0-1+4`; threads of the kernel are not bound. Empty for all",
    |level| parse(level).map(drop),
)
.and_directories()
.checked(check)
.set_up(set_up);

fn check(asked: &Asked) -> Result<()> {
    let parsed = parse(asked.variant.level(factor::CPUS)).map_err(|why| wrong(asked, factor::CPUS, why))?;
    let Some(list) = parsed else { return Ok(()) };
    let Some(online) = asked.kernel.fact("sys/devices/system/cpu/online") else { return Ok(()) };
    let known = parse(&online).ok().flatten().unwrap_or_default();
    let why = |cpu| format!("there is no CPU {cpu}; online are {online}");
    list.iter().try_for_each(|cpu| require(known.contains(cpu), || lacking(asked, factor::CPUS, why(cpu))))
}

fn set_up(stage: &mut Stage) -> Result<(), Error> {
    stage.done.confine.cpus = parse(stage.variant.level(factor::CPUS)).map_err(unfit(factor::CPUS))?;
    Ok(())
}

/// The meaning of a level: CPU numbers, ascending. None is all.
///
/// # Errors
/// What would be right.
pub fn parse(level: &str) -> Result<Option<Vec<usize>>, String> {
    if level.is_empty() {
        return Ok(None);
    }
    // Both what plans read well and what taskset(1) takes.
    let cpus = cpu_list(&level.replace('+', ","));
    cpus.map(Some).ok_or_else(|| format!("invalid list of CPUs `{level}`; write `0`, `0-3` or `0-1+4`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_ranges() {
        assert_eq!(parse("0-1+4").unwrap().unwrap(), [0, 1, 4]);
        assert_eq!(parse("3,1").unwrap().unwrap(), [1, 3]);
        for wrong in ["all", "1-0", "-1", "0-", "99999"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
