//! The system calls of each operation, as the real dbench makes them.
//!
//! They go through the C library where rustix makes newer system calls than dbench does (`openat`, `statx`). nix and the
//! standard library call the functions of the C library.

use nix::fcntl::OFlag;
use nix::sys::stat::{Mode, fstat, stat};
use rustix::{fd::OwnedFd, fs::RawDir};
use std::ffi::{CStr, OsStr};
use std::{io, mem::MaybeUninit, os::unix::ffi::OsStrExt, path::Path};

/// Bytes of glibc's buffer for the entries of a directory.
const DIRECTORY_BYTES: usize = 32 << 10;
/// The flags of opendir.
const LIST: libc::c_int = libc::O_RDONLY | libc::O_NONBLOCK | libc::O_DIRECTORY;
/// Characters that make a name a pattern for FIND_FIRST.
const PATTERN: &[u8] = b"<>*?\"";

/// A buffer for entries of directories.
pub struct Entries(Vec<MaybeUninit<u8>>);

impl Entries {
    /// Allocates the buffer.
    pub fn new() -> Entries {
        Entries(vec![MaybeUninit::uninit(); DIRECTORY_BYTES])
    }
}

/// A path in a buffer that can be cut at its last slash.
#[derive(Debug, Default)]
pub struct Name {
    /// The path and a zero byte.
    bytes: Vec<u8>,
}

impl Name {
    /// Sets the path to the root and what `add` appends.
    pub fn set(&mut self, root: &[u8], add: impl FnOnce(&mut Vec<u8>)) {
        self.bytes.clear();
        self.bytes.extend_from_slice(root);
        add(&mut self.bytes);
        self.bytes.push(0);
    }

    /// The path without the zero byte.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.bytes.len().saturating_sub(1)]
    }

    /// The path in the form for system calls.
    pub fn path(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.bytes).unwrap_or_default()
    }

    /// Appends parts to the path.
    fn extend(&mut self, parts: &[&[u8]]) {
        self.bytes.pop();
        parts.iter().for_each(|part| self.bytes.extend_from_slice(part));
        self.bytes.push(0);
    }

    /// Shortens the path to `length` bytes.
    fn truncate(&mut self, length: usize) {
        self.bytes.truncate(length);
        self.bytes.push(0);
    }

    /// Calls `with` with the directory and the last part of the path.
    fn cut<T>(&mut self, with: impl FnOnce(&CStr, &[u8]) -> T) -> Option<T> {
        let slash = self.bytes.iter().rposition(|byte| *byte == b'/')?;
        self.bytes[slash] = 0;
        let (directory, last) = self.bytes.split_at(slash + 1);
        let directory = CStr::from_bytes_until_nul(directory).unwrap_or_default();
        let done = with(directory, &last[..last.len() - 1]);
        self.bytes[slash] = b'/';
        Some(done)
    }
}

/// Looks a name up as a case-insensitive file server does: if `stat` fails, reads the whole directory, because the
/// name may exist there in another case.
pub fn resolve(name: &mut Name, entries: &mut Entries) {
    if stat(name.path()).is_ok() {
        return;
    }
    name.cut(|directory, last| {
        list(directory, entries, |entry| last.eq_ignore_ascii_case(entry));
    });
}

/// Lists the directory of a pattern, up to `most` entries. Does nothing for a name without wildcards, which the
/// lookup before it has already resolved.
pub fn find(name: &mut Name, entries: &mut Entries, mut most: i64) {
    if !name.bytes().iter().any(|byte| PATTERN.contains(byte)) {
        return;
    }
    name.cut(|directory, _| {
        list(directory, entries, |_| {
            most -= 1;
            most <= 0
        });
    });
}

/// Reads a directory until `stop` returns true, with the system calls of opendir, readdir and closedir.
fn list(directory: &CStr, entries: &mut Entries, mut stop: impl FnMut(&[u8]) -> bool) {
    let Ok(open) = open_file(directory, LIST) else { return };
    // glibc asks for the best size of its buffer.
    let _ = fstat(&open);
    let mut raw = RawDir::new(&open, &mut entries.0);
    while let Some(Ok(entry)) = raw.next() {
        if stop(entry.file_name().to_bytes()) {
            return;
        }
    }
}

/// Removes the files below a directory; the directories stay.
pub fn delete_tree(path: &mut Name) {
    let Ok(open) = open_file(path.path(), LIST) else { return };
    let _ = fstat(&open);
    let mut entries = Entries::new();
    let mut raw = RawDir::new(&open, &mut entries.0);
    let length = path.bytes().len();
    while let Some(Ok(entry)) = raw.next() {
        let last = entry.file_name().to_bytes();
        if last == b"." || last == b".." {
            continue;
        }
        path.extend(&[b"/", last]);
        match stat(path.path()) {
            Ok(found) if found.st_mode & libc::S_IFMT == libc::S_IFDIR => delete_tree(path),
            // The next operation that requires the removal fails instead.
            Ok(_) => drop(nix::unistd::unlink(path.path())),
            Err(_) => {}
        }
        path.truncate(length);
    }
}

/// Sets the times of a file back by some seconds. It fails if the file was renamed, as in the real dbench.
pub fn set_times(file: &OwnedFd, path: &CStr) {
    if let Ok(now) = fstat(file) {
        let times = libc::utimbuf { actime: now.st_atime - 10, modtime: now.st_mtime - 12 };
        // SAFETY: the path ends in a zero byte, and the times outlive the call.
        let _ = unsafe { libc::utime(path.as_ptr(), &times) };
    }
}

