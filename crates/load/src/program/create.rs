//! `touch`, `mkdir`, and `dd if=/dev/zero`.

use super::calls::{create, open, write_all};
use super::op::nth;
use crate::error::{Error, at};
use rustix::fs::{CWD, Mode, OFlags, Timespec, Timestamps, UTIME_NOW, futimens, mkdirat, openat};
use std::path::Path;

/// Touches files one after the other.
pub fn touch(dir: &Path, count: u64) -> Result<(), Error> {
    let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
    let now = Timestamps { last_access: now, last_modification: now };
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::NOCTTY | OFlags::NONBLOCK;
    (0..count).map(|n| dir.join(nth("f", n))).try_for_each(|path| {
        openat(CWD, &path, flags, Mode::from_raw_mode(0o666))
            .and_then(|file| futimens(&file, &now))
            .map_err(at("touch", &path))
    })
}

/// Makes directories one after the other.
pub fn directories(dir: &Path, count: u64) -> Result<(), Error> {
    (0..count)
        .map(|n| dir.join(nth("d", n)))
        .try_for_each(|path| mkdirat(CWD, &path, Mode::from_raw_mode(0o777)).map_err(at("mkdir", &path)))
}

/// Writes a file of zeros, 1 MiB at a time.
pub fn zeros(path: &Path, mebibytes: u64) -> Result<(), Error> {
    let source = Path::new("/dev/zero");
    let zero = open(source, OFlags::RDONLY)?;
    let file = create(path, OFlags::TRUNC, 0o666)?;
    let mut buffer = vec![0; 1 << 20];
    for _ in 0..mebibytes {
        let got = rustix::io::read(&zero, &mut buffer).map_err(at("read", source))?;
        write_all(&file, &buffer[..got], path)?;
    }
    Ok(())
}
