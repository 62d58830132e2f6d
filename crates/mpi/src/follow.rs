//! What every rank does with its agent, and what the ranks other than 0 do for the run.

use crate::message::{FromRank, Machine, ToRank};
use crate::mountstats::{self, Bytes};
use crate::wire::{self, Wire};
use crate::{clock, guard, measure, part};
use fsarena_core::event::{Cause, CellEvent, Note, NoteKind, Outcome};
use fsarena_core::{metric::reading, plan::IdlePlan, sample::Sample};
use fsarena_run::child::{self, Parent};
use fsarena_run::idle::{self, wait_until_idle};
use fsarena_run::protocol::{Ask, Request};
use fsarena_run::{axes::Confine, executor::Fatal};
use fsarena_sys::undo::{Journal, state_dir};
use fsarena_sys::{cancel, kernel::Kernel};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long a rank looks for messages before it looks for signals.
pub const GLANCE: Duration = Duration::from_millis(200);

/// How long ranks may take to meet at the end of the job.
pub const LEAVING: Duration = Duration::from_secs(60);

/// Follows rank 0 until the run is over, or a signal comes.
///
/// # Errors
/// What makes this rank useless: its state directory cannot be written, say.
pub fn follow(wire: &dyn Wire) -> Result<(), Fatal> {
    let journal = Journal::create(&state_dir(), &format!("rank {} of fsarena-mpi", wire.rank()))?;
    let mut _guard = None;
    wire::tell(wire, &FromRank::Hello(Machine::here()));
    while cancel::requested().is_none() {
        let Some(asked) = wire::wait(GLANCE, || wire::asked(wire)) else { continue };
        match asked {
            ToRank::Guard => _guard = Some(guard::start().map_err(guardless)?),
            ToRank::Look(paths) => wire::tell(wire, &FromRank::Looked(unseen(&paths))),
            ToRank::Clock(trips) => clock::answer(wire, trips),
            ToRank::Cell(request, patience_s) => {
                let mut work = Work::new(wire, &request, Duration::from_secs_f64(patience_s));
                let outcome = child::run(&journal, &request, &Confine::default(), &mut work);
                wire::tell(wire, &FromRank::Ended(outcome.unwrap_or_else(failed)));
            }
            ToRank::Echo(bytes) => wire::tell(wire, &FromRank::Echo(bytes)),
            ToRank::Barrier(asleep) => wire::tell(wire, &measure::barrier(wire, asleep)),
            ToRank::End => {
                // MPI can only be left together.
                let _ = wire.barrier(LEAVING);
                return Ok(());
            }
            // Of a cell that this rank has ended already.
            ToRank::Met | ToRank::WaitUntilIdle(_) | ToRank::Begin | ToRank::Abandon => {}
        }
    }
    Ok(())
}

/// The error where the guard cannot be started.
pub fn guardless(error: std::io::Error) -> Fatal {
    Fatal::Missing(format!("the process that cleans up after a kill cannot be started: {error}"))
}

fn failed(fatal: Fatal) -> Outcome {
    Outcome::Failed { why: fatal.to_string(), cause: Cause::Internal }
}

/// The first of these paths that is not here.
pub fn unseen(paths: &[PathBuf]) -> Option<String> {
    paths.iter().find_map(|path| Some(format!("{}: {}", path.display(), path.metadata().err()?)))
}

/// The cell of this rank, as the parent of its agent.
struct Work<'a> {
    wire: &'a dyn Wire,
    hands: Hands,
}

impl<'a> Work<'a> {
    fn new(wire: &'a dyn Wire, request: &Request, patience: Duration) -> Work<'a> {
        Work { wire, hands: Hands::new(request, patience) }
    }
}

impl Parent for Work<'_> {
    fn hear(&mut self, event: CellEvent) {
        match event {
            CellEvent::Sample(sample) => {
                wire::tell(self.wire, &FromRank::Sample(Box::new(self.hands.measured(sample))));
            }
            CellEvent::Note(note) => wire::tell(self.wire, &FromRank::Note(note)),
            // The log of rank 0 has what all ranks do.
            _ => {}
        }
    }

