//! Archives of files (`.tar.zst`): written so that equal files give equal bytes, and read so that a hostile archive can write
//! nothing but regular files of limited size inside one new directory.

use crate::{Error, Result};
use bytesize::ByteSize;
use ruzstd::{decoding::StreamingDecoder, encoding};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Cursor, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::vec;
use tar::{EntryType, Header};

/// The size of a block of a tar file, in bytes.
const TAR_BLOCK: u64 = 512;
/// The rights of every file in an archive.
const FILE_MODE: u32 = 0o644;
/// The largest number of bytes that the name of a file in an archive has.
const LONGEST_NAME: usize = 255;
/// The largest number of names in a path of an archive. Each may be a directory to make.
const MAX_DEPTH: usize = 8;

/// Returns the names of all regular files below a directory, relative to it and sorted. Follows no links.
///
/// # Errors
/// The directory cannot be read, or a name is not UTF-8.
pub fn files_below(dir: &Path) -> Result<Vec<String>> {
    let (mut names, mut dirs) = (vec![], vec![PathBuf::new()]);
    while let Some(below) = dirs.pop() {
        let path = dir.join(&below);
        for entry in fs::read_dir(&path).map_err(Error::io("reading", &path))? {
            let entry = entry.map_err(Error::io("reading", &path))?;
            let (name, kind) = (below.join(entry.file_name()), entry.file_type().map_err(Error::io("reading", &path))?);
            if kind.is_dir() {
                dirs.push(name);
            } else if kind.is_file() {
                let text = name.to_str().ok_or_else(|| Error::damaged(&path, "a name that is not UTF-8"))?;
                names.push(text.to_string());
            }
        }
    }
    names.sort_unstable();
    Ok(names)
}

/// Writes all files below a directory to an archive, which replaces `to` once it is complete. Each name begins with `root/`,
/// and each file has the time `mtime` (seconds since 1970) and the owner 0. So equal files give equal bytes.
///
/// # Errors
/// A file cannot be read or written, or [`extract`] would refuse its name.
pub fn write(dir: &Path, root: &str, mtime: u64, to: &Path) -> Result<()> {
    let mut parts: Vec<TarPart> = vec![];
    for name in files_below(dir)? {
        let path = dir.join(&name);
        let size = fs::metadata(&path).map_err(Error::io("reading", &path))?.len();
        let full_name = format!("{root}/{name}");
        parse_member_name(full_name.as_bytes()).map_err(|reason| Error::damaged(&path, reason))?;
        let header = tar_header(&full_name, size, mtime).map_err(Error::io("archiving", &path))?;
        parts.push(TarPart::Bytes(Cursor::new(header.as_bytes().to_vec())));
        parts.push(TarPart::Unopened(path, size));
        parts.push(TarPart::Bytes(Cursor::new(vec![0; (size.next_multiple_of(TAR_BLOCK) - size) as usize])));
    }
    parts.push(TarPart::Bytes(Cursor::new(vec![0; 2 * TAR_BLOCK as usize])));
    let mut partial = to.as_os_str().to_owned();
    partial.push(".partial");
    let partial = PathBuf::from(partial);
    let written = compress(TarReader { parts: parts.into_iter(), current: None }, &partial)
        .and_then(|()| fs::rename(&partial, to));
    written.map_err(|error| {
        let _ = fs::remove_file(&partial);
        Error::io("writing", to)(error)
    })
}

fn tar_header(name: &str, size: u64, mtime: u64) -> io::Result<Header> {
    let mut header = Header::new_ustar();
    header.set_path(name)?;
    header.set_entry_type(EntryType::Regular);
    header.set_size(size);
    header.set_mode(FILE_MODE);
    header.set_mtime(mtime);
    header.set_uid(0);
    header.set_gid(0);
    header.set_cksum();
    Ok(header)
}

/// A part of a tar file.
enum TarPart {
    Bytes(Cursor<Vec<u8>>),
    /// A file and the size that its header has.
    Unopened(PathBuf, u64),
    /// An open file, its path, and the number of bytes still to read.
    Open(File, PathBuf, u64),
}

/// A tar file, which is read part by part.
struct TarReader {
    parts: vec::IntoIter<TarPart>,
    current: Option<TarPart>,
}

impl Read for TarReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let got = match &mut self.current {
                None => 0,
                Some(TarPart::Bytes(bytes)) => bytes.read(buffer)?,
                Some(TarPart::Unopened(path, size)) => {
                    self.current = Some(TarPart::Open(File::open(&*path)?, path.clone(), *size));
                    continue;
                }
                Some(TarPart::Open(file, path, left)) => {
                    let got = file.take(*left).read(buffer)?;
                    *left -= got as u64;
                    if got == 0 && *left > 0 {
                        return Err(io::Error::other(format!("{} shrank meanwhile", path.display())));
                    }
                    got
                }
            };
            if got > 0 {
                return Ok(got);
            }
            match self.parts.next() {
                None => return Ok(0),
                part => self.current = part,
            }
        }
    }
}

