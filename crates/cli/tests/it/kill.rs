//! SIGKILL at random instants of native runs, guest runs and watches: `recover` leaves nothing, finished cells stay, at most
//! one is lost, and the run is completed.
//!
//! `make kill` does it 300 times, the whole suite 3 times (`FSARENA_KILLS`). A failure names the seed that repeats it as
//! far as time does: `FSARENA_SEED=7 FSARENA_KILLS=1`.

use crate::common::kernel::{debian, has};
use crate::common::{Place, root, text};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};
use std::{collections::BTreeMap, fs::File, os::unix::process::ExitStatusExt, process::Stdio};

/// How many are killed at the same time: they wait for disks most of the time.
const AT_ONCE: u64 = 8;

/// Something to kill, with the arguments that begin and resume it.
struct Kind {
    name: &'static str,
    begin: Vec<&'static str>,
    resume: Vec<&'static str>,
    /// How many cells it has in the end.
    cells: usize,
    /// How many resuming adds to those that are there, if it does not complete them.
    adds: Option<usize>,
}

fn kinds() -> Vec<Kind> {
    let run = |name, filesystems, more: &[&'static str]| {
        let plan = ["run", "plan.toml", "--fs", filesystems, "--rounds", "2"];
        let resume = vec!["run", "--resume", "latest"];
        Kind { name, begin: [&plan[..], more].concat(), resume, cells: 4, adds: None }
    };
    let windows =
        ["watch", "--path", ".", "--window", "50ms", "--every", "25ms", "--windows", "20", "--format", "json"];
    let resume = vec!["watch", "--resume", "latest", "--windows", "3", "--format", "json"];
    let mut kinds = vec![
        run("loop images", "ext2,ext4", &[]),
        run(
            "conditions",
            "ext2,ext4",
            &["--factor", "memory=256MiB", "--factor", "cpus=0", "--factor", "limit=200MB/s"],
        ),
        run("journals on other devices", "ext3,ext4", &["--factor", "journal=external"]),
        run("commands", "ext2,ext4", &["--set", "driver=commands"]),
        Kind { name: "watch", begin: windows.to_vec(), resume, cells: 20, adds: Some(3) },
    ];
    // Kernels boot slowly under translation: only where kills are counted.
    if std::env::var_os("FSARENA_KILLS").is_some()
        && has(&["qemu-system-x86_64"])
        && debian("6.1", "-cloud-amd64").is_some()
    {
        kinds.push(run("guests", "ext2,ext4", &["--on", "qemu", "--kernel", "debian:6.1-cloud"]));
    }
    kinds
}

#[test]
fn a_kill_at_any_instant_leaves_nothing_and_loses_one_cell_at_most() {
    if !root() {
        return;
    }
    let number = |name, default| std::env::var(name).map_or(default, |text| text.parse().unwrap());
    let kills: u64 = number("FSARENA_KILLS", 3);
    let seed: u64 = number("FSARENA_SEED", u64::from(std::process::id()) << 32);
    println!("FSARENA_SEED={seed} FSARENA_KILLS={kills}");
    let kinds = kinds();
    let lasts: Vec<OnceLock<Duration>> = kinds.iter().map(|_| OnceLock::new()).collect();
    let (next, counts, failures) = (AtomicU64::new(0), Mutex::new(BTreeMap::new()), Mutex::new(vec![]));
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some(number) = Some(next.fetch_add(1, Ordering::Relaxed)).filter(|n| *n < kills) {
                    let mixed = seed.wrapping_add(number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                    let which = (seed.wrapping_add(number) % kinds.len() as u64) as usize;
                    // From before it has begun until it may have ended.
                    let last = lasts[which].get_or_init(|| undisturbed(&kinds[which]));
                    let after = last.mul_f64((mixed >> 16) as f64 / (1u64 << 48) as f64 * 1.05);
                    let outcome = killed(&kinds[which], after, mixed & 1 == 0);
                    let mut counts = counts.lock().unwrap();
                    match outcome {
                        Ok(left) => *counts.entry((kinds[which].name, left)).or_insert(0) += 1,
                        Err(why) => {
                            let name = kinds[which].name;
                            println!("FAILED seed {}: {name} killed after {after:?}: {why}", seed.wrapping_add(number));
                            failures.lock().unwrap().push(seed.wrapping_add(number));
                        }
                    }
                }
            });
        }
    });
    for ((kind, left), count) in counts.into_inner().unwrap() {
        println!("{count:4} {kind}: {left}");
    }
    assert_eq!(failures.into_inner().unwrap(), [0; 0], "seeds");
}

/// How long it takes.
fn undisturbed(kind: &Kind) -> Duration {
    let place = Place::new();
    let begun = Instant::now();
    let output = place.output(&kind.begin);
    assert!(output.status.success(), "{}: {}", kind.name, text(&output.stderr));
    assert_eq!(cells(&place).len(), kind.cells, "{}", kind.name);
    begun.elapsed()
}

