//! Image files, made for one run and removed with it.

use crate::undo::{FileIdentity, Journal, UndoGuard, UndoStep};
use crate::{Error, cancel, dirs::free_bytes};
use bytesize::ByteSize;
use fsarena_core::setting_text::setting;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::path::{Path, PathBuf};
use std::{fs::File, io::Write};

/// The number of bytes in one write when fsarena fills an image.
const CHUNK_BYTES: usize = 4 << 20;
/// Alignment of buffers and lengths for direct I/O, in bytes: the largest logical block size in use.
const ALIGNMENT: usize = 4096;

/// An image file that fsarena made. Dropping this value removes the file.
#[derive(Debug)]
pub struct Image {
    path: PathBuf,
    /// The file, open since fsarena made it. Opening the path again is unsafe: a user who may write to the directory can
    /// replace the file by a link.
    file: File,
    size_bytes: u64,
    guard: UndoGuard,
}

/// Makes an image of at least `size_bytes` bytes at a path that does not exist yet.
///
/// With `prefill` fsarena writes the whole file, so that the filesystem that the file is on allocates no blocks during
/// measurements.
///
/// # Errors
/// The disk has too little room, the path exists already, or a signal interrupted fsarena.
pub fn create(journal: &Journal, path: &Path, size_bytes: u64, prefill: bool) -> Result<Image, Error> {
    let size_bytes = round_up(size_bytes);
    check_room(&resolve_directory(path)?, size_bytes)?;
    let image = create_sparse(journal, path, size_bytes)?;
    if prefill {
        image.fill()?;
    }
    Ok(image)
}

/// A size rounded up to a multiple of [`ALIGNMENT`]; `u64::MAX`, for which no disk has room, on overflow.
fn round_up(size_bytes: u64) -> u64 {
    size_bytes.checked_next_multiple_of(ALIGNMENT as u64).unwrap_or(u64::MAX)
}

/// Makes a sparse image of at least `size_bytes` bytes at a path that does not exist yet, without a check of the free space.
///
/// # Errors
/// The path exists already, or the filesystem does not support so large a file.
pub fn create_sparse(journal: &Journal, path: &Path, size_bytes: u64) -> Result<Image, Error> {
    let path = resolve_directory(path)?;
    let size_bytes = round_up(size_bytes);
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::RDWR | OFlags::CLOEXEC;
    let create_file = || {
        let file = rustix::fs::open(&path, flags, Mode::RUSR | Mode::WUSR);
        file.map_err(|error| Error::io("making the image", &path)(error.into()))
    };
    let removal = UndoStep::RemoveFile { path: path.clone(), identity: None };
    let (mut guard, file) = journal.record_and_do(removal, create_file)?;
    let file = File::from(file);
    let meta = file.metadata().map_err(Error::io("looking at", &path))?;
    guard.update(UndoStep::RemoveFile { path: path.clone(), identity: Some(FileIdentity::from_metadata(&meta)) })?;
    let image = Image { path, file, size_bytes, guard };
    image.file.set_len(size_bytes).map_err(|error| image.write_error(error))?;
    Ok(image)
}

/// The path with the symbolic links of its directory resolved, as the kernel names it.
fn resolve_directory(path: &Path) -> Result<PathBuf, Error> {
    let name =
        path.file_name().ok_or_else(|| Error::Unusable { object: path.into(), why: "it names no file".into() })?;
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    Ok(dir.canonicalize().map_err(Error::io("looking for", dir))?.join(name))
}

/// Checks that an image of `needed_bytes` bytes at a path has room on its filesystem.
///
/// # Errors
/// There is too little room, or the directory is missing.
pub fn check_room(path: &Path, needed_bytes: u64) -> Result<(), Error> {
    let dir = path.parent().unwrap_or(Path::new("/"));
    let free = free_bytes(dir)?;
    if free >= needed_bytes { Ok(()) } else { Err(no_room_error(path, dir, needed_bytes, free)) }
}

/// The error for an image that has too little room in a directory.
fn no_room_error(path: &Path, dir: &Path, needed_bytes: u64, free_bytes: u64) -> Error {
    let (needed, free) = (ByteSize::b(needed_bytes), ByteSize::b(free_bytes));
    let (on, size) = (setting("on", "loop:DIR"), setting("size", ""));
    Error::Missing(format!(
        "no room for the image {path:?}: {needed} needed, {free} free in {dir:?}; free some, or put it elsewhere ({on}), or make it \
         smaller ({size})"
    ))
}

