//! Power loss: no cut loses a cell that the store has taken over.
//!
//! strace(1) records the system calls of a process that writes a run. For every prefix of them the directory is made as
//! a power failure could leave it: synced data stays; data that was not synced, and names whose directory was not synced,
//! stay in part, by sectors.

use crate::testing::{cells, host, plan, run_cell};
use crate::{RunDir, Writer, read};
use fsarena_core::{event::Outcome, metric::TIMER};
use rand::{RngExt, SeedableRng, rngs::StdRng};
use std::path::{Path, PathBuf};
use std::{collections::BTreeMap, process::Command};

/// Names the directory in which the child writes a run. Where it is not set this test is the parent.
const CHILD: &str = "FSARENA_TEST_POWER";
/// The child's word for a cell that the store has taken over.
const TAKEN: &str = "taken over: ";
/// The part of a write that a disk does or does not do.
const SECTOR: usize = 512;
const CALLS: &str = "trace=mkdir,openat,write,pwrite64,fdatasync,fsync,ftruncate,unlink,rename";

#[test]
fn power_loss_at_any_point_keeps_every_finished_cell() {
    if let Some(dir) = std::env::var_os(CHILD) {
        return write_a_run(Path::new(&dir));
    }
    if !fsarena_testkit::program("strace") {
        return;
    }
    // In memory where that is, as each cut is a run that is opened and synced.
    let memory = Path::new("/dev/shm");
    let within = if memory.is_dir() { memory.into() } else { std::env::temp_dir() };
    let temp = tempfile::Builder::new().prefix("fsarena-test-").tempdir_in(within).unwrap();
    let (runs, trace) = (temp.path().join("parent/runs"), temp.path().join("trace"));
    std::fs::create_dir(temp.path().join("parent")).unwrap();
    let status = Command::new("strace")
        .args(["--follow-forks", "-xx", "--string-limit=10000000", "--decode-fds=path", "-e", CALLS, "-o"])
        .arg(&trace)
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "writer::power::power_loss_at_any_point_keeps_every_finished_cell", "--nocapture"])
        .env(CHILD, &runs)
        .output()
        .unwrap();
    assert!(status.status.success(), "{}", String::from_utf8_lossy(&status.stderr));
    let calls = parse(&std::fs::read_to_string(&trace).unwrap(), temp.path());
    let (mut cuts, mut kept) = (0, 0);
    for cut in 0..=calls.len() {
        let next = format!("{:?}", calls.get(cut)).chars().take(200).collect::<String>();
        // First as if nothing that was not synced had reached the disk, then with parts of it.
        for seed in 0..3 {
            let at = tempfile::tempdir_in(temp.path()).unwrap();
            let taken = Disk::after(&calls[..cut], (seed > 0).then_some(seed)).write(at.path());
            let run = std::fs::read_dir(at.path().join("parent/runs")).ok().and_then(|mut runs| runs.next());
            let missing = match run.map(|run| finished(&run.unwrap().path(), cut % 16 == 0)) {
                Some(Ok(found)) => taken.iter().filter(|cell| !found.contains(cell)).cloned().collect(),
                Some(Err(error)) if !taken.is_empty() => {
                    panic!("cut {cut} of {}, seed {seed}: {error}", calls.len())
                }
                _ => taken.clone(),
            };
            assert_eq!(missing, [""; 0], "cut {cut} of {}, seed {seed}: {next}", calls.len());
            (cuts, kept) = (cuts + 1, kept + taken.len());
        }
    }
    println!("{cuts} cuts, {kept} cells looked for");
    assert!(kept > 1000, "{kept} in {cuts}");
}

/// A run, its end, and its resumption; with checkpoints in the midst of it.
fn write_a_run(runs: &Path) {
    let plan = plan(&["ext4", "xfs"]);
    let run = RunDir::create(runs, &plan, "0.1.0").unwrap();
    for rounds in [0..3, 3..6] {
        let mut writer = Writer::open(&run, &host("b1"), TIMER).unwrap();
        writer.db.execute_batch("PRAGMA wal_autocheckpoint = 12").unwrap();
        for cell in rounds.flat_map(|round| cells(&plan, round)) {
            run_cell(&mut writer, &cell, Outcome::Done);
            let line = format!("{TAKEN}{}\n", cell.id());
            std::io::Write::write_all(&mut std::io::stderr(), line.as_bytes()).unwrap();
        }
    }
}

