//! The axis of the I/O scheduler: sets the scheduler of every device of the variant.

use super::axis::{Axis, CellSetup, LevelCheck};
use crate::error::Result;
use fsarena_core::event::{Note, NoteKind};
use fsarena_core::setting_text::setting;
use fsarena_core::{factor, factor::device::BackingDevice, names::unknown_name, plan::Backing};
use fsarena_sys::{Error, attribute, device::BlockDevice, kernel::SysRoot};
use std::collections::BTreeSet;

/// The schedulers of Linux.
const SCHEDULERS: [&str; 4] = ["none", "mq-deadline", "kyber", "bfq"];
/// Further schedulers of Linux before 5.0. A level that is one of these is not a typing mistake, even if this machine
/// lacks it.
const FORMER_SCHEDULERS: [&str; 3] = ["noop", "deadline", "cfq"];

/// The axis.
pub const AXIS: Axis = Axis::new(
    factor::SCHEDULER,
    "none, mq-deadline, kyber, bfq",
    "I/O scheduler of every device of the variant, put back afterwards: none, mq-deadline, kyber, bfq; empty leaves it. \
     The disk below a loop device keeps its own",
    check_name,
)
.with_check(check)
.with_set_up(set_up);

fn check(check: &LevelCheck) -> Result<()> {
    let level = check.level();
    if level.is_empty() {
        return Ok(());
    }
    let backing = factor::device::parse_device(check.variant.level(factor::DEVICE)).unwrap_or_default();
    let offered = match (backing, &check.plan.device.backing) {
        (None, Backing::Erase { path, .. }) => {
            BlockDevice::open(check.kernel, path).ok().and_then(|device| device.schedulers())
        }
        (Some(BackingDevice::Zram), _) | (None, Backing::Zram) => schedulers_of_kind(check.kernel, "zram"),
        _ => schedulers_of_kind(check.kernel, "loop"),
    };
    // Without a device of this kind its schedulers are unknown, so the level is not checked.
    let Some(offered) = offered.filter(|offered| !offered.iter().any(|scheduler| scheduler == level)) else {
        return Ok(());
    };
    let offered_names = offered.join(", ");
    if SCHEDULERS.contains(&level) || FORMER_SCHEDULERS.contains(&level) {
        return Err(check.missing_error(format!("the device has only {offered_names}")));
    }
    Err(check.plan_error(unknown_name("scheduler", level, SCHEDULERS)))
}

/// The schedulers that devices of this kind (`loop`, `zram`) offer, read from the first device that does not vanish
/// meanwhile; None if there is no such device.
fn schedulers_of_kind(kernel: &SysRoot, kind: &str) -> Option<Vec<String>> {
    let entries = std::fs::read_dir(kernel.path("sys/block")).ok()?.flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let read_line = |name: String| kernel.read_trimmed(&format!("sys/block/{name}/queue/scheduler"));
    let line = names.filter(|name| name.starts_with(kind)).find_map(read_line)?;
    Some(line.split_whitespace().map(|word| word.trim_matches(['[', ']']).to_string()).collect())
}

fn set_up(setup: &mut CellSetup) -> Result<(), Error> {
    let level = setup.level();
    for device in setup.devices {
        let path = device.queue_attribute_path("scheduler");
        let former = device.scheduler().unwrap_or_else(|| "none".into());
        if former != level {
            setup.conditions.add_guard(attribute::set(setup.journal, &path, level, &former)?);
        }
    }
    if let Some(note) = disks_below_note(setup) {
        setup.conditions.notes.push(note);
    }
    Ok(())
}

/// A note that the disks below loop devices keep their own schedulers; None without such disks.
fn disks_below_note(setup: &CellSetup) -> Option<Note> {
    let loops = setup.devices.iter().filter(|device| device.attribute("loop/backing_file").is_some());
    let disks: BTreeSet<String> = loops.flat_map(|device| device.disk_names()).collect();
    let describe = |disk: String| {
        let line = setup.kernel.read_trimmed(&format!("sys/block/{disk}/queue/scheduler"))?;
        let current = line.split_once('[')?.1.split_once(']')?.0.to_string();
        Some(format!("{disk} ({current})"))
    };
    let descriptions: Vec<String> = disks.into_iter().filter_map(describe).collect();
    if descriptions.is_empty() {
        return None;
    }
    let text = format!(
        "the factor scheduler sets the scheduler of the loop device; the disk below keeps its own: {}",
        descriptions.join(", ")
    );
    let fix = format!("{} compares schedulers of the disk itself", setting("erase", "DEVICE"));
    Some(Note::new(NoteKind::Fairness, text).fix(fix))
}

/// Checks the syntax of a scheduler's name.
fn check_name(level: &str) -> Result<(), String> {
    if level.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-') {
        return Ok(());
    }
    Err(format!("invalid I/O scheduler `{level}`; write none, mq-deadline, kyber or bfq"))
}
