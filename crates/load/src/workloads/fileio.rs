//! File I/O by mode, block size and number of threads: each combination is a task.
//!
//! Semantics are those of sysbench's fileio: a set of equal files, one sequential cursor that all threads
//! share, a sync of every file after each N writes, and a final sync by each thread. Each task runs until it is
//! steady. The seed of the round shuffles the tasks of a cell.

mod native;
pub mod settings;
#[cfg(test)]
mod tests;

use super::{fio, sysbench};
use crate::demands::Demands;
use crate::task::{Action, Before, Call, Error, Task};
use crate::workload::{Job, Place, Room, Survey, Workload};
use fsarena_core::cell::{TaskId, TaskInfo};
use fsarena_core::event::{Note, NoteKind};
use fsarena_core::metric::reading;
use fsarena_core::sample::Found;
use fsarena_core::schedule::mix;
use fsarena_core::setting::WorkloadDef;
use fsarena_engine::{FileSpec, Files, dio_align};
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha12Rng;
use settings::{Cell, Chosen, Tool};
use std::path::{Path, PathBuf};

/// What the seed of a round is mixed with for the order of its tasks.
const ORDER: u64 = 0x0D3E;

/// The workload; by which tool unless a plan says otherwise, its definition tells.
pub struct FileIo {
    /// Its name, help and settings.
    pub def: &'static WorkloadDef,
}

/// By fsarena's own load engine.
pub const FILEIO: FileIo = FileIo {
    def: &WorkloadDef {
        id: "fileio",
        help: "direct or buffered reads and writes by mode, block size and threads, as sysbench fileio does them",
        settings: &settings::settings("native"),
    },
};

impl Workload for FileIo {
    fn def(&self) -> &'static WorkloadDef {
        self.def
    }

    fn forget_clients(&self, task: &mut TaskId) {
        task.params.remove("threads");
    }

    fn outline(&self, job: &Job) -> Vec<TaskInfo> {
        Chosen::of(job).cells.iter().map(info).collect()
    }

    fn survey(&self, job: &Job) -> Result<Survey, Error> {
        let demands = Demands { direct_io: Chosen::of(job).direct, ..Demands::default() };
        Ok(Survey { room: room(job), remarks: remarks(job), demands })
    }

    fn programs(&self, job: &Job) -> Vec<&'static str> {
        match Chosen::of(job).tool {
            Tool::Native => vec![],
            Tool::Sysbench => vec!["sysbench"],
            Tool::Fio => vec!["fio"],
        }
    }

    fn inputs(&self, _: &Job, _: &Place) -> Result<(), Error> {
        Ok(())
    }

    /// It runs for as long as it takes to be steady, or as it is told: its time says nothing.
    fn metrics(&self) -> &'static [&'static str] {
        &["iops"]
    }

    fn supports_raw(&self) -> bool {
        true
    }

    fn steps(&self, job: &Job, place: &Place) -> Result<Vec<Task>, Error> {
        let mut maker = Maker { chosen: Chosen::of(job), ground: Ground::of(place)?, whole: None };
        let mut order = maker.chosen.cells.clone();
        order.shuffle(&mut ChaCha12Rng::seed_from_u64(mix(job.seed, ORDER)));
        Ok(order.into_iter().map(|cell| maker.task(cell)).collect())
    }
}

/// The room of the work.
fn room(job: &Job) -> Room {
    let chosen = Chosen::of(job);
    // Twice the data: a filesystem that never overwrites keeps what was overwritten until it commits.
    Room { bytes: 2 * chosen.total_bytes(), inodes: u64::from(chosen.files), other_bytes: 0 }
}

/// What every report must say.
fn remarks(job: &Job) -> Vec<Note> {
    let chosen = Chosen::of(job);
    let mut notes = vec![tool(&chosen), payload(&chosen)];
    if !chosen.direct {
        let text = "direct=false: files go through the page cache, so reads of files that fit into memory never reach the device";
        notes.push(Note::new(NoteKind::Fairness, text).fix("--set direct=true"));
    }
    notes
}

fn tool(chosen: &Chosen) -> Note {
    let text = match chosen.tool {
        Tool::Native => format!(
            "engine=native: each task ended when MSER-5 and the SNIA rule called it steady, after {} s at the latest; the warm-up is left out",
            chosen.seconds
        ),
        Tool::Sysbench => format!(
            "engine=sysbench: the real sysbench ran {} s for each task, without a warm-up, and wrote zeros",
            sysbench::whole_seconds(chosen)
        ),
        Tool::Fio => "engine=fio: the real fio ran. Each thread has its own sequential cursor, and only the file just written to is synced: both unlike sysbench".into(),
    };
    Note::new(NoteKind::Remark, text)
}

fn payload(chosen: &Chosen) -> Note {
    let (files, each) = (chosen.files, chosen.file_bytes >> 10);
    let what = if chosen.content == fsarena_engine::Content::Zeros { "zeros" } else { "noise" };
    let sync = match chosen.fsync_every {
        0 => "no syncs between writes".into(),
        writes => format!("all synced after every {writes} writes"),
    };
    Note::new(NoteKind::Remark, format!("{files} files of {each} KiB filled with {what}, {sync}"))
}

fn info(cell: &Cell) -> TaskInfo {
    let params = [("bs", cell.block), ("threads", cell.threads)];
    TaskInfo {
        id: TaskId {
            name: cell.mode.name.into(),
            params: params.map(|(name, value)| (name.to_string(), value.to_string())).into(),
        },
        title: cell.mode.title.into(),
        number: None,
        in_composite: true,
    }
}

