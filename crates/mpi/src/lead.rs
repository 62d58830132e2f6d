//! Rank 0 leads: it checks that all ranks can work, and has them do the cells of a run together.

use crate::message::{FromRank, ToRank};
use crate::{cell, ranks::Ranks, wire};
use fsarena_core::event::{CellEvent, Note, Outcome};
use fsarena_core::{cell::Variant, factor, plan::Plan};
use fsarena_run::axes::{AXES, Confine};
use fsarena_run::{RunError, executor::RunSink};
use fsarena_run::{dir::Clients, protocol::Request};
use fsarena_sys::{Error, undo::Journal};
use std::{fs::File, path::PathBuf};

impl Clients for Ranks {
    fn count(&self) -> u32 {
        self.wire.size()
    }

    fn facts(&self) -> Vec<(String, String)> {
        let machines: Vec<&str> =
            self.leaders.iter().map(|rank| self.machines[*rank as usize].host.as_str()).collect();
        vec![("clients".into(), self.count().to_string()), ("client_machines".into(), machines.join(", "))]
    }

    fn begin(&mut self, plan: &Plan, variants: &[Variant], _tell: RunSink) -> Result<(), RunError> {
        variants.iter().try_for_each(sets_no_machine)?;
        let dirs = variants.iter().map(|variant| PathBuf::from(variant.level(factor::DIR)));
        see_the_same(self, dirs.chain(plan.device.other_dir.clone()))
    }

    fn work(
        &mut self,
        journal: &Journal,
        request: &Request,
        confine: &Confine,
        emit: &mut dyn FnMut(CellEvent),
    ) -> Result<Outcome, RunError> {
        self.set_clocks();
        for rank in self.others() {
            let request = Box::new(self.request(request, rank));
            wire::ask(&*self.wire, rank, &ToRank::Cell(request, self.patience));
        }
        cell::run(self, journal, request, confine, emit)
    }

    fn remarks(&self) -> Vec<Note> {
        self.seen.remarks()
    }
}

/// Refuses a variant that would change the machine of rank 0 and no other.
fn sets_no_machine(variant: &Variant) -> Result<(), RunError> {
    let of_all = [factor::CLIENTS, factor::FURTHER_IDLE];
    let mut ids = AXES.iter().map(|axis| axis.def.id);
    ids.find(|id| !of_all.contains(id) && !variant.level(id).is_empty()).map_or(Ok(()), |id| {
        Err(RunError::Plan(format!(
            "variant {}: `{id}` would be set on the machine of rank 0 alone; leave it out",
            variant.name
        )))
    })
}

/// Checks that these directories are the same ones on all machines: each rank sees a file that this rank makes.
fn see_the_same(ranks: &Ranks, dirs: impl Iterator<Item = PathBuf>) -> Result<(), RunError> {
    let mut marks = vec![];
    let made =
        dirs.map(|dir| dir.join(format!("fsarena-mark-{}", std::process::id()))).try_for_each(|mark| {
            if !marks.contains(&mark) {
                // Anybody may write to a shared directory: what is there already, a link even, is not followed.
                File::create_new(&mark).map_err(Error::io("making", &mark))?;
                marks.push(mark);
            }
            Ok::<_, Error>(())
        });
    ranks.ask_all(ranks.others(), &ToRank::Look(marks.clone()));
    let looked = ranks.await_all(|from, message| match message {
        FromRank::Looked(Some(fault)) => Err(RunError::Plan(format!(
            "{} does not see what rank 0 made, {fault}; name a directory of a filesystem that all machines share",
            ranks.name(from)
        ))),
        _ => Ok(()),
    });
    marks.iter().for_each(|mark| drop(std::fs::remove_file(mark)));
    made.map_err(RunError::from).and(looked)
}
