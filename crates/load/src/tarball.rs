//! Archives: of a generated tree, or of a real one.

use crate::error::{Error, Result};
use crate::{payload::Payload, tree::Entry};
use fsarena_sys::cancel;
use std::{io::Write, path::Path};
use tar::{Builder, EntryType, Header};

/// GNU tar writes, and pads its archives to, records of this many bytes.
pub const RECORD: usize = 10_240;

/// Archives a generated tree as `tar cf` would: files 0644, directories 0755, all of root's.
///
/// # Errors
/// Where the archive cannot be written.
pub fn of_generated(out: impl Write, tree: &[Entry], payload: &mut Payload) -> Result<()> {
    let failed = Error::io("write the generated archive");
    let mut builder = Builder::new(Counted::new(out));
    let mut contents = Vec::new();
    let mut all = || -> std::io::Result<()> {
        for entry in tree {
            contents.resize(entry.bytes.unwrap_or(0) as usize, 0);
            payload.fill(&mut contents);
            builder.append_data(&mut generated_header(entry)?, &entry.path, contents.as_slice())?;
        }
        Ok(())
    };
    all().and_then(|()| finish(builder)).map_err(failed)
}

/// The header of an entry, by its kind, its mode, owner and group, the time of its last change, and its bytes.
pub fn header(kind: EntryType, [mode, uid, gid]: [u32; 3], mtime: i64, bytes: u64) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(mode & 0o7777);
    header.set_uid(uid.into());
    header.set_gid(gid.into());
    header.set_mtime(mtime.max(0) as u64);
    header.set_size(bytes);
    header
}

fn generated_header(entry: &Entry) -> std::io::Result<Header> {
    let (kind, mode) = entry.bytes.map_or((EntryType::Directory, 0o755), |_| (EntryType::Regular, 0o644));
    let mut header = header(kind, [mode, 0, 0], entry.mtime as i64, entry.bytes.unwrap_or(0));
    header.set_username("root")?;
    header.set_groupname("root")?;
    Ok(header)
}

/// Ends an archive: two blocks of zeros, then zeros to the end of the record.
pub(crate) fn finish<W: Write>(builder: Builder<Counted<W>>) -> std::io::Result<()> {
    let mut out = builder.into_inner()?;
    let short = out.bytes.next_multiple_of(RECORD) - out.bytes;
    out.write_all(&vec![0; short])?;
    out.flush()
}

/// The bytes an archive takes for one entry: its header, another one for a long path, and its contents in blocks of 512.
pub fn entry_bytes(path: &Path, bytes: u64) -> u64 {
    long_bytes(path) + 512 + bytes.next_multiple_of(512)
}

/// The bytes an archive takes for a path, or the target of a symbolic link, that is too long for the header of its entry.
pub fn long_bytes(path: &Path) -> u64 {
    let length = path.as_os_str().len() as u64;
    if length > 100 { 512 + (length + 1).next_multiple_of(512) } else { 0 }
}

/// Counts what is written through it, and ends at a signal: the archive of a large tree takes minutes.
pub(crate) struct Counted<W> {
    out: W,
    bytes: usize,
}

impl<W: Write> Counted<W> {
    pub(crate) fn new(out: W) -> Counted<W> {
        Counted { out, bytes: 0 }
    }
}

impl<W: Write> Write for Counted<W> {
    fn write(&mut self, buf: &[u8]) -> std::io::Result<usize> {
        if cancel::requested().is_some() {
            // Not `Interrupted`, after which writing would be tried again.
            return Err(std::io::Error::other("a signal asked to stop"));
        }
        let written = self.out.write(buf)?;
        self.bytes += written;
        Ok(written)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree;
    use std::io::Read;

    fn archive(seed: u64, files: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        of_generated(&mut bytes, &tree::generate(seed, files), &mut Payload::new(seed, 50)).unwrap();
        bytes
    }

    #[test]
    fn the_archive_of_a_seed_never_changes() {
        // A change here makes runs before and after it incomparable: it needs a new version.
        let hash = blake3::hash(&archive(1, 40)).to_hex();
        assert_eq!(&hash[..32], "9c42e61f2623252e8187bbfb4da65276");
    }

    #[test]
    fn its_size_is_known_before() {
        for files in [1, 40, 625] {
            let tree = tree::generate(3, files);
            let entries: u64 =
                tree.iter().map(|e| entry_bytes(Path::new(&e.path), e.bytes.unwrap_or(0))).sum();
            assert_eq!(archive(3, files).len() as u64, (entries + 1024).next_multiple_of(RECORD as u64));
        }
    }

    #[test]
    fn it_holds_the_tree() {
        let bytes = archive(5, 100);
        let mut held = Vec::new();
        for entry in tar::Archive::new(bytes.as_slice()).entries().unwrap() {
            let mut entry = entry.unwrap();
            let path = entry.path().unwrap().to_str().unwrap().to_string();
            let is_file = entry.header().entry_type().is_file();
            let mut contents = Vec::new();
            entry.read_to_end(&mut contents).unwrap();
            held.push(Entry {
                path,
                bytes: is_file.then_some(contents.len() as u64),
                mtime: entry.header().mtime().unwrap(),
            });
        }
        assert_eq!(held, tree::generate(5, 100));
    }
}
