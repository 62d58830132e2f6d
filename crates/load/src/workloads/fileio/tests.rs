//! Tests of the tasks of fileio, their order, and the files that are prepared for them.

use super::*;
use crate::testing::{self, perform_all, place, task_ids};
use fsarena_core::scale::Scale;
use fsarena_core::setting::{Settings, Value};
fn job(set: &[(&str, &str)]) -> Job {
    testing::job(FILEIO.def, 11, set)
}

fn ids_of_built_tasks(tasks: &[Task]) -> Vec<String> {
    tasks.iter().map(|task| task.info.id.to_string()).collect()
}

#[test]
fn every_cell_is_a_task_and_the_seed_shuffles_them() {
    let dir = tempfile::tempdir().unwrap();
    let job = job(&[("bs", "4096,8192"), ("threads", "1,2,2")]);
    let tasks = FILEIO.tasks(&job, &place(dir.path())).unwrap();
    assert_eq!(ids_of_built_tasks(&tasks), ids_of_built_tasks(&FILEIO.tasks(&job, &place(dir.path())).unwrap()));
    let mut all = ids_of_built_tasks(&tasks);
    let mut outline = task_ids(&FILEIO.outline(&job));
    assert_ne!(all, outline);
    all.sort();
    outline.sort();
    assert_eq!(all, outline);
    assert_eq!(all.len(), 16);
    assert_eq!(all[0], "rndrd[bs=4096,threads=1]");
    let other = Job { seed: 12, ..job.clone() };
    assert_ne!(ids_of_built_tasks(&tasks), ids_of_built_tasks(&FILEIO.tasks(&other, &place(dir.path())).unwrap()));
}

#[test]
fn sizes_follow_the_scale_and_are_whole_blocks() {
    let paper = FileIoSettings::resolve(&Job { scale: Scale::Paper, ..job(&[]) });
    assert_eq!((paper.files, paper.file_bytes), (128, 16 << 20));
    let tiny = FileIoSettings::resolve(&job(&[("bs", "512,65536")]));
    assert_eq!(tiny.file_bytes, 65536);
    assert_eq!(FileIoSettings::resolve(&job(&[("total_bytes", "1000000"), ("files", "10")])).file_bytes, 7 * 16384);
}

fn prepared_counts(tasks: &[Task]) -> Vec<(String, usize)> {
    tasks.iter().map(|task| (task.info.id.name.clone(), task.prepare.len())).collect()
}

/// The words of the preparation of each task.
fn preparation_words(tasks: Vec<Task>) -> Vec<(String, Option<String>)> {
    let word = |action: Action| match action {
        Action::Call(call) => call.logged_argv[0].clone(),
        _ => panic!("only calls prepare"),
    };
    tasks.into_iter().map(|task| (task.info.id.name, task.prepare.into_iter().next().map(word))).collect()
}

#[test]
fn files_are_filled_once_and_again_after_seqwr() {
    let dir = tempfile::tempdir().unwrap();
    let tasks = FILEIO.tasks(&job(&[("bs", "4096,8192,16384"), ("threads", "1,2")]), &place(dir.path())).unwrap();
    assert!(prepared_counts(&tasks).iter().all(|(_, count)| *count <= 1));
    let mut are_filled = false;
    for (mode, prepared) in preparation_words(tasks) {
        let expected = match (mode.as_str(), are_filled) {
            ("seqwr", _) => Some("remove"),
            (_, false) => Some("fill"),
            (_, true) => None,
        };
        assert_eq!(prepared.as_deref(), expected, "{mode}");
        are_filled = mode != "seqwr";
    }
}

