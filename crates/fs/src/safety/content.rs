//! The content of a device, by samples: whether anything lies on it, and whether it is as fsarena left it.
//!
//! A signature shows that a filesystem begins on a device. Plain dm-crypt, VeraCrypt and many databases have none: only
//! the content shows that the device is in use.

use fsarena_sys::{Error as SysError, device::BlockDevice};
use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::os::unix::fs::{FileExt, OpenOptionsExt};

/// The smallest read. Direct I/O wants whole logical blocks, and few devices have larger ones.
const SMALLEST: u64 = 4096;
/// The largest read.
const LARGEST: u64 = 1 << 20;
/// A device up to this size is read whole.
const WHOLE: u64 = 64 << 20;
/// So much is read at the beginning: superblocks, allocation maps and logs of most filesystems.
const HEAD: u64 = 16 << 20;
/// And at the end: backup superblocks, RAID metadata, hidden volumes.
const TAIL: u64 = 4 << 20;
/// Where copies of superblocks lie: btrfs (64 MiB, 256 GiB), and the groups of ext2 to ext4 by their block size.
const SUPERBLOCKS: [u64; 9] =
    [32 << 20, 64 << 20, 96 << 20, 128 << 20, 160 << 20, 384 << 20, 640 << 20, 1152 << 20, 256 << 30];
/// Read at each of those.
const SUPERBLOCK: u64 = 64 << 10;
/// Random places: one in each of 1000 equal parts, so that no data as long as two parts is missed.
const PARTS: u64 = 1000;

/// A fingerprint of a device's content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fingerprint {
    /// Its size in bytes.
    size_bytes: u64,
    /// It chose the random places.
    seed: u64,
    /// BLAKE3 of all that was read, in hexadecimal digits.
    hash: String,
}

/// Samples of a device.
#[derive(Debug)]
pub struct Samples {
    /// What they come to.
    pub fingerprint: Fingerprint,
    /// Whether all bytes are 0, or all are 0xff: flash that was erased reads as one or the other.
    pub blank: bool,
}

impl Samples {
    /// Reads a device at both ends, where superblocks lie, and at a thousand places that the system's randomness chooses.
    ///
    /// # Errors
    /// Where it cannot be read, or `go_on` says to stop.
    pub fn read(device: &BlockDevice, go_on: impl Fn() -> Result<(), SysError>) -> Result<Samples, SysError> {
        let mut seed = [0; 8];
        rustix::rand::getrandom(&mut seed, rustix::rand::GetRandomFlags::empty())
            .map_err(|error| SysError::io("choosing places on", &device.path)(error.into()))?;
        Samples::seeded(device, u64::from_le_bytes(seed), go_on)
    }

    /// Reads it at the places that a seed chooses.
    fn seeded(
        device: &BlockDevice,
        seed: u64,
        go_on: impl Fn() -> Result<(), SysError>,
    ) -> Result<Samples, SysError> {
        let unknown =
            || SysError::Unfit { what: device.path.clone(), why: "the kernel does not say its size".into() };
        let size_bytes = device.size_bytes().filter(|bytes| *bytes > 0).ok_or_else(unknown)?;
        let unit = u64::from(device.logical_block_size().unwrap_or(0)).max(SMALLEST);
        let failed = |error| SysError::io("reading the content of", &device.path)(error);
        // The page cache may hold what was there before; a direct read also leaves it as it is.
        let direct = OFlags::DIRECT.bits() as i32;
        let file = File::options().read(true).custom_flags(direct).open(&device.path).map_err(failed)?;
        let mut space = vec![0u8; (LARGEST + unit) as usize];
        let start = space.as_ptr().align_offset(unit as usize);
        let mut hasher = blake3::Hasher::new();
        let (mut zeros, mut ones) = (true, true);
        for (from, length) in places(size_bytes, seed, unit) {
            go_on()?;
            let read = &mut space[start..start + length as usize];
            file.read_exact_at(read, from).map_err(failed)?;
            zeros &= read.iter().all(|byte| *byte == 0);
            ones &= read.iter().all(|byte| *byte == 0xff);
            hasher.update(&from.to_le_bytes()).update(read);
        }
        let hash = hasher.finalize().to_hex().to_string();
        Ok(Samples { fingerprint: Fingerprint { size_bytes, seed, hash }, blank: zeros || ones })
    }
}

