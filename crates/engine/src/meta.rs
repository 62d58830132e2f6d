//! Metadata operations, as mdtest, fs_mark and FxMark measure them.
//!
//! A job is a list of phases. In each phase every thread does one kind of operation on each of its names, in private or
//! shared directories, flat or in a tree. Each phase has an outcome. An operation is one system call; create and open are
//! followed by close.

use crate::clock::{self, Clock};
use crate::drive::{DriveSettings, Work};
use crate::error::{EngineError, Result};
use crate::tally::{Interval, OnInterval, OpKind, Recorder};
use crate::{calibrate::Calibration, histogram::empty_histogram, job::check_range, outcome::LoadOutcome};
use fsarena_sys::cancel;
use rustix::fs::{Dir, Mode, OFlags, XattrFlags};
use rustix::{fd::OwnedFd, io::Errno};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::{ffi::CStr, mem::MaybeUninit, os::unix::ffi::OsStrExt, time::Instant};

/// Runs all phases in an empty directory and returns the outcome of each. Calls `on_interval` as soon as an interval is
/// over.
///
/// Afterwards, also if an operation failed, it removes the directory tree and all files that no `unlink` removed.
///
/// # Errors
/// If the job contradicts itself, threads are unavailable, or an operation fails.
pub fn run(
    job: &MetaJob,
    dir: &Path,
    on_interval: &mut dyn FnMut(Operation, &Interval),
) -> Result<Vec<(Operation, LoadOutcome)>> {
    let client = MetaClient::new(job.clone(), dir, 0)?;
    let mut entries = std::fs::read_dir(dir).map_err(EngineError::io("listing", dir))?;
    if entries.next().is_some() {
        let why = "it is not empty; metadata jobs need a directory of their own".into();
        return Err(EngineError::Files { path: dir.into(), why });
    }
    client.create_directories()?;
    let outcomes = client.run_phases(on_interval);
    let top = &client.tree.top;
    let removed = std::fs::remove_dir_all(top).map_err(EngineError::io("removing", top));
    let outcomes = outcomes?;
    removed.map(|()| outcomes)
}

/// One of several clients that work in one directory at the same time, with its names.
pub struct MetaClient {
    job: MetaJob,
    tree: NameTree,
}

impl MetaClient {
    /// Makes the client of this number. Private directories are separate for each client; shared ones are common to all.
    ///
    /// # Errors
    /// If the job contradicts itself.
    pub fn new(job: MetaJob, dir: &Path, number: u32) -> Result<MetaClient> {
        job.check()?;
        Ok(MetaClient { tree: NameTree::new(&job, dir, number), job })
    }

    /// Creates the client's directories; other clients may have created some of them.
    ///
    /// # Errors
    /// If a directory cannot be created.
    pub fn create_directories(&self) -> Result {
        self.tree.leaves.iter().try_for_each(|leaf| {
            let path = Path::new(std::ffi::OsStr::from_bytes(&leaf[..leaf.len() - 1]));
            std::fs::create_dir_all(path).map_err(EngineError::io("making", path))
        })
    }

    /// Performs one operation on each of the client's names.
    ///
    /// # Errors
    /// If an operation fails.
    pub fn perform(&self, operation: Operation) -> Result<LoadOutcome> {
        self.run_phase(operation, &mut |_| {})
    }

    /// Measures all phases of the job, or those up to a signal.
    fn run_phases(&self, on_interval: &mut dyn FnMut(Operation, &Interval)) -> Result<Vec<(Operation, LoadOutcome)>> {
        let mut outcomes = vec![];
        for &operation in &self.job.phases {
            let outcome = self.run_phase(operation, &mut |interval| on_interval(operation, interval))?;
            outcomes.push((operation, outcome));
            // After a signal the phase is incomplete, so the files for the next one may be missing.
            if cancel::received_signal().is_some() {
                break;
            }
        }
        Ok(outcomes)
    }

