//! The coordinator, rank 0: checks that all ranks see the same directories, and runs each cell on all ranks together.
//!
//! All ranks start each task together, and the coordinator merges their samples into one.

use crate::merge::{ClientSample, merge_samples};
use crate::wire::{self, FromRank, ToRank};
use crate::{agent::AgentSupervisor, ranks::Ranks};
use fsarena_core::event::{Cause, CellEvent, Note, Outcome};
use fsarena_core::sample::{MetricSpec, Sample};
use fsarena_core::{cell::Variant, factor, metric::DeclaredMetrics, plan::Plan};
use fsarena_run::axes::{AXES, Confinement};
use fsarena_run::child::{self, AgentParent};
use fsarena_run::directories::Clients;
use fsarena_run::executor::RunSink;
use fsarena_run::protocol::{AgentRequest, PrivilegedRequest};
use fsarena_run::{CellError, RunError};
use fsarena_sys::{Error, cancel, undo::Journal};
use std::time::{Duration, Instant};
use std::{collections::BTreeMap, fs::File, path::PathBuf};

impl Clients for Ranks {
    fn count(&self) -> u32 {
        self.wire.size()
    }

    fn facts(&self) -> Vec<(String, String)> {
        let machines: Vec<&str> = self.leaders.iter().map(|rank| self.machines[*rank as usize].host.as_str()).collect();
        vec![("clients".into(), self.count().to_string()), ("client_machines".into(), machines.join(", "))]
    }

    fn check(&mut self, plan: &Plan, variants: &[Variant], _emit: RunSink) -> Result<(), RunError> {
        variants.iter().try_for_each(refuse_machine_factors)?;
        let dirs = variants.iter().map(|variant| PathBuf::from(variant.level(factor::DIR)));
        check_dirs_are_shared(self, dirs.chain(plan.device.source_dir.clone()))
    }

    fn run_cell(
        &mut self,
        journal: &Journal,
        request: &AgentRequest,
        confinement: &Confinement,
        emit: &mut dyn FnMut(CellEvent),
    ) -> Result<Outcome, RunError> {
        self.measure_clocks()?;
        for rank in self.workers() {
            let request = Box::new(self.request_for(request, rank));
            self.send_to(rank, &ToRank::Cell(request, self.task_timeout))?;
        }
        run_cell(self, journal, request, confinement, emit)
    }

    fn remarks(&self) -> Vec<Note> {
        self.observations.notes()
    }
}

/// Checks that a variant has no factor that would change only the machine of rank 0.
///
/// # Errors
/// If it has one.
fn refuse_machine_factors(variant: &Variant) -> Result<(), RunError> {
    // These change no machine: the number of clients, and the time that the agent of every rank idles before a task.
    let allowed = [factor::CLIENTS, factor::FURTHER_IDLE];
    for id in AXES.iter().map(|axis| axis.def.id) {
        if !allowed.contains(&id) && !variant.level(id).is_empty() {
            return Err(RunError::Plan(format!(
                "variant {}: `{id}` would be set on the machine of rank 0 alone; leave it out",
                variant.name
            )));
        }
    }
    Ok(())
}

/// Checks that all machines share these directories: rank 0 creates a file in each, which every rank must see.
///
/// # Errors
/// If a file cannot be created, or a rank does not see it.
fn check_dirs_are_shared(ranks: &Ranks, dirs: impl Iterator<Item = PathBuf>) -> Result<(), RunError> {
    let (mut markers, mut created) = (vec![], Ok(()));
    for marker in dirs.map(|dir| dir.join(format!("fsarena-mark-{}", std::process::id()))) {
        if markers.contains(&marker) {
            continue;
        }
        // Anybody may write to a shared directory, so this must not follow an existing file or link.
        if let Err(error) = File::create_new(&marker).map_err(Error::io("making", &marker)) {
            // Continue below, where the markers that were created are removed.
            created = Err(error);
            break;
        }
        markers.push(marker);
    }
    let sent = ranks.send_to_each(ranks.workers(), &ToRank::CheckFiles(markers.clone()));
    let visible = sent.and_then(|()| {
        ranks.receive_from_all(|rank, message| match message {
            FromRank::FilesChecked(Some(fault)) => Err(RunError::Plan(format!(
                "{} does not see a file that rank 0 created ({fault}); name a directory of a filesystem that all \
                 machines share",
                ranks.rank_name(rank)
            ))),
            _ => Ok(()),
        })
    });
    for marker in &markers {
        drop(std::fs::remove_file(marker));
    }
    created.map_err(RunError::from).and(visible)
}

