//! A slower device, by the kernel's I/O throttling.
//!
//! In version 1 of control groups the limit is set for the group of this process and for the root, in which the
//! kernel's own threads write back. It applies to one device, so no other is slowed. In version 2 the measuring process
//! gets a separate group, and writeback counts for the process that dirtied the pages.

use super::axis::{Asked, Axis, Stage, lacking, unfit};
use crate::executor::Fatal;
use fsarena_core::event::{Note, NoteKind};
use fsarena_core::factor::{self, limit};
use fsarena_sys::cgroup::Controller;
use fsarena_sys::device::BlockDevice;
use fsarena_sys::kernel::Kernel;
use fsarena_sys::{Error, attribute};
use std::path::Path;

/// The axis.
pub const AXIS: Axis = Axis { factor: factor::LIMIT, of_directories: false, check, set_up };

fn controller(kernel: &Kernel) -> Option<Controller> {
    Controller::find(kernel, "blkio", "io")
}

fn check(asked: &Asked) -> Result<(), Fatal> {
    if asked.variant.level(factor::LIMIT).is_empty() {
        return Ok(());
    }
    let found = controller(asked.kernel);
    let able = found.is_some_and(|found| found.unified || found.root.join(WRITE_BYTES).exists());
    match able {
        true => Ok(()),
        false => Err(lacking(
            asked,
            factor::LIMIT,
            "this kernel throttles no I/O (cgroup io.max or blkio.throttle)",
        )),
    }
}

const WRITE_BYTES: &str = "blkio.throttle.write_bps_device";
const READ_BYTES: &str = "blkio.throttle.read_bps_device";
const WRITE_REQUESTS: &str = "blkio.throttle.write_iops_device";
const READ_REQUESTS: &str = "blkio.throttle.read_iops_device";

fn set_up(stage: &mut Stage) -> Result<(), Error> {
    let level = stage.variant.level(factor::LIMIT);
    let Some(limit) = limit::parse(level).map_err(unfit(factor::LIMIT))? else { return Ok(()) };
    let controller = controller(stage.kernel)
        .ok_or_else(|| unfit("cgroup")("the controller of I/O is gone since the run was checked".into()))?;
    if controller.unified {
        unified(stage, &controller, &limit)?;
    } else {
        let mut groups = vec![controller.root.clone(), controller.own.clone()];
        groups.dedup();
        for (group, device) in groups.iter().flat_map(|group| stage.devices.iter().map(move |d| (group, *d)))
        {
            for (file, most) in [
                (WRITE_BYTES, limit.bytes_per_s),
                (READ_BYTES, limit.bytes_per_s),
                (WRITE_REQUESTS, limit.requests_per_s),
                (READ_REQUESTS, limit.requests_per_s),
            ] {
                if let Some(most) = most {
                    throttle(stage, &group.join(file), device, most)?;
                }
            }
        }
    }
    let how = if controller.unified { "io.max" } else { "blkio.throttle" };
    let text = format!(
        "the device is held to {level} each way by {how}: a limit of the queue, so that requests wait in the kernel; \
         a slow device would also merge and reorder them"
    );
    stage.done.notes.push(Note::new(NoteKind::Remark, text).task("device"));
    Ok(())
}

/// One limit of version 1: a line `major:minor value`, of which 0 is none.
fn throttle(stage: &mut Stage, path: &Path, device: &BlockDevice, most: u64) -> Result<(), Error> {
    let numbers = device.numbers();
    let text = std::fs::read_to_string(path).map_err(Error::io("reading", path))?;
    let mut lines = text.lines().map(|line| line.split_whitespace());
    let former = lines.find_map(|mut words| (words.next() == Some(&numbers)).then(|| words.next())).flatten();
    let former = format!("{numbers} {}", former.unwrap_or("0"));
    stage.done.keep(attribute::set(stage.journal, path, &format!("{numbers} {most}"), &former)?);
    Ok(())
}

fn unified(stage: &mut Stage, controller: &Controller, limit: &limit::Limit) -> Result<(), Error> {
    let group = controller.group(stage.journal)?;
    for device in stage.devices {
        let mut line = device.numbers();
        for (key, most) in [
            ("rbps", limit.bytes_per_s),
            ("wbps", limit.bytes_per_s),
            ("riops", limit.requests_per_s),
            ("wiops", limit.requests_per_s),
        ] {
            if let Some(most) = most {
                line.push_str(&format!(" {key}={most}"));
            }
        }
        group.set("io.max", &line)?;
    }
    stage.done.join(group);
    Ok(())
}