    /// Measures one phase.
    fn run_phase(&self, operation: Operation, on_interval: OnInterval) -> Result<LoadOutcome> {
        let (job, tree) = (&self.job, &self.tree);
        let kinds = [OpKind { name: operation.name(), bytes: 0, used: true }];
        let operations = u64::from(job.threads) * u64::from(job.names);
        let settings = DriveSettings::bounded_by_operations(job.threads, &kinds, job.interval_ms, operations);
        let calibration = Calibration::with_generator(generator_ns(tree));
        let outcome = LoadOutcome::measure(&settings, &Phase { tree, operation }, calibration, on_interval)?;
        tree.record_phase(operation);
        Ok(outcome)
    }
}

/// One kind of operation on all names.
struct Phase<'a> {
    tree: &'a NameTree,
    operation: Operation,
}

impl<'a> Work<'a> for Phase<'_> {
    type Worker = ArgumentWriter<'a>;

    fn prepare(&'a self, thread: u32) -> Result<ArgumentWriter<'a>> {
        Ok(self.tree.argument_writer(thread, self.operation))
    }

    fn perform_operations(&self, writer: &mut ArgumentWriter, recorder: &mut Recorder, clock: Clock) -> Result {
        let mut start = clock.now();
        for number in 0..self.tree.names_per_thread {
            let arguments = writer.arguments(number);
            if let Err(error) = self.operation.perform(&arguments) {
                return Err(operation_error(self.operation, &arguments, error));
            }
            let end = clock.now();
            if !recorder.count(0, start, None, end) {
                // Another worker failed.
                break;
            }
            start = end;
        }
        Ok(())
    }
}

/// Nanoseconds that the load generator takes for one operation: to write its names, take the time and count it.
fn generator_ns(tree: &NameTree) -> f64 {
    let mut writer = tree.argument_writer(0, Operation::Stat);
    let mut latencies = empty_histogram();
    let start = Instant::now();
    clock::fastest_ns_per_call(3, 10_000, |number| {
        std::hint::black_box(writer.arguments(number).name);
        latencies.saturating_record(start.elapsed().as_nanos() as u64);
    })
}

/// Whether threads share directories.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Sharing {
    /// Each thread uses separate directories.
    Private,
    /// All threads use the same directories.
    Shared,
}

/// The settings of a load of metadata operations.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MetaJob {
    /// The phases, in order. [`Operation::Create`] and [`Operation::Mkdir`] create the names that other phases need.
    pub phases: Vec<Operation>,
    /// Threads, 1–128.
    pub threads: u32,
    /// Names for each thread.
    pub names: u32,
    /// Whether threads share directories.
    pub sharing: Sharing,
    /// Levels of directories below the top one; 0 is flat.
    pub depth: u32,
    /// Directories in each directory of a tree.
    pub fan_out: u32,
    /// Bytes of each file.
    pub bytes: u32,
    /// Milliseconds of one interval of the series.
    pub interval_ms: u32,
}

impl Default for MetaJob {
    fn default() -> MetaJob {
        MetaJob {
            phases: vec![Operation::Create, Operation::Stat, Operation::Unlink],
            threads: 1,
            names: 10_000,
            sharing: Sharing::Private,
            depth: 0,
            fan_out: 10,
            bytes: 0,
            interval_ms: 100,
        }
    }
}

impl MetaJob {
    /// Checks that the settings are in range and that each phase finds what it needs.
    ///
    /// # Errors
    /// [`EngineError::Job`] with the first setting that does not fit.
    pub fn check(&self) -> Result {
        check_range("threads", self.threads, 1, 128)?;
        check_range("names", self.names, 1, 100_000_000)?;
        check_range("depth", self.depth, 0, 16)?;
        check_range("fan_out", self.fan_out, 1, 1000)?;
        check_range("bytes", self.bytes, 0, 1 << 20)?;
        check_range("interval_ms", self.interval_ms, 1, 60_000)?;
        let directories = f64::from(self.fan_out).powi(self.depth as i32);
        if directories > 1e6 {
            return Err(EngineError::Job(format!(
                "a tree of depth {} and fan-out {} has {directories:.0} leaves; at most a million make sense",
                self.depth, self.fan_out
            )));
        }
        if self.phases.is_empty() {
            return Err(EngineError::Job("the list of phases is empty".into()));
        }
        check_phase_order(&self.phases)
    }
}

