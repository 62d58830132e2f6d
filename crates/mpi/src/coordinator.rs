//! The coordinator, rank 0: checks that all ranks can work, and runs every cell on all of them together.
//!
//! All ranks begin each task together, and their samples become one.

use crate::merge::{ClientSample, merge};
use crate::wire::{self, FromRank, ToRank};
use crate::{agent::Agent, ranks::Ranks};
use fsarena_core::event::{Cause, CellEvent, Note, Outcome};
use fsarena_core::sample::{MetricSpec, Sample};
use fsarena_core::{cell::Variant, factor, metric::Declared, plan::Plan};
use fsarena_run::axes::{AXES, Confine};
use fsarena_run::child::{self, Parent};
use fsarena_run::dir::Clients;
use fsarena_run::executor::RunSink;
use fsarena_run::protocol::{PrivilegedRequest, Request};
use fsarena_run::{CellError, RunError};
use fsarena_sys::{Error, cancel, undo::Journal};
use std::time::{Duration, Instant};
use std::{collections::BTreeMap, fs::File, path::PathBuf};

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
        variants.iter().try_for_each(refuse_machine_factors)?;
        let dirs = variants.iter().map(|variant| PathBuf::from(variant.level(factor::DIR)));
        check_dirs_are_shared(self, dirs.chain(plan.device.other_dir.clone()))
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
            wire::send_to_worker(&*self.wire, rank, &ToRank::Cell(request, self.timeout));
        }
        run_cell(self, journal, request, confine, emit)
    }

    fn remarks(&self) -> Vec<Note> {
        self.observations.remarks()
    }
}

/// Refuses a variant with a factor that would change the machine of rank 0 only.
fn refuse_machine_factors(variant: &Variant) -> Result<(), RunError> {
    for id in AXES.iter().map(|axis| axis.def.id) {
        if ![factor::CLIENTS, factor::FURTHER_IDLE].contains(&id) && !variant.level(id).is_empty() {
            return Err(RunError::Plan(format!(
                "variant {}: `{id}` would be set on the machine of rank 0 alone; leave it out",
                variant.name
            )));
        }
    }
    Ok(())
}

/// Checks that these directories are the same on all machines: each rank has to see a file that rank 0 makes.
fn check_dirs_are_shared(ranks: &Ranks, dirs: impl Iterator<Item = PathBuf>) -> Result<(), RunError> {
    let (mut marks, mut made) = (vec![], Ok(()));
    for mark in dirs.map(|dir| dir.join(format!("fsarena-mark-{}", std::process::id()))) {
        if marks.contains(&mark) {
            continue;
        }
        // Anybody may write to a shared directory, so an existing file or link is not followed.
        if let Err(error) = File::create_new(&mark).map_err(Error::io("making", &mark)) {
            made = Err(error);
            break;
        }
        marks.push(mark);
    }
    ranks.send_all(ranks.others(), &ToRank::Look(marks.clone()));
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

/// Time limit for ranks to end their agents after a signal: mpirun kills them soon.
const SIGNAL_TIMEOUT: Duration = Duration::from_millis(500);

/// What a rank does in a cell.
#[derive(Debug, Clone, PartialEq)]
enum RankState {
    /// It works.
    Working,
    /// It waits for the others.
    Ready(PrivilegedRequest),
    /// Its machine is idle.
    Idle,
    /// It has ended.
    Ended,
}

/// One cell of all ranks. It is the parent of rank 0's agent.
struct CoordinatorCell<'a> {
    ranks: &'a mut Ranks,
    agent: Agent,
    variant: String,
    emit: &'a mut dyn FnMut(CellEvent),
    states: Vec<RankState>,
    /// By task, the samples of each client until all have ended the task.
    parts: BTreeMap<String, Vec<Option<Sample>>>,
    /// Metrics that the commands of all ranks have printed so far.
    declared: Declared,
    /// The first rank that failed.
    failed: Option<(u32, Outcome)>,
}

