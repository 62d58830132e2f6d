//! The factor `raid`: how a filesystem spreads data and metadata over several devices.

use super::parsed;

/// The most devices of one filesystem.
const MAX_MEMBERS: usize = 16;

/// Several devices under one filesystem.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Raid {
    /// Whether each block is on two devices (RAID 1). Otherwise blocks are striped over the devices (RAID 0).
    pub mirrored: bool,
    /// The number of devices.
    pub members: usize,
}

impl Raid {
    /// The name of the RAID profile: `raid0` or `raid1`.
    pub fn profile(self) -> &'static str {
        if self.mirrored { "raid1" } else { "raid0" }
    }

    /// The size of each device in bytes, so that all together have the capacity of one device of `whole` bytes.
    pub fn member_bytes(self, whole: u64) -> u64 {
        let copies = if self.mirrored { 2 } else { 1 };
        let member = whole.saturating_mul(copies).div_ceil(self.members as u64);
        member.checked_next_multiple_of(1 << 20).unwrap_or(u64::MAX)
    }
}

/// Parses a level: `raid0`, `raid1`, or with a number of devices `raid0:3`. None for an empty level: a single device.
///
/// # Errors
/// The level does not have this form, or not 2 to 16 devices.
pub fn parse(level: &str) -> Result<Option<Raid>, String> {
    let how = format!("`raid0` or `raid1`, or with 2 to {MAX_MEMBERS} devices: `raid0:3`");
    parsed(level, "RAID level", &how, |level| {
        let (profile, members) = level.split_once(':').unwrap_or((level, "2"));
        let mirrored = match profile {
            "raid0" => false,
            "raid1" => true,
            _ => return None,
        };
        let members = members.parse().ok().filter(|members| (2..=MAX_MEMBERS).contains(members))?;
        Some(Raid { mirrored, members })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_members_together_have_the_capacity_of_one_device() {
        let raid = parse("raid0:3").unwrap().unwrap();
        assert_eq!((raid.profile(), raid.members, raid.member_bytes(300 << 20)), ("raid0", 3, 100 << 20));
        assert_eq!(parse("raid1").unwrap().unwrap().member_bytes(2 << 30), 2 << 30);
        for wrong in ["raid5", "raid0:1", "raid0:99", "raid0:x", "2"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
