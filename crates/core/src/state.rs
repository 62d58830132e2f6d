//! The state of a run, computed from its events. The runner, the terminal, the live page and the self-test use it.

use crate::cell::{Cell, CellId};
use crate::event::{Activity, Cause, CellEvent, ClaimStatus, Event, Note, NoteKind, Outcome, VariantDeparture};
use crate::record::{CellRecord, RunRecord, RunStatus};
use crate::sample::Sample;
use std::{collections::BTreeMap, time::Duration};

/// The exclusive upper bound of round numbers, as in the store. Events of later rounds come from a damaged log and are
/// ignored. It is this high because the windows of a watch are rounds, and a watch may run for years.
const ROUND_LIMIT: u32 = 1 << 30;

/// The state of a run after its events so far. Times are in seconds since 1970, UTC.
#[derive(Debug, Clone, Default)]
pub struct RunState {
    /// The finished cells, their samples, and all notes: the part of the stored run that claims are judged on.
    pub record: RunRecord,
    /// The largest number of rounds of this machine, warm-up included.
    pub max_rounds: u32,
    /// Timed tasks of a cell.
    pub tasks_per_cell: u32,
    /// Time budget in seconds, if any.
    pub budget_s: Option<f64>,
    /// When the current session of the run started (a resumed run has several); None before it started.
    pub started_at: Option<f64>,
    /// When the last event happened.
    pub last_event_at: f64,
    /// The round in progress, or the last one.
    pub round: Option<u32>,
    /// The variants of that round, in the order in which they run.
    pub order: Vec<String>,
    /// The number of tasks measured in that round.
    pub tasks_done: u32,
    /// The number of rounds that this machine has finished, earlier sessions included.
    pub rounds_done: u32,
    /// The number of rounds finished since [`RunState::started_at`].
    pub rounds_this_session: u32,
    /// When the last round that finished in this session ended.
    pub last_round_ended_at: f64,
    /// The cell in progress, or the last one.
    pub cell: Option<CellState>,
    /// The status of each claim, in the order of the plan.
    pub claims: Vec<ClaimState>,
    /// The smallest difference that the budget can detect, as a sentence.
    pub forecast: Option<String>,
    /// How the run ended; None while it is in progress.
    pub end_status: Option<RunStatus>,
}

/// The state of one cell after its events so far.
#[derive(Debug, Clone)]
pub struct CellState {
    /// The cell.
    pub cell: Cell,
    /// When it started.
    pub started_at: f64,
    /// The name of its current phase.
    pub phase: String,
    /// Its samples so far.
    pub samples: Vec<Sample>,
    /// Its notes so far.
    pub notes: Vec<Note>,
    /// The time spent on each activity so far, in nanoseconds.
    pub spent: Vec<(Activity, u64)>,
}

/// The status of a claim, and how its interval has narrowed.
#[derive(Debug, Clone)]
pub struct ClaimState {
    /// The status after the last round.
    pub status: ClaimStatus,
    /// The width of its confidence interval after each round, as ln(high/low).
    pub interval_widths: Vec<f64>,
}

impl RunState {
    /// The state of a stored run that is about to resume. For a new run, pass [`RunRecord::new`].
    pub fn new(record: RunRecord) -> RunState {
        let (stop, budget_s) = (&record.plan.stop, record.plan.stop.budget_s);
        let max_rounds = stop.warmup_here() + stop.rounds_here();
        let mut state = RunState { max_rounds, budget_s, record, ..RunState::default() };
        let earlier_rounds = state.record.plan.stop.rounds_here_before(state.last_round());
        state.rounds_done = earlier_rounds.saturating_add(u32::from(state.has_finished_last_round()));
        state
    }

