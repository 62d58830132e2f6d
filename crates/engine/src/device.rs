//! How bytes move in the engines that do one operation at a time.

use rustix::{fd::BorrowedFd, io::Errno};
use std::io;

/// Moves blocks. The hot loop is compiled for each implementation.
pub trait Device: Sync {
    /// Reads a block; gives the bytes read.
    ///
    /// # Errors
    /// The error of the system call.
    fn read(&self, file: u32, offset: u64, block: &mut [u8]) -> Result<usize, Errno>;

    /// Writes a block; gives the bytes written.
    ///
    /// # Errors
    /// The error of the system call.
    fn write(&self, file: u32, offset: u64, block: &[u8]) -> Result<usize, Errno>;

    /// Syncs a file to the device.
    ///
    /// # Errors
    /// The error of the system call.
    fn sync(&self, file: u32) -> Result<(), Errno>;

    /// An error that only shows later, as that of a mapping.
    ///
    /// # Errors
    /// File and offset.
    fn late_error(&self) -> Result<(), (u32, u64)> {
        Ok(())
    }
}

/// Moves nothing: what is left of an operation is the generator itself.
#[derive(Debug, Clone, Copy)]
pub struct Null;

impl Device for Null {
    #[inline(always)]
    fn read(&self, _: u32, _: u64, block: &mut [u8]) -> Result<usize, Errno> {
        Ok(std::hint::black_box(block).len())
    }

    #[inline(always)]
    fn write(&self, _: u32, _: u64, block: &[u8]) -> Result<usize, Errno> {
        Ok(std::hint::black_box(block).len())
    }

    fn sync(&self, _: u32) -> Result<(), Errno> {
        Ok(())
    }
}

/// `pread` and `pwrite`.
#[derive(Debug, Clone, Copy)]
pub struct Calls<'a> {
    /// The open files.
    pub files: &'a [BorrowedFd<'a>],
    /// `fdatasync` instead of `fsync`.
    pub data_only: bool,
}

impl Device for Calls<'_> {
    #[inline(always)]
    fn read(&self, file: u32, offset: u64, block: &mut [u8]) -> Result<usize, Errno> {
        rustix::io::pread(self.files[file as usize], block, offset)
    }

    #[inline(always)]
    fn write(&self, file: u32, offset: u64, block: &[u8]) -> Result<usize, Errno> {
        rustix::io::pwrite(self.files[file as usize], block, offset)
    }

    fn sync(&self, file: u32) -> Result<(), Errno> {
        sync(self.files[file as usize], self.data_only)
    }
}

/// Syncs a file to the device, with `fdatasync` if `data_only`.
///
/// # Errors
/// The error of the system call.
pub fn sync(file: BorrowedFd, data_only: bool) -> Result<(), Errno> {
    if data_only { rustix::fs::fdatasync(file) } else { rustix::fs::fsync(file) }
}

/// Checks that a whole block was moved.
///
/// # Errors
/// The system's word, or that the block was cut short.
#[inline(always)]
pub fn whole(moved: Result<usize, Errno>, block: usize) -> io::Result<()> {
    match moved {
        Ok(bytes) if bytes == block => Ok(()),
        moved => Err(partly(moved, block)),
    }
}

#[cold]
fn partly(moved: Result<usize, Errno>, block: usize) -> io::Error {
    match moved {
        Ok(bytes) => io::Error::new(
            io::ErrorKind::UnexpectedEof,
            format!("only {bytes} of {block} bytes were moved; the file may be shorter than it was, or full"),
        ),
        Err(error) => error.into(),
    }
}