/// What the load runs on.
#[derive(Debug, Clone)]
enum Ground {
    /// A directory, and the alignment that direct I/O needs there, in bytes.
    Directory { path: PathBuf, align: u32 },
    /// A bare device.
    Device { path: PathBuf, align: u32 },
}

impl Ground {
    fn of(place: &Place) -> Result<Ground, Error> {
        let path = place.root.clone();
        if place.is_device() {
            let align = dio_align(&path);
            return Ok(Ground::Device { path, align });
        }
        // Only a file tells: the alignment is that of the filesystem and its device together.
        let probe = path.join("alignment");
        std::fs::write(&probe, "").map_err(Error::io(format!("write {}", probe.display())))?;
        let align = dio_align(&probe);
        std::fs::remove_file(&probe).map_err(Error::io(format!("remove {}", probe.display())))?;
        Ok(Ground::Directory { path, align })
    }

    fn path(&self) -> &Path {
        match self {
            Ground::Directory { path, .. } | Ground::Device { path, .. } => path,
        }
    }

    fn is_device(&self) -> bool {
        matches!(self, Ground::Device { .. })
    }

    /// Why a task cannot be done here.
    fn refuses(&self, chosen: &Chosen, cell: Cell) -> Option<String> {
        let (Ground::Directory { align, .. } | Ground::Device { align, .. }) = *self;
        if chosen.direct && !cell.block.is_multiple_of(align) {
            return Some(format!(
                "left out: blocks of {} bytes, because direct I/O here goes by multiples of {align} bytes (statx DIOALIGN)",
                cell.block
            ));
        }
        (self.is_device() && chosen.tool == Tool::Sysbench)
            .then(|| "left out: the bare device, because sysbench drives regular files only".into())
    }

    /// The files, or the part of the device, without making anything.
    fn files(&self, chosen: &Chosen) -> Result<Files, Error> {
        Ok(match self {
            Ground::Directory { path, .. } => Files::planned(path, chosen.files, chosen.file_bytes),
            Ground::Device { path, .. } => Files::device_start(path, chosen.total_bytes())?,
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
            let refuse = Call::new(["left", "out"], move || Err::<Found, _>(Error::LeftOut(why)));
            return Task {
                info: info(&cell),
                before: Before::Warm,
                prepare: vec![Action::Call(refuse)],
                work: vec![],
            };
        }
        let prepare = self.prepare(cell).into_iter().collect();
        let work = vec![match self.chosen.tool {
            Tool::Native => self.native(cell),
            Tool::Sysbench => sysbench::action(&self.chosen, cell, self.ground.path()),
            Tool::Fio => fio::action(&self.chosen, cell, self.ground.path(), self.ground.is_device()),
        }];
        Task { info: info(&cell), before: Before::Warm, prepare, work }
    }

    /// Untimed, brings about the files that a cell starts from.
    fn prepare(&mut self, cell: Cell) -> Option<Action> {
        let has = self.whole;
        if cell.mode.recreates() && !self.ground.is_device() {
            self.whole = None;
            return Some(self.call("remove", |ground, chosen| remove(&ground.files(chosen)?)));
        }
        let verify = if self.chosen.verify && !self.ground.is_device() { cell.block } else { 0 };
        if cell.mode.writes {
            // Writes leave blocks behind that have no checksum.
            self.whole = has.filter(|_| !self.chosen.verify);
            if has.is_some() {
                return None;
            }
        } else if has == Some(verify) {
            return None;
        }
        self.whole = Some(verify).filter(|_| !(cell.mode.writes && self.chosen.verify));
        Some(self.call("fill", move |ground, chosen| fill(ground, chosen, (verify > 0).then_some(verify))))
    }

    fn native(&self, cell: Cell) -> Action {
        let job = native::job(&self.chosen, cell, self.ground.is_device());
        self.call(&info(&cell).id.to_string(), move |ground, chosen| {
            let outcome = fsarena_engine::run(&job, &ground.files(chosen)?, &mut |_| {})?;
            let mut found = outcome.found();
            if job.verify {
                // Also where that is none.
                found.readings.set(reading::VERIFIED, outcome.verified_blocks as f64);
            }
            Ok(found)
        })
    }

    fn call(
        &self,
        what: &str,
        run: impl FnOnce(&Ground, &Chosen) -> Result<Found, Error> + Send + 'static,
    ) -> Action {
        let (ground, chosen) = (self.ground.clone(), self.chosen.clone());
        let on = ground.path().display().to_string();
        let words = [what.to_string(), format!("{} files of {} bytes", chosen.files, chosen.file_bytes), on];
        Action::Call(Call::new(words, move || run(&ground, &chosen)))
    }
}

/// Removes the files that are there.
fn remove(files: &Files) -> Result<Found, Error> {
    for path in files.paths().iter().filter(|path| path.exists()) {
        std::fs::remove_file(path).map_err(Error::io(format!("remove {}", path.display())))?;
    }
    Ok(Found::default())
}

/// Writes every byte that a task will read, because reads of unwritten extents never reach the device.
fn fill(ground: &Ground, chosen: &Chosen, verify_block: Option<u32>) -> Result<Found, Error> {
    match ground {
        Ground::Directory { path, .. } => {
            let spec = FileSpec {
                count: chosen.files,
                bytes: chosen.file_bytes,
                content: chosen.content,
                seed: chosen.seed,
                verify_block,
            };
            Files::prepare(path, &spec)?;
        }
        Ground::Device { .. } => {
            fsarena_engine::run(&native::filling(chosen), &ground.files(chosen)?, &mut |_| {})?;
        }
    }
    Ok(Found::default())
}
