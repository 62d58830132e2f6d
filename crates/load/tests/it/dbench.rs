//! Tests that the native player makes the system calls of the real dbench in each pass.

use fsarena_core::{scale::Scale, setting::Settings};
use fsarena_load::workload::{Job, Place};
use fsarena_load::workloads;
use std::{collections::BTreeMap, path::Path, process::Command};

/// Environment variables with the loadfile, the directory and the time for a child process of these tests.
const CHILD_LOADFILE: &str = "DBENCH_CHILD_LOADFILE";
const CHILD_DIR: &str = "DBENCH_CHILD_DIR";
const CHILD_SECONDS: &str = "DBENCH_CHILD_SECONDS";
/// Smallest number of passes, with which the calls of the loader and of the incomplete last pass hardly matter.
const MIN_PASSES: f64 = 50.0;

/// A loadfile with every operation, on existing and missing names. It has one rename, which counts the passes.
const LOAD: &str = "\
Mkdir \"\\clients\" NT_STATUS_OK
NTCreateX \"\\clients\\client1\" 0x1 0x2 1 NT_STATUS_OK
Close 1 NT_STATUS_OK
NTCreateX \"\\clients\\client1\\d\" 0x1 0x2 1 NT_STATUS_OK
Close 1 NT_STATUS_OK
Deltree \"\\clients\\client1\" NT_STATUS_OK
NTCreateX \"\\clients\\client1\\none\" 0x40 0x1 2 NT_STATUS_OBJECT_NAME_NOT_FOUND
QUERY_PATH_INFORMATION \"\\clients\\client1\\none\" 1004 NT_STATUS_OBJECT_NAME_NOT_FOUND
QUERY_PATH_INFORMATION \"\\nowhere\\none\" 1004 NT_STATUS_OBJECT_NAME_NOT_FOUND
FIND_FIRST \"\\clients\\client1\\none*\" 260 1366 0 NT_STATUS_NO_SUCH_FILE
NTCreateX \"\\clients\\client1\\a\" 0x40 0x2 2 NT_STATUS_OK
LockX 2 2147483538 1 NT_STATUS_OK
WriteX 2 9999 1 1 NT_STATUS_OK
WriteX 2 0 10000 10000 NT_STATUS_OK
UnlockX 2 2147483538 1 NT_STATUS_OK
ReadX 2 5000 4096 4096 NT_STATUS_OK
QUERY_FILE_INFORMATION 2 258 NT_STATUS_OK
SET_FILE_INFORMATION 2 1004 NT_STATUS_OK
QUERY_FS_INFORMATION 1 NT_STATUS_OK
Flush 2 NT_STATUS_OK
Close 2 NT_STATUS_OK
FIND_FIRST \"\\clients\\client1\\*\" 260 2 3 NT_STATUS_OK
FIND_FIRST \"\\clients\\client1\\a\" 260 1366 1 NT_STATUS_OK
Rename \"\\clients\\client1\\a\" \"\\clients\\client1\\B\" NT_STATUS_OK
NTCreateX \"\\clients\\client1\\b\" 0x40 0x1 3 NT_STATUS_OBJECT_NAME_NOT_FOUND
Mkdir \"\\clients\\client1\\e\" NT_STATUS_OK
Rmdir \"\\clients\\client1\\e\" NT_STATUS_OK
Unlink \"\\clients\\client1\\B\" 0x6 NT_STATUS_OK
";

/// Not a test: the work of a traced child. Does nothing without a load in its environment.
#[test]
fn child() {
    let [Ok(loadfile), Ok(dir), Ok(seconds)] = [CHILD_LOADFILE, CHILD_DIR, CHILD_SECONDS].map(std::env::var) else {
        return;
    };
    let dbench = workloads::find_workload("dbench").unwrap();
    let mut settings = Settings::defaults(dbench.def().settings);
    for (id, text) in
        [("loadfile", loadfile.as_str()), ("clients", "1"), ("seconds", seconds.as_str()), ("warm_up", "0")]
    {
        let def = dbench.def().settings.iter().find(|def| def.id == id).unwrap();
        settings.0.insert(id.to_string(), def.kind.parse(text).unwrap());
    }
    let job = Job { settings, scale: Scale::Tiny, seed: 5 };
    let place = Place { root: dir.clone().into(), source_dir: dir.into(), server_user: None };
    dbench.make_inputs(&job, &place).unwrap();
    for task in dbench.tasks(&job, &place).unwrap() {
        for action in task.preparation.into_iter().chain(task.work) {
            action.perform(&mut |_| {}).unwrap();
        }
    }
}