/// The attribute that xattr operations set and get.
const ATTRIBUTE: &CStr = c"user.fsarena";
/// The value of that attribute. It is short enough to be stored in the inode.
const ATTRIBUTE_VALUE: &[u8; 16] = b"0123456789abcdef";

/// A metadata operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Operation {
    /// Create a new file, write its content if it has any, and close it.
    Create,
    /// Open a file for reading, and close it.
    Open,
    /// Open a file, read the content that `create` wrote, and close it.
    Read,
    /// `stat` a file.
    Stat,
    /// `stat` a directory.
    StatDir,
    /// List the whole directory that a file is in.
    Readdir,
    /// Rename a file within its directory; later phases use the new name.
    Rename,
    /// Create a hard link to a file.
    Link,
    /// Create a symbolic link to a file.
    Symlink,
    /// Change the mode of a file.
    Chmod,
    /// Set an extended attribute of 16 bytes.
    Setxattr,
    /// Get that attribute.
    Getxattr,
    /// Remove a file.
    Unlink,
    /// Make a directory.
    Mkdir,
    /// Remove a directory.
    Rmdir,
}

/// The names and the content that one operation needs.
struct OperationArguments<'a> {
    /// The name, an absolute path.
    name: &'a CStr,
    /// A second name in the same directory, such as the new name of a file. Empty if the operation has none.
    second_name: &'a CStr,
    /// The directory of both names.
    directory: &'a CStr,
    /// The content of a file.
    content: &'a [u8],
}

impl Operation {
    /// Every operation.
    pub const ALL: [Operation; 15] = {
        use Operation::*;
        [
            Create, Open, Read, Stat, StatDir, Readdir, Rename, Link, Symlink, Chmod, Setxattr, Getxattr, Unlink,
            Mkdir, Rmdir,
        ]
    };

    /// The names of the operations, in the order of [`Operation::ALL`].
    const NAMES: [&'static str; Operation::ALL.len()] = [
        "create", "open", "read", "stat", "stat_dir", "readdir", "rename", "link", "symlink", "chmod", "setxattr",
        "getxattr", "unlink", "mkdir", "rmdir",
    ];

    /// Its name in readings, jobs and errors.
    pub const fn name(self) -> &'static str {
        Operation::NAMES[self as usize]
    }

    /// Performs the operation.
    ///
    /// # Errors
    /// The error of the system call.
    #[inline(always)]
    fn perform(self, arguments: &OperationArguments) -> Result<(), Errno> {
        let file_mode = Mode::from_raw_mode(0o644);
        match self {
            Operation::Create => {
                let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
                let file = rustix::fs::open(arguments.name, flags, file_mode)?;
                if arguments.content.is_empty() { Ok(()) } else { write_content(&file, arguments.content) }
            }
            Operation::Open => {
                rustix::fs::open(arguments.name, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).map(drop)
            }
            Operation::Read => read_content(arguments.name, arguments.content.len()),
            Operation::Stat | Operation::StatDir => rustix::fs::stat(arguments.name).map(drop),
            Operation::Readdir => list_directory(arguments.directory),
            Operation::Rename => rustix::fs::rename(arguments.name, arguments.second_name),
            Operation::Link => rustix::fs::link(arguments.name, arguments.second_name),
            Operation::Symlink => rustix::fs::symlink(arguments.name, arguments.second_name),
            Operation::Chmod => rustix::fs::chmod(arguments.name, Mode::from_raw_mode(0o600)),
            Operation::Setxattr => {
                rustix::fs::setxattr(arguments.name, ATTRIBUTE, ATTRIBUTE_VALUE, XattrFlags::empty())
            }
            Operation::Getxattr => rustix::fs::getxattr(arguments.name, ATTRIBUTE, &mut [0; 64][..]).map(drop),
            Operation::Unlink => rustix::fs::unlink(arguments.name),
            Operation::Mkdir => rustix::fs::mkdir(arguments.name, Mode::from_raw_mode(0o755)),
            Operation::Rmdir => rustix::fs::rmdir(arguments.name),
        }
    }
}

