//! The space of a filesystem in bytes, from statvfs(3).
//!
//! statvfs(3) counts in units of `f_frsize`, and a FUSE server can return any number, so the size in bytes can overflow 64
//! bits. The methods then return None.

use crate::Error;
use rustix::fs::StatVfs;
use std::path::Path;

/// The space of a filesystem.
pub struct Space(StatVfs);

impl Space {
    /// The space of the filesystem of a path.
    ///
    /// # Errors
    /// Where the path does not exist, or the filesystem does not answer.
    pub fn of(path: &Path) -> Result<Space, Error> {
        let stat = rustix::fs::statvfs(path);
        stat.map(Space).map_err(|error| Error::io("asking for the room in", path)(error.into()))
    }

    /// Bytes that a user without privileges can still write; None on overflow.
    pub fn free_bytes(&self) -> Option<u64> {
        self.bytes(self.0.f_bavail)
    }

    /// Bytes in use; None on overflow.
    pub fn used_bytes(&self) -> Option<u64> {
        self.bytes(self.0.f_blocks.saturating_sub(self.0.f_bfree))
    }

    /// The share in use of what a user without privileges can have, in whole per cent as df(1) has it; None on overflow and
    /// where a filesystem has no size.
    pub fn used_percent(&self) -> Option<u64> {
        let used = self.0.f_blocks.checked_sub(self.0.f_bfree)?;
        let all = used.checked_add(self.0.f_bavail).filter(|all| *all > 0)?;
        Some(used.checked_mul(100)?.div_ceil(all))
    }

    /// The number of files and directories that exist.
    pub fn used_inodes(&self) -> u64 {
        self.0.f_files.saturating_sub(self.0.f_ffree)
    }

    /// Whether less than 1% of the space is free for a user without privileges.
    pub fn is_full(&self) -> bool {
        self.0.f_bavail < self.0.f_blocks.div_ceil(100)
    }

    fn bytes(&self, units: u64) -> Option<u64> {
        units.checked_mul(self.0.f_frsize)
    }
}

/// Bytes that a user without privileges can still write to the filesystem of a directory; `u64::MAX` on overflow, so that
/// a lack of space shows only when something is written.
///
/// # Errors
/// Where the directory does not exist.
pub fn free_bytes(dir: &Path) -> Result<u64, Error> {
    Ok(Space::of(dir)?.free_bytes().unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn space(change: impl Fn(&mut StatVfs)) -> Space {
        let mut answer = rustix::fs::statvfs("/").unwrap();
        (answer.f_frsize, answer.f_blocks, answer.f_bfree, answer.f_bavail) = (4096, 1000, 600, 500);
        change(&mut answer);
        Space(answer)
    }

    #[test]
    fn units_become_bytes() {
        let space = space(|_| {});
        assert_eq!((space.free_bytes(), space.used_bytes()), (Some(500 * 4096), Some(400 * 4096)));
        assert!(!space.is_full());
        assert!(free_bytes(Path::new("/")).is_ok_and(|free| free < u64::MAX));
        assert!(free_bytes(Path::new("/no/such")).is_err());
    }

    #[test]
    fn what_does_not_fit_is_no_size() {
        let endless = space(|answer| {
            (answer.f_blocks, answer.f_bfree, answer.f_bavail) = (u64::MAX, 0, u64::MAX);
        });
        assert_eq!((endless.free_bytes(), endless.used_bytes(), endless.is_full()), (None, None, false));
        // Its lowest 64 bits are 0.
        let wraps = space(|answer| (answer.f_bavail, answer.f_blocks) = (1 << 52, 1 << 52));
        assert_eq!((wraps.free_bytes(), wraps.is_full()), (None, false));
        let more_free = space(|answer| answer.f_bfree = 2000);
        assert_eq!(more_free.used_bytes(), Some(0));
    }

    #[test]
    fn less_than_one_percent_is_full() {
        for (free, blocks, full) in [(9, 1000, true), (10, 1000, false), (10, 1001, true), (11, 1001, false)]
        {
            let space = space(|answer| (answer.f_bavail, answer.f_blocks) = (free, blocks));
            assert_eq!(space.is_full(), full, "{free} of {blocks}");
        }
        assert!(!space(|answer| (answer.f_bavail, answer.f_blocks) = (0, 0)).is_full(), "as /proc");
    }
}
