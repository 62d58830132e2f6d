//! The display of a run in progress on standard error. It consumes the events of the run, and shows the same data as the live
//! page.

mod bars;
mod lines;

pub use lines::expected_length;

use crate::terminal::screen;
use bars::Bars;
use fsarena_core::event::{CellEvent, Event};
use fsarena_core::{safe, state::RunState};
use fsarena_report::live::{RunView, VariantIntervals};
use fsarena_run::{Beginning, Consumer, RunError, work};
use fsarena_store::RunDir;
use lines::Lines;
use std::io::Write;

/// The display of a run in progress.
pub struct Progress {
    display: Display,
    intervals: VariantIntervals,
    lines: Lines,
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
        let (display, lines) = if quiet {
            (Display::Quiet, Lines::for_log(lines::PAUSE_S))
        } else if screen::is_terminal() {
            (Display::Bars(Bars::new()), Lines::above_bars())
        } else {
            (Display::Plain, Lines::for_log(lines::PAUSE_S))
        };
        Progress { display, intervals: VariantIntervals::default(), lines, run_dir: None }
    }

    /// Prints a line that stays on the screen.
    fn print(&self, line: &str) {
        let line = safe::line(line);
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

    fn begin(&mut self, beginning: &Beginning) {
        let Beginning { plan, requirements, run, .. } = beginning;
        self.run_dir = run.cloned();
        self.intervals =
            work::metrics(plan).first().copied().map_or(VariantIntervals::default(), VariantIntervals::new);
        let colon = if plan.question.is_empty() { "" } else { ": " };
        self.print(&format!("{}{colon}{}", plan.title, plan.question));
        let place = run.map_or(String::new(), |run| format!("run {}; ", run.path().display()));
        self.print(&format!("{place}{}; {}", expected_length(&plan.stop), requirements.describe(plan)));
    }

    fn receive(&mut self, event: &Event, state: &RunState) -> Result<(), RunError> {
        self.intervals.update(event, state);
        // These events change nothing that the display shows.
        use CellEvent::{Command, Profile, Spent};
        if let Event::Command(_) | Event::Cell { what: Command(_) | Profile { .. } | Spent { .. }, .. } = event {
            return Ok(());
        }
        let view = RunView::new(state, &self.intervals);
        if let Display::Bars(bars) = &mut self.display {
            bars.draw(&view);
        }
        for line in self.lines.after_event(event, &view) {
            self.print(&line);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