/// Time limit for ranks to end their agents after a signal. It is short because mpirun soon kills the ranks.
const SIGNAL_TIMEOUT: Duration = Duration::from_millis(500);

/// The state of a rank in a cell.
#[derive(Debug, Clone, PartialEq)]
enum RankState {
    /// Its agent works.
    Working,
    /// Its agent has sent this request and waits until all ranks have sent it.
    Ready(PrivilegedRequest),
    /// It has waited until its machine was idle.
    Idle,
    /// It has ended the cell.
    Ended,
}

/// A cell that all ranks run together, as rank 0 sees it: it supervises its own agent, and keeps the state of every rank.
struct CoordinatorCell<'a> {
    ranks: &'a mut Ranks,
    agent: AgentSupervisor,
    variant: String,
    emit: &'a mut dyn FnMut(CellEvent),
    states: Vec<RankState>,
    /// The samples of each unfinished task, by the rank of the client.
    samples: BTreeMap<String, Vec<Option<Sample>>>,
    /// Metrics that commands of any rank have printed so far.
    declared: DeclaredMetrics,
    /// The first rank that failed, with its outcome.
    first_failure: Option<(u32, Outcome)>,
}

/// Runs rank 0's part of a cell and merges the samples of all ranks. All other ranks have received the cell before.
///
/// # Errors
/// If a rank does not answer, or rank 0 cannot start its agent.
fn run_cell(
    ranks: &mut Ranks,
    journal: &Journal,
    request: &AgentRequest,
    confinement: &Confinement,
    emit: &mut dyn FnMut(CellEvent),
) -> Result<Outcome, RunError> {
    let own_request = ranks.request_for(request, 0);
    let states = vec![RankState::Working; ranks.machines.len()];
    let agent = AgentSupervisor::new(&own_request, ranks.task_timeout);
    let variant = request.cell.variant.name.clone();
    let declared = request.declared_metrics.clone();
    ranks.specs.extend(declared.metrics().map(|metric| (metric.id.clone(), metric.clone())));
    let samples = BTreeMap::new();
    let mut cell = CoordinatorCell { ranks, agent, variant, emit, states, samples, declared, first_failure: None };
    match child::run_agent(journal, &own_request, confinement, &mut cell) {
        Ok(outcome) => cell.finish(outcome),
        Err(fatal) => {
            cell.abandon();
            Err(fatal)
        }
    }
}

