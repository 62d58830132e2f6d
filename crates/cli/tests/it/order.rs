//! The order of the commands of a run, as strace records them.

use crate::common::{Sandbox, runs_as_root};
use serde_json::Value;

/// Two variants that share no program with the source disk, which is ext4. There is no idle wait.
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

/// The documented order of the tasks: the program, the end of one of its arguments, and how often it runs at scale tiny.
/// docs/reference/coreutils.md has the same list.
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

fn make_sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    std::fs::write(sandbox.dir.join("plan.toml"), PLAN).unwrap();
    sandbox
}

/// Runs fsarena under strace. Returns the commands of [`PROGRAMS`] that it started, in their order.
///
/// A shim could not record them: mkfs may write to its device only.
fn trace_commands(sandbox: &Sandbox, args: &[&str]) -> Vec<Argv> {
    let trace = sandbox.dir.join("trace");
    let options = ["strace", "-f", "-z", "-qq", "-s", "65536", "-e", "trace=execve", "-o"];
    let strace = [&options[..], &[trace.to_str().unwrap()]].concat();
    let output = sandbox.fsarena_under(&strace, args).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = std::fs::read_to_string(trace).unwrap();
    // 123 execve("/usr/bin/touch", ["touch", "f0"], 0x7ffd /* 5 vars */) = 0
    let commands = text.lines().filter_map(|line| {
        let words = &line[line.find(", [")? + 2..=line.rfind("], ")?];
        serde_json::from_str::<Argv>(words).ok()
    });
    commands.filter(|argv| PROGRAMS.contains(&argv[0].as_str())).collect()
}

fn asks_for_version(argv: &Argv) -> bool {
    matches!(argv.get(1).map(String::as_str), Some("--version" | "-V"))
}

/// The commands of a run, from the first to the last.
struct Commands(std::vec::IntoIter<Argv>);

impl Commands {
    /// Takes the next command. Asserts that it is this program, and has a word with each of these ends.
    #[track_caller]
    fn expect_next(&mut self, program: &str, ends: &[&str]) -> Argv {
        let argv = self.0.next().unwrap_or_else(|| panic!("no {program} {ends:?}: nothing more was run"));
        let has_word = |end: &&str| argv.iter().any(|word| word.ends_with(*end));
        assert!(argv[0] == program && ends.iter().all(has_word), "{argv:?} instead of {program} {ends:?}");
        argv
    }
}

#[test]
fn each_round_makes_mounts_measures_and_unmounts_each_variant_once() {
    if !runs_as_root() || !fsarena_sys::testkit::has_program("strace") {
        return;
    }
    let sandbox = make_sandbox();
    let commands = trace_commands(&sandbox, &["run", "plan.toml"]);
    sandbox.assert_clean();
    let commands: Vec<Argv> = commands.into_iter().filter(|argv| !asks_for_version(argv)).collect();
    let mut commands = Commands(commands.into_iter());

    // The source disk is made once, at the beginning.
    commands.expect_next("losetup", &["--find", "/other.img"]);
    let source_device = commands.expect_next("mkfs.ext4", &["-F"]).pop().unwrap();
    commands.expect_next("mount", &["ext4", &source_device, "/mnt/other"]);
    commands.expect_next("losetup", &["--find", "/test.img"]);

    let mut first_device = None;
    for (round, variant) in order_of_cells(&sandbox) {
        let device = commands.expect_next(&format!("mkfs.{variant}"), &["-F"]).pop().unwrap();
        // One device for all variants, and not that of the source disk.
        assert_eq!(*first_device.get_or_insert(device.clone()), device, "round {round}");
        assert_ne!(device, source_device);
        commands.expect_next("mount", &[&variant, &device, "/mnt/test"]);
        for (program, end, times) in TASKS {
            commands.expect_next(program, &[end]);
            for _ in 1..times {
                commands.expect_next(program, &[]);
            }
        }
        commands.expect_next("umount", &["/mnt/test"]);
    }
    commands.expect_next("umount", &["/mnt/other"]);
    commands.expect_next("losetup", &["--detach", &source_device]);
    commands.expect_next("losetup", &["--detach", &first_device.unwrap()]);
    assert_eq!(commands.0.next(), None);
}

/// The round and the variant of every cell, in the stored order. Asserts that the order of the variants changes.
fn order_of_cells(sandbox: &Sandbox) -> Vec<(u64, String)> {
    let (json, _) = sandbox.expect(0, &["report", "--format", "json"]);
    let report: Value = serde_json::from_str(&json).unwrap();
    let mut cells: Vec<_> = report["cells"].as_array().unwrap().iter().collect();
    cells.sort_by_key(|cell| (cell["round"].as_u64(), cell["position"].as_u64()));
    let variant = |cell: &Value| report["variants"][cell["variant"].as_u64().unwrap() as usize]["name"].clone();
    let order: Vec<(u64, String)> = cells
        .iter()
        .map(|cell| (cell["round"].as_u64().unwrap(), variant(cell).as_str().unwrap().to_string()))
        .collect();
    assert_eq!(order.len(), 6, "{order:?}");
    let first_variants: Vec<&str> = order.iter().step_by(2).map(|(_, variant)| variant.as_str()).collect();
    assert!(first_variants.contains(&"ext2") && first_variants.contains(&"ext3"), "this seed never changes the order");
    order
}

#[test]
fn the_command_log_has_exactly_the_traced_commands() {
    if !runs_as_root() || !fsarena_sys::testkit::has_program("strace") {
        return;
    }
    let sandbox = make_sandbox();
    let mut traced = trace_commands(&sandbox, &["run", "plan.toml", "--fs", "ext2", "--rounds", "1"]).into_iter();
    let run = std::fs::read_dir(sandbox.runs_dir()).unwrap().next().unwrap().unwrap().path();
    let log = std::fs::read_to_string(run.join("command.log")).unwrap();
    for line in log.lines() {
        let command = serde_json::from_str::<Value>(line).unwrap()["command"].take();
        let to_argv = |words: &Value| serde_json::from_value::<Argv>(words.clone()).unwrap();
        let argv = to_argv(&command["argv"]);
        if command["ended"] == "native" || !PROGRAMS.contains(&argv[0].as_str()) {
            continue;
        }
        assert_eq!(traced.next(), Some(argv.clone()), "{line}");
        let repetitions = command["times"].as_u64().unwrap() as usize - 1;
        let repeated: Vec<Argv> = traced.by_ref().take(repetitions).collect();
        assert_eq!(repeated.len(), repetitions, "{line}");
        assert!(repeated.iter().all(|repeated| repeated[0] == argv[0]), "{line}");
        if let Some(last) = repeated.last() {
            assert_eq!(*last, to_argv(&command["last"]), "{line}");
        }
        assert!(command["ended"] == "exit 0" || asks_for_version(&argv), "{line}");
    }
    assert_eq!(traced.next(), None);
}
