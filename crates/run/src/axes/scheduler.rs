//! The I/O scheduler of every device of the variant.

use super::axis::{Axis, CellSetup, LevelCheck, lacking, wrong};
use crate::{error::Result, settings::setting};
use fsarena_core::event::{Note, NoteKind};
use fsarena_core::{factor, factor::device::BackingDevice, names::unknown, plan::Backing};
use fsarena_sys::kernel::{self, SysRoot};
use fsarena_sys::{Error, device::BlockDevice};
use std::collections::BTreeSet;

/// The schedulers of Linux.
const KNOWN: [&str; 4] = ["none", "mq-deadline", "kyber", "bfq"];
/// Those that Linux has had before 5.0: no typing mistakes.
const FORMER: [&str; 3] = ["noop", "deadline", "cfq"];

/// The axis.
pub const AXIS: Axis = Axis::of_devices(
    factor::SCHEDULER,
    "none, mq-deadline, kyber, bfq",
    "I/O scheduler of every device of the variant, put back afterwards: none, mq-deadline, kyber, bfq; empty leaves it. \
     The disk below a loop device keeps its own",
    name,
)
.checked(check)
.set_up(set_up);

fn check(check: &LevelCheck) -> Result<()> {
    let level = check.variant.level(factor::SCHEDULER);
    if level.is_empty() {
        return Ok(());
    }
    let backing = factor::device::parse(check.variant.level(factor::DEVICE)).unwrap_or_default();
    let offered = match (backing, &check.plan.device.backing) {
        (None, Backing::Erase { path, .. }) => {
            BlockDevice::open(check.kernel, path).ok().and_then(|device| device.schedulers())
        }
        (Some(BackingDevice::Zram), _) | (None, Backing::Zram) => of_any(check.kernel, "zram"),
        _ => of_any(check.kernel, "loop"),
    };
    // Without a device of the kind nothing is known yet; the kernel says it when there is one.
    let Some(offered) = offered.filter(|offered| !offered.iter().any(|known| known == level)) else {
        return Ok(());
    };
    let only = offered.join(", ");
    Err(match KNOWN.contains(&level) || FORMER.contains(&level) {
        true => lacking(check, factor::SCHEDULER, format!("the device has only {only}")),
        false => wrong(check, factor::SCHEDULER, unknown("scheduler", level, KNOWN)),
    })
}

/// The schedulers of a device of this kind: all of a kind have the same.
fn of_any(kernel: &SysRoot, kind: &str) -> Option<Vec<String>> {
    let entries = std::fs::read_dir(kernel.path("sys/block")).ok()?.flatten();
    let mut names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let name = names.find(|name| name.starts_with(kind))?;
    let line = kernel.fact(&format!("sys/block/{name}/queue/scheduler"))?;
    Some(line.split_whitespace().map(|word| word.trim_matches(['[', ']']).to_string()).collect())
}

fn set_up(stage: &mut CellSetup) -> Result<(), Error> {
    let level = stage.variant.level(factor::SCHEDULER);
    for device in stage.devices {
        let path = device.queue_path("scheduler");
        let former = device.scheduler().unwrap_or_else(|| "none".into());
        if former != level {
            stage.done.keep(kernel::set_attribute(stage.journal, &path, level, &former)?);
        }
    }
    if let Some(note) = below(stage) {
        stage.done.notes.push(note);
    }
    Ok(())
}

/// That the disks below loop devices keep their own schedulers.
fn below(stage: &CellSetup) -> Option<Note> {
    let loops = stage.devices.iter().filter(|device| device.attribute("loop/backing_file").is_some());
    let disks: BTreeSet<String> = loops.flat_map(|device| device.disks()).collect();
    let own = |disk: String| {
        let line = stage.kernel.fact(&format!("sys/block/{disk}/queue/scheduler"))?;
        let chosen = line.split_once('[')?.1.split_once(']')?.0.to_string();
        Some(format!("{disk} ({chosen})"))
    };
    let kept: Vec<String> = disks.into_iter().filter_map(own).collect();
    let text = format!(
        "the factor scheduler sets the scheduler of the loop device; the disk below keeps its own: {}",
        kept.join(", ")
    );
    let fix = format!("{} compares schedulers of the disk itself", setting("erase", "DEVICE"));
    let note = Note::new(NoteKind::Fairness, text).fix(fix);
    (!kept.is_empty()).then_some(note)
}

fn name(level: &str) -> Result<(), String> {
    let valid = level.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-');
    let why = || format!("invalid I/O scheduler `{level}`; write none, mq-deadline, kyber or bfq");
    valid.then_some(()).ok_or_else(why)
}
