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
const TAR_BLOCK_BYTES: u64 = 512;
/// The rights of every file in an archive.
const FILE_MODE: u32 = 0o644;
/// The longest name of a file in an archive, in bytes.
const MAX_NAME_BYTES: usize = 255;
/// The largest number of names in a path of an archive. Each may be a directory to make.
const MAX_DEPTH: usize = 8;

/// Returns the names of all regular files below a directory, relative to it and sorted. Follows no links.
///
/// # Errors
/// The directory cannot be read, or a name is not UTF-8.
pub fn files_below(dir: &Path) -> Result<Vec<String>> {
    let (mut names, mut dirs) = (vec![], vec![PathBuf::new()]);
    while let Some(subdir) = dirs.pop() {
        let path = dir.join(&subdir);
        for entry in fs::read_dir(&path).map_err(Error::io("reading", &path))? {
            let entry = entry.map_err(Error::io("reading", &path))?;
            let (name, kind) =
                (subdir.join(entry.file_name()), entry.file_type().map_err(Error::io("reading", &path))?);
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

/// Writes all files below `dir` to an archive, which replaces the file `archive` once it is complete. Each name begins with
/// `root_name/`, and each file has the time `mtime` (seconds since 1970) and the owner 0. So equal files give equal bytes.
///
/// # Errors
/// A file cannot be read or written, or [`extract`] would refuse its name.
pub fn write(dir: &Path, root_name: &str, mtime: u64, archive: &Path) -> Result<()> {
    let mut parts: Vec<TarPart> = vec![];
    for name in files_below(dir)? {
        let path = dir.join(&name);
        let size = fs::metadata(&path).map_err(Error::io("reading", &path))?.len();
        let full_name = format!("{root_name}/{name}");
        parse_member_name(full_name.as_bytes()).map_err(|reason| Error::damaged(&path, reason))?;
        let header = tar_header(&full_name, size, mtime).map_err(Error::io("archiving", &path))?;
        parts.push(TarPart::Bytes(Cursor::new(header.as_bytes().to_vec())));
        parts.push(TarPart::Unopened(path, size));
        parts.push(TarPart::Bytes(Cursor::new(vec![0; (size.next_multiple_of(TAR_BLOCK_BYTES) - size) as usize])));
    }
    parts.push(TarPart::Bytes(Cursor::new(vec![0; 2 * TAR_BLOCK_BYTES as usize])));
    let mut partial = archive.as_os_str().to_owned();
    partial.push(".partial");
    let partial = PathBuf::from(partial);
    let result = compress(TarReader { parts: parts.into_iter(), current: None }, &partial)
        .and_then(|()| fs::rename(&partial, archive));
    result.map_err(|error| {
        let _ = fs::remove_file(&partial);
        Error::io("writing", archive)(error)
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

/// A part of a tar file that is being written.
enum TarPart {
    /// A header or padding.
    Bytes(Cursor<Vec<u8>>),
    /// The content of a file that is not open yet: its path, and its size according to its header.
    Unopened(PathBuf, u64),
    /// The content of an open file: the file, its path, and the number of bytes still to read.
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
            let length = match &mut self.current {
                None => 0,
                Some(TarPart::Bytes(bytes)) => bytes.read(buffer)?,
                Some(TarPart::Unopened(path, size)) => {
                    self.current = Some(TarPart::Open(File::open(&*path)?, path.clone(), *size));
                    continue;
                }
                Some(TarPart::Open(file, path, remaining)) => {
                    let length = file.take(*remaining).read(buffer)?;
                    *remaining -= length as u64;
                    if length == 0 && *remaining > 0 {
                        return Err(io::Error::other(format!("{} shrank meanwhile", path.display())));
                    }
                    length
                }
            };
            if length > 0 {
                return Ok(length);
            }
            match self.parts.next() {
                None => return Ok(0),
                part => self.current = part,
            }
        }
    }
}

/// The first error of a reader or writer. The compressor of `ruzstd` would panic on an error, so after an error it gets the
/// end of its source, and a writer that succeeds.
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
fn compress(source: impl Read, path: &Path) -> io::Result<()> {
    // A crash may have left the file. A link that another user put there is not followed.
    let _ = fs::remove_file(path);
    let mut file = BufWriter::new(File::create_new(path)?);
    let first_error = FirstError::default();
    let target = ErrorCatcher(&mut file, &first_error);
    encoding::compress(ErrorCatcher(source, &first_error), target, encoding::CompressionLevel::Fastest);
    match first_error.0.take() {
        Some(error) => Err(error),
        None => file.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all(),
    }
}

/// The limits of an archive from an untrusted source.
#[derive(Debug, Clone, Copy)]
pub struct ArchiveLimits {
    /// The largest number of files and directories.
    pub max_members: usize,
    /// The largest number of bytes after decompression, tar headers included.
    pub max_bytes: u64,
    /// The largest number of bytes after decompression for each compressed byte, beyond
    /// [`ArchiveLimits::bytes_without_ratio`].
    pub max_ratio: u64,
    /// The number of bytes after decompression up to which the ratio does not count.
    pub bytes_without_ratio: u64,
}

impl ArchiveLimits {
    /// The limits of a bundle of runs. A run of a night has 30,000 files of output at most. Texts of commands compress to a
    /// hundredth.
    pub const BUNDLE: ArchiveLimits =
        ArchiveLimits { max_members: 100_000, max_bytes: 16 << 30, max_ratio: 500, bytes_without_ratio: 64 << 20 };
}

/// A reader of decompressed bytes that fails beyond a limit.
struct LimitedReader<R> {
    inner: R,
    /// The number of bytes up to the limit.
    remaining: u64,
}

/// The error beyond the limit of decompressed bytes.
#[derive(Debug, thiserror::Error)]
#[error("decompression bomb")]
struct DecompressionBomb;

impl<R: Read> Read for LimitedReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.inner.read(buffer)?;
        self.remaining =
            self.remaining.checked_sub(length as u64).ok_or_else(|| io::Error::other(DecompressionBomb))?;
        Ok(length)
    }
}

/// Extracts an archive into `dir`, an existing, empty directory. Returns the names of its files, in the order of the archive.
///
/// # Errors
/// [`Error::Hostile`] for a member that is neither a regular file nor a directory, or whose name leads
/// outside of the directory or occurs twice, and for an archive beyond the limits; [`Error::Damaged`] for
/// bytes that are not an archive; [`Error::Io`] if a file cannot be written. Files before the error stay in
/// the directory.
pub fn extract(archive: &Path, dir: &Path, limits: ArchiveLimits) -> Result<Vec<String>> {
    let file = fsarena_sys::input::open(archive).map_err(Error::io("reading", archive))?;
    let size = file.metadata().map_err(Error::io("reading", archive))?.len();
    let byte_limit =
        limits.max_bytes.min(limits.bytes_without_ratio.saturating_add(size.saturating_mul(limits.max_ratio)));
    let decoder = StreamingDecoder::new(BufReader::new(file))
        .map_err(|error| Error::damaged(archive, format!("not a .tar.zst archive ({error})")))?;
    let mut tar = tar::Archive::new(LimitedReader { inner: decoder, remaining: byte_limit });
    let read_error = |error: io::Error| {
        let is_bomb = error.get_ref().is_some_and(|inner| inner.is::<DecompressionBomb>());
        if is_bomb {
            let reason = format!("decompression bomb: it has more than {} when unpacked", ByteSize(byte_limit));
            return Error::Hostile(archive.into(), reason);
        }
        Error::damaged(archive, format!("damaged archive ({error})"))
    };
    let (mut files, mut names) = (vec![], BTreeSet::new());
    // Raw entries: otherwise the library would read long names (GNU, PAX) into memory, whatever their length.
    for entry in tar.entries().map_err(read_error)?.raw(true) {
        let mut entry = entry.map_err(read_error)?;
        let hostile = |reason: String| Error::Hostile(archive.into(), reason);
        let name = parse_member_name(&entry.path_bytes()).map_err(hostile)?;
        if names.len() >= limits.max_members {
            return Err(hostile(format!("it has more than {} members", limits.max_members)));
        }
        if !names.insert(name.clone()) {
            return Err(hostile(format!("two members are named {name}")));
        }
        let path = dir.join(&name);
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
                let parent = path.parent().unwrap_or(dir);
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
        if fsarena_sys::cancel::received_signal().is_some() {
            return Err(Error::io("writing", path)(io::Error::other("interrupted by a signal")));
        }
        match entry.read(&mut buffer).map_err(read_error)? {
            0 => return Ok(copied),
            length => {
                file.write_all(&buffer[..length]).map_err(Error::io("writing", path))?;
                copied += length as u64;
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
        let length = tar.read(&mut buffer).map_err(read_error)?;
        if buffer[..length].iter().any(|byte| *byte != 0) {
            return Err(trailing_data());
        }
        if length == 0 {
            break;
        }
    }
    let trailing_bytes = tar.inner.get_mut().read(&mut buffer[..1]).map_err(Error::io("reading", archive))?;
    if trailing_bytes == 0 { Ok(()) } else { Err(trailing_data()) }
}

/// Checks the name of a member, and returns it without a slash at its end.
///
/// # Errors
/// The name is absolute, has the parts `.`, `..` or an empty one, control characters or backslashes, or is too long; the reason
/// in words.
fn parse_member_name(bytes: &[u8]) -> std::result::Result<String, String> {
    let reject = |reason: &str| {
        let name = String::from_utf8_lossy(bytes);
        Err(format!("a member is named {}, {reason}", fsarena_core::escape::line(&name)))
    };
    let Ok(name) = std::str::from_utf8(bytes) else {
        return reject("which is not UTF-8");
    };
    if name.starts_with('/') {
        return reject("an absolute path");
    }
    let name = name.strip_suffix('/').unwrap_or(name);
    if name.len() > MAX_NAME_BYTES || name.chars().any(|c| c.is_control() || c == '\\') {
        return reject("which a bundle does not accept");
    }
    if name.split('/').any(|part| ["", ".", ".."].contains(&part)) {
        return reject("which leads elsewhere");
    }
    if name.split('/').count() > MAX_DEPTH {
        return reject("which is too deep");
    }
    Ok(name.to_string())
}

/// Describes the type of a member: `a symbolic link`.
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
