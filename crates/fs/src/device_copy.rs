//! Reads and writes scratch devices from their beginning to their end.
//!
//! A device that is written to its end is in the same state whatever was on it before; see `docs/adr/0002-prefilled-images.md`.

use crate::{Error, safety::ScratchDevice};
use fsarena_sys::cancel;
use rustix::fs::{Mode, OFlags};
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;

/// Bytes of one read or write.
const CHUNK_BYTES: usize = 4 << 20;
/// Alignment of direct I/O: the largest logical block size in use.
const ALIGNMENT: usize = 4096;

/// Opens a device of `bytes` bytes for direct I/O, so that its content does not fill the page cache; without direct I/O if
/// that is impossible.
fn open_direct(path: &Path, bytes: u64, access: OFlags) -> io::Result<File> {
    let flags = access | OFlags::CLOEXEC;
    if bytes.is_multiple_of(ALIGNMENT as u64)
        && let Ok(direct) = rustix::fs::open(path, flags | OFlags::DIRECT, Mode::empty())
    {
        return Ok(direct.into());
    }
    Ok(rustix::fs::open(path, flags, Mode::empty())?.into())
}

/// Calls `work` with an aligned buffer for each chunk of a device of `bytes` bytes.
fn for_each_chunk(bytes: u64, mut work: impl FnMut(&mut [u8]) -> Result<(), Error>) -> Result<(), Error> {
    let mut buffer = vec![0u8; CHUNK_BYTES + ALIGNMENT];
    let start = buffer.as_ptr().align_offset(ALIGNMENT);
    let chunk = &mut buffer[start..start + CHUNK_BYTES];
    let mut bytes_left = bytes;
    while bytes_left > 0 {
        cancel::check()?;
        let length = bytes_left.min(CHUNK_BYTES as u64);
        work(&mut chunk[..length as usize])?;
        bytes_left -= length;
    }
    Ok(())
}

/// Reads a device from its beginning to its end, and passes each part of its content to `consume`.
///
/// # Errors
/// The device cannot be read, `consume` fails, or a signal interrupted fsarena.
pub fn read_device(device: &ScratchDevice, consume: &mut dyn FnMut(&[u8]) -> io::Result<()>) -> Result<(), Error> {
    let path = device.path();
    let bytes = device.size_bytes();
    let mut source = open_direct(path, bytes, OFlags::RDONLY).map_err(fsarena_sys::Error::io("reading", path))?;
    for_each_chunk(bytes, |chunk| {
        source.read_exact(chunk).map_err(fsarena_sys::Error::io("reading", path))?;
        Ok(consume(chunk).map_err(fsarena_sys::Error::io("keeping the content of", path))?)
    })
}

/// Writes a device from its beginning to its end, and syncs it. `fill` puts the content of each part into the buffer that it
/// gets.
///
/// # Errors
/// Another device has replaced this one, it cannot be written, `fill` fails, or a signal interrupted fsarena.
pub fn write_device(device: &ScratchDevice, fill: &mut dyn FnMut(&mut [u8]) -> io::Result<()>) -> Result<(), Error> {
    device.begin_overwriting()?;
    let path = device.path();
    let bytes = device.size_bytes();
    let mut target = open_direct(path, bytes, OFlags::WRONLY).map_err(fsarena_sys::Error::io("writing to", path))?;
    for_each_chunk(bytes, |chunk| {
        fill(chunk).map_err(fsarena_sys::Error::io("reading the image for", path))?;
        Ok(target.write_all(chunk).map_err(fsarena_sys::Error::io("writing the image to", path))?)
    })?;
    target.sync_all().map_err(fsarena_sys::Error::io("writing the image to", path))?;
    device.log_signatures()
}