/// Locks or unlocks a range, and waits for the lock. The real dbench uses 32 bits of the offset and ignores errors.
pub fn lock(file: &OwnedFd, unlock: bool, offset: i64, size: i64) {
    let range = libc::flock {
        l_type: if unlock { libc::F_UNLCK } else { libc::F_WRLCK } as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: i64::from(offset as u32),
        l_len: i64::from(size as i32),
        l_pid: 0,
    };
    let _ = nix::fcntl::fcntl(file, nix::fcntl::FcntlArg::F_SETLKW(&range));
}

/// Opens a file, creates it, or creates and opens a directory.
///
/// # Errors
/// The error of the system call.
pub fn create(path: &CStr, options: i64, disposition: i64) -> io::Result<OwnedFd> {
    const CREATE: i64 = 2;
    const OVERWRITE: i64 = 4;
    const OVERWRITE_IF: i64 = 5;
    let directory = libc::O_RDONLY | libc::O_DIRECTORY;
    if options & super::load_stats::DIRECTORY != 0 {
        // It may be there already.
        let _ = nix::unistd::mkdir(path, Mode::S_IRWXU);
        return open_file(path, directory);
    }
    let how = match disposition {
        CREATE => libc::O_CREAT,
        OVERWRITE | OVERWRITE_IF => libc::O_CREAT | libc::O_TRUNC,
        _ => 0,
    };
    match open_file(path, libc::O_RDWR | how) {
        Err(error) if error.raw_os_error() == Some(libc::EISDIR) => open_file(path, directory),
        done => done,
    }
}

/// The mode of the files that dbench creates.
const FILE: Mode = Mode::S_IRUSR.union(Mode::S_IWUSR);

/// Converts a path for the standard library.
pub fn as_path(text: &CStr) -> &Path {
    Path::new(OsStr::from_bytes(text.to_bytes()))
}

/// Opens a file by open(2). A new file gets mode 0600.
///
/// # Errors
/// The error of the system call.
pub fn open_file(path: &CStr, flags: libc::c_int) -> io::Result<OwnedFd> {
    Ok(nix::fcntl::open(path, OFlag::from_bits_retain(flags) | OFlag::O_CLOEXEC, FILE)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    fn name(path: &std::path::Path) -> Name {
        let mut name = Name::default();
        name.set(path.as_os_str().as_bytes(), |bytes| bytes.extend_from_slice(b"/Ab"));
        name
    }

    #[test]
    fn a_name_is_whole_again_after_it_was_looked_up() {
        let dir = tempfile::tempdir().unwrap();
        let mut name = name(dir.path());
        let before = name.bytes().to_vec();
        resolve(&mut name, &mut Entries::new());
        std::fs::write(dir.path().join("aB"), "").unwrap();
        resolve(&mut name, &mut Entries::new());
        assert_eq!(name.bytes(), before);
        assert_eq!(name.path().to_bytes(), before);
    }

    #[test]
    fn a_directory_is_gone_through_as_far_as_asked() {
        let dir = tempfile::tempdir().unwrap();
        (0..2000).for_each(|number| drop(std::fs::write(dir.path().join(format!("f{number}")), "")));
        let path = std::ffi::CString::new(dir.path().as_os_str().as_bytes()).unwrap();
        let seen = |until: &[u8]| {
            let mut names = vec![];
            list(&path, &mut Entries::new(), |entry| {
                names.push(entry.to_vec());
                entry.eq_ignore_ascii_case(until)
            });
            names
        };
        let mut all = seen(b"none");
        assert_eq!(seen(b"F1000").last().unwrap(), b"f1000");
        all.sort();
        all.dedup();
        assert_eq!(all.len(), 2002);
    }

    #[test]
    fn deleting_a_tree_leaves_its_directories() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("a/b")).unwrap();
        std::fs::write(dir.path().join("a/b/f"), "").unwrap();
        std::fs::write(dir.path().join("f"), "").unwrap();
        let mut top = Name::default();
        top.set(dir.path().as_os_str().as_bytes(), |_| {});
        delete_tree(&mut top);
        assert!(dir.path().join("a/b").is_dir());
        assert!(!dir.path().join("a/b/f").exists() && !dir.path().join("f").exists());
    }

    #[test]
    fn dispositions_open_as_the_real_one_does() {
        let dir = tempfile::tempdir().unwrap();
        let name = name(dir.path());
        assert_eq!(create(name.path(), 0x40, 1).unwrap_err().raw_os_error(), Some(libc::ENOENT));
        let file = create(name.path(), 0x40, 2).unwrap();
        rustix::io::pwrite(&file, b"abc", 0).unwrap();
        set_times(&file, name.path());
        let meta = std::fs::metadata(dir.path().join("Ab")).unwrap();
        assert!(
            meta.len() == 3
                && meta.mtime()
                    < std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs()
                        as i64
                        - 10
        );
        assert_eq!(fstat(create(name.path(), 0x40, 2).unwrap()).unwrap().st_size, 3);
        assert_eq!(fstat(create(name.path(), 0x40, 5).unwrap()).unwrap().st_size, 0);
        std::fs::remove_file(dir.path().join("Ab")).unwrap();
        assert!(create(name.path(), 1, 2).is_ok() && create(name.path(), 1, 2).is_ok());
        // A directory opened as a file is opened as a directory after all.
        assert!(create(name.path(), 0x40, 1).is_ok());
        lock(&file, false, 2_147_483_538, 1);
        lock(&file, true, 2_147_483_538, 1);
    }
}
