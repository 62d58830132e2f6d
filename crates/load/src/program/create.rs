//! `touch`, `mkdir`, `dd if=/dev/zero`, and `split -b`.

use super::calls::{BUFFER, create, look, open, write_all};
use super::op::{SPLIT_LETTERS, nth};
use crate::error::{Result, at};
use rustix::fs::{CWD, Mode, OFlags, Timespec, Timestamps, UTIME_NOW, ftruncate, futimens, mkdirat, openat};
use std::{fs::File, path::Path};

/// Touches files one after the other.
pub fn touch(dir: &Path, count: u64) -> Result<()> {
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
pub fn directories(dir: &Path, count: u64) -> Result<()> {
    (0..count)
        .map(|n| dir.join(nth("d", n)))
        .try_for_each(|path| mkdirat(CWD, &path, Mode::from_raw_mode(0o777)).map_err(at("mkdir", &path)))
}

/// Writes a file of zeros, 1 MiB at a time.
pub fn zeros(path: &Path, mebibytes: u64) -> Result<()> {
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

/// Splits a file into pieces of `piece` bytes: `INTO/xaaaaa`, `INTO/xaaaab`, …
pub fn split(path: &Path, piece: usize, into: &Path) -> Result<()> {
    let file = open(path, OFlags::RDONLY)?;
    look(&file, path)?;
    let mut buffer = vec![0; BUFFER];
    let mut pieces = 0;
    // The open piece and the room left in it: where a buffer ends inside it, it is written in two parts.
    let mut opened: Option<(File, usize)> = None;
    loop {
        let got = rustix::io::read(&file, &mut buffer).map_err(at("read", path))?;
        if got == 0 {
            return Ok(());
        }
        let mut rest = &buffer[..got];
        while !rest.is_empty() {
            let (out, left) = match opened.take() {
                Some(opened) => opened,
                None => {
                    pieces += 1;
                    (piece_file(&into.join(name(pieces - 1)))?, piece)
                }
            };
            let (now, later) = rest.split_at(left.min(rest.len()));
            write_all(&out, now, into)?;
            opened = (now.len() < left).then_some((out, left - now.len()));
            rest = later;
        }
    }
}

fn piece_file(path: &Path) -> Result<File> {
    let file = create(path, OFlags::empty(), 0o666)?;
    look(&file, path)?;
    ftruncate(&file, 0).map_err(at("truncate", path))?;
    Ok(file)
}

/// The name of the n-th piece.
fn name(n: usize) -> String {
    let letter = |place: u32| char::from(b'a' + (n / 26usize.pow(place) % 26) as u8);
    std::iter::once('x').chain((0..SPLIT_LETTERS as u32).rev().map(letter)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_named_in_base_26() {
        assert_eq!([0, 25, 26, 10_485].map(name), ["xaaaaa", "xaaaaz", "xaaaba", "xaapnh"]);
    }
}
