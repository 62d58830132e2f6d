//! The axis of the I/O limit: slows the devices of a variant by the kernel's I/O throttling.
//!
//! In version 1 of control groups the limit is set for the group of this process and for the root group, because the
//! kernel's own threads write back in the root group. A limit names a device, so other devices are not slowed. In
//! version 2 the measuring process gets a separate group, and the kernel counts writeback for the process that dirtied
//! the pages.

use super::axis::{Axis, CellSetup, LevelCheck};
use crate::error::{Result, require};
use fsarena_core::event::{Note, NoteKind};
use fsarena_core::factor;
use fsarena_core::plan::Backing;
use fsarena_core::setting::parse_size;
use fsarena_sys::{Error, attribute, cgroup::Controller, device::BlockDevice};
use std::path::Path;

/// The axis.
pub const AXIS: Axis = Axis::new(
    factor::LIMIT,
    "20MB/s, 200iops, 2ms, 20MB/s+2ms",
    "emulated slower device, by the kernel's I/O throttling: bytes a second each way (`20MB/s`), requests a second each way (`200iops`), or the least time from one request to the next (`2ms`); joined by `+`",
    |level| parse(level).map(drop),
)
.with_check(check)
.with_set_up(set_up);

fn check(check: &LevelCheck) -> Result<()> {
    if check.level().is_empty() {
        return Ok(());
    }
    // In version 2 the root group never has the file `io.max`, so this cannot be checked here. If the kernel cannot throttle,
    // setting the limit fails.
    let can_throttle = |controller: Controller| controller.is_v2 || controller.root.join(WRITE_BYTES_FILE).exists();
    let why = "this kernel throttles no I/O (cgroup io.max or blkio.throttle)";
    let controller = Controller::find(check.kernel, "blkio", "io");
    require(controller.is_some_and(can_throttle), || check.missing_error(why))?;
    // Only a device of the user that is erased can be a partition: fsarena makes the others as whole disks.
    match &check.plan.device.backing {
        Backing::Erase { path, .. } if check.variant.level(factor::DEVICE).is_empty() => {
            let device = BlockDevice::open(check.kernel, path);
            let why = || format!("the kernel throttles whole disks, and {} is a partition", path.display());
            require(!device.is_ok_and(|device| is_partition(&device)), || check.missing_error(why()))
        }
        _ => Ok(()),
    }
}

fn is_partition(device: &BlockDevice) -> bool {
    device.attribute("partition").is_some()
}

/// The file of version 1 that limits the bytes written per second.
const WRITE_BYTES_FILE: &str = "blkio.throttle.write_bps_device";

fn set_up(setup: &mut CellSetup) -> Result<(), Error> {
    let Some(limit) = setup.parse_level(parse)? else { return Ok(()) };
    let controller = setup.find_controller("blkio", "io")?;
    if controller.is_v2 {
        throttle_unified(setup, &controller, &limit)?;
    } else {
        let mut groups = vec![controller.root.clone(), controller.own_group.clone()];
        groups.dedup();
        let devices = setup.devices;
        for (group, device) in groups.iter().flat_map(|group| devices.iter().map(move |device| (group, *device))) {
            for (file, _, maximum) in limit.settings() {
                throttle(setup, &group.join(file), device, maximum)?;
            }
        }
    }
    let interface = if controller.is_v2 { "io.max" } else { "blkio.throttle" };
    // A latency is rounded to whole requests per second, so the note has the rate.
    let rate = limit.requests_per_s.map_or(String::new(), |rate| format!(" ({rate} requests a second)"));
    let text = format!(
        "{interface} limits reads and writes to {}{rate} each: requests wait in the kernel until the limit allows them; the \
         requests of a slow device would also be merged and reordered",
        setup.level()
    );
    setup.conditions.notes.push(Note::new(NoteKind::Remark, text).task("device"));
    Ok(())
}

/// Sets one limit in version 1 of control groups: writes a line `major:minor value`, where the value 0 means no limit.
fn throttle(setup: &mut CellSetup, path: &Path, device: &BlockDevice, maximum: u64) -> Result<(), Error> {
    let numbers = device.numbers();
    let text = std::fs::read_to_string(path).map_err(Error::io("reading", path))?;
    let mut lines = text.lines().map(|line| line.split_whitespace());
    let former = lines.find_map(|mut words| (words.next() == Some(&numbers)).then(|| words.next())).flatten();
    let former = format!("{numbers} {}", former.unwrap_or("0"));
    setup.conditions.add_guard(attribute::set(setup.journal, path, &format!("{numbers} {maximum}"), &former)?);
    Ok(())
}

