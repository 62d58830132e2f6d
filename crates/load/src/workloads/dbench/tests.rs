//! Tests of the tasks, their requirements, and the arguments and output of the real dbench.

use super::*;
use super::{super::dbench_like::DBENCH_LIKE, super::dbench_tool::DBENCH_TOOL};
use crate::testing::{self, perform_all, place, task_ids};

const LOAD: &str = "\
NTCreateX \"\\clients\" 0x1 0x2 1 0x0
Close 1 0x0
NTCreateX \"\\clients\\client1\" 0x40 0x2 1 0x0
WriteX 1 0 1000 1000 0x0
ReadX 1 0 1000 1000 0x0
Close 1 0x0
";

fn job(workload: &DbenchWorkload, set: &[(&str, &str)]) -> Job {
    testing::job(workload.def, 11, set)
}

/// A directory with a loadfile in it, and the file's name.
fn loadfile() -> (tempfile::TempDir, String) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("load.txt");
    std::fs::write(&path, LOAD).unwrap();
    (dir, path.to_str().unwrap().into())
}

#[test]
fn each_number_of_clients_is_a_task_that_starts_in_an_empty_directory() {
    // Runs longer on a busy machine, until every client of every task has created its file.
    let mut made = ["0.05", "0.5", "5"].into_iter().map(files_by_clients);
    let made = made.find(|made| made.iter().all(|(clients, files)| clients == files));
    assert_eq!(made, Some(vec![(1, 1), (2, 2), (3, 3)]));
}

/// Plays each task for some seconds. Returns the number of clients and of the files that they left, sorted.
fn files_by_clients(seconds: &str) -> Vec<(usize, usize)> {
    let (dir, path) = loadfile();
    let job = job(&DBENCH, &[("loadfile", &path), ("clients", "1,3,3,2"), ("seconds", seconds)]);
    let place = place(dir.path());
    assert_eq!(task_ids(&DBENCH.outline(&job)), ["dbench[clients=1]", "dbench[clients=3]", "dbench[clients=2]"]);
    DBENCH.make_inputs(&job, &place).unwrap();
    // The tasks do not require the loadfile, because a guest has none.
    std::fs::remove_file(&path).unwrap();
    let tasks = DBENCH.tasks(&job, &place).unwrap();
    let played = tasks.into_iter().map(|task| {
        let clients: usize = task.info.id.params["clients"].parse().unwrap();
        perform_all(task.prepare);
        let served: Vec<f64> = (task.work.into_iter())
            .map(|action| perform_all([action]).readings.get("served_bytes_per_s").unwrap())
            .collect();
        let files = std::fs::read_dir(dir.path().join("dbench/clients")).map_or(0, |files| files.count());
        (clients, if served.iter().all(|served| *served > 0.0) { files } else { 0 })
    });
    let mut all: Vec<_> = played.collect();
    all.sort();
    all
}

#[test]
fn the_survey_has_the_room_of_the_most_clients_and_finds_invalid_loadfiles() {
    let (_dir, path) = loadfile();
    let room = DBENCH.survey(&job(&DBENCH, &[("loadfile", &path), ("clients", "1,20")])).unwrap().room;
    assert_eq!((room.bytes, room.inodes), (2 * 20 * 1000, 20 * 2));
    assert!((50..500).contains(&room.source_bytes), "{room:?}");
    let real = DBENCH.survey(&job(&DBENCH, &[("loadfile", &path), ("engine", "dbench")])).unwrap().room;
    assert_eq!(real.source_bytes, 0);
    std::fs::write(&path, "Frobnicate 1 0x0\n").unwrap();
    let error = DBENCH.survey(&job(&DBENCH, &[("loadfile", &path)])).unwrap_err();
    assert!(error.to_string().contains("line 1"), "{error}");
    let error = DBENCH.survey(&job(&DBENCH, &[("loadfile", "/none")])).unwrap_err();
    assert_eq!(fsarena_core::exit::Exits::exit_code(&error), fsarena_core::exit::ExitCode::Missing);
}

#[test]
fn dbench_like_requires_no_program_and_the_others_require_dbench() {
    let room = DBENCH_LIKE.survey(&job(&DBENCH_LIKE, &[("clients", "1024")])).unwrap().room;
    assert!((45_000_000_000..60_000_000_000).contains(&room.bytes), "{room:?}");
    assert!(DBENCH_LIKE.programs(&job(&DBENCH_LIKE, &[])).is_empty());
    assert_eq!(DBENCH_TOOL.programs(&job(&DBENCH_TOOL, &[])), ["dbench"]);
    assert_eq!(DBENCH.programs(&job(&DBENCH, &[("engine", "dbench")])), ["dbench"]);
}

#[test]
fn the_warm_up_is_a_fifth_of_the_measured_time_by_default() {
    let settings = |set: &[(&str, &str)]| {
        let settings = DbenchSettings::resolve(&job(&DBENCH, set));
        (settings.options.measured.as_secs_f64(), settings.options.warm_up.as_secs_f64())
    };
    assert_eq!(settings(&[]), (0.5, 0.1));
    assert_eq!(settings(&[("seconds", "60")]), (60.0, 12.0));
    assert_eq!(settings(&[("seconds", "60"), ("warm_up", "0")]), (60.0, 0.0));
}