/// The first error of a reader or writer. The compressor of `ruzstd` would panic on an error, so it sees the end of its
/// source and a writer that succeeds.
#[derive(Default)]
struct FirstError(RefCell<Option<io::Error>>);

/// A reader or writer that stores its first error instead of returning it.
struct ErrorCatcher<'a, T>(T, &'a FirstError);

impl<T: Read> Read for ErrorCatcher<'_, T> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.1.0.borrow().is_some() {
            return Ok(0);
        }
        self.0.read(buffer).or_else(|error| {
            if error.kind() == ErrorKind::Interrupted {
                return self.read(buffer);
            }
            *self.1.0.borrow_mut() = Some(error);
            Ok(0)
        })
    }
}

impl<T: Write> Write for ErrorCatcher<'_, T> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.1.0.borrow().is_none()
            && let Err(error) = self.0.write_all(bytes)
        {
            *self.1.0.borrow_mut() = Some(error);
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Compresses a source into a new file.
fn compress(source: impl Read, to: &Path) -> io::Result<()> {
    // A crash may have left the file. A link that another user put there is not followed.
    let _ = fs::remove_file(to);
    let mut file = BufWriter::new(File::create_new(to)?);
    let first_error = FirstError::default();
    let target = ErrorCatcher(&mut file, &first_error);
    encoding::compress(ErrorCatcher(source, &first_error), target, encoding::CompressionLevel::Fastest);
    match first_error.0.take() {
        Some(error) => Err(error),
        None => file.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all(),
    }
}

/// Limits of an archive that comes from elsewhere.
#[derive(Debug, Clone, Copy)]
pub struct ArchiveLimits {
    /// The largest number of files and directories.
    pub members: usize,
    /// The largest number of bytes after decompression, tar headers included.
    pub bytes: u64,
    /// The largest number of bytes after decompression for each compressed byte, beyond
    /// [`ArchiveLimits::free_bytes`].
    pub ratio: u64,
    /// The number of bytes after decompression up to which the ratio does not count.
    pub free_bytes: u64,
}

impl ArchiveLimits {
    /// The limits of a bundle of runs. A run of a night has 30,000 files of output at most. Texts of commands compress to a
    /// hundredth.
    pub const BUNDLE: ArchiveLimits =
        ArchiveLimits { members: 100_000, bytes: 16 << 30, ratio: 500, free_bytes: 64 << 20 };
}

/// A reader of decompressed bytes that fails beyond a limit.
struct LimitedReader<R> {
    inner: R,
    left: u64,
}

/// The error beyond the limit of decompressed bytes.
#[derive(Debug, thiserror::Error)]
#[error("decompression bomb")]
struct DecompressionBomb;

impl<R: Read> Read for LimitedReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let got = self.inner.read(buffer)?;
        self.left = self.left.checked_sub(got as u64).ok_or_else(|| io::Error::other(DecompressionBomb))?;
        Ok(got)
    }
}

/// Extracts an archive into an existing, empty directory. Returns the names of its files, in the order of the archive.
///
/// # Errors
/// [`Error::Hostile`] for a member that is neither a regular file nor a directory, or whose name leads
/// outside of the directory or occurs twice, and for an archive beyond the limits; [`Error::Damaged`] for
/// bytes that are not an archive; [`Error::Io`] if a file cannot be written. Files before the error stay in
/// the directory.
pub fn extract(archive: &Path, into: &Path, limits: ArchiveLimits) -> Result<Vec<String>> {
    let file = fsarena_sys::input::open(archive).map_err(Error::io("reading", archive))?;
    let size = file.metadata().map_err(Error::io("reading", archive))?.len();
    let byte_limit = limits.bytes.min(limits.free_bytes.saturating_add(size.saturating_mul(limits.ratio)));
    let decoder = StreamingDecoder::new(BufReader::new(file))
        .map_err(|error| Error::damaged(archive, format!("not a .tar.zst archive ({error})")))?;
    let mut tar = tar::Archive::new(LimitedReader { inner: decoder, left: byte_limit });
    let read_error = |error: io::Error| {
        let is_bomb = error.get_ref().is_some_and(|inner| inner.is::<DecompressionBomb>());
        if is_bomb {
            let reason = format!("decompression bomb: it has more than {} when unpacked", ByteSize(byte_limit));
            return Error::Hostile(archive.into(), reason);
        }
        Error::damaged(archive, format!("damaged archive ({error})"))
    };
    let (mut files, mut names) = (vec![], BTreeSet::new());
    // Raw entries: names of other members (GNU, PAX) would be read into memory, whatever their length.
    for entry in tar.entries().map_err(read_error)?.raw(true) {
        let mut entry = entry.map_err(read_error)?;
        let hostile = |reason: String| Error::Hostile(archive.into(), reason);
        let name = parse_member_name(&entry.path_bytes()).map_err(hostile)?;
        if names.len() >= limits.members {
            return Err(hostile(format!("it has more than {} members", limits.members)));
        }
        if !names.insert(name.clone()) {
            return Err(hostile(format!("two members are named {name}")));
        }
        let path = into.join(&name);
        // A file and a directory, or two files, cannot have the same name.
        let create_error = |path: &Path, error: io::Error| match error.kind() {
            ErrorKind::AlreadyExists | ErrorKind::NotADirectory | ErrorKind::IsADirectory => {
                hostile(format!("{name} is in the place of another member"))
            }
            _ => Error::io("making", path)(error),
        };
        match entry.header().entry_type() {
            EntryType::Directory => fs::create_dir_all(&path).map_err(|error| create_error(&path, error))?,
            EntryType::Regular => {
                let size = entry.size();
                if size > byte_limit {
                    return Err(hostile(format!(
                        "{name} has {}, and the limit is {}",
                        ByteSize(size),
                        ByteSize(byte_limit)
                    )));
                }
                let parent = path.parent().unwrap_or(into);
                fs::create_dir_all(parent).map_err(|error| create_error(parent, error))?;
                let mut file = File::create_new(&path).map_err(|error| create_error(&path, error))?;
                let copied = copy_member(&mut entry, &mut file, &path, &read_error)?;
                if copied != size {
                    return Err(Error::damaged(archive, format!("damaged archive: {name} is cut off")));
                }
                files.push(name);
            }
            other => return Err(hostile(format!("{name} is {}", describe_type(other)))),
        }
    }
    check_end(tar.into_inner(), archive, &read_error)?;
    Ok(files)
}

