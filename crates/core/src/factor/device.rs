//! The factors of the devices under a filesystem: `device`, `journal`, `raid` and `faults`.

use super::parse_level;
use crate::{names, setting::parse_size};
use serde::{Deserialize, Serialize};

crate::named_enum! {
    /// A device that fsarena makes.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum BackingDevice {
        /// A loop image on disk.
        Loop = "loop",
        /// A loop image in memory (tmpfs).
        Ram = "ram",
        /// Compressed memory as a block device.
        Zram = "zram",
    }
}

/// Parses a level of `device`. None for an empty level: the filesystem then uses the device that the plan sets for the
/// whole run.
///
/// # Errors
/// No device has this name.
pub fn parse_device(level: &str) -> Result<Option<BackingDevice>, String> {
    match level {
        "" => Ok(None),
        level => Ok(Some(names::find_by_id("device", level, BackingDevice::ALL, |device| device.name())?)),
    }
}

/// A journal on a separate device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ExternalJournal {
    /// Its size in bytes; default: the size that mkfs chooses.
    pub size_bytes: Option<u64>,
    /// Its backing device; default: the same kind as the filesystem's device.
    pub device: Option<BackingDevice>,
}

/// Parses a level of `journal`. None for an empty level: the journal is inside the filesystem.
///
/// # Errors
/// The level does not have the form `external[:SIZE][@DEVICE]`.
pub fn parse_journal(level: &str) -> Result<Option<ExternalJournal>, String> {
    let (journal, device) = level.split_once('@').unwrap_or((level, ""));
    let device = parse_device(device)?;
    // `parse_level` passes the whole level, which is split already.
    let parse_external = |_: &str| match journal.split_once(':') {
        _ if level.ends_with('@') => None,
        Some(("external", size)) => Some(ExternalJournal { size_bytes: Some(parse_size(size).ok()?), device }),
        None if journal == "external" => Some(ExternalJournal { size_bytes: None, device }),
        _ => None,
    };
    parse_level(level, "journal", "`external`, `external:256MiB` or `external@ram`", parse_external)
}

/// The most devices under one filesystem.
const MAX_DEVICES: usize = 16;

/// Several devices under one filesystem.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Raid {
    /// Whether each block is on several devices (RAID 1): on two with btrfs, on all with md. Otherwise blocks are striped over
    /// the devices (RAID 0).
    pub mirrored: bool,
    /// The number of devices.
    pub member_count: usize,
}

impl Raid {
    /// The name of the RAID profile: `raid0` or `raid1`. It is also the name of the level in md, and of the kernel
    /// module for that level.
    pub fn profile(self) -> &'static str {
        if self.mirrored { "raid1" } else { "raid0" }
    }

    /// The size of each device in bytes, so that all together have the capacity of one device of `capacity` bytes. If
    /// `is_md` is false, the filesystem combines the devices itself.
    pub fn member_bytes(self, capacity: u64, is_md: bool) -> u64 {
        let copies = match (self.mirrored, is_md) {
            (false, _) => 1,
            (true, false) => 2,
            (true, true) => self.member_count as u64,
        };
        let member = capacity.saturating_mul(copies).div_ceil(self.member_count as u64);
        member.checked_next_multiple_of(1 << 20).unwrap_or(u64::MAX)
    }
}

/// Parses a level of `raid`: `raid0`, `raid1`, or with a number of devices `raid0:3`. None for an empty level: a single device.
///
/// # Errors
/// The level does not have one of these forms, or the number of devices is not 2 to 16.
pub fn parse_raid(level: &str) -> Result<Option<Raid>, String> {
    let syntax = format!("`raid0` or `raid1`, or with 2 to {MAX_DEVICES} devices: `raid0:3`");
    parse_level(level, "RAID level", &syntax, |level| {
        let (profile, members) = level.split_once(':').unwrap_or((level, "2"));
        let mirrored = match profile {
            "raid0" => false,
            "raid1" => true,
            _ => return None,
        };
        let member_count = members.parse().ok().filter(|members| (2..=MAX_DEVICES).contains(members))?;
        Some(Raid { mirrored, member_count })
    })
}

