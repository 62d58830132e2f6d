//! Rank 0: tells all ranks each cell, lets every task begin together, and merges what the clients measured.

use crate::clock::{self, Offset};
use crate::follow::{GLANCE, Hands, LEAVING, guardless};
use crate::merge::{Part, Units, merge, units};
use crate::message::{FromRank, Machine, ToRank};
use crate::wire::{self, Wire};
use crate::{guard, mapping, remarks::Seen};
use fsarena_core::event::{Cause, CellEvent, Note, Outcome};
use fsarena_core::{cell::Variant, factor, plan::Plan, sample::Sample};
use fsarena_load::workload::Client;
use fsarena_run::axes::{AXES, Confine};
use fsarena_run::child::{self, Parent};
use fsarena_run::clients::Clients;
use fsarena_run::executor::{Fatal, Tell};
use fsarena_run::protocol::{Ask, Request};
use fsarena_sys::{cancel, undo::Journal};
use std::time::{Duration, Instant};
use std::{collections::BTreeMap, path::PathBuf, process::ChildStdin, rc::Rc};

/// How long a rank may take at most to answer that has no work.
const ANSWER: Duration = Duration::from_secs(30);
/// The same as a multiple of what its tasks may take.
const TIMES: u32 = 4;
/// How long ranks may take to leave a job that failed: one of them may hang.
const FAILED: Duration = Duration::from_secs(5);
/// How long ranks may take to end their agents once a signal came: mpirun kills them soon.
const HURRY: Duration = Duration::from_millis(500);

/// The ranks of a job, as the clients of a run.
pub struct Ranks {
    wire: Rc<dyn Wire>,
    /// The longest that one task may take.
    patience: Duration,
    machines: Vec<Machine>,
    clients: Vec<Client>,
    leaders: Vec<u32>,
    clocks: BTreeMap<Machine, Offset>,
    units: Units,
    seen: Seen,
    _guard: ChildStdin,
}

impl Ranks {
    /// Meets all ranks.
    ///
    /// # Errors
    /// One that does not answer.
    pub fn meet(wire: Rc<dyn Wire>, patience: Duration) -> Result<Ranks, Fatal> {
        let mut machines = vec![None; wire.size() as usize];
        machines[0] = Some(Machine::here());
        let all = wire::wait(ANSWER, || {
            while let Some((from, message)) = wire::told(&*wire) {
                if let FromRank::Hello(machine) = message {
                    machines[from as usize] = Some(machine);
                }
            }
            machines.iter().cloned().collect::<Option<Vec<Machine>>>()
        });
        let Some(machines) = all else {
            let silent = machines.iter().position(Option::is_none).unwrap_or(0);
            return Err(Fatal::Missing(format!("rank {silent} did not answer within {ANSWER:?}")));
        };
        let (clients, leaders) = (mapping::clients(&machines), mapping::leaders(&machines));
        let others = leaders.iter().filter(|leader| **leader != 0);
        others.for_each(|leader| wire::ask(&*wire, *leader, &ToRank::Guard));
        let _guard = guard::start().map_err(guardless)?;
        let (clocks, units, seen) = (BTreeMap::new(), units(), Seen::default());
        Ok(Ranks { wire, patience, machines, clients, leaders, clocks, units, seen, _guard })
    }

    /// `rank 3 on node7`.
    fn name(&self, rank: u32) -> String {
        format!("rank {rank} on {}", self.machines[rank as usize].host)
    }

    fn others(&self) -> std::ops::Range<u32> {
        1..self.wire.size()
    }

    /// Waits until every rank of some has answered what is looked for.
    fn await_all(
        &self,
        ranks: impl Iterator<Item = u32>,
        mut take: impl FnMut(u32, FromRank) -> Result<(), Fatal>,
    ) -> Result<(), Fatal> {
        let mut missing: Vec<u32> = ranks.collect();
        let begun = Instant::now();
        while !missing.is_empty() {
            match wire::wait(GLANCE, || wire::told(&*self.wire)) {
                Some((from, message)) => {
                    missing.retain(|rank| *rank != from);
                    take(from, message)?;
                }
                None if begun.elapsed() > self.answer() => return Err(self.silent(missing[0], self.answer())),
                None => {}
            }
        }
        Ok(())
    }

    /// How long a rank may take to answer.
    fn answer(&self) -> Duration {
        ANSWER.min(TIMES * self.patience)
    }

    fn silent(&self, rank: u32, patience: Duration) -> Fatal {
        let rank = self.name(rank);
        Fatal::Missing(format!(
            "{rank} did not answer within {patience:?}: its machine or its filesystem hangs; leave it out and resume"
        ))
    }

    /// Measures the clocks of all other machines.
    fn set_clocks(&mut self) {
        self.clocks = BTreeMap::from([(self.machines[0].clone(), Offset::default())]);
        for leader in self.leaders.iter().filter(|leader| **leader != 0) {
            let machine = self.machines[*leader as usize].clone();
            self.clocks.insert(machine, clock::measure(&*self.wire, *leader));
        }
    }

