//! Archives go through records of 10 KiB, as in GNU tar: one read or write a record.

use crate::tarball::RECORD;
use std::io::{Read, Result, Write};
use std::os::fd::OwnedFd;

const SIZE: usize = RECORD as usize;

/// Writes records.
pub struct Writer {
    file: OwnedFd,
    record: Vec<u8>,
}

impl Writer {
    pub fn new(file: OwnedFd) -> Writer {
        Writer { file, record: Vec::with_capacity(SIZE) }
    }

    /// Reads from a file right into the record, up to its end; writes the record when it is full.
    pub fn fill_from(&mut self, source: &OwnedFd, limit: usize) -> Result<usize> {
        let filled = self.record.len();
        let end = SIZE.min(filled + limit);
        self.record.resize(end, 0);
        let got = rustix::io::read(source, &mut self.record[filled..])?;
        self.record.truncate(filled + got);
        self.write_if_full()?;
        Ok(got)
    }

    /// Fills the last record with zeros and writes it.
    pub fn finish(mut self) -> Result<()> {
        if !self.record.is_empty() {
            self.record.resize(SIZE, 0);
            self.write_if_full()?;
        }
        Ok(())
    }

    fn write_if_full(&mut self) -> Result<()> {
        if self.record.len() == SIZE {
            let mut rest = self.record.as_slice();
            while !rest.is_empty() {
                rest = &rest[rustix::io::write(&self.file, rest)?..];
            }
            self.record.clear();
        }
        Ok(())
    }
}

impl Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        let taken = bytes.len().min(SIZE - self.record.len());
        self.record.extend_from_slice(&bytes[..taken]);
        self.write_if_full()?;
        Ok(taken)
    }

    fn flush(&mut self) -> Result<()> {
        Ok(())
    }
}

/// Reads records.
pub struct Reader {
    file: OwnedFd,
    record: Vec<u8>,
    at: usize,
}

impl Reader {
    pub fn new(file: OwnedFd) -> Reader {
        Reader { file, record: Vec::new(), at: 0 }
    }
}

impl Read for Reader {
    /// Never gives bytes of two records at once, so that files are written in the parts GNU tar writes.
    fn read(&mut self, out: &mut [u8]) -> Result<usize> {
        if self.at == self.record.len() {
            self.record.resize(SIZE, 0);
            let got = rustix::io::read(&self.file, &mut self.record)?;
            self.record.truncate(got);
            self.at = 0;
        }
        let taken = out.len().min(self.record.len() - self.at);
        out[..taken].copy_from_slice(&self.record[self.at..self.at + taken]);
        self.at += taken;
        Ok(taken)
    }
}
