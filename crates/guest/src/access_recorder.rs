//! Records which files the programs of a guest open (fanotify), and which names they look up (tracefs), so that later
//! guests can have these files in memory.

use fsarena_sys::{check_return, mount::mount_by_syscall};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Result, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// The pause between two reads of a recorder when no event is pending.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// The number of bytes of one read.
const READ_BYTES: usize = 1 << 16;
/// Where the guest mounts tracefs.
const TRACEFS_DIR: &str = "/sys/kernel/tracing";
/// Events for each path that a system call names, and for each that the kernel names itself, such as the interpreter of a
/// program. They record what a function returns: the kernel's copy of the name, since the program's own may not be in memory.
/// Compilers inline the first function into the second.
const NAME_EVENTS: [&str; 3] = [
    "r:fsarena/name getname_flags name=+0(+0($retval)):string",
    "r:fsarena/plain_name getname name=+0(+0($retval)):string",
    "r:fsarena/kernel_name getname_kernel name=+0(+0($retval)):string",
];
/// The file of tracefs that enables these events.
const ENABLE_FILE: &str = "events/fsarena/enable";

/// The files that the programs of a guest opened, and the names that they looked up.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct AccessedPaths {
    /// The files and directories that they opened.
    pub files: Vec<OpenedFile>,
    /// The absolute paths that they looked up, including those of missing files.
    pub names: Vec<PathBuf>,
}

/// A file that was opened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenedFile {
    /// Its path, without symbolic links.
    pub path: PathBuf,
    /// Its size in bytes; 0 for a directory.
    pub bytes: u64,
}

/// A recorder of opened files and looked-up names, which runs in two threads.
pub struct AccessRecorder {
    stop: Arc<AtomicBool>,
    file_thread: JoinHandle<BTreeMap<PathBuf, u64>>,
    /// None if the kernel cannot record names.
    name_thread: Option<JoinHandle<BTreeSet<PathBuf>>>,
}

impl AccessRecorder {
    /// Begins to record the filesystem of the root, in all mount namespaces.
    ///
    /// # Errors
    /// The kernel lacks fanotify (CONFIG_FANOTIFY), or a thread cannot be started.
    pub fn start() -> Result<AccessRecorder> {
        let stop = Arc::new(AtomicBool::new(false));
        let (events, stop_files) = (open_fanotify()?, stop.clone());
        let files = std::thread::Builder::new().spawn(move || record_files(events, &stop_files))?;
        let stop_names = stop.clone();
        let record = |pipe| std::thread::Builder::new().spawn(move || record_names(pipe, &stop_names)).ok();
        let names = open_name_trace().ok().and_then(record);
        Ok(AccessRecorder { stop, file_thread: files, name_thread: names })
    }

    /// Stops, and returns the recorded files and names, sorted by path.
    pub fn finish(self) -> AccessedPaths {
        self.stop.store(true, Ordering::Release);
        let files = self.file_thread.join().unwrap_or_default();
        let names = self.name_thread.and_then(|thread| thread.join().ok()).unwrap_or_default();
        let files = files.into_iter().map(|(path, bytes)| OpenedFile { path, bytes }).collect();
        AccessedPaths { files, names: names.into_iter().collect() }
    }
}

/// Opens a queue of events, one for each file that is opened on the filesystem of the root.
fn open_fanotify() -> Result<File> {
    let flags = libc::FAN_CLASS_NOTIF | libc::FAN_CLOEXEC | libc::FAN_NONBLOCK | libc::FAN_UNLIMITED_QUEUE;
    let file_flags = (libc::O_RDONLY | libc::O_LARGEFILE | libc::O_CLOEXEC) as u32;
    // SAFETY: plain system calls; the first returns a descriptor that nothing else owns.
    unsafe {
        let group = OwnedFd::from_raw_fd(check_return(libc::fanotify_init(flags, file_flags))?);
        let (mark, events_to_report) =
            (libc::FAN_MARK_ADD | libc::FAN_MARK_FILESYSTEM, libc::FAN_OPEN | libc::FAN_ONDIR);
        check_return(libc::fanotify_mark(group.as_raw_fd(), mark, events_to_report, libc::AT_FDCWD, c"/".as_ptr()))?;
        Ok(File::from(group))
    }
}

