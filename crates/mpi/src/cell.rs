//! One cell of all ranks: every task begins on all of them together, and their samples become one.

use crate::merge::{Part, merge};
use crate::message::{FromRank, ToRank};
use crate::{agent::Agent, ranks::Ranks, wire};
use fsarena_core::event::{Cause, CellEvent, Note, Outcome};
use fsarena_core::metric::Declared;
use fsarena_core::sample::{MetricSpec, Sample};
use fsarena_run::axes::Confine;
use fsarena_run::child::{self, Parent};
use fsarena_run::protocol::{PrivilegedRequest, Request};
use fsarena_run::{CellError, RunError};
use fsarena_sys::{cancel, undo::Journal};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// How long ranks may take to end their agents once a signal came: mpirun kills them soon.
const HURRY: Duration = Duration::from_millis(500);

/// What a rank does in a cell.
#[derive(Debug, Clone, PartialEq)]
enum State {
    /// It works.
    Working,
    /// It waits for the others.
    Ready(PrivilegedRequest),
    /// Its machine is idle.
    Idle,
    /// It has ended.
    Ended,
}

/// One cell of all ranks, as the parent of this rank's agent.
struct Work<'a> {
    ranks: &'a mut Ranks,
    agent: Agent,
    variant: String,
    emit: &'a mut dyn FnMut(CellEvent),
    states: Vec<State>,
    /// What clients measured of tasks that others have not ended.
    parts: BTreeMap<String, Vec<Option<Sample>>>,
    /// The metrics that commands of all ranks have declared so far by printing them.
    declared: Declared,
    /// The first rank that failed.
    failed: Option<(u32, Outcome)>,
}

/// Does the part of this rank in a cell that all others have been told, and merges what all of them measure.
///
/// # Errors
/// A rank that does not answer, or what makes this one useless.
pub fn run(
    ranks: &mut Ranks,
    journal: &Journal,
    request: &Request,
    confine: &Confine,
    emit: &mut dyn FnMut(CellEvent),
) -> Result<Outcome, RunError> {
    let own = ranks.request(request, 0);
    let states = vec![State::Working; ranks.machines.len()];
    let agent = Agent::new(&own, ranks.patience);
    let variant = request.cell.variant.name.clone();
    let declared = request.declared.clone();
    ranks.specs.extend(declared.metrics().map(|metric| (metric.id.clone(), metric.clone())));
    let parts = BTreeMap::new();
    let mut work = Work { ranks, agent, variant, emit, states, parts, declared, failed: None };
    match child::run(journal, &own, confine, &mut work) {
        Ok(outcome) => work.end(outcome),
        Err(fatal) => {
            work.abandon();
            Err(fatal)
        }
    }
}

