//! The runner: rounds to events. It knows no filesystem, no workload and no display.

use crate::deciding::{self, Outlook};
use crate::executor::{Executor, Fatal};
use crate::forecast::forecast;
use crate::ledger::Ledger;
use crate::stopping::{Next, Stopping};
use fsarena_core::cell::{Cell, CellId, Variant};
use fsarena_core::event::{CellEvent, Departure, Event, Note, NoteKind, Outcome};
use fsarena_core::matrix;
use fsarena_core::plan::Plan;
use fsarena_core::record::RunRecord;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::time::{Duration, Instant};

/// Rounds after which it is forecast what the budget can resolve.
const PILOT: u32 = 3;
/// The budget that is forecast for where there is none, in seconds.
const USUAL_BUDGET_S: f64 = 600.0;

/// Takes every event; an error of it ends the run.
pub type Consumer<'a> = &'a mut dyn FnMut(&Event) -> Result<(), Fatal>;

/// What an earlier part of the same run has done.
#[derive(Debug, Default)]
pub struct Earlier {
    /// What the store knows of the run: claims look at the samples from there on. None where nothing is stored.
    pub record: Option<RunRecord>,
    /// Cells found finished in the store.
    pub finished: HashSet<CellId>,
    /// Variants that left the run.
    pub failed: BTreeMap<String, Departure>,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// As planned.
    Done,
    /// No variant was left: when and why each left.
    NothingLeft(BTreeMap<String, Departure>),
    /// By a signal.
    Interrupted,
}

/// Runs a plan: rounds in order, every live variant once a round, until the stopping rule says so.
///
/// # Errors
/// What makes every further cell pointless. All finished cells have been told to the consumer by then.
pub fn run(
    plan: &Plan,
    variants: &[Variant],
    tasks_per_cell: u32,
    earlier: Earlier,
    executor: &mut dyn Executor,
    consumer: Consumer,
) -> Result<(End, String), Fatal> {
    let Earlier { record, finished, failed } = earlier;
    // Nobody looks at the samples of a run that neither claims anything nor counts its time.
    let looked_at = !plan.claims.is_empty() || plan.stop.budget_s.is_some();
    let ledger = record.filter(|_| looked_at).map(Ledger::new);
    let mut runner =
        Runner { plan, variants, finished, failed, ledger, executor, consumer, told: HashSet::new() };
    runner.tell(Event::RunStarted {
        rounds: plan.stop.rounds,
        variants: variants.iter().map(|variant| variant.name.clone()).collect(),
        tasks_per_cell,
        already_done: runner.finished.len() as u32,
        budget_s: plan.stop.budget_s,
    })?;
    let (end, why) = runner.rounds()?;
    for note in runner.executor.remarks() {
        runner.tell(Event::Note(note))?;
    }
    runner.tell(Event::RunFinished { why: why.clone(), complete: end == End::Done })?;
    Ok((end, why))
}

struct Runner<'a> {
    plan: &'a Plan,
    variants: &'a [Variant],
    finished: HashSet<CellId>,
    failed: BTreeMap<String, Departure>,
    /// The samples so far, where somebody looks at them.
    ledger: Option<Ledger>,
    executor: &'a mut dyn Executor,
    consumer: Consumer<'a>,
    /// What was noted already. Circumstances hold for every cell; one note says so.
    told: HashSet<Note>,
}

