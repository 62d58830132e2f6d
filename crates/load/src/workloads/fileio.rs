//! File I/O by mode, block size and number of threads: each combination is a task.
//!
//! Semantics are those of sysbench's fileio: a set of equal files, one sequential cursor that all threads
//! share, a sync of every file after each N writes, and a final sync by each thread. Each task runs until it is
//! steady. The seed of the round shuffles the tasks of a cell.

pub mod settings;
#[cfg(test)]
mod tests;

use super::{fio, sysbench};
use crate::task::{self, Action, Before, Call, Error, Result, Task};
use crate::workload::{Job, Place, Room, Survey, Workload, fairness, remark};
use crate::{demands::Demands, error::at, pace::shuffled};
use fsarena_core::{cell::TaskInfo, event::Note, metric::reading, sample::TaskOutput, setting::WorkloadDef};
use fsarena_engine::{FileSpec, Files, dio_align};
use settings::{Cell, Chosen, FileIo, Tool};
use std::path::PathBuf;

/// What the seed of a round is mixed with for the order of its tasks.
const ORDER: u64 = 0x0D3E;

/// By fsarena's own load engine.
pub const FILEIO: FileIo = FileIo {
    def: &WorkloadDef {
        id: "fileio",
        help: "direct or buffered reads and writes by mode, block size and threads, as sysbench fileio does them",
        metrics: settings::METRICS,
        settings: &settings::settings("native"),
    },
};

impl Workload for FileIo {
    fn def(&self) -> &'static WorkloadDef {
        self.def
    }

    fn outline(&self, job: &Job) -> Vec<TaskInfo> {
        Chosen::of(job).cells.into_iter().map(info).collect()
    }

    fn survey(&self, job: &Job) -> Result<Survey> {
        let chosen = Chosen::of(job);
        let demands = Demands { direct_io: chosen.direct, ..Demands::default() };
        // Twice the data: a filesystem that never overwrites keeps what was overwritten until it commits.
        let room = Room { bytes: 2 * chosen.total_bytes(), inodes: u64::from(chosen.files), other_bytes: 0 };
        Ok(Survey { room, remarks: remarks(&chosen), demands, ..Survey::default() })
    }

    fn programs(&self, job: &Job) -> Vec<&'static str> {
        match Chosen::of(job).tool {
            Tool::Native => vec![],
            Tool::Sysbench => vec!["sysbench"],
            Tool::Fio => vec!["fio"],
        }
    }

    fn supports_raw(&self) -> bool {
        true
    }

    fn steps(&self, job: &Job, place: &Place) -> Result<Vec<Task>> {
        let mut maker = Maker { chosen: Chosen::of(job), ground: Ground::of(place)?, whole: None };
        let order = shuffled(maker.chosen.cells.clone(), job.seed, ORDER);
        Ok(order.into_iter().map(|cell| maker.task(cell)).collect())
    }
}

/// What every report must say.
fn remarks(chosen: &Chosen) -> Vec<Note> {
    let (files, each) = (chosen.files, chosen.file_bytes >> 10);
    let what = if chosen.content == fsarena_engine::Content::Zeros { "zeros" } else { "noise" };
    let sync = match chosen.fsync_every {
        0 => "no syncs between writes".into(),
        writes => format!("all synced after every {writes} writes"),
    };
    let files = format!("{files} files of {each} KiB filled with {what}, {sync}");
    let mut notes = vec![remark(tool(chosen)), remark(files)];
    if !chosen.direct {
        let text = "direct=false: files go through the page cache, so reads of files that fit into memory never reach the device";
        notes.push(fairness(text).fix("--set direct=true"));
    }
    notes
}

fn tool(chosen: &Chosen) -> String {
    match chosen.tool {
        Tool::Native => format!(
            "engine=native: each task ended when MSER-5 and the SNIA rule called it steady, after {} s at the latest; the warm-up is left out",
            chosen.seconds
        ),
        Tool::Sysbench => format!(
            "engine=sysbench: the real sysbench ran {} s for each task, without a warm-up, and wrote zeros",
            sysbench::whole_seconds(chosen)
        ),
        Tool::Fio => "engine=fio: the real fio ran. Each thread has its own sequential cursor, and only the file just written to is synced: both unlike sysbench".into(),
    }
}

fn info(Cell { mode, block, threads }: Cell) -> TaskInfo {
    task::info(mode.name, mode.title, [("bs", block.to_string()), ("threads", threads.to_string())])
}

/// What the load runs on: a directory, or a bare device.
#[derive(Debug, Clone)]
struct Ground {
    path: PathBuf,
    is_device: bool,
    /// The alignment that direct I/O needs there, in bytes.
    align: u32,
}

