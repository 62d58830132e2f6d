//! The axes of the machine through the real binary: each is brought about, and undone whatever ends the run.

use crate::common::gate::{Gate, Running, When};
use crate::common::kernel::has;
use crate::common::{Place, root};
use rustix::process::Signal;
use std::path::{Path, PathBuf};

/// Everything that is changed around a filesystem, and not made.
const AROUND: [&str; 10] = [
    "--factor",
    "scheduler=bfq",
    "--factor",
    "limit=50MB/s",
    "--factor",
    "memory=64MiB",
    "--factor",
    "cpus=0",
    "--factor",
    "cpu_speed=50%",
];

/// A run whose agent is about to mount, with all of [`AROUND`] in force.
struct Held {
    run: Running,
    gate: Gate,
    agent: i32,
    device: String,
}

impl Held {
    fn start(place: &Place) -> Held {
        let mut gate = Gate::new(place, When::Before, "mount", "*mnt/test*", 0);
        let args = ["run", "plan.toml", "--fs", "ext2"].iter().chain(&AROUND).copied().collect::<Vec<_>>();
        let mut run = Running::start(place, place.fsarena(&args));
        let agent = gate.wait(&mut run);
        let device = carrying(&place.run_file("images/test.img").unwrap());
        Held { run, gate, agent, device }
    }

    /// The levels as the kernel shows them.
    fn assert_in_force(&self) {
        let scheduler = read(format!("/sys/block/{}/queue/scheduler", self.device));
        assert!(scheduler.contains("[bfq]"), "{scheduler}");
        let groups = read(format!("/proc/{}/cgroup", self.agent));
        assert!(groups.contains("/fsarena-"), "{groups}");
        let status = read(format!("/proc/{}/status", self.agent));
        assert!(status.contains("Cpus_allowed_list:\t0\n"), "{status}");
        assert!(!throttled(&self.device).is_empty());
        assert!(!groups_of(&self.run).is_empty());
        if !Path::new("/sys/devices/system/cpu/cpu0/cpufreq").exists() {
            // Half of one CPU in each period of 10 ms.
            let quota = |group: &PathBuf| read(group.join("cpu.cfs_quota_us")) + &read(group.join("cpu.max"));
            let quota: String = groups_of(&self.run).iter().map(quota).collect();
            assert!(quota.contains("5000"), "{quota:?}");
        }
    }
}

fn read(path: impl AsRef<Path>) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

/// The kernel's name of the loop device of an image.
fn carrying(image: &Path) -> String {
    let is_it = |name: &String| read(format!("/sys/block/{name}/loop/backing_file")).trim() == image.to_str().unwrap();
    let entries = std::fs::read_dir("/sys/block").unwrap().flatten();
    entries.map(|entry| entry.file_name().into_string().unwrap()).find(is_it).unwrap()
}

/// The limits of a device: a line each, in version 2 of control groups in the group of its run.
fn throttled(device: &str) -> Vec<String> {
    let numbers = read(format!("/sys/block/{device}/dev")).trim().to_string();
    let dir = Path::new("/sys/fs/cgroup/blkio");
    let lines = ["read_bps", "write_bps"].map(|file| read(dir.join(format!("blkio.throttle.{file}_device"))));
    let own = |line: &&str| line.split_whitespace().next() == Some(numbers.as_str());
    let mut found: Vec<String> = lines.iter().flat_map(|text| text.lines().filter(own)).map(String::from).collect();
    if !dir.exists() {
        let limits = groups().into_iter().map(|group| read(group.join("io.max")));
        found.extend(limits.flat_map(|text| text.lines().filter(own).map(String::from).collect::<Vec<_>>()));
    }
    found
}