    /// Updates the state with one event that happened at `time_s`. Like the store, it keeps finished cells and discards
    /// interrupted ones.
    pub fn apply(&mut self, time_s: f64, event: &Event) {
        self.last_event_at = time_s;
        match event {
            Event::RunStarted { rounds, tasks_per_cell, budget_s, .. } => {
                self.max_rounds = *rounds;
                self.tasks_per_cell = *tasks_per_cell;
                self.budget_s = *budget_s;
                self.started_at = Some(time_s);
                self.rounds_this_session = 0;
                self.end_status = None;
            }
            Event::RoundStarted { round, order } if *round < ROUND_LIMIT => {
                self.round = Some(*round);
                self.order.clone_from(order);
                self.tasks_done = 0;
            }
            Event::CellStarted { cell } => {
                // If the cell begins again, do not count the tasks of its first attempt.
                let first_attempt = self.cell.take().filter(|current| current.cell.id() == cell.id());
                self.tasks_done -= first_attempt.map_or(0, |current| current.samples.len() as u32).min(self.tasks_done);
                self.cell = Some(CellState::new(time_s, cell.clone()));
            }
            Event::Cell { event: CellEvent::Reading(definition), .. } => {
                let _ = self.record.define_reading(definition.clone());
            }
            Event::Cell { cell, event } => {
                self.tasks_done += u32::from(matches!(event, CellEvent::Sample(_)));
                if let Some(current) = self.cell.as_mut().filter(|current| current.cell.id() == *cell) {
                    current.apply(event);
                }
            }
            Event::CellFinished { cell, outcome } => self.finish_cell(time_s, cell, outcome),
            Event::RoundFinished { round } if *round < ROUND_LIMIT => {
                self.rounds_done = self.rounds_done.max(self.record.plan.stop.rounds_here_before(round + 1));
                self.rounds_this_session += 1;
                self.last_round_ended_at = time_s;
            }
            Event::Claims { statuses } => self.update_claims(statuses),
            Event::Forecast { text } => self.forecast = Some(text.clone()),
            Event::Note(note) => self.record.notes.push((self.round, note.clone())),
            Event::RunFinished { why, complete } => {
                self.end_status = Some(RunStatus { why: why.clone(), complete: *complete });
            }
            Event::RoundStarted { .. } | Event::RoundFinished { .. } | Event::Command(_) => {}
        }
    }

    /// Whether the number of rounds is unknown in advance.
    pub fn is_open_ended(&self) -> bool {
        self.record.plan.stop.is_open_ended() || self.max_rounds >= crate::plan::OPEN_ENDED_ROUNDS
    }

    /// The time since the current session of the run began.
    pub fn elapsed(&self) -> Duration {
        time_between(self.started_at.unwrap_or(self.last_event_at), self.last_event_at)
    }

    /// The estimated time left: the remaining rounds at the mean pace of this session's rounds, but at most the rest of the
    /// budget. None if there is neither a finished round nor a budget, or if no time is left.
    pub fn time_left(&self) -> Option<Duration> {
        let started_at = self.started_at.filter(|_| self.end_status.is_none())?;
        let budget = self.budget_s.and_then(|budget| Duration::try_from_secs_f64(budget).ok());
        let budget = budget.map(|budget| budget.saturating_sub(self.elapsed()));
        if self.rounds_this_session == 0 {
            return budget.filter(|time| !time.is_zero());
        }
        let pace = time_between(started_at, self.last_round_ended_at) / self.rounds_this_session;
        let remaining = pace.saturating_mul(self.max_rounds.saturating_sub(self.rounds_done));
        let time_left = remaining.saturating_sub(time_between(self.last_round_ended_at, self.last_event_at));
        let time_left = budget.map_or(time_left, |budget| time_left.min(budget));
        Some(time_left).filter(|time| !time.is_zero())
    }

    /// Every note so far, including notes of the cell in progress.
    pub fn notes(&self) -> impl Iterator<Item = &Note> {
        let of_running_cell = self.cell.iter().flat_map(|cell| &cell.notes);
        self.record.notes.iter().map(|(_, note)| note).chain(of_running_cell)
    }

    /// Whether all tasks of a cell were measured.
    pub fn has_measured(&self, cell: &CellId) -> bool {
        self.record.cells.iter().any(|record| record.id == cell.0 && record.outcome == Outcome::Done)
    }

    /// The last round with a finished cell; 0 if no cell has finished.
    pub fn last_round(&self) -> u32 {
        self.record.cells.iter().map(|cell| cell.round).max().unwrap_or(0)
    }

    /// The variants that left the run: those with a failed cell or a note of kind [`NoteKind::VariantFailed`].
    pub fn departures(&self) -> BTreeMap<String, VariantDeparture> {
        let mut departures = BTreeMap::new();
        for cell in &self.record.cells {
            if let Outcome::Failed { why, cause } = &cell.outcome {
                let departure = VariantDeparture { round: cell.round, why: why.clone(), cause: *cause };
                departures.insert(self.record.variant_name(cell.variant).to_string(), departure);
            }
        }
        for (round, note) in &self.record.notes {
            if let (NoteKind::VariantFailed, Some(variant)) = (note.kind, &note.variant) {
                let (round, why, cause) = (round.unwrap_or(0), note.text.clone(), Cause::default());
                departures.entry(variant.clone()).or_insert(VariantDeparture { round, why, cause });
            }
        }
        departures
    }

