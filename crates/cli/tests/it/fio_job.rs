//! fio job files through the real binary and the real fio.

use crate::common::kernel::has_programs;
use crate::common::{Sandbox, runs_as_root};
use serde_json::Value;

/// A job file: a writer, then a reader and a writer at the same time, each with its own files.
const JOB_FILE: &str = "; three jobs\n[global]\nsize=${SIZE}\nbs=4k\ninclude engine.inc\ngroup_reporting\n\n[seq write]\nrw=write\n\
    bs=64k\nend_fsync=1\n\n[reader]\nstonewall\nrw=randread\nnumjobs=2\n\n[log]\nrw=randwrite\nfdatasync=16\n";
/// Flags of a run of two rounds.
const SHORT_RUN_ARGS: [&str; 4] = ["--rounds", "2", "--quiet", "--seed=1"];

/// Makes a sandbox with the job file; None if the test cannot run here.
fn make_sandbox() -> Option<Sandbox> {
    if !runs_as_root() || !has_programs(&["mkfs.ext4", "mkfs.ext2"]) || !fsarena_sys::testkit::has_program("fio") {
        return None;
    }
    let sandbox = Sandbox::new();
    std::fs::write(sandbox.dir.join("mix.fio"), JOB_FILE).unwrap();
    std::fs::write(sandbox.dir.join("engine.inc"), "# included\nioengine=psync\ndirect=0\n").unwrap();
    Some(sandbox)
}

/// Runs fsarena with the variable that the job file needs. Returns its exit code, standard output and standard error.
fn run_with_size(sandbox: &Sandbox, args: &[&str]) -> (Option<i32>, String, String) {
    let output = sandbox.fsarena(args).env("SIZE", "1m").output().unwrap();
    (output.status.code(), crate::common::text(&output.stdout), crate::common::text(&output.stderr))
}

#[test]
fn a_job_file_runs_on_each_filesystem_and_its_jobs_are_judged() {
    let Some(sandbox) = make_sandbox() else { return };
    let args = [&["run", "mix.fio", "--fs", "ext4,ext2"], &SHORT_RUN_ARGS[..]].concat();
    let (code, printed, stderr) = run_with_size(&sandbox, &args);
    assert_eq!(code, Some(0), "{printed}\n{stderr}");
    // Two rounds cannot decide a claim.
    sandbox.expect(4, &["report", "--claim", "reader.iops: ext4 > 0.0001 * ext2"]);
    sandbox.assert_clean();
    let tasks: Vec<String> = sandbox.rows("latest").into_iter().map(|(_, _, task)| task).collect();
    for task in ["seq-write", "reader+log", "reader", "log"] {
        assert_eq!(tasks.iter().filter(|name| *name == task).count(), 2 * 2, "{task}: {tasks:?}");
    }
    let (json, _) = sandbox.expect(0, &["report", "--format", "json"]);
    let report: Value = serde_json::from_str(&json).unwrap();
    let analysis = &report["analyses"][0];
    assert_eq!(analysis["metric"]["id"], "iops");
    let has_rates = |task: &&Value| {
        task["variants"].as_array().unwrap().iter().all(|variant| variant["median_per_s"].as_f64() > Some(0.0))
    };
    let tasks_with_rates: Vec<&str> = analysis["tasks"]
        .as_array()
        .unwrap()
        .iter()
        .filter(has_rates)
        .filter_map(|task| task["task"]["id"]["name"].as_str())
        .collect();
    // Jobs that ran at the same time have separate rates, and no common rate.
    assert_eq!(tasks_with_rates, ["seq-write", "reader", "log"]);
    let (full, _) = sandbox.expect(0, &["report", "--full"]);
    for words in [
        "by the real fio-3.",
        "the durability of writes differs between jobs: seq write (end_fsync=1); log (fdatasync=16)",
    ] {
        assert!(full.split_whitespace().collect::<Vec<_>>().join(" ").contains(words), "{words}\n{full}");
    }
    // Each process of fio ran in the filesystem under test with the job file of its group; the first one only made the files.
    let log = sandbox.run_text("command.log");
    for file in ["layout.fio", "1.fio", "2.fio"] {
        assert_eq!(log.lines().filter(|line| line.contains(&format!("/{file}\""))).count(), 2 * 2, "{file}\n{log}");
    }
}

#[test]
fn a_stored_run_of_a_job_file_runs_again_without_the_file() {
    let Some(sandbox) = make_sandbox() else { return };
    let args = [&["run", "mix.fio", "--fs", "ext2"], &SHORT_RUN_ARGS[..]].concat();
    let (code, printed, stderr) = run_with_size(&sandbox, &args);
    assert_eq!(code, Some(0), "{printed}\n{stderr}");
    let plan = sandbox.run_text("plan.toml");
    assert!(plan.contains("size=1m") && plan.contains("ioengine=psync") && !plan.contains("${SIZE}"), "{plan}");
    std::fs::remove_file(sandbox.dir.join("mix.fio")).unwrap();
    let stored = sandbox.run_file("plan.toml").unwrap();
    std::fs::copy(stored, sandbox.dir.join("again.toml")).unwrap();
    sandbox.expect(0, &["run", "again.toml", "--quiet"]);
    assert!(sandbox.run_text("plan.toml").contains("size=1m"));
    sandbox.assert_clean();
}

