//! fio job files through the real binary and the real fio.

use crate::common::kernel::has;
use crate::common::{Place, root};
use serde_json::Value;

/// A writer, then a reader and a writer at the same time, on files of their own.
const JOB: &str = "; three jobs\n[global]\nsize=${SIZE}\nbs=4k\ninclude engine.inc\ngroup_reporting\n\n[seq write]\nrw=write\n\
    bs=64k\nend_fsync=1\n\n[reader]\nstonewall\nrw=randread\nnumjobs=2\n\n[log]\nrw=randwrite\nfdatasync=16\n";
/// A run of two rounds with hardly any idle wait.
const QUICK: [&str; 4] = ["--rounds", "2", "--quiet", "--seed=1"];

/// A place with the job file; none where the test cannot run.
fn place() -> Option<Place> {
    if !root() || !has(&["mkfs.ext4", "mkfs.ext2"]) || !fsarena_sys::testkit::program("fio") {
        return None;
    }
    let place = Place::new();
    std::fs::write(place.dir.join("mix.fio"), JOB).unwrap();
    std::fs::write(place.dir.join("engine.inc"), "# included\nioengine=psync\ndirect=0\n").unwrap();
    Some(place)
}

/// Runs the program with the variable that the job file needs.
fn run(place: &Place, args: &[&str]) -> (Option<i32>, String, String) {
    let output = place.fsarena(args).env("SIZE", "1m").output().unwrap();
    (output.status.code(), crate::common::text(&output.stdout), crate::common::text(&output.stderr))
}

#[test]
fn a_job_file_runs_on_each_filesystem_and_its_jobs_are_judged() {
    let Some(place) = place() else { return };
    let args = [&["run", "mix.fio", "--fs", "ext4,ext2"], &QUICK[..]].concat();
    let (code, printed, said) = run(&place, &args);
    assert_eq!(code, Some(0), "{printed}\n{said}");
    // Too few rounds decide a claim.
    place.expect(4, &["report", "--claim", "reader.iops: ext4 > 0.0001 * ext2"]);
    place.assert_clean();
    let tasks: Vec<String> = place.rows("latest").into_iter().map(|(_, _, task)| task).collect();
    for task in ["seq-write", "reader+log", "reader", "log"] {
        assert_eq!(tasks.iter().filter(|name| *name == task).count(), 2 * 2, "{task}: {tasks:?}");
    }
    let (json, _) = place.expect(0, &["report", "--format", "json"]);
    let report: Value = serde_json::from_str(&json).unwrap();
    let analysis = &report["analyses"][0];
    assert_eq!(analysis["metric"]["id"], "iops");
    let with_rates =
        |task: &&Value| task["variants"].as_array().unwrap().iter().all(|one| one["median_per_s"].as_f64() > Some(0.0));
    let rated: Vec<&str> = analysis["tasks"]
        .as_array()
        .unwrap()
        .iter()
        .filter(with_rates)
        .filter_map(|task| task["task"]["id"]["name"].as_str())
        .collect();
    // Jobs that ran at the same time have rates of their own, and none together.
    assert_eq!(rated, ["seq-write", "reader", "log"]);
    let (full, _) = place.expect(0, &["report", "--full"]);
    for words in [
        "by the real fio-3.",
        "the durability of writes differs between jobs: seq write (end_fsync=1); log (fdatasync=16)",
    ] {
        assert!(full.split_whitespace().collect::<Vec<_>>().join(" ").contains(words), "{words}\n{full}");
    }
    // Each fio ran in the filesystem under test, with the job file of its group; the first one only made the files.
    let log = place.run_text("command.log");
    for file in ["layout.fio", "1.fio", "2.fio"] {
        assert_eq!(log.lines().filter(|line| line.contains(&format!("/{file}\""))).count(), 2 * 2, "{file}\n{log}");
    }
}

#[test]
fn a_stored_run_of_a_job_file_runs_again_without_the_file() {
    let Some(place) = place() else { return };
    let args = [&["run", "mix.fio", "--fs", "ext2"], &QUICK[..]].concat();
    let (code, printed, said) = run(&place, &args);
    assert_eq!(code, Some(0), "{printed}\n{said}");
    let plan = place.run_text("plan.toml");
    assert!(plan.contains("size=1m") && plan.contains("ioengine=psync") && !plan.contains("${SIZE}"), "{plan}");
    std::fs::remove_file(place.dir.join("mix.fio")).unwrap();
    let stored = place.run_file("plan.toml").unwrap();
    std::fs::copy(stored, place.dir.join("again.toml")).unwrap();
    place.expect(0, &["run", "again.toml", "--quiet"]);
    assert!(place.run_text("plan.toml").contains("size=1m"));
    place.assert_clean();
}

