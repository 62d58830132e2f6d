//! `dbench`: clients of a file server, as dbench plays them. Each number of clients is a task.
//!
//! The seed of the round shuffles the tasks of a cell, and each starts in an empty directory.

pub mod settings;

use crate::dbench::{self, LoadProgram, PlayerOptions, check_open_file_limit, loadfile, synthetic};
use crate::payload::make_empty_dir;
use crate::task::{self, Action, Result, Task};
use crate::workload::{Job, Place, Room, Survey, Workload, remark_note};
use crate::workloads::dbench::settings::{DbenchSettings, DbenchWorkload, LoadSource, METRICS, loadfile_settings};
use crate::{dbench::load_peaks::LoadPeaks, pace::shuffle_tasks, workloads::dbench_tool};
use fsarena_core::{cell::TaskInfo, event::Note, setting::WorkloadDef};
use fsarena_engine::Content;
use std::{path::PathBuf, sync::Arc};

/// The constant with which this workload shuffles its tasks; see [`shuffle_tasks`].
const ORDER_SEED: u64 = 0xDBE;

/// The workload that plays a loadfile by fsarena's own player.
pub const DBENCH: DbenchWorkload = DbenchWorkload {
    def: &WorkloadDef {
        id: "dbench",
        help: "clients of a file server, as dbench plays them from the loadfile that Debian's package dbench brings",
        metrics: METRICS,
        settings: &loadfile_settings("native"),
    },
    source: LoadSource::Loadfile,
};

impl DbenchWorkload {
    fn find_loadfile(&self, job: &Job) -> Result<PathBuf> {
        loadfile::find(job.settings.text("loadfile"))
    }

    /// Reads the loadfile or generates the load.
    fn load_program(&self, job: &Job) -> Result<LoadProgram> {
        Ok(match self.source {
            LoadSource::Loadfile => loadfile::load(&self.find_loadfile(job)?)?,
            LoadSource::Synthetic => synthetic::generate_program(job.seed),
        })
    }

    /// Whether the load is stored on the source disk for the cells. The real dbench reads the loadfile itself, and a
    /// synthetic load is generated again.
    fn stores_load(&self, settings: &DbenchSettings) -> bool {
        self.source == LoadSource::Loadfile && !settings.uses_real_dbench
    }

    fn task_info(&self, clients: u32) -> TaskInfo {
        let name = if self.source == LoadSource::Synthetic { "dbench-like" } else { "dbench" };
        let title = format!("Clients of a file server: {clients}");
        task::info(name, title, [("clients", clients.to_string())])
    }
}

impl Workload for DbenchWorkload {
    fn def(&self) -> &'static WorkloadDef {
        self.def
    }

    fn outline(&self, job: &Job) -> Vec<TaskInfo> {
        DbenchSettings::resolve(job).clients.into_iter().map(|clients| self.task_info(clients)).collect()
    }

    /// Also reads the loadfile and checks the limits, so that a load that cannot be played is refused before the run.
    fn survey(&self, job: &Job) -> Result<Survey> {
        let settings = DbenchSettings::resolve(job);
        let program = self.load_program(job)?;
        settings.clients.iter().try_for_each(|clients| program.check_clients(*clients))?;
        let peaks = LoadPeaks::of_pass(&program);
        if !settings.uses_real_dbench {
            // Only fsarena's own player has these limits. `options.clients` is the largest number of clients of any task.
            check_open_file_limit(settings.options.clients, settings.options.mode, peaks.open_handles)?;
        }
        let clients = u64::from(settings.options.clients);
        let room = Room {
            // Twice the data: a copy-on-write filesystem keeps old blocks until it commits.
            bytes: 2 * clients * peaks.bytes,
            inodes: clients * (peaks.files + peaks.directories),
            source_bytes: if self.stores_load(&settings) { program.encode().len() as u64 } else { 0 },
        };
        Ok(Survey { room, remarks: remarks(self.source, &settings, peaks.bytes), ..Survey::default() })
    }

    fn programs(&self, job: &Job) -> Vec<&'static str> {
        if DbenchSettings::resolve(job).uses_real_dbench { vec!["dbench"] } else { vec![] }
    }

    /// Reads the loadfile once in a run and stores the load for the cells, because a guest without programs of this machine has no
    /// loadfile. The real dbench is such a program: its guests read the loadfile from this machine.
    fn make_inputs(&self, job: &Job, place: &Place) -> Result<()> {
        if self.stores_load(&DbenchSettings::resolve(job)) {
            self.load_program(job)?.write_to(&stored_load_path(place))?;
        }
        Ok(())
    }

    fn tasks(&self, job: &Job, place: &Place) -> Result<Vec<Task>> {
        let (settings, root) = (&DbenchSettings::resolve(job), &place.root.join("dbench"));
        let make_action: Box<dyn Fn(u32) -> Action> = if settings.uses_real_dbench {
            let (loadfile, is_version_5) = (self.find_loadfile(job)?, dbench_tool::is_version_5()?);
            Box::new(move |clients| dbench_tool::dbench_action(settings, clients, &loadfile, is_version_5, root))
        } else {
            let program = if self.stores_load(settings) {
                LoadProgram::read_from(&stored_load_path(place))?
            } else {
                self.load_program(job)?
            };
            let program = Arc::new(program);
            Box::new(move |clients| {
                let options = PlayerOptions { clients, ..settings.options.clone() };
                let logged_argv = [self.def.id, &format!("{clients} clients"), &root.display().to_string()];
                let input = (Arc::clone(&program), options, root.clone());
                Action::call_with(&input, logged_argv, |(program, options, root)| {
                    Ok(dbench::play(program, options, root)?.task_output())
                })
            })
        };
        let mut tasks = vec![];
        for clients in shuffle_tasks(settings.clients.clone(), job.seed, ORDER_SEED) {
            let empty_root = Action::call_on("empty", root, |root| Ok(make_empty_dir(root)?));
            tasks.push(Task::new(self.task_info(clients), make_action(clients)).with_preparation([empty_root]));
        }
        Ok(tasks)
    }
}

