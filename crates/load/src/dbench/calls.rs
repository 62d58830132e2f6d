//! Makes the system calls of each operation as the real dbench does.
//!
//! rustix makes newer system calls than dbench for some operations (`statx`). These operations use nix and the standard
//! library instead, which call the functions of the C library.

use nix::fcntl::OFlag;
use nix::sys::stat::{Mode, fstat, stat};
use rustix::{fd::OwnedFd, fs::RawDir};
use std::ffi::{CStr, OsStr};
use std::{io, mem::MaybeUninit, os::unix::ffi::OsStrExt, path::Path};

/// Bytes of glibc's buffer for the entries of a directory.
const DIRECTORY_BUFFER_BYTES: usize = 32 << 10;
/// The flags with which opendir(3) opens a directory.
const OPENDIR_FLAGS: libc::c_int = libc::O_RDONLY | libc::O_NONBLOCK | libc::O_DIRECTORY;
/// Wildcards in a name of FIND_FIRST.
const WILDCARDS: &[u8] = b"<>*?\"";

/// A buffer for entries of directories.
pub struct EntryBuffer(Vec<MaybeUninit<u8>>);

impl EntryBuffer {
    /// Allocates the buffer.
    pub fn new() -> EntryBuffer {
        EntryBuffer(vec![MaybeUninit::uninit(); DIRECTORY_BUFFER_BYTES])
    }
}

/// A path in a reusable buffer.
#[derive(Debug, Default)]
pub struct PathBuffer {
    /// The path and a zero byte.
    bytes: Vec<u8>,
}

impl PathBuffer {
    /// Sets the path to the root, followed by the bytes that `append_rest` appends.
    pub fn set(&mut self, root: &[u8], append_rest: impl FnOnce(&mut Vec<u8>)) {
        self.bytes.clear();
        self.bytes.extend_from_slice(root);
        append_rest(&mut self.bytes);
        self.bytes.push(0);
    }

    /// The path without the zero byte.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.bytes.len().saturating_sub(1)]
    }

    /// The path in the form for system calls.
    pub fn as_c_str(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.bytes).unwrap_or_default()
    }

    /// Appends parts to the path.
    fn append(&mut self, parts: &[&[u8]]) {
        self.bytes.pop();
        parts.iter().for_each(|part| self.bytes.extend_from_slice(part));
        self.bytes.push(0);
    }

    /// Shortens the path to `length` bytes.
    fn truncate(&mut self, length: usize) {
        self.bytes.truncate(length);
        self.bytes.push(0);
    }

    /// Calls `use_parts` with the directory and the last part of the path, and returns its result. Returns `None` for a
    /// path without a slash.
    fn with_split_last<T>(&mut self, use_parts: impl FnOnce(&CStr, &[u8]) -> T) -> Option<T> {
        let slash = self.bytes.iter().rposition(|byte| *byte == b'/')?;
        self.bytes[slash] = 0;
        let (directory, last) = self.bytes.split_at(slash + 1);
        let directory = CStr::from_bytes_until_nul(directory).unwrap_or_default();
        let result = use_parts(directory, &last[..last.len() - 1]);
        self.bytes[slash] = b'/';
        Some(result)
    }
}

/// Looks a name up as a case-insensitive file server does: if `stat` fails, reads the directory until an entry
/// matches in another case.
pub fn look_up_name(path: &mut PathBuffer, entries: &mut EntryBuffer) {
    if stat(path.as_c_str()).is_ok() {
        return;
    }
    path.with_split_last(|directory, last| {
        read_directory(directory, entries, |entry| last.eq_ignore_ascii_case(entry));
    });
}

/// Lists the directory of a pattern, up to `max_entries` entries. Does nothing for a name without wildcards, because
/// `look_up_name` has looked it up already.
pub fn list_pattern(pattern: &mut PathBuffer, entries: &mut EntryBuffer, max_entries: i64) {
    if !pattern.bytes().iter().any(|byte| WILDCARDS.contains(byte)) {
        return;
    }
    let mut entry_count = 0;
    pattern.with_split_last(|directory, _| {
        read_directory(directory, entries, |_| {
            entry_count += 1;
            entry_count >= max_entries
        });
    });
}

