//! SIGKILL at random instants of native runs, guest runs and watches: `recover` leaves nothing, finished cells stay, at most
//! one is lost, and the run is completed.
//!
//! `make kill` kills 300 times, the whole suite 3 times (`FSARENA_KILLS`). A failure names the seed that repeats it, if the timing
//! is the same: `FSARENA_SEED=7 FSARENA_KILLS=1`.

use crate::common::kernel::{find_debian_kernel, has_programs};
use crate::common::{Sandbox, runs_as_root, text};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};
use std::{collections::BTreeMap, fs::File, os::unix::process::ExitStatusExt, process::Stdio};

/// Number of runs at the same time. They wait for disks most of the time.
const PARALLEL_RUNS: u64 = 8;

/// A kind of run to kill, with the arguments that begin and resume it.
struct RunKind {
    name: &'static str,
    begin: Vec<&'static str>,
    resume: Vec<&'static str>,
    /// The number of cells of a complete run.
    cell_count: usize,
    /// The number of cells that resuming adds; None if it completes the run.
    cells_added_by_resume: Option<usize>,
}

/// The kinds of runs that this machine can do.
fn run_kinds() -> Vec<RunKind> {
    let run_kind = |name, filesystems, flags: &[&'static str]| {
        let plan = ["run", "plan.toml", "--fs", filesystems, "--rounds", "2"];
        let resume = vec!["run", "--resume", "latest"];
        RunKind { name, begin: [&plan[..], flags].concat(), resume, cell_count: 4, cells_added_by_resume: None }
    };
    let windows =
        ["watch", "--path", ".", "--window", "50ms", "--every", "25ms", "--windows", "20", "--format", "json"];
    let resume = vec!["watch", "--resume", "latest", "--windows", "3", "--format", "json"];
    let mut kinds = vec![
        run_kind("loop images", "ext2,ext4", &[]),
        run_kind(
            "conditions",
            "ext2,ext4",
            &["--factor", "memory=256MiB", "--factor", "cpus=0", "--factor", "limit=200MB/s"],
        ),
        run_kind("journals on other devices", "ext3,ext4", &["--factor", "journal=external"]),
        run_kind("commands", "ext2,ext4", &["--set", "driver=commands"]),
        RunKind { name: "watch", begin: windows.to_vec(), resume, cell_count: 20, cells_added_by_resume: Some(3) },
    ];
    // Guests boot slowly without KVM, so they run only if the number of kills is set.
    if std::env::var_os("FSARENA_KILLS").is_some()
        && has_programs(&["qemu-system-x86_64"])
        && find_debian_kernel("6.1", "-cloud-amd64").is_some()
    {
        kinds.push(run_kind("guests", "ext2,ext4", &["--on", "qemu", "--kernel", "debian:6.1-cloud"]));
    }
    kinds
}

#[test]
fn a_kill_at_any_instant_leaves_nothing_and_loses_one_cell_at_most() {
    if !runs_as_root() {
        return;
    }
    let number_variable = |name, default| std::env::var(name).map_or(default, |text| text.parse().unwrap());
    let kills: u64 = number_variable("FSARENA_KILLS", 3);
    let seed: u64 = number_variable("FSARENA_SEED", u64::from(std::process::id()) << 32);
    println!("FSARENA_SEED={seed} FSARENA_KILLS={kills}");
    let kinds = run_kinds();
    let durations: Vec<OnceLock<Duration>> = kinds.iter().map(|_| OnceLock::new()).collect();
    let (next, counts, failures) = (AtomicU64::new(0), Mutex::new(BTreeMap::new()), Mutex::new(vec![]));
    std::thread::scope(|scope| {
        for _ in 0..PARALLEL_RUNS {
            scope.spawn(|| {
                while let Some(number) = Some(next.fetch_add(1, Ordering::Relaxed)).filter(|number| *number < kills) {
                    let mixed = seed.wrapping_add(number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                    let kind_index = (seed.wrapping_add(number) % kinds.len() as u64) as usize;
                    // The kill comes at any time, from before the run begins until after it may have ended.
                    let duration = durations[kind_index].get_or_init(|| measure_duration(&kinds[kind_index]));
                    let after = duration.mul_f64((mixed >> 16) as f64 / (1u64 << 48) as f64 * 1.05);
                    let outcome = kill_and_resume(&kinds[kind_index], after, mixed & 1 == 0);
                    let mut counts = counts.lock().unwrap();
                    match outcome {
                        Ok(state) => *counts.entry((kinds[kind_index].name, state)).or_insert(0) += 1,
                        Err(why) => {
                            let name = kinds[kind_index].name;
                            println!("FAILED seed {}: {name} killed after {after:?}: {why}", seed.wrapping_add(number));
                            failures.lock().unwrap().push(seed.wrapping_add(number));
                        }
                    }
                }
            });
        }
    });
    for ((kind, state), count) in counts.into_inner().unwrap() {
        println!("{count:4} {kind}: {state}");
    }
    assert_eq!(failures.into_inner().unwrap(), [0; 0], "seeds");
}

/// Measures how long a complete run takes.
fn measure_duration(kind: &RunKind) -> Duration {
    let sandbox = Sandbox::new();
    let begun = Instant::now();
    let output = sandbox.output(&kind.begin);
    assert!(output.status.success(), "{}: {}", kind.name, text(&output.stderr));
    assert_eq!(stored_cells(&sandbox).len(), kind.cell_count, "{}", kind.name);
    begun.elapsed()
}

/// Kills a run after a time and resumes it; if `recover`, recovers before. Returns what the killed run had set up, in words.
///
/// # Errors
/// What was lost or left.
fn kill_and_resume(kind: &RunKind, after: Duration, recover: bool) -> Result<&'static str, String> {
    let sandbox = Sandbox::new();
    let mut command = sandbox.fsarena(&kind.begin);
    let stderr_file = sandbox.dir.join("stderr");
    let mut child = command.stdout(Stdio::null()).stderr(File::create(&stderr_file).unwrap()).spawn().unwrap();
    std::thread::sleep(after);
    let _ = child.kill();
    let status = child.wait().unwrap();
    if status.signal().is_none() && !status.success() {
        return Err(format!("ended by itself: {status}\n{}", std::fs::read_to_string(&stderr_file).unwrap()));
    }
    // A guest ends a moment later than fsarena, with its supervising process.
    let leftovers = leftovers_of(&sandbox, child.id());
    let (logged, before) = (logged_cells(&sandbox), stored_cells(&sandbox));
    if let Some(lost) = logged.finished.iter().find(|cell| !before.contains_key(*cell)) {
        return Err(format!("finished cell {lost} is not in the store: {before:?}"));
    }
    if before.len() + 1 < logged.begun_count {
        return Err(format!("{} cells begun, and only {} are in the store", logged.begun_count, before.len()));
    }
    if recover {
        run_fsarena(&sandbox, &["recover"])?;
        check_clean(&sandbox, child.id())?;
    }
    if !sandbox.run_file("run.db").is_some_and(|file| file.metadata().is_ok_and(|meta| meta.len() > 0)) {
        run_fsarena(&sandbox, &["recover"])?;
        return check_clean(&sandbox, child.id()).map(|()| "before there was a run");
    }
    let stderr = run_fsarena(&sandbox, &kind.resume)?;
    check_clean(&sandbox, child.id())?;
    let after = stored_cells(&sandbox);
    if let Some((lost, _)) = before.iter().find(|(cell, start)| after.get(*cell) != Some(start)) {
        return Err(format!("finished cell {lost} was lost or done again: {before:?} {after:?}"));
    }
    match after.len() == kind.cells_added_by_resume.map_or(kind.cell_count, |added| before.len() + added) {
        false => Err(format!("{} cells in the end\n{stderr}", after.len())),
        true if leftovers.is_empty() => Ok("with nothing set up"),
        true => Ok("with something set up"),
    }
}

