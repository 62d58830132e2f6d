//! The consumer of a run's events that shows them on the terminal.

use crate::terminal::progress;
use fsarena_core::{event::Event, state::RunState};
use fsarena_run::{Beginning, Consumer, executor::Fatal, work};

/// The display of a run in progress, on standard error.
pub struct Progress(progress::Progress);

impl Progress {
    /// Shows bars on a terminal, lines elsewhere, and nothing if `quiet`.
    pub fn new(quiet: bool) -> Progress {
        Progress(progress::Progress::new(quiet))
    }
}

impl Consumer for Progress {
    fn say(&mut self, line: &str) {
        self.0.say(line);
    }

    fn trying(&mut self, done: usize, of: usize) {
        self.0.trying(done, of);
    }

    fn begin(&mut self, Beginning { plan, check, run, .. }: &Beginning) {
        let metric = work::metrics(plan).first().copied();
        self.0.begin(plan, metric, run.map(|run| run.path()), &check.describe(plan));
    }

    fn take(&mut self, event: &Event, state: &RunState) -> Result<(), Fatal> {
        self.0.take(event, state);
        Ok(())
    }
}
