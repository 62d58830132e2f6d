//! A slower device, by the kernel's I/O throttling.
//!
//! In version 1 of control groups the limit is set for the group of this process and for the root, in which the
//! kernel's own threads write back. It applies to one device, so no other is slowed. In version 2 the measuring process
//! gets a separate group, and writeback counts for the process that dirtied the pages.

use super::axis::{Axis, CellSetup, LevelCheck, lacking, unfit};
use crate::error::{Result, require};
use fsarena_core::event::{Note, NoteKind};
use fsarena_core::factor::{self, bytes};
use fsarena_sys::kernel::{self, SysRoot};
use fsarena_sys::{Error, cgroup::Controller, device::BlockDevice};
use std::path::Path;

/// The axis.
pub const AXIS: Axis = Axis::of_devices(
    factor::LIMIT,
    "20MB/s, 200iops, 2ms, 20MB/s+2ms",
    "emulated slower device, by the kernel's I/O throttling: bytes a second each way (`20MB/s`), requests a second each way (`200iops`), or the least time from one request to the next (`2ms`); joined by `+`",
    |level| parse(level).map(drop),
)
.checked(check)
.set_up(set_up);

fn controller(kernel: &SysRoot) -> Option<Controller> {
    Controller::find(kernel, "blkio", "io")
}

fn check(check: &LevelCheck) -> Result<()> {
    let able = |found: Controller| found.unified || found.root.join(WRITE_BYTES).exists();
    let able = check.variant.level(factor::LIMIT).is_empty() || controller(check.kernel).is_some_and(able);
    let why = "this kernel throttles no I/O (cgroup io.max or blkio.throttle)";
    require(able, || lacking(check, factor::LIMIT, why))
}

const WRITE_BYTES: &str = "blkio.throttle.write_bps_device";

fn set_up(stage: &mut CellSetup) -> Result<(), Error> {
    let level = stage.variant.level(factor::LIMIT);
    let Some(limit) = parse(level).map_err(unfit(factor::LIMIT))? else { return Ok(()) };
    let controller = controller(stage.kernel)
        .ok_or_else(|| unfit("cgroup")("the controller of I/O is gone since the run was checked".into()))?;
    if controller.unified {
        unified(stage, &controller, &limit)?;
    } else {
        let mut groups = vec![controller.root.clone(), controller.own.clone()];
        groups.dedup();
        let devices = stage.devices;
        for (group, device) in groups.iter().flat_map(|group| devices.iter().map(move |d| (group, *d))) {
            for (file, _, most) in limit.each() {
                throttle(stage, &group.join(file), device, most)?;
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
fn throttle(stage: &mut CellSetup, path: &Path, device: &BlockDevice, most: u64) -> Result<(), Error> {
    let numbers = device.numbers();
    let text = std::fs::read_to_string(path).map_err(Error::io("reading", path))?;
    let mut lines = text.lines().map(|line| line.split_whitespace());
    let former = lines.find_map(|mut words| (words.next() == Some(&numbers)).then(|| words.next())).flatten();
    let former = format!("{numbers} {}", former.unwrap_or("0"));
    stage.done.keep(kernel::set_attribute(stage.journal, path, &format!("{numbers} {most}"), &former)?);
    Ok(())
}

fn unified(stage: &mut CellSetup, controller: &Controller, limit: &Limit) -> Result<(), Error> {
    let group = controller.group(stage.journal)?;
    for device in stage.devices {
        let keys: String = limit.each().map(|(_, key, most)| format!(" {key}={most}")).collect();
        group.set("io.max", &(device.numbers() + &keys))?;
    }
    stage.done.join(group);
    Ok(())
}

/// What a device may do at most, reading and writing each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Limit {
    /// Bytes a second.
    pub bytes_per_s: Option<u64>,
    /// Requests a second.
    pub requests_per_s: Option<u64>,
}

impl Limit {
    /// What limits it: the file of version 1, the key of version 2, and the value.
    fn each(self) -> impl Iterator<Item = (&'static str, &'static str, u64)> {
        let all = [
            (WRITE_BYTES, "wbps", self.bytes_per_s),
            ("blkio.throttle.read_bps_device", "rbps", self.bytes_per_s),
            ("blkio.throttle.write_iops_device", "wiops", self.requests_per_s),
            ("blkio.throttle.read_iops_device", "riops", self.requests_per_s),
        ];
        all.into_iter().filter_map(|(file, key, most)| Some((file, key, most?)))
    }
}

/// The meaning of a level. None stands for unlimited.
///
/// # Errors
/// What would be right.
pub fn parse(level: &str) -> Result<Option<Limit>, String> {
    if level.is_empty() {
        return Ok(None);
    }
    let wrong =
        || format!("invalid limit `{level}`; write `20MB/s`, `200iops`, `2ms`, or several joined by `+`");
    let mut limit = Limit::default();
    for part in level.split('+').map(str::trim) {
        let (place, value) = if let Some(rate) = part.strip_suffix("/s") {
            (&mut limit.bytes_per_s, bytes(rate))
        } else if let Some(rate) = part.strip_suffix("iops") {
            (&mut limit.requests_per_s, rate.parse().ok().filter(|rate| *rate > 0))
        } else {
            (&mut limit.requests_per_s, requests(part))
        };
        if value.is_none() || place.is_some() {
            return Err(wrong());
        }
        *place = value;
    }
    Ok(Some(limit))
}

/// Requests a second of a device that takes so long for each: the throttle knows no latency, but one request
/// after another waits as long.
fn requests(latency: &str) -> Option<u64> {
    let time = humantime::parse_duration(latency).ok()?;
    let rate = (1.0 / time.as_secs_f64()).round();
    (1.0..=1e6).contains(&rate).then_some(rate as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_requests_and_latency() {
        assert_eq!(parse("").unwrap(), None);
        let limit = parse("20MB/s+2ms").unwrap().unwrap();
        assert_eq!((limit.bytes_per_s, limit.requests_per_s), (Some(20_000_000), Some(500)));
        assert_eq!(parse("150iops").unwrap().unwrap().requests_per_s, Some(150));
        for wrong in ["fast", "0MB/s", "0iops", "2ms+100iops", "1MB/s+1MB/s", "5s", "20MB"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