    /// Ends the job for all ranks. False where not all of them leave it.
    #[must_use]
    pub fn leave(wire: &dyn Wire, failed: bool) -> bool {
        (1..wire.size()).for_each(|rank| wire::ask(wire, rank, &ToRank::End));
        wire.barrier(if failed { FAILED } else { LEAVING })
    }

    fn request(&self, request: &Request, rank: u32) -> Request {
        Request { client: Some(self.clients[rank as usize]), ..request.clone() }
    }
}

impl Clients for Ranks {
    fn count(&self) -> u32 {
        self.wire.size()
    }

    fn facts(&self) -> Vec<(String, String)> {
        let machines: Vec<&str> =
            self.leaders.iter().map(|rank| self.machines[*rank as usize].host.as_str()).collect();
        vec![("clients".into(), self.count().to_string()), ("client_machines".into(), machines.join(", "))]
    }

    /// All machines have the directories of the plan, and they are the same ones: each sees a file that this rank makes.
    fn begin(&mut self, plan: &Plan, variants: &[Variant], _tell: Tell) -> Result<(), Fatal> {
        for variant in variants {
            let own = |axis: &&fsarena_run::axes::Axis| {
                ![factor::CLIENTS, factor::FURTHER_IDLE].contains(&axis.def.id)
                    && !variant.level(axis.def.id).is_empty()
            };
            if let Some(axis) = AXES.iter().find(own) {
                let (name, axis) = (&variant.name, axis.def.id);
                let text = format!(
                    "variant {name}: `{axis}` would be set on the machine of rank 0 alone; leave it out"
                );
                return Err(Fatal::Plan(text));
            }
        }
        let dirs = variants.iter().map(|variant| PathBuf::from(variant.level(factor::DIR)));
        let dirs: Vec<PathBuf> = dirs.chain(plan.device.other_dir.clone()).collect();
        let marks: Vec<PathBuf> =
            dirs.iter().map(|dir| dir.join(format!("fsarena-mark-{}", std::process::id()))).collect();
        let made = marks
            .iter()
            .try_for_each(|mark| std::fs::write(mark, "").map_err(fsarena_sys::Error::io("making", mark)));
        self.others().for_each(|rank| wire::ask(&*self.wire, rank, &ToRank::Look(marks.clone())));
        let looked = self.await_all(self.others(), |from, message| match message {
            FromRank::Looked(Some(fault)) => Err(Fatal::Plan(format!(
                "{} does not see what rank 0 made, {fault}; name a directory of a filesystem that all machines share",
                self.name(from)
            ))),
            _ => Ok(()),
        });
        marks.iter().for_each(|mark| drop(std::fs::remove_file(mark)));
        made.map_err(Fatal::from).and(looked)
    }

    fn work(
        &mut self,
        journal: &Journal,
        request: &Request,
        confine: &Confine,
        emit: &mut dyn FnMut(CellEvent),
    ) -> Result<Outcome, Fatal> {
        self.set_clocks();
        let patience_s = self.patience.as_secs_f64();
        for rank in self.others() {
            let request = Box::new(self.request(request, rank));
            wire::ask(&*self.wire, rank, &ToRank::Cell(request, patience_s));
        }
        let own = self.request(request, 0);
        let states = vec![State::Working; self.wire.size() as usize];
        let hands = Hands::new(&own, self.patience);
        let variant = request.cell.variant.name.clone();
        let mut work =
            Work { ranks: self, hands, variant, emit, states, parts: BTreeMap::new(), failed: None };
        let outcome = child::run(journal, &own, confine, &mut work);
        work.end(outcome)
    }

    fn remarks(&self) -> Vec<Note> {
        self.seen.remarks()
    }
}

/// What a rank does in a cell.
#[derive(Debug, Clone, PartialEq)]
enum State {
    /// It works.
    Working,
    /// It waits for the others.
    Ready(Ask),
    /// Its machine is idle.
    Idle,
    /// It has ended.
    Ended,
}