/// Runs fsarena. Returns its standard error; if it fails, that is the error.
fn run_fsarena(sandbox: &Sandbox, args: &[&str]) -> Result<String, String> {
    let output = sandbox.output(args);
    match output.status.success() {
        true => Ok(text(&output.stderr)),
        false => Err(format!("{args:?}: {}\n{}", output.status, text(&output.stderr))),
    }
}

/// The start time of each stored cell, with its outcome, by its hash. Reads the database without fsarena.
fn stored_cells(sandbox: &Sandbox) -> BTreeMap<String, String> {
    let Some(file) = sandbox.run_file("run.db") else { return BTreeMap::new() };
    let db = rusqlite::Connection::open(file).unwrap();
    let read = || -> rusqlite::Result<BTreeMap<String, String>> {
        let mut rows = db.prepare("SELECT hash, started_at || outcome FROM cell")?;
        rows.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
    };
    // A run that was killed before it made its tables has no cells.
    read().unwrap_or_default()
}

/// The cells of a run, according to its event log.
struct LoggedCells {
    begun_count: usize,
    finished: Vec<String>,
}

fn logged_cells(sandbox: &Sandbox) -> LoggedCells {
    let text = sandbox.run_text("events.jsonl");
    let events = text.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let mut cells = LoggedCells { begun_count: 0, finished: vec![] };
    for event in events.map(|line| line["event"].clone()) {
        match event["run_event"].as_str() {
            Some("cell_started") => cells.begun_count += 1,
            Some("cell_finished") => cells.finished.push(event["cell"].as_str().unwrap().into()),
            _ => {}
        }
    }
    cells
}

/// What a run has left in a sandbox: also directories, control groups, and processes that hide their environment. `pid` is the
/// process of the run.
fn leftovers_of(sandbox: &Sandbox, pid: u32) -> Vec<String> {
    let mut left = sandbox.leftovers();
    let dirs = ["images", "mnt"].iter().filter_map(|name| sandbox.run_file(name));
    left.extend(dirs.map(|dir| format!("directory {dir:?}")));
    left.extend(control_groups(pid).map(|group| format!("control group {group:?}")));
    let names_sandbox = |pid: &PathBuf| {
        let words = std::fs::read(pid.join("cmdline")).unwrap_or_default();
        text(&words).contains(sandbox.dir.to_str().unwrap())
    };
    let processes = std::fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
    left.extend(
        processes
            .filter(|pid| Path::new(pid).join("cmdline").exists())
            .filter(names_sandbox)
            .map(|pid| format!("{pid:?}")),
    );
    left
}

/// The control groups that a process made (`fsarena-PID-STARTTIME`), in every hierarchy.
fn control_groups(pid: u32) -> impl Iterator<Item = PathBuf> {
    let is_of_process = move |name: &str| {
        name.strip_prefix(&format!("fsarena-{pid}")).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
    };
    let groups = walkdir::WalkDir::new("/sys/fs/cgroup").into_iter().flatten();
    groups.filter(move |group| group.file_name().to_str().is_some_and(is_of_process)).map(walkdir::DirEntry::into_path)
}

/// Returns an error with the leftovers, if there are any.
fn check_clean(sandbox: &Sandbox, pid: u32) -> Result<(), String> {
    match leftovers_of(sandbox, pid) {
        left if left.is_empty() => Ok(()),
        left => Err(format!("left: {left:#?}")),
    }
}