    fn answer(&mut self, ask: Ask) -> Result<Outcome, Fatal> {
        self.hands.ready();
        wire::tell(self.wire, &FromRank::Ready(ask));
        loop {
            if cancel::requested().is_some() {
                return Ok(Outcome::Interrupted);
            }
            match wire::wait(GLANCE, || wire::asked(self.wire)) {
                Some(ToRank::WaitUntilIdle(task)) => {
                    wire::tell(self.wire, &FromRank::Idle(self.hands.wait_until_idle(&task)));
                }
                Some(ToRank::Met) => return Ok(self.hands.go_on()),
                Some(ToRank::Begin) => return Ok(self.hands.begin(self.wire)),
                Some(ToRank::Abandon) => return Ok(Outcome::Interrupted),
                _ => {}
            }
        }
    }

    fn look(&mut self) -> Option<Outcome> {
        match wire::asked(self.wire) {
            Some(ToRank::Abandon) => Some(Outcome::Interrupted),
            _ => self.hands.overdue(),
        }
    }
}

/// What rank 0 and the others do alike for the agent of a cell.
pub struct Hands {
    idle: IdlePlan,
    device: Option<(u32, u32)>,
    root: PathBuf,
    patience: Duration,
    /// When this client last began something; none while it waits for others.
    since: Option<Instant>,
    task: String,
    /// What its machine and the server had moved when the task began.
    moved: Option<Bytes>,
}

impl Hands {
    /// For one cell.
    pub fn new(request: &Request, patience: Duration) -> Hands {
        Hands {
            idle: request.idle.clone(),
            device: request.device,
            root: request.root.clone(),
            patience,
            since: Some(Instant::now()),
            task: "the preparation".into(),
            moved: None,
        }
    }

    /// The client waits for others.
    pub fn ready(&mut self) {
        self.since = None;
    }

    /// The client goes on.
    pub fn go_on(&mut self) -> Outcome {
        self.since = Some(Instant::now());
        Outcome::Done
    }

    /// Waits until this machine is idle. A note where it is busy all the same.
    pub fn wait_until_idle(&mut self, task: &str) -> Option<Note> {
        self.task = task.into();
        let scene = idle::Scene { kernel: &Kernel::host(), device: self.device, timeouts: 0 };
        let wait = wait_until_idle(scene, &self.idle);
        let text = format!("still busy after {:.1} s: {}", wait.waited.as_secs_f64(), wait.busy.join(", "));
        (!wait.busy.is_empty()).then(|| Note::new(NoteKind::IdleTimeout, text).task(task))
    }

    /// Meets all others in the barrier; then the task begins.
    pub fn begin(&mut self, wire: &dyn Wire) -> Outcome {
        self.moved = moved(&self.root);
        if !wire.barrier(self.patience) {
            let why = "not all ranks came to the barrier".into();
            return Outcome::Failed { why, cause: Cause::Internal };
        }
        self.go_on()
    }

    /// The sample of a task that is over, as it travels. On NFS, what went to the server and back stands for the device.
    pub fn measured(&mut self, sample: Sample) -> Sample {
        self.since = Some(Instant::now());
        self.task = format!("what follows {}", sample.task.id);
        let mut sample = part::reduced(sample);
        if let (Some(before), Some(after)) = (self.moved.take(), moved(&self.root)) {
            sample.readings.set(reading::DEVICE_READ, after.read - before.read);
            sample.readings.set(reading::DEVICE_WRITTEN, after.written - before.written);
        }
        sample
    }

    /// The failure of an agent that has taken too long.
    pub fn overdue(&self) -> Option<Outcome> {
        let late = self.since.is_some_and(|since| since.elapsed() > self.patience);
        late.then(|| {
            let why = format!("{} did not end within {:?} (--timeout)", self.task, self.patience);
            Outcome::Failed { why, cause: Cause::Work }
        })
    }
}

fn moved(root: &Path) -> Option<Bytes> {
    mountstats::of(&Kernel::host().read("proc/self/mountstats").ok()?, root)
}