/// One cell of all ranks, as the parent of this rank's agent.
struct Work<'a> {
    ranks: &'a mut Ranks,
    hands: Hands,
    variant: String,
    emit: &'a mut dyn FnMut(CellEvent),
    states: Vec<State>,
    /// What clients measured of tasks that others have not ended.
    parts: BTreeMap<String, Vec<Option<Sample>>>,
    /// The first rank that failed.
    failed: Option<(u32, Outcome)>,
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
        (self.emit)(CellEvent::Sample(merge(&parts, &self.ranks.units)));
        self.parts.remove(&id);
    }

    /// Waits for other ranks; the reason where the cell cannot go on.
    fn wait(&mut self, done: impl Fn(&[State]) -> bool) -> Result<Option<Outcome>, Fatal> {
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
                let silent = self.states.iter().position(|state| *state == State::Working);
                return Err(self.ranks.silent(silent.unwrap_or(0) as u32, patience));
            }
            std::thread::sleep(wire::LONGEST);
        }
    }

    /// The outcome of the cell, when all ranks have ended it.
    fn end(mut self, own: Result<Outcome, Fatal>) -> Result<Outcome, Fatal> {
        match own {
            Ok(outcome) => {
                if self.states[0] != State::Ended {
                    self.ended(0, outcome);
                }
            }
            Err(fatal) => {
                self.abandon();
                return Err(fatal);
            }
        }
        let all_ended = |states: &[State]| states.iter().all(|state| *state == State::Ended);
        let stopped = self.wait(all_ended);
        let (rank, outcome) = match stopped? {
            None => return Ok(Outcome::Done),
            Some(outcome) => self.failed.take().unwrap_or((0, outcome)),
        };
        self.abandon();
        let hurry = if cancel::requested().is_some() { HURRY } else { self.ranks.answer() };
        let ended = wire::wait(hurry, || {
            self.take();
            all_ended(&self.states).then_some(())
        });
        match (outcome, ended) {
            (_, _) if cancel::requested().is_some() => Ok(Outcome::Interrupted),
            (_, None) => {
                let silent = self.states.iter().position(|state| *state != State::Ended).unwrap_or(0);
                Err(self.ranks.silent(silent as u32, hurry))
            }
            (Outcome::Failed { why, cause }, _) => {
                Ok(Outcome::Failed { why: format!("{}: {why}", self.ranks.name(rank)), cause })
            }
            (outcome, _) => {
                let why = format!("{} ended: {outcome:?}", self.ranks.name(rank));
                Ok(Outcome::Failed { why, cause: Cause::Work })
            }
        }
    }

    /// Has all ranks end their agents.
    fn abandon(&self) {
        for rank in self.ranks.others().filter(|rank| self.states[*rank as usize] != State::Ended) {
            wire::ask(&*self.ranks.wire, rank, &ToRank::Abandon);
        }
    }

    /// All ranks go on.
    fn all(&mut self, message: &ToRank) {
        self.ranks.others().for_each(|rank| wire::ask(&*self.ranks.wire, rank, message));
        self.states.fill(State::Working);
    }

    /// All ranks wait for the same; or another outcome than done.
    fn all_ready(&mut self, ask: &Ask) -> Result<Outcome, Fatal> {
        let stopped = self.wait(|states| states.iter().all(|state| *state != State::Working))?;
        if let Some(outcome) = stopped {
            return Ok(outcome);
        }
        let elsewhere = self.states.iter().position(|state| *state != State::Ready(ask.clone()));
        Ok(elsewhere.map_or(Outcome::Done, |rank| {
            let why = format!("not at {ask:?} as rank 0 is, but {:?}", self.states[rank]);
            let outcome = Outcome::Failed { why, cause: Cause::Internal };
            self.failed = Some((rank as u32, outcome.clone()));
            outcome
        }))
    }
}

impl Parent for Work<'_> {
    fn hear(&mut self, event: CellEvent) {
        match event {
            CellEvent::Sample(sample) => {
                let sample = self.hands.measured(sample);
                self.sample(0, sample);
            }
            CellEvent::Reading(info) => {
                self.ranks.units.insert(info.id.clone(), info.unit);
                (self.emit)(CellEvent::Reading(info));
            }
            event => (self.emit)(event),
        }
    }

    fn answer(&mut self, ask: Ask) -> Result<Outcome, Fatal> {
        self.hands.ready();
        self.states[0] = State::Ready(ask.clone());
        match self.all_ready(&ask)? {
            Outcome::Done => {}
            outcome => return Ok(outcome),
        }
        let Ask::WaitUntilIdle(task) = ask else {
            self.all(&ToRank::Met);
            return Ok(self.hands.go_on());
        };
        let leaders: Vec<u32> = self.ranks.leaders.iter().copied().filter(|leader| *leader != 0).collect();
        for leader in &leaders {
            wire::ask(&*self.ranks.wire, *leader, &ToRank::WaitUntilIdle(task.clone()));
        }
        self.hands.wait_until_idle(&task).into_iter().for_each(|note| (self.emit)(CellEvent::Note(note)));
        let idle = |states: &[State]| leaders.iter().all(|leader| states[*leader as usize] == State::Idle);
        if let Some(outcome) = self.wait(idle)? {
            return Ok(outcome);
        }
        self.all(&ToRank::Begin);
        Ok(self.hands.begin(&*self.ranks.wire))
    }

    fn look(&mut self) -> Option<Outcome> {
        self.take();
        self.failed.as_ref().map(|(_, outcome)| outcome.clone()).or_else(|| self.hands.overdue())
    }
}