/// Every group of some fsarena.
fn groups() -> Vec<PathBuf> {
    fn below(dir: &Path, depth: u32, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
            let path = entry.path();
            if entry.file_name().to_string_lossy().starts_with("fsarena-") {
                found.push(path);
            } else if depth > 0 && path.is_dir() {
                below(&path, depth - 1, found);
            }
        }
    }
    let mut found = vec![];
    below(Path::new("/sys/fs/cgroup"), 5, &mut found);
    found
}

/// Those of one run, by the process that made them.
fn groups_of(run: &Running) -> Vec<PathBuf> {
    let name = format!("fsarena-{}-", run.child.id());
    let is_own = |group: &PathBuf| group.file_name().unwrap().to_string_lossy().starts_with(&name);
    groups().into_iter().filter(is_own).collect()
}

#[test]
fn a_signal_undoes_the_conditions_of_a_cell() {
    if !root() {
        return;
    }
    let place = Place::new();
    let mut held = Held::start(&place);
    held.assert_in_force();
    held.run.signal(Signal::INT);
    held.gate.open();
    held.run.ended_by(Signal::INT);
    assert_eq!((throttled(&held.device), groups_of(&held.run)), (vec![], vec![]));
    place.assert_clean();
}

#[test]
fn conditions_that_a_kill_leaves_are_recovered() {
    if !root() {
        return;
    }
    let place = Place::new();
    let mut held = Held::start(&place);
    held.run.signal(Signal::KILL);
    held.run.ended_by(Signal::KILL);
    assert!(!throttled(&held.device).is_empty() && !groups_of(&held.run).is_empty());
    let (said, more) = place.expect(0, &["recover"]);
    let said = said + &more;
    assert!(said.contains("queue/scheduler\" back to none"), "{said}");
    assert_eq!((throttled(&held.device), groups_of(&held.run)), (vec![], vec![]), "{said}");
    place.assert_clean();
}

#[test]
fn a_scheduler_is_put_back_after_its_cell() {
    if !root() {
        return;
    }
    let place = Place::new();
    // Whichever variant comes first, in the second round each has come after the other.
    let mut gate = Gate::every_time(&place, When::Before, "mkfs.ext2", "*/dev/loop*");
    let args = ["run", "plan.toml", "--fs", "ext2", "--factor", "scheduler=,kyber", "--rounds", "2"];
    let mut run = Running::start(&place, place.fsarena(&args));
    let mut seen = String::new();
    for _ in 0..4 {
        gate.wait(&mut run);
        let device = carrying(&place.run_file("images/test.img").unwrap());
        seen += &read(format!("/sys/block/{device}/queue/scheduler"));
        gate.open();
    }
    assert!(run.ended().success(), "{}", run.said());
    let counts = ["[none]", "[kyber]"].map(|word| seen.lines().filter(|line| line.contains(word)).count());
    assert_eq!(counts, [2, 2], "{seen}");
    place.assert_clean();
}

#[test]
fn journals_on_devices_of_their_own() {
    if !root() || !has(&["mkfs.xfs"]) {
        return;
    }
    let place = Place::new();
    let factor = "journal=external:64MiB";
    place.expect(0, &["run", "plan.toml", "--fs", "ext4,xfs", "--factor", factor, "--size", "512MiB"]);
    let log = place.run_text("command.log");
    for words in ["journal_dev", "device=/dev/loop", "logdev=/dev/loop"] {
        assert!(log.contains(words), "{words}: {log}");
    }
    let mut variants: Vec<String> = place.rows("latest").into_iter().map(|(_, variant, _)| variant).collect();
    variants.dedup();
    assert_eq!(variants.len(), 2);
    place.assert_clean();
}