/// A simulated fault of a block device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeviceFault {
    /// Every request is delayed.
    Delay {
        /// The delay in milliseconds.
        ms: u64,
    },
    /// The device alternates between working and failing every request.
    Flaky {
        /// Seconds in which it works.
        up_s: u64,
        /// Seconds in which it fails.
        down_s: u64,
    },
    /// Reads and writes of a range fail.
    Error {
        /// Where it begins, in bytes: a multiple of 512 above 0.
        start: u64,
        /// Its length in bytes: a multiple of 512 above 0.
        bytes: u64,
    },
}

/// The size of a sector, the unit of the device mapper, in bytes.
const SECTOR_BYTES: u64 = 512;

/// Parses a level of `faults`: `delay:5ms`, `flaky:9s/1s` or `error:64MiB+1MiB`. None for an empty level: a device without
/// faults.
///
/// # Errors
/// The level does not have one of these forms.
pub fn parse_faults(level: &str) -> Result<Option<DeviceFault>, String> {
    parse_level(level, "device fault", "`delay:5ms`, `flaky:9s/1s` or `error:64MiB+1MiB`", parse_fault)
}

fn parse_fault(level: &str) -> Option<DeviceFault> {
    let parse_number = |text: &str, unit: &str| text.strip_suffix(unit)?.parse().ok().filter(|number| *number > 0);
    // Also refuses 0, as `parse_size` does.
    let parse_whole_sectors = |text: &str| parse_size(text).ok().filter(|bytes| bytes % SECTOR_BYTES == 0);
    match level.split_once(':')? {
        ("delay", time) => Some(DeviceFault::Delay { ms: parse_number(time, "ms")? }),
        ("flaky", times) => {
            let (up, down) = times.split_once('/')?;
            Some(DeviceFault::Flaky { up_s: parse_number(up, "s")?, down_s: parse_number(down, "s")? })
        }
        ("error", range) => {
            let (start, length) = range.split_once('+')?;
            let (start, bytes) = (parse_whole_sectors(start)?, parse_whole_sectors(length)?);
            start.checked_add(bytes).map(|_| DeviceFault::Error { start, bytes })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn size_and_backing_device_of_a_journal_are_optional() {
        assert_eq!(parse_journal(""), Ok(None));
        assert_eq!(parse_journal("external"), Ok(Some(ExternalJournal { size_bytes: None, device: None })));
        let both = ExternalJournal { size_bytes: Some(64 << 20), device: Some(BackingDevice::Ram) };
        for level in ["external:64MiB@ram", "external:64m@ram"] {
            assert_eq!(parse_journal(level), Ok(Some(both)));
        }
        for wrong in ["internal", "external:", "external:0", "external@", "external@moon", "external:many"] {
            assert!(parse_journal(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_devices_together_have_the_capacity_of_one() {
        let raid = parse_raid("raid0:3").unwrap().unwrap();
        assert_eq!((raid.profile(), raid.member_count, raid.member_bytes(300 << 20, false)), ("raid0", 3, 100 << 20));
        assert_eq!(parse_raid("raid1").unwrap().unwrap().member_bytes(2 << 30, false), 2 << 30);
        let mirror = parse_raid("raid1:3").unwrap().unwrap();
        assert_eq!([false, true].map(|is_md| mirror.member_bytes(300 << 20, is_md)), [200 << 20, 300 << 20]);
        for wrong in ["raid5", "raid0:1", "raid0:99", "raid0:x", "2"] {
            assert!(parse_raid(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn delays_flaky_devices_and_error_ranges_are_parsed() {
        assert_eq!(parse_faults("delay:5ms"), Ok(Some(DeviceFault::Delay { ms: 5 })));
        assert_eq!(parse_faults("flaky:9s/1s"), Ok(Some(DeviceFault::Flaky { up_s: 9, down_s: 1 })));
        let range = DeviceFault::Error { start: 64 << 20, bytes: 1 << 20 };
        assert_eq!(parse_faults("error:64MiB+1MiB"), Ok(Some(range)));
        for wrong in
            ["delay", "delay:5", "delay:0ms", "flaky:9s", "error:1MiB", "error:100+7", "error:8EiB+8EiB", "slow:1ms"]
        {
            assert!(parse_faults(wrong).is_err(), "{wrong}");
        }
    }
}
