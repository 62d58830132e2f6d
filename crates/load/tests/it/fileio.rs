//! Tests that fileio makes the system calls of the real sysbench, and refuses files that would falsify its figures.

use fsarena_core::{sample::Readings, scale::Scale, setting::Settings};
use fsarena_engine::{self as engine, Content, FileSpec, Files};
use fsarena_load::workload::{Job, Place, Workload};
use fsarena_load::{task::Task, workloads};
use std::{collections::BTreeMap, path::Path, process::Command};

/// Environment variables with the settings and the directory for a child process of these tests.
const CHILD_SETTINGS: &str = "FILEIO_CHILD_SETTINGS";
const CHILD_DIR: &str = "FILEIO_CHILD_DIR";

fn fileio() -> &'static dyn Workload {
    workloads::find_workload("fileio").unwrap()
}

/// A job of the smallest scale with settings such as `bs=4096 files=8`.
fn job(words: &str) -> Job {
    let defs = fileio().def().settings;
    let mut settings = Settings::defaults(defs);
    for word in words.split_whitespace() {
        let (id, text) = word.split_once('=').unwrap();
        let def = defs.iter().find(|def| def.id == id).unwrap();
        settings.0.insert(id.to_string(), def.kind.parse(text).unwrap());
    }
    Job { settings, scale: Scale::Tiny, seed: 5 }
}

/// The only task of a job in a directory.
fn task(words: &str, dir: &Path) -> Task {
    let place = Place { root: dir.into(), source_dir: dir.into(), server_user: None };
    let mut tasks = fileio().tasks(&job(words), &place).unwrap();
    assert_eq!(tasks.len(), 1);
    tasks.remove(0)
}

/// Performs the untimed work of the only task of a job, and returns the task.
fn prepare(words: &str, dir: &Path) -> Task {
    let mut task = task(words, dir);
    for action in std::mem::take(&mut task.preparation) {
        action.perform(&mut |_| {}).unwrap();
    }
    task
}

fn perform_work(task: Task) -> Result<(), fsarena_load::task::TaskError> {
    task.work.into_iter().try_for_each(|action| action.perform(&mut |_| {}).map(drop))
}

/// Not a test: the work of a traced child. Does nothing without a job in its environment.
#[test]
fn child() {
    let (Ok(words), Ok(dir)) = (std::env::var(CHILD_SETTINGS), std::env::var(CHILD_DIR)) else { return };
    perform_work(task(&words, Path::new(&dir))).unwrap();
}

/// Runs a command under `strace -c`, which writes its table to `table_path`, and returns the number of calls by name.
fn count_calls(command: &mut Command, table_path: &Path) -> BTreeMap<String, u64> {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = std::fs::read_to_string(table_path).unwrap();
    // % time, seconds, usecs/call, calls, [errors], name
    let parse_row = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        Some((fields.last()?.to_string(), fields.get(3)?.parse().ok()?))
    };
    text.lines().filter_map(parse_row).collect()
}

fn strace(table_path: &Path) -> Command {
    let mut command = Command::new("strace");
    command.args(["-f", "-c", "-o"]).arg(table_path);
    command
}

#[test]
fn system_calls_are_those_of_the_real_sysbench_in_kind_and_number() {
    if !fsarena_sys::testkit::has_program("strace") || !fsarena_sys::testkit::has_program("sysbench") {
        return;
    }
    let temp_dir = tempfile::tempdir().unwrap();
    let table_path = temp_dir.path().join("table");
    for mode in ["seqrd", "rndrd", "seqwr", "rndwr"] {
        for threads in [1, 4] {
            let dir = temp_dir.path().join(format!("{mode}-{threads}"));
            std::fs::create_dir(&dir).unwrap();
            let words = format!("modes={mode} threads={threads} bs=4096 files=8 events=1000 total_bytes=1048576");
            prepare(&words, &dir);
            let child = std::env::current_exe().unwrap();
            let native_calls = count_calls(
                strace(&table_path)
                    .arg(child)
                    .args(["--exact", "fileio::child"])
                    .env(CHILD_SETTINGS, &words)
                    .env(CHILD_DIR, &dir),
                &table_path,
            );
            prepare(&words, &dir);
            let mut real_command = strace(&table_path);
            real_command.current_dir(&dir).args(["sysbench", "fileio", "--file-num=8", "--file-total-size=1048576"]);
            real_command.args(["--file-block-size=4096", "--file-extra-flags=direct", "--events=1000", "--time=0"]);
            real_command.args([format!("--file-test-mode={mode}"), format!("--threads={threads}"), "run".into()]);
            let real_calls = count_calls(&mut real_command, &table_path);
            check_same_calls(&format!("{mode}, {threads} threads"), &native_calls, &real_calls);
        }
    }
}

