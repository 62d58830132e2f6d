//! Compares the workloads `wal`, `sqlite` and `maildir` with the same loops in C: `cargo bench -p fsarena-load`. The
//! goal is 0.95 of their rate. Runs in memory: on tmpfs, where a sync takes no time, and on ext4 on a loop device,
//! where syncs are fast.

#[allow(dead_code)]
#[path = "../../../engine/benches/engine/scratch.rs"]
mod scratch;
#[path = "../../../engine/benches/engine/table.rs"]
mod table;

use fsarena_core::{scale::Scale, setting::Settings};
use fsarena_load::workload::{Job, Place};
use fsarena_load::{task::Action, workloads};
use scratch::{Failure, FileOnLoop, dir_in_memory};
use std::path::{Path, PathBuf};
use std::process::Command;
use table::{Figures, Row};

/// One comparison: a task of a workload with some settings, and the number of its operations.
struct Comparison {
    title: &'static str,
    workload: &'static str,
    task: &'static str,
    settings: &'static [(&'static str, &'static str)],
    operations: u64,
    /// The id of the setting for the number of operations.
    operations_setting: &'static str,
    /// The arguments of the C program that follow the path of its files.
    arguments: &'static [&'static str],
}

const COMPARISONS: &[Comparison] = &[
    wal("wal, 1 client", &[("clients", "1")], &["1"]),
    wal("wal, 4 clients", &[("clients", "4")], &["4"]),
    sqlite("sqlite update, journal=wal", "update", &[("journal", "wal")], 5_000, &["wal", "update"]),
    sqlite("sqlite insert, journal=wal", "insert", &[("journal", "wal")], 5_000, &["wal", "insert"]),
    sqlite("sqlite read, journal=wal", "read", &[("journal", "wal")], 100_000, &["wal", "read"]),
    sqlite("sqlite insert, journal=delete", "insert", &[("journal", "delete")], 2_000, &["delete", "insert"]),
    sqlite("sqlite read, journal=delete", "read", &[("journal", "delete")], 100_000, &["delete", "read"]),
    Comparison {
        title: "maildir, 4 clients",
        workload: "maildir",
        task: "deliver",
        settings: &[],
        operations: 2_000,
        operations_setting: "messages",
        arguments: &["4"],
    },
];

const fn wal(
    title: &'static str,
    settings: &'static [(&'static str, &'static str)],
    arguments: &'static [&'static str],
) -> Comparison {
    Comparison {
        title,
        workload: "wal",
        task: "wal",
        settings,
        operations: 5_000,
        operations_setting: "operations",
        arguments,
    }
}

const fn sqlite(
    title: &'static str,
    task: &'static str,
    settings: &'static [(&'static str, &'static str)],
    operations: u64,
    arguments: &'static [&'static str],
) -> Comparison {
    Comparison { title, workload: "sqlite", task, settings, operations, operations_setting: "operations", arguments }
}

fn main() -> Result<(), Failure> {
    println!("{}", table::request_real_time_priority());
    let filters: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with("--")).collect();
    let (on_loop, memory) = (FileOnLoop::new()?, dir_in_memory()?);
    // Ten times as many operations on tmpfs, because each takes much less time there.
    for (filesystem, root, factor) in [("tmpfs", memory.path(), 10), ("ext4 in memory", on_loop.mount_dir(), 1)] {
        for comparison in COMPARISONS {
            let comparison = Comparison { operations: factor * comparison.operations, ..*comparison };
            let title = format!("{} on {filesystem}", comparison.title);
            if filters.is_empty() || filters.iter().any(|filter| title.contains(filter.as_str())) {
                comparison.run(&title, root, memory.path())?;
            }
        }
    }
    Ok(())
}

impl Comparison {
    /// Measures both programs in a directory below `root` and prints the row. `program_dir` is the directory of the C
    /// program.
    fn run(&self, title: &str, root: &Path, program_dir: &Path) -> Result<(), Failure> {
        let program = compile(self.workload, program_dir)?;
        let place = Place { root: root.join("root"), source_dir: program_dir.into(), server_user: None };
        std::fs::create_dir_all(&place.root)?;
        table::run_and_print(&Row {
            title,
            contenders: vec![
                ("fsarena, every latency", Box::new(|| self.measure_workload(&place))),
                ("C", Box::new(|| self.measure_c_program(&place, &program))),
            ],
            min_ratios: vec![0.95],
        })?;
        Ok(std::fs::remove_dir_all(&place.root)?)
    }

    /// Makes the files that the task starts from, and returns its work.
    fn prepare(&self, place: &Place) -> Result<Vec<Action>, Failure> {
        let workload = workloads::find_workload(self.workload).ok_or("no such workload")?;
        let defs = workload.def().settings;
        let mut settings = Settings::defaults(defs);
        let operations = self.operations.to_string();
        let common_settings = [(self.operations_setting, operations.as_str()), ("rows", "2000")];
        for (id, text) in self.settings.iter().copied().chain(common_settings) {
            if let Some(def) = defs.iter().find(|def| def.id == id) {
                settings.0.insert(id.into(), def.kind.parse(text).ok_or("a setting does not fit")?);
            }
        }
        let job = Job { settings, scale: Scale::Quick, seed: 1 };
        let mut work = vec![];
        for (index, task) in workload.tasks(&job, place)?.into_iter().enumerate() {
            let is_compared = task.info.id.name == self.task;
            // The first task prepares the files of all tasks.
            for action in task.preparation.into_iter().filter(|_| index == 0 || is_compared) {
                action.perform(&mut |_| {})?;
            }
            if is_compared {
                work = task.work;
            }
        }
        Ok(work)
    }

    fn measure_workload(&self, place: &Place) -> Result<Option<Figures>, Failure> {
        let mut rate = None;
        for action in self.prepare(place)? {
            rate = action.perform(&mut |_| {})?.readings.get("all_iops_per_s");
        }
        Ok(rate.map(run_at_rate))
    }

    fn measure_c_program(&self, place: &Place, program: &Path) -> Result<Option<Figures>, Failure> {
        self.prepare(place)?;
        let files = match self.workload {
            "sqlite" => place.root.join("sqlite/data.db"),
            other => place.root.join(other),
        };
        let output = Command::new(program).arg(files).args(self.arguments).arg(self.operations.to_string()).output()?;
        if !output.status.success() {
            return Err(format!("{}: {}", program.display(), String::from_utf8_lossy(&output.stderr)).into());
        }
        Ok(Some(run_at_rate(String::from_utf8(output.stdout)?.trim().parse()?)))
    }
}

/// A run with a rate and without CPU times.
fn run_at_rate(operations_per_s: f64) -> Figures {
    Figures { operations_per_s, cpu_ns: 0.0, user_ns: 0.0 }
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
    let this_program = std::env::current_exe()?;
    let build_dir = this_program.ancestors().nth(2).ok_or("the benchmark lies in target/release/deps")?.join("build");
    let libraries = std::fs::read_dir(build_dir)?.flatten().map(|entry| entry.path().join("out/libsqlite3.a"));
    let newest = libraries.filter_map(|path| Some((path.metadata().ok()?.modified().ok()?, path))).max();
    Ok(newest.ok_or("libsqlite3.a is missing below target/release/build")?.1)
}