/// The notes on this workload in every report. `peak_bytes` is the largest size of all files of a client at one time.
fn remarks(source: LoadSource, settings: &DbenchSettings, peak_bytes: u64) -> Vec<Note> {
    let mut notes = vec![remark_note(engine_remark(source, settings))];
    if !settings.uses_real_dbench {
        let content = if settings.options.content == Content::Zeros { "zeros, as dbench does" } else { "noise" };
        notes.push(remark_note(format!("clients write {content}")));
    }
    if let Some(rate) = settings.options.rate_mb_s {
        notes.push(remark_note(format!("each client moves at most {rate} MB/s")));
    }
    notes.push(remark_note(format!(
        "each client has at most {:.1} MB of files and goes through the page cache: only synced data (Flush) and data \
         written back meanwhile reach the device",
        peak_bytes as f64 / 1e6
    )));
    notes
}

/// The file that stores a loadfile's load for the cells of a run.
fn stored_load_path(place: &Place) -> PathBuf {
    place.source_dir.join("load")
}

/// The text of the note on the program that played the load.
fn engine_remark(source: LoadSource, settings: &DbenchSettings) -> String {
    let [warm_up, seconds] = [settings.options.warm_up, settings.options.measured].map(|time| time.as_secs_f64());
    let clients = match settings.options.mode {
        dbench::ClientMode::Threads => "threads",
        dbench::ClientMode::Processes => "processes",
    };
    match (settings.uses_real_dbench, source) {
        (false, LoadSource::Loadfile) => {
            format!(
                "engine=native: fsarena played the loadfile by {clients}, {seconds} s after a warm-up of {warm_up} s"
            )
        }
        (false, LoadSource::Synthetic) => format!(
            "dbench-like: fsarena played its own load, with the statistics of dbench's load, by {clients}, {seconds} s after a \
             warm-up of {warm_up} s; its figures cannot be compared with those of dbench"
        ),
        (true, _) => format!(
            "engine=dbench: the real dbench ran {} s after a warm-up of a fifth of that, and wrote zeros; its throughput \
             leaves out the last second",
            dbench_tool::whole_seconds(settings)
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{self, perform_all, place, task_ids};
    use crate::workloads::{dbench_like::DBENCH_LIKE, dbench_tool::DBENCH_TOOL};

    const LOAD: &str = "\
NTCreateX \"\\clients\" 0x1 0x2 1 0x0
Close 1 0x0
NTCreateX \"\\clients\\client1\" 0x40 0x2 1 0x0
WriteX 1 0 1000 1000 0x0
ReadX 1 0 1000 1000 0x0
Close 1 0x0
";

    fn job(workload: &DbenchWorkload, changed_settings: &[(&str, &str)]) -> Job {
        testing::job(workload.def, 11, changed_settings)
    }

    /// Makes a directory with a loadfile in it. Returns the directory and the path of the file.
    fn write_loadfile() -> (tempfile::TempDir, String) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("load.txt");
        std::fs::write(&path, LOAD).unwrap();
        (dir, path.to_str().unwrap().into())
    }

    #[test]
    fn each_number_of_clients_is_a_task_that_starts_in_an_empty_directory() {
        // Repeated for longer on a busy machine, until every client of every task has created its file.
        let mut attempts = ["0.05", "0.5", "5"].into_iter().map(files_by_clients);
        let counts = attempts.find(|counts| counts.iter().all(|(clients, files)| clients == files));
        assert_eq!(counts, Some(vec![(1, 1), (2, 2), (3, 3)]));
    }

    /// Plays each task for some seconds. Returns the number of clients of each task and the number of files that they
    /// left, sorted by clients; no files if the task moved no data.
    fn files_by_clients(seconds: &str) -> Vec<(usize, usize)> {
        let (dir, path) = write_loadfile();
        let job = job(&DBENCH, &[("loadfile", &path), ("clients", "1,3,3,2"), ("seconds", seconds)]);
        let place = place(dir.path());
        assert_eq!(task_ids(&DBENCH.outline(&job)), ["dbench[clients=1]", "dbench[clients=3]", "dbench[clients=2]"]);
        DBENCH.make_inputs(&job, &place).unwrap();
        // The tasks do not require the loadfile, because a guest has none.
        std::fs::remove_file(&path).unwrap();
        let tasks = DBENCH.tasks(&job, &place).unwrap();
        let mut counts = vec![];
        for task in tasks {
            let clients: usize = task.info.id.params["clients"].parse().unwrap();
            perform_all(task.preparation);
            let served_bytes_per_s = perform_all(task.work).readings.get("served_bytes_per_s").unwrap();
            let files = std::fs::read_dir(dir.path().join("dbench/clients")).map_or(0, |files| files.count());
            counts.push((clients, if served_bytes_per_s > 0.0 { files } else { 0 }));
        }
        counts.sort();
        counts
    }

    #[test]
    fn the_survey_has_the_room_of_the_most_clients_and_finds_invalid_loadfiles() {
        let (_dir, path) = write_loadfile();
        let room = DBENCH.survey(&job(&DBENCH, &[("loadfile", &path), ("clients", "1,20")])).unwrap().room;
        assert_eq!((room.bytes, room.inodes), (2 * 20 * 1000, 20 * 2));
        assert!((50..500).contains(&room.source_bytes), "{room:?}");
        let remarks = remarks(LoadSource::Loadfile, &DbenchSettings::resolve(&job(&DBENCH, &[])), 24_360_000);
        assert!(remarks.iter().any(|note| note.text.starts_with("each client has at most 24.4 MB of files")));
        let room_of_real_dbench =
            DBENCH.survey(&job(&DBENCH, &[("loadfile", &path), ("engine", "dbench")])).unwrap().room;
        assert_eq!(room_of_real_dbench.source_bytes, 0);
        std::fs::write(&path, "Frobnicate 1 0x0\n").unwrap();
        let error = DBENCH.survey(&job(&DBENCH, &[("loadfile", &path)])).unwrap_err();
        assert!(error.to_string().contains("line 1"), "{error}");
        let error = DBENCH.survey(&job(&DBENCH, &[("loadfile", "/none")])).unwrap_err();
        assert_eq!(fsarena_core::exit::HasExitCode::exit_code(&error), fsarena_core::exit::ExitCode::Missing);
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
        let measured_and_warm_up_s = |changed_settings: &[(&str, &str)]| {
            let options = DbenchSettings::resolve(&job(&DBENCH, changed_settings)).options;
            (options.measured.as_secs_f64(), options.warm_up.as_secs_f64())
        };
        assert_eq!(measured_and_warm_up_s(&[]), (0.5, 0.1));
        assert_eq!(measured_and_warm_up_s(&[("seconds", "60")]), (60.0, 12.0));
        assert_eq!(measured_and_warm_up_s(&[("seconds", "60"), ("warm_up", "0")]), (60.0, 0.0));
    }
}
