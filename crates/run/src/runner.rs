//! The runner: blocks to events. It knows no filesystem, no workload and no display.

use crate::executor::{Executor, Fatal};
use crate::stopping::{Next, Stopping};
use fsarena_core::cell::{Arm, Cell, CellId};
use fsarena_core::event::{CellEvent, Event, Note, NoteKind, Outcome};
use fsarena_core::exit::Exits;
use fsarena_core::matrix;
use fsarena_core::plan::Plan;
use std::collections::{BTreeSet, HashSet};
use std::time::Instant;

/// Takes every event; an error of it ends the run.
pub type Consumer<'a> = &'a mut dyn FnMut(&Event) -> Result<(), Box<dyn Exits>>;

/// What an earlier part of the same run has done.
#[derive(Debug, Default)]
pub struct Earlier {
    /// Cells found finished in the store.
    pub finished: HashSet<CellId>,
    /// Arms that left the run.
    pub failed: BTreeSet<String>,
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// As planned.
    Done,
    /// No arm was left.
    NothingLeft,
    /// By a signal.
    Interrupted,
}

/// Runs a plan: blocks in order, every live arm once a block, until the stopping rule says so.
///
/// # Errors
/// What makes every further cell pointless. All finished cells have been told to the consumer by then.
pub fn run(
    plan: &Plan,
    arms: &[Arm],
    steps_per_cell: u32,
    earlier: Earlier,
    executor: &mut dyn Executor,
    consumer: Consumer,
) -> Result<End, Fatal> {
    let mut runner = Runner { plan, arms, earlier, executor, consumer, told: HashSet::new() };
    runner.tell(Event::RunStarted {
        blocks: plan.stop.blocks,
        arms: arms.iter().map(|arm| arm.name.clone()).collect(),
        steps_per_cell,
        already_done: runner.earlier.finished.len() as u32,
        budget_s: plan.stop.budget_s,
    })?;
    let (end, why) = runner.blocks()?;
    for note in runner.executor.remarks() {
        runner.tell(Event::Note(note))?;
    }
    runner.tell(Event::RunFinished { why, complete: end == End::Done })?;
    Ok(end)
}

struct Runner<'a> {
    plan: &'a Plan,
    arms: &'a [Arm],
    earlier: Earlier,
    executor: &'a mut dyn Executor,
    consumer: Consumer<'a>,
    /// What was noted already. Circumstances hold for every cell; one note says so.
    told: HashSet<Note>,
}

impl Runner<'_> {
    fn tell(&mut self, event: Event) -> Result<(), Fatal> {
        (self.consumer)(&event).map_err(Fatal::Consumer)
    }

    fn blocks(&mut self) -> Result<(End, String), Fatal> {
        let begun = Instant::now();
        let mut stopping = Stopping::new(&self.plan.stop);
        for number in 0.. {
            let live: Vec<usize> = (0..self.arms.len())
                .filter(|&arm| !self.earlier.failed.contains(&self.arms[arm].name))
                .collect();
            // Asked first: arms that all fail in the last block leave no answer either.
            if live.is_empty() {
                return Ok((End::NothingLeft, "every arm has failed".into()));
            }
            let block = match stopping.next(number, begun.elapsed()) {
                Next::Block(block) => block,
                Next::Stop { why, .. } => return Ok((End::Done, why)),
            };
            let started = Instant::now();
            if !self.block(block, &live)? {
                return Ok((End::Interrupted, "a signal ended it".into()));
            }
            stopping.block_took(started.elapsed());
        }
        unreachable!("the stopping rule ends every run")
    }

    /// Runs what is left of a block. False where a signal ended it.
    fn block(&mut self, block: u32, live: &[usize]) -> Result<bool, Fatal> {
        let cells = matrix::cells(self.plan, self.arms, live, block);
        if cells.iter().all(|cell| self.earlier.finished.contains(&cell.id())) {
            return Ok(true);
        }
        let mut order: Vec<String> = cells.iter().map(|cell| cell.arm.name.clone()).collect();
        order.dedup();
        self.tell(Event::BlockStarted { block, order })?;
        for cell in cells {
            if self.earlier.finished.contains(&cell.id()) || self.earlier.failed.contains(&cell.arm.name) {
                continue;
            }
            if fsarena_sys::cancel::requested().is_some() || !self.cell(cell)? {
                return Ok(false);
            }
        }
        self.tell(Event::BlockFinished { block })?;
        Ok(true)
    }

    /// Runs one cell. False where a signal ended it.
    fn cell(&mut self, cell: Cell) -> Result<bool, Fatal> {
        let id = cell.id();
        self.tell(Event::CellStarted { cell: cell.clone() })?;
        let mut broken = None;
        let (consumer, told) = (&mut self.consumer, &mut self.told);
        let mut emit = |mut what: CellEvent| {
            if let CellEvent::Note(note) = &mut what
                && note.kind == NoteKind::SettleTimeout
            {
                note.arm = Some(cell.arm.name.clone());
            }
            let repeats = match &what {
                CellEvent::Note(note) => note.kind != NoteKind::SettleTimeout && !told.insert(note.clone()),
                _ => false,
            };
            if broken.is_none() && !repeats {
                broken = consumer(&Event::Cell { cell: id.clone(), what }).err();
            }
        };
        let outcome = self.executor.run(&cell, &mut emit)?;
        if let Some(error) = broken {
            return Err(Fatal::Consumer(error));
        }
        self.tell(Event::CellFinished { cell: id, outcome: outcome.clone() })?;
        match outcome {
            Outcome::Done => Ok(true),
            Outcome::Interrupted => Ok(false),
            Outcome::Failed { why } => {
                let text = format!("failed in block {} and left the run: {why}", cell.block + 1);
                self.tell(Event::Note(Note::new(NoteKind::ArmFailed, text).arm(&cell.arm.name)))?;
                self.earlier.failed.insert(cell.arm.name);
                Ok(true)
            }
        }
    }
}