impl Work<'_> {
    /// Takes all messages that have come.
    fn take(&mut self) {
        while let Some((from, message)) = wire::told(&*self.ranks.wire) {
            match message {
                FromRank::Ready(ask) => self.states[from as usize] = State::Ready(ask),
                FromRank::Idle(note) => {
                    self.states[from as usize] = State::Idle;
                    note.into_iter().for_each(|note| self.note(from, note));
                }
                FromRank::Reading(metric) => self.reading(from, metric),
                FromRank::Sample(sample) => self.sample(from, *sample),
                FromRank::Note(note) => self.note(from, note),
                FromRank::Ended(outcome) => self.ended(from, outcome),
                _ => {}
            }
        }
    }

    fn note(&mut self, from: u32, note: Note) {
        let text = format!("{}: {}", self.ranks.machines[from as usize].host, note.text);
        (self.emit)(CellEvent::Note(Note { text, ..note }));
    }

    /// Takes over a metric that a command of a rank printed; one that contradicts that of another rank fails the cell.
    fn reading(&mut self, from: u32, metric: MetricSpec) {
        match self.declared.declare_printed(&metric, &self.ranks.name(from)) {
            Ok(true) => {
                self.ranks.specs.insert(metric.id.clone(), metric.clone());
                (self.emit)(CellEvent::Reading(metric));
            }
            Ok(false) => {}
            Err(contradiction) => {
                let failed = CellError::new(Cause::Work, contradiction.to_string());
                self.failed.get_or_insert((from, failed.into()));
            }
        }
    }

    fn ended(&mut self, rank: u32, outcome: Outcome) {
        self.states[rank as usize] = State::Ended;
        if outcome != Outcome::Done && self.failed.is_none() {
            self.failed = Some((rank, outcome));
        }
    }

    /// Keeps a client's sample; the last one makes the sample of all.
    fn sample(&mut self, from: u32, sample: Sample) {
        let id = sample.task.id.to_string();
        let parts = self.parts.entry(id.clone()).or_insert_with(|| vec![None; self.states.len()]);
        parts[from as usize] = Some(sample);
        let Some(samples) = parts.iter().map(Option::as_ref).collect::<Option<Vec<&Sample>>>() else {
            return;
        };
        let parts: Vec<Part> = samples
            .into_iter()
            .zip(&self.ranks.machines)
            .map(|(sample, machine)| Part { machine, clock: self.ranks.clocks[machine], sample })
            .collect();
        self.ranks.seen.note(&self.variant, &parts);
        (self.emit)(CellEvent::Sample(merge(&parts, &self.ranks.specs)));
        self.parts.remove(&id);
    }

    /// Waits for other ranks; the reason where the cell cannot go on.
    fn wait(&mut self, done: impl Fn(&[State]) -> bool) -> Result<Option<Outcome>, RunError> {
        let begun = Instant::now();
        // A rank ends its own agent before that.
        let patience = self.ranks.patience + self.ranks.answer();
        loop {
            self.take();
            if cancel::requested().is_some() {
                return Ok(Some(Outcome::Interrupted));
            }
            if let Some((_, outcome)) = &self.failed {
                return Ok(Some(outcome.clone()));
            }
            if done(&self.states) {
                return Ok(None);
            }
            if begun.elapsed() > patience {
                return Err(self.silent(|state| *state == State::Working, patience));
            }
            std::thread::sleep(wire::LONGEST);
        }
    }

    /// The failure of the first rank in such a state.
    fn silent(&self, is: impl Fn(&State) -> bool, patience: Duration) -> RunError {
        self.ranks.silent(self.states.iter().position(is).unwrap_or(0) as u32, patience)
    }

    /// The outcome of the cell, when all ranks have ended it.
    fn end(mut self, own: Outcome) -> Result<Outcome, RunError> {
        self.ended(0, own);
        let all_ended = |states: &[State]| states.iter().all(|state| *state == State::Ended);
        let Some(stopped) = self.wait(all_ended)? else { return Ok(Outcome::Done) };
        let (rank, outcome) = self.failed.take().unwrap_or((0, stopped));
        self.abandon();
        let hurry = if cancel::requested().is_some() { HURRY } else { self.ranks.answer() };
        let ended = wire::wait(hurry, || {
            self.take();
            all_ended(&self.states).then_some(())
        });
        if cancel::requested().is_some() {
            return Ok(Outcome::Interrupted);
        }
        if ended.is_none() {
            return Err(self.silent(|state| *state != State::Ended, hurry));
        }
        let rank = self.ranks.name(rank);
        let failed = match outcome {
            Outcome::Failed { why, cause } => CellError::new(cause, why).of(&rank),
            outcome => CellError::new(Cause::Work, format!("{rank} ended: {outcome:?}")),
        };
        Ok(failed.into())
    }

    /// Has all ranks end their agents.
    fn abandon(&self) {
        let working = self.ranks.others().filter(|rank| self.states[*rank as usize] != State::Ended);
        self.ranks.ask_all(working, &ToRank::Abandon);
    }

    /// All ranks go on.
    fn all(&mut self, message: &ToRank) {
        self.ranks.ask_all(self.ranks.others(), message);
        self.states.fill(State::Working);
    }

    /// All ranks wait for the same; or another outcome than done.
    fn all_ready(&mut self, ask: &PrivilegedRequest) -> Result<Outcome, RunError> {
        if let Some(outcome) = self.wait(|states| states.iter().all(|state| *state != State::Working))? {
            return Ok(outcome);
        }
        let ready = State::Ready(ask.clone());
        let Some(rank) = self.states.iter().position(|state| *state != ready) else {
            return Ok(Outcome::Done);
        };
        let why = format!("not at {ask:?} as rank 0 is, but {:?}", self.states[rank]);
        let outcome = Outcome::from(CellError::internal(why));
        self.failed = Some((rank as u32, outcome.clone()));
        Ok(outcome)
    }
}

impl Parent for Work<'_> {
    fn hear(&mut self, event: CellEvent) {
        match event {
            CellEvent::Sample(sample) => {
                let sample = self.agent.measured(sample);
                self.sample(0, sample);
            }
            CellEvent::Reading(metric) => self.reading(0, metric),
            event => (self.emit)(event),
        }
    }

    fn answer(&mut self, ask: PrivilegedRequest) -> Result<Outcome, RunError> {
        self.agent.waits();
        self.states[0] = State::Ready(ask.clone());
        match self.all_ready(&ask)? {
            Outcome::Done => {}
            outcome => return Ok(outcome),
        }
        let PrivilegedRequest::WaitUntilIdle(task) = ask else {
            self.all(&ToRank::Met);
            return Ok(self.agent.goes_on());
        };
        let leaders: Vec<u32> = self.ranks.other_leaders().collect();
        self.ranks.ask_all(leaders.iter().copied(), &ToRank::WaitUntilIdle(task.clone()));
        self.agent.wait_until_idle(&task).into_iter().for_each(|note| (self.emit)(CellEvent::Note(note)));
        let idle = |states: &[State]| leaders.iter().all(|leader| states[*leader as usize] == State::Idle);
        if let Some(outcome) = self.wait(idle)? {
            return Ok(outcome);
        }
        self.all(&ToRank::Begin);
        Ok(self.agent.begin(&*self.ranks.wire))
    }

    fn look(&mut self) -> Option<Outcome> {
        self.take();
        self.failed.as_ref().map(|(_, outcome)| outcome.clone()).or_else(|| self.agent.overdue())
    }
}