/// System calls in each pass by name, as `strace -c` counts them. Plays longer on a busy machine, until there are
/// enough passes.
fn calls_per_pass(table_path: &Path, make_command: impl Fn(&str) -> Command) -> BTreeMap<String, f64> {
    let mut attempts = ["4", "16", "64"].into_iter().map(|seconds| count_calls(&mut make_command(seconds), table_path));
    let calls = attempts.find(|calls| calls["rename"] > MIN_PASSES).expect("enough passes in 64 s");
    let passes = calls["rename"];
    calls.into_iter().map(|(name, count)| (name, count / passes)).collect()
}

/// Runs a command under `strace -c`, which writes its table to `table_path`, and returns the number of calls by name.
fn count_calls(command: &mut Command, table_path: &Path) -> BTreeMap<String, f64> {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    let text = std::fs::read_to_string(table_path).unwrap();
    // % time, seconds, usecs/call, calls, [errors], name
    let parse_row = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        Some((fields.last()?.to_string(), fields.get(3)?.parse::<f64>().ok()?))
    };
    text.lines().filter_map(parse_row).collect()
}

#[test]
fn system_calls_of_a_pass_are_those_of_the_real_dbench() {
    if !fsarena_sys::testkit::has_program("strace") || !fsarena_sys::testkit::has_program("dbench") {
        return;
    }
    // In memory, so that a slow disk does not reduce the number of passes.
    let temp_dir = tempfile::tempdir_in("/dev/shm").unwrap();
    let (table_path, loadfile) = (temp_dir.path().join("table"), temp_dir.path().join("load.txt"));
    std::fs::write(&loadfile, LOAD).unwrap();
    let strace = || {
        let mut command = Command::new("strace");
        command.args(["-f", "-c", "-o"]).arg(&table_path);
        command
    };
    let make_dir = |name: &str, seconds: &str| {
        let dir = temp_dir.path().join(format!("{name}{seconds}"));
        std::fs::create_dir(&dir).unwrap();
        dir
    };
    let mut native_calls = calls_per_pass(&table_path, |seconds| {
        let mut command = strace();
        command.arg(std::env::current_exe().unwrap()).args(["--exact", "dbench::child"]);
        command.env(CHILD_LOADFILE, &loadfile).env(CHILD_DIR, make_dir("native", seconds)).env(CHILD_SECONDS, seconds);
        command
    });
    if cfg!(debug_assertions) {
        // Without optimisation, the standard library calls fcntl on each descriptor before it closes it.
        let closed = native_calls["close"];
        native_calls.entry("fcntl".into()).and_modify(|count| *count -= closed);
    }
    let real_calls = calls_per_pass(&table_path, |seconds| {
        let mut command = strace();
        command.args(["dbench", "-t", seconds, "--skip-cleanup", "-c"]).arg(&loadfile);
        command.arg("-D").arg(make_dir("real", seconds)).arg("1");
        command
    });
    for (name, max_difference) in [
        ("openat", 0.03),
        ("newfstatat", 0.03),
        ("getdents64", 0.03),
        ("close", 0.03),
        ("unlink", 0.01),
        ("mkdir", 0.01),
        ("rmdir", 0.01),
        ("pread64", 0.01),
        ("pwrite64", 0.01),
        ("fsync", 0.01),
        ("utimensat", 0.01),
        ("statfs", 0.02),
        ("fcntl", 0.02),
    ] {
        let [native, real] = [&native_calls, &real_calls].map(|calls| calls.get(name).copied().unwrap_or(0.0));
        // The loader and the start of clients make a few calls, and the last pass is incomplete.
        assert!(
            (native - real).abs() <= max_difference * real + 0.5,
            "{name}: {native} and {real}\n{native_calls:?}\n{real_calls:?}"
        );
        assert!(real > 0.0, "the real dbench never calls {name}");
    }
}
