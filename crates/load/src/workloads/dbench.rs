//! Clients of a file server, as dbench plays them: each number of clients is a task.
//!
//! The tasks of a cell come in random order, by the seed of the round, and each begins in an empty directory.

pub mod settings;
#[cfg(test)]
mod tests;

use super::dbench_tool;
use crate::dbench::{self as dbench, Options, Program, census::Census, compact, like, limits, loadfile};
use crate::task::{self, Action, Result, Task};
use crate::workload::{Job, Place, Room, Survey, Workload, remark};
use crate::{pace::shuffled, payload::fresh_dir};
use fsarena_core::{cell::TaskInfo, event::Note, setting::WorkloadDef};
use fsarena_engine::Content;
use settings::{Chosen, Dbench, Source};
use std::{path::PathBuf, sync::Arc};

/// What the seed of a round is mixed with for the order of its tasks.
const ORDER: u64 = 0xDBE;

/// A loadfile, by fsarena's own player.
pub const DBENCH: Dbench = Dbench {
    def: &WorkloadDef {
        id: "dbench",
        help: "clients of a file server, as dbench plays them from the loadfile that Debian's package dbench brings",
        metrics: settings::METRICS,
        settings: &settings::of_loadfiles("native"),
    },
    source: Source::Loadfile,
};

impl Dbench {
    fn loadfile(&self, job: &Job) -> Result<PathBuf> {
        Ok(loadfile::find(job.settings.text("loadfile"))?)
    }

    fn program(&self, job: &Job) -> Result<Program> {
        Ok(match self.source {
            Source::Loadfile => loadfile::load(&self.loadfile(job)?)?,
            Source::Like => like::program(job.seed),
        })
    }

    /// Whether cells find the load on the other disk. The real dbench reads the loadfile itself.
    fn is_kept(&self, chosen: &Chosen) -> bool {
        self.source == Source::Loadfile && !chosen.real
    }

    fn info(&self, clients: u32) -> TaskInfo {
        let name = if self.source == Source::Like { "dbench-like" } else { "dbench" };
        let title = format!("Clients of a file server: {clients}");
        task::info(name, title, [("clients", clients.to_string())])
    }
}

impl Workload for Dbench {
    fn def(&self) -> &'static WorkloadDef {
        self.def
    }

    fn outline(&self, job: &Job) -> Vec<TaskInfo> {
        Chosen::of(job).clients.into_iter().map(|clients| self.info(clients)).collect()
    }

    /// Reads the loadfile and looks at the limits, too: what cannot be played is told before anything is made.
    fn survey(&self, job: &Job) -> Result<Survey> {
        let chosen = Chosen::of(job);
        let program = self.program(job)?;
        chosen.clients.iter().try_for_each(|clients| program.check_clients(*clients))?;
        let census = Census::of(&program);
        if !chosen.real {
            limits::check(chosen.options.clients, chosen.options.mode, census.most_open)?;
        }
        let clients = u64::from(chosen.options.clients);
        let room = Room {
            // Twice the data: a filesystem that never overwrites keeps what was overwritten until it commits.
            bytes: 2 * clients * census.most_bytes,
            inodes: clients * (census.most_files + census.directories),
            other_bytes: if self.is_kept(&chosen) { compact::pack(&program).len() as u64 } else { 0 },
        };
        Ok(Survey { room, remarks: remarks(self.source, &chosen), ..Survey::default() })
    }

    fn programs(&self, job: &Job) -> Vec<&'static str> {
        if Chosen::of(job).real { vec!["dbench"] } else { vec![] }
    }

    /// Reads the loadfile once a run, and keeps it for the cells: a guest has no loadfile.
    fn inputs(&self, job: &Job, place: &Place) -> Result<()> {
        if self.is_kept(&Chosen::of(job)) {
            compact::write(&self.program(job)?, &kept(place))?;
        }
        Ok(())
    }

    fn steps(&self, job: &Job, place: &Place) -> Result<Vec<Task>> {
        let (chosen, root) = (&Chosen::of(job), &place.root.join("dbench"));
        // What plays, ready.
        let play: Box<dyn Fn(u32) -> Action> = if chosen.real {
            let (loadfile, of_5) = (self.loadfile(job)?, dbench_tool::is_of_5()?);
            Box::new(move |clients| dbench_tool::action(chosen, clients, &loadfile, of_5, root))
        } else {
            let kept = self.is_kept(chosen).then(|| compact::read(&kept(place))).transpose()?;
            let program = Arc::new(kept.map_or_else(|| self.program(job), Ok)?);
            Box::new(move |clients| {
                let options = Options { clients, ..chosen.options.clone() };
                let words = [self.def.id, &format!("{clients} clients"), &root.display().to_string()];
                let needed = (Arc::clone(&program), options, root.clone());
                Action::with(&needed, words, |(program, options, root)| {
                    Ok(dbench::play(program, options, root)?.found())
                })
            })
        };
        let task = |clients| {
            let work = play(clients);
            Task::new(self.info(clients), work)
                .after([Action::on("empty", root, |root| Ok(fresh_dir(root)?))])
        };
        Ok(shuffled(chosen.clients.clone(), job.seed, ORDER).into_iter().map(task).collect())
    }
}

/// What every report must say.
fn remarks(source: Source, chosen: &Chosen) -> Vec<Note> {
    let mut notes = vec![remark(who(source, chosen))];
    if !chosen.real {
        let what = if chosen.options.content == Content::Zeros { "zeros, as dbench does" } else { "noise" };
        notes.push(remark(format!("clients write {what}")));
    }
    if let Some(rate) = chosen.options.rate_mb_s {
        notes.push(remark(format!("each client is held to {rate} MB/s")));
    }
    let cached = "about 24 MB a client are read and written through the page cache: what reaches the device is what \
                  is synced (Flush) and what is written back meanwhile";
    notes.push(remark(cached));
    notes
}

/// Where the load of a loadfile is kept for the cells of a run.
fn kept(place: &Place) -> PathBuf {
    place.other.join("load")
}

fn who(source: Source, chosen: &Chosen) -> String {
    let [warm_up, seconds] = [chosen.options.warm_up, chosen.options.measured].map(|time| time.as_secs_f64());
    let threads = chosen.options.mode == dbench::ClientMode::Threads;
    let clients = if threads { "threads" } else { "processes" };
    match (chosen.real, source) {
        (false, Source::Loadfile) => {
            format!(
                "engine=native: fsarena played the loadfile by {clients}, {seconds} s after a warm-up of {warm_up} s"
            )
        }
        (false, Source::Like) => format!(
            "dbench-like is fsarena's own load with the statistics of dbench's: its figures cannot be compared with those of dbench; \
             by {clients}, {seconds} s after a warm-up of {warm_up} s"
        ),
        (true, _) => format!(
            "engine=dbench: the real dbench ran {} s after a warm-up of a fifth of that, and wrote zeros; its throughput \
             leaves out the last second",
            dbench_tool::whole_seconds(chosen)
        ),
    }
}