    /// Whether each cell of the last round was measured, or its variant left the run. The last round is the last one with a
    /// finished cell. False if that round skipped variants on purpose: a resumed run begins with it again.
    fn has_finished_last_round(&self) -> bool {
        let (record, departures) = (&self.record, self.departures());
        if record.cells.is_empty() {
            return false;
        }
        let all: Vec<usize> = (0..record.variants.len()).collect();
        let cells = crate::matrix::cells_of_round(&record.plan, &record.variants, &all, self.last_round());
        cells.iter().all(|cell| self.has_measured(&cell.id()) || departures.contains_key(&cell.variant.name))
    }

    /// Moves a finished cell to the record, unless it was interrupted.
    fn finish_cell(&mut self, ended_at: f64, id: &CellId, outcome: &Outcome) {
        let Some(finished) = self.cell.as_mut().filter(|current| current.cell.id() == *id) else { return };
        let (samples, notes) = (std::mem::take(&mut finished.samples), std::mem::take(&mut finished.notes));
        let variant = self.record.variant_index(&finished.cell.variant.name);
        let (Some(variant), false) = (variant, *outcome == Outcome::Interrupted) else { return };
        let index = self.record.cells.len() as u32;
        self.record.cells.push(CellRecord {
            id: id.0.clone(),
            round: finished.cell.round,
            position: finished.cell.position,
            variant,
            workload: finished.cell.workload.name.clone(),
            outcome: outcome.clone(),
            host: self.record.hosts.len().saturating_sub(1),
            started_at: finished.started_at,
            spent: finished.spent_until(ended_at),
        });
        let round = Some(finished.cell.round);
        self.record.notes.extend(notes.into_iter().map(|note| (round, note)));
        samples.iter().for_each(|sample| self.record.add_sample(index, sample));
    }

    /// Replaces the status of all claims, and appends the widths of their intervals.
    fn update_claims(&mut self, statuses: &[ClaimStatus]) {
        let mut earlier = std::mem::take(&mut self.claims);
        for status in statuses {
            let previous = earlier.iter_mut().find(|claim| claim.status.claim == status.claim);
            let mut interval_widths = previous.map_or(vec![], |claim| std::mem::take(&mut claim.interval_widths));
            interval_widths.extend(status.effect.map(|(_, low, high)| ((1.0 + high) / (1.0 + low)).ln()));
            self.claims.push(ClaimState { status: status.clone(), interval_widths });
        }
    }
}

/// The time between two moments. Zero if `end_s` is before `start_s`, because the log is damaged or the clock was set back.
fn time_between(start_s: f64, end_s: f64) -> Duration {
    Duration::try_from_secs_f64(end_s - start_s).unwrap_or_default()
}

impl CellState {
    /// A cell that starts at this time, in seconds since 1970.
    pub fn new(started_at: f64, cell: Cell) -> CellState {
        let (samples, notes, spent) = Default::default();
        CellState { cell, started_at, phase: String::new(), samples, notes, spent }
    }

    /// The time that the cell has spent on each activity until `ended_at`, in nanoseconds. The total comes first.
    pub fn spent_until(&self, ended_at: f64) -> Vec<(Activity, u64)> {
        let total = time_between(self.started_at, ended_at).as_nanos() as u64;
        [(Activity::Total, total)].into_iter().chain(self.spent.clone()).collect()
    }

    /// Updates the state with one event of the cell.
    pub fn apply(&mut self, event: &CellEvent) {
        match event {
            CellEvent::Phase { name } => self.phase = name.to_string(),
            CellEvent::Sample(sample) => self.samples.push(sample.clone()),
            CellEvent::Note(note) => self.notes.push(note.clone()),
            CellEvent::Spent { activity, ns } => match self.spent.iter_mut().find(|(recorded, _)| recorded == activity)
            {
                Some((_, sum)) => *sum = sum.saturating_add(*ns),
                None => self.spent.push((*activity, *ns)),
            },
            CellEvent::Reading(_) | CellEvent::Command(_) | CellEvent::Profile { .. } | CellEvent::Tree(_) => {}
        }
    }
}

#[cfg(test)]
mod tests;