#[test]
fn jobs_that_leave_the_filesystem_are_refused_before_anything_is_made() {
    let Some(sandbox) = make_sandbox() else { return };
    let assert_refused = |text: &str, words: &str| {
        std::fs::write(sandbox.dir.join("bad.fio"), text).unwrap();
        let (_, stderr) = sandbox.expect(2, &["run", "bad.fio", "--fs", "ext4"]);
        assert!(stderr.contains(words), "{text}: {words}\n{stderr}");
    };
    assert_refused(
        "[global]\nrw=read\n[a]\nfilename=/dev/sda\n",
        "bad.fio:4: filename=/dev/sda would leave the filesystem under test",
    );
    assert_refused("[/dev/sda]\nrw=write\nsize=1m\n", "bad.fio:1: fio takes the name `/dev/sda`");
    assert_refused("[a]\nexec_postrun=touch /tmp/x\n", "bad.fio:2: exec_postrun=touch /tmp/x runs a command");
    assert_refused("[a]\nsize=1m\ninclude none.inc\n", "bad.fio:3: include none.inc");
    assert_refused("[a]\nsize=${UNSET}\n", "bad.fio:2: the environment variable UNSET is not set");
    assert_refused("name = \"x\"\n[[workload]]\nuse = \"tree\"\n", "rename it to .toml");
    std::fs::rename(sandbox.dir.join("mix.fio"), sandbox.dir.join("mix.job")).unwrap();
    let (_, stderr) = sandbox.expect(2, &["run", "mix.job"]);
    assert!(stderr.contains("this is a fio job file; rename it"), "{stderr}");
    sandbox.assert_clean();
}

#[test]
fn a_dry_run_prints_the_job_as_fio_gets_it() {
    let Some(sandbox) = make_sandbox() else { return };
    let (code, printed, stderr) = run_with_size(&sandbox, &["run", "mix.fio", "--fs", "ext4", "--dry-run"]);
    assert_eq!(code, Some(0), "{stderr}");
    for words in ["fio-job", "[seq write]", "ioengine=psync", "size=1m", "file = \"mix.fio\""] {
        assert!(printed.contains(words), "{words}\n{printed}");
    }
    assert!(!printed.contains("; three jobs") && !printed.contains("group_reporting"), "{printed}");
}

#[test]
fn a_failing_job_fails_its_cell_with_the_message_of_fio() {
    let Some(sandbox) = make_sandbox() else { return };
    std::fs::write(sandbox.dir.join("bad.fio"), "[a]\nrw=sideways\nsize=1m\n").unwrap();
    let output = sandbox.output(&["run", "bad.fio", "--fs", "ext2", "--rounds", "1", "--quiet"]);
    let texts = crate::common::text(&output.stdout) + &crate::common::text(&output.stderr);
    assert!(!output.status.success() && texts.contains("sideways"), "{texts}");
    sandbox.assert_clean();
}

#[test]
fn a_directory_runs_a_job_file_without_root() {
    if !fsarena_sys::testkit::has_program("fio") {
        return;
    }
    let sandbox = Sandbox::new();
    std::fs::create_dir(sandbox.dir.join("here")).unwrap();
    std::fs::write(sandbox.dir.join("small.fio"), "[job]\nrw=randwrite\nsize=1m\ndirectory=sub\nend_fsync=1\n")
        .unwrap();
    let args = ["run", "small.fio", "--on", "dir:here", "--rounds", "1", "--quiet"];
    sandbox.expect(0, &args);
    assert!(sandbox.rows("latest").iter().any(|(.., task)| task == "job"));
    assert_eq!(std::fs::read_dir(sandbox.dir.join("here")).unwrap().count(), 0);
}

#[test]
fn load_names_what_to_use_instead_of_options_of_fio_that_it_lacks() {
    let sandbox = Sandbox::new();
    for (option, words) in [
        ("--ioengine=libaio", "use --ioengine io_uring"),
        ("--thinktime=5", "--rate"),
        ("--stonewall", "fsarena run job.fio"),
        ("--zonemode=strided", "write it into a job file"),
        ("jobs/a.fio", "fsarena run jobs/a.fio --fs ext4"),
    ] {
        let (_, stderr) = sandbox.expect(2, &["load", "--rw=randread", option]);
        assert!(stderr.contains(words), "{option}: {words}\n{stderr}");
    }
    let tutorial = "load --name=test --rw=randwrite --bs=4k --size=1m --number-ios=64 --end_fsync=1 --group_reporting \
                    --ioengine=psync --output-format=json --eta=never";
    let (printed, _) = sandbox.expect(0, &tutorial.split_whitespace().collect::<Vec<_>>());
    let result: Value = serde_json::from_str(&printed).unwrap();
    assert_eq!((&result["name"], &result["result"]["readings"]["final_sync_count"]), (&"test".into(), &1.0.into()));
}