impl Fingerprint {
    /// Whether the device still has that content, as far as samples tell.
    ///
    /// # Errors
    /// Where it cannot be read, or `go_on` says to stop.
    pub fn fits(
        &self,
        device: &BlockDevice,
        go_on: impl Fn() -> Result<(), SysError>,
    ) -> Result<bool, SysError> {
        let same_size = device.size_bytes() == Some(self.size_bytes);
        Ok(same_size && Samples::seeded(device, self.seed, go_on)?.fingerprint == *self)
    }
}

/// Where a device of a size is read, in the order of its bytes: (from, length), each at most [`LARGEST`].
fn places(size: u64, seed: u64, unit: u64) -> Vec<(u64, u64)> {
    if size <= WHOLE {
        return split(0, size).collect();
    }
    let mut bits = blake3::Hasher::new().update(&seed.to_le_bytes()).finalize_xof();
    let mut random = || {
        let mut bytes = [0; 8];
        bits.fill(&mut bytes);
        u64::from_le_bytes(bytes)
    };
    let units = size / unit;
    let in_part = |part: u64| {
        let (first, next) = (part * units / PARTS, (part + 1) * units / PARTS);
        ((first + random() % (next - first)) * unit, unit)
    };
    let superblocks = SUPERBLOCKS.iter().filter(|at| **at + SUPERBLOCK <= size);
    let mut all: Vec<(u64, u64)> = (0..PARTS).map(in_part).collect();
    all.extend(superblocks.map(|at| (*at, SUPERBLOCK)));
    all.extend(split(0, HEAD).chain(split(size - TAIL, TAIL)));
    all.sort_unstable();
    all
}

fn split(from: u64, length: u64) -> impl Iterator<Item = (u64, u64)> {
    (0..length).step_by(LARGEST as usize).map(move |at| (from + at, LARGEST.min(length - at)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    #[test]
    fn a_small_device_is_read_whole() {
        let all = places(64 << 20, 7, SMALLEST);
        assert_eq!((all.len(), all[0], all[63]), (64, (0, 1 << 20), (63 << 20, 1 << 20)));
        assert_eq!(places((1 << 20) + 512, 7, SMALLEST), [(0, 1 << 20), (1 << 20, 512)]);
    }

    #[test]
    fn a_large_device_is_read_at_its_ends_its_superblocks_and_once_in_each_thousandth() {
        let size = 1000 * GIB;
        let all = places(size, 7, SMALLEST);
        assert_eq!(all.len(), 16 + 4 + 9 + 1000);
        assert!(all.iter().map(|(_, length)| length).sum::<u64>() < 26 << 20);
        assert!(all.contains(&(15 << 20, 1 << 20)) && all.contains(&(size - (1 << 20), 1 << 20)));
        assert!(all.contains(&(64 << 20, 64 << 10)) && all.contains(&(256 * GIB, 64 << 10)));
        for part in 0..1000 {
            let within = |at: u64| (part * GIB..(part + 1) * GIB).contains(&at);
            assert!(all.iter().any(|(from, length)| *length == 4096 && within(*from)), "{part}");
        }
        assert!(all.iter().all(|(from, length)| from % 4096 == 0 && from + length <= size));
    }

    #[test]
    fn the_seed_chooses_the_places_and_large_blocks_are_read_whole() {
        assert_eq!(places(GIB, 1, SMALLEST), places(GIB, 1, SMALLEST));
        assert_ne!(places(GIB, 1, SMALLEST), places(GIB, 2, SMALLEST));
        let all = places(GIB, 1, 16 << 10);
        assert!(all.iter().all(|(from, length)| from % (16 << 10) == 0 && length % (16 << 10) == 0));
    }
}