/// Runs rank 0's part of a cell that has been sent to all others, and merges the samples of all ranks.
///
/// # Errors
/// If a rank does not answer, or rank 0 cannot work.
fn run_cell(
    ranks: &mut Ranks,
    journal: &Journal,
    request: &Request,
    confine: &Confine,
    emit: &mut dyn FnMut(CellEvent),
) -> Result<Outcome, RunError> {
    let own = ranks.request(request, 0);
    let states = vec![RankState::Working; ranks.machines.len()];
    let agent = Agent::new(&own, ranks.timeout);
    let variant = request.cell.variant.name.clone();
    let declared = request.declared.clone();
    ranks.specs.extend(declared.metrics().map(|metric| (metric.id.clone(), metric.clone())));
    let parts = BTreeMap::new();
    let mut work = CoordinatorCell { ranks, agent, variant, emit, states, parts, declared, failed: None };
    match child::run(journal, &own, confine, &mut work) {
        Ok(outcome) => work.end(outcome),
        Err(fatal) => {
            work.abandon();
            Err(fatal)
        }
    }
}

impl CoordinatorCell<'_> {
    /// Handles all messages that have arrived.
    fn handle_messages(&mut self) {
        while let Some((from, message)) = wire::receive_from_worker(&*self.ranks.wire) {
            match message {
                FromRank::Ready(ask) => self.states[from as usize] = RankState::Ready(ask),
                FromRank::Idle(note) => {
                    self.states[from as usize] = RankState::Idle;
                    if let Some(note) = note {
                        self.note(from, note);
                    }
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

    /// Declares a metric that a command of a rank printed. If it contradicts that of another rank, the cell fails.
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
        self.states[rank as usize] = RankState::Ended;
        if outcome != Outcome::Done && self.failed.is_none() {
            self.failed = Some((rank, outcome));
        }
    }

    /// Keeps a client's sample of a task. The last client's makes the merged sample.
    fn sample(&mut self, from: u32, sample: Sample) {
        let id = sample.task.id.to_string();
        let parts = self.parts.entry(id.clone()).or_insert_with(|| vec![None; self.states.len()]);
        parts[from as usize] = Some(sample);
        let Some(samples) = parts.iter().map(Option::as_ref).collect::<Option<Vec<&Sample>>>() else {
            return;
        };
        let parts: Vec<ClientSample> = samples
            .into_iter()
            .zip(&self.ranks.machines)
            .map(|(sample, machine)| ClientSample { machine, clock: self.ranks.clocks[machine], sample })
            .collect();
        self.ranks.observations.record(&self.variant, &parts);
        (self.emit)(CellEvent::Sample(merge(&parts, &self.ranks.specs)));
        self.parts.remove(&id);
    }

    /// Waits for other ranks. Returns the outcome of a cell that has to end early.
    fn wait(&mut self, done: impl Fn(&[RankState]) -> bool) -> Result<Option<Outcome>, RunError> {
        let begun = Instant::now();
        // Longer than a rank waits for its own agent.
        let timeout = self.ranks.timeout + self.ranks.answer_timeout();
        loop {
            self.handle_messages();
            if cancel::requested().is_some() {
                return Ok(Some(Outcome::Interrupted));
            }
            if let Some((_, outcome)) = &self.failed {
                return Ok(Some(outcome.clone()));
            }
            if done(&self.states) {
                return Ok(None);
            }
            if begun.elapsed() > timeout {
                return Err(self.silent_rank_error(|state| *state == RankState::Working, timeout));
            }
            std::thread::sleep(wire::MAX_PAUSE);
        }
    }

    /// The error of the first silent rank in a state.
    fn silent_rank_error(&self, is: impl Fn(&RankState) -> bool, timeout: Duration) -> RunError {
        self.ranks.silent_rank_error(self.states.iter().position(is).unwrap_or(0) as u32, timeout)
    }

    /// Returns the outcome of the cell once all ranks have ended it.
    fn end(mut self, own: Outcome) -> Result<Outcome, RunError> {
        self.ended(0, own);
        let all_ended = |states: &[RankState]| states.iter().all(|state| *state == RankState::Ended);
        let Some(stopped) = self.wait(all_ended)? else { return Ok(Outcome::Done) };
        let (rank, outcome) = self.failed.take().unwrap_or((0, stopped));
        self.abandon();
        let timeout =
            if cancel::requested().is_some() { SIGNAL_TIMEOUT } else { self.ranks.answer_timeout() };
        let ended = wire::poll_until(timeout, || {
            self.handle_messages();
            all_ended(&self.states).then_some(())
        });
        if cancel::requested().is_some() {
            return Ok(Outcome::Interrupted);
        }
        if ended.is_none() {
            return Err(self.silent_rank_error(|state| *state != RankState::Ended, timeout));
        }
        let rank = self.ranks.name(rank);
        let failed = match outcome {
            Outcome::Failed { why, cause } => CellError::new(cause, why).of(&rank),
            outcome => CellError::new(Cause::Work, format!("{rank} ended: {outcome:?}")),
        };
        Ok(failed.into())
    }

    /// Makes all ranks end their agents.
    fn abandon(&self) {
        let working = self.ranks.others().filter(|rank| self.states[*rank as usize] != RankState::Ended);
        self.ranks.send_all(working, &ToRank::Abandon);
    }

    /// Sends a message with which all ranks continue.
    fn resume_all(&mut self, message: &ToRank) {
        self.ranks.send_all(self.ranks.others(), message);
        self.states.fill(RankState::Working);
    }

    /// Waits until all ranks have reached the same point. Returns another outcome than done if the cell has to end.
    fn wait_for_all_ready(&mut self, ask: &PrivilegedRequest) -> Result<Outcome, RunError> {
        if let Some(outcome) = self.wait(|states| states.iter().all(|state| *state != RankState::Working))? {
            return Ok(outcome);
        }
        let ready = RankState::Ready(ask.clone());
        let Some(rank) = self.states.iter().position(|state| *state != ready) else {
            return Ok(Outcome::Done);
        };
        let why = format!("rank {rank} is out of step: expected {ask:?}, got {:?}", self.states[rank]);
        let outcome = Outcome::from(CellError::internal(why));
        self.failed = Some((rank as u32, outcome.clone()));
        Ok(outcome)
    }
}

impl Parent for CoordinatorCell<'_> {
    fn hear(&mut self, event: CellEvent) {
        match event {
            CellEvent::Sample(sample) => {
                let sample = self.agent.finish_task(sample);
                self.sample(0, sample);
            }
            CellEvent::Reading(metric) => self.reading(0, metric),
            event => (self.emit)(event),
        }
    }

    fn answer(&mut self, ask: PrivilegedRequest) -> Result<Outcome, RunError> {
        self.agent.pause_timeout();
        self.states[0] = RankState::Ready(ask.clone());
        match self.wait_for_all_ready(&ask)? {
            Outcome::Done => {}
            outcome => return Ok(outcome),
        }
        let PrivilegedRequest::WaitUntilIdle(task) = ask else {
            self.resume_all(&ToRank::Met);
            return Ok(self.agent.restart_timeout());
        };
        let leaders: Vec<u32> = self.ranks.other_leaders().collect();
        self.ranks.send_all(leaders.iter().copied(), &ToRank::WaitUntilIdle(task.clone()));
        if let Some(note) = self.agent.wait_until_idle(&task) {
            (self.emit)(CellEvent::Note(note));
        }
        let idle =
            |states: &[RankState]| leaders.iter().all(|leader| states[*leader as usize] == RankState::Idle);
        if let Some(outcome) = self.wait(idle)? {
            return Ok(outcome);
        }
        self.resume_all(&ToRank::Begin);
        Ok(self.agent.begin(&*self.ranks.wire))
    }

    fn look(&mut self) -> Option<Outcome> {
        self.handle_messages();
        self.failed.as_ref().map(|(_, outcome)| outcome.clone()).or_else(|| self.agent.overdue())
    }
}
