//! `split -b`.

use super::calls::{self, BUFFER, look, write_all};
use super::op::SPLIT_LETTERS;
use crate::error::{Error, at};
use rustix::fs::{OFlags, ftruncate};
use std::{os::fd::OwnedFd, path::Path};

/// Splits a file into pieces of `piece` bytes: `INTO/xaaaaa`, `INTO/xaaaab`, …
pub fn split(path: &Path, piece: usize, into: &Path) -> Result<(), Error> {
    let file = calls::open(path, OFlags::RDONLY)?;
    look(&file, path)?;
    let mut buffer = vec![0; BUFFER];
    let mut pieces = 0;
    // The open piece and the room left in it: where a buffer ends inside it, it is written in two parts.
    let mut open: Option<(OwnedFd, usize)> = None;
    loop {
        let got = rustix::io::read(&file, &mut buffer).map_err(at("read", path))?;
        if got == 0 {
            return Ok(());
        }
        let mut rest = &buffer[..got];
        while !rest.is_empty() {
            let (out, left) = match open.take() {
                Some(open) => open,
                None => {
                    pieces += 1;
                    (create(&into.join(name(pieces - 1)))?, piece)
                }
            };
            let (now, later) = rest.split_at(left.min(rest.len()));
            write_all(&out, now, into)?;
            open = (now.len() < left).then_some((out, left - now.len()));
            rest = later;
        }
    }
}

fn create(path: &Path) -> Result<OwnedFd, Error> {
    let file = calls::create(path, OFlags::empty(), 0o666)?;
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