/// Reads a directory until `is_last` returns true, with the system calls of opendir, readdir and closedir.
fn read_directory(directory: &CStr, entries: &mut EntryBuffer, mut is_last: impl FnMut(&[u8]) -> bool) {
    let Ok(directory_fd) = open_file(directory, OPENDIR_FLAGS) else { return };
    // opendir(3) reads the status to choose the size of its buffer.
    let _ = fstat(&directory_fd);
    let mut raw_entries = RawDir::new(&directory_fd, &mut entries.0);
    while let Some(Ok(entry)) = raw_entries.next() {
        if is_last(entry.file_name().to_bytes()) {
            return;
        }
    }
}

/// Removes the files below a directory; the directories stay.
pub fn delete_tree(path: &mut PathBuffer) {
    let Ok(directory_fd) = open_file(path.as_c_str(), OPENDIR_FLAGS) else { return };
    let _ = fstat(&directory_fd);
    let mut entries = EntryBuffer::new();
    let mut raw_entries = RawDir::new(&directory_fd, &mut entries.0);
    let directory_length = path.bytes().len();
    while let Some(Ok(entry)) = raw_entries.next() {
        let name = entry.file_name().to_bytes();
        if name == b"." || name == b".." {
            continue;
        }
        path.append(&[b"/", name]);
        match stat(path.as_c_str()) {
            Ok(status) if status.st_mode & libc::S_IFMT == libc::S_IFDIR => delete_tree(path),
            // Ignores an error. An operation that requires the removal will fail.
            Ok(_) => drop(nix::unistd::unlink(path.as_c_str())),
            Err(_) => {}
        }
        path.truncate(directory_length);
    }
}

/// Sets the times of a file back by 10 and 12 seconds. Has no effect if the file was renamed, as in the real dbench.
pub fn set_times_back(file: &OwnedFd, path: &CStr) {
    if let Ok(status) = fstat(file) {
        let times = libc::utimbuf { actime: status.st_atime - 10, modtime: status.st_mtime - 12 };
        // SAFETY: the path ends in a zero byte, and the times outlive the call.
        let _ = unsafe { libc::utime(path.as_ptr(), &times) };
    }
}

/// Locks a range of a file (`F_WRLCK`) and waits for the lock, or unlocks the range (`F_UNLCK`). The real dbench uses 32
/// bits of the offset and ignores errors.
pub fn set_lock(file: &OwnedFd, lock_type: libc::c_int, offset: i64, size: i64) {
    let range = libc::flock {
        l_type: lock_type as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: i64::from(offset as u32),
        l_len: i64::from(size as i32),
        l_pid: 0,
    };
    let _ = nix::fcntl::fcntl(file, nix::fcntl::FcntlArg::F_SETLKW(&range));
}

/// Opens or creates a file, or creates and opens a directory, as the options and the disposition of NTCreateX require.
/// The disposition says whether an existing file is opened or truncated, and a missing one created.
///
/// # Errors
/// The error of the system call.
pub fn create_or_open(path: &CStr, options: i64, disposition: i64) -> io::Result<OwnedFd> {
    const CREATE: i64 = 2;
    const OVERWRITE: i64 = 4;
    const OVERWRITE_IF: i64 = 5;
    let directory_flags = libc::O_RDONLY | libc::O_DIRECTORY;
    if options & super::load_peaks::DIRECTORY_OPTION != 0 {
        // The directory may exist already.
        let _ = nix::unistd::mkdir(path, Mode::S_IRWXU);
        return open_file(path, directory_flags);
    }
    let flags = match disposition {
        CREATE => libc::O_CREAT,
        OVERWRITE | OVERWRITE_IF => libc::O_CREAT | libc::O_TRUNC,
        _ => 0,
    };
    match open_file(path, libc::O_RDWR | flags) {
        Err(error) if error.raw_os_error() == Some(libc::EISDIR) => open_file(path, directory_flags),
        result => result,
    }
}

/// The mode of the files that dbench creates.
const FILE_MODE: Mode = Mode::S_IRUSR.union(Mode::S_IWUSR);

