//! Simulates power failures. No simulated failure may lose a cell after `Writer::apply` has returned for its last event.
//!
//! strace(1) records the system calls of a process that writes a run. For every prefix of these calls the test makes the
//! directory that a power failure at that point could leave. Synced data stays. Of unsynced data, random sectors stay; of names
//! in an unsynced directory, a random older or newer state.

use crate::testing::{cells, host, plan, run_cell};
use crate::{RunDir, Writer, read};
use fsarena_core::{event::Outcome, metric::TIMER_READINGS};
use rand::{RngExt, SeedableRng, rngs::StdRng};
use std::path::{Path, PathBuf};
use std::{collections::BTreeMap, process::Command};

/// The environment variable with the directory in which the child process writes a run. It is unset in the parent.
const CHILD_DIR_VARIABLE: &str = "FSARENA_TEST_POWER";
/// The beginning of the line that the child prints after it has stored a cell.
const STORED_PREFIX: &str = "stored: ";
/// How strace prints file descriptor 2 with its path.
const STDERR_PREFIX: &str = "2<";
/// The bytes that a disk writes completely or not at all.
const SECTOR_BYTES: usize = 512;
/// The system calls that strace records. The parser fails at a call that it does not support, such as rename.
const TRACED_CALLS: &str = "trace=mkdir,openat,write,pwrite64,fdatasync,fsync,ftruncate,unlink,rename";

#[test]
fn power_loss_at_any_point_keeps_every_finished_cell() {
    if let Some(dir) = std::env::var_os(CHILD_DIR_VARIABLE) {
        return write_a_run(Path::new(&dir));
    }
    if !fsarena_sys::testkit::has_program("strace") {
        return;
    }
    // In memory if possible, because the test opens and syncs a run for each cut.
    let memory = Path::new("/dev/shm");
    let temp_parent = if memory.is_dir() { memory.into() } else { std::env::temp_dir() };
    let temp = tempfile::Builder::new().prefix("fsarena-test-").tempdir_in(temp_parent).unwrap();
    let (runs, trace) = (temp.path().join("parent/runs"), temp.path().join("trace"));
    std::fs::create_dir(temp.path().join("parent")).unwrap();
    let child = Command::new("strace")
        .args(["--follow-forks", "-xx", "--string-limit=10000000", "--decode-fds=path", "-e", TRACED_CALLS, "-o"])
        .arg(&trace)
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "writer::tests::power::power_loss_at_any_point_keeps_every_finished_cell", "--nocapture"])
        .env(CHILD_DIR_VARIABLE, &runs)
        .output()
        .unwrap();
    assert!(child.status.success(), "{}", String::from_utf8_lossy(&child.stderr));
    let calls = parse_trace(&std::fs::read_to_string(&trace).unwrap(), temp.path());
    let (mut cut_count, mut checked_cells) = (0, 0);
    for cut in 0..=calls.len() {
        let next = format!("{:?}", calls.get(cut)).chars().take(200).collect::<String>();
        // First without any unsynced data, then with random parts of it.
        for seed in 0..3 {
            let dir = tempfile::tempdir_in(temp.path()).unwrap();
            let stored = Disk::after_power_failure(&calls[..cut], (seed > 0).then_some(seed)).write_below(dir.path());
            let run = std::fs::read_dir(dir.path().join("parent/runs")).ok().and_then(|mut runs| runs.next());
            let missing = match run.map(|run| read_finished_cells(&run.unwrap().path(), cut % 16 == 0)) {
                Some(Ok(finished)) => stored.iter().filter(|cell| !finished.contains(cell)).cloned().collect(),
                Some(Err(error)) if !stored.is_empty() => {
                    panic!("cut {cut} of {}, seed {seed}: {error}", calls.len())
                }
                _ => stored.clone(),
            };
            assert_eq!(missing, [""; 0], "cut {cut} of {}, seed {seed}: {next}", calls.len());
            (cut_count, checked_cells) = (cut_count + 1, checked_cells + stored.len());
        }
    }
    println!("{cut_count} cuts, {checked_cells} cells looked for");
    assert!(checked_cells > 1000, "{checked_cells} in {cut_count}");
}

/// Writes a run, closes it and resumes it, with frequent checkpoints.
fn write_a_run(runs: &Path) {
    let plan = plan(&["ext4", "xfs"]);
    let run = RunDir::create(runs, &plan, "0.1.0").unwrap();
    for rounds in [0..3, 3..6] {
        let mut writer = Writer::open(&run, &host("b1"), TIMER_READINGS).unwrap();
        writer.db.execute_batch("PRAGMA wal_autocheckpoint = 12").unwrap();
        for cell in rounds.flat_map(|round| cells(&plan, round)) {
            run_cell(&mut writer, &cell, Outcome::Done);
            let line = format!("{STORED_PREFIX}{}\n", cell.id());
            std::io::Write::write_all(&mut std::io::stderr(), line.as_bytes()).unwrap();
        }
    }
}