impl Runner<'_> {
    fn tell(&mut self, event: Event) -> Result<(), Fatal> {
        if let Some(ledger) = &mut self.ledger {
            ledger.see(&event);
        }
        (self.consumer)(&event)
    }

    fn rounds(&mut self) -> Result<(End, String), Fatal> {
        let begun = Instant::now();
        let mut stopping = Stopping::new(&self.plan.stop);
        for number in self.first_round().. {
            // Asked first: variants that all fail in the last round leave no answer either.
            if self.variants.iter().all(|variant| self.failed.contains_key(&variant.name)) {
                return Ok((End::NothingLeft(self.failed.clone()), "every variant has failed".into()));
            }
            let outlook = self.outlook(number, begun.elapsed());
            let round = match stopping.next(number, begun.elapsed(), outlook.as_ref()) {
                Next::Round(round) => round,
                Next::Stop { why, .. } => return Ok((End::Done, why)),
            };
            let variants = outlook.map_or(self.live(round), |outlook| outlook.variants);
            let live: Vec<usize> = (0..self.variants.len())
                .filter(|&variant| variants.contains(&self.variants[variant].name))
                .collect();
            let started = Instant::now();
            if !self.round(round, &live)? {
                return Ok((End::Interrupted, "a signal ended it".into()));
            }
            stopping.round_took(started.elapsed());
            self.standing(round, begun.elapsed())?;
        }
        unreachable!("the stopping rule ends every run")
    }

    /// The variants that have not left the run before a round. One that failed in it has its place in the order
    /// of that round, also where the round is resumed.
    fn live(&self, round: u32) -> BTreeSet<String> {
        let names = self.variants.iter().map(|variant| variant.name.clone());
        names.filter(|name| self.failed.get(name).is_none_or(|failed| failed.round >= round)).collect()
    }

    /// A round that ran the variants of open claims only is not to be filled up by a later part of the run.
    fn first_round(&self) -> u32 {
        let deciding = self.ledger.as_ref().filter(|_| self.plan.stop.when_decided);
        deciding.map_or(0, Ledger::last_round)
    }

    /// How the claims stand, where they have a say in what is run.
    fn outlook(&self, round: u32, elapsed: Duration) -> Option<Outlook> {
        let ledger = self.ledger.as_ref().filter(|_| self.plan.stop.when_decided)?;
        let left_s = self.plan.stop.budget_s.map(|budget| budget - elapsed.as_secs_f64());
        Some(deciding::outlook(ledger, &self.live(round), round, left_s))
    }

    /// Says how the claims stand after a round, and after a pilot what the budget can resolve.
    fn standing(&mut self, round: u32, elapsed: Duration) -> Result<(), Fatal> {
        let Some(ledger) = &self.ledger else { return Ok(()) };
        let budget_s = self.plan.stop.budget_s.unwrap_or(USUAL_BUDGET_S);
        // A resumed run does not know how long the rounds of its first part took, and has told this already.
        let pilot = round + 1 == PILOT && self.finished.is_empty();
        let round_s = elapsed.as_secs_f64() / f64::from(PILOT);
        let forecast = pilot.then(|| forecast(ledger, round_s, budget_s)).flatten();
        if !self.plan.claims.is_empty() {
            let standing = deciding::standing(ledger);
            self.tell(Event::Claims { standing })?;
        }
        if let Some(text) = forecast {
            let note = format!("from a pilot of {PILOT} rounds: {text}");
            self.tell(Event::Forecast { text })?;
            self.tell(Event::Note(Note::new(NoteKind::Remark, note)))?;
        }
        Ok(())
    }

    /// Runs what is left of a round. False where a signal ended it.
    fn round(&mut self, round: u32, live: &[usize]) -> Result<bool, Fatal> {
        let cells = matrix::cells(self.plan, self.variants, live, round);
        if cells.iter().all(|cell| self.is_over(cell)) {
            return Ok(true);
        }
        let mut order: Vec<String> = cells.iter().map(|cell| cell.variant.name.clone()).collect();
        order.dedup();
        self.tell(Event::RoundStarted { round, order })?;
        for cell in cells {
            if self.is_over(&cell) {
                continue;
            }
            if fsarena_sys::cancel::requested().is_some() || !self.cell(cell)? {
                return Ok(false);
            }
        }
        self.tell(Event::RoundFinished { round })?;
        Ok(true)
    }

    /// Whether there is nothing to do for a cell: it has been run, or its variant has left.
    fn is_over(&self, cell: &Cell) -> bool {
        self.finished.contains(&cell.id()) || self.failed.contains_key(&cell.variant.name)
    }

    /// Runs one cell. False where a signal ended it.
    fn cell(&mut self, cell: Cell) -> Result<bool, Fatal> {
        let id = cell.id();
        self.tell(Event::CellStarted { cell: cell.clone() })?;
        let mut broken = None;
        let (consumer, told, ledger) = (&mut self.consumer, &mut self.told, &mut self.ledger);
        let mut emit = |mut what: CellEvent| {
            if let CellEvent::Note(note) = &mut what
                && note.kind == NoteKind::IdleTimeout
            {
                note.variant = Some(cell.variant.name.clone());
            }
            let repeats = match &what {
                CellEvent::Note(note) => note.kind != NoteKind::IdleTimeout && !told.insert(note.clone()),
                _ => false,
            };
            if broken.is_none() && !repeats {
                let event = Event::Cell { cell: id.clone(), what };
                if let Some(ledger) = ledger.as_mut() {
                    ledger.see(&event);
                }
                broken = consumer(&event).err();
            }
        };
        let outcome = self.executor.run(&cell, &mut emit)?;
        if let Some(error) = broken {
            return Err(error);
        }
        self.tell(Event::CellFinished { cell: id, outcome: outcome.clone() })?;
        match outcome {
            Outcome::Done => Ok(true),
            Outcome::Interrupted => Ok(false),
            Outcome::Failed { why, cause } => {
                let text = format!("failed in round {} and left the run: {why}", cell.round + 1);
                self.tell(Event::Note(Note::new(NoteKind::VariantFailed, text).variant(&cell.variant.name)))?;
                self.failed.insert(cell.variant.name, Departure { round: cell.round, why, cause });
                Ok(true)
            }
        }
    }
}
