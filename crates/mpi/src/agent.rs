//! The agent of a rank in one cell: how long it takes, when it goes on, and what travels of its samples.

use crate::mountstats::{self, Bytes};
use crate::{part, wire::Wire};
use fsarena_core::event::{Cause, Note, NoteKind, Outcome};
use fsarena_core::{metric::reading, plan::IdlePlan, sample::Sample};
use fsarena_run::CellError;
use fsarena_run::idle::{self, wait_until_idle};
use fsarena_run::protocol::Request;
use fsarena_sys::kernel::SysRoot;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The agent of a cell, as its rank follows it.
pub struct Agent {
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

impl Agent {
    /// For one cell.
    pub fn new(request: &Request, patience: Duration) -> Agent {
        Agent {
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
    pub fn waits(&mut self) {
        self.since = None;
    }

    /// The client goes on.
    pub fn goes_on(&mut self) -> Outcome {
        self.since = Some(Instant::now());
        Outcome::Done
    }

    /// Waits until this machine is idle. A note where it is busy all the same.
    pub fn wait_until_idle(&mut self, task: &str) -> Option<Note> {
        self.task = task.into();
        let scene = idle::IdleTarget { kernel: &SysRoot::host(), device: self.device, timeouts: 0 };
        let wait = wait_until_idle(scene, &self.idle);
        let text = format!("still busy after {:.1} s: {}", wait.waited.as_secs_f64(), wait.busy.join(", "));
        (!wait.busy.is_empty()).then(|| Note::new(NoteKind::IdleTimeout, text).task(task))
    }

    /// Meets all others in the barrier; then the task begins.
    pub fn begin(&mut self, wire: &dyn Wire) -> Outcome {
        self.moved = moved(&self.root);
        if !wire.barrier(self.patience) {
            return CellError::internal("not all ranks came to the barrier").into();
        }
        self.goes_on()
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
        let why = || format!("{} did not end within {:?} (--timeout)", self.task, self.patience);
        late.then(|| CellError::new(Cause::Work, why()).into())
    }
}

fn moved(root: &Path) -> Option<Bytes> {
    mountstats::of(&SysRoot::host().read("proc/self/mountstats").ok()?, root)
}