#[test]
fn verified_reads_pass_on_prepared_files_and_find_a_changed_byte() {
    let dir = tempfile::tempdir().unwrap();
    let set = [("bs", "4096,8192"), ("modes", "seqrd,rndrd,rndwr"), ("verify", "true")];
    let tasks = FILEIO.tasks(&job(&set), &place(dir.path())).unwrap();
    for task in tasks {
        perform_all(task.prepare.into_iter().chain(task.work));
    }
    // A read finds a byte that changed after the files were filled.
    let mut tasks = FILEIO.tasks(&job(&set), &place(dir.path())).unwrap().into_iter();
    let task = tasks.find(|task| task.info.id.name == "seqrd").unwrap();
    perform_all(task.prepare);
    let damaged = std::fs::File::options().write(true).open(dir.path().join("test_file.0")).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&damaged, b"X", 1234).unwrap();
    let read = task.work.into_iter().map(|action| action.perform(&mut |_| {}));
    let error = read.filter_map(Result::err).map(|error| error.to_string()).collect::<String>();
    assert!(error.contains("wrong data"), "{error}");
}

#[test]
fn blocks_below_the_alignment_are_left_out_with_the_reason() {
    let settings = FileIoSettings::resolve(&job(&[("bs", "512,4096")]));
    let target = Target { path: "/mnt".into(), is_device: false, alignment: 4096 };
    let why = target.refusal(&settings, settings.tasks[0]).unwrap();
    assert!(why.contains("blocks of 512 bytes") && why.contains("multiples of 4096 bytes"), "{why}");
    assert_eq!(target.refusal(&settings, settings.tasks[1]), None);
    assert_eq!(target.refusal(&FileIoSettings { direct: false, ..settings.clone() }, settings.tasks[0]), None);
    let device = Target { path: "/dev/loop9".into(), is_device: true, alignment: 512 };
    assert_eq!(device.refusal(&settings, settings.tasks[0]), None);
    let by_sysbench = FileIoSettings { tool: Tool::Sysbench, ..settings.clone() };
    assert!(device.refusal(&by_sysbench, settings.tasks[0]).unwrap().contains("regular files only"));
}

#[test]
fn a_task_that_cannot_run_is_left_out() {
    let dir = tempfile::tempdir().unwrap();
    let mut builder = TaskBuilder {
        settings: FileIoSettings::resolve(&job(&[("bs", "512"), ("modes", "rndrd")])),
        target: Target { path: dir.path().into(), is_device: false, alignment: 4096 },
        checksum_block_bytes: None,
    };
    let first = builder.settings.tasks[0];
    let task = builder.build_task(first);
    assert!(task.work.is_empty());
    let error = task.prepare.into_iter().next().unwrap().perform(&mut |_| {}).unwrap_err();
    assert!(matches!(error, TaskError::LeftOut(_)));
}

#[test]
fn each_mode_performs_exactly_the_set_number_of_operations() {
    let dir = tempfile::tempdir().unwrap();
    let set = [("bs", "4096"), ("threads", "3"), ("events", "1000"), ("files", "8"), ("direct", "false")];
    for task in FILEIO.tasks(&job(&set), &place(dir.path())).unwrap() {
        perform_all(task.prepare);
        let mode = task.info.id.name;
        let readings = perform_all(task.work).readings;
        assert_eq!(readings.get("all_operations_count"), Some(1000.0), "{mode}");
        // After every 100 writes follow 8 syncs: nine complete rounds, and 28 writes of the tenth.
        let (kind, syncs) = if mode.ends_with("wr") { ("write", Some(72.0)) } else { ("read", None) };
        assert_eq!(readings.get("sync_operations_count"), syncs, "{mode}");
        assert_eq!(readings.get(&format!("{kind}_operations_count")), Some(1000.0 - syncs.unwrap_or(0.0)), "{mode}");
    }
}

#[test]
fn the_required_program_follows_the_engine() {
    assert!(FILEIO.programs(&job(&[])).is_empty());
    assert_eq!(FILEIO.programs(&job(&[("engine", "fio")])), ["fio"]);
    let settings = Settings::defaults(sysbench::SYSBENCH.def.settings);
    assert_eq!(settings.0.get("engine"), Some(&Value::Text("sysbench".into())));
}