impl Ground {
    fn of(place: &Place) -> Result<Ground> {
        let (path, is_device) = (place.root.clone(), place.is_device());
        if is_device {
            return Ok(Ground { align: dio_align(&path), path, is_device });
        }
        // Only a file tells: the alignment is that of the filesystem and its device together.
        let probe = path.join("alignment");
        std::fs::write(&probe, "").map_err(at("write", &probe))?;
        let align = dio_align(&probe);
        std::fs::remove_file(&probe).map_err(at("remove", &probe))?;
        Ok(Ground { path, is_device, align })
    }

    /// Why a task cannot be done here.
    fn refuses(&self, chosen: &Chosen, cell: Cell) -> Option<String> {
        if chosen.direct && !cell.block.is_multiple_of(self.align) {
            return Some(format!(
                "left out: blocks of {} bytes, because direct I/O here goes by multiples of {} bytes (statx DIOALIGN)",
                cell.block, self.align
            ));
        }
        (self.is_device && chosen.tool == Tool::Sysbench)
            .then(|| "left out: the bare device, because sysbench drives regular files only".into())
    }

    /// The files, or the part of the device, without making anything.
    fn files(&self, chosen: &Chosen) -> Result<Files> {
        Ok(match self.is_device {
            false => Files::planned(&self.path, chosen.files, chosen.file_bytes),
            true => Files::device_start(&self.path, chosen.total_bytes())?,
        })
    }
}

/// Makes tasks of cells, in the order in which they will be done.
struct Maker {
    chosen: Chosen,
    ground: Ground,
    /// What the files are at that point: nothing usable, or whole with verified blocks of a size, 0 for
    /// none.
    whole: Option<u32>,
}

impl Maker {
    fn task(&mut self, cell: Cell) -> Task {
        if let Some(why) = self.ground.refuses(&self.chosen, cell) {
            let refuse = Call::new(["left", "out"], move || Err::<TaskOutput, _>(Error::LeftOut(why)));
            let prepare = vec![Action::Call(refuse)];
            return Task { info: info(cell), before: Before::Warm, prepare, work: vec![] };
        }
        let prepare = self.prepare(cell);
        let (chosen, ground) = (&self.chosen, &self.ground);
        let work = match chosen.tool {
            Tool::Native => self.native(cell),
            Tool::Sysbench => sysbench::action(chosen, cell, &ground.path),
            Tool::Fio => fio::action(chosen, cell, &ground.path, ground.is_device),
        };
        Task::new(info(cell), work).after(prepare)
    }

    /// Untimed, brings about the files that a cell starts from.
    fn prepare(&mut self, cell: Cell) -> Option<Action> {
        let (has, is_device) = (self.whole, self.ground.is_device);
        if cell.mode.recreates() && !is_device {
            self.whole = None;
            return Some(self.call("remove", |ground, chosen| Ok(ground.files(chosen)?.remove()?)));
        }
        let verify = if self.chosen.verify && !is_device { cell.block } else { 0 };
        let fits = if cell.mode.writes { has.is_some() } else { has == Some(verify) };
        // Writes leave blocks behind that have no checksum.
        let spoils = cell.mode.writes && self.chosen.verify;
        self.whole = if fits { has } else { Some(verify) }.filter(|_| !spoils);
        let fill =
            move |ground: &Ground, chosen: &Chosen| fill(ground, chosen, (verify > 0).then_some(verify));
        (!fits).then(|| self.call("fill", fill))
    }

    fn native(&self, cell: Cell) -> Action {
        let job = self.chosen.job(cell, self.ground.is_device);
        self.call(&info(cell).id.to_string(), move |ground, chosen| {
            let outcome = fsarena_engine::run(&job, &ground.files(chosen)?, &mut |_| {})?;
            let mut found = outcome.found();
            if job.verify {
                // Also where that is none.
                found.readings.set(reading::VERIFIED, outcome.verified_blocks as f64);
            }
            Ok(found)
        })
    }

    fn call<F: Into<TaskOutput>>(
        &self,
        what: &str,
        run: impl FnOnce(&Ground, &Chosen) -> Result<F> + Send + 'static,
    ) -> Action {
        let (ground, chosen) = (&self.ground, &self.chosen);
        let on = ground.path.display().to_string();
        let words = [what.to_string(), format!("{} files of {} bytes", chosen.files, chosen.file_bytes), on];
        Action::with(&(ground.clone(), chosen.clone()), words, |(ground, chosen)| run(ground, chosen))
    }
}

/// Writes every byte that a task will read, because reads of unwritten extents never reach the device.
fn fill(ground: &Ground, chosen: &Chosen, verify_block: Option<u32>) -> Result<()> {
    if ground.is_device {
        fsarena_engine::run(&chosen.filling(), &ground.files(chosen)?, &mut |_| {})?;
    } else {
        let Chosen { files: count, file_bytes: bytes, content, seed, .. } = *chosen;
        Files::prepare(&ground.path, &FileSpec { count, bytes, content, seed, verify_block })?;
    }
    Ok(())
}