#[test]
fn what_leaves_the_filesystem_is_refused_before_anything_is_made() {
    let Some(place) = place() else { return };
    let refuse = |text: &str, words: &str| {
        std::fs::write(place.dir.join("bad.fio"), text).unwrap();
        let (_, said) = place.expect(2, &["run", "bad.fio", "--fs", "ext4"]);
        assert!(said.contains(words), "{text}: {words}\n{said}");
    };
    refuse(
        "[global]\nrw=read\n[a]\nfilename=/dev/sda\n",
        "bad.fio:4: filename=/dev/sda would leave the filesystem under test",
    );
    refuse("[/dev/sda]\nrw=write\nsize=1m\n", "bad.fio:1: fio takes the name `/dev/sda`");
    refuse("[a]\nexec_postrun=touch /tmp/x\n", "bad.fio:2: exec_postrun=touch /tmp/x runs a command");
    refuse("[a]\nsize=1m\ninclude none.inc\n", "bad.fio:3: include none.inc");
    refuse("[a]\nsize=${UNSET}\n", "bad.fio:2: the environment variable UNSET is not set");
    refuse("name = \"x\"\n[[workload]]\nuse = \"tree\"\n", "rename it to .toml");
    std::fs::rename(place.dir.join("mix.fio"), place.dir.join("mix.job")).unwrap();
    let (_, said) = place.expect(2, &["run", "mix.job"]);
    assert!(said.contains("this is a fio job file; rename it"), "{said}");
    place.assert_clean();
}

#[test]
fn a_dry_run_prints_the_job_as_fio_gets_it() {
    let Some(place) = place() else { return };
    let (code, printed, said) = run(&place, &["run", "mix.fio", "--fs", "ext4", "--dry-run"]);
    assert_eq!(code, Some(0), "{said}");
    for words in ["fio-job", "[seq write]", "ioengine=psync", "size=1m", "file = \"mix.fio\""] {
        assert!(printed.contains(words), "{words}\n{printed}");
    }
    assert!(!printed.contains("; three jobs") && !printed.contains("group_reporting"), "{printed}");
}

#[test]
fn a_failing_job_fails_its_cell_with_the_words_of_fio() {
    let Some(place) = place() else { return };
    std::fs::write(place.dir.join("bad.fio"), "[a]\nrw=sideways\nsize=1m\n").unwrap();
    let output = place.output(&["run", "bad.fio", "--fs", "ext2", "--rounds", "1", "--quiet"]);
    let said = crate::common::text(&output.stdout) + &crate::common::text(&output.stderr);
    assert!(!output.status.success() && said.contains("sideways"), "{said}");
    place.assert_clean();
}

#[test]
fn a_directory_runs_a_job_file_without_root() {
    if !fsarena_sys::testkit::program("fio") {
        return;
    }
    let place = Place::new();
    std::fs::create_dir(place.dir.join("here")).unwrap();
    std::fs::write(place.dir.join("small.fio"), "[job]\nrw=randwrite\nsize=1m\ndirectory=sub\nend_fsync=1\n").unwrap();
    let args = ["run", "small.fio", "--on", "dir:here", "--rounds", "1", "--quiet"];
    place.expect(0, &args);
    assert!(place.rows("latest").iter().any(|(.., task)| task == "job"));
    assert_eq!(std::fs::read_dir(place.dir.join("here")).unwrap().count(), 0);
}

#[test]
fn options_of_fio_that_load_lacks_name_what_to_use() {
    let place = Place::new();
    for (option, words) in [
        ("--ioengine=libaio", "use --ioengine io_uring"),
        ("--thinktime=5", "--rate"),
        ("--stonewall", "fsarena run job.fio"),
        ("--zonemode=strided", "write it into a job file"),
        ("jobs/a.fio", "fsarena run jobs/a.fio --fs ext4"),
    ] {
        let (_, said) = place.expect(2, &["load", "--rw=randread", option]);
        assert!(said.contains(words), "{option}: {words}\n{said}");
    }
    let tutorial = "load --name=test --rw=randwrite --bs=4k --size=1m --number-ios=64 --end_fsync=1 --group_reporting \
                    --ioengine=psync --output-format=json --eta=never";
    let (printed, _) = place.expect(0, &tutorial.split_whitespace().collect::<Vec<_>>());
    let found: Value = serde_json::from_str(&printed).unwrap();
    assert_eq!((&found["name"], &found["result"]["readings"]["final_sync_count"]), (&"test".into(), &1.0.into()));
}