impl CoordinatorCell<'_> {
    /// Handles all messages that have arrived.
    fn handle_messages(&mut self) {
        while let Some((rank, message)) = wire::receive_from_worker(&*self.ranks.wire) {
            match message {
                FromRank::Ready(request) => self.states[rank as usize] = RankState::Ready(request),
                FromRank::Idle(note) => {
                    self.states[rank as usize] = RankState::Idle;
                    if let Some(note) = note {
                        self.emit_note(rank, note);
                    }
                }
                FromRank::NewMetric(metric) => self.declare_metric(rank, metric),
                FromRank::Sample(sample) => self.add_sample(rank, *sample),
                FromRank::Note(note) => self.emit_note(rank, note),
                FromRank::Ended(outcome) => self.mark_ended(rank, outcome),
                _ => {}
            }
        }
    }

    /// Emits a note of a rank, with the name of its machine.
    fn emit_note(&mut self, rank: u32, note: Note) {
        let text = format!("{}: {}", self.ranks.machines[rank as usize].host, note.text);
        (self.emit)(CellEvent::Note(Note { text, ..note }));
    }

    /// Declares a metric that a command of a rank printed. If it contradicts the declaration of another rank, the cell fails.
    fn declare_metric(&mut self, rank: u32, metric: MetricSpec) {
        match self.declared.declare_printed(&metric, &self.ranks.rank_name(rank)) {
            // The metric is new to the run.
            Ok(true) => {
                self.ranks.specs.insert(metric.id.clone(), metric.clone());
                (self.emit)(CellEvent::Reading(metric));
            }
            Ok(false) => {}
            Err(contradiction) => {
                let error = CellError::new(Cause::Work, contradiction.to_string());
                self.first_failure.get_or_insert((rank, error.into()));
            }
        }
    }

    /// Marks a rank as ended, and keeps the first failure.
    fn mark_ended(&mut self, rank: u32, outcome: Outcome) {
        self.states[rank as usize] = RankState::Ended;
        if outcome != Outcome::Done && self.first_failure.is_none() {
            self.first_failure = Some((rank, outcome));
        }
    }

    /// Keeps a client's sample of a task. With the sample of the last client, it emits the merged sample.
    fn add_sample(&mut self, rank: u32, sample: Sample) {
        let id = sample.task.id.to_string();
        let samples = self.samples.entry(id.clone()).or_insert_with(|| vec![None; self.states.len()]);
        samples[rank as usize] = Some(sample);
        let Some(samples) = samples.iter().map(Option::as_ref).collect::<Option<Vec<&Sample>>>() else {
            return;
        };
        let client_samples: Vec<ClientSample> = samples
            .into_iter()
            .zip(&self.ranks.machines)
            .map(|(sample, machine)| ClientSample { machine, clock: self.ranks.clocks[machine], sample })
            .collect();
        self.ranks.observations.record(&self.variant, &client_samples);
        (self.emit)(CellEvent::Sample(merge_samples(&client_samples, &self.ranks.specs)));
        self.samples.remove(&id);
    }

    /// Waits as long as `is_pending` holds for the state of a rank. Returns an outcome if the cell has to end early: after a
    /// signal or the failure of a rank.
    ///
    /// # Errors
    /// If a rank is pending longer than `timeout`.
    fn wait_while(
        &mut self,
        timeout: Duration,
        is_pending: impl Fn(u32, &RankState) -> bool,
    ) -> Result<Option<Outcome>, RunError> {
        let begun = Instant::now();
        loop {
            self.handle_messages();
            if cancel::received_signal().is_some() {
                return Ok(Some(Outcome::Interrupted));
            }
            if let Some((_, outcome)) = &self.first_failure {
                return Ok(Some(outcome.clone()));
            }
            let Some(rank) = self.first_pending(&is_pending) else { return Ok(None) };
            if begun.elapsed() > timeout {
                return Err(self.ranks.silent_rank_error(rank, timeout));
            }
            std::thread::sleep(wire::MAX_PAUSE);
        }
    }

    /// Time limit for the work of a rank. It is longer than the time limit of a task, so that the rank itself can report an
    /// agent that exceeds that limit.
    fn work_timeout(&self) -> Duration {
        self.ranks.task_timeout + self.ranks.answer_timeout()
    }

    /// The first rank for whose state `is_pending` holds.
    fn first_pending(&self, is_pending: impl Fn(u32, &RankState) -> bool) -> Option<u32> {
        (0..).zip(&self.states).find_map(|(rank, state)| is_pending(rank, state).then_some(rank))
    }

    /// Waits until all ranks have ended the cell and returns the cell's outcome. `own_outcome` is the outcome of rank
    /// 0's agent. After a failure or a signal it makes all ranks end.
    ///
    /// # Errors
    /// If a rank does not end in time.
    fn finish(mut self, own_outcome: Outcome) -> Result<Outcome, RunError> {
        self.mark_ended(0, own_outcome);
        let is_running = |_: u32, state: &RankState| *state != RankState::Ended;
        // If a rank is silent, the other ranks must still end their agents.
        let early_outcome = self.wait_while(self.work_timeout(), is_running).inspect_err(|_| self.abandon())?;
        let Some(early_outcome) = early_outcome else { return Ok(Outcome::Done) };
        // Without a failure, a signal ended the wait, and the function returns `Interrupted` below.
        let (rank, outcome) = self.first_failure.take().unwrap_or((0, early_outcome));
        self.abandon();
        let timeout = if cancel::received_signal().is_some() { SIGNAL_TIMEOUT } else { self.ranks.answer_timeout() };
        let _ = wire::poll_until(timeout, || {
            self.handle_messages();
            self.first_pending(is_running).is_none().then_some(())
        });
        if cancel::received_signal().is_some() {
            return Ok(Outcome::Interrupted);
        }
        if let Some(silent_rank) = self.first_pending(is_running) {
            return Err(self.ranks.silent_rank_error(silent_rank, timeout));
        }
        let rank_name = self.ranks.rank_name(rank);
        let error = match outcome {
            Outcome::Failed { why, cause } => CellError::new(cause, why).with_part(&rank_name),
            outcome => CellError::new(Cause::Work, format!("{rank_name} ended: {outcome:?}")),
        };
        Ok(error.into())
    }

    /// Sends [`ToRank::Abandon`] to all other ranks that have not ended the cell.
    fn abandon(&self) {
        for rank in self.ranks.workers().filter(|rank| self.states[*rank as usize] != RankState::Ended) {
            // If one rank hangs, the others must still get the message.
            let _ = self.ranks.send_to(rank, &ToRank::Abandon);
        }
    }

    /// Sends a message that makes all other ranks continue, and marks all ranks as working.
    ///
    /// # Errors
    /// If a rank does not receive it in time.
    fn send_and_mark_working(&mut self, message: &ToRank) -> Result<(), RunError> {
        self.ranks.send_to_each(self.ranks.workers(), message)?;
        self.states.fill(RankState::Working);
        Ok(())
    }

    /// Waits until the agents of all ranks have sent the same request. Returns an outcome if the cell has to end early.
    ///
    /// # Errors
    /// If a rank does not answer in time.
    fn wait_for_all_ready(&mut self, request: &PrivilegedRequest) -> Result<Option<Outcome>, RunError> {
        if let Some(outcome) = self.wait_while(self.work_timeout(), |_, state| *state == RankState::Working)? {
            return Ok(Some(outcome));
        }
        let ready = RankState::Ready(request.clone());
        let Some(rank) = self.states.iter().position(|state| *state != ready) else { return Ok(None) };
        let why = format!("rank {rank} is out of step: expected {request:?}, got {:?}", self.states[rank]);
        let outcome = Outcome::from(CellError::internal(why));
        self.first_failure = Some((rank as u32, outcome.clone()));
        Ok(Some(outcome))
    }
}