/// Kills one, recovers it, or leaves that to resuming, and resumes it. In a word what it was killed in.
fn killed(kind: &Kind, after: Duration, recover: bool) -> Result<&'static str, String> {
    let place = Place::new();
    let mut command = place.fsarena(&kind.begin);
    let said = place.dir.join("said");
    let mut child = command.stdout(Stdio::null()).stderr(File::create(&said).unwrap()).spawn().unwrap();
    std::thread::sleep(after);
    let _ = child.kill();
    let ended = child.wait().unwrap();
    if ended.signal().is_none() && !ended.success() {
        return Err(format!("ended by itself: {ended}\n{}", std::fs::read_to_string(&said).unwrap()));
    }
    // A guest ends with the process that keeps it, which sees a moment later that fsarena is gone.
    let had = left(&place, child.id());
    let (told, before) = (told(&place), cells(&place));
    if let Some(lost) = told.finished.iter().find(|cell| !before.contains_key(*cell)) {
        return Err(format!("finished cell {lost} is not in the store: {before:?}"));
    }
    if before.len() + 1 < told.begun {
        return Err(format!("{} cells begun, and only {} are in the store", told.begun, before.len()));
    }
    if recover {
        does(&place, &["recover"])?;
        clean(&place, child.id())?;
    }
    if !place.run_file("run.db").is_some_and(|file| file.metadata().is_ok_and(|meta| meta.len() > 0)) {
        does(&place, &["recover"])?;
        return clean(&place, child.id()).map(|()| "before there was a run");
    }
    let resumed = does(&place, &kind.resume)?;
    clean(&place, child.id())?;
    let end = cells(&place);
    if let Some((lost, _)) = before.iter().find(|(cell, at)| end.get(*cell) != Some(at)) {
        return Err(format!("finished cell {lost} was lost or done again: {before:?} {end:?}"));
    }
    match end.len() == kind.adds.map_or(kind.cells, |more| before.len() + more) {
        false => Err(format!("{} cells in the end\n{resumed}", end.len())),
        true if had.is_empty() => Ok("with nothing set up"),
        true => Ok("with something set up"),
    }
}

/// What it said.
fn does(place: &Place, args: &[&str]) -> Result<String, String> {
    let output = place.output(args);
    match output.status.success() {
        true => Ok(text(&output.stderr)),
        false => Err(format!("{args:?}: {}\n{}", output.status, text(&output.stderr))),
    }
}

/// When each finished cell began, by its hash, from the database itself.
fn cells(place: &Place) -> BTreeMap<String, String> {
    let Some(file) = place.run_file("run.db") else { return BTreeMap::new() };
    let db = rusqlite::Connection::open(file).unwrap();
    let read = || -> rusqlite::Result<BTreeMap<String, String>> {
        let mut rows = db.prepare("SELECT hash, started_at || outcome FROM cell")?;
        rows.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
    };
    // One that was killed while it made its tables has none.
    read().unwrap_or_default()
}

/// How far it had come by its own words.
struct Told {
    begun: usize,
    finished: Vec<String>,
}

fn told(place: &Place) -> Told {
    let text = place.run_text("events.jsonl");
    let events = text.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let mut told = Told { begun: 0, finished: vec![] };
    for event in events.map(|line| line["event"].clone()) {
        match event["run_event"].as_str() {
            Some("cell_started") => told.begun += 1,
            Some("cell_finished") => told.finished.push(event["cell"].as_str().unwrap().into()),
            _ => {}
        }
    }
    told
}

/// All that is left of a place and a process: also directories, control groups, and processes that hide their environment.
fn left(place: &Place, pid: u32) -> Vec<String> {
    let mut left = place.left();
    let dirs = ["images", "mnt"].iter().filter_map(|name| place.run_file(name));
    left.extend(dirs.map(|dir| format!("directory {dir:?}")));
    left.extend(control_groups(pid).map(|group| format!("control group {group:?}")));
    let names = |pid: &PathBuf| {
        let words = std::fs::read(pid.join("cmdline")).unwrap_or_default();
        text(&words).contains(place.dir.to_str().unwrap())
    };
    let all = std::fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
    left.extend(all.filter(|pid| Path::new(pid).join("cmdline").exists()).filter(names).map(|pid| format!("{pid:?}")));
    left
}

/// The control groups that a process made (`fsarena-PID-STARTTIME`), in every hierarchy.
fn control_groups(pid: u32) -> impl Iterator<Item = PathBuf> {
    let is_its = move |name: &str| {
        name.strip_prefix(&format!("fsarena-{pid}")).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
    };
    let groups = walkdir::WalkDir::new("/sys/fs/cgroup").into_iter().flatten();
    groups.filter(move |group| group.file_name().to_str().is_some_and(is_its)).map(walkdir::DirEntry::into_path)
}

fn clean(place: &Place, pid: u32) -> Result<(), String> {
    match left(place, pid) {
        left if left.is_empty() => Ok(()),
        left => Err(format!("left: {left:#?}")),
    }
}