/// The finished cells of a run, whose database is sound; and which can be written on.
fn finished(run: &Path, resume: bool) -> crate::Result<Vec<String>> {
    let run = RunDir::open(run)?;
    let record = read(&run)?;
    let db = rusqlite::Connection::open(run.database()).unwrap();
    let sound: String = db.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(sound, "ok");
    drop(db);
    if resume {
        drop(Writer::open(&run, &host("b2"), TIMER)?);
        assert_eq!(read(&run)?.cells, record.cells);
    }
    // Two tasks each.
    assert_eq!(record.samples.cell.len(), record.cells.len() * 2);
    Ok(record.cells.into_iter().map(|cell| cell.id).collect())
}

/// A system call that changes something, or makes it stay.
#[derive(Debug)]
enum Call {
    Mkdir(PathBuf),
    /// A file is opened that need not exist: whether it becomes empty.
    Open(PathBuf, bool),
    /// None where it goes to the end.
    Write(PathBuf, Option<usize>, Vec<u8>),
    Truncate(PathBuf, usize),
    Unlink(PathBuf),
    Sync(PathBuf),
    Taken(String),
}

/// The calls below a directory, in order.
fn parse(trace: &str, root: &Path) -> Vec<Call> {
    let one = |line: &str| -> Option<Call> {
        let (call, result) = line.split_once(' ')?.1.trim_start().rsplit_once(" = ")?;
        let (name, args) = call.split_once('(')?;
        if result.starts_with('-') {
            return None;
        }
        // The first string, be it a path or the name of the open file, and the second.
        let mut texts = args.split(['"', '<', '>']).skip(1).step_by(2).map(bytes);
        let first = texts.next()?;
        let path = |bytes: Vec<u8>| PathBuf::from(String::from_utf8(bytes).unwrap());
        let number = |at: usize| args.trim_end_matches(')').rsplit(", ").nth(at).unwrap().parse::<usize>();
        let file = path(if name == "openat" { texts.next()? } else { first });
        if name == "write" && args.starts_with("\x32<") {
            let text = String::from_utf8(texts.next()?).ok()?;
            return Some(Call::Taken(text.strip_prefix(TAKEN)?.trim().into()));
        }
        // SQLite makes the index of the log anew.
        let file = file
            .strip_prefix(root)
            .ok()
            .filter(|file| !file.to_string_lossy().ends_with("-shm"))?
            .to_path_buf();
        match name {
            "mkdir" => Some(Call::Mkdir(file)),
            "openat" => args.contains("O_CREAT").then(|| Call::Open(file, args.contains("O_TRUNC"))),
            "write" => Some(Call::Write(file, None, texts.next()?)),
            "pwrite64" => Some(Call::Write(file, Some(number(0).unwrap()), texts.next()?)),
            "ftruncate" => Some(Call::Truncate(file, number(0).unwrap())),
            "unlink" => Some(Call::Unlink(file)),
            "fsync" | "fdatasync" => Some(Call::Sync(file)),
            _ => panic!("{name} is new to this test: {line}"),
        }
    };
    trace.lines().filter_map(one).collect()
}

/// `\x61\x62` as bytes.
fn bytes(text: &str) -> Vec<u8> {
    text.split("\\x").skip(1).map(|digits| u8::from_str_radix(&digits[..2], 16).unwrap()).collect()
}

/// A disk, and what is on the way to it.
#[derive(Default)]
struct Disk {
    /// Files and directories (none has content) by number, with the changes that are not synced.
    nodes: Vec<(Vec<u8>, Vec<Change>)>,
    names: BTreeMap<PathBuf, Name>,
    taken: Vec<String>,
}

/// The nodes that a name had since its directory was synced, the durable one first.
type Name = Vec<Option<usize>>;

enum Change {
    Write(usize, Vec<u8>),
    Truncate(usize),
}

