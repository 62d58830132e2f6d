//! The order of a run, seen from outside: strace notes every program that fsarena starts.

use crate::common::{Place, root};
use serde_json::Value;

/// Two variants that share no program with the source disk, which is ext4. Nothing waits for quiet.
const PLAN: &str = r#"
name = "order"
scale = "tiny"
seed = 5
[factors]
fs = ["ext2", "ext3"]
[device]
other_fs = "ext4"
[stop]
rounds = 3
[idle]
timeout = "1ms"
[[workload]]
use = "coreutils"
driver = "commands"
"#;

const PROGRAMS: [&str; 15] = [
    "losetup",
    "mkfs.ext2",
    "mkfs.ext3",
    "mkfs.ext4",
    "mount",
    "umount",
    "touch",
    "find",
    "rm",
    "mkdir",
    "cp",
    "tar",
    "split",
    "dd",
    "cat",
];

/// The documented order of the tasks: program, what tells it from its siblings, and how often it runs at
/// scale tiny. docs/reference/coreutils.md has the same list.
const TASKS: [(&str, &str, usize); 21] = [
    ("touch", "/files/f00000", 20),
    ("find", "/files", 1),
    ("rm", "/files", 1),
    ("mkdir", "/dirs/d00000", 20),
    ("find", "/dirs", 1),
    ("rm", "/dirs", 1),
    ("cp", "/test/work/tree.tar", 1),
    ("cp", "/tree-copied-out.tar", 1),
    ("tar", "xf", 1),
    ("tar", "cf", 1),
    ("cp", "-r", 1),
    ("rm", "/tree", 1),
    ("cp", "/copies/0", 10),
    ("dd", "bs=1M", 1),
    ("cp", "/big", 1),
    ("split", "1000", 1),
    ("split", "1024", 1),
    ("split", "2048", 1),
    ("split", "4096", 1),
    ("split", "8192", 1),
    ("cat", "/big", 1),
];

type Argv = Vec<String>;

fn place() -> Place {
    let place = Place::new();
    std::fs::write(place.dir.join("plan.toml"), PLAN).unwrap();
    place
}

/// Runs fsarena under strace. The commands that it started, those of [`PROGRAMS`], in their order.
///
/// A shim could not note them: mkfs may write to its device and to nothing else.
fn started(place: &Place, args: &[&str]) -> Vec<Argv> {
    let trace = place.dir.join("trace");
    let strace = ["strace", "-f", "-z", "-qq", "-s", "65536", "-e", "trace=execve", "-o"];
    let strace = [&strace[..], &[trace.to_str().unwrap()]].concat();
    let output = place.started_by(&strace, args).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = std::fs::read_to_string(trace).unwrap();
    // 123 execve("/usr/bin/touch", ["touch", "f0"], 0x7ffd /* 5 vars */) = 0
    let words = text.lines().filter_map(|line| {
        let words = &line[line.find(", [")? + 2..=line.rfind("], ")?];
        serde_json::from_str::<Argv>(words).ok()
    });
    words.filter(|argv| PROGRAMS.contains(&argv[0].as_str())).collect()
}

fn asks_for_version(argv: &Argv) -> bool {
    matches!(argv.get(1).map(String::as_str), Some("--version" | "-V"))
}

/// The commands of a run, to be taken off one by one.
struct Commands(std::vec::IntoIter<Argv>);

impl Commands {
    /// The next command is this program and has words that end so.
    #[track_caller]
    fn next(&mut self, program: &str, ends: &[&str]) -> Argv {
        let argv = self.0.next().unwrap_or_else(|| panic!("no {program} {ends:?}: nothing more was run"));
        let has = |end: &&str| argv.iter().any(|word| word.ends_with(*end));
        assert!(argv[0] == program && ends.iter().all(has), "{argv:?} instead of {program} {ends:?}");
        argv
    }
}

