//! The runner: rounds to events. It knows no filesystem, no workload and no display.

use crate::claim_forecast::{self, ClaimForecast, Names, quickest};
use crate::error::{Result, RunError};
use crate::executor::Executor;
use crate::stopping::{Fit, Stopping, Work, forecast, format_duration, rounds_among, rounds_for_an_answer};
use crate::{elimination, printed, recorder::Recorder, settings::setting};
use fsarena_core::cell::{Cell, Variant};
use fsarena_core::event::{Cause, CellEvent, Event, Note, NoteKind, Outcome, VariantExit};
use fsarena_core::{matrix, plan::Plan, state::RunState};
use fsarena_sys::cancel;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Rounds after which the runner forecasts the smallest detectable difference.
const PILOT: u32 = 3;
/// The budget to forecast for if the plan has none, in seconds.
const USUAL_BUDGET_S: f64 = 600.0;

/// The variants that the pilot of a search tries whatever they take.
const ALWAYS: usize = 3;

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunEnd {
    /// As planned.
    Done,
    /// No variant was left: when and why each left.
    NothingLeft(BTreeMap<String, VariantExit>),
    /// By a signal.
    Interrupted,
}

/// Runs a plan: rounds in order, every live variant once per round, until the stopping rule ends the run.
///
/// # Errors
/// A failure that makes every further cell pointless. The recorder already has all finished cells.
pub fn run(
    plan: &Plan,
    variants: &[Variant],
    tasks_per_cell: u32,
    executor: &mut dyn Executor,
    recorder: &mut Recorder,
) -> Result<(RunEnd, String)> {
    if let Some(fault) = elimination::check_search(plan, variants) {
        return Err(RunError::Plan(fault.into()));
    }
    let already_done = recorder.state.record.cells.len() as u32;
    let (begun, resumed) = (Instant::now(), already_done > 0);
    let mut runner = Runner { plan, variants, resumed, begun, executor, recorder };
    runner.recorder.tell(Event::RunStarted {
        rounds: plan.stop.warmup_here() + plan.stop.rounds_here(),
        variants: variants.iter().map(|variant| variant.name.clone()).collect(),
        tasks_per_cell,
        already_done,
        budget_s: plan.stop.budget_s,
    })?;
    let (end, why) = runner.rounds()?;
    for note in runner.executor.remarks() {
        runner.recorder.tell(Event::Note(note))?;
    }
    runner.recorder.tell(Event::RunFinished { why: why.clone(), complete: end == RunEnd::Done })?;
    Ok((end, why))
}

/// The fix for a variant that is not compared because the budget is too short.
fn larger_budget() -> String {
    format!("a larger {}", setting("budget", ""))
}

struct Runner<'a, 'b, 'c> {
    plan: &'a Plan,
    variants: &'a [Variant],
    /// Whether an earlier part of the run has measured cells.
    resumed: bool,
    begun: Instant,
    executor: &'a mut dyn Executor,
    recorder: &'a mut Recorder<'b, 'c>,
}