#[test]
fn btrfs_over_two_devices() {
    if !root() || !has(&["mkfs.btrfs"]) {
        return;
    }
    let place = Place::new();
    place.expect(0, &["run", "plan.toml", "--fs", "btrfs", "--factor", "raid=raid0"]);
    let log = place.run_text("command.log");
    assert!(log.contains(r#""--data","raid0","--metadata","raid0""#), "{log}");
    // Each of the two is named to mount.
    let named = log.matches("device=/dev/loop").count();
    assert!(named > 0 && named.is_multiple_of(2), "{log}");
    place.assert_clean();
}

#[test]
fn zram_devices_come_and_go() {
    let zrams = || {
        let entries = std::fs::read_dir("/sys/block").unwrap().flatten();
        let names = entries.map(|entry| entry.file_name().into_string().unwrap());
        names.filter(|name| name.starts_with("zram")).collect::<std::collections::BTreeSet<_>>()
    };
    if !root() {
        return;
    }
    if !Path::new("/sys/class/zram-control").exists() {
        fsarena_sys::testkit::skipped("no zram here");
        return;
    }
    let place = Place::new();
    let before = zrams();
    place.expect(0, &["run", "plan.toml", "--fs", "ext2", "--factor", "device=zram"]);
    assert!(place.run_text("command.log").contains("/dev/zram"));
    assert_eq!(zrams(), before);
    place.assert_clean();
}

#[test]
fn unsupported_levels_are_refused_before_anything_is_made() {
    if !root() {
        return;
    }
    let place = Place::new();
    for (code, fs, factor, words) in [
        (6, "ext4", "scheduler=cfq", "the device has only none"),
        (2, "ext4", "scheduler=C F Q", "invalid I/O scheduler"),
        (2, "ext4", "journal=external:1MiB", "too small for ext4: it needs 8.0 MiB"),
        (2, "ext2", "journal=external", "journal=external"),
        (2, "ext4", "limit=fast", "invalid limit"),
        (2, "ext4", "memory=1MiB", "is too little"),
        (6, "ext4", "cpus=8000", "there is no CPU 8000"),
        (2, "ext4", "clients=4", "has neither clients nor threads"),
        (6, "ext4", "raid=raid0", "ext4 stripes nothing by itself"),
        (2, "ext4", "raid=raid9", "invalid RAID level"),
        (2, "ext4", "speed=9", "Unknown factor `speed`. Did you mean `cpu_speed`? Available: fs, options"),
    ] {
        let (_, said) = place.expect(code, &["run", "plan.toml", "--fs", fs, "--factor", factor]);
        assert!(said.contains(words), "{factor}: {said}");
    }
    assert!(!place.runs().exists(), "nothing was made");
}

/// A load whose threads may be set, over in a moment.
const LOAD: &str = "\nname = \"load\"\nscale = \"tiny\"\n[factors]\nfs = [\"ext2\"]\n[stop]\nrounds = 1\n[idle]\n\
    timeout = \"20ms\"\ndirty = \"1GiB\"\nio_pressure_percent = 100.0\n[[workload]]\nuse = \"fileio\"\n\
    modes = [\"rndrd\"]\nbs = [4096]\nthreads = [8]\ntotal_bytes = 4194304\nseconds = 0.05\n";

#[test]
fn clients_are_variants_of_one_task_and_make_a_curve() {
    if !root() {
        return;
    }
    let place = Place::new();
    std::fs::write(place.dir.join("load.toml"), LOAD).unwrap();
    place.expect(0, &["run", "load.toml", "--factor", "clients=1,2,4"]);
    let tasks: std::collections::BTreeSet<String> =
        place.rows("latest").into_iter().map(|(_, _, task)| task).filter(|task| task.starts_with("rndrd")).collect();
    assert_eq!(tasks.len(), 1, "{tasks:?}");
    let (json, _) = place.expect(0, &["analyse", "latest", "--format", "json"]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let points = json["series"][0]["points"].as_array().unwrap();
    let clients: Vec<f64> = points.iter().map(|point| point["clients"].as_f64().unwrap()).collect();
    assert_eq!(clients, [1.0, 2.0, 4.0]);
    place.assert_clean();
}

/// A workload with few operations, whatever the plan has.
const SQLITE: [&str; 8] = ["run", "plan.toml", "--workload", "sqlite", "--set", "operations=5", "--set", "rows=50"];

#[test]
fn a_setting_of_the_workload_makes_variants_of_one_task() {
    if !root() {
        return;
    }
    let place = Place::new();
    let with = |level: &'static str| SQLITE.into_iter().chain(["--factor", level]).collect::<Vec<_>>();
    place.expect(0, &with("set.journal=wal,delete"));
    let (variants, tasks): (std::collections::BTreeSet<String>, std::collections::BTreeSet<String>) =
        place.rows("latest").into_iter().map(|(_, variant, task)| (variant, task)).unzip();
    assert_eq!(variants, ["delete", "wal"].map(String::from).into());
    let updates: Vec<&String> = tasks.iter().filter(|task| task.contains("update")).collect();
    assert!(updates.len() == 1 && !updates[0].contains("journal"), "{tasks:?}");
    for (level, words) in [
        ("set.journal=wall", "`journal` accepts some of wal, delete"),
        ("set.jurnal=wal", "Did you mean `journal`?"),
        ("set.journal=,wal", "`journal` is a list"),
        ("set.rows=many", "`rows` accepts a whole number"),
    ] {
        let (_, said) = place.expect(2, &with(level));
        assert!(said.contains(words), "{level}: {said}");
    }
    place.assert_clean();
}

#[test]
fn a_curve_of_any_file_is_put_into_sentences() {
    let place = Place::new();
    let rows: String = [(1, 100.0), (2, 190.0), (4, 330.0), (8, 420.0), (16, 400.0), (32, 250.0), (64, 140.0)]
        .iter()
        .map(|(n, x)| format!("xfs,{n},{x}\n"))
        .collect();
    std::fs::write(place.dir.join("curve.csv"), format!("fs,clients,throughput_mb_s\n{rows}")).unwrap();
    let (text, _) = place.expect(0, &["analyse", "curve.csv"]);
    for words in ["universal scalability law", "It saturates at 8 clients", "It peaks at 8 clients with 420"] {
        assert!(text.contains(words), "{words}: {text}");
    }
    std::fs::write(place.dir.join("curve.csv"), "clients,throughput\n1,2\n2,fast\n").unwrap();
    let (_, said) = place.expect(2, &["analyse", "curve.csv"]);
    assert!(said.contains("curve.csv, line 3: the throughput `fast` is not a number"), "{said}");
}

#[test]
fn a_filesystem_is_full_to_its_level_when_the_work_begins() {
    if !root() {
        return;
    }
    let place = Place::new();
    let is_half_full = "test $(df --output=pcent . | tail -1 | tr -d ' %') -ge 49 && head -c 9999 /dev/zero > file";
    let plan = ["run", "--on", "ram", "--fs", "ext4", "--rounds", "1", "--cmd", is_half_full];
    let (printed, _) = place.expect(0, &[&plan[..], &["--factor", "fill=50%"]].concat());
    assert!(!printed.contains("aged or full"), "{printed}");
    let report: serde_json::Value = serde_json::from_str(&place.run_text("report.json")).unwrap();
    let layout = |task: &str, metric: &str| {
        let all = report["layout"].as_array().unwrap();
        let found = all.iter().find(|one| one["task"]["name"] == task && one["metric"] == metric);
        found.and_then(|one| one["variants"][0]["median"].as_f64())
    };
    // The files that fill the space have no part in it.
    assert_eq!(layout("layout_before", "layout_score_ratio"), None);
    assert_eq!(layout("layout_after", "layout_score_ratio"), Some(1.0));
    assert!(layout("layout_before", "largest_free_extent_bytes") > Some(1e6), "{}", report["layout"]);
    place.expect(4, &plan);
    let (_, said) = place.expect(2, &[&plan[..], &["--factor", "fill=99%"]].concat());
    assert!(said.contains("from 0% to 95%"), "{said}");
    place.assert_clean();
}
