//! How data and metadata are spread over several devices.

use super::parsed;

/// Most devices of one filesystem.
const MOST: usize = 16;

/// Several devices under one filesystem.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Raid {
    /// Whether each block is on two of them, and not striped.
    pub mirrored: bool,
    /// How many devices.
    pub members: usize,
}

impl Raid {
    /// `raid0` or `raid1`.
    pub fn profile(self) -> &'static str {
        if self.mirrored { "raid1" } else { "raid0" }
    }

    /// The size of each device, in bytes, so that together they hold as much as one device of `whole` bytes.
    pub fn member_bytes(self, whole: u64) -> u64 {
        let copies = if self.mirrored { 2 } else { 1 };
        let member = whole.saturating_mul(copies).div_ceil(self.members as u64);
        member.checked_next_multiple_of(1 << 20).unwrap_or(u64::MAX)
    }
}

/// The meaning of a level. None is one device.
///
/// # Errors
/// How a level is written.
pub fn parse(level: &str) -> Result<Option<Raid>, String> {
    let how = format!("`raid0` or `raid1`, or with 2 to {MOST} devices: `raid0:3`");
    parsed(level, "RAID level", &how, |level| {
        let (profile, members) = level.split_once(':').unwrap_or((level, "2"));
        let mirrored = ["raid0", "raid1"].iter().position(|known| *known == profile)? == 1;
        let members = members.parse().ok().filter(|members| (2..=MOST).contains(members))?;
        Some(Raid { mirrored, members })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_hold_together_what_one_device_would() {
        let raid = parse("raid0:3").unwrap().unwrap();
        assert_eq!((raid.profile(), raid.members, raid.member_bytes(300 << 20)), ("raid0", 3, 100 << 20));
        assert_eq!(parse("raid1").unwrap().unwrap().member_bytes(2 << 30), 2 << 30);
        for wrong in ["raid5", "raid0:1", "raid0:99", "raid0:x", "2"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