impl Image {
    /// The path of the image.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its size in bytes.
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// Makes it sparse again, so that the next filesystem in it finds no old data.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn clear(&self) -> Result<(), Error> {
        let cleared = self.file.set_len(0).and_then(|()| self.file.set_len(self.size_bytes));
        cleared.map_err(Error::io("clearing the image", &self.path))
    }

    /// Extends the file to its size again after a program has truncated and rewritten it. Returns the bytes that the program
    /// wrote.
    ///
    /// # Errors
    /// The file cannot be written, or is longer than the image.
    pub fn restore_size(&self) -> Result<u64, Error> {
        let bytes = self.file.metadata().map_err(Error::io("looking at", &self.path))?.len();
        if bytes > self.size_bytes {
            let why = format!("its {bytes} bytes do not fit into {}", self.size_bytes);
            return Err(Error::Unusable { object: self.path.clone(), why });
        }
        self.file.set_len(self.size_bytes).map_err(Error::io("extending the image", &self.path))?;
        Ok(bytes)
    }

    /// Removes it.
    ///
    /// # Errors
    /// The file cannot be removed, or is still attached to a loop device; the step then stays in the journal.
    pub fn remove(self) -> Result<(), Error> {
        self.guard.undo()
    }

    /// Writes zeros to the whole image, with direct I/O if the filesystem supports it, and syncs it.
    fn fill(&self) -> Result<(), Error> {
        let failed = |error| self.write_error(error);
        let mut file = &self.file;
        let uses_direct_io = rustix::fs::fcntl_getfl(file)
            .and_then(|flags| rustix::fs::fcntl_setfl(file, flags | OFlags::DIRECT))
            .is_ok();
        let buffer = vec![0u8; CHUNK_BYTES + ALIGNMENT];
        let start = buffer.as_ptr().align_offset(ALIGNMENT);
        let chunk = &buffer[start..start + CHUNK_BYTES];
        let mut bytes_left = self.size_bytes as usize;
        while bytes_left > 0 {
            cancel::check()?;
            let length = bytes_left.min(CHUNK_BYTES);
            file.write_all(&chunk[..length]).map_err(failed)?;
            bytes_left -= length;
        }
        if uses_direct_io { file.sync_data() } else { file.sync_all() }.map_err(failed)
    }

    /// The error for a failed write. If the disk or the quota is full, it says how much room the image needs.
    fn write_error(&self, error: std::io::Error) -> Error {
        if !matches!(Errno::from_io_error(&error), Some(Errno::NOSPC | Errno::DQUOT)) {
            return Error::io("writing", &self.path)(error);
        }
        let dir = self.path.parent().unwrap_or(Path::new("/"));
        no_room_error(&self.path, dir, self.size_bytes, free_bytes(dir).unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsarena_core::exit::{ExitCode, HasExitCode};
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    fn test_dir() -> (tempfile::TempDir, Journal) {
        let dir = tempfile::tempdir().unwrap();
        let journal = Journal::create(&dir.path().join("state"), "").unwrap();
        (dir, journal)
    }

    #[test]
    fn a_prefilled_image_has_all_its_blocks_allocated() {
        let (dir, journal) = test_dir();
        let path = dir.path().join("an image\n");
        let image = create(&journal, &path, 5_000_000, true).unwrap();
        let meta = path.metadata().unwrap();
        assert_eq!((meta.len(), image.size_bytes()), (5_001_216, 5_001_216));
        assert!(meta.blocks() * 512 >= meta.len());
        assert_eq!(meta.permissions().mode() & 0o777, 0o600);
        image.remove().unwrap();
        assert!(!path.exists());
    }

    #[test]
    fn an_existing_file_or_link_is_not_replaced() {
        let (dir, journal) = test_dir();
        let (path, link) = (dir.path().join("file"), dir.path().join("link"));
        std::fs::write(&path, "").unwrap();
        std::os::unix::fs::symlink("nowhere", &link).unwrap();
        assert!(create(&journal, &path, 4096, false).is_err());
        assert!(create(&journal, &link, 4096, false).is_err());
        drop(journal);
        assert!(path.exists() && link.symlink_metadata().is_ok());
    }

    #[test]
    fn the_error_for_too_little_room_names_the_option_for_a_smaller_image() {
        let (dir, journal) = test_dir();
        let error = create(&journal, &dir.path().join("image"), 1 << 60, false).unwrap_err();
        assert_eq!(error.exit_code(), ExitCode::Missing);
        let text = error.to_string();
        assert!(text.contains("1.0 EiB needed") && text.contains("size"), "{text}");
    }

    #[test]
    fn clearing_keeps_the_size_and_frees_the_blocks() {
        let (dir, journal) = test_dir();
        let path = dir.path().join("image");
        let image = create(&journal, &path, 1 << 20, true).unwrap();
        image.clear().unwrap();
        let meta = path.metadata().unwrap();
        assert_eq!((meta.len(), meta.blocks()), (1 << 20, 0));
    }

    #[test]
    fn a_link_that_replaces_an_image_is_neither_written_nor_removed() {
        let (dir, journal) = test_dir();
        let (path, moved, victim) = (dir.path().join("image"), dir.path().join("moved"), dir.path().join("victim"));
        let image = create(&journal, &path, 1 << 20, false).unwrap();
        std::fs::write(&victim, "precious").unwrap();
        std::fs::rename(&path, &moved).unwrap();
        std::os::unix::fs::symlink(&victim, &path).unwrap();
        image.fill().unwrap();
        image.clear().unwrap();
        assert!(image.remove().is_err());
        assert_eq!(std::fs::read_to_string(&victim).unwrap(), "precious");
        assert_eq!(moved.metadata().unwrap().len(), 1 << 20);
    }

    #[test]
    fn dropping_an_image_removes_its_file() {
        let (dir, journal) = test_dir();
        let path = dir.path().join("image");
        drop(create(&journal, &path, 4096, false).unwrap());
        assert!(!path.exists());
    }
}