#[track_caller]
fn check_same_calls(case: &str, native_calls: &BTreeMap<String, u64>, real_calls: &BTreeMap<String, u64>) {
    let count = |calls: &BTreeMap<String, u64>, name| calls.get(name).copied().unwrap_or(0);
    for name in ["pwrite64", "fsync", "fdatasync", "pwritev2", "io_submit"] {
        let (native, real) = (count(native_calls, name), count(real_calls, name));
        assert_eq!(native, real, "{case}: {name}\nnative {native_calls:?}\nreal {real_calls:?}");
    }
    // The dynamic loader also reads a few headers.
    let (native_reads, real_reads) = (count(native_calls, "pread64"), count(real_calls, "pread64"));
    assert!(native_reads.abs_diff(real_reads) <= 4, "{case}: pread64 {native_reads} and {real_reads}");
    let moved_blocks = count(real_calls, "pwrite64") + real_reads;
    assert!(moved_blocks >= 900, "{case}: the real sysbench moved only {moved_blocks} blocks");
}

#[test]
fn the_real_tools_perform_all_operations_with_several_threads() {
    for tool in ["sysbench", "fio"] {
        if !fsarena_sys::testkit::has_program(tool) {
            continue;
        }
        for mode in ["seqrd", "rndrd", "seqwr", "rndwr"] {
            let dir = tempfile::tempdir().unwrap();
            let words = format!("modes={mode} engine={tool} threads=4 bs=4096 files=8 events=1000 fsync_every=0");
            let task = prepare(&words, dir.path());
            let mut readings = Readings::default();
            for action in task.work {
                readings = action.perform(&mut |_| {}).unwrap().readings;
            }
            let get = |id| readings.get(id).unwrap_or(0.0);
            let operations =
                get("all_operations_count").max(get("read_operations_count") + get("write_operations_count"));
            assert_eq!(operations, 1000.0, "{tool} {mode}: {readings:?}");
        }
    }
}

#[test]
fn a_sparse_file_is_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let words = "modes=rndrd files=4 direct=false";
    let task = prepare(words, dir.path());
    let path = dir.path().join("test_file.2");
    let bytes = std::fs::metadata(&path).unwrap().len();
    std::fs::File::create(&path).unwrap().set_len(bytes).unwrap();
    let error = perform_work(task).unwrap_err().to_string();
    assert!(error.contains("test_file.2") && error.contains("sparse"), "{error}");
    // With any_layout, the sparse file is read.
    perform_work(self::task("modes=rndrd files=4 direct=false any_layout=true seconds=0.01", dir.path())).unwrap();
}

#[test]
fn a_planted_corruption_is_found_and_named() {
    let dir = tempfile::tempdir().unwrap();
    let words = "modes=seqrd files=4 bs=4096 direct=false verify=true events=1000";
    let task = prepare(words, dir.path());
    let path = dir.path().join("test_file.1");
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, b"!", 2 * 4096 + 100).unwrap();
    let error = perform_work(task).unwrap_err().to_string();
    assert!(error.contains("wrong data at byte 8192") && error.contains("test_file.1"), "{error}");
}

#[test]
fn the_names_of_files_are_those_of_sysbench() {
    let dir = tempfile::tempdir().unwrap();
    let spec =
        FileSpec { count: 3, bytes_per_file: 4096, content: Content::Zeros, seed: 1, verified_block_bytes: None };
    let files: engine::Files = Files::prepare(dir.path(), &spec).unwrap();
    assert!(files.paths()[2].ends_with("test_file.2"));
}
