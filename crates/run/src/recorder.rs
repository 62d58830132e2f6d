//! The one who hears of events first: it keeps the state of the run, and hands events on.

use crate::error::{CellError, Result, RunError};
use crate::preflight::Check;
use crate::printed;
use fsarena_core::cell::{Cell, Variant};
use fsarena_core::event::{CellEvent, Event, Outcome};
use fsarena_core::{metric::Declared, plan::Plan, record::RunRecord, state::RunState};
use fsarena_store::{RunDir, Writer};
use std::time::{Instant, SystemTime, UNIX_EPOCH};
use std::{cell::RefCell, path::PathBuf, rc::Rc};

/// A consumer of a run's events.
pub trait Consumer {
    /// Shows a progress line before the first event.
    fn say(&mut self, _line: &str) {}

    /// Shows how many trials of the options of mkfs and mount are done, and how many there are.
    fn trying(&mut self, _done: usize, _of: usize) {}

    /// The run begins: all checks have passed.
    fn begin(&mut self, _beginning: &Beginning) {}

    /// Takes an event, and the state of the run after it.
    ///
    /// # Errors
    /// An error ends the run.
    fn take(&mut self, event: &Event, state: &RunState) -> Result<()>;
}

impl<F: FnMut(&Event) -> Result<()>> Consumer for F {
    fn take(&mut self, event: &Event, _: &RunState) -> Result<()> {
        self(event)
    }
}

/// A run before its first event.
#[derive(Debug)]
pub struct Beginning<'a> {
    /// The plan, with what only a trial on this machine could decide.
    pub plan: &'a Plan,
    /// Its variants.
    pub variants: &'a [Variant],
    /// What it needs.
    pub check: &'a Check,
    /// Where it is stored; none where nothing is.
    pub run: Option<&'a RunDir>,
}

/// The state of a run, its store and its consumers.
pub struct Recorder<'a, 'b> {
    /// The run after its events so far.
    pub state: RunState,
    /// The metrics that its commands have declared so far by printing them.
    pub declared: Rc<RefCell<Declared>>,
    writer: Option<Writer>,
    consumers: &'a mut [&'b mut dyn Consumer],
    /// When it began, in seconds since 1970: a clock that is set while the run goes on does not change its times.
    begun_at: f64,
    begun: Instant,
}

impl<'a, 'b> Recorder<'a, 'b> {
    /// A recorder of a run of which this is known already; without a writer nothing is stored.
    pub fn new(
        record: RunRecord,
        writer: Option<Writer>,
        consumers: &'a mut [&'b mut dyn Consumer],
    ) -> Recorder<'a, 'b> {
        let begun_at = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |time| time.as_secs_f64());
        let declared = Rc::new(RefCell::new(printed::declared(&record)));
        let begun = Instant::now();
        Recorder { state: RunState::new(record), declared, writer, consumers, begun_at, begun }
    }

    /// The file with the output of a cell's commands, where they printed anything.
    pub fn output_of(&self, cell: &Cell) -> Option<PathBuf> {
        self.writer.as_ref()?.output_of(cell)
    }

    /// Stores an event, then passes it to the consumers. Where the event log can no longer be written, a note on that
    /// follows.
    ///
    /// # Errors
    /// Where the event cannot be stored or a consumer ends the run. Also where a cell fails in a run that is not stored:
    /// such a run cannot be resumed.
    pub fn tell(&mut self, event: Event) -> Result<()> {
        if let Event::Cell { what: CellEvent::Reading(metric), .. } = &event {
            let cell = self.state.cell.as_ref().map(|open| &open.cell);
            let by = cell.map(|cell| format!("{} in round {}", cell.variant.name, cell.round + 1));
            // The agent of the cell has refused what contradicts an earlier declaration.
            let _ = self.declared.borrow_mut().declare(metric, &by.unwrap_or_default());
        }
        if let Some(writer) = &mut self.writer {
            writer.apply(&event)?;
        }
        let state = &mut self.state;
        state.apply(self.begun_at + self.begun.elapsed().as_secs_f64(), &event);
        self.consumers.iter_mut().try_for_each(|consumer| consumer.take(&event, state))?;
        if let Some(note) = self.writer.as_mut().and_then(Writer::take_failure_of_log) {
            self.tell(Event::Note(note))?;
        }
        match (event, &self.state.cell) {
            (Event::CellFinished { outcome: Outcome::Failed { why, cause }, .. }, Some(cell))
                if self.writer.is_none() =>
            {
                let variant = cell.cell.variant.name.clone();
                Err(RunError::Cell { variant, source: CellError::new(cause, why) })
            }
            _ => Ok(()),
        }
    }
}