/// Writes the whole content to a file.
fn write_content(file: &OwnedFd, mut content: &[u8]) -> Result<(), Errno> {
    while !content.is_empty() {
        content = &content[rustix::io::write(file, content)?..];
    }
    Ok(())
}

/// Opens a file and reads the content that `create` wrote, as mdtest does. Fails with `NODATA` if the file is shorter.
fn read_content(name: &CStr, bytes: usize) -> Result<(), Errno> {
    let file = rustix::fs::open(name, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    let mut buffer = [MaybeUninit::<u8>::uninit(); 16 << 10];
    let mut remaining = bytes;
    while remaining > 0 {
        match rustix::io::read(&file, &mut buffer)?.0.len() {
            0 => return Err(Errno::NODATA),
            read => remaining = remaining.saturating_sub(read),
        }
    }
    Ok(())
}

/// Reads all entries of a directory.
fn list_directory(directory: &CStr) -> Result<(), Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut entries = Dir::new(rustix::fs::open(directory, flags, Mode::empty())?)?;
    entries.try_for_each(|entry| entry.map(drop))
}

/// Checks that each phase finds the files or directories that it needs (files exist between `create` and `unlink`, directories
/// between `mkdir` and `rmdir`) and that no name is created twice.
///
/// # Errors
/// [`EngineError::Job`] naming the phase that does not fit.
fn check_phase_order(phases: &[Operation]) -> Result {
    let (mut files_exist, mut directories_exist, mut attributes_exist) = (false, false, false);
    let mut earlier_phases = vec![];
    for &phase in phases {
        let requirement = match phase {
            Operation::Create if files_exist => Some("names that an `unlink` removed"),
            Operation::Mkdir if directories_exist => Some("names that an `rmdir` removed"),
            Operation::Rmdir | Operation::StatDir if !directories_exist => Some("a `mkdir` before it"),
            Operation::Getxattr if files_exist && !attributes_exist => Some("a `setxattr` before it"),
            Operation::Link | Operation::Symlink if earlier_phases.contains(&phase) => Some("to occur only once"),
            Operation::Create | Operation::Mkdir | Operation::Rmdir | Operation::StatDir => None,
            _ if !files_exist => Some("a `create` before it"),
            _ => None,
        };
        if let Some(requirement) = requirement {
            return Err(EngineError::Job(format!("the phase `{}` needs {requirement}", phase.name())));
        }
        match phase {
            Operation::Create => files_exist = true,
            Operation::Unlink => (files_exist, attributes_exist) = (false, false),
            Operation::Mkdir => directories_exist = true,
            Operation::Rmdir => directories_exist = false,
            Operation::Setxattr => attributes_exist = true,
            _ => {}
        }
        earlier_phases.push(phase);
    }
    Ok(())
}

/// Makes the error of an operation that failed on a name.
#[cold]
fn operation_error(operation: Operation, arguments: &OperationArguments, source: Errno) -> EngineError {
    let path = std::path::PathBuf::from(arguments.name.to_string_lossy().into_owned());
    EngineError::Io { doing: operation.name(), path, source: source.into() }
}

/// The name of the directory in which a job creates and removes everything. It is in the directory of the job.
const TOP_DIR: &str = "fsarena-meta";

/// The directories of a job and the names in them.
struct NameTree {
    /// The directory above all others; see [`TOP_DIR`].
    top: PathBuf,
    /// The directories that hold names, thread by thread if they are private; each path ends in a zero byte.
    leaves: Vec<Vec<u8>>,
    /// The number of these directories that each thread uses.
    leaves_per_thread: usize,
    /// Whether each thread uses its own directories.
    is_private: bool,
    /// Names for each thread.
    names_per_thread: u32,
    /// The number of the first thread in names, so that the names of clients differ.
    first_thread: u32,
    /// The content of each file.
    content: Vec<u8>,
    /// Whether a phase has renamed the files.
    files_are_renamed: AtomicBool,
}