/// The ids of the finished cells of a run. Checks that its database is sound and, with `try_resuming`, that
/// it can be resumed.
fn read_finished_cells(run: &Path, try_resuming: bool) -> crate::Result<Vec<String>> {
    let run = RunDir::open(run)?;
    let record = read(&run)?;
    let db = rusqlite::Connection::open(run.database_file()).unwrap();
    let integrity: String = db.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(integrity, "ok");
    drop(db);
    if try_resuming {
        drop(Writer::open(&run, &host("b2"), TIMER_READINGS)?);
        assert_eq!(read(&run)?.cells, record.cells);
    }
    // Each cell has two tasks.
    assert_eq!(record.samples.cell.len(), record.cells.len() * 2);
    Ok(record.cells.into_iter().map(|cell| cell.id).collect())
}

/// A recorded system call that changes or syncs a file, or a line of the child about a stored cell.
#[derive(Debug)]
enum Call {
    Mkdir(PathBuf),
    /// Opens a file with O_CREAT. The bool is true with O_TRUNC.
    Open(PathBuf, bool),
    /// Writes at an offset; None appends.
    Write(PathBuf, Option<usize>, Vec<u8>),
    Truncate(PathBuf, usize),
    Unlink(PathBuf),
    Sync(PathBuf),
    Stored(String),
}

/// Parses the calls of a trace on files below a directory, in order.
fn parse_trace(trace: &str, root: &Path) -> Vec<Call> {
    let parse_line = |line: &str| -> Option<Call> {
        let (call, result) = line.split_once(' ')?.1.trim_start().rsplit_once(" = ")?;
        let (name, args) = call.split_once('(')?;
        if result.starts_with('-') {
            return None;
        }
        // A line is `PID name(ARGS) = RESULT`, such as `7 pwrite64(5</dir/run.db>, "data", 4, 4096) = 4` or
        // `7 openat(AT_FDCWD</dir>, "/dir/run.db", O_RDWR|O_CREAT) = 5</dir/run.db>`, with every string in hexadecimal. The
        // strings are first the path of the open file or directory in `<>`, or the path of mkdir and unlink in quotes, then
        // the path of openat or the data.
        let mut texts = args.split(['"', '<', '>']).skip(1).step_by(2).map(decode_hex);
        let first = texts.next()?;
        let path = |bytes: Vec<u8>| PathBuf::from(String::from_utf8(bytes).unwrap());
        let number_from_end =
            |index: usize| args.trim_end_matches(')').rsplit(", ").nth(index).unwrap().parse::<usize>();
        let file = path(if name == "openat" { texts.next()? } else { first });
        if name == "write" && args.starts_with(STDERR_PREFIX) {
            let text = String::from_utf8(texts.next()?).ok()?;
            return Some(Call::Stored(text.strip_prefix(STORED_PREFIX)?.trim().into()));
        }
        // SQLite rebuilds the `-shm` file, so its content does not matter.
        let file = file.strip_prefix(root).ok().filter(|file| !file.to_string_lossy().ends_with("-shm"))?.to_path_buf();
        match name {
            "mkdir" => Some(Call::Mkdir(file)),
            "openat" => args.contains("O_CREAT").then(|| Call::Open(file, args.contains("O_TRUNC"))),
            "write" => Some(Call::Write(file, None, texts.next()?)),
            "pwrite64" => Some(Call::Write(file, Some(number_from_end(0).unwrap()), texts.next()?)),
            "ftruncate" => Some(Call::Truncate(file, number_from_end(0).unwrap())),
            "unlink" => Some(Call::Unlink(file)),
            "fsync" | "fdatasync" => Some(Call::Sync(file)),
            _ => panic!("{name} is new to this test: {line}"),
        }
    };
    trace.lines().filter_map(parse_line).collect()
}

/// Decodes `\x61\x62` to bytes.
fn decode_hex(text: &str) -> Vec<u8> {
    text.split("\\x").skip(1).map(|digits| u8::from_str_radix(&digits[..2], 16).unwrap()).collect()
}

/// A simulated disk with the changes that are not synced yet.
#[derive(Default)]
struct Disk {
    /// The content of each file, with its unsynced changes. Directories have empty content.
    nodes: Vec<(Vec<u8>, Vec<Change>)>,
    names: BTreeMap<PathBuf, NameHistory>,
    /// The cells that the child has reported as stored.
    stored: Vec<String>,
}

