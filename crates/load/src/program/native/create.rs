//! `touch`, `mkdir`, and `dd if=/dev/zero`.

use super::at;
use crate::program::nth;
use crate::task::Error;
use rustix::fs::{CWD, Mode, OFlags, Timespec, Timestamps, UTIME_NOW, futimens, mkdirat, openat};
use std::os::fd::AsFd;
use std::path::Path;

/// Touches files one after the other.
pub fn touch(dir: &Path, count: u64) -> Result<(), Error> {
    let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
    let now = Timestamps { last_access: now, last_modification: now };
    for n in 0..count {
        let path = dir.join(nth("f", n));
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::NOCTTY | OFlags::NONBLOCK;
        let file = openat(CWD, &path, flags, Mode::from_raw_mode(0o666)).map_err(at("touch", &path))?;
        futimens(&file, &now).map_err(at("touch", &path))?;
    }
    Ok(())
}

/// Makes directories one after the other.
pub fn directories(dir: &Path, count: u64) -> Result<(), Error> {
    for n in 0..count {
        let path = dir.join(nth("d", n));
        mkdirat(CWD, &path, Mode::from_raw_mode(0o777)).map_err(at("mkdir", &path))?;
    }
    Ok(())
}

/// Writes a file of zeros, 1 MiB at a time.
pub fn zeros(path: &Path, mebibytes: u64) -> Result<(), Error> {
    let source = Path::new("/dev/zero");
    let zero = openat(CWD, source, OFlags::RDONLY, Mode::empty()).map_err(at("open", source))?;
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC;
    let file = openat(CWD, path, flags, Mode::from_raw_mode(0o666)).map_err(at("create", path))?;
    let mut buffer = vec![0; 1 << 20];
    for _ in 0..mebibytes {
        let got = rustix::io::read(&zero, &mut buffer).map_err(at("read", source))?;
        write_all(&file, &buffer[..got], path)?;
    }
    Ok(())
}

/// Writes all bytes, however many calls that takes.
pub fn write_all(file: impl AsFd, mut bytes: &[u8], path: &Path) -> Result<(), Error> {
    while !bytes.is_empty() {
        let written = rustix::io::write(&file, bytes).map_err(at("write", path))?;
        bytes = &bytes[written..];
    }
    Ok(())
}