impl NameTree {
    /// The tree of one of several clients. Does not create its directories.
    fn new(job: &MetaJob, dir: &Path, client: u32) -> NameTree {
        let top = dir.join(TOP_DIR);
        let is_private = job.sharing == Sharing::Private;
        let roots = if is_private { job.threads } else { 1 };
        let first_thread = client * job.threads;
        let mut leaves = vec![];
        for root in 0..roots {
            let root = if is_private { first_thread + root } else { root };
            list_leaves(&top.join(format!("t{root}")), job.depth, job.fan_out, &mut leaves);
        }
        let leaves_per_thread = leaves.len() / roots as usize;
        let content = vec![b'x'; job.bytes as usize];
        let files_are_renamed = AtomicBool::new(false);
        NameTree {
            top,
            leaves,
            leaves_per_thread,
            is_private,
            names_per_thread: job.names,
            first_thread,
            content,
            files_are_renamed,
        }
    }

    /// Records that a phase has finished, because a rename changes the names of later phases.
    fn record_phase(&self, operation: Operation) {
        match operation {
            Operation::Rename => drop(self.files_are_renamed.fetch_xor(true, Ordering::Relaxed)),
            // The next `create` makes files of the first names again.
            Operation::Unlink => self.files_are_renamed.store(false, Ordering::Relaxed),
            _ => {}
        }
    }

    /// Makes the writer of a thread's names for an operation.
    fn argument_writer(&self, thread: u32, operation: Operation) -> ArgumentWriter<'_> {
        let first_leaf = if self.is_private { thread as usize * self.leaves_per_thread } else { 0 };
        let (current, renamed) =
            if self.files_are_renamed.load(Ordering::Relaxed) { (b'r', b'f') } else { (b'f', b'r') };
        let letters = match operation {
            Operation::Mkdir | Operation::StatDir | Operation::Rmdir => [b'd', b'd'],
            Operation::Link => [current, b'l'],
            Operation::Symlink => [current, b's'],
            _ => [current, renamed],
        };
        let leaves = &self.leaves[first_leaf..first_leaf + self.leaves_per_thread];
        let (thread, content) = (self.first_thread + thread, self.content.as_slice());
        let needs_second = matches!(operation, Operation::Rename | Operation::Link | Operation::Symlink);
        ArgumentWriter { leaves, thread, letters, needs_second, content, buffers: [vec![0], vec![0]] }
    }
}

/// Adds the paths of all lowest directories of a tree, each with a zero byte at its end.
fn list_leaves(dir: &Path, depth: u32, fan_out: u32, leaves: &mut Vec<Vec<u8>>) {
    match depth {
        0 => leaves.push([dir.as_os_str().as_bytes(), b"\0"].concat()),
        _ => (0..fan_out).for_each(|child| list_leaves(&dir.join(format!("D{child}")), depth - 1, fan_out, leaves)),
    }
}

/// Writes the names of operations into reused buffers, so that nothing is allocated while operations are timed.
struct ArgumentWriter<'a> {
    leaves: &'a [Vec<u8>],
    thread: u32,
    /// The letters with which the name and the second name begin.
    letters: [u8; 2],
    /// Whether the operation needs a second name.
    needs_second: bool,
    content: &'a [u8],
    /// The name and the second name, each with a zero byte at its end.
    buffers: [Vec<u8>; 2],
}

impl ArgumentWriter<'_> {
    /// Writes the thread's name of this number, its second name if the operation takes one, and their directory.
    /// Consecutive names lie in different directories.
    #[inline(always)]
    fn arguments(&mut self, number: u32) -> OperationArguments<'_> {
        let leaf = &self.leaves[number as usize % self.leaves.len()];
        let [name, second_name] = &mut self.buffers;
        write_name(name, leaf, self.letters[0], self.thread, number);
        if self.needs_second {
            write_name(second_name, leaf, self.letters[1], self.thread, number);
        }
        OperationArguments {
            name: c_str(name),
            second_name: c_str(second_name),
            directory: c_str(leaf),
            content: self.content,
        }
    }
}