#[test]
fn each_variant_is_made_mounted_worked_on_and_unmounted_once_a_round() {
    if !root() || !fsarena_sys::testkit::program("strace") {
        return;
    }
    let place = place();
    let started = started(&place, &["run", "plan.toml"]);
    place.assert_clean();
    let seen: Vec<Argv> = started.into_iter().filter(|argv| !asks_for_version(argv)).collect();
    let mut commands = Commands(seen.into_iter());

    // The source disk is made once, before all.
    commands.next("losetup", &["--find", "/other.img"]);
    let other = commands.next("mkfs.ext4", &["-F"]).pop().unwrap();
    commands.next("mount", &["ext4", &other, "/mnt/other"]);
    commands.next("losetup", &["--find", "/test.img"]);

    let mut device = None;
    for (round, variant) in order(&place) {
        let made = commands.next(&format!("mkfs.{variant}"), &["-F"]).pop().unwrap();
        // One device for all variants, and not that of the source disk.
        assert_eq!(*device.get_or_insert(made.clone()), made, "round {round}");
        assert_ne!(made, other);
        commands.next("mount", &[&variant, &made, "/mnt/test"]);
        for (program, end, times) in TASKS {
            commands.next(program, &[end]);
            for _ in 1..times {
                commands.next(program, &[]);
            }
        }
        commands.next("umount", &["/mnt/test"]);
    }
    commands.next("umount", &["/mnt/other"]);
    commands.next("losetup", &["--detach", &other]);
    commands.next("losetup", &["--detach", &device.unwrap()]);
    assert_eq!(commands.0.next(), None);
}

/// Round and variant of every cell, in the order that the store has.
fn order(place: &Place) -> Vec<(u64, String)> {
    let (json, _) = place.expect(0, &["report", "--format", "json"]);
    let report: Value = serde_json::from_str(&json).unwrap();
    let mut cells: Vec<_> = report["cells"].as_array().unwrap().iter().collect();
    cells.sort_by_key(|cell| (cell["round"].as_u64(), cell["position"].as_u64()));
    let variant = |cell: &Value| report["variants"][cell["variant"].as_u64().unwrap() as usize]["name"].clone();
    let order: Vec<(u64, String)> = cells
        .iter()
        .map(|cell| (cell["round"].as_u64().unwrap(), variant(cell).as_str().unwrap().to_string()))
        .collect();
    assert_eq!(order.len(), 6, "{order:?}");
    let firsts: Vec<&str> = order.iter().step_by(2).map(|(_, variant)| variant.as_str()).collect();
    assert!(firsts.contains(&"ext2") && firsts.contains(&"ext3"), "this seed never changes the order");
    order
}

#[test]
fn the_command_log_has_exactly_what_was_run() {
    if !root() || !fsarena_sys::testkit::program("strace") {
        return;
    }
    let place = place();
    let mut seen = started(&place, &["run", "plan.toml", "--fs", "ext2", "--rounds", "1"]).into_iter();
    let run = std::fs::read_dir(place.runs()).unwrap().next().unwrap().unwrap().path();
    let log = std::fs::read_to_string(run.join("command.log")).unwrap();
    for line in log.lines() {
        let command = serde_json::from_str::<Value>(line).unwrap()["command"].take();
        let logged = |words: &Value| serde_json::from_value::<Argv>(words.clone()).unwrap();
        let argv = logged(&command["argv"]);
        if command["ended"] == "native" || !PROGRAMS.contains(&argv[0].as_str()) {
            continue;
        }
        assert_eq!(seen.next(), Some(argv.clone()), "{line}");
        let more = command["times"].as_u64().unwrap() as usize - 1;
        let alike: Vec<Argv> = seen.by_ref().take(more).collect();
        assert_eq!(alike.len(), more, "{line}");
        assert!(alike.iter().all(|other| other[0] == argv[0]), "{line}");
        if let Some(last) = alike.last() {
            assert_eq!(*last, logged(&command["last"]), "{line}");
        }
        assert!(command["ended"] == "exit 0" || asks_for_version(&argv), "{line}");
    }
    assert_eq!(seen.next(), None);
}
