//! The system calls of each operation, as the real dbench makes them.

use rustix::fd::{AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::{Mode, OFlags, RawDir};
use rustix::io::Errno;
use std::ffi::CStr;
use std::mem::MaybeUninit;

/// What glibc takes for the entries of a directory.
const DIRECTORY_BYTES: usize = 32 << 10;
/// Characters that make a name a pattern for FIND_FIRST.
const PATTERN: &[u8] = b"<>*?\"";

/// A buffer for entries of directories.
pub struct Entries(Vec<MaybeUninit<u8>>);

impl Entries {
    /// An empty one.
    pub fn new() -> Entries {
        Entries(vec![MaybeUninit::uninit(); DIRECTORY_BYTES])
    }
}

/// A path in a buffer that can be cut at its last slash.
#[derive(Debug, Default)]
pub struct Name {
    /// The path and a zero.
    bytes: Vec<u8>,
}

impl Name {
    /// Puts a path in: the root, then what is added.
    pub fn set(&mut self, root: &[u8], add: impl FnOnce(&mut Vec<u8>)) {
        self.bytes.clear();
        self.bytes.extend_from_slice(root);
        add(&mut self.bytes);
        self.bytes.push(0);
    }

    /// The path without the zero.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.bytes.len().saturating_sub(1)]
    }

    /// As system calls take it.
    pub fn path(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.bytes).unwrap_or_default()
    }

    /// Does something with the directory and the last part.
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

/// Looks a name up as a server of case-insensitive names must: where there is no such name, it could be there in
/// another case, so the directory is gone through.
pub fn resolve(name: &mut Name, entries: &mut Entries) {
    if rustix::fs::stat(name.path()).is_ok() {
        return;
    }
    name.cut(|directory, last| {
        list(directory, entries, |entry| last.eq_ignore_ascii_case(entry));
    });
}

/// Lists the directory of a pattern, up to so many entries. A name that is no pattern was only looked up.
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

/// Goes through a directory until told to stop, with the calls of opendir, readdir and closedir.
fn list(directory: &CStr, entries: &mut Entries, mut stop: impl FnMut(&[u8]) -> bool) {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::DIRECTORY;
    let Ok(open) = rustix::fs::open(directory, flags, Mode::empty()) else { return };
    // glibc asks for the best size of its buffer.
    let _ = status(&open);
    let mut raw = RawDir::new(&open, &mut entries.0);
    while let Some(Ok(entry)) = raw.next() {
        if stop(entry.file_name().to_bytes()) {
            return;
        }
    }
}

/// Removes the files below a directory; the directories stay.
pub fn delete_tree(path: &mut Vec<u8>) {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::DIRECTORY;
    let Ok(open) = rustix::fs::open(path.as_slice(), flags, Mode::empty()) else { return };
    let _ = status(&open);
    let mut entries = Entries::new();
    let mut raw = RawDir::new(&open, &mut entries.0);
    let length = path.len();
    while let Some(Ok(entry)) = raw.next() {
        let last = entry.file_name().to_bytes();
        if last == b"." || last == b".." {
            continue;
        }
        path.push(b'/');
        path.extend_from_slice(last);
        if let Ok(found) = rustix::fs::stat(path.as_slice()) {
            match rustix::fs::FileType::from_raw_mode(found.st_mode) {
                rustix::fs::FileType::Directory => delete_tree(path),
                // The next operation that needs it gone will tell.
                _ => drop(rustix::fs::unlink(path.as_slice())),
            }
        }
        path.truncate(length);
    }
}

/// fstat through the C library: which call that is, is the same as in the real dbench.
pub fn status(file: &impl AsRawFd) -> Option<libc::stat> {
    let mut found = MaybeUninit::<libc::stat>::uninit();
    // SAFETY: the descriptor is open, and the call fills the structure where it returns 0.
    unsafe { (libc::fstat(file.as_raw_fd(), found.as_mut_ptr()) == 0).then(|| found.assume_init()) }
}

