//! The display of a run in progress on standard error: a consumer of its events. It draws the view that the live page
//! shows.

mod bars;
mod lines;

pub use lines::expected;

use crate::terminal::screen;
use bars::Bars;
use fsarena_core::event::{CellEvent, Event};
use fsarena_core::{safe, state::RunState};
use fsarena_report::live::{Intervals, RunView};
use fsarena_run::{Beginning, Consumer, RunError, work};
use fsarena_store::RunDir;
use lines::Lines;
use std::io::Write;

/// The display of a run in progress.
pub struct Progress {
    display: Display,
    intervals: Intervals,
    lines: Lines,
    /// The directory of the run, once it has begun; None before that, and if nothing is stored.
    pub run: Option<RunDir>,
}

enum Display {
    /// Bars that move.
    Bars(Bars),
    /// A line a round, for logs.
    Plain,
    /// Nothing.
    Quiet,
}

impl Progress {
    /// Shows bars on a terminal, lines elsewhere, and nothing if `quiet`.
    pub fn new(quiet: bool) -> Progress {
        let display = match (quiet, screen::is_there()) {
            (true, _) => Display::Quiet,
            (false, true) => Display::Bars(Bars::new()),
            (false, false) => Display::Plain,
        };
        let lines = match display {
            Display::Bars(_) => Lines::besides_bars(),
            Display::Plain | Display::Quiet => Lines::of_log(lines::PAUSE_S),
        };
        Progress { display, intervals: Intervals::default(), lines, run: None }
    }

    /// Prints a line that stays on the screen.
    fn print(&self, line: &str) {
        let line = safe::line(line);
        match &self.display {
            Display::Bars(bars) => bars.say(&line),
            Display::Plain => drop(writeln!(std::io::stderr(), "{line}")),
            Display::Quiet => {}
        }
    }
}

impl Consumer for Progress {
    fn say(&mut self, line: &str) {
        self.print(line);
    }

    fn trying(&mut self, done: usize, of: usize) {
        if let Display::Bars(bars) = &mut self.display {
            bars.trying(done as u64, of as u64);
        }
    }

    fn begin(&mut self, beginning: &Beginning) {
        let Beginning { plan, check, run, .. } = beginning;
        self.run = run.cloned();
        self.intervals = work::metrics(plan).first().copied().map_or(Intervals::default(), Intervals::of);
        let colon = if plan.question.is_empty() { "" } else { ": " };
        self.print(&format!("{}{colon}{}", plan.title, plan.question));
        let place = run.map_or(String::new(), |run| format!("run {}; ", run.path().display()));
        self.print(&format!("{place}{}; {}", expected(&plan.stop), check.describe(plan)));
    }

    fn take(&mut self, event: &Event, state: &RunState) -> Result<(), RunError> {
        self.intervals.see(event, state);
        use CellEvent::{Command, Profile, Spent};
        if let Event::Command(_) | Event::Cell { what: Command(_) | Profile { .. } | Spent { .. }, .. } =
            event
        {
            return Ok(());
        }
        let view = RunView::of(state, &self.intervals);
        if let Display::Bars(bars) = &mut self.display {
            bars.draw(&view);
        }
        for line in self.lines.of(event, &view) {
            self.print(&line);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