/// Writes the path of a name, `LEAF/LETTER.THREAD.NUMBER`, with a zero byte at its end.
#[inline(always)]
fn write_name(buffer: &mut Vec<u8>, leaf: &[u8], letter: u8, thread: u32, number: u32) {
    buffer.clear();
    buffer.extend_from_slice(&leaf[..leaf.len() - 1]);
    buffer.extend_from_slice(&[b'/', letter, b'.']);
    append_decimal(thread, buffer);
    buffer.push(b'.');
    append_decimal(number, buffer);
    buffer.push(0);
}

/// The path in a buffer, which ends in a zero byte.
fn c_str(buffer: &[u8]) -> &CStr {
    CStr::from_bytes_with_nul(buffer).expect("a path without zero bytes, and one zero byte at its end")
}

/// Appends a number in decimal. The formatting machinery would take longer than some system calls.
fn append_decimal(mut number: u32, buffer: &mut Vec<u8>) {
    let mut reversed = [0u8; 10];
    let mut length = 0;
    loop {
        reversed[length] = b'0' + (number % 10) as u8;
        number /= 10;
        length += 1;
        if number == 0 {
            break;
        }
    }
    buffer.extend(reversed[..length].iter().rev());
}

#[cfg(test)]
mod tests {
    use super::Operation::*;
    use super::*;

    const PHASES: &[Operation] = &[
        Operation::Create,
        Operation::Open,
        Operation::Read,
        Operation::Stat,
        Operation::Chmod,
        Operation::Setxattr,
        Operation::Getxattr,
        Operation::Link,
        Operation::Symlink,
        Operation::Readdir,
        Operation::Rename,
        Operation::Stat,
        Operation::Unlink,
        Operation::Mkdir,
        Operation::StatDir,
        Operation::Rmdir,
    ];

