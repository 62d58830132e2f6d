//! `coreutils`: the 21 tasks that Justin Piszcz timed in 2004 and 2006, with touch, find, rm, mkdir, cp,
//! tar, split, dd and cat.

mod layout;
mod remarks;
mod room;
mod settings;
mod tasks;

use crate::demands::Demands;
use crate::payload::Payload;
use crate::program::{self, Driver, Op, Reflink, clear_the_way};
use crate::source::compressible;
use crate::task::{Action, Before, Call, Error, Task};
use crate::workload::{Job, Place, Survey, Workload};
use fsarena_core::cell::{TaskId, TaskInfo};
use fsarena_core::sample::Readings;
use fsarena_core::setting::WorkloadDef;
use layout::{Layout, Sizes};
use settings::Chosen;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use tasks::{TaskDef, Thing};

/// The workload.
pub struct Coreutils;

impl Workload for Coreutils {
    fn def(&self) -> &'static WorkloadDef {
        &settings::DEF
    }

    fn outline(&self, job: &Job) -> Vec<TaskInfo> {
        let sizes = Sizes::of(job);
        Chosen::of(job).tasks.iter().map(|task| info(task, &sizes)).collect()
    }

    fn survey(&self, job: &Job) -> Result<Survey, Error> {
        let chosen = Chosen::of(job);
        let (contents, demands) = chosen.source.look()?;
        let room = room::needed(&chosen.tasks, &Sizes::of(job), &contents);
        let unpacked = tasks::with_suppliers(&chosen.tasks).iter().any(|task| task.makes == Thing::Tree);
        Ok(Survey {
            remarks: remarks::of(&chosen, &contents, room.bytes),
            demands: if unpacked { demands } else { Demands::default() },
            room,
        })
    }

    fn programs(&self, job: &Job) -> Vec<&'static str> {
        let chosen = Chosen::of(job);
        if chosen.driver == Driver::Native {
            return vec![];
        }
        // Only the names matter here: nothing is under this root.
        let (at, sizes) = (Layout::under(Path::new("/"), Path::new("/")), Sizes::of(job));
        let run = tasks::with_suppliers(&chosen.tasks);
        let programs: BTreeSet<_> = run.iter().map(|task| (task.op)(&at, &sizes).program()).collect();
        programs.into_iter().collect()
    }

    fn inputs(&self, job: &Job, place: &Place) -> Result<(), Error> {
        let chosen = Chosen::of(job);
        let at = Layout::under(&place.root, &place.other);
        // What the archive was made of stands beside it, written last: with it the archive is complete.
        let made_of = format!("{:?}\n", chosen.source);
        if std::fs::read_to_string(at.input_made_of()).is_ok_and(|of| of == made_of) && at.input().exists() {
            return Ok(());
        }
        let unfinished = at.input().with_extension("unfinished");
        let failed = |doing: &str| Error::io(format!("{doing} {}", unfinished.display()));
        let mut out = BufWriter::with_capacity(1 << 20, File::create(&unfinished).map_err(failed("create"))?);
        chosen.source.archive(&mut out)?;
        out.into_inner()
            .map_err(|e| e.into_error())
            .and_then(|file| file.sync_all())
            .map_err(failed("write"))?;
        std::fs::rename(&unfinished, at.input()).map_err(failed("rename"))?;
        let beside = at.input_made_of();
        std::fs::write(&beside, made_of).map_err(Error::io(format!("write {}", beside.display())))
    }

    fn steps(&self, job: &Job, place: &Place) -> Result<Vec<Task>, Error> {
        let chosen = Chosen::of(job);
        let maker = Maker {
            at: Layout::under(&place.root, &place.other),
            sizes: Sizes::of(job),
            chosen: &chosen,
            seed: job.seed,
            compressible: compressible(job),
        };
        let input = maker.at.input();
        if tasks::with_suppliers(&chosen.tasks).iter().any(|task| task.needs == Thing::Input)
            && !input.exists()
        {
            return Err(Error::Unfit(format!(
                "the archive {} is not there: it is made once a run",
                input.display()
            )));
        }
        let mut there = BTreeSet::from([Thing::Nothing, Thing::Input]);
        Ok(chosen.tasks.iter().map(|task| maker.task(task, &mut there)).collect())
    }

    fn may_clone(&self, job: &Job) -> bool {
        settings::Chosen::of(job).reflink == Reflink::Auto
    }
}

fn info(task: &TaskDef, sizes: &Sizes) -> TaskInfo {
    TaskInfo {
        id: TaskId::new(task.id),
        title: (task.title)(sizes),
        number: Some(format!("{:03}", task.number)),
        in_composite: true,
    }
}

/// Makes tasks of tasks.
struct Maker<'a> {
    at: Layout,
    sizes: Sizes,
    chosen: &'a Chosen,
    seed: u64,
    compressible: u8,
}

impl Maker<'_> {
    fn task(&self, task: &TaskDef, there: &mut BTreeSet<Thing>) -> Task {
        let mut prepare = Vec::new();
        self.supply(task.needs, there, &mut prepare);
        let op = (task.op)(&self.at, &self.sizes);
        prepare.extend(clear_the_way(&op));
        if task.uses_up {
            there.remove(&task.needs);
        }
        there.insert(task.makes);
        let cold = self.chosen.cold && task.needs != Thing::Nothing;
        Task {
            info: info(task, &self.sizes),
            before: if cold { Before::ColdCache } else { Before::Warm },
            prepare,
            work: vec![self.action(&op)],
        }
    }

    /// Untimed, makes what a task needs where the task that makes it was not chosen.
    fn supply(&self, thing: Thing, there: &mut BTreeSet<Thing>, prepare: &mut Vec<Action>) {
        if !there.insert(thing) {
            return;
        }
        match tasks::maker_of(thing) {
            Some(task) => {
                self.supply(task.needs, there, prepare);
                let op = (task.op)(&self.at, &self.sizes);
                prepare.extend(clear_the_way(&op));
                prepare.push(self.action(&op));
            }
            None => prepare.push(self.write_small()),
        }
    }

    fn action(&self, op: &Op) -> Action {
        program::action(op, self.chosen.driver, self.chosen.reflink)
    }

    /// Writes the file that is split. No task makes it.
    fn write_small(&self) -> Action {
        let (path, bytes) = (self.at.small(), self.sizes.small_bytes);
        let (seed, compressible) = (self.seed, self.compressible);
        Action::Call(Call::new([format!("write {bytes} bytes to {}", path.display())], move || {
            let mut contents = vec![0; bytes as usize];
            Payload::new(seed, compressible).fill(&mut contents);
            let mut file = File::create(&path).map_err(Error::io(format!("create {}", path.display())))?;
            file.write_all(&contents).map_err(Error::io(format!("write {}", path.display())))?;
            Ok(Readings::default())
        }))
    }
}