impl Runner<'_, '_, '_> {
    fn state(&self) -> &RunState {
        &self.recorder.state
    }

    fn rounds(&mut self) -> Result<(RunEnd, String)> {
        self.begun = Instant::now();
        let needed = rounds_for_an_answer(self.variants, self.plan.error_split());
        let mut stopping = Stopping::new(&self.plan.stop, needed);
        let mut foreseen = Fit::Holds;
        for round in self.first_round().. {
            // Asked first: variants that all fail in the last round leave no answer either.
            let left = self.state().departures();
            if self.variants.iter().all(|variant| left.contains_key(&variant.name)) {
                return Ok((RunEnd::NothingLeft(left), "every variant has failed".into()));
            }
            let outlook = self.outlook(round);
            let fit = self.fit(&stopping, round, outlook.as_ref());
            if let Some(why) = stopping.why(round, self.begun.elapsed(), outlook.as_ref()) {
                let answered = outlook.is_some_and(|outlook| outlook.answered.is_some());
                if let Some(fit @ Fit::Short(short)) = fit.as_ref().filter(|_| !answered) {
                    // A run that ends after its first round has not told it yet.
                    self.foretell(&foreseen, fit)?;
                    let note = Note::new(NoteKind::Remark, short.afterwards()).fix(short.remedy.clone());
                    self.recorder.tell(Event::Note(note))?;
                }
                let ended = |shard| format!("all rounds of shard {shard} are done");
                return Ok((RunEnd::Done, self.plan.stop.shard.map_or(why, ended)));
            }
            if !self.plan.stop.has(round) {
                // Another machine runs it.
                continue;
            }
            if let Some(outlook) = &outlook {
                self.leave_out(outlook)?;
            }
            if let Some(fit) = fit {
                self.foretell(&foreseen, &fit)?;
                foreseen = fit;
            }
            let variants = outlook.map_or(self.live(round), |outlook| outlook.variants);
            let runs = |at: &usize| variants.contains(&self.variants[*at].name);
            let live: Vec<usize> = (0..self.variants.len()).filter(runs).collect();
            let started = Instant::now();
            if !self.round(round, &live)? {
                return Ok((RunEnd::Interrupted, "a signal ended it".into()));
            }
            stopping.round_took(started.elapsed());
            self.standing(round, self.begun.elapsed())?;
        }
        unreachable!("the stopping rule ends every run")
    }

    /// The variants that have not left the run before a round. One that failed in it has its place in the order
    /// of that round, also where the round is resumed.
    fn live(&self, round: u32) -> Names {
        let (left, not_compared) = (self.state().departures(), self.state().record.not_compared());
        let names = self.variants.iter().map(|variant| variant.name.clone());
        let names = names.filter(|name| !not_compared.contains(&name.as_str()));
        names.filter(|name| left.get(name).is_none_or(|left| left.round >= round)).collect()
    }

    /// Notes the variants that leave because the budget does not hold them.
    fn leave_out(&mut self, ClaimForecast { no_room, variants, needed, .. }: &ClaimForecast) -> Result<()> {
        let budget = format_duration(self.plan.stop.budget_s.unwrap_or_default());
        for name in no_room {
            let text = format!(
                "tried once and not compared: the budget of {budget} does not hold the {needed} rounds of more than {} \
                 variants",
                variants.len()
            );
            let note = Note::new(NoteKind::NotCompared, text).variant(name).fix(larger_budget());
            self.recorder.tell(Event::Note(note))?;
        }
        Ok(())
    }

    /// Whether the budget holds the rounds of a first answer.
    fn fit(&self, stopping: &Stopping, round: u32, outlook: Option<&ClaimForecast>) -> Option<Fit> {
        let live = outlook.map_or_else(|| self.live(round), |outlook| outlook.variants.clone());
        let candidates = self.variants.iter().filter(|one| !one.is_bare_device() && live.contains(&one.name));
        let work = Work::of(self.plan, candidates.count());
        stopping.fit(round, self.begun.elapsed(), outlook, &work)
    }

    /// Tells before a round how the budget holds a first answer, where that is news after what was told `before`.
    fn foretell(&mut self, before: &Fit, fit: &Fit) -> Result<()> {
        let text = match (before, fit) {
            (Fit::Holds, Fit::Short(short)) => short.ahead(),
            (Fit::Holds | Fit::Short(_), Fit::Exceeds(text)) => text.clone(),
            (Fit::Short(_), Fit::Holds) => {
                "Rounds take less than the first one: the budget holds those of a first answer.".into()
            }
            _ => return Ok(()),
        };
        self.recorder.tell(Event::Forecast { text })
    }

    /// A round that ran only the variants that the question still needs is not to be filled up by a later part of the run.
    fn first_round(&self) -> u32 {
        if self.plan.stop.adapts() { self.state().last_round() } else { 0 }
    }

    /// The status of the question, if it determines which cells run.
    fn outlook(&self, round: u32) -> Option<ClaimForecast> {
        // Every variant warms up.
        let number = round.checked_sub(self.plan.stop.warmup)?;
        let elapsed = self.begun.elapsed().as_secs_f64();
        if let Some(within) = self.plan.stop.best_within {
            let left_s = self.plan.stop.extended_s().map(|budget| budget - elapsed);
            return Some(elimination::eliminate(
                &self.state().record,
                &self.live(round),
                number,
                within,
                left_s,
            ));
        }
        if !self.plan.stop.when_decided {
            return None;
        }
        let left_s = self.plan.stop.budget_s.map(|budget| budget - elapsed);
        Some(claim_forecast::forecast_claims(&self.state().record, &self.live(round), number, left_s))
    }

    /// Emits the status of the claims after a round, and after the pilot the forecast for the budget.
    fn standing(&mut self, round: u32, elapsed: Duration) -> Result<()> {
        let Some(number) = round.checked_sub(self.plan.stop.warmup) else { return Ok(()) };
        // A run with neither claims nor a budget needs no status, and only all shards together have one.
        let asked = !self.plan.claims.is_empty() || self.plan.stop.budget_s.is_some();
        if !asked || self.plan.stop.shard.is_some() {
            return Ok(());
        }
        let record = &self.state().record;
        let budget_s = self.plan.stop.budget_s.unwrap_or(USUAL_BUDGET_S);
        // A resumed run does not know how long the rounds of its first part took, and has told this already.
        let pilot = number + 1 == PILOT && !self.resumed;
        let round_s = elapsed.as_secs_f64() / f64::from(round + 1);
        let forecast = pilot.then(|| forecast(record, round_s, budget_s)).flatten();
        if !self.plan.claims.is_empty() {
            let standing = claim_forecast::claim_statuses(record);
            self.recorder.tell(Event::Claims { standing })?;
        }
        if let Some(text) = forecast {
            let note = format!("from a pilot of {PILOT} rounds: {text}");
            self.recorder.tell(Event::Forecast { text })?;
            self.recorder.tell(Event::Note(Note::new(NoteKind::Remark, note)))?;
        }
        Ok(())
    }

    /// Runs the remaining cells of a round. False if a signal ended it.
    fn round(&mut self, round: u32, live: &[usize]) -> Result<bool> {
        let mut cells = matrix::cells(self.plan, self.variants, live, round);
        if self.is_pilot(round) {
            self.usual_first(&mut cells);
        }
        if cells.iter().all(|cell| self.is_over(cell)) {
            return Ok(true);
        }
        let mut order: Vec<String> = cells.iter().map(|cell| cell.variant.name.clone()).collect();
        order.dedup();
        self.recorder.tell(Event::RoundStarted { round, order })?;
        for cell in cells {
            if self.is_pilot(round) && self.has_no_room(&cell) {
                self.not_tried(&cell)?;
                continue;
            }
            if !self.is_over(&cell) && (cancel::requested().is_some() || !self.cell(cell)?) {
                return Ok(false);
            }
        }
        self.recorder.tell(Event::RoundFinished { round })?;
        Ok(true)
    }

    /// Whether a round only finds out what variants take: a warm-up round of a search for the best that has a budget.
    fn is_pilot(&self, round: u32) -> bool {
        let stop = &self.plan.stop;
        round < stop.warmup && stop.best_within.is_some() && stop.budget_s.is_some()
    }

    /// Orders the cells of a pilot by what a short budget tries first; no figure of it is compared.
    fn usual_first(&self, cells: &mut [Cell]) {
        let order = elimination::by_priority(self.plan, self.variants);
        let place = |cell: &Cell| order.iter().position(|at| self.variants[*at].name == cell.variant.name);
        cells.sort_by_key(place);
        (0u32..).zip(cells).for_each(|(position, cell)| cell.position = position);
    }

    /// Whether the budget has no room to pilot a variant, because it could not be compared with another one afterwards.
    /// The first [`ALWAYS`] variants are always tried.
    fn has_no_room(&self, cell: &Cell) -> bool {
        let record = &self.state().record;
        let tried: Names = record.cells.iter().map(|cell| record.name(cell.variant).to_string()).collect();
        let begun = tried.contains(&cell.variant.name);
        let least = tried.iter().filter_map(|name| quickest(record, name)).reduce(f64::min);
        let (Some(least), Some(budget)) = (least.filter(|_| !begun), self.plan.stop.extended_s()) else {
            return false;
        };
        let cells = 1 + 2 * rounds_among(2, self.plan.error_split());
        tried.len() >= ALWAYS && self.begun.elapsed().as_secs_f64() + f64::from(cells) * least > budget
    }

    /// Notes that a pilot did not come to a variant.
    fn not_tried(&mut self, cell: &Cell) -> Result<()> {
        let name = &cell.variant.name;
        if self.state().record.not_compared().contains(&name.as_str()) {
            return Ok(()); // noted for another workload of it
        }
        let budget = format_duration(self.plan.stop.budget_s.unwrap_or_default());
        let text = format!("not tried: the budget of {budget} is too short");
        let note = Note::new(NoteKind::NotCompared, text).variant(name).fix(larger_budget());
        self.recorder.tell(Event::Note(note))
    }

    /// Whether there is nothing to do for a cell: it has been run, or its variant has left.
    fn is_over(&self, cell: &Cell) -> bool {
        self.state().has_measured(&cell.id()) || self.state().departures().contains_key(&cell.variant.name)
    }

    /// Runs one cell, and once more if its guest died. False where a signal ended it.
    fn cell(&mut self, cell: Cell) -> Result<bool> {
        let mut outcome = self.attempt(&cell)?;
        if let Outcome::Failed { why, cause: Cause::Died } = &outcome {
            let text =
                format!("its guest died in round {}, and fsarena ran the cell again: {why}", cell.round + 1);
            self.recorder.tell(Event::Note(Note::new(NoteKind::Remark, text).variant(&cell.variant.name)))?;
            outcome = self.attempt(&cell)?;
        }
        if let (Outcome::Failed { why, .. }, Some(path)) = (&mut outcome, self.recorder.output_of(&cell)) {
            why.push_str(&format!("; its output is in {}", path.display()));
        }
        self.recorder.tell(Event::CellFinished { cell: cell.id(), outcome: outcome.clone() })?;
        match outcome {
            Outcome::Done => Ok(true),
            Outcome::Interrupted => Ok(false),
            Outcome::Failed { why, .. } => {
                let text = format!("failed in round {} and left the run: {why}", cell.round + 1);
                let note = Note::new(NoteKind::VariantFailed, text).variant(&cell.variant.name);
                self.recorder.tell(Event::Note(note)).map(|()| true)
            }
        }
    }

    /// Begins a cell and runs it to its outcome. Whatever an earlier attempt measured is forgotten.
    fn attempt(&mut self, cell: &Cell) -> Result<Outcome> {
        let id = cell.id();
        self.recorder.tell(Event::CellStarted { cell: cell.clone() })?;
        let mut broken = None;
        let recorder = &mut *self.recorder;
        let mut emit = |mut what: CellEvent| {
            let repeats = match &mut what {
                CellEvent::Note(note) if note.kind == NoteKind::IdleTimeout => {
                    note.variant = Some(cell.variant.name.clone());
                    false
                }
                // Most notes hold for every cell: record each once.
                CellEvent::Note(note) => recorder.state.notes().any(|known| known == note),
                _ => false,
            };
            if broken.is_none() && !repeats {
                broken = recorder.tell(Event::Cell { cell: id.clone(), what }).err();
            }
        };
        let outcome = self.executor.run(cell, &mut emit)?;
        if let Some(broken) = broken {
            return Err(broken);
        }
        Ok(match (&outcome, printed::clash(&self.recorder.state)) {
            (Outcome::Done, Some(clash)) => clash.into(),
            _ => outcome,
        })
    }
}