/// Sets all limits in version 2 of control groups, in a new group for the measuring process.
fn throttle_unified(setup: &mut CellSetup, controller: &Controller, limit: &Limit) -> Result<(), Error> {
    let group = controller.make_group(setup.journal)?;
    for device in setup.devices {
        let keys: String = limit.settings().map(|(_, key, maximum)| format!(" {key}={maximum}")).collect();
        group.set("io.max", &(device.numbers() + &keys))?;
    }
    setup.conditions.add_group(group);
    Ok(())
}

/// The limits of a device, which apply to reads and writes each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Limit {
    /// Bytes per second; None for no limit.
    bytes_per_s: Option<u64>,
    /// Requests per second; None for no limit.
    requests_per_s: Option<u64>,
}

impl Limit {
    /// The settings of the limits: the file in version 1, the key in version 2, and the value.
    fn settings(self) -> impl Iterator<Item = (&'static str, &'static str, u64)> {
        let settings = [
            (WRITE_BYTES_FILE, "wbps", self.bytes_per_s),
            ("blkio.throttle.read_bps_device", "rbps", self.bytes_per_s),
            ("blkio.throttle.write_iops_device", "wiops", self.requests_per_s),
            ("blkio.throttle.read_iops_device", "riops", self.requests_per_s),
        ];
        settings.into_iter().filter_map(|(file, key, maximum)| Some((file, key, maximum?)))
    }
}

/// Parses a level. None, for an empty level, means no limit.
///
/// # Errors
/// An invalid level; the message shows how to write one.
fn parse(level: &str) -> Result<Option<Limit>, String> {
    if level.is_empty() {
        return Ok(None);
    }
    let invalid = || format!("invalid limit `{level}`; write `20MB/s`, `200iops`, `2ms`, or several joined by `+`");
    let mut limit = Limit::default();
    for part in level.split('+').map(str::trim) {
        let (field, value) = if let Some(rate) = part.strip_suffix("/s") {
            (&mut limit.bytes_per_s, parse_size(rate).ok())
        } else if let Some(rate) = part.strip_suffix("iops") {
            (&mut limit.requests_per_s, rate.parse().ok().filter(|rate| *rate > 0))
        } else {
            (&mut limit.requests_per_s, requests_per_s(part))
        };
        if value.is_none() || field.is_some() {
            return Err(invalid());
        }
        *field = value;
    }
    Ok(Some(limit))
}

/// The requests per second that emulate a latency. The kernel cannot delay requests, but with such a limit each request
/// waits that long after the one before. The kernel accepts whole requests per second only, so long latencies are
/// rounded: 700 ms becomes one request per second, and so does 2 s, the longest latency. The shortest latency is 1 µs.
fn requests_per_s(latency: &str) -> Option<u64> {
    let time = humantime::parse_duration(latency).ok()?;
    let rate = (1.0 / time.as_secs_f64()).round();
    (1.0..=1e6).contains(&rate).then_some(rate as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsarena_sys::kernel::SysRoot;

    #[test]
    fn partitions_are_told_from_disks() {
        let root = tempfile::tempdir().unwrap();
        for (numbers, file) in [("8:0", "size"), ("8:1", "partition")] {
            let dir = root.path().join("sys/dev/block").join(numbers);
            std::fs::create_dir_all(&dir).unwrap();
            std::fs::write(dir.join(file), "1\n").unwrap();
        }
        let kernel = SysRoot::at(root.path());
        let device = |minor| BlockDevice::from_numbers(&kernel, 8, minor, "/dev/sda".into()).unwrap();
        assert!(!is_partition(&device(0)) && is_partition(&device(1)));
    }

    #[test]
    fn a_level_is_a_rate_requests_a_latency_or_several() {
        assert_eq!(parse("").unwrap(), None);
        let limit = parse("20MB/s+2ms").unwrap().unwrap();
        assert_eq!((limit.bytes_per_s, limit.requests_per_s), (Some(20_000_000), Some(500)));
        assert_eq!(parse("150iops").unwrap().unwrap().requests_per_s, Some(150));
        for wrong in ["fast", "0MB/s", "0iops", "2ms+100iops", "1MB/s+1MB/s", "5s", "20MB"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
