//! The display of a run in progress on standard error. It consumes the events of the run, and shows the same data as the live
//! page.

mod bars;
mod lines;

pub use lines::describe_run_length;

use crate::terminal::screen;
use bars::Bars;
use fsarena_core::event::{CellEvent, Event};
use fsarena_core::{escape, state::RunState};
use fsarena_report::live::{LiveComparison, RunView};
use fsarena_run::{Consumer, RunError, RunSetup, work};
use fsarena_store::RunDir;
use lines::EventLines;
use std::io::Write;

/// The display of a run in progress: bars or lines on standard error.
pub struct Progress {
    display: Display,
    /// The comparison of the variants so far.
    comparison: LiveComparison,
    event_lines: EventLines,
    /// The directory of the run, once it has begun; None before that, and if nothing is stored.
    pub run_dir: Option<RunDir>,
}

enum Display {
    /// Progress bars, on a terminal.
    Bars(Bars),
    /// A line for each round, for logs.
    Plain,
    /// Nothing.
    Quiet,
}

impl Progress {
    /// Shows bars on a terminal, lines elsewhere, and nothing if `quiet`.
    pub fn new(quiet: bool) -> Progress {
        let (display, event_lines) = if quiet {
            // `print` drops these lines.
            (Display::Quiet, EventLines::for_log(lines::MIN_ROUND_LINE_GAP_S))
        } else if screen::is_terminal() {
            (Display::Bars(Bars::new()), EventLines::above_bars())
        } else {
            (Display::Plain, EventLines::for_log(lines::MIN_ROUND_LINE_GAP_S))
        };
        Progress { display, comparison: LiveComparison::default(), event_lines, run_dir: None }
    }

    /// Prints a line that stays on the screen.
    fn print(&self, line: &str) {
        let line = escape::line(line);
        match &self.display {
            Display::Bars(bars) => bars.print_line(&line),
            Display::Plain => drop(writeln!(std::io::stderr(), "{line}")),
            Display::Quiet => {}
        }
    }
}

impl Consumer for Progress {
    fn show_message(&mut self, line: &str) {
        self.print(line);
    }

    fn show_trials(&mut self, done: usize, total: usize) {
        if let Display::Bars(bars) = &mut self.display {
            bars.show_trials(done as u64, total as u64);
        }
    }

    fn begin(&mut self, setup: &RunSetup) {
        let RunSetup { plan, requirements, run_dir, .. } = setup;
        self.run_dir = run_dir.cloned();
        self.comparison =
            work::default_metrics_of_plan(plan).first().copied().map_or(LiveComparison::default(), LiveComparison::new);
        let colon = if plan.question.is_empty() { "" } else { ": " };
        self.print(&format!("{}{colon}{}", plan.title, plan.question));
        let place = run_dir.map_or(String::new(), |dir| format!("run {}; ", dir.path().display()));
        self.print(&format!("{place}{}; {}", describe_run_length(&plan.stop), requirements.describe(plan)));
    }

    fn receive(&mut self, event: &Event, state: &RunState) -> Result<(), RunError> {
        self.comparison.update(event, state);
        // These events change nothing that the display shows.
        use CellEvent::{Command, Profile, Spent};
        if let Event::Command(_) | Event::Cell { event: Command(_) | Profile { .. } | Spent { .. }, .. } = event {
            return Ok(());
        }
        let view = RunView::new(state, &self.comparison);
        if let Display::Bars(bars) = &mut self.display {
            bars.draw(&view);
        }
        for line in self.event_lines.after_event(event, &view) {
            self.print(&line);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
