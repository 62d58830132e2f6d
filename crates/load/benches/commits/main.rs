//! Compares the workloads `wal`, `sqlite` and `maildir` with the same loops in C: `cargo bench -p fsarena-load`. The goal is
//! 0.95 of their rate. Runs in memory: on tmpfs, where a sync takes no time, and on ext4 on a loop device, where syncs are
//! fast.

#[allow(dead_code)]
#[path = "../../../engine/benches/engine/scratch.rs"]
mod scratch;
#[path = "../../../engine/benches/engine/table.rs"]
mod table;

use fsarena_core::{scale::Scale, setting::Settings};
use fsarena_load::workload::{Job, Place};
use fsarena_load::{task::Action, workloads};
use scratch::{Failure, OnLoop, in_memory};
use std::path::{Path, PathBuf};
use std::process::Command;
use table::{Row, Run};

/// One comparison: a task of a workload with some settings, and the number of its operations.
struct Compared {
    title: &'static str,
    workload: &'static str,
    task: &'static str,
    set: &'static [(&'static str, &'static str)],
    times: u64,
    /// The setting for the number of operations.
    bound: &'static str,
    /// The arguments of the C program that follow the path of its files.
    arguments: &'static [&'static str],
}

const ROWS: &[Compared] = &[
    wal("wal, 1 client", &[("clients", "1")], &["1"]),
    wal("wal, 4 clients", &[("clients", "4")], &["4"]),
    sqlite("sqlite update, journal=wal", "update", &[("journal", "wal")], 5_000, &["wal", "update"]),
    sqlite("sqlite insert, journal=wal", "insert", &[("journal", "wal")], 5_000, &["wal", "insert"]),
    sqlite("sqlite read, journal=wal", "read", &[("journal", "wal")], 20_000, &["wal", "read"]),
    sqlite("sqlite insert, journal=delete", "insert", &[("journal", "delete")], 2_000, &["delete", "insert"]),
    sqlite("sqlite read, journal=delete", "read", &[("journal", "delete")], 20_000, &["delete", "read"]),
    Compared {
        title: "maildir, 4 clients",
        workload: "maildir",
        task: "deliver",
        set: &[],
        times: 2_000,
        bound: "messages",
        arguments: &["4"],
    },
];

const fn wal(
    title: &'static str,
    set: &'static [(&'static str, &'static str)],
    arguments: &'static [&'static str],
) -> Compared {
    Compared { title, workload: "wal", task: "wal", set, times: 5_000, bound: "operations", arguments }
}

const fn sqlite(
    title: &'static str,
    task: &'static str,
    set: &'static [(&'static str, &'static str)],
    times: u64,
    arguments: &'static [&'static str],
) -> Compared {
    Compared { title, workload: "sqlite", task, set, times, bound: "operations", arguments }
}

fn main() -> Result<(), Failure> {
    println!("{}", table::undisturbed());
    let filters: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with("--")).collect();
    let (on_loop, memory) = (OnLoop::new()?, in_memory()?);
    // Ten times as many operations on tmpfs, because each takes much less time there.
    for (on, root, times) in [("tmpfs", memory.path(), 10), ("ext4 in memory", on_loop.dir(), 1)] {
        for row in ROWS {
            let row = Compared { times: times * row.times, ..*row };
            let title = format!("{} on {on}", row.title);
            if filters.is_empty() || filters.iter().any(|part| title.contains(part.as_str())) {
                row.compare(&title, root, memory.path())?;
            }
        }
    }
    Ok(())
}

impl Compared {
    fn compare(&self, title: &str, root: &Path, programs: &Path) -> Result<(), Failure> {
        let program = compile(self.workload, programs)?;
        let place = Place { root: root.join("root"), source_dir: programs.into(), server_user: None };
        std::fs::create_dir_all(&place.root)?;
        table::print(&Row {
            title,
            contenders: vec![
                ("fsarena, every latency", Box::new(|| self.ours(&place))),
                ("C", Box::new(|| self.in_c(&place, &program))),
            ],
            goals: vec![0.95],
        })?;
        Ok(std::fs::remove_dir_all(&place.root)?)
    }

    /// Makes the files that the task starts from, and returns its work.
    fn prepared(&self, place: &Place) -> Result<Vec<Action>, Failure> {
        let workload = workloads::find_workload(self.workload).ok_or("no such workload")?;
        let defs = workload.def().settings;
        let mut settings = Settings::defaults(defs);
        let (times, rows) = (self.times.to_string(), ("rows", "2000"));
        for (id, text) in self.set.iter().copied().chain([(self.bound, times.as_str()), rows]) {
            if let Some(def) = defs.iter().find(|def| def.id == id) {
                settings.0.insert(id.into(), def.kind.parse(text).ok_or("a setting does not fit")?);
            }
        }
        let job = Job { settings, scale: Scale::Quick, seed: 1 };
        let mut work = vec![];
        for (at, task) in workload.tasks(&job, place)?.into_iter().enumerate() {
            let is_it = task.info.id.name == self.task;
            // The first task prepares the files of all tasks.
            for action in task.prepare.into_iter().filter(|_| at == 0 || is_it) {
                action.perform(&mut |_| {})?;
            }
            if is_it {
                work = task.work;
            }
        }
        Ok(work)
    }

    fn ours(&self, place: &Place) -> Result<Option<Run>, Failure> {
        let mut rate = None;
        for action in self.prepared(place)? {
            rate = action.perform(&mut |_| {})?.readings.get("all_iops_per_s");
        }
        Ok(rate.map(run))
    }

    fn in_c(&self, place: &Place, program: &Path) -> Result<Option<Run>, Failure> {
        self.prepared(place)?;
        let files = match self.workload {
            "sqlite" => place.root.join("sqlite/data.db"),
            other => place.root.join(other),
        };
        let output = Command::new(program).arg(files).args(self.arguments).arg(self.times.to_string()).output()?;
        if !output.status.success() {
            return Err(format!("{}: {}", program.display(), String::from_utf8_lossy(&output.stderr)).into());
        }
        Ok(Some(run(String::from_utf8(output.stdout)?.trim().parse()?)))
    }
}

fn run(per_s: f64) -> Run {
    Run { per_s, cpu_ns: 0.0, user_ns: 0.0 }
}

/// Compiles a C program beside this file.
fn compile(name: &str, dir: &Path) -> Result<PathBuf, Failure> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/commits").join(name).with_extension("c");
    let program = dir.join(format!("{name}-c"));
    let mut gcc = Command::new("gcc");
    gcc.args(["-O3", "-Wall", "-o"]).arg(&program).arg(source);
    if name == "sqlite" {
        gcc.arg(find_sqlite_library()?);
    }
    if gcc.args(["-lpthread", "-lm", "-ldl"]).status()?.success() {
        Ok(program)
    } else {
        Err(format!("{gcc:?} failed").into())
    }
}

/// Finds the SQLite library that this program is linked with: the newest one in its build directory.
fn find_sqlite_library() -> Result<PathBuf, Failure> {
    let own = std::env::current_exe()?;
    let build = own.ancestors().nth(2).ok_or("the benchmark lies in target/release/deps")?.join("build");
    let libraries = std::fs::read_dir(build)?.flatten().map(|entry| entry.path().join("out/libsqlite3.a"));
    let newest = libraries.filter_map(|path| Some((path.metadata().ok()?.modified().ok()?, path))).max();
    Ok(newest.ok_or("libsqlite3.a is missing below target/release/build")?.1)
}