/// Copies a member to its file. Returns the number of bytes.
fn copy_member(
    entry: &mut impl Read,
    file: &mut File,
    path: &Path,
    read_error: &impl Fn(io::Error) -> Error,
) -> Result<u64> {
    let (mut buffer, mut copied) = (vec![0; 64 << 10], 0);
    loop {
        if fsarena_sys::cancel::requested().is_some() {
            return Err(Error::io("writing", path)(io::Error::other("interrupted by a signal")));
        }
        match entry.read(&mut buffer).map_err(read_error)? {
            0 => return Ok(copied),
            got => {
                file.write_all(&buffer[..got]).map_err(Error::io("writing", path))?;
                copied += got as u64;
            }
        }
    }
}

/// Checks that only zeros follow the last member, and nothing follows the compressed frame: another program
/// could read such data as further members.
fn check_end<R: Read>(
    mut tar: LimitedReader<StreamingDecoder<R, ruzstd::decoding::FrameDecoder>>,
    archive: &Path,
    read_error: &impl Fn(io::Error) -> Error,
) -> Result<()> {
    let mut buffer = vec![0; 64 << 10];
    let trailing_data = || Error::Hostile(archive.into(), "something follows the end of the archive".into());
    loop {
        let got = tar.read(&mut buffer).map_err(read_error)?;
        if buffer[..got].iter().any(|byte| *byte != 0) {
            return Err(trailing_data());
        }
        if got == 0 {
            break;
        }
    }
    let trailing_bytes = tar.inner.get_mut().read(&mut buffer[..1]).map_err(Error::io("reading", archive))?;
    if trailing_bytes == 0 { Ok(()) } else { Err(trailing_data()) }
}

/// The name of a member, without a slash at its end.
///
/// # Errors
/// The name is absolute, has the parts `.`, `..` or an empty one, control characters or backslashes, or is too long; the reason
/// in words.
fn parse_member_name(bytes: &[u8]) -> std::result::Result<String, String> {
    let refuse = |reason: &str| {
        let name = String::from_utf8_lossy(bytes);
        Err(format!("a member is named {}, {reason}", fsarena_core::safe::line(&name)))
    };
    let Ok(name) = std::str::from_utf8(bytes) else {
        return refuse("which is not UTF-8");
    };
    if name.starts_with('/') {
        return refuse("an absolute path");
    }
    let name = name.strip_suffix('/').unwrap_or(name);
    if name.len() > LONGEST_NAME || name.chars().any(|c| c.is_control() || c == '\\') {
        return refuse("which a bundle does not accept");
    }
    if name.split('/').any(|part| ["", ".", ".."].contains(&part)) {
        return refuse("which leads elsewhere");
    }
    if name.split('/').count() > MAX_DEPTH {
        return refuse("which is too deep");
    }
    Ok(name.to_string())
}

/// A type of member in words.
fn describe_type(kind: EntryType) -> String {
    match kind {
        EntryType::Symlink => "a symbolic link".into(),
        EntryType::Link => "a hard link".into(),
        EntryType::Char => "a character device".into(),
        EntryType::Block => "a block device".into(),
        EntryType::Fifo => "a named pipe (FIFO)".into(),
        other => {
            format!("a member of type {:?}, and a bundle has regular files only", other.as_byte() as char)
        }
    }
}

#[cfg(test)]
mod tests;