impl AgentParent for CoordinatorCell<'_> {
    fn receive(&mut self, event: CellEvent) {
        match event {
            CellEvent::Sample(sample) => {
                let sample = self.agent.finish_task(sample);
                self.add_sample(0, sample);
            }
            CellEvent::Reading(metric) => self.declare_metric(0, metric),
            CellEvent::Note(note) => self.emit_note(0, note),
            event => (self.emit)(event),
        }
    }

    fn answer(&mut self, request: PrivilegedRequest) -> Result<Outcome, RunError> {
        self.agent.pause_timeout();
        self.states[0] = RankState::Ready(request.clone());
        if let Some(outcome) = self.wait_for_all_ready(&request)? {
            return Ok(outcome);
        }
        let PrivilegedRequest::WaitUntilIdle(task) = request else {
            self.send_and_mark_working(&ToRank::AllReady)?;
            self.agent.restart_timeout();
            return Ok(Outcome::Done);
        };
        // The first rank of each machine waits until the machine is idle.
        let leaders: Vec<u32> = self.ranks.other_leaders().collect();
        self.ranks.send_to_each(leaders.iter().copied(), &ToRank::WaitUntilIdle(task.clone()))?;
        if let Some(note) = self.agent.wait_until_idle(&task) {
            self.emit_note(0, note);
        }
        let waits_until_idle = |rank: u32, state: &RankState| leaders.contains(&rank) && *state != RankState::Idle;
        let timeout = self.work_timeout() + self.agent.longest_idle_wait();
        if let Some(outcome) = self.wait_while(timeout, waits_until_idle)? {
            return Ok(outcome);
        }
        self.send_and_mark_working(&ToRank::StartTask)?;
        Ok(self.agent.start_task(&*self.ranks.wire))
    }

    fn poll(&mut self) -> Option<Outcome> {
        self.handle_messages();
        self.first_failure.as_ref().map(|(_, outcome)| outcome.clone()).or_else(|| self.agent.timeout_failure())
    }
}
