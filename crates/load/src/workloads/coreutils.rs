//! `coreutils`: the 21 tasks that Justin Piszcz timed in 2004 and 2006, with touch, find, rm, mkdir, cp,
//! tar, split, dd and cat.

mod room;
mod settings;
mod tasks;

use crate::program::{self, clear_the_way};
use crate::task::{self, Action, Before, Call, Error, Result, Task};
use crate::workload::{Job, Place, Survey, Workload};
use crate::{demands::Demands, error::at, payload::Payload, source::compressible};
use fsarena_core::{cell::TaskInfo, setting::WorkloadDef};
use settings::Chosen;
use std::collections::BTreeSet;
use tasks::{SMALL, Sizes, TARBALL, TaskDef, Thing};

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

    fn survey(&self, job: &Job) -> Result<Survey> {
        let chosen = Chosen::of(job);
        let (contents, demands) = chosen.source.look()?;
        let room = room::needed(&chosen.tasks, &Sizes::of(job), &contents);
        let unpacked = tasks::with_suppliers(&chosen.tasks).iter().any(|task| task.makes == Thing::Tree);
        let demands = if unpacked { demands } else { Demands::default() };
        Ok(Survey { room, demands, remarks: chosen.remarks(&contents, room.bytes), ..Survey::default() })
    }

    fn programs(&self, job: &Job) -> Vec<&'static str> {
        let chosen = Chosen::of(job);
        if chosen.driver.native {
            return vec![];
        }
        // Only the names matter here: nothing is under this root.
        let (at, sizes) = (Place { root: "/".into(), other: "/".into(), server_user: None }, Sizes::of(job));
        let run = tasks::with_suppliers(&chosen.tasks);
        let programs: BTreeSet<_> = run.iter().map(|task| (task.op)(&at, &sizes).program()).collect();
        programs.into_iter().collect()
    }

    fn inputs(&self, job: &Job, place: &Place) -> Result<()> {
        let chosen = Chosen::of(job);
        let input = place.other.join(TARBALL);
        // What the archive was made of stands beside it, written last: with it the archive is complete.
        let (beside, made_of) = (input.with_extension("tar.made-of"), format!("{:?}\n", chosen.source));
        if std::fs::read_to_string(&beside).is_ok_and(|of| of == made_of) && input.exists() {
            return Ok(());
        }
        let unfinished = input.with_extension("unfinished");
        let written = chosen.source.archive_to(&unfinished)?;
        written.sync_all().map_err(at("write", &unfinished))?;
        std::fs::rename(&unfinished, input).map_err(at("rename", &unfinished))?;
        std::fs::write(&beside, made_of).map_err(at("write", &beside))
    }

    fn steps(&self, job: &Job, place: &Place) -> Result<Vec<Task>> {
        let chosen = Chosen::of(job);
        let maker = Maker { at: place, sizes: Sizes::of(job), chosen: &chosen, job };
        let (input, all) = (place.other.join(TARBALL), tasks::with_suppliers(&chosen.tasks));
        if all.iter().any(|task| task.needs == Thing::Input) && !input.exists() {
            let why = format!("the archive {} is not there: it is made once a run", input.display());
            return Err(Error::Unfit(why));
        }
        let mut there = BTreeSet::from([Thing::Nothing, Thing::Input]);
        Ok(chosen.tasks.iter().map(|task| maker.task(task, &mut there)).collect())
    }

    fn may_clone(&self, job: &Job) -> bool {
        Chosen::of(job).driver.clones
    }
}

fn info(task: &TaskDef, sizes: &Sizes) -> TaskInfo {
    TaskInfo { number: Some(format!("{:03}", task.number)), ..task::info(task.id, task.title(sizes), []) }
}

/// Makes the tasks of a cell of their definitions.
struct Maker<'a> {
    at: &'a Place,
    sizes: Sizes,
    chosen: &'a Chosen,
    job: &'a Job,
}

impl Maker<'_> {
    fn task(&self, task: &TaskDef, there: &mut BTreeSet<Thing>) -> Task {
        let mut prepare = Vec::new();
        self.supply(task.needs, there, &mut prepare);
        let work = self.ready(task, &mut prepare);
        if task.uses_up {
            there.remove(&task.needs);
        }
        there.insert(task.makes);
        let cold = self.chosen.cold && task.needs != Thing::Nothing;
        let before = if cold { Before::ColdCache } else { Before::Warm };
        Task { before, prepare, ..Task::new(info(task, &self.sizes), work) }
    }

    /// Untimed, makes what a task needs where the task that makes it was not chosen.
    fn supply(&self, thing: Thing, there: &mut BTreeSet<Thing>, prepare: &mut Vec<Action>) {
        if !there.insert(thing) {
            return;
        }
        match tasks::maker_of(thing) {
            Some(task) => {
                self.supply(task.needs, there, prepare);
                let work = self.ready(task, prepare);
                prepare.push(work);
            }
            None => prepare.push(self.write_small()),
        }
    }

    /// The work of a task, once the way is clear.
    fn ready(&self, task: &TaskDef, prepare: &mut Vec<Action>) -> Action {
        let op = (task.op)(self.at, &self.sizes);
        prepare.extend(clear_the_way(&op));
        program::action(&op, self.chosen.driver)
    }

    /// Writes the file that is split. No task makes it.
    fn write_small(&self) -> Action {
        let (path, bytes) = (self.at.root.join(SMALL), self.sizes.small_bytes);
        let (seed, compressible) = (self.job.seed, compressible(self.job));
        Action::Call(Call::new([format!("write {bytes} bytes to {}", path.display())], move || {
            let mut contents = vec![0; bytes as usize];
            Payload::new(seed, compressible).fill(&mut contents);
            std::fs::write(&path, &contents).map_err(at("write", &path))
        }))
    }
}