/// Sets the times of a file some seconds back.
pub fn set_times(file: &OwnedFd, path: &CStr) {
    let Some(now) = status(file) else { return };
    let times = libc::utimbuf { actime: now.st_atime - 10, modtime: now.st_mtime - 12 };
    // SAFETY: the path ends in a zero, and the times are a live local. It fails where the file was renamed, as
    // in the real one.
    unsafe { libc::utime(path.as_ptr(), &times) };
}

/// Locks or unlocks a range, and waits for it. The real dbench takes 32 bits of offset.
pub fn lock(file: BorrowedFd, unlock: bool, offset: i64, size: i64) {
    // SAFETY: all-zero is valid for this structure.
    let mut range: libc::flock = unsafe { std::mem::zeroed() };
    range.l_type = if unlock { libc::F_UNLCK } else { libc::F_WRLCK } as libc::c_short;
    range.l_whence = libc::SEEK_SET as libc::c_short;
    range.l_start = i64::from(offset as u32);
    range.l_len = i64::from(size as i32);
    // SAFETY: the descriptor is open and the range a live local. A refusal is not looked at, as in the real one.
    unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLKW, &range) };
}

/// Opens a file, or makes it, or makes and opens a directory.
///
/// # Errors
/// The system's word.
pub fn create(path: &CStr, options: i64, disposition: i64) -> Result<OwnedFd, Errno> {
    const CREATE: i64 = 2;
    const OVERWRITE: i64 = 4;
    const OVERWRITE_IF: i64 = 5;
    let directory = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    if options & super::census::DIRECTORY != 0 {
        // It may be there already.
        let _ = rustix::fs::mkdir(path, Mode::RWXU);
        return rustix::fs::open(path, directory, Mode::empty());
    }
    let how = match disposition {
        CREATE => OFlags::CREATE,
        OVERWRITE | OVERWRITE_IF => OFlags::CREATE | OFlags::TRUNC,
        _ => OFlags::empty(),
    };
    match rustix::fs::open(path, OFlags::RDWR | OFlags::CLOEXEC | how, Mode::RUSR | Mode::WUSR) {
        Err(Errno::ISDIR) => rustix::fs::open(path, directory, Mode::empty()),
        done => done,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStrExt;
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
        let mut seen = 0;
        let path = std::ffi::CString::new(dir.path().as_os_str().as_bytes()).unwrap();
        list(&path, &mut Entries::new(), |_| {
            seen += 1;
            false
        });
        assert_eq!(seen, 2002);
        seen = 0;
        list(&path, &mut Entries::new(), |entry| {
            seen += 1;
            entry.eq_ignore_ascii_case(b"F7")
        });
        assert!(seen < 2003);
    }

    #[test]
    fn deleting_a_tree_leaves_its_directories() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("a/b")).unwrap();
        std::fs::write(dir.path().join("a/b/f"), "").unwrap();
        std::fs::write(dir.path().join("f"), "").unwrap();
        delete_tree(&mut dir.path().as_os_str().as_bytes().to_vec());
        assert!(dir.path().join("a/b").is_dir());
        assert!(!dir.path().join("a/b/f").exists() && !dir.path().join("f").exists());
    }

    #[test]
    fn dispositions_open_as_the_real_one_does() {
        let dir = tempfile::tempdir().unwrap();
        let name = name(dir.path());
        assert_eq!(create(name.path(), 0x40, 1).unwrap_err(), Errno::NOENT);
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
        assert_eq!(status(&create(name.path(), 0x40, 2).unwrap()).unwrap().st_size, 3);
        assert_eq!(status(&create(name.path(), 0x40, 5).unwrap()).unwrap().st_size, 0);
        std::fs::remove_file(dir.path().join("Ab")).unwrap();
        assert!(create(name.path(), 1, 2).is_ok() && create(name.path(), 1, 2).is_ok());
        // A directory opened as a file is opened as a directory after all.
        assert!(create(name.path(), 0x40, 1).is_ok());
        lock(rustix::fd::AsFd::as_fd(&file), false, 2_147_483_538, 1);
        lock(rustix::fd::AsFd::as_fd(&file), true, 2_147_483_538, 1);
    }
}
