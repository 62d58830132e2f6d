//! Records the events of a run: stores each, applies it to the state of the run, and passes it to the consumers.

use crate::error::{CellError, Result, RunError};
use crate::preflight::Requirements;
use crate::printed_metrics;
use fsarena_core::cell::{Cell, Variant};
use fsarena_core::event::{CellEvent, Event, Outcome};
use fsarena_core::{metric::DeclaredMetrics, plan::Plan, record::RunRecord, state::RunState};
use fsarena_store::{RunDir, Writer};
use std::time::{Instant, SystemTime, UNIX_EPOCH};
use std::{cell::RefCell, path::PathBuf, rc::Rc};

/// A consumer of a run's events.
pub trait Consumer {
    /// Shows a message before the first event.
    fn show_message(&mut self, _line: &str) {}

    /// Shows how many of all trials are finished. A trial checks whether mkfs and mount accept the options of the user
    /// on a temporary image, before the run begins.
    fn show_trials(&mut self, _done: usize, _total: usize) {}

    /// Called once, after all checks have passed and before the first event.
    fn begin(&mut self, _setup: &RunSetup) {}

    /// Receives an event, and the state of the run after it.
    ///
    /// # Errors
    /// Any error; it ends the run.
    fn receive(&mut self, event: &Event, state: &RunState) -> Result<()>;
}

impl<F: FnMut(&Event) -> Result<()>> Consumer for F {
    fn receive(&mut self, event: &Event, _: &RunState) -> Result<()> {
        self(event)
    }
}

/// The parts of a run that are known before its first event.
#[derive(Debug)]
pub struct RunSetup<'a> {
    /// The plan. For guests it has the accelerator (KVM or TCG) that a trial boot on this machine determined.
    pub plan: &'a Plan,
    /// The variants of the plan.
    pub variants: &'a [Variant],
    /// The requirements of the run.
    pub requirements: &'a Requirements,
    /// The directory of the run; None if nothing is stored.
    pub run_dir: Option<&'a RunDir>,
}

/// The state of a run, its store and its consumers.
pub struct Recorder<'a, 'b> {
    /// The run after its events so far.
    pub state: RunState,
    /// The metrics that commands of the run have printed so far.
    pub declared_metrics: Rc<RefCell<DeclaredMetrics>>,
    writer: Option<Writer>,
    consumers: &'a mut [&'b mut dyn Consumer],
    /// The start of this recorder in seconds since 1970. The time of an event is this time plus the time since
    /// `started_at` on the monotonic clock, so that it does not change if the system clock is set during the run.
    started_unix_s: f64,
    started_at: Instant,
}

impl<'a, 'b> Recorder<'a, 'b> {
    /// A recorder that continues `record`, which is empty for a new run. Without a writer nothing is stored.
    pub fn new(
        record: RunRecord,
        writer: Option<Writer>,
        consumers: &'a mut [&'b mut dyn Consumer],
    ) -> Recorder<'a, 'b> {
        let started_unix_s = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |time| time.as_secs_f64());
        let declared_metrics = Rc::new(RefCell::new(printed_metrics::metrics_printed_in(&record)));
        let started_at = Instant::now();
        Recorder { state: RunState::new(record), declared_metrics, writer, consumers, started_unix_s, started_at }
    }

    /// The file with the output of a cell's commands; None if they printed nothing or nothing is stored.
    pub fn output_file(&self, cell: &Cell) -> Option<PathBuf> {
        self.writer.as_ref()?.output_file(cell)
    }

    /// Stores an event, applies it to the state, and passes it to the consumers. Also records a note if the event log
    /// can no longer be written.
    ///
    /// # Errors
    /// The event cannot be stored, or a consumer returns an error. If the run is not stored, a failed cell is an error
    /// too, because such a run cannot be resumed.
    pub fn record(&mut self, event: Event) -> Result<()> {
        if let Event::Cell { event: CellEvent::Reading(metric), .. } = &event {
            let cell = self.state.cell.as_ref().map(|current| &current.cell);
            let declared_by = cell.map(|cell| format!("{} in round {}", cell.variant.name, cell.round + 1));
            // This cannot fail: the agent of the cell has already refused metrics that contradict an earlier
            // declaration.
            let _ = self.declared_metrics.borrow_mut().declare(metric, &declared_by.unwrap_or_default());
        }
        if let Some(writer) = &mut self.writer {
            writer.apply(&event)?;
        }
        let state = &mut self.state;
        state.apply(self.started_unix_s + self.started_at.elapsed().as_secs_f64(), &event);
        self.consumers.iter_mut().try_for_each(|consumer| consumer.receive(&event, state))?;
        if let Some(note) = self.writer.as_mut().and_then(Writer::take_event_log_failure) {
            self.record(Event::Note(note))?;
        }
        if self.writer.is_none()
            && let Event::CellFinished { outcome: Outcome::Failed { why, cause }, .. } = event
            && let Some(current) = &self.state.cell
        {
            let variant = current.cell.variant.name.clone();
            return Err(RunError::Cell { variant, source: CellError::new(cause, why) });
        }
        Ok(())
    }
}