impl Change {
    /// Applies it in whole, or those sectors that pass.
    fn apply(&self, content: &mut Vec<u8>, mut passes: impl FnMut() -> bool) {
        match self {
            Change::Truncate(length) if passes() => content.resize(*length, 0),
            Change::Truncate(_) => {}
            Change::Write(at, bytes) => {
                let mut from = 0;
                while from < bytes.len() {
                    let to = bytes.len().min(from + SECTOR - (at + from) % SECTOR);
                    if passes() {
                        content.resize(content.len().max(at + to), 0);
                        content[at + from..at + to].copy_from_slice(&bytes[from..to]);
                    }
                    from = to;
                }
            }
        }
    }
}

impl Disk {
    /// The disk when the power fails after some calls. With a seed some of what was on the way has reached it.
    fn after(calls: &[Call], seed: Option<u64>) -> Disk {
        let mut disk = Disk::default();
        calls.iter().for_each(|call| disk.apply(call));
        let mut random = seed.map(|seed| StdRng::seed_from_u64(seed << 32 | calls.len() as u64));
        for (content, changes) in &mut disk.nodes {
            for change in changes {
                if random.as_mut().is_some_and(|random| random.random_bool(0.6)) {
                    let whole = random.as_mut().unwrap().random_bool(0.5);
                    change.apply(content, || whole || random.as_mut().unwrap().random_bool(0.5));
                }
            }
        }
        for nodes in disk.names.values_mut() {
            let at = random.as_mut().map_or(0, |random| random.random_range(0..nodes.len()));
            *nodes = vec![nodes[at]];
        }
        disk
    }

    fn apply(&mut self, call: &Call) {
        match call {
            Call::Mkdir(path) => self.make(path),
            Call::Open(path, empty) => match self.find(path) {
                None => self.make(path),
                Some(node) if *empty => self.nodes[node].1.push(Change::Truncate(0)),
                Some(_) => {}
            },
            Call::Write(path, at, bytes) => {
                let node = self.find(path).unwrap_or_else(|| panic!("{path:?} was never made"));
                let end = || {
                    let mut whole = self.nodes[node].0.clone();
                    self.nodes[node].1.iter().for_each(|change| change.apply(&mut whole, || true));
                    whole.len()
                };
                let at = at.unwrap_or_else(end);
                self.nodes[node].1.push(Change::Write(at, bytes.clone()));
            }
            Call::Truncate(path, length) => {
                let node = self.find(path).unwrap();
                self.nodes[node].1.push(Change::Truncate(*length));
            }
            Call::Unlink(path) => self.names.get_mut(path).unwrap().push(None),
            Call::Sync(path) => self.sync(path),
            Call::Taken(cell) => self.taken.push(cell.clone()),
        }
    }

    fn make(&mut self, path: &Path) {
        self.nodes.push((vec![], vec![]));
        self.names.entry(path.into()).or_insert_with(|| vec![None]).push(Some(self.nodes.len() - 1));
    }

    fn find(&self, path: &Path) -> Option<usize> {
        self.names.get(path)?.last().copied().flatten()
    }

    /// Its data stays; of a directory the names in it.
    fn sync(&mut self, path: &Path) {
        if let Some(node) = self.find(path) {
            let (content, changes) = &mut self.nodes[node];
            changes.drain(..).for_each(|change| change.apply(content, || true));
        }
        for (_, nodes) in self.names.iter_mut().filter(|(name, _)| name.parent() == Some(path)) {
            nodes.drain(..nodes.len() - 1);
        }
    }

    /// Makes it below a directory. The cells that the store had taken over.
    fn write(self, at: &Path) -> Vec<String> {
        std::fs::create_dir(at.join("parent")).unwrap();
        for (name, nodes) in &self.names {
            let (Some(node), path) = (nodes[0], at.join(name)) else { continue };
            // A name in a directory that is lost is lost with it.
            let _ = match name.extension() {
                Some(_) => std::fs::write(path, &self.nodes[node].0),
                None => std::fs::create_dir(path),
            };
        }
        self.taken
    }
}
