//! `dbench`: clients of a file server, as dbench plays them. Each number of clients is a task.
//!
//! The seed of the round shuffles the tasks of a cell, and each starts in an empty directory.

pub mod settings;
#[cfg(test)]
mod tests;

use crate::dbench::{self, LoadProgram, PlayerOptions, check_open_file_limit, loadfile, synthetic};
use crate::payload::make_empty_dir;
use crate::task::{self, Action, Result, Task};
use crate::workload::{Job, Place, Room, Survey, Workload, remark_note};
use crate::workloads::dbench::settings::{DbenchSettings, DbenchWorkload, LoadSource, METRICS, loadfile_settings};
use crate::{dbench::load_stats::LoadStats, pace::shuffled, workloads::dbench_tool};
use fsarena_core::{cell::TaskInfo, event::Note, setting::WorkloadDef};
use fsarena_engine::Content;
use std::{path::PathBuf, sync::Arc};

/// Mixed into the seed of a round to shuffle the order of its tasks.
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
    fn loadfile(&self, job: &Job) -> Result<PathBuf> {
        loadfile::find(job.settings.text("loadfile"))
    }

    fn load_program(&self, job: &Job) -> Result<LoadProgram> {
        Ok(match self.source {
            LoadSource::Loadfile => loadfile::load(&self.loadfile(job)?)?,
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
        let stats = LoadStats::collect(&program);
        if !settings.uses_real_dbench {
            check_open_file_limit(settings.options.clients, settings.options.mode, stats.most_open_handles)?;
        }
        let clients = u64::from(settings.options.clients);
        let room = Room {
            // Twice the data: a copy-on-write filesystem keeps old blocks until it commits.
            bytes: 2 * clients * stats.most_bytes,
            inodes: clients * (stats.most_files + stats.directories),
            source_bytes: if self.stores_load(&settings) { program.encode().len() as u64 } else { 0 },
        };
        Ok(Survey { room, remarks: remarks(self.source, &settings), ..Survey::default() })
    }

    fn programs(&self, job: &Job) -> Vec<&'static str> {
        if DbenchSettings::resolve(job).uses_real_dbench { vec!["dbench"] } else { vec![] }
    }

    /// Reads the loadfile once in a run and stores it for the cells, because a guest has no loadfile.
    fn make_inputs(&self, job: &Job, place: &Place) -> Result<()> {
        if self.stores_load(&DbenchSettings::resolve(job)) {
            self.load_program(job)?.write_to(&load_path(place))?;
        }
        Ok(())
    }

    fn tasks(&self, job: &Job, place: &Place) -> Result<Vec<Task>> {
        let (settings, root) = (&DbenchSettings::resolve(job), &place.root.join("dbench"));
        let play: Box<dyn Fn(u32) -> Action> = if settings.uses_real_dbench {
            let (loadfile, is_5) = (self.loadfile(job)?, dbench_tool::is_version_5()?);
            Box::new(move |clients| dbench_tool::dbench_action(settings, clients, &loadfile, is_5, root))
        } else {
            let stored = self.stores_load(settings).then(|| LoadProgram::read_from(&load_path(place))).transpose()?;
            let program = Arc::new(stored.map_or_else(|| self.load_program(job), Ok)?);
            Box::new(move |clients| {
                let options = PlayerOptions { clients, ..settings.options.clone() };
                let logged_argv = [self.def.id, &format!("{clients} clients"), &root.display().to_string()];
                let input = (Arc::clone(&program), options, root.clone());
                Action::call_with(&input, logged_argv, |(program, options, root)| {
                    Ok(dbench::play(program, options, root)?.task_output())
                })
            })
        };
        let task = |clients| {
            let work = play(clients);
            Task::new(self.task_info(clients), work)
                .with_preparation([Action::call_on("empty", root, |root| Ok(make_empty_dir(root)?))])
        };
        Ok(shuffled(settings.clients.clone(), job.seed, ORDER_SEED).into_iter().map(task).collect())
    }
}

/// The notes on this workload in every report.
fn remarks(source: LoadSource, settings: &DbenchSettings) -> Vec<Note> {
    let mut notes = vec![remark_note(engine_remark(source, settings))];
    if !settings.uses_real_dbench {
        let what = if settings.options.content == Content::Zeros { "zeros, as dbench does" } else { "noise" };
        notes.push(remark_note(format!("clients write {what}")));
    }
    if let Some(rate) = settings.options.rate_mb_s {
        notes.push(remark_note(format!("each client moves at most {rate} MB/s")));
    }
    let cached = "each client has about 24 MB of files and goes through the page cache: only synced data (Flush) and data \
                  written back meanwhile reach the device";
    notes.push(remark_note(cached));
    notes
}

/// The file that stores a loadfile's load for the cells of a run.
fn load_path(place: &Place) -> PathBuf {
    place.source_dir.join("load")
}

/// The note on the program that played the load.
fn engine_remark(source: LoadSource, settings: &DbenchSettings) -> String {
    let [warm_up, seconds] = [settings.options.warm_up, settings.options.measured].map(|time| time.as_secs_f64());
    let threads = settings.options.mode == dbench::ClientMode::Threads;
    let clients = if threads { "threads" } else { "processes" };
    match (settings.uses_real_dbench, source) {
        (false, LoadSource::Loadfile) => {
            format!(
                "engine=native: fsarena played the loadfile by {clients}, {seconds} s after a warm-up of {warm_up} s"
            )
        }
        (false, LoadSource::Synthetic) => format!(
            "dbench-like is fsarena's own load with the statistics of dbench's: its figures cannot be compared with those of dbench; \
             by {clients}, {seconds} s after a warm-up of {warm_up} s"
        ),
        (true, _) => format!(
            "engine=dbench: the real dbench ran {} s after a warm-up of a fifth of that, and wrote zeros; its throughput \
             leaves out the last second",
            dbench_tool::whole_seconds(settings)
        ),
    }
}
