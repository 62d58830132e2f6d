//! Factors that change the machine, through the real binary: each takes effect, and is undone however the run ends.

use crate::common::gate::{BackgroundRun, Gate, When};
use crate::common::kernel::has_programs;
use crate::common::{Sandbox, runs_as_root};
use rustix::process::Signal;
use std::path::{Path, PathBuf};

/// Flags that change the conditions around a filesystem.
const CONDITIONS: [&str; 10] = [
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

/// A run that has stopped before its agent mounts, with all of [`CONDITIONS`] in force.
struct StoppedRun {
    run: BackgroundRun,
    gate: Gate,
    agent: i32,
    device: String,
}

impl StoppedRun {
    fn start(sandbox: &Sandbox) -> StoppedRun {
        let mut gate = Gate::new(sandbox, When::Before, "mount", "*mnt/test*", 0);
        let args = ["run", "plan.toml", "--fs", "ext2"].iter().chain(&CONDITIONS).copied().collect::<Vec<_>>();
        let mut run = BackgroundRun::start(sandbox, sandbox.fsarena(&args));
        let agent = gate.wait_until_stopped(&mut run);
        let device = loop_device_of(&sandbox.run_file("images/test.img").unwrap());
        StoppedRun { run, gate, agent, device }
    }

    /// Asserts that the kernel shows the conditions.
    fn assert_in_force(&self) {
        let scheduler = read(format!("/sys/block/{}/queue/scheduler", self.device));
        assert!(scheduler.contains("[bfq]"), "{scheduler}");
        let groups = read(format!("/proc/{}/cgroup", self.agent));
        assert!(groups.contains("/fsarena-"), "{groups}");
        let status = read(format!("/proc/{}/status", self.agent));
        assert!(status.contains("Cpus_allowed_list:\t0\n"), "{status}");
        assert!(!throttle_limits(&self.device).is_empty());
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
fn loop_device_of(image: &Path) -> String {
    let has_image =
        |name: &String| read(format!("/sys/block/{name}/loop/backing_file")).trim() == image.to_str().unwrap();
    let entries = std::fs::read_dir("/sys/block").unwrap().flatten();
    entries.map(|entry| entry.file_name().into_string().unwrap()).find(has_image).unwrap()
}

/// The lines of the limits of a device, in version 1 or 2 of control groups.
fn throttle_limits(device: &str) -> Vec<String> {
    let numbers = read(format!("/sys/block/{device}/dev")).trim().to_string();
    let dir = Path::new("/sys/fs/cgroup/blkio");
    let lines = ["read_bps", "write_bps"].map(|file| read(dir.join(format!("blkio.throttle.{file}_device"))));
    let is_of_device = |line: &&str| line.split_whitespace().next() == Some(numbers.as_str());
    let mut limit_lines: Vec<String> =
        lines.iter().flat_map(|text| text.lines().filter(is_of_device)).map(String::from).collect();
    if !dir.exists() {
        let limits = fsarena_groups().into_iter().map(|group| read(group.join("io.max")));
        limit_lines
            .extend(limits.flat_map(|text| text.lines().filter(is_of_device).map(String::from).collect::<Vec<_>>()));
    }
    limit_lines
}

/// The control groups of all processes of fsarena.
fn fsarena_groups() -> Vec<PathBuf> {
    fn add_groups_below(dir: &Path, depth: u32, groups: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
            let path = entry.path();
            if entry.file_name().to_string_lossy().starts_with("fsarena-") {
                groups.push(path);
            } else if depth > 0 && path.is_dir() {
                add_groups_below(&path, depth - 1, groups);
            }
        }
    }
    let mut groups = vec![];
    add_groups_below(Path::new("/sys/fs/cgroup"), 5, &mut groups);
    groups
}

/// The control groups of one run, which have the process id of the run in their name.
fn groups_of(run: &BackgroundRun) -> Vec<PathBuf> {
    let name = format!("fsarena-{}-", run.child.id());
    let is_own = |group: &PathBuf| group.file_name().unwrap().to_string_lossy().starts_with(&name);
    fsarena_groups().into_iter().filter(is_own).collect()
}

#[test]
fn a_signal_undoes_the_conditions_of_a_cell() {
    if !runs_as_root() {
        return;
    }
    let sandbox = Sandbox::new();
    let mut stopped = StoppedRun::start(&sandbox);
    stopped.assert_in_force();
    stopped.run.signal(Signal::INT);
    stopped.gate.open();
    stopped.run.assert_ended_by(Signal::INT);
    assert_eq!((throttle_limits(&stopped.device), groups_of(&stopped.run)), (vec![], vec![]));
    sandbox.assert_clean();
}

#[test]
fn conditions_that_a_kill_leaves_are_recovered() {
    if !runs_as_root() {
        return;
    }
    let sandbox = Sandbox::new();
    let mut stopped = StoppedRun::start(&sandbox);
    stopped.run.signal(Signal::KILL);
    stopped.run.assert_ended_by(Signal::KILL);
    assert!(!throttle_limits(&stopped.device).is_empty() && !groups_of(&stopped.run).is_empty());
    let (stdout, stderr) = sandbox.expect(0, &["recover"]);
    let output = stdout + &stderr;
    assert!(output.contains("queue/scheduler\" back to none"), "{output}");
    assert_eq!((throttle_limits(&stopped.device), groups_of(&stopped.run)), (vec![], vec![]), "{output}");
    sandbox.assert_clean();
}

#[test]
fn a_scheduler_is_put_back_after_its_cell() {
    if !runs_as_root() {
        return;
    }
    let sandbox = Sandbox::new();
    // Two rounds, so that each variant follows the other one at least once.
    let mut gate = Gate::every_time(&sandbox, When::Before, "mkfs.ext2", "*/dev/loop*");
    let args = ["run", "plan.toml", "--fs", "ext2", "--factor", "scheduler=,kyber", "--rounds", "2"];
    let mut run = BackgroundRun::start(&sandbox, sandbox.fsarena(&args));
    let mut schedulers = String::new();
    for _ in 0..4 {
        gate.wait_until_stopped(&mut run);
        let device = loop_device_of(&sandbox.run_file("images/test.img").unwrap());
        schedulers += &read(format!("/sys/block/{device}/queue/scheduler"));
        gate.open();
    }
    assert!(run.wait_for_exit().success(), "{}", run.output());
    let counts = ["[none]", "[kyber]"].map(|word| schedulers.lines().filter(|line| line.contains(word)).count());
    assert_eq!(counts, [2, 2], "{schedulers}");
    sandbox.assert_clean();
}

#[test]
fn external_journals_are_on_separate_devices() {
    if !runs_as_root() || !has_programs(&["mkfs.xfs"]) {
        return;
    }
    let sandbox = Sandbox::new();
    let factor = "journal=external:64MiB";
    sandbox.expect(0, &["run", "plan.toml", "--fs", "ext4,xfs", "--factor", factor, "--size", "512MiB"]);
    let log = sandbox.run_text("command.log");
    for words in ["journal_dev", "device=/dev/loop", "logdev=/dev/loop"] {
        assert!(log.contains(words), "{words}: {log}");
    }
    let mut variants: Vec<String> = sandbox.rows("latest").into_iter().map(|(_, variant, _)| variant).collect();
    variants.dedup();
    assert_eq!(variants.len(), 2);
    sandbox.assert_clean();
}

#[test]
fn btrfs_stripes_over_two_devices() {
    if !runs_as_root() || !has_programs(&["mkfs.btrfs"]) {
        return;
    }
    let sandbox = Sandbox::new();
    sandbox.expect(0, &["run", "plan.toml", "--fs", "btrfs", "--factor", "raid=raid0"]);
    let log = sandbox.run_text("command.log");
    assert!(log.contains(r#""--data","raid0","--metadata","raid0""#), "{log}");
    // The options of mount name both devices.
    let device_count = log.matches("device=/dev/loop").count();
    assert!(device_count > 0 && device_count.is_multiple_of(2), "{log}");
    sandbox.assert_clean();
}

#[test]
fn zram_devices_are_removed_after_the_run() {
    let zram_devices = || {
        let entries = std::fs::read_dir("/sys/block").unwrap().flatten();
        let names = entries.map(|entry| entry.file_name().into_string().unwrap());
        names.filter(|name| name.starts_with("zram")).collect::<std::collections::BTreeSet<_>>()
    };
    if !runs_as_root() {
        return;
    }
    if !Path::new("/sys/class/zram-control").exists() {
        fsarena_sys::testkit::record_skip("no zram here");
        return;
    }
    let sandbox = Sandbox::new();
    let before = zram_devices();
    sandbox.expect(0, &["run", "plan.toml", "--fs", "ext2", "--factor", "device=zram"]);
    assert!(sandbox.run_text("command.log").contains("/dev/zram"));
    assert_eq!(zram_devices(), before);
    sandbox.assert_clean();
}

#[test]
fn unsupported_levels_are_refused_before_anything_is_made() {
    if !runs_as_root() {
        return;
    }
    let sandbox = Sandbox::new();
    for (code, fs, factor, words) in [
        (6, "ext4", "scheduler=cfq", "the device has only none"),
        (2, "ext4", "scheduler=C F Q", "invalid I/O scheduler"),
        (2, "ext4", "journal=external:1MiB", "too small for ext4: it needs 8.0 MiB"),
        (2, "ext2", "journal=external", "journal=external"),
        (2, "ext4", "limit=fast", "invalid limit"),
        (2, "ext4", "memory=1MiB", "is too little"),
        (6, "ext4", "cpus=8000", "there is no CPU 8000"),
        (2, "ext4", "clients=4", "has neither clients nor threads"),
        (6, "ext4", "raid=raid0", "ext4 has no RAID of its own"),
        (2, "ext4", "raid=raid9", "invalid RAID level"),
        (2, "ext4", "speed=9", "Unknown factor `speed`. Did you mean `cpu_speed`? Available: fs, options"),
    ] {
        let (_, stderr) = sandbox.expect(code, &["run", "plan.toml", "--fs", fs, "--factor", factor]);
        assert!(stderr.contains(words), "{factor}: {stderr}");
    }
    assert!(!sandbox.runs_dir().exists(), "nothing was made");
}

/// A plan of a load that takes a moment, whose number of threads can be set.
const LOAD_PLAN: &str = "\nname = \"load\"\nscale = \"tiny\"\n[factors]\nfs = [\"ext2\"]\n[stop]\nrounds = 1\n[idle]\n\
    timeout = \"20ms\"\ndirty = \"1GiB\"\nio_pressure_percent = 100.0\n[[workload]]\nuse = \"fileio\"\n\
    modes = [\"rndrd\"]\nbs = [4096]\nthreads = [8]\ntotal_bytes = 4194304\nseconds = 0.05\n";

#[test]
fn clients_are_variants_of_one_task_and_make_a_curve() {
    if !runs_as_root() {
        return;
    }
    let sandbox = Sandbox::new();
    std::fs::write(sandbox.dir.join("load.toml"), LOAD_PLAN).unwrap();
    sandbox.expect(0, &["run", "load.toml", "--factor", "clients=1,2,4"]);
    let tasks: std::collections::BTreeSet<String> =
        sandbox.rows("latest").into_iter().map(|(_, _, task)| task).filter(|task| task.starts_with("rndrd")).collect();
    assert_eq!(tasks.len(), 1, "{tasks:?}");
    let (json, _) = sandbox.expect(0, &["analyse", "latest", "--format", "json"]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let points = json["series"][0]["points"].as_array().unwrap();
    let clients: Vec<f64> = points.iter().map(|point| point["clients"].as_f64().unwrap()).collect();
    assert_eq!(clients, [1.0, 2.0, 4.0]);
    sandbox.assert_clean();
}

/// Flags that run the workload `sqlite` with few operations instead of the workload of the plan.
const SQLITE_RUN_ARGS: [&str; 8] =
    ["run", "plan.toml", "--workload", "sqlite", "--set", "operations=5", "--set", "rows=50"];

#[test]
fn a_setting_of_the_workload_makes_variants_of_one_task() {
    if !runs_as_root() {
        return;
    }
    let sandbox = Sandbox::new();
    let args_with_level =
        |level: &'static str| SQLITE_RUN_ARGS.into_iter().chain(["--factor", level]).collect::<Vec<_>>();
    sandbox.expect(0, &args_with_level("set.journal=wal,delete"));
    let (variants, tasks): (std::collections::BTreeSet<String>, std::collections::BTreeSet<String>) =
        sandbox.rows("latest").into_iter().map(|(_, variant, task)| (variant, task)).unzip();
    assert_eq!(variants, ["delete", "wal"].map(String::from).into());
    let updates: Vec<&String> = tasks.iter().filter(|task| task.contains("update")).collect();
    assert!(updates.len() == 1 && !updates[0].contains("journal"), "{tasks:?}");
    for (level, words) in [
        ("set.journal=wall", "`journal` accepts some of wal, delete"),
        ("set.jurnal=wal", "Did you mean `journal`?"),
        ("set.journal=,wal", "`journal` is a list"),
        ("set.rows=many", "`rows` accepts a whole number"),
    ] {
        let (_, stderr) = sandbox.expect(2, &args_with_level(level));
        assert!(stderr.contains(words), "{level}: {stderr}");
    }
    sandbox.assert_clean();
}

#[test]
fn a_curve_of_a_csv_file_is_described_in_sentences() {
    let sandbox = Sandbox::new();
    let rows: String = [(1, 100.0), (2, 190.0), (4, 330.0), (8, 420.0), (16, 400.0), (32, 250.0), (64, 140.0)]
        .iter()
        .map(|(clients, throughput)| format!("xfs,{clients},{throughput}\n"))
        .collect();
    std::fs::write(sandbox.dir.join("curve.csv"), format!("fs,clients,throughput_mb_s\n{rows}")).unwrap();
    let (text, _) = sandbox.expect(0, &["analyse", "curve.csv"]);
    for words in ["universal scalability law", "It saturates at 8 clients", "It peaks at 8 clients with 420"] {
        assert!(text.contains(words), "{words}: {text}");
    }
    std::fs::write(sandbox.dir.join("curve.csv"), "clients,throughput\n1,2\n2,fast\n").unwrap();
    let (_, stderr) = sandbox.expect(2, &["analyse", "curve.csv"]);
    assert!(stderr.contains("curve.csv, line 3: the throughput `fast` is not a number"), "{stderr}");
}

#[test]
fn a_filesystem_is_full_to_its_level_when_the_work_begins() {
    if !runs_as_root() {
        return;
    }
    let sandbox = Sandbox::new();
    let is_half_full = "test $(df --output=pcent . | tail -1 | tr -d ' %') -ge 49 && head -c 9999 /dev/zero > file";
    let run = ["run", "--on", "ram", "--fs", "ext4", "--rounds", "1", "--cmd", is_half_full];
    let (printed, _) = sandbox.expect(0, &[&run[..], &["--factor", "fill=50%"]].concat());
    assert!(!printed.contains("aged or full"), "{printed}");
    let report: serde_json::Value = serde_json::from_str(&sandbox.run_text("report.json")).unwrap();
    let layout = |task: &str, metric: &str| {
        let rows = report["layout"].as_array().unwrap();
        let row = rows.iter().find(|row| row["task"]["name"] == task && row["metric"] == metric);
        row.and_then(|row| row["variants"][0]["median"].as_f64())
    };
    // The files that fill the space do not count.
    assert_eq!(layout("layout_before", "layout_score_ratio"), None);
    assert_eq!(layout("layout_after", "layout_score_ratio"), Some(1.0));
    assert!(layout("layout_before", "largest_free_extent_bytes") > Some(1e6), "{}", report["layout"]);
    sandbox.expect(4, &run);
    let (_, stderr) = sandbox.expect(2, &[&run[..], &["--factor", "fill=99%"]].concat());
    assert!(stderr.contains("from 0% to 95%"), "{stderr}");
    sandbox.assert_clean();
}