    #[test]
    fn every_phase_performs_its_operation_on_every_name() {
        for sharing in [Sharing::Private, Sharing::Shared] {
            for depth in [0, 2] {
                let dir = tempfile::tempdir().unwrap();
                let job = MetaJob {
                    phases: PHASES.to_vec(),
                    threads: 3,
                    names: 50,
                    sharing,
                    depth,
                    fan_out: 3,
                    bytes: 100,
                    interval_ms: 1,
                };
                let outcomes = match run(&job, dir.path(), &mut |_, _| {}) {
                    // tmpfs of old kernels does not support user xattrs.
                    Err(error) if error.to_string().contains("xattr") => {
                        return fsarena_sys::testkit::record_skip("no user xattrs for temporary files");
                    }
                    outcomes => outcomes.unwrap(),
                };
                assert_eq!(outcomes.len(), PHASES.len());
                for (operation, outcome) in &outcomes {
                    assert_eq!(outcome.operations(), 150, "{operation:?}");
                    assert_eq!(outcome.kinds[0].name, operation.name());
                }
                assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "nothing is left");
            }
        }
    }

    #[test]
    fn files_and_directories_that_phases_leave_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        let job =
            MetaJob { phases: vec![Operation::Create, Operation::Link], threads: 2, names: 5, ..MetaJob::default() };
        run(&job, dir.path(), &mut |_, _| {}).unwrap();
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_failed_phase_leaves_no_files() {
        let dir = tempfile::tempdir().unwrap();
        let job = MetaJob { phases: vec![Create, Stat], names: 5, ..MetaJob::default() };
        let name = dir.path().join(TOP_DIR).join("t0/f.0.3");
        // Removes a file that the second phase needs.
        let error = run(&job, dir.path(), &mut |_, _| drop(std::fs::remove_file(&name))).unwrap_err().to_string();
        assert!(error.contains("stat") && error.contains("f.0.3"), "{error}");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn files_are_created_again_after_renamed_ones_were_removed() {
        let dir = tempfile::tempdir().unwrap();
        let phases = vec![Create, Rename, Unlink, Create, Stat, Rename, Rename, Stat, Unlink];
        let job = MetaJob { phases, names: 5, ..MetaJob::default() };
        let outcomes = run(&job, dir.path(), &mut |_, _| {}).unwrap();
        assert!(outcomes.iter().all(|(_, outcome)| outcome.operations() == 5));
    }

    #[test]
    fn a_directory_that_is_not_empty_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("mine"), "precious").unwrap();
        let error = run(&MetaJob::default(), dir.path(), &mut |_, _| {}).unwrap_err().to_string();
        assert!(error.contains("not empty"), "{error}");
        assert!(dir.path().join("mine").exists());
    }

    #[test]
    fn an_error_names_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let job = MetaJob { phases: vec![Operation::Create], names: 3, ..MetaJob::default() };
        let client = MetaClient::new(job, dir.path(), 0).unwrap();
        client.create_directories().unwrap();
        client.perform(Operation::Create).unwrap();
        let error = client.perform(Operation::Create).unwrap_err().to_string();
        assert!(error.contains("create") && error.contains("f.0.0") && error.contains("exists"), "{error}");
    }

    #[test]
    fn settings_out_of_range_are_refused() {
        let error = |job: MetaJob| job.check().unwrap_err().to_string();
        assert!(error(MetaJob { threads: 129, ..MetaJob::default() }).contains("128"));
        assert!(error(MetaJob { depth: 7, fan_out: 10, ..MetaJob::default() }).contains("million"));
        assert!(error(MetaJob { phases: vec![Operation::Stat], ..MetaJob::default() }).contains("create"));
        assert!(error(MetaJob { phases: vec![], ..MetaJob::default() }).contains("list of phases is empty"));
    }

    #[test]
    fn operation_names_match_their_serialized_names() {
        for operation in Operation::ALL {
            assert_eq!(serde_json::to_value(operation).unwrap(), operation.name());
        }
    }

    #[test]
    fn phases_without_the_files_that_they_need_are_refused() {
        assert!(check_phase_order(&[Create, Stat, Unlink, Create, Unlink, Mkdir, Rmdir]).is_ok());
        let error = |phases: &[Operation]| check_phase_order(phases).unwrap_err().to_string();
        assert!(error(&[Stat]).contains("`stat` needs a `create`"));
        assert!(error(&[Create, Unlink, Stat]).contains("`stat` needs a `create`"));
        assert!(error(&[Create, Create]).contains("removed"));
        assert!(error(&[Rmdir]).contains("mkdir"));
        assert!(error(&[Create, Getxattr]).contains("setxattr"));
        assert!(error(&[Create, Link, Link]).contains("once"));
    }

    #[test]
    fn every_thread_and_number_has_its_own_name() {
        let dir = tempfile::tempdir().unwrap();
        let job = MetaJob { threads: 2, depth: 1, fan_out: 3, ..MetaJob::default() };
        let tree = NameTree::new(&job, dir.path(), 0);
        let top = dir.path().to_str().unwrap();
        let mut writer = tree.argument_writer(1, Operation::Link);
        let arguments = writer.arguments(1204);
        assert_eq!(arguments.name.to_str().unwrap(), format!("{top}/fsarena-meta/t1/D1/f.1.1204"));
        assert_eq!(arguments.second_name.to_str().unwrap(), format!("{top}/fsarena-meta/t1/D1/l.1.1204"));
        assert_eq!(arguments.directory.to_str().unwrap(), format!("{top}/fsarena-meta/t1/D1"));
        tree.record_phase(Operation::Rename);
        assert!(tree.argument_writer(0, Operation::Stat).arguments(0).name.to_str().unwrap().ends_with("t0/D0/r.0.0"));
    }

    #[test]
    fn numbers_are_appended_in_decimal() {
        for number in [0, 7, 10, 99, 100, 1_234_567, u32::MAX] {
            let mut text = vec![];
            append_decimal(number, &mut text);
            assert_eq!(String::from_utf8(text).unwrap(), number.to_string());
        }
    }
}