/// The nodes that a name has had since its directory was synced, the synced one first. None means that the name is missing.
type NameHistory = Vec<Option<usize>>;

/// An unsynced change of a file.
enum Change {
    /// Bytes written at an offset.
    Write(usize, Vec<u8>),
    /// A new length.
    Truncate(usize),
}

impl Change {
    /// Applies the sectors of the change for which `is_kept` returns true.
    fn apply(&self, content: &mut Vec<u8>, mut is_kept: impl FnMut() -> bool) {
        match self {
            Change::Truncate(length) if is_kept() => content.resize(*length, 0),
            Change::Truncate(_) => {}
            Change::Write(offset, bytes) => {
                let mut start = 0;
                while start < bytes.len() {
                    let end = bytes.len().min(start + SECTOR_BYTES - (offset + start) % SECTOR_BYTES);
                    if is_kept() {
                        content.resize(content.len().max(offset + end), 0);
                        content[offset + start..offset + end].copy_from_slice(&bytes[start..end]);
                    }
                    start = end;
                }
            }
        }
    }
}

impl Disk {
    /// The disk after a power failure that follows these calls. With a seed, a random part of the unsynced changes stays.
    fn after_power_failure(calls: &[Call], seed: Option<u64>) -> Disk {
        let mut disk = Disk::default();
        calls.iter().for_each(|call| disk.apply(call));
        let mut random = seed.map(|seed| StdRng::seed_from_u64(seed << 32 | calls.len() as u64));
        for (content, changes) in &mut disk.nodes {
            for change in changes {
                if random.as_mut().is_some_and(|random| random.random_bool(0.6)) {
                    let is_whole = random.as_mut().unwrap().random_bool(0.5);
                    change.apply(content, || is_whole || random.as_mut().unwrap().random_bool(0.5));
                }
            }
        }
        for nodes in disk.names.values_mut() {
            let index = random.as_mut().map_or(0, |random| random.random_range(0..nodes.len()));
            *nodes = vec![nodes[index]];
        }
        disk
    }

    /// Changes the disk as the call does.
    fn apply(&mut self, call: &Call) {
        match call {
            Call::Mkdir(path) => self.create(path),
            Call::Open(path, truncate) => match self.find(path) {
                None => self.create(path),
                Some(node) if *truncate => self.nodes[node].1.push(Change::Truncate(0)),
                Some(_) => {}
            },
            Call::Write(path, offset, bytes) => {
                let node = self.find(path).unwrap_or_else(|| panic!("{path:?} was never made"));
                let end = || {
                    let mut content = self.nodes[node].0.clone();
                    self.nodes[node].1.iter().for_each(|change| change.apply(&mut content, || true));
                    content.len()
                };
                let offset = offset.unwrap_or_else(end);
                self.nodes[node].1.push(Change::Write(offset, bytes.clone()));
            }
            Call::Truncate(path, length) => {
                let node = self.find(path).unwrap();
                self.nodes[node].1.push(Change::Truncate(*length));
            }
            Call::Unlink(path) => self.names.get_mut(path).unwrap().push(None),
            Call::Sync(path) => self.sync(path),
            Call::Stored(cell) => self.stored.push(cell.clone()),
        }
    }

    fn create(&mut self, path: &Path) {
        self.nodes.push((vec![], vec![]));
        self.names.entry(path.into()).or_insert_with(|| vec![None]).push(Some(self.nodes.len() - 1));
    }

    /// The node that a name has now; None if the name is missing.
    fn find(&self, path: &Path) -> Option<usize> {
        self.names.get(path)?.last().copied().flatten()
    }

    /// Makes the data of a file, or the names in a directory, survive a power failure.
    fn sync(&mut self, path: &Path) {
        if let Some(node) = self.find(path) {
            let (content, changes) = &mut self.nodes[node];
            changes.drain(..).for_each(|change| change.apply(content, || true));
        }
        for (_, nodes) in self.names.iter_mut().filter(|(name, _)| name.parent() == Some(path)) {
            nodes.drain(..nodes.len() - 1);
        }
    }

    /// Writes the files of the disk below a directory. Returns the cells that the child had reported as stored.
    fn write_below(self, dir: &Path) -> Vec<String> {
        std::fs::create_dir(dir.join("parent")).unwrap();
        for (name, nodes) in &self.names {
            let (Some(node), path) = (nodes[0], dir.join(name)) else { continue };
            // Files have an extension, directories have none. Fails if the directory of the name was lost.
            let _ = match name.extension() {
                Some(_) => std::fs::write(path, &self.nodes[node].0),
                None => std::fs::create_dir(path),
            };
        }
        self.stored
    }
}