/// Converts a path for the standard library.
pub fn as_path(path: &CStr) -> &Path {
    Path::new(OsStr::from_bytes(path.to_bytes()))
}

/// Opens a file by open(2). A new file gets mode 0600.
///
/// # Errors
/// The error of the system call.
pub fn open_file(path: &CStr, flags: libc::c_int) -> io::Result<OwnedFd> {
    Ok(nix::fcntl::open(path, OFlag::from_bits_retain(flags) | OFlag::O_CLOEXEC, FILE_MODE)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    fn path_of_ab(dir: &std::path::Path) -> PathBuffer {
        let mut path = PathBuffer::default();
        path.set(dir.as_os_str().as_bytes(), |bytes| bytes.extend_from_slice(b"/Ab"));
        path
    }

    #[test]
    fn looking_a_name_up_leaves_it_unchanged() {
        let dir = tempfile::tempdir().unwrap();
        let mut name = path_of_ab(dir.path());
        let before = name.bytes().to_vec();
        look_up_name(&mut name, &mut EntryBuffer::new());
        std::fs::write(dir.path().join("aB"), "").unwrap();
        look_up_name(&mut name, &mut EntryBuffer::new());
        assert_eq!(name.bytes(), before);
        assert_eq!(name.as_c_str().to_bytes(), before);
    }

    #[test]
    fn a_directory_is_read_until_the_callback_stops_it() {
        let dir = tempfile::tempdir().unwrap();
        (0..2000).for_each(|number| drop(std::fs::write(dir.path().join(format!("f{number}")), "")));
        let path = std::ffi::CString::new(dir.path().as_os_str().as_bytes()).unwrap();
        let read_until = |last_name: &[u8]| {
            let mut names = vec![];
            read_directory(&path, &mut EntryBuffer::new(), |entry| {
                names.push(entry.to_vec());
                entry.eq_ignore_ascii_case(last_name)
            });
            names
        };
        let mut all_names = read_until(b"none");
        assert_eq!(read_until(b"F1000").last().unwrap(), b"f1000");
        all_names.sort();
        all_names.dedup();
        assert_eq!(all_names.len(), 2002);
    }

    #[test]
    fn deleting_a_tree_leaves_its_directories() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("a/b")).unwrap();
        std::fs::write(dir.path().join("a/b/f"), "").unwrap();
        std::fs::write(dir.path().join("f"), "").unwrap();
        let mut top = PathBuffer::default();
        top.set(dir.path().as_os_str().as_bytes(), |_| {});
        delete_tree(&mut top);
        assert!(dir.path().join("a/b").is_dir());
        assert!(!dir.path().join("a/b/f").exists() && !dir.path().join("f").exists());
    }

    #[test]
    fn dispositions_open_create_and_truncate_as_in_the_real_dbench() {
        let dir = tempfile::tempdir().unwrap();
        let name = path_of_ab(dir.path());
        assert_eq!(create_or_open(name.as_c_str(), 0x40, 1).unwrap_err().raw_os_error(), Some(libc::ENOENT));
        let file = create_or_open(name.as_c_str(), 0x40, 2).unwrap();
        rustix::io::pwrite(&file, b"abc", 0).unwrap();
        set_times_back(&file, name.as_c_str());
        let meta = std::fs::metadata(dir.path().join("Ab")).unwrap();
        assert!(
            meta.len() == 3
                && meta.mtime()
                    < std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs() as i64 - 10
        );
        assert_eq!(fstat(create_or_open(name.as_c_str(), 0x40, 2).unwrap()).unwrap().st_size, 3);
        assert_eq!(fstat(create_or_open(name.as_c_str(), 0x40, 5).unwrap()).unwrap().st_size, 0);
        std::fs::remove_file(dir.path().join("Ab")).unwrap();
        assert!(create_or_open(name.as_c_str(), 1, 2).is_ok() && create_or_open(name.as_c_str(), 1, 2).is_ok());
        // Opening a directory with the options of a file opens the directory.
        assert!(create_or_open(name.as_c_str(), 0x40, 1).is_ok());
        set_lock(&file, libc::F_WRLCK, 2_147_483_538, 1);
        set_lock(&file, libc::F_UNLCK, 2_147_483_538, 1);
    }
}