/// Opens a stream of lines, one for each path that a system call names.
fn open_name_trace() -> Result<File> {
    let dir = Path::new(TRACEFS_DIR);
    mount_by_syscall(Path::new("tracefs"), dir, "tracefs", "", &mut |_| ())?;
    for event in NAME_EVENTS {
        // Not every kernel has each of the functions: since Linux 6.15 `getname` is only inlined.
        let _ = OpenOptions::new().append(true).open(dir.join("kprobe_events"))?.write_all(event.as_bytes());
    }
    // This file exists if there is any event.
    std::fs::write(dir.join(ENABLE_FILE), "1")?;
    OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(dir.join("trace_pipe"))
}

/// Calls `on_piece` with each piece of a stream that does not block, until `stop` is set and the stream is empty.
fn read_until_stopped(stop: &AtomicBool, mut stream: File, mut on_piece: impl FnMut(&[u8])) {
    let mut piece = vec![0; READ_BYTES];
    loop {
        let is_stopped = stop.load(Ordering::Acquire);
        match stream.read(&mut piece) {
            Ok(0) if is_stopped => return,
            Ok(length) => on_piece(&piece[..length]),
            Err(error) if error.kind() == ErrorKind::WouldBlock && !is_stopped => std::thread::sleep(POLL_INTERVAL),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}

/// Records the opened files with their sizes in bytes until `stop` is set.
fn record_files(events: File, stop: &AtomicBool) -> BTreeMap<PathBuf, u64> {
    let mut files = BTreeMap::new();
    read_until_stopped(stop, events, |piece| add_files(piece, &mut files));
    files
}

/// Adds the files of these events, and closes their descriptors.
fn add_files(mut events: &[u8], files: &mut BTreeMap<PathBuf, u64>) {
    const EVENT_BYTES: usize = size_of::<libc::fanotify_event_metadata>();
    while events.len() >= EVENT_BYTES {
        // SAFETY: there are enough bytes, and every bit pattern is a valid event.
        let event = unsafe { events.as_ptr().cast::<libc::fanotify_event_metadata>().read_unaligned() };
        if event.fd >= 0 {
            // SAFETY: the kernel has opened the descriptor for this reader.
            let file = File::from(unsafe { OwnedFd::from_raw_fd(event.fd) });
            let path = std::fs::read_link(format!("/proc/self/fd/{}", event.fd));
            if let (Ok(path), Ok(meta)) = (path, file.metadata())
                && path.is_absolute()
                && path.exists()
            {
                files.insert(path, if meta.is_dir() { 0 } else { meta.len() });
            }
        }
        events = &events[(event.event_len as usize).clamp(EVENT_BYTES, events.len())..];
    }
}

/// Records the looked-up names until `stop` is set.
fn record_names(lines: File, stop: &AtomicBool) -> BTreeSet<PathBuf> {
    let (mut names, mut partial_line) = (BTreeSet::new(), vec![]);
    read_until_stopped(stop, lines, |piece| {
        partial_line.extend_from_slice(piece);
        let end = partial_line.iter().rposition(|byte| *byte == b'\n').map_or(0, |index| index + 1);
        let lines: Vec<u8> = partial_line.drain(..end).collect();
        names.extend(String::from_utf8_lossy(&lines).lines().filter_map(parse_absolute_name));
    });
    // The guest ends soon; until then nothing more is recorded.
    let _ = std::fs::write(Path::new(TRACEFS_DIR).join(ENABLE_FILE), "0");
    names
}

/// The absolute path of a line that ends with `name="/etc/passwd"`.
fn parse_absolute_name(line: &str) -> Option<PathBuf> {
    let (_, name) = line.split_once(" name=\"")?;
    let path = PathBuf::from(name.strip_suffix('"')?);
    path.is_absolute().then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_absolute_names_are_recorded() {
        let line = |name: &str| {
            format!("  cc-91  [000] .....  12.3: name: (do_sys_openat2+0x6c/0x160 <- getname_flags) name={name}")
        };
        assert_eq!(parse_absolute_name(&line("\"/etc/a b\"")), Some("/etc/a b".into()));
        assert_eq!(parse_absolute_name(&line("\"d/x\"")), None);
        assert_eq!(parse_absolute_name(&line("(fault)")), None);
    }
}
